"""The demonstration: the zeolite fragment on 4 ranks and 2 virtual nodes, distributed and mirrored, checked against PySCF.

    python examples/dft/demo.py

Writes out/demo.json and out/demo.png. Virtual nodes share no memory, but one machine's cores: the saving shown here is in bytes and
operations between nodes, not in time.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import launch
import reference
import report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reference.add_settings(parser)
    parser.add_argument("-n", "--ranks", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=2, help="virtual nodes (default: %(default)s)")
    parser.add_argument("--arrays", choices=("distributed", "mirrored", "both"), default="both")
    parser.add_argument(
        "--out",
        type=Path,
        default=launch.REPOSITORY / "out",
        help="directory for demo.json and demo.png",
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    results, figure, expected = (
        arguments.out / name for name in ("demo.json", "demo.png", "reference.json")
    )
    results.unlink(missing_ok=True)  # an old result is not this run's
    command = launch.launcher()

    print(
        "reference: unmodified pyscf.dft.RKS, density-fitted, in a process of its own (about a minute) ...",
        flush=True,
    )
    began = time.monotonic()
    found = reference.in_own_process(arguments, expected)
    calculated = time.monotonic()
    print(
        f"PySCF: {found['reference_hartree']:.10f} Hartree after {found['iterations']} iterations, {found['seconds']:.0f} s\n",
        flush=True,
    )

    command += [
        "run",
        "-n",
        str(arguments.ranks),
        "--nodes",
        str(arguments.nodes),
        sys.executable,
        str(launch.HERE / "dft.py"),
    ]
    command += [
        *reference.settings(arguments),
        "--arrays",
        arguments.arrays,
        "--reference",
        str(expected),
        "--json",
        str(results),
    ]
    status = subprocess.run(command, env=launch.environment()).returncode
    ended = time.monotonic()
    if results.exists():
        report.draw(json.loads(results.read_text()), figure)
        print(
            f"\ntime: reference {calculated - began:.0f} s, "
            f"Skerry's job {ended - calculated:.0f} s, figure {time.monotonic() - ended:.0f} s\n"
            f"written: {results} and {figure}"
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
