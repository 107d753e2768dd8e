"""skerry.numpy: NumPy's spelling of whole arrays, and the same random numbers on any ranks."""

import contextlib
import inspect
import warnings

import numpy as np
import pytest

import skerry as sk
import skerry.numpy as snp
import skerry.xp as xp


@pytest.fixture(autouse=True)
def divided():
    before = xp.options()["whole_bytes"]
    xp.options(whole_bytes=0, check_calls=1)
    snp.random.seed(3)
    yield
    xp.options(whole_bytes=before, check_calls=0)


def near(ours, theirs):
    """Numbers where NumPy gives numbers, arrays where it gives arrays."""
    assert isinstance(ours, np.generic if isinstance(theirs, np.generic) else xp.Array)
    values = ours.numpy() if isinstance(ours, xp.Array) else ours
    np.testing.assert_allclose(values, theirs, rtol=1e-12, atol=1e-13)


def refused(what):
    """An error that names what divided arrays lack; whole ones are NumPy's."""
    if sk.size() == 1:
        return contextlib.nullcontext()
    return pytest.raises(sk.GatherError, match=what)


@pytest.fixture
def matrix():
    return snp.random.rand(37, 29)


def test_products(matrix):
    a, v = matrix.numpy(), snp.random.randn(29)
    w = v.numpy()
    near(matrix.dot(v), a @ w)
    near(snp.dot(v, v), w @ w)
    near(snp.dot(matrix, 2), a * 2)
    near(snp.dot(matrix.T, matrix), a.T @ a)
    stack = snp.random.rand(4, 29, 3)
    near(snp.dot(matrix, stack), np.dot(a, stack.numpy()))
    out = snp.zeros((37, 37))
    assert snp.dot(matrix, matrix.T, out=out) is out
    near(out, a @ a.T)
    with pytest.raises(ValueError, match="out has|wrong dimensions"):
        snp.dot(matrix.T, matrix, out=out)


@pytest.mark.parametrize("k", [-40, -5, -1, 0, 1, 4, 28])
def test_diagonals(matrix, k):
    a, v = matrix.numpy(), snp.random.rand(23)
    near(snp.diag(matrix, k), np.diag(a, k))
    near(snp.diag(matrix.T, k), np.diag(a.T, k))
    near(snp.diag(v, k), np.diag(v.numpy(), k))


def test_bincount():
    numbers, weights = snp.random.randint(0, 9, 1000), snp.random.random(1000)
    n, w = numbers.numpy(), weights.numpy()
    near(snp.bincount(numbers, minlength=12), np.bincount(n, minlength=12))
    near(snp.bincount(numbers, weights=weights), np.bincount(n, w))
    with pytest.raises(ValueError, match="negative"):
        snp.bincount(numbers - 5)
    with pytest.raises(ValueError, match="weights"):
        snp.bincount(numbers, weights[1:])


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("method", ["direct", "fft"])
def test_convolution(mode, method):
    x, y = snp.random.rand(101), snp.random.rand(7)
    near(snp.convolve(x, y, mode, method), np.convolve(x.numpy(), y.numpy(), mode))
    near(snp.convolve(y, x, mode, method), np.convolve(y.numpy(), x.numpy(), mode))
    from scipy import signal

    x, y = snp.random.rand(13, 9, 8), snp.random.rand(4, 3, 2)
    near(snp.convolve(x, y, mode, method), signal.convolve(x.numpy(), y.numpy(), mode))


def test_norms_and_closeness(matrix):
    a = matrix.numpy()
    near(snp.linalg.norm(matrix), np.linalg.norm(a))
    near(snp.linalg.norm(matrix, ord=2, axis=1), np.linalg.norm(a, 2, 1))
    near(snp.linalg.norm(matrix, 1), np.linalg.norm(a, 1))
    near(snp.linalg.norm(matrix, 1, axis=(1, 0)), np.linalg.norm(a, 1, axis=(1, 0)))
    assert snp.allclose(matrix, matrix + 1e-12) and not snp.allclose(matrix, matrix + 1)
    assert snp.array_equal(matrix, a) and not snp.array_equal(matrix, matrix.T)
    odd = snp.array([np.inf, -np.inf, np.nan, 1])
    assert snp.isclose(odd, odd).numpy().tolist() == [True, True, False, True]
    ones = snp.ones(50)
    assert snp.allclose(ones, 1.0) and snp.array_equal(ones, [1.0] * 50)
    near_or_far = [np.array([1, 100], "int8"), np.array([2, -100], "int8")]
    ours = snp.isclose(*map(snp.array, near_or_far), atol=60, rtol=0).numpy()
    assert (ours == np.isclose(*near_or_far, atol=60, rtol=0)).all() and not ours[1]
    assert snp.allclose(ones > 0, ones > 0)


def test_methods_and_stacking(matrix):
    a = matrix.numpy()
    near(matrix.mean(axis=0), a.mean(axis=0))
    near(matrix.std(axis=1, ddof=1), a.std(axis=1, ddof=1))
    near(matrix.transpose(), a.T)
    near(matrix.ravel(), a.ravel())
    near(snp.hstack((snp.ones((37, 1)), matrix)), np.hstack((np.ones((37, 1)), a)))
    near(snp.vstack((matrix, matrix[0])), np.vstack((a, a[0])))
    near(snp.average(matrix, weights=matrix), np.average(a, weights=a))
    assert f"{matrix.sum():.3f}" == f"{a.sum():.3f}"
    assert str(matrix.max()) == str(a.max())
    assert matrix.astype("float32").dtype == np.float32
    assert snp.sqrt(2.0) == np.sqrt(2.0) and snp.float32 is np.float32
    points = np.arange(29.0)
    near(snp.interp(matrix[0], points, a[1]), np.interp(a[0], points, a[1]))


def test_shapes_and_bounds_in_the_spelling_of_any_numpy(matrix):
    """NumPy 2.0 has np.reshape(newshape=) without copy=, and needs both bounds of np.clip."""
    a = matrix.numpy()
    for x in (matrix.reshape(29, 37), matrix.reshape((29, -1), order="A"),
              np.reshape(matrix, (29, 37)), np.reshape(matrix, (-1, 37), "C")):  # fmt: skip
        near(x, a.reshape(29, 37))
    assert matrix.reshape(37, 29, copy=True) is not matrix
    with refused("order"):
        near(matrix.reshape(29, 37, order="F"), a.reshape(29, 37, order="F"))
    spelling = inspect.signature(np.reshape).parameters
    for name in spelling.keys() & {"shape", "newshape"}:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newshape= is going
            near(np.reshape(matrix, **{name: (29, 37)}), a.reshape(29, 37))
    if {"shape", "newshape"} <= spelling.keys():
        with pytest.raises(TypeError, match="mean the same"):
            np.reshape(matrix, shape=(29, 37), newshape=(29, 37))
    near(np.std(matrix, ddof=1), np.std(a, ddof=1))
    if "correction" in inspect.signature(np.std).parameters:
        near(np.std(matrix, ddof=0, correction=1), np.std(a, ddof=1))
        with pytest.raises((TypeError, ValueError), match="mean the same|simultaneously"):
            np.std(matrix, ddof=1, correction=1)
    near(matrix.clip(0.5), np.clip(a, 0.5, None))
    near(matrix.clip(min=0.5), np.clip(a, 0.5, None))
    near(matrix.clip(max=0.5), np.clip(a, None, 0.5))
    near(np.clip(matrix, 0.2, 0.5), np.clip(a, 0.2, 0.5))
    out = snp.zeros((37, 29))
    assert matrix.clip(0.2, 0.5, out) is out
    near(out, np.clip(a, 0.2, 0.5))


def test_results_fill_a_larger_out_of_elementwise_functions(matrix):
    a = matrix.numpy()
    for rows, shape in ((matrix[0], (37, 29)), (matrix, (2, 37, 29)), (matrix[:1], (37, 29)),
                        (matrix[0], (1, 29)), (matrix[0, :1], (37, 29))):  # fmt: skip
        out, theirs = snp.zeros(shape), np.zeros(shape)
        assert np.multiply(rows, 2, out=out) is out
        near(out, np.multiply(rows.numpy(), 2, out=theirs))
    assert np.multiply(matrix[0, 0], 2, out=out) is out
    near(out, np.multiply(a[0, 0], 2, out=np.zeros(out.shape)))
    for shape in ((29,), (1, 29), (37, 1), (36, 29)):
        with pytest.raises(ValueError, match="out has|broadcast"):
            np.exp(matrix, out=snp.zeros(shape))
        with pytest.raises(ValueError, match="broadcast"):
            np.exp(a, out=np.zeros(shape))
    for out in (snp.zeros((2, 29)), snp.zeros((1, 29))):
        with pytest.raises(ValueError, match="out has|dimension|broadcast"):
            np.sum(matrix, axis=0, out=out)


@pytest.mark.parametrize("one", [int, np.int64, np.uint8])
def test_axes_may_be_numpys_integers(matrix, one):
    a, w, v = matrix.numpy(), snp.random.rand(29), snp.random.rand(29)
    near(np.average(matrix, axis=one(1), weights=w), np.average(a, axis=1, weights=w.numpy()))
    if one is not np.uint8 or not matrix.layout.whole:  # NumPy takes none without a sign there
        near(np.tensordot(matrix, v, axes=one(1)), a @ v.numpy())
    near(v.transpose(one(0)), v.numpy())
    near(matrix.sum(axis=one(0)), a.sum(axis=0))
    with pytest.raises(TypeError, match="Axis must be specified"):
        np.average(matrix, weights=w)
    with pytest.raises(ValueError, match="Shape of weights"):
        np.average(matrix, axis=one(0), weights=w)


def test_functions_in_c_know_their_arguments(matrix):
    """Before NumPy 2.4 they do not tell their signature."""
    assert np.result_type(matrix, matrix) == np.result_type(matrix, "float32", 1.0) == np.float64
    assert not np.can_cast(matrix, "float32") and np.can_cast(matrix, "complex128")
    for like in (np.zeros(3, like=matrix), np.zeros((3,), "float64", like=matrix),
                 np.empty(3, dtype="float64", like=matrix) * 0):  # fmt: skip
        near(like, np.zeros(3))
    near(np.asarray([1, 2], "float32", like=matrix), np.float32([1, 2]))
    near(np.arange(5, like=matrix), np.arange(5))
    near(np.arange(1, 9, 2, dtype="float32", like=matrix), np.arange(1, 9, 2))
    near(np.concatenate((matrix, matrix), 1), np.concatenate((matrix.numpy(),) * 2, 1))
    near(np.vdot(matrix, matrix), np.vdot(matrix.numpy(), matrix.numpy()))


def test_tall_matrices_are_factored_where_they_are(monkeypatch):
    xp.options(whole_bytes=1000)  # the triangles
    x = snp.random.rand(4000, 6)
    a, before = x.numpy(), xp.counters()["gathers"]
    q, r = xp.linalg.qr(x)
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    product = xp.matmul(x.T, x)
    assert xp.counters()["gathers"] == before
    near(xp.matmul(q, r), a)
    near(xp.matmul(u * s, vh), a)
    near(xp.matmul(q.T, q), np.eye(6))
    near(xp.matmul(u.T, u), np.eye(6))
    near(s, np.linalg.svd(a, compute_uv=False))
    near(xp.linalg.svdvals(x), s.numpy())
    modes, qr = [], np.linalg.qr
    monkeypatch.setattr(np.linalg, "qr", lambda a, mode: modes.append(mode) or qr(a, mode))
    near(xp.linalg.svdvals(x), s.numpy())
    assert set(modes) == ({"r"} if sk.size() > 1 else set())  # it formed Q for nothing
    near(product, a.T @ a)
