"""Names of types that annotations share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

import skerry as sk
from ._type import Array

Block: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
ShapeLike: TypeAlias = Union[SupportsIndex, Sequence[SupportsIndex]]
Box: TypeAlias = tuple[tuple[int, int], ...]  # (low, high) per dimension
Boxes: TypeAlias = tuple[Box, ...]  # one per rank
Cut: TypeAlias = tuple[slice, ...]
# Of a basic slice, per dimension: (start, length, step), an index, or None for a new dimension.
Key: TypeAlias = tuple[Union[tuple[int, int, int], int, None], ...]
Axes: TypeAlias = Union[SupportsIndex, Sequence[SupportsIndex], None]
Device: TypeAlias = Union[Literal["cpu"], None]
Norm: TypeAlias = Literal["backward", "ortho", "forward"]
# What functions take as an array: as_array() makes one of it.
Operand: TypeAlias = Union[Array, NDArray[Any], np.generic, sk.Array]
Fill: TypeAlias = Callable[[Block, Box], None]  # writes the own block, which has this box
Function: TypeAlias = Callable[..., Any]  # of blocks, with out=
