"""New arrays. Each rank writes its own part; nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

import skerry as sk
from . import _exchange, _layout, _twins
from ._array import Array, as_array, made, Memory, new_layout, of_data, of_numpy, of_storage
from ._elementwise import astype
from ._info import check_device, check_dtype
from ._types import Block, Box, Device, Fill, Operand, Shape, ShapeLike
from ._whole import each_array, some_array


def _shape(shape: ShapeLike) -> Shape:
    shape = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    shape = tuple(int(n.__index__()) for n in shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"a shape has no negative lengths: {shape}")
    return shape


def _new(shape: ShapeLike, dtype: DTypeLike | None, device: Device, fill: Fill) -> Array:
    check_device(device)
    shape, dtype = _shape(shape), check_dtype("float64" if dtype is None else dtype)
    return made(new_layout(shape, dtype), dtype, fill)


def _filled(value: Any) -> Fill:
    def fill(block: Block, box: Box) -> None:
        block[...] = value

    return fill


def empty(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: Device = None
) -> Array:
    """A new array whose contents are undefined. Shape: `shape`. dtype: `dtype`, by default float64.
    Errors: TypeError (the dtype), ValueError (a negative length, or the device). Collective.
    Gathers: no."""
    return _new(shape, dtype, device, lambda block, box: None)


def zeros(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: Device = None
) -> Array:
    """A new array of zeros. Shape: `shape`. dtype: `dtype`, by default float64. Errors: TypeError
    (the dtype), ValueError (a negative length, or the device). Collective. Gathers: no."""
    return _new(shape, dtype, device, _filled(0))


def ones(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: Device = None
) -> Array:
    """A new array of ones. Shape: `shape`. dtype: `dtype`, by default float64. Errors: TypeError
    (the dtype), ValueError (a negative length, or the device). Collective. Gathers: no."""
    return _new(shape, dtype, device, _filled(1))


def full(
    shape: ShapeLike,
    fill_value: Any,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
) -> Array:
    """A new array of `fill_value`. Shape: `shape`. dtype: `dtype`, by default that of the value.
    Errors: TypeError (the dtype, or no number), ValueError (a negative length, or the device).
    Collective. Gathers: no."""
    if isinstance(fill_value, Array):
        fill_value = fill_value._number("full()")
    dtype = np.asarray(fill_value).dtype if dtype is None else dtype
    return _new(shape, dtype, device, _filled(fill_value))


def _like(x: Operand, dtype: DTypeLike | None, device: Device, fill: Fill) -> Array:
    check_device(device)
    x = as_array(x)
    out = made(x.layout, x.dtype if dtype is None else check_dtype(dtype), fill)
    return _twins.keep(out, [x])


def empty_like(
    x: Operand, /, *, dtype: DTypeLike | None = None, device: Device = None
) -> Array:
    """A new array of the shape and layout of x, contents undefined. dtype: `dtype`, by default that
    of x. Errors: TypeError (no array, or the dtype), ValueError (the device). Collective.
    Gathers: no."""
    return _like(x, dtype, device, lambda block, box: None)


def zeros_like(
    x: Operand, /, *, dtype: DTypeLike | None = None, device: Device = None
) -> Array:
    """Zeros in the shape and layout of x. dtype: `dtype`, by default that of x. Errors: TypeError
    (no array, or the dtype), ValueError (the device). Collective. Gathers: no."""
    return _like(x, dtype, device, _filled(0))


def ones_like(
    x: Operand, /, *, dtype: DTypeLike | None = None, device: Device = None
) -> Array:
    """Ones in the shape and layout of x. dtype: `dtype`, by default that of x. Errors: TypeError
    (no array, or the dtype), ValueError (the device). Collective. Gathers: no."""
    return _like(x, dtype, device, _filled(1))


def full_like(
    x: Operand, /, fill_value: Any, *, dtype: DTypeLike | None = None, device: Device = None
) -> Array:
    """`fill_value` in the shape and layout of x. dtype: `dtype`, by default that of x. Errors:
    TypeError (no array, or the dtype), ValueError (the device). Collective. Gathers: no."""
    if isinstance(fill_value, Array):
        fill_value = fill_value._number("full_like()")
    return _like(x, dtype, device, _filled(fill_value))


def asarray(
    obj: Any,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    copy: bool | None = None,
) -> Array:
    """`obj` as an array. An sk.Array or GhostArray keeps its memory: no copy, after one sync. Other
    data is the same on every member; each copies its part. Shape and dtype: those of `obj`, or
    `dtype`. Errors: TypeError (the dtype), ValueError (a copy is needed, or the device),
    InvalidError (an sk.Array that is mirrored or of a smaller group). Collective. Gathers: no."""
    check_device(device)
    dtype = None if dtype is None else check_dtype(dtype)
    if isinstance(obj, sk.Array):
        x = of_storage(obj)
    elif isinstance(obj, sk.GhostArray):
        x = _of_ghosts(obj)
    elif isinstance(obj, Array):
        x = obj
    else:
        return _of_data(obj, dtype, copy)
    if dtype is not None and dtype != x.dtype:
        if copy is False:
            raise ValueError(f"{x.dtype} cannot become {dtype} without a copy")
        return astype(x, dtype)
    return x.copy() if copy else x


def _of_data(obj: Any, dtype: DTypeLike | None, copy: bool | None) -> Array:
    """An array of data that every member has: a copy, so that all numbers of ranks act alike."""
    values = np.asarray(with_numbers(obj), dtype)
    check_dtype(values.dtype)
    if copy is not False:
        fresh = not isinstance(obj, np.ndarray) and not hasattr(obj, "__array_interface__")
        return of_data(values, fresh)
    x = of_numpy(values)
    if not np.may_share_memory(values, np.asarray(obj)) or not x.layout.whole:
        raise ValueError(f"a {type(obj).__name__} cannot become this array without a copy")
    x._memory.open = True
    return x


def with_numbers(obj: Any) -> Any:
    """Lists may hold arrays."""
    return each_array(obj, Array.numpy) if some_array(obj) else obj


def _of_ghosts(ghosts: sk.GhostArray) -> Array:
    """A view of the blocks without their ghost cells."""
    if ghosts.group.ranks != _exchange.job().members:
        raise sk.InvalidError("skerry.xp takes arrays of all ranks: this one has a smaller group")
    ghosts.sync()
    memory = Memory()
    memory.open = True
    return Array(ghosts.local, _layout.Layout(ghosts.shape, tuple(ghosts._blocks)), memory)


def from_dlpack(x: Any, /, *, device: Device = None, copy: bool | None = None) -> Array:
    """The array of an object with DLPack, which every member has alike. Shape and dtype: those of
    the object. Errors: TypeError (the dtype), ValueError (a copy is needed, or the device).
    Collective. Gathers: no."""
    check_device(device if not isinstance(device, tuple) else None)
    if isinstance(x, Array):
        return x.copy() if copy else x
    return asarray(np.from_dlpack(x), copy=copy)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
) -> Array:
    """start, start + step, ... below stop. Shape: 1-d. dtype: `dtype`; by default int64 if all are
    int, otherwise float64. Errors: TypeError (the dtype), ValueError or ZeroDivisionError (step
    0). Collective. Gathers: no."""
    check_device(device)
    start, stop = (0, start) if stop is None else (start, stop)
    if dtype is None:
        dtype = "int64" if all(isinstance(v, int) for v in (start, stop, step)) else "float64"
    dtype = check_dtype(dtype)
    length = (
        max(0, int(np.ceil((stop - start) / step)))
        if isinstance((stop - start) / step, float)
        and not all(isinstance(v, int) for v in (start, stop, step))
        else len(range(start, stop, step))  # type: ignore[call-overload]  # whole numbers
    )

    def fill(block: Block, box: Box) -> None:
        low, high = box[0]
        if dtype.kind in "iu":
            if length:
                last = start + (length - 1) * step
                np.array([start, last]).astype(dtype)
            wide = np.arange(low, high, dtype=np.int64)
            if dtype == np.uint64:
                wide = wide.astype(np.uint64)
                block[...] = wide * np.array(int(step), np.int64).astype(np.uint64) + np.array(
                    int(start) % 2**64, np.uint64
                )
            elif all(isinstance(v, int) for v in (start, step)):
                block[...] = wide * step + start
            else:
                block[...] = (wide * float(step) + float(start)).astype(dtype)
        else:
            block[...] = np.arange(low, high) * step + start

    return made(new_layout((length,), dtype), dtype, fill)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: Device = None,
    endpoint: bool = True,
) -> Array:
    """`num` numbers evenly from start to stop. Shape: (num,). dtype: `dtype`; by default float64,
    of complex numbers complex128. Errors: TypeError (the dtype), ValueError (num below 0, or the
    device). Collective. Gathers: no."""
    check_device(device)
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    dtype = check_dtype(("complex128" if is_complex else "float64") if dtype is None else dtype)
    num = int(num)
    if num < 0:
        raise ValueError(f"linspace makes at least 0 numbers, not {num}")
    steps = num - 1 if endpoint else num
    step = (stop - start) / steps if steps > 0 else 0

    def fill(block: Block, box: Box) -> None:
        low, high = box[0]
        # In the dtype of the result: a difference beyond float32 must overflow as NumPy's does.
        if steps > 0 and step == 0:
            values = np.arange(low, high) / steps * (stop - start) + start
        else:
            values = np.arange(low, high) * step + start
        if endpoint and num > 1 and high == num and high > low:
            values[-1] = stop
        block[...] = values if dtype.kind not in "iu" else np.floor(values)

    return made(new_layout((num,), dtype), dtype, fill)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: Device = None,
) -> Array:
    """Ones on diagonal k, zeros elsewhere. Shape: (n_rows, n_cols). dtype: `dtype`, by default
    float64. Errors: TypeError (the dtype), ValueError (a negative length, or the device).
    Collective. Gathers: no."""
    n_cols = n_rows if n_cols is None else n_cols

    def fill(block: Block, box: Box) -> None:
        (low, high), (left, right) = box
        block[...] = np.eye(high - low, right - left, k + low - left, block.dtype)

    return _new((n_rows, n_cols), dtype, device, fill)


def _triangle(x: Operand, k: int, function: Callable[[Block, int], Block], name: str) -> Array:
    x = as_array(x)
    if x.ndim < 2:
        raise ValueError(f"{name} takes at least 2 dimensions: reshape x, or take x.numpy()")
    box = x.layout.boxes[_exchange.job().rank]
    block = x._evaluate()
    return Array(function(block, k + box[-2][0] - box[-1][0]).astype(x.dtype), x.layout)


def tril(x: Operand, /, *, k: int = 0) -> Array:
    """Zero above diagonal k of the last two dimensions. Shape and dtype: those of x. Errors:
    TypeError (no array), ValueError (fewer than 2 dimensions). Collective. Gathers: no."""
    return _triangle(x, k, np.tril, "tril")


def triu(x: Operand, /, *, k: int = 0) -> Array:
    """Zero below diagonal k of the last two dimensions. Shape and dtype: those of x. Errors:
    TypeError (no array), ValueError (fewer than 2 dimensions). Collective. Gathers: no."""
    return _triangle(x, k, np.triu, "triu")


def meshgrid(*arrays: Operand, indexing: Literal["xy", "ij"] = "xy") -> list[Array]:
    """Coordinate arrays of a grid. Shape of each: the lengths of all. dtype: its own. Errors:
    TypeError (no array), ValueError (`indexing`, or more than 1 dimension). Collective. Gathers:
    no."""
    from ._manipulation import expanded, reshape

    taken = [as_array(x) for x in arrays]
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    if any(x.ndim > 1 for x in taken):
        raise ValueError("meshgrid takes arrays of at most one dimension: xp.reshape them")
    axes = list(range(len(taken)))
    if indexing == "xy" and len(taken) > 1:
        axes[:2] = [1, 0]
    shape = [1] * len(taken)
    for x, axis in zip(taken, axes, strict=True):
        shape[axis] = x.size
    out = []
    for x, axis in zip(taken, axes, strict=True):
        lines = [x.size if d == axis else 1 for d in range(len(taken))]
        out.append(expanded(reshape(x, tuple(lines)), tuple(shape)))
    return out


def _take(self: Array, shape: Any, dtype: Any, buffer: Any, options: dict[str, Any]) -> None:
    """A new array as numpy.ndarray(shape, dtype, buffer=None) makes one."""
    dtype, buffer = options.pop("dtype", dtype), options.pop("buffer", buffer)
    if buffer is not None or options.keys() - {"order"}:
        raise sk.GatherError("ndarray() of a buffer: use numpy.ndarray and np.asarray")
    made = empty(shape, dtype="float64" if dtype is None else dtype)
    self.layout, self._block = made.layout, made._block


setattr(Array, "_take", _take)
