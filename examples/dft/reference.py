"""The reference: unmodified pyscf.dft.RKS with density fitting and the same settings, in a process of its own.

python reference.py --json out/reference.json [--basis ... --xyz ... --xc ... --level ...]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import molecule


def add_settings(parser):
    """The settings that decide the energy, shared by all programs of the example."""
    parser.add_argument(
        "--xyz", type=Path, help="molecule in Angstrom (default: the zeolite fragment Si8O7H18)"
    )
    parser.add_argument(
        "--basis", default="6-31G*", help="basis set, as PySCF names it (default: %(default)s)"
    )
    parser.add_argument(
        "--xc", default="lda,vwn", help="local density functional (default: %(default)s)"
    )
    parser.add_argument(
        "--level", type=int, default=1, choices=range(10), help="grid level (default: %(default)s)"
    )


def settings(arguments):
    """The same settings as a command line."""
    words = ["--basis", arguments.basis, "--xc", arguments.xc, "--level", str(arguments.level)]
    return words + (["--xyz", str(arguments.xyz)] if arguments.xyz else [])


def mean_field(mol, xc, level):
    """PySCF's density-fitted RKS, as a user would write it."""
    from pyscf import dft

    result = dft.RKS(mol)
    result.xc = xc
    result = result.density_fit()
    result.grids.level = level
    result.conv_tol = 1e-10
    result.chkfile = None
    return result


def in_own_process(arguments, path, threads=None):
    """Runs this file as a program and returns what it found."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SKERRY_", "PMI", "OMPI_"))
    }
    environment["OMP_NUM_THREADS"] = str(threads or len(os.sched_getaffinity(0)))
    subprocess.run(
        [sys.executable, __file__, "--json", str(path), *settings(arguments)],
        env=environment,
        check=True,
    )
    return json.loads(Path(path).read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_settings(parser)
    parser.add_argument("--json", type=Path, required=True, help="where to write the energy")
    arguments = parser.parse_args()
    job = mean_field(
        molecule.to_pyscf(molecule.load(arguments.xyz), arguments.basis),
        arguments.xc,
        arguments.level,
    )
    start = time.perf_counter()
    energy = float(job.kernel())
    found = {
        "reference_hartree": energy,
        "converged": bool(job.converged),
        "iterations": int(job.cycles),
        "seconds": time.perf_counter() - start,
    }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
