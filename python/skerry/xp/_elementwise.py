"""Elementwise functions and operators: local, lazy where blocks are large."""

import warnings
from functools import lru_cache
from math import prod

import numpy as np

import skerry as sk
from skerry import _core
from . import _exchange, _layout, _lazy
from ._array import Array, as_array, empty_block, new_layout, some
from ._info import check_device, check_dtype

_SCALARS = (bool, int, float, complex)


def _is_scalar(x):
    return isinstance(x, _SCALARS) and not isinstance(x, np.generic)


def apply(function, *operands, dtype=None):
    """function(*operands, out=...) over the broadcast operands, as an array."""
    operands = [x if _is_scalar(x) or isinstance(x, Array) else as_array(x) for x in operands]
    if dtype is None:
        dtype = _dtype(function, operands)
    layout = _result_layout([x for x in operands if isinstance(x, Array)], dtype)
    arguments = [_argument(x, layout) for x in operands]
    shape = layout.extent(_exchange.job().rank)
    expression = _lazy.Expression(function, arguments, shape, dtype)
    is_open = any(isinstance(x, Array) and x._memory.open for x in operands)
    if not layout.whole and raises():
        return Array(_agreed(expression), layout)
    least = _lazy.LEAST_WHOLE if layout.whole else _lazy.LEAST_ELEMENTS
    if is_open or expression.nodes > _lazy.MOST_NODES or prod(shape) < least:
        return Array(_now(expression), layout)
    return Array._of(expression, layout)


def raises():
    """Whether an element may raise an error, which then all ranks raise: not the one alone that
    has it, or its next call would meet another call of the others."""
    return "raise" in np.geterr().values() or any(
        action == "error" and issubclass(RuntimeWarning, category)
        for action, _, category, _, _ in warnings.filters
    )


def _agreed(expression):
    error = value = None
    try:
        value = _now(expression)
    except (FloatingPointError, RuntimeWarning, MemoryError) as found:
        error = found
    _exchange.agree_no_error(error)
    return value


def _small(shape):
    return prod(shape) < _lazy.LEAST_ELEMENTS


def _now(expression):
    """The value; in one call if all arguments are plain."""
    if not expression.shape or _small(expression.shape):
        out = np.empty(expression.shape, expression.dtype)
        expression.function(*[_plain(a) for a in expression.arguments], out=out)
        return out
    return expression.evaluate()


def _plain(argument):
    if isinstance(argument, _lazy.Expression):
        return argument.evaluate()
    return argument.joined() if isinstance(argument, _lazy.Parts) else argument


def _dtype(function, operands):
    if all(isinstance(x, Array) for x in operands):
        return _dtype_of(function, tuple(x.dtype for x in operands))
    return function(*[_sample(x.dtype) if isinstance(x, Array) else x for x in operands]).dtype


@lru_cache(maxsize=4096)
def _dtype_of(function, dtypes):
    return function(*map(_sample, dtypes)).dtype


def _sample(dtype):
    return np.empty(0, dtype)


def _result_layout(arrays, dtype):
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


def _argument(x, layout):
    """An operand's part for a result so laid out."""
    if not isinstance(x, Array):
        return x
    wanted = _layout.operand(layout, x.shape)
    if x.layout == wanted:
        if x._block is not None:
            return x._block
        return x._expression if x.shape == layout.shape else x._evaluate()
    parts = _exchange.bring(x._evaluate(), x.layout, wanted)
    extent = wanted.extent(_exchange.job().rank)
    if len(parts) == 1 and parts[0][1].shape == extent:
        return parts[0][1]
    return _lazy.Parts(parts, extent, x.dtype) if parts else np.empty(extent, x.dtype)


# ---- functions -----------------------------------------------------------------------------------


def _wrapper(name, function, count):
    if count == 1:

        def wrapped(x, /):
            return apply(function, as_array(x))

    else:

        def wrapped(x1, x2, /):
            _some_array(name, x1, x2)
            return apply(function, x1, x2)

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = f"Elementwise, as numpy.{getattr(function, '__name__', name).strip('_')}."
    return wrapped


def _some_array(name, *operands):
    if all(_is_scalar(x) for x in operands):
        raise TypeError(f"{name} takes at least one array: all operands are Python numbers")


def _real(x, out=None):
    if out is None:
        return x.real
    np.copyto(out, x.real)


def _imag(x, out=None):
    if out is None:
        return x.imag
    np.copyto(out, x.imag)


def _round(x, out=None):
    return np.round(x, out=out)


def _integer_power(x1, x2):
    """Negative powers of integers are an error, on every rank if on one."""
    if _is_scalar(x2):
        bad = x2 < 0
    else:
        bad = as_array(x2).dtype.kind == "i" and some(apply(np.less, x2, 0))
    if bad:
        raise ValueError("integers to negative integer powers: convert to a floating dtype first")


def pow(x1, x2, /):
    """Elementwise, as numpy.power."""
    _some_array("pow", x1, x2)
    kinds = {"i" if isinstance(x, int) else getattr(getattr(x, "dtype", None), "kind", "f")
             for x in (x1, x2)}  # fmt: skip
    if kinds <= set("iub") and not isinstance(x2, float | complex):
        _integer_power(x1, x2)
    return apply(np.power, x1, x2)


_UNARY = {
    **{
        name: getattr(np, name)
        for name in "acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor isfinite "
        "isinf isnan log log1p log2 log10 logical_not negative positive reciprocal sign signbit "
        "sin sinh square sqrt tan tanh trunc".split()
    },
    "abs": np.absolute,
    "bitwise_invert": np.invert,
    "round": _round,
    "real": _real,
    "imag": _imag,
}
_BINARY = {
    **{
        name: getattr(np, name)
        for name in "add atan2 bitwise_and bitwise_or bitwise_xor copysign divide equal "
        "floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or "
        "logical_xor maximum minimum multiply nextafter not_equal remainder subtract".split()
    },
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
}
functions = {
    **{name: _wrapper(name, function, 1) for name, function in _UNARY.items()},
    **{name: _wrapper(name, function, 2) for name, function in _BINARY.items()},
    "pow": pow,
}
globals().update(functions)


def _where(condition, x1, x2, out):
    np.copyto(out, x2)
    np.copyto(out, x1, where=condition)


def where(condition, x1, x2, /):
    """Elements of x1 where the condition holds, of x2 elsewhere."""
    condition = as_array(condition)
    if condition.dtype != np.bool_:
        condition = astype(condition, np.dtype("bool"))
    if _is_scalar(x1) and _is_scalar(x2):
        dtype = np.result_type(x1, x2)
    else:
        values = [x if _is_scalar(x) else as_array(x) for x in (x1, x2)]
        dtype = np.result_type(*[x if _is_scalar(x) else _sample(x.dtype) for x in values])
    return apply(_where, condition, x1, x2, dtype=dtype)


def _clip(x, low, high, out):
    np.minimum(np.maximum(x, low, out=out), high, out=out)


def _bound(value, x, name):
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


def clip(x, /, min=None, max=None):
    """Elementwise, between min and max."""
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


def _convert(x, out):
    np.copyto(out, x, casting="unsafe")


def astype(x, dtype, /, *, copy=True, device=None):
    """x with another dtype; x itself if it has it and copy is False."""
    check_device(device)
    x, dtype = as_array(x), check_dtype(dtype)
    if x.dtype == dtype and not copy:
        return x
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"{x.dtype} to {dtype} would drop imaginary parts: take xp.real(x)")
    return x.copy() if x.dtype == dtype else apply(_convert, x, dtype=dtype)


def inexact(x):
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


def _takes(x):
    return _is_scalar(x) or isinstance(x, (Array, np.ndarray, np.generic, sk.Array))


def _operator(function):
    """What the slots in C++ call if some operand is divided, large or not evaluated yet."""
    call = pow if function is np.power else lambda a, b: apply(function, a, b)

    def operation(a, b, inplace=False, unnamed=False):
        if inplace and isinstance(a, Array) and a.layout.whole and not a._frozen:
            done = _into_whole(function, a, b, unnamed)
            if done is not None:
                return done
        a, b = (np.asarray(x) if isinstance(x, (list, tuple)) else x for x in (a, b))
        if not (_takes(a) and _takes(b)):
            return NotImplemented
        if not inplace:
            return call(a, b)
        a[...] = _same_kind(call(a, b), a)
        return a

    return operation


def _into_whole(function, a, b, unnamed):
    """a, after function(a, b) was computed into it where it lies; None if that cannot be."""
    if not isinstance(b, Array) or not b.layout.whole:
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


def _comparison(function):
    operation = _operator(function)

    def compare(a, b):
        if function in (np.equal, np.not_equal) and (
            b is None or isinstance(b, (str, bytes))
        ):
            block = a._evaluate()
            return Array(np.asarray(block == b if function is np.equal else block != b), a.layout)
        return operation(a, b)

    return compare


def _divmod(a, b, inplace=False):
    return apply(np.floor_divide, a, b), apply(np.remainder, a, b)


def _same_kind(value, target):
    if value.shape != target.shape:
        raise ValueError(
            f"an in-place operation cannot change shape {target.shape} to {value.shape}"
        )
    if not np.can_cast(value.dtype, target.dtype, "same_kind"):
        raise TypeError(f"an in-place operation cannot turn {value.dtype} into {target.dtype}")
    return value


def _unary(function):
    return lambda self: apply(function, self)


def operators():
    """name -> function, of the operators of arrays that NumPy does not get at once."""
    made = {name: _operator(function) for name, function in _OPERATORS.items()}
    made |= {name: _comparison(function) for name, function in _COMPARISONS.items()}
    made |= {name: _unary(function) for name, function in _UNARY_OPERATORS.items()}
    return made | {"divmod": _divmod}
