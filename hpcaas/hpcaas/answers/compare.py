"""Two machines, or one before and after: what changed, and what of it is significant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Optional

from ..model import ResultSet
from ..stats import Family, Ratio, chosen_p, combine, ratio
from .groups import Group, Trust, best_of, groups


@dataclass(frozen=True)
class Difference:
    app: str
    size: str
    config: str
    a_seconds: float
    b_seconds: float
    ratio: Ratio  # time(B) / time(A): above 1, A is faster
    verdict: str  # A faster, B faster, cannot tell, one value each, not known


@dataclass
class Comparison:
    differences: list[Difference]
    refused: list[str]
    summary: list[str]


# A difference below this is called none even where many repeats make it significant.
SMALLEST = 0.01


def _comparable_key(group: Group, ignore_target: bool) -> str:
    """Configuration without what belongs to the machine: a native build and a build for the
    machine's own target mean the same choice."""
    config = group.config
    return config.model_copy(update={"target": None}).key() if ignore_target else config.key()


def _input_hashes(group: Group, results: ResultSet) -> set[str]:
    return {
        str(h)
        for s in group.samples
        if s.provenance and (h := results.provenance.get(s.provenance, {}).get("input_hash"))
    }


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
        return (self.one.config.key(), self.two.config.key())


def _pairs(
    first: dict[str, Group],
    second: dict[str, Group],
    sets: tuple[ResultSet, ResultSet],
    refused: list[str],
) -> list[_Pair]:
    """What may be compared: the same configuration on the same input."""
    pairs = []
    for key in first:
        if key not in second:
            continue
        one, two = first[key], second[key]
        ha, hb = _input_hashes(one, sets[0]), _input_hashes(two, sets[1])
        if ha and hb and ha.isdisjoint(hb):
            refused.append(
                f"{one.config.app} {one.label}: the inputs differ ({', '.join(sorted(ha))} and"
                f" {', '.join(sorted(hb))}); not compared"
            )
            continue
        pairs.append(_Pair(one, two, ratio(one.times, two.times)))
    return pairs


def _verdict(pair: _Pair, family: Family, names: tuple[str, str]) -> str:
    if not pair.known:
        return "not known"
    if pair.ratio.p is None:
        return "one value each"
    if not family.holds(pair.key) or abs(pair.ratio.value - 1) < SMALLEST:
        return "cannot tell"
    return f"{names[0] if pair.ratio.value > 1 else names[1]} faster"


def _usable(results: ResultSet, trust: Trust, ignore_target: bool, refused: list[str], name: str):
    """Groups by what they have in common with those of the other side."""
    found: dict[str, Group] = {}
    for g in groups(results, trust):
        if g.out:
            refused.append(f"{name}: {g.config.app} {g.label} left out: {g.doubt}")
        elif g.times:
            found[_comparable_key(g, ignore_target)] = g
    return found


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
        family.ask(pair.key, pair.ratio.p if pair.known else None)
    for kind, table in (("mean", means), ("best", bests)):
        for app, one in table.items():
            family.ask((kind, app), one.p)
    return family


def compare(
    a: ResultSet,
    b: ResultSet,
    names: tuple[str, str] = ("A", "B"),
    ignore_target: bool = False,
    trust: Trust = Trust(),
) -> Comparison:
    refused: list[str] = []
    first = _usable(a, trust, ignore_target, refused, names[0])
    second = _usable(b, trust, ignore_target, refused, names[1])
    pairs = _pairs(first, second, (a, b), refused)
    for where, only in ((names[0], first.keys() - second), (names[1], second.keys() - first)):
        if only:
            plural = "s" if len(only) > 1 else ""
            refused.append(f"{len(only)} configuration{plural} only in {where}")
    means = _means(pairs)
    bests = _best_against_best(list(first.values()), list(second.values()))
    family = _judged(pairs, means, bests)
    differences = [
        Difference(
            p.one.config.app,
            p.one.config.size,
            p.one.label,
            p.one.seconds or 0,
            p.two.seconds or 0,
            p.ratio,
            _verdict(p, family, names),
        )
        for p in pairs
    ]
    return Comparison(differences, refused, _summary(differences, means, bests, family, names))


def _means(pairs: list[_Pair]) -> dict[str, Ratio]:
    """Mean ratio of each application over the configurations that both sides have; disturbed ones
    speak only where no others do, and then no verdict is drawn."""
    by_app: dict[str, list[_Pair]] = {}
    for pair in pairs:
        by_app.setdefault(pair.one.config.app, []).append(pair)
    means = {}
    for app, mine in by_app.items():
        known = [p.ratio for p in mine if p.known]
        means[app] = combine(known) if known else replace(combine([p.ratio for p in mine]), p=None)
    return means


def _best_against_best(first: list[Group], second: list[Group]) -> dict[str, _Best]:
    found = {}
    for name in dict.fromkeys(g.name for g in first):
        ones, twos = ([g for g in side if g.name == name] for side in (first, second))
        one, two = best_of(ones), best_of(twos)
        if one and two:
            pair = _Pair(one, two, ratio(one.times, two.times))
            p = chosen_p(pair.ratio.p, len(ones) * len(twos)) if pair.known else None
            found[name] = _Best(one, two, pair.ratio, p)
    return found


def _sure(family: Family, key: tuple[str, str], p: Optional[float]) -> str:
    if p is None:
        return "no verdict: one value each, or not known on this machine"
    return "significant" if family.holds(key) else "may be chance"


def _summary(
    differences: list[Difference],
    means: dict[str, Ratio],
    bests: dict[str, _Best],
    family: Family,
    names: tuple[str, str],
) -> list[str]:
    lines = []
    for app, mean in means.items():
        mine = [d.verdict for d in differences if d.app == app]
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
