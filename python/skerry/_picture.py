"""Small pictures of who holds what, for notebooks and documents: SVG."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ._parts import Bounds

_SIDE = 220  # pixels of the longer side
_LEAST = 24  # of the shorter
_MOST_BLOCKS = 1024
# One colour a node (Tol's muted scheme), lighter and darker by turns for its ranks.
_COLOURS = "#332288 #88ccee #44aa99 #117733 #999933 #ddcc77 #cc6677 #882255 #aa4499".split()


def picture(shape: Sequence[int], boxes: Sequence[tuple[int, int, Bounds]]) -> str:
    """SVG of an array, seen from the side with the most blocks. boxes: (rank, node, ((low, high),
    ...)); those without elements are left out, those behind another are hidden."""
    boxes = [each for each in boxes if all(high > low for low, high in each[2])]
    axes = _axes(len(shape), [box for _, _, box in boxes])
    rows, columns = ([1, 1] + [shape[d] for d in axes])[-2:]
    width, height = _size(rows, columns)
    seen: set[tuple[int, int]] = set()
    parts = []
    for rank, node, box in boxes:
        (top, bottom), (left, right) = ([(0, 1), (0, 1)] + [box[d] for d in axes])[-2:]
        if (top, left) in seen or len(seen) >= _MOST_BLOCKS:
            continue
        seen.add((top, left))
        x, y = left * width / columns, top * height / rows
        w, h = (right - left) * width / columns, (bottom - top) * height / rows
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
            f'fill="{_COLOURS[node % len(_COLOURS)]}" fill-opacity="{0.55 if rank % 2 else 0.8}" '
            f'stroke="#fff"><title>rank {rank} on node {node}: {_bounds(box)}</title></rect>'
        )
        if w >= 14 and h >= 12:
            parts.append(f'<text x="{x + w / 2:.1f}" y="{y + h / 2 + 4:.1f}">{rank}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 2}" height="{height + 2}" '
        f'viewBox="-1 -1 {width + 2} {height + 2}" font-family="sans-serif" font-size="11" '
        f'text-anchor="middle" fill="#fff">{"".join(parts)}</svg>'
    )


def _size(rows: int, columns: int) -> tuple[int, int]:
    longest = max(rows, columns, 1)
    width, height = (max(_LEAST, round(_SIDE * n / longest)) for n in (columns, rows))
    return width, height


def _axes(dims: int, boxes: Sequence[Bounds]) -> list[int]:
    """The two dimensions that are divided most, ascending; the first and the last of equals."""
    cuts = [len({box[d] for box in boxes}) for d in range(dims)]
    order = sorted(range(dims), key=lambda d: (-cuts[d], min(d, dims - 1 - d)))
    return sorted(order[:2])


def _bounds(box: Bounds) -> str:
    return "[" + ", ".join(f"{low}:{high}" for low, high in box) + "]"


def table(
    kind: str, shape: Sequence[int], dtype: np.dtype[Any], distribution: str, svg: str
) -> str:
    """HTML: what the array is, and the picture beside it."""
    from html import escape  # most programs show no table

    lines = {
        "shape": str(tuple(shape)), "type": str(dtype), "distribution": distribution,
        "bytes": f"{prod(shape) * dtype.itemsize:,}",
    }  # fmt: skip
    cells = "".join(
        f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{escape(text)}"
        "</td></tr>"
        for name, text in lines.items()
    )
    return (
        f"<div style='display:flex;gap:1.5em;align-items:center'><div><b>{escape(kind)}</b>"
        f"<table>{cells}</table></div>{svg}</div>"
    )
