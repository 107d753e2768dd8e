"""Samples of one configuration on one machine, and comparisons between configurations that differ in one choice only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Optional

from ..model import Configuration, ResultSet, Sample, Status
from ..stats import Ratio, Summary, combine, ratio, summarise

# Axes in the order in which tables and effects show them.
ORDER = (
    "processor",
    "compiler",
    "optimisation",
    "target",
    "variant",
    "installation",
    "library",
    "mpi",
    "framework",
    "interconnect",
    "filesystem",
    "launcher",
    "binding",
    "distribution",
    "split",
    "smt",
    "ranks_per_node",
    "nodes",
)


@dataclass(frozen=True)
class Group:
    machine: str
    config: Configuration
    samples: tuple[Sample, ...]

    @property
    def times(self) -> list[float]:
        return [s.seconds for s in self.samples if s.ok and s.seconds is not None]

    @property
    def summary(self) -> Optional[Summary]:
        return summarise(self.times) if self.times else None

    @property
    def seconds(self) -> Optional[float]:
        summary = self.summary
        return summary.median if summary else None

    @property
    def failure(self) -> Optional[Sample]:
        """A sample that did not end well, if none did."""
        return None if self.times else next(iter(self.samples), None)

    @property
    def workers(self) -> int:
        return self.config.ranks * self.config.threads

    def axis(self, name: str) -> Any:
        return axis_value(self.machine, self.config, name)

    @property
    def label(self) -> str:
        return self.config.label()

    @property
    def sources(self) -> str:
        return ", ".join(dict.fromkeys(s.source for s in self.samples if s.source))


def axis_value(machine: str, config: Configuration, name: str) -> Any:
    if name == "processor":
        return machine
    if name == "split":
        return f"{config.per_node}x{config.threads}"
    return getattr(config, name)


def groups(results: ResultSet) -> list[Group]:
    collected: dict[tuple[str, str], list[Sample]] = {}
    for sample in results.samples:
        if sample.status is not Status.MISSING:
            collected.setdefault((sample.machine, sample.configuration.key()), []).append(sample)
    return [
        Group(machine, samples[0].configuration, tuple(samples))
        for (machine, _), samples in collected.items()
    ]


def apps_of(all_groups: Iterable[Group]) -> list[tuple[str, str]]:
    """Application and size pairs; times of different sizes are never compared."""
    return list(dict.fromkeys((g.config.app, g.config.size) for g in all_groups))


def of_app(all_groups: Iterable[Group], app: str, size: str) -> list[Group]:
    return [g for g in all_groups if g.config.app == app and g.config.size == size]


def varying(some: list[Group]) -> list[str]:
    """Axes with more than one value, in order."""
    return [name for name in ORDER if len({str(g.axis(name)) for g in some}) > 1]


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


def effects(some: list[Group], axis: str) -> list[Effect]:
    """Effect of each value of one axis, over pairs that differ in nothing else. The reference is the value that wins on average."""
    usable = [g for g in some if g.times]
    cells: dict[tuple[str, ...], dict[str, Group]] = {}
    for group in usable:
        cells.setdefault(rest(group, axis), {})[str(group.axis(axis))] = group
    cells = {key: by_value for key, by_value in cells.items() if len(by_value) > 1}
    values = list(dict.fromkeys(v for by_value in cells.values() for v in by_value))
    if len(values) < 2:
        return []

    def against(value: str, reference: str) -> list[Ratio]:
        return [
            ratio(by_value[reference].times, by_value[value].times)
            for by_value in cells.values()
            if value in by_value and reference in by_value
        ]

    def losses(reference: str) -> float:
        """Mean advantage of the others over a reference; the best reference has the least."""
        parts = [
            combine(r).value for v in values if v != reference and (r := against(v, reference))
        ]
        return sum(1.0 / p for p in parts) / len(parts) if parts else float("inf")

    best = min(values, key=losses)
    found = []
    published = all(
        s.source for by_value in cells.values() for g in by_value.values() for s in g.samples
    )
    for value in values:
        pairs = against(value, best) if value != best else []
        if pairs:
            found.append(
                Effect(
                    usable[0].config.app,
                    usable[0].config.size,
                    axis,
                    value,
                    best,
                    combine(pairs),
                    len(pairs),
                    max(p.value for p in pairs),
                    published,
                )
            )
    return sorted(found, key=lambda e: e.ratio.value)


def best_of(some: list[Group]) -> Optional[Group]:
    usable = [g for g in some if g.seconds is not None]
    return min(usable, key=lambda g: g.seconds or 0.0) if usable else None


def indistinct_from_best(some: list[Group]) -> list[Group]:
    """Configurations whose time is not significantly longer than the best one's: any of them may be the best."""
    best = best_of(some)
    if best is None:
        return []
    result = []
    for group in some:
        if group is not best and group.times:
            r = ratio(best.times, group.times)
            if r.significant is False or (r.significant is None and r.value <= 1.01):
                result.append(group)
    return result
