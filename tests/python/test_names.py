"""NumPy's functions beyond the standard give what NumPy gives, also where arrays are divided, and
gather only where they say so."""

import builtins
import dis
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import skerry as sk
import skerry.numpy as snp
from skerry import xp

DICE = np.random.default_rng(7)
A = DICE.normal(size=(40, 6))
HOLES = np.where(DICE.random(A.shape) < 0.1, np.nan, A)
V = A[:, 0].copy()
W = np.concatenate((V[5:], [9.0, V[1]]))
N = DICE.integers(0, 9, 40)
Z = A[:, :3] + 1j * A[:, 3:]


def in_place(function):
    """What a function leaves in its first argument."""

    def call(first, *rest):
        function(first, *rest)
        return first

    return call


METHODS = (
    "linear lower higher midpoint nearest inverted_cdf averaged_inverted_cdf "
    "interpolated_inverted_cdf hazen weibull median_unbiased normal_unbiased"
).split()

# What is called, with which arrays; "gathers" where it says so.
CASES = {
    **{
        f"{name} of {what}": (getattr(np, name), x)
        for name in "median ptp nanmedian nansum nanprod nanmean nanstd nanvar nanmax nanmin "
        "nanargmax nanargmin nancumsum nancumprod ediff1d histogram flatnonzero argwhere isreal "
        "sinc fix nan_to_num sort_complex atleast_3d diagflat iscomplex angle i0".split()
        for what, x in (("rows", A), ("a line", V))
    },
    **{
        f"{name} without NaN, axis {axis}": (
            lambda x, f=name, a=axis: getattr(np, f)(x, axis=a), HOLES
        )
        for name in "nansum nanprod nanmean nanstd nanvar nanmax nanmin nanmedian nancumsum".split()
        for axis in (0, 1, None)
    },
    **{
        f"quantile {method} {axis}": (
            lambda x, m=method, a=axis: np.quantile(x, [0, 0.1, 0.33, 0.5, 1], axis=a, method=m), A
        )
        for method in METHODS
        for axis in (None, 0)
    },
    "percentile": (lambda x: np.percentile(x, 30, axis=1, keepdims=True), A),
    "nanpercentile": (lambda x: np.nanpercentile(x, [3, 70]), HOLES),
    "sum where": (lambda x: np.sum(x, axis=0, where=x > 0, initial=3), A),
    "max where": (lambda x: np.max(x, axis=0, where=x > 0, initial=-1), A),
    "mean where": (lambda x: np.mean(x, axis=0, where=x > 0), A),
    "var where": (lambda x: np.var(x, axis=1, where=x > 0, ddof=1), A),
    "sum in float32": (lambda x: np.sum(x, axis=0, dtype="float32"), A),
    "cov": (np.cov, A.T),
    "cov of columns": (lambda x: np.cov(x, rowvar=False), A),
    "corrcoef": (np.corrcoef, A[:6]),
    "correlate": (lambda x, y: np.correlate(x, y, "full"), V, V[:5]),
    "gradient": (np.gradient, A),
    "gradient edges": (lambda x: np.gradient(x, 0.5, axis=0, edge_order=2), A),
    "gradient coordinates": (lambda x: np.gradient(x, np.arange(40.0) ** 2), V),
    "trapezoid": (lambda x, y: np.trapezoid(x, y), V, np.sort(V)),
    "unwrap": (lambda x: np.unwrap(x * 9, axis=0), A),
    "interp": (lambda x: np.interp(x, [-1, 0, 2], [3, 5, 4.5]), A),
    "digitize": (lambda x: np.digitize(x, [-1, 0, 2]), A),
    "histogram edges": (lambda x: np.histogram(x, [-1, 0, 2], density=True), A),
    "histogram weights": (lambda x, w: np.histogram(x, 7, weights=w), A, A * 2),
    "histogram2d": (lambda x, y: np.histogram2d(x, y, bins=(3, 4)), V, V**2),
    "histogramdd": (lambda x: np.histogramdd(x[:, :3], bins=3, density=True)[0], A),
    "einsum matrices": (lambda x, y: np.einsum("ij,kj->ik", x, y), A, A[:7]),
    "einsum sums": (lambda x, y: np.einsum("ij,ij", x, y), A, A),
    "einsum rows": (lambda x, y: np.einsum("...j,...j->...", x, y), A, A),
    "einsum of lists": (lambda x: np.einsum(x, [0, 1], [1]), A),
    "einsum path": (lambda x, y, z: np.einsum("ij,kj,kl->il", x, y, z, optimize=True), A, A, A),
    "einsum of small integers": (lambda n: np.einsum("i,i->", n, n), N.astype(np.int8)),
    "average of lists": (lambda x: np.average(x, axis=1, weights=[1, 2, 3, 4, 5, 6]), A),
    "average along two axes": (
        lambda x: np.average(x.reshape(10, 4, 6), axis=(2, 0), weights=np.ones((6, 10))), A
    ),
    "power of lists": (lambda x: np.power(x * x, [1, 2, 3, 0.5, 2, 2]), A),
    "add of a signature": (lambda x: np.add(x, 1.5, signature="ff->f", casting="unsafe"), A),
    "diff with ends": (lambda x: np.diff(x, prepend=0, append=[[1.0]] * 40), A),
    "histogramdd of edges": (
        lambda x: np.histogramdd(x[:, :2], bins=[[-1, 0, 2], [-2, 0, 1, 2]])[0], A
    ),
    "inner": (np.inner, A, A),
    "vdot": (np.vdot, Z, Z),
    "kron": (np.kron, A, A[:2]),
    "cross": (np.cross, A[:, :3], A[:, 3:]),
    "matvec": (np.matvec, A, A[0]),
    "vecmat": (np.vecmat, V, A),
    "divmod": (lambda x: np.divmod(x, 0.3), A),
    "modf": (np.modf, A),
    "frexp": (np.frexp, A),
    "add where": (lambda x: np.add(x, 1, where=x > 0, out=x.copy()), A),
    "add in float32": (lambda x: np.add(x, 1, dtype="float32"), A),
    "outer": (np.multiply.outer, V, V),
    "accumulate": (np.maximum.accumulate, V),
    "accumulate rows": (lambda x: np.subtract.accumulate(x, axis=1), A),
    "reduce": (lambda x: np.hypot.reduce(x, axis=1, initial=2, where=x > 0), A),
    "add.at": (in_place(lambda x: np.add.at(x, [0, 3, 3, -1], [1, 2, 3, 4.5])), V),
    "insert": (lambda x: np.insert(x, [1, 30, 1], [7, 8, 9], axis=None), V),
    "insert a row": (lambda x: np.insert(x, 3, 5, axis=0), A),
    "delete": (lambda x: np.delete(x, [1, -2], axis=0), A),
    "append": (lambda x, y: np.append(x, y, axis=0), A, A[:3]),
    "resize": (lambda x: np.resize(x, (7, 50)), A),
    "block": (lambda x: np.block([[x, x], [x, x + 1]]), A),
    "column_stack": (lambda x, y: np.column_stack((x, y)), A, V),
    "dstack": (lambda x, y: np.dstack((x, y)), A, A),
    "split": (lambda x: np.split(x, [3, 30]), A),
    "array_split": (lambda x: np.array_split(x, 7), A),
    "hsplit": (lambda x: np.hsplit(x, 2), A),
    "rot90": (lambda x: np.rot90(x, 3), A),
    "rollaxis": (lambda x: np.rollaxis(x, 1), A),
    "trim_zeros": (lambda x: np.trim_zeros(x * (x > 1)), V),
    **{
        f"pad {mode}": (lambda x, m=mode: np.pad(x, ((2, 1), (0, 3)), mode=m), A)
        for mode in "constant edge wrap reflect symmetric maximum mean minimum linear_ramp".split()
    },
    "select": (lambda x: np.select([x > 1, x < 0], [x, -x], 5), A),
    "choose": (lambda n, x: np.choose(n % 3, [x, -x, 9]), N, V),
    "piecewise": (lambda x: np.piecewise(x, [x < 0, x > 1], [lambda t: t * 2, 3, 7]), A),
    "compress": (lambda x: np.compress(np.arange(30) % 3 == 0, x, axis=0), A),
    "extract": (lambda x: np.extract(x > 0, x), A),
    "put": (in_place(lambda x: np.put(x, [0, 50, -1], [7, 8])), A),
    "place": (in_place(lambda x: np.place(x, x > 0, [7, 8, 9])), A),
    "putmask": (in_place(lambda x: np.putmask(x, x > 0, [7, 8, 9])), A),
    "copyto": (in_place(lambda x: np.copyto(x, 3, where=x > 0)), A),
    "put_along_axis": (
        in_place(lambda x: np.put_along_axis(x, np.arange(6).reshape(1, 6), 9, axis=0)), A
    ),
    "fill_diagonal": (in_place(lambda x: np.fill_diagonal(x, [7, 8, 9], wrap=True)), A),
    "union1d": (np.union1d, V, W),
    "intersect1d": (lambda x, y: np.intersect1d(x, y, return_indices=True), V, W),
    "setxor1d": (np.setxor1d, V, W),
    "setdiff1d": (np.setdiff1d, V, W),
    "isin": (np.isin, A, W),
    "lexsort": (lambda n, x: np.lexsort((x, n)), N, V),
    "polyval": (lambda x: np.polyval([1, 2.5, 3], x), A),
    "average and weights": (lambda x: np.average(x, axis=0, weights=x, returned=True), A**2),
    "fft2": (np.fft.fft2, A),
    "irfft2": (np.fft.irfft2, Z),
    "multi_dot": (lambda x, y: np.linalg.multi_dot([x, y, x]), A, A.T),
    "cond": (np.linalg.cond, A),
    "lstsq": (lambda x, y: np.linalg.lstsq(x, y)[0], A, V),
    "eigvals": (lambda x: np.sort_complex(np.linalg.eigvals(x)), A[:6]),
    "apply_along_axis": (lambda x: np.apply_along_axis(np.median, 0, x), A),
    "packbits": (lambda x: np.packbits(x > 0, axis=1), A),
    "unpackbits": (lambda n: np.unpackbits(n.astype(np.uint8), bitorder="little"), N),
    "vander": (lambda x: np.vander(x, 3), V),
    "polyfit": (lambda x, y: np.polyfit(x, y, 2), V, V**2),
    "reduceat": (lambda x: np.add.reduceat(x, [0, 3, 30]), V),
}  # fmt: skip


def same(ours, theirs):
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
        return
    assert ours.dtype == theirs.dtype
    assert isinstance(ours, np.generic if isinstance(theirs, np.generic) else xp.Array)
    ours = ours.numpy() if isinstance(ours, xp.Array) else ours
    rough = 1e-5 if theirs.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(ours, theirs, rtol=rough, atol=rough)


@pytest.fixture(autouse=True)
def divided():
    before = xp.options()["whole_bytes"]
    xp.options(whole_bytes=0, check_calls=1)
    yield
    xp.options(whole_bytes=before, check_calls=0)


@pytest.mark.parametrize("name", CASES)
def test_functions(name):
    function, *arrays = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = function(*[x.copy() for x in arrays])
        same(function(*[xp.asarray(x, copy=True) for x in arrays]), expected)


def test_partitions_have_the_element_in_its_place():
    for x in (A, V):
        for axis in range(x.ndim):
            k = x.shape[axis] // 2
            ours = xp.asarray(x)
            order = np.argpartition(ours, k, axis=axis).numpy()
            for found in (np.partition(ours, k, axis=axis).numpy(),
                          np.take_along_axis(x, order, axis)):  # fmt: skip
                middle = np.take(found, [k], axis)
                assert (middle == np.take(np.sort(x, axis), [k], axis)).all()
                assert (np.take(found, range(k), axis) <= middle).all()
                assert (np.take(found, range(k, x.shape[axis]), axis) >= middle).all()


def test_an_array_of_numpys_is_written_at_divided_indices():
    ours, theirs = np.zeros(9), np.zeros(9)
    np.put(ours, xp.asarray(N[:20]), 5)
    np.put(theirs, N[:20], 5)
    assert (ours == theirs).all()


def test_printing_needs_no_other_rank():
    """print(x) of a divided array showed no number."""
    x = xp.asarray(A)
    if sk.rank() == sk.size() - 1:  # alone: it would wait for ever
        text, shown = repr(x), str(x)
        if sk.size() == 1:
            assert (text, shown) == (repr(A), str(A))
        else:
            assert f"{A[-1, -1]:.8f}"[:8] in text and "shape=(40, 6)" in text
            assert f"rank {sk.rank()}" in shown and "40" in shown
    assert f"{xp.asarray(V)[3]:.3f}" == f"{V[3]:.3f}"


def test_the_page_has_the_table_of_names():
    page = Path(__file__).resolve().parents[2] / "tests" / "numpy" / "names.py"
    if sk.rank() == 0 and page.exists():
        done = subprocess.run([sys.executable, page], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_gathers_respects_the_bound():
    x = xp.asarray(V)
    xp.options(gather_bytes=100)
    try:
        if sk.size() > 1:
            with pytest.raises(sk.GatherError, match="gather_bytes"):
                np.apply_along_axis(np.median, 0, x)
        same(np.median(x), np.median(V))
    finally:
        xp.options(gather_bytes=1 << 30)


if sk.size() > 1:  # NumPy writes whole arrays

    def test_what_will_never_be_there_names_the_remedy():
        for function in (np.save, np.savez):
            with pytest.raises(sk.GatherError, match="sk.save"):
                function("x.npy", xp.asarray(V))


def test_a_star_brings_numpy_s_names():
    """It brought only what had been asked for before: sum() of a matrix was Python's, of rows."""
    theirs, ours = {}, {}
    exec("from numpy import *", theirs)
    exec("from skerry.numpy import *", ours)
    assert {name for name in theirs if name[0] != "_"} <= set(ours)
    assert ours["sum"](ours["ones"]((30, 4))) == 120


def _globals_of(code):
    """The names of the module, or Python's, that a function takes."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return names.union(*map(_globals_of, inner))


def test_functions_of_the_module_take_python_s_own_from_builtins():
    """Once a program has asked for np.abs, abs is NumPy's in the module, too."""
    both = set(np.__all__) & set(dir(builtins))
    assert both >= {"abs", "max", "sum"}
    for each in vars(snp).values():
        if isinstance(each, types.FunctionType) and each.__module__ == snp.__name__:
            assert not _globals_of(each.__code__) & both, each
