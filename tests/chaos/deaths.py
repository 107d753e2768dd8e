#!/usr/bin/env python3
"""Ranks of jobs that go on die at any moment until so many have died: spares take their places, and
every operation of those that live is exact.

    tests/chaos/deaths.py [--deaths N] [--seed N] [--build DIR]

Jobs of 8 to 16 ranks on 2 to 8 virtual nodes, with 4 to 8 spares. The ranks of `refill` draw their
deaths themselves, and others are killed from here; those of `steps` die by themselves. A leader
takes its node along. After each job no process, socket or file may be left. Rows go to
out/deaths.json. Needs no root. Standard library only.
"""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/trouble")]
import running  # noqa: E402
from trouble import shared_files, sockets, sockets_left  # noqa: E402

MARK = "SKERRY_USER_CHAOS"
LIMIT_S = 240


def ranks_of(job, program):
    """Process numbers of the job's ranks."""
    found = []
    for pid in running.marked(f"{MARK}={job}"):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == os.fsencode(program):
            found.append(pid)
    return found


def run(number, build, dice):
    """One job: a row of what came of it."""
    name = dice.choice(("refill", "refill", "refill", "steps"))
    program = build / "bin/tests" / name
    ranks, spares = dice.randrange(8, 17), dice.randrange(4, 9)
    nodes = dice.choice([n for n in (2, 3, 4, 6, 8) if n <= ranks])
    if name == "steps":  # its blocks divide by 8
        ranks, nodes, spares = 8, dice.choice((4, 8)), 4
    row = {"program": name, "ranks": ranks, "nodes": nodes, "spares": spares, "killed": 0}
    command = [build / "bin/skerry", "run", "-n", ranks, "--nodes", nodes, "--spares", spares,
               program, spares, spares]  # fmt: skip
    before, files, mark = sockets(), shared_files(), f"{os.getpid()}.{number}"
    with tempfile.NamedTemporaryFile("w+", prefix="skerry-deaths-") as output:
        job = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, env=dict(os.environ, **{MARK: mark}),
        )  # fmt: skip
        text = pathlib.Path(output.name)
        wanted = dice.randrange(3) if name == "refill" else 0
        polls = 0  # not the clock: all of this may be stopped meanwhile
        while job.poll() is None and polls < 500 * LIMIT_S:
            time.sleep(0.002)
            polls += 1
            # All have joined: one has died, and the job has gone on.
            if row["killed"] < wanted and "the job goes on" in text.read_text(errors="replace"):
                there = ranks_of(mark, program)
                if there and dice.random() < 0.2:
                    os.kill(dice.choice(there), signal.SIGKILL)
                    row["killed"] += 1
        said = text.read_text(errors="replace")
        row["status"] = job.poll()
        if row["status"] is None:
            row["status"] = "hangs"
            job.terminate()
            try:
                job.wait(30)
            except subprocess.TimeoutExpired:  # its row says that it hangs; its ranks end with it
                job.kill()
                job.wait()
            said = text.read_text(errors="replace")
    if name == "steps":
        row["deaths"] = said.count("the job goes on")
    else:
        row["deaths"] = max(map(int, re.findall(r"steps without (\d+)", said)), default=0)
    left = [running.marked(f"{MARK}={mark}"), sockets_left(before, f"{MARK}={mark}"),
            [each for each in shared_files() - files if "skerry" in each]]  # fmt: skip
    ended = said.count(" ends in a group of ")
    row["wrong"] = "wrong:" in said or row["status"] != 0 or ended == 0 or any(left)
    if row["wrong"]:
        row["text"] = said
        print(f"wrong: {' '.join(map(str, command))}\nleft: {left}\n{said}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--deaths", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "deaths.json")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    rows = []
    while sum(row["deaths"] for row in rows) < options.deaths and len(rows) < options.deaths:
        rows.append(run(len(rows), options.build.resolve(), dice))
    deaths, wrong = sum(row["deaths"] for row in rows), sum(row["wrong"] for row in rows)
    print(f"{len(rows)} jobs, {deaths} deaths, {wrong} wrong")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"seed": options.seed, "rows": rows}, indent=1) + "\n")
    return 1 if wrong or deaths < options.deaths else 0


if __name__ == "__main__":
    sys.exit(main())
