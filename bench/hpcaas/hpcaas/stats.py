"""Statistics of repeated timings. Times are positive and their errors multiply, so means and intervals are taken of logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence

import numpy as np
from scipy import optimize, stats


@dataclass(frozen=True)
class Summary:
    n: int
    median: float
    mean: float
    minimum: float
    maximum: float
    stdev: Optional[float]  # None with one sample
    low: Optional[float]  # 95 % interval of the centre; None with one sample
    high: Optional[float]

    @property
    def half_width(self) -> Optional[float]:
        """Relative half width of the interval; None with one sample."""
        return (
            None
            if self.low is None or self.high is None
            else (self.high - self.low) / 2.0 / self.median
        )


def summarise(values: Sequence[float]) -> Summary:
    """Interval: Student's t on logarithms, around the geometric mean."""
    data = np.asarray(values, dtype=float)
    if data.size == 0 or not np.all(np.isfinite(data)) or np.any(data <= 0):
        raise ValueError("timings must be finite and positive, and at least one")
    low = high = stdev = None
    if data.size > 1:
        logs = np.log(data)
        half = float(stats.t.ppf(0.975, data.size - 1) * logs.std(ddof=1) / math.sqrt(data.size))
        centre = float(logs.mean())
        low, high, stdev = math.exp(centre - half), math.exp(centre + half), float(data.std(ddof=1))
    return Summary(
        int(data.size),
        float(np.median(data)),
        float(data.mean()),
        float(data.min()),
        float(data.max()),
        stdev,
        low,
        high,
    )


def outliers(values: Sequence[float], threshold: float = 3.5) -> list[bool]:
    """Modified z-score (Iglewicz and Hoaglin) on logarithms. Four samples at least; flagged ones are kept in every statistic."""
    data = np.log(np.asarray(values, dtype=float))
    if data.size < 4:
        return [False] * int(data.size)
    median = np.median(data)
    deviation = np.median(np.abs(data - median))
    if deviation == 0:
        return [bool(abs(v - median) > 1e-9) for v in data]
    return [bool(abs(0.6745 * (v - median) / deviation) > threshold) for v in data]


@dataclass(frozen=True)
class Ratio:
    """time(b) / time(a) with its 95 % interval; above 1 means a is faster. p: chance of so large a difference if there is none."""

    value: float
    low: Optional[float]
    high: Optional[float]
    p: Optional[float]
    n: int  # pairs of configurations or of samples behind it

    @property
    def significant(self) -> Optional[bool]:
        """None: nothing can be said (too few samples)."""
        return None if self.low is None or self.high is None else not (self.low <= 1.0 <= self.high)


def ratio(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Welch's test on logarithms; with a single sample on either side there is no interval."""
    la, lb = np.log(np.asarray(a, dtype=float)), np.log(np.asarray(b, dtype=float))
    difference = float(lb.mean() - la.mean())
    n = int(min(la.size, lb.size))
    if n < 2:
        return Ratio(math.exp(difference), None, None, None, n)
    va, vb = float(la.var(ddof=1)) / la.size, float(lb.var(ddof=1)) / lb.size
    error = math.sqrt(va + vb)
    if error == 0:
        same = difference == 0
        return Ratio(
            math.exp(difference),
            math.exp(difference),
            math.exp(difference),
            1.0 if same else 0.0,
            n,
        )
    freedom = (va + vb) ** 2 / (va**2 / (la.size - 1) + vb**2 / (lb.size - 1))
    half = float(stats.t.ppf(0.975, freedom)) * error
    p = 2.0 * float(stats.t.sf(abs(difference) / error, freedom))
    return Ratio(
        math.exp(difference), math.exp(difference - half), math.exp(difference + half), p, n
    )


def combine(ratios: Sequence[Ratio]) -> Ratio:
    """Mean effect over matched pairs of configurations. With one pair its own interval; with several the pairs are the sample,
    so that an effect that differs between situations gets a wide interval."""
    if not ratios:
        raise ValueError("no pairs")
    if len(ratios) == 1:
        return ratios[0]
    logs = np.log([r.value for r in ratios])
    # Published values have no spread of their own. Two or three of them are no sample either: no
    # interval is claimed.
    if len(ratios) < 4 and all(r.low is None for r in ratios):
        return Ratio(math.exp(float(logs.mean())), None, None, None, len(ratios))
    mean, error = float(logs.mean()), float(logs.std(ddof=1)) / math.sqrt(len(logs))
    if error == 0:
        return Ratio(math.exp(mean), math.exp(mean), math.exp(mean), None, len(ratios))
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * error
    return Ratio(
        math.exp(mean),
        math.exp(mean - half),
        math.exp(mean + half),
        2.0 * float(stats.t.sf(abs(mean) / error, len(logs) - 1)),
        len(ratios),
    )


def holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of several differences stay significant when all are judged together (Holm-Bonferroni)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    keep = [False] * len(p_values)
    for rank, index in enumerate(order):
        if p_values[index] > level / (len(p_values) - rank):
            break
        keep[index] = True
    return keep


@dataclass(frozen=True)
class Scaling:
    """Fit of T(p) = serial + work / p + overhead * log2(p), all terms non-negative. An estimate beyond the measured range."""

    serial: float
    work: float
    overhead: float
    residual: float  # relative, root mean square
    points: int

    def at(self, p: float) -> float:
        return self.serial + self.work / p + self.overhead * math.log2(p)


def fit_scaling(workers: Sequence[float], seconds: Sequence[float]) -> Optional[Scaling]:
    """None with fewer than three distinct sizes: then any curve fits."""
    p, t = np.asarray(workers, dtype=float), np.asarray(seconds, dtype=float)
    if len(set(p.tolist())) < 3:
        return None
    # Rows are divided by the time: relative errors count, else the slowest point decides alone.
    matrix = np.column_stack([np.ones_like(p), 1.0 / p, np.log2(p)]) / t[:, None]
    terms, _ = optimize.nnls(matrix, np.ones_like(t))
    residual = float(np.sqrt(np.mean((matrix @ terms - 1.0) ** 2)))
    return Scaling(float(terms[0]), float(terms[1]), float(terms[2]), residual, int(p.size))


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of points that no other point beats in both coordinates (less is better), by the first coordinate."""
    front: list[int] = []
    best = math.inf
    for index in sorted(range(len(points)), key=lambda i: points[i]):
        if points[index][1] < best:
            best = points[index][1]
            front.append(index)
    return front


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.asarray(values, dtype=float)))))
