"""Two machines or shapes, or one before and after: what changed, and what of it is significant."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Optional

from ..model import ResultSet, instance_of
from ..stats import INSTANCES, Family, Ratio, between, chosen_p, combine, paired, ratio
from .agreement import unlike
from .effects import best_of
from .groups import Group, Groups, Trust, seconds_of
from .problems import OfSample, Problem, problems


@dataclass(frozen=True)
class Difference:
    app: str
    size: str
    config: str
    a_seconds: float
    b_seconds: float
    ratio: Ratio  # time(B) / time(A): above 1, A is faster
    verdict: str  # A faster, B faster, cannot tell, these machines only, ...


@dataclass
class Comparison:
    differences: list[Difference]
    refused: list[str]
    summary: list[str]


# A difference below this is called none even where many repeats make it significant.
SMALLEST = 0.01


@dataclass(frozen=True)
class Same:
    """What counts as the same choice on both sides, beside equal values."""

    target: bool = False  # builds for each machine's own target
    version: bool = False  # of the application


@dataclass
class _Pair:
    one: Group
    two: Group
    ratio: Ratio

    @property
    def known(self) -> bool:
        return all(g.known or g.published for g in (self.one, self.two))

    @property
    def key(self) -> tuple[str, ...]:
        return (self.one.name, self.one.config.key(), self.two.config.key())


@dataclass
class Side:
    """One of the two: its machines, and its groups by what they have in common with the other's."""

    name: str
    results: ResultSet
    groups: dict[tuple[str, Problem], Group]

    @property
    def instances(self) -> set[str]:
        return {instance_of(d, m) for m, d in self.results.machines.items()}

    @property
    def shapes(self) -> set[str]:
        return {str(d["shape"]) for d in self.results.machines.values() if d.get("shape")}

    @property
    def published(self) -> bool:
        return all(g.published for g in self.groups.values())


def _side(
    name: str, results: ResultSet, trust: Trust, same: Same, of: OfSample, refused: list[str]
) -> Side:
    """Usable groups of one side. All its machines are one place: the side."""
    found: dict[tuple[str, Problem], Group] = {}
    for g in Groups(results, trust, dict.fromkeys(results.machines, name)):
        if g.out:
            refused.append(f"{name}: {g.config.app} {g.label} left out: {g.doubt}")
        elif g.times:
            config = g.config.model_copy(update={"target": None}) if same.target else g.config
            problem = of(g.samples[0], results)
            problem = replace(problem, version="") if same.version else problem
            found[config.key(), problem] = g
    return Side(name, results, found)


def _pairs(first: Side, second: Side, refused: list[str]) -> list[_Pair]:
    """What may be compared: the same configuration of the same problem, with the same answer."""
    pairs = []
    others = {key: problem for key, problem in second.groups}
    for (key, problem), one in first.groups.items():
        two = second.groups.get((key, problem))
        what = f"{one.config.app} {one.label}"
        if two is None:
            if key in others:
                refused.append(f"{what}: {problem.against(others[key])}; not compared")
            continue
        why = unlike(list(one.samples), list(two.samples))
        if why:
            refused.append(f"{what}: the answers differ ({why}); not compared")
            continue
        pairs.append(_Pair(one, two, _ratio(one, two)))
    return pairs


def _ratio(one: Group, two: Group) -> Ratio:
    """Of an instance that is on both sides its two times are a pair, otherwise sides are told apart
    by their instances."""
    a, b = one.by_instance(seconds_of), two.by_instance(seconds_of)
    common = one.on.keys() & two.on.keys()
    if len(common) > 1 and common == one.on.keys() == two.on.keys():
        mine, theirs = one.logs(seconds_of), two.logs(seconds_of)
        centres = [[fmean(theirs[i].values()) - fmean(mine[i].values())] for i in sorted(common)]
        return paired(centres)
    if common:
        return ratio([t for of in a for t in of], [t for of in b for t in of])
    return between(a, b)


SAME_SHAPE = "the same shape"
THESE_ONLY = "these machines only"


def _verdict(pair: _Pair, family: Family, sides: tuple[Side, Side]) -> str:
    if not pair.known:
        return "not known"
    if _same_shape(*sides):
        return SAME_SHAPE
    if pair.ratio.p is None:
        alone = pair.ratio.low is not None and not sides[0].instances & sides[1].instances
        return THESE_ONLY if alone else "one value each"
    if not family.holds(pair.key) or abs(pair.ratio.value - 1) < SMALLEST:
        return "cannot tell"
    return f"{sides[0].name if pair.ratio.value > 1 else sides[1].name} faster"


def _same_shape(first: Side, second: Side) -> bool:
    """Whether both are different instances of one shape: what differs between them, differs between
    any two that are rented."""
    return (
        len(first.shapes) == 1
        and first.shapes == second.shapes
        and not first.instances & second.instances
    )


def _about(first: Side, second: Side, pairs: list[_Pair]) -> list[str]:
    """What the comparison speaks of, in one line."""
    if not pairs or first.published or second.published:
        return []
    counts = f"{len(first.instances)} and {len(second.instances)}"
    if _same_shape(first, second):
        return [
            f"{first.name} and {second.name} are instances of the same shape,"
            f" {next(iter(first.shapes))}: what differs between them says nothing of the shape"
        ]
    if first.instances & second.instances:
        if len(first.instances) == 1:
            return [
                "the same machine twice: what it or its neighbours did in the two sessions is in"
                " the difference"
            ]
        return []
    if min(len(first.instances), len(second.instances)) < INSTANCES:
        return [
            f"{counts} instances were measured: this is about these machines; of their shapes"
            f" nothing is said below {INSTANCES} of each"
        ]
    return []


@dataclass(frozen=True)
class _Best:
    """The fastest configuration of each side: what a user would run there."""

    one: Group
    two: Group
    ratio: Ratio
    p: Optional[float]


def _judged(pairs: list[_Pair], means: dict[str, Ratio], bests: dict[str, _Best]) -> Family:
    """All questions of one comparison, corrected together."""
    family = Family()
    for pair in pairs:
        family.ask(pair.key, pair.ratio.judged if pair.known else None)
    for kind, table in (("mean", means), ("best", bests)):
        for app, one in table.items():
            family.ask((kind, app), one.judged if isinstance(one, Ratio) else one.p)
    return family


def compare(
    a: ResultSet,
    b: ResultSet,
    names: tuple[str, str] = ("A", "B"),
    same: Same = Same(),
    trust: Trust = Trust(),
) -> Comparison:
    refused: list[str] = []
    of = problems([a, b])
    first = _side(names[0], a, trust, same, of, refused)
    second = _side(names[1], b, trust, same, of, refused)
    sides = (first, second)
    pairs = _pairs(first, second, refused)
    configs = [{key for key, _ in side.groups} for side in sides]
    for where, only in ((names[0], configs[0] - configs[1]), (names[1], configs[1] - configs[0])):
        if only:
            plural = "s" if len(only) > 1 else ""
            refused.append(f"{len(only)} configuration{plural} only in {where}")
    means, bests = _means(pairs), _best_against_best(first, second)
    if _same_shape(first, second):
        means = {app: replace(mean, p=None) for app, mean in means.items()}
        bests = {app: replace(best, p=None) for app, best in bests.items()}
    family = _judged(pairs, means, bests)
    differences = [
        Difference(
            p.one.config.app,
            p.one.config.size,
            p.one.label,
            p.one.seconds or 0,
            p.two.seconds or 0,
            p.ratio,
            _verdict(p, family, sides),
        )
        for p in pairs
    ]
    summary = _summary(differences, means, bests, family, sides)
    return Comparison(differences, refused, [*_about(first, second, pairs), *summary])


def _means(pairs: list[_Pair]) -> dict[str, Ratio]:
    """Mean ratio of each problem over the configurations that both sides have; disturbed ones speak
    only where no others do, and then no verdict is drawn."""
    by_name: dict[str, list[_Pair]] = {}
    for pair in pairs:
        by_name.setdefault(pair.one.name, []).append(pair)
    means = {}
    for name, mine in by_name.items():
        known = [p for p in mine if p.known]
        mean = combine([p.ratio for p in known or mine])
        if not known or any(p.ratio.p is None for p in known):
            mean = replace(mean, p=None)
        elif mean.p is not None and known[0].ratio.instances > 1:
            mean = replace(mean, p=max(mean.p, _over_instances(known)))
        means[name] = mean
    return means


def _centres(groups: list[Group]) -> dict[str, float]:
    """Mean logarithm on each instance that ran all of these."""
    logs = [g.logs(seconds_of) for g in groups]
    common = set.intersection(*(set(of) for of in logs))
    return {i: fmean(fmean(of[i].values()) for of in logs) for i in common}


def _over_instances(pairs: list[_Pair]) -> float:
    """p of the mean by instances: all configurations ran on the same ones, and are no evidence of
    others. 1 where too few ran all of them."""
    one, two = _centres([p.one for p in pairs]), _centres([p.two for p in pairs])
    if one.keys() == two.keys() and len(one) > 1:
        found = paired([[two[i] - one[i]] for i in sorted(one)])
    else:
        found = between(*([[math.exp(v)] for v in side.values()] for side in (one, two)))
    return 1.0 if found.p is None else found.p


def _best_against_best(first: Side, second: Side) -> dict[str, _Best]:
    """Of each problem that both sides have."""
    found = {}
    problems_of = dict.fromkeys(problem for _, problem in first.groups)
    for problem in problems_of:
        ones, twos = (
            [g for (_, p), g in side.groups.items() if p == problem] for side in (first, second)
        )
        one, two = best_of(ones), best_of(twos)
        if one and two and not unlike(list(one.samples), list(two.samples)):
            pair = _Pair(one, two, _ratio(one, two))
            p = chosen_p(pair.ratio.judged, len(ones) * len(twos)) if pair.known else None
            found[one.name] = _Best(one, two, pair.ratio, p)
    return found


def _sure(family: Family, key: tuple[str, str], p: Optional[float]) -> str:
    if p is None:
        return "no verdict"
    return "significant" if family.holds(key) else "may be chance"


def _summary(
    differences: list[Difference],
    means: dict[str, Ratio],
    bests: dict[str, _Best],
    family: Family,
    sides: tuple[Side, Side],
) -> list[str]:
    lines, names = [], (sides[0].name, sides[1].name)
    for app, mean in means.items():
        mine = [d.verdict for d in differences if app.startswith(f"{d.app} {d.size}")]
        counts = ", ".join(f"{mine.count(v)} {v}" for v in dict.fromkeys(mine))
        lines.append(
            f"{app}: {_faster(mean, names)} on average over {len(mine)} configurations"
            f" ({_sure(family, ('mean', app), mean.p)}; {counts})"
        )
    for name, best in bests.items():
        lines.append(
            f"{name}, best against best: {names[0]} {best.one.label} {best.one.seconds:.4g} s,"
            f" {names[1]} {best.two.label} {best.two.seconds:.4g} s:"
            f" {_faster(best.ratio, names)} ({_sure(family, ('best', name), best.p)})"
        )
    if not differences:
        lines.append("no configuration is in both: nothing can be compared")
    return lines


def _faster(r: Ratio, names: tuple[str, str]) -> str:
    name, factor = (names[0], r.value) if r.value >= 1 else (names[1], 1 / r.value)
    if factor - 1 < SMALLEST:
        return "both are equally fast"
    return f"{name} is {factor:.3g}x faster"


def split_by_machine(results: ResultSet, machine: str) -> Optional[ResultSet]:
    samples = [s for s in results.samples if s.machine == machine]
    if not samples:
        return None
    return results.model_copy(
        update={"samples": samples, "machines": {machine: results.machines.get(machine, {})}}
    )


def as_dict(comparison: Comparison) -> dict[str, Any]:
    return {
        "differences": [{**d.__dict__, "ratio": d.ratio.__dict__} for d in comparison.differences],
        "summary": comparison.summary,
        "refused": comparison.refused,
    }


def as_text(comparison: Comparison) -> str:
    lines = []
    for d in comparison.differences:
        interval = (
            f" [{d.ratio.low:.3g}, {d.ratio.high:.3g}]"
            if d.ratio.low is not None and d.ratio.high is not None
            else ""
        )
        lines.append(
            f"{d.app} {d.size} {d.config}: {d.a_seconds:.4g} s and {d.b_seconds:.4g} s,"
            f" ratio {d.ratio.value:.3g}{interval}: {d.verdict}"
        )
    return "\n".join(lines + ["", *comparison.summary, *comparison.refused])
