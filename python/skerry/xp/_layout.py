"""Which rank holds which part of an array, and what must move from one layout to another.

Nothing here communicates. Every rank knows every layout, so all ranks derive the same plan.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from skerry._protected import goes_on
from skerry.errors import InvalidError
from ._types import Box, Boxes, Cut, Key, Shape


class Layout:
    """A box of indices per rank: (low, high) per dimension; a rank without elements has zeros.

    Boxes of a `whole` layout all span the array: each rank has a copy. Those of other arrays
    do not overlap, and cover it together.
    """

    __slots__ = ("shape", "boxes", "whole", "cuts", "plans", "_hash", "__weakref__")

    boxes: Any
    cuts: list[list[int]] | None  # per axis where boxes begin and end; None: nobody has asked yet
    plans: dict[Any, Any]  # of indices that the program has used: key -> what _indexing.py keeps

    def __init__(self, shape: Shape, boxes: Boxes, whole: bool = False) -> None:
        if 0 in shape:  # nothing to divide
            boxes, whole = (tuple((0, n) for n in shape),) * len(boxes), True
        self.shape = shape
        self.boxes = boxes
        self.whole = whole or len(boxes) == 1
        self.cuts, self.plans = None, {}
        # Whole ones stay equal when the group shrinks: a box for each rank says nothing of them.
        self._hash = hash((shape, None if self.whole else boxes, self.whole))
        if goes_on():
            key = id(self)
            _live[key] = weakref.ref(self, lambda _: _live.pop(key, None))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Layout)
            and self._hash == other._hash
            and self.whole == other.whole
            and self.shape == other.shape
            and (self.whole or self.boxes == other.boxes)
        )

    def __repr__(self) -> str:
        return f"Layout({self.shape}, {'whole' if self.whole else self.boxes})"

    def extent(self, rank: int) -> Shape:
        """Shape of the box of a rank."""
        return tuple(high - low for low, high in self.boxes[rank])

    @property
    def owner(self) -> int | None:
        """The one rank that has elements. None: several have, or every rank has all."""
        if self.whole:
            return None
        holders = [at for at, box in enumerate(self.boxes) if volume(box)]
        return holders[0] if len(holders) == 1 else None

    @property
    def largest(self) -> int:
        """Elements of the largest box."""
        return max(volume(box) for box in self.boxes)


# In a job that goes on: by identity, for layouts are equal by what they say.
_live: dict[int, weakref.ref[Layout]] = {}


class _Gone:
    """In place of the boxes of a layout whose ranks are not those of the group any more."""

    def _refuse(self, *_: object) -> NoReturn:
        raise InvalidError(
            "this array was divided over ranks of which one has died: protected arrays come back, "
            "others are made anew"
        )

    __getitem__ = __iter__ = __len__ = _refuse


def regroup(ranks: int) -> None:
    """The group has so many members from now on. Every rank goes on with what is whole; what was
    divided over the old group is of no use, and says so."""
    for layout in [reference() for reference in list(_live.values())]:
        if layout is not None:
            layout.boxes = layout.boxes[:1] * ranks if layout.whole else _Gone()
            layout.cuts, layout.plans = None, {}
    for cached in (whole, slabs, free_axis, _sliced, permuted, operand, reduced, plan):
        cached.cache_clear()


def volume(box: Box) -> int:
    return prod(high - low for low, high in box)


def _box(bounds: Iterable[tuple[int, int]]) -> Box:
    bounds = tuple(bounds)
    return bounds if all(high > low for low, high in bounds) else tuple((0, 0) for _ in bounds)


@lru_cache(maxsize=1024)
def whole(shape: Shape, ranks: int) -> Layout:
    return Layout(shape, (tuple((0, n) for n in shape),) * ranks, True)


@lru_cache(maxsize=1024)
def slabs(shape: Shape, axis: int, ranks: int) -> Layout:
    """Even parts along one axis, as sk.empty(shape, grid=...) divides it."""
    n = shape[axis]
    parts = max(1, min(n, ranks))
    cuts = [n * i // parts for i in range(parts + 1)] + [n] * (ranks - parts)
    return along(shape, axis, cuts)


def along(shape: Shape, axis: int, cuts: Sequence[int]) -> Layout:
    """Parts of one axis: rank r has cuts[r] to cuts[r + 1]."""
    return Layout(
        shape,
        tuple(
            _box((low, high) if d == axis else (0, n) for d, n in enumerate(shape))
            for low, high in zip(cuts[:-1], cuts[1:], strict=True)
        ),
    )


@lru_cache(maxsize=1024)
def free_axis(shape: Shape, ranks: int, fixed: Iterable[int]) -> int | None:
    """The axis to divide when those in `fixed` stay undivided: the first that has an element for
    each rank, or else the longest; None if there is none."""
    free = [d for d in range(len(shape)) if d not in fixed and shape[d] > 1]
    return next(
        (d for d in free if shape[d] >= ranks), max(free, key=shape.__getitem__, default=None)
    )


def divided(layout: Layout, axes: Iterable[int]) -> bool:
    """Whether some rank lacks indices of one of `axes` where it has elements."""
    if layout.whole:
        return False
    return any(
        box[axis] != (0, layout.shape[axis]) for box in layout.boxes if volume(box) for axis in axes
    )


def ordered(layout: Layout) -> bool:
    """Whether ranks hold ascending runs of the elements in C order."""
    if layout.whole:
        return True
    at = 0
    shape = layout.shape
    for box in layout.boxes:
        if not volume(box):
            continue
        first = box[0][0] * prod(shape[1:])
        if first != at or any(box[d] != (0, n) for d, n in enumerate(shape) if d):
            return False
        at = box[0][1] * prod(shape[1:])
    return True


def sliced(layout: Layout, key: Key) -> Layout:
    """The layout of a basic slice. key: per dimension of the result or of the array a range given
    as (start, length, step), an index, or None for a new dimension of length 1. A divided layout
    keeps at least one dimension."""
    return _sliced(layout, _alike(layout, key))


def _alike(layout: Layout, key: Key) -> Key:
    """A key whose slice is laid out in the same way, the same one for all rows of a rank. So a
    loop over rows or columns meets few layouts, which are known from its first turns."""
    if layout.cuts is None:
        boxes = [box for box in layout.boxes if volume(box)]
        layout.cuts = [
            sorted({bound for box in boxes for bound in box[d]}) for d in range(len(layout.shape))
        ]
    out: list[Any] = []
    d = 0
    for item in key:
        if item is not None:
            cuts = layout.cuts[d]
            d += 1
            if isinstance(item, int):
                item = cuts[bisect_right(cuts, item) - 1] if cuts else item
            elif len(cuts) == 2:  # nobody divides this axis
                item = (0, item[1], 1)
        out.append(item)
    return tuple(out)


@lru_cache(maxsize=4096)
def _sliced(layout: Layout, key: Key) -> Layout:
    boxes = []
    for box in layout.boxes:
        parts, d, empty = [], 0, False
        for item in key:
            if item is None:
                parts.append((0, 1))
                continue
            low, high = box[d]
            d += 1
            if isinstance(item, tuple):
                parts.append(_positions(low, high, *item))
            elif not low <= item < high:
                empty = True
        boxes.append(tuple((0, 0) for _ in parts) if empty or not volume(box) else _box(parts))
    shape = tuple(
        1 if item is None else item[1] for item in key if item is None or isinstance(item, tuple)
    )
    return Layout(shape, tuple(boxes), layout.whole)


def _positions(low: int, high: int, start: int, length: int, step: int) -> tuple[int, int]:
    """Which positions of a range have indices in low..high."""
    if step > 0:
        first, last = -((start - low) // step), -((start - high) // step)
    else:
        first, last = (start - high) // -step + 1, (start - low) // -step + 1
    return max(0, min(first, length)), max(0, min(last, length))


def local_key(box: Box, key: Key) -> tuple[Any, ...]:
    """The slices that take a basic slice's part out of the block with this box. The part must not
    be empty."""
    out: list[slice | int | None] = []
    d = 0
    for item in key:
        if item is None:
            out.append(None)
            continue
        low, high = box[d]
        d += 1
        if isinstance(item, tuple):
            start, _, step = item
            first, last = _positions(low, high, *item)
            begin, end = start + first * step - low, start + (last - 1) * step - low
            stop = end + (1 if step > 0 else -1)
            out.append(slice(begin, None if stop < 0 else stop, step))
        else:
            out.append(item - low)
    return tuple(out)


@lru_cache(maxsize=1024)
def permuted(layout: Layout, axes: tuple[int, ...]) -> Layout:
    return Layout(
        tuple(layout.shape[d] for d in axes),
        tuple(tuple(box[d] for d in axes) for box in layout.boxes),
        layout.whole,
    )


@lru_cache(maxsize=1024)
def operand(layout: Layout, shape: Shape) -> Layout:
    """What each rank needs of an operand of `shape` that is broadcast to a result so laid out."""
    if shape == layout.shape:
        return layout
    if layout.whole:
        return whole(shape, len(layout.boxes))
    skip = len(layout.shape) - len(shape)
    return Layout(
        shape,
        tuple(
            tuple((0, 1) if n == 1 else bounds for n, bounds in zip(shape, box[skip:], strict=True))
            if volume(box)
            else tuple((0, 0) for _ in shape)
            for box in layout.boxes
        ),
    )


@lru_cache(maxsize=1024)
def reduced(layout: Layout, axes: tuple[int, ...], keepdims: bool) -> Layout:
    """What each rank's partial result covers when its block is reduced along `axes`."""

    def kept(values: Any, one: Any) -> tuple[Any, ...]:
        return tuple(
            one if d in axes else value
            for d, value in enumerate(values)
            if keepdims or d not in axes
        )

    return Layout(
        kept(layout.shape, 1),
        tuple(
            kept(box, (0, 1)) if volume(box) else kept(((0, 0),) * len(box), (0, 0))
            for box in layout.boxes
        ),
        layout.whole,
    )


class Plan(NamedTuple):
    """What one rank does to go from a layout to another. Boxes are relative to the own block."""

    sends: tuple  # (offset in elements, box of the own old block)
    receives: tuple  # (rank, offset in elements, box of the own new block), ranks ascending
    own: tuple | None  # (box of the old block, box of the new block): what this rank has already
    most: int  # elements that the busiest rank publishes; 0: nothing moves anywhere


def _relative(box: Box, origin: Box) -> Cut:
    return tuple(
        slice(low - at, high - at) for (low, high), (at, _) in zip(box, origin, strict=True)
    )


def _meet(a: Box, b: Box) -> Box | None:
    box = tuple((max(p[0], q[0]), min(p[1], q[1])) for p, q in zip(a, b, strict=True))
    return box if all(high > low for low, high in box) and volume(a) and volume(b) else None


def _met(a: Box, b: Box) -> Box:
    """What two boxes share, which is something."""
    box = _meet(a, b)
    assert box is not None
    return box


@lru_cache(maxsize=256)
def plan(source: Layout, target: Layout, me: int) -> Plan:
    """The plan of rank `me`. A partial result's boxes may overlap: then each rank receives all
    parts."""
    mine, wanted = source.boxes[me], target.boxes[me]
    ranks = range(len(source.boxes))
    if source.whole:
        both = _meet(mine, wanted)
        return Plan(
            (),
            (),
            (_relative(both, mine), _relative(both, wanted)) if both is not None else None,
            0,
        )
    if target.whole:
        return _plan_whole(source, me)
    moved = _volumes(source.boxes, target.boxes)
    offsets = moved.copy()
    np.fill_diagonal(offsets, 0)
    most = int(offsets.sum(axis=1).max())
    offsets = np.cumsum(offsets, axis=1) - offsets
    sends = tuple(
        (int(offsets[me, to]), _relative(_met(mine, target.boxes[to]), mine))
        for to in ranks
        if to != me and moved[me, to]
    )
    receives = tuple(
        (at, int(offsets[at, me]), _relative(_met(source.boxes[at], wanted), wanted))
        for at in ranks
        if at != me and moved[at, me]
    )
    both = _meet(mine, wanted)
    return Plan(
        sends,
        receives,
        (_relative(both, mine), _relative(both, wanted)) if both is not None else None,
        most,
    )


def _plan_whole(source: Layout, me: int) -> Plan:
    holders = [at for at, box in enumerate(source.boxes) if volume(box)]
    everything = tuple(slice(0, n) for n in source.extent(me))
    receives = tuple(
        (at, 0, tuple(slice(low, high) for low, high in source.boxes[at]))
        for at in holders
        if at != me
    )
    own = (
        (everything, tuple(slice(*bounds) for bounds in source.boxes[me]))
        if me in holders
        else None
    )
    sends = ((0, everything),) if own else ()
    return Plan(sends, receives, own, source.largest)


def _volumes(sources: Boxes, targets: Boxes) -> NDArray[np.int64]:
    """Elements of each source's box that each target's box wants."""
    a, b = np.array(sources, np.int64), np.array(targets, np.int64)
    low = np.maximum(a[:, None, :, 0], b[None, :, :, 0])
    high = np.minimum(a[:, None, :, 1], b[None, :, :, 1])
    return np.prod(np.maximum(high - low, 0), axis=2)
