"""Names of types that annotations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias, Union

from numpy.typing import NDArray

Block: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
# One length, or one per dimension.
ShapeLike: TypeAlias = Union[SupportsIndex, Sequence[SupportsIndex]]
Order: TypeAlias = Literal["C", "F"]
Op: TypeAlias = Literal["sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor"]
UpdateOp: TypeAlias = Union[Op, Literal["replace", "no_op"]]

# One entry per dimension (trailing ones may be left out): a slice, an index (drops the dimension,
# as in NumPy), or a (low, high) pair; e.g. np.s_[0:10, 20:30] or ((0, 10), (20, 30)). Slices with a
# step other than 1 suit get, put and acc of an Array; their elements move one by one.
Span: TypeAlias = Union[slice, SupportsIndex, tuple[int, int]]
Patch: TypeAlias = Any  # Span | tuple[Span, ...] | ..., which checkers cannot tell apart
