"""Elementwise functions and operators: local, lazy where blocks are large."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import DTypeLike

import skerry as sk
from skerry import _core
from . import _exchange, _followers, _layout, _lazy, _twins
from ._array import (
    Array, as_array, empty_block, forget_ahead, new_layout, some, works, written,
)  # fmt: skip
from ._info import check_device, check_dtype
from ._layout import Layout
from ._lazy import Expression
from ._types import Block, Device, Function, Operand, Shape

_SCALARS = (bool, int, float, complex)
_Value = TypeVar("_Value")
_Wrapped = TypeVar("_Wrapped", bound=Callable[..., Array])


def _is_scalar(x: Any) -> TypeGuard[complex]:
    return isinstance(x, _SCALARS) and not isinstance(x, np.generic)


def _is_number(x: Any) -> bool:
    """Python's, or one of NumPy's: every rank has it."""
    return isinstance(x, _SCALARS) or isinstance(x, np.generic) and x.dtype.kind in "biufc"


def apply(function: Function, *operands: Any, dtype: np.dtype[Any] | None = None) -> Array:
    """function(*operands, out=...) over the broadcast operands, as an array."""
    taken = [x if _is_number(x) else as_array(x) for x in operands]
    arrays = [x for x in taken if isinstance(x, Array)]
    if not arrays:
        taken = arrays = [as_array(np.asarray(x)) for x in operands]
    for x in arrays:
        works(x)
    return _twins.keep(_applied(function, taken, arrays, dtype), arrays)


def _applied(
    function: Function, taken: Sequence[Any], arrays: Sequence[Array], dtype: np.dtype[Any] | None
) -> Array:
    """function of the operands taken, which `arrays` are among."""
    if dtype is None and _lie_alike(function, arrays):
        block = function(*[x._block if isinstance(x, Array) else x for x in taken])
        return Array(block, arrays[0].layout)
    if dtype is None:
        dtype = _dtype(function, taken)
    layout = _result_layout(arrays, dtype)
    arguments = [_argument(x, layout) for x in taken]
    shape = layout.extent(_exchange.job().rank)
    expression = _lazy.Expression(function, arguments, shape, dtype)
    is_open = any(x._memory.open for x in arrays)
    if raises():  # in this line, as NumPy does
        return Array(agreed(lambda: _now(expression), layout.whole), layout)
    least = _lazy.least_whole if layout.whole else _lazy.LEAST_ELEMENTS
    if is_open or expression.nodes > _lazy.MOST_NODES or prod(shape) < least:
        return Array(_now(expression), layout)
    return Array._of(expression, layout)


def _lie_alike(function: Function, arrays: Sequence[Array]) -> bool:
    """Whether NumPy may have the own blocks as they are: divided alike, computed, and small."""
    layout, block = arrays[0].layout, arrays[0]._block
    return (
        not layout.whole
        and block is not None
        and block.size < _lazy.LEAST_ELEMENTS
        and all(x.layout is layout and x._block is not None for x in arrays)
        and isinstance(function, np.ufunc)
        and not raises()
    )


_filters_seen: tuple[list[Any], bool] = ([], False)  # warnings.filters, and what they say


def raises() -> bool:
    """Whether an element may raise an error, which then all ranks raise: not the one alone that
    has it, or its next call would meet another call of the others."""
    global _filters_seen
    if "raise" in np.geterr().values():
        return True
    if _filters_seen[0] != warnings.filters:
        _filters_seen = list(warnings.filters), any(
            action == "error" and issubclass(RuntimeWarning, category)
            for action, _, category, _, _ in warnings.filters
        )
    return _filters_seen[1]


def agreed(compute: Callable[[], _Value], whole: bool = False) -> _Value:
    """compute(), this rank's part of a result, or all of it if `whole`. Where an element may raise
    an error, one of a rank is one of all: then collective."""
    if whole or not raises():
        return compute()
    value: Any = None
    error: BaseException | None = None
    try:
        value = compute()
    except (FloatingPointError, RuntimeWarning, MemoryError) as found:
        error = found
    _exchange.agree_no_error(error)
    return value  # agree_no_error() has raised the error, if there was one


def _small(shape: Shape) -> bool:
    return prod(shape) < _lazy.LEAST_ELEMENTS


def _now(expression: Expression) -> Block:
    """The value; in one call if all arguments are plain."""
    if not expression.shape or _small(expression.shape):
        out = np.empty(expression.shape, expression.dtype)
        expression.function(*[_plain(a) for a in expression.arguments], out=out)
        return out
    return expression.evaluate()


def _plain(argument: Any) -> Any:
    if isinstance(argument, _lazy.Expression):
        return argument.evaluate()
    return argument.joined() if isinstance(argument, _lazy.Parts) else argument


def _dtype(function: Function, operands: Sequence[Any]) -> np.dtype[Any]:
    if all(isinstance(x, (Array, np.generic)) for x in operands):
        return _dtype_of(function, tuple(x.dtype for x in operands))
    return function(*[_sample(x.dtype) if isinstance(x, Array) else x for x in operands]).dtype


@lru_cache(maxsize=4096)
def _dtype_of(function: Function, dtypes: tuple[np.dtype[Any], ...]) -> np.dtype[Any]:
    return function(*map(_sample, dtypes)).dtype


def _sample(dtype: Any) -> Block:
    return np.empty(0, dtype)


def _result_layout(arrays: Sequence[Array], dtype: Any) -> Layout:
    """The layout of a divided operand with the result's shape, the most even one; or a new one."""
    if len(arrays) == 1:
        return arrays[0].layout
    first = arrays[0].layout
    if all(x.layout == first for x in arrays[1:]):
        return first
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    full = [x.layout for x in arrays if x.shape == shape]
    parted = [layout for layout in full if not layout.whole]
    if parted:
        return min(parted, key=lambda layout: layout.largest)
    return full[0] if full else new_layout(shape, dtype)


def _argument(x: Any, layout: Layout) -> Any:
    """An operand's part for a result so laid out."""
    if not isinstance(x, Array):
        return x
    wanted = _layout.operand(layout, x.shape)
    if x.layout == wanted:
        if x._block is not None:
            return x._block
        alike = x.shape == layout.shape and x._expression is not _lazy.MOVED
        return x._expression if alike else x._evaluate()
    parts = _exchange.bring(x._evaluate(), x.layout, wanted)
    extent = wanted.extent(_exchange.job().rank)
    if len(parts) == 1 and parts[0][1].shape == extent:
        return parts[0][1]
    return _lazy.Parts(parts, extent, x.dtype) if parts else np.empty(extent, x.dtype)


# ---- functions -----------------------------------------------------------------------------------


def _unary_function(name: str, function: Function) -> Callable[[Operand], Array]:
    def wrapped(x: Operand, /) -> Array:
        return apply(function, as_array(x))

    return _named(wrapped, name, function)


def _binary_function(
    name: str, function: Function
) -> Callable[[Operand | complex, Operand | complex], Array]:
    def wrapped(x1: Operand | complex, x2: Operand | complex, /) -> Array:
        _some_array(name, x1, x2)
        return apply(function, x1, x2)

    return _named(wrapped, name, function)


def _named(wrapped: _Wrapped, name: str, function: Function) -> _Wrapped:
    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = (
        f"Elementwise, as numpy.{getattr(function, '__name__', name).strip('_')}. Shapes are "
        "broadcast; dtype: as NumPy's. Errors: TypeError (no array, or no function of its dtype), "
        "ValueError (shapes do not fit). Collective. Gathers: no."
    )
    return wrapped


def _some_array(name: str, *operands: Any) -> None:
    if all(_is_scalar(x) for x in operands):
        raise TypeError(f"{name} takes at least one array: all operands are Python numbers")


def _real(x: Any, out: Any = None) -> Any:
    if out is None:
        return x.real
    np.copyto(out, x.real)


def _imag(x: Any, out: Any = None) -> Any:
    if out is None:
        return x.imag
    np.copyto(out, x.imag)


def _round(x: Any, out: Any = None) -> Any:
    return np.round(x, out=out)


def _integer_power(x1: Any, x2: Any) -> None:
    """Negative powers of integers are an error, on every rank if on one."""
    if _is_scalar(x2):
        bad = x2 < 0  # type: ignore[operator]  # pow() passes whole numbers
    else:
        bad = as_array(x2).dtype.kind == "i" and some(apply(np.less, x2, 0))
    if bad:
        raise ValueError("integers to negative integer powers: convert to a floating dtype first")


def pow(x1: Operand | complex, x2: Operand | complex, /) -> Array:
    """Elementwise, as numpy.power. Shapes are broadcast; dtype: what holds both. Errors: TypeError
    (no array), ValueError (shapes do not fit, or whole numbers to negative powers). Collective.
    Gathers: no."""
    _some_array("pow", x1, x2)
    kinds = {"i" if isinstance(x, int) else getattr(getattr(x, "dtype", None), "kind", "f")
             for x in (x1, x2)}  # fmt: skip
    if kinds <= set("iub") and not isinstance(x2, float | complex):
        _integer_power(x1, x2)
    return apply(np.power, x1, x2)


abs = _unary_function("abs", np.absolute)
acos = _unary_function("acos", np.acos)
acosh = _unary_function("acosh", np.acosh)
asin = _unary_function("asin", np.asin)
asinh = _unary_function("asinh", np.asinh)
atan = _unary_function("atan", np.atan)
atanh = _unary_function("atanh", np.atanh)
bitwise_invert = _unary_function("bitwise_invert", np.invert)
ceil = _unary_function("ceil", np.ceil)
conj = _unary_function("conj", np.conj)
cos = _unary_function("cos", np.cos)
cosh = _unary_function("cosh", np.cosh)
exp = _unary_function("exp", np.exp)
expm1 = _unary_function("expm1", np.expm1)
floor = _unary_function("floor", np.floor)
imag = _unary_function("imag", _imag)
isfinite = _unary_function("isfinite", np.isfinite)
isinf = _unary_function("isinf", np.isinf)
isnan = _unary_function("isnan", np.isnan)
log = _unary_function("log", np.log)
log10 = _unary_function("log10", np.log10)
log1p = _unary_function("log1p", np.log1p)
log2 = _unary_function("log2", np.log2)
logical_not = _unary_function("logical_not", np.logical_not)
negative = _unary_function("negative", np.negative)
positive = _unary_function("positive", np.positive)
real = _unary_function("real", _real)
reciprocal = _unary_function("reciprocal", np.reciprocal)
round = _unary_function("round", _round)
sign = _unary_function("sign", np.sign)
signbit = _unary_function("signbit", np.signbit)
sin = _unary_function("sin", np.sin)
sinh = _unary_function("sinh", np.sinh)
sqrt = _unary_function("sqrt", np.sqrt)
square = _unary_function("square", np.square)
tan = _unary_function("tan", np.tan)
tanh = _unary_function("tanh", np.tanh)
trunc = _unary_function("trunc", np.trunc)

add = _binary_function("add", np.add)
atan2 = _binary_function("atan2", np.atan2)
bitwise_and = _binary_function("bitwise_and", np.bitwise_and)
bitwise_left_shift = _binary_function("bitwise_left_shift", np.left_shift)
bitwise_or = _binary_function("bitwise_or", np.bitwise_or)
bitwise_right_shift = _binary_function("bitwise_right_shift", np.right_shift)
bitwise_xor = _binary_function("bitwise_xor", np.bitwise_xor)
copysign = _binary_function("copysign", np.copysign)
divide = _binary_function("divide", np.divide)
equal = _binary_function("equal", np.equal)
floor_divide = _binary_function("floor_divide", np.floor_divide)
greater = _binary_function("greater", np.greater)
greater_equal = _binary_function("greater_equal", np.greater_equal)
hypot = _binary_function("hypot", np.hypot)
less = _binary_function("less", np.less)
less_equal = _binary_function("less_equal", np.less_equal)
logaddexp = _binary_function("logaddexp", np.logaddexp)
logical_and = _binary_function("logical_and", np.logical_and)
logical_or = _binary_function("logical_or", np.logical_or)
logical_xor = _binary_function("logical_xor", np.logical_xor)
maximum = _binary_function("maximum", np.maximum)
minimum = _binary_function("minimum", np.minimum)
multiply = _binary_function("multiply", np.multiply)
nextafter = _binary_function("nextafter", np.nextafter)
not_equal = _binary_function("not_equal", np.not_equal)
remainder = _binary_function("remainder", np.remainder)
subtract = _binary_function("subtract", np.subtract)

functions: dict[str, Callable[..., Array]] = {
    each.__name__: each
    for each in (
        abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_invert,
        bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor, ceil, conj, copysign,
        cos, cosh, divide, equal, exp, expm1, floor, floor_divide, greater, greater_equal,
        hypot, imag, isfinite, isinf, isnan, less, less_equal, log, log10, log1p, log2,
        logaddexp, logical_and, logical_not, logical_or, logical_xor, maximum, minimum,
        multiply, negative, nextafter, not_equal, positive, pow, real, reciprocal, remainder,
        round, sign, signbit, sin, sinh, sqrt, square, subtract, tan, tanh, trunc,
    )
}  # fmt: skip


def _where(condition: Block, x1: Any, x2: Any, out: Any) -> None:
    np.copyto(out, x2)
    np.copyto(out, x1, where=condition)


def where(condition: Operand, x1: Operand | complex, x2: Operand | complex, /) -> Array:
    """Elements of x1 where the condition holds, of x2 elsewhere. Shapes are broadcast; dtype: what
    holds x1 and x2. Errors: TypeError (no array), ValueError (shapes do not fit). Collective.
    Gathers: no."""
    condition = as_array(condition)
    if condition.dtype != np.bool_:
        condition = astype(condition, np.dtype("bool"))
    if _is_scalar(x1) and _is_scalar(x2):
        dtype = np.result_type(x1, x2)
    else:
        dtype = np.result_type(
            *[x if _is_scalar(x) else _sample(as_array(x).dtype) for x in (x1, x2)]
        )
    return apply(_where, condition, x1, x2, dtype=dtype)


def _clip(x: Any, low: Any, high: Any, out: Any) -> None:
    np.minimum(np.maximum(x, low, out=out), high, out=out)


def _bound(value: Any, x: Array, name: str) -> Any:
    """A bound in the dtype of x; None if it bounds nothing."""
    if value is None:
        return None
    if not _is_scalar(value):
        value = as_array(value)
        return value if value.dtype == x.dtype else astype(value, x.dtype)
    if x.dtype.kind in "iu" and isinstance(value, int):
        info = np.iinfo(x.dtype)
        return min(max_of(value, info.min), info.max)
    return value


max_of = max


def clip(
    x: Operand, /, min: Operand | complex | None = None, max: Operand | complex | None = None
) -> Array:
    """Elementwise, between min and max. Shapes are broadcast; dtype: that of x. Errors: TypeError
    (no array, or floating bounds of whole numbers), ValueError (shapes do not fit). Collective.
    Gathers: no."""
    x = as_array(x)
    low, high = _bound(min, x, "min"), _bound(max, x, "max")
    if x.dtype.kind in "iu" and (isinstance(low, float) or isinstance(high, float)):
        raise TypeError(f"clip: bounds of a {x.dtype} array are integers, not floating")
    if low is None and high is None:
        return x.copy()
    shape = np.broadcast_shapes(*[v.shape for v in (x, low, high) if isinstance(v, Array)])
    if low is None:
        return apply(np.minimum, x, high, dtype=x.dtype)
    if high is None:
        return apply(np.maximum, x, low, dtype=x.dtype)
    del shape
    return apply(_clip, x, low, high, dtype=x.dtype)


def _convert(x: Block, out: Block) -> None:
    np.copyto(out, x, casting="unsafe")


def astype(
    x: Operand, dtype: DTypeLike, /, *, copy: bool = True, device: Device = None
) -> Array:
    """x with another dtype; x itself if it has it and copy is False. Shape: that of x. Errors:
    TypeError (no array, the dtype, or imaginary parts would be lost), ValueError (the device).
    Collective. Gathers: no."""
    check_device(device)
    x, dtype = as_array(x), check_dtype(dtype)
    if x.dtype == dtype and not copy:
        return x
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"{x.dtype} to {dtype} would drop imaginary parts: take xp.real(x)")
    return x.copy() if x.dtype == dtype else apply(_convert, x, dtype=dtype)


def real_for(x: Array, dtype: np.dtype[Any]) -> Array:
    """x, or of complex numbers that are to become real ones of `dtype` the real parts, with NumPy's
    warning."""
    if x.dtype.kind != "c" or dtype.kind in "cb":
        return x
    told = "Casting complex values to real discards the imaginary part"
    warnings.warn(told, np.exceptions.ComplexWarning, stacklevel=2)
    return apply(_real, x)


def inexact(x: Array) -> Array:
    """x in floating or complex numbers: integers as float64."""
    return x if x.dtype.kind in "fc" else astype(x, np.dtype("float64"))


# ---- operators -----------------------------------------------------------------------------------

_OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
    "rshift": np.right_shift, "pow": np.power,
}  # fmt: skip
_UNARY_OPERATORS = {
    "neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert,
}  # fmt: skip
_COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


def _takes(x: Any) -> bool:
    return _is_scalar(x) or isinstance(x, (Array, np.ndarray, np.generic, sk.Array))


# NumPy's operator has these for floating and complex numbers. Its power() rounds otherwise.
_POWERS = {(int, -1): np.reciprocal, (int, 2): np.square, (float, 0.5): np.sqrt}


def _power(a: Any, b: Any) -> Any:
    function = _POWERS.get((type(b), b)) if type(b) in (int, float) else None
    if function is None or not isinstance(a, Array) or a.dtype.kind not in "fc":
        return pow(a, b)
    return apply(function, a)


def _operator(function: Function) -> Callable[..., Any]:
    """What the slots in C++ call if some operand is divided, large or not evaluated yet."""
    is_power = function is np.power
    call = _power if is_power else lambda a, b: apply(function, a, b)

    def operation(a: Any, b: Any, inplace: bool = False, unnamed: bool = False) -> Any:
        if inplace and isinstance(a, Array) and a.layout.whole and not a._frozen:
            done = _into_whole(function, a, b, unnamed)
            if done is not None:
                return done
        a, b = (np.asarray(x) if isinstance(x, (list, tuple)) else x for x in (a, b))
        if not (_takes(a) and _takes(b)):
            return NotImplemented
        if not inplace:
            return call(a, b)
        if not is_power and isinstance(a, Array) and _into_divided(function, a, b):
            return a
        a[...] = _same_kind(call(a, b), a)
        return a

    return operation


def _into_whole(function: Function, a: Array, b: Any, unnamed: bool) -> Array | None:
    """a, after function(a, b) was computed into it where it lies; None if that cannot be."""
    if not isinstance(b, Array) or not _followers.in_time(b).layout.whole:
        return None
    block = a._evaluate()
    expression = b._expression
    if expression is None or not unnamed or _dtype(function, (a, b)) != block.dtype:
        _lazy.settle(block)
        function(block, b._evaluate(), out=block)
        return a
    if b.shape != a.shape:
        return None
    whole = _lazy.Expression(function, [block, expression], block.shape, block.dtype)
    _lazy.evaluate_into(whole, block, b)
    return a


def _into_divided(function: Function, a: Array, b: Any) -> bool:
    """Computes function(a, b) into a, where each rank has what it needs. False: it has not."""
    arrays = [a, b] if isinstance(b, Array) else [a]
    if a.layout.whole or a._frozen or not (isinstance(b, Array) or _is_number(b)):
        return False
    if not all(x.layout is a.layout and x._block is not None for x in arrays) or raises():
        return False
    if not np.can_cast(_dtype(function, (a, b)), a.dtype, "same_kind"):
        return False  # the same error as of any other
    for x in arrays:
        works(x)
    if any(x.layout.whole for x in arrays):  # one of them has become so
        return False
    block = a._block
    forget_ahead(a._memory)
    _lazy.settle(block)
    function(block, b._block if isinstance(b, Array) else b, out=block, casting="same_kind")
    written(a)
    return True


def _comparison(function: Function) -> Callable[..., Any]:
    operation = _operator(function)

    def compare(a: Any, b: Any) -> Any:
        if function in (np.equal, np.not_equal) and (b is None or isinstance(b, (str, bytes))):
            block = a._evaluate()
            return Array(np.asarray(block == b if function is np.equal else block != b), a.layout)
        return operation(a, b)

    return compare


def _divmod(a: Any, b: Any, inplace: bool = False) -> tuple[Array, Array]:
    return apply(np.floor_divide, a, b), apply(np.remainder, a, b)


def _same_kind(value: Array, target: Array) -> Array:
    if value.shape != target.shape:
        raise ValueError(
            f"an in-place operation cannot change shape {target.shape} to {value.shape}"
        )
    if not np.can_cast(value.dtype, target.dtype, "same_kind"):
        raise TypeError(f"an in-place operation cannot turn {value.dtype} into {target.dtype}")
    return value


def _unary(function: Function) -> Callable[[Array], Array]:
    return lambda self: apply(function, self)


def operators() -> dict[str, Callable[..., Any]]:
    """name -> function, of the operators of arrays that NumPy does not get at once."""
    made = {name: _operator(function) for name, function in _OPERATORS.items()}
    made |= {name: _comparison(function) for name, function in _COMPARISONS.items()}
    made |= {name: _unary(function) for name, function in _UNARY_OPERATORS.items()}
    return made | {"divmod": _divmod}
