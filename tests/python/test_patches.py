"""Scattered elements, steps, wrapping patches, ghost cells, and whole arrays through patches."""

import itertools

import numpy as np
import pytest

import skerry as sk
import skerry.xp as xp


def random_index(random, shape, n):
    return tuple(random.integers(-size, size, n) for size in shape)


@pytest.mark.parametrize("shape", [(50,), (23, 17), (5, 6, 7)])
@pytest.mark.parametrize("kind", ["bool", "int8", "float32", "complex128"])
def test_gather_reads_what_numpy_indexes(shape, kind, mirrored):
    x = (np.arange(np.prod(shape)) % 3).reshape(shape).astype(kind)
    a = sk.asarray(x, mirrored=mirrored)
    index = random_index(np.random.default_rng(sk.rank()), shape, 300)
    got = a.gather(index)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x[index])
    square = tuple(part[:36].reshape(6, 6) for part in index)
    out = np.empty((6, 6), x.dtype)
    assert a.gather(square, out=out) is out
    np.testing.assert_array_equal(out, x[square])
    column = (np.arange(3)[:, None], *(np.zeros(4, int) for _ in shape[1:]))
    np.testing.assert_array_equal(
        a.gather(column if len(shape) > 1 else np.arange(3)),
        x[column if len(shape) > 1 else np.arange(3)],
    )
    assert a.gather(tuple(np.empty(0, int) for _ in shape)).shape == (0,)


def test_scatter_and_accumulate(mirrored):
    shape = (40, 30)
    a, b = (sk.zeros(shape, "int64", mirrored=mirrored) for _ in range(2))
    every = np.arange(1200)
    mine = every[sk.rank() :: sk.size()]
    a.scatter(np.divmod(mine, 30), mine)
    for _ in range(2):
        index = random_index(np.random.default_rng(7 + sk.rank()), shape, 500)
        b.scatter_acc(index, np.ones(500, "int64"), alpha=3)
    a.sync()
    a.merge()
    b.sync()
    b.merge()
    np.testing.assert_array_equal(a.get().ravel(), every)
    want = np.zeros(shape, "int64")
    for rank in range(sk.size()):
        np.add.at(want, random_index(np.random.default_rng(7 + rank), shape, 500), 6)
    np.testing.assert_array_equal(b.get(), want)
    a.sync()
    if sk.rank() == 0:
        a.scatter(([0, 1], [2, 3]), [7, 8])
        a.scatter(([0, 1], [5, 5]), 9)
    a.sync()
    if not mirrored or sk.node() == sk.node(0):
        assert a[0, 2] == 7 and a[1, 3] == 8 and a[0, 5] == a[1, 5] == 9
    a.sync()


def test_scattered_elements_refuse():
    a = sk.zeros((4, 5))
    for call, kind, text in (
        (lambda: a.gather([1, 2]), sk.InvalidError, "1 index arrays"),
        (lambda: a.gather(([1.5], [2])), sk.DtypeError, "float64"),
        (lambda: a.gather(([1, 2], [1, 2, 3])), sk.InvalidError, "do not fit"),
        (lambda: a.gather(([4], [0])), sk.RangeError, "4:5"),
        (lambda: a.gather(([-5], [0])), sk.RangeError, "not inside"),
        (lambda: a.gather(([0], [0]), out=np.empty(2)), sk.InvalidError, "out has shape"),
        (lambda: a.scatter(([0], [0]), np.ones(1, "int32")), sk.DtypeError, "astype"),
        (lambda: a.scatter(([0, 1], [0, 9]), [1.0, 2.0]), sk.RangeError, "9:10"),
        (lambda: sk.zeros(3, "bool").scatter_acc([0], True), sk.InvalidError, "bool"),
    ):
        with pytest.raises(kind, match=text):
            call()
    a.sync()
    assert not a.get().any(), "nothing moved"
    a.sync()
    a.free()
    with pytest.raises(sk.FreedError):
        a.gather(([0], [0]))


STEPPED = [
    np.s_[::2],
    np.s_[1:20:3, 2:9:2],
    np.s_[::-1],
    np.s_[20:3:-4, ::5],
    np.s_[..., ::3],
    np.s_[3, ::2],
    np.s_[::4, (2, 5)],
    np.s_[5:2:2],
]


@pytest.mark.parametrize("patch", STEPPED, ids=str)
def test_patches_with_steps(filled, numbers, patch, mirrored):
    a, x = filled(23, 17, mirrored=mirrored), numbers(23, 17)
    plain = patch
    if isinstance(patch, tuple):
        plain = tuple(slice(*part) if isinstance(part, tuple) else part for part in patch)
    np.testing.assert_array_equal(a[patch], x[plain])
    out = np.zeros(x[plain].shape)
    assert a.get(patch, out=out) is out
    np.testing.assert_array_equal(out, x[plain])
    a.sync()
    if sk.rank() == 0:
        a[patch] = -1.0
        a.acc(patch, x[plain], alpha=2)
    a.sync()
    x[plain] = -1 + 2 * x[plain]
    if not mirrored or sk.node() == sk.node(0):
        np.testing.assert_array_equal(a.get(), x)
    a.sync()


def test_steps_refuse():
    a = sk.zeros((6, 6))
    with pytest.raises(sk.RangeError, match="8"):
        a[0:8:2]
    with pytest.raises(sk.RangeError, match="3 dimensions"):
        a[::2, 0, 0]
    with pytest.raises(ValueError, match="zero"):
        a[::0]
    with pytest.raises(sk.InvalidError, match="do not fit"):
        a[::2] = np.zeros((5, 6))
    with pytest.raises(sk.InvalidError, match="needs"):
        a.get(np.s_[::2], out=np.zeros((6, 6)))


@pytest.mark.parametrize("shape", [(7,), (9, 5), (3, 4, 5)])
def test_periodic_patches(filled, numbers, shape):
    a, x = filled(*shape), numbers(*shape)
    random = np.random.default_rng(3)
    for _ in range(20):
        low = random.integers(-12, 12, len(shape))
        high = low + random.integers(0, 15, len(shape))
        patch = tuple(slice(int(b), int(e)) for b, e in zip(low, high, strict=True))
        want = x[np.ix_(*(np.arange(b, e) % n for b, e, n in zip(low, high, shape, strict=True)))]
        np.testing.assert_array_equal(sk.periodic(a)[patch], want)
        np.testing.assert_array_equal(
            sk.periodic(a).get(tuple((int(b), int(e)) for b, e in zip(low, high, strict=True))),
            want,
        )
    a.sync()
    p = sk.periodic(a)
    edge = (slice(-1, 2),) * len(shape)
    if sk.rank() == 0:
        p[edge] = 0.0
        p.acc(edge, 5.0, alpha=2)
    a.sync()
    x[np.ix_(*(np.arange(-1, 2) % n for n in shape))] = 10
    np.testing.assert_array_equal(a.get(), x)
    a.sync()
    with pytest.raises(sk.InvalidError, match="steps"):
        p[(slice(0, 4, 2),) * len(shape)]
    with pytest.raises(sk.InvalidError, match="each of"):
        p[(slice(0, 4),) * (len(shape) + 1)]
    with pytest.raises(sk.RangeError, match="ascend"):
        p[(slice(4, 2),) * len(shape)]
    with pytest.raises(sk.InvalidError, match="no period"):
        sk.periodic(sk.zeros((0, 3)))


# ---- ghost cells ---------------------------------------------------------------------------------


def around(x, bounds, width, periodic, outside):
    """The own block with its ghost cells, of a NumPy array."""
    for axis, (w, wraps) in enumerate(zip(width, periodic, strict=True)):
        pad = [(w, w) if d == axis else (0, 0) for d in range(x.ndim)]
        kind = {"mode": "wrap"} if wraps else {"mode": "constant", "constant_values": outside}
        x = np.pad(x, pad, **kind) if w else x
    return x[tuple(slice(low, high + 2 * w) for (low, high), w in zip(bounds, width, strict=True))]


@pytest.mark.parametrize("shape", [(40,), (24, 19), (9, 8, 10)])
@pytest.mark.parametrize("width", [0, 1, 2, 6])
@pytest.mark.parametrize("periodic", [False, True])
def test_update_fills_ghost_cells(numbers, shape, width, periodic):
    x = numbers(*shape)
    g = sk.ghosts(shape, width=width, periodic=periodic)
    assert g.shape == shape and g.dtype == x.dtype and g.ndim == len(shape)
    g.fill(-1)
    if g.local.size:
        g.local[...] = x[tuple(slice(*b) for b in g.distribution())]
    g.update()
    widths, wraps = (width,) * len(shape), (periodic,) * len(shape)
    if g.local.size:
        np.testing.assert_array_equal(g.padded, around(x, g.distribution(), widths, wraps, -1.0))
    np.testing.assert_array_equal(g.get(), x)
    np.testing.assert_array_equal(g[2:7], x[2:7])
    assert g[tuple(n - 1 for n in shape)] == x.flat[-1]
    g.sync()
    g.free()


def test_updates_without_corners_and_in_one_direction(numbers):
    x, width = numbers(21, 26), (1, 2)
    g = sk.ghosts(x.shape, width=width, periodic=(True, False), grid=None)
    blocks = tuple(slice(*b) for b in g.distribution())
    want = around(x, g.distribution(), width, (True, False), 0.0)
    inner = (slice(1, -1), slice(2, -2))
    for options, chosen in (
        ({"corners": False}, [(0, None), (None, 0), (None, 1), (1, None)]),
        ({"axis": 0}, [(0, None), (1, None), (0, 0), (0, 1), (1, 0), (1, 1)]),
        ({"axis": -1, "side": 1, "corners": False}, [(None, 1)]),
        ({"axis": 0, "side": -1, "corners": False}, [(0, None)]),
    ):
        g.fill(0)
        g.local[...] = x[blocks]
        g.update(**options)
        expected = np.zeros_like(want)
        expected[inner] = want[inner]
        for sides in chosen:
            part = tuple(
                inner[d] if side is None else (slice(0, w) if side == 0 else slice(-w, None))
                for d, (side, w) in enumerate(zip(sides, width, strict=True))
            )
            expected[part] = want[part]
        np.testing.assert_array_equal(g.padded, expected, err_msg=str(options))
        g.sync()


def test_ghost_arrays_have_patches_and_whole_arrays(numbers):
    x = numbers(30, 20)
    g = sk.ghosts(x.shape, width=2)
    if sk.rank() == 0:
        g[...] = x
        g.acc(np.s_[3:25, 4], 1.0, alpha=10)
        g[29] = 0.0
    x[3:25, 4] += 10
    x[29] = 0
    g.sync()
    np.testing.assert_array_equal(g[:, 2:18], x[:, 2:18])
    g.sync()
    whole = xp.asarray(g)
    np.testing.assert_array_equal((whole * 2).numpy(), x * 2)
    whole[...] = whole + 1
    sk.sync()
    np.testing.assert_array_equal(g.get(), x + 1)
    assert "30, 20" in repr(g)
    with pytest.raises(sk.InvalidError, match="view"):
        whole.array
    sk.sync()


def test_a_stencil_on_ghost_cells_equals_numpy():
    n = 34
    x = np.random.default_rng(5).random((n, n))
    g = sk.ghosts(x.shape, width=1, periodic=True)
    g.local[...] = x[tuple(slice(*b) for b in g.distribution())]
    for _ in range(5):
        p = g.update(corners=False).padded
        g.local[...] = 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
        x = 0.25 * (np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1))
    g.sync()
    np.testing.assert_allclose(g.get(), x, rtol=1e-14)
    g.sync()


def test_ghosts_refuse():
    g = sk.ghosts((8, 8))
    for call, kind, text in (
        (lambda: sk.ghosts((8, 8), width=-1), sk.InvalidError, "below 0"),
        (lambda: sk.ghosts((8, 8), width=(1, 2, 3)), sk.InvalidError, "one for all or 2"),
        (lambda: sk.ghosts((8, 8), width=("x", 1)), sk.InvalidError, "give numbers"),
        (lambda: sk.ghosts((8, 0)), sk.InvalidError, "no empty dimension"),
        (lambda: g[9], sk.RangeError, "not inside"),
        (lambda: g[::2], sk.InvalidError, "no steps"),
        (lambda: g[0, 0, 0], sk.RangeError, "3 dimensions"),
        (lambda: g.update(axis=2), sk.RangeError, "axis 2"),
        (lambda: g.update(side=3), sk.InvalidError, "side 3"),
        (lambda: g.put(0, np.ones(8, "int32")), sk.DtypeError, "astype"),
    ):
        with pytest.raises(kind, match=text):
            call()
    if sk.size() > 1:
        with pytest.raises(sk.InvalidError, match="different widths"):
            sk.ghosts((8, 8), width=1 + (sk.rank() == 0))
    g.free()
    with pytest.raises(sk.FreedError):
        g.update()


# ---- whole arrays through patches ----------------------------------------------------------------


def test_copy_transpose_symmetrize(filled, numbers, mirrored):
    a, x = filled(13, 21, mirrored=mirrored), numbers(13, 21)
    b = a.copy()
    assert b.grid == a.grid and b.mirrored == mirrored
    a.zero()
    np.testing.assert_array_equal(b.get(), x)
    b.sync()
    np.testing.assert_array_equal(sk.transpose(b).get(), x.T)
    out = sk.zeros((21, 13), mirrored=mirrored)
    assert sk.transpose(b, out) is out
    np.testing.assert_array_equal(out.get(), x.T)
    np.testing.assert_array_equal(
        sk.transpose(filled(3, 4, 5, dtype="int32")).get(), numbers(3, 4, 5, dtype="int32").T
    )
    s = filled(15, 15, mirrored=mirrored)
    sk.symmetrize(s)
    y = numbers(15, 15)
    np.testing.assert_array_equal(s.get(), (y + y.T) / 2)
    s.sync()
    with pytest.raises(sk.InvalidError, match="square"):
        sk.symmetrize(b)
    with pytest.raises(sk.DtypeError, match="int64"):
        sk.symmetrize(sk.zeros((2, 2), "int64"))
    with pytest.raises(sk.InvalidError, match="it needs"):
        sk.transpose(b, b)


@pytest.mark.parametrize("kind", ["int8", "uint64", "float32", "complex128"])
def test_select(kind, mirrored):
    x = np.random.default_rng(2).integers(0, 100, (17, 9)).astype(kind)
    a = sk.asarray(x, mirrored=mirrored)
    key = np.abs(x)
    for what in "max", "min":
        value, index = sk.select(a, what)
        flat = int(getattr(key, f"arg{what}")())
        assert key[index] == key.flat[flat] and value == x[index]
        ties = list(zip(*np.nonzero(key == key.flat[flat]), strict=True))
        assert index in [tuple(map(int, tie)) for tie in ties]
    one, index = sk.select(sk.zeros((1, 1)), "max")
    assert one == 0 and index == (0, 0)
    with pytest.raises(sk.InvalidError, match="'max' or 'min'"):
        sk.select(a, "mean")
    with pytest.raises(sk.InvalidError, match="no element"):
        sk.select(sk.zeros((0, 2)))


def test_copies_between_any_two_distributions(filled, numbers):
    x = numbers(24, 18)
    p = sk.size()
    kinds = [{}, {"grid": (p, 1)}, {"grid": (1, p)}, {"grid": (1, 1)}, {"mirrored": True},
             {"distribution": sk.Irregular([0, 1, 5, 20], [0, 17])}]  # fmt: skip
    for one, other in itertools.permutations(kinds, 2):
        a, b = filled(24, 18, **one), sk.zeros((24, 18), **other)
        a.copy_to(b)
        np.testing.assert_array_equal(b.get(), x)
        sk.sync()
