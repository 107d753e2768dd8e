#!/usr/bin/env python3
"""Files of arrays beside h5py and NumPy, on one rank and on several: seconds, alternating.

    files.py [--megabytes 512] [--turns 5] [--ranks 1,2]

Each turn writes and reads one array in each format, first by the library alone in one process, then
by jobs of Skerry; files lie in the page cache. Prints medians and their ratio to the library's.
Needs h5py. `skerry run` must be in PATH, or build/bin beside this repository's root.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORMATS = "h5", "npy", "npz"


def by_library(path, x):
    """Seconds to write and to read."""
    import h5py
    import numpy as np

    began = time.perf_counter()
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["array"] = x
    else:
        (np.save if path.suffix == ".npy" else np.savez)(path, x)
    wrote = time.perf_counter()
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            found = file["array"][...]
    else:
        found = np.load(path)
        found = found["arr_0"] if path.suffix == ".npz" else found
    read = time.perf_counter()
    assert found[-1, -1] == x[-1, -1]
    return wrote - began, read - wrote


def by_skerry(path, a):
    import skerry as sk

    sk.sync()
    began = time.perf_counter()
    sk.save(a, path)
    wrote = time.perf_counter()
    b = sk.load(path)
    read = time.perf_counter()
    assert b.local.size == 0 or b.local[-1, -1] == a.local[-1, -1]
    b.free()
    return wrote - began, read - wrote


def turn(side, n, folder):
    """What one process, or one job, does in a turn."""
    import numpy as np

    rank = 0
    if side == "library":
        x = np.random.default_rng(1).random((n, n))
    else:
        import skerry as sk

        sk.init()
        rank, x = sk.rank(), sk.empty((n, n))
        x.local[...] = np.random.default_rng(1 + rank).random(x.local.shape)
    for suffix in FORMATS:
        path = Path(folder) / f"x.{suffix}"
        for i in range(2):  # the first time memory and code are touched
            seconds = by_library(path, x) if side == "library" else by_skerry(path, x)
        if rank == 0:
            print(suffix, *seconds, flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=512, help="of the array (%(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="of which the median (%(default)s)")
    parser.add_argument("--ranks", default="1,2", help="numbers of ranks (%(default)s)")
    parser.add_argument("--folder", help="where the files go (default: the system's)")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    n = int((options.megabytes * 2**20 / 8) ** 0.5)
    if options.side:
        turn(options.side, n, options.folder)
        return
    root = Path(__file__).resolve().parents[3]
    launcher = root / "build/bin/skerry"
    launcher = str(launcher) if launcher.exists() else "skerry"
    seconds = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for _ in range(options.turns):
            for side in ["library", *options.ranks.split(",")]:
                command = [sys.executable, __file__, "--side", side, "--folder", folder]
                command += ["--megabytes", str(options.megabytes)]
                if side != "library":
                    command = [launcher, "run", "-n", side, *command]
                told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                for line in told.splitlines():
                    suffix, wrote, read = line.split()
                    seconds.setdefault((suffix, "write", side), []).append(float(wrote))
                    seconds.setdefault((suffix, "read", side), []).append(float(read))
    print(f"{n * n * 8 >> 20} MiB, load {os.getloadavg()[0]:.1f}, seconds (ratio)")
    for suffix in FORMATS:
        for what in "write", "read":
            base = statistics.median(seconds[suffix, what, "library"])
            cells = [f"library {base:.3f}"]
            for side in options.ranks.split(","):
                mine = statistics.median(seconds[suffix, what, side])
                cells.append(f"{side} ranks {mine:.3f} ({mine / base:.2f})")
            print(f"{suffix:4} {what:6}", *cells, sep="  ")


main()
