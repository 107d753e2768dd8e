"""The first screen: the answer, the matrix of machines and applications with its controls, then the
Pareto front as a picture where there is one to see."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any, Optional

from ..answers.advise import Advice, answer_rows, headline
from ..answers.costs import Pricing
from ..answers.deadline import Deadline
from ..answers.decide import LOT, MIX, Decision, MixOffer, parse_mix, unknown
from ..answers.groups import Group, Groups
from ..answers.spot import Choices, money
from ..stats import pareto, quantile
from . import charts
from .html import figure, table

COST = f"cost of {LOT:,} runs (95 % interval)"
HOURS = f"hours of {LOT:,} runs"


def kind(sure: str) -> str:
    """The colour of an answer: green only for what is more than chance, grey for not known."""
    if sure.startswith("sure"):
        return "sure"
    if sure.startswith("not known"):
        return "unknown"
    return "guess"


def _answer(rows_of: list[dict[str, Any]]) -> str:
    rows, notes = [], []
    for row in rows_of:
        notes += [f"<li>{escape(row['for'])}: {escape(note)}</li>" for note in row["notes"]]
        rows.append(
            [
                f"<th scope='row'>{escape(row['for'])}</th>",
                f"<td><b>{escape(row['rent'])}</b></td>",
                escape(row["run"]),
                escape(row["cost"]),
                escape(row["hours"]),
                escape(row["second"]),
                f"<td class='{kind(row['sure'])}'>{escape(row['sure'])}</td>",
            ]
        )
    head = ["for", "rent", "run it with", COST, HOURS, "second", "how sure"]
    found = table(head, rows, classes="answer")
    return found + (f"<ul class='notes'>{''.join(notes)}</ul>" if notes else "")


def _late_s(group: Group, pricing: Pricing, share: float) -> float:
    """By when this share of the runs is done, as measured, interruptions counted."""
    run = pricing.run(group.machine, quantile(group.walls, share), group.config.nodes)
    return quantile(run.drawn().tolist(), share) if run.rate else run.seconds


def _offer(group: Group, pricing: Pricing, share: float) -> dict[str, Any]:
    """What the page must know of one configuration: its cost is fixed + node_hours x price."""
    wall, price = group.wall or 0.0, pricing.node_hour(group.machine)
    spent = pricing.cost(group)
    billed = spent.billed_s if spent else wall
    node_hours = billed * LOT / 3600.0 * group.config.nodes
    summary = group.wall_summary
    return {
        "machine": group.machine,
        "app": group.name,
        "config": group.label,
        "hours": pricing.taken_s(group) * LOT / 3600.0,
        "late_s": _late_s(group, pricing, share),
        "node_hours": node_hours,
        "fixed": spent.amount * LOT - node_hours * price if spent and price is not None else 0.0,
        "spread": summary.half_width if summary else None,
        "known": not unknown(group),
        "why": unknown(group),
    }


def live(advice: Advice, all_groups: Groups, mix: Optional[str], deadline: Optional[Deadline]):
    """The data behind the matrix and its controls."""
    pricing, share = advice.pricing, (deadline or Deadline).share
    names = list(all_groups.per_app)
    sure = {d.app: _verdict(d, advice) for d in advice.decisions if d.first}
    last = advice.decisions[-1] if advice.decisions else Decision("", "time")
    return {
        "by": last.by,
        "currency": pricing.currency or "",
        "shares": {**dict.fromkeys(names, 0.0), **parse_mix(mix, names)},
        "sure": sure,
        "mix": MIX if MIX in sure else next(iter(names), ""),
        "headline": headline(advice),
        "kind": sure.get(last.app, {}).get("kind", "unknown"),
        "machines": [{"name": m, "price": pricing.node_hour(m)} for m in all_groups.by_machine],
        "offers": [_offer(g, pricing, share) for g in all_groups if g.wall],
    }


def _verdict(decision: Decision, advice: Advice) -> dict[str, str]:
    assert decision.first
    return {"machine": decision.first.machine, "kind": kind(advice.sure[decision.key])}


def _controls(known: dict[str, Any], deadline: Optional[Deadline]) -> str:
    """Hidden until the script runs: without it they would do nothing."""
    apps = "".join(
        f"<label><input type='checkbox' data-app='{escape(a, quote=True)}'"
        f"{' checked' if share else ''}> {escape(a)}</label> "
        for a, share in known["shares"].items()
    )
    prices = "".join(
        f"<label>{escape(m['name'])} <input type='number' min='0' step='any'"
        f" data-machine='{escape(m['name'], quote=True)}'"
        f" value='{'' if m['price'] is None else format(m['price'], '.12g')}'></label> "
        for m in known["machines"]
    )
    limit = f"{deadline.seconds:g}" if deadline else ""
    return (
        "<form id='controls' hidden><fieldset><legend>Applications</legend>"
        f"{apps}</fieldset><fieldset><legend>Limits</legend>"
        f"<label>budget for {LOT:,} runs <input id='budget' type='number' min='0' step='any'>"
        f"</label> <label>deadline of a run, s <input id='deadline' type='number' min='0'"
        f" step='any' value='{limit}'></label></fieldset><fieldset>"
        f"<legend>What if a node-hour cost, in {escape(known['currency'] or 'any currency')}"
        f"</legend>{prices}</fieldset><button type='reset'>undo my changes"
        " and show the measured answer</button></form>"
    )


def _matrix(known: dict[str, Any]) -> str:
    what = f"{known['currency']} for" if known["by"] == "cost" else "hours of"
    return (
        f"<p class='caption'>Machine x application: {escape(what)} {LOT:,} runs, best"
        " configuration of each. Green: best, more than chance; yellow: best as measured, may be"
        " chance; grey: not known.</p><div class='wide'><table id='matrix' class='matrix'>"
        "<thead></thead><tbody></tbody></table></div><noscript>The matrix and its controls need"
        " JavaScript; the same numbers stand in the tables below.</noscript>"
    )


def script(known: dict[str, Any]) -> str:
    """Data and code, in the page itself. No text of the data can end the element."""
    text = json.dumps(known, allow_nan=False).replace("<", "\\u003c")
    code = (Path(__file__).parent / "page.js").read_text()
    return f"<script type='application/json' id='data'>{text}</script><script>{code}</script>"


def _worth_a_picture(places: set[Any], points: list[tuple[float, float]], front: set[int]) -> bool:
    """At one place cost is time by a factor: a scatter of that says what the table says. So do
    points that lie in one spot."""
    apart = len(front) > 1 or len({(round(t, 9), round(c, 9)) for t, c in points}) > 2
    return len(places) > 1 and apart


def _picture(some: list[Group], pricing: Pricing) -> str:
    known = [g for g in some if not unknown(g)]
    priced = [(g, c) for g in known or some if g.wall and (c := pricing.cost(g))]
    points = [(g.wall or 0, c.amount) for g, c in priced]
    front = set(pareto(points))
    if not _worth_a_picture({(g.machine, g.config.nodes) for g, _ in priced}, points, front):
        return ""
    shown = [
        (*point, g.machine, i in front) for i, (point, (g, _)) in enumerate(zip(points, priced))
    ]
    svg = charts.time_and_cost(shown, priced[0][1].currency, f"Pareto front of {some[0].name}")
    text = (
        f"{escape(some[0].name)}: time against cost of one run; outlined: nothing is both faster"
        " and cheaper."
    )
    return figure(svg, text)


def _mix_picture(offers: list[MixOffer]) -> str:
    known = [o for o in offers if not any(unknown(part.group) for part, _ in o.parts)]
    priced = [o for o in known or offers if o.amount is not None]
    points = [(o.hours * 3600 / LOT, (o.amount or 0) / LOT) for o in priced]
    front = set(pareto(points))
    if not _worth_a_picture({o.machine for o in priced}, points, front):
        return ""
    shown = [(*p, o.machine, i in front) for i, (p, o) in enumerate(zip(points, priced))]
    svg = charts.time_and_cost(shown, str(priced[0].currency), "Pareto front of the mix")
    return figure(svg, f"{MIX}: time against cost of one run on average, one point per machine.")


def _spot(found: list[Choices]) -> str:
    """On demand, spot and both, side by side."""
    text = ""
    for one in found:
        rows = []
        for s in one.strategies:
            due = [] if s.in_time is None else [f"{s.in_time:.0%}"]
            rows.append(
                [
                    f"<th scope='row'>{escape(s.name)}</th>",
                    f"<b>{money(s.amount)} {escape(s.currency)}</b>",
                    f"{s.low:.4g} to {s.high:.4g}",
                    f"{s.seconds:,.4g} s",
                    f"{s.late_s:,.4g} s",
                    *due,
                ]
            )
        head = ["how to rent", f"expected cost of {LOT:,} runs", "of one run, nine of ten times"]
        head += ["a run takes, expected", "nine of ten are done in"]
        head += ["in time"] if one.strategies[0].in_time is not None else []
        caption = (
            f"{one.name} on {one.place}, each node taken away {one.per_hour:g} times an hour"
            f" ({one.source}): {one.verdict}."
        )
        text += table(head, rows, escape(caption), "answer")
    return f"<h3>On demand, spot, or both</h3>{text}" if text else ""


def first_screen(
    advice: Advice, all_groups: Groups, known: dict[str, Any], deadline: Optional[Deadline]
) -> str:
    pictures = _mix_picture(advice.mix_offers) + "".join(
        _picture(some, advice.pricing) for some in all_groups.per_app.values()
    )
    prices = "".join(f"<li>{escape(r)}</li>" for r in advice.pricing.remarks())
    live_part = _controls(known, deadline) + _matrix(known) if advice.decisions else ""
    rows = _answer(answer_rows(advice)) if advice.decisions else ""
    if advice.per_machine:
        alone = _answer(answer_rows(advice, machines=True))
        rows += f"<details><summary>Each machine alone</summary>{alone}</details>"
    listed = f"<ul class='prices'>{prices}</ul>" if prices else (
        "<p>No machine has a price: <code>--price MACHINE=PROVIDER/SHAPE</code> adds one, or type"
        " one above.</p>"
    )  # fmt: skip
    about = f"<p id='about' class='about'>{escape(advice.about)}</p>" if advice.about else ""
    shown = f"<h3>Time against cost</h3><div class='pictures'>{pictures}</div>" if pictures else ""
    return (
        f"<section id='answer'><h2>The answer</h2><p id='headline' class='headline"
        f" {known['kind']}'>{escape(known['headline'])}</p>{about}{live_part}{rows}"
        f"{_spot(advice.spot)}{listed}{shown}"
        "</section>"
    )
