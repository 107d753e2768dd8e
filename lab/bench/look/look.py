#!/usr/bin/env python3
"""What looking at a running job costs it: recording for `skerry trace` on and off, and off beside a
build without it.

    lab/bench/look/look.py [--build DIR] [--base DIR] [--turns N] [--only ROW]

on       one job; `skerry trace` comes and goes, a second each. A turn is one second with it and the
         seconds without it before and after; its ratio is that of the median rounds of 20 ms.
looked   the same with `skerry top --every 1` instead.
attached the same with a Python program, and a reader that gets a patch ten times a second.
off      --base is a build of the tree without recording: both run by turns, two seconds each.

Prints the median ratio of each row, the middle half of the ratios and the load, and writes
out/look.json. A ratio of 1.01 means one percent slower. Needs NumPy for the row attached alone.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CALLS = ["put_8", "get_8", "fetch_add", "acc_8", "get_64k", "put_fence_8"]
ROWS = [(call, nodes) for nodes in (1, 2) for call in CALLS] + [("compute", 1)]
TARGETS = {"off": 1.01, "on": 1.02, "looked": 1.02, "attached": 1.02}
ATTACHED = Path(__file__).with_name("attached.py")


def start(build, call, nodes, seconds, program=None):
    program = program or [build / "bin/bench/paced", call]
    words = ["run", "-n", "2", "--nodes", nodes, *program, seconds]
    return subprocess.Popen(
        [build / "bin/skerry", *map(str, words)], stdout=subprocess.PIPE, text=True
    )


def rounds_of(job):
    text, _ = job.communicate()
    if job.returncode:
        sys.exit(f"look.py: paced ended with status {job.returncode}")
    rows = [line.split() for line in text.splitlines()]
    return [(int(end), float(ns)) for end, _, ns in rows]


def beside(build, call, nodes, turns, looker, program=None):
    """Ratios of one job, while `looker` comes and goes."""
    job = start(build, call, nodes, 2 * turns + 3, program)
    time.sleep(2 if program else 0.7)
    spans = []
    for _ in range(turns):
        begin = time.monotonic_ns()
        with subprocess.Popen(
            [str(word) for word in looker(job.pid)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as look:  # fmt: skip
            time.sleep(1)
            spans.append((begin + 50_000_000, time.monotonic_ns() - 50_000_000))
            if "trace" not in looker(0):
                look.terminate()
        time.sleep(1)
    seen = rounds_of(job)
    ratios = []
    for begin, end in spans:
        on = [ns for at, ns in seen if begin + 20_000_000 < at < end]
        off = [ns for at, ns in seen if begin - 5e8 < at < begin or end + 1e8 < at < end + 6e8]
        if len(on) > 5 and len(off) > 5:
            ratios.append(statistics.median(on) / statistics.median(off))
    return ratios


def by_turns(build, base, call, nodes, turns):
    """Ratios of this build to the other."""
    ratios = []
    for turn in range(turns):
        times = {}
        for which in (build, base) if turn % 2 else (base, build):
            seen = rounds_of(start(which, call, nodes, 2))
            times[which] = statistics.median(ns for _, ns in seen)
        ratios.append(times[build] / times[base])
    return ratios


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--base", type=Path, help="a build without it, with bin/bench/paced")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", help="rows whose name begins so, such as 2.get_8")
    parser.add_argument("--kind", choices=TARGETS, help="only this")
    parser.add_argument("--out", type=Path, default=ROOT / "out/look.json")
    given = parser.parse_args()
    trace = given.out.with_suffix(".trace")
    given.out.parent.mkdir(exist_ok=True)
    os.environ["PYTHONPATH"] = str(given.build / "python")
    skerry = given.build / "bin/skerry"
    lookers = {
        "on": lambda pid: [skerry, "trace", pid, "--seconds", "1", "--output", trace],
        "looked": lambda pid: [skerry, "top", pid, "--every", "1"],
        "attached": lambda pid: [sys.executable, ATTACHED, "read", pid],
    }
    kinds = [given.kind] if given.kind else list(TARGETS)
    result = []
    for call, nodes in ROWS:
        for kind in kinds:
            name = f"{nodes}.{call}.{kind}"
            if not name.startswith(given.only or "") or (kind == "off" and not given.base):
                continue
            if kind == "attached" and call != "compute":
                continue
            before = os.getloadavg()[0]
            program = [sys.executable, ATTACHED, "compute"] if kind == "attached" else None
            if kind == "off":
                ratios = by_turns(given.build, given.base, call, nodes, given.turns)
            else:
                ratios = beside(
                    given.build, call, nodes, given.turns, lookers[kind], program
                )
            low, middle, high = statistics.quantiles(ratios, n=4)
            load = [before, os.getloadavg()[0]]
            result.append(
                {"row": name, "ratio": middle, "middle_half": [low, high], "load": load,
                 "met": middle <= TARGETS[kind]}
            )  # fmt: skip
            print(
                f"{name:24} {middle:.3f}  ({low:.3f} to {high:.3f}, {len(ratios)} turns,"
                f" load {load[0]:.1f} to {load[1]:.1f})",
                flush=True,
            )
    trace.unlink(missing_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
