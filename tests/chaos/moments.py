#!/usr/bin/env python3
"""Kills a rank of each program that goes on at random moments, and compares the end.

    tests/chaos/moments.py [--kills N] [--seed N] [--build DIR] [PROGRAM...]

Programs of examples/python, 4 ranks on 2 virtual nodes; a leader takes its node along. A moment
lies between the first protected state and the end of a run without a kill. Kills that came when
the program was through are repeated. Rows go to out/moments.json.
"""

import argparse
import json
import os
import pathlib
import random
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = ("protected_xp_heat", "protected_tasks", "protected_heat")
RANKS, NODES, LIMIT_S = 4, 2, 300
CLOSE = 1e-9  # sums over fewer ranks have other roundings


def as_rank(folder, program, whole_bytes):
    """What each rank runs: the program, after it has said which process it is."""
    import skerry as sk
    from skerry import xp

    sk.init(on_failure="continue")
    if whole_bytes is not None:
        xp.options(whole_bytes=int(whole_bytes))
    (folder / f"pid.{sk.rank()}").write_text(str(os.getpid()))

    def tell():
        while not sk.protection().states:
            time.sleep(0.0005)
        (folder / f"ready.{sk.rank()}").touch()

    threading.Thread(target=tell, daemon=True).start()
    runpy.run_path(str(program))
    if sk.protection().recoveries:
        print(f"recovered in {sk.protection().recovery_seconds:.4f} s", flush=True)


class Run:
    """One job. `after_s`: when `victim` is killed, counted from the first state; None: never."""

    def __init__(self, build, program, after_s=None, victim=0):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="skerry-moments-"))
        command = [
            build / "bin/skerry", "run", "-n", RANKS, "--nodes", NODES, sys.executable, __file__,
            "--as-rank", self.folder, ROOT / "examples/python" / f"{program}.py",
        ]  # fmt: skip
        if "xp" in program:
            command += ["--whole-bytes", 4096]  # divided, though it is small
        environment = dict(os.environ, PYTHONPATH=str(build / "python"), OMP_NUM_THREADS="1")
        with open(self.folder / "output", "w+") as output:
            job = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env=environment,
            )  # fmt: skip
        ready = [self.folder / f"ready.{rank}" for rank in range(RANKS)]
        while job.poll() is None and not all(path.exists() for path in ready):
            time.sleep(0.001)
        begin = time.monotonic()
        self.killed = False
        if after_s is not None:
            time.sleep(after_s)
            if job.poll() is None:
                try:
                    os.kill(int((self.folder / f"pid.{victim}").read_text()), signal.SIGKILL)
                    self.killed = True
                except ProcessLookupError:
                    pass
        polls = 0  # not the clock: all of this may be stopped meanwhile
        while job.poll() is None and polls < 20 * LIMIT_S:
            time.sleep(0.05)
            polls += 1
        self.status = job.poll()
        if self.status is None:
            job.terminate()
            self.status = "hangs"
        self.seconds = time.monotonic() - begin
        self.text = (self.folder / "output").read_text()

    def numbers(self):
        """What the program says at its end, without who is dead."""
        for line in self.text.splitlines():
            if "dead: [" in line:
                return [float(each) for each in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", line)]
        return []

    def went_on(self):
        return "recovered in" in self.text


def same(a, b):
    return len(a) == len(b) > 0 and all(
        abs(x - y) <= CLOSE * max(1.0, abs(x), abs(y)) for x, y in zip(a, b, strict=True)
    )


def try_program(program, options, dice):
    plain = Run(options.build, program)
    if plain.status != 0 or not plain.numbers():
        sys.exit(f"{program} does not run:\n{plain.text}")
    kills = wrong = late = 0
    seconds = []
    while kills < options.kills and late < 5 * options.kills + 20:
        after_s, victim = dice.uniform(0, plain.seconds), dice.randrange(RANKS)
        run = Run(options.build, program, after_s, victim)
        if not run.killed or (run.status == 0 and not run.went_on()):
            late += 1  # it was through
            continue
        kills += 1
        seconds.append(float(re.search(r"recovered in ([\d.]+)", run.text)[1])
                       if run.went_on() else 0.0)  # fmt: skip
        if run.status != 0 or not same(run.numbers(), plain.numbers()):
            wrong += 1
            print(f"{program}: rank {victim} killed after {after_s:.3f} s: status {run.status}")
            print("    " + "\n    ".join(run.text.splitlines()), flush=True)
    middle = sorted(seconds)[len(seconds) // 2] if seconds else 0.0
    print(
        f"{program}: {kills} kills, {wrong} wrong; recovered in {middle:.3f} s (median), "
        f"{max(seconds, default=0.0):.3f} s at most; {late} came too late",
        flush=True,
    )
    return {"program": program, "kills": kills, "wrong": wrong, "late": late,
            "recovery_seconds": seconds}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--kills", type=int, default=20, help="of each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "moments.json")
    parser.add_argument("--as-rank", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--whole-bytes", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_rank:
        return as_rank(options.as_rank, options.programs[0], options.whole_bytes)
    options.build = options.build.resolve()
    print(f"seed {options.seed}", flush=True)
    dice = random.Random(options.seed)
    rows = [try_program(program, options, dice) for program in options.programs]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"seed": options.seed, "rows": rows}, indent=1) + "\n")
    return 1 if any(row["wrong"] or row["kills"] < options.kills for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
