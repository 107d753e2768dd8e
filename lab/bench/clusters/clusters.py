#!/usr/bin/env python3
"""What clusters of data servers cost and save: make bench-clusters, out/clusters.json and .png.

Each part is a module here with `rows(options)`. A part with HOSTS runs inside as many hosts on
this machine (network namespaces, root). --only chooses parts; rows of the others stay as they are
in the file.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import hot_spot
import jobs
import memory
import sharing
import simulated
import start
import times
from report import ROOT, publish

PARTS = {
    "times": times,
    "sharing": sharing,
    "memory": memory,
    "simulated": simulated,
    "start": start,
    "hot_spot": hot_spot,
    "jobs": jobs,
}


def draw_times(axis, rows, figure, names):
    """Times beside the base, by bytes: a line for each name, part and way."""
    for part, way in [("clusters", w) for w in times.TARGETS] + [
        ("sharing", w) for w in sharing.WAYS
    ]:
        for what, style in zip(names, ("-", "--")):
            points = [
                (int(r["name"].split("_")[1].split(".")[0]), r["value"])
                for r in rows
                if r["name"].startswith(f"{part}.{what}_")
                and r["name"].endswith(f".{way}")
                and r["figure"] == figure
                and r["in_paper"]
            ]
            if points:
                axis.plot(
                    *zip(*points), style, marker="o", markersize=3, label=f"{what}, {part}: {way}"
                )
    axis.set_xscale("log", base=2)
    axis.set_xlabel("bytes")
    axis.set_ylabel(f"{figure}: times as long as the base")


def figure(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 5))
    draw_times(left, rows, "latency", ("put", "get"))
    draw_times(middle, rows, "bandwidth", ("puts", "gets"))
    for size in memory.SIZES:
        for ending, style in ((f"size_{size}", "-"), (f"size_{size}.all_to_all", "--")):
            points = [
                (int(r["name"].split("_")[1]), r["value"])
                for r in rows
                if r["name"].startswith("clusters.memory_") and r["name"].endswith(ending)
            ]
            label = f"size {size}" + (", all to all" if style == "--" else "")
            if points:
                right.plot(*zip(*points), style, marker="o", markersize=3, label=label)
    right.set_xlabel("ranks of the job, 12 a node")
    right.set_ylabel("MB of one server and its kernel")
    right.set_yscale("log")
    for axis in (left, middle, right):
        axis.grid(alpha=0.3)
        if axis.has_data():
            axis.legend(fontsize=7, ncol=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    shown.tight_layout()
    shown.savefig(path, dpi=120)
    plt.close(shown)


def on_hosts(name, hosts, options):
    """Runs the part inside so many hosts, by this script itself; its rows."""
    part = options.out.with_suffix(f".{name}.json")
    command = [ROOT / "testbed/hosts.sh", "run", hosts, "--", sys.executable, __file__]
    command += ["--build", options.build, "--rounds", options.rounds]
    command += ["--operations", options.operations, "--only", name, "--inside", part]
    subprocess.run([str(word) for word in command], check=True)
    found = json.loads(part.read_text())
    part.unlink()
    return found


def measure(names, options):
    """({part: rows}, [why a part was left out])"""
    found, notes = {}, []
    for name in names:
        hosts = PARTS[name].HOSTS
        if hosts and os.geteuid() != 0:
            notes.append(f"{name} is not measured: network namespaces need root")
            continue
        found[name] = on_hosts(name, hosts, options) if hosts else PARTS[name].rows(options)
        notes += getattr(PARTS[name], "NOTES", [])  # what a part left out
    return found, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--out", type=Path, default=ROOT / "out/clusters.json")
    parser.add_argument("--rounds", type=int, default=5, help="of the times (default: %(default)s)")
    parser.add_argument(
        "--operations", type=int, default=500, help="of a time (default: %(default)s)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts (default: all)"
    )
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:  # on the hosts
        options.inside.write_text(json.dumps(PARTS[options.only[0]].rows(options)))
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    found, notes = measure(options.only, options)
    rows = [r for r in kept if r.get("part") not in found]
    rows += [r | {"part": name} for name, part in found.items() for r in part]
    publish(options.out, rows, notes)
    figure(rows, options.out.with_suffix(".png"))
    for note in notes:
        print(f"bench-clusters: {note}")


if __name__ == "__main__":
    main()
