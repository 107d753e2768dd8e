"""Two machines, or one before and after: what changed, and what of it is significant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..model import ResultSet
from ..stats import Ratio, geometric_mean, holm, ratio
from .groups import Group, best_of, groups


@dataclass(frozen=True)
class Difference:
    app: str
    size: str
    config: str
    a_seconds: float
    b_seconds: float
    ratio: Ratio  # time(B) / time(A): above 1, A is faster
    verdict: str  # A faster, B faster, cannot tell, one value each


@dataclass
class Comparison:
    differences: list[Difference]
    refused: list[str]
    summary: list[str]


# A difference below this is called none even where many repeats make it significant.
SMALLEST = 0.01


def _comparable_key(group: Group, ignore_target: bool) -> str:
    """Configuration without what belongs to the machine: a native build and a build for the machine's own target mean the same choice."""
    config = group.config
    return config.model_copy(update={"target": None}).key() if ignore_target else config.key()


def _input_hashes(group: Group, results: ResultSet) -> set[str]:
    return {
        str(h)
        for s in group.samples
        if s.provenance and (h := results.provenance.get(s.provenance, {}).get("input_hash"))
    }


def compare(
    a: ResultSet, b: ResultSet, names: tuple[str, str] = ("A", "B"), ignore_target: bool = False
) -> Comparison:
    first = {_comparable_key(g, ignore_target): g for g in groups(a) if g.times}
    second = {_comparable_key(g, ignore_target): g for g in groups(b) if g.times}
    refused: list[str] = []
    rows: list[tuple[Group, Group, Ratio]] = []
    for key in first:
        if key not in second:
            continue
        one, two = first[key], second[key]
        ha, hb = _input_hashes(one, a), _input_hashes(two, b)
        if ha and hb and ha.isdisjoint(hb):
            refused.append(
                f"{one.config.app} {one.label}: the inputs differ ({', '.join(sorted(ha))} and {', '.join(sorted(hb))}); not compared"
            )
            continue
        rows.append((one, two, ratio(one.times, two.times)))
    for where, here, there in ((names[0], first, second), (names[1], second, first)):
        only = [k for k in here if k not in there]
        if only:
            refused.append(
                f"{len(only)} configuration{'s' if len(only) > 1 else ''} only in {where}"
            )
    judged = [i for i, (_, _, r) in enumerate(rows) if r.p is not None]
    kept = holm([rows[i][2].p or 0.0 for i in judged])
    significant = {i: k for i, k in zip(judged, kept)}
    differences = []
    for i, (one, two, r) in enumerate(rows):
        verdict = (
            "one value each"
            if i not in significant
            else "cannot tell"
            if not significant[i] or abs(r.value - 1) < SMALLEST
            else f"{names[0]} faster"
            if r.value > 1
            else f"{names[1]} faster"
        )
        differences.append(
            Difference(
                one.config.app,
                one.config.size,
                one.label,
                one.seconds or 0,
                two.seconds or 0,
                r,
                verdict,
            )
        )
    return Comparison(
        differences,
        refused,
        _summary(differences, names)
        + _best_against_best(list(first.values()), list(second.values()), names),
    )


def _best_against_best(
    first: list[Group], second: list[Group], names: tuple[str, str]
) -> list[str]:
    """The fastest configuration of each side: what a user would run on either machine, whatever its number of cores."""
    lines = []
    for app, size in dict.fromkeys((g.config.app, g.config.size) for g in first):
        one, two = (
            best_of([g for g in first if (g.config.app, g.config.size) == (app, size)]),
            best_of([g for g in second if (g.config.app, g.config.size) == (app, size)]),
        )
        if one and two:
            r = ratio(one.times, two.times)
            faster, factor = (names[0], r.value) if r.value >= 1 else (names[1], 1 / r.value)
            sure = {True: "significant", False: "may be chance", None: "one value each"}[
                r.significant
            ]
            lines.append(
                f"{app} {size}, best against best: {names[0]} {one.label} {one.seconds:.4g} s, {names[1]} {two.label} {two.seconds:.4g} s: {faster} is {factor:.3g}x faster ({sure})"
            )
    return lines


def _summary(differences: list[Difference], names: tuple[str, str]) -> list[str]:
    lines = []
    for app in dict.fromkeys(d.app for d in differences):
        mine = [d for d in differences if d.app == app]
        mean = geometric_mean([d.ratio.value for d in mine])
        counts = {
            v: sum(1 for d in mine if d.verdict == v)
            for v in (f"{names[0]} faster", f"{names[1]} faster", "cannot tell", "one value each")
        }
        faster, factor = (names[0], mean) if mean >= 1 else (names[1], 1 / mean)
        lines.append(
            f"{app}: {faster} is {factor:.3g}x faster on average over {len(mine)} configurations ("
            + ", ".join(f"{n} {v}" for v, n in counts.items() if n)
            + ")"
        )
    if not differences:
        lines.append("no configuration is in both: nothing can be compared")
    return lines


def split_by_machine(results: ResultSet, machine: str) -> Optional[ResultSet]:
    samples = [s for s in results.samples if s.machine == machine]
    if not samples:
        return None
    return results.model_copy(
        update={"samples": samples, "machines": {machine: results.machines.get(machine, {})}}
    )


def as_text(comparison: Comparison) -> str:
    lines = []
    for d in comparison.differences:
        interval = (
            f" [{d.ratio.low:.3g}, {d.ratio.high:.3g}]"
            if d.ratio.low is not None and d.ratio.high is not None
            else ""
        )
        lines.append(
            f"{d.app} {d.size} {d.config}: {d.a_seconds:.4g} s and {d.b_seconds:.4g} s, ratio {d.ratio.value:.3g}{interval}: {d.verdict}"
        )
    return "\n".join(lines + ["", *comparison.summary, *comparison.refused])
