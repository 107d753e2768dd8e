#!/usr/bin/env python3
"""Runs storms and tests of operations in random shapes, one after another: every sum is exact.

    tests/soak/soak.py [--minutes M] [--seed N] [--jobs N] [--build DIR] [--fabric NAME]
    tests/soak/soak.py --again SEED

A shape is a number of ranks, nodes and threads, of data servers of a node, a cap on connections of
processes and of data servers, sharing, clusters of data servers and their budget, broken
connections, a victim policy, a lock protocol, few completion slots, the helper thread or none. A
job that is stuck (no end within --limit-s) or wrong is printed with the seed and the command that
runs it again; of a stuck one, each process's stacks too where gdb is installed. Ends with
`N passed, N failed, N skipped`. Standard library only.
"""

import argparse
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


SECTIONS = "segments transfer words notify collectives groups mutexes windows errors litmus stream"
LOCKS = "fair two_sided one_sided hybrid queue cohort asymmetric reader_writer".split()


def draw(seed, fabric):
    """The shape of one job: (words after `skerry run`, variables). STORM and OPS stand for the
    programs."""
    dice = random.Random(seed)
    nodes = dice.randint(1, 6)
    ranks = dice.randint(nodes, min(8, 3 * nodes))
    threads = dice.choice([1, 1, 2, 4])
    variables = {
        "SKERRY_MAX_CONN": dice.choice([0, 1, 1, 2, 3]),
        "SKERRY_SERVER_MAX_CONN": dice.choice([0, 0, 1, 2]),
        "SKERRY_SHARE": dice.choice([0, 0, 1]),
        "SKERRY_VICTIM": dice.choice(["lru", "lru_m", "reuse", "adaptive"]),
        "SKERRY_SLOTS": dice.choice([16, 32, 256]),
        "SKERRY_PROGRESS_THREAD": dice.choice([0, 1, 1, 1]),
    }
    if variables["SKERRY_SHARE"]:
        variables["SKERRY_NODE_MAX_CONN"] = dice.choice([0, 1, 2])
    drops = dice.choice([0, 0, 500, 3000])
    more = random.Random(~seed)
    variables["SKERRY_CLUSTER_SIZE"] = more.choice([1, 1, 2, 3, "sqrt", "auto"])
    if more.random() < 0.3:
        variables["SKERRY_SERVER_BUDGET"] = more.choice(["300K", "1M", "16M"])
    variables["SKERRY_LOCK"] = more.choice(LOCKS)
    if drops:
        variables["SKERRY_FAULTS"] = f"drop={drops},seed={seed}"
    if fabric:
        variables["SKERRY_FABRIC"] = fabric
    servers = random.Random(~seed - 1).choice([1, 1, 2, 3])
    if servers > 1:
        variables["SKERRY_SERVERS"] = servers
    operations = dice.choice([300, 1000, 3000] if drops else [300, 3000, 10000]) // threads
    words = ["-n", ranks, "--nodes", nodes]
    if more.random() < 0.3:
        sections = ",".join(more.sample(SECTIONS.split(), 2))
        return words + ["OPS", sections, "--seed", seed], variables
    words += ["STORM", "--seed", seed, "--threads", threads]
    return words + ["--epochs", 2, "--operations", operations], variables


def command_of(seed, options):
    words, variables = draw(seed, options.fabric)
    programs = {name: options.build / "bin/tests" / name.lower() for name in ("STORM", "OPS")}
    words = [str(programs.get(word, word)) for word in words]
    environment = {name: str(value) for name, value in variables.items()}
    return [str(options.build / "bin" / "skerry"), "run", *words], environment


def processes_of(group):
    """Process ids of the process group and of those below it."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,pgid="], capture_output=True, text=True)
    rows = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found = {pid for pid, _, pgid in rows if pgid == group}
    while more := {pid for pid, parent, _ in rows if parent in found} - found:
        found |= more
    return sorted(found)


def stacks(group):
    if shutil.which("gdb") is None:
        return "(gdb is not installed: no stacks)\n"
    text = ""
    for pid in processes_of(group):
        shown = subprocess.run(
            ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        text += f"--- process {pid}\n{shown.stdout}\n"
    return text


def run(seed, options):
    """(seed, None) or (seed, what went wrong)."""
    command, variables = command_of(seed, options)
    process = subprocess.Popen(
        command, env=dict(os.environ, **variables), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        text, _ = process.communicate(timeout=options.limit_s)
    except subprocess.TimeoutExpired:
        seen = stacks(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        return seed, f"stuck for {options.limit_s} s\n{text}{seen}"
    is_storm = any(word.endswith("/storm") for word in command)
    if process.returncode != 0 or (is_storm and "every sum exact" not in text):
        return seed, f"status {process.returncode}\n{text}"
    return seed, None


def again(seed, options):
    command, variables = command_of(seed, options)
    return " ".join([f"{k}={shlex.quote(v)}" for k, v in variables.items()] + command)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="start jobs for so long (1)")
    parser.add_argument("--seed", type=int, default=None, help="of the first shape (the time)")
    parser.add_argument("--jobs", type=int, default=2, help="at a time (2)")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--fabric", default=None, help="SKERRY_FABRIC: tcp, ofi (tcp)")
    parser.add_argument("--limit-s", type=float, default=120, help="a job is stuck after (120)")
    parser.add_argument("--again", type=int, default=None, help="run this seed's shape alone")
    return parser.parse_args()


def soak(options):
    """Counts of (passed, failed)."""
    seed = options.seed if options.seed is not None else int(time.time())
    load = os.getloadavg()[0]
    print(f"soak: {options.minutes} min from seed {seed}, load {load:.1f}", flush=True)
    end = time.monotonic() + 60 * options.minutes
    passed = failed = 0
    told = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        running = set()
        while running or time.monotonic() < end:
            while len(running) < options.jobs and time.monotonic() < end:
                running.add(pool.submit(run, seed, options))
                seed += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                bad, why = one.result()
                passed, failed = passed + (why is None), failed + (why is not None)
                if why is not None:
                    print(f"FAILED seed {bad}: {again(bad, options)}\n{why}", flush=True)
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"  {passed} exact, {failed} failed, now at seed {seed}", flush=True)
    return passed, failed


def main():
    options = parse()
    options.build = options.build.resolve()
    if not (options.build / "bin" / "tests" / "storm").exists():
        print(f"soak.py: no {options.build}/bin/tests/storm: build first", file=sys.stderr)
        return 2
    if options.again is not None:
        print(again(options.again, options))
        _, why = run(options.again, options)
        print(why or "right")
        return 0 if why is None else 1
    passed, failed = soak(options)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
