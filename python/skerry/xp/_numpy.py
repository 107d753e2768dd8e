"""NumPy's functions on whole arrays: np.exp(x), np.sum(x, axis=0)."""

import numpy as np

import skerry as sk
from . import _more
from ._array import Array
from ._elementwise import apply, functions

_BY_UFUNC = {np.power: functions["pow"]}
_OTHER_NAMES = {
    "concatenate": "concat", "transpose": "permute_dims", "amax": "max", "amin": "min",
    "absolute": "abs", "cumulative_sum": "cumulative_sum", "unique": "unique_values",
    "around": "round",
}  # fmt: skip


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
    if out is None:
        return value
    if not isinstance(out[0], Array):
        raise sk.GatherError("out=: give a skerry.xp array, or take x.numpy()")
    out[0][...] = value
    return out[0]


def _array_function(self, function, types, arguments, options):
    from skerry import xp

    module = function.__module__ or ""
    home = xp.linalg if "linalg" in module else xp.fft if "fft" in module else xp
    name = _OTHER_NAMES.get(function.__name__, function.__name__)
    ours = getattr(_more, function.__name__, None) or getattr(home, name, None)
    ours = ours or getattr(xp, name, None)
    if ours is None or not callable(ours):
        raise sk.GatherError(
            f"{module}.{function.__name__} is not distributed: use x.numpy() for a copy of all of "
            "it, or x.local for the own block"
        )
    return _call(ours, name, arguments, options)


# NumPy takes by position what the standard takes by name.
_POSITIONAL = {
    "sum": ("axis", "dtype"), "prod": ("axis", "dtype"), "max": ("axis",), "min": ("axis",),
    "mean": ("axis",), "std": ("axis",), "var": ("axis",), "all": ("axis",), "any": ("axis",),
    "argmax": ("axis",), "argmin": ("axis",), "concat": ("axis",), "stack": ("axis",),
    "sort": ("axis",), "argsort": ("axis",), "roll": ("shift", "axis"), "flip": ("axis",),
    "take": ("indices", "axis"), "repeat": ("repeats", "axis"), "diff": ("n", "axis"),
    "fft": ("n", "axis"), "ifft": ("n", "axis"), "tril": ("k",), "triu": ("k",),
}  # fmt: skip
_BY_POSITION = {"shift", "indices", "repeats"}


def _call(ours, name, arguments, options):
    first, rest = arguments[:1], list(arguments[1:])
    if name == "permute_dims" and not rest and not options:
        return ours(*first, tuple(reversed(range(first[0].ndim))))
    placed = []
    for key, value in zip(_POSITIONAL.get(name, ()), rest, strict=False):
        if key in _BY_POSITION:
            placed.append(value)
        else:
            options[key] = value
    if name in _POSITIONAL:
        rest = placed + rest[len(_POSITIONAL[name]) :]
    if "ddof" in options:
        options["correction"] = options.pop("ddof")
    return ours(*first, *rest, **options)


Array.__array_ufunc__ = _array_ufunc
Array.__array_function__ = _array_function
