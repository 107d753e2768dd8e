"""Arrays of skerry.xp that come back after a death: what skerry._protected keeps of them.

A divided array's boxes are those of its layout. A whole one is cut into slabs, of which each member
keeps one: so every member has the same afterwards, whatever it had.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

import skerry as sk
from skerry._parts import Bounds
from skerry._protected import FORMS, Form
from . import _exchange, _followers, _layout, random
from ._array import Array
from ._layout import Layout
from ._storage import _moving, _take_place
from ._types import Block, Box, Shape


class _Storage(NamedTuple):
    group: sk.Group
    dtype: np.dtype[Any]
    mirrored: bool = False
    freed: bool = False


class _Again(NamedTuple):
    """An array over another group, before skerry.xp is."""

    shape: Shape
    dtype: np.dtype[Any]
    boxes: tuple[Box, ...]
    whole: bool
    group: sk.Group
    block: Block


def _slabs(shape: Shape, ranks: int) -> tuple[Box, ...]:
    """Boxes of an array that is divided as new ones are."""
    axis = _layout.free_axis(shape, ranks, frozenset())
    return _layout.slabs(shape, 0 if axis is None else axis, ranks).boxes


class _XpForm(Form):
    def __init__(self, array: Any) -> None:
        super().__init__(array)
        # As the array was when somebody asked first.
        self._boxes: tuple[Box, ...] = ()
        self._whole = False
        self._shape: Shape = array.shape
        self._dtype: np.dtype[Any] = array.dtype

    def _take(self) -> None:
        self._shape, self._dtype = self.array.shape, self.array.dtype
        if isinstance(self.array, _Again):
            self._boxes, self._whole = self.array.boxes, self.array.whole
            return
        layout: Layout = self.array.layout
        self._whole, self._boxes = layout.whole, layout.boxes
        if layout.whole:
            self._boxes = _slabs(layout.shape, len(layout.boxes))

    def _is_as_taken(self) -> bool:
        """Whether nobody has set its shape or dtype since."""
        return bool(self.array.shape == self._shape and self.array.dtype == self._dtype)

    def check(self) -> None:
        x = self.array
        if x._is_view or _followers.shows_others(x):
            raise sk.InvalidError("a view cannot be protected: give the array that it shows")
        if not x.shape:
            raise sk.InvalidError("an array without axes cannot be protected: keep it as a value")
        if x.dtype.kind not in "biufc":
            raise sk.DtypeError(f"an array of {x.dtype} cannot be protected: give numbers")
        if x._memory.source is not None:
            raise sk.InvalidError(_IN_ARRAY)

    @property
    def storage(self) -> Any:
        group = self.array.group if isinstance(self.array, _Again) else _exchange.job().group
        return _Storage(group, self.array.dtype)

    def boxes(self) -> list[Bounds]:
        if not self._boxes:
            self._take()
        return list(self._boxes)

    def _own_box(self) -> Box:
        return self.boxes()[self.storage.group.index(sk.rank())]

    def own(self) -> Block:
        box = self._own_box()
        if not self._is_as_taken():
            raise sk.InvalidError(
                f"an array of {self._shape} {self._dtype} was protected, and is of {self} now: set "
                "its shape and dtype back, or protect a copy of another shape in its place"
            )
        if isinstance(self.array, _Again):
            block = self.array.block
            return block[_cut(box)] if self._whole else block
        layout, block = self.array.layout, self.array._evaluate()
        if layout.whole:  # perhaps it was divided before
            return block[_cut(box)]
        if layout.boxes != self._boxes or self.array._memory.source is not None:
            raise sk.InvalidError(_IN_ARRAY)
        return block

    def targets(self) -> list[tuple[Bounds, Block]]:
        self.boxes()
        if self._whole:
            return [(tuple((0, n) for n in self.array.shape), self.array.block)]
        return [(self._own_box(), self.array.block)]

    def description(self) -> tuple[Any, ...]:
        self.boxes()  # what the state was, whatever has become of the array since
        return self._shape, self._dtype, self._whole

    @staticmethod
    def made(description: tuple[Any, ...], group: sk.Group) -> _Again:
        shape, dtype, whole = description
        boxes, here = _slabs(shape, len(group)), group.index(sk.rank())
        extent = shape if whole else tuple(high - low for low, high in boxes[here])
        return _Again(shape, dtype, boxes, whole, group, np.empty(extent, dtype))

    def become(self, other: _Again) -> None:
        x, ranks = self.array, len(other.boxes)
        layout = (
            _layout.whole(other.shape, ranks) if other.whole else Layout(other.shape, other.boxes)
        )
        x._evaluate()
        _followers.has_gone_back(x._memory)
        moving = _moving(x, strict=False)  # a view that is no slice stays that of the old memory
        if not self._is_as_taken():  # and so do all that NumPy made of x
            moving[0] = x, []
        _take_place(x, layout, other.block, moving)
        memory = x._memory
        # The ranks may have counted differently in the step that was broken.
        memory.reads = memory.paid = memory.work = memory.parts = 0
        memory.placed, memory.loop, memory.rows = False, None, None
        self._boxes, self._whole = other.boxes, other.whole

    def taken(self) -> _XpForm:
        again: _Again = self.array
        layout = Layout(again.shape, again.boxes)
        if again.whole:
            layout = _layout.whole(again.shape, len(again.boxes))
        found = _XpForm(Array(again.block, layout))
        found._boxes, found._whole = again.boxes, again.whole
        return found

    @staticmethod
    def alike() -> Any:
        return _exchange.alike()

    @staticmethod
    def set_alike(value: Any) -> None:
        if value is not None:  # of those that had not imported this package
            _exchange.set_alike(value)

    @staticmethod
    def beside() -> Any:
        return copy.deepcopy(random._module_state())

    @staticmethod
    def set_beside(value: Any) -> None:
        random._set_module_state(value)

    def __str__(self) -> str:
        return f"{self.array.shape} {self.array.dtype} of skerry.xp"


def _cut(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*bounds) for bounds in box)


_IN_ARRAY = (
    "this array lies in an sk.Array: protect x.array, and take it by xp.asarray(x.array) in each "
    "step"
)

FORMS[Array] = _XpForm
