"""Universal functions with all their arguments, and their methods reduce, accumulate, outer, at.

Where all operands are whole, NumPy does it (_whole.py). Otherwise each rank computes its own part.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import skerry as sk
from . import _whole
from ._array import Array, axes_of, axis_of, undivided
from ._elementwise import agreed, apply, astype
from ._elementwise import where as choose_where
from ._manipulation import expand_dims, reshape, squeeze
from ._reductions import _continued, _reduce, accumulated
from ._indexing import in_order
from ._manipulation import array_of as as_array

# Their partial results may be combined.
_FIXED = ("dtype", "casting", "sig", "signature")  # a call's options that apply() does not know
REORDERABLE = frozenset(
    "add multiply logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor maximum "
    "minimum fmax fmin logaddexp logaddexp2 gcd lcm hypot".split()
)
_NOTHING = np._NoValue


@lru_cache
def with_options(
    ufunc: np.ufunc, output: int, options: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    """One output of a ufunc with fixed options, as a function that apply() takes."""
    fixed = dict(options)

    def call(*blocks: Any, out: np.ndarray | None = None) -> np.ndarray:
        value = ufunc(*blocks, **fixed)
        value = value[output] if ufunc.nout > 1 else value
        if out is None:
            return np.asarray(value)
        np.copyto(out, value, casting="unsafe")
        return out

    return call


def elementwise(
    ufunc: np.ufunc, inputs: Sequence[Any], options: dict[str, Any], where: Any, outs: Sequence[Any]
) -> Any:
    """The call of a ufunc. Where `where` does not hold, the result is what `out` had."""
    fixed = tuple(sorted((k, v) for k, v in options.items() if k in _FIXED))
    values = []
    for i in range(ufunc.nout):
        plain = ufunc.nout == 1 and not fixed
        value = apply(ufunc if plain else with_options(ufunc, i, fixed), *inputs)
        if where is not True:
            old = outs[i] if outs[i] is not None else apply(np.zeros_like, value)
            value = choose_where(as_array(where), value, astype(old, value.dtype, copy=False))
        values.append(value)
    return values[0] if len(values) == 1 else tuple(values)


def reduce(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: bool = False, initial: Any = _NOTHING, where: Any = True,
) -> Array:  # fmt: skip
    """ufunc.reduce of an array: a divided axis by partial results that are combined in the order of
    the ranks. Others than those in REORDERABLE turn the array until the axes are whole.
    Collective. Gathers: no; a 1-d array for the latter, yes."""
    x = as_array(array)
    axes = axes_of(axis, x.ndim)
    if where is not True:
        start = ufunc.identity
        if start is None and initial is not _NOTHING:
            start = initial
        if start is None:
            raise ValueError(
                f"numpy.{ufunc.__name__}.reduce with where= needs initial=: it has no identity"
            )
        if x.dtype.kind == "u" and start == -1:  # all bits
            start = int(np.iinfo(x.dtype).max)
        x = choose_where(as_array(where), x, start)
    fixed = {} if dtype is None else {"dtype": np.dtype(dtype)}
    if ufunc.__name__ not in REORDERABLE:
        x = undivided(x, axes)
    value = _reduce(x, axes, keepdims, ufunc, **fixed)
    if initial is not _NOTHING and initial is not None:
        first = np.asarray(initial).astype(value.dtype)
        value = apply(ufunc, of_value(first), value)
    return _given(out, value)


def of_value(value: np.ndarray) -> Array:
    """A number that every rank has, as an array."""
    return as_array(np.asarray(value))


def _given(out: Any, value: Array) -> Array:
    if out is None:
        return value
    out = out[0] if isinstance(out, tuple) else out
    if not isinstance(out, Array):
        raise sk.GatherError("out=: give a skerry.xp array, or take x.numpy()")
    if out.shape != value.shape:
        raise ValueError(f"out has shape {out.shape}, the result {value.shape}")
    out[...] = astype(value, out.dtype, copy=False)
    return out


def accumulate(
    ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None, out: Any = None
) -> Array:
    """ufunc.accumulate along an axis. Collective. Gathers: no; a 1-d array of a ufunc whose
    partial results cannot be combined, yes."""
    x = as_array(array)
    if not x.ndim:
        raise TypeError(f"cannot accumulate on a scalar: numpy.{ufunc.__name__}")
    if axis is None and x.ndim == 1:
        axis = 0
    axis = axis_of(axis, x.ndim)
    by_parts = x.ndim == 1 and ufunc.__name__ in REORDERABLE
    x = in_order(x) if by_parts else undivided(x, (axis,))
    block = accumulated(x, axis, dtype, ufunc)
    if by_parts and not x.layout.whole:
        block = _continued(block, x.layout, ufunc)
    return _given(out, Array(block, x.layout))


def outer(ufunc: np.ufunc, a: Any, b: Any, **options: Any) -> Any:
    """ufunc of all pairs of elements. Collective. Gathers: no."""
    a, b = as_array(a), as_array(b)
    return ufunc(reshape(a, a.shape + (1,) * b.ndim), b, **options)


def at(ufunc: np.ufunc, a: Array, indices: Any, *values: Any) -> None:
    """ufunc.at: a[indices] = ufunc(a[indices], b), once for each index. Every rank does its part of
    `a`. Collective. Gathers: the indices and b."""
    from ._placing import own_places, writing

    indices = _whole.known(indices, f"numpy.{ufunc.__name__}.at")
    places, shape = own_places(a, indices)
    inside, local = places
    operands = [
        np.broadcast_to(np.asarray(_whole.known(v, "values")), shape)[inside] for v in values
    ]
    with writing(a) as block:
        agreed(lambda: ufunc.at(block, local, *operands) if block.size else None)


_PRODUCTS = {"matmul": (2, 2), "vecdot": (1, 1), "matvec": (2, 1), "vecmat": (1, 2)}


def product(ufunc: np.ufunc, a: Any, b: Any) -> Array:
    """matmul, vecdot, matvec and vecmat, which are products of matrices."""
    from . import linalg

    a, b = as_array(a), as_array(b)
    name = ufunc.__name__
    if name == "matmul":
        return linalg.matmul(a, b)
    if name == "vecdot":
        return linalg.vecdot(a, b)
    if a.ndim < _PRODUCTS[name][0] or b.ndim < _PRODUCTS[name][1]:
        raise ValueError(f"{name}: operands of {a.ndim} and {b.ndim} dimensions")
    if name == "matvec":
        return squeeze(linalg.matmul(a, expand_dims(b, -1)), -1)
    a = a.conj() if a.dtype.kind == "c" else a
    return squeeze(linalg.matmul(expand_dims(a, -2), b), -2)


def call(
    ufunc: np.ufunc, method: str, inputs: tuple, out: tuple | None, options: dict[str, Any]
) -> Any:
    """What numpy's ufuncs do with arrays of which some are divided."""
    name = f"numpy.{ufunc.__name__}"
    options = {k: v for k, v in options.items() if k not in ("subok", "order")}
    if method == "__call__" and ufunc.signature is None:
        where = options.pop("where", True)
        fixed = {k: v for k, v in options.items() if v is not None}
        outs = out or (None,) * ufunc.nout
        return elementwise(ufunc, inputs, fixed, where, outs)
    if method == "__call__" and ufunc.__name__ in _PRODUCTS and not options:
        return product(ufunc, *inputs)
    if method == "reduce":
        return reduce(ufunc, *inputs, **options)
    if method == "accumulate":
        return accumulate(ufunc, *inputs, **options)
    if method == "outer":
        return outer(ufunc, *inputs, **options)
    if method == "at" and isinstance(inputs[0], Array):
        return at(ufunc, *inputs)
    return _whole.by_gathering(name, getattr(ufunc, method), inputs, options)

