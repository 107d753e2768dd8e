"""Stock and preloaded beside each other, drawn from the records."""

from __future__ import annotations

import sys
from pathlib import Path

from cases import EXAMPLES, KINDS, OPERATIONS, PLACES, SPANS_US, STATES


def _bars(axis, by_name: dict[str, dict], mpi: str, kind: str, place: str) -> None:
    """Four bars for each operation: stock and preloaded, target idle and computing."""
    series = [(who, state) for state in STATES for who in ("stock", "preloaded")]
    width = 0.8 / len(series)
    for index, (who, state) in enumerate(series):
        places, heights = [], []
        for number, operation in enumerate(OPERATIONS):
            record = by_name.get(f"{mpi}.{place}.{kind}.{operation}.{state}")
            value = record and (record["value"] if who == "preloaded" else record["peers"]["stock"])
            if value is not None:
                places.append(number + index * width)
                heights.append(value)
        color = "C0" if who == "preloaded" else "C1"
        hatch = "" if state == "idle" else "//"
        axis.bar(
            places, heights, width, color=color, hatch=hatch, label=f"{who}, target {state}",
            edgecolor="white",
        )  # fmt: skip
    axis.set_yscale("log")
    axis.set_ylabel("us")
    axis.set_xticks([n + 0.3 for n in range(len(OPERATIONS))], OPERATIONS, rotation=30, ha="right")
    axis.set_title(f"{mpi}, {place.replace('_', ' ')}, {kind}")


def _example(axis, by_name: dict[str, dict], mpi: str, example: str, unit: str) -> None:
    """Time over the length of what ranks compute at a time, between two hosts."""
    for who, color in (("stock", "C1"), ("preloaded", "C0")):
        found = []
        for span in SPANS_US:
            record = by_name.get(f"{mpi}.{example}.span_{span}_us")
            value = record and (record["value"] if who == "preloaded" else record["peers"]["stock"])
            if value is not None:
                found.append((span, value))
        if found:
            axis.plot(*zip(*found), "o-", color=color, label=who)
    if example == "halo":
        axis.plot(SPANS_US, SPANS_US, ":", color="grey", label="the computing alone")
    axis.set(xscale="log", yscale="log", xlabel="computing at a time, us", ylabel=unit)
    axis.set_title(f"{mpi}, {example}, two hosts")
    if axis.get_legend_handles_labels()[0]:
        axis.legend()


def draw(records: list[dict], *paths: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("lab/bench/mpi: no figure: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    by_name = {record["name"]: record for record in records}
    found = list(dict.fromkeys(name.split(".")[0] for name in by_name))
    columns = [(place, kind) for place in PLACES for kind in KINDS]
    wide = len(columns) + len(EXAMPLES)
    figure, axes = pyplot.subplots(
        len(found), wide, figsize=(4.5 * wide, 4 * len(found)), squeeze=False
    )
    for line, mpi in zip(axes, found):
        for axis, (place, kind) in zip(line, columns):
            _bars(axis, by_name, mpi, kind, place)
        for axis, (example, unit) in zip(line[len(columns) :], EXAMPLES.items()):
            _example(axis, by_name, mpi, example, unit)
    handles, labels = axes[0][0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="upper center", ncol=4)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    for path in paths:
        figure.savefig(path, dpi=100)
    pyplot.close(figure)
