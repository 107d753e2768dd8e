#!/usr/bin/env python3
"""Hosts are added to jobs whose ranks die: loops shrink, grow again, and end with the right sums.

    tests/chaos/elastic.py [--seconds S] [--seed N] [--build DIR]

Jobs of 3 to 6 ranks on 2 to 4 virtual nodes. Hosts of 1, 2 or 4 slots are written to the file of
`--elastic` at random moments; an agent command plays them on this machine. A leader takes its node
along. After each job no process, socket or file may be left. Needs no root; the program needs
NumPy.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/trouble")]
import running  # noqa: E402
from trouble import shared_files, sockets, sockets_left  # noqa: E402

PROGRAM = pathlib.Path(__file__).resolve().with_name("grows.py")
MARK = "SKERRY_USER_CHAOS"
STEPS, LIMIT_S = 120, 120


def write_hosts(file, dice, over):
    """One after the other, until the job is over."""
    for host in range(3, 9):
        if over.wait(2 * dice.random()):
            return
        with open(file, "a") as out:
            out.write(f"h{host}:{dice.choice((1, 2, 4))}\n")


def run(number, build, dice, folder):
    """(hosts added, deaths, what was wrong) of one job."""
    ranks, nodes = dice.choice(((4, 2), (6, 3), (3, 3), (4, 4)))
    spares = dice.choice((1, 2, 3)) * ranks // nodes
    hosts, marks = folder / "hosts", folder / "marks"
    hosts.write_text(dice.choice(("", "h1:2\n", "h1:2\nh2:2\n")))
    marks.mkdir()
    command = [
        build / "bin/skerry", "run", "-n", ranks, "--nodes", nodes, "--spares", spares,
        "--elastic", hosts, "--agent", ROOT / "tests/soak/here.sh", "--interface", "lo",
        "--timeout", LIMIT_S, sys.executable, PROGRAM, dice.randrange(10**6), STEPS, marks,
    ]  # fmt: skip
    before, files, mark = sockets(), shared_files(), f"{os.getpid()}.{number}"
    settings = {MARK: mark, "PYTHONPATH": str(build / "python"), "OMP_NUM_THREADS": "1"}
    over = threading.Event()
    writer = threading.Thread(target=write_hosts, args=(hosts, random.Random(number), over))
    writer.start()
    try:
        job = subprocess.run(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=2 * LIMIT_S,
            env={**os.environ, **settings},
        )  # fmt: skip
    finally:
        over.set()
        writer.join()
    ends = [int(line.split()[-1]) for line in job.stdout.splitlines() if "right in" in line]
    left = [running.marked(f"{MARK}={mark}"), sockets_left(before, f"{MARK}={mark}"),
            [each for each in shared_files() - files if "skerry" in each]]  # fmt: skip
    is_right = job.returncode == 0 and ends == ends[:1] * len(ends) and ends[:1] == [len(ends)]
    wrong = "" if is_right and not any(left) else f"{command}\nleft: {left}\n{job.stdout}"
    return job.stdout.count("is added, with"), job.stdout.count("was killed"), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=120, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    jobs = added = deaths = wrongs = 0
    until = time.monotonic() + options.seconds
    while time.monotonic() < until and not wrongs:
        with tempfile.TemporaryDirectory(prefix="skerry-elastic-") as folder:
            more, dead, wrong = run(jobs, options.build.resolve(), dice, pathlib.Path(folder))
        jobs, added, deaths, wrongs = jobs + 1, added + more, deaths + dead, wrongs + bool(wrong)
        if wrong:
            print(f"wrong: {wrong}", flush=True)
    print(f"{jobs} jobs, {added} hosts added, {deaths} deaths, {wrongs} wrong")
    return 1 if wrongs or not added or not deaths else 0


if __name__ == "__main__":
    sys.exit(main())
