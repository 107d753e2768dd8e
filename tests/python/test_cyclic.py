"""Block-cyclic arrays: tiles go around the process grid, patches read as of any array."""

import numpy as np
import pytest

import skerry as sk


@pytest.mark.parametrize(("shape", "tile"), [((17, 23), (3, 4)), ((40,), 7), ((5, 6, 7), (2, 6, 1)),
                                             ((3, 2), (8, 8))])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_patches_are_those_of_an_array(shape, tile, dtype):
    c = sk.cyclic(shape, dtype, tile=tile)
    x = (np.arange(np.prod(shape)).reshape(shape) + 1).astype(dtype)
    if sk.rank() == sk.size() - 1:
        c[...] = x
    c.sync()
    np.testing.assert_array_equal(c.get(), x)
    random = np.random.default_rng(sk.rank())
    for _ in range(20):
        cuts = [sorted(random.integers(0, n + 1, 2)) for n in shape]
        patch = tuple(slice(int(low), int(high)) for low, high in cuts)
        np.testing.assert_array_equal(c[patch], x[patch])
    c.sync()
    c.acc(tuple(slice(0, n) for n in shape), np.ones(shape, dtype), alpha=2)
    c.sync()
    np.testing.assert_array_equal(c.get(), x + 2 * sk.size())
    c.free()


def test_tiles_go_around_the_grid():
    c = sk.cyclic((100, 60), tile=(8, 8))
    owners = np.full((100, 60), -1)
    for rank in range(sk.size()):
        for tile in c.tiles(rank):
            assert (owners[tile] == -1).all()
            owners[tile] = rank
    assert (owners >= 0).all()
    p, q = c.grid
    for i, j in [(0, 0), (99, 59), (8, 0), (0, 8), (50, 33)]:
        assert c.locate(i, j) == owners[i, j]
        assert owners[i, j] == i // 8 % p * q + j // 8 % q
    held = sum((t[0].stop - t[0].start) * (t[1].stop - t[1].start) for t in c.tiles())
    assert held == c.local.size
    for tile in c.tiles():
        c[tile] = sk.rank()
    c.sync()
    assert (c.local == sk.rank()).all()
    assert "tiles" in repr(c) and c._repr_html_().count("<rect") == 13 * 8


def test_the_own_block_is_the_local_matrix_of_scalapack():
    n, t = 29, 3
    c = sk.cyclic((n, n), tile=(t, t))
    x = np.arange(n * n, dtype=float).reshape(n, n)
    a = sk.asarray(x)
    c.copy_from(a)
    if c.tiles():
        rows = sorted({r for tile in c.tiles() for r in range(tile[0].start, tile[0].stop)})
        columns = sorted({r for tile in c.tiles() for r in range(tile[1].start, tile[1].stop)})
        np.testing.assert_array_equal(c.local, x[np.ix_(rows, columns)])
    b = c.copy_to(sk.zeros((n, n)))
    np.testing.assert_array_equal(b.get(), x)
    m = c.copy_to(sk.zeros((n, n), mirrored=True))
    np.testing.assert_array_equal(m.get(), x)
    sk.sync()


class Watched:
    """An array that knows which of its gets have been waited for."""

    def __init__(self, array):
        self.array, self.begun, self.waits = array, 0, []

    def __getattr__(self, name):
        return getattr(self.array, name)

    def get(self, patch):
        raise AssertionError("a blocking get")

    def get_nb(self, patch, out):
        self.begun += 1
        request, watched = self.array.get_nb(patch, out), self

        class Request:
            def wait(self):
                watched.waits.append(watched.begun)
                request.wait()

        return Request()


def test_all_tiles_travel_at_once():
    """Each was waited for before the next was asked for."""
    n = 29
    c = sk.cyclic((n, n), tile=(3, 3))
    x = np.arange(n * n, dtype=float).reshape(n, n)
    watched = Watched(sk.asarray(x))
    c.copy_from(watched)
    assert watched.waits == [len(c.tiles())] * len(c.tiles())
    np.testing.assert_array_equal(c.get(), x)
    c.sync()


@pytest.mark.parametrize(("shape", "tile"), [((23, 19), (2, 4)), ((4, 5), (8, 3)), ((1, 3), 9)])
def test_copies_of_other_tiles_and_of_ghost_arrays(shape, tile):
    """Some ranks have no tile, of the smaller ones: they wait for the others."""
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)
    other = sk.cyclic(shape, tile=(3, 3)).copy_from(sk.asarray(x))
    ghosts = sk.ghosts(shape, width=2)
    ghosts.local[...] = x[tuple(slice(*bounds) for bounds in ghosts.distribution())]
    for source in other, ghosts:
        c = sk.cyclic(shape, tile=tile)
        assert c.copy_from(source) is c
        np.testing.assert_array_equal(c.get(), x)
        c.sync()
        with pytest.raises(sk.DtypeError, match="differ"):
            sk.cyclic(shape, "int32", tile=tile).copy_from(source)


@pytest.mark.parametrize("make", [lambda: sk.cyclic((9, 8), tile=2), lambda: sk.ghosts((9, 8))])
def test_gets_without_waiting(make):
    a, x = make(), np.arange(72.0).reshape(9, 8)
    if sk.rank() == 0:
        a[...] = x
    a.sync()
    for patch in [np.s_[...], np.s_[1:8, 2:7], np.s_[3], np.s_[:, 5], np.s_[4:4], np.s_[8, 7]]:
        request = a.get_nb(patch)
        np.testing.assert_array_equal(request.wait(), x[patch])
        assert request.done() and request.wait().shape == x[patch].shape
    assert isinstance(a[8, 7], np.float64)
    wide = np.zeros((12, 12))
    assert a.get_nb(np.s_[2:6, 5], wide[3, 4:8]).wait().base is wide
    np.testing.assert_array_equal(wide[3, 4:8], x[2:6, 5])
    a.get_nb(out=wide[1:10, 2:10]).wait()
    np.testing.assert_array_equal(wide[1:10, 2:10], x)
    assert wide.sum() == x.sum()
    for out in [np.zeros((8, 9)), np.zeros((9, 8), "int64"), [0.0] * 72, np.zeros((8, 9)).T]:
        with pytest.raises(sk.InvalidError, match="out"):  # the last: as of an sk.Array
            a.get_nb(out=out)
    a.sync()


def test_bad_input():
    for shape, tile in [((4, 4), 0), ((4, 4), (1, 2, 3)), ((4, 4), "x"), ((0, 3), 2)]:
        with pytest.raises(sk.InvalidError):
            sk.cyclic(shape, tile=tile)
    c = sk.cyclic((4, 4), tile=2)
    with pytest.raises(sk.RangeError):
        c[0:5]
    with pytest.raises(sk.RangeError):
        c.locate(4, 0)
    with pytest.raises(sk.InvalidError, match="differ"):
        c.copy_to(sk.zeros(3))
    with pytest.raises(sk.DtypeError, match="differ"):  # on all, also on those without tiles
        c.copy_from(sk.zeros((4, 4), "int32"))
    if sk.size() > 1:
        with pytest.raises(sk.InvalidError, match="different"):
            sk.cyclic((8, 8), tile=1 + sk.rank())
