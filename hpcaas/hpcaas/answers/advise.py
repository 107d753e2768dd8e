"""What to choose: first the answer (what to rent), then per application for time, for cost and for
a deadline, each with its evidence, then the lessons."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

from ..model import ResultSet
from ..stats import DOUBT, FARTHEST, fit_scaling, predict_time, too_far
from .costs import Pricing
from .deadline import Deadline
from .decide import (
    MIX,
    SHOWN,
    AnyOffer,
    Decision,
    MixOffer,
    Offer,
    decide,
    gap,
    per_machine,
    pick,
    value,
)
from .drift import drifts
from .effects import twins
from .evidence import Evidence
from .groups import Group, Groups, Trust, by_machine
from .instances import about
from .lessons import Lesson, judge_lessons
from .spot import Choices, choices


# No time is taken for truer than this, relative, where a curve is drawn through it.
LEAST_DOUBT = 0.02


@dataclass
class Recommendation:
    goal: str  # time, cost, deadline
    app: str
    size: str
    machine: str
    config: str
    seconds: float  # of a whole run, start-up included: what is billed
    cost: Optional[float]  # of one run
    currency: Optional[str]
    evidence: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)  # e.g. estimate, one sample only


@dataclass
class Advice:
    decisions: list[Decision]
    per_machine: list[Decision]
    mix_offers: list[MixOffer]
    sure: dict[tuple[str, str, str], str]  # key of a decision -> how sure its first is
    predictions: list[str]  # of numbers of nodes that were not measured
    recommendations: list[Recommendation]
    per_choice: list[str]  # best value of every axis per application
    lessons: list[Lesson]
    warnings: list[str]
    evidence: Evidence
    pricing: Pricing
    spot: list[Choices]  # on demand, spot, and both, of what comes first

    @property
    def about(self) -> str:
        """In one line, what the answer speaks of beyond the machines that were measured."""
        return self.decisions[-1].about if self.decisions else ""


def _labels(group: Group, pricing: Pricing) -> list[str]:
    labels = []
    if len(group.walls) == 1:
        labels.append("one sample: no spread known")
    if not group.known and not group.published:
        labels.append("not known on this machine: all samples disturbed")
    elif any("noisy" in f for s in group.good for f in s.flags):
        labels.append("measured on a noisy machine")
    if group.machine in pricing.estimates:
        labels.append("price is an estimate per core")
    if group.doubt:
        labels.append(f"accepted although: {group.doubt}")
    return labels


def _twins(first: Offer, others: list[Offer], pricing: Pricing, by: str) -> list[str]:
    against = [gap(first.group, o.group, pricing, by) for o in others]
    alike = twins(first.group, [o.group for o in others], against)
    if not alike:
        return []
    some = "; ".join(f"{g.machine} {g.label}" for g in alike[:3])
    return [
        f"{len(alike)} other configuration{'s are' if len(alike) > 1 else ' is'} not significantly"
        f" {'dearer' if by == 'cost' else 'slower'}: {some}{'; ...' if len(alike) > 3 else ''}"
    ]


def _recommend(
    goal: str, offers: list[Offer], pricing: Pricing, by: str, evidence: list[str]
) -> Recommendation:
    """The first of these offers, with those that may be as good."""
    first = offers[0]
    group, summary = first.group, first.group.wall_summary
    assert summary
    text = f"median {summary.median:.4g} s of {summary.n} whole runs"
    if summary.low is not None and summary.high is not None:
        text += f", 95 % interval {summary.low:.4g} to {summary.high:.4g}"
    text += f" [{group.sources}]" if group.sources else ""
    spent = pricing.cost(group)
    return Recommendation(
        goal,
        group.config.app,
        group.config.size,
        group.machine,
        group.label,
        summary.median,
        spent.amount if spent else None,
        spent.currency if spent else None,
        [text, *_twins(first, offers[1:], pricing, by), *evidence],
        _labels(group, pricing),
    )


def _reach(mine: list[Group], deadline_s: float) -> str:
    """At how many workers the scaling fit of one machine reaches a deadline; empty without a
    fit."""
    fit = fit_scaling([g.workers for g in mine], [g.wall or 0 for g in mine])
    if not fit:
        return ""
    sizes = [g.workers for g in mine]
    app, machine, p = mine[0].config.app, mine[0].machine, max(sizes)
    while not too_far(sizes, p) and fit.at(p) > deadline_s:
        p *= 2
    if too_far(sizes, p):
        return (
            f"{app}: the scaling fit does not reach {deadline_s:g} s on {machine} within"
            f" {FARTHEST:g} times the {max(sizes)} workers measured; further it says nothing"
        )
    return (
        f"{app}: ESTIMATE from the scaling fit (residual {fit.residual:.0%}): {machine} would"
        f" reach {deadline_s:g} s at about {p} workers; not measured"
    )


def _estimates(some: list[Group], deadline_s: float, priced: bool) -> list[str]:
    """Beyond what was measured only labelled estimates from the scaling fit."""
    ran = by_machine(g for g in some if g.wall)
    if any(g.wall and g.wall <= deadline_s for g in some):
        return []  # interruptions or slow runs cost the deadline, and more workers are no answer
    return [note for mine in ran.values() if (note := _reach(mine, deadline_s))] or [
        f"{some[0].config.app}: nothing measured is within {deadline_s:g} s"
        + ("" if priced else ", and no price is known")
    ]


def _prediction(best: dict[int, Group], nodes: int) -> str:
    """`best`: number of nodes -> the best configuration there."""
    measured = {n: g.wall or 0.0 for n, g in best.items()}
    if nodes in measured:
        return f"measured, {measured[nodes]:.4g} s"
    if too_far(list(measured), nodes):
        return (
            f"no estimate: {min(measured)} to {max(measured)} nodes were measured, and beyond"
            f" {FARTHEST:g} times that no curve is believed; measure nearer"
        )
    widths = [g.wall_summary.half_width for g in best.values() if g.wall_summary]
    doubt = max([w for w in widths if w is not None], default=DOUBT)
    found = predict_time(list(measured), list(measured.values()), nodes, max(doubt, LEAST_DOUBT))
    if found is None:
        return f"no estimate: {len(measured)} numbers of nodes were measured, four are needed"
    return (
        f"ESTIMATE {found.value:.4g} s, 95 % interval {found.low:.4g} to {found.high:.4g}, from"
        f" {len(measured)} numbers of nodes, whatever the form of the curve"
    )


def predictions(all_groups: Groups, wanted: Sequence[int]) -> list[str]:
    """Times on numbers of nodes that were not measured, with an interval, or why there is none."""
    lines = []
    for some in all_groups.per_app.values() if wanted else []:
        for machine, mine in by_machine(g for g in some if g.wall).items():
            best: dict[int, Group] = {}
            for g in sorted(mine, key=lambda g: g.wall or math.inf):
                best.setdefault(g.config.nodes, g)
            for nodes in wanted:
                where = f"{some[0].name} on {nodes} nodes of {machine}"
                lines.append(f"{where}: {_prediction(best, nodes)}")
    return lines


def _recommendations(
    some: list[Group], pricing: Pricing, deadline: Optional[Deadline], warnings: list[str]
) -> list[Recommendation]:
    """The same offers and the same formula as the first screen's."""
    fast = pick(some, pricing, None, "time")
    if not fast:
        return []
    found = [_recommend("time", fast, pricing, "time", [])]
    cheap = pick(some, pricing, None, "cost")
    if cheap:
        words = []
        if cheap[0].group is not fast[0].group and fast[0].amount and cheap[0].amount:
            share = cheap[0].amount / fast[0].amount
            words = [f"performance per dollar of the fastest is {share:.2f} of this one's"]
        found.append(_recommend("cost", cheap, pricing, "cost", words))
    if deadline is None:
        return found
    due = pick(some, pricing, deadline, "cost")
    if due:
        words = [f"cheapest of {len(due)} that are done within {deadline} and have a price"]
        if due[0].due:
            words += due[0].due.words(deadline)
        found.append(_recommend("deadline", due, pricing, "cost", words))
    elif not pick(some, pricing, deadline, "time"):
        warnings += _estimates(some, deadline.seconds, bool(cheap))
    return found


def _trouble(some: list[Group]) -> list[str]:
    return [
        f"{g.name} {g.label} on {g.machine}: {g.doubt or g.failure.status.value}:"
        f" {next((s.diagnosis for s in g.samples if s.diagnosis), '')}"
        for g in some
        if g.doubt or g.failure
    ]


def advise(
    results: ResultSet,
    pricing: Pricing,
    deadline: Optional[Deadline] = None,
    mix: Optional[str] = None,
    trust: Trust = Trust(),
    predict: Sequence[int] = (),
) -> Advice:
    all_groups = Groups(results, trust, pricing.places or None)
    decisions, mix_offers = decide(all_groups, pricing, deadline, mix)
    machines = per_machine(all_groups, pricing, deadline)
    for one in decisions:
        one.about = about(one, all_groups, pricing)
    evidence = Evidence(all_groups, pricing, [*decisions, *machines])
    recommendations: list[Recommendation] = []
    warnings: list[str] = []
    for some in all_groups.per_app.values():
        warnings += _trouble(some)
        recommendations += _recommendations(some, pricing, deadline, warnings)
    return Advice(
        decisions,
        machines,
        mix_offers,
        {d.key: d.sure(evidence.family.holds(d.key)) for d in (*decisions, *machines)},
        predictions(all_groups, predict),
        recommendations,
        evidence.best_values(),
        judge_lessons(evidence),
        warnings + drifts(all_groups) + results.notes,
        evidence,
        pricing,
        choices(decisions, pricing, deadline),
    )


# The first screen, as words. The page and the terminal show the same.


def amount(one: AnyOffer) -> str:
    """Cost of 1,000 runs with its interval."""
    if one.amount is None:
        return "no price"
    text = f"{one.amount:,.4g} {one.currency}"
    if one.interval:
        text += f" ({one.interval[0]:,.4g} to {one.interval[1]:,.4g})"
    return text + (", estimate per core" if one.estimate else "")


def place(one: AnyOffer) -> str:
    """What would be rented: shape, provider, region, system and term."""
    if one.row is None:
        return one.machine
    r = one.row
    name = f"{r.shape} of {r.provider}, {r.where}, {r.operating_system}, {r.term.value}"
    if one.estimate:
        return f"{one.machine} (priced like {name})"
    known = one.machine.partition("@")[0] == r.name
    return name if known else f"{name} ({one.machine})"


def settings(one: AnyOffer) -> list[tuple[str, str]]:
    """How to run it there; of a mix, each application in a few words."""
    if isinstance(one, MixOffer):
        return [(o.group.config.app, o.group.label) for o, _ in one.parts]
    found = [(name, str(read(one.group) or "")) for name, read in SHOWN]
    return [(name, text) for name, text in found if text]


def behind(decision: Decision) -> str:
    """The second, and by how much."""
    if decision.second is None or decision.first is None:
        return "-"
    by = decision.by
    more = value(decision.second, by) / value(decision.first, by) - 1.0
    return f"{decision.second.label}: {more:.1%} {'dearer' if by == 'cost' else 'slower'}"


def answer_rows(advice: Advice, machines: bool = False) -> list[dict[str, Any]]:
    """One row per decision: what stands on the first screen. `machines`: for each one alone."""
    rows = []
    for d in advice.per_machine if machines else advice.decisions:
        row: dict[str, Any] = {
            "for": f"{d.machine}: {d.app}" if d.machine else d.app,
            "rent": "no answer",
            "run": "",
            "cost": "",
            "hours": "",
        }
        if d.first:
            run = ", ".join(f"{name} {text}" for name, text in settings(d.first))
            row.update(rent=place(d.first), run=run, cost=amount(d.first))
            row["hours"] = f"{d.first.hours:,.4g}"
        row.update(second=behind(d), sure=advice.sure[d.key], notes=d.notes, about=d.about)
        rows.append(row)
    return rows


def headline(advice: Advice) -> str:
    """The whole answer in one sentence: for the mix where there are several applications."""
    last = advice.decisions[-1] if advice.decisions else None
    if last is None and advice.evidence.groups.trust.by_cpu:
        return "No answer what to rent: these are CPU seconds, which nobody waits or pays for."
    if last is None or last.first is None:
        if last and last.app == MIX:
            return "No one machine has an offer for all applications: each has its own answer."
        return f"No answer: {'; '.join(last.notes) if last else 'no runs'}."
    what = "the mix" if last.app == MIX else last.app
    cost = f"{amount(last.first)} and " if last.first.amount is not None else ""
    return (
        f"For {what}: {place(last.first)}, {cost}{last.first.hours:,.4g} hours for 1,000 runs;"
        f" {advice.sure[last.key]}."
    )


def as_dict(advice: Advice) -> dict[str, Any]:
    return {
        "answer": answer_rows(advice),
        "per_machine": answer_rows(advice, machines=True),
        "about": advice.about,
        "spot": [one.as_dict() for one in advice.spot],
        "predictions": advice.predictions,
        "recommendations": [dict(r.__dict__) for r in advice.recommendations],
        "per_choice": advice.per_choice,
        "lessons": [dict(v.__dict__) for v in advice.lessons],
        "prices": advice.pricing.remarks(),
        "warnings": advice.warnings,
    }


def _answer_text(advice: Advice) -> list[str]:
    lines = ["ANSWER (costs and hours of 1,000 runs)", f"  {headline(advice)}"]
    lines += [f"  {advice.about}"] if advice.about else []
    rows = answer_rows(advice)
    if advice.per_machine:
        rows += [{"for": "EACH MACHINE ALONE"}, *answer_rows(advice, machines=True)]
    for row in rows:
        if "rent" not in row:
            lines.append(f"  {row['for']}")
            continue
        lines.append(f"  {row['for']}: {row['rent']}")
        if row["run"]:
            lines.append(f"      run it with: {row['run']}")
            lines.append(f"      {row['cost']}, {row['hours']} hours")
            lines.append(f"      second: {row['second']}; {row['sure']}")
        lines += [f"      {note}" for note in row["notes"]]
    for one in advice.spot:
        lines += [f"  {line}" for line in one.lines()]
    lines += [f"  {r}" for r in advice.pricing.remarks()]
    if not advice.pricing.used:
        lines.append("  no prices: --price MACHINE=PROVIDER/SHAPE turns hours into money")
    return lines


def as_text(advice: Advice) -> str:
    lines = [*_answer_text(advice), "", "EVIDENCE"]
    for r in advice.recommendations:
        money = f", {r.cost:.4g} {r.currency} a run" if r.cost is not None else ""
        lines.append(
            f"  {r.app} {r.size}, for {r.goal}: {r.machine} {r.config}:"
            f" {r.seconds:.4g} s{money}" + (f"  [{'; '.join(r.labels)}]" if r.labels else "")
        )
        lines += [f"      {e}" for e in r.evidence]
    if advice.predictions:
        lines += ["", "PREDICTED, NOT MEASURED", *(f"  {p}" for p in advice.predictions)]
    lines += ["", "CHOICES", *(f"  {c}" for c in advice.per_choice)]
    lines += ["", "THE PAPER'S EIGHT LESSONS"]
    for lesson in advice.lessons:
        lines.append(f"  {lesson.number}. {lesson.text}: {lesson.verdict.upper()}")
        lines.append(f"      {lesson.evidence}")
    lines += ["", "TO KNOW", *(f"  {w}" for w in advice.warnings)]
    return "\n".join(lines)
