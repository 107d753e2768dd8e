"""Effects of choices: what differs in one choice only, and which configurations are as good as the
best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

from ..stats import Ratio, chosen_p, combine, holm, paired
from .groups import Group, rest, seconds_of, versus


@dataclass(frozen=True)
class Effect:
    """A value of an axis against the best value of that axis."""

    app: str
    name: str  # of what was computed: application, size, and more where problems differ
    axis: str
    value: str
    best: str
    ratio: Ratio  # time with `value` / time with `best`
    pairs: int
    largest: float  # of the single pairs: what it can cost
    published: bool = False  # all values come from a publication, which gives no spread
    known: bool = True  # False: only disturbed samples speak of it
    # of the difference, counting that the best value was picked after looking; None: untestable
    p: Optional[float] = None
    # the two groups, where there is one pair: another question about them is the same question
    contrast: Optional[frozenset[Group]] = None

    @property
    def key(self) -> tuple[str, ...]:
        return ("effect", self.name, self.axis, self.value)


Cells = dict[tuple[str, ...], dict[str, Group]]


def _cells(some: list[Group], axis: str) -> Cells:
    cells: Cells = {}
    for group in some:
        cells.setdefault(rest(group, axis), {})[str(group.axis(axis))] = group
    return {key: by_value for key, by_value in cells.items() if len(by_value) > 1}


Pair = tuple[Group, Group]


def _pairs(cells: Cells, value: str, reference: str) -> list[Pair]:
    """Reference and value where both ran and nothing else differs."""
    return [
        (by_value[reference], by_value[value])
        for by_value in cells.values()
        if value in by_value and reference in by_value
    ]


def _over(pairs: list[Pair]) -> tuple[Ratio, list[Ratio]]:
    """The mean effect over pairs, and those of the single pairs. It must stand out of what differs
    between situations and, with several instances, of what differs between those."""
    single = [versus(a, b) for a, b in pairs]
    mean = combine(single)
    if len(pairs) == 1:
        return mean, single
    means: dict[str, list[float]] = {}
    for a, b in pairs:
        mine, theirs = a.logs(seconds_of), b.logs(seconds_of)
        for instance in mine.keys() & theirs.keys():
            centres = (np.mean(list(side[instance].values())) for side in (mine, theirs))
            one, other = centres
            means.setdefault(instance, []).append(float(other - one))
    if len(means) < 2:
        return replace(mean, instances=len(means) or 1), single
    nested = paired([[float(np.mean(d))] for d in means.values()])
    return _wider(mean, replace(nested, value=mean.value)), single


def _wider(one: Ratio, other: Ratio) -> Ratio:
    """Of two tests of one effect the one that is less sure."""
    ps = [r.p for r in (one, other) if r.p is not None]
    known = [r for r in (one, other) if r.low is not None and r.high is not None]
    return replace(
        one,
        p=max(ps) if len(ps) == 2 else None,
        low=min((r.low or 0.0 for r in known), default=None),
        high=max((r.high or 0.0 for r in known), default=None),
        instances=other.instances,
    )


def _best_value(cells: Cells, values: list[str]) -> str:
    """The value that wins on average."""

    def losses(reference: str) -> float:
        """Mean advantage of the others over a reference; the best reference has the least."""
        compared = (_pairs(cells, v, reference) for v in values if v != reference)
        parts = [np.mean([b.centre - a.centre for a, b in pairs]) for pairs in compared if pairs]
        return float(np.mean(np.exp(-np.asarray(parts)))) if parts else float("inf")

    return min(values, key=losses)


def _comparable(some: list[Group], axis: str) -> tuple[Cells, bool]:
    """Groups that differ in one axis only, and whether a verdict may be drawn from them: disturbed
    ones speak only where no others do."""
    usable = [g for g in some if g.times]
    known = _cells([g for g in usable if g.known], axis)
    return (known, True) if known else (_cells(usable, axis), False)


def effects(some: list[Group], axis: str) -> list[Effect]:
    """Effect of each value of one axis, over pairs that differ in nothing else.

    The reference is the value that wins on average.
    """
    cells, known = _comparable(some, axis)
    compared = [pair for by_value in cells.values() for pair in by_value.items()]
    values = list(dict.fromkeys(value for value, _ in compared))
    if len(values) < 2:
        return []
    best, published = _best_value(cells, values), all(g.published for _, g in compared)
    found = []
    for value in values:
        pairs = _pairs(cells, value, best) if value != best else []
        if pairs:
            one = _effect(pairs, axis, value, best, known, published)
            # Of k values any two could have come out as best and other: k (k - 1) / 2 questions,
            # of which k - 1 are shown.
            found.append(replace(one, p=chosen_p(one.p, len(values) / 2)))
    return sorted(found, key=lambda e: e.ratio.value)


def _effect(
    pairs: list[Pair], axis: str, value: str, best: str, known: bool, published: bool
) -> Effect:
    """p is that of this question alone."""
    mean, single = _over(pairs)
    first = pairs[0][0]
    return Effect(
        first.config.app,
        first.name,
        axis,
        value,
        best,
        mean,
        len(pairs),
        max(r.value for r in single),
        published,
        known,
        mean.judged if known and not published else None,
        frozenset(pairs[0]) if len(pairs) == 1 else None,
    )


def best_of(some: list[Group]) -> Optional[Group]:
    usable = [g for g in some if g.seconds is not None]
    return min(usable, key=lambda g: g.seconds or 0.0) if usable else None


def twins(
    best: Group, others: list[Group], against: list[Ratio], close: float = 1.01
) -> list[Group]:
    """Of `others`, those that may be as good as the best: with it, a set that holds the truly best
    one in 95 of 100 cases. `against`: of each, its ratio to the best.

    Without a spread, what is within a per cent counts as a twin.
    """
    # Any two of all could have been picked as the best and the other.
    size = (len(others) + 1) / 2
    p_values = [
        chosen_p(r.judged, size) if g.known and best.known else None
        for g, r in zip(others, against)
    ]
    worse = iter(holm([p for p in p_values if p is not None]))
    excluded = [p is not None and next(worse) for p in p_values]
    return [
        g
        for g, r, out in zip(others, against, excluded)
        if not out and (r.p is not None or r.value <= close)
    ]
