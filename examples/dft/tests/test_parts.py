"""The parts that need no other process, each against a plain computation."""

import numpy as np
import pytest

import batches
import blocks
import coulomb
import exchange_correlation
import molecule
import reference

RANDOM = np.random.default_rng(1)


class Plain:
    """Stands for a Skerry array in a job of one."""

    def __init__(self, values):
        self.values = values
        self.patches = 0

    def get_nb(self, patch, out):
        out[...] = self.values[patch]
        self.patches += 1
        return self

    def acc_nb(self, patch, values):
        self.values[patch] += values
        return self

    def wait(self):
        """Nothing is ever under way."""


class JobOfOne:
    def __init__(self, rank=0, size=1, others=0.0):
        self.rank_, self.size_, self.others = rank, size, others

    def rank(self):
        return self.rank_

    def size(self):
        return self.size_

    def allreduce(self, values):
        return values + self.others


STARTS = [0, 14, 32, 34, 36, 38, 52, 70]  # of seven atoms


@pytest.mark.parametrize("atoms", [[0], [6], [0, 1, 2, 3, 4, 5, 6], [0, 2, 3, 4, 6], [1, 3, 5], []])
@pytest.mark.parametrize("row_functions", [1, 24, 100])
def test_staircase_covers_the_lower_triangle_of_its_atoms_once(atoms, row_functions):
    matrix = RANDOM.random((70, 70))
    columns = (
        np.concatenate([np.arange(STARTS[a], STARTS[a + 1]) for a in atoms])
        if atoms
        else np.zeros(0, int)
    )
    patches = blocks.staircase(STARTS, atoms, row_functions)
    got = blocks.get_lower(Plain(matrix), patches, len(columns))
    assert np.array_equal(np.tril(got), np.tril(matrix[np.ix_(columns, columns)]))
    target = np.zeros((70, 70))
    blocks.acc_lower(Plain(target), patches, np.tril(got))
    assert np.array_equal(target[np.ix_(columns, columns)], np.tril(got))
    assert np.count_nonzero(target) == np.count_nonzero(np.tril(got))


def test_staircase_of_neighbours_is_few_patches():
    assert len(blocks.staircase(STARTS, range(7), 24)) == 4
    assert len(blocks.staircase(STARTS, range(7), 1)) == 7


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7])
def test_row_blocks_start_at_atoms_and_share_the_lower_triangle_fairly(parts):
    starts = blocks.balanced_row_starts(list(range(0, 2001, 10)), parts)
    areas = [end**2 - first**2 for first, end in zip(starts, starts[1:] + [2000])]
    assert len(starts) == parts and all(start % 10 == 0 for start in starts)
    assert max(areas) < 1.1 * min(areas)


def test_batches_hold_every_point_once_and_are_compact():
    points = RANDOM.random((5000, 3))
    cut = batches.cut(points, 100)
    assert sorted(np.concatenate(cut)) == list(range(5000))
    assert max(map(len, cut)) <= 100 and min(map(len, cut)) > 50
    assert np.mean([np.ptp(points[batch], axis=0).max() for batch in cut]) < 0.45
    assert batches.cut(points[:0], 100) == []


def test_density_and_matrix_agree_with_the_plain_formulas():
    values = RANDOM.random((30, 12))
    density = RANDOM.random((12, 12))
    density += density.T
    rho = np.einsum("qk,kl,ql->q", values, density, values)
    assert exchange_correlation.density_on_points(values, density.copy()) == pytest.approx(
        rho, rel=1e-13
    )
    for potential in (-RANDOM.random(30), RANDOM.random(30) - 0.5):  # all attractive, and not
        plain = np.tril(np.einsum("qi,q,qj->ij", values, potential, values))
        assert exchange_correlation.matrix_of(values, potential) == pytest.approx(
            plain, rel=1e-12, abs=1e-12
        )


def test_only_local_functionals_are_taken():
    with pytest.raises(ValueError, match="GGA"):
        exchange_correlation.LocalDensity("pbe,pbe")


@pytest.mark.parametrize("size", [1, 3])
def test_coulomb_matrix_split_over_ranks_is_pyscfs(size):
    from conftest import EXAMPLE
    from pyscf import df

    mol = molecule.to_pyscf(molecule.load(EXAMPLE / "molecules" / "water.xyz"), "6-31G*")
    mean_field = reference.mean_field(mol, "lda,vwn", 1)
    auxmol = df.make_auxmol(mol, mean_field.with_df.auxbasis)
    density = RANDOM.random((mol.nao, mol.nao))
    density += density.T
    expected = mean_field.get_j(mol, density)

    # One rank after the other: what the others add to the sums is known from the whole.
    metric = auxmol.intor("int2c2e")
    whole = coulomb.three_centre(mol, auxmol, 0, auxmol.nbas)
    lower = np.tril_indices(mol.nao)
    rho = whole @ (2 * density - np.diag(np.diag(density)))[lower]
    total = np.zeros(lower[0].size)
    for rank in range(size):
        first, end = (auxmol.ao_loc_nr()[shell] for shell in coulomb.share(auxmol, rank, size))
        own = np.zeros(auxmol.nao, bool)
        own[first:end] = True
        job = JobOfOne(rank, size, np.where(own[:, None], 0.0, metric))
        part = coulomb.Coulomb(job, mol, auxmol)
        job.others = np.where(own, 0.0, rho)
        share, energy = part(blocks.packed(density))
        total += share
        assert energy == pytest.approx(0.5 * np.sum(expected * density), rel=1e-10)
    assert blocks.symmetric(blocks.unpacked(total, mol.nao)) == pytest.approx(
        expected, rel=1e-9, abs=1e-9
    )


def test_basis_functions_left_out_are_below_the_cutoff_and_values_are_kept_within_their_room():
    from conftest import EXAMPLE

    mol = molecule.to_pyscf(molecule.load(EXAMPLE / "molecules" / "disiloxane.xyz"), "STO-3G")
    starts = [int(first) for first in mol.aoslice_by_atom()[:, 2]] + [mol.nao]
    points = np.column_stack([np.linspace(4, 12, 50), np.zeros(50), np.zeros(50)])
    everything = mol.eval_gto("GTOval_sph", points)
    basis = batches.Basis(mol, starts, points, 1e-6, 1000)
    atoms, values = basis.on(0, np.arange(50))
    assert 0 < len(atoms) < mol.natm
    for atom in range(mol.natm):
        columns = slice(starts[atom], starts[atom + 1])
        assert (atom in atoms) == (np.abs(everything[:, columns]).max() > 1e-6)
    assert values.nbytes > 1000 and basis.on(0, np.arange(50))[1] is not values
    roomy = batches.Basis(mol, starts, points, 1e-6, 10**6)
    assert roomy.on(0, np.arange(50))[1] is roomy.on(0, np.arange(50))[1]
