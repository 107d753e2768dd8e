"""Sorting, searching and sets.

Along an axis that is divided in one dimension only, arrays are sorted by sampling: all agree on
values that split them evenly, and each rank receives one range of values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, SupportsIndex

import numpy as np

from skerry import _core
from . import _exchange, _layout
from ._array import Array, as_array, axis_of, gathered, of_numpy, spread, undivided
from ._indexing import by_counts, in_order
from ._manipulation import flip, reshape
from ._types import Block, Operand


class _Sorted(NamedTuple):
    """One rank's range of values, ascending, and where each was."""

    values: np.ndarray
    places: np.ndarray


def _split_sorted(x: Array) -> _Sorted:
    """A divided 1-d array in order of value, then of place. Equal values are on one rank."""
    x = in_order(x)
    first, block = x.layout.boxes[_exchange.job().rank][0][0], x._evaluate()
    parts = _parts(block, _splitters(_sample(block, x.size)))
    got = _sent(parts, block.dtype, lambda part, out: np.take(block, part, out=out, mode="clip"))
    where = _sent(parts, np.dtype(np.int64), lambda part, out: np.add(part, first, out=out))
    order = _order(got)
    return _Sorted(got[order], where[order])


def _order(values: Block) -> Block:
    """Places of a 1-d block in ascending order of value, then of place. A sort that is not stable
    takes half of the time: equal values are put in order after it."""
    if values.dtype.kind not in "iuf" or values.dtype.itemsize <= 2:
        return np.argsort(values, kind="stable")
    order = np.argsort(values)
    ranked = values[order]
    same = ranked[1:] == ranked[:-1]
    if same.any():
        run = np.cumsum(np.concatenate(([0], ~same)))
        tied = np.flatnonzero(np.concatenate((same, [False])) | np.concatenate(([False], same)))
        keys = run[tied] * len(values) + order[tied]  # by run, then by place
        keys.sort()
        order[tied] = keys % len(values)
    if values.dtype.kind == "f":
        order[np.searchsorted(ranked, values.dtype.type("nan")) :].sort()
    return order


def _split_values(block: Block, sample: Block) -> Block:
    """This rank's range of the values that the ranks have, ascending: for who does not ask where
    they were. Equal values are on one rank. Each rank sorts what it has, and then merges what all
    have of its range: of random values that takes a third of the time of sorting them again."""
    here = _exchange.job()
    ordered = _ascending(block)
    parts = np.split(ordered, np.searchsorted(ordered, _splitters(sample)))
    got = _of_others(parts, block.dtype, lambda part, view: np.copyto(view, part))
    got[here.rank] = parts[here.rank]
    return _merged([got[at] for at in range(here.ranks)])


def _merged(runs: list[Block]) -> Block:
    """Two or more ascending arrays as one; equal values in the order of the arrays."""
    if len(runs) == 1:
        return runs[0]
    half = len(runs) // 2
    low, high = _merged(runs[:half]), _merged(runs[half:])
    if low.dtype.char not in "bBhHiIlLqQfd" or not low.dtype.isnative:
        return np.sort(np.concatenate((low, high), dtype=low.dtype), kind="stable")
    out = np.empty(len(low) + len(high), low.dtype)
    _core.xp_merge(low, high, out)
    return out


_SAMPLED = 1024  # values of a rank at most: with so many, parts differ by some 3 %


def _sample(block: Block, size: int) -> Block:
    """Some values of all ranks, ascending; the same on every rank. `size`: of all blocks."""
    ranks = _exchange.ranks()
    wanted = min(_SAMPLED * ranks, size // 16 + ranks)
    count = min(len(block), -(-wanted * len(block) // size))
    places = np.random.default_rng(0).integers(0, max(1, len(block)), count)
    return np.sort(by_counts(block[places], ()).numpy())


def _splitters(sample: Block) -> Block:
    """Values that part all ranks' values about evenly."""
    ranks = _exchange.ranks()
    return sample[[len(sample) * i // ranks for i in range(1, ranks)]]


def _parts(values: Block, splitters: Block) -> list[Block]:
    """Ascending places of the values of each range: below the first splitter, below the next, and
    so on. NaN is in the last one."""
    middle = len(splitters) // 2
    at = splitters[middle]
    below = ~np.isnan(values) if at != at else values < at
    low, high = np.flatnonzero(below), np.flatnonzero(~below)
    before, after = splitters[:middle], splitters[middle + 1 :]
    return [
        *([low[part] for part in _parts(values[low], before)] if len(before) else [low]),
        *([high[part] for part in _parts(values[high], after)] if len(after) else [high]),
    ]


def _of_others(
    parts: list[Block], dtype: np.dtype[Any], write: Callable[[Block, Block], Any]
) -> dict[int, Block]:
    """What each other rank has for this one: _exchange.rows_of_others. parts: what this rank has
    for each; write(part, view) writes it."""
    table = _exchange.agree([len(part) for part in parts])
    np.fill_diagonal(table, 0)  # what stays is not sent
    return _exchange.rows_of_others(lambda to, view: write(parts[to], view), table, dtype)


def _sent(
    parts: list[Block], dtype: np.dtype[Any], write: Callable[[Block, Block], Any]
) -> Block:
    """What all ranks have for this one, in their order. parts: places of what this rank has for
    each; write(places, out) writes it."""
    here = _exchange.job()
    got = _of_others(parts, dtype, write)
    counts = [len(got.get(at, parts[here.rank])) for at in range(here.ranks)]
    out = np.empty(sum(counts), dtype)
    for at, part in enumerate(np.split(out, np.cumsum(counts)[:-1])):
        if at == here.rank:
            write(parts[at], part)
        else:
            part[...] = got[at]
    return out


def _ascending(values: Block) -> Block:
    """A 1-d block sorted, a new one. A sort that is not stable takes a fifth of the time. What it
    may exchange and somebody can tell apart is zeros of either sign, and NaN: these are put back in
    order."""
    kind = values.dtype.kind
    if kind not in "iuf" or values.dtype.itemsize <= 2:
        return np.sort(values, kind="stable")
    out = np.sort(values)
    if kind == "f":
        zero, nan = values.dtype.type(0), values.dtype.type("nan")
        first, end = np.searchsorted(out, zero), np.searchsorted(out, zero, side="right")
        if end - first > 1:
            out[first:end] = values[values == 0]
        nans = np.searchsorted(out, nan)
        if len(out) > nans:  # also one may lose its sign
            out[nans:] = values[np.isnan(values)]
    return out


def _parted(x: Array, axis: int) -> Array | None:
    """x ready to be sorted along an axis: None if it needs _split_sorted."""
    if x.ndim == 1 and not x.layout.whole:
        return None
    return undivided(x, (axis,))


def _descending_order(block: Block, axis: int) -> Block:
    """Positions in descending order; equal elements stay in order."""
    order = np.flip(np.argsort(np.flip(block, axis), axis=axis, kind="stable"), axis)
    return block.shape[axis] - 1 - order


def sort(
    x: Operand, /, *, axis: SupportsIndex = -1, descending: bool = False, stable: bool = True
) -> Array:
    """The elements along an axis in order. Shape and dtype: those of x. Errors: TypeError (no
    array), AxisError, ValueError (no dimension). Collective. Gathers: no."""
    x = as_array(x)
    if not x.ndim:
        raise ValueError("sort takes at least one dimension")
    axis = axis_of(axis, x.ndim)
    parted = _parted(x, axis)
    if parted is None:
        block = in_order(x)._evaluate()
        out = by_counts(_split_values(block, _sample(block, x.size)), ())
        return flip(out) if descending else out
    tells = parted.dtype.kind not in "biu" or parted.dtype.itemsize <= 2  # these by their digits
    block = np.sort(parted._evaluate(), axis=axis, kind="stable" if stable and tells else None)
    return spread(Array(np.flip(block, axis) if descending else block, parted.layout))


def argsort(
    x: Operand, /, *, axis: SupportsIndex = -1, descending: bool = False, stable: bool = True
) -> Array:
    """The positions along an axis in order of their elements. Shape: that of x. dtype: int64.
    Errors: TypeError (no array), AxisError, ValueError (no dimension). Collective. Gathers: no."""
    x = as_array(x)
    if not x.ndim:
        raise ValueError("argsort takes at least one dimension: xp.reshape x")
    axis = axis_of(axis, x.ndim)
    parted = _parted(x, axis)
    if parted is None:
        if not descending:
            return by_counts(_split_sorted(x).places, ())
        # The last of equal elements comes first in the reversed array: flipped, first again.
        return x.shape[0] - 1 - flip(by_counts(_split_sorted(flip(x)).places, ()))
    block = parted._evaluate()
    order = (
        _descending_order(block, axis)
        if descending
        else np.argsort(block, axis=axis, kind="stable" if stable else None)
    )
    return spread(Array(np.asarray(order, np.int64), parted.layout))


def searchsorted(
    x1: Operand,
    x2: Any,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Operand | None = None,
) -> Array:
    """Where elements of x2 belong in the ascending x1. Shape: that of x2. dtype: int64. Errors:
    TypeError (no array), ValueError (x1 is not 1-d). Collective. Gathers: x1 and the sorter."""
    x2 = x2 if isinstance(x2, Array) else np.asarray(x2)
    x1, x2 = as_array(x1), as_array(x2)
    if x1.ndim != 1:
        raise ValueError(f"searchsorted takes a 1-d array first, not {x1.ndim} dimensions")
    sorter = None if sorter is None else gathered(as_array(sorter), "the sorter")
    known = gathered(x1, "searchsorted")
    places = np.searchsorted(known, x2._evaluate(), side=side, sorter=sorter)
    return Array(np.asarray(places, np.int64).reshape(x2._evaluate().shape), x2.layout)


def nonzero(x: Operand, /) -> tuple[Array, ...]:
    """The indices of elements that are not zero: one array per dimension. Shape: (count,) each.
    dtype: int64. Errors: TypeError (no array), ValueError (no dimension). Collective. Gathers:
    no."""
    x = as_array(x)
    if not x.ndim:
        raise ValueError("nonzero takes at least one dimension")
    if x.layout.whole:
        return tuple(of_numpy(place) for place in np.nonzero(x._evaluate()))
    x = in_order(x)
    box = x.layout.boxes[_exchange.job().rank]
    found = np.nonzero(x._evaluate())
    first = by_counts(found[0] + box[0][0], ())
    return (first, *(Array(place, first.layout) for place in found[1:]))


# ---- sets ----------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    values: Array
    inverse_indices: Array


def _flat(x: Operand) -> Array:
    x = as_array(x)
    return reshape(x, (x.size,))


def _runs(values: Block) -> Block:
    """Where runs of equal elements of an ascending array begin; every NaN is a run."""
    if not len(values):
        return np.empty(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))


def unique_all(x: Operand, /) -> UniqueAll:
    """Different values, ascending; where each is first, which each element is, how often it is.
    Shapes: (count,), but of the inverse that of x. dtypes: that of x, and int64. Errors:
    TypeError (no array). Collective. Gathers: no."""
    x = as_array(x)
    flat = _flat(x)
    if flat.layout.whole:
        order = _order(flat._evaluate())
        ranked = _Sorted(flat._evaluate()[order], order)
    else:
        ranked = _split_sorted(flat)
    begins = _runs(ranked.values)
    counts = np.diff(np.append(begins, len(ranked.values)))
    which = np.repeat(np.arange(len(begins)), counts)
    parts = ranked.values[begins], ranked.places[begins], counts
    if flat.layout.whole:
        inverse = np.empty(flat.size, np.int64)
        inverse[ranked.places] = which
        first, indices, often = map(of_numpy, parts)
        return UniqueAll(first, indices, of_numpy(inverse.reshape(x.shape)), often)
    values = by_counts(parts[0], ())
    which = which + values.layout.boxes[_exchange.job().rank][0][0]
    indices, often = (Array(part, values.layout) for part in parts[1:])
    return UniqueAll(
        values, indices, reshape(_sent_back(ranked.places, which, flat), x.shape), often
    )


def _sent_back(places: Block, values: Block, flat: Array) -> Array:
    """The 1-d array, laid out in order, with values[i] at places[i]."""
    layout = in_order(flat).layout
    here = _exchange.job()
    ends = np.array([box[0][1] if _layout.volume(box) else 0 for box in layout.boxes])
    owner = np.searchsorted(np.maximum.accumulate(ends), places, side="right")
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=here.ranks)
    rows = np.stack([places, values], axis=1)[order]
    table = _exchange.agree(counts)
    got = np.concatenate(
        _exchange.pass_rows(np.split(rows, np.cumsum(counts)[:-1]), table, np.dtype(np.int64), (2,))
    )
    block = np.empty(layout.extent(here.rank), np.int64)
    block[got[:, 0] - layout.boxes[here.rank][0][0]] = got[:, 1]
    return Array(block, layout)


def unique_counts(x: Operand, /) -> UniqueCounts:
    """Different values, ascending, and how often each is there. Shapes: (count,). dtypes: that of
    x, and int64. Errors: TypeError (no array). Collective. Gathers: no."""
    flat = _flat(x)
    if flat.layout.whole:
        values, _, _, counts = unique_all(flat)
        return UniqueCounts(values, counts)
    block = in_order(flat)._evaluate()
    ranked = _split_values(block, _sample(block, flat.size))
    begins = _runs(ranked)
    often = np.diff(np.append(begins, len(ranked)))
    values = by_counts(ranked[begins], ())
    return UniqueCounts(values, Array(often, values.layout))


def unique_inverse(x: Operand, /) -> UniqueInverse:
    """Different values, ascending, and which of them each element is. Shapes: (count,), and that of
    x. dtypes: that of x, and int64. Errors: TypeError (no array). Collective. Gathers: no."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Operand, /) -> Array:
    """Different values, ascending. Shape: (count,). dtype: that of x. Errors: TypeError (no array).
    Collective. Gathers: no."""
    flat = _flat(x)
    if flat.layout.whole:
        return of_numpy(_first_of_runs(_ascending(flat._evaluate())))
    block = in_order(flat)._evaluate()
    sample = _sample(block, flat.size)
    if 2 * len(_runs(sample)) < len(sample):  # few different ones: others need no more of them
        block = _first_of_runs(_ascending(block))
    return by_counts(_first_of_runs(_split_values(block, sample)), ())


def _first_of_runs(values: Block) -> Block:
    different = values[1:] != values[:-1]
    if different.all():
        return values
    return values[np.concatenate(([True], different))]
