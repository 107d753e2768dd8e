"""x[key], x[key] = value, take: basic slices are views, index arrays make new arrays."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

import skerry as sk
from . import _array, _exchange, _layout, _lazy, _twins
from ._array import (
    Array,
    Loop,
    as_array,
    axis_of,
    gathered,
    in_layout,
    may_write,
    new_layout,
    of_numpy,
    redistributed,
    small_reads,
    some,
    undivided,
    used,
    written,
)
from ._elementwise import astype, raises, real_for
from ._followers import in_time
from ._layout import Layout
from ._types import Block, Key, Operand, Shape


def _is_index_array(item: Any) -> bool:
    if isinstance(item, Array):
        return item.ndim > 0 or item.dtype.kind == "b"
    return isinstance(item, (np.ndarray, list, sk.Array)) or isinstance(item, (bool, np.bool_))


def _expanded(key: Any, shape: Shape) -> tuple[Any, ...]:
    """The key as one item per dimension of the array, with None for new dimensions."""
    key = key if isinstance(key, tuple) else (key,)
    taken = sum(
        item.ndim if _is_index_array(item) and getattr(item, "dtype", None) == np.bool_ else 1
        for item in key
        if item is not None and item is not Ellipsis
    )
    if taken > len(shape):
        raise IndexError(f"{taken} indices for an array of {len(shape)} dimensions")
    dots = [i for i, item in enumerate(key) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have only one '...'")
    at = dots[0] if dots else len(key)
    return key[:at] + (slice(None),) * (len(shape) - taken) + key[at + 1 :]


def _basic(key: Any, shape: Shape) -> Key:
    """Slices as (start, length, step), indices as numbers; all in range."""
    out: list[tuple[int, int, int] | int | None] = []
    d = 0
    for item in key:
        if item is None:
            out.append(None)
            continue
        n = shape[d]
        if isinstance(item, slice):
            item = slice(*(None if v is None else operator.index(v)
                           for v in (item.start, item.stop, item.step)))  # fmt: skip
            picked = range(n)[item]
            out.append((picked.start, len(picked), picked.step))
        else:
            index = operator.index(item)
            if not -n <= index < n:
                raise IndexError(f"index {index} is out of bounds for axis {d} with size {n}")
            out.append(index % n)
        d += 1
    return tuple(out)


def view(x: Array, key: Key) -> Array:
    """The basic slice of x, sharing memory. `key` as from _basic."""
    if all(item is not None and not isinstance(item, tuple) for item in key):
        if not x.layout.whole:
            return _element(x, [item for item in key if isinstance(item, int)])
    return _seen(x, _plan(x.layout, key, True))


def _seen(x: Array, plan: _Plan) -> Array:
    """The view of x that a plan makes."""
    block = x._evaluate()
    part = np.empty(plan.extent, x.dtype) if plan.cut is None else block[plan.cut]
    return Array(part, plan.layout, x._memory, (view, x, plan.key))


def _twin_seen(twin: Block, key: Key) -> Block:
    return twin[tuple(_slice(*item) if isinstance(item, tuple) else item for item in key)]


def _slice(start: int, n: int, step: int) -> slice:
    end = start + n * step
    return slice(start, end if end >= 0 else None, step) if n else slice(0)


_twins.makers[view] = _twin_seen
_twins.keep_order.add(view)


class _Plan(NamedTuple):
    """What an index means for arrays of one layout, on this rank."""

    key: Key
    layout: Layout  # of the result
    extent: Shape  # of this rank's part of it
    cut: Any  # what takes that part out of the own block; None: there is none, or an element
    element: bool  # an element, which the owner has


_MOST_PLANS = 1024  # of one layout


def _planned(layout: Layout, key: Any, target: bool = False) -> _Plan | None:
    """The plan of a basic index, made once for a layout: a program writes the same line again. With
    `target`, of what is written there: also an element is a box. None: other indices."""
    known = _spelled(key)
    if known is None:
        return None
    plan = layout.plans.get((target, known))
    if plan is None:
        plan = _plan(layout, _basic(_expanded(key, layout.shape), layout.shape), target)
        if len(layout.plans) >= _MOST_PLANS:
            layout.plans.clear()
        layout.plans[target, known] = plan
    return plan


def _plan(layout: Layout, key: Key, target: bool) -> _Plan:
    if all(isinstance(item, int) for item in key):
        if not target:
            return _Plan(key, layout, (), None, True)
        key = _as_ranges(key)
    rank, parted = _exchange.job().rank, _layout.sliced(layout, key)
    extent = parted.extent(rank)
    cut = None if 0 in extent else (*_layout.local_key(layout.boxes[rank], key), ...)
    return _Plan(key, parted, extent, cut, False)


_BOUNDS = frozenset((int, type(None)))


def _spelled(key: Any) -> tuple[Any, ...] | None:
    """A basic index as something to be looked up, since slices have no hash. None: another one."""
    out: list[Any] = []
    for item in key if type(key) is tuple else (key,):
        kind = type(item)
        if kind is slice:
            bounds = item.start, item.stop, item.step
            if not _BOUNDS.issuperset(map(type, bounds)):
                return None
            out.append(bounds)
        elif kind is int or item is None or item is Ellipsis:
            out.append(item)
        else:
            return None
    return tuple(out)


def _as_ranges(key: Key) -> Key:
    """Indices as ranges of length 1."""
    return tuple((i, 1, 1) for i in key if isinstance(i, int))


def _element(x: Array, key: Sequence[int]) -> Any:
    """One element of a divided array, NumPy's number on every rank."""
    known = (x._ahead or {}).get(key[0] if len(key) == 1 else tuple(key))
    if known is not None:  # the index was spelled in another way
        return known
    block = x._evaluate()
    if not x._is_view and _in_step(x, key) and _read_ahead(x):
        return _element(x, key)
    for told in small_reads:
        told(x, x.itemsize)
    if x.layout.whole:
        return x._evaluate()[tuple(key)]
    rank = _exchange.job().rank
    for owner, box in enumerate(x.layout.boxes):
        if all(low <= i < high for i, (low, high) in zip(key, box, strict=True)):
            break
    mine = None
    if owner == rank:
        mine = block[tuple(i - low for i, (low, _) in zip(key, box, strict=True))]
    return _exchange.from_rank(owner, mine, (), x.dtype)[()]


_MOST_AHEAD = 4096  # elements


def _in_step(x: Array, key: Sequence[int]) -> bool:
    """Whether the program reads elements one after another, with the same step for some time."""
    memory = x._memory
    if memory.loop is None:
        memory.loop = Loop()
    loop, place = memory.loop, 0
    for i, n in zip(key, x.shape, strict=True):
        place = place * n + i
    loop.read(place)
    return loop.step != 0 and loop.run >= loop.wait


def _read_ahead(x: Array) -> bool:
    """Brings the element that was asked for last, and those that a loop will ask for next, to all
    ranks, which keep them until somebody writes the array, or the program syncs. False: they may
    not be kept. Collective."""
    memory, ranks = x._memory, _exchange.ranks()
    loop = memory.loop
    assert loop is not None
    most = _exchange.MOST_STACKED // (ranks * x.itemsize)
    count = min(loop.count, loop.left(x.size) + 1, most)
    if count < loop.wait:
        return False
    keeps = not memory.open and memory.source is None
    if not _exchange.agree([keeps])[:, 0].all():
        loop.wait = x.size + 1
        return False
    places = np.unravel_index(loop.last + loop.step * np.arange(count), x.shape)
    owners = _owners(x.layout, places)
    mine = owners == _exchange.job().rank
    box, values = x.layout.boxes[_exchange.job().rank], np.zeros(count, x.dtype)
    if mine.any():
        values[mine] = x._evaluate()[
            tuple(place[mine] - low for place, (low, _) in zip(places, box, strict=True))
        ]
    told = _exchange.of_all(values)[owners, np.arange(count)]
    keys = [place.tolist() for place in places]
    x._ahead = dict(zip(keys[0] if x.ndim == 1 else zip(*keys, strict=True), told, strict=True))
    memory.ahead = weakref.ref(x)
    loop.last += loop.step * (count - 1)
    loop.count = min(2 * loop.count, _MOST_AHEAD)
    return True


def _owners(layout: Layout, places: Sequence[Block]) -> Block:
    """The rank that has each of several elements."""
    owner = np.zeros(places[0].shape, np.int64)
    for rank, box in enumerate(layout.boxes):
        if _layout.volume(box):
            inside = np.ones(owner.shape, bool)
            for place, (low, high) in zip(places, box, strict=True):
                inside &= (place >= low) & (place < high)
            owner[inside] = rank
    return owner


def getitem(x: Array, key: Any) -> Any:
    if x.layout.whole and x._block is None:
        x._evaluate()
        return x[key]
    in_time(x)
    plan = None if x.layout.whole else _planned(x.layout, key)
    if plan is not None:
        if plan.element:
            return _element(x, [item for item in plan.key if isinstance(item, int)])
        return _seen(x, plan)
    key = _expanded(_arrays_for_lists(key), x.shape)
    if not any(_is_index_array(item) for item in key):
        return view(x, _basic(key, x.shape))
    if x.layout.whole and all(not isinstance(item, Array) or item.layout.whole for item in key):
        block = x._evaluate()[tuple(_local_index(item) for item in key)]
        return of_numpy(np.asarray(block))
    if len(key) >= 1 and _single_mask(key):
        return select(x, as_array(key[0]))
    if (axis := _single_index(key)) is not None:
        return take(x, key[axis], axis=axis)
    if (points := _points(x, key)) is not None:
        layout, places = points
        return Array(fetch(x, places), layout)
    return _by_arrays(x, key)


def _arrays_for_lists(key: Any) -> Any:
    if isinstance(key, (list, range)):
        return _of_list(key)
    if isinstance(key, tuple):
        sequences = (list, tuple, range)
        return tuple(_of_list(item) if isinstance(item, sequences) else item for item in key)
    return key


def _of_list(items: Sequence[Any]) -> Block:
    index = np.asarray(items)
    return index if index.size else index.astype(np.intp)  # as in NumPy, [] is an index


def _local_index(item: Any) -> Any:
    return item._evaluate() if isinstance(item, Array) else item


def _single_mask(key: tuple[Any, ...]) -> bool:
    """Whether the key is one mask over leading dimensions."""
    return (
        getattr(key[0], "dtype", None) == np.bool_
        and all(item == slice(None) for item in key[1:] if not _is_index_array(item))
        and not any(_is_index_array(item) for item in key[1:])
    )


def _single_index(key: tuple[Any, ...]) -> int | None:
    """The axis of the one array of integers, if whole slices are all that is beside it."""
    found = [d for d, item in enumerate(key) if not isinstance(item, slice)]
    if len(found) != 1 or any(d not in found and item != slice(None) for d, item in enumerate(key)):
        return None
    item = key[found[0]]
    if not isinstance(item, (np.ndarray, Array)) or item.dtype.kind not in "iu":
        return None
    return found[0]


def in_order(x: Array) -> Array:
    """x in a layout in which ranks have ascending runs of the elements."""
    if _layout.ordered(x.layout):
        return x
    return redistributed(x, _layout.slabs(x.shape, 0, _exchange.ranks()))


def by_counts(block: Block, shape: Sequence[int]) -> Array:
    """The array whose own part is `block`, of a length along the first axis known here only."""
    return Array(block, _along_counts(_exchange.agree([block.shape[0]])[:, 0], shape))


def _along_counts(counts: Block, shape: Sequence[int]) -> Layout:
    """Of so many entries of each rank, of such a shape."""
    cuts = np.concatenate(([0], np.cumsum(counts))).tolist()
    return _layout.along((cuts[-1], *shape), 0, cuts)


def select(x: Array, mask: Array) -> Array:
    """The elements of x where the mask over its leading dimensions holds, in C order."""
    if (
        0 in mask.shape
        and mask.ndim <= x.ndim
        and all(m in (0, n) for m, n in zip(mask.shape, x.shape, strict=False))
    ):  # as in NumPy, a mask may be empty where the array is not
        return of_numpy(np.empty((0, *x.shape[mask.ndim :]), x.dtype))
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexError(f"a mask of shape {mask.shape} for an array of shape {x.shape}")
    if mask.ndim == 0:
        return x[None][: int(bool(mask))]
    if x.layout.whole:
        return of_numpy(x._evaluate()[gathered(mask, "a mask")])
    x = in_order(x)
    wanted = _mask_layout(x.layout, mask.ndim)
    block = x._evaluate()[in_layout(mask, wanted)]
    return by_counts(np.ascontiguousarray(block), x.shape[mask.ndim :])


def _mask_layout(layout: Layout, ndim: int) -> Layout:
    """The part of a mask over the first dimensions that belongs to each rank's block."""
    if ndim == len(layout.shape):
        return layout
    return _layout.Layout(
        layout.shape[:ndim], tuple(box[:ndim] for box in layout.boxes), layout.whole
    )


def _by_arrays(x: Array, key: Any) -> Array:
    """Integer and boolean arrays mixed with slices: positions are computed as NumPy does on an
    array of coordinates, then elements are fetched from their owners."""
    key = tuple(
        gathered(item, "an index array") if isinstance(item, Array) else item for item in key
    )
    for d, item in enumerate(_by_dimension(key)):
        if isinstance(item, np.ndarray) and item.dtype.kind in "iu" and item.size:
            n = x.shape[d]
            if item.min() < -n or item.max() >= n:
                raise IndexError(
                    f"an index is outside dimension {d} of an array of shape {tuple(x.shape)}"
                )
    lines = [np.arange(n).reshape([-1 if k == d else 1 for k in range(x.ndim)])
             for d, n in enumerate(x.shape)]  # fmt: skip
    places = [np.broadcast_to(line, x.shape)[key] for line in lines]
    layout = new_layout(places[0].shape, x.dtype)
    box = layout.boxes[_exchange.job().rank]
    own = tuple(slice(*bounds) for bounds in box)
    return Array(fetch(x, [place[own] for place in places]), layout)


def _points(x: Array, key: Any) -> tuple[Layout, list[Block]] | None:
    """Of x[i, j], with index arrays for all axes that are divided alike, in order: how, and this
    rank's part of each, from zero. None of any other key. Collective."""
    alike = [item.layout for item in key if isinstance(item, Array) and not item.layout.whole]
    if x.layout.whole or len(key) != x.ndim or not alike or not _layout.ordered(alike[0]):
        return None
    if any(getattr(item, "shape", None) != alike[0].shape for item in key):
        return None
    if any(item.dtype.kind not in "iu" for item in key):
        return None
    places, outside = [], False
    for item, n in zip(key, x.shape, strict=True):
        part = in_layout(as_array(item), alike[0]).astype(np.int64, copy=False)
        low, high = part.min(initial=0), part.max(initial=-1)
        outside = outside or low < -n or high >= n
        places.append(np.where(part < 0, part + n, part) if low < 0 else part)
    if _exchange.agree([outside]).any():
        raise IndexError(f"an index is outside an array of shape {tuple(x.shape)}")
    return alike[0], places


def _by_dimension(key: Any) -> list[Any]:
    """The items of a key by dimension of the array; None where a mask spans several."""
    out = []
    for item in key:
        if item is None:
            continue
        if isinstance(item, np.ndarray) and item.dtype == np.bool_:
            out += [None] * item.ndim
        else:
            out.append(item)
    return out


def fetch(x: Array, places: Sequence[Block]) -> Block:
    """Elements of x at places (one integer array per dimension, in range): each rank asks the
    owners and is answered. Collective."""
    shape, here = places[0].shape, _exchange.job()
    if x.layout.whole:
        return x._evaluate()[tuple(places)]
    order, table, asked = _ask_owners(x, places)
    block, origin = x._evaluate(), np.array([low for low, _ in x.layout.boxes[here.rank]])
    answers = [block[tuple((rows - origin).T)] if len(rows) else np.empty(0, x.dtype)
               for rows in asked]  # fmt: skip
    got = _exchange.pass_rows(answers, table.T, x.dtype)
    out = np.empty(order.shape, x.dtype)
    out[order] = np.concatenate(got)
    return out.reshape(shape)


def _ask_owners(x: Array, places: Sequence[Block]) -> tuple[Block, Block, list[Block]]:
    """Sends each place to the rank that has it: in which order, how many from whom to whom, and
    what each rank has sent to this one, [k, dimension], in its order. Collective."""
    flat = [np.ascontiguousarray(place.reshape(-1), np.int64) for place in places]
    owner = _owners(x.layout, flat)
    order = np.argsort(owner, kind="stable")
    rows = np.stack([place[order] for place in flat], axis=1)
    counts = np.bincount(owner, minlength=_exchange.ranks())
    table = _exchange.agree(counts)
    parts = np.split(rows, np.cumsum(counts)[:-1])
    return order, table, _exchange.pass_rows(parts, table, np.dtype(np.int64), (x.ndim,))


# ---- writing -------------------------------------------------------------------------------------


def setitem(x: Array, key: Any, value: Any, unnamed: bool = False) -> None:
    may_write(x)
    if isinstance(value, Array):
        in_time(value)
    try:
        _store(x, key, value, unnamed)
    finally:
        written(x)


def _store(x: Array, key: Any, value: Any, unnamed: bool) -> None:
    if x.layout.whole and isinstance(value, Array) and value.layout.whole:
        if _assign_whole(x, key, value, unnamed):
            return
    elif not x.layout.whole:
        plan = _planned(x.layout, key, True)
        if plan is not None and _assign_planned(x, plan, value, unnamed):
            return
        if plan is not None and isinstance(value, Array) and not x.layout.whole:
            if value.layout.whole:
                used(x, x._memory, prod(plan.layout.shape) * x.itemsize)
            if not x.layout.whole:
                _assign(_seen(x, plan), _value(value, x))
                return
    key = _expanded(_arrays_for_lists(key), x.shape)
    by_arrays = any(_is_index_array(item) for item in key)
    if isinstance(value, np.generic) and value.dtype.kind == "f" and x.dtype.kind in "iu":
        if not by_arrays:
            np.empty(1, x.dtype)[...] = value  # no number: an error on all ranks
    value = _value(value, x)
    if not by_arrays:
        _assign(_target(x, _basic(key, x.shape)), value)
    elif _single_mask(key):
        mask = as_array(key[0])
        if not isinstance(value, Array) or value.ndim <= x.ndim - mask.ndim:  # the same for each
            _assign_masked(x, mask, value)
        elif not _assign_chosen(x, mask, value):
            _assign_gathered(x, key, value)
    elif not _assign_points(x, key, value):
        _assign_gathered(x, key, value)


def _assign_whole(x: Array, key: Any, value: Array, unnamed: bool) -> bool:
    """x[key] = value of whole arrays, computed where it goes if nobody has a name for the value."""
    if any(isinstance(item, Array) and not item.layout.whole
           for item in (key if isinstance(key, tuple) else (key,))):  # fmt: skip
        return False
    block, expression = x._evaluate(), value._expression
    if expression is not None and unnamed:
        target = block[_plain_key(key)]
        if (
            isinstance(target, np.ndarray)
            and target.base is not None
            and (target.shape == value.shape and np.may_share_memory(target, block))
        ):
            _lazy.evaluate_into(expression, target, value)
            return True
    part = value._evaluate()
    _lazy.settle(block)
    block[_plain_key(key)] = part
    return True


def _assign_planned(x: Array, plan: _Plan, value: Any, unnamed: bool) -> bool:
    """Writes the slice of a divided array where each rank has what it writes: a number, or an array
    that lies as the slice does. Otherwise False, and nothing is written."""
    if isinstance(value, Array):
        if value.layout != plan.layout or value.dtype != x.dtype:
            return False
    elif type(value) in (bool, int, float, complex):
        np.empty(1, x.dtype)[...] = value  # out of range, or complex into real: an error on all
    else:
        return False
    used(x, x._memory, prod(plan.layout.shape) * x.itemsize)
    if x.layout.whole:  # it has become so
        return False
    if isinstance(value, Array) and value.layout != plan.layout:  # as it was a view of x
        return False
    block = x._evaluate()
    if plan.cut is None:
        if isinstance(value, Array):
            value._evaluate()
        return True
    part = block[plan.cut]
    if not isinstance(value, Array):
        _lazy.settle(part)
        part[...] = value
    elif unnamed and value._expression is not None:
        _lazy.evaluate_into(value._expression, part, value)
    else:
        given = value._evaluate()
        _lazy.settle(part)
        part[...] = given
    return True


def _plain_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_local_index(item) for item in key)
    return _local_index(key)


def _value(value: Any, x: Array) -> Any:
    """The value as a number or an array that may go into x."""
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        np.empty(1, x.dtype)[...] = value  # out of range, or complex into real: an error here
        return value
    value = np.asarray(value) if isinstance(value, (list, tuple)) else value
    if isinstance(value, np.ndarray) and value.dtype.kind in "USO" and x.dtype.kind not in "USO":
        value = value.astype(x.dtype)  # what is no number is an error on all ranks
    value = as_array(value)
    value = real_for(value, x.dtype)
    if value.dtype != x.dtype and not x.layout.whole and raises():
        value = astype(value, x.dtype)  # an error on all ranks, not on those alone that write it
    return value


def _target(x: Array, key: Key) -> Array:
    """The view to write; also of one element of a divided array, where its owner alone has it."""
    if all(item is not None and not isinstance(item, tuple) for item in key):
        key = _as_ranges(key)
    return view(x, key)


def _assign(target: Array, value: Any) -> None:
    block = target._evaluate()
    if not isinstance(value, Array):
        _lazy.settle(block)
        block[...] = value
        return
    shape = value.shape
    while len(shape) > target.ndim and shape[0] == 1:
        shape = shape[1:]
    if np.broadcast_shapes(shape, target.shape) != target.shape:
        raise ValueError(f"values of shape {value.shape} do not fit into {target.shape}")
    if shape != value.shape:
        key = (0,) * (value.ndim - len(shape)) + tuple((0, n, 1) for n in shape)
        value = as_array(view(value, key))  # an element is a number
    wanted = _layout.operand(target.layout, shape)
    part = in_layout(value, wanted)
    if np.may_share_memory(part, block):
        part = part.copy()
    _lazy.settle(block)
    if block.size:
        block[...] = part


def _assign_masked(x: Array, mask: Array, value: Any) -> None:
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexError(f"a mask of shape {mask.shape} for an array of shape {x.shape}")
    rest = x.shape[mask.ndim :]
    box = x.layout.boxes[_exchange.job().rank][mask.ndim :]
    if isinstance(value, Array):
        value = gathered(value, "a value for each place")
    if np.ndim(value):
        value = np.broadcast_to(value, rest)[tuple(slice(*bounds) for bounds in box)]
    block = x._evaluate()
    _lazy.settle(block)
    if mask.ndim == 0:
        if bool(mask):
            block[...] = value
        return
    chosen = in_layout(mask, _mask_layout(x.layout, mask.ndim))
    if block.size:  # a rank without elements has not their shape either
        block[chosen] = value


def _assign_chosen(x: Array, mask: Array, value: Array) -> bool:
    """x[mask] = value with an entry for each that is chosen, such as x[mask] ** 2: each rank writes
    its own. False, and nothing is done, of any other value. Collective."""
    if x.layout.whole or not _layout.ordered(x.layout) or not mask.ndim:
        return False
    if mask.shape != x.shape[: mask.ndim] or value.shape[1:] != x.shape[mask.ndim :]:
        return False
    block = x._evaluate()
    chosen = in_layout(mask, _mask_layout(x.layout, mask.ndim))
    counts = _exchange.agree([np.count_nonzero(chosen)])[:, 0]
    if counts.sum() != len(value):
        if len(value) == 1:  # for all of them
            return False
        raise ValueError(f"{len(value)} values for {counts.sum()} places where the mask is true")
    part = in_layout(value, _along_counts(counts, value.shape[1:]))
    if np.may_share_memory(part, block):
        part = part.copy()
    _lazy.settle(block)
    if part.size:  # a rank without rows has not their shape either
        block[chosen] = part
    return True


def _assign_points(x: Array, key: Any, value: Any) -> bool:
    """x[i, j] = value with divided index arrays: each rank sends its part to the owners. Of a place
    that is named twice the last value counts, as in NumPy. False, and nothing is done, of any other
    key or value. Collective."""
    if x.ndim < 2 or (points := _points(x, key)) is None:
        return False
    layout, places = points
    single = not isinstance(value, Array) or value.ndim == 0
    if not single and value.shape != layout.shape:
        return False
    own = None if single else in_layout(value, layout).astype(x.dtype, copy=False).reshape(-1)
    order, table, asked = _ask_owners(x, places)
    block, box = x._evaluate(), x.layout.boxes[_exchange.job().rank]
    at = tuple((np.concatenate(asked) - [low for low, _ in box]).T)
    if own is None:
        sent: Any = gathered(value, "a value") if isinstance(value, Array) else value
    else:
        parts = np.split(own[order], np.cumsum(table[_exchange.job().rank])[:-1])
        sent = np.concatenate(_exchange.pass_rows(parts, table, x.dtype))
    _lazy.settle(block)
    if len(at[0]):  # a rank without elements has not their shape either
        block[at] = sent
    return True


def _assign_gathered(x: Array, key: Any, value: Any) -> None:
    """General index arrays: every rank knows keys and values, and writes its own part."""
    key = tuple(
        gathered(item, "an index array") if isinstance(item, Array) else item for item in key
    )
    value = gathered(value, "values") if isinstance(value, Array) else value
    if _single_index(key) == 0 and _layout.ordered(x.layout):
        _assign_rows(x, key[0], value)
        return
    block, box = x._evaluate(), x.layout.boxes[_exchange.job().rank]
    lines = [np.arange(n).reshape([-1 if k == d else 1 for k in range(x.ndim)])
             for d, n in enumerate(x.shape)]  # fmt: skip
    places = [np.broadcast_to(line, x.shape)[key] for line in lines]
    values = _broadcast(value, places[0].shape)
    _lazy.settle(block)
    inside = np.ones(places[0].shape, bool)
    for place, (low, high) in zip(places, box, strict=True):
        inside &= (place >= low) & (place < high)
    local = tuple(place[inside] - low for place, (low, _) in zip(places, box, strict=True))
    block[local] = values[inside]


def _broadcast(value: Any, shape: Shape) -> Block:
    """Values for a place of a shape; as in NumPy, they may have more axes of length 1 in front."""
    values = np.asarray(value)
    ones = max(0, values.ndim - len(shape))
    if values.shape[:ones] == (1,) * ones:
        values = values[(0,) * ones]
    return np.broadcast_to(values, shape)


def _assign_rows(x: Array, index: Block, value: Any) -> None:
    """x[index] = value, of an array that is divided in rows."""
    index = _from_zero(index, 0, x.shape)
    block, (low, high) = x._evaluate(), x.layout.boxes[_exchange.job().rank][0]
    inside = (index >= low) & (index < high)
    _lazy.settle(block)
    if np.ndim(value):
        value = _broadcast(value, index.shape + x.shape[1:])[inside]
    if block.size:  # a rank without rows has not their shape either
        block[index[inside] - low] = value


# ---- functions -----------------------------------------------------------------------------------


def take(x: Operand, indices: Any, /, *, axis: SupportsIndex | None = None) -> Array:
    """Entries of one axis, by an integer array. Shape: that of the indices in place of the axis.
    dtype: that of x. Errors: TypeError (no array, or no whole numbers), AxisError, IndexError,
    ValueError (no axis of several dimensions). Collective. Gathers: the indices."""
    x = as_array(x)
    indices = indices if isinstance(indices, Array) else np.asarray(indices)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: name the axis of an array of {x.ndim} dimensions")
        axis = 0
    axis = axis_of(axis, x.ndim)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"take: indices are {indices.dtype}, not integers")
    if isinstance(indices, Array):
        indices = gathered(indices, "indices of take")
    return take_known(x, _from_zero(indices, axis, x.shape), axis)


def _from_zero(index: Block, axis: int, shape: Shape) -> Block:
    """Integers as indices of an axis that are not negative. IndexError if one is out of range."""
    n, low = shape[axis], index.min(initial=0)
    if low < -n or (index.size and index.max() >= n):
        raise IndexError(f"an index is outside dimension {axis} of an array of shape {shape}")
    index = index.astype(np.int64, copy=False)  # small ones cannot hold what is added
    return np.where(index < 0, index + n, index) if low < 0 else index


def take_known(x: Array, index: Block, axis: int) -> Array:
    """take with an index array that every rank has, in range and not negative."""
    if not _layout.divided(x.layout, (axis,)):
        block = np.take(x._evaluate(), index, axis=axis) if x._evaluate().size else None
        shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
        boxes = tuple(
            (*box[:axis], *((0, n) if _layout.volume(box) else (0, 0) for n in index.shape),
             *box[axis + 1 :])
            for box in x.layout.boxes
        )  # fmt: skip
        layout = _layout.Layout(shape, boxes, x.layout.whole)
        if block is None:
            block = np.empty(layout.extent(_exchange.job().rank), x.dtype)
        return Array(block, layout)
    if axis == 0 and index.size and _layout.ordered(x.layout):
        out = _rows(x, index.reshape(-1))
        if out is not None:
            return out if index.ndim == 1 else out.reshape(index.shape + x.shape[1:])
    if x.ndim > 1:
        moved = undivided(x, (axis,))
        if not moved.layout.whole:
            return take_known(moved, index, axis)
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    layout = new_layout(shape, x.dtype)
    box = layout.boxes[_exchange.job().rank]
    lines = []
    for d in range(x.ndim):
        line = index if d == axis else np.arange(x.shape[d])
        before = d if d <= axis else d + index.ndim - 1
        line = line.reshape((1,) * before + line.shape + (1,) * (len(shape) - before - line.ndim))
        lines.append(np.broadcast_to(line, shape)[tuple(slice(*bounds) for bounds in box)])
    return Array(fetch(x, lines), layout)


def _rows(x: Array, index: Block) -> Array | None:
    """Rows of an array that is divided in rows; every rank has the index, so nobody asks. None if
    the result is divided otherwise. Beside the index each rank needs room for what it sends and
    for what it gets."""
    layout = new_layout((index.size, *x.shape[1:]), x.dtype)
    if not _layout.ordered(layout):
        return None
    here = _exchange.job()
    block = x._evaluate()
    low, high = x.layout.boxes[here.rank][0]

    def wanted(by: int) -> Block:
        """The part of the index whose rows go to a rank."""
        return index[slice(*layout.boxes[by][0])]

    def mine(part: Block) -> Block:
        return np.flatnonzero((part >= low) & (part < high))

    counts = [0 if to == here.rank else len(mine(wanted(to))) for to in range(here.ranks)]

    def fill(to: int, view: Block) -> None:
        part = wanted(to)
        np.take(block, part[mine(part)] - low, axis=0, out=view, mode="clip")

    got = _exchange.rows_of_others(fill, _exchange.agree(counts), x.dtype, x.shape[1:])
    own = wanted(here.rank)
    out = np.empty(layout.extent(here.rank), x.dtype)
    here_too = mine(own)
    if len(here_too):  # else it may have no rows, nor their shape
        out[here_too] = block[own[here_too] - low]
    for rank, rows in got.items():
        begin, end = x.layout.boxes[rank][0]
        if len(rows):
            out[(own >= begin) & (own < end)] = rows
    return Array(out, layout)


def take_along_axis(x: Operand, indices: Array | Block, /, *, axis: SupportsIndex = -1) -> Array:
    """Elements along an axis, at indices that broadcast against the other axes. Shape: that of the
    indices, broadcast. dtype: that of x. Errors: TypeError (no array, or no whole numbers),
    AxisError, IndexError, ValueError (dimensions differ). Collective. Gathers: no."""
    x, indices = as_array(x), as_array(indices)
    axis = axis_of(axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ValueError(f"take_along_axis: {indices.ndim} and {x.ndim} dimensions differ")
    if indices.dtype.kind not in "iu":
        raise TypeError(f"take_along_axis: indices are {indices.dtype}, not integers")
    n = x.shape[axis]
    pairs = list(zip(x.shape, indices.shape, strict=True))
    shape = tuple(
        b if d == axis else np.broadcast_shapes((a,), (b,))[0] for d, (a, b) in enumerate(pairs)
    )
    if indices.size and some((indices >= n) | (indices < -n)):
        raise IndexError(
            f"take_along_axis: an index is outside axis {axis} of shape {tuple(x.shape)}"
        )
    layout = indices.layout if indices.shape == shape else new_layout(shape, x.dtype)
    box = layout.boxes[_exchange.job().rank]
    extent = layout.extent(_exchange.job().rank)
    own = in_layout(indices, _layout.operand(layout, indices.shape))
    places = []
    for d, (low, high) in enumerate(box):
        if d == axis:
            own = np.broadcast_to(own, extent).astype(np.int64)
            places.append(np.where(own < 0, own + n, own))
        elif x.shape[d] == 1:
            places.append(np.zeros(extent, np.int64))
        else:
            line = np.arange(low, high).reshape([-1 if k == d else 1 for k in range(x.ndim)])
            places.append(np.broadcast_to(line, extent))
    return Array(fetch(x, places), layout)
