"""Dtypes and what the namespace can do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ._array import Array
from ._types import Device, Operand

DTYPES = {
    name: np.dtype(name)
    for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 "
    "complex128".split()
}
_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "real floating": "f", "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """A dtype of the namespace."""
    dtype = np.dtype(dtype)
    if dtype not in DTYPES.values():
        raise TypeError(f"no dtype {dtype}: there are {', '.join(DTYPES)}")
    return dtype.newbyteorder("=")


def check_device(device: Device) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"no device {device!r}: there is 'cpu' alone")


def _dtype_of(x: Any) -> np.dtype[Any]:
    return x.dtype if isinstance(x, (Array, np.ndarray, np.generic)) else np.dtype(x)


def can_cast(from_: DTypeLike | Operand, to: DTypeLike, /) -> bool:
    """Whether the promotion rules allow it. Takes arrays of any shape, for their dtype. Errors:
    TypeError (no dtype). Not collective. Gathers: no."""
    return np.can_cast(_dtype_of(from_), _dtype_of(to))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype of an operation on these arrays, dtypes and Python numbers. Errors: TypeError
    (dtypes that nothing holds), ValueError (no argument). Not collective."""
    if not arrays_and_dtypes:
        raise ValueError("result_type takes at least one array or dtype")
    return np.result_type(
        *[
            x if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)
            else _dtype_of(x)
            for x in arrays_and_dtypes
        ]
    )  # fmt: skip


def isdtype(dtype: DTypeLike, kind: str | np.dtype[Any] | tuple[str | np.dtype[Any], ...]) -> bool:
    """Whether a dtype is of a kind, or one of several. Errors: ValueError (no such kind), TypeError
    (no dtype). Not collective."""
    dtype = np.dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"no kind {kind!r}: there are {', '.join(_KINDS)}")
        return dtype.kind in _KINDS[kind]
    return dtype == kind


class _FloatInfo:
    def __init__(self, info: Any, dtype: np.dtype[Any]) -> None:
        self.dtype, self.bits = dtype, int(info.bits)
        for name in ("eps", "max", "min", "smallest_normal"):
            setattr(self, name, float(getattr(info, name)))


class _IntegerInfo:
    def __init__(self, info: Any, dtype: np.dtype[Any]) -> None:
        self.dtype, self.bits = dtype, int(info.bits)
        self.max, self.min = int(info.max), int(info.min)


def finfo(type: DTypeLike | Operand, /) -> _FloatInfo:
    """Limits of a floating dtype. Takes an array of any shape, for its dtype. Errors: TypeError or
    ValueError (another dtype). Not collective. Gathers: no."""
    dtype = _dtype_of(type)
    real = np.finfo(dtype).dtype if dtype.kind == "c" else dtype
    return _FloatInfo(np.finfo(real), np.dtype(real))


def iinfo(type: DTypeLike | Operand, /) -> _IntegerInfo:
    """Limits of an integer dtype. Takes an array of any shape, for its dtype. Errors: TypeError or
    ValueError (another dtype). Not collective. Gathers: no."""
    dtype = _dtype_of(type)
    return _IntegerInfo(np.iinfo(dtype), dtype)


class Info:
    """What __array_namespace_info__ returns."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return "cpu"

    def default_dtypes(self, *, device: Device = None) -> dict[str, np.dtype[Any]]:
        check_device(device)
        return {
            "real floating": DTYPES["float64"],
            "complex floating": DTYPES["complex128"],
            "integral": DTYPES["int64"],
            "indexing": DTYPES["int64"],
        }

    def devices(self) -> list[str]:
        return ["cpu"]

    def dtypes(
        self,
        *,
        device: Device = None,
        kind: str | tuple[Any, ...] | np.dtype[Any] | None = None,
    ) -> dict[str, np.dtype[Any]]:
        check_device(device)
        return {
            name: dtype for name, dtype in DTYPES.items() if kind is None or isdtype(dtype, kind)
        }


def __array_namespace_info__() -> Info:
    """Capabilities, devices and dtypes."""
    return Info()
