"""Making arrays as NumPy does, and what an Array refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import _core, _picture
from ._core import Array, Group
from .errors import DtypeError, GatherError, InvalidError
from ._types import ShapeLike


class Irregular(_core._Irregular):
    """Blocks may start only at these indices of each dimension (each list begins with 0 and
    ascends). With more blocks than members, neighbouring blocks are joined until each member has at
    most one: so the list of all atoms' first basis functions suits any number of ranks, and each
    node's share of a mirrored array."""

    def __init__(self, *starts: Sequence[SupportsIndex]) -> None:
        super().__init__([[int(start) for start in dimension] for dimension in starts])

    @property
    def starts(self) -> tuple[list[int], ...]:
        """The indices, per dimension. Not collective."""
        return tuple(self._starts)

    def __repr__(self) -> str:
        return f"Irregular({', '.join(map(repr, self._starts))})"


def empty(
    shape: ShapeLike,
    dtype: DTypeLike = "float64",
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """A new array whose contents are undefined. Shape: 1 to 7 lengths, or one number. dtype: bool,
    int8 to int64, uint8 to uint64, float32, float64, complex64 or complex128; bool has no acc,
    scale and merge. Options, by keyword: `distribution`, where blocks may start (default: blocks
    near to square, of equal size); `grid`, blocks per dimension (default: chosen, at most one
    block for each rank); `mirrored`, one copy on every node, over the ranks of that node,
    otherwise one over all ranks; `group`, the ranks that hold it (default: all). Errors, the
    same on every member: InvalidError (a shape, an option, or members that disagree),
    DtypeError, NoMemoryError. Collective."""
    lengths = [int(shape)] if isinstance(shape, SupportsIndex) else [int(n) for n in shape]
    grid = None if grid is None else [int(n) for n in grid]
    return _core._array(lengths, dtype, distribution, grid, bool(mirrored), group)


def zeros(
    shape: ShapeLike,
    dtype: DTypeLike = "float64",
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """A new array of zeros. Shapes, dtypes, options and errors: as of empty(). Collective."""
    # New memory is zero already.
    return empty(shape, dtype, distribution=distribution, grid=grid, mirrored=mirrored, group=group)


def full(
    shape: ShapeLike,
    fill_value: complex,
    dtype: DTypeLike | None = None,
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """A new array whose elements are all `fill_value`; its dtype by default, so ``full(3, 2)`` is
    int64. Shapes, dtypes, options and errors: as of empty(). Collective."""
    dtype = np.asarray(fill_value).dtype if dtype is None else dtype
    return empty(
        shape, dtype, distribution=distribution, grid=grid, mirrored=mirrored, group=group
    ).fill(fill_value)


def ones(
    shape: ShapeLike,
    dtype: DTypeLike = "float64",
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """A new array of ones. Shapes, dtypes, options and errors: as of empty(). Collective."""
    return full(
        shape, 1, dtype, distribution=distribution, grid=grid, mirrored=mirrored, group=group
    )


def asarray(
    data: ArrayLike | Array,
    dtype: DTypeLike | None = None,
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Array:
    """`data` (1 to 7 dimensions, the same on every member) as an Array. Each member copies its own
    block from its own `data`; nothing is sent. An Array is returned as it is; with another
    dtype, or with options, that is an error. Shape and dtype: those of `data`, or `dtype`.
    Options: as of empty(). Errors: InvalidError, DtypeError, NoMemoryError. Collective."""
    if isinstance(data, Array):
        if distribution is not None or grid is not None or mirrored or group is not None:
            raise InvalidError(
                "asarray returns an Array as it is: make one with the wanted distribution, grid, "
                "mirrored and group by empty(), and fill it with copy_to()"
            )
        if dtype is not None and np.dtype(dtype) != data.dtype:
            raise DtypeError(
                f"asarray returns an Array as it is, and this one is {data.dtype}, not "
                f"{np.dtype(dtype)}: convert data.local, or the values of data.get()"
            )
        return data
    values = np.asarray(data, dtype)
    array = empty(
        values.shape,
        values.dtype,
        distribution=distribution,
        grid=grid,
        mirrored=mirrored,
        group=group,
    )
    array.local[...] = values[tuple(slice(*bounds) for bounds in array.distribution())]
    array.sync()
    return array


def empty_like(
    prototype: Array | ArrayLike, dtype: DTypeLike | None = None, *, mirrored: bool | None = None
) -> Array:
    """A new array whose contents are undefined. Shape and dtype: those of `prototype`, or `dtype`;
    if it is an Array also its distribution, grid and group. `mirrored` None: as the prototype.
    Errors: as of empty(). Collective."""
    if not isinstance(prototype, Array):
        values = np.asarray(prototype)
        return empty(values.shape, dtype or values.dtype, mirrored=bool(mirrored))
    starts, grid = prototype._options
    return empty(
        prototype.shape,
        dtype or prototype.dtype,
        distribution=Irregular(*starts) if starts else None,
        grid=grid or None,
        mirrored=prototype.mirrored if mirrored is None else mirrored,
        group=prototype.group,
    )


def zeros_like(
    prototype: Array | ArrayLike, dtype: DTypeLike | None = None, *, mirrored: bool | None = None
) -> Array:
    """A new array of zeros. Shape and dtype: those of `prototype`, or `dtype`; if it is an Array
    also its distribution, grid and group. `mirrored` None: as the prototype. Errors: as of
    empty(). Collective."""
    return empty_like(prototype, dtype, mirrored=mirrored)


def full_like(
    prototype: Array | ArrayLike,
    fill_value: complex,
    dtype: DTypeLike | None = None,
    *,
    mirrored: bool | None = None,
) -> Array:
    """A new array whose elements are all `fill_value`. Shape and dtype: those of `prototype`, or
    `dtype`; if it is an Array also its distribution, grid and group. `mirrored` None: as the
    prototype. Errors: as of empty(). Collective."""
    return empty_like(prototype, dtype, mirrored=mirrored).fill(fill_value)


def ones_like(
    prototype: Array | ArrayLike, dtype: DTypeLike | None = None, *, mirrored: bool | None = None
) -> Array:
    """A new array of ones. Shape and dtype: those of `prototype`, or `dtype`; if it is an Array
    also its distribution, grid and group. `mirrored` None: as the prototype. Errors: as of
    empty(). Collective."""
    return full_like(prototype, 1, dtype, mirrored=mirrored)


def matmul(
    a: Array,
    b: Array,
    out: Array,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    trans_a: bool = False,
    trans_b: bool = False,
) -> Array:
    """out = alpha op(a) op(b) + beta out for 2-d float32 or float64 arrays, mirrored or not; op
    transposes if trans_a or trans_b is True. Collective. Returns `out`. A mirrored `out` has
    equal copies afterwards (with beta, they must agree before). Errors: InvalidError (shapes),
    DtypeError. dtypes: the same of all three."""
    return _core._matmul(a, b, out, alpha, beta, trans_a, trans_b)


# ---- what would move a whole array without saying so ---------------------------------------------


def _refuse(
    what: str, instead: str = "a.get() for a copy of all of it, or a.local for the own block"
) -> NoReturn:
    raise GatherError(
        f"{what} would fetch the whole distributed array without saying so: use {instead}"
    )


def _refusing(what: str, **instead: str) -> Callable[..., NoReturn]:
    def refuse(self: Array, *arguments: Any, **options: Any) -> NoReturn:
        _refuse(what, **instead)

    return refuse


def _array_ufunc(
    self: Array, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
) -> NoReturn:
    _refuse(f"numpy.{ufunc.__name__}")


def _array_function(
    self: Array, function: Callable[..., Any], types: Any, arguments: Any, options: Any
) -> NoReturn:
    _refuse(f"numpy.{function.__name__}")


def _repr(self: Array) -> str:
    if self.freed:
        return "<skerry.Array, freed>"
    kind = "mirrored" if self.mirrored else "distributed"
    return f"<skerry.Array {self.shape} {self.dtype}, {kind} on a grid of {self.grid}>"


def _svg(self: Array) -> str:
    """Who holds what; of a mirrored array, on the own node."""
    here = [r for r in self.group.ranks if not self.mirrored or _core.node(r) == _core.node()]
    boxes = [(rank, _core.node(rank), self.distribution(rank)) for rank in here]
    return _picture.picture(self.shape, boxes)


def _html(self: Array) -> str:
    if self.freed:
        return repr(self)
    nodes = "the node" if _core.nodes() == 1 else f"each of {_core.nodes()} nodes"
    kind = f"mirrored: a copy on {nodes}" if self.mirrored else "distributed"
    grid = " x ".join(map(str, self.grid))
    return _picture.table(
        "skerry.Array", self.shape, self.dtype, f"{kind}, on a grid of {grid} blocks", _svg(self)
    )


for _name, _function in {
    "__repr__": _repr,
    "_repr_svg_": _svg,
    "_repr_html_": _html,
    "__array__": _refusing("numpy.asarray(a)"),
    "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function,
    "__iter__": _refusing("iterating over a", instead="for row in a.get(): ..., or a.local"),
    "__contains__": _refusing("x in a"),
    **{
        f"__{_kind}__": _refusing(f"{_kind}(a)", instead="a[index] for one element")
        for _kind in ("bool", "int", "float", "complex")
    },
}.items():
    setattr(Array, _name, _function)
