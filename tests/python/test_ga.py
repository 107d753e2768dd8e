"""What Global Arrays' own tests of the same names check, in Python: gatscat, ghosts, patch,
elempatch, periodic (global/testing in its sources). Results are those that they require."""

import numpy as np
import pytest

import skerry as sk
import skerry.xp as xp

TYPES = ["int32", "int64", "float32", "float64", "complex64", "complex128"]


def slices(low, high):
    return tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))


def shape_of(ndim):
    return {1: (200,), 2: (30, 20), 3: (12, 9, 8), 4: (7, 6, 5, 4)}.get(ndim, (4,) * ndim)


def random_patch(random, shape, extent=None):
    """Bounds of a patch, the same on every rank; of a given extent."""
    if extent is None:
        extent = [int(random.integers(1, n + 1)) for n in shape]
    low = [int(random.integers(0, n - e + 1)) for n, e in zip(shape, extent, strict=True)]
    return low, [a + e for a, e in zip(low, extent, strict=True)]


def test_gatscat():
    """Every rank scatters its share of all elements, gathers it, and adds it again."""
    n = 100
    a = sk.zeros((n, n), "int32")
    values = np.arange(sk.rank(), n * n, sk.size(), dtype="int32")
    index = (values % n, values // n)
    i, j = (np.arange(*bounds) for bounds in a.distribution())
    own = j[None, :] * n + i[:, None]
    a.scatter(index, values)
    sk.sync()
    np.testing.assert_array_equal(a.local, own)
    sk.sync()
    np.testing.assert_array_equal(a.gather(index), values)
    sk.sync()
    for times in 2, 3:
        a.scatter_acc(index, values, alpha=1)
        sk.sync()
        np.testing.assert_array_equal(a.local, times * own)
        sk.sync()


@pytest.mark.parametrize("corners", [True, False])
def test_ghosts(corners):
    """After an update a block with its ghost cells is the periodic patch around it."""
    n, width = 50, 2
    dims = (n * 2, n * 3)
    a = sk.zeros(dims, "int32")
    g = sk.ghosts(dims, "int32", width=width, periodic=True)
    if sk.rank() == 0:
        values = np.arange(dims[0] * dims[1], dtype="int32").reshape(dims)
        g[...] = values
        a[...] = values
    sk.sync()
    around = tuple(slice(low - width, high + width) for low, high in g.distribution())
    want = sk.periodic(a)[around]
    for _ in range(2):
        kept = g.local.copy()
        g.padded[...] = 0
        g.local[...] = kept
        g.update(corners=corners)
        got = g.padded.copy()
        if not corners:
            for rows in np.s_[:width], np.s_[-width:]:
                for columns in np.s_[:width], np.s_[-width:]:
                    want[rows, columns] = got[rows, columns] = 0
        np.testing.assert_array_equal(got, want)
        sk.sync()
    # By dimensions, the second with the corners that the first brought to the neighbours.
    g.padded[...] = 0
    g.local[...] = kept
    for axis in 0, 1:
        for side in -1, 1:
            g.update(axis=axis, side=side, corners=corners)
    got = g.padded.copy()
    if not corners:
        for rows in np.s_[:width], np.s_[-width:]:
            for columns in np.s_[:width], np.s_[-width:]:
                got[rows, columns] = 0
    np.testing.assert_array_equal(got, want)
    sk.sync()


@pytest.mark.parametrize("ndim", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("kind", ["int32", "float64", "complex128"])
def test_patch(ndim, kind):
    """copy_patch, fill_patch, scale_patch, add_patch and dot_patch between random patches of arrays
    of different distributions."""
    shape, random = shape_of(ndim), np.random.default_rng(ndim)
    grid = (1,) * (ndim - 1) + (min(sk.size(), shape[-1]),)
    x = random.integers(-50, 50, shape).astype(kind)
    y = random.integers(-50, 50, shape).astype(kind)
    for _ in range(2):
        a, b, c = sk.asarray(x), sk.asarray(y, grid=grid), sk.zeros(shape, kind)
        wa, wb, wc = (xp.asarray(array) for array in (a, b, c))
        low, high = random_patch(random, shape)
        extent = [e - s for s, e in zip(low, high, strict=True)]
        pa, pb = slices(low, high), slices(*random_patch(random, shape, extent))
        want = y.copy()
        wb[pb] = wa[pa]  # copy
        want[pb] = x[pa]
        np.testing.assert_array_equal(wb.numpy(), want)
        if np.prod(extent) > 1:  # to another shape with as many elements
            flat = sk.zeros((int(np.prod(extent)) + 3,), kind)
            wf = xp.asarray(flat)
            wf[1:-2] = xp.reshape(wa[pa], (-1,))
            np.testing.assert_array_equal(wf.numpy()[1:-2], x[pa].ravel())
        wb[pb] = 7  # fill
        want[pb] = 7
        wb[pb] *= 3  # scale
        want[pb] *= 3
        np.testing.assert_array_equal(wb.numpy(), want)
        wc[pa] = 2 * wa[pa] + -3 * wb[pb]  # add
        total = np.zeros(shape, kind)
        total[pa] = 2 * x[pa] + -3 * want[pb]
        np.testing.assert_array_equal(wc.numpy(), total)
        dot = complex(xp.sum(wa[pa] * wb[pb]))  # dot, without a conjugate
        np.testing.assert_allclose(dot, np.sum(x[pa] * want[pb]), rtol=1e-12)
        sk.sync()
        np.testing.assert_array_equal(b.get(), want)
        sk.sync()


def filled_patches(kind, ndim, *values):
    shape, random = shape_of(ndim), np.random.default_rng(ndim)
    patch = slices(*random_patch(random, shape))
    wholes = []
    for value in values:
        whole = xp.asarray(sk.zeros(shape, kind))
        whole[patch] = value
        wholes.append(whole)
    return patch, wholes


@pytest.mark.parametrize("ndim", [1, 2, 4, 7])
@pytest.mark.parametrize("kind", TYPES)
def test_elempatch_unary(ndim, kind):
    value = -2 - 3j if kind.startswith("c") else -2
    patch, (a,) = filled_patches(kind, ndim, value)
    one = np.dtype(kind).type(value)
    tolerance = 1e-6 if kind in ("float32", "complex64") else 1e-14
    for operation, want in (
        (lambda x: xp.abs(x), abs(one)),
        (lambda x: x + 5, one + 5),
        (lambda x: 1 / x, 1 / one),
    ):
        if kind.startswith("i") and want != int(want.real):
            continue
        work = xp.asarray(a, copy=True)
        work[patch] = xp.astype(operation(work[patch]), work.dtype)
        expected = np.zeros(a.shape, kind)
        expected[patch] = want
        np.testing.assert_allclose(work.numpy(), expected, rtol=tolerance)
    sk.sync()


@pytest.mark.parametrize("ndim", [1, 2, 4, 7])
@pytest.mark.parametrize("kind", TYPES)
def test_elempatch_binary(ndim, kind):
    is_complex = kind.startswith("c")
    first, second = (-2 - 3j, 8 + 1j) if is_complex else (-2, 8)
    patch, (a, b, c) = filled_patches(kind, ndim, first, second, 0)
    one, two = np.dtype(kind).type(first), np.dtype(kind).type(second)
    larger = (lambda x, y: xp.where(xp.abs(x) >= xp.abs(y), x, y)) if is_complex else xp.maximum
    smaller = (lambda x, y: xp.where(xp.abs(x) < xp.abs(y), x, y)) if is_complex else xp.minimum
    divide = xp.floor_divide if kind.startswith("i") else xp.divide
    tolerance = 1e-6 if kind in ("float32", "complex64") else 1e-14
    for operation, want in (
        (xp.multiply, one * two),
        (divide, two // one if kind.startswith("i") else one / two),
        (larger, two),  # GA compares complex numbers by their size
        (smaller, one),
    ):
        x, y = (b, a) if kind.startswith("i") and operation is divide else (a, b)
        c[patch] = operation(x[patch], y[patch])
        expected = np.zeros(c.shape, kind)
        expected[patch] = want
        np.testing.assert_allclose(c.numpy(), expected, rtol=tolerance)
    sk.sync()


@pytest.mark.parametrize("kind", ["int32", "int64", "float32", "float64"])
def test_elempatch_step_max(kind):
    """The longest step along d that keeps x from becoming negative."""
    patch, (x, d) = filled_patches(kind, 3, 8, -2)
    x, d = x[patch], d[patch]
    step = xp.min(xp.where(d < 0, xp.divide(-1.0 * x, xp.where(d < 0, 1.0 * d, 1.0)), xp.inf))
    assert float(step) == 4.0
    sk.sync()


@pytest.mark.parametrize("ndim", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["int32", "float64", "complex128"])
def test_periodic(ndim, kind):
    """periodic_get, _put and _acc of patches that leave the array on any side."""
    shape, random = shape_of(ndim), np.random.default_rng(ndim)
    x = random.integers(-50, 50, shape).astype(kind)
    a = sk.asarray(x)
    p = sk.periodic(a)
    for turn in range(6):
        low = [int(random.integers(-n, n)) for n in shape]
        high = [s + int(random.integers(1, n + 1)) for s, n in zip(low, shape, strict=True)]
        wrapped = np.ix_(*(np.arange(s, e) % n for s, e, n in zip(low, high, shape, strict=True)))
        np.testing.assert_array_equal(p.get(slices(low, high)), x[wrapped])
        values = random.integers(-50, 50, x[wrapped].shape).astype(kind)
        sk.sync()
        if turn % sk.size() == sk.rank():
            p.put(slices(low, high), values)
        x[wrapped] = values
        sk.sync()
        np.testing.assert_array_equal(a.get(), x)
        sk.sync()
        p.acc(slices(low, high), values, alpha=2)
        x[wrapped] += 2 * sk.size() * values
        sk.sync()
        np.testing.assert_array_equal(a.get(), x)
        sk.sync()
