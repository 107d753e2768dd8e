"""The calculation in a job that goes on without the dead: what it has more than the plain one.

The density is protected once an iteration. After a death scf.solve begins again with the last one,
on the ranks that live. Rank 0 keeps DIIS's history over that; if it died, DIIS begins anew.
"""

import scf
from coulomb import Coulomb


def solve(sk, system, mean_field, mirrored, progress, _):
    mean_field.diis, mean_field.diis_start_cycle = mean_field.DIIS(mean_field), 0

    def protect(density):
        sk.protect([density])

    def attempt(group, densities):
        if densities:
            system.coulomb = Coulomb(sk, system.mol, system.coulomb.auxmol)
        return scf.solve(sk, system, mean_field, mirrored, progress, protect, *densities[-1:])

    return sk.go_on(attempt)
