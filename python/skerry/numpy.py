"""NumPy with arrays of all ranks, for programs that do `import skerry.numpy as np`.

    import skerry.numpy as np
    A, b = np.random.rand(4000, 4000), np.random.rand(4000)
    x = np.zeros(4000)
    for _ in range(10):
        x = x + (b - A.dot(x)) / np.diag(A)
    print(np.linalg.norm(x))

What makes arrays makes those of skerry.xp; all members call together. Everything else is NumPy's
own name: its functions call skerry.xp's for such arrays. Where there is none they collect the array
on every rank, up to xp.options()["gather_bytes"].
`x.numpy()` is a NumPy copy of all of x.
"""

from __future__ import annotations

import builtins as _builtins
import importlib as _importlib
import math as _math
import sys as _sys
import types as _types
import typing as _typing

import numpy as _numpy

from skerry import _core
from . import xp as _xp
from .xp import _creation, _exchange, _more, _numpy as _functions, _options, _whole
from .xp import random as random
from .xp._files import (
    fromfile as fromfile,
    genfromtxt as genfromtxt,
    load as load,
    loadtxt as loadtxt,
    save as save,
    savetxt as savetxt,
    savez as savez,
    savez_compressed as savez_compressed,
)
from .xp._pointwise import vectorize as vectorize

if _typing.TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import DTypeLike

    from .xp._types import Device

ndarray = _xp.Array

# What `from skerry.numpy import *` brings: abs, sum, max ... are NumPy's, as with numpy. In this
# module too, once the program has asked for them: functions here take those of _builtins.
__all__ = [name for name in _numpy.__all__ if not name.startswith("__")]


def _is_whole(shape: Any, dtype: DTypeLike | None) -> bool:
    """Whether a new array is whole on every rank."""
    if _exchange.ranks() == 1:
        return True
    try:
        count = _math.prod(shape) if isinstance(shape, (tuple, list)) else shape
        return count * _numpy.dtype(dtype).itemsize <= _options.values["whole_bytes"]
    except TypeError:
        return False


def _made(name: str) -> Callable[..., _xp.Array]:
    """A function that makes an array of a shape."""
    whole, divided = getattr(_numpy, name), getattr(_creation, name)

    def call(
        shape: Any,
        dtype: DTypeLike | None = None,
        order: Any = "C",
        *,
        device: Device = None,
        like: Any = None,
    ) -> _xp.Array:
        if _is_whole(shape, dtype):
            return _core.xp_whole(whole(shape, dtype, order, device=device))
        return divided(shape, dtype=dtype, device=device)

    call.__name__, call.__doc__ = name, divided.__doc__
    return call


zeros, ones, empty = map(_made, ("zeros", "ones", "empty"))


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    *,
    device: Device = None,
    like: Any = None,
) -> _xp.Array:
    """start, start + step, ... below stop; of small arrays as numpy.arange. Shape: 1-d. dtype:
    `dtype`; by default int64, or float64 if some argument is no whole number. Errors: TypeError
    (the dtype). Collective. Gathers: no."""
    low, high = (0, start) if stop is None else (start, stop)
    length = _builtins.abs((high - low) / step) if step else 0
    if _exchange.ranks() == 1 or length * 16 <= _options.values["whole_bytes"]:
        return _core.xp_whole(_numpy.arange(low, high, step, dtype))  # type: ignore[call-overload]
    return _creation.arange(low, high, step, dtype=dtype, device=device)


def full(
    shape: Any,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    order: Any = "C",
    *,
    device: Device = None,
    like: Any = None,
) -> _xp.Array:
    """A new array of `fill_value`. Shape: `shape`. dtype: `dtype`; by default that of fill_value.
    Errors: TypeError (the dtype), ValueError (a negative length). Collective. Gathers: no."""
    if isinstance(fill_value, _xp.Array):
        fill_value = fill_value.numpy()
    if _is_whole(shape, "complex128") or _numpy.ndim(fill_value):
        return array(_numpy.full(shape, fill_value, dtype, order), copy=False)
    return _creation.full(shape, fill_value, dtype=dtype)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Device = None,
) -> Any:
    """`num` numbers evenly from start to stop, and with `retstep` their distance. Shape: (num,),
    with the axes of start and stop after `axis`. dtype: `dtype`; by default float64, of complex
    numbers complex128. Errors: TypeError (the dtype), ValueError (num below 0). Collective.
    Gathers: start and stop."""
    kinds = (int, float, complex)
    numbers = isinstance(start, kinds) and isinstance(stop, kinds)
    if numbers and not _is_whole(num, "complex128"):
        x = _creation.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
        return (x, (stop - start) / (num - 1 if endpoint else num)) if retstep else x
    start, stop = (_whole.known(x, "linspace") for x in (start, stop))
    whole: Any = _numpy.linspace  # whose types know no bool that is not constant
    values = whole(start, stop, num, endpoint, retstep, dtype, axis)
    if retstep:
        return _xp._array.of_data(values[0], True), values[1]
    return _xp._array.of_data(values, True)


def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: _typing.Any = "xy"
) -> tuple[_xp.Array, ...]:
    """Coordinate arrays of a grid. Shape of each: the lengths of all; with `sparse` only its own.
    dtype: its own. Without `copy` they are views. Errors: ValueError (`indexing`). Collective.
    Gathers: no."""
    arrays = [asarray(x).reshape(-1) for x in xi]
    grid = _creation.meshgrid(*arrays, indexing=indexing)
    if sparse:
        rank = len(arrays)
        axes = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else range(rank)
        lines = [[-1 if d == axis else 1 for d in range(rank)] for axis in axes]
        grid = [x.reshape(line) for x, line in zip(arrays, lines, strict=True)]
    return tuple(x.copy() for x in grid) if copy else tuple(grid)


_convolve = _functions.function("convolve", _numpy.convolve)


def convolve(a: Any, v: Any, mode: _typing.Any = "full", method: _typing.Any = "auto") -> _xp.Array:
    """As numpy.convolve; of arrays with more dimensions, as scipy.signal.convolve. mode: 'full',
    'same' (the shape of a) or 'valid'. method: 'auto', 'direct' or 'fft'. dtype: what holds both.
    Errors: ValueError (shapes, mode or method). Collective. Gathers: the smaller one."""
    a, v = asarray(a), asarray(v)
    if a.ndim <= 1 and v.ndim <= 1 and method in ("auto", "direct"):
        return _convolve(a, v, mode)
    return _more.convolve(a, v, mode, method)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = float,
    order: Any = "C",
    *,
    device: Device = None,
    like: Any = None,
) -> _xp.Array:
    """Ones on diagonal k, zeros elsewhere. Shape: (N, M). dtype: float64 by default. Errors:
    TypeError (the dtype), ValueError (a negative length). Collective. Gathers: no."""
    if _is_whole((N, N if M is None else M), dtype):
        return _core.xp_whole(_numpy.eye(N, M, k, dtype, order))
    return _creation.eye(N, M, k=k, dtype=dtype)


def identity(n: int, dtype: DTypeLike | None = None) -> _xp.Array:
    """The identity matrix. Shape: (n, n). dtype: float64 by default. Errors: TypeError (the dtype),
    ValueError (a negative length). Collective. Gathers: no."""
    return eye(n, dtype=float if dtype is None else dtype)


def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: Any = None,
    *,
    device: Device = None,
    copy: bool | None = None,
    like: Any = None,
) -> _xp.Array:
    """Data that every member has, or an array, as a whole array. Shape and dtype: those of the
    data, or `dtype`. Errors: TypeError (the dtype), ValueError (a copy is needed). Collective.
    Gathers: no."""
    return array(a, dtype, copy=copy)


def array(
    a: Any,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    like: Any = None,
) -> _xp.Array:
    """A new whole array of data that every member has, or of an array. Shape and dtype: those of
    the data, with at least `ndmin` dimensions, or `dtype`. Errors: TypeError (the dtype),
    ValueError (a copy is needed). Collective. Gathers: no."""
    if isinstance(a, _xp.Array):
        if ndmin > a.ndim:
            a = a[(None,) * (ndmin - a.ndim)]
        if not a.layout.whole:
            return _creation.asarray(a, dtype=dtype, copy=copy)
        if not copy and (dtype is None or a.dtype == dtype):
            return a
        if copy is False:
            raise ValueError(f"array: {a.dtype} as {dtype} needs a copy: leave out copy=False")
        a = a._evaluate()
    elif isinstance(a, (list, tuple)):
        if not _whole.all_whole(a):
            return array(_xp._manipulation.of_sequence(a), dtype, copy=None, ndmin=ndmin)
        a = _creation.with_numbers(a)
    elif not isinstance(a, (_numpy.ndarray, _numpy.generic, int, float, complex, str, bytes)):
        if not hasattr(a, "__array__") or type(a).__module__.startswith("skerry"):
            return _creation.asarray(a, dtype=dtype, copy=copy)
    # Whether an ndarray is copied must not depend on the number of ranks: it always is.
    most = _options.values["whole_bytes"]
    if isinstance(a, _numpy.ndarray) and _exchange.ranks() > 1 and a.nbytes > most:
        return _xp._array.of_data(_numpy.array(a, dtype, copy=None, ndmin=ndmin), False)
    values = _numpy.array(a, dtype, order=order, ndmin=ndmin)
    if _exchange.ranks() == 1 or values.nbytes <= most:
        return _core.xp_whole(values)
    return _xp._array.of_data(values, True)


def _same(name: str) -> Callable[..., Any]:
    """A function that gives its argument where nothing has to change; of a divided array its order
    in memory does not."""
    made = _functions.function(name, getattr(_numpy, name))

    def call(a: Any, dtype: DTypeLike | None = None, *arguments: Any, **options: Any) -> Any:
        divided = isinstance(a, _xp.Array) and not a.layout.whole
        if not divided or (name == "asfortranarray" and a.ndim > 1):
            return made(a, dtype, *arguments, **options)
        x = asarray(a, dtype)
        if name == "asarray_chkfinite" and not _xp.all(_xp.isfinite(x)):
            raise ValueError("array must not contain infs or NaNs")
        return x

    call.__name__, call.__doc__ = name, made.__doc__
    return call


asanyarray, ascontiguousarray, asfortranarray, asarray_chkfinite, require = map(
    _same, ("asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite", "require")
)


# Of NumPy's functions, those that neither take nor make arrays.
_AS_THEY_ARE = set(
    "set_printoptions get_printoptions printoptions seterr geterr seterrcall geterrcall setbufsize "
    "getbufsize show_config show_runtime info test get_include typename promote_types issubdtype "
    "isdtype frompyfunc broadcast_shapes iterable".split()
)


class _Grid:
    """NumPy's mgrid and ogrid: what they make are arrays of this module. Of a dense grid each rank
    makes its part of all of them."""

    def __init__(self, numpys: Any) -> None:
        self._numpys = numpys
        self.__doc__ = numpys.__doc__

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, tuple) or not key:
            return array(self._numpys[key])
        lines = tuple(map(array, _numpy.ogrid[key]))
        if self._numpys.sparse:
            return lines
        grids = _xp.meshgrid(*(line.reshape(-1) for line in lines), indexing="ij")
        return _xp.stack(grids, axis=0)

    def __len__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpys, name)


class _Joined:
    """NumPy's r_ and c_. Of arrays and numbers divided arrays are joined where they are; all other
    keys are NumPy's."""

    def __init__(self, numpys: Any, in_columns: bool) -> None:
        self._numpys, self._in_columns = numpys, in_columns
        self.__doc__ = numpys.__doc__

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        arrays = [item for item in items if isinstance(item, _xp.Array)]
        plain = not _builtins.any(isinstance(item, (slice, str)) for item in items)
        if not plain or _whole.all_whole(arrays):
            return array(self._numpys[key])
        parts = [item if isinstance(item, _xp.Array) else array(item) for item in items]
        if self._in_columns:
            parts = [part.reshape(-1, 1) if part.ndim < 2 else part for part in parts]
        else:
            parts = [part.reshape(-1) if part.ndim < 1 else part for part in parts]
        return _xp.concat(parts, axis=-1 if self._in_columns else 0)

    def __len__(self) -> int:
        return 0


# Of numpy.testing, what looks at values.
_COMPARES = set(
    "assert_allclose assert_almost_equal assert_approx_equal assert_array_almost_equal "
    "assert_array_almost_equal_nulp assert_array_equal assert_array_less assert_array_max_ulp "
    "assert_equal".split()
)


def _iterating(name: str) -> Callable[..., Any]:
    """NumPy's nditer and ndenumerate: over copies of divided arrays, which may not be written."""
    numpys = getattr(_numpy, name)

    def call(*arguments: Any, **options: Any) -> Any:
        given = arguments, options
        if not _whole.all_whole(given):
            given = _whole.each_array(given, lambda x: _functions.read_only(x, f"numpy.{name}"))
        return numpys(*given[0], **given[1])

    call.__name__, call.__doc__ = name, numpys.__doc__
    return call


nditer, ndenumerate = _iterating("nditer"), _iterating("ndenumerate")


def _collecting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's that gets NumPy's arrays."""

    def call(*arguments: Any, **options: Any) -> Any:
        return _whole.by_gathering(name, function, arguments, options)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


def _of(name: str, value: Any, module: str = "numpy") -> Any:
    """What stands under a name of NumPy's here."""
    if name in ("mgrid", "ogrid"):
        return _Grid(value)
    if name in ("r_", "c_"):
        return _Joined(value, name == "c_")
    if isinstance(value, _types.ModuleType):
        return _sys.modules.get(f"skerry.{value.__name__}", value)
    if module == "numpy.testing":
        return _collecting(f"{module}.{name}", value) if name in _COMPARES else value
    plain = not callable(value) or isinstance(value, type)
    if plain or name in _AS_THEY_ARE:
        return value
    _exchange.job()  # what is made may be divided
    return _functions.function(name, value, module)


class _Module(_types.ModuleType):
    """A module of NumPy's whose functions take arrays."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{__name__}.{name}", f"numpy.{name} of arrays of all ranks.")
        self._numpys = f"numpy.{name}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        module = _importlib.import_module(self._numpys)  # numpy.testing takes 10 ms
        value = _of(name, getattr(module, name), self._numpys)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return dir(_importlib.import_module(self._numpys))


# In sys.modules, so that they are imported by name: from skerry.numpy.linalg import norm
_MODULES = (
    "linalg fft testing polynomial polynomial.chebyshev polynomial.hermite polynomial.hermite_e "
    "polynomial.laguerre polynomial.legendre polynomial.polynomial".split()
)
_sys.modules |= {f"{__name__}.{name}": _Module(name) for name in _MODULES}
_sys.modules[f"{__name__}.random"] = random
linalg, fft = _sys.modules[f"{__name__}.linalg"], _sys.modules[f"{__name__}.fft"]


__version__ = _numpy.__version__


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    value = _of(name, getattr(_numpy, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_numpy)})
