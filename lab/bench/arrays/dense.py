#!/usr/bin/env python3
"""Factorisations of one large matrix beside ScaLAPACK's and NumPy's, in turns: milliseconds.

    lab/bench/arrays/dense.py [--n 2000] [--ranks 4] [--block 64] [--turns 3]

ScaLAPACK is Debian's (libscalapack-openmpi-dev) with OpenMPI and its BLAS; NumPy runs on one rank.
One thread a rank. Each turn takes the least of 3 rounds; the table has the medians of the turns.
Without ScaLAPACK or OpenMPI it says so and leaves that column out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ROUNDS = 3
NAMES = ["cholesky", "lu", "solve", "qr"]


def matrices(numpy, n):
    """A matrix and a symmetric, positive definite one, as in dense_scalapack.c."""
    i = numpy.arange(n)[:, None]
    j = numpy.arange(n)
    value = (i * 313 + j * 991 + i * j % 1009) / 65536.0
    a = value - numpy.floor(value) + n * numpy.eye(n)
    return a, (a + a.T) / 2


def work(n):
    """Times NumPy, or skerry.numpy in a job of several ranks; rank 0 prints lines of JSON."""
    import numpy

    import skerry as sk
    import skerry.numpy as snp

    sk.init()
    np = numpy if sk.size() == 1 else snp
    given, positive = matrices(numpy, n)
    a, s, b = np.array(given), np.array(positive), np.array(numpy.ones(n))
    calls = [
        lambda: np.linalg.cholesky(s),
        lambda: np.linalg.slogdet(a),  # nothing but LU takes long in it
        lambda: np.linalg.solve(a, b),
        lambda: np.linalg.qr(a, mode="r"),
    ]
    for name, call in zip(NAMES, calls, strict=True):
        best = 1e9
        for _ in range(ROUNDS):
            sk.sync()
            begin = time.perf_counter()
            call()
            sk.sync()
            best = min(best, time.perf_counter() - begin)
        if sk.rank() == 0:
            print(json.dumps({"name": name, "seconds": best}), flush=True)


def scalapack(folder):
    """The program; None, and why, if there is none."""
    program = Path(folder) / "dense_scalapack"
    command = ["mpicc.openmpi", "-O2", HERE / "dense_scalapack.c", "-o", program,
               "-lscalapack-openmpi", "-lopenblas", "-lm"]  # fmt: skip
    try:
        subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
        return program
    except (OSError, subprocess.SubprocessError) as error:
        print(f"no ScaLAPACK: {(getattr(error, 'stderr', None) or str(error))[-300:]}")
        return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=2000, help="rows and columns (%(default)s)")
    parser.add_argument("--ranks", type=int, default=4, help="%(default)s")
    parser.add_argument("--block", type=int, default=64, help="of ScaLAPACK (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="%(default)s")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.n)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "PYTHONPATH": str(ROOT / "build" / "python")}  # fmt: skip
    own = [sys.executable, __file__, "--work", "--n", options.n]
    launcher = ROOT / "build" / "bin" / "skerry"
    starts = {"skerry": [launcher, "run", "-n", options.ranks, *own], "numpy": own}
    with tempfile.TemporaryDirectory() as folder:
        program = scalapack(folder)
        if program is not None:
            starts["scalapack"] = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none",
                                   "-n", options.ranks, program, options.n, options.block,
                                   ROUNDS]  # fmt: skip
        found = {side: {name: [] for name in NAMES} for side in starts}
        for _ in range(options.turns):
            for side, start in starts.items():
                done = subprocess.run([str(word) for word in start], env=environment,
                                      capture_output=True, text=True, timeout=600)  # fmt: skip
                if done.returncode:
                    sys.exit(f"{side}: {done.stderr[-600:]}")
                for line in done.stdout.splitlines():
                    if line.startswith("{"):
                        told = json.loads(line)
                        found[side][told["name"]].append(told["seconds"] * 1e3)
    print(f"{options.n} x {options.n}, {options.ranks} ranks, load {os.getloadavg()[0]:.1f}: "
          "milliseconds")  # fmt: skip
    print(f"{'':10}" + "".join(f"{side:>12}" for side in starts))
    for name in NAMES:
        cells = [statistics.median(found[side][name]) for side in starts]
        print(f"{name:10}" + "".join(f"{cell:12.1f}" for cell in cells))
    return None


if __name__ == "__main__":
    main()
