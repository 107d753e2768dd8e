"""Elementwise functions of NumPy that are no ufuncs: each rank calls NumPy on its own part, or the
parts of a larger expression are computed when it is."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import skerry as sk
from . import _whole
from ._array import Array
from ._elementwise import apply, functions
from ._exchange import agree, agree_no_error
from ._manipulation import array_of, of_sequence
from ._reductions import all as all_of
from ._reductions import any as any_of

# Functions of one array whose other arguments are numbers: what they compute.
_NAMES = {
    "angle": "the angle of complex elements",
    "fix": "rounded towards zero",
    "i0": "the modified Bessel function of the first kind, order 0",
    "iscomplex": "whether the imaginary part is not zero",
    "isneginf": "whether it is negative infinity",
    "isposinf": "whether it is positive infinity",
    "isreal": "whether the imaginary part is zero",
    "nan_to_num": "numbers for NaN and infinities",
    "sinc": "sin(pi x) / (pi x)",
}

__all__ = [
    *_NAMES, "array_equiv", "iscomplexobj", "isrealobj", "may_share_memory", "polyval",
    "real_if_close", "shares_memory",
]  # fmt: skip


@lru_cache
def _with(function: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    """function(x, **options) in the form that apply() takes."""
    fixed = dict(options)

    def call(block: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        value = np.asarray(function(block, **fixed))
        if out is None:
            return value
        out[...] = value
        return out

    return call


def _pointwise(name: str, what: str) -> Callable[..., Any]:
    function = getattr(np, name)
    signature = inspect.signature(function)

    def call(*arguments: Any, **options: Any) -> Array:
        given = signature.bind(*arguments, **options).arguments
        x = array_of(given.pop(next(iter(signature.parameters))))
        out = given.pop("out", None)
        copy = given.pop("copy", True)
        rest = {key: _number(value, name) for key, value in given.items()}
        value = apply(_with(function, tuple(sorted(rest.items()))), x)
        if out is None and copy:
            return value
        target = x if out is None else out
        target[...] = value
        return target

    call.__name__ = call.__qualname__ = name
    setattr(call, "__signature__", signature)
    call.__doc__ = f"Of each element, {what}; as numpy.{name}. Collective. Gathers: no."
    return call


def _number(value: Any, name: str) -> Any:
    if value is None or isinstance(value, (bool, int, float, complex, np.generic)):
        return value
    raise _whole.NotDistributed(f"{name} with arrays besides x: use x.numpy()")


globals().update({name: _pointwise(name, what) for name, what in _NAMES.items()})


class vectorize(np.vectorize):
    """As numpy.vectorize. Of divided arrays each rank calls the function for its own elements; with
    several results, results or arguments that are no numbers, `signature`, `excluded` or arguments
    by name the arrays are collected. Shape: what the arguments broadcast to. dtype: `otypes`, or
    that of the first element's result. Errors: what the function raises, on the other ranks
    InvalidError. Collective."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = super().__call__
        if not _whole.some_array(args, kwargs):
            return call(*args, **kwargs)
        if _whole.all_whole(args, kwargs):
            return _whole.with_numpy(call, args, kwargs)
        if not (kwargs or self.signature or self.excluded):
            arrays = [_numbers(x) for x in args]
            known = [x for x in arrays if x is not None]
            dtype = self._dtype(known) if len(known) == len(arrays) else None
            if dtype is not None:
                return _called(np.vectorize(self.pyfunc, otypes=dtype.char), known, dtype)
        return _whole.by_gathering("numpy.vectorize", call, args, kwargs)

    def _dtype(self, arrays: list[Array]) -> np.dtype[Any] | None:
        """Of the result, alike on all ranks; None: several results, or one that is no number."""
        if self.otypes is not None:
            kinds = [np.dtype(kind) for kind in self.otypes]
            return kinds[0] if len(kinds) == 1 and kinds[0].kind in "biufc" else None
        if not all(x.size for x in arrays):
            return None
        first, found, failed = [x[(0,) * x.ndim] for x in arrays], np.dtype(object), None
        try:
            value = np.asarray(self.pyfunc(*first))
            found = value.dtype if not value.ndim and value.dtype.kind in "biufc" else found
        except Exception as error:  # the program's own
            failed = error
        agree_no_error(failed)
        told = agree([found.num])
        if (told != told[0]).any():
            raise sk.InvalidError(
                "vectorize: the function's first result has other types on other ranks: give otypes"
            )
        return None if found.kind == "O" else found


def _numbers(value: Any) -> Array | None:
    """An argument as an array; None if it holds other things than numbers."""
    value = of_sequence(value)
    if not isinstance(value, Array):
        value = np.asarray(value)
    return array_of(value) if value.dtype.kind in "biufc" else None


def _called(function: Callable[..., Any], operands: list, dtype: np.dtype[Any]) -> Array:
    """function(*operands) of own parts, at once. An error of one rank is one of all."""
    errors: list[BaseException] = []

    def call(*blocks: Any, out: np.ndarray) -> None:
        try:
            out[...] = function(*blocks)
        except Exception as error:  # the program's own
            errors.append(error)

    result = apply(call, *operands, dtype=dtype)
    result._evaluate()
    agree_no_error(errors[0] if errors else None)
    return result


def polyval(p: Any, x: Any) -> Any:
    """The value at x of the polynomial with coefficients p, the highest first. Errors: TypeError
    (no array). Collective. Gathers: p."""
    p = np.asarray(_whole.known(p, "polyval"))
    if not p.ndim:
        raise TypeError("iteration over a 0-d array")
    if not isinstance(x, Array):
        return array_of(np.polyval(p, x))
    # The sum begins with an integer 0: the dtype is that of sums and products from there on.
    value = x * 0
    for coefficient in p:
        value = value * x + coefficient
    return value


def real_if_close(a: Any, tol: float = 100) -> Array:
    """The real parts if all imaginary ones are at most tol times the dtype's epsilon, or else a.
    Shape: that of a. Errors: none. Collective. Gathers: no."""
    a = array_of(a)
    if a.dtype.kind != "c":
        return a
    if tol > 1:
        tol = float(np.finfo(a.dtype).eps) * tol
    return a.real if bool(all_of(functions["abs"](a.imag) < tol)) else a


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex. Not collective. Errors: none."""
    return np.dtype(x.dtype).kind == "c"


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex. Not collective. Errors: none."""
    return not iscomplexobj(x)


def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether the arrays, broadcast, are equal. Errors: none. Collective. Gathers: no."""
    a, b = array_of(a1), array_of(a2)
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return not bool(any_of(a != b))


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether a write to one may change the other, on some rank. Errors: none. Collective. Gathers:
    no."""
    one, two = (x._evaluate() if isinstance(x, Array) else np.asarray(x) for x in (a, b))
    return not _whole.everywhere(not np.may_share_memory(one, two, max_work))


def shares_memory(a: Any, b: Any, max_work: Any = -1) -> bool:
    """Whether a write to one can change the other, on some rank. Errors: TooHardError (more work
    than `max_work`). Collective. Gathers: no."""
    one, two = (x._evaluate() if isinstance(x, Array) else np.asarray(x) for x in (a, b))
    return not _whole.everywhere(not np.shares_memory(one, two, max_work))
