"""What to choose: per application and overall, for time, for cost, for a deadline, each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from ..model import ResultSet
from ..money import cheapest_by
from ..stats import fit_scaling, geometric_mean
from .costs import Pricing
from .groups import Group, apps_of, best_of, effects, groups, indistinct_from_best, of_app, varying
from .lessons import Lesson, judge_lessons


@dataclass
class Recommendation:
    goal: str  # time, cost, deadline
    app: str
    size: str
    machine: str
    config: str
    seconds: float
    cost: Optional[float]
    currency: Optional[str]
    evidence: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)  # e.g. estimate, one sample only


@dataclass
class Advice:
    recommendations: list[Recommendation]
    overall: list[str]
    per_choice: list[str]  # best value of every axis per application
    lessons: list[Lesson]
    warnings: list[str]


def _labels(group: Group, pricing: Pricing) -> list[str]:
    labels = []
    if len(group.times) == 1:
        labels.append("one sample: no spread known")
    if any("noisy" in f for s in group.samples for f in s.flags):
        labels.append("measured on a noisy machine")
    if group.machine in pricing.estimates:
        labels.append("price is an estimate per core")
    return labels


def _recommend(
    goal: str, group: Group, some: list[Group], pricing: Pricing, evidence: list[str]
) -> Recommendation:
    spent = pricing.cost(group)
    summary = group.summary
    assert summary
    text = [
        f"median {summary.median:.4g} s of {summary.n}"
        + (
            f", 95 % interval {summary.low:.4g} to {summary.high:.4g}"
            if summary.low is not None and summary.high is not None
            else ""
        )
        + (f" [{group.sources}]" if group.sources else "")
    ]
    twins = (
        [g for g in indistinct_from_best(some) if g.machine == group.machine]
        if goal == "time"
        else []
    )
    if twins:
        text.append(
            f"{len(twins)} other configuration{'s are' if len(twins) > 1 else ' is'} not significantly slower: {'; '.join(g.label for g in twins[:3])}"
            + ("; ..." if len(twins) > 3 else "")
        )
    return Recommendation(
        goal,
        group.config.app,
        group.config.size,
        group.machine,
        group.label,
        summary.median,
        spent.amount if spent else None,
        spent.currency if spent else None,
        text + evidence,
        _labels(group, pricing),
    )


def _choices(some: list[Group]) -> list[str]:
    lines = []
    for axis in varying(some):
        if axis in ("nodes", "processor"):
            continue
        found = effects(some, axis)
        if found:
            others = ", ".join(
                f"{e.value} {e.ratio.value:.3g}x"
                + (
                    ""
                    if e.ratio.significant is None
                    else ""
                    if e.ratio.significant
                    else " (not significant)"
                )
                for e in found
            )
            single = max(e.pairs for e in found) == 1 and all(
                e.ratio.significant is None for e in found
            )
            lines.append(
                f"{found[0].app} {found[0].size}: best {axis} is '{found[0].best}' (time of the others: {others})"
                + (" [one value each]" if single else "")
            )
    return lines


def _deadline(
    some: list[Group], pricing: Pricing, deadline_s: float
) -> tuple[Optional[Recommendation], list[str]]:
    """Cheapest measured configuration within the deadline; beyond what was measured only a labelled estimate from the scaling fit."""
    priced = [(g, c) for g in some if g.seconds and (c := pricing.cost(g, exact=False))]
    found = cheapest_by(deadline_s, [(g.seconds or 0, c.amount) for g, c in priced])
    if found:
        group = priced[found.index][0]
        return _recommend(
            "deadline",
            group,
            some,
            pricing,
            [
                f"cheapest of {len(priced)} that could be priced, within {deadline_s:g} s, billing steps included"
            ],
        ), []
    notes = []
    for machine in dict.fromkeys(g.machine for g in some):
        mine = [g for g in some if g.machine == machine and g.seconds]
        fit = fit_scaling([g.workers for g in mine], [g.seconds or 0 for g in mine])
        if fit:
            p = max(g.workers for g in mine)
            while p < 1e6 and fit.at(p) > deadline_s:
                p *= 2
            if fit.at(p) <= deadline_s:
                notes.append(
                    f"{mine[0].config.app}: ESTIMATE from the scaling fit (residual {fit.residual:.0%}): {machine} would reach {deadline_s:g} s at about {p} workers; not measured"
                )
                continue
            notes.append(
                f"{mine[0].config.app}: the scaling fit never reaches {deadline_s:g} s on {machine}"
            )
    return None, notes or [
        f"{some[0].config.app}: nothing measured is within {deadline_s:g} s"
        + ("" if priced else ", and no price is known")
    ]


def advise(results: ResultSet, pricing: Pricing, deadline_s: Optional[float] = None) -> Advice:
    all_groups = groups(results)
    recommendations: list[Recommendation] = []
    per_choice: list[str] = []
    warnings: list[str] = []
    scores: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    for app, size in apps_of(all_groups):
        some = of_app(all_groups, app, size)
        best = best_of(some)
        for group in some:
            if group.failure:
                warnings.append(
                    f"{app} {size} {group.label} on {group.machine}: {group.failure.status.value}: {group.failure.diagnosis}"
                )
        if best is None:
            continue
        best_seconds = best.seconds or 0.0
        recommendations.append(_recommend("time", best, some, pricing, []))
        priced = [(g, c.amount) for g in some if g.seconds and (c := pricing.cost(g))]
        if priced:
            cheapest, amount = min(priced, key=lambda p: p[1])
            recommendations.append(
                _recommend(
                    "cost",
                    cheapest,
                    some,
                    pricing,
                    [
                        f"performance per dollar of the fastest is {amount / a:.2f} of this one's"
                        for g, a in priced
                        if g is best and g is not cheapest
                    ],
                )
            )
        if deadline_s is not None:
            found, notes = _deadline(some, pricing, deadline_s)
            recommendations += [found] if found else []
            warnings += notes
        per_choice += _choices(some)
        for machine in dict.fromkeys(g.machine for g in some):
            mine = best_of([g for g in some if g.machine == machine])
            if mine and mine.seconds:
                scores.setdefault(machine, []).append(mine.seconds / best_seconds)
                if priced and (c := pricing.cost(mine)):
                    spent.setdefault(machine, []).append(c.amount / min(a for _, a in priced))
    count = len({(g.config.app, g.config.size) for g in all_groups if g.times})
    overall = []
    for words, table in (("time", scores), ("cost", spent)):
        complete = {m: geometric_mean(v) for m, v in table.items() if len(v) == count}
        if len(complete) > 1:
            ranked = sorted(complete.items(), key=lambda p: p[1])
            overall.append(
                f"overall, for {words}: {ranked[0][0]} (geometric mean over {count} applications; the others: {', '.join(f'{m} {v / ranked[0][1]:.3g}x' for m, v in ranked[1:])})"
            )
        elif table and not complete:
            overall.append(
                f"overall, for {words}: no machine ran all {count} applications; no overall winner is named"
            )
        elif complete:
            overall.append(
                f"overall, for {words}: one machine only ({next(iter(complete))}); merge results of others to compare"
            )
    return Advice(
        recommendations,
        overall,
        per_choice,
        judge_lessons(all_groups, pricing),
        warnings + results.notes,
    )


def as_dict(advice: Advice) -> dict[str, Any]:
    return {
        "recommendations": [dict(r.__dict__) for r in advice.recommendations],
        "overall": advice.overall,
        "per_choice": advice.per_choice,
        "lessons": [dict(v.__dict__) for v in advice.lessons],
        "warnings": advice.warnings,
    }


def as_text(advice: Advice) -> str:
    lines = ["RECOMMENDATIONS"]
    for r in advice.recommendations:
        money = f", {r.cost:.4g} {r.currency} a run" if r.cost is not None else ""
        lines.append(
            f"  {r.app} {r.size}, for {r.goal}: {r.machine} {r.config}: {r.seconds:.4g} s{money}"
            + (f"  [{'; '.join(r.labels)}]" if r.labels else "")
        )
        lines += [f"      {e}" for e in r.evidence]
    lines += (
        [f"  {o}" for o in advice.overall]
        + ["", "CHOICES"]
        + [f"  {c}" for c in advice.per_choice]
        + ["", "THE PAPER'S EIGHT LESSONS"]
    )
    for lesson in advice.lessons:
        lines += [
            f"  {lesson.number}. {lesson.text}: {lesson.verdict.upper()}",
            f"      {lesson.evidence}",
        ]
    lines += ["", "TO KNOW"] + [f"  {w}" for w in advice.warnings]
    return "\n".join(lines)
