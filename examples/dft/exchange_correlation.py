"""Steps 3 to 5 of the mirroring paper on one batch: density on the points, potential there, its matrix. No communication."""

import numpy as np
from scipy.linalg import blas


def density_on_points(values, lower):
    """rho(x_q) = sum_kl D_kl chi_k(x_q) chi_l(x_q), from the lower triangle of D (changed: its diagonal is halved)."""
    diagonal = np.einsum("kk->k", lower)
    diagonal *= 0.5
    # values.T and lower.T are in Fortran's order without a copy: the transpose of the upper
    # triangle of lower.T is D's lower one.
    half = blas.dtrmm(1.0, lower.T, values.T, lower=0, trans_a=1)
    return 2.0 * np.einsum("kq,kq->q", half, values.T)


def matrix_of(values, weighted_potential):
    """The lower triangle of K_ij = sum_q chi_i(x_q) w_q v(x_q) chi_j(x_q), zero above the diagonal."""
    if (weighted_potential <= 0.0).all():  # so it is for a local density functional: half the work
        scaled = values * np.sqrt(-weighted_potential)[:, None]
        return blas.dsyrk(-1.0, scaled.T, lower=0).T
    return np.tril(values.T @ (values * weighted_potential[:, None]))


class LocalDensity:
    """A local density functional, such as "lda,vwn", by libxc as PySCF calls it."""

    def __init__(self, name):
        from pyscf.dft import libxc

        if libxc.xc_type(name) != "LDA":
            raise ValueError(
                f"--xc {name!r} is a functional of {libxc.xc_type(name)} type; this example evaluates LDA, such as lda,vwn"
            )
        self.name_, self.eval_ = name, libxc.eval_xc

    def __call__(self, rho):
        """(energy per electron, potential) on the points."""
        energy, potential = self.eval_(self.name_, rho, spin=0, deriv=1)[:2]
        return energy, potential[0]


def on_batch(functional, values, weights, lower):
    """(K's lower triangle, energy, electrons) of one batch; `lower` is used up."""
    rho = density_on_points(values, lower)
    energy, potential = functional(rho)
    weighted = rho * weights
    return matrix_of(values, weights * potential), float(weighted @ energy), float(weighted.sum())
