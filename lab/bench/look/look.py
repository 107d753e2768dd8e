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
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tests"), str(ROOT / "lab/bench/micro")]
import running  # noqa: E402
from harness.report import publish  # noqa: E402

CALLS = ["put_8", "get_8", "fetch_add", "acc_8", "get_64k", "put_fence_8"]
ROWS = [(call, nodes) for nodes in (1, 2) for call in CALLS] + [("compute", 1)]
TARGETS = {"off": 1.01, "on": 1.02, "looked": 1.02, "attached": 1.02}
ATTACHED = Path(__file__).with_name("attached.py")


class Job:
    """One of two ranks that says how fast it is. Its lines go to a file, so that it never waits for
    a reader."""

    def __init__(self, build, call, nodes, seconds, program=None):
        program = program or [build / "bin/bench/paced", call]
        self.output = tempfile.TemporaryFile("w+")
        words = [build / "bin/skerry", "run", "-n", 2, "--nodes", nodes, *program, seconds]
        self.process = running.start(words, stdout=self.output, stderr=None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            running.end(self.process)
        self.output.close()

    def wait_until_measuring(self):
        def size_or_end():
            return os.fstat(self.output.fileno()).st_size or self.process.poll() is not None

        running.until(size_or_end, bool)

    def rounds(self):
        """When each ended, and its ns a call."""
        if status := self.process.wait():
            sys.exit(f"look.py: {self.process.args} ended with status {status}")
        self.output.seek(0)
        rows = [line.split() for line in self.output]
        return [(int(end), float(ns)) for end, _, ns in rows]


def beside(build, call, nodes, turns, looker, program=None):
    """Ratios of one job, while `looker` comes and goes."""
    with Job(build, call, nodes, 2 * turns + 3, program) as job:
        job.wait_until_measuring()
        time.sleep(0.6)  # the seconds without a looker before the first turn
        spans = []
        for _ in range(turns):
            begin = time.monotonic_ns()
            words = looker(job.process.pid)
            with running.started(words, stdout=subprocess.DEVNULL, grace_s=2) as look:
                time.sleep(1)
                end = time.monotonic_ns()
                if "trace" in words:
                    look.wait()  # it writes its file, a moment that counts neither way
            spans.append((begin, end, time.monotonic_ns()))
            time.sleep(1)
        seen = job.rounds()
    ratios = []
    for begin, end, gone in spans:
        on = [ns for at, ns in seen if begin + 7e7 < at < end - 5e7]
        off = [ns for at, ns in seen if begin - 5e8 < at < begin or gone + 1e8 < at < gone + 6e8]
        if len(on) > 5 and len(off) > 5:
            ratios.append(statistics.median(on) / statistics.median(off))
    return ratios


def by_turns(build, base, call, nodes, turns):
    """Ratios of this build to the other."""
    ratios = []
    for turn in range(turns):
        times = {}
        for which in (build, base) if turn % 2 else (base, build):
            with Job(which, call, nodes, 2) as job:
                times[which] = statistics.median(ns for _, ns in job.rounds())
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
    given.out.parent.mkdir(parents=True, exist_ok=True)
    trace = given.out.with_suffix(".trace")
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
            spread = f"{low:.3f} to {high:.3f}, {len(ratios)} turns"
            load = f"{before:.1f} to {os.getloadavg()[0]:.1f}"
            result.append(
                {"name": name, "value": middle, "unit": "times", "target": TARGETS[kind],
                 "met": middle <= TARGETS[kind], "middle half": spread, "load": load}
            )  # fmt: skip
            print(f"{name:24} {middle:.3f}  ({spread}, load {load})", flush=True)
    trace.unlink(missing_ok=True)
    publish(given.out, result, [], columns=("middle half", "load"))


if __name__ == "__main__":
    main()
