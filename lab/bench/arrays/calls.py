#!/usr/bin/env python3
"""Calls from Python on two ranks of a node, beside mpi4py where it is installed: microseconds.

    calls.py [--turns 5] [--mpirun mpirun]

Turns alternate; each takes the median of seven batches, the result is the median of turns. Every
rank works on its right neighbour's memory, all at once.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

CALLS = ["get 8 B", "put 8 B + fence", "fetch-add", "allreduce 8 B", "barrier"]


def timed(call, times, meet):
    batches = []
    for _ in range(7):
        meet()
        began = time.perf_counter()
        for _ in range(times):
            call()
        batches.append((time.perf_counter() - began) / times * 1e6)
    return statistics.median(batches)


def of_skerry():
    import numpy as np
    import skerry as sk

    sk.init()
    memory, x, right = sk.Segment(4096), np.zeros(1), (sk.rank() + 1) % sk.size()

    def put():
        memory.put(right, 0, x)
        sk.fence(right)

    calls = [
        lambda: memory.get(right, 0, x), put, lambda: memory.fetch_add(right, 64, 1),
        lambda: sk.allreduce(x, out=x), sk.barrier,
    ]  # fmt: skip
    return sk.rank(), calls, sk.barrier


def of_mpi():
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    window = MPI.Win.Allocate(4096, comm=world)
    x, y, right = np.zeros(1), np.zeros(1), (world.rank + 1) % world.size
    one, before = np.ones(1, "i8"), np.zeros(1, "i8")
    window.Lock_all()

    def get():
        window.Get(x, right)
        window.Flush(right)

    def put():
        window.Put(x, right)
        window.Flush(right)

    def add():
        window.Fetch_and_op(one, before, right, 64)
        window.Flush(right)

    return world.rank, [get, put, add, lambda: world.Allreduce(x, y), world.Barrier], world.Barrier


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5, help="of which the median (%(default)s)")
    parser.add_argument("--mpirun", default="mpirun", help="of mpi4py's MPI (%(default)s)")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        rank, calls, meet = of_skerry() if options.side == "skerry" else of_mpi()
        took = [timed(each, 20_000 if i < 3 else 4_000, meet) for i, each in enumerate(calls)]
        if rank == 0:
            print(*took, flush=True)
        return
    launcher = Path(__file__).resolve().parents[3] / "build/bin/skerry"
    starts = {
        "skerry": [str(launcher) if launcher.exists() else "skerry", "run", "-n", "2"],
        "mpi4py": [options.mpirun, "-n", "2"],
    }
    found = {side: [] for side in starts}
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    for _ in range(options.turns):
        for side, start in starts.items():
            command = [*start, sys.executable, __file__, "--side", side]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode == 0:
                found[side].append([float(each) for each in done.stdout.split()[-len(CALLS) :]])
            elif side == "skerry":
                sys.exit(done.stderr)
    print(f"load {os.getloadavg()[0]:.1f}, microseconds" + " " * 6, *found, sep="  ")
    for i, name in enumerate(CALLS):
        cells = [f"{statistics.median(t[i] for t in got):8.2f}" if got else "       -"
                 for got in found.values()]  # fmt: skip
        print(f"{name:26}", *cells)


main()
