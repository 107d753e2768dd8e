#!/usr/bin/env python3
"""Draws out/sim-routes.json (from skerry-sim routes) as out/sim-routes.png.

The memory of a node by its parts, for each number of ranks and each cluster size; and the latency
of each kind of traffic. Simulated, and labelled so.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

PARTS = ("tables", "connections", "links", "sessions", "passing", "pools")
STYLES = {"1": "-", "sqrt": "--", "auto": ":"}


def draw_memory(axis, jobs):
    """One bar for each job, with its parts."""
    names = [f"{job['ranks']:,}\nsize {job['cluster']}" for job in jobs]
    below = [0.0] * len(jobs)
    for part in PARTS:
        mb = [job["memory"][part] / 1e6 for job in jobs]
        axis.bar(range(len(jobs)), mb, bottom=below, label=part)
        below = [b + m for b, m in zip(below, mb)]
    axis.set_xticks(range(len(jobs)), names, fontsize=6)
    axis.axhline(64, color="black", linewidth=0.8)
    axis.set_ylabel("MB of a node, all limits used to the full")
    axis.legend(fontsize=7)


def draw_latency(axis, jobs):
    """Median latency over the number of ranks: a line for each traffic and cluster size."""
    for traffic in dict.fromkeys(run["traffic"] for job in jobs for run in job["runs"]):
        colour = axis.plot([], [], label=traffic)[0].get_color()
        for size in dict.fromkeys(job["cluster"] for job in jobs):
            points = [
                (job["ranks"], run["median_us"], run["p99_us"])
                for job in jobs
                for run in job["runs"]
                if job["cluster"] == size and run["traffic"] == traffic
            ]
            x, median, late = zip(*points)
            axis.plot(x, median, STYLES.get(size, "-."), color=colour, marker="o", markersize=3)
            axis.plot(x, late, STYLES.get(size, "-."), color=colour, linewidth=0.5)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("ranks")
    axis.set_ylabel("us: median (thick), 99 % (thin)")
    axis.legend(fontsize=7, title="full: size 1, dashed: sqrt, dotted: auto", title_fontsize=6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="?", type=Path, default=Path("out/sim-routes.json"))
    parser.add_argument("--out", type=Path, help="default: the same name with .png")
    options = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        print("routes_figure: matplotlib is missing: nothing is drawn", file=sys.stderr)
        return 1
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    jobs = json.loads(options.results.read_text())["jobs"]
    shown, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    draw_memory(left, jobs)
    draw_latency(right, jobs)
    for axis in (left, right):
        axis.grid(alpha=0.3)
    shown.suptitle("simulated: skerry-sim routes", fontsize=9)
    shown.tight_layout()
    shown.savefig(options.out or options.results.with_suffix(".png"), dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main())
