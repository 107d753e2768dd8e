import collections

import numpy as np
import pytest

import molecule


def test_fragment_is_si8o7h18_with_the_bonds_it_should_have():
    atoms = molecule.load()
    assert molecule.formula(atoms) == "Si8O7H18"
    between = molecule.distances(atoms)
    assert between.min() == pytest.approx(molecule.SI_H)
    bonded = collections.Counter()
    for i, (symbol_i, _) in enumerate(atoms):
        neighbours = sorted(atoms[j][0] for j in range(len(atoms)) if between[i, j] < 1.7)
        bonded[symbol_i, "".join(neighbours)] += 1
    # (H3SiO)3Si-O-Si(OSiH3)3
    assert bonded == {("Si", "OOOO"): 2, ("Si", "HHHO"): 6, ("O", "SiSi"): 7, ("H", "Si"): 18}


def test_nothing_that_is_not_bonded_is_near():
    between = molecule.distances(molecule.load())
    assert between[between > 1.7].min() > 2.4


def test_angles_are_those_asked_for():
    atoms = dict(enumerate(molecule.load()))
    positions = np.array([position for _, position in atoms.values()])
    between = molecule.distances(list(atoms.values()))
    for index, (symbol, _) in atoms.items():
        near = [j for j in atoms if between[index, j] < 1.7]
        wanted = {"O": molecule.SI_O_SI_DEGREES, "Si": molecule.TETRAHEDRAL_DEGREES}.get(symbol)
        for place, j in enumerate(near):
            for k in near[:place]:
                u, v = positions[j] - positions[index], positions[k] - positions[index]
                angle = np.degrees(np.arccos(u @ v / np.linalg.norm(u) / np.linalg.norm(v)))
                assert angle == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("name, formula", [("water", "OH2"), ("disiloxane", "Si2OH6")])
def test_xyz_files_that_come_along_are_sound(name, formula):
    from conftest import EXAMPLE

    assert molecule.formula(molecule.load(EXAMPLE / "molecules" / f"{name}.xyz")) == formula


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "first line"),
        ("two\n\nH 0 0 0\nH 0 0 0.74\n", "first line"),
        ("3\n\nH 0 0 0\nH 0 0 0.74\n", "promises 3 atoms"),
        ("1\n\nH 0 0\n", "expected 'symbol x y z'"),
        ("1\n\nH 0 0 nan\n", "expected 'symbol x y z'"),
        ("2\n\nH 0 0 0\nH 0 0 0.3\n", "0.300 Angstrom apart"),
        ("2\n\nSi 0 0 0\nO 0 0 0.9\n", "0.900 Angstrom apart"),
        ("4\n\nO 0 0 0\nH 0 0 0.96\nH 0 0.96 0\nH 0.96 0 0\n", "3 bonds"),
    ],
)
def test_bad_input_is_refused_with_a_reason(tmp_path, text, complaint):
    path = tmp_path / "bad.xyz"
    path.write_text(text)
    with pytest.raises(molecule.MoleculeError, match=complaint):
        molecule.load(path)
