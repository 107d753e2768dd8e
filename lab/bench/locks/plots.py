"""The paper's figures 6 to 12 and shared locks, drawn from the records."""

from __future__ import annotations

import sys
from pathlib import Path

from cases import CONTENDERS, NEIGHBOURS, OURS, READERS, SHARES, SPANS_MS, SPANS_US, TASKS

Records = dict[str, dict]


def _value(record: dict | None, library: str) -> float | None:
    if record is None:
        return None
    if library == OURS:
        return record["value"]
    return record["protocols"].get(library, record["peers"].get(library))


def _color(names: list[str], library: str) -> str:
    """The same in every panel."""
    return f"C{names.index(library)}"


def _lines(axis, records: Records, names: list[str], points: list, name_of) -> None:
    """A line for each library over `points`; a library without a figure has a gap there."""
    for library in names:
        found = [(x, _value(records.get(name_of(x)), library)) for x in points]
        found = [(x, y) for x, y in found if y is not None]
        if found:
            style = "o-" if library == OURS else "o--"
            color = _color(names, library)
            axis.plot(*zip(*found), style, color=color, markersize=3, label=library)


def _count_axis(axis, points: list, what: str) -> None:
    """Powers of two, each with its number."""
    axis.set_xscale("log", base=2)
    axis.set_xticks(points, points)
    axis.set_xlabel(what)


def _lock(axis, records: Records, names: list[str]) -> None:
    bars = [f"same_node.{kind}.lock_put.exclusive" for kind in ("allocated", "created", "pages")]
    width = 0.8 / max(1, len(names))
    for index, library in enumerate(names):
        found = [_value(records.get(bar), library) for bar in bars]
        places = [place + index * width for place, y in enumerate(found) if y is not None]
        if heights := [y for y in found if y is not None]:
            axis.bar(places, heights, width, color=_color(names, library), label=library)
    axis.set_xticks([0.4, 1.4, 2.4], ["allocated", "created", "pages"])
    axis.set_ylabel("ns")
    axis.set_yscale("log")
    axis.set_title("6: lock + put + unlock, same node")


def _computing(axis, records: Records, names: list[str], place: str) -> None:
    _lines(
        axis, records, names, list(SPANS_MS), lambda x: f"computing.{place}.allocated.span_{x}_ms"
    )
    axis.set(yscale="log", xlabel="target computes, ms", ylabel="us")
    axis.set_title(f"7: target computing, {place.replace('_', ' ')}")


def _neighbours(axis, records: Records, names: list[str]) -> None:
    _lines(axis, records, names, list(NEIGHBOURS), lambda x: f"neighbours.{x}")
    _count_axis(axis, list(NEIGHBOURS), "processes")
    axis.set(yscale="log", ylabel="us")
    axis.set_title("8: neighbour locks")


def _contended(axis, records: Records, names: list[str], what: str, unit: str) -> None:
    _lines(axis, records, names, list(CONTENDERS), lambda x: f"contended.{x}.{what}")
    _count_axis(axis, list(CONTENDERS), "processes")
    axis.set(yscale="log", ylabel=unit)
    axis.set_title(f"9: contended lock, {what}")


def _ring(axis, records: Records, names: list[str]) -> None:
    _lines(axis, records, names, list(SPANS_US), lambda x: f"ring.span_{x}_us")
    axis.plot(SPANS_US, SPANS_US, ":", color="grey", label="the computing alone")
    axis.set(yscale="log", xlabel="computing in a lap, us", ylabel="lap, us")
    axis.set_title("10: ring of two hosts")


def _migration(axis, records: Records, names: list[str], what: str, unit: str) -> None:
    _lines(axis, records, names, list(SHARES), lambda x: f"migration.{what}.share_{x}")
    axis.set(yscale="log", xlabel="remote requests, %", ylabel=unit)
    axis.set_title(f"11: migration, {what} lock")


def _tasks(axis, records: Records, names: list[str]) -> None:
    _lines(axis, records, names, [4 * each for each in TASKS], lambda x: f"tasks.{x}")
    _count_axis(axis, [4 * each for each in TASKS], "processes on four hosts")
    axis.set(yscale="log", ylabel="ms")
    axis.set_title("12: hierarchical task sharing")


def _readers(axis, records: Records, names: list[str]) -> None:
    _lines(axis, records, names, list(READERS), lambda x: f"readers.{x}")
    _count_axis(axis, list(READERS), "readers")
    axis.set(yscale="log", ylabel="M/s")
    axis.set_title("shared locks")


def draw(records: list[dict], *paths: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("lab/bench/locks: no figure: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    by_name = {record["name"]: record for record in records}
    names = [OURS, *records[0]["protocols"], *records[0]["peers"]]
    figure, axes = pyplot.subplots(3, 4, figsize=(17, 11))
    panels = iter(axes.flat)
    _lock(next(panels), by_name, names)
    _computing(next(panels), by_name, names, "same_node")
    _computing(next(panels), by_name, names, "hosts")
    _neighbours(next(panels), by_name, names)
    _contended(next(panels), by_name, names, "throughput", "k/s")
    _contended(next(panels), by_name, names, "fairness", "most / fewest acquisitions")
    _ring(next(panels), by_name, names)
    _migration(next(panels), by_name, names, "local", "ns")
    _migration(next(panels), by_name, names, "remote", "us")
    _tasks(next(panels), by_name, names)
    _readers(next(panels), by_name, names)
    _legend(next(panels), axes.flat)
    figure.tight_layout()
    for path in paths:
        figure.savefig(path, dpi=110)


def _legend(axis, all_axes) -> None:
    """Every library once, in the last panel: no single panel has them all."""
    known = {}
    for other in all_axes:
        for handle, label in zip(*other.get_legend_handles_labels()):
            known.setdefault(label, handle)
    axis.axis("off")
    if known:
        axis.legend(known.values(), known.keys(), loc="center")
