"""The parallel part of an iteration: from occupied orbitals to the Kohn-Sham matrix, distributed or mirrored.

    g_C    orbitals times sqrt(occupation), one row per basis function        distributed
    g_DM   density matrix D = C C^T                                           distributed
    g_K    Kohn-Sham matrix (Coulomb and exchange-correlation)                distributed
    m_DM, m_K   the same with a copy on every node                            mirrored mode only

Steps 1 to 6 are those of "Shared Memory Mirroring for Reducing Communication Overhead on Commodity Networks", section "Scientific
Application". Mirrored, m_DM is refreshed after step 1, step 2 gets from m_DM, step 6 accumulates into m_K, and m_K is merged
and copied to g_K: inside steps 2 to 6 nothing crosses nodes. Symmetry is used in both modes alike: only lower triangles are read,
written and moved.
"""

import time
from collections import deque

import numpy as np

import blocks
from batches import Tickets
from clock import Clock, traffic
from exchange_correlation import on_batch

STEPS = "steps_1_to_6"


class KohnSham:
    """Collective, on every rank alike; `evaluate` is called by all ranks once per iteration."""

    def __init__(self, sk, system, mirrored):
        self.sk_, self.system_, self.mirrored_ = sk, system, mirrored
        functions, starts = system.mol.nao, system.atom_starts
        rows = sk.Irregular(blocks.balanced_row_starts(starts, sk.size()), [0])
        self.orbitals = sk.zeros((functions, system.orbitals), distribution=rows)
        self.density = sk.zeros((functions, functions), distribution=rows)
        self.matrix = sk.zeros((functions, functions), distribution=rows)
        self.mirrors_ = []
        if mirrored:
            # The density is read in each node's copy. What is added to the matrix is summed there;
            # the same blocks are joined for the ranks of each node, however many those are.
            self.mirrors_ = [
                sk.mirror(self.density),
                sk.zeros((functions, functions), distribution=rows, mirrored=True),
            ]
        self.near_density_, self.near_matrix_ = self.mirrors_ or (self.density, self.matrix)
        self.tickets_ = Tickets(sk, system.batches)
        self.basis_ = system.basis
        self.everything_ = blocks.staircase(starts, range(len(starts) - 1))
        # Called on every rank after step 1, before anyone reads the density; None: nothing. Tests
        # spoil the density here.
        self.after_density = None
        self.clock = Clock()
        self.steps_seconds = []  # of steps 1 to 6, one per call, from barrier to barrier
        # this rank's [operations, bytes]
        self.traffic = {STEPS: np.zeros(2, "int64"), "other": np.zeros(2, "int64")}
        self.mark_ = None
        sk.sync()
        self.read_traffic_()

    def evaluate(self, density_given):
        """(energy of exchange and correlation, Coulomb energy, electrons); leaves g_K. Collective.

        Rank 0 has put the orbitals into g_C, or, with `density_given`, D itself into g_DM (an initial guess need not have
        orbitals).
        """
        sk, clock = self.sk_, self.clock
        sk.sync()  # what rank 0 put is visible
        self.count_("other")
        start = time.perf_counter()
        self.step_1_(density_given)
        seconds = time.perf_counter() - start
        self.count_(STEPS)

        with clock.phase("coulomb"):
            share, coulomb_energy = self.system_.coulomb(self.whole_density_())
            self.add_to_matrix_(share)
            sk.sync()
        self.count_("other")

        start = time.perf_counter()
        energy, electrons = self.steps_2_to_6_()
        self.steps_seconds.append(seconds + time.perf_counter() - start)
        self.count_(STEPS)
        return energy, coulomb_energy, electrons

    # The Coulomb matrix needs all of the density on every rank and a sum over all ranks. Mirrored,
    # both are in the node's memory; distributed, a tree of ranks
    # passes them on, where every rank would otherwise talk to every other one for a few blocks.

    def whole_density_(self):
        functions = self.system_.mol.nao
        if self.mirrored_:
            return blocks.packed(blocks.get_lower(self.near_density_, self.everything_, functions))
        packed = np.empty(functions * (functions + 1) // 2)
        if self.sk_.rank() == 0:
            packed[:] = blocks.packed(blocks.get_lower(self.density, self.everything_, functions))
        return self.sk_.broadcast(packed)

    def add_to_matrix_(self, share):
        total = share if self.mirrored_ else self.sk_.reduce(share)
        if self.mirrored_ or self.sk_.rank() == 0:
            blocks.acc_lower(
                self.near_matrix_, self.everything_, blocks.unpacked(total, self.system_.mol.nao)
            )

    def step_1_(self, density_given):
        sk, clock = self.sk_, self.clock
        with clock.phase("matmul"):
            self.tickets_.reset()
            if not density_given:
                sk.matmul(self.orbitals, self.orbitals, self.density, trans_b=True)
            blocks.zero_above_diagonal(self.density, self.system_.atom_starts)
            if self.after_density:
                sk.sync()
                self.after_density(self.density)
            self.near_matrix_.zero()
        if self.mirrored_:
            with clock.phase("merge"):
                self.near_density_.refresh()

    def steps_2_to_6_(self):
        sk, clock, system = self.sk_, self.clock, self.system_
        energy = electrons = 0.0
        for values, points, patches, coming in self.batches_ahead_():
            with clock.phase("get"):
                lower = coming.wait()
            with clock.phase("compute"):
                part, part_energy, part_electrons = on_batch(
                    system.functional, values, system.weights[points], lower
                )
            with clock.phase("acc"):
                blocks.acc_lower(self.near_matrix_, patches, part)
            energy += part_energy
            electrons += part_electrons
        with clock.phase("acc"):
            sk.fence()
        with clock.phase("wait"):
            energy, electrons = sk.allreduce(np.array([energy, electrons]))
            sk.sync()
        if self.mirrored_:
            with clock.phase("merge"):
                self.near_matrix_.merge()
                self.near_matrix_.copy_to(self.matrix)
        return float(energy), float(electrons)

    def batches_ahead_(self):
        """(basis-function values, points, patches, density on its way) of this rank's batches: that of the next `ahead` ones is requested
        for before a batch is worked on."""
        clock, system = self.clock, self.system_
        # a rank looks for others' work only when its own is done
        for tickets in self.tickets_.own(), self.tickets_.others():
            under_way = deque()
            for number, points in tickets:
                with clock.phase("compute"):
                    atoms, values = self.basis_.on(number, points)
                    patches = blocks.staircase(system.atom_starts, atoms)
                if not patches:
                    continue
                with clock.phase("get"):
                    under_way.append(
                        (
                            values,
                            points,
                            patches,
                            blocks.Lower(self.near_density_, patches, values.shape[1]),
                        )
                    )
                if len(under_way) > system.ahead:
                    yield under_way.popleft()
            yield from under_way

    def count_(self, part):
        """Books the traffic since the last call under `part`; at a sync, so that servers have counted the requests they served."""
        before, after = self.mark_, self.read_traffic_()
        self.traffic[part] += after - before

    def read_traffic_(self):
        self.mark_ = np.array(traffic(self.sk_), "int64")
        return self.mark_

    def free(self):
        self.tickets_.free()
        for array in [*self.mirrors_, self.orbitals, self.density, self.matrix]:
            array.free()
