"""NumPy's functions that write into an array or choose elements of several: put, place, copyto,
select. Each rank writes the elements that it has."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import _exchange, _lazy, _whole
from ._array import Array, axis_of, in_layout, may_write, written
from ._elementwise import astype, real_for
from ._elementwise import where as choose_where
from ._indexing import select as select_by_mask
from ._indexing import take_known
from ._layout import operand
from ._manipulation import expanded, reshape
from ._reductions import any as any_of
from ._reductions import cumulative_sum
from ._manipulation import array_of as as_array

__all__ = (
    "choose compress copyto extract fill_diagonal piecewise place put put_along_axis putmask select"
).split()


@contextmanager
def writing(x: Array) -> Iterator[np.ndarray]:
    """The own block, to be written. Collective."""
    may_write(x)
    block = x._evaluate()
    if not block.flags.writeable:
        raise ValueError("assignment destination is read-only")
    _lazy.settle(block)
    try:
        yield block
    finally:
        written(x)


def own_box(x: Array) -> tuple[tuple[int, int], ...]:
    """(low, high) per dimension of the own block."""
    return x.layout.boxes[_exchange.job().rank]


def coordinates(x: Array) -> list[np.ndarray]:
    """Global indices of the own block, one array per dimension, to be broadcast."""
    box, ndim = own_box(x), x.ndim
    return [
        np.arange(low, high).reshape([-1 if k == d else 1 for k in range(ndim)])
        for d, (low, high) in enumerate(box)
    ]


def flat_positions(x: Array) -> np.ndarray:
    """Where each element of the own block is in the flat array."""
    out = np.zeros((1,) * x.ndim, np.int64)
    for line, n in zip(coordinates(x), x.shape, strict=True):
        out = out * n + line
    return out


def own_places(x: Array, key: Any) -> tuple[tuple[np.ndarray, tuple[np.ndarray, ...]], tuple]:
    """Which of the elements x[key] this rank has and where in its block; the shape of x[key]."""
    key = key if isinstance(key, tuple) else (key,)
    lines = [
        np.arange(n).reshape([-1 if k == d else 1 for k in range(x.ndim)])
        for d, n in enumerate(x.shape)
    ]
    places = [np.asarray(np.broadcast_to(line, x.shape)[key]) for line in lines]
    return _inside(x, places), places[0].shape


def _inside(
    x: Array, places: Sequence[np.ndarray]
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    box = own_box(x)
    inside = np.ones(places[0].shape, bool)
    for place, (low, high) in zip(places, box, strict=True):
        inside &= (place >= low) & (place < high)
    return inside, tuple(p[inside] - low for p, (low, _) in zip(places, box, strict=True))


def write_flat(x: Array, positions: np.ndarray, values: np.ndarray) -> None:
    """x.flat[positions] = values, which every rank knows; the last of equal positions wins."""
    if not x.ndim:
        with writing(x) as block:
            if positions.size:
                block[...] = np.broadcast_to(values, positions.shape).reshape(-1)[-1]
        return
    inside, local = _inside(x, np.unravel_index(positions, x.shape))
    with writing(x) as block:
        if block.size:
            block[local] = np.broadcast_to(values, positions.shape)[inside]


# ---- in place ------------------------------------------------------------------------------------


def copyto(dst: Array, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Elements of src into dst where `where` holds; both broadcast to its shape. TypeError where
    `casting` forbids the dtype. Errors: TypeError, ValueError (shapes do not fit). Collective.
    Gathers: no."""
    dtype = src.dtype if hasattr(src, "dtype") else np.asarray(src).dtype
    number = isinstance(src, (bool, int, float, complex)) and not isinstance(src, np.generic)
    if not number and not np.can_cast(dtype, dst.dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {dtype!r} to {dst.dtype!r} according to the rule "
            f"{casting!r}"
        )
    value = src if isinstance(src, Array) else as_array(np.asarray(src))
    value = astype(real_for(value, dst.dtype), dst.dtype, copy=False)
    if where is True:
        dst[...] = value
        return
    dst[...] = choose_where(_as_mask(where), value, dst)


def put(a: Array, ind: Any, v: Any, mode: str = "raise") -> None:
    """a.flat[ind] = v, of which as many are taken as there are indices, again from the first if
    there are too few. mode: 'raise', 'wrap' or 'clip' indices out of range. IndexError for those
    with 'raise'. Of any shape; values become the dtype of a. Errors: IndexError, ValueError
    (mode, or a copy that may not be written). Collective. Gathers: ind and v."""
    ind = np.asarray(_whole.known(ind, "put")).reshape(-1)
    if ind.dtype.kind not in "iub":
        raise TypeError(f"put: indices are {ind.dtype}, not integers")
    values = np.asarray(_whole.known(v, "put")).astype(a.dtype).reshape(-1)
    ind = _in_range(ind, a.size, mode, "put")
    if ind.size and values.size:
        write_flat(a, ind, np.resize(values, ind.size))


def _in_range(index: np.ndarray, n: int, mode: str, name: str) -> np.ndarray:
    index = index.astype(np.int64, copy=False)  # small ones cannot hold n
    if mode == "wrap":
        return index % n if n else index
    if mode == "clip":
        return np.clip(index, 0, max(n - 1, 0))
    if mode != "raise":
        raise ValueError(f"{name}: mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    if index.size and (index.min() < -n or index.max() >= n):
        raise IndexError(f"{name}: an index is outside 0 to {n}")
    return np.where(index < 0, index + n, index)


def putmask(a: Array, mask: Any, values: Any) -> None:
    """a.flat[i] = values[i] for each i where the mask, of a's shape, holds; too few values are
    repeated. Values become the dtype of a. Errors: ValueError (the mask's shape). Collective.
    Gathers: values, if they have not the shape of a."""
    mask = _as_mask(mask)
    if mask.shape != a.shape:
        raise ValueError(f"putmask: mask and data must be the same size: {mask.shape}, {a.shape}")
    if isinstance(values, Array) and values.shape == a.shape:
        copyto(a, values, casting="unsafe", where=mask)
        return
    values = np.asarray(_whole.known(values, "putmask")).astype(a.dtype).reshape(-1)
    here = in_layout(mask, a.layout)
    with writing(a) as block:
        if values.size and block.size:
            at = np.broadcast_to(flat_positions(a), block.shape)[here]
            block[here] = values[at % values.size]


def _as_mask(mask: Any) -> Array:
    mask = mask if isinstance(mask, Array) else as_array(np.asarray(mask))
    return astype(mask, np.dtype(bool), copy=False)


def place(arr: Array, mask: Any, vals: Any) -> None:
    """The elements where the mask holds become vals, one after another in C order, repeated if
    there are too few. The mask has the shape of arr; values become its dtype. Errors: ValueError
    (the mask's shape, or no values). Collective. Gathers: vals."""
    mask = _as_mask(mask)
    if mask.size != arr.size:
        raise ValueError(f"place: mask and data must be the same size: {mask.shape}, {arr.shape}")
    values = np.asarray(_whole.known(vals, "place")).astype(arr.dtype).reshape(-1)
    mask = reshape(mask, arr.shape)
    if not values.size:
        if bool(any_of(mask)):
            raise ValueError("Cannot insert from an empty array!")
        return
    turn = reshape(cumulative_sum(reshape(mask, (-1,)), axis=0), arr.shape)
    here, turns = in_layout(mask, arr.layout), in_layout(turn, arr.layout)
    with writing(arr) as block:
        if block.size:
            block[here] = values[(turns[here] - 1) % values.size]


def put_along_axis(arr: Array, indices: Any, values: Any, axis: int | None) -> None:
    """Values along an axis, at indices that broadcast against the other axes. Values become the
    dtype of arr; shapes are broadcast. Errors: AxisError, IndexError, ValueError (shapes do not
    fit). Collective. Gathers: indices and values."""
    indices = np.asarray(_whole.known(indices, "put_along_axis"))
    values = np.asarray(_whole.known(values, "put_along_axis")).astype(arr.dtype)
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if indices.ndim != 1:
            raise ValueError("put_along_axis: axis None takes 1-d indices")
        at = _in_range(indices, arr.size, "raise", "put_along_axis")
        write_flat(arr, at, np.broadcast_to(values, at.shape))
        return
    axis = axis_of(axis, arr.ndim)
    if indices.ndim != arr.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    at = _in_range(indices, arr.shape[axis], "raise", "put_along_axis")
    shape = np.broadcast_shapes(
        at.shape, tuple(1 if d == axis else n for d, n in enumerate(arr.shape))
    )
    at = np.broadcast_to(at, shape)
    places = [
        at
        if d == axis
        else np.broadcast_to(
            np.arange(n).reshape([-1 if k == d else 1 for k in range(arr.ndim)]), shape
        )
        for d, n in enumerate(arr.shape)
    ]
    inside, local = _inside(arr, places)
    with writing(arr) as block:
        if block.size:
            block[local] = np.broadcast_to(values, shape)[inside]


def fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    """The main diagonal: a[i, ..., i] = val. With `wrap`, of tall matrices that of every square.
    All lengths are alike, or the shape is 2-d; values become the dtype of a. Errors: ValueError
    (the shape). Collective. Gathers: val."""
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    if a.ndim == 2:
        step, end = a.shape[1] + 1, None if wrap else a.shape[1] * a.shape[1]
    else:
        step, end = 1 + int(np.cumprod(a.shape[:-1]).sum()), None
    positions = np.arange(a.size)[:end:step]
    values = np.asarray(_whole.known(val, "fill_diagonal")).astype(a.dtype).reshape(-1)
    write_flat(a, positions, np.resize(values, positions.size))


# ---- choosing ------------------------------------------------------------------------------------


def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Array:
    """Entries along an axis (None: of the flat array) for which the 1-d condition holds; it may be
    shorter. Shape: shorter along the axis. dtype: that of a. Errors: AxisError, IndexError (the
    condition is longer), ValueError (the condition is not 1-d). Collective. Gathers: the
    condition."""
    a = as_array(a)
    holds = np.asarray(_whole.known(condition, "compress")).astype(bool)
    if holds.ndim != 1:
        raise ValueError("condition must be a 1-d array")
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    axis = axis_of(axis, a.ndim)
    index = np.flatnonzero(holds)
    if index.size and index[-1] >= a.shape[axis]:
        raise IndexError(f"compress: index {index[-1]} is outside axis {axis} of {a.shape[axis]}")
    value = take_known(a, index, axis)
    if out is None:
        return value
    out[...] = value
    return out


def extract(condition: Any, arr: Any) -> Array:
    """The elements, in C order, where the condition holds. Shape: (count,). dtype: that of arr.
    Errors: ValueError (sizes differ). Collective. Gathers: no."""
    arr, condition = as_array(arr), _as_mask(condition)
    if condition.size != arr.size:
        raise _whole.NotDistributed("extract: the condition has another size: use x.numpy()")
    return select_by_mask(reshape(arr, (-1,)), reshape(condition, (-1,)))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Of each place the element of the first choice whose condition holds. All broadcast against
    each other. Shape: broadcast. dtype: what holds all choices. Errors: ValueError (lists of
    different lengths, or shapes do not fit), TypeError (conditions that are not bool).
    Collective. Gathers: no."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    conditions = [c if isinstance(c, Array) else as_array(np.asarray(c)) for c in condlist]
    for i, condition in enumerate(conditions):
        if condition.dtype != np.bool_:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    choices = [_operand(c) for c in [*choicelist, default]]
    dtype = np.result_type(*[_sample(c) for c in choices])
    values = [_cast(c, dtype) for c in choices]
    shape = np.broadcast_shapes(*[x.shape for x in conditions], *[np.shape(c) for c in values])
    out = values.pop()
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        out = choose_where(condition, value, out)
    return out if out.shape == shape else expanded(out, shape)


def _operand(value: Any) -> Any:
    plain = isinstance(value, (Array, bool, int, float, complex))
    return value if plain and not isinstance(value, np.generic) else as_array(np.asarray(value))


def _sample(value: Any) -> Any:
    return np.empty(0, value.dtype) if isinstance(value, Array) else value


def _cast(value: Any, dtype: np.dtype) -> Array:
    if not isinstance(value, Array):
        return as_array(np.asarray(value).astype(dtype))
    return astype(value, dtype, copy=False)


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Array:
    """Of each place the element of choices[a]. mode: what becomes of numbers out of range.
    ValueError for those with 'raise'. Shape: broadcast. dtype: what holds all choices. Errors:
    ValueError, TypeError (a of no whole numbers). Collective. Gathers: no."""
    a = as_array(a)
    if a.dtype.kind not in "iub":
        raise TypeError(f"choose: the first array is {a.dtype}, not of integers")
    a = astype(a, np.dtype(np.int64), copy=False)
    several = choices if isinstance(choices, (list, tuple)) else list(as_array(choices))
    values = [x if isinstance(x, Array) else as_array(np.asarray(x)) for x in several]
    n = len(values)
    if mode == "wrap":
        a = a % n
    elif mode == "clip":
        a = choose_where(a < 0, 0, choose_where(a >= n, n - 1, a))
    elif bool(any_of((a < 0) | (a >= n))):
        raise ValueError("invalid entry in choice array")
    dtype = np.result_type(*[x.dtype for x in values])
    shape = np.broadcast_shapes(a.shape, *[x.shape for x in values])
    value = expanded(_cast(values[-1], dtype), shape)
    for i, choice in enumerate(values[:-1]):
        value = choose_where(a == i, _cast(choice, dtype), value)
    if out is None:
        return value
    out[...] = value
    return out


def piecewise(
    x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any
) -> Array:  # fmt: skip
    """In the dtype of x, of each place what the function, or the number, of the last condition that
    holds gives; of one function more than conditions, the last one where none does. Functions
    get the elements of their condition. Shape: that of x. Errors: ValueError (numbers of
    conditions and functions). Collective. Gathers: no."""
    x = as_array(x)
    if isinstance(condlist, (bool, Array)) or not (
        isinstance(condlist, (list, tuple))
        and isinstance(condlist[0], (list, tuple, Array, np.ndarray))
    ):
        condlist = [condlist]
    conditions = [_as_mask(c) for c in condlist]
    if len(funclist) == len(conditions) + 1:
        none = ~conditions[0]
        for condition in conditions[1:]:
            none = none & ~condition
        conditions.append(none)
    if len(funclist) != len(conditions):
        raise ValueError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or "
            f"{len(conditions) + 1} functions are expected"
        )
    out = x * 0
    out = astype(out, x.dtype, copy=False)
    for condition, function in zip(conditions, funclist, strict=True):
        if not callable(function):
            out = choose_where(condition, _cast(function, x.dtype), out)
            continue
        chosen = select_by_mask(reshape(x, (-1,)), reshape(condition, (-1,)))
        if not chosen.size:
            continue
        _scatter(out, condition, function(chosen, *args, **kw))
    return out


def _scatter(out: Array, mask: Array, values: Any) -> None:
    """out[mask] = values, one for each true element of the mask in C order; moves them to whoever
    has the place."""
    if not isinstance(values, Array) or values.ndim == 0 or values.size == 1:
        number = _cast(_operand(values), out.dtype)
        out[...] = choose_where(mask, reshape(number, ()), out)
        return
    order = reshape(cumulative_sum(reshape(mask, (-1,)), axis=0), mask.shape) - 1
    at = in_layout(order, operand(out.layout, mask.shape))
    here = in_layout(mask, out.layout)
    from ._indexing import fetch

    got = fetch(_cast(values, out.dtype), [at[here]])
    with writing(out) as block:
        if block.size:
            block[here] = got

