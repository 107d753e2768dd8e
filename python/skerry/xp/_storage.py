"""Arrays that change their place, and their views with them: an array becomes an sk.Array, whose
memory others reach, or whole, as a program reads it by rows and elements."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import skerry as sk
from . import _exchange, _layout, _lazy, _options, _pages
from ._array import (
    _LEAST_TIMES,
    Array,
    Memory,
    empty_block,
    forget_ahead,
    in_layout,
    layout_of,
    origin,
    small_parts,
    small_reads,
)
from ._indexing import view
from ._manipulation import permute_dims
from ._layout import Layout
from ._types import Block, Key, Shape


def _array(self: Array) -> sk.Array:
    """The sk.Array with the same memory; of a computed array, one that takes its memory over.
    Collective. Shape and dtype: its own. Errors: InvalidError (a view, or some rank has a view
    of it that is no slice), DtypeError (no sk.Array has the dtype). Gathers: no."""
    if self._is_view:
        raise sk.InvalidError("a view is no sk.Array: take xp.asarray(x, copy=True).array")
    if self._memory.source is None:
        moving: list[Any] = []
        error: sk.InvalidError | None = None
        try:
            moving = _moving(self)
        except sk.InvalidError as found:  # a rank may have views that others have not
            error = found
        _exchange.agree_no_error(error)
        _move_to(self, _new_storage(self.shape, self.dtype, self.layout), moving)
    return self._memory.source


def _move_to(self: Array, storage: sk.Array, moving: list[Any]) -> None:
    """Takes the memory of `storage`. Views follow, where they can without communication."""
    layout = layout_of(storage)
    if self.size:
        storage.local[...] = in_layout(self, layout)
    storage.sync()
    self._memory.source, self._memory.open = storage, True
    block = storage.local if self.size else empty_block(layout, self.dtype)
    _take_place(self, layout, block, moving)


def _moving(x: Array, strict: bool = True) -> list[Any]:
    """What moves with x, which is no view: (x, its followers), then the same of each view that is
    made again as it was made the first time. Found before anything moves, since afterwards nobody
    can tell which part of its array a view is. `strict`: an error for a view that is no slice;
    otherwise it stays where it is. Errors: InvalidError."""
    views = [each for each in x._memory.views if each._recipe is not None]
    return [
        (each, _following(each, each._evaluate(), strict) if each.layout.whole else [])
        for each in [x, *views]
    ]


def _take_place(x: Array, layout: Layout, block: Block, moving: list[Any]) -> None:
    """x, which is no view, lies in `block` from now on, and so does what _moving() has found."""
    forget_ahead(x._memory)
    _lazy.settle(x._block)
    x.layout, x._block = layout, block
    x._memory.pages = None  # the block that lay in them
    for each, followers in moving:  # an array's views come after it
        if each is not x:
            function, parent, argument = each._recipe
            again = function(parent, argument)
            each.layout, each._block = again.layout, again._block
        _follow(each, followers)


# ---- loops over rows and elements ----------------------------------------------------------------

_LEAST_READS = 8
_ROW = 4  # a row takes so many times as long as an element: views, layouts, a product
# Seconds that mapping all blocks takes, and bytes a second whose huge pages the kernel then enters.
_MAP_S, _MAP_SPEED = 100e-6, 2e11
_WRITTEN = 2  # of a mapped array half counts: it takes memory as it is written
_taken = 0  # bytes of arrays that became whole and live


def _given_back(nbytes: int) -> None:
    global _taken
    _taken -= nbytes


def _read(x: Array, nbytes: int) -> None:
    """A part of a divided array, of so many bytes, is about to be brought to all ranks. A program
    that does so again and again, by rows or elements, pays for a synchronization each time. From
    some time on it would have paid less for the whole array on every rank, which takes its place.

    All ranks count these reads alike: each is a collective call. What else decides may differ, so
    all are asked, at counts of reads that are powers of 2."""
    root: Any = origin(x)
    memory = x._memory
    if root._is_view or nbytes * _LEAST_TIMES > root.nbytes:
        return
    memory.reads += 1
    memory.paid += 1 if nbytes == root.itemsize else _ROW
    if memory.reads >= _LEAST_READS and not memory.reads & (memory.reads - 1):
        _vote(root, memory)


def _use(x: Array) -> None:
    """The program has used many small parts of an array, which may be on few ranks, or of a few
    elements on each: dividing them does not pay. All ranks count them alike, too."""
    root: Any = origin(x)
    if not root._is_view:
        _vote(root, x._memory)


def _vote(root: Array, memory: Memory) -> None:
    """The array becomes whole if all ranks find that this would have cost less. Where all of them
    can map all blocks, nothing is copied, and it costs little. Collective."""
    ranks, (read_s, part_s, fresh_speed) = _exchange.ranks(), _exchange.read_costs
    paid_s = memory.paid * read_s + memory.parts * part_s
    # The speed is that of an addition's results, which reads twice as much.
    saved_s = memory.work * (1 - 1 / ranks) / (2 * _exchange.costs[1])
    may = (
        not memory.open
        and not memory.placed
        and all(each._recipe is not None for each in memory.views)
    )
    room = _options.values["loop_bytes"] - _taken
    pages, block = memory.pages, root._block
    mapped = pages is not None and block is not None and (not block.size or pages.holds(block))
    told = _exchange.agree([
        may and mapped and root.nbytes // _WRITTEN <= room
        and paid_s > saved_s + _MAP_S + root.nbytes / _MAP_SPEED,
        may and root.nbytes <= room and paid_s > saved_s + root.nbytes / fresh_speed,
    ])  # fmt: skip
    if told[:, 0].all():
        _become_whole(root, _joined(root, memory), root.nbytes // _WRITTEN)
    elif told[:, 1].all():
        whole = _layout.whole(root.shape, ranks)
        _become_whole(root, in_layout(root, whole), root.nbytes)


def _joined(x: Array, memory: Memory) -> Block | None:
    """All blocks of x, mapped in a row. None if some rank could not. Collective."""
    assert memory.pages is not None
    # What ranks have written is seen by others when all have told their names.
    names = _exchange.agree(memory.pages.name()).tolist()
    parts = [
        (tuple(name), _layout.volume(box) * x.itemsize)
        for name, box in zip(names, x.layout.boxes, strict=True)
    ]
    try:
        block = _pages.joined(parts).view(x.dtype).reshape(x.shape)
    except OSError:  # a container may hide the processes of others
        block = None
    # Nobody gives its block back before all have mapped it.
    if _exchange.agree([block is not None]).all():
        return block
    memory.pages = None
    return None


def _become_whole(x: Array, block: Block | None, takes: int) -> None:
    """x lies in `block`, which has all of it and takes so many bytes, from now on; None: nothing
    happens."""
    global _taken
    if block is None:
        return
    layout = _layout.whole(x.shape, _exchange.ranks())
    x._evaluate()
    _take_place(x, layout, block, _moving(x))
    _taken += takes
    weakref.finalize(x, _given_back, takes)


small_reads.append(_read)
small_parts.append(_use)


def _new_storage(shape: Shape, dtype: DTypeLike, layout: Layout) -> sk.Array:
    """An sk.Array, divided as the layout is if it is one of slabs."""
    ranks, grid = _exchange.ranks(), None
    for axis, n in enumerate(shape):
        if n and not layout.whole and layout == _layout.slabs(shape, axis, ranks):
            grid = [min(n, ranks) if d == axis else 1 for d in range(len(shape))]
    return sk.empty(shape, dtype, grid=grid, group=_exchange.job().group)


# ---- views that NumPy made of whole arrays -------------------------------------------------------


def _following(x: Array, block: Block, strict: bool = True) -> list[Any]:
    """Views of x as (view, key, order of axes): what makes each of them of x. `strict`: as for
    _moving()."""
    found = []
    for each in x._whole_views:
        if not each.size:
            continue  # there is nothing to follow
        key = _key_of(each._evaluate(), block)
        if key is None and not strict:
            continue
        if key is None:
            raise sk.InvalidError(
                f"an array of which there is a view of shape {each.shape} that is no slice, or of "
                "another dtype, cannot become an sk.Array: drop the view, or take x.copy().array"
            )
        found.append((each, *key))
    return found


def _follow(x: Array, followers: list[Any]) -> None:
    for follower, key, axes in followers:
        again = permute_dims(view(x, key), axes)
        follower.layout, follower._block = again.layout, again._block
        if not x.layout.whole and again._recipe is not None:  # it follows further moves by that
            follower._memory, follower._recipe = x._memory, again._recipe
            x._memory.views.add(follower)


def _key_of(part: Block, block: Block) -> tuple[Key, list[int]] | None:
    """The basic key and order of axes that make `part`, a view of `block`; None if there is none.
    Works on distinct strides, which every C-contiguous block has but for axes of length 1."""
    if part.dtype != block.dtype or not part.size:
        return None
    backwards = [d for d, n in enumerate(block.shape) if n > 1 and block.strides[d] < 0]
    if backwards:
        forwards = block[tuple(slice(None, None, -1 if d in backwards else 1)
                               for d in range(block.ndim))]  # fmt: skip
        found = _key_of(part, forwards)
        return found and (_mirrored(found[0], backwards, block.shape), found[1])
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


def _mirrored(key: Key, axes: Sequence[int], shape: Shape) -> Key:
    """The key of the same elements where these axes run the other way."""
    out = list(key)
    for d in axes:
        item = out[d]
        if isinstance(item, tuple):
            start, n, step = item
            out[d] = shape[d] - 1 - start, n, -step
        elif item is not None:
            out[d] = shape[d] - 1 - item
    return tuple(out)


setattr(Array, "array", property(_array))
