"""How spares get what the others have protected (`skerry run --spares`).

A newcomer has no part in the memory that holds the copies. One that has the state tells it what was
protected. Then each newcomer tells which boxes it needs, and every member that has the state works
out the same plan: which piece of which copy lies where in the newcomer's staging memory, and who
sends it.
"""

from __future__ import annotations

import pickle
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._core import Group, Segment
from ._parts import Bounds

_ALIGN = 64


class Copied(NamedTuple):
    """A protected array, as a newcomer is told of it."""

    kind: Any  # the Form
    description: tuple[Any, ...]
    text: str
    distance: int
    dtype: np.dtype[Any]
    mirrored: bool
    boxes: list[Bounds]
    is_valid: bool


class Told(NamedTuple):
    """The state, as a newcomer is told of it."""

    ranks: list[int]  # of the group whose state it is
    having: set[int]  # members of the new group that have it
    is_all: bool  # that group is what was left of all ranks
    slot: int
    number: int
    values: dict[str, Any]
    beside: dict[Any, Any]
    alike: dict[Any, Any]
    place: int  # in the program, where it was made
    copied: list[Copied]


def tell(what: Any, root: int, group: Group) -> bytes:
    """What rank `root` has, on all members, pickled. Collective."""
    mine = _core.rank() == root
    text = np.frombuffer(pickle.dumps(what), np.uint8).copy() if mine else np.empty(0, np.uint8)
    size = np.array([text.size])
    _core._broadcast(size, root, group)
    if not mine:
        text = np.empty(int(size[0]), np.uint8)
    _core._broadcast(text, root, group)
    return text.tobytes()


class _Piece(NamedTuple):
    copies: int  # which array
    target: int  # which of the newcomer's boxes of it
    box: Bounds
    common: Bounds  # what of that box this piece is
    member: int  # of the old group, whose copy it is
    source: tuple[int, int]
    giver: int
    at: int  # in the newcomer's staging memory
    bytes: int


def _common(a: Bounds, b: Bounds) -> Bounds | None:
    found = tuple((max(i, k), min(j, l)) for (i, j), (k, l) in zip(a, b, strict=True))
    return found if all(low < high for low, high in found) else None


class Sent:
    """What the newcomers get of the arrays `kept`, for `fresh`, which are these over the new group.
    Making it is collective."""

    def __init__(
        self,
        kept: list[Any],
        fresh: list[Any],
        newcomers: list[int],
        having: set[int],
        lost: set[int],
        slot: int,
        group: Group,
    ) -> None:
        self._kept, self._targets = kept, [form.targets() for form in fresh]
        boxes = [[box for box, _ in targets] for targets in self._targets]
        self._plans = {
            rank: self._plan(pickle.loads(tell(boxes, rank, group)), sorted(having), lost, slot)
            for rank in newcomers
        }
        mine = self._plans.get(_core.rank(), [])
        self._staging = Segment(sum(_room(piece.bytes) for piece in mine), group=group)

    def _plan(
        self, boxes: list[list[Bounds]], having: list[int], lost: set[int], slot: int
    ) -> list[_Piece]:
        pieces: list[_Piece] = []
        at = 0
        for i, (copies, wanted) in enumerate(zip(self._kept, boxes, strict=True)):
            sources = copies.sources(slot, lost, prefers_near=False)
            node = _core.node(having[0])  # of a mirrored array one node has all
            for member, source in enumerate(sources):
                if source is None:
                    continue
                if copies.mirrored and _core.node(copies.ranks[member]) != node:
                    continue
                giver = source[0] if source[0] in having else having[member % len(having)]
                for k, box in enumerate(wanted):
                    common = _common(copies.boxes[member], box)
                    if common is None:
                        continue
                    n = prod(high - low for low, high in common) * copies.dtype.itemsize
                    pieces.append(_Piece(i, k, box, common, member, source, giver, at, n))
                    at += _room(n)
        return pieces

    def give(self, cost: Any) -> None:
        """Sends what this member is to send. Not collective."""
        me = _core.rank()
        for rank, pieces in self._plans.items():
            for piece in pieces:
                if piece.giver != me:
                    continue
                copies = self._kept[piece.copies]
                read = np.empty([high - low for low, high in piece.common], copies.dtype)
                sources: list[tuple[int, int] | None] = [None] * len(copies.ranks)
                sources[piece.member] = piece.source
                copies.fill(piece.common, read, sources, cost)
                self._staging.put(rank, piece.at, read)

    def take(self) -> None:
        """When all have sent: a newcomer fills its arrays. Collective."""
        for piece in self._plans.get(_core.rank(), []):
            _, view = self._targets[piece.copies][piece.target]
            inside = tuple(
                slice(low - first, high - first)
                for (low, high), (first, _) in zip(piece.common, piece.box, strict=True)
            )
            read = self._staging.local[piece.at :][: piece.bytes].view(view.dtype)
            view[inside] = read.reshape([high - low for low, high in piece.common])
        self._staging.free()


def _room(nbytes: int) -> int:
    return -(-nbytes // _ALIGN) * _ALIGN
