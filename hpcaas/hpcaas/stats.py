"""Statistics of repeated timings.

Times are positive and their errors multiply, so means and intervals are taken of logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Callable, Hashable, Optional, Sequence

import numpy as np
from scipy import optimize, special
from scipy.stats import binomtest


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


def summarise_nested(parts: Sequence[Sequence[float]]) -> Summary:
    """Of runs on several instances: the centre is that of the instances' own centres, and the
    interval speaks of the next instance's mean."""
    values = [t for part in parts for t in part]
    one, centres = summarise(values), summarise([math.exp(_mean(np.log(p))) for p in parts])
    middle = float(np.median([np.median(np.asarray(p, dtype=float)) for p in parts]))
    return replace(one, median=middle, low=centres.low, high=centres.high)


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


# Of a shape, so many instances must have been measured before anything is said of the next one.
INSTANCES = 3
CAUTION = 5.0 / 3.0


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
    # machines of each side that it speaks from; of paired ones, of both together
    instances: int = 1

    @property
    def judged(self) -> Optional[float]:
        """p as a `Family` judges it. From one machine it takes runs for independent, which
        neighbours and clocks do not keep to: such a claim is held to 3 % where others are to 5."""
        caution = 1.0 if self.instances >= INSTANCES else CAUTION
        return None if self.p is None else min(1.0, self.p * caution)

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


def _mean(logs: Sequence[float]) -> float:
    return float(np.mean(np.asarray(logs, dtype=float)))


def _of_rounds(parts: Sequence[np.ndarray]) -> float:
    """Variance of an instance's mean that its rounds explain; 0 where no instance has two."""
    several = [p for p in parts if p.size > 1]
    freedom = sum(p.size - 1 for p in several)
    if not freedom:
        return 0.0
    within = sum(float(((p - p.mean()) ** 2).sum()) for p in several) / freedom
    return within * float(np.mean([1.0 / p.size for p in parts]))


def _of_means(parts: Sequence[np.ndarray]) -> float:
    """Variance of the instances' means. Three that happen to be close are no proof that instances
    are: it is not less than their rounds explain."""
    means = np.asarray([p.mean() for p in parts])
    return max(float(means.var(ddof=1)), _of_rounds(parts), RESOLUTION**2)


def paired(differences: Sequence[Sequence[float]]) -> Ratio:
    """Two settings that ran in the same rounds. `differences`: of logarithms, one per round, by
    instance.

    Errors are nested: rounds of an instance, and instances, which may differ in the effect. With
    several instances Student's t of the instances' means is the exact test of that model; what
    resembles the run before, or drifts, is in the instance's mean. With one instance the rounds are
    the sample, and the answer is about that instance.
    """
    parts = [np.asarray(d, dtype=float) for d in differences]
    n, k = sum(p.size for p in parts), len(parts)
    if k == 1:
        if n < 2:
            return Ratio(math.exp(float(parts[0][0])), None, None, None, n)
        return ratio_of(float(parts[0].mean()), _deviation(parts[0]) / math.sqrt(n), n - 1.0, n)
    mean = float(np.mean([p.mean() for p in parts]))
    found = ratio_of(mean, math.sqrt(_of_means(parts) / k), k - 1.0, n)
    return replace(found, instances=k)


def between(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> Ratio:
    """Times of two places, by instance: Welch's test on the instances' means. Only with three
    instances of each is there a p: what two machines show says nothing of the next ones. With one
    of a side the interval is of these machines."""
    least = min(len(a), len(b))
    if least < 2:
        found = ratio([t for one in a for t in one], [t for one in b for t in one])
        return replace(found, p=None, instances=least)
    found = _welch(_logs(a), _logs(b))
    return replace(found, p=found.p if least >= INSTANCES else None, instances=least)


def _logs(side: Sequence[Sequence[float]]) -> list[np.ndarray]:
    return [np.log(np.asarray(one, dtype=float)) for one in side]


def _welch(a: list[np.ndarray], b: list[np.ndarray]) -> Ratio:
    """Of the instances' means."""
    one, two = (float(np.mean([p.mean() for p in side])) for side in (a, b))
    terms = [(_of_means(side) / len(side), len(side) - 1.0) for side in (a, b)]
    error, freedom = math.sqrt(sum(v for v, _ in terms)), freedom_of(terms)
    return ratio_of(two - one, error, freedom, min(len(a), len(b)))


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
    # With two runs the shift is 10, with more it is less. Far beyond, nctdtr is not a number.
    shift = optimize.brentq(lambda d: special.nctdtr(freedom, d, limit) - 0.2, 0.0, 20.0)
    return math.exp(float(shift) * math.sqrt(2.0 / repeats) * noise)


def instances_needed(gap: float, deviation: float, most: int = 50) -> Optional[int]:
    """Instances of each of two shapes that show a ratio `gap` in four of five studies, three at
    least; None: more than `most`. `deviation`: relative standard deviation of instances."""
    for n in range(INSTANCES, most + 1):
        if detectable(n, deviation) <= max(gap, 1.0 / gap):
            return n
    return None


def share_bound(good: int, runs: int) -> float:
    """The share of all runs that so many good ones show, with 95 % confidence (Clopper and
    Pearson, one-sided)."""
    found = binomtest(good, runs, alternative="greater").proportion_ci(0.95, method="exact")
    return float(found.low)


def runs_needed(share: float) -> int:
    """Runs that show a share below 1 if all of them are good."""
    return math.ceil(math.log(LEVEL) / math.log(share) - 1e-9)


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
        self._contrast: dict[Hashable, Hashable] = {}
        self._holds: Optional[dict[Hashable, bool]] = None

    def ask(self, key: Hashable, p: Optional[float], contrast: Hashable = None) -> None:
        """A question under its own key; p None (too few samples) is never answered with yes.
        Questions with one `contrast` compare the same runs: they count as one, by the larger p."""
        assert self._holds is None, "a question after the first answer would change that answer"
        if p is None:
            return
        contrast = key if contrast is None else contrast
        self._contrast[key] = contrast
        self._p[contrast] = max(p, self._p.get(contrast, 0.0))

    def holds(self, key: Hashable) -> bool:
        """Whether a difference is more than chance. The first call ends the asking."""
        if self._holds is None:
            self._holds = dict(zip(self._p, holm(list(self._p.values()))))
        return self._holds.get(self._contrast.get(key), False)


# What is lost with the number of workers p, beside what does not shrink: collectives in trees,
# neighbours that grow with the surface, and everything that waits for each worker in turn. Few
# measured sizes cannot tell these forms apart.
OVERHEADS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log2 p": np.log2,
    "sqrt p": np.sqrt,
    "p": lambda p: p,
}


@dataclass(frozen=True)
class Scaling:
    """Fit of T(p) = serial + work / p + overhead * form(p), all terms non-negative.

    Beyond the measured range it is an estimate.
    """

    serial: float
    work: float
    overhead: float
    residual: float  # relative, root mean square
    points: int
    form: str = "log2 p"

    def at(self, p: float) -> float:
        return self.serial + self.work / p + self.overhead * float(OVERHEADS[self.form](p))


def fit_scaling(
    workers: Sequence[float], seconds: Sequence[float], form: str = "log2 p"
) -> Optional[Scaling]:
    """None with fewer than three distinct sizes: then any curve fits."""
    p, t = np.asarray(workers, dtype=float), np.asarray(seconds, dtype=float)
    if len(set(p.tolist())) < 3:
        return None
    # Rows are divided by the time, so that relative errors count: the slowest point must not
    # decide alone.
    matrix = np.column_stack([np.ones_like(p), 1.0 / p, OVERHEADS[form](p)]) / t[:, None]
    terms, _ = optimize.nnls(matrix, np.ones_like(t))
    residual = float(np.sqrt(np.mean((matrix @ terms - 1.0) ** 2)))
    return Scaling(float(terms[0]), float(terms[1]), float(terms[2]), residual, int(p.size), form)


@dataclass(frozen=True)
class Predicted:
    value: float
    low: float  # 95 % interval
    high: float


# Beyond the largest measured number of workers, or below the least, by more than this factor no
# curve is believed.
FARTHEST = 4.0


def too_far(workers: Sequence[float], p: float) -> bool:
    return not min(workers) / FARTHEST <= p <= max(workers) * FARTHEST


def _left_out(sizes: np.ndarray, times: np.ndarray, form: str) -> list[float]:
    """How wrong a form is about each size that it has not seen, as logarithms."""
    errors = []
    for left in sorted(set(sizes.tolist())):
        kept = sizes != left
        without = fit_scaling(sizes[kept], times[kept], form)
        assert without  # three sizes are left
        errors.append(math.log(without.at(left) / float(np.exp(np.log(times[~kept]).mean()))))
    return errors


# What a time may be off by, relative, where nobody measured its spread: twice a noise of 3 %.
DOUBT = 0.06


def _extremes(rows: np.ndarray, at: np.ndarray, doubt: float) -> Optional[tuple[float, float]]:
    """The least and the greatest value at a point of all curves that pass each measured one within
    `doubt`; None where none does. `rows`: the terms of a curve over the measured times."""
    bounds = (np.vstack([rows, -rows]), np.repeat([1.0 + doubt, doubt - 1.0], len(rows)))
    ends = [optimize.linprog(sign * at, *bounds, method="highs") for sign in (1.0, -1.0)]
    if not all(one.success for one in ends):
        return None
    return float(ends[0].fun), float(-ends[1].fun)


def predict_time(
    workers: Sequence[float], seconds: Sequence[float], p: float, doubt: float = DOUBT
) -> Optional[Predicted]:
    """Time at a size that was not measured; None with fewer than four distinct sizes, or too far
    away. `doubt`: what a measured time may be off by, relative, with 95 % confidence.

    A curve is a sum of a serial part, work / p and all OVERHEADS, none of them negative. The
    interval holds every curve that passes the measured times within their doubt: what was measured
    does not say which of them is true further on. The value is of the single form that is least
    wrong about sizes that it has not seen; the interval also holds how wrong that was, which widens
    with the distance, in doublings, beyond the measured range.
    """
    sizes, times = np.asarray(workers, dtype=float), np.asarray(seconds, dtype=float)
    if len(set(sizes.tolist())) < 4 or too_far(workers, p):
        return None
    wrong = {form: _left_out(sizes, times, form) for form in OVERHEADS}
    form = min(wrong, key=lambda one: float(np.mean(np.square(wrong[one]))))
    fit = fit_scaling(workers, seconds, form)
    assert fit
    value, errors = fit.at(p), wrong[form]
    spread = max(math.sqrt(float(np.mean(np.square(errors)))), RESOLUTION)
    outside = max(math.log2(p / sizes.max()), math.log2(sizes.min() / p), 0.0)
    half = float(special.stdtrit(len(errors) - 1.0, 0.975)) * spread * (1.0 + outside)
    terms = [np.ones_like, lambda n: 1.0 / n, *OVERHEADS.values()]
    rows = np.column_stack([term(sizes) for term in terms]) / times[:, None]
    at = np.array([float(term(np.array([p]))[0]) for term in terms])
    found, within = None, doubt
    while found is None:  # no curve of this kind passes so close: the times themselves differ
        found, within = _extremes(rows, at, within), 1.5 * within
    low = min(found[0] * (1.0 - doubt), value * math.exp(-half))
    return Predicted(value, low, max(found[1] * (1.0 + doubt), value * math.exp(half)))


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
