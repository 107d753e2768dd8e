"""The self-consistent cycle: PySCF's own driver on rank 0, whose Kohn-Sham matrices all ranks compute.

Rank 0 mixes (DIIS), diagonalises and decides when to stop; the others wait for its word and take their share of each matrix.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import blocks
from clock import PHASES, interface_bytes
from kohn_sham import STEPS, KohnSham

# What rank 0 broadcasts before each round.
STOP, FROM_ORBITALS, FROM_DENSITY = 0, 1, 2


@dataclass
class System:
    """What every rank knows and both modes share."""

    mol: Any  # PySCF molecule
    atom_starts: list[int]  # first basis function of each atom, and their number at the end
    orbitals: int  # columns of g_C: occupied orbitals
    coords: np.ndarray  # of grid points, Bohr
    weights: np.ndarray
    batches: list[np.ndarray]  # indices of grid points
    functional: Any
    coulomb: Any
    cutoff: float  # of basis functions on a batch
    ahead: int  # batches whose density is asked for before it is needed
    cache_bytes: int  # for basis-function values, per rank
    basis: Any = None  # these values; whichever ranks take part, they stay


def solve(sk, system, mean_field, mirrored, progress=None, after_density=None, guess=None):
    """One self-consistent calculation; collective. Returns its results on rank 0, None elsewhere.

    `mean_field` is a converged-to-be PySCF RKS object, which rank 0 alone uses;
    `progress(cycle, energy, change, steps_seconds)` is called there after each cycle; `guess` is
    an array with the lower triangle of the density to begin with (None: PySCF's own).
    """
    kohn_sham = KohnSham(sk, system, mirrored)
    kohn_sham.after_density = after_density
    sk.barrier()
    interface_start = interface_bytes()
    start = time.perf_counter()
    if sk.rank() == 0:
        begin = None if guess is None else blocks.symmetric(guess.get())
        outcome = lead(sk, kohn_sham, mean_field, progress, begin)
    else:
        outcome = serve(sk, kohn_sham)
    sk.sync()
    total = time.perf_counter() - start
    kohn_sham.count_("other")
    on_wire = interface_bytes() - interface_start
    results = gather(sk, kohn_sham, on_wire)
    kohn_sham.free()
    if outcome is None:
        return None
    results["seconds"]["total"] = total
    return outcome | results


def serve(sk, kohn_sham):
    while (word := int(sk.broadcast(np.zeros(1, "int64"))[0])) != STOP:
        kohn_sham.evaluate(density_given=word == FROM_DENSITY)


def lead(sk, kohn_sham, mean_field, progress, guess):
    cycles = []
    parallel = parallel_class(type(mean_field))(sk, kohn_sham, mean_field)
    last = [None]

    def callback(state):
        energy = float(state["e_tot"])
        cycles.append(energy)
        if progress:
            progress(
                len(cycles),
                energy,
                None if last[0] is None else energy - last[0],
                kohn_sham.steps_seconds[-1],
            )
        last[0] = energy

    parallel.callback = callback
    # if it raises, this rank ends, and the job with it: the other ranks may be anywhere
    energy = float(parallel.kernel(guess))
    sk.broadcast(np.array([STOP]))
    return {
        "energy_hartree": energy,
        "converged": bool(parallel.converged),
        "iterations": int(parallel.cycles),
        "electrons": parallel.electrons_,
        "energies_hartree": cycles,
    }


def parallel_class(base):
    class ParallelRKS(base):
        """PySCF's RKS with its two-electron matrix computed by all ranks."""

        def __init__(self, sk, kohn_sham, mean_field):
            self.__dict__.update(mean_field.__dict__)
            self.sk_, self.kohn_sham_ = sk, kohn_sham
            self.electrons_ = 0.0  # the density's integral over the grid, at the last call
            self.direct_scf = False  # a new matrix every time, no increments

        def get_veff(self, mol=None, dm=None, dm_last=None, vhf_last=None, hermi=1):
            from pyscf import lib

            sk, kohn_sham = self.sk_, self.kohn_sham_
            with kohn_sham.clock.phase("diag"):
                word = self.spread_(dm)
                sk.broadcast(np.array([word]))
            energy, coulomb_energy, self.electrons_ = kohn_sham.evaluate(
                density_given=word == FROM_DENSITY
            )
            with kohn_sham.clock.phase("diag"):
                lower = blocks.get_lower(
                    kohn_sham.matrix, kohn_sham.everything_, kohn_sham.matrix.shape[0]
                )
            return lib.tag_array(
                blocks.symmetric(lower), ecoul=coulomb_energy, exc=energy, vj=None, vk=None
            )

        def spread_(self, dm):
            """Puts occupied orbitals into g_C where the density has them, otherwise the density into g_DM."""
            array = self.kohn_sham_.orbitals
            if getattr(dm, "mo_coeff", None) is not None:
                occupied = dm.mo_occ > 0
                if occupied.sum() == array.shape[1]:
                    array.put(np.s_[:, :], dm.mo_coeff[:, occupied] * np.sqrt(dm.mo_occ[occupied]))
                    return FROM_ORBITALS
            self.kohn_sham_.density.put(np.s_[:, :], np.ascontiguousarray(dm))
            return FROM_DENSITY

        def eig(self, *arguments, **named):
            with self.kohn_sham_.clock.phase("diag"):
                return super().eig(*arguments, **named)

    return ParallelRKS


def gather(sk, kohn_sham, on_wire):
    """Times and traffic of all ranks, in the shape of the report. Collective."""
    seconds = sk.allgather(np.array([kohn_sham.clock.seconds[phase] for phase in PHASES]))
    traffic = {part: sk.allreduce(counts) for part, counts in kohn_sham.traffic.items()}
    first_of_node = sk.node_ranks()[0] == sk.rank()
    on_wire = int(sk.allreduce(np.array([on_wire if first_of_node else 0], "int64"))[0])
    mean = dict(zip(PHASES, seconds.mean(axis=0).tolist()))
    mean["diag"] = float(seconds[:, PHASES.index("diag")].max())  # rank 0 alone diagonalises
    steps = np.array(kohn_sham.steps_seconds)
    return {
        "seconds": mean,
        "seconds_by_rank": {
            phase: seconds[:, index].tolist() for index, phase in enumerate(PHASES)
        },
        "bytes_between_nodes": int(sum(part[1] for part in traffic.values())),
        "operations_between_nodes": int(sum(part[0] for part in traffic.values())),
        "bytes_by_operating_system": on_wire,
        "protection": sk.protection()._asdict(),
        "matrices": len(steps),
        STEPS: {
            "seconds_each": steps.tolist(),
            "seconds_median": float(np.median(steps)),
            "bytes_between_nodes": int(traffic[STEPS][1]),
            "operations_between_nodes": int(traffic[STEPS][0]),
        },
    }
