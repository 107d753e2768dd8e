"""Samples of one configuration on one machine, and what of them may be believed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Iterable, Optional

from ..axes import AXES
from ..model import Configuration, ResultSet, Sample, Status
from ..running.noise import WAITING_LIMIT, disturbed
from ..stats import Ratio, Summary, chosen_p, combine, holm, ratio, summarise
from .agreement import disagreements

# Axes in the order in which tables and effects show them.
ORDER = tuple(AXES)

# What speaks against a configuration. Builds and inputs that failed, a full disk, and runs that the
# batch system put on another processor say nothing about the runs that there were.
BAD = (Status.WRONG, Status.CRASHED, Status.FAILED, Status.TIMEOUT)


@dataclass(frozen=True)
class Trust:
    """Which samples count. `accept_flaky` lets configurations in that sometimes went wrong."""

    accept_flaky: bool = False
    waiting_limit: float = WAITING_LIMIT  # share of its time that a run may have waited for a CPU
    by_cpu: bool = False  # times are CPU seconds: they say nothing about what to rent


@dataclass(frozen=True)
class Group:
    machine: str
    config: Configuration
    samples: tuple[Sample, ...]
    trust: Trust = Trust()
    disagreement: str = ""  # its answer is not that of the others on the same input

    @cached_property
    def bad(self) -> list[Sample]:
        return [s for s in self.samples if s.status in BAD]

    @cached_property
    def doubt(self) -> str:
        """Why this configuration is not to be recommended; empty if nothing speaks against it."""
        counts: dict[str, int] = {}
        for sample in self.bad:
            counts[sample.status.value] = counts.get(sample.status.value, 0) + 1
        said = [f"{n} of {len(self.samples)} runs: {words}" for words, n in counts.items()]
        return "; ".join(said + ([self.disagreement] if self.disagreement else []))

    @property
    def out(self) -> bool:
        return bool(self.doubt) and not self.trust.accept_flaky

    @cached_property
    def good(self) -> list[Sample]:
        """Samples that count: of a trusted configuration, fresh ones where a search chose among
        them, undisturbed ones where there are any."""
        if self.out:
            return []
        right = [s for s in self.samples if s.ok]
        right = [s for s in right if not s.searched] or right
        quiet = [s for s in right if not disturbed(s.load, self.trust.waiting_limit)]
        return quiet or right

    @cached_property
    def known(self) -> bool:
        """Whether verdicts may be drawn: some sample was neither disturbed nor part of a search."""
        return not self.only_searched and any(
            not disturbed(s.load, self.trust.waiting_limit) for s in self.good
        )

    @cached_property
    def only_searched(self) -> bool:
        return bool(self.good) and all(s.searched for s in self.good)

    @cached_property
    def times(self) -> list[float]:
        """By the application's own clock: what choices are compared with."""
        return [s.seconds for s in self.good if s.seconds is not None]

    @cached_property
    def walls(self) -> list[float]:
        """Of the whole run, start-up included: what is billed and what a deadline is about."""
        return [s.wall for s in self.good if s.wall is not None]

    @cached_property
    def summary(self) -> Optional[Summary]:
        return summarise(self.times) if self.times else None

    @cached_property
    def wall_summary(self) -> Optional[Summary]:
        return summarise(self.walls) if self.walls else None

    @property
    def seconds(self) -> Optional[float]:
        summary = self.summary
        return summary.median if summary else None

    @property
    def wall(self) -> Optional[float]:
        summary = self.wall_summary
        return summary.median if summary else None

    @property
    def failure(self) -> Optional[Sample]:
        """A sample that did not end well, where no sample counts."""
        return None if self.times else next(iter(self.bad or self.samples), None)

    @property
    def trouble(self) -> str:
        """In a word or two why no sample counts; empty if some do."""
        if self.failure is None:
            return ""
        return "answer differs" if self.failure.ok else self.failure.status.value

    @cached_property
    def published(self) -> bool:
        return all(s.source for s in self.samples)

    @property
    def workers(self) -> int:
        return self.config.ranks * self.config.threads

    def axis(self, name: str) -> Any:
        return axis_value(self.machine, self.config, name)

    @property
    def label(self) -> str:
        return self.config.label()

    @property
    def name(self) -> str:
        return f"{self.config.app} {self.config.size}"

    @property
    def sources(self) -> str:
        return ", ".join(dict.fromkeys(s.source for s in self.samples if s.source))


def axis_value(machine: str, config: Configuration, name: str) -> Any:
    if name == "processor":
        return machine
    if name == "split":
        return f"{config.per_node}x{config.threads}"
    return getattr(config, name)


def groups(results: ResultSet, trust: Trust = Trust()) -> list[Group]:
    collected: dict[tuple[str, str], list[Sample]] = {}
    for sample in results.samples:
        if sample.status is not Status.MISSING:
            key = (sample.machine, sample.configuration.key())
            collected.setdefault(key, []).append(sample)
    odd = disagreements(collected, results.provenance)
    return [
        Group(key[0], samples[0].configuration, tuple(samples), trust, odd.get(key, ""))
        for key, samples in collected.items()
    ]


def apps_of(all_groups: Iterable[Group]) -> list[tuple[str, str]]:
    """Application and size pairs; times of different sizes are never compared."""
    return list(dict.fromkeys((g.config.app, g.config.size) for g in all_groups))


def of_app(all_groups: Iterable[Group], app: str, size: str) -> list[Group]:
    return [g for g in all_groups if g.config.app == app and g.config.size == size]


def per_app(all_groups: list[Group]) -> list[list[Group]]:
    return [of_app(all_groups, app, size) for app, size in apps_of(all_groups)]


def by_machine(some: Iterable[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in some:
        found.setdefault(group.machine, []).append(group)
    return found


def varying(some: list[Group]) -> list[str]:
    """Axes with more than one value, in order."""
    return [name for name in ORDER if len({str(g.axis(name)) for g in some}) > 1]


# Runs that make no such choice still stand in a table about it.
ALWAYS_SAID = ("smt", "ranks_per_node")


def choosing(some: list[Group], axes: Iterable[str]) -> list[Group]:
    """Groups that make every one of these choices: without it (None) they have no place in a table
    about it."""
    needed = [a for a in axes if a not in ALWAYS_SAID]
    return [g for g in some if all(g.axis(a) is not None for a in needed)]


def rest(group: Group, axis: str) -> tuple[str, ...]:
    """Everything but one axis: groups with the same rest differ in that axis only."""
    return (
        group.config.app,
        group.config.size,
        *(str(group.axis(name)) for name in ORDER if name != axis),
    )


@dataclass(frozen=True)
class Effect:
    """A value of an axis against the best value of that axis."""

    app: str
    size: str
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

    @property
    def key(self) -> tuple[str, ...]:
        return ("effect", self.app, self.size, self.axis, self.value)


Cells = dict[tuple[str, ...], dict[str, Group]]


def _cells(some: list[Group], axis: str) -> Cells:
    cells: Cells = {}
    for group in some:
        cells.setdefault(rest(group, axis), {})[str(group.axis(axis))] = group
    return {key: by_value for key, by_value in cells.items() if len(by_value) > 1}


def _against(cells: Cells, value: str, reference: str) -> list[Ratio]:
    return [
        ratio(by_value[reference].times, by_value[value].times)
        for by_value in cells.values()
        if value in by_value and reference in by_value
    ]


def _best_value(cells: Cells, values: list[str]) -> str:
    """The value that wins on average."""

    def losses(reference: str) -> float:
        """Mean advantage of the others over a reference; the best reference has the least."""
        compared = [_against(cells, v, reference) for v in values if v != reference]
        parts = [combine(r).value for r in compared if r]
        return sum(1.0 / p for p in parts) / len(parts) if parts else float("inf")

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
    app, size = some[0].config.app, some[0].config.size
    found = []
    for value in values:
        pairs = _against(cells, value, best) if value != best else []
        if not pairs:
            continue
        mean = combine(pairs)
        largest, testable = max(r.value for r in pairs), known and not published
        # Of k values any two could have come out as best and other: k (k - 1) / 2 questions, of
        # which k - 1 are shown.
        p = chosen_p(mean.p if testable else None, len(values) / 2)
        found.append(
            Effect(app, size, axis, value, best, mean, len(pairs), largest, published, known, p)
        )
    return sorted(found, key=lambda e: e.ratio.value)


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
        chosen_p(r.p, size) if g.known and best.known else None for g, r in zip(others, against)
    ]
    worse = iter(holm([p for p in p_values if p is not None]))
    excluded = [p is not None and next(worse) for p in p_values]
    return [
        g
        for g, r, out in zip(others, against, excluded)
        if not out and (r.p is not None or r.value <= close)
    ]
