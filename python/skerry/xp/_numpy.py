"""NumPy's functions and methods on arrays of all ranks: np.sum(x, axis=0), x.round(1). Their
arguments are those of NumPy. What is not distributed collects its operands, up to gather_bytes."""

from __future__ import annotations

import inspect
import opcode
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, SupportsIndex

import numpy as np

import skerry as sk
from skerry import _core
from . import (
    _array, _dispatch, _elementwise, _exchange, _indexing, _layout, _lazy, _methods, _placing,
    _sets, _sorting, _twins, _whole,
)  # fmt: skip
from ._array import Array, Memory, may_write, new_layout, written
from ._dispatch import broadcasts, into, number, numbers
from ._elementwise import apply, functions
from ._manipulation import array_of, of_sequence, reshape, set_shape
from ._whole import NotDistributed
from .linalg import matmul

_BY_UFUNC: dict[np.ufunc, Callable[..., Any]] = {np.power: functions["pow"]}
_OTHER_PARAMETERS = {"ddof": "correction", "newshape": "shape"}
# Of an array of several dimensions, axis=None means the flat array.
_FLAT = {"cumsum", "cumprod", "sort", "argsort", "take_along_axis"}
# These arguments change nothing: sorting is stable, results are in C order.
_NO_MATTER = {
    "subok": lambda value: True, "kind": lambda value: True, "stable": lambda value: True,
    "order": lambda value: value in (None, "C", "K", "A"), "where": lambda value: value is True,
    "out": lambda value: value is None,
}  # fmt: skip
# Of functions in C, which tell it from NumPy 2.4 on, as far as they have a counterpart.
_SIGNATURES: dict[str, Callable[..., Any]] = {
    "concatenate": lambda arrays, axis=0, out=None, dtype=None, casting="same_kind": None,
    "dot": lambda a, b, out=None: None,
    "where": lambda condition, x=None, y=None: None,
    "bincount": lambda x, weights=None, minlength=0: None,
    "empty_like": lambda a, dtype=None, order="K", subok=True, shape=None: None,
    "zeros": lambda shape, dtype=None, order="C", *, device=None: None,
    "empty": lambda shape, dtype=None, order="C", *, device=None: None,
    "asarray": lambda a, dtype=None, order=None, *, device=None, copy=None: None,
    "arange": lambda start, stop=None, step=1, dtype=None, *, device=None: None,
    "can_cast": lambda from_, to, casting="safe": None,
}


def _clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    **options: Any,
) -> None:
    """The signature of numpy.clip since 2.1, and of arrays' clip() always: no bound is needed."""


def _any_signature(*arguments: Any, **options: Any) -> None:
    """Of other functions in C: arguments go where they are."""


_PLAIN = (bool, int, float, str)
def _listed(value: Any) -> Any:
    """A list or tuple as an array; anything else as it is."""
    return array_of(value) if isinstance(value, (list, tuple)) else value


def _array_ufunc(
    self: Any, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any
) -> Any:
    if method != "at":
        inputs = tuple(map(_listed, inputs))
    if method != "__call__" or options or ufunc.nout != 1 or ufunc.signature is not None:
        return numbers(_dispatch.by_ufunc(ufunc, method, inputs, out, options))
    value = _BY_UFUNC.get(ufunc, lambda *x: apply(ufunc, *x))(*inputs)
    return number(value) if out is None else into(out[0], value, ufunc.__name__, broadcasts)


def _array_function(
    self: Any, function: Callable[..., Any], types: Any, arguments: Any, options: Any
) -> Any:
    return numbers(_dispatch.by_function(function, arguments, options, _call))


@lru_cache
def _parameters(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(_clip if function is np.clip else function)
    except ValueError:
        return inspect.signature(_SIGNATURES.get(function.__name__, _any_signature))


def _call(
    name: str,
    function: Callable[..., Any],
    ours: Callable[..., Any],
    arguments: Any,
    options: dict[str, Any],
) -> Any:
    """ours(...) with the arguments that were given to NumPy's function."""
    bound = _parameters(function).bind(*arguments, **options)
    named, several = {}, ()
    for key, value in bound.arguments.items():
        parameter = bound.signature.parameters[key]
        if parameter.kind == parameter.VAR_POSITIONAL:
            several = value
        elif parameter.kind == parameter.VAR_KEYWORD:
            named.update(value)
        elif not (key in _NO_MATTER and _NO_MATTER[key](value)):
            named[key] = value
    out = named.pop("out", None)
    if function.__name__ in _FLAT and _default(bound, "axis") is None:
        first = next(iter(bound.arguments))
        named[first], named["axis"] = reshape(array_of(named[first]), (-1,)), 0
    # Renamed before what is missing gets NumPy's value, or that would stand beside what was given.
    renamed = {}
    for key, value in named.items():
        ours_is = _OTHER_PARAMETERS.get(key, key)
        if ours_is == key or ours_is not in named:
            renamed[ours_is] = value
        elif value != _default_of(bound, key):
            raise TypeError(f"{name} takes {ours_is} or {key}, which mean the same")
    theirs = [_OTHER_PARAMETERS.get(key, key) for key in bound.signature.parameters]
    named, placed = renamed, list(several)
    for at, (key, parameter) in enumerate(_parameters(ours).parameters.items()):
        if parameter.kind == parameter.POSITIONAL_ONLY:
            if at < len(theirs) and theirs[at] in named:
                placed.append(named.pop(theirs[at]))
        elif key not in named and parameter.default is parameter.empty and not several:
            if key in bound.signature.parameters:
                named[key] = _default(bound, key)
    known = _parameters(ours).parameters
    for key, value in list(named.items()):
        if key not in known:
            default = getattr(bound.signature.parameters.get(key), "default", inspect)
            if not (value is default or isinstance(value, _PLAIN) and value == default):
                raise NotDistributed(f"{name} with {key} is not distributed: use x.numpy()")
            del named[key]
    for at, (key, parameter) in enumerate(known.items()):
        if str(parameter.annotation).startswith("Operand"):
            if at < len(placed):
                placed[at] = _listed(placed[at])
            elif key in named:
                named[key] = _listed(named[key])
    value = ours(*placed, **named)
    return number(value) if out is None else into(out, value, name)


def _default(bound: inspect.BoundArguments, key: str) -> Any:
    """What was given, or what NumPy takes instead."""
    return bound.arguments.get(key, _default_of(bound, key))


def _default_of(bound: inspect.BoundArguments, key: str) -> Any:
    return bound.signature.parameters[key].default


def function(name: str, whole: Any, module: str = "numpy") -> Any:
    """NumPy's function `whole`, for arrays: straight to NumPy if all are whole."""

    def spread(*arguments: Any, **options: Any) -> Any:
        if isinstance(whole, np.ufunc):
            out, after = options.pop("out", None), arguments[whole.nin :]
            if after:  # out by position
                arguments = arguments[: whole.nin]
                out = (*after, *(None,) * (whole.nout - len(after)))
            options = {"out": out if isinstance(out, tuple) else (out,), **options} if (
                out is not None) else options  # fmt: skip
            return _array_ufunc(None, whole, "__call__", *arguments, **options)
        return _array_function(None, whole, (), arguments, options)

    spread.__name__ = name
    kind = "lazy" if isinstance(whole, np.ufunc) else ""
    kind += " fuses" if name in _methods._FUSE and module == "numpy" else ""
    kind += " writes" if name in _WRITERS else ""
    made = _core.xp_function(whole, spread, kind)
    made.__name__, made.__doc__ = name, whole.__doc__
    # What pickle imports, and what it takes from there.
    made.__module__ = "skerry.numpy"
    made.__qualname__ = f"{module}.{name}".removeprefix("numpy.")
    if isinstance(whole, np.ufunc):
        for method in ("reduce", "accumulate", "reduceat"):
            setattr(made, method, _of_a_list(getattr(whole, method)))
    return made


def _of_a_list(method: Callable[..., Any]) -> Callable[..., Any]:
    """A ufunc's method whose first argument may be a list of arrays."""

    @wraps(method)
    def call(array: Any, *arguments: Any, **options: Any) -> Any:
        if not _whole.all_whole(array):
            array = of_sequence(array)
        return method(array, *arguments, **options)

    return call


_WRITERS = set("copyto put place putmask fill_diagonal put_along_axis".split())

# ---- methods -------------------------------------------------------------------------------------


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Array, *arguments: Any, **options: Any) -> Any:
        return _array_function(self, function, (Array,), (self, *arguments), options)

    method.__name__, method.__doc__ = name, f"As numpy.{name}(x, ...)."
    return method


def _sort(
    self: Array,
    axis: SupportsIndex = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
) -> None:
    """Sorts along an axis in place."""
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    self[...] = _sorting.sort(self, axis=axis)


def _partition(
    self: Array, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None
) -> None:
    """Partitions along an axis in place."""
    self[...] = _sets.partition(self, kth, axis, kind, order)


def _tobytes(self: Array, order: Any = "C") -> bytes:
    """A copy of all of it as bytes, on every rank."""
    return self.numpy().tobytes(order)


def _byteswap(self: Array, inplace: bool = False) -> Array:
    """The elements with their bytes in the other order."""
    out = self if inplace else self.copy()
    may_write(out)
    block = out._evaluate()
    _lazy.settle(block)
    block.byteswap(True)
    written(out)
    return out


def _viewed(x: Array, dtype: Any) -> Array:
    block = x._evaluate()
    shown = block if dtype is None else block.view(dtype)
    return Array(shown, x.layout, x._memory, (_viewed, x, dtype))


_twins.makers[_viewed] = lambda twin, dtype: twin if dtype is None else twin.view(dtype)


def _view(self: Array, dtype: Any = None, type: Any = None) -> Array:
    """The same memory, perhaps as elements of another dtype of the same size."""
    if type not in (None, np.ndarray) or dtype is np.ndarray:
        raise TypeError("x.view takes a dtype: arrays of all ranks have one type")
    wanted = self.dtype if dtype is None else np.dtype(dtype)
    if wanted.itemsize != self.dtype.itemsize or _array._stays(wanted):
        raise sk.GatherError(
            f"a divided array of {self.dtype} has no view as {wanted}: only as numbers of the same "
            "size. Use x.numpy(), or x.local for the own block"
        )
    return _viewed(self, dtype)


def _compress(self: Array, condition: Any, axis: Any = None, out: Any = None) -> Array:
    """The entries along an axis for which the condition holds."""
    return _placing.compress(condition, self, axis, out)


_methods._BY_NAME.update(sort=_sort, partition=_partition, put=_placing.put, tobytes=_tobytes,
                         byteswap=_byteswap, view=_view, compress=_compress)  # fmt: skip

for _name in dir(np.ndarray):
    if not _name.startswith("_") and callable(getattr(np.ndarray, _name)):
        _spread: Callable[..., Any] | None = _methods._BY_NAME.get(_name)
        if _spread is None and hasattr(np, _name) and _name not in _methods._WRITE:
            _spread = _method(_name)
        if _name not in ("to_device",):
            _methods.method(_name, _spread or _methods._refused(_name))


def read_only(x: Array, name: str) -> np.ndarray:
    """A copy of all of x on every rank, which the program cannot take for x. Gathers it."""
    block = np.array(_array.gathered(x, name))
    block.flags.writeable = False
    return block


_SHARING = ("flat", "data", "ctypes")  # through which the program may write


def _missing(self: Array, name: str) -> Any:
    """An attribute that arrays here lack: of a whole array, NumPy's."""
    if hasattr(np.ndarray, name) and not name.startswith("__"):
        if self.layout.whole:
            block = self._evaluate()
            return getattr(self._opened(block) if name in _SHARING else block, name)
        if name == "flat":
            return read_only(self, "x.flat").flat
        raise AttributeError(
            f"skerry.xp.Array has no {name}, which NumPy's arrays have: use x.numpy(), or x.local "
            "for the own block"
        )
    raise AttributeError(f"skerry.xp.Array has no {name}")


def _grown(x: Array) -> Array:
    """A result that is too large to be whole: each rank keeps its part."""
    layout = new_layout(x.shape, x.dtype)
    if layout.whole:
        return x
    box = layout.boxes[_exchange.job().rank]
    return Array(x._block[tuple(slice(*bounds) for bounds in box)].copy(), layout)


def _length(x: Array) -> int:
    if not x.ndim:
        raise TypeError("a 0-d array cannot be iterated over")
    return x.shape[0]


def _matmul_operator(a: Any, b: Any, inplace: bool = False, unnamed: bool = False) -> Any:
    """a @ b where some of both is divided, large or not evaluated yet."""
    a, b = _listed(a), _listed(b)
    if not all(isinstance(x, (Array, np.ndarray)) for x in (a, b)):
        return NotImplemented
    if not inplace:
        return number(matmul(a, b))
    a[...] = matmul(a, b)
    return a


_operators = _elementwise.operators()
_core.xp_setup(
    np.zeros((3, 5))[1:, ::2],
    np.generic,
    {
        **_operators,
        "matmul": _matmul_operator,
        "float64": np.dtype("float64"),
        "float32": np.dtype("float32"),
        "np.add": np.add,
        "np.sub": np.subtract,
        "np.mul": np.multiply,
        "np.truediv": np.divide,
        "pending": _lazy.pending._references,
        "settle": _lazy.settle,
        "evaluate": Array._evaluate,
        "whole_layout": lambda shape: _layout.whole(shape, _exchange.ranks()),
        "grown": _grown,
        "getitem": _indexing.getitem,
        "setitem": _indexing.setitem,
        "iterate": lambda x: (x[i] for i in range(_length(x))),
        "ufunc": _array_ufunc,
        "function": _array_function,
        "missing": _missing,
        "memory": Memory,
        "number": Array._number,
        "writable": may_write,
        "crowded": _exchange.crowded,
        "moved": _lazy.MOVED,
        "set_shape": set_shape,
        "binary_op": opcode.opmap.get("BINARY_OP"),  # of Python 3.11 and newer
    },
)
_core.xp_blocks()
