#!/usr/bin/env python3
"""Of a job that is stuck, every rank's wait is told by name.

    tests/soak/waits_test.py --build DIR
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import soak
import waits

EXPECTED = {
    0: "counter 8 of segment",  # a notification
    1: "lock 0 of rank 0",
    2: "wait_granted, node 0",  # the same lock, asked of another node
    3: "counter ",  # a barrier
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    build = parser.parse_args().build
    job = subprocess.Popen(
        [build / "bin/skerry", "run", "-n", "4", "--nodes", "2", build / "bin/tests/stuck"],
        start_new_session=True,
    )
    seen = {}
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end and job.poll() is None:
            lines = [waits.of_process(pid) for pid in soak.processes_of(job.pid)]
            seen = {rank: [x for x in lines if x.startswith(f"rank {rank} ")] for rank in EXPECTED}
            if all(any(EXPECTED[rank] in x for x in seen[rank]) for rank in EXPECTED):
                print("\n".join(line for lines in seen.values() for line in lines))
                return 0
            time.sleep(0.2)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    print(f"a rank does not tell what it waits for: {seen}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
