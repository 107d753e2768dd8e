"""Functions of skerry.numpy that make arrays, or take lists, have NumPy's arguments, whole and
divided."""

import io
import warnings

import numpy
import pytest

import skerry as sk
import skerry.numpy as np
import skerry.xp as xp


pytestmark = pytest.mark.usefixtures("divided_and_whole")


def plain(value):
    return value.numpy() if isinstance(value, xp.Array) else value


def same(ours, theirs):
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
        return
    values, theirs = numpy.asarray(plain(ours)), numpy.asarray(theirs)
    assert values.shape == theirs.shape and values.dtype == theirs.dtype
    numpy.testing.assert_allclose(values, theirs, rtol=1e-14, atol=1e-14)


LISTS = [
    ([1.0, 2.0, 3.0],), ([1.0, 2.0, 3.0], [0.0, 1.0, 2.0]), ([[1.0, 2.0], [3.0, 4.5]],),
    ([[1.0, 2.0], [3.0, 4.5]], [[1.0, 2.0], [3.0, 4.0]]), ([1, 2, 3], [1, 0, 2]), ([3, 1, 2], 1),
    ([[1, 2], [3, 4]], [0, 1]), ([True, False, True], [1, 2, 3], [4, 5, 6]),
    ([1.0, 2.0, 3.0], [0.0, 1.0, 2.0], [5.0, 6.0, 7.0]), ([1, 2, 3, 4], (2, 2)),
    ([[True, False], [True, True]], [[1, 2], [3, 4]]),
]  # fmt: skip
# They tell of NumPy, or write files, or what they give has no values.
LEAVE_OUT = set("save savez savez_compressed savetxt info empty empty_like test".split())


def calls():
    """(function, NumPy's, arguments, what NumPy gives) of all that take LISTS."""
    for home, ours in ((numpy, np), (numpy.linalg, np.linalg), (numpy.fft, np.fft)):
        for name in sorted(set(home.__all__) - LEAVE_OUT):
            function = getattr(home, name)
            if isinstance(function, type) or not callable(function):
                continue
            for given in LISTS:
                with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    try:
                        theirs = function(*given)
                    except Exception:  # noqa: BLE001 (NumPy refuses these arguments)
                        continue
                    if isinstance(theirs, (numpy.ndarray, numpy.generic)):
                        yield getattr(ours, name), function, given, theirs


def test_functions_take_lists_where_numpys_do():
    judged = 0
    for ours, _, given, theirs in calls():
        same(ours(*given), theirs)
        judged += 1
    assert judged > 700


# What LISTS are to them is an axis, a shape or a flag, or rows that they do not take as arrays.
NO_ARRAYS = set(
    "asmatrix average block flip full median nanmedian resize tril triu".split()
)


def test_functions_take_lists_beside_arrays_and_lists_of_arrays():
    judged = 0
    for ours, numpys, given, theirs in calls():
        for at, values in enumerate(given):
            if not isinstance(values, list) or numpys.__name__ in NO_ARRAYS:
                continue
            forms = [np.array(values)]
            if isinstance(values[0], list):
                forms.append([np.array(row) for row in values])
                forms.append([np.array(values[0]), *values[1:]])
            for form in forms:
                try:
                    got = ours(*given[:at], form, *given[at + 1 :])
                except sk.GatherError:  # it says what to do
                    continue
                except (TypeError, ValueError) as error:
                    with pytest.raises(type(error)):  # NumPy takes lists of such, and no arrays
                        numpys(*map(numpy.array, given))
                    continue
                same(got, theirs)
                judged += 1
    assert judged > 2200


def test_sequences_of_arrays_are_arrays():
    x, y = np.arange(12.0), np.arange(12.0) * 2
    both = numpy.stack([numpy.arange(12.0), numpy.arange(12.0) * 2])
    same(np.array([x, y]), both)
    same(np.array((x, [y[0]] * 12)), [both[0], [0.0] * 12])
    assert np.asarray([x, y]).layout.whole == x.layout.whole
    same(np.sum([x, y], axis=0), both.sum(axis=0))
    same(np.sqrt([x, y]), numpy.sqrt(both))
    same(np.maximum.reduce([x, y]), both.max(axis=0))
    same(np.logical_and.reduce([x > 1, y < 9]), (both[0] > 1) & (both[1] < 9))
    same(np.add.accumulate((x, y)), numpy.add.accumulate(both))
    same(np.arange(3) @ [1, 2, 3], 8)
    same(np.full_like(x, [3.0]), [3.0] * 12)
    with pytest.raises(ValueError):
        np.sum([x, y[:3]])
    same(np.histogram2d(x, y, bins=[np.array([0.0, 5.0, 11.0]), np.array([0.0, 22.0])])[0],
         [[5.0], [7.0]])  # fmt: skip
    rows, columns = np.array([0, 1]), np.array([2, 1])
    same(np.ravel_multi_index((rows[:, None], columns[None, :]), (3, 4)), [[2, 1], [6, 5]])
    assert not np.array_equal([x[:3], y[:2]], [x[:3], y[:3]])
    same(np.stack([[x[0], y[1]], y[:2]]), [[0.0, 2.0], [0.0, 2.0]])
    same(np.vstack([[1] * 12, x])[0], [1.0] * 12)
    if xp.options()["whole_bytes"]:  # of whole arrays a ufunc's method is of this rank alone
        before = xp.counters()["agreements"]
        if sk.rank() == 0:
            np.maximum.reduce([x, y])
        assert xp.counters()["agreements"] == before
    np.any([x > 0, y > 0])
    same(np.r_[x, [1, 2]], numpy.r_[both[0], [1, 2]])  # np.any stood for Python's in here


def test_functions_of_elements_are_called_where_these_are():
    x, values = np.linspace(0, 1, 50), numpy.linspace(0, 1, 50)

    @np.vectorize
    def step(a, high=1):
        return high if a > 0.5 else 0

    assert type(step(x)) is type(x) and step(3.0) == 1
    before = xp.counters()["gathers"]
    got = step(x), step(x, [2] * 50), step(x[:, None], [2, 3]), np.vectorize(float, otypes="f")(x)
    assert xp.counters()["gathers"] == before
    high = (values > 0.5) * 1
    same(got, (high, 2 * high, high[:, None] * numpy.array([2, 3]), values.astype("f")))
    same(step(x, high=2), 2 * (values > 0.5))  # what follows is collected
    same(np.vectorize(lambda a: (a, a + 1))(x), (values, values + 1))
    same(np.vectorize(float, otypes=[np.float32])(x), values.astype("f"))
    same(np.vectorize(lambda a, b: a * len(b))(x, "abc"), values * 3)
    assert np.vectorize(str, otypes="U")(x[:2]).tolist() == ["0.0", str(values[1])]
    same(np.vectorize(lambda a, b: a + b)([x, x], x), [2 * values] * 2)
    rows = np.vectorize(lambda row: row.sum(), signature="(n)->()")
    same(rows(x.reshape(5, 10)), values.reshape(5, 10).sum(axis=1))

    def refuses(a):
        if a > 0.9:
            raise KeyError("high")
        return a

    with pytest.raises((KeyError, sk.InvalidError)):
        np.vectorize(refuses)(x)

    def differs(a):
        if sk.rank() == 0 and kind == "refuses":
            raise KeyError("first")
        return int(a) if sk.rank() == 0 else float(a)

    kind = "refuses"
    if sk.size() > 1 and not x.layout.whole:
        for kind in ("refuses", "differs"):  # noqa: B007
            with pytest.raises((KeyError, sk.InvalidError)):
                np.vectorize(differs)(x)


def test_numpys_modules_of_functions_take_arrays():
    x, values = np.linspace(0, 1, 50), numpy.linspace(0, 1, 50)
    same(np.polynomial.chebyshev.chebfit(x, x**2, 2),
         numpy.polynomial.chebyshev.chebfit(values, values**2, 2))  # fmt: skip
    same(np.polynomial.polynomial.polyval(x, [1, 2]), 1 + 2 * values)
    np.testing.assert_allclose(x, values)
    with pytest.raises(AssertionError, match="Mismatched elements: 48"):
        np.testing.assert_allclose(x, x**2)
    np.testing.assert_equal({"a": [x]}, {"a": [x]})
    np.testing.assert_raises(AttributeError, lambda a: a.nothing, x)
    np.testing.assert_(x.layout is not None)


def test_evenly_spaced_numbers_have_numpys_arguments():
    for given, named in (
        ((0, 1), {}), ((0, 5, 7, False), {}), ((1, 2, 9), {"retstep": True}), ((0, 10, 5), {}),
        ((0, 10, 5), {"dtype": int}), ((numpy.float64(1), 2j, 5), {}), ((3, 4, 1), {}),
        (([0.0, 1.0], [2, 3], 4), {}), (([0.0, 1.0], 5, 4), {"axis": 1}), ((2, 1, 0), {}),
    ):  # fmt: skip
        same(np.linspace(*given, **named), numpy.linspace(*given, **named))
    same(np.linspace(np.array([0.0, 1.0]), 5, 4), numpy.linspace([0.0, 1.0], 5, 4))


def test_grids_have_numpys_arguments():
    cases = ([1, 2, 3], [4.0, 5.0]), (numpy.arange(4), 2.0, [1, 2]), (np.arange(5), [3.0]), ()
    for given in (*cases, ([[1, 2], [3, 4]], [5, 6])):
        for named in ({}, {"sparse": True}, {"indexing": "ij"}, {"copy": False},
                      {"sparse": True, "indexing": "ij"}):  # fmt: skip
            ours, theirs = np.meshgrid(*given, **named), numpy.meshgrid(*map(plain, given), **named)
            assert type(ours) is type(theirs)
            same(ours, theirs)
    first = np.meshgrid([1.0, 2.0], [3.0, 4.0, 5.0])[0]
    first[1, 1] = 9
    assert float(first[0, 1]) == 2


def test_convolution_takes_lists_and_numbers():
    for given in (([1, 2, 3], [0, 1]), (np.arange(5.0), [1.0, 2.0]), (3, [1, 2]),
                  (numpy.arange(4), np.arange(9.0))):  # fmt: skip
        for mode in ("full", "same", "valid"):
            same(np.convolve(*given, mode), numpy.convolve(*map(plain, given), mode))
    for given in (([], []), ([1, 2], [3], "bogus")):
        with pytest.raises(ValueError):
            np.convolve(*given)


def test_no_copy_is_made_where_none_is_wanted():
    # Of a whole array, a copy came: what was written into it was lost.
    x = np.arange(6.0)
    assert np.array(x, copy=False) is x and np.asarray(x) is x and np.array(x) is not x
    row = np.array(x, copy=False, ndmin=2)
    row[0, 2] = 7
    assert float(x[2]) == 7 and row.shape == (1, 6)
    for make in (np.array, np.asarray):
        with pytest.raises(ValueError):
            make(x, dtype=np.int64, copy=False)
    assert np.asarray(x, dtype=np.float32).dtype == numpy.float32


def test_modules_are_imported_by_name():
    from skerry.numpy.fft import rfft
    from skerry.numpy.linalg import norm
    from skerry.numpy.polynomial.chebyshev import chebval
    from skerry.numpy.random import default_rng
    from skerry.numpy.testing import assert_allclose

    x = np.arange(8.0)
    assert_allclose(norm(x), numpy.linalg.norm(numpy.arange(8.0)))
    same(rfft(x), numpy.fft.rfft(numpy.arange(8.0)))
    same(chebval(x, [1, 2]), 1 + 2 * numpy.arange(8.0))
    assert default_rng(1).random(3).shape == (3,)


def test_what_needs_no_change_is_the_array_itself():
    for name in ("asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite", "real"):
        x = np.arange(4.0)
        y = getattr(np, name)(x)
        y -= 1
        same(x, [-1.0, 0.0, 1.0, 2.0])
    x = np.arange(6.0).reshape(2, 3)
    y = np.einsum("ij->ji", np.require(x, float, "C"))
    y[0] = 9
    same(x, [[9.0, 1.0, 2.0], [9.0, 4.0, 5.0]])
    same(np.einsum("ij", x), x.numpy())
    with pytest.raises(ValueError, match="infs or NaNs"):
        np.asarray_chkfinite(np.array([1.0, numpy.inf]))
    diagonal = np.einsum("ii->i", np.zeros((3, 3)))
    same(diagonal, numpy.zeros(3))
    assert x.item((1, 2)) == x.item(5) == 5.0


def test_a_reshape_that_moves_is_a_copy_of_one_moment():
    # Ranks whose part stayed showed what was written later, the others did not.
    x = np.arange(10.0).reshape(5, 2)
    y = x.reshape(2, 5)
    x += 1
    values = y.numpy().reshape(-1) - numpy.arange(10.0)
    assert (values == values[0]).all()


def test_compress_has_the_condition_first_as_a_function_alone():
    x = np.arange(10)
    same(x.compress(x > 6), [7, 8, 9])
    same(np.compress(x > 6, x), [7, 8, 9])
    same(x.reshape(2, 5).compress([0, 1], axis=0), [[5, 6, 7, 8, 9]])


def test_loops_go_over_all_elements():
    x = np.arange(6.0).reshape(2, 3)
    assert [float(v) for v in x.flat] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert [i for i, v in np.ndenumerate(x) if v > 3] == [(1, 1), (1, 2)]
    assert sum(float(v) for v in np.nditer(x)) == 15.0
    with np.nditer([x, x * 2]) as both:
        assert sum(float(a * b) for a, b in both) == 110.0
    if not x.layout.whole:
        with pytest.raises(ValueError):
            x.flat[0] = 1


def test_text_is_read_from_open_files_and_lines():
    same(np.loadtxt(io.StringIO("1 2\n3 4")), [[1.0, 2.0], [3.0, 4.0]])
    same(np.loadtxt(["1 2", "3 4"], dtype=int), [[1, 2], [3, 4]])
    same(np.genfromtxt(io.StringIO("1,2\n3,"), delimiter=",")[0], [1.0, 2.0])


def test_methods_have_names():
    # pytest asks for the name in a failing assertion, and raised AttributeError in its place.
    assert np.zeros(3).sum.__name__ == "sum" and xp.Array.reshape.__name__ == "reshape"
