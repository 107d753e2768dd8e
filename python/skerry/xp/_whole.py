"""NumPy's own functions, where every rank has all of the operands: it computes all of the result.

What a function does to arrays that are divided is in the other files. Where there is nothing for
it, the operands are collected on every rank, up to xp.options()["gather_bytes"].
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import skerry as sk
from . import _exchange, _lazy, _options
from ._array import Array, gathered, of_numpy

# What they write is their first argument.
IN_PLACE = frozenset("copyto fill_diagonal place put put_along_axis putmask at".split())


class NotDistributed(sk.GatherError):
    """These arguments have no distributed method; the caller may collect the operands."""


_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))


def arrays_in(value: Any) -> Iterator[Array]:
    """The arrays in nested lists, tuples and dictionaries."""
    if isinstance(value, Array):
        yield value
    elif isinstance(value, (list, tuple)):
        if not _PLAIN.issuperset(map(type, value)):  # long lists of numbers at once
            for each in value:
                yield from arrays_in(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from arrays_in(each)


def some_array(*values: Any) -> bool:
    """Whether there is an array in there."""
    return next(arrays_in(values), None) is not None


def all_whole(*values: Any) -> bool:
    """Whether every rank has all of every array in there."""
    return all(x.layout.whole for x in arrays_in(values))


def each_array(value: Any, change: Callable[[Array], Any]) -> Any:
    """The same nesting, with change(array) for every array."""
    if isinstance(value, Array):
        return change(value)
    if isinstance(value, dict):
        return {key: each_array(each, change) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(each_array(each, change) for each in value))
    if isinstance(value, (list, tuple)):
        return type(value)(each_array(each, change) for each in value)
    return value


def wrapped(value: Any, mine: tuple[np.ndarray, ...] = ()) -> Any:
    """NumPy's results as arrays: those of more than one element are divided as new ones are. A
    result that shares memory with an operand is copied."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc":
            return value
        if any(np.may_share_memory(value, x) for x in mine):
            value = value.copy()
        return of_numpy(np.asarray(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(wrapped(each, mine) for each in value))
    if isinstance(value, (list, tuple)):
        return type(value)(wrapped(each, mine) for each in value)
    return value


def again(function: Callable[..., Any], arguments: tuple, options: dict[str, Any]) -> Any:
    """function(*arguments, **options) once more, when all arrays in there have their values: then
    NumPy gets it."""
    for x in arrays_in((arguments, options)):
        x._evaluate()
    return function(*arguments, **options)


def with_numpy(function: Callable[..., Any], arguments: tuple, options: dict[str, Any]) -> Any:
    """A ufunc, or its method, of whole arrays, by NumPy. What it writes, it writes where it
    lies."""
    out = options.get("out")
    changed = list(arrays_in(out))
    if function.__name__ in IN_PLACE:
        changed += list(arrays_in(arguments[:1]))
    for x in changed:
        _lazy.settle(x._evaluate())
    mine = tuple(x._evaluate() for x in arrays_in((arguments, options)))
    value = function(
        *each_array(arguments, Array._evaluate), **each_array(options, Array._evaluate)
    )
    if out is not None:
        return out[0] if isinstance(out, tuple) and len(out) == 1 else out
    return wrapped(value, mine)


def check_bound(values: Any, name: str) -> None:
    """Refuses to collect more than xp.options()["gather_bytes"] on every rank."""
    nbytes = sum(x.nbytes for x in arrays_in(values) if not x.layout.whole)
    most = _options.values["gather_bytes"]
    if nbytes > most:
        raise sk.GatherError(
            f"{name} collects its operands on every rank: {nbytes} bytes, more than {most}; raise "
            "it by xp.options(gather_bytes=...), or use x.local for the own block"
        )


def by_gathering(
    name: str, function: Callable[..., Any], arguments: tuple, options: dict[str, Any]
) -> Any:
    """The same of arrays that are divided: collected on every rank, which computes all of it.
    Gathers: yes, up to gather_bytes."""
    out = options.get("out")
    if out is not None and not all_whole(out):
        raise sk.GatherError(f"{name}: out= is a divided array: write out[...] = {name}(...)")
    check_bound((arguments, options), name)

    def collect(x: Array) -> np.ndarray:
        return gathered(x, name)

    if function.__name__ in IN_PLACE:
        target = arguments[0]
        if not isinstance(target, Array):
            return function(*each_array(arguments, collect), **each_array(options, collect))
        values = np.array(collect(target))
        function(values, *each_array(arguments[1:], collect), **each_array(options, collect))
        target[...] = of_numpy(values, target.layout)
        return None
    rest = {key: value for key, value in options.items() if key != "out"}
    value = function(*each_array(arguments, collect), **each_array(rest, collect))
    if out is not None:
        first = out[0] if isinstance(out, tuple) else out
        first[...] = np.asarray(value)
        return first
    mine = tuple(x._evaluate() for x in arrays_in((arguments, options)) if x.layout.whole)
    return wrapped(value, mine)


def known(value: Any, what: str) -> Any:
    """A small operand, as NumPy's array on every rank. Gathers it, up to gather_bytes."""
    return each_array(value, lambda x: gathered(x, what))


def everywhere(flag: bool) -> bool:
    """Whether it holds on every rank. Collective."""
    return bool(_exchange.agree([flag]).all())
