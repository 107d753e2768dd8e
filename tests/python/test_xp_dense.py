"""Factorisations of a divided matrix by panels: what NumPy gives, without a gather."""

import ctypes

import numpy as np
import pytest

import skerry as sk
import skerry.numpy as snp
import skerry.xp as xp
from skerry.xp import _dense, _lapack

RANDOM = np.random.default_rng(3)


@pytest.fixture(autouse=True, params=["lapack", "numpy"])
def divided(request, monkeypatch):
    if request.param == "numpy":  # as where NumPy has no LAPACK that is known
        monkeypatch.setattr(_lapack, "_library", lambda: None)
    before = xp.options()
    monkeypatch.setattr(_dense, "LEAST", 20)
    xp.options(whole_bytes=0, gather_bytes=4096)  # less than any of these matrices
    yield
    xp.options(whole_bytes=before["whole_bytes"], gather_bytes=before["gather_bytes"])


def matrix(m, n, dtype):
    values = RANDOM.standard_normal((m, n))
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RANDOM.standard_normal((m, n))
    return values.astype(dtype)


def ours(values):
    return xp.asarray(values, copy=True)


def near(got, expected):
    got = got.numpy()
    assert got.shape == expected.shape and got.dtype == expected.dtype
    rough = 2e-2 if expected.dtype.itemsize // (1 + (expected.dtype.kind == "c")) == 4 else 1e-9
    most = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(got, expected, rtol=rough, atol=rough * most)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("n", [40, 97, 230])
def test_square_matrices(n, dtype):
    a = matrix(n, n, dtype)
    positive = (a @ a.conj().T + n * np.eye(n)).astype(dtype)
    gathers = xp.counters()["gathers"]
    x, y = ours(a), ours(positive)
    lower, upper = (xp.linalg.cholesky(y, upper=upper) for upper in (False, True))
    b = matrix(n, 5, dtype)
    solved = [xp.linalg.solve(x, ours(v)) for v in (b, b[:, :1], b[:, 0])]
    inverse, (sign, logarithm) = xp.linalg.inv(x), xp.linalg.slogdet(x)
    assert xp.counters()["gathers"] == gathers
    near(lower, np.linalg.cholesky(positive))
    near(upper, np.linalg.cholesky(positive, upper=True))
    for got, v in zip(solved, (b, b[:, :1], b[:, 0]), strict=True):
        near(got, np.linalg.solve(a, v))
    near(inverse, np.linalg.inv(a))
    near(sign, np.asarray(np.linalg.slogdet(a)[0]))
    near(logarithm, np.asarray(np.linalg.slogdet(a)[1]))


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(90, 90), (130, 75), (75, 130)])
def test_orthogonal_and_triangular(shape, dtype, mode):
    a = matrix(*shape, dtype)
    gathers = xp.counters()["gathers"]
    q, r = xp.linalg.qr(ours(a), mode=mode)
    assert xp.counters()["gathers"] == gathers
    near(q, np.linalg.qr(a, mode)[0])
    near(r, np.linalg.qr(a, mode)[1])
    near(snp.linalg.qr(ours(a), mode="r"), np.linalg.qr(a, "r"))


def test_columns_that_depend_on_others():
    a = matrix(90, 90, "float64")
    a[:, 7] = 0
    a[:, 50] = a[:, 3]
    q, r = (x.numpy() for x in xp.linalg.qr(ours(a)))
    np.testing.assert_allclose(q @ r, a, atol=1e-12)
    np.testing.assert_allclose(q.T @ q, np.eye(90), atol=1e-12)


@pytest.mark.parametrize("shape", [(90, 90), (130, 75), (400, 22)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_least_squares(shape, dtype):
    xp.options(gather_bytes=1 << 17)  # the triangle
    a, b = matrix(*shape, dtype), matrix(shape[0], 3, dtype)
    deficient = a.copy()
    deficient[:, 5] = deficient[:, 6]
    for left in (a, deficient):
        for right in (b, b[:, 0]):
            found = snp.linalg.lstsq(ours(left), ours(right))
            expected = np.linalg.lstsq(left, right)
            for i in (0, 1, 3):
                near(found[i], expected[i])
            assert found[2] == expected[2] and type(found[2]) is type(expected[2])
    for rcond in (0.3, 1.0, -1):
        found, expected = snp.linalg.lstsq(ours(a), ours(b), rcond), np.linalg.lstsq(a, b, rcond)
        assert found[2] == expected[2]


@pytest.mark.parametrize("at", [0, 31, 99])
def test_errors_are_those_of_all(at):
    a = np.eye(100)
    a[at, at] = 0
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        xp.linalg.solve(ours(a), ours(np.ones(100)))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        xp.linalg.inv(ours(a))
    assert float(xp.linalg.det(ours(a))) == 0
    assert float(xp.linalg.slogdet(ours(a)).logabsdet) == -np.inf
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        xp.linalg.cholesky(ours(a))
    assert xp.sum(ours(a)) == 99  # the ranks still meet


def test_a_rank_that_fails_ends_all(monkeypatch):
    if sk.size() == 1:
        return  # one rank has the whole matrix: no panels
    real = _dense._LU.factor

    def factor(self, block, k0, head, aside):
        if k0 and sk.rank() == 1:
            raise MemoryError("no room")
        return real(self, block, k0, head, aside)

    monkeypatch.setattr(_dense._LU, "factor", factor)
    with pytest.raises(MemoryError if sk.rank() == 1 else sk.InvalidError):
        xp.linalg.inv(ours(matrix(230, 230, "float64")))
    assert xp.sum(ours(np.ones(40))) == 40


def test_what_is_not_a_number_goes_through():
    a = matrix(60, 60, "float64")
    a[3, 4] = np.nan
    assert np.isnan(xp.linalg.solve(ours(a), ours(np.ones(60))).numpy()).any()
    assert np.isnan(xp.linalg.cholesky(ours(np.full((60, 60), np.nan))).numpy()).any()


def test_other_layouts_and_names_of_numpy():
    a = matrix(96, 96, "float64") + 20 * np.eye(96)
    grid = sk.asarray(a)
    x = xp.asarray(grid)
    near(snp.linalg.inv(x), np.linalg.inv(a))
    near(snp.linalg.solve(x.T, a[0]), np.linalg.solve(a.T, a[0]))
    np.testing.assert_allclose(snp.linalg.det(x * 0.1), np.linalg.det(a * 0.1))
    with pytest.raises(ValueError):
        snp.linalg.solve(x, snp.ones(95))
    integers = snp.arange(96 * 96).reshape(96, 96) % 7 + 40 * snp.eye(96, dtype=int)
    near(snp.linalg.inv(integers), np.linalg.inv(integers.numpy()))


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_a_product_is_subtracted_in_place_from_every_kind_of_slice(dtype):
    if _lapack._library() is None:
        assert not _lapack.subtracted(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)))
        return
    big, a, b = matrix(40, 30, dtype), matrix(20, 12, dtype), matrix(12, 9, dtype)
    for left in (a, a.T.copy().T, matrix(40, 24, dtype)[::2, ::2], a[:1]):
        for right in (b, b.conj().T.copy().T, b[:, :1]):
            out = big.copy()
            part = out[3 : 3 + len(left), 5 : 5 + right.shape[1]]
            expected = big.copy()
            expected[3 : 3 + len(left), 5 : 5 + right.shape[1]] -= left @ right
            _dense._subtract(part, left, right)
            rough = 1e-4 if np.dtype(dtype).char in "fF" else 1e-12
            np.testing.assert_allclose(out, expected, rtol=rough, atol=rough)


def test_numpys_lapack_is_found_and_not_another_one():
    # Its wheels have one. This process may have an older one as well, for sk.Array's products.
    if "openblas" not in np.show_config("dicts")["Build Dependencies"]["lapack"]["name"]:
        pytest.skip("this NumPy has no OpenBLAS")
    library = _lapack._library()
    if _lapack._library.__name__ == "<lambda>":
        return
    assert library is not None
    with open("/proc/self/maps") as lines:
        mapped = [line.split(None, 5) for line in lines]
    numpys = [fields for fields in mapped if "numpy.libs/" in fields[-1]]
    if not numpys:
        pytest.skip("this NumPy takes the system's OpenBLAS")
    for function in library.functions["d"]:
        address = ctypes.cast(function, ctypes.c_void_p).value
        bounds = [[int(part, 16) for part in fields[0].split("-")] for fields in numpys]
        assert any(low <= address < high for low, high in bounds)


def test_matrices_that_a_library_cannot_use_are_left_alone():
    square = np.ones((2, 2))
    swapped = square.astype(square.dtype.newbyteorder("S"))
    assert _lapack.lu(swapped, np.zeros(2, np.int64)) is None
    assert not _lapack.subtracted(swapped, swapped, swapped)
    assert (swapped == square).all()
    fixed, crooked = square.copy(), np.zeros(33, np.uint8)[1:].view("float64").reshape(2, 2)
    fixed.flags.writeable = False
    for out in (fixed, crooked):
        before = out.copy()
        assert _lapack.lu(out, np.zeros(2, np.int64)) is None
        assert not _lapack.subtracted(out, square, square)
        assert (out == before).all()
    assert not _lapack.subtracted(square, crooked, fixed)


def test_the_width_of_a_librarys_numbers_is_seen_in_its_pivots():
    def writes(*pivots, whole):
        def getrf(m, n, matrix, lda, where, info):
            ctypes.memmove(where.value, np.array(pivots, whole).tobytes(), 2 * whole().itemsize)

        return getrf

    for whole, of_c in ((np.int64, ctypes.c_int64), (np.int32, ctypes.c_int32)):
        assert _lapack._whole_numbers(writes(2, 2, whole=whole)) is of_c
        with pytest.raises(AttributeError, match="no pivots"):
            _lapack._whole_numbers(writes(1, 2, whole=whole))


@pytest.mark.parametrize(("n", "m"), [(40, 13), (9, 9), (7, 1), (5, 0)])
def test_numbers_of_one_matrix_are_the_same_on_all_ranks(n, m):
    """One rank may have all of it: the others took what lay in their memory for the result."""
    a = np.random.default_rng(3).random((n, n)) + np.eye(n)
    part, own = xp.asarray(a)[:m, :m], a[:m, :m]
    np.testing.assert_allclose(xp.linalg.det(part), np.linalg.det(own))
    for got, expected in zip(xp.linalg.slogdet(part), np.linalg.slogdet(own), strict=True):
        near(got, np.asarray(expected))
