"""NumPy's functions and methods on whole arrays: np.sum(x, axis=0), x.round(1). Their arguments are
those of NumPy; what is not distributed raises GatherError."""

import inspect
import operator
from functools import lru_cache

import numpy as np

import skerry as sk
from . import _more
from ._array import Array
from ._elementwise import apply, functions
from ._manipulation import reshape

_BY_UFUNC = {np.power: functions["pow"]}
_OTHER_NAMES = {
    "concatenate": "concat", "amax": "max", "amin": "min", "around": "round",
    "cumsum": "cumulative_sum", "cumprod": "cumulative_prod",
}  # fmt: skip
_OTHER_PARAMETERS = {"ddof": "correction", "newshape": "shape"}
# Of an array of several dimensions, axis=None means the flat array.
_FLAT = {"cumsum", "cumprod", "sort", "argsort", "take_along_axis"}
# These arguments change nothing: sorting is stable, results are in C order.
_NO_MATTER = {
    "subok": lambda value: True, "kind": lambda value: True, "stable": lambda value: True,
    "order": lambda value: value in (None, "C", "K", "A"), "where": lambda value: value is True,
    "out": lambda value: value is None,
}  # fmt: skip
# Of functions in C, which tell it from NumPy 2.4 on, as far as they have a counterpart.
_SIGNATURES = {
    "concatenate": lambda arrays, axis=0, out=None, dtype=None, casting="same_kind": None,
    "dot": lambda a, b, out=None: None,
    "where": lambda condition, x=None, y=None: None,
    "bincount": lambda x, weights=None, minlength=0: None,
    "empty_like": lambda a, dtype=None, order="K", subok=True, shape=None: None,
    "zeros": lambda shape, dtype=None, order="C", *, device=None: None,
    "empty": lambda shape, dtype=None, order="C", *, device=None: None,
    "asarray": lambda a, dtype=None, order=None, *, device=None, copy=None: None,
    "arange": lambda start, stop=None, step=1, dtype=None, *, device=None: None,
    "can_cast": lambda from_, to, casting="safe": None,
}


def _clip(a, a_min=None, a_max=None, out=None, *, min=None, max=None, **options):
    """The signature of numpy.clip since 2.1, and of arrays' clip() always: no bound is needed."""


def _any_signature(*arguments, **options):
    """Of other functions in C: arguments go where they are."""


_PLAIN = (bool, int, float, str)


def _array_ufunc(self, ufunc, method, *inputs, out=None, **options):
    if method != "__call__" or options or ufunc.nout != 1 or ufunc.signature is not None:
        from . import linalg

        if ufunc is np.matmul and method == "__call__" and not options and out is None:
            return linalg.matmul(*inputs)
        raise sk.GatherError(
            f"numpy.{ufunc.__name__}, {method} with {sorted(options)}, is not distributed: use "
            "x.numpy() for a copy of all of it, or x.local for the own block"
        )
    value = _BY_UFUNC.get(ufunc, lambda *x: apply(ufunc, *x))(*inputs)
    return value if out is None else _into(out[0], value, ufunc.__name__, _broadcasts)


def _broadcasts(shape, to):
    """Whether values of a shape fill another one, repeated: into `out` of a ufunc."""
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def _into(out, value, name, fits=operator.eq):
    if not isinstance(out, Array):
        raise sk.GatherError("out=: give a skerry.xp array, or take x.numpy()")
    if not fits(value.shape, out.shape) or not np.can_cast(value.dtype, out.dtype, "same_kind"):
        raise ValueError(
            f"{name}: out has {out.shape} {out.dtype}, the result {value.shape} {value.dtype}"
        )
    out[...] = value
    return out


def _array_function(self, function, types, arguments, options):
    from skerry import xp

    name, module = function.__name__, function.__module__ or ""
    home = xp.linalg if "linalg" in module else xp.fft if "fft" in module else _more
    home = _more if name == "norm" else home
    ours = getattr(home, name, None) or getattr(xp, _OTHER_NAMES.get(name, name), None)
    if not callable(ours):
        raise sk.GatherError(
            f"{module}.{name} is not distributed: use x.numpy() for a copy of all of it, or "
            "x.local for the own block"
        )
    return _call(f"{module}.{name}", function, ours, arguments, options)


@lru_cache
def _parameters(function):
    try:
        return inspect.signature(_clip if function is np.clip else function)
    except ValueError:
        return inspect.signature(_SIGNATURES.get(function.__name__, _any_signature))


def _call(name, function, ours, arguments, options):
    """ours(...) with the arguments that were given to NumPy's function."""
    bound = _parameters(function).bind(*arguments, **options)
    named, several = {}, ()
    for key, value in bound.arguments.items():
        parameter = bound.signature.parameters[key]
        if parameter.kind == parameter.VAR_POSITIONAL:
            several = value
        elif parameter.kind == parameter.VAR_KEYWORD:
            named.update(value)
        elif not (key in _NO_MATTER and _NO_MATTER[key](value)):
            named[key] = value
    out = named.pop("out", None)
    if function.__name__ in _FLAT and _default(bound, "axis") is None:
        first = next(iter(bound.arguments))
        named[first], named["axis"] = reshape(named[first], (-1,)), 0
    # Renamed before what is missing gets NumPy's value, or that would stand beside what was given.
    renamed = {}
    for key, value in named.items():
        ours_is = _OTHER_PARAMETERS.get(key, key)
        if ours_is == key or ours_is not in named:
            renamed[ours_is] = value
        elif value != _default_of(bound, key):
            raise TypeError(f"{name} takes {ours_is} or {key}, which mean the same")
    theirs = [_OTHER_PARAMETERS.get(key, key) for key in bound.signature.parameters]
    named, placed = renamed, list(several)
    for at, (key, parameter) in enumerate(_parameters(ours).parameters.items()):
        if parameter.kind == parameter.POSITIONAL_ONLY:
            if at < len(theirs) and theirs[at] in named:
                placed.append(named.pop(theirs[at]))
        elif key not in named and parameter.default is parameter.empty and not several:
            if key in bound.signature.parameters:
                named[key] = _default(bound, key)
    known = _parameters(ours).parameters
    for key, value in list(named.items()):
        if key not in known:
            default = getattr(bound.signature.parameters.get(key), "default", inspect)
            if not (value is default or isinstance(value, _PLAIN) and value == default):
                raise sk.GatherError(
                    f"{name} with {key} is not distributed: use x.numpy() for a copy of all of it, "
                    "or x.local for the own block"
                )
            del named[key]
    value = ours(*placed, **named)
    return value if out is None else _into(out, value, name)


def _default(bound, key):
    """What was given, or what NumPy takes instead."""
    return bound.arguments.get(key, _default_of(bound, key))


def _default_of(bound, key):
    return bound.signature.parameters[key].default


# ---- methods -------------------------------------------------------------------------------------


def _method(name):
    function = getattr(np, name)

    def method(self, *arguments, **options):
        return _array_function(self, function, (Array,), (self, *arguments), options)

    method.__name__, method.__doc__ = name, f"As numpy.{name}(x, ...)."
    return method


for _name in (
    "all any argmax argmin argsort clip cumprod cumsum diagonal dot max mean min nonzero prod "
    "ravel repeat round searchsorted squeeze std sum swapaxes take trace var"
).split():
    setattr(Array, _name, _method(_name))


def _missing(self, name):
    text = f"skerry.xp.Array has no {name}"
    if hasattr(np.ndarray, name):
        text = f"{text}, which NumPy's arrays have: use x.numpy(), or x.local for the own block"
    raise AttributeError(text)


Array.__getattr__ = _missing
Array.__array_ufunc__ = _array_ufunc
Array.__array_function__ = _array_function
