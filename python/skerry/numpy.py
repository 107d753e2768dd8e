"""NumPy over all ranks: a program that does `import skerry.numpy as np` computes with whole arrays.

    import skerry.numpy as np
    A, b = np.random.rand(4000, 4000), np.random.rand(4000)
    x = np.zeros(4000)
    for _ in range(10):
        x = x + (b - A.dot(x)) / np.diag(A)
    print(np.linalg.norm(x))

What makes arrays makes those of skerry.xp; all members call together. Everything else is NumPy's
own name: its functions call skerry.xp's for such arrays, and raise GatherError where there is none.
`x.numpy()` is a NumPy copy of all of x.
"""

import numpy as _numpy

from . import xp as _xp
from .xp import _creation
from .xp import random  # noqa: F401 (part of the module)
from .xp._more import convolve  # noqa: F401

ndarray = _xp.Array


def _made(function):
    """A function that makes an array, with the dtype by position too."""

    def call(shape, dtype=None):
        return function(shape, dtype=dtype)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


zeros, ones, empty = map(_made, (_creation.zeros, _creation.ones, _creation.empty))
linspace, arange, meshgrid = _creation.linspace, _creation.arange, _creation.meshgrid


def full(shape, fill_value, dtype=None):
    """A new array of `fill_value`."""
    return _creation.full(shape, fill_value, dtype=dtype)


def eye(N, M=None, k=0, dtype=None):
    """Ones on diagonal k, zeros elsewhere."""
    return _creation.eye(N, M, k=k, dtype=dtype)


def identity(n, dtype=None):
    """The identity matrix."""
    return eye(n, dtype=dtype)


def asarray(a, dtype=None, copy=None):
    """Data that every member has, or an array, as a whole array."""
    return _creation.asarray(a, dtype=dtype, copy=copy)


def array(a, dtype=None, copy=True):
    """A new whole array of data that every member has, or of an array."""
    return _creation.asarray(a, dtype=dtype, copy=copy)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_numpy, name)


def __dir__():
    return sorted({*globals(), *dir(_numpy)})
