"""Arrays with ghost cells.

The memory is an sk.Array whose blocks are the padded ones, so that a block and the cells around it
lie together: programs compute on one NumPy view, and an update moves ghost cells alone. Indices of
the program's array are translated, dimension by dimension.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from ._arrays import Irregular, empty, zeros
from ._patches import boxes
from ._protected import FORMS, Form, protect_one
from ._together import agree
from ._translated import Translated
from .errors import Error, InvalidError, RangeError
from ._core import Array, Group
from ._parts import Bounds, Box
from ._types import Block, ShapeLike


_Kind = TypeVar("_Kind", int, bool)


class GhostArray(Translated):
    """A distributed array with ghost cells: copies of its neighbours' elements, as of the last
    update(). At the ends of a dimension that is not periodic they belong to the program.

        g = sk.ghosts((1000, 1000), width=1, periodic=True)
        p = g.update(corners=False).padded
        g.local[...] = 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])

    ``skerry.xp.asarray(g)`` is the whole array, without a copy."""

    __slots__ = (
        "shape", "dtype", "group", "grid", "block_starts", "width", "periodic",
        "_asked", "_bounds", "_blocks", "_starts", "_storage", "_plans",
    )  # fmt: skip

    def __init__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike,
        width: int | Sequence[int],
        periodic: bool | Sequence[bool],
        distribution: Irregular | None,
        grid: Sequence[int] | None,
        group: Group | None,
    ) -> None:
        self._asked = distribution
        model = empty(shape, dtype, distribution=distribution, grid=grid, group=group)
        self.shape, self.dtype, self.group = model.shape, model.dtype, model.group
        self.grid, self.block_starts = model.grid, model.block_starts
        self._bounds = model.distribution()
        self._blocks = [model.distribution(rank) for rank in self.group.ranks]
        model.free()
        refused = None
        try:
            self.width = _per_dimension(width, len(self.shape), "width", int)
            self.periodic = _per_dimension(periodic, len(self.shape), "periodic", bool)
            if min(self.width) < 0 or 0 in self.shape:
                raise InvalidError(
                    f"width {self.width}, shape {self.shape}: no width below 0, no empty dimension"
                )
        except Error as error:
            refused = error
        what = None if refused else (self.width, self.periodic)
        agree(what, refused, self.group, differ="the members gave different widths or periods")
        # Where the padded blocks begin.
        self._starts = [
            [start + 2 * w * i for i, start in enumerate(starts)]
            for starts, w in zip(self.block_starts, self.width, strict=True)
        ]
        padded = [
            n + 2 * w * len(starts)
            for n, w, starts in zip(self.shape, self.width, self._starts, strict=True)
        ]
        self._storage = zeros(
            padded, self.dtype, distribution=Irregular(*self._starts), group=self.group
        )
        # (corners, axis, side): what update() fetches
        self._plans: dict[tuple[bool, int | None, int], list[tuple[Box, Box]]] = {}

    # ---- what it is ------------------------------------------------------------------------------

    def distribution(self) -> Bounds:
        """(low, high) per dimension of the own block, without ghost cells. Not collective.
        Errors: none."""
        return self._bounds

    @property
    def padded(self) -> Block:
        """The own block with its ghost cells, a view without a copy. Its shape is that of the block
        and twice the width, its dtype the array's. Not collective."""
        return self._storage.local

    @property
    def local(self) -> Block:
        """The own block, a view without a copy. Its shape is that of the block, its dtype the
        array's. Not collective."""
        padded = self.padded
        if not padded.size:
            return padded
        inside = zip(self.width, padded.shape, strict=True)
        return padded[tuple(slice(w, n - w) for w, n in inside)]

    def protect(self, partner: int = 1) -> None:
        """As Array.protect. What the program keeps in ghost cells at the ends of dimensions comes
        back too; the others are as after an update(). Of any shape and dtype. Collective. Errors:
        those of sk.protect()."""
        protect_one(self, partner)

    def __repr__(self) -> str:
        return f"<skerry.GhostArray {self.shape} {self.dtype}, ghost cells {self.width}>"

    # ---- patches ---------------------------------------------------------------------------------

    def _there(self, d: int, begin: int, end: int) -> tuple[int, int]:
        """Where begin..end of dimension d, which lies in one block, is in the memory."""
        i = bisect_right(self.block_starts[d], begin) - 1
        shift = self._starts[d][i] + self.width[d] - self.block_starts[d][i]
        return begin + shift, end + shift

    # ---- ghost cells -----------------------------------------------------------------------------

    def _plan(self, corners: bool, axis: int | None, side: int) -> list[tuple[Box, Box]]:
        """(slices of the padded block, slices of the memory) of the ghost cells to fetch."""
        if not self.padded.size:
            return []
        sides = []  # per dimension, below, inside and above the block
        for d, (low, high) in enumerate(self._bounds):
            w, wraps = self.width[d], self.periodic[d]
            below = self._pieces(d, low - w, low, wraps)
            inside = [(at + w, *there) for at, *there in self._pieces(d, low, high)]
            above = self._pieces(d, high, high + w, wraps)
            sides.append([(-1, below), (0, inside), (1, [(at + high - low + w, *there)
                                                         for at, *there in above])])  # fmt: skip
        plan: list[tuple[Box, Box]] = []
        for direction in np.ndindex(*(3,) * self.ndim):
            chosen = [sides[d][i] for d, i in enumerate(direction)]
            signs = [sign for sign, _ in chosen]
            outside = sum(sign != 0 for sign in signs)
            if outside == 0 or (outside > 1 and not corners):
                continue
            if axis is not None and (signs[axis] == 0 or side not in (0, signs[axis])):
                continue
            plan += boxes([pieces for _, pieces in chosen])
        return plan

    def update(
        self, *, corners: bool = True, axis: int | None = None, side: Literal[-1, 0, 1] = 0
    ) -> GhostArray:
        """Fetches the ghost cells; with those diagonal to the block if `corners`. `axis`: only
        those beside the block along it, on its low side (-1), high side (1) or both. Begins and
        ends with a sync. Collective. Errors: RangeError (`axis`), InvalidError (`side`)."""
        if axis is not None and not -self.ndim <= axis < self.ndim:
            raise RangeError(f"axis {axis} of an array of {self.ndim} dimensions")
        if side not in (-1, 0, 1):
            raise InvalidError(f"side {side}: give -1 (low), 1 (high) or 0 (both)")
        axis = None if axis is None else axis % self.ndim
        key = (corners, axis, side)
        if key not in self._plans:
            self._plans[key] = self._plan(*key)
        self._storage.sync()
        padded, get = self.padded, self._storage.get_nb
        for request in [get(there, padded[here]) for here, there in self._plans[key]]:
            request.wait()
        self._storage.sync()  # all have read: blocks may be written again
        return self


class _GhostForm(Form):
    """The elements, and the ghost cells at the ends of dimensions, which belong to the program."""

    @property
    def storage(self) -> Array:
        return self.array._storage

    def boxes(self) -> list[Bounds]:
        edges = [0 if wraps else w for w, wraps in self._edges()]
        return [
            tuple(
                (low + (low > 0) * w, high + w + (high == n) * w) if low < high else (0, 0)
                for (low, high), n, w in zip(block, self.array.shape, edges, strict=True)
            )
            for block in self.array._blocks
        ]

    def own(self) -> Block:
        padded = self.array.padded
        inside = zip(self.array._bounds, self.array.shape, padded.shape, self._edges(), strict=True)
        return padded[
            tuple(
                slice(
                    0 if low == 0 and not wraps else w, p if high == n and not wraps else p - w
                )
                for (low, high), n, p, (w, wraps) in inside
            )
        ]

    def targets(self) -> list[tuple[Bounds, Block]]:
        # The whole padded block: beside inner ghost cells lie cells of a neighbour's ends.
        padded = self.array.padded
        sides: list[list[tuple[tuple[int, int], tuple[int, int]]]] = []
        if not padded.size:
            return []
        for (low, high), n, (w, wraps) in zip(
            self.array._bounds, self.array.shape, self._edges(), strict=True
        ):
            # (low, high) in boxes, (from, end) in the padded block; those of a period in pieces
            pieces = [] if wraps else [((low, high + 2 * w), (0, high - low + 2 * w))]
            at = low - w
            while wraps and at < high + w:
                end = min(at // n * n + n, high + w)
                pieces.append(((at % n, at % n + end - at), (at - low + w, end - low + w)))
                at = end
            sides.append(pieces)
        return [
            (
                tuple(box for box, _ in chosen),
                padded[tuple(slice(begin, end) for _, (begin, end) in chosen)],
            )
            for chosen in product(*sides)
        ]

    def description(self) -> tuple[Any, ...]:
        a = self.array
        asked = None if a._asked is None else a._asked.starts
        return a.shape, a.dtype, a.width, a.periodic, asked, a.grid, len(a.group)

    @staticmethod
    def made(description: tuple[Any, ...], group: Group) -> GhostArray:
        shape, dtype, width, periodic, asked, grid, members = description
        return GhostArray(
            shape,
            dtype,
            width,
            periodic,
            Irregular(*asked) if asked else None,
            grid if len(group) == members else None,
            group,
        )

    def become(self, other: GhostArray) -> None:
        for name in GhostArray.__slots__:
            setattr(self.array, name, getattr(other, name))

    def _edges(self) -> list[tuple[int, bool]]:
        return list(zip(self.array.width, self.array.periodic, strict=True))

    def __str__(self) -> str:
        return f"{self.array.shape} {self.array.dtype} with ghost cells"


FORMS[GhostArray] = _GhostForm


def _per_dimension(
    value: Any, ndim: int, what: str, kind: Callable[[Any], _Kind]
) -> tuple[_Kind, ...]:
    values = tuple(value) if hasattr(value, "__len__") else (value,) * ndim
    if len(values) != ndim:
        raise InvalidError(f"{what} is {value}: give one for all or {ndim}")
    try:
        return tuple(kind(each) for each in values)
    except (TypeError, ValueError):
        raise InvalidError(f"{what} is {value!r}: give numbers") from None


def ghosts(
    shape: ShapeLike,
    dtype: DTypeLike = "float64",
    *,
    width: int | Sequence[int] = 1,
    periodic: bool | Sequence[bool] = False,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    group: Group | None = None,
) -> GhostArray:
    """A new array of zeros whose blocks have `width` ghost cells around them. `width` and
    `periodic`: one for all dimensions, or one for each. Collective. Errors: those of zeros()."""
    return GhostArray(shape, dtype, width, periodic, distribution, grid, group)
