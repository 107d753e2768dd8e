"""Sums and their like: each rank reduces its block, then partial results are combined in the order
of the ranks, so that all ranks get the same bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod as product_of
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from . import _exchange, _layout
from ._array import (
    Array,
    as_array,
    axes_of,
    axis_of,
    empty_block,
    in_layout,
    new_layout,
    of_numpy,
    undivided,
    works,
)
from ._elementwise import agreed, apply, inexact
from ._info import check_dtype
from ._layout import Layout
from ._types import Axes, Block, Operand


def _finish(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Drops the reduced axes, which have length 1."""
    if keepdims or not axes:
        return x
    key = tuple(0 if d in axes else (0, n, 1) for d, n in enumerate(x.shape))
    if len(axes) == x.ndim:  # all ranks have it
        return Array(in_layout(x, _layout.whole(x.shape, _exchange.ranks())).reshape(()),
                     _layout.whole((), _exchange.ranks()))  # fmt: skip
    from ._indexing import view

    out = view(x, key)
    return Array(out._evaluate(), out.layout)


def _reduce(
    x: Array, axis: Axes, keepdims: bool, ufunc: np.ufunc, keep: bool | None = None, **options: Any
) -> Array:
    """Along axes. An expression is reduced while it is computed; keep: Expression.reduce."""
    axes = axes_of(axis, x.ndim)
    works(x)

    def reduced() -> Block:
        if x._block is None:
            return x._expression.reduce(ufunc, axes, keep, **options)
        block = x._block if x._block.size or x.layout.whole else np.zeros((1,) * x.ndim, x.dtype)
        return ufunc.reduce(block, axis=axes, keepdims=True, **options)

    partial = agreed(reduced, x.layout.whole)
    if x.layout.whole:
        return of_whole(partial, axes, keepdims)
    layout = _layout.reduced(x.layout, axes, True)
    if not _layout.volume(x.layout.boxes[_exchange.job().rank]):
        partial = empty_block(layout, partial.dtype)
    if not _layout.divided(x.layout, axes):
        return _finish(Array(partial, layout), axes, keepdims)
    target = new_layout(layout.shape, partial.dtype)
    whole = stacked(partial, layout, target)
    if whole is not None:
        return of_whole(ufunc.reduce(whole, axis=0, dtype=partial.dtype), axes, keepdims)
    parts = _exchange.bring(partial, layout, target)

    def combined() -> Block:
        out = empty_block(target, partial.dtype)
        seen = np.zeros(out.shape, bool)
        for box, part in parts:
            out[box] = np.where(seen[box], ufunc(out[box], part), part)
            seen[box] = True
        return out

    return _finish(Array(agreed(combined), target), axes, keepdims)


def stacked(partial: Block, layout: Layout, target: Layout) -> Block | None:
    """The partial results of all ranks with elements, which each cover the result, in the order of
    ranks; None if they are large, or the result is divided. Collective unless None."""
    most = partial.dtype.itemsize * product_of(layout.shape) * len(layout.boxes)
    holders = [at for at, box in enumerate(layout.boxes) if _layout.volume(box)]
    full = tuple((0, n) for n in layout.shape)
    covering = {layout.boxes[at] for at in holders} == {full}
    if not target.whole or most > _exchange.MOST_STACKED or not covering:
        return None
    if _exchange.job().rank not in holders:
        partial = np.zeros(layout.shape, partial.dtype)
    return _exchange.of_all(partial)[holders]


def of_whole(block: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    """The result of a reduction that every rank did alone."""
    block = np.asarray(block)
    if not keepdims:
        block = block.reshape(tuple(n for d, n in enumerate(block.shape) if d not in axes))
    return Array(block, _layout.whole(block.shape, _exchange.ranks()))


def _sum_dtype(x: Array, dtype: DTypeLike | None) -> np.dtype[Any]:
    """As NumPy: small integers sum in 64 bits."""
    if dtype is not None:
        return check_dtype(dtype)
    if x.dtype.kind in "bi":
        return np.dtype("int64")
    return np.dtype("uint64") if x.dtype.kind == "u" else x.dtype


def sum(
    x: Operand,
    /,
    *,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> Array:
    """The sum along axes (None: all). Shape: without these axes, or with length 1 if keepdims.
    dtype: `dtype`; by default that of x, 64 bits for whole numbers. Errors: TypeError (no
    array), AxisError. Collective. Gathers: no."""
    x = as_array(x)
    return _reduce(x, axis, keepdims, np.add, dtype=_sum_dtype(x, dtype))


def prod(
    x: Operand,
    /,
    *,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> Array:
    """The product along axes (None: all). Shape: without these axes, or with length 1 if keepdims.
    dtype: `dtype`; by default that of x, 64 bits for whole numbers. Errors: TypeError (no
    array), AxisError. Collective. Gathers: no."""
    x = as_array(x)
    return _reduce(x, axis, keepdims, np.multiply, dtype=_sum_dtype(x, dtype))


def min(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The least along axes (None: all). Shape: without these axes, or with length 1 if keepdims.
    dtype: that of x. Errors: TypeError (no array), AxisError, ValueError (no elements).
    Collective. Gathers: no."""
    x = as_array(x)
    return _reduce(x, axis, keepdims, np.minimum)


def max(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The greatest along axes (None: all). Shape: without these axes, or with length 1 if keepdims.
    dtype: that of x. Errors: TypeError (no array), AxisError, ValueError (no elements).
    Collective. Gathers: no."""
    x = as_array(x)
    return _reduce(x, axis, keepdims, np.maximum)


def all(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether all elements along axes are true. Shape: without these axes, or with length 1 if
    keepdims. dtype: bool. Errors: TypeError (no array), AxisError. Collective. Gathers: no."""
    x = as_array(x)
    return _reduce(x, axis, keepdims, np.logical_and, dtype=np.bool_)


def any(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether some element along axes is true. Shape: without these axes, or with length 1 if
    keepdims. dtype: bool. Errors: TypeError (no array), AxisError. Collective. Gathers: no."""
    x = as_array(x)
    return _reduce(x, axis, keepdims, np.logical_or, dtype=np.bool_)


def count_nonzero(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """How many elements along axes are not zero. Shape: without these axes, or with length 1 if
    keepdims. dtype: int64. Errors: TypeError (no array), AxisError. Collective. Gathers: no."""
    return _reduce(as_array(x) != 0, axis, keepdims, np.add, dtype=np.dtype("int64"))


def _count(x: Array, axis: Axes) -> int:
    return int(np.prod([x.shape[d] for d in axes_of(axis, x.ndim)], dtype=np.int64))


def mean(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The mean along axes (None: all). Shape: without these axes, or with length 1 if keepdims.
    dtype: that of x, float64 for whole numbers; real of complex numbers but for the mean.
    Errors: TypeError (no array), AxisError. Collective. Gathers: no."""
    return _mean(inexact(as_array(x)), axis, keepdims)


def _mean(x: Array, axis: Axes, keepdims: bool, keep: bool | None = None) -> Array:
    total = _reduce(x, axis, keepdims, np.add, keep)
    return apply(np.divide, total, float(_count(x, axis)))


def var(
    x: Operand, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The variance along axes (None: all). Shape: without these axes, or with length 1 if keepdims.
    dtype: that of x, float64 for whole numbers; real of complex numbers but for the mean.
    Errors: TypeError (no array), AxisError. Collective. Gathers: no."""
    x = inexact(as_array(x))
    center, real = _mean(x, axis, True, keep=True), np.empty(0, x.dtype).real.dtype
    sizes = apply(_square_size, x - center, dtype=real)
    total = _reduce(sizes, axis, keepdims, np.add, keep=False)
    count = _count(x, axis) - correction
    return apply(np.divide, total, float(count if count > 0 else 0))


def _square_size(x: Block, out: Block) -> None:
    if x.dtype.kind == "c":
        np.add(np.square(x.real), np.square(x.imag), out=out)
    else:
        np.square(x, out=out)


def std(
    x: Operand, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The standard deviation along axes (None: all). Shape: without these axes, or with length 1 if
    keepdims. dtype: that of x, float64 for whole numbers; real of complex numbers but for the
    mean. Errors: TypeError (no array), AxisError. Collective. Gathers: no."""
    return apply(np.sqrt, var(x, axis=axis, correction=correction, keepdims=keepdims))


# ---- positions -----------------------------------------------------------------------------------


def _where_best(
    x: Operand,
    axis: SupportsIndex | None,
    keepdims: bool,
    function: Callable[..., Any],
    better: np.ufunc,
) -> Array:
    x = as_array(x)
    axis = None if axis is None else axis_of(axis, x.ndim)  # one only
    axes = axes_of(axis, x.ndim)
    block = x._evaluate()
    if x.layout.whole:
        return of_whole(function(block, axis=axis, keepdims=True), axes, keepdims)
    layout = _layout.reduced(x.layout, axes, True)
    values, places = empty_block(layout, x.dtype), empty_block(layout, np.dtype("int64"))
    if block.size:
        box = x.layout.boxes[_exchange.job().rank]
        found = function(block, axis=axis, keepdims=True)
        if axis is None:
            at_best = np.unravel_index(int(found.reshape(())), block.shape)
            values[...] = block[at_best]
            places[...] = np.ravel_multi_index(
                [i + low for i, (low, _) in zip(at_best, box, strict=True)], x.shape
            )
        else:
            values[...] = np.take_along_axis(block, found, axes[0])
            places[...] = found + box[axes[0]][0]
    if not _layout.divided(x.layout, axes):
        return _finish(Array(places, layout), axes, keepdims)
    target = new_layout(layout.shape, x.dtype)
    best, where = empty_block(target, x.dtype), empty_block(target, places.dtype)
    seen = np.zeros(best.shape, bool)
    value_parts = _exchange.bring(values, layout, target)
    place_parts = _exchange.bring(places, layout, target)
    for (at, value), (_, place) in zip(value_parts, place_parts, strict=True):
        old, old_place = best[at], where[at]
        same = (value == old) | (_is_nan(value) & _is_nan(old))
        wins = ~seen[at] | np.where(same, place < old_place, _beats(value, old, better))
        best[at], where[at] = np.where(wins, value, old), np.where(wins, place, old_place)
        seen[at] = True
    return _finish(Array(where, target), axes, keepdims)


def _is_nan(values: Block) -> Block:
    return values != values


def _beats(value: Block, old: Block, better: np.ufunc) -> Block:
    return _is_nan(value) | (better(value, old) & ~_is_nan(old))


def argmax(x: Operand, /, *, axis: SupportsIndex | None = None, keepdims: bool = False) -> Array:
    """Where the greatest element is; the first of several. Shape: without these axes, or with
    length 1 if keepdims. dtype: int64. Errors: TypeError (no array), AxisError, ValueError (no
    elements). Collective. Gathers: no."""
    return _where_best(x, axis, keepdims, np.argmax, np.greater)


def argmin(x: Operand, /, *, axis: SupportsIndex | None = None, keepdims: bool = False) -> Array:
    """Where the least element is; the first of several. Shape: without these axes, or with length 1
    if keepdims. dtype: int64. Errors: TypeError (no array), AxisError, ValueError (no elements).
    Collective. Gathers: no."""
    return _where_best(x, axis, keepdims, np.argmin, np.less)


# ---- cumulative ----------------------------------------------------------------------------------


def _cumulative(
    x: Operand,
    axis: SupportsIndex | None,
    dtype: DTypeLike | None,
    include_initial: bool,
    ufunc: np.ufunc,
) -> Array:
    from ._indexing import in_order
    from ._manipulation import concat, reshape

    x = as_array(x)
    if axis is None:
        x = x if x.ndim else reshape(x, (1,))
        if x.ndim != 1:
            raise ValueError(f"name the axis of an array of {x.ndim} dimensions")
        axis = 0
    axis, dtype = axis_of(axis, x.ndim), _sum_dtype(x, dtype)
    x = in_order(x) if x.ndim == 1 else undivided(x, (axis,))
    if x.ndim == 1 and not x.layout.whole and ufunc is np.multiply and dtype.kind in "fc":
        block = _in_turn(x._evaluate(), x.layout, dtype)
    else:
        block = accumulated(x, axis, dtype, ufunc)
        if x.ndim == 1 and not x.layout.whole:
            block = _continued(block, x.layout, ufunc)
    out = Array(block, x.layout)
    if include_initial:
        shape = tuple(1 if d == axis else n for d, n in enumerate(x.shape))
        first = of_numpy(np.full(shape, ufunc.identity, dtype))
        out = concat([first, out], axis=axis)
    return out


def accumulated(x: Array, axis: int, dtype: Any, ufunc: np.ufunc) -> Block:
    """The own block, accumulated along an axis."""
    block = x._evaluate()
    return agreed(lambda: ufunc.accumulate(block, axis=axis, dtype=dtype), x.layout.whole)


def _in_turn(block: Block, layout: Layout, dtype: np.dtype[Any]) -> Block:
    """Cumulative products, one rank after the other as NumPy has them: a product of a later rank's
    elements alone may overflow where the whole one does not."""
    me, total = _exchange.job().rank, np.ones(1, dtype)
    for rank, box in enumerate(layout.boxes):
        if not _layout.volume(box):
            continue
        values = np.concatenate((total, block)) if rank == me else total
        found = agreed(partial(np.multiply.accumulate, values, dtype=dtype))
        block = found[1:] if rank == me else block
        told = np.zeros(16, np.uint8)
        told[: dtype.itemsize] = (block[-1:] if rank == me else total).view(np.uint8)
        told = _exchange.agree(told.view(np.int64))[rank]
        total = np.ascontiguousarray(told).view(np.uint8)[: dtype.itemsize].copy().view(dtype)
    return block


def _continued(block: Block, layout: Layout, ufunc: np.ufunc) -> Block:
    """Combines a 1-d cumulative block with the totals of the ranks before."""
    has = [_layout.volume(box) > 0 for box in layout.boxes]
    cuts = np.concatenate(([0], np.cumsum(has))).tolist()
    totals = _exchange.bring(
        block[-1:], _layout.along((cuts[-1],), 0, cuts),
        _layout.whole((cuts[-1],), len(has)),
    )  # fmt: skip
    before = cuts[_exchange.job().rank]

    def continued() -> Block:
        if not before or not block.size:
            return block
        earlier = np.empty(cuts[-1], block.dtype)
        for box, part in totals:
            earlier[box] = part
        # Small integers would be summed in 64 bits.
        return ufunc(block, ufunc.accumulate(earlier[:before], dtype=block.dtype)[-1])

    return agreed(continued)


def cumulative_sum(
    x: Operand,
    /,
    *,
    axis: SupportsIndex | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Sums of ever more elements along an axis. Shape: that of x, one longer with include_initial.
    dtype: `dtype`; by default that of x, 64 bits for whole numbers. Errors: TypeError (no
    array), AxisError, ValueError (no axis of several dimensions). Collective. Gathers: no."""
    return _cumulative(x, axis, dtype, include_initial, np.add)


def cumulative_prod(
    x: Operand,
    /,
    *,
    axis: SupportsIndex | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Products of ever more elements along an axis. Shape: that of x, one longer with
    include_initial. dtype: `dtype`; by default that of x, 64 bits for whole numbers. Errors:
    TypeError (no array), AxisError, ValueError (no axis of several dimensions). Collective.
    Gathers: no."""
    return _cumulative(x, axis, dtype, include_initial, np.multiply)
