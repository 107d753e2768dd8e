"""NumPy's functions beyond the standard, of whole arrays: np.dot(x, y) and skerry.numpy find them
here."""

import numpy as np

from . import _exchange, _layout
from . import _reductions
from ._array import (
    Array, as_array, axis_of, empty_block, in_layout, made, new_layout, redistributed,
)  # fmt: skip
from ._creation import asarray
from ._elementwise import apply, astype, functions
from ._manipulation import concat, permute_dims, reshape
from .linalg import diagonal, matmul, matrix_norm, rows_only, tensordot, vector_norm


def ndim(a):
    """How many dimensions it has."""
    return a.ndim if isinstance(a, Array) else np.ndim(a)


def shape(a):
    """Its shape."""
    return a.shape


def size(a, axis=None):
    """Its number of elements, or its length along an axis."""
    return a.size if axis is None else a.shape[axis]


def dot(a, b, out=None):
    """Products as numpy.dot: of vectors, of matrices, over the last axis of a and the last but one
    of b. Into `out`, if given."""
    if ndim(a) == 0 or ndim(b) == 0:
        value = a * b
    else:
        a, b = as_array(a), as_array(b)
        short = a.ndim <= 2 and b.ndim <= 2
        value = matmul(a, b) if short else tensordot(a, b, axes=([-1], [max(b.ndim - 2, 0)]))
    if out is None:
        return value
    if out.shape != value.shape or out.dtype != value.dtype:
        raise ValueError(
            f"dot: out has {out.shape} {out.dtype}, the product {value.shape} {value.dtype}"
        )
    out[...] = value
    return out


def diag(v, k=0):
    """Of a matrix, a copy of diagonal k; of a vector, the matrix with that diagonal."""
    v = as_array(v)
    if v.ndim == 2:
        return _matrix_diagonal(v, k)
    if v.ndim != 1:
        raise ValueError(f"diag takes 1 or 2 dimensions, not {v.ndim}")
    n = v.shape[0] + abs(k)
    layout = new_layout((n, n), v.dtype)
    first = min(k, 0)  # row i has v[i + first]

    def rows_of(box):
        low, high = (min(max(i + first, 0), v.shape[0]) for i in box[0])
        return ((low, high),) if high > low and _layout.volume(box) else ((0, 0),)

    wanted = tuple(map(rows_of, layout.boxes))
    part = in_layout(v, _layout.Layout(v.shape, wanted, layout.whole and v.layout.whole))

    def fill(block, box):
        block[...] = 0
        (low, high), (left, right) = box
        at = np.arange(*wanted[_exchange.job().rank][0])
        rows, columns = at - first, at - first + k
        here = (rows >= low) & (rows < high) & (columns >= left) & (columns < right)
        block[rows[here] - low, columns[here] - left] = part[here]

    return made(layout, v.dtype, fill)


def _matrix_diagonal(x, k):
    """Each rank takes what its rows have of it."""
    rows, columns = x.shape
    n = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    if not rows_only(x.layout) or not n:
        return diagonal(x, offset=k)
    boxes = []
    for (low, high), _ in x.layout.boxes:
        cut = [min(max(i + min(k, 0), 0), n) for i in (low, high)]
        boxes.append(((cut[0], cut[1]) if cut[1] > cut[0] else (0, 0),))
    layout = _layout.Layout((n,), tuple(boxes))
    low, high = layout.boxes[_exchange.job().rank][0]
    at = np.arange(low, high)
    block = x._evaluate()[at - min(k, 0) - x.bounds[0][0], at + max(k, 0)]
    return Array(np.ascontiguousarray(block), layout)


def bincount(x, weights=None, minlength=0):
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
    if x.layout.whole:
        return Array(partial, _layout.whole((length,), ranks))
    stacked = _layout.along((ranks, length), 0, list(range(ranks + 1)))
    return _reductions.sum(Array(partial[None], stacked), axis=0)


def norm(x, ord=None, axis=None, keepdims=False):
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


def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where |a - b| <= atol + rtol |b|, or both are the same infinity."""
    a, b = asarray(a), asarray(b)
    if b.dtype.kind in "biu":
        b = astype(b, np.dtype("float64"))  # as NumPy: differences of integers would wrap around
    near = functions["abs"](a - b) <= atol + rtol * functions["abs"](b)
    near = (near & functions["isfinite"](b)) | (a == b)
    return near | (functions["isnan"](a) & functions["isnan"](b)) if equal_nan else near


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether isclose everywhere."""
    return bool(_reductions.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a, b):
    """Whether shapes and elements are equal."""
    a, b = asarray(a), asarray(b)
    return a.shape == b.shape and bool(_reductions.all(a == b))


def _at_least(x, ndim):
    x = as_array(x)
    return x if x.ndim >= ndim else reshape(x, (1,) * (ndim - x.ndim) + x.shape)


def hstack(arrays):
    """One beside the other: along axis 1, of vectors along axis 0."""
    arrays = [_at_least(x, 1) for x in arrays]
    return concat(arrays, axis=0 if arrays[0].ndim == 1 else 1)


def vstack(arrays):
    """One below the other: along axis 0; vectors are rows."""
    return concat([_at_least(x, 2) for x in arrays], axis=0)


# ---- convolution ---------------------------------------------------------------------------------

_MOST_SHIFTS = 128  # elements of a kernel that is applied by shifting; larger ones by FFT


def convolve(a, v, mode="full", method="auto"):
    """Convolution in any number of dimensions, as scipy.signal.convolve; `v` is the smaller one,
    and every rank gets all of it. mode: 'full', 'same' (the shape of a) or 'valid'. Each rank gets
    its part of `a` with the borders it needs. method: 'auto', 'direct' or 'fft'."""
    a, v = as_array(a), as_array(v)
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


def _span(box, skip, sizes):
    """Which elements of `a` a box of the result needs; also such as lie outside. None: no box."""
    if not _layout.volume(box):
        return None
    return [
        (low + s - k + 1, high + s)
        for (low, high), s, (_, k) in zip(box, skip, sizes, strict=True)
    ]


def _shifted(x, kernel, dtype):
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


def _transformed(x, kernel, dtype):
    """The same by FFT."""
    axes, box = tuple(range(x.ndim)), tuple(slice(k - 1, None) for k in kernel.shape)
    real = dtype.kind != "c"
    forward, back = (np.fft.rfftn, np.fft.irfftn) if real else (np.fft.fftn, np.fft.ifftn)
    out = back(forward(x, x.shape, axes) * forward(kernel, x.shape, axes), x.shape, axes)[box]
    return (np.rint(out) if dtype.kind in "iu" else out).astype(dtype)


def average(a, axis=None, weights=None):
    """The mean along an axis, or the weighted mean of arrays of one shape."""
    a = as_array(a)
    if weights is None:
        return _reductions.mean(a, axis=axis)
    total = _reductions.sum(a * weights, axis=axis)
    return apply(np.divide, total, _reductions.sum(as_array(weights), axis=axis))
