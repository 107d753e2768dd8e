"""What NumPy would have in place of an array: its strides, which tell whether NumPy reshapes it as
a view. A twin has no elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._type import Array
from ._types import Block, Shape

# What makes a view of an array (the first item of its recipe) -> what makes it of the twin.
makers: dict[Callable[..., Any], Callable[[Block, Any], Block]] = {}

_KNOWS_COPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def twin(x: Array) -> Block:
    """What NumPy would have, not to be read. A reshaped array, which has no recipe, is taken to be
    one in C order. Not collective."""
    if x._is_view and x._recipe is not None:
        function, parent, argument = x._recipe
        return makers[function](twin(parent), argument)
    strides = None if x._is_view else x._memory.strides
    if strides is None:
        strides, step = [], x.itemsize
        for n in reversed(x.shape):
            strides.insert(0, step)
            step *= max(n, 1)
    return np.lib.stride_tricks.as_strided(np.empty(1, x.dtype), x.shape, strides)


def is_plain(x: Array) -> bool:
    """Whether it is in C order without a look at the twin."""
    return not x._is_view and x._memory.strides is None


def reshaped(x: Array, shape: Shape) -> Block | None:
    """The twin of x in another shape; None: NumPy would copy."""
    out = twin(x)
    try:
        if _KNOWS_COPY:
            return out.reshape(shape, copy=False)
        out.shape = shape
    except (ValueError, AttributeError):
        return None
    return out
