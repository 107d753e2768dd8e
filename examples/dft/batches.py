"""Batches of grid points: cut out compactly in space, handed out by shared counters, and the basis functions on each.

Every rank may call; `cut` gives the same batches on every rank, from the same points.
"""

import numpy as np


def cut(coords, batch_points):
    """Index arrays of at most `batch_points` points each, compact in space: boxes halved along their longest side.

    The more compact a batch, the fewer basis functions reach it, and the fewer blocks it needs.
    """
    done, pending = [], [np.arange(len(coords))]
    while pending:
        box = pending.pop()
        if len(box) <= batch_points:
            if len(box):
                done.append(box)
            continue
        points = coords[box]
        axis = int(np.argmax(np.ptp(points, axis=0)))
        parts = -(-len(box) // batch_points)
        middle = len(box) * (parts // 2) // parts
        order = np.argpartition(points[:, axis], middle)
        pending += [box[order[middle:]], box[order[:middle]]]
    return done


class Tickets:
    """Hands out batches: every batch once per round, to the next rank that asks.

    Batches are dealt to the ranks in equal stretches, each with a shared counter of its own. A rank draws from its own counter first
    and, when that is exhausted, from the others': so the load balances itself, and a rank mostly meets the batches whose basis
    functions it already knows. All counters live on rank 0: an idle rank sees with one get where work is left.
    """

    def __init__(self, sk, batches):
        self.sk_, self.batches_ = sk, batches
        self.starts_ = [len(batches) * rank // sk.size() for rank in range(sk.size() + 1)]
        # Element r counts what was drawn of rank r's stretch, by read_inc of all ranks; zeroed by
        # rank 0 in reset().
        self.counters_ = sk.zeros((sk.size(),), "int64", distribution=sk.Irregular([0]))

    def reset(self):
        """Starts a new round. Before a sync and after every rank has drawn its last ticket of the previous round."""
        if self.sk_.rank() == 0:
            self.counters_.local[...] = 0

    def own(self):
        """(number, points) of the rank's own batches that no rank has drawn yet."""
        return self.draw_(self.sk_.rank())

    def others(self):
        """The same of the other ranks' batches: when there is nothing else to do."""
        sk = self.sk_
        drawn = self.counters_.get(np.s_[:])
        for step in range(1, sk.size()):
            owner = (sk.rank() + step) % sk.size()
            # it only grows: an exhausted counter stays exhausted
            if self.starts_[owner] + drawn[owner] < self.starts_[owner + 1]:
                yield from self.draw_(owner)

    def draw_(self, owner):
        first, end = self.starts_[owner], self.starts_[owner + 1]
        while (number := first + self.counters_.read_inc(owner)) < end:
            yield number, self.batches_[number]

    def free(self):
        self.counters_.free()


class Basis:
    """The values of the basis functions on a batch, for the atoms that reach it.

    An atom reaches a batch when one of its functions exceeds `cutoff` on one of its points. Values are kept from one iteration to
    the next while they fit into `cache_bytes` (they do not change); beyond it they are evaluated anew.
    """

    def __init__(self, mol, atom_starts, coords, cutoff, cache_bytes):
        self.mol_, self.coords_, self.cutoff_ = mol, coords, cutoff
        self.starts_ = np.asarray(atom_starts)
        self.room_ = cache_bytes  # bytes that may still be kept
        self.kept_ = {}  # batch number -> (atoms, values)

    @staticmethod
    def of(system):
        return Basis(
            system.mol, system.atom_starts, system.coords, system.cutoff, system.cache_bytes
        )

    def on(self, number, points):
        """(atoms, values): ascending atom indices and a C-contiguous (points, functions of those atoms) array, not to be changed."""
        if number in self.kept_:
            return self.kept_[number]
        values = self.mol_.eval_gto("GTOval", self.coords_[points])
        largest = np.maximum.reduceat(np.abs(values).max(axis=0), self.starts_[:-1])
        atoms = np.nonzero(largest > self.cutoff_)[0]
        columns = (
            np.concatenate([np.arange(self.starts_[a], self.starts_[a + 1]) for a in atoms])
            if len(atoms)
            else []
        )
        result = atoms, np.ascontiguousarray(values[:, columns]) if len(atoms) else values[:, :0]
        if result[1].nbytes <= self.room_:
            self.room_ -= result[1].nbytes
            self.kept_[number] = result
        return result
