"""Arrays that change their place, and their views with them: an array becomes an sk.Array, whose
memory others reach, or whole, as a program reads it by rows and elements."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import skerry as sk
from . import _exchange, _followers, _layout, _lazy, _options, _pages
from ._array import (
    _LEAST_TIMES,
    Array,
    Loop,
    Memory,
    collect,
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
    _followers.moved(x, block, layout)
    for each, followers in moving:  # an array's views come after it
        if each is not x:
            function, parent, argument = each._recipe
            again = function(parent, argument)
            each.layout, each._block = again.layout, again._block
        _follow(each, followers)


# ---- loops over rows and elements ----------------------------------------------------------------

_LEAST_READS = 8
_ROW = 4  # a row takes so many times as long as an element: views, layouts, a product
# A loop that read rows one after another is taken to read so many times as many more.
_MORE = 16
# Seconds that mapping blocks takes, and bytes a second whose huge pages the kernel then enters.
_MAP_S, _MAP_SPEED = 100e-6, 2e11
_WRITTEN = 2  # of a mapped block half counts: it takes memory as it is written
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
    if nbytes != root.itemsize and x._is_view:
        _count_row(x, root, memory)
    if memory.reads >= _LEAST_READS and not memory.reads & (memory.reads - 1):
        _vote(root, memory)


def _count_row(x: Array, root: Array, memory: Memory) -> None:
    """Notes where a row or a column that is read begins."""
    _, parent, key = x._recipe
    if parent is not root or type(key) is not tuple:
        return
    if memory.rows is None:
        memory.rows = Loop()
    loop, place = memory.rows, 0
    starts = [item[0] if isinstance(item, tuple) else item for item in key if item is not None]
    for start, n in zip(starts, root.shape, strict=True):
        place = place * n + start
    loop.read(place)


def _to_come(memory: Memory, size: int) -> int:
    """How many more rows a loop will read, as far as can be told from those that it has."""
    loop = memory.rows
    if loop is None or not loop.step:
        return 0
    return min(loop.left(size), _MORE * loop.run)


def _use(x: Array) -> None:
    """The program has used many small parts of an array, which may be on few ranks, or of a few
    elements on each: dividing them does not pay. All ranks count them alike, too."""
    root: Any = origin(x)
    if not root._is_view:
        _vote(root, x._memory)


def _vote(root: Array, memory: Memory) -> None:
    """The array becomes whole if all ranks find that this would have cost less. Where all of them
    can map all blocks of their node, these are not copied, and cost little. Collective."""
    ranks, (read_s, part_s, fresh_speed) = _exchange.ranks(), _exchange.read_costs
    paid_s = memory.paid * read_s + memory.parts * part_s
    # The speed is that of an addition's results, which reads twice as much.
    saved_s = memory.work * (1 - 1 / ranks) / (2 * _exchange.costs[1])
    # What is to come is like what was, only more: beside it the array's way to all ranks is short.
    share = paid_s and paid_s / (paid_s + _to_come(memory, root.size) * _ROW * read_s)
    may = (
        not memory.open
        and not memory.placed
        and not memory.followers
        and all(each._recipe is not None for each in memory.views)
    )
    room = _options.values["loop_bytes"] - _taken
    pages, block = memory.pages, root._block
    mapped = pages is not None and block is not None and (not block.size or pages.holds(block))
    far = root.itemsize * sum(
        _layout.volume(box)
        for box, near in zip(root.layout.boxes, _exchange.job().near, strict=True)
        if not near
    )
    takes = far + (root.nbytes - far) // _WRITTEN  # of memory, if it is mapped
    map_s = _MAP_S + (root.nbytes - far) / _MAP_SPEED + far / fresh_speed
    told = _exchange.agree([
        may and mapped and takes <= room and paid_s > saved_s + share * map_s,
        may and root.nbytes <= room and paid_s > saved_s + share * root.nbytes / fresh_speed,
    ])  # fmt: skip
    if told[:, 0].all():
        _become_whole(root, _joined(root, memory), takes)
    elif told[:, 1].all():
        whole = _layout.whole(root.shape, ranks)
        _become_whole(root, in_layout(root, whole), root.nbytes)


def _joined(x: Array, memory: Memory) -> Block | None:
    """All blocks of x in a row: those of this node are mapped, the others come over the network.
    None if some rank could not map them. Collective."""
    assert memory.pages is not None
    near = _exchange.job().near
    # What ranks have written is seen by others when all have told their names.
    names = _exchange.agree(memory.pages.name()).tolist()
    parts = [
        (tuple(name) if is_near else None, _layout.volume(box) * x.itemsize)
        for name, is_near, box in zip(names, near, x.layout.boxes, strict=True)
    ]
    try:
        block = _pages.joined(parts).view(x.dtype).reshape(x.shape)
    except OSError:  # a container may hide the processes of others
        block = None
    # Nobody gives its block back before all have mapped it.
    if not _exchange.agree([block is not None]).all():
        memory.pages = None
        return None
    if block is not None and _exchange.on_any_rank(not all(near)):
        collect(x, _layout.whole(x.shape, _exchange.ranks()), block, all_parts=False)
    return block


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
