"""The Coulomb matrix by density fitting, the auxiliary functions split over the ranks.

    rho_P = sum_kl (P|kl) D_kl        each rank for its own P
    sum_Q (P|Q) c_Q = rho_P           rho summed over the ranks, then solved by each
    J_kl = sum_P c_P (P|kl)           each rank for its own P; the caller adds the ranks' shares

A rank holds the three-centre integrals of its own auxiliary functions only. The auxiliary basis and the metric are PySCF's own, so
the fitted energy is as well.
"""

import numpy as np
import scipy.linalg


class Coulomb:
    def __init__(self, sk, mol, auxmol):
        self.sk_, self.auxmol = sk, auxmol
        first, end = share(auxmol, sk.rank(), sk.size())
        offsets = auxmol.ao_loc_nr()
        self.functions_ = auxmol.nao
        self.own_ = slice(int(offsets[first]), int(offsets[end]))
        self.integrals_ = three_centre(mol, auxmol, first, end)
        metric = np.zeros((self.functions_, self.functions_))
        if first < end:
            metric[self.own_] = auxmol.intor("int2c2e", shls_slice=(first, end, 0, auxmol.nbas))
        self.solve_ = solver(sk.allreduce(metric))
        # where it is in the packed triangle
        self.diagonal_ = np.cumsum(np.arange(1, mol.nao + 1)) - 1

    def __call__(self, density):
        """(own share of J, Coulomb energy): `density` is the packed lower triangle of D, the share of J as well. Collective."""
        packed = 2.0 * density
        packed[self.diagonal_] *= 0.5  # it counts once
        rho = np.zeros(self.functions_)
        rho[self.own_] = self.integrals_ @ packed
        rho = self.sk_.allreduce(rho)
        coefficients = self.solve_(rho)
        return coefficients[self.own_] @ self.integrals_, 0.5 * float(rho @ coefficients)


def share(auxmol, rank, size):
    """The range of auxiliary shells that a rank works on: nearly equal numbers of functions."""
    offsets = auxmol.ao_loc_nr()
    cuts = np.searchsorted(offsets, [auxmol.nao * part / size for part in (rank, rank + 1)])
    return int(cuts[0]), int(cuts[1])


def three_centre(mol, auxmol, first, end):
    """(P|kl) for the auxiliary shells [first, end): C-contiguous (functions, pairs k >= l)."""
    from pyscf import df

    if first == end:
        return np.zeros((0, mol.nao * (mol.nao + 1) // 2))
    pairs = df.incore.aux_e2(
        mol, auxmol, "int3c2e", aosym="s2ij", shls_slice=(0, mol.nbas, 0, mol.nbas, first, end)
    )
    return np.ascontiguousarray(pairs.T)


def solver(metric, threshold=1e-7):
    """Solves with the metric: Cholesky, or without the nearly dependent directions where that fails (PySCF's rule and threshold)."""
    try:
        factor = scipy.linalg.cho_factor(metric, lower=True)
        return lambda rho: scipy.linalg.cho_solve(factor, rho)
    except scipy.linalg.LinAlgError:
        values, vectors = scipy.linalg.eigh(metric)
        kept = values > threshold
        vectors = vectors[:, kept] / np.sqrt(values[kept])
        return lambda rho: vectors @ (vectors.T @ rho)
