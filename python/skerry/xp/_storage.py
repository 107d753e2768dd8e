"""An array that becomes an sk.Array: it takes memory that others reach, and its views follow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import skerry as sk
from . import _exchange, _layout, _lazy
from ._array import Array, empty_block, in_layout, layout_of, Memory
from ._indexing import view
from ._manipulation import permute_dims
from ._layout import Layout
from ._types import Block, Key, Shape


def _array(self: Array) -> sk.Array:
    """The sk.Array with the same memory; of a computed array, one that takes its memory over.
    Collective. Shape and dtype: its own. Errors: InvalidError (a view), DtypeError (no sk.Array
    has the dtype). Gathers: no."""
    if self._is_view:
        raise sk.InvalidError("a view is no sk.Array: take xp.asarray(x, copy=True).array")
    if self._memory.source is None:
        _move_to(self, _new_storage(self.shape, self.dtype, self.layout))
    return self._memory.source


def _move_to(self: Array, storage: sk.Array) -> None:
    """Takes the memory of `storage`. Views follow, where they can without communication."""
    layout, views, old = layout_of(storage), list(self._memory.views), self._evaluate()
    followers = _following(self, old)
    if self.size:
        storage.local[...] = in_layout(self, layout)
    storage.sync()
    _lazy.settle(old)
    self._memory = Memory(storage)
    self.layout = layout
    self._block = storage.local if self.size else empty_block(layout, self.dtype)
    _follow(self, followers)
    for each in views:  # an array's views come after it
        recipe: Any = each._recipe or (None, None, None)
        function, parent, argument = recipe
        if parent is not None and parent._memory is self._memory:
            followers = _following(each, each._block) if each.layout.whole else []
            again = function(parent, argument)
            each._memory = self._memory
            each.layout, each._block = again.layout, again._block
            self._memory.views.add(each)
            _follow(each, followers)


def _new_storage(shape: Shape, dtype: DTypeLike, layout: Layout) -> sk.Array:
    """An sk.Array, divided as the layout is if it is one of slabs."""
    ranks, grid = _exchange.ranks(), None
    for axis, n in enumerate(shape):
        if n and not layout.whole and layout == _layout.slabs(shape, axis, ranks):
            grid = [min(n, ranks) if d == axis else 1 for d in range(len(shape))]
    return sk.empty(shape, dtype, grid=grid)


# ---- views that NumPy made of whole arrays -------------------------------------------------------


def _following(x: Array, block: Block) -> list[Any]:
    """Views of x as (view, key, order of axes): what makes each of them of x."""
    found = []
    for each in x._whole_views:
        key = _key_of(each._evaluate(), block)
        if key is None:
            raise sk.InvalidError(
                f"an array of which there is a view of shape {each.shape} that is no slice cannot "
                "become an sk.Array: drop the view, or take x.copy().array"
            )
        found.append((each, *key))
    return found


def _follow(x: Array, followers: list[Any]) -> None:
    for follower, key, axes in followers:
        again = permute_dims(view(x, key), axes)
        follower.layout, follower._block = again.layout, again._block


def _key_of(part: Block, block: Block) -> tuple[Key, list[int]] | None:
    """The basic key and order of axes that make `part`, a view of `block`; None if there is none.
    Works on distinct strides, which every C-contiguous block has but for axes of length 1."""
    if not part.size:
        return None
    offset = part.__array_interface__["data"][0] - block.__array_interface__["data"][0]
    start, order = [0] * block.ndim, sorted(range(block.ndim), key=lambda d: -block.strides[d])
    for d in order:
        if block.shape[d] > 1:
            start[d], offset = divmod(offset, block.strides[d])
    if offset or any(not 0 <= at < n for at, n in zip(start, block.shape, strict=True)):
        return None
    key: list[Any] = list(start)
    source = {}
    for axis, (n, stride) in enumerate(zip(part.shape, part.strides, strict=True)):
        if n == 1:
            continue
        fits = [d for d in order if block.shape[d] > 1 and stride % block.strides[d] == 0]
        if not fits or not isinstance(key[fits[0]], int):
            return None
        d = fits[0]
        step = stride // block.strides[d]
        if not step or not 0 <= start[d] + (n - 1) * step < block.shape[d]:
            return None
        key[d], source[d] = (start[d], n, step), axis
    made = [source[d] for d in range(block.ndim) if d in source]
    ones = [axis for axis, n in enumerate(part.shape) if n == 1]
    places = made + ones  # new axes come last, then all take their places
    return (*key, *(None for _ in ones)), [places.index(axis) for axis in range(part.ndim)]


setattr(Array, "array", property(_array))
