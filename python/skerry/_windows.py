"""Making windows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from . import _core
from ._together import agree
from .errors import DtypeError, Error, InvalidError
from ._core import Group, Window
from ._types import Block, ShapeLike


def window(shape: ShapeLike, dtype: DTypeLike = "uint8", *, group: Group | None = None) -> Window:
    """A window over new memory: `shape` elements of `dtype` on this member, zeroed; by default
    bytes. Shapes may differ between members, the dtype may not. Collective.

        w = sk.window(100, "int64")
        with w.lock(1):                  # rank 1 takes no part
            w.put(1, 7, w.get(1, 7) + 1)

    Errors: InvalidError (a shape), DtypeError, NoMemoryError; on every member if on one."""
    dims: tuple[int, ...] = (0,)
    kind, refused = np.dtype("uint8"), None
    try:
        dims, kind = _shape(shape), _dtype(dtype)
    except Error as error:
        refused = error
    _agree(kind, refused, group)
    return _core._window_allocate(math.prod(dims) * kind.itemsize, kind, dims, group)


def window_over(memory: Block, *, group: Group | None = None) -> Window:
    """A window over memory that the program owns: any C-contiguous, writable array, of the same
    dtype on every member. It keeps the array alive until free(). The others reach it without
    this process's help. Collective. Errors: InvalidError, DtypeError; UnsupportedError if this
    system does not let the processes of a node reach each other's memory. The shape is each
    member's own."""
    kind, refused = np.dtype("uint8"), None
    try:
        if not isinstance(memory, np.ndarray):
            raise InvalidError(f"memory is {type(memory).__name__}: give a NumPy array")
        if not (memory.flags.c_contiguous and memory.flags.writeable):
            raise InvalidError("memory must be C-contiguous and writable: give a copy of it")
        kind = _dtype(memory.dtype)
    except Error as error:
        refused = error
    _agree(kind, refused, group)
    return _core._window_over(memory, kind, memory.shape, group)


def window_dynamic(*, group: Group | None = None) -> Window:
    """A window of bytes, without memory: members attach and detach their own at any time.
    Displacements are addresses, as attach returns them, in bytes. Collective. Errors:
    NoMemoryError."""
    return _core._window_over(None, np.dtype("uint8"), (0,), group)


def _shape(shape: Any) -> tuple[int, ...]:
    try:
        dims = (int(shape),) if hasattr(shape, "__index__") else tuple(int(n) for n in shape)
    except (TypeError, ValueError):
        raise InvalidError(f"shape is {shape!r}: give a number or a tuple of numbers") from None
    if any(n < 0 for n in dims):
        raise InvalidError(f"shape is {dims}: no dimension can be negative")
    return dims


def _dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise DtypeError(f"no such dtype: {dtype!r}") from None
    if kind.hasobject or not kind.itemsize:
        raise DtypeError(f"dtype is {kind}: a window holds numbers, not references, of 1 byte on")
    return kind


def _agree(kind: np.dtype[Any], refused: Error | None, group: Group | None) -> None:
    text = f"dtype is {kind}, but another member gave another: all give the same"
    agree(kind, refused, group, differ=text, error=DtypeError)
