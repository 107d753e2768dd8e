#!/usr/bin/env python3
"""Records the requests of a real job (libskerry_recorder.so) and lets the simulator run on them: it must evict about as often as the job did.

    tests/trace_check.py [--build DIR]

Not exactly as often: when a connection is drained, and so which one is spared, depends on time. Standard library only.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RANKS = 8


def run(command, limit_s=120, **environment):
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=limit_s,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        sys.exit(
            f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done


def counter(text, name):
    """Of all ranks, from what --counters printed."""
    return int(re.search(rf"^ +{name} +(\d+) ", text, re.M)[1])


def record(build, kind, cap, policy, prefix):
    """Runs the job; what its counters said."""
    program = [build / "bin/bench/acts_load", "--kind", kind, "--tasks", 40, "--compute-us", 50]
    return run(
        [build / "bin/skerry", "run", "--counters", "-n", RANKS, "--nodes", RANKS, *program],
        SKERRY_MAX_CONN=str(cap),
        SKERRY_VICTIM=policy,
        # without the helper no request queues for company, as in the simulator
        SKERRY_PROGRESS_THREAD="0",
        LD_PRELOAD=str(build / "bin/libskerry_recorder.so"),
        SKERRY_USER_TRACE=str(prefix),
    ).stderr


def count_requests(prefix):
    """Of all ranks."""
    return sum(
        not line.startswith("#") for rank in range(RANKS) for line in open(f"{prefix}.{rank}")
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        for kind, cap, policy in (("drift", 2, "lru"), ("pool", 3, "lru_m"), ("drift", 0, "lru")):
            prefix = Path(directory) / f"{kind}{cap}"
            counters = record(build, kind, cap, policy, prefix)
            lines = count_requests(prefix)
            out = Path(directory) / "sim.json"
            run(
                [
                    build / "bin/skerry-sim",
                    "--traffic",
                    "trace",
                    "--trace",
                    prefix,
                    "--caps",
                    cap,
                    "--policies",
                    policy,
                    "--out",
                    out,
                    "--quiet",
                ]
            )
            simulated = json.loads(out.read_text())["runs"][0]
            evicted, opened = (
                counter(counters, "connections_evicted"),
                counter(counters, "connections_opened"),
            )
            expected, setups = (
                simulated["teardowns"]["mean"] * RANKS,
                simulated["setups"]["mean"] * RANKS,
            )
            operations = counter(counters, "remote_operations")
            print(
                f"{kind}, cap {cap}, {policy}: {lines} requests of {operations} operations; evicted {evicted}, simulated {expected:.0f}; opened {opened}, simulated {setups:.0f}"
            )
            same = (
                abs(evicted - expected) <= 0.15 * max(evicted, expected) + RANKS
                and abs(opened - setups) <= 0.15 * max(opened, setups) + RANKS
            )
            if lines < operations / 2 or simulated["requests"] != lines or not same:
                failures += 1
                print("    does not fit")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
