"""A density-functional calculation on several processes and nodes, over distributed or mirrored arrays.

    skerry run -n 4 --nodes 2 python examples/dft/dft.py --arrays both

Every rank runs this file. The energy is compared with PySCF's own, computed in a separate process afterwards (or before, and given
with --reference). Results go to --json.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # one thread per rank; libraries read it when they are loaded

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import going_on
import molecule
import reference
import report
import scf
from batches import Basis, cut
from coulomb import Coulomb
from exchange_correlation import LocalDensity

MODES = ("distributed", "mirrored")


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reference.add_settings(parser)
    parser.add_argument("--arrays", choices=(*MODES, "both"), default="both")
    parser.add_argument(
        "--batch", type=int, default=256, help="most grid points in a batch (default: %(default)s)"
    )
    parser.add_argument(
        "--ahead",
        type=int,
        default=6,
        help="batches whose density is asked for before it is needed (default: %(default)s)",
    )
    parser.add_argument(
        "--cutoff",
        type=float,
        default=1e-8,
        help="a basis function below this on all points of a batch is left out (default: %(default)s)",
    )
    parser.add_argument(
        "--cache-mb",
        type=int,
        default=400,
        help="memory per rank for basis-function values (default: %(default)s)",
    )
    parser.add_argument(
        "--cycles",
        type=int,
        default=50,
        help="give up after as many iterations (default: %(default)s)",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        help="file written by reference.py; without it the reference is computed at the end",
    )
    parser.add_argument("--no-reference", action="store_true", help="compare with nothing")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--go-on", action="store_true", help="without ranks and hosts that die")
    arguments = parser.parse_args(words)
    if arguments.batch < 1:
        parser.error(f"--batch {arguments.batch}: a batch has at least one point")
    if arguments.ahead < 0:
        parser.error(f"--ahead {arguments.ahead}: must be at least 0")
    if not 0 <= arguments.cutoff < 1e-3:
        parser.error(
            f"--cutoff {arguments.cutoff}: must be at least 0 and below 1e-3 (1e-8 keeps the energy to 1e-9 Hartree)"
        )
    return arguments


def describe(arguments):
    """(atoms, PySCF molecule, functional) as asked for; MoleculeError or ValueError if that cannot be computed."""
    functional = LocalDensity(arguments.xc)
    atoms = molecule.load(arguments.xyz)
    mol = molecule.to_pyscf(atoms, arguments.basis)
    return atoms, mol, functional


def prepare(sk, arguments, mol, functional):
    """(system, mean field); rank 0 makes the grid. Collective."""
    from pyscf import df

    mean_field = reference.mean_field(mol, arguments.xc, arguments.level)
    mean_field.max_cycle = arguments.cycles
    grid = None
    if sk.rank() == 0:
        mean_field.grids.build()
        grid = np.column_stack([mean_field.grids.coords, mean_field.grids.weights])
    points = int(sk.broadcast(np.array([len(grid) if grid is not None else 0]))[0])
    grid = sk.broadcast(np.ascontiguousarray(grid) if grid is not None else np.empty((points, 4)))
    coords, weights = np.ascontiguousarray(grid[:, :3]), np.ascontiguousarray(grid[:, 3])
    auxmol = df.make_auxmol(mol, mean_field.with_df.auxbasis)
    atom_starts = [int(first) for first in mol.aoslice_by_atom()[:, 2]] + [int(mol.nao)]
    system = scf.System(
        mol=mol,
        atom_starts=atom_starts,
        orbitals=mol.nelectron // 2,
        coords=coords,
        weights=weights,
        batches=cut(coords, arguments.batch),
        functional=functional,
        coulomb=Coulomb(sk, mol, auxmol),
        cutoff=arguments.cutoff,
        ahead=arguments.ahead,
        cache_bytes=arguments.cache_mb * 10**6,
    )
    return system, mean_field


def connection_totals(sk, before=None):
    """What connections did in the whole job since `before`: sums over the ranks; and, of all time, the largest number at once. Collective."""
    own = sk.counters()
    summed = [
        "connections_opened",
        "connections_evicted",
        "connections_broken",
        "teardown_ns",
        "teardown_exposed_ns",
        "teardowns_hidden",
        "setup_ns",
        "setup_exposed_ns",
        "remote_operations",
    ]
    totals = sk.allreduce(np.array([own[name] for name in summed], dtype=np.int64))
    most = sk.allreduce(
        np.array(
            [own["connections_peak"], own["servers_known"], own["connection_bytes"]], dtype=np.int64
        ),
        "max",
    )
    if before:
        totals -= [before[name] for name in summed]
    return dict(zip(summed, map(int, totals))) | dict(
        zip(["connections_peak", "servers_known", "connection_bytes"], map(int, most))
    )


def main(words=None, after_density=None):
    arguments = parse(words)
    import skerry as sk

    sk.init(on_failure="continue" if arguments.go_on else "end")
    sk = sk.over(sk.world())  # those that live

    def say(text):
        if sk.rank() == 0:
            report.say(text)

    start = time.perf_counter()
    try:
        atoms, mol, functional = describe(arguments)
    except (ValueError, KeyError, OSError, RuntimeError) as error:
        # one message and the end of the job, whichever ranks came to it
        sk.abort(f"{type(error).__name__}: {error}", 2)
    system, mean_field = prepare(sk, arguments, mol, functional)
    sk.barrier()
    say(
        f"{molecule.formula(atoms)}: {len(atoms)} atoms, {arguments.basis}: {system.mol.nao} functions, {len(system.weights)} grid "
        f"points in {len(system.batches)} batches, {arguments.xc}"
    )
    say(
        f"{sk.size()} ranks on {sk.nodes()} nodes, fabric {sk.fabric()}; ready after {time.perf_counter() - start:.1f} s"
    )

    results, before = {}, connection_totals(sk)  # the set-up above does not count
    for mode in MODES:
        if arguments.arrays in (mode, "both"):
            say(report.header(mode))
            system.basis = Basis.of(system)
            results[mode] = (going_on if arguments.go_on else scf).solve(
                sk,
                system,
                mean_field,
                mode == "mirrored",
                lambda *row: say(report.cycle(*row)),
                after_density,
            )
            if sk.rank() == 0:
                say(report.summary(results[mode]))

    connections = connection_totals(sk, before)
    status = 0
    if sk.rank() == 0:
        found = None
        if arguments.reference:
            found = json.loads(arguments.reference.read_text())
        elif not arguments.no_reference:
            say("\nreference: unmodified pyscf.dft.RKS in a process of its own")
            path = (arguments.json or Path("out/dft.json")).with_name("reference.json")
            found = reference.in_own_process(arguments, path)
        document = report.document(arguments, system, atoms, sk, found, results) | {
            "connections": connections
        }
        say(report.comparison(document))
        if arguments.json:
            report.write(document, arguments.json)
        status = report.status(document)
    sk.finalize()
    return status


if __name__ == "__main__":
    sys.exit(main())
