"""Linear algebra beyond the standard, in NumPy's spelling."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from . import _dense, _reductions, _whole, linalg
from ._array import Array, gathered
from ._elementwise import astype, functions, inexact
from ._dense import adjoint
from ._manipulation import expand_dims, squeeze
from ._manipulation import array_of as as_array

__all__ = "cond lstsq multi_dot".split()


def cond(x: Any, p: Any = None) -> Array:
    """The condition number of matrices: the norm times that of the inverse, or by singular values
    (p None, 2, -2). Shape: that of the stack. dtype: floating. Errors: ValueError (fewer than 2
    dimensions), LinAlgError. Collective. Gathers: one matrix, but a tall one, yes."""
    x = as_array(x)
    if p in (None, 2, -2) and x.ndim == 2 and x.size:
        s = linalg.svdvals(x)
        return s[-1] / s[0] if p == -2 else s[0] / s[-1]
    raise _whole.NotDistributed(f"cond with p={p!r}")


def lstsq(a: Any, b: Any, rcond: float | None = None) -> tuple[Array, Array, np.int32, Array]:
    """The x of the least |b - a x|, the sums of the squares that are left (of a of full rank with
    more rows than columns), the rank, and the singular values. Shapes: that of b with a's columns
    for its rows; (k,), or (0,); (n,). dtypes: floating or complex, the second and last real.
    Errors: LinAlgError, ValueError. Collective. Gathers: the triangle of a, if ranks have whole
    rows of a tall a or it is large, otherwise its arrays, yes."""
    a, b = as_array(a), as_array(b)
    m, n = a.shape if a.ndim == 2 else (0, 1)
    if m < n or not n or b.ndim not in (1, 2) or b.shape[:1] != (m,) or not b.size:
        raise _whole.NotDistributed("lstsq of a wide matrix")
    dtype = np.result_type(inexact(a).dtype, inexact(b).dtype)
    a, right = (astype(x, dtype, copy=False) for x in (a, b))
    right = expand_dims(right, 1) if b.ndim == 1 else right
    if not (linalg.is_tall(a) or _dense.fits(a)):
        raise _whole.NotDistributed("lstsq of a small matrix")
    q, r = linalg.qr(a)
    u, s, vh = linalg.svd(r, full_matrices=False)
    values = gathered(s, "the singular values")
    least = float(np.finfo(dtype).eps)
    if rcond is None:
        rcond = least * max(m, n)
    cut = (rcond if 0 < rcond < 1 else least) * values[0]  # as in LAPACK
    rank = np.int32((values > cut).sum())
    inverse = np.where(values > cut, 1 / np.where(values > cut, values, 1), 0)[:, None]
    along = linalg.matmul(adjoint(u), linalg.matmul(adjoint(q), right))
    x = linalg.matmul(adjoint(vh), along * inverse)
    left = as_array(np.empty(0, values.dtype))
    if rank == n < m:
        rest = functions["abs"](right - linalg.matmul(a, x))
        left = _reductions.sum(rest * rest, axis=0)
    return squeeze(x, 1) if b.ndim == 1 else x, left, rank, s


def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Array:
    """The product of several matrices, in the order that needs the fewest operations; the first and
    the last may be vectors. Shapes must fit one another; dtype: what holds all. Errors:
    ValueError. Collective. Gathers: no."""
    factors = [as_array(x) for x in arrays]
    if len(factors) < 2:
        raise ValueError("Expecting at least two arrays.")
    lengths = [1 if x.ndim == 1 and i == 0 else x.shape[0] for i, x in enumerate(factors)]
    lengths.append(1 if factors[-1].ndim == 1 else factors[-1].shape[-1])
    value = _chain(factors, lengths) if len(factors) > 2 else reduce(linalg.matmul, factors)
    if out is None:
        return value
    out[...] = value
    return out


def _chain(factors: list[Array], lengths: list[int]) -> Array:
    """The cheapest order of products: Cormen et al., Introduction to Algorithms, 15.2."""
    n = len(factors)
    cost = np.zeros((n, n))
    cut = np.zeros((n, n), int)
    for span in range(1, n):
        for low in range(n - span):
            high = low + span
            ends = lengths[low] * lengths[high + 1]
            costs = [
                cost[low, k] + cost[k + 1, high] + ends * lengths[k + 1] for k in range(low, high)
            ]
            cost[low, high], cut[low, high] = min(costs), low + int(np.argmin(costs))

    def product(low: int, high: int) -> Array:
        if low == high:
            return factors[low]
        k = int(cut[low, high])
        return linalg.matmul(product(low, k), product(k + 1, high))

    return product(0, n - 1)
