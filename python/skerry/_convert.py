"""What the extension asks for when values do not fit as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import DtypeError, Error, InvalidError
from ._types import Block


_WRAPS = int(np.__version__.split(".")[0]) < 2  # NumPy 1 makes 44 of 300 in uint8


def _made(values: Any, dtype: np.dtype[Any]) -> Block:
    """numpy.asarray; integers that do not fit are an OverflowError."""
    if _WRAPS and dtype.kind in "iu" and _is_plain(values):
        found, limits = np.asarray(values), np.iinfo(dtype)
        if found.dtype.kind in "iu" and found.size:
            if found.min() < limits.min or found.max() > limits.max:
                raise OverflowError(f"integers out of bounds for {dtype}")
    return np.asarray(values, dtype)


def conform(values: Any, dtype: np.dtype[Any], shape: tuple[int, ...], patch: object) -> Block:
    """`values` as a dense array of `dtype` and `shape`: numbers and lists are converted, shapes
    broadcast, strides made dense.

    An array of another dtype is refused rather than converted: that would cost a copy each time,
    and may lose digits.
    """
    if isinstance(values, (np.ndarray, np.generic)) and values.dtype != dtype:
        if not (isinstance(values, np.generic) and np.can_cast(values.dtype, dtype, "same_kind")):
            raise DtypeError(
                f"values are {values.dtype}, the array is {dtype}: convert them with .astype({dtype.name!r})"
            )
    try:
        converted = _made(values, dtype)
    except Error:  # values are an Array
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise DtypeError(f"cannot make {dtype} of {type(values).__name__}: {error}") from None
    try:
        return np.ascontiguousarray(np.broadcast_to(converted, shape)).reshape(shape)
    except ValueError:
        raise InvalidError(
            f"values of shape {converted.shape} do not fit patch {patch}, which needs {shape}"
        ) from None


def window_values(values: Any, dtype: np.dtype[Any]) -> Block:
    """An origin buffer for a window of `dtype`: arrays as they are, numbers and lists converted.

    A window of bytes (uint8) takes arrays of every dtype. Others refuse another dtype than theirs:
    the target would read other numbers than were sent.
    """
    if isinstance(values, (np.ndarray, np.generic)) or not _is_plain(values):
        try:
            array = np.asarray(values)
        except (NotImplementedError, ValueError) as error:  # ctypes' pointers, ragged lists
            raise DtypeError(f"cannot make numbers of {type(values).__name__}: {error}") from None
        if array.dtype != dtype and dtype != np.uint8:
            raise DtypeError(
                f"values are {array.dtype}, the window is {dtype}: convert them with .astype()"
            )
        return array
    try:
        if np.asarray(values).dtype.kind in "fc" and dtype.kind in "iu":
            raise TypeError("digits would be lost")
        return _made(values, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise DtypeError(f"cannot make {dtype} of {values!r}: {error}") from None


def _is_plain(values: Any) -> bool:
    """Whether it has no dtype of its own."""
    return isinstance(values, (int, float, complex, list, tuple))


def window_out(out: Any, dtype: np.dtype[Any]) -> Any:
    """Where data of a window of `dtype` may arrive; one new element if `out` is None."""
    if out is None:
        return np.empty((), dtype)
    found = getattr(out, "dtype", None)
    if found is not None and found != dtype and dtype != np.uint8:
        raise DtypeError(f"out is {found}, the window is {dtype}: give an array of its dtype")
    return out


def like(array: Block) -> Block:
    """A new array of the shape and dtype of `array`."""
    return np.empty(array.shape, array.dtype)
