"""Finds what computes a call of NumPy's on arrays: NumPy itself if all are whole, a function here
(_names.py), or NumPy again after the operands were collected."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import skerry as sk
from . import _more, _names, _ufuncs, _whole, fft, linalg
from ._array import Array
from ._types import Shape

STANDARD: dict[str, Callable[..., Any]] = {}  # functions of skerry.xp, which enters them here
_OTHER_NAMES = {
    "concatenate": "concat", "amax": "max", "amin": "min", "around": "round",
    "cumsum": "cumulative_sum", "cumprod": "cumulative_prod",
}  # fmt: skip


def by_ufunc(ufunc: np.ufunc, method: str, inputs: tuple, out: Any, options: dict[str, Any]) -> Any:
    """A ufunc's method, or a call with more than operands and one output; without `out` where the
    caller stores the result."""
    if _whole.all_whole(inputs, out, options):
        given = options if out is None else {**options, "out": out}
        return _whole.with_numpy(_bound(ufunc, method), inputs, given)
    if out is not None and method != "__call__":
        return _ufuncs.call(ufunc, method, inputs, None, {**options, "out": out[0]})
    value = _ufuncs.call(ufunc, method, inputs, out, options)
    if out is None:
        return value
    values = value if isinstance(value, tuple) else (value,)
    stored = tuple(
        each if target is None else into(target, each, ufunc.__name__, broadcasts)
        for target, each in zip(out, values, strict=True)
    )
    return stored[0] if len(stored) == 1 else stored


def _bound(ufunc: np.ufunc, method: str) -> Callable[..., Any]:
    return ufunc if method == "__call__" else getattr(ufunc, method)


def number(value: Any) -> Any:
    """In NumPy's spelling a result without axes is a number."""
    return value._evaluate()[()] if isinstance(value, Array) and not value.shape else value


def numbers(value: Any) -> Any:
    """The same of several results."""
    return tuple(map(number, value)) if type(value) is tuple else number(value)


def broadcasts(shape: Shape, to: Shape) -> bool:
    """Whether values of a shape fill another one, repeated: into `out` of a ufunc."""
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def into(
    out: Any, value: Any, name: str, fits: Callable[[Shape, Shape], bool] = operator.eq
) -> Array:
    if not isinstance(out, Array):
        raise sk.GatherError("out=: give a skerry.xp array, or take x.numpy()")
    if not fits(value.shape, out.shape) or not np.can_cast(value.dtype, out.dtype, "same_kind"):
        raise ValueError(
            f"{name}: out has {out.shape} {out.dtype}, the result {value.shape} {value.dtype}"
        )
    out[...] = value
    return out


def by_function(
    function: Callable[..., Any], arguments: tuple, options: dict[str, Any],
    call: Callable[..., Any],
) -> Any:  # fmt: skip
    """function(*arguments, **options). call(name, function, ours, arguments, options) calls one
    that has the standard's arguments."""
    short, module = function.__name__, function.__module__ or ""
    name = f"{module}.{short}"
    if name in _names.NEVER:
        raise sk.GatherError(f"{name} is not for arrays of several ranks: {_names.NEVER[name]}")
    whole = _whole.all_whole(arguments, options)
    ours = _names.FUNCTIONS.get(name)
    if ours is not None:
        if whole:
            return _whole.again(function, arguments, options)
        try:
            if short in _whole.IN_PLACE and arguments and not isinstance(arguments[0], Array):
                return _by_numpy(name, function, whole, arguments, options)
            return ours(*arguments, **options)
        except _whole.NotDistributed:
            return _by_numpy(name, function, whole, arguments, options)
    older = standard(short, module)
    if older is None:
        return _by_numpy(name, function, whole, arguments, options)
    try:
        return call(name, function, older, arguments, options)
    except _whole.NotDistributed:
        extended = None if whole else _names.EXTENDED.get(name)
        if extended is None:
            return _by_numpy(name, function, whole, arguments, options)
    except (TypeError, ValueError):
        if name not in _names.NUMPY_DECIDES or whole or options.get("out") is not None:
            raise
        return _by_numpy(name, function, whole, arguments, options)
    try:
        return extended(*arguments, **options)
    except _whole.NotDistributed:
        return _by_numpy(name, function, whole, arguments, options)


def _by_numpy(
    name: str, function: Callable[..., Any], whole: bool, arguments: tuple, options: dict[str, Any]
) -> Any:
    """What NumPy computes: of whole arrays at once, of others when they are collected."""
    if whole:
        return _whole.again(function, arguments, options)
    return _whole.by_gathering(name, function, arguments, options)


def standard(name: str, module: str) -> Callable[..., Any] | None:
    """The function whose arguments are the array API's; None if there is none."""
    # sqrt and the like, whose dtype depends on values; polyval and the like, of other arguments
    if "scimath" in module or "polynomial." in module:
        return None
    home = linalg if "linalg" in module else fft if "fft" in module else _more
    home = _more if name == "norm" else home
    found = getattr(home, name, None)
    if found is None and home is _more:
        found = STANDARD.get(_OTHER_NAMES.get(name, name))
    return found if callable(found) else None
