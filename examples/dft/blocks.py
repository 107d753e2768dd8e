"""Symmetric matrices in arrays distributed by atom blocks: of the density and the Kohn-Sham matrix only the lower triangle is kept.

The staircase of a set of atoms is what a batch needs of a symmetric matrix: for each atom of the set, the rows of its functions and
the columns of the set's atoms up to itself, neighbouring atoms joined into one patch. Of a patch that crosses the diagonal only the
lower triangle has a meaning; the rest is zero or ignored.
"""

import numpy as np


def balanced_row_starts(atom_starts, parts):
    """Where the row blocks of `parts` owners start: at atoms, with nearly equal areas of the lower triangle.

    Equal areas, not equal rows, because only the lower triangle is read and written: its last rows are the long ones.
    """
    functions = atom_starts[-1]
    starts = [0]
    for part in range(1, parts):
        wanted = functions * (part / parts) ** 0.5
        nearest = min(atom_starts[:-1], key=lambda start: abs(start - wanted))
        if nearest > starts[-1]:
            starts.append(int(nearest))
    return starts


def staircase(atom_starts, atoms, row_functions=24):
    """Pairs ((row slice, column slice) in the matrix, the same in the compressed matrix of these atoms), from top to bottom.

    Neighbouring atoms share a row of patches up to `row_functions`: without it a hydrogen's two functions would be operations of
    their own. What that adds is above the diagonal, and meaningless like the rest there.
    """
    patches = []
    # complete runs of neighbouring atoms above the row: (first column, its place in the compressed
    # matrix, end column)
    runs = []
    for run_first, run_place, run_rows in rows_of_runs(atom_starts, atoms, row_functions):
        for first, end in run_rows:
            place = run_place + first - run_first
            rows, local_rows = slice(first, end), slice(place, place + end - first)
            for low, local_low, high in [*runs, (run_first, run_place, end)]:
                patches.append(
                    (
                        (rows, slice(low, high)),
                        (local_rows, slice(local_low, local_low + high - low)),
                    )
                )
        runs.append((run_first, run_place, run_rows[-1][1]))
    return patches


def rows_of_runs(atom_starts, atoms, row_functions):
    """For each run of neighbouring atoms: (first function, its place in the compressed matrix, [(first, end) of its rows])."""
    runs = []
    place = 0
    for atom in atoms:
        first, end = int(atom_starts[atom]), int(atom_starts[atom + 1])
        if not runs or runs[-1][2][-1][1] != first:
            runs.append((first, place, [(first, end)]))
        elif end - runs[-1][2][-1][0] <= row_functions:
            runs[-1][2][-1] = (runs[-1][2][-1][0], end)
        else:
            runs[-1][2].append((first, end))
        place += end - first
    return runs


class Lower:
    """A compressed lower triangle on its way: all patches under way together, then one wait.

    A mirror lies in this node's memory: what it has is there at once.
    """

    def __init__(self, array, patches, functions):
        self.matrix_ = np.zeros((functions, functions))
        self.requests_ = []
        for where, local in patches:
            if hasattr(array, "get_nb"):
                self.requests_.append(array.get_nb(where, out=self.matrix_[local]))
            else:
                array.get(where, out=self.matrix_[local])

    def wait(self):
        for request in self.requests_:
            request.wait()
        return self.matrix_


def get_lower(array, patches, functions):
    return Lower(array, patches, functions).wait()


def acc_lower(array, patches, matrix):
    """Adds a compressed lower triangle to the array; `matrix` may be reused on return."""
    requests = [array.acc_nb(where, matrix[local]) for where, local in patches]
    for request in requests:
        request.wait()


def packed(lower):
    """The lower triangle of a matrix, row after row, without what is above the diagonal."""
    return lower[np.tril_indices(len(lower))]


def unpacked(values, functions):
    """The matrix of which `values` are the packed lower triangle; zero above the diagonal."""
    lower = np.zeros((functions, functions))
    lower[np.tril_indices(functions)] = values
    return lower


def symmetric(lower):
    """The full matrix from its lower triangle."""
    return np.tril(lower) + np.tril(lower, -1).T


def zero_above_diagonal(array, atom_starts):
    """Zeroes what this rank holds of a 2-d array right of each atom's diagonal block, so that it is never moved between nodes."""
    (row_low, row_high), (column_low, column_high) = array.distribution()
    local = array.local
    for first, end in zip(atom_starts[:-1], atom_starts[1:]):
        low, high, column = max(first, row_low), min(end, row_high), max(end, column_low)
        if low < high and column < column_high:
            local[low - row_low : high - row_low, column - column_low :] = 0.0
