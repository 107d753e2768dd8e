"""Statistics beyond the standard: without NaN, of quantiles, of pairs of variables.

Sums and extrema are partial results of each rank. Quantiles along a divided axis: the array is
turned; of all elements: it is sorted by samples and the few elements needed are read.
"""

import functools
import warnings
from typing import Any

import numpy as np

from . import _lines, _reductions, _ufuncs, _whole, linalg
from ._array import Array, axes_of, axis_of, gathered
from ._elementwise import apply, astype, functions, inexact
from ._elementwise import where as choose_where
from ._manipulation import expanded, concat, expand_dims, reshape, stack
from ._manipulation import diff as differences
from ._reductions import any as any_of
from ._sorting import sort
from ._manipulation import array_of as as_array

__all__ = (
    "average corrcoef correlate cov diff ediff1d gradient interp median nanargmax nanargmin "
    "nancumprod "
    "nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum "
    "nanvar percentile ptp quantile trapezoid unwrap"
).split()

_NOTHING = np._NoValue


def _plain(keepdims: Any) -> bool:
    return keepdims is not _NOTHING and bool(keepdims)


def _stored(out: Any, value: Array) -> Array:
    if isinstance(out, Array) and out.shape != value.shape and out.size == value.size == 1:
        value = reshape(value, out.shape)
    return _ufuncs._given(out, value)


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NOTHING) -> Array:
    """Greatest less least along axes, in the dtype of a. Shape: without these axes, or with length
    1 if keepdims. Errors: AxisError, ValueError (no elements). Collective. Gathers: no."""
    a, keep = as_array(a), _plain(keepdims)
    top = _reductions.max(a, axis=axis, keepdims=keep)
    return _stored(out, top - _reductions.min(a, axis=axis, keepdims=keep))


# ---- with where=, initial= -----------------------------------------------------------------------


def reduced(name: str, a: Any, axis: Any, options: dict[str, Any]) -> Array:
    """sum, prod, max, min, any, all with where=, initial= and dtype=. Collective. Gathers: no."""
    ufunc = REDUCTIONS[name]
    options = {k: v for k, v in options.items() if v is not _NOTHING}
    if name in ("any", "all"):
        a = astype(as_array(a), np.dtype(bool), copy=False)
    return _ufuncs.reduce(ufunc, a, axis, **options)


REDUCTIONS = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "amax": np.maximum,
    "amin": np.minimum, "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip


def mean_where(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NOTHING,
    *, where: Any = True,
) -> Array:  # fmt: skip
    """numpy.mean with where= or dtype=. Collective. Gathers: no."""
    a = as_array(a)
    holds = None if where is True or where is _NOTHING else as_array(where)
    dtype = np.dtype(dtype or (a.dtype if a.dtype.kind in "fc" else "float64"))
    wide = np.dtype("float32") if dtype == np.float16 else dtype
    total = _ufuncs.reduce(np.add, a, axis, wide, None, _plain(keepdims),
                           where=True if holds is None else holds)  # fmt: skip
    count = _count(a, axis, _plain(keepdims), holds)
    value = apply(np.true_divide, total, count)
    return _stored(out, astype(value, dtype, copy=False))


def _count(a: Array, axis: Any, keepdims: bool, holds: Array | None) -> Any:
    if holds is None:
        return float(np.prod([a.shape[d] for d in axes_of(axis, a.ndim)], dtype=np.int64))
    return _reductions.sum(expanded(holds, a.shape), axis=axis, keepdims=keepdims)


def var_where(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = _NOTHING, *, where: Any = True, mean: Any = _NOTHING,
    correction: Any = _NOTHING,
) -> Array:  # fmt: skip
    """numpy.var with where=, dtype= or mean=. Collective. Gathers: no."""
    a, ddof, keep = as_array(a), _freedom(ddof, correction), _plain(keepdims)
    holds = None if where is True or where is _NOTHING else as_array(where)
    dtype = np.dtype(dtype or (a.dtype if a.dtype.kind in "fc" else "float64"))
    if dtype.kind not in "fc":
        raise _whole.NotDistributed(f"a variance of {dtype}: use x.numpy()")
    a = astype(a, dtype, copy=False)
    center = mean_where(a, axis, keepdims=True, where=where) if mean is _NOTHING else mean
    off = a - center
    square = off.real * off.real + off.imag * off.imag if dtype.kind == "c" else off * off
    total = _ufuncs.reduce(np.add, square, axis, None, None, keep,
                           where=True if holds is None else holds)  # fmt: skip
    count = _count(a, axis, keep, holds)
    left = functions["maximum"](count - ddof, 0) if isinstance(count, Array) else max(
        count - ddof, 0
    )
    value = apply(np.true_divide, total, left)
    return _stored(out, astype(value, total.dtype, copy=False))


def _freedom(ddof: Any, correction: Any) -> Any:
    if correction is _NOTHING:
        return ddof
    if ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


def std_where(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
              keepdims: Any = _NOTHING, **options: Any) -> Array:  # fmt: skip
    """numpy.std with where=, dtype= or mean=. Collective. Gathers: no."""
    value = functions["sqrt"](var_where(a, axis, dtype, None, ddof, keepdims, **options))
    return _stored(out, value)


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: Any = _NOTHING,
) -> Any:  # fmt: skip
    """The mean, or the weighted mean; with `returned` also the sum of the weights. Errors:
    AxisError, TypeError (the weights' shape), ZeroDivisionError (they sum to 0). Collective.
    Gathers: no."""
    from . import _more

    a, keep = as_array(a), _plain(keepdims)
    weights = None if weights is None else as_array(weights)
    if weights is not None and weights.shape != a.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if tuple(weights.shape) != tuple(a.shape[d] for d in np.atleast_1d(axis)):
            raise ValueError(
                "Shape of weights must be consistent with shape of a along specified axis."
            )
        if isinstance(axis, (tuple, list)):
            raise _whole.NotDistributed("average with weights along several axes: use x.numpy()")
    value = _more.average(a, axis, weights, keepdims=keep)
    if not returned:
        return value
    if weights is None:
        count = np.float64(_count(a, axis, keep, None)).astype(value.dtype)
        return value, expanded(as_array(np.asarray(count)), value.shape).copy()
    weights = as_array(weights)
    if weights.shape != a.shape:
        total = _reductions.sum(_with_dtype(weights, value.dtype))
        return value, expanded(total, value.shape).copy()
    scale = _reductions.sum(_with_dtype(weights, value.dtype), axis=axis, keepdims=keep)
    return value, scale


def _with_dtype(x: Array, dtype: np.dtype) -> Array:
    """x with a dtype, perhaps one that arrays here get from NumPy alone, such as float16."""
    return x if x.dtype == dtype else astype(x, dtype)


# ---- without NaN ---------------------------------------------------------------------------------


def _without_nan(a: Any, value: Any) -> tuple[Array, Array | None]:
    """The array with `value` for NaN, and where NaN were; None if it can have none."""
    a = as_array(a)
    if a.dtype.kind not in "fc":
        return a, None
    nans = functions["isnan"](a)
    return choose_where(nans, value, a), nans


def _nan_reduction(ufunc: np.ufunc, empty: float, doc: str) -> Any:
    def reduction(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NOTHING,
        initial: Any = _NOTHING, where: Any = _NOTHING,
    ) -> Array:  # fmt: skip
        x, _ = _without_nan(a, empty)
        where = True if where is _NOTHING else where
        return _ufuncs.reduce(ufunc, x, axis, dtype, out, _plain(keepdims), initial, where)

    reduction.__doc__ = f"{doc} along axes, without NaN. Collective. Gathers: no."
    return reduction


nansum = _nan_reduction(np.add, 0, "The sum")
nanprod = _nan_reduction(np.multiply, 1, "The product")


def _nan_extremum(ufunc: np.ufunc, doc: str) -> Any:
    def extremum(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = _NOTHING,
        initial: Any = _NOTHING, where: Any = _NOTHING,
    ) -> Array:  # fmt: skip
        where = True if where is _NOTHING else where
        value = _ufuncs.reduce(ufunc, a, axis, None, None, _plain(keepdims), initial, where)
        if value.dtype.kind in "fc" and bool(any_of(functions["isnan"](value))):
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=3)
        return _stored(out, value)

    extremum.__doc__ = (
        f"{doc} along axes, without NaN; NaN and a warning where all are. Collective. Gathers: no."
    )
    return extremum


nanmax = _nan_extremum(np.fmax, "The greatest")
nanmin = _nan_extremum(np.fmin, "The least")


def _nan_position(name: str, empty: float) -> Any:
    def position(
        a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _NOTHING
    ) -> Array:
        x, nans = _without_nan(a, empty)
        if nans is not None and bool(any_of(_reductions.all(nans, axis=axis))):
            raise ValueError("All-NaN slice encountered")
        value = getattr(_reductions, name)(x, axis=axis, keepdims=_plain(keepdims))
        return _stored(out, value)

    position.__doc__ = f"{name}, without NaN; ValueError where all are. Collective. Gathers: no."
    return position


nanargmax = _nan_position("argmax", -np.inf)
nanargmin = _nan_position("argmin", np.inf)


def _nan_cumulative(ufunc: np.ufunc, empty: float, doc: str) -> Any:
    def cumulative(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
        x, _ = _without_nan(a, empty)
        if axis is None:
            x, axis = reshape(x, (-1,)), 0
        return _ufuncs.accumulate(ufunc, x, axis, dtype, out)

    cumulative.__doc__ = f"{doc} of ever more elements, without NaN. Collective. Gathers: no."
    return cumulative


nancumsum = _nan_cumulative(np.add, 0, "Sums")
nancumprod = _nan_cumulative(np.multiply, 1, "Products")


def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NOTHING, *,
    where: Any = _NOTHING,
) -> Array:  # fmt: skip
    """The mean along axes, without NaN; NaN and a warning where all are. Shape: without these axes,
    or with length 1 if keepdims. dtype: `dtype`, or floating. Errors: AxisError. Collective.
    Gathers: no."""
    a = as_array(a)
    where = True if where is _NOTHING else where
    if a.dtype.kind not in "fc":
        return mean_where(a, axis, dtype, out, keepdims, where=where)
    there = ~functions["isnan"](a)
    there = there if where is True else there & as_array(where)
    _warn_of_empty(there, axis, "Mean of empty slice")
    with np.errstate(invalid="ignore", divide="ignore"):
        return mean_where(a, axis, dtype, out, keepdims, where=there)


def _warn_of_empty(there: Array, axis: Any, text: str) -> None:
    if bool(any_of(~_reductions.any(there, axis=axis))):
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = _NOTHING, *, where: Any = _NOTHING, mean: Any = _NOTHING,
    correction: Any = _NOTHING,
) -> Array:  # fmt: skip
    """The variance along axes, without NaN; NaN and a warning where too few are left. Shape:
    without these axes, or with length 1 if keepdims. dtype: `dtype`, or floating. Errors:
    AxisError. Collective. Gathers: no."""
    a = as_array(a)
    ddof = _freedom(ddof, correction)
    where = True if where is _NOTHING else where
    if a.dtype.kind not in "fc":
        return var_where(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean)
    there = ~functions["isnan"](a)
    there = there if where is True else there & as_array(where)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = var_where(a, axis, dtype, None, ddof, keepdims, where=there, mean=mean)
        left = _reductions.sum(there, axis=axis, keepdims=_plain(keepdims)) - ddof
        few = left <= 0
        if bool(any_of(few)):
            warnings.warn("Degrees of freedom <= 0 for slice.", RuntimeWarning, stacklevel=2)
            value = choose_where(few, float("nan"), value)
    return _stored(out, value)


def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
           keepdims: Any = _NOTHING, **options: Any) -> Array:  # fmt: skip
    """The standard deviation along axes, without NaN. Shape: without these axes, or with length 1
    if keepdims. dtype: `dtype`, or floating. Errors: AxisError. Collective. Gathers: no."""
    value = functions["sqrt"](nanvar(a, axis, dtype, None, ddof, keepdims, **options))
    return _stored(out, value)


# ---- quantiles -----------------------------------------------------------------------------------

# Hyndman & Fan, "Sample Quantiles in Statistical Packages", 1996:
# n q + alpha + q (1 - alpha - beta)
_PLOTTING = {
    "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8), "linear": (1, 1),
}  # fmt: skip


def _places(method: str, n: int, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of n ascending numbers: the one below each quantile, the one above, the weight of that."""
    if method in _PLOTTING:
        alpha, beta = _PLOTTING[method]
        at = (n - 1) * q if method == "linear" else n * q + (alpha + q * (1 - alpha - beta)) - 1
    elif method in ("lower", "higher", "midpoint", "nearest"):
        at = (n - 1) * q
        if method == "midpoint":
            at = 0.5 * (np.floor(at) + np.ceil(at))
        else:
            rounding: dict[str, Any] = {"lower": np.floor, "higher": np.ceil, "nearest": np.around}
            at = rounding[method](at)
    elif method == "inverted_cdf":
        at = n * q
        at = np.where(at % 1 == 0, at - 1, np.floor(at))
    elif method == "averaged_inverted_cdf":
        at = n * q - 1
        low = np.floor(at)
        weight = np.where(at == low, 0.5, 1.0)
        low, high = (np.clip(v, 0, n - 1).astype(np.int64) for v in (low, low + 1))
        return low, high, weight
    else:
        raise _whole.NotDistributed(f"quantile by the method {method!r}: use x.numpy()")
    at = np.clip(at, 0, n - 1)
    low = np.floor(at)
    high = np.minimum(low + 1, n - 1)
    return low.astype(np.int64), high.astype(np.int64), at - low


def _of_all(x: Array, q: np.ndarray, method: str, nans: bool) -> Array:
    """Quantiles of all elements of a divided array: it is sorted, a few elements are read."""
    ranked = sort(reshape(x, (-1,)))
    n = ranked.size
    if x.dtype.kind == "f":
        bad = int(_reductions.sum(functions["isnan"](ranked)))
        if bad and not nans:
            return as_array(np.full(q.shape, np.nan, x.dtype))
        n -= bad
        if not n:
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=4)
            return as_array(np.full(q.shape, np.nan, x.dtype))
    low, high, weight = _places(method, n, q)
    from ._indexing import take_known

    pairs = gathered(take_known(ranked, np.concatenate((low.ravel(), high.ravel())), 0), "quantile")
    below, above = (part.reshape(q.shape) for part in np.split(pairs, 2))
    if method in ("lower", "higher", "nearest", "inverted_cdf") or q.dtype.kind != "f":
        return as_array(np.asarray(below))
    return as_array(np.asarray(_between(below, above, weight, x.dtype)))


def _between(low: np.ndarray, high: np.ndarray, weight: np.ndarray, dtype: np.dtype) -> Any:
    """As NumPy: from the nearer end, so that equal ends give that value."""
    if dtype.kind == "f":
        weight = weight.astype(dtype)
    step = np.subtract(high, low)
    value = np.where(weight >= 0.5, high - step * (1 - weight), low + step * weight)
    return np.where(high == low, low, value)


def _quantiles(
    name: str, a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: Any, weights: Any
) -> Array:
    """q and the reduced axes as numpy.quantile; q in 0 to 1."""
    a = as_array(a)
    if weights is not None:
        raise _whole.NotDistributed(f"{name} with weights: use x.numpy()")
    if a.dtype.kind == "c":
        raise TypeError("a must be an array of real numbers")
    q = np.asarray(_whole.known(q, name))
    if a.dtype.kind == "b" or q.dtype.kind not in "iuf":
        raise _whole.NotDistributed(f"{name} of {a.dtype} with q of {q.dtype}: use x.numpy()")
    if q.dtype.kind not in "f" and not (method == "linear" and a.dtype.kind in "iu"):
        q = q.astype(np.float64)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    keep, nans = _plain(keepdims), name.startswith("nan")
    axes = axes_of(axis, a.ndim)
    if len(axes) == a.ndim and not a.layout.whole and a.dtype.kind in "iuf" and q.ndim < 2:
        value = _of_all(a, q, method, nans)
        ones = (1,) * a.ndim
        value = reshape(value, q.shape + ones) if keep else value
        return _stored(out, value)
    function = np.nanquantile if nans else np.quantile
    if q.ndim:
        # One after another: the axis of q is new, and is not divided.
        each = [
            _quantiles(name, a, one, axis, None, method, keepdims, None) for one in q.reshape(-1)
        ]
        if not each:
            raise _whole.NotDistributed(f"{name} of no quantiles: use x.numpy()")
        value = stack(each, axis=0)
        return _stored(out, reshape(value, q.shape + value.shape[1:]))
    single = functools.partial(function, q=q[()], method=method)
    return _stored(out, _lines.folded(a, axes, keep, single))


def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Any = None,
) -> Array:  # fmt: skip
    """Quantiles along axes, by all of NumPy's methods; q is in 0 to 1, its axes come first.
    ValueError for others. Shape: without these axes, or with length 1 if keepdims. dtype:
    floating, of some methods that of a. Errors: AxisError, ValueError (q or method). Collective.
    Gathers: with weights, yes."""
    return _quantiles("quantile", a, q, axis, out, method, keepdims, weights)


def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = _NOTHING, *, weights: Any = None,
) -> Array:  # fmt: skip
    """quantile, without NaN. Shape: without these axes, or with length 1 if keepdims. dtype:
    floating, of some methods that of a. Errors: AxisError, ValueError (q or method). Collective.
    Gathers: with weights, yes."""
    return _quantiles("nanquantile", a, q, axis, out, method, keepdims, weights)


def _percent(a: Any, q: Any) -> np.ndarray:
    q = np.asarray(_whole.known(q, "percentile"))
    a = as_array(a)
    return np.true_divide(q, a.dtype.type(100) if a.dtype.kind == "f" else 100)


def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Any = None,
) -> Array:  # fmt: skip
    """quantile with q in 0 to 100. Shape: without these axes, or with length 1 if keepdims. dtype:
    floating, of some methods that of a. Errors: AxisError, ValueError (q or method). Collective.
    Gathers: with weights, yes."""
    q = _percent(a, q)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("Percentiles must be in the range [0, 100]")
    return _quantiles("percentile", a, q, axis, out, method, keepdims, weights)


def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: Any = _NOTHING, *, weights: Any = None,
) -> Array:  # fmt: skip
    """percentile, without NaN. Shape: without these axes, or with length 1 if keepdims. dtype:
    floating, of some methods that of a. Errors: AxisError, ValueError (q or method). Collective.
    Gathers: with weights, yes."""
    q = _percent(a, q)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError("Percentiles must be in the range [0, 100]")
    return _quantiles("nanpercentile", a, q, axis, out, method, keepdims, weights)


def _median(name: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Array:
    a, keep, nans = as_array(a), _plain(keepdims), name.startswith("nan")
    axes = axes_of(axis, a.ndim)
    if len(axes) < a.ndim or a.layout.whole or a.dtype.kind not in "iuf":
        return _stored(out, _lines.folded(a, axes, keep, getattr(np, name)))
    ranked = sort(reshape(a, (-1,)))
    n = a.size
    if a.dtype.kind == "f":
        bad = int(_reductions.sum(functions["isnan"](ranked)))
        n = n - bad if nans or not bad else 0
    if n:
        middle = gathered(ranked[(n - 1) // 2 : n // 2 + 1], name)
        value = np.asarray(np.mean(middle))
    else:
        if nans:
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=3)
        value = np.asarray(a.dtype.type(np.nan))
    return _stored(out, as_array(value.reshape((1,) * a.ndim) if keep else value))


def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:  # fmt: skip
    """The middle element along axes, or the mean of the two. Shape: without these axes, or with
    length 1 if keepdims. dtype: floating. Errors: AxisError. Collective. Gathers: no."""
    return _median("median", a, axis, out, keepdims)


def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    keepdims: Any = _NOTHING,
) -> Array:  # fmt: skip
    """median, without NaN. Shape: without these axes, or with length 1 if keepdims. dtype:
    floating. Errors: AxisError. Collective. Gathers: no."""
    return _median("nanmedian", a, axis, out, keepdims)


# ---- pairs of variables --------------------------------------------------------------------------


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Array:  # fmt: skip
    """Covariances of variables: those of m in its rows (rowvar) or columns, then those of y: (n,
    n). dtype: `dtype`, or what holds m, y and float64. Errors: ValueError (dimensions, or
    lengths that differ). Collective. Gathers: with weights, yes."""
    if fweights is not None or aweights is not None:
        raise _whole.NotDistributed("cov with weights: use x.numpy()")
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    x = as_array(m)
    if x.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    kinds = [x.dtype, *([as_array(y).dtype] if y is not None else [])]
    dtype = np.result_type(*kinds, np.float64) if dtype is None else np.dtype(dtype)
    x = _variables(x, rowvar, dtype)
    if y is not None:
        y = as_array(y)
        if y.ndim > 2:
            raise ValueError("y has more than 2 dimensions")
        x = concat([x, _variables(y, rowvar, dtype)], axis=0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    left = x.shape[1] - ddof
    if left <= 0:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=3)
        left = 0
    off = x - _reductions.mean(x, axis=1, keepdims=True)
    other = off.conj() if dtype.kind == "c" else off
    product = linalg.matmul(off, other.T)
    value = apply(np.multiply, product, float(np.true_divide(1, left)))
    return reshape(value, ()) if value.size == 1 else value


def _variables(x: Array, rowvar: bool, dtype: np.dtype) -> Array:
    x = astype(x, dtype, copy=False)
    if x.ndim < 2:
        return reshape(x, (1, x.size))
    return x if rowvar else x.T


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Array:
    """Correlations of variables, as cov: (n, n), in -1 to 1. dtype: `dtype`, or what holds x, y and
    float64. Errors: ValueError (dimensions, or lengths that differ). Collective. Gathers: no."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    scale = functions["sqrt"](linalg.diagonal(c).real)
    c = c / expand_dims(scale, 1)
    c = c / expand_dims(scale, 0)
    if c.dtype.kind != "c":
        return functions["minimum"](functions["maximum"](c, -1), 1)
    return apply(_clipped, c)


def _clipped(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    out = np.empty_like(x) if out is None else out
    out.real, out.imag = np.clip(x.real, -1, 1), np.clip(x.imag, -1, 1)
    return out


def correlate(a: Any, v: Any, mode: Any = "valid") -> Array:
    """Cross-correlation of 1-d arrays: the sums of a[n + k] conj(v[n]); mode 'valid', 'same' or
    'full'. Each rank gets its part with the borders it needs. Shape: 1-d, by the mode. dtype:
    what holds both. Errors: ValueError (not 1-d, or empty). Collective. Gathers: the shorter."""
    from ._more import convolve

    a, v = as_array(a), as_array(v)
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError("object too deep for desired array")
    if not a.size or not v.size:
        raise ValueError("correlate: an array is empty")
    if mode not in ("valid", "same", "full"):
        raise _whole.NotDistributed(f"correlate: mode {mode!r}")
    v = v.conj() if v.dtype.kind == "c" else v
    if v.size > a.size:
        if mode == "same":
            raise _whole.NotDistributed("correlate of a longer second array in mode 'same'")
        return convolve(a, v[::-1], mode=mode, method="direct")
    return convolve(a, v[::-1], mode=mode, method="direct")


# ---- along an axis -------------------------------------------------------------------------------


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _NOTHING,
         append: Any = _NOTHING) -> Array:  # fmt: skip
    """Differences of neighbours along an axis, n times, between prepend and append: arrays, or
    numbers for each line. Shape: n less along the axis. dtype: that of a, bool of bool. Errors:
    AxisError, ValueError (n below 0, or no dimension). Collective. Gathers: no."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    a = as_array(a)
    if not a.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = axis_of(axis, a.ndim)
    parts = []
    for part in (prepend, a, append):
        if part is _NOTHING:
            continue
        part = as_array(part)
        if not part.ndim:
            part = expanded(part, tuple(1 if d == axis else m for d, m in enumerate(a.shape)))
        parts.append(part)
    return differences(concat(parts, axis=axis) if len(parts) > 1 else a, axis=axis, n=n)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Differences of neighbours of the flat array, between those two. TypeError if they do not fit
    its dtype. Shape: 1-d. Errors: TypeError. Collective. Gathers: no."""
    ary = as_array(ary)
    flat = reshape(ary, (-1,))
    parts = [to_begin, differences(flat) if flat.size > 1 else flat[:0], to_end]
    found = []
    for part, name in zip(parts, ("to_begin", "", "to_end"), strict=True):
        if part is None:
            continue
        part = part if isinstance(part, Array) else as_array(np.asarray(part))
        if name and not np.can_cast(part.dtype, ary.dtype, "same_kind"):
            raise TypeError(f"dtype of `{name}` must be compatible with input `ary`")
        found.append(astype(reshape(part, (-1,)), ary.dtype, copy=False))
    return concat(found, axis=0)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences along axes, one-sided at the ends, with distances as numpy.gradient: a
    number, or coordinates, per axis. In floating dtypes. Errors: AxisError, ValueError (too few
    elements, distances or edge_order), TypeError (arguments). Collective. Gathers: coordinates."""
    f = as_array(f)
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    axes = axes_of(None, f.ndim) if axis is None else tuple(
        axis_of(a, f.ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))
    )
    steps = list(varargs) or [1.0]
    if len(steps) == 1 and np.ndim(_whole.known(steps[0], "gradient")) == 0:
        steps = steps * len(axes)
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    f = inexact(f)
    out = []
    for one, step in zip(axes, steps, strict=True):
        n = f.shape[one]
        if n < edge_order + 1:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least "
                "(edge_order + 1) elements are required."
            )
        step = np.asarray(_whole.known(step, "gradient"))
        if step.ndim:
            if step.ndim != 1 or len(step) != n:
                raise ValueError(
                    "when 1d, distances must match the length of the corresponding dimension"
                )
            step = np.diff(step.astype(np.float64) if step.dtype.kind in "iu" else step)
            step = step[0] if (step == step[0]).all() else step
        out.append(_gradient(f, one, step, edge_order))
    return out[0] if len(out) == 1 else tuple(out)


def _gradient(f: Array, axis: int, step: Any, edge: int) -> Array:
    def at(*bounds: int | None) -> Array:
        return f[(slice(None),) * axis + (slice(*bounds),)]

    def along(values: np.ndarray) -> Array:
        return as_array(values.reshape([-1 if d == axis else 1 for d in range(f.ndim)]))

    n = f.shape[axis]
    uniform = np.ndim(step) == 0
    if uniform:
        step = step[()].item()
        inner = (at(2, None) - at(None, -2)) / (2.0 * step) if n > 2 else at(0, 0)
    elif n > 2:
        before, after = step[:-1], step[1:]
        a = along(-after / (before * (before + after)))
        b = along((after - before) / (before * after))
        c = along(before / (after * (before + after)))
        inner = a * at(None, -2) + b * at(1, -1) + c * at(2, None)
    else:
        inner = at(0, 0)
    first, last = (step, step) if uniform else (float(step[0]), float(step[-1]))
    if edge == 1:
        ends = (at(1, 2) - at(0, 1)) / first, (at(n - 1, n) - at(n - 2, n - 1)) / last
    elif uniform:
        a, b, c = -1.5 / step, 2.0 / step, -0.5 / step
        low = a * at(0, 1) + b * at(1, 2) + c * at(2, 3)
        a, b, c = 0.5 / step, -2.0 / step, 1.5 / step
        ends = low, a * at(n - 3, n - 2) + b * at(n - 2, n - 1) + c * at(n - 1, n)
    else:
        one, two = float(step[0]), float(step[1])
        low = (
            -(2.0 * one + two) / (one * (one + two)) * at(0, 1)
            + (one + two) / (one * two) * at(1, 2)
            - one / (two * (one + two)) * at(2, 3)
        )
        one, two = float(step[-2]), float(step[-1])
        ends = (
            low,
            two / (one * (one + two)) * at(n - 3, n - 2)
            - (two + one) / (one * two) * at(n - 2, n - 1)
            + (2.0 * two + one) / (two * (one + two)) * at(n - 1, n),
        )
    parts = [astype(part, f.dtype, copy=False) for part in (ends[0], inner, ends[1])]
    return concat(parts, axis=axis)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by trapezoids, over points x or distances dx. Shape: without the
    axis. dtype: floating. Errors: AxisError, ValueError (shapes do not fit). Collective.
    Gathers: no."""
    y = as_array(y)
    axis = axis_of(axis, y.ndim)
    step = dx
    if x is not None:
        x = as_array(x)
        step = differences(x, axis=0 if x.ndim == 1 else axis)
        if x.ndim == 1:
            step = reshape(step, tuple(-1 if d == axis else 1 for d in range(y.ndim)))
    elif not isinstance(dx, (int, float, complex)):
        step = as_array(np.asarray(dx))
    before = (slice(None),) * axis
    pairs = y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]
    return _reductions.sum(step * pairs / 2.0, axis=axis)


def unwrap(
    p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi
) -> Array:
    """Jumps by more than `discont` (half a period) along an axis removed by adding periods. Shape:
    that of p. dtype: floating, or whole numbers with such a period. Errors: AxisError.
    Collective. Gathers: 1-d arrays, yes."""
    p = as_array(p)
    axis = axis_of(axis, p.ndim)
    return _lines.mapped(
        p, axis, lambda block: np.unwrap(block, discont, axis=axis, period=period)
    )


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    """Linear interpolation at x between points (xp, fp), which every rank gets: float64 or
    complex128, in the shape of x. xp and fp are 1-d, of real dtypes; fp may be complex. Errors:
    ValueError (lengths, or period 0). Collective. Gathers: xp and fp."""
    points, values = (np.asarray(_whole.known(v, "interp")) for v in (xp, fp))
    kind = np.dtype("complex128" if values.dtype.kind == "c" else "float64")
    np.interp(np.zeros(0), points, values, left, right, period)  # its errors, on every rank

    def call(block: np.ndarray, out: np.ndarray) -> None:
        out[...] = np.interp(block, points, values, left, right, period)

    return apply(call, as_array(x), dtype=kind)
