"""Functions of the BLAS and LAPACK that NumPy has loaded and does not show: LU with its pivots, and
a product that is subtracted in place. Of a NumPy without such a library there are none: the callers
have other ways. Knows nothing of arrays and layouts.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from ._types import Block

# How the builds decorate names: (before, after, whole numbers). As in array/loaded_blas.cpp.
_NAMES = (
    ("scipy_", "_64_", ctypes.c_int64), ("", "_64_", ctypes.c_int64),
    ("scipy_", "_", ctypes.c_int32), ("", "_", ctypes.c_int32),
)  # fmt: skip
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # by the character of the dtype


class _Library:
    """Both functions for each dtype, as (getrf, gemm)."""

    def __init__(self, handle: ctypes.CDLL, before: str, after: str, whole: Any) -> None:
        self.whole = whole
        self.numpys = np.dtype(whole)
        self.functions = {
            kind: tuple(
                getattr(handle, f"{before}{letter}{name}{after}") for name in ("getrf", "gemm")
            )
            for kind, letter in _LETTERS.items()
        }


@lru_cache(maxsize=1)
def _library() -> _Library | None:
    """What NumPy has loaded. None: there is none that is known."""
    try:
        with open("/proc/self/maps") as lines:
            paths = {line.split()[-1] for line in lines if "blas" in line or "lapack" in line}
    except OSError:
        return None
    for path in sorted(paths):
        for before, after, whole in _NAMES:
            try:
                return _Library(ctypes.CDLL(path), before, after, whole)
            except (OSError, AttributeError):  # no library, or not with these names
                continue
    return None


def lu(turned: Block, pivots: Block) -> bool | None:
    """LU with partial pivoting of a transposed panel in C order, in place; step i exchanged rows i
    and pivots[i]. False if there is no pivot; None, and nothing is done, without a LAPACK."""
    found = _library()
    if found is None or turned.dtype.char not in _LETTERS or not turned.flags.c_contiguous:
        return None
    whole = found.whole
    width, m = turned.shape
    steps = np.zeros(min(width, m), found.numpys)
    count, info = whole(m), whole(0)
    found.functions[turned.dtype.char][0](
        ctypes.byref(count), ctypes.byref(whole(width)), ctypes.c_void_p(turned.ctypes.data),
        ctypes.byref(count), ctypes.c_void_p(steps.ctypes.data), ctypes.byref(info),
    )  # fmt: skip
    pivots[: len(steps)] = steps
    pivots[: len(steps)] -= 1
    return info.value == 0


def _operand(x: Block) -> tuple[bytes, int] | None:
    """How a matrix in C order is passed: (whether it is transposed, elements from row to row)."""
    item = x.itemsize
    rows, columns = x.strides
    if columns == item and rows >= item * x.shape[1] and rows % item == 0:
        return b"N", rows // item
    if rows == item and columns >= item * x.shape[0] and columns % item == 0:
        return b"T", columns // item
    return None


def subtracted(out: Block, a: Block, b: Block) -> bool:
    """out -= a @ b in place. False, and nothing is done, where it cannot be."""
    found = _library()
    kind = out.dtype.char
    if found is None or kind not in _LETTERS or not out.size or not a.shape[1]:
        return False
    if a.dtype != out.dtype or b.dtype != out.dtype:
        return False
    target, left, right = _operand(out), _operand(a), _operand(b)
    if target is None or target[0] == b"T" or left is None or right is None:
        return False
    whole = found.whole
    numbers = np.array([-1, 1], out.dtype)
    # In Fortran's order all matrices are transposed: out^T -= b^T a^T.
    found.functions[kind][1](
        right[0], left[0], ctypes.byref(whole(out.shape[1])), ctypes.byref(whole(out.shape[0])),
        ctypes.byref(whole(a.shape[1])), ctypes.c_void_p(numbers.ctypes.data),
        ctypes.c_void_p(b.ctypes.data), ctypes.byref(whole(right[1])),
        ctypes.c_void_p(a.ctypes.data), ctypes.byref(whole(left[1])),
        ctypes.c_void_p(numbers.ctypes.data + out.itemsize), ctypes.c_void_p(out.ctypes.data),
        ctypes.byref(whole(target[1])), ctypes.c_long(1), ctypes.c_long(1),
    )  # fmt: skip
    return True
