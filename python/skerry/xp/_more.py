"""NumPy's functions beyond the standard, of whole arrays: np.dot(x, y) and skerry.numpy find them
here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

import skerry as sk
from . import _creation, _elementwise, _exchange, _indexing, _layout, _manipulation, linalg
from . import _reductions, _twins
from ._manipulation import array_of
from ._array import (
    Array, as_array, axis_of, empty_block, gathered, in_layout, made, new_layout, redistributed,
    shows,
)  # fmt: skip
from ._creation import asarray
from ._elementwise import apply, astype, functions
from ._manipulation import concat, expanded, moveaxis, permute_dims, reshape
from ._sorting import nonzero, unique_all, unique_counts, unique_values
from .linalg import matmul, matrix_norm, tensordot, vector_norm
from ._types import Axes, Block, Box, Operand, Shape, ShapeLike


def ndim(a: Any) -> int:
    """How many dimensions it has."""
    return array_of(a).ndim


def shape(a: Any) -> Shape:
    """Its shape."""
    return array_of(a).shape


def size(a: Any, axis: Axes = None) -> int:
    """Its number of elements, or its length along an axis."""
    a = array_of(a)
    if axis is None:
        return a.size
    return math.prod(a.shape[d] for d in np.atleast_1d(np.asarray(axis)))


def real(val: Any) -> Array:
    """The real part; of real numbers the array itself."""
    return array_of(val).real


def imag(val: Any) -> Array:
    """The imaginary part; of real numbers zeros."""
    return array_of(val).imag


def dot(a: Any, b: Any) -> Array:
    """Products as numpy.dot: of vectors, of matrices, over the last axis of a and the last but one
    of b."""
    if ndim(a) == 0 or ndim(b) == 0:
        return a * b
    a, b = as_array(a), as_array(b)
    if a.ndim <= 2 and b.ndim <= 2:
        return matmul(a, b)
    return tensordot(a, b, axes=([-1], [max(b.ndim - 2, 0)]))


def transpose(a: Operand, axes: Sequence[SupportsIndex] | None = None) -> Array:
    """Axes in another order, by default reversed; a view."""
    a = as_array(a)
    return permute_dims(a, tuple(reversed(range(a.ndim))) if axes is None else axes)


def swapaxes(a: Operand, axis1: SupportsIndex, axis2: SupportsIndex) -> Array:
    """Two axes exchanged; a view."""
    a = as_array(a)
    order = list(range(a.ndim))
    one, two = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    order[one], order[two] = two, one
    return permute_dims(a, order)


def squeeze(a: Operand, axis: Axes = None) -> Array:
    """Without axes of length 1; a view."""
    a = as_array(a)
    ones = tuple(d for d, n in enumerate(a.shape) if n == 1)
    return _manipulation.squeeze(a, ones if axis is None else axis)


def ravel(a: Operand) -> Array:
    """In one dimension, in C order; a copy where elements do not follow one another."""
    a = array_of(a)
    return reshape(a, (-1,), copy=None if _twins.is_contiguous(a) else True)


def sliding_window_view(x: Operand, window_shape: ShapeLike, axis: Axes = None) -> Array:
    """All windows of that shape, as numpy.lib.stride_tricks.sliding_window_view: views of a copy of
    all of x on every rank, which follows x. Not to be written. Gathers x."""
    x = as_array(x)
    if not x.layout.whole:
        block = np.empty_like(_twins.twin(x))  # its order tells what is a view
        block[...] = gathered(x, "sliding_window_view")
        copy = Array(block, _layout.whole(x.shape, _exchange.ranks()))
        x = shows(copy, x, lambda it: it, _twins.twin(x), fixed=True)
    out = _windows(x, (window_shape, axis))
    out._frozen = True
    return out


def _windows(x: Array, which: tuple[Any, Any]) -> Array:
    block = np.lib.stride_tricks.sliding_window_view(x._evaluate(), *which)
    layout = _layout.whole(block.shape, _exchange.ranks())
    return Array(block, layout, x._memory, (_windows, x, which))


_twins.makers[_windows] = lambda twin, which: np.lib.stride_tricks.sliding_window_view(twin, *which)


def round(a: Operand, decimals: int = 0) -> Array:
    """Elementwise, to so many decimals."""
    return apply(_rounding(decimals), as_array(a))


@lru_cache
def _rounding(decimals: int) -> Callable[..., Any]:
    def rounded(x: Block, out: Block | None = None) -> Any:
        value = np.round(x, decimals)
        return value if out is None else np.copyto(out, value)

    return rounded


def clip(
    a: Operand,
    a_min: Operand | complex | None = None,
    a_max: Operand | complex | None = None,
    *,
    min: Operand | complex | None = None,
    max: Operand | complex | None = None,
) -> Array:
    """Elementwise, between bounds; in the dtype that holds all of them."""
    a, bounds = as_array(a), [a_min if min is None else min, a_max if max is None else max]
    given = [a, *(b for b in bounds if b is not None)]
    dtype = np.result_type(*[np.empty(0, x.dtype) if hasattr(x, "dtype") else x for x in given])
    return _elementwise.clip(astype(a, dtype), *bounds)


def take(a: Operand, indices: Any, axis: SupportsIndex | None = None) -> Array:
    """Elements along an axis (None: of the flat array) by index."""
    a, places = as_array(a), asarray(indices)
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_of(axis, a.ndim)
    out = _indexing.take(a, ravel(places), axis=axis)
    return reshape(out, a.shape[:axis] + places.shape + a.shape[axis + 1 :])


def diagonal(
    a: Operand, offset: int = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1
) -> Array:
    """The diagonals of matrices along two axes, as a last axis."""
    a = as_array(a)
    if axis_of(axis1, a.ndim) == axis_of(axis2, a.ndim):
        raise ValueError("diagonal: axis1 and axis2 are the same")
    return linalg.diagonal(moveaxis(a, (axis1, axis2), (-2, -1)), offset=offset)


def trace(
    a: Operand,
    offset: int = 0,
    axis1: SupportsIndex = 0,
    axis2: SupportsIndex = 1,
    dtype: DTypeLike | None = None,
) -> Array:
    """Sums of the diagonals of matrices along two axes."""
    return _reductions.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def outer(a: Operand, b: Operand) -> Array:
    """All products of elements."""
    return linalg.outer(ravel(array_of(a)), ravel(array_of(b)))


def full_like(a: Operand, fill_value: Any, dtype: DTypeLike | None = None) -> Array:
    """A value, or those of an array that broadcasts, in the shape and layout of a."""
    if not np.ndim(fill_value):
        return _creation.full_like(a, fill_value, dtype=dtype)
    out = _creation.empty_like(a, dtype=dtype)
    out[...] = fill_value
    return out


def where(
    condition: Operand, x: Operand | complex | None = None, y: Operand | complex | None = None
) -> Any:
    """Elements of x where the condition holds, of y elsewhere; or where it holds."""
    if x is None or y is None:
        if x is not y:
            raise ValueError("where takes both x and y, or neither")
        return nonzero(condition)
    if not isinstance(condition, Array):  # a list, or one truth value
        condition = np.asarray(condition)
    return _elementwise.where(condition, x, y)


def unique(
    ar: Operand,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    equal_nan: bool = True,
) -> Any:
    """Different values, ascending; where each is first, which each element is, how often."""
    found: Any
    if return_index or return_inverse:
        found = unique_all(ar)
    elif return_counts:
        values, counts = unique_counts(ar)
        found = values, None, None, counts
    else:
        found = (unique_values(ar), None, None, None)
    wanted = [True, return_index, return_inverse, return_counts]
    values = found[0]
    may_be_none = equal_nan and values.dtype.kind in "fcmM"
    nans = int(_reductions.sum(values != values)) if may_be_none else 0
    if nans > 1:
        if any(wanted[1:]):
            raise sk.GatherError("unique with indices of arrays with several NaN: use x.numpy()")
        return values[: values.size - nans + 1]
    parts = [part for part, want in zip(found, wanted, strict=True) if want]
    return tuple(parts) if len(parts) > 1 else parts[0]


def diag(v: Operand, k: int = 0) -> Array:
    """Of a matrix, a copy of diagonal k; of a vector, the matrix with that diagonal."""
    v = as_array(v)
    if v.ndim == 2:
        return linalg.diagonal(v, offset=k)
    if v.ndim != 1:
        raise ValueError(f"diag takes 1 or 2 dimensions, not {v.ndim}")
    n = v.shape[0] + abs(k)
    layout = new_layout((n, n), v.dtype)
    first = min(k, 0)  # row i has v[i + first]

    def rows_of(box: Box) -> Box:
        low, high = (min(max(i + first, 0), v.shape[0]) for i in box[0])
        return ((low, high),) if high > low and _layout.volume(box) else ((0, 0),)

    wanted = tuple(map(rows_of, layout.boxes))
    part = in_layout(v, _layout.Layout(v.shape, wanted, layout.whole and v.layout.whole))

    def fill(block: Block, box: Box) -> None:
        block[...] = 0
        (low, high), (left, right) = box
        at = np.arange(*wanted[_exchange.job().rank][0])
        rows, columns = at - first, at - first + k
        here = (rows >= low) & (rows < high) & (columns >= left) & (columns < right)
        block[rows[here] - low, columns[here] - left] = part[here]

    return made(layout, v.dtype, fill)


def bincount(x: Operand, weights: Operand | None = None, minlength: int = 0) -> Array:
    """How often each number occurs, or the sums of its weights."""
    x = as_array(x)
    if x.ndim != 1 or x.dtype.kind not in "iub":
        raise TypeError(f"bincount takes integers in 1 dimension, not {x.dtype} in {x.ndim}")
    length = int(_reductions.max(x)) + 1 if x.size else 0
    if x.size and int(_reductions.min(x)) < 0:
        raise ValueError("bincount takes no negative numbers")
    length, block = max(length, minlength), x._evaluate()
    if weights is not None:
        weights = as_array(weights)
        if weights.shape != x.shape:
            raise ValueError(f"bincount: weights have {weights.shape}, the numbers {x.shape}")
        weights = redistributed(weights, x.layout)._evaluate()
    ranks = _exchange.ranks()
    partial = np.bincount(block, weights, length)
    if weights is not None:  # of no numbers NumPy gives integers
        partial = partial.astype(np.float64, copy=False)
    if x.layout.whole:
        return Array(partial, _layout.whole((length,), ranks))
    stacked = _layout.along((ranks, length), 0, list(range(ranks + 1)))
    return _reductions.sum(Array(partial[None], stacked), axis=0)


def norm(x: Operand, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """As numpy.linalg.norm: of vectors, or of matrices if `axis` names two."""
    x = as_array(x)
    if ord is None:
        return vector_norm(x, axis=axis, keepdims=keepdims)
    axes = (0, 1) if axis is None and x.ndim == 2 else axis
    if not isinstance(axes, tuple) or len(axes) == 1:
        return vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
    if x.ndim != 2 or keepdims:
        raise ValueError("norm of stacks of matrices: use xp.linalg.matrix_norm")
    swapped = tuple(axis_of(d, 2) for d in axes) == (1, 0)
    return matrix_norm(permute_dims(x, (1, 0)) if swapped else x, ord=ord)


def isclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Array:
    """Where |a - b| <= atol + rtol |b|, or both are the same infinity."""
    a, b = asarray(a), asarray(b)
    if b.dtype.kind in "biu":
        b = astype(b, np.dtype("float64"))  # as NumPy: differences of integers would wrap around
    near = functions["abs"](a - b) <= atol + rtol * functions["abs"](b)
    near = (near & functions["isfinite"](b)) | (a == b)
    return near | (functions["isnan"](a) & functions["isnan"](b)) if equal_nan else near


def allclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether isclose everywhere."""
    return bool(_reductions.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Any, a2: Any) -> bool:
    """Whether shapes and elements are equal."""
    try:
        a, b = array_of(a1), array_of(a2)
    except ValueError:  # a list of arrays of different shapes
        return False
    return a.shape == b.shape and bool(_reductions.all(a == b))


def _at_least(x: Any, ndim: int) -> Array:
    x = array_of(x)
    return x if x.ndim >= ndim else reshape(x, (1,) * (ndim - x.ndim) + x.shape)


def hstack(tup: Sequence[Operand]) -> Array:
    """One beside the other: along axis 1, of vectors along axis 0."""
    arrays = [_at_least(x, 1) for x in tup]
    return concat(arrays, axis=0 if arrays[0].ndim == 1 else 1)


def vstack(tup: Sequence[Operand]) -> Array:
    """One below the other: along axis 0; vectors are rows."""
    return concat([_at_least(x, 2) for x in tup], axis=0)


# ---- convolution ---------------------------------------------------------------------------------

_MOST_SHIFTS = 128  # elements of a kernel that is applied by shifting; larger ones by FFT


def convolve(
    a: Operand,
    v: Operand,
    mode: Literal["full", "same", "valid"] = "full",
    method: Literal["auto", "direct", "fft"] = "auto",
) -> Array:
    """Convolution in any number of dimensions, as scipy.signal.convolve; `v` is the smaller one,
    and every rank gets all of it. mode: 'full', 'same' (the shape of a) or 'valid'. Each rank
    gets its part of `a` with the borders it needs. method: 'auto', 'direct' or 'fft'. dtype:
    what holds both. Errors: ValueError (shapes, mode or method). Collective. Gathers: the
    smaller one."""
    a, v = _at_least(a, 1), _at_least(v, 1)
    if a.ndim != v.ndim or not a.size or not v.size:
        raise ValueError(f"convolve: shapes {a.shape} and {v.shape}")
    if mode not in ("full", "same", "valid") or method not in ("auto", "direct", "fft"):
        raise ValueError(f"convolve: no mode {mode!r} with method {method!r}")
    if a.ndim == 1 and v.size > a.size:
        a, v = v, a
    sizes = list(zip(a.shape, v.shape, strict=True))
    shape = {
        "full": tuple(n + k - 1 for n, k in sizes),
        "same": a.shape,
        "valid": tuple(max(n - k + 1, 0) for n, k in sizes),
    }[mode]
    skip = [{"full": 0, "same": (k - 1) // 2, "valid": k - 1}[mode] for _, k in sizes]
    dtype = np.result_type(a.dtype, v.dtype)
    layout = a.layout if shape == a.shape else new_layout(shape, dtype)
    kernel = in_layout(v, _layout.whole(v.shape, _exchange.ranks()))
    spans = [_span(box, skip, sizes) for box in layout.boxes]
    inside = tuple(
        tuple((max(low, 0), min(high, n)) for (low, high), n in zip(span, a.shape, strict=True))
        if span
        else ((0, 0),) * a.ndim
        for span in spans
    )
    everything = tuple((0, n) for n in a.shape)
    same = all(box == everything for box in inside)
    part = in_layout(a, _layout.Layout(a.shape, inside, same))
    span = spans[_exchange.job().rank]
    if span is None:
        return Array(empty_block(layout, dtype), layout)
    pad = [(max(-low, 0), max(high - n, 0)) for (low, high), n in zip(span, a.shape, strict=True)]
    direct = method == "direct" or (method == "auto" and kernel.size <= _MOST_SHIFTS)
    block = (_shifted if direct else _transformed)(np.pad(part, pad), kernel, dtype)
    return Array(block, layout)


def _span(
    box: Box, skip: Sequence[int], sizes: Sequence[tuple[int, int]]
) -> list[tuple[int, int]] | None:
    """Which elements of `a` a box of the result needs; also such as lie outside. None: no box."""
    if not _layout.volume(box):
        return None
    return [
        (low + s - k + 1, high + s) for (low, high), s, (_, k) in zip(box, skip, sizes, strict=True)
    ]


def _shifted(x: Block, kernel: Block, dtype: np.dtype[Any]) -> Block:
    """The valid part of a convolution: a sum of shifted blocks."""
    extent = [n - k + 1 for n, k in zip(x.shape, kernel.shape, strict=True)]
    out = np.zeros(extent, dtype)
    for at in np.ndindex(*kernel.shape):
        box = tuple(
            slice(k - 1 - i, k - 1 - i + n)
            for i, k, n in zip(at, kernel.shape, extent, strict=True)
        )
        out += kernel[at] * x[box]
    return out


def _transformed(x: Block, kernel: Block, dtype: np.dtype[Any]) -> Block:
    """The same by FFT."""
    axes, box = tuple(range(x.ndim)), tuple(slice(k - 1, None) for k in kernel.shape)
    real = dtype.kind != "c"
    forward, back = (np.fft.rfftn, np.fft.irfftn) if real else (np.fft.fftn, np.fft.ifftn)
    out = back(forward(x, x.shape, axes) * forward(kernel, x.shape, axes), x.shape, axes)[box]
    return (np.rint(out) if dtype.kind in "iu" else out).astype(dtype)


def average(
    a: Operand, axis: Any = None, weights: Operand | None = None, *, keepdims: bool = False
) -> Array:
    """The mean along an axis, or the weighted mean; weights of one dimension go along the axis."""
    a = as_array(a)
    if weights is None:
        return _reductions.mean(a, axis=axis, keepdims=keepdims)
    weights = as_array(weights)
    if weights.shape != a.shape:
        along = hasattr(axis, "__index__") and axis_of(axis, a.ndim)
        if along is False or weights.shape != (a.shape[along],):
            raise TypeError(f"average: weights of {weights.shape} for {a.shape} along axis {axis}")
        axis = along
        ones = [1] * a.ndim
        ones[axis] = -1
        weights = expanded(reshape(weights, ones), a.shape)
    dtype = np.result_type(a.dtype, weights.dtype, *["float64"] * (a.dtype.kind in "iub"))
    if weights.dtype != dtype:
        weights = astype(weights, dtype)
    scale = _reductions.sum(weights, axis=axis, keepdims=keepdims)
    if bool(_reductions.any(scale == 0)):
        raise ZeroDivisionError("average: weights sum to zero")
    products = (a if a.dtype == dtype else astype(a, dtype)) * weights
    return _reductions.sum(products, axis=axis, keepdims=keepdims) / scale
