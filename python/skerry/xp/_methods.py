"""NumPy's methods of arrays, for programs that are written with them: x.sum(axis=0), x.dot(y)."""

import numpy as np

import skerry as sk
from skerry import _picture
from . import _reductions
from ._array import Array
from ._elementwise import astype, clip, functions
from ._indexing import take
from ._manipulation import permute_dims, reshape, squeeze
from ._more import dot


def _reduction(name):
    function = getattr(_reductions, name)

    def method(self, axis=None, **options):
        if "ddof" in options:
            options["correction"] = options.pop("ddof")
        return function(self, axis=axis, **options)

    method.__name__, method.__doc__ = name, f"xp.{name}(x, ...)."
    return method


for _name in "all any argmax argmin max mean min prod std sum var".split():
    setattr(Array, _name, _reduction(_name))


def _transposed(self, *axes):
    """Axes in another order, by default reversed; a view."""
    if len(axes) == 1 and not isinstance(axes[0], int):
        axes = axes[0]
    return permute_dims(self, axes or tuple(reversed(range(self.ndim))))


def _squeezed(self, axis=None):
    """Without axes of length 1; a view."""
    ones = tuple(d for d, n in enumerate(self.shape) if n == 1)
    return squeeze(self, ones if axis is None else axis)


def _filled(self, value):
    """Sets all elements."""
    self[...] = value


def _converted(self, dtype, copy=True):
    """With another dtype."""
    return astype(self, np.dtype(dtype), copy=copy)


def _numbers(self):
    """Of arrays that every rank has, the values; of others, what they are."""
    if self.layout.whole and self.size <= 1000:
        return str(self._evaluate()[()])
    return repr(self)


def _formatted(self, specification):
    return format(self._number("format()"), specification) if specification else str(self)


def _svg(self):
    """Who holds what."""
    boxes = [(rank, sk.node(rank), box) for rank, box in enumerate(self.layout.boxes)]
    return _picture.picture(self.shape, boxes[:1] if self.layout.whole else boxes)


def _html(self):
    where = "whole on every rank" if self.layout.whole else f"divided over {len(sk.world())} ranks"
    return _picture.table("skerry.xp.Array", self.shape, self.dtype, where, _svg(self))


Array._repr_svg_ = _svg
Array._repr_html_ = _html
Array.astype = _converted
Array.clip = lambda self, min=None, max=None: clip(self, min, max)
Array.conj = lambda self: functions["conj"](self)
Array.cumsum = lambda self, axis=None: _reductions.cumulative_sum(self, axis=axis)
Array.dot = dot
Array.fill = _filled
Array.ravel = Array.flatten = lambda self: reshape(self, (-1,), copy=True)
Array.round = lambda self: functions["round"](self)
Array.squeeze = _squeezed
Array.take = lambda self, indices, axis=None: take(self, indices, axis=axis)
Array.transpose = _transposed
Array.__str__ = _numbers
Array.__format__ = _formatted
