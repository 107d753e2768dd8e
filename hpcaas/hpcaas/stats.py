"""Statistics of repeated timings.

Times are positive and their errors multiply, so means and intervals are taken of logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Hashable, Optional, Sequence

import numpy as np
from scipy import optimize, special


# Relative standard deviation below which no timing is believed: equal readings of a coarse clock
# are no proof, and no interval has zero width.
RESOLUTION = 1e-3


def _deviation(logs: np.ndarray) -> float:
    return max(float(logs.std(ddof=1)), RESOLUTION)


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
        half = (
            float(special.stdtrit(data.size - 1, 0.975)) * _deviation(logs) / math.sqrt(data.size)
        )
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
    """Modified z-score (Iglewicz and Hoaglin) on logarithms.

    Needs four samples at least; flagged ones are kept in every statistic.
    """
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
    """time(b) / time(a) with its 95 % interval; above 1 means a is faster."""

    value: float
    low: Optional[float]
    high: Optional[float]
    # chance of so large a difference if there is none, taken alone; None: too few samples
    p: Optional[float]
    n: int  # pairs of configurations or of samples behind it
    error: Optional[float] = None  # standard error of the logarithm
    freedom: float = 0.0  # its degrees of freedom

    @property
    def significant(self) -> Optional[bool]:
        """Taken alone. Verdicts are given by a `Family`, which counts all questions of a report.

        None: nothing can be said (too few samples).
        """
        return None if self.low is None or self.high is None else not (self.low <= 1.0 <= self.high)


def ratio_of(difference: float, error: float, freedom: float, n: int) -> Ratio:
    """From a difference of logarithms with its standard error (Student's t)."""
    half = float(special.stdtrit(freedom, 0.975)) * error
    p = 2.0 * float(special.stdtr(freedom, -abs(difference) / error))
    return Ratio(
        math.exp(difference),
        math.exp(difference - half),
        math.exp(difference + half),
        p,
        n,
        error,
        freedom,
    )


def freedom_of(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances (Welch and Satterthwaite).

    parts: (variance, degrees of freedom) of each term.
    """
    return sum(v for v, _ in parts) ** 2 / sum(v**2 / f for v, f in parts)


def ratio(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Welch's test on logarithms; with a single sample on either side there is no interval."""
    return _ratio(tuple(a), tuple(b))


@lru_cache(maxsize=4096)  # an answer asks for the same pair several times
def _ratio(a: tuple[float, ...], b: tuple[float, ...]) -> Ratio:
    la, lb = np.log(np.asarray(a, dtype=float)), np.log(np.asarray(b, dtype=float))
    difference = float(lb.mean() - la.mean())
    n = int(min(la.size, lb.size))
    parts = [v for v in (log_variance(a), log_variance(b)) if v]
    if len(parts) < 2:
        return Ratio(math.exp(difference), None, None, None, n)
    # By Student's distribution itself: scipy's ttest_ind takes twenty times as long to check its
    # arguments, and a report asks thousands of times. A test compares the two.
    return ratio_of(difference, math.sqrt(sum(v for v, _ in parts)), freedom_of(parts), n)


def log_variance(values: Sequence[float]) -> Optional[tuple[float, float]]:
    """Variance of the mean logarithm and its degrees of freedom; None with one value."""
    logs = np.log(np.asarray(values, dtype=float))
    return None if logs.size < 2 else (_deviation(logs) ** 2 / logs.size, logs.size - 1.0)


# From this many pairs on, the pairs themselves are the sample.
PAIRS_AS_SAMPLE = 4


def combine(ratios: Sequence[Ratio]) -> Ratio:
    """Mean effect over matched pairs of configurations.

    With four pairs or more the pairs are the sample, so that an effect that differs between
    situations gets a wide interval. With fewer, the errors of the pairs are added: then the
    interval speaks of these situations only.
    """
    if not ratios:
        raise ValueError("no pairs")
    if len(ratios) == 1:
        return ratios[0]
    logs = np.log([r.value for r in ratios])
    mean, n = float(logs.mean()), len(ratios)
    if n >= PAIRS_AS_SAMPLE:
        return ratio_of(mean, _deviation(logs) / math.sqrt(n), n - 1.0, n)
    # Published values have no spread of their own, and two or three are no sample.
    if any(r.error is None for r in ratios):
        return Ratio(math.exp(mean), None, None, None, n)
    parts = [((r.error or 0.0) ** 2 / n**2, r.freedom) for r in ratios]
    return ratio_of(mean, math.sqrt(sum(v for v, _ in parts)), freedom_of(parts), n)


LEVEL = 0.05


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which of several differences stay significant when judged together (Holm-Bonferroni)."""
    # Not by statsmodels, whose multipletests() collects garbage at every call: 0.1 to 0.4 s each.
    # A test compares the two.
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    keep = [False] * len(p_values)
    for rank, index in enumerate(order):
        if p_values[index] > level / (len(p_values) - rank):
            break
        keep[index] = True
    return keep


def detectable(repeats: int, noise: float) -> float:
    """The smallest difference of two settings, as a ratio, that so many runs of each show in four
    of five campaigns. `noise`: relative standard deviation of a run."""
    freedom = 2.0 * repeats - 2.0
    limit = float(special.stdtrit(freedom, 1.0 - LEVEL / 2.0))
    shift = optimize.brentq(lambda d: special.nctdtr(freedom, d, limit) - 0.2, 0.0, 1000.0)
    return math.exp(float(shift) * math.sqrt(2.0 / repeats) * noise)


def quantile(values: Sequence[float], share: float) -> float:
    """The least of the values within which at least this share of them lies."""
    return float(np.quantile(np.asarray(values, dtype=float), share, method="inverted_cdf"))


def chosen_p(p: Optional[float], among: float) -> Optional[float]:
    """p of a comparison that was picked, after looking, out of `among` possible ones; None stays
    None."""
    return None if p is None else min(1.0, p * max(1.0, among))


class Family:
    """All questions of one report. An answer counts only after Holm's correction for all of them:
    where nothing has any effect, at most one report in twenty claims anything."""

    def __init__(self) -> None:
        self._p: dict[Hashable, float] = {}
        self._holds: Optional[dict[Hashable, bool]] = None

    def ask(self, key: Hashable, p: Optional[float]) -> None:
        """A question under its own key; p None (too few samples) is never answered with yes."""
        assert self._holds is None, "a question after the first answer would change that answer"
        if p is not None:
            self._p[key] = p

    def holds(self, key: Hashable) -> bool:
        """Whether a difference is more than chance. The first call ends the asking."""
        if self._holds is None:
            self._holds = dict(zip(self._p, holm(list(self._p.values()))))
        return self._holds.get(key, False)


@dataclass(frozen=True)
class Scaling:
    """Fit of T(p) = serial + work / p + overhead * log2(p), all terms non-negative.

    Beyond the measured range it is an estimate.
    """

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
    # Rows are divided by the time, so that relative errors count: the slowest point must not
    # decide alone.
    matrix = np.column_stack([np.ones_like(p), 1.0 / p, np.log2(p)]) / t[:, None]
    terms, _ = optimize.nnls(matrix, np.ones_like(t))
    residual = float(np.sqrt(np.mean((matrix @ terms - 1.0) ** 2)))
    return Scaling(float(terms[0]), float(terms[1]), float(terms[2]), residual, int(p.size))


@dataclass(frozen=True)
class Predicted:
    value: float
    low: float  # 95 % interval
    high: float


def predict_time(
    workers: Sequence[float], seconds: Sequence[float], p: float
) -> Optional[Predicted]:
    """Time at a size that was not measured; None with fewer than four distinct sizes.

    The interval comes from leaving each measured size out and predicting it from the others: it
    says how wrong this curve is about what it has not seen. It widens with the distance, in
    doublings, beyond the measured range.
    """
    sizes, times = np.asarray(workers, dtype=float), np.asarray(seconds, dtype=float)
    fit = fit_scaling(workers, seconds)
    if fit is None or len(set(sizes.tolist())) < 4:
        return None
    errors = []
    for left in sorted(set(sizes.tolist())):
        kept = sizes != left
        without = fit_scaling(sizes[kept], times[kept])
        assert without  # three sizes are left
        errors.append(math.log(without.at(left) / float(np.exp(np.log(times[~kept]).mean()))))
    spread = max(math.sqrt(float(np.mean(np.square(errors)))), RESOLUTION)
    outside = max(math.log2(p / sizes.max()), math.log2(sizes.min() / p), 0.0)
    half = float(special.stdtrit(len(errors) - 1.0, 0.975)) * spread * (1.0 + outside)
    value = fit.at(p)
    return Predicted(value, value * math.exp(-half), value * math.exp(half))


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of points that no other point beats in both coordinates, by the first coordinate.

    Less is better in both.
    """
    front: list[int] = []
    best = math.inf
    for index in sorted(range(len(points)), key=lambda i: points[i]):
        if points[index][1] < best:
            best = points[index][1]
            front.append(index)
    return front
