"""Tables and figures as HTML text."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path


def table(head: list[str], rows: list[list[str]], caption: str = "", classes: str = "") -> str:
    """Cells are HTML already. On a narrow window every cell is a line with the head as its
    label."""
    top = "".join(f"<th scope='col'>{h}</th>" for h in head)
    body = "".join(
        "<tr>" + "".join(_cell(h, c) for h, c in zip(head, row)) + "</tr>" for row in rows
    )
    name = f"<p class='caption'>{caption}</p>" if caption else ""
    return (
        f"{name}<div class='wide'><table class='{classes}'><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(head: str, content: str) -> str:
    if content.startswith("<th"):
        return content
    if not content.startswith("<td"):
        content = f"<td>{content}</td>"
    label = re.sub(r"<[^>]*>", "", head).replace("'", "&#x27;")
    return content.replace("<td", f"<td data-label='{label}'", 1)


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"


def document(title: str, body: str) -> str:
    """A whole page in one file: nothing is loaded from elsewhere."""
    style = (Path(__file__).parent / "page.css").read_text()
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )
