"""Making arrays as NumPy does, and what an Array refuses. The interface is described in
__init__.pyi."""

import numpy as np

from . import _core, _picture
from ._core import Array
from .errors import DtypeError, GatherError, InvalidError


class Irregular(_core._Irregular):
    """Blocks may start only at these indices of each dimension."""

    def __init__(self, *starts):
        super().__init__([[int(start) for start in dimension] for dimension in starts])

    @property
    def starts(self):
        return tuple(self._starts)

    def __repr__(self):
        return f"Irregular({', '.join(map(repr, self._starts))})"


def empty(shape, dtype="float64", *, distribution=None, grid=None, mirrored=False, group=None):
    """A new array of undefined contents; collective."""
    shape = [int(shape)] if hasattr(shape, "__index__") else [int(n) for n in shape]
    grid = None if grid is None else [int(n) for n in grid]
    return _core._array(shape, dtype, distribution, grid, bool(mirrored), group)


def zeros(shape, dtype="float64", *, distribution=None, grid=None, mirrored=False, group=None):
    """A new array of zeros; collective."""
    # New memory is zero already.
    return empty(shape, dtype, distribution=distribution, grid=grid, mirrored=mirrored, group=group)


def full(
    shape, fill_value, dtype=None, *, distribution=None, grid=None, mirrored=False, group=None
):
    """A new array whose elements are all `fill_value`; collective."""
    dtype = np.asarray(fill_value).dtype if dtype is None else dtype
    return empty(
        shape, dtype, distribution=distribution, grid=grid, mirrored=mirrored, group=group
    ).fill(fill_value)


def ones(shape, dtype="float64", *, distribution=None, grid=None, mirrored=False, group=None):
    """A new array of ones; collective."""
    return full(
        shape, 1, dtype, distribution=distribution, grid=grid, mirrored=mirrored, group=group
    )


def asarray(data, dtype=None, *, distribution=None, grid=None, mirrored=False, group=None):
    """`data`, the same on every member, as an array; collective. An Array is returned as it is."""
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


def empty_like(prototype, dtype=None, *, mirrored=None):
    """A new array of undefined contents, like the prototype; collective."""
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


def zeros_like(prototype, dtype=None, *, mirrored=None):
    """A new array of zeros, like the prototype; collective."""
    return empty_like(prototype, dtype, mirrored=mirrored)


def full_like(prototype, fill_value, dtype=None, *, mirrored=None):
    """A new array of `fill_value`, like the prototype; collective."""
    return empty_like(prototype, dtype, mirrored=mirrored).fill(fill_value)


def ones_like(prototype, dtype=None, *, mirrored=None):
    """A new array of ones, like the prototype; collective."""
    return full_like(prototype, 1, dtype, mirrored=mirrored)


def matmul(a, b, out, *, alpha=1.0, beta=0.0, trans_a=False, trans_b=False):
    """out = alpha op(a) op(b) + beta out; collective."""
    return _core._matmul(a, b, out, alpha, beta, trans_a, trans_b)


# ---- what would move a whole array without saying so ---------------------------------------------


def _refuse(what, instead="a.get() for a copy of all of it, or a.local for the own block"):
    raise GatherError(
        f"{what} would fetch the whole distributed array without saying so: use {instead}"
    )


def _refusing(what, **instead):
    def refuse(self, *arguments, **options):
        _refuse(what, **instead)

    return refuse


def _array_ufunc(self, ufunc, method, *inputs, **options):
    _refuse(f"numpy.{ufunc.__name__}")


def _array_function(self, function, types, arguments, options):
    _refuse(f"numpy.{function.__name__}")


def _repr(self):
    if self.freed:
        return "<skerry.Array, freed>"
    kind = "mirrored" if self.mirrored else "distributed"
    return f"<skerry.Array {self.shape} {self.dtype}, {kind} on a grid of {self.grid}>"


def _svg(self):
    """Who holds what; of a mirrored array, on the own node."""
    here = [r for r in self.group.ranks if not self.mirrored or _core.node(r) == _core.node()]
    boxes = [(rank, _core.node(rank), self.distribution(rank)) for rank in here]
    return _picture.picture(self.shape, boxes)


def _html(self):
    if self.freed:
        return repr(self)
    nodes = "the node" if _core.nodes() == 1 else f"each of {_core.nodes()} nodes"
    kind = f"mirrored: a copy on {nodes}" if self.mirrored else "distributed"
    grid = " x ".join(map(str, self.grid))
    return _picture.table(
        "skerry.Array", self.shape, self.dtype, f"{kind}, on a grid of {grid} blocks", _svg(self)
    )


Array.__repr__ = _repr
Array._repr_svg_ = _svg
Array._repr_html_ = _html
Array.__array__ = _refusing("numpy.asarray(a)")
Array.__array_ufunc__ = _array_ufunc
Array.__array_function__ = _array_function
Array.__iter__ = _refusing("iterating over a", instead="for row in a.get(): ..., or a.local")
Array.__contains__ = _refusing("x in a")
for _name, _what in {
    "__bool__": "bool(a)",
    "__int__": "int(a)",
    "__float__": "float(a)",
    "__complex__": "complex(a)",
}.items():
    setattr(Array, _name, _refusing(_what, instead="a[index] for one element"))
