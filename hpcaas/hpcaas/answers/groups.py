"""Samples of one configuration at one place, and what of them may be believed.

A place is what is rented or owned: a shape, of which several instances may have been measured, or a
machine whose shape nobody said. Runs of one configuration on several instances are one group; which
instance each is from is never forgotten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Hashable, Iterable, Iterator, Mapping, Optional, Sequence

from ..axes import AXES
from ..model import Configuration, ResultSet, Sample, Status, instance_of
from ..running.noise import WAITING_LIMIT, disturbed
from ..stats import Ratio, Summary, between, paired, ratio, summarise, summarise_nested
from .agreement import disagreements
from .problems import Problem, problems

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


# What is read of a run: seconds, or an amount of money.
Reader = Callable[[Sample], Optional[float]]
Block = tuple[Hashable, ...]  # a round of a campaign on an instance


# eq=False: a group is itself alone. Groups are compared often, and their samples are many.
@dataclass(frozen=True, eq=False)
class Group:
    machine: str  # the place: a shape, or a machine whose shape nobody said
    config: Configuration
    samples: tuple[Sample, ...]
    trust: Trust = Trust()
    disagreement: str = ""  # its answer is not that of the others on the same input
    problem: Problem = Problem("", "")
    name: str = ""  # application and size, and what else tells its problem from others
    instances: Mapping[str, str] = field(default_factory=dict)  # machine -> its identity

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

    def _instance(self, sample: Sample) -> str:
        return self.instances.get(sample.machine, sample.machine)

    @cached_property
    def on(self) -> dict[str, list[Sample]]:
        """Samples that count, by instance."""
        found: dict[str, list[Sample]] = {}
        for sample in self.good:
            found.setdefault(self._instance(sample), []).append(sample)
        return found

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """Of each sample, by id, the round in which it ran: every round of a campaign runs each
        configuration once. What a search ran while it was choosing was in no round."""
        turn: dict[tuple[str, str], int] = {}
        found: dict[str, Block] = {}
        for sample in sorted(self.samples, key=lambda s: s.repeat):
            if not sample.searched:
                where = (sample.machine, sample.campaign)
                turn[where] = turn.get(where, -1) + 1
                found[f"{sample.machine} {sample.id}"] = (*where, turn[where])
        return found

    @cached_property
    def _read(self) -> dict[Reader, dict[str, dict[Block, float]]]:
        return {}

    def logs(self, read: Reader) -> dict[str, dict[Block, float]]:
        """Instance -> round -> logarithm of what is read. Samples of no round stand alone."""
        if read not in self._read:
            self._read[read] = self._logs(read)
        return self._read[read]

    def _logs(self, read: Reader) -> dict[str, dict[Block, float]]:
        found: dict[str, dict[Block, float]] = {}
        for instance, some in self.on.items():
            for sample in some:
                value = read(sample)
                if value is not None:
                    own = f"{sample.machine} {sample.id}"
                    block = self.blocks.get(own, (own,))
                    found.setdefault(instance, {})[block] = math.log(value)
        return found

    def by_instance(self, read: Reader) -> list[list[float]]:
        return _values(self.logs(read))

    def _summary(self, read: Reader, values: list[float]) -> Optional[Summary]:
        """Of all runs; with several instances the interval is that of their means: it is about the
        next one."""
        parts = self.by_instance(read)
        if len(parts) < 2:
            return summarise(values) if values else None
        return summarise_nested(parts)

    @cached_property
    def summary(self) -> Optional[Summary]:
        return self._summary(seconds_of, self.times)

    @cached_property
    def wall_summary(self) -> Optional[Summary]:
        return self._summary(wall_of, self.walls)

    @cached_property
    def centre(self) -> float:
        """Mean logarithm of the times, every instance counting alike."""
        parts = self.logs(seconds_of).values()
        return sum(sum(of.values()) / len(of) for of in parts) / len(parts)

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
    def sources(self) -> str:
        return ", ".join(dict.fromkeys(s.source for s in self.samples if s.source))


def axis_value(machine: str, config: Configuration, name: str) -> Any:
    if name == "processor":
        return machine
    if name == "split":
        return f"{config.per_node}x{config.threads}"
    return getattr(config, name)


def seconds_of(sample: Sample) -> Optional[float]:
    return sample.seconds


def wall_of(sample: Sample) -> Optional[float]:
    return sample.wall


def _differences(
    a: dict[str, dict[Block, float]], b: dict[str, dict[Block, float]]
) -> dict[str, dict[Block, float]]:
    """b - a in the rounds that both ran in, by instance."""
    found = {}
    for instance in a:
        mine, theirs = a[instance], b.get(instance, {})
        common = {block: theirs[block] - mine[block] for block in mine if block in theirs}
        if common:
            found[instance] = common
    return found


def versus(
    a: Group, b: Group, read_a: Reader = seconds_of, read_b: Optional[Reader] = None
) -> Ratio:
    """What is read of b over what is read of a. Where both ran in the same rounds on the same
    instances the differences are the sample, otherwise the instances are."""
    logs_a, logs_b = a.logs(read_a), b.logs(read_b or read_a)
    common = _differences(logs_a, logs_b)
    rounds = sum(map(len, common.values()))
    if rounds > 1 or (rounds and a.machine == b.machine):
        return paired([list(d.values()) for d in common.values()])
    sides = _values(logs_a), _values(logs_b)
    if a.machine == b.machine and logs_a.keys() == logs_b.keys() and len(logs_a) == 1:
        return ratio(sides[0][0], sides[1][0])  # one machine, other campaigns
    return between(*sides)


def _values(logs: dict[str, dict[Block, float]]) -> list[list[float]]:
    """By instance."""
    return [[math.exp(v) for v in of.values()] for of in logs.values()]


class Groups(Sequence[Group]):
    """All configurations of a result set, and which of them may be compared."""

    def __init__(
        self, results: ResultSet, trust: Trust = Trust(), places: Optional[Mapping[str, str]] = None
    ):
        self.places = places_of(results.machines) if places is None else places
        self.instances = {m: instance_of(d, m) for m, d in results.machines.items()}
        self.trust = trust
        of = problems([results])
        collected: dict[tuple[str, str, Problem], list[Sample]] = {}
        for sample in results.samples:
            if sample.status is not Status.MISSING:
                place = self.places.get(sample.machine, sample.machine)
                key = (place, sample.configuration.key(), of(sample, results))
                collected.setdefault(key, []).append(sample)
        odd = disagreements(collected)
        names = _names([problem for _, _, problem in collected])
        self._all = [
            Group(
                key[0],
                samples[0].configuration,
                tuple(samples),
                trust,
                odd.get(key, ""),
                key[2],
                names[key[2]],
                self.instances,
            )
            for key, samples in collected.items()
        ]

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __iter__(self) -> Iterator[Group]:
        return iter(self._all)

    @cached_property
    def per_app(self) -> dict[str, list[Group]]:
        """What was computed -> its groups. Times of different applications, sizes, inputs and
        versions are never compared."""
        return by_name(self._all)

    @cached_property
    def by_machine(self) -> dict[str, list[Group]]:
        return by_machine(self._all)

    def instances_of(self, place: str) -> list[str]:
        """Identities of the instances of a place that were measured."""
        names = (m for m, p in self.places.items() if p == place)
        return list(dict.fromkeys(self.instances[m] for m in names))


def groups(
    results: ResultSet, trust: Trust = Trust(), places: Optional[Mapping[str, str]] = None
) -> Groups:
    return Groups(results, trust, places)


def places_of(machines: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Machine -> the shape that it says it has, or itself."""
    return {name: one.get("shape") or name for name, one in machines.items()}


def _names(found: Iterable[Problem]) -> dict[Problem, str]:
    """A name for each problem: application and size, and what differs beyond those."""
    same: dict[tuple[str, str], list[Problem]] = {}
    for one in dict.fromkeys(found):
        same.setdefault((one.app, one.size), []).append(one)
    return {
        one: f"{app} {size}{one.beyond(some)}" for (app, size), some in same.items() for one in some
    }


def by_name(some: Iterable[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in some:
        found.setdefault(group.name, []).append(group)
    return found


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
