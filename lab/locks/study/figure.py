#!/usr/bin/env python3
"""Draws out/sim-locks.json (from skerry-sim locks) as out/sim-locks.png.

A row per domain. Throughput and longest wait over the number of ranks; mean wait over the share of
remote requests and over the share of readers. The squares at a panel's foot name the best protocol
at each point. Simulated, and labelled so.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path

COLOURS = {
    "two_sided": "tab:gray",
    "one_sided": "tab:red",
    "migrating": "tab:orange",
    "queue": "tab:blue",
    "cohort": "tab:green",
    "asymmetric": "tab:purple",
    "reader_writer": "tab:brown",
}
# sweep, quantity, the axes' labels, is a high value good?
PANELS = [
    ("ranks", "per_second", "ranks", "acquisitions per second", True),
    ("ranks", "longest_wait_us", "ranks", "longest wait, us", False),
    ("remote", "mean_wait_us", "remote requests, %", "mean wait, us", False),
    ("readers", "mean_wait_us", "shared requests, %", "mean wait, us", False),
]


def draw_panel(axis, runs, quantity, is_high_good, over_ranks):
    """One line for each protocol, and the winners along the foot."""
    for protocol in dict.fromkeys(run["protocol"] for run in runs):
        points = [(r["x"], r[quantity], r) for r in runs if r["protocol"] == protocol]
        colour = COLOURS.get(protocol)
        axis.plot(*zip(*[p[:2] for p in points]), color=colour, linewidth=1.3, label=protocol)
        # Hollow: stopped early or some never granted, so waits are at least this long.
        hollow = [p[2]["never_granted"] > 0 or not p[2]["complete"] for p in points]
        for (x, y, _), is_hollow in zip(points, hollow):
            axis.plot(
                x,
                y,
                marker="o",
                markersize=3.5,
                color=colour,
                markerfacecolor="white" if is_hollow else colour,
            )
    axis.set_yscale("log")
    if over_ranks:
        axis.set_xscale("log")
    axis.grid(alpha=0.3)
    for x in dict.fromkeys(run["x"] for run in runs):
        here = [r for r in runs if r["x"] == x and (is_high_good or r["never_granted"] == 0)]
        if not here:
            continue
        pick = max if is_high_good else min
        best = pick(here, key=lambda run: run[quantity])
        axis.plot(
            x,
            0.02,
            marker="s",
            markersize=7,
            color=COLOURS.get(best["protocol"]),
            transform=axis.get_xaxis_transform(),
            clip_on=False,
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results",
        type=Path,
        nargs="?",
        default=Path("out/sim-locks.json"),
        help="default: %(default)s",
    )
    parser.add_argument("--out", type=Path, help="default: the results' name with .png")
    options = parser.parse_args()
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("locks_figure.py: needs matplotlib (pip install matplotlib)", file=sys.stderr)
        return 2
    data = json.loads(options.results.read_text())
    domains = list(data["costs"])
    figure, axes = plt.subplots(
        len(domains),
        len(PANELS),
        figsize=(4.2 * len(PANELS), 3.4 * len(domains) + 0.9),
        squeeze=False,
    )
    for row, domain in enumerate(domains):
        for axis, (sweep, quantity, x_label, y_label, is_high_good) in zip(axes[row], PANELS):
            runs = [r for r in data["runs"] if r["domain"] == domain and r["sweep"] == sweep]
            if runs:
                draw_panel(axis, runs, quantity, is_high_good, sweep == "ranks")
            axis.set_xlabel(x_label)
            axis.set_ylabel(y_label)
            where = (
                f"{data['per_node']} on each node"
                if sweep == "ranks"
                else f"{data['sweep_ranks']} ranks, {data['per_node']} on each node"
            )
            axis.set_title(f"{domain}: {where}", fontsize=9)
    axes[0][0].legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 0.08))
    costs = "; ".join(f"{domain}: {data['costs'][domain]['source']}" for domain in domains)
    figure.suptitle(
        textwrap.fill(
            f"Simulated, not measured. One hot lock, held for {data['hold_ns']} ns. Squares: the "
            "best protocol there. Hollow points: the run was stopped, or some rank never got the "
            f"lock. Costs: {costs}",
            180,
        ),
        fontsize=9,
    )
    figure.tight_layout()
    out = options.out or options.results.with_suffix(".png")
    figure.savefig(out, dpi=90)
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
