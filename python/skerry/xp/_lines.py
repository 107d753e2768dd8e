"""Functions that need whole lines along some axes: the array is turned until every rank has whole
ones, each rank then calls NumPy on its part. A 1-d array is collected, up to gather_bytes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _exchange, _layout
from ._array import Array, as_array, axes_of, axis_of, empty_block, spread, undivided
from ._reductions import _finish, of_whole

Function = Callable[..., np.ndarray]


def folded(x: Any, axis: Any, keepdims: bool, function: Function) -> Array:
    """function(block, axis=axes, keepdims=True), whose result has length 1 along `axis` (one axis,
    several, or None for all)."""
    x = as_array(x)
    axes = axes_of(axis, x.ndim)
    x = undivided(x, axes)
    if x.layout.whole:
        return of_whole(function(x._evaluate(), axis=axes, keepdims=True), axes, keepdims)
    layout = _layout.reduced(x.layout, axes, True)
    if _layout.volume(own_box(x)):
        partial = np.asarray(function(x._evaluate(), axis=axes, keepdims=True))
    else:
        sample = sample_of(x, axes)
        partial = empty_block(layout, np.asarray(function(sample, axis=axes, keepdims=True)).dtype)
    return _finish(Array(partial, layout), axes, keepdims)


def own_box(x: Array) -> tuple[tuple[int, int], ...]:
    """(low, high) per dimension of the own block."""
    return x.layout.boxes[_exchange.job().rank]


def sample_of(x: Array, axes: tuple[int, ...]) -> np.ndarray:
    """An array with full lines along axes and length 1 elsewhere, for dtypes and lengths."""
    return np.ones([n if d in axes else 1 for d, n in enumerate(x.shape)], x.dtype)


def mapped(x: Any, axis: int, function: Function) -> Array:
    """function(block) along one axis, whose length may change with the others' staying."""
    x = as_array(x)
    axis = axis_of(axis, x.ndim)
    x = undivided(x, (axis,))
    if x.layout.whole:
        return spread(whole_of(function(x._evaluate())))
    block = x._evaluate()
    has = bool(_layout.volume(own_box(x)))
    out = np.asarray(function(block if has else sample_of(x, (axis,))))
    layout = with_length(x.layout, axis, out.shape[axis])
    return Array(out if has else empty_block(layout, out.dtype), layout)


def whole_of(block: Any) -> Array:
    """What every rank computed alike."""
    block = np.asarray(block)
    return Array(block, _layout.whole(block.shape, _exchange.ranks()))


def with_length(layout: _layout.Layout, axis: int, length: int) -> _layout.Layout:
    """The layout with another length of an axis that is undivided."""
    shape = tuple(length if d == axis else n for d, n in enumerate(layout.shape))
    boxes = tuple(
        tuple((0, length) if d == axis else bounds for d, bounds in enumerate(box))
        if _layout.volume(box)
        else box
        for box in layout.boxes
    )
    return _layout.Layout(shape, boxes, layout.whole)
