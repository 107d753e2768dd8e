"""The paper's Table 3 beside its correction, with each error where the quotient is printed."""

from __future__ import annotations

from html import escape

from ..dataset import table_3
from .html import table


def table_3_html() -> str:
    rows = []
    for machine, step in table_3().items():
        for name, printed, correct, error in step.quotients():
            flag = f"<td class='bad'>{escape(error)}</td>" if error else "as printed"
            kind = "bad" if error else ""
            rows.append(
                [
                    f"<th scope='row'>{escape(machine)}</th>",
                    escape(name),
                    f"<td class='{kind}'>{escape(printed)}</td>",
                    escape(correct),
                    flag,
                ]
            )
    return "<h4>Table 3 of the paper, printed and corrected</h4>" + table(
        ["machine", "quotient", "as printed", "correct", "error"],
        rows,
        "Prices of machines that nobody sells are scaled per core: estimates.",
    )
