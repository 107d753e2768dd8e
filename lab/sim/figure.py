#!/usr/bin/env python3
"""Draws out/sim.json (from skerry-sim) as out/sim.png: for each job, teardowns and exposed teardown time over the cap, a line per policy."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results", type=Path, nargs="?", default=Path("out/sim.json"), help="default: %(default)s"
    )
    parser.add_argument("--out", type=Path, help="default: the results' name with .png")
    options = parser.parse_args()
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("figure.py: needs matplotlib (pip install matplotlib)", file=sys.stderr)
        return 2
    data = json.loads(options.results.read_text())
    jobs = [
        job
        for job in data["jobs"]
        if any(run["job"] == job["name"] and run["cap"] for run in data["runs"])
    ]
    jobs = [job for job in jobs if not job["name"].startswith("sensitivity")] or jobs
    quantities = [
        ("set-ups of a rank", lambda run: run["setups"]["mean"]),
        ("teardown of a rank, s", lambda run: run["teardown_s"]["mean"]),
        ("exposed teardown, s", lambda run: run["exposed_teardown_s"]["mean"]),
    ]
    colours = {
        "lru": "tab:blue",
        "lru_m": "tab:orange",
        "reuse": "tab:green",
        "adaptive": "tab:red",
        "optimum": "black",
    }
    figure, axes = plt.subplots(
        len(quantities),
        len(jobs),
        figsize=(3.6 * len(jobs) + 1, 2.6 * len(quantities) + 0.8),
        squeeze=False,
        sharex="col",
    )
    for column, job in enumerate(jobs):
        runs = [run for run in data["runs"] if run["job"] == job["name"] and run["cap"]]
        for row, (label, value) in enumerate(quantities):
            axis = axes[row][column]
            for policy in dict.fromkeys(run["policy"] for run in runs):
                points = sorted((run["cap"], value(run)) for run in runs if run["policy"] == policy)
                axis.plot(
                    *zip(*points),
                    marker="o",
                    markersize=3,
                    color=colours.get(policy),
                    linestyle="--" if policy == "optimum" else "-",
                    label=policy,
                )
            axis.set_xscale("log", base=2)
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
            caps = sorted({run["cap"] for run in runs})
            axis.set_xticks(caps, [str(cap) for cap in caps])
            if column == 0:
                axis.set_ylabel(label)
        traffic = job["traffic"]
        axes[0][column].set_title(
            f"{job['name']}: {traffic['ranks']} ranks, {traffic['per_node']} on each node",
            fontsize=9,
        )
        axes[-1][column].set_xlabel("cap on connections of a rank")
    axes[0][0].legend(fontsize=8)
    figure.suptitle(
        textwrap.fill(
            "Simulated, not measured. Costs: " + data["jobs"][0]["costs"]["source"], 60 * len(jobs)
        ),
        fontsize=8,
    )
    figure.tight_layout()
    out = options.out or options.results.with_suffix(".png")
    figure.savefig(out, dpi=110)
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
