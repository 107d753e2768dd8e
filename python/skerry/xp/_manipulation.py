"""Shapes and order: views where no element moves, new arrays where some do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

import skerry as sk

from . import _exchange, _layout, _twins
from ._array import (
    Array,
    as_array,
    axes_of,
    axis_of,
    empty_block,
    flat_layout,
    forget_ahead,
    gathered,
    in_layout,
    new_layout,
    may_not_write,
    shows,
)
from ._elementwise import functions
from ._indexing import in_order, setitem, take_known, view
from ._layout import Layout
from ._whole import everywhere, some_array
from ._types import Axes, Block, Operand, Shape, ShapeLike


def _all(shape: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    return tuple((0, n, 1) for n in shape)


def broadcast_to(x: Operand, /, shape: int | Sequence[int]) -> Array:
    """x repeated along new axes and those of length 1, not to be written: a view, or a copy that
    follows x. dtype: that of x. Errors: TypeError (no array), ValueError (shapes do not fit).
    Collective. Gathers: no."""
    x = as_array(x)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
    if x.layout.whole:
        out = Array(np.broadcast_to(x._evaluate(), shape), _whole(shape), x._memory)
        out._frozen = True
        return out
    out = expanded(x, shape)
    if out is x:
        out = view(x, _all(x.shape))
        out._frozen = True
        return out
    like = np.broadcast_to(_twins.twin(x), shape)
    return shows(out, x, lambda it: expanded(it, shape), like, fixed=True)


def expanded(x: Operand, shape: Shape) -> Array:
    """x repeated along new axes and those of length 1: x itself, or a copy. Collective."""
    x = as_array(x)
    if np.broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"shape {x.shape} does not broadcast to {shape}")
    if x.shape == shape:
        return x
    layout = new_layout(shape, x.dtype)
    part = in_layout(x, _layout.operand(layout, x.shape))
    extent = layout.extent(_exchange.job().rank)
    if 0 in extent:
        return Array(np.empty(extent, x.dtype), layout)
    return Array(np.broadcast_to(part, extent).copy(), layout)


def broadcast_arrays(*arrays: Operand) -> list[Array]:
    """All arrays, broadcast against each other. Shapes: all alike; dtypes: their own. Errors:
    TypeError (no array), ValueError (shapes do not fit). Collective. Gathers: no."""
    taken = [as_array(x) for x in arrays]
    shape = np.broadcast_shapes(*[x.shape for x in taken])
    return [broadcast_to(x, shape) for x in taken]


def expand_dims(x: Operand, /, axis: SupportsIndex | Sequence[SupportsIndex]) -> Array:
    """A new axis of length 1; a view. dtype: that of x. Errors: TypeError (no array), AxisError,
    ValueError (an axis twice). Collective. Gathers: no."""
    x = as_array(x)
    new: Sequence[Any] = axis if isinstance(axis, tuple | list) else (axis,)
    axes = axes_of(new, x.ndim + len(new))
    key: list[tuple[int, int, int] | None] = list(_all(x.shape))
    for d in axes:
        key.insert(d, None)
    return view(x, tuple(key))


def squeeze(x: Operand, /, axis: SupportsIndex | Sequence[SupportsIndex]) -> Array:
    """x without axes of length 1; a view, or without any axis a copy. dtype: that of x. Errors:
    TypeError (no array), AxisError, ValueError (another length). Collective. Gathers: no."""
    x = as_array(x)
    axes = axes_of(axis, x.ndim)
    for d in axes:
        if x.shape[d] != 1:
            raise ValueError(f"squeeze: axis {d} has length {x.shape[d]}, not 1")
    return _without(x, axes)


def _without(x: Array, axes: tuple[int, ...]) -> Array:
    if not axes:
        return x
    if len(axes) == x.ndim:
        if x.layout.whole:
            return Array(x._evaluate().reshape(()), x.layout, x._memory)
        return Array(in_layout(x, _whole(x.shape)).reshape(()).copy(), _whole(()))
    return view(x, tuple(0 if d in axes else (0, n, 1) for d, n in enumerate(x.shape)))


def permute_dims(x: Operand, /, axes: Sequence[SupportsIndex]) -> Array:
    """Axes in another order; a view. Shape: in that order; dtype: that of x. Errors: TypeError (no
    array), AxisError, ValueError (no order of the axes). Collective. Gathers: no."""
    x = as_array(x)
    order = tuple(axis_of(a, x.ndim) for a in axes)
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"permute_dims: {order} is no order of {x.ndim} axes")
    if not order:
        return x
    return _permuted(x, order)


def _permuted(x: Array, axes: tuple[int, ...]) -> Array:
    block, layout = x._evaluate().transpose(axes), _layout.permuted(x.layout, axes)
    return Array(block, layout, x._memory, (_permuted, x, axes))


_twins.makers[_permuted] = np.transpose


def matrix_transpose(x: Operand, /) -> Array:
    """The last two axes exchanged; a view. Shape: in that order; dtype: that of x. Errors:
    TypeError (no array), ValueError (fewer than 2 dimensions). Collective. Gathers: no."""
    x = as_array(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose takes at least 2 dimensions: this has {x.ndim}")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def moveaxis(x: Operand, source: Any, destination: Any, /) -> Array:
    """Some axes elsewhere; a view. Shape: in that order; dtype: that of x. Errors: TypeError (no
    array), AxisError, ValueError (axes do not pair). Collective. Gathers: no."""
    x = as_array(x)
    sources = [axis_of(a, x.ndim) for a in np.atleast_1d(source)]
    targets = [axis_of(a, x.ndim) for a in np.atleast_1d(destination)]
    if len(sources) != len(targets) or len(set(sources)) != len(sources):
        raise ValueError(f"moveaxis: {source} and {destination} do not pair")
    order = [d for d in range(x.ndim) if d not in sources]
    for target, from_ in sorted(zip(targets, sources, strict=True)):
        order.insert(target, from_)
    return permute_dims(x, order)


def flip(x: Operand, /, *, axis: Axes = None) -> Array:
    """Order along axes reversed; a view. Shape and dtype: those of x. Errors: TypeError (no array),
    AxisError. Collective. Gathers: no."""
    x = as_array(x)
    axes = axes_of(axis, x.ndim)
    key = tuple((n - 1, n, -1) if d in axes else (0, n, 1) for d, n in enumerate(x.shape))
    return view(x, key) if key else x


def reshape(x: Operand, /, shape: ShapeLike, *, copy: bool | None = None) -> Array:
    """The elements in C order in another shape; a view where nothing moves. One length may be -1.
    dtype: that of x. Errors: TypeError (no array), ValueError (another number of elements, or a
    copy is needed). Collective. Gathers: no."""
    x = as_array(x)
    shape = _wanted_shape(x, (shape,) if isinstance(shape, SupportsIndex) else tuple(shape))
    if x.shape == shape:
        return x.copy() if copy else x
    if x.layout.whole:
        block = x._evaluate().reshape(shape)
        shared = np.may_share_memory(block, x._evaluate())
        return _reshaped(x, block, _whole(shape), copy, shared or not block.size)
    like = None
    if not copy and not _twins.is_plain(x):
        like = _twins.reshaped(x, shape)
        if like is None:
            if copy is False:
                raise ValueError(f"reshape {x.shape} to {shape} of this view needs a copy")
            copy = True  # as NumPy does
    ordered = in_order(x)
    target = flat_layout(shape, x.dtype)
    same = _same_runs(ordered.layout, shape)
    if same is not None:
        block = ordered._evaluate().reshape(same.extent(_exchange.job().rank))
        shared = ordered.layout == x.layout and _shares_everywhere(block, x)
        return _shown(_reshaped(x, block, same, copy, shared, like), x, copy, like)
    if copy is False:
        raise ValueError(f"reshape {x.shape} to {shape} moves elements: it needs a copy")
    flat = Array(np.ascontiguousarray(ordered._evaluate()).reshape(-1), _flat(ordered.layout))
    block = in_layout(flat, _flat(target))
    if np.may_share_memory(block, x._evaluate()):  # nothing moved here: a copy, as elsewhere
        block = block.copy()
    out = Array(block.reshape(target.extent(_exchange.job().rank)), target)
    return _shown(out, x, copy, like)


def set_shape(x: Array, shape: ShapeLike) -> None:
    """x.shape = shape, of a divided array: its elements may move to other ranks. What shared
    memory with x, as NumPy has it, does not any more: so x may not be written while that lives,
    and follows it."""
    shared = x._memory
    if may_not_write(x):
        raise AttributeError(
            "the shape of a copy of what NumPy shows as a view cannot be set: take x.reshape(shape)"
        )
    if _exchange.on_any_rank(
        shared.source is not None
        or bool(not x._is_view and shared.followers)
        or any(not x._is_view or each._recipe is None or each._recipe[1] is x
               for each in shared.views if each is not x)
    ):  # fmt: skip
        raise AttributeError(
            "the shape of a divided array that has views, or copies of them (reshape, diagonal), "
            "or is an sk.Array, cannot be set: take x.reshape(shape)"
        )
    out = reshape(x, (shape,) if isinstance(shape, SupportsIndex) else shape, copy=True)
    if out.shape == x.shape:
        return
    forget_ahead(shared)
    before = Array(x._evaluate(), x.layout, shared)
    shared.views.discard(x)
    x._is_view, x._recipe, x._strides = False, None, None
    x.layout, x._block, x._memory = out.layout, out._evaluate(), out._memory
    _shown(x, before, None, None)


def _shown(out: Array, x: Array, copy: bool | None, like: Block | None) -> Array:
    """`out`, a reshaped x, which NumPy makes as a view if `copy` does not forbid it. `like`: as of
    shows()."""
    if copy or not out.size or out._memory is x._memory:
        return out
    shape = out.shape
    return shows(out, x, lambda it: reshape(it, shape, copy=True), like, reshapes=True)


def _whole(shape: Shape) -> Layout:
    return _layout.whole(shape, _exchange.ranks())


def _wanted_shape(x: Array, wanted: Sequence[SupportsIndex]) -> Shape:
    shape = tuple(int(n.__index__()) for n in wanted)
    if shape.count(-1) == 1:
        rest = int(np.prod([n for n in shape if n != -1], dtype=np.int64))
        if rest == 0 or x.size % rest:
            raise ValueError(f"cannot reshape {x.shape} to {shape}")
        shape = tuple(x.size // rest if n == -1 else n for n in shape)
    if any(n < 0 for n in shape) or int(np.prod(shape, dtype=np.int64)) != x.size:
        raise ValueError(f"cannot reshape {x.shape}, of {x.size} elements, to {shape}")
    return shape


def _shares_everywhere(block: Block, x: Array) -> bool:
    """Whether the own block of a reshaped x shows x's memory on every rank: a single row may where
    several do not. Collective."""
    return everywhere(not block.size or np.may_share_memory(block, x._evaluate()))


def _reshaped(
    x: Array,
    block: Block,
    layout: Layout,
    copy: bool | None,
    shared: bool,
    like: Block | None = None,
) -> Array:
    """`shared`: the same on all ranks. `like`: as of shows()."""
    if copy is False and not shared:
        raise ValueError("this reshape needs a copy")
    if copy or not shared:
        block = block.copy() if np.may_share_memory(block, x._evaluate()) else block
        return Array(block, layout)
    out = Array(block, layout, x._memory)
    out._frozen = x._frozen
    out._strides = None if like is None else like.strides
    return out


def _flat(layout: Layout) -> Layout:
    """A layout of runs of whole rows, as one of the flat array."""
    if layout.whole:
        return _whole((int(np.prod(layout.shape, dtype=np.int64)),))
    row = int(np.prod(layout.shape[1:], dtype=np.int64))
    return _layout.Layout(
        (layout.shape[0] * row,),
        tuple(((box[0][0] * row, box[0][1] * row),) for box in layout.boxes),
    )


def _same_runs(layout: Layout, shape: Shape) -> Layout | None:
    """The layout of the new shape with every rank's elements where they are; None if some rank's
    do not form whole entries of the first axis."""
    flat = _flat(layout)
    if not shape:
        return None
    row = int(np.prod(shape[1:], dtype=np.int64))
    boxes = []
    for ((low, high),) in flat.boxes:
        if low % row or high % row:
            return None
        full = tuple((0, n) for n in shape[1:])
        empty = ((0, 0),) * len(full)
        boxes.append(((low // row, high // row), *(full if high > low else empty)))
    return _layout.Layout(shape, tuple(boxes))


def concat(arrays: Sequence[Any], /, *, axis: SupportsIndex | None = 0) -> Array:
    """Arrays one after another along an axis (None: flat). Shape: lengths along the axis add up,
    the others are alike. dtype: what holds all. Errors: TypeError (no array), AxisError,
    ValueError (none, or shapes differ). Collective. Gathers: no."""
    arrays = [_listed(x) for x in arrays]
    if not arrays:
        raise ValueError("concat takes at least one array")
    if axis is None:
        arrays, axis = [reshape(x, (-1,)) if x.size else reshape(x, (0,)) for x in arrays], 0
    first = arrays[0]
    axis = axis_of(axis, first.ndim)
    for x in arrays:
        if x.ndim != first.ndim or x.shape[:axis] + x.shape[axis + 1 :] != (
            first.shape[:axis] + first.shape[axis + 1 :]
        ):
            raise ValueError(
                f"concat: shapes {first.shape} and {x.shape} differ beside axis {axis}"
            )
    dtype = np.result_type(*[x.dtype for x in arrays])
    length = sum(x.shape[axis] for x in arrays)
    shape = tuple(length if d == axis else n for d, n in enumerate(first.shape))
    # Where no part is divided along the axis, as in a stack, nothing has to move.
    stays = any(not x.layout.whole for x in arrays) and not any(
        _layout.divided(x.layout, (axis,)) for x in arrays
    )
    layout = new_layout(shape, dtype, fixed=(axis,) if stays else ())
    out, at = Array(empty_block(layout, dtype), layout), 0
    for x in arrays:
        end = at + x.shape[axis]
        setitem(out, (slice(None),) * axis + (slice(at, end),), x)
        at = end
    return out


def stack(arrays: Sequence[Any], /, *, axis: SupportsIndex = 0) -> Array:
    """Arrays of one shape along a new axis. dtype: what holds all. Errors: TypeError (no array),
    AxisError, ValueError (shapes differ). Collective. Gathers: no."""
    arrays = [_listed(x) for x in arrays]
    if any(x.shape != arrays[0].shape for x in arrays):
        raise ValueError(f"stack: shapes differ: {[x.shape for x in arrays]}")
    axis = axis_of(axis, arrays[0].ndim + 1)
    return concat([expand_dims(x, axis) for x in arrays], axis=axis)


def of_sequence(value: Any) -> Any:
    """The array that NumPy makes of a list or tuple with arrays in it; anything else as it is.
    Errors: ValueError (shapes differ). Collective."""
    if not isinstance(value, (list, tuple)) or not some_array(value):
        return value
    return stack([array_of(each) for each in value])


def array_of(value: Any) -> Array:
    """An array of what is one already, of data that every rank has, or of a list of arrays.
    Collective if some of these are divided."""
    value = of_sequence(value)
    taken = isinstance(value, (Array, np.ndarray, np.generic, sk.Array))
    return as_array(value if taken else np.asarray(value))


def _listed(value: Any) -> Array:
    return array_of(value) if isinstance(value, (list, tuple)) else as_array(value)


def unstack(x: Operand, /, *, axis: SupportsIndex = 0) -> tuple[Array, ...]:
    """The entries of an axis, as a tuple of views. Shape: without the axis; dtype: that of x.
    Errors: TypeError (no array), AxisError, ValueError (no dimension). Collective. Gathers: no."""
    x = as_array(x)
    if not x.ndim:
        raise ValueError("unstack takes at least one dimension")
    axis = axis_of(axis, x.ndim)
    return tuple(x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis]))


def roll(x: Operand, /, shift: int | Sequence[int], *, axis: Axes = None) -> Array:
    """Elements moved along axes; what leaves at the end comes back at the beginning. Shape and
    dtype: those of x. Errors: TypeError (no array), AxisError. Collective. Gathers: no."""
    x = as_array(x)
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape) if x.size else x.copy()
    for by, a in np.broadcast(shift, axis):  # type: ignore[arg-type]
        x = _rolled(x, int(by), axis_of(a, x.ndim))
    return x


def _rolled(x: Array, by: int, axis: int) -> Array:
    n = x.shape[axis]
    by = by % n if n else 0
    out = Array(empty_block(x.layout, x.dtype), x.layout)
    before = (slice(None),) * axis
    setitem(out, (*before, slice(by, None)), x[(*before, slice(0, n - by))])
    if by:
        setitem(out, (*before, slice(0, by)), x[(*before, slice(n - by, None))])
    return out


def repeat(x: Operand, repeats: Any, /, *, axis: SupportsIndex | None = None) -> Array:
    """Each element several times. Shape: longer along the axis (None: flat); dtype: that of x.
    Errors: TypeError (no array), AxisError, ValueError (repeats do not fit). Collective.
    Gathers: the repeats."""
    x = as_array(x)
    if axis is None:
        x, axis = reshape(x, (-1,)) if x.size else reshape(x, (0,)), 0
    axis = axis_of(axis, x.ndim)
    times = gathered(repeats, "repeats") if isinstance(repeats, Array) else np.asarray(repeats)
    return take_known(x, np.repeat(np.arange(x.shape[axis]), times), axis)


def tile(x: Operand, repetitions: int | Sequence[int], /) -> Array:
    """The array several times along each axis. Shape: lengths times repetitions; dtype: that of x.
    Errors: TypeError (no array). Collective. Gathers: no."""
    x, times = as_array(x), tuple(int(n) for n in np.atleast_1d(repetitions))
    if len(times) > x.ndim:
        x = reshape(x, (1,) * (len(times) - x.ndim) + x.shape)
    times = (1,) * (x.ndim - len(times)) + times
    for axis, n in enumerate(times):
        if n != 1:
            x = take_known(x, np.tile(np.arange(x.shape[axis]), n), axis)
    return x.copy() if all(n == 1 for n in times) else x


def diff(
    x: Operand, /, *, axis: SupportsIndex = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Array:
    """Differences of neighbours along an axis, n times. Shape: n less along the axis; dtype: that
    of x, bool of bool. Errors: TypeError (no array), AxisError, ValueError (n below 0).
    Collective. Gathers: no."""
    x = as_array(x)
    if n == 0:
        return x
    axis = axis_of(axis, x.ndim)
    if n < 0:
        raise ValueError(f"diff: n is {n}, not at least 0")
    ends = [v for v in (prepend, x, append) if v is not None]
    if len(ends) > 1:
        x = concat(ends, axis=axis)
    before = (slice(None),) * axis
    difference = functions["not_equal" if x.dtype == np.bool_ else "subtract"]
    for _ in range(n):
        x = difference(x[(*before, slice(1, None))], x[(*before, slice(None, -1))])
    return x
