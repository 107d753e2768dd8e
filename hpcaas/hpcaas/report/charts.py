"""Charts as SVG text for the page: no scripts, no fonts to load, readable in print."""

from __future__ import annotations

import io
import re
from typing import Optional, Sequence

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402  (after the backend is chosen)
import numpy as np  # noqa: E402
from matplotlib.axis import Axis  # noqa: E402
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator  # noqa: E402

from ..stats import Scaling  # noqa: E402

COLOURS = ("#1f6feb", "#d9480f", "#2b8a3e", "#862e9c", "#b08900", "#0b7285", "#c2255c", "#495057")
plt.rcParams.update(
    {
        "svg.fonttype": "none",
        "text.parse_math": False,  # a dollar sign in a name is a dollar sign
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "figure.autolayout": False,
    }
)
_count = 0


def _svg(figure: "plt.Figure", description: str) -> str:
    """SVG without XML head, with ids that do not collide with those of other charts on the page."""
    global _count
    _count += 1
    buffer = io.StringIO()
    with plt.rc_context({"svg.hashsalt": f"hpcaas{_count}"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    prefix = f"c{_count}-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(xlink:href|href)="#', rf'\1="#{prefix}', text)
    text = re.sub(r"url\(#", f"url(#{prefix}", text)
    text = re.sub(r'<svg([^>]*?) width="[\d.]+pt"', r"<svg\1", text, count=1)
    text = re.sub(r'<svg([^>]*?) height="[\d.]+pt"', r"<svg\1", text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    escaped = description.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg", f'<svg role="img" aria-label="{escaped}"', 1)


def bars_of_effects(
    rows: Sequence[tuple[str, float, Optional[float], Optional[float], bool]],
    title: str,
    label: str = "time relative to the best value of the axis (1 is best)",
) -> str:
    """rows: (label, ratio, low, high, more than chance); the best value of each axis is 1 by
    definition and not drawn."""
    figure, axes = plt.subplots(figsize=(7.2, 0.6 + 0.32 * len(rows)))
    positions = np.arange(len(rows))[::-1]
    for y, (_, value, low, high, clear) in zip(positions, rows):
        axes.plot([1, value], [y, y], color="#bbbbbb", linewidth=1)
        marker, colour = ("D", COLOURS[1])
        if low is not None and high is not None:
            marker, colour = ("o", COLOURS[0] if clear else "#888888")
            ends = [max(low, 0.2), min(high, 20)]
            axes.plot(ends, [y, y], colour, linewidth=3, alpha=0.55, solid_capstyle="butt")
        axes.plot([value], [y], marker, color=colour, markersize=6)
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_yticks(positions, [r[0] for r in rows])
    # A wide interval may run out of the picture: it must not make the others small.
    ends = [(max(low or 1, 0.5), min(high or value, 2 * value)) for _, value, low, high, _ in rows]
    highest = max(max(high, row[1]) for (_, high), row in zip(ends, rows))
    axes.set_xlim(min(0.95, *(low for low, _ in ends)), highest * 1.05)
    axes.set_xlabel(label)
    axes.grid(axis="y", visible=False)
    return _svg(figure, title)


def _log_ticks(axis: Axis, values: Sequence[float]) -> None:
    """Ticks of a logarithmic axis as plain numbers. Within one decade the usual ones are one or
    none: there they stand evenly."""
    if max(values) < 10.0 * min(values):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.4g}"))
    axis.set_minor_formatter(NullFormatter())


def scaling(
    series: dict[str, list[tuple[float, float]]], fits: dict[str, Optional[Scaling]], title: str
) -> str:
    figure, axes = plt.subplots(figsize=(6.4, 3.8))
    for colour, (name, points) in zip(COLOURS * 4, series.items()):
        points = sorted(points)
        axes.plot(
            [p[0] for p in points],
            [p[1] for p in points],
            "o-",
            color=colour,
            label=name,
            markersize=4,
            linewidth=1.4,
        )
        fit = fits.get(name)
        if fit and len(points) > 2:
            xs = np.geomspace(points[0][0], points[-1][0], 60)
            axes.plot(xs, [fit.at(x) for x in xs], ":", color=colour, linewidth=1)
    everything = [p for points in series.values() for p in points]
    first = min(everything)
    xs = np.array(sorted({p[0] for p in everything}))
    axes.plot(
        xs, first[1] * first[0] / xs, "--", color="#999999", linewidth=1, label="perfect scaling"
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(xs, [f"{x:g}" for x in xs])
    axes.minorticks_off()
    _log_ticks(axes.yaxis, [p[1] for p in everything])
    axes.set_xlabel("cores or hardware threads used")
    axes.set_ylabel("seconds")
    axes.legend(fontsize=8, frameon=False, loc="best")
    return _svg(figure, title)


def time_and_cost(
    points: Sequence[tuple[float, float, str, bool]], currency: str, title: str
) -> str:
    """points: (seconds, cost, machine, on the front)."""
    figure, axes = plt.subplots(figsize=(6.4, 3.8))
    by_machine: dict[str, list[tuple[float, float, bool]]] = {}
    for seconds, cost, machine, on_front in points:
        by_machine.setdefault(machine, []).append((seconds, cost, on_front))
    for colour, (machine, mine) in zip(COLOURS * 4, by_machine.items()):
        seconds, costs, front = zip(*mine)
        axes.scatter(
            seconds,
            costs,
            s=[46 if is_on else 16 for is_on in front],
            color=colour,
            alpha=0.85,
            label=machine,
            edgecolors=["#000000" if is_on else "none" for is_on in front],
            linewidths=0.8,
        )
    on_front = sorted((seconds, cost) for seconds, cost, _, is_on in points if is_on)
    axes.step(
        *zip(*on_front),
        where="post",
        color="#333333",
        linewidth=1,
        linestyle="--",
        label="Pareto front",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("seconds of one whole run")
    axes.set_ylabel(f"{currency} of one run")
    _log_ticks(axes.xaxis, [p[0] for p in points])
    _log_ticks(axes.yaxis, [p[1] for p in points])
    axes.legend(fontsize=8, frameon=False, loc="best")
    return _svg(figure, title)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[Optional[float]]],
    title: str,
) -> str:
    """Times relative to the best cell; empty cells were not run."""
    data = np.array([[np.nan if v is None else v for v in row] for row in values], dtype=float)
    relative = data / np.nanmin(data)
    figure, axes = plt.subplots(figsize=(1.6 + 1.05 * len(columns), 0.9 + 0.42 * len(rows)))
    axes.imshow(
        np.log(relative),
        cmap="YlOrRd",
        aspect="auto",
        vmin=0,
        vmax=max(float(np.nanmax(np.log(relative))), 0.05),
    )
    axes.set_xticks(
        range(len(columns)),
        columns,
        rotation=25 if max(map(len, columns)) > 9 else 0,
        ha="right" if max(map(len, columns)) > 9 else "center",
    )
    axes.set_yticks(range(len(rows)), rows)
    axes.grid(visible=False)
    limit = float(np.nanmax(np.log(relative))) * 0.65
    for i in range(len(rows)):
        for j in range(len(columns)):
            if not np.isnan(data[i, j]):
                axes.text(
                    j,
                    i,
                    f"{data[i, j]:.3g}",
                    ha="center",
                    va="center",
                    fontsize=9,
                    color="white" if limit > 0.03 and np.log(relative[i, j]) > limit else "black",
                )
    return _svg(figure, title)
