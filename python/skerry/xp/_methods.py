"""NumPy's methods of arrays, for programs that are written with them: x.sum(axis=0), x.dot(y)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike

import skerry as sk
from skerry import _core, _picture
from . import _exchange, _twins
from ._array import Array
from ._elementwise import _imag, apply, astype, functions, real_for
from ._manipulation import matrix_transpose, permute_dims, reshape


def _transposed(self: Array, *axes: Any) -> Array:
    """Axes in another order, by default reversed; a view."""
    if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
        axes = axes[0]
    return permute_dims(self, axes or tuple(reversed(range(self.ndim))))


def _filled(self: Array, value: Any) -> None:
    """Sets all elements."""
    self[...] = value


def _converted(
    self: Array,
    dtype: DTypeLike,
    order: str = "K",
    casting: Any = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Array:
    """With another dtype; its order in memory is not the program's."""
    dtype = np.dtype(dtype)
    if not np.can_cast(self.dtype, dtype, casting):
        raise TypeError(f"astype: {self.dtype} to {dtype} is not {casting!r}")
    return astype(real_for(self, dtype), dtype, copy=copy)


def _conjugated(self: Array) -> Array:
    """Complex conjugates; other arrays themselves."""
    return functions["conj"](self) if self.dtype.kind == "c" else self


def _flat(self: Array, order: str = "C") -> Array:
    """A 1-d copy."""
    if order == "F":
        raise sk.GatherError("flatten of another order than C: use x.numpy()")
    return reshape(self, (-1,), copy=True)


def _shaped(self: Array, *shape: Any, order: str | None = "C", copy: bool | None = None) -> Array:
    """In another shape, in C order."""
    if order not in (None, "C", "A"):
        raise sk.GatherError(f"reshape in order {order!r}, not 'C', is not distributed: x.numpy()")
    return reshape(self, shape[0] if len(shape) == 1 else shape, copy=copy)


def _svg(self: Array) -> str:
    """Who holds what."""
    boxes = [(rank, sk.node(rank), box) for rank, box in enumerate(self.layout.boxes)]
    return _picture.picture(self.shape, boxes[:1] if self.layout.whole else boxes)


def _html(self: Array) -> str:
    where = "whole on every rank"
    if not self.layout.whole:
        where = f"divided over {_exchange.ranks()} ranks"
    return _picture.table("skerry.xp.Array", self.shape, self.dtype, where, _svg(self))


def _refused(name: str) -> Callable[..., NoReturn]:
    def method(self: Array, *arguments: Any, **options: Any) -> NoReturn:
        raise sk.GatherError(
            f"{name} of a divided array is not there: use x.numpy(), or x.local for the own block"
        )

    method.__name__ = name
    return method


setattr(Array, "_repr_svg_", _svg)
setattr(Array, "_repr_html_", _html)

# Of divided arrays; whole ones have NumPy's.
_BY_NAME: dict[str, Callable[..., Any]] = {
    "astype": _converted, "conj": _conjugated, "conjugate": _conjugated, "fill": _filled,
    "flatten": _flat, "reshape": _shaped, "transpose": _transposed, "copy": Array.copy,
    "item": Array.item, "tolist": Array.tolist,
}  # fmt: skip
_FUSE = set("sum prod min max mean var std any all".split())
_WRITE = set("sort partition fill put resize setfield byteswap".split())


def _part(x: Array, name: str) -> Array:
    """Real or imaginary parts: of complex numbers a view."""
    return Array(getattr(x._evaluate(), name), x.layout, x._memory, (_part, x, name))


_twins.makers[_part] = getattr
_twins.keep_order.add(_part)


def _imaginary(x: Array) -> Array:
    """Of real numbers zeros, which may not be written."""
    if x.dtype.kind == "c":
        return _part(x, "imag")
    out = apply(_imag, x)
    out._frozen = True
    return out


def method(name: str, spread: Callable[..., Any]) -> None:
    """Gives arrays NumPy's method of that name, and divided arrays `spread`."""
    kind = f"method {'fuses' if name in _FUSE else ''} {'writes' if name in _WRITE else ''}"
    made = _core.xp_function(name, spread, kind)
    made.__name__ = name
    setattr(Array, name, made)


def attribute(name: str, spread: Callable[[Array], Array]) -> None:
    """Gives whole arrays NumPy's attribute of that name, and divided ones spread(array)."""
    setattr(Array, name, _core.xp_function(name, spread, "attribute"))


attribute("T", lambda self: permute_dims(self, tuple(reversed(range(self.ndim)))))
attribute("mT", matrix_transpose)
attribute("real", lambda self: self if self.dtype.kind != "c" else _part(self, "real"))
attribute("imag", _imaginary)
