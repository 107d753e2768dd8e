"""What NumPy would have in place of an array: its strides, which tell whether NumPy reshapes it as
a view. A twin has no elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._type import Array
from ._types import Block, Shape

# What makes a view of an array (the first item of its recipe) -> what makes it of the twin.
makers: dict[Callable[..., Any], Callable[[Block, Any], Block]] = {}

# Makers that leave axes in their order.
keep_order: set[Callable[..., Any]] = set()

_KNOWS_COPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def twin(x: Array) -> Block:
    """What NumPy would have, not to be read. Not collective."""
    if x.layout.whole:
        return x._evaluate()
    if x._strides is not None:
        return _without_elements(x.dtype, x.shape, x._strides)
    if x._is_view and x._recipe is not None:
        function, parent, argument = x._recipe
        return makers[function](twin(parent), argument)
    return _without_elements(x.dtype, x.shape, _in_order(x.dtype, x.shape, range(len(x.shape))))


def _without_elements(dtype: Any, shape: Shape, strides: Sequence[int]) -> Block:
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)


def _in_order(dtype: Any, shape: Shape, axes: Sequence[int]) -> list[int]:
    """Strides of elements one after another, the last of the axes the fastest."""
    strides, step = [0] * len(shape), dtype.itemsize
    for axis in reversed(axes):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return strides


def is_plain(x: Array) -> bool:
    """Whether it is in C order without a look at the twin."""
    return not x._is_view and x._strides is None


def is_contiguous(x: Array) -> bool:
    """Whether it is in C order, without gaps."""
    return x.layout.whole or is_plain(x) or twin(x).flags.c_contiguous


def reshaped(x: Array, shape: Shape) -> Block | None:
    """The twin of x in another shape; None: NumPy would copy."""
    return _shown(twin(x), shape)


def _shown(block: Block, shape: Shape) -> Block | None:
    """A view in another shape; None: there is none."""
    try:
        if _KNOWS_COPY:
            return block.reshape(shape, copy=False)
        out = block.view()
        out.shape = shape
    except (ValueError, AttributeError):
        return None
    return out


def laid_like(block: Block, like: Block) -> Block:
    """The block, or a copy with gaps, so that NumPy reshapes it as a view where it does so with
    `like`, as far as that goes: all axes become one, or none."""
    if like.flags.c_contiguous:
        return block
    gap = 1 if _shown(like, (like.size,)) is None else 0  # between what no axis joins
    room = np.empty([*(n + gap for n in block.shape), 2], block.dtype)
    key: Any = (*map(slice, block.shape), 0)
    out: Block = room[key]
    out[...] = block
    return out


def keep(out: Array, arrays: Sequence[Array]) -> Array:
    """`out`, a result of elementwise work: NumPy gives it the order of axes of its operands."""
    if not out.layout.whole and len(out.shape) > 1 and any(map(_may_be_turned, arrays)):
        # Of axes of length 2 NumPy makes one, without a look at an element.
        small = [twin(x)[tuple(slice(2) for _ in x.shape)] for x in arrays]
        flags: Any = [["readonly"]] * len(small) + [["writeonly", "allocate"]]
        made = np.nditer([*small, None], ["zerosize_ok"], flags, order="K").operands[-1]
        axes = sorted(range(made.ndim), key=lambda axis: -abs(made.strides[axis]))
        if axes != sorted(axes):
            out._strides = _in_order(out.dtype, out.shape, axes)
    return out


def _may_be_turned(x: Array) -> bool:
    while x._strides is None and x._is_view and x._recipe is not None:
        if x._recipe[0] not in keep_order:
            return True
        x = x._recipe[1]
    return x._strides is not None
