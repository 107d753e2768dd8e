"""Arrays whose memory is an sk.Array in another order of indices: ghost arrays, block-cyclic ones.

A subclass has shape, dtype, block_starts, _storage, and _there(), which translates the indices of
one dimension. Patches are split where translated indices do not follow one another.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._convert import conform
from ._patches import boxes, Piece, segments
from .errors import InvalidError, RangeError
from ._parts import Box
from ._core import Array, Group
from ._types import Block


if TYPE_CHECKING:
    from typing_extensions import Self


class _Parts:
    """The request of a patch that is read in parts."""

    __slots__ = ("_requests", "_out")

    def __init__(self, requests: Sequence[Any], out: Block) -> None:
        self._requests, self._out = requests, out

    def wait(self) -> Block:
        """The data, when all parts are there."""
        for request in self._requests:
            request.wait()
        return self._out

    def done(self) -> bool:
        return all([request.done() for request in self._requests])


class Translated:
    """Patches of an array, through another one."""

    __slots__ = ()

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    group: Group
    grid: tuple[int, ...]
    block_starts: tuple[list[int], ...]
    _storage: Array

    def _there(self, d: int, begin: int, end: int) -> tuple[int, int]:
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Number of dimensions. Not collective."""
        return len(self.shape)

    def _pieces(self, d: int, low: int, high: int, wraps: bool = False) -> list[Piece]:
        starts = self.block_starts[d]
        if not wraps:
            starts = starts[bisect_right(starts, low) : bisect_left(starts, high)]
        found = segments(low, high, self.shape[d], wraps, starts)
        return [(at, *self._there(d, begin, end)) for at, begin, end in found]

    def _patch(self, patch: Any) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[Box, Box]]]:
        items = patch if isinstance(patch, tuple) else (patch,)
        items = tuple(
            slice(None) if item is Ellipsis else item
            for item in items
            for _ in range(self.ndim - len(items) + 1 if item is Ellipsis else 1)
        )
        items += (slice(None),) * (self.ndim - len(items))
        if len(items) > self.ndim:
            raise RangeError(f"a patch of {len(items)} dimensions of an array of {self.ndim}")
        shape, kept, per_dimension = [], [], []
        for d, (item, n) in enumerate(zip(items, self.shape, strict=True)):
            if isinstance(item, slice):
                if item.step not in (None, 1):
                    raise InvalidError(f"patch {patch}: slices of such arrays have no steps")
                low, high = (
                    default if bound is None else bound + n if bound < 0 else bound
                    for bound, default in ((item.start, 0), (item.stop, n))
                )
                kept.append(high - low)
            else:
                low = int(item) + n if item < 0 else int(item)
                high = low + 1
            if not 0 <= low <= high <= n:
                raise RangeError(f"patch {patch} is not inside the array of shape {self.shape}")
            shape.append(high - low)
            per_dimension.append(self._pieces(d, low, high))
        return tuple(shape), tuple(kept), list(boxes(per_dimension))

    def get(self, patch: Any = ...) -> Any:
        """A copy of a patch, of values without ghost cells; one-sided. Shape and dtype: as of
        Array.get. Not collective. Errors: RangeError, InvalidError."""
        out = self.get_nb(patch).wait()
        return out if out.ndim else out[()]

    def get_nb(self, patch: Any = ..., out: Block | None = None) -> _Parts:
        """Starts to read a patch into `out`, or a new array; one-sided. What it returns is used as
        a Request, but is not of that class. Shape and dtype: as of Array.get. Not collective.
        Errors: RangeError, InvalidError."""
        shape, kept, parts = self._patch(patch)
        if out is None:
            out = np.empty(kept, self.dtype)
        elif not isinstance(out, np.ndarray) or out.shape != kept or out.dtype != self.dtype:
            raise InvalidError(f"patch {patch}: out must be an array of {kept} {self.dtype}")
        # Axes of length 1 for the integers of the patch: a view of `out`, whatever its strides.
        filled = out.reshape(shape)
        return _Parts([self._storage.get_nb(there, filled[here]) for here, there in parts], out)

    def put(self, patch: Any, values: ArrayLike) -> None:
        """Writes a patch; one-sided. Ghost cells learn of it by update(). Values are broadcast to
        the shape of the patch; their dtype is the array's. Not collective. Errors: RangeError,
        InvalidError, DtypeError."""
        self._write(patch, values, self._storage.put)

    def acc(self, patch: Any, values: ArrayLike, alpha: complex = 1) -> None:
        """patch += alpha * values, atomic per element; one-sided. Values are broadcast to the shape
        of the patch; their dtype is the array's. Not collective. Errors: RangeError,
        InvalidError, DtypeError."""
        self._write(patch, values, lambda there, part: self._storage.acc(there, part, alpha))

    def _write(self, patch: Any, values: ArrayLike, write: Callable[[Box, Block], None]) -> None:
        shape, kept, parts = self._patch(patch)
        values = conform(values, self.dtype, kept, patch).reshape(shape)
        for here, there in parts:
            write(there, values[here])

    __getitem__, __setitem__ = get, put

    def sync(self) -> None:
        """sync of its group. Collective. Errors: PeerDeadError."""
        self._storage.sync()

    def fill(self, value: complex) -> Self:
        """Fills all of it, ghost cells too; collective. Errors: TypeError (no number of this
        dtype), InvalidError (it does not fit)."""
        self._storage.fill(value)
        return self

    def free(self) -> None:
        """Gives the memory back. Collective. Errors: FreedError."""
        self._storage.free()
