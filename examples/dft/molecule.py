"""Molecules for the DFT example: the zeolite fragment built from bond lengths and angles, and .xyz files.

A molecule here is a list of (symbol, position in Angstrom). Atoms that are near in space are near in the list, as far as a chain
allows it: the arrays are distributed by atom blocks, and runs of neighbouring atoms make few and large patches.
"""

import math
from pathlib import Path

import numpy as np

SI_O = 1.63  # Angstrom, as in quartz
SI_H = 1.48
SI_O_SI_DEGREES = 145.0
TETRAHEDRAL_DEGREES = math.degrees(math.acos(-1.0 / 3.0))

# Single-bond covalent radii in Angstrom (Pyykko and Atsumi 2009), enough to tell "bonded" from "too
# close".
COVALENT_RADIUS = {
    "H": 0.32,
    "B": 0.85,
    "C": 0.75,
    "N": 0.71,
    "O": 0.63,
    "F": 0.64,
    "Na": 1.55,
    "Mg": 1.39,
    "Al": 1.26,
    "Si": 1.16,
    "P": 1.11,
    "S": 1.03,
    "Cl": 0.99,
}
BONDS = {"H": 1, "O": 2, "Si": 4}


class MoleculeError(ValueError):
    """The geometry cannot be one of a molecule, or a file does not describe one."""


def place(first, second, third, length, angle_degrees, dihedral_degrees):
    """The atom at `length` from `third`, at `angle` to the bond third-second, at `dihedral` to the plane first-second-third."""
    angle, dihedral = math.radians(angle_degrees), math.radians(dihedral_degrees)
    axis = (third - second) / np.linalg.norm(third - second)
    normal = np.cross(second - first, axis)
    normal /= np.linalg.norm(normal)
    side = np.cross(normal, axis)
    local = (
        -math.cos(angle),
        math.sin(angle) * math.cos(dihedral),
        math.sin(angle) * math.sin(dihedral),
    )
    return third + length * (local[0] * axis + local[1] * side + local[2] * normal)


def siosi3():
    """Si8O7H18, (H3SiO)3Si-O-Si(OSiH3)3: the fragment of the mirroring paper's benchmark, built outwards from the bridge oxygen.

    Si-O and Si-H bonds, the Si-O-Si angle and tetrahedral angles at silicon; dihedrals are staggered, so the arms point apart.
    """
    atoms = []
    half = math.radians(SI_O_SI_DEGREES / 2)
    bridge = np.zeros(3)
    centre = [SI_O * np.array([side * math.sin(half), math.cos(half), 0.0]) for side in (-1, 1)]

    def arm(far, central, dihedral):
        """O-SiH3 on the silicon `central`, whose bridge oxygen leads to the silicon `far`."""
        oxygen = place(far, bridge, central, SI_O, TETRAHEDRAL_DEGREES, dihedral)
        silicon = place(bridge, central, oxygen, SI_O, SI_O_SI_DEGREES, 180.0)
        hydrogens = [
            place(central, oxygen, silicon, SI_H, TETRAHEDRAL_DEGREES, turn)
            for turn in (60.0, 180.0, 300.0)
        ]
        return [("O", oxygen), ("Si", silicon)] + [("H", position) for position in hydrogens]

    for turn in (60.0, 180.0, 300.0):
        atoms += arm(centre[1], centre[0], turn)
    atoms += [("Si", centre[0]), ("O", bridge), ("Si", centre[1])]
    for turn in (60.0, 180.0, 300.0):
        atoms += arm(centre[0], centre[1], turn)
    return atoms


def distances(atoms):
    """The matrix of distances in Angstrom; infinity on the diagonal."""
    positions = np.array([position for _, position in atoms])
    between = np.linalg.norm(positions[:, None, :] - positions[None, :, :], axis=-1)
    np.fill_diagonal(between, np.inf)
    return between


def check(atoms):
    """Raises MoleculeError when two atoms are closer than chemistry allows, or an atom has more bonds than its valence.

    Closer than 0.8 of the two covalent radii together is no bond; between 1.25 of them and 2 Angstrom (1.2 with a hydrogen) two
    atoms are neither bonded nor apart.
    """
    between = distances(atoms)
    bonds = [0] * len(atoms)
    for i, (symbol_i, _) in enumerate(atoms):
        for j in range(i):
            symbol_j = atoms[j][0]
            bond = COVALENT_RADIUS.get(symbol_i, 1.2) + COVALENT_RADIUS.get(symbol_j, 1.2)
            apart = 1.2 if "H" in (symbol_i, symbol_j) else 2.0
            distance = between[i, j]
            known_gap = symbol_i in BONDS and symbol_j in BONDS and 1.25 * bond < distance < apart
            if distance < 0.8 * bond or known_gap:
                raise MoleculeError(
                    f"atoms {j} ({symbol_j}) and {i} ({symbol_i}) are {distance:.3f} Angstrom apart, a bond of theirs is about "
                    f"{bond:.2f}: check the geometry (coordinates must be in Angstrom)"
                )
            if distance <= 1.25 * bond:
                bonds[i] += 1
                bonds[j] += 1
    for index, (symbol, _) in enumerate(atoms):
        if symbol in BONDS and bonds[index] > BONDS[symbol]:
            raise MoleculeError(
                f"atom {index} ({symbol}) has {bonds[index]} bonds, {symbol} makes {BONDS[symbol]}: atoms overlap"
            )


def read_xyz(path):
    """The first molecule of an .xyz file (Angstrom)."""
    lines = Path(path).read_text().splitlines()
    try:
        count = int(lines[0].split()[0])
    except (IndexError, ValueError):
        raise MoleculeError(
            f"{path}: the first line of an .xyz file is the number of atoms"
        ) from None
    if count < 1 or len(lines) < count + 2:
        raise MoleculeError(
            f"{path}: the first line promises {count} atoms, {max(0, len(lines) - 2)} lines follow the comment"
        )
    atoms = []
    for number, line in enumerate(lines[2 : count + 2], start=3):
        fields = line.split()
        try:
            position = np.array([float(value) for value in fields[1:4]])
            if len(position) != 3 or not np.isfinite(position).all():
                raise ValueError
        except ValueError:
            raise MoleculeError(
                f"{path}:{number}: expected 'symbol x y z' in Angstrom, found {line!r}"
            ) from None
        atoms.append((fields[0].capitalize(), position))
    return atoms


def formula(atoms):
    """Such as Si8O7H18: heaviest elements first, as the paper writes it."""
    order = list(COVALENT_RADIUS)
    symbols = sorted(
        {symbol for symbol, _ in atoms}, key=lambda s: -order.index(s) if s in order else 1
    )
    counts = {symbol: sum(1 for s, _ in atoms if s == symbol) for symbol in symbols}
    return "".join(symbol + (str(count) if count > 1 else "") for symbol, count in counts.items())


def load(path=None):
    """The checked molecule: from an .xyz file, or the zeolite fragment."""
    atoms = read_xyz(path) if path else siosi3()
    check(atoms)
    return atoms


def to_pyscf(atoms, basis):
    """The same as a PySCF molecule, silent and without symmetry (its matrices keep our order of atoms)."""
    from pyscf import gto

    if sum(gto.charge(symbol) for symbol, _ in atoms) % 2:
        raise MoleculeError("an odd number of electrons: this example is for closed shells")
    return gto.M(
        atom=[(symbol, tuple(position)) for symbol, position in atoms],
        basis=basis,
        unit="Angstrom",
        verbose=0,
    )
