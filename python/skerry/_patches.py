"""Parts of arrays that are no boxes: scattered elements, steps, patches that wrap around. And what
works on a whole array through patches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._arrays import empty, empty_like
from ._convert import conform
from ._core import Array
from ._together import agree, gathered
from .errors import DtypeError, InvalidError, RangeError
from ._parts import Box
from ._types import Block

# (position from the low corner, begin, end) of what lies together along a dimension.
Piece: TypeAlias = tuple[int, int, int]

# ---- scattered elements --------------------------------------------------------------------------


def _rows(array: Array | _core.Mirror, index: Any) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """The indices as int64, one row for each element, and the shape of the result."""
    given = index if isinstance(index, tuple) else (index,)
    if len(given) != array.ndim:
        raise InvalidError(
            f"{len(given)} index arrays for an array of {array.ndim} dimensions: give a tuple of "
            "one for each"
        )
    parts: Sequence[Block] = [np.asarray(part) for part in given]
    for part in parts:
        if part.dtype.kind not in "iu" and part.size:
            raise DtypeError(f"an index array is {part.dtype}: give whole numbers")
    try:
        parts = np.broadcast_arrays(*parts)
    except ValueError:
        shapes = ", ".join(str(part.shape) for part in parts)
        raise InvalidError(f"index arrays of shapes {shapes} do not fit each other") from None
    rows = np.empty((parts[0].size, array.ndim), np.int64)
    for d, part in enumerate(parts):
        column = rows[:, d]
        column[...] = part.ravel()
        column[column < 0] += array.shape[d]  # from the end, as NumPy; checked below
    return rows, parts[0].shape


def gather(self: Array | _core.Mirror, index: Any, out: Block | None = None) -> Block:
    """The elements at `index`: a tuple of index arrays, one per dimension, broadcast as in NumPy;
    of a vector an array alone. Negative ones count from the end. The result has the shape of the
    index arrays and the array's dtype; `out` receives it if given. Not collective. A mirror: not
    during a refresh. Errors: RangeError before anything moves, InvalidError, DtypeError."""
    rows, shape = _rows(self, index)
    if out is None:
        out = np.empty(shape, self.dtype)
    elif out.shape != shape or out.dtype != self.dtype or not out.flags.c_contiguous:
        raise InvalidError(
            f"out has shape {out.shape} and dtype {out.dtype}: it needs {shape}, {self.dtype} and "
            "C order"
        )
    if out.size:
        self._gather(rows, out)
    return out


def scatter(self: Array, index: Any, values: ArrayLike) -> None:
    """Writes the elements at `index`, as of gather; of one that is named twice either value stays.
    Values are broadcast to the shape of the index arrays; their dtype is the array's. Not
    collective. Errors: RangeError before anything moves, InvalidError, DtypeError."""
    rows, shape = _rows(self, index)
    if len(rows):
        self._scatter(rows, conform(values, self.dtype, shape, "of elements"))


def scatter_acc(self: Array, index: Any, values: ArrayLike, alpha: complex = 1) -> None:
    """Adds alpha * values to the elements at `index`, as of gather, atomic per element; also to one
    that is named twice. Values are broadcast to the shape of the index arrays; their dtype is
    the array's, not bool. Not collective. Errors: RangeError before anything moves,
    InvalidError, DtypeError."""
    rows, shape = _rows(self, index)
    if len(rows):
        self._scatter_acc(rows, conform(values, self.dtype, shape, "of elements"), alpha)


# ---- patches with steps --------------------------------------------------------------------------


def _grid(array: Array, patch: Any) -> tuple[tuple[Block, ...], tuple[int, ...]]:
    """Index arrays for a patch some of whose slices have steps, and the result's shape."""
    items = list(patch) if isinstance(patch, tuple) else [patch]
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (array.ndim - len(items) + 1)
    items += [slice(None)] * (array.ndim - len(items))
    if len(items) != array.ndim:
        raise RangeError(
            f"a patch of {len(items)} dimensions of an array of {array.ndim}: leave some out"
        )
    axes, shape = [], []
    for item, n in zip(items, array.shape, strict=True):
        if isinstance(item, tuple):
            item = slice(*item)
        if isinstance(item, slice):
            for bound in item.start, item.stop:
                if bound is not None and not -n <= bound <= n:
                    raise RangeError(f"{bound} is outside a dimension of {n}, in patch {patch}")
            axes.append(np.arange(*item.indices(n)))
            shape.append(len(axes[-1]))
        else:
            axes.append(np.array([item]))
    return np.ix_(*axes), tuple(shape)


def stepped_get(array: Array, patch: Any, out: Block | None) -> Any:
    index, shape = _grid(array, patch)
    values = gather(array, index).reshape(shape)
    if out is None:
        return values if shape else values[()]
    if out.shape != shape or out.dtype != array.dtype:
        raise InvalidError(f"out has shape {out.shape}, {out.dtype}: patch {patch} needs {shape}")
    out[...] = values
    return out


def stepped_put(array: Array, patch: Any, values: ArrayLike, alpha: complex | None = None) -> None:
    """Accumulates if there is an alpha."""
    index, shape = _grid(array, patch)
    values = conform(values, array.dtype, shape, patch)
    values = values.reshape(np.broadcast_shapes(*(axis.shape for axis in index)))
    if alpha is None:
        scatter(array, index, values)
    else:
        scatter_acc(array, index, values, alpha)


# ---- patches that wrap around --------------------------------------------------------------------


def segments(low: int, high: int, n: int, wraps: bool, cuts: Iterable[int] = ()) -> list[Piece]:
    """What low..high names of a dimension of n: (position from low, begin, end), cut at `cuts`.
    What lies outside is left out, or wraps around."""
    edges = sorted({0, n, *cuts})
    pieces = []
    for turn in range(low // n, -(-high // n)) if wraps else (0,):
        for begin, end in zip(edges[:-1], edges[1:], strict=True):
            first, last = max(low, begin + turn * n), min(high, end + turn * n)
            if first < last:
                pieces.append((first - low, first - turn * n, last - turn * n))
    return pieces


def boxes(per_dimension: Iterable[Iterable[Piece]]) -> Iterator[tuple[Box, Box]]:
    """All boxes of pieces: (slices from the low corner, slices of the array)."""
    for pieces in product(*per_dimension):
        yield (
            tuple(slice(at, at + end - begin) for at, begin, end in pieces),
            tuple(slice(begin, end) for _, begin, end in pieces),
        )


class Periodic:
    """Patches that wrap around: bounds are taken modulo the array's shape, so -1 is not the last
    index but the one before 0. One-sided, as the array's own. A slice or (low, high) for each
    dimension. Errors: InvalidError, RangeError."""

    def __init__(self, array: Array) -> None:
        if 0 in array.shape:
            raise InvalidError(f"an array of shape {array.shape} has no period")
        self.array = array

    def _boxes(self, patch: Any) -> tuple[tuple[int, ...], list[tuple[Box, Box]]]:
        items = patch if isinstance(patch, tuple) else (patch,)
        shape = self.array.shape
        if len(items) != len(shape):
            raise InvalidError(f"patch {patch}: give bounds for each of {len(shape)} dimensions")
        bounds = []
        for item, n in zip(items, shape, strict=True):
            if isinstance(item, slice) and item.step not in (None, 1):
                raise InvalidError(f"patch {patch}: a periodic patch has no steps")
            low, high = (item.start, item.stop) if isinstance(item, slice) else item
            low, high = 0 if low is None else int(low), n if high is None else int(high)
            if high < low:
                raise RangeError(f"patch {patch}: {low} to {high} does not ascend")
            bounds.append((low, high))
        parts = [segments(*bound, n, True) for bound, n in zip(bounds, shape, strict=True)]
        return tuple(high - low for low, high in bounds), list(boxes(parts))

    def get(self, patch: Any) -> Block:
        """A copy of `patch`, in its shape; bounds are taken modulo the array's. dtype: the array's.
        Not collective. Errors: RangeError, InvalidError."""
        shape, parts = self._boxes(patch)
        out = np.empty(shape, self.array.dtype)
        requests = [self.array.get_nb(there, out[here]) for here, there in parts]
        for request in requests:
            request.wait()
        return out

    def put(self, patch: Any, values: ArrayLike) -> None:
        """Writes `patch`. Values are broadcast to its shape; their dtype is the array's. Not
        collective. Errors: RangeError, InvalidError, DtypeError."""
        self._write(patch, values, self.array.put)

    def acc(self, patch: Any, values: ArrayLike, alpha: complex = 1) -> None:
        """patch += alpha * values, atomic per element. Values are broadcast to its shape; their
        dtype is the array's. Not collective. Errors: RangeError, InvalidError, DtypeError."""
        self._write(patch, values, lambda there, part: self.array.acc(there, part, alpha))

    def _write(self, patch: Any, values: ArrayLike, write: Callable[[Box, Block], None]) -> None:
        shape, parts = self._boxes(patch)
        values = conform(values, self.array.dtype, shape, patch)
        for here, there in parts:
            write(there, values[here])

    __getitem__, __setitem__ = get, put


def periodic(array: Array) -> Periodic:
    """``sk.periodic(a)[-1:3, 8:12]``. Not collective. Of an array of any dtype, and any shape with
    elements. Errors: InvalidError (no elements)."""
    return Periodic(array)


# ---- whole arrays through patches ----------------------------------------------------------------


def copy(self: Array) -> Array:
    """A new array with the same shape, dtype, distribution and elements. Begins and ends with a
    sync. Collective. Errors: NoMemoryError, FreedError."""
    return self.copy_to(empty_like(self))


def _slices(array: Array) -> Box:
    return tuple(slice(*bounds) for bounds in array.distribution())


def transpose(array: Array, out: Array | None = None) -> Array:
    """The array with its dimensions in reverse order, in `out` or a new one. Collective. Errors:
    InvalidError. `out` has the shape in reverse order, and the same dtype and group."""
    if out is None:
        out = empty(
            array.shape[::-1],
            array.dtype,
            grid=None if array.mirrored else array.grid[::-1],
            mirrored=array.mirrored,
            group=array.group,
        )
    refused = None
    if out.shape != array.shape[::-1] or out.dtype != array.dtype:
        refused = InvalidError(
            f"out is {out.shape}, {out.dtype}: it needs {array.shape[::-1]}, {array.dtype}"
        )
    elif array.group.ranks != out.group.ranks:
        refused = InvalidError("out belongs to another group: make it over the array's")
    agree(out.shape, refused, array.group, differ="the members gave different arrays")
    array.sync()
    out.local[...] = array.get(_slices(out)[::-1]).T
    array.sync()
    return out


def symmetrize(array: Array) -> Array:
    """array = (array + its transpose) / 2, of a square matrix. Collective. Errors: InvalidError,
    DtypeError. Its shape is square; dtypes: float32, float64, complex64, complex128."""
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise InvalidError(f"symmetrize takes a square matrix: this array is {array.shape}")
    if array.dtype.kind not in "fc":
        raise DtypeError(f"symmetrize halves: {array.dtype} cannot; use a floating-point type")
    array.sync()
    other = array.get(_slices(array)[::-1]).T
    array.sync()  # all have read
    local = array.local
    local += other
    local *= 0.5
    array.sync()
    return array


def select(array: Array, what: Literal["max", "min"] = "max") -> tuple[Any, tuple[int, ...]]:
    """The largest or smallest element and its index, complex numbers by size. Collective. Of any
    shape with elements, and any dtype. Errors: InvalidError (no elements, or `what`)."""
    if what not in ("max", "min"):
        raise InvalidError(f"select {what!r}: give 'max' or 'min'")
    if 0 in array.shape:
        raise InvalidError(f"an array of shape {array.shape} has no element to select")
    array.sync()
    local = array.local
    found, index = np.zeros(1, array.dtype), np.full(array.ndim, -1)
    if local.size:
        key = np.abs(local) if local.dtype.kind == "c" else local
        at = np.unravel_index(int(getattr(np, f"arg{what}")(key)), local.shape)
        found[0] = local[at]
        index[:] = [i + low for i, (low, _) in zip(at, array.distribution(), strict=True)]
    indices = gathered(index, array.group)
    values = gathered(found.view(np.uint8), array.group).view(array.dtype)[:, 0]
    keys = np.abs(values) if values.dtype.kind == "c" else values
    candidates = [m for m in range(len(values)) if indices[m, 0] >= 0]
    best = keys[candidates][int(getattr(np, f"arg{what}")(keys[candidates]))]
    # Of equal ones, the first: NaN is equal to itself here.
    first = min(
        (m for m in candidates if keys[m] == best or (keys[m] != keys[m] and best != best)),
        key=lambda m: tuple(indices[m]),
    )
    array.sync()
    return values[first], tuple(int(i) for i in indices[first])


setattr(_core.Mirror, "gather", gather)
for _function in (gather, scatter, scatter_acc, copy):
    setattr(Array, _function.__name__, _function)
