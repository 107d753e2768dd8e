"""Making windows. The interface is described in __init__.pyi."""

import math

import numpy as np

from . import _core
from ._together import agree
from .errors import DtypeError, Error, InvalidError


def window(shape, dtype="uint8", *, group=None):
    """Memory that the others access in epochs; collective."""
    dims, kind, refused = None, None, None
    try:
        dims, kind = _shape(shape), _dtype(dtype)
    except Error as error:
        refused = error
    _agree(kind, refused, group)
    return _core._window_allocate(math.prod(dims) * kind.itemsize, kind, dims, group)


def window_over(memory, *, group=None):
    """A window over memory that the program owns; collective."""
    kind, refused = None, None
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


def window_dynamic(*, group=None):
    """A window to which members attach memory; collective."""
    return _core._window_over(None, np.dtype("uint8"), (0,), group)


def _shape(shape):
    try:
        dims = (int(shape),) if hasattr(shape, "__index__") else tuple(int(n) for n in shape)
    except (TypeError, ValueError):
        raise InvalidError(f"shape is {shape!r}: give a number or a tuple of numbers") from None
    if any(n < 0 for n in dims):
        raise InvalidError(f"shape is {dims}: no dimension can be negative")
    return dims


def _dtype(dtype):
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise DtypeError(f"no such dtype: {dtype!r}") from None
    if kind.hasobject or not kind.itemsize:
        raise DtypeError(f"dtype is {kind}: a window holds numbers, not references, of 1 byte on")
    return kind


def _agree(kind, refused, group):
    text = f"dtype is {kind}, but another member gave another: all give the same"
    agree(kind, refused, group, differ=text, error=DtypeError)
