"""The first screen: the answer, then the Pareto front as a picture."""

from __future__ import annotations

from html import escape

from ..answers.advise import Advice, answer_rows, headline
from ..answers.costs import Pricing
from ..answers.decide import LOT, MIX, MixOffer
from ..answers.groups import Group, per_app
from ..stats import pareto
from . import charts
from .html import figure, table

CLASSES = {"sure": "confirmed", "not": "untested", "one": "untested", "nothing": "untested"}


COST = f"cost of {LOT:,} runs (95 % interval)"
HOURS = f"hours of {LOT:,} runs"


def _cell(label: str, content: str, kind: str = "") -> str:
    """On a phone the table's head is gone and the label stands in the cell."""
    return f"<td class='{kind}' data-label='{label}'>{content}</td>" if content else ""


def _answer(advice: Advice) -> str:
    rows, notes = [], []
    for row in answer_rows(advice):
        notes += [f"<li>{escape(row['for'])}: {escape(note)}</li>" for note in row["notes"]]
        kind = CLASSES.get(row["sure"].split(":")[0].split(" ")[0], "")
        rows.append(
            [
                f"<th scope='row'>{escape(row['for'])}</th>",
                _cell("rent", f"<b>{escape(row['rent'])}</b>"),
                _cell("run it with", escape(row["run"])),
                _cell(COST, escape(row["cost"])),
                _cell(HOURS, escape(row["hours"])),
                _cell("second", escape(row["second"])),
                _cell("how sure", escape(row["sure"]), kind),
            ]
        )
    head = ["for", "rent", "run it with", COST, HOURS]
    found = table([*head, "second", "how sure"], rows, classes="answer")
    return found + (f"<ul class='notes'>{''.join(notes)}</ul>" if notes else "")


def _picture(some: list[Group], pricing: Pricing) -> str:
    priced = [(g, c) for g in some if g.wall and (c := pricing.cost(g))]
    if not priced:
        return ""
    points = [(g.wall or 0, c.amount) for g, c in priced]
    front = set(pareto(points))
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
    priced = [o for o in offers if o.amount is not None]
    if len(priced) < 2:
        return ""
    points = [(o.hours * 3600 / LOT, (o.amount or 0) / LOT) for o in priced]
    front = set(pareto(points))
    shown = [(*p, o.machine, i in front) for i, (p, o) in enumerate(zip(points, priced))]
    svg = charts.time_and_cost(shown, str(priced[0].currency), "Pareto front of the mix")
    return figure(svg, f"{MIX}: time against cost of one run on average, one point per machine.")


def first_screen(advice: Advice, all_groups: list[Group]) -> str:
    pictures = _mix_picture(advice.mix_offers) + "".join(
        _picture(some, advice.pricing) for some in per_app(all_groups)
    )
    if not pictures:
        pictures = (
            "<p>No Pareto front: no machine has a price."
            " <code>--price MACHINE=PROVIDER/SHAPE</code> adds one.</p>"
        )
    kind = "headline" if advice.decisions and advice.decisions[-1].first else "warn headline"
    prices = "".join(f"<li>{escape(r)}</li>" for r in advice.pricing.remarks())
    rows = _answer(advice) if advice.decisions else ""
    listed = f"<ul class='prices'>{prices}</ul>" if prices else ""
    return (
        f"<section id='answer'><h2>The answer</h2><p class='{kind}'>{escape(headline(advice))}"
        f"</p>{rows}{listed}"
        f"<h3>Time against cost</h3><div class='pictures'>{pictures}</div></section>"
    )
