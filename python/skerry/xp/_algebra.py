"""Linear algebra beyond the standard, in NumPy's spelling."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from . import _whole, linalg
from ._array import Array
from ._whole import array_of as as_array

__all__ = "cond multi_dot".split()


def cond(x: Any, p: Any = None) -> Array:
    """The condition number of matrices: the norm times that of the inverse, or by singular values
    (p None, 2, -2). Shape: that of the stack. dtype: floating. Errors: ValueError (fewer than 2
    dimensions), LinAlgError. Collective. Gathers: one matrix, but a tall one, yes."""
    x = as_array(x)
    if p in (None, 2, -2) and x.ndim == 2 and x.size:
        s = linalg.svdvals(x)
        return s[-1] / s[0] if p == -2 else s[0] / s[-1]
    raise _whole.NotDistributed(f"cond with p={p!r}")


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
