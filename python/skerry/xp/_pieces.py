"""Shapes beyond the standard: pieces of arrays, arrays of pieces, borders, triangles."""

import operator
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from . import _lines, _manipulation, _whole
from ._array import Array, axis_of, made, new_layout, of_numpy
from ._creation import full
from ._elementwise import astype
from ._indexing import setitem, take_known
from ._manipulation import expanded, concat, expand_dims, flip, moveaxis, permute_dims, reshape
from ._sorting import nonzero
from ._manipulation import array_of as as_array

__all__ = (
    "append argwhere array_split atleast_1d atleast_2d atleast_3d block column_stack copy delete "
    "diag_indices_from diagflat dsplit dstack flatnonzero fliplr flipud hsplit insert pad resize "
    "rollaxis rot90 split tril_indices_from triu_indices_from trim_zeros unpackbits vsplit packbits"
).split()


def copy(a: Any, order: str = "K", subok: bool = False) -> Array:
    """A copy, in the same layout. Shape and dtype: its own. Errors: TypeError (no array).
    Collective. Gathers: no."""
    return as_array(a).copy()


# ---- dimensions ----------------------------------------------------------------------------------


def _at_least(arrays: tuple, ndim: int) -> Any:
    out = []
    for x in map(as_array, arrays):
        while x.ndim < ndim:
            x = expand_dims(x, 2 if x.ndim == 2 else 0)
        out.append(x)
    return out[0] if len(out) == 1 else tuple(out)


def atleast_1d(*arys: Any) -> Any:
    """Views with at least one dimension. Errors: none. Collective. Gathers: no."""
    return _at_least(arys, 1)


def atleast_2d(*arys: Any) -> Any:
    """Views with at least two dimensions; vectors are rows. Errors: none.
    Collective. Gathers: no."""
    return _at_least(arys, 2)


def atleast_3d(*arys: Any) -> Any:
    """Views with at least three dimensions: (1, n, 1) of vectors, (m, n, 1) of matrices. Errors:
    none. Collective. Gathers: no."""
    return _at_least(arys, 3)


def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """The axis before the one at `start`; a view. Shape: in that order. dtype: its own. Errors:
    AxisError. Collective. Gathers: no."""
    a = as_array(a)
    axis = axis_of(axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    if not 0 <= start <= a.ndim:
        raise np.exceptions.AxisError(start, a.ndim)
    return moveaxis(a, axis, start - 1 if axis < start else start)


def flipud(m: Any) -> Array:
    """The first axis reversed; a view. Shape and dtype: its own. Errors: ValueError (no dimension).
    Collective. Gathers: no."""
    m = as_array(m)
    if m.ndim < 1:
        raise ValueError("Input must be >= 1-d.")
    return flip(m, axis=0)


def fliplr(m: Any) -> Array:
    """The second axis reversed; a view. Shape and dtype: its own. Errors: ValueError (fewer than 2
    dimensions). Collective. Gathers: no."""
    m = as_array(m)
    if m.ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(m, axis=1)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Turned by k times 90 degrees in the plane of two axes; a view. Shape: turned as well. dtype:
    its own. Errors: AxisError, ValueError (axes). Collective. Gathers: no."""
    m, plane = as_array(m), tuple(axes)
    if len(plane) != 2:
        raise ValueError("len(axes) must be 2.")
    one, two = (axis_of(a, m.ndim) for a in plane)
    if one == two:
        raise ValueError("Axes must be different.")
    order = list(range(m.ndim))
    order[one], order[two] = two, one
    k %= 4
    if k == 0:
        return m[...]
    if k == 2:
        return flip(flip(m, axis=one), axis=two)
    if k == 1:
        return permute_dims(flip(m, axis=two), order)
    return flip(permute_dims(m, order), axis=two)


# ---- splitting -----------------------------------------------------------------------------------


def _cut(ary: Any, sections: Any, axis: int, even: bool) -> list[Array]:
    ary = as_array(ary)
    axis = axis_of(axis, ary.ndim) if ary.ndim else axis
    n = ary.shape[axis]
    if hasattr(sections, "__len__") or getattr(sections, "ndim", None):
        cuts = [operator.index(i) for i in np.asarray(_whole.known(sections, "split")).tolist()]
        bounds = zip([0, *cuts], [*cuts, n], strict=True)
    else:
        parts = operator.index(sections)
        if parts <= 0:
            raise ValueError("number sections must be larger than 0.")
        if even and n % parts:
            raise ValueError("array split does not result in an equal division")
        each, more = divmod(n, parts)
        cuts = np.cumsum([0] + more * [each + 1] + (parts - more) * [each]).tolist()
        bounds = zip(cuts[:-1], cuts[1:], strict=True)
    before = (slice(None),) * axis
    return [ary[(*before, slice(low, high))] for low, high in bounds]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Equal parts of an axis, or those between indices; views. ValueError if parts cannot be equal.
    Shapes: parts of the axis, the others whole. dtype: its own. Errors: AxisError, ValueError
    (parts, or too few dimensions). Collective. Gathers: no."""
    return _cut(ary, indices_or_sections, axis, True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Parts of an axis, the first ones longer by one if needed; views. Shapes: parts of the axis,
    the others whole. dtype: its own. Errors: AxisError, ValueError (parts, or too few
    dimensions). Collective. Gathers: no."""
    return _cut(ary, indices_or_sections, axis, False)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Parts of axis 1, of vectors of axis 0; views. Shapes: parts of the axis, the others whole.
    dtype: its own. Errors: AxisError, ValueError (parts, or too few dimensions). Collective.
    Gathers: no."""
    if not as_array(ary).ndim:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Parts of axis 0; views. Shapes: parts of the axis, the others whole. dtype: its own. Errors:
    AxisError, ValueError (parts, or too few dimensions). Collective. Gathers: no."""
    if as_array(ary).ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Parts of axis 2; views. Shapes: parts of the axis, the others whole. dtype: its own. Errors:
    AxisError, ValueError (parts, or too few dimensions). Collective. Gathers: no."""
    if as_array(ary).ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


# ---- joining -------------------------------------------------------------------------------------


def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """arr, then values along an axis (None: both flat). Shape: lengths along the axis add up.
    dtype: what holds both. Errors: AxisError, ValueError (shapes differ). Collective. Gathers:
    no."""
    arr, values = as_array(arr), as_array(values)
    if axis is None:
        return concat([reshape(arr, (-1,)), reshape(values, (-1,))], axis=0)
    return concat([arr, values], axis=axis)


def dstack(tup: Sequence[Any]) -> Array:
    """Along the third axis. Shape: lengths along that axis add up. dtype: what holds all. Errors:
    ValueError (shapes differ). Collective. Gathers: no."""
    return concat([_at_least((x,), 3) for x in tup], axis=2)


def column_stack(tup: Sequence[Any]) -> Array:
    """Vectors as columns, matrices beside them. Shape: lengths along that axis add up. dtype: what
    holds all. Errors: ValueError (shapes differ). Collective. Gathers: no."""
    columns = [as_array(x) for x in tup]
    columns = [x if x.ndim >= 2 else reshape(x, (x.size, 1)) for x in columns]
    return concat(columns, axis=1)


def block(arrays: Any) -> Array:
    """Nested lists of blocks: the innermost along the last axis. Shape: lengths add up along each
    axis. dtype: what holds all. Errors: ValueError (shapes differ, or lists of different
    depths). Collective. Gathers: no."""

    def depth(value: Any) -> int:
        if isinstance(value, tuple):
            raise TypeError("arrays is a tuple. Only lists can be used to arrange blocks")
        if not isinstance(value, list):
            return 0
        if not value:
            raise ValueError("List at arrays cannot be empty")
        depths = {depth(each) for each in value}
        if len(depths) > 1:
            raise ValueError("List depths are mismatched.")
        return 1 + depths.pop()

    levels = depth(arrays)
    ndim = max([levels, *(x.ndim for x in map(as_array, _leaves(arrays)))])

    def built(value: Any, level: int) -> Array:
        if level == 0:
            x = as_array(value)
            return reshape(x, (1,) * (ndim - x.ndim) + x.shape) if x.ndim < ndim else x
        return concat([built(each, level - 1) for each in value], axis=ndim - level)

    # A copy: concatenations are new arrays, a single block is not.
    out = built(arrays, levels)
    return out if levels else out.copy()


def _leaves(value: Any) -> list[Any]:
    return [y for x in value for y in _leaves(x)] if isinstance(value, list) else [value]


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Array:
    """Values before indices along an axis (None: of the flat array). Shape: longer along the axis.
    dtype: that of arr. Errors: AxisError, IndexError, ValueError (shapes differ). Collective.
    Gathers: obj."""
    arr = as_array(arr)
    if axis is None:
        arr, axis = reshape(arr, (-1,)), 0
    axis = axis_of(axis, arr.ndim)
    n = arr.shape[axis]
    index = _positions(obj, n)
    single = index.ndim == 0 or index.size == 1
    values = astype(as_array(values), arr.dtype, copy=False)
    before = (slice(None),) * axis
    if single:
        at = operator.index(index.reshape(-1)[0])
        if not -n <= at <= n:
            raise IndexError(
                f"index {at} is out of bounds for axis {axis} with size {n}"
            )
        at = at + n if at < 0 else at
        if values.ndim < arr.ndim:
            values = reshape(values, (1,) * (arr.ndim - values.ndim) + values.shape)
        if index.ndim == 0:
            values = moveaxis(values, 0, axis)
        shape = tuple(
            values.shape[d] if d == axis else m for d, m in enumerate(arr.shape)
        )
        values = expanded(values, shape)
        return concat([arr[(*before, slice(0, at))], values, arr[(*before, slice(at, None))]],
                      axis=axis)  # fmt: skip
    if index.size == 0:
        return arr.copy()
    index = np.where(index < 0, index + n, index).astype(np.int64)
    if index.min() < 0 or index.max() > n:
        raise IndexError(f"insert: an index is out of bounds for axis {axis} with size {n}")
    order = np.argsort(index, kind="stable")
    index[order] += np.arange(index.size)
    stays = np.ones(n + index.size, bool)
    stays[index] = False
    place = np.empty(n + index.size, np.int64)  # of each result, its place in [arr, values]
    place[stays], place[index] = np.arange(n), n + np.arange(index.size)
    shape = tuple(index.size if d == axis else m for d, m in enumerate(arr.shape))
    return take_known(concat([arr, expanded(values, shape)], axis=axis), place, axis)


def _positions(obj: Any, n: int) -> np.ndarray:
    if isinstance(obj, slice):
        return np.arange(*obj.indices(n))
    index = np.asarray(_whole.known(obj, "an index"))
    if index.dtype == bool and index.ndim == 1:
        return np.flatnonzero(index)
    if index.size and index.dtype.kind not in "iu":
        raise IndexError(f"an index is an integer, not {index.dtype}")
    return index.astype(np.int64)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Array:
    """Without the entries at indices along an axis (None: of the flat array). IndexError for
    indices out of range. Shape: shorter along the axis. dtype: that of arr. Errors: AxisError,
    IndexError. Collective. Gathers: obj."""
    arr = as_array(arr)
    if axis is None:
        arr, axis = reshape(arr, (-1,)), 0
    axis = axis_of(axis, arr.ndim)
    n = arr.shape[axis]
    given = np.asarray(_whole.known(obj, "an index")) if not isinstance(obj, slice) else None
    if given is not None and given.dtype == bool and given.shape != (n,):
        raise ValueError(
            f"boolean array argument obj to delete must be one-dimensional and match the axis "
            f"length of {n}"
        )
    index = _positions(obj, n)
    if index.size and (index.min() < -n or index.max() >= n):
        raise IndexError(f"delete: an index is out of bounds for axis {axis} with size {n}")
    stays = np.ones(n, bool)
    stays[index] = False
    return take_known(arr, np.flatnonzero(stays), axis)


def resize(a: Any, new_shape: Any) -> Array:
    """In another shape, the elements repeated in C order to fill it. dtype: its own. Errors:
    ValueError (a negative length). Collective. Gathers: no."""
    shape = (new_shape,) if hasattr(new_shape, "__index__") else tuple(new_shape)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    flat = reshape(as_array(a), (-1,))
    size = int(np.prod(shape, dtype=np.int64))
    if not flat.size or not size:
        return full(shape, 0, dtype=flat.dtype)
    times = -(-size // flat.size)
    return reshape(concat([flat] * times, axis=0)[:size], shape).copy()


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Array:
    """Without zeros at the front ('f') and back ('b') of every axis; a view. Shape: shorter. dtype:
    its own. Errors: ValueError (`trim`), AxisError. Collective. Gathers: no."""
    filt = as_array(filt)
    trim = trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    axes = range(filt.ndim) if axis is None else np.atleast_1d(axis).tolist()
    axes = {axis_of(a, filt.ndim) for a in axes}
    from ._reductions import max as max_of
    from ._reductions import min as min_of

    found = nonzero(filt)
    key = []
    for d, (at, n) in enumerate(zip(found, filt.shape, strict=True)):
        if d not in axes:
            key.append(slice(None))
        elif not at.size:
            key.append(slice(0, 0))
        else:
            low = int(min_of(at)) if "f" in trim else 0
            key.append(slice(low, int(max_of(at)) + 1 if "b" in trim else n))
    return filt[tuple(key)]


# ---- borders -------------------------------------------------------------------------------------


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """With borders along each axis, as numpy.pad. Borders of constants and repeated elements are
    written where they belong; other modes turn the array until each axis is whole. Shape: longer
    by the borders. dtype: its own. Errors: ValueError (mode or widths), TypeError (widths).
    Collective. Gathers: no; a 1-d array with another mode than 'constant', 'edge', 'wrap',
    'reflect' and 'symmetric', yes."""
    array = as_array(array)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(d, pad_width.get(d - array.ndim, (0, 0)))
                     for d in range(array.ndim)]  # fmt: skip
        pad_width = [(w, w) if hasattr(w, "__index__") else w for w in pad_width]
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    widths = np.broadcast_to(widths, (array.ndim, 2)).tolist() if array.ndim else []
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    if callable(mode) or mode not in _PLACES and mode != "constant" or set(kwargs) - _SIMPLE:
        if callable(mode):
            raise _whole.NotDistributed("pad with a function: use x.numpy()")
        return _padded_by_lines(array, widths, mode, kwargs)
    if mode == "constant":
        return _with_constants(array, widths, kwargs.get("constant_values", 0))
    if kwargs.get("reflect_type", "even") != "even":
        return _padded_by_lines(array, widths, mode, kwargs)
    for d, (before, after) in enumerate(widths):
        if before or after:
            n = array.shape[d]
            if not n:
                raise ValueError(
                    f"can't extend empty axis {d} using modes other than 'constant' or 'empty'"
                )
            index = np.pad(np.arange(n), (before, after), mode=mode)
            array = take_known(array, index, d)
    return array if any(map(any, widths)) else array.copy()


_PLACES = ("edge", "wrap", "reflect", "symmetric")
_SIMPLE = {"constant_values", "reflect_type"}


def _with_constants(array: Array, widths: list, values: Any) -> Array:
    values = np.broadcast_to(np.asarray(values), (array.ndim, 2))
    shape = tuple(n + a + b for n, (a, b) in zip(array.shape, widths, strict=True))
    layout = new_layout(shape, array.dtype)

    def fill(block: np.ndarray, box: Any) -> None:
        block[...] = 0
        for d, ((before, after), n) in enumerate(zip(widths, array.shape, strict=True)):
            low, high = box[d]
            cut = [slice(None)] * block.ndim
            cut[d] = slice(0, max(min(before, high) - low, 0))
            block[tuple(cut)] = values[d, 0].astype(block.dtype)
            cut[d] = slice(max(min(before + n, high) - low, 0), None)
            block[tuple(cut)] = values[d, 1].astype(block.dtype)

    out = made(layout, array.dtype, fill)
    key = tuple(slice(a, a + n) for n, (a, _) in zip(array.shape, widths, strict=True))
    if array.ndim and array.size:
        setitem(out, key, array)
    return out if array.ndim else array.copy()


def _padded_by_lines(array: Array, widths: list, mode: Any, kwargs: dict[str, Any]) -> Array:
    for value in kwargs.values():
        if not isinstance(value, (int, float, str, type(None))):
            raise _whole.NotDistributed("pad with values for each axis: use x.numpy()")
    for d, pair in enumerate(widths):
        pairs = [tuple(pair) if k == d else (0, 0) for k in range(array.ndim)]
        if any(pair):
            array = _lines.mapped(array, d, lambda b, p=pairs: np.pad(b, p, mode=mode, **kwargs))
    return array if any(map(any, widths)) else array.copy()


# ---- bits ----------------------------------------------------------------------------------------


def packbits(
    a: Any, axis: int | None = None, bitorder: Literal["big", "little"] = "big"
) -> Array:
    """Bits along an axis as bytes: uint8. Shape: an eighth along the axis. dtypes: of bool or whole
    numbers. Errors: TypeError (another dtype), AxisError. Collective. Gathers: 1-d arrays, yes."""
    a = as_array(a)
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    if a.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    return _lines.mapped(a, axis, lambda b: np.packbits(b, axis, bitorder))


def unpackbits(
    a: Any,
    axis: int | None = None,
    count: int | None = None,
    bitorder: Literal["big", "little"] = "big",
) -> Array:
    """Bytes as bits along an axis: uint8, 0 or 1. Shape: eight times along the axis, or `count`.
    dtype of a: uint8. Errors: TypeError (another dtype), AxisError. Collective. Gathers: 1-d
    arrays, yes."""
    a = as_array(a)
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    if a.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    along: Any = axis
    return _lines.mapped(a, axis, lambda b: np.unpackbits(b, along, count, bitorder))


# ---- positions -----------------------------------------------------------------------------------


def argwhere(a: Any) -> Array:
    """The indices of elements that are not zero, one row each: (n, ndim), int64. Of any shape and
    dtype. Errors: TypeError (no array). Collective. Gathers: no."""
    a = as_array(a)
    if not a.ndim:
        raise _whole.NotDistributed("argwhere of a 0-d array")
    return _manipulation.stack(nonzero(a), axis=1)


def flatnonzero(a: Any) -> Array:
    """The indices, in the flat array, of elements that are not zero. Of any shape and dtype; gives
    int64. Errors: TypeError (no array). Collective. Gathers: no."""
    return nonzero(reshape(as_array(a), (-1,)))[0]


def diag_indices_from(arr: Any) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array whose axes have equal lengths. Of any dtype;
    gives int64. Errors: ValueError (fewer than 2 dimensions, or lengths differ). Collective.
    Gathers: no."""
    if as_array(arr).ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(arr.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    return tuple(of_numpy(i) for i in np.diag_indices(arr.shape[0], arr.ndim))


def _triangle_of(name: str, arr: Any, k: int) -> tuple[Array, ...]:
    if as_array(arr).ndim != 2:
        raise ValueError("input array must be 2-d")
    return tuple(of_numpy(i) for i in getattr(np, name)(arr.shape[0], k, arr.shape[1]))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, ...]:
    """The indices of the lower triangle of a matrix. Shape: (count,) each. dtype: int64. Errors:
    ValueError (not 2-d). Collective. Gathers: no."""
    return _triangle_of("tril_indices", arr, k)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, ...]:
    """The indices of the upper triangle of a matrix. Shape: (count,) each. dtype: int64. Errors:
    ValueError (not 2-d). Collective. Gathers: no."""
    return _triangle_of("triu_indices", arr, k)


def diagflat(v: Any, k: int = 0) -> Array:
    """The matrix with the flat array on diagonal k. Shape: (n + |k|, n + |k|) of n elements. dtype:
    its own. Errors: TypeError (no array). Collective. Gathers: no."""
    from ._more import diag

    return diag(reshape(as_array(v), (-1,)), k)


