"""A comparison as a page of its own: one file, to share."""

from __future__ import annotations

from html import escape

from .. import __version__
from ..answers.compare import Comparison
from . import charts
from .html import document, figure, table


def page(found: list[tuple[Comparison, str, str]]) -> str:
    """Each comparison with the names of its sides."""
    title = " and ".join(f"{a} against {b}" for _, a, b in found[:3])
    return document(title, "".join(_section(*one) for one in found))


def _section(comparison: Comparison, a: str, b: str) -> str:
    found = comparison.differences
    rows = []
    for d in found:
        interval = (
            f"{d.ratio.low:.3g} to {d.ratio.high:.3g}"
            if d.ratio.low is not None and d.ratio.high is not None
            else "no spread known"
        )
        kind = "best" if d.verdict.endswith("faster") else "untested"
        rows.append(
            [
                escape(f"{d.app} {d.size}"),
                escape(d.config),
                f"{d.a_seconds:.4g}",
                f"{d.b_seconds:.4g}",
                f"{d.ratio.value:.3g}",
                interval,
                f"<td class='{kind}'>{escape(d.verdict)}</td>",
            ]
        )
    drawn = [
        (
            f"{d.app} {d.config}"[:48],
            d.ratio.value,
            d.ratio.low,
            d.ratio.high,
            d.verdict.endswith("faster"),
        )
        for d in found[:30]
    ]
    chart = (
        figure(
            charts.bars_of_effects(drawn, f"{b} against {a}", f"time of {b} / time of {a}"),
            "Right of 1 the first is faster. Bars: 95 % interval; blue: more than chance with all"
            " verdicts of this page counted.",
        )
        if drawn
        else ""
    )
    said = "".join(f"<li>{escape(line)}</li>" for line in comparison.summary)
    refused = "".join(f"<li>{escape(line)}</li>" for line in comparison.refused)
    head = ["application", "configuration", f"{escape(a)}, s", f"{escape(b)}, s", "ratio"]
    return (
        f"<header><h1>{escape(a)} against {escape(b)}</h1><p>Suite {__version__}.</p></header>"
        f"<section><h2>The answer</h2><ul>{said}</ul></section>{chart}"
        + table([*head, "95 % interval", "verdict"], rows, "The same configuration on both sides")
        + (f"<h2>Not compared</h2><ul>{refused}</ul>" if refused else "")
    )
