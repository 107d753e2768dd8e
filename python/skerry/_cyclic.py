"""Block-cyclic arrays.

Tile i of a dimension belongs to coordinate i mod p of the process grid. The memory is an sk.Array
in which the tiles of a coordinate follow one another; so the own block is what ScaLAPACK calls the
local matrix, row-major.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, SupportsIndex

from numpy.typing import ArrayLike, DTypeLike

from . import _core, _picture
from ._arrays import Irregular, empty, zeros
from ._ghosts import GhostArray, _per_dimension
from ._together import agree
from ._translated import Translated
from .errors import DtypeError, Error, InvalidError, RangeError
from ._core import Array, Group
from ._types import Block, ShapeLike


class CyclicArray(Translated):
    """A distributed array whose tiles go around the process grid: tile i of a dimension belongs to
    coordinate i mod p. So the work of a factorisation stays even while the matrix shrinks."""

    __slots__ = (
        "shape", "dtype", "group", "grid", "tile", "block_starts", "_bases", "_storage",
    )  # fmt: skip

    def __init__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike,
        tile: int | Sequence[int],
        grid: Sequence[int] | None,
        group: Group | None,
    ) -> None:
        lengths: Any = (shape,) if isinstance(shape, SupportsIndex) else tuple(shape)
        refused, tiles = None, [1]
        try:
            self.tile = _per_dimension(tile, len(lengths), "tile", int)
            if not lengths or min(lengths) < 1 or min(self.tile) < 1:
                raise InvalidError(f"tile {tile} of shape {lengths}: all at least 1")
            tiles = [-(-n // t) for n, t in zip(lengths, self.tile, strict=True)]
        except Error as error:
            refused = error
        model = empty(tiles, "int8", grid=None if refused else grid, group=group)
        self.group, self.grid = model.group, model.grid
        model.free()
        what = None if refused else (lengths, self.tile)
        agree(what, refused, self.group, differ="the members gave different shapes or tiles")
        self.shape = lengths
        self.block_starts = tuple(
            list(range(0, n, t)) for n, t in zip(lengths, self.tile, strict=True)
        )
        self._bases = [self._bases_of(d) for d in range(len(lengths))]
        self._storage = zeros(
            lengths, dtype, distribution=Irregular(*self._bases), grid=self.grid, group=self.group
        )
        self.dtype = self._storage.dtype

    def _bases_of(self, d: int) -> list[int]:
        """Where in the memory each coordinate's tiles begin."""
        bases, at = [], 0
        for c in range(self.grid[d]):
            bases.append(at)
            at += sum(self._length(d, i) for i in range(c, len(self.block_starts[d]), self.grid[d]))
        return bases

    def _length(self, d: int, i: int) -> int:
        return min(self.tile[d], self.shape[d] - i * self.tile[d])

    def _there(self, d: int, begin: int, end: int) -> tuple[int, int]:
        i = begin // self.tile[d]
        k, c = divmod(i, self.grid[d])
        shift = self._bases[d][c] + k * self.tile[d] - i * self.tile[d]
        return begin + shift, end + shift

    # ---- who holds what --------------------------------------------------------------------------

    def locate(self, *index: int) -> int:
        """The rank that holds an element. Not collective. Errors: RangeError."""
        if len(index) != self.ndim or any(
            not 0 <= i < n for i, n in zip(index, self.shape, strict=False)
        ):
            raise RangeError(f"index {index} is not inside the array of shape {self.shape}")
        return self._storage.locate(*(self._there(d, i, i + 1)[0] for d, i in enumerate(index)))

    def tiles(self, rank: int | None = None) -> list[tuple[slice, ...]]:
        """The tiles that a rank holds, by default the own, in C order. Not collective. Errors:
        InvalidError (no such rank)."""
        bounds = self._storage.distribution(rank)
        if any(high <= low for low, high in bounds):
            return []
        place = [bases.index(low) for bases, (low, _) in zip(self._bases, bounds, strict=True)]
        lists = [
            [slice(i * t, min((i + 1) * t, n)) for i in range(c, -(-n // t), p)]
            for c, p, t, n in zip(place, self.grid, self.tile, self.shape, strict=True)
        ]
        return list(product(*lists))

    @property
    def local(self) -> Block:
        """The own tiles side by side, a view: ScaLAPACK's local matrix, row-major. Its shape is
        that of the own tiles together, its dtype the array's. Not collective."""
        return self._storage.local

    # ---- other distributions ---------------------------------------------------------------------

    def copy_to(self, target: Array) -> Array:
        """Fills an array of the same shape and any distribution; elements become its dtype. Begins
        and ends with a sync. Collective. Errors: InvalidError (shapes differ)."""
        self._check(target)
        self._storage.sync()
        if target.local.size:
            target.local[...] = self.get(tuple(slice(*b) for b in target.distribution()))
        target.sync()
        self._storage.sync()  # all have read
        return target

    def copy_from(self, source: Array | GhostArray | CyclicArray) -> CyclicArray:
        """Takes the values of an array of the same shape and type and any distribution; of other
        tiles too. The dtype must be the same. Begins and ends with a sync. Collective. Errors:
        InvalidError (shapes differ), DtypeError."""
        self._check(source)
        if source.dtype != self.dtype:  # by all: not every rank has tiles
            raise DtypeError(f"types {self.dtype} and {source.dtype} differ")
        source.sync()
        local, lows, requests = self.local, [low for low, _ in self._storage.distribution()], []
        for tile in self.tiles():
            there = (self._there(d, part.start, part.stop) for d, part in enumerate(tile))
            box = tuple(slice(i - low, j - low) for (i, j), low in zip(there, lows, strict=True))
            requests.append(source.get_nb(tile, local[box]))
        for request in requests:
            request.wait()
        self._storage.sync()
        source.sync()
        return self

    def _check(self, array: Array | GhostArray | CyclicArray) -> None:
        if tuple(array.shape) != tuple(self.shape):
            raise InvalidError(f"shapes {self.shape} and {array.shape} differ")

    def __repr__(self) -> str:
        return (
            f"<skerry.CyclicArray {self.shape} {self.dtype}, tiles of {self.tile} around a grid of "
            f"{self.grid}>"
        )

    def _repr_svg_(self) -> str:
        return _picture.picture(
            self.shape,
            [
                (rank, _core.node(rank), tuple((s.start, s.stop) for s in tile))
                for rank in self.group.ranks
                for tile in self.tiles(rank)
            ],
        )

    def _repr_html_(self) -> str:
        where = " x ".join(map(str, self.tile)) + " tiles around a grid of "
        where += " x ".join(map(str, self.grid))
        return _picture.table(
            "skerry.CyclicArray", self.shape, self.dtype, where, self._repr_svg_()
        )


def cyclic(
    shape: ShapeLike,
    dtype: DTypeLike = "float64",
    *,
    tile: int | Sequence[int],
    grid: Sequence[int] | None = None,
    group: Group | None = None,
) -> CyclicArray:
    """A block-cyclic array of zeros, of tiles of `tile` elements along each dimension; smaller at
    the ends. Collective. Errors: those of zeros()."""
    return CyclicArray(shape, dtype, tile, grid, group)
