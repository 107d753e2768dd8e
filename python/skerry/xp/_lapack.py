"""Functions of the BLAS and LAPACK that NumPy has loaded and does not show: LU with its pivots, and
a product that is subtracted in place. Of a NumPy without such a library there are none: the callers
have other ways. Knows nothing of arrays and layouts.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ._types import Block

# How the builds decorate names: (before, after). As in array/loaded_blas.cpp.
_NAMES = (("scipy_", "_64_"), ("", "_64_"), ("scipy_", "_"), ("", "_"))
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # by the character of the dtype


class _Library:
    """Both functions for each dtype, as (getrf, gemm)."""

    def __init__(self, handle: ctypes.CDLL, before: str, after: str) -> None:
        self.functions = {
            kind: tuple(
                getattr(handle, f"{before}{letter}{name}{after}") for name in ("getrf", "gemm")
            )
            for kind, letter in _LETTERS.items()
        }
        self.whole = _whole_numbers(self.functions["d"][0])
        self.numpys = np.dtype(self.whole)


def _whole_numbers(getrf: Callable[..., object]) -> Any:
    """The type of a library's whole numbers. Names do not tell: some have 64 bits without a suffix.
    So a small matrix is factored, and what is written as pivots is looked at. AttributeError:
    another type."""
    matrix = np.array([1.0, 2.0, 3.0, 4.0])  # by columns: the second row is the pivot's
    pivots = np.full(4, -1, np.int64)
    if sys.byteorder == "little":  # where 64 bits of a small number are read as 32, too
        number = ctypes.byref(ctypes.c_int64(2))
        getrf(
            number, number, ctypes.c_void_p(matrix.ctypes.data), number,
            ctypes.c_void_p(pivots.ctypes.data), ctypes.byref(ctypes.c_int64(0)),
        )  # fmt: skip
    for whole in (ctypes.c_int64, ctypes.c_int32):
        expected = np.full(4, -1, np.int64)
        expected.view(np.dtype(whole))[:2] = 2
        if (pivots == expected).all():
            return whole
    raise AttributeError(f"getrf wrote {pivots}, which are no pivots")


@lru_cache(maxsize=1)
def _library() -> _Library | None:
    """What NumPy's linear algebra calls. None: nothing that is known.

    Names are looked up in what that extension was linked with. Another BLAS in the process may know
    less of the processor: an older one took four times as long for a product."""
    from numpy.linalg import _umath_linalg

    try:
        handle = ctypes.CDLL(_umath_linalg.__file__)  # loaded already
    except (OSError, AttributeError):  # it is a part of the interpreter
        return None
    for before, after in _NAMES:
        try:
            return _Library(handle, before, after)
        except AttributeError:  # other names, or numbers of another type
            continue
    return None


def _can_be_passed(x: Block) -> bool:
    """Whether a library reads the elements as NumPy does."""
    return x.dtype.char in _LETTERS and x.dtype.isnative and x.flags.aligned


def lu(turned: Block, pivots: Block) -> bool | None:
    """LU with partial pivoting of a transposed panel in C order, in place; step i exchanged rows i
    and pivots[i]. False if there is no pivot; None, and nothing is done, without a LAPACK."""
    found = _library()
    if found is None or not _can_be_passed(turned):
        return None
    if not turned.flags.c_contiguous or not turned.flags.writeable:
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
    if found is None or not out.size or not a.shape[1] or not out.flags.writeable:
        return False
    if a.dtype != out.dtype or b.dtype != out.dtype:
        return False
    if not all(map(_can_be_passed, (out, a, b))):
        return False
    target, left, right = _operand(out), _operand(a), _operand(b)
    if target is None or target[0] == b"T" or left is None or right is None:
        return False
    whole = found.whole
    numbers = np.array([-1, 1], out.dtype)
    # In Fortran's order all matrices are transposed: out^T -= b^T a^T.
    found.functions[out.dtype.char][1](
        right[0], left[0], ctypes.byref(whole(out.shape[1])), ctypes.byref(whole(out.shape[0])),
        ctypes.byref(whole(a.shape[1])), ctypes.c_void_p(numbers.ctypes.data),
        ctypes.c_void_p(b.ctypes.data), ctypes.byref(whole(right[1])),
        ctypes.c_void_p(a.ctypes.data), ctypes.byref(whole(left[1])),
        ctypes.c_void_p(numbers.ctypes.data + out.itemsize), ctypes.c_void_p(out.ctypes.data),
        ctypes.byref(whole(target[1])), ctypes.c_long(1), ctypes.c_long(1),
    )  # fmt: skip
    return True
