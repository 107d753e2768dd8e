"""Histograms: every rank counts its own elements in the same bins; counts are added."""

from typing import Any

import numpy as np

from . import _exchange, _layout, _reductions, _whole
from ._array import Array, in_layout, of_numpy, redistributed
from ._elementwise import apply
from ._manipulation import reshape, stack
from ._manipulation import array_of as as_array

__all__ = "digitize histogram histogram2d histogram_bin_edges histogramdd".split()


def added(partial: np.ndarray, layout: _layout.Layout) -> Array:
    """The sum of what each rank counted in its block, on every rank; of a whole array, that."""
    ranks = _exchange.ranks()
    if layout.whole:
        return Array(partial, _layout.whole(partial.shape, ranks))
    shape = (ranks, *partial.shape)
    stacked = Array(partial[None], _layout.along(shape, 0, list(range(ranks + 1))))
    total = _reductions.sum(stacked, axis=0)
    return of_numpy(in_layout(total, _layout.whole(total.shape, ranks)))


def _limits(a: Array) -> np.ndarray:
    """Least and greatest element, which have the edges that all elements have."""
    if not a.size:
        return np.empty(0, a.dtype)
    return np.array([_reductions.min(a).numpy()[()], _reductions.max(a).numpy()[()]])


def _edges(a: Array, bins: Any, range: Any, weights: Any, name: str) -> np.ndarray:
    if isinstance(bins, str):
        raise _whole.NotDistributed(f"{name} with bins={bins!r}: give their number or edges")
    bins = np.asarray(_whole.known(bins, name))
    bins = bins[()] if not bins.ndim else bins
    return np.histogram_bin_edges(_limits(a), bins, range)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges of bins: (bins + 1,). Shape of a: any. dtype: floating. Errors: ValueError (bins or
    range). Collective. Gathers: with the name of a rule, yes."""
    return of_numpy(_edges(as_array(a), bins, range, weights, "histogram_bin_edges"))


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array]:
    """Counts, or sums of weights, of the elements in bins, and the edges: (bins,), (bins + 1,).
    ValueError for edges that do not ascend. Shape of a: any. dtypes: int64, with weights theirs,
    with density float64; edges floating. Errors: ValueError (bins or range). Collective.
    Gathers: with the name of a rule, yes."""
    a = as_array(a)
    edges = _edges(a, bins, range, weights, "histogram")
    number = not isinstance(bins, Array) and np.ndim(bins) == 0
    if weights is not None:
        weights = as_array(weights)
        if weights.shape != a.shape:
            raise ValueError("weights should have the same shape as a.")
        weights = redistributed(weights, a.layout)._evaluate()
    # The number again, not the edges: NumPy counts evenly spaced bins another way.
    low, high = edges[0], edges[-1]
    counts, _ = np.histogram(
        a._evaluate(), len(edges) - 1 if number else edges, (low, high) if number else None,
        weights=weights,
    )  # fmt: skip
    total = added(counts, a.layout)
    if density:
        total = total / of_numpy(np.array(np.diff(edges), float)) / _reductions.sum(total)
    return total, of_numpy(edges)


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, tuple[Array, ...]]:
    """Counts of the rows of sample, (n, d), in boxes, and the edges of each dimension. Shapes:
    (bins of dimension 1, ...), and (bins + 1,) of the edges. dtype: float64. Errors: ValueError
    (bins, range or weights). Collective. Gathers: no."""
    if not isinstance(sample, Array):
        sample = stack([as_array(x) for x in sample], axis=1)
    if sample.ndim != 2:
        sample = reshape(sample, (-1, 1)) if sample.ndim == 1 else sample
    n, d = sample.shape
    wanted = [bins] * d if _is_number(bins) else list(bins)
    if len(wanted) != d:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    ranges: list[Any] = [None] * d if range is None else list(range)
    if len(ranges) != d:
        raise ValueError("range argument must have one entry per dimension")
    edges: list[Any] = []
    limits: list[Any] = []
    for axis, (one, given) in enumerate(zip(wanted, ranges, strict=True)):
        one = _whole.known(one, "bins")
        found = _limits(sample[:, axis])
        edge = np.histogramdd(found[:, None], [one], [given])[1][0]
        edges.append(one if np.ndim(one) == 0 else np.asarray(one))
        limits.append((edge[0], edge[-1]) if np.ndim(one) == 0 else None)
    layout = _layout.slabs(sample.shape, 0, _exchange.ranks())
    sample = sample if sample.layout.whole else redistributed(sample, layout)
    if weights is not None:
        weights = as_array(weights)
        rows = _layout.Layout((n,), tuple(box[:1] for box in sample.layout.boxes),
                              sample.layout.whole)  # fmt: skip
        weights = in_layout(weights, rows)
    block = sample._evaluate().reshape(-1, d)
    counts, all_edges = np.histogramdd(block, edges, limits, weights=weights)
    edges = list(all_edges)
    total = added(counts, sample.layout)
    if density:
        for axis, edge in enumerate(edges):
            width = np.diff(edge).reshape([-1 if k == axis else 1 for k in np.arange(d)])
            total = total / of_numpy(width)
        total = total / _reductions.sum(added(counts, sample.layout))
    return total, tuple(map(of_numpy, edges))


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None,
    weights: Any = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Counts of points (x, y), and the edges of x and of y. Shapes: (bins of x, bins of y), and
    (bins + 1,) of the edges. dtype: float64. Errors: ValueError (bins, range or weights).
    Collective. Gathers: no."""
    x, y = as_array(x), as_array(y)
    if x.shape != y.shape:
        raise ValueError("x and y must have the same length.")
    if not _is_number(bins) and len(bins) not in (1, 2):
        bins = [np.asarray(_whole.known(bins, "bins"))] * 2
    counts, (first, second) = histogramdd(stack([x, y], axis=1), bins, range, density, weights)
    return counts, first, second


def _is_number(bins: Any) -> bool:
    return hasattr(bins, "__index__") and not getattr(bins, "ndim", 0)


def digitize(x: Any, bins: Any, right: bool = False) -> Array:
    """Which of the bins, which every rank gets, each element is in: int64, in the shape of x.
    ValueError for bins that are not monotonic. dtype of x: real. Errors: ValueError (bins).
    Collective. Gathers: bins."""
    edges = np.asarray(_whole.known(bins, "digitize"))
    x = as_array(x)
    np.digitize(np.zeros(0, x.dtype), edges, right)  # its errors, on every rank

    def call(block: np.ndarray, out: np.ndarray) -> None:
        out[...] = np.digitize(block, edges, right)

    return apply(call, x, dtype=np.dtype(np.int64))


