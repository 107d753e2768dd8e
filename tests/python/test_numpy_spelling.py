"""Functions of skerry.numpy that make arrays, or take lists, have NumPy's arguments, whole and
divided."""

import warnings

import numpy
import pytest

import skerry as sk
import skerry.numpy as np
import skerry.xp as xp


@pytest.fixture(autouse=True, params=[0, 1 << 40], ids=["divided", "whole"])
def layouts(request):
    before = xp.options()["whole_bytes"]
    xp.options(whole_bytes=request.param, check_calls=1)
    yield
    xp.options(whole_bytes=before, check_calls=0)


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
    "angle asmatrix average block flip full median nan_to_num nanmedian real_if_close resize "
    "tril triu".split()
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
    rows = np.vectorize(lambda row: row.sum(), signature="(n)->()")
    same(rows(x.reshape(5, 10)), values.reshape(5, 10).sum(axis=1))

    def refuses(a):
        if a > 0.9:
            raise KeyError("high")
        return a

    with pytest.raises((KeyError, sk.InvalidError)):
        np.vectorize(refuses)(x)


def test_numpys_modules_of_functions_take_arrays():
    x, values = np.linspace(0, 1, 50), numpy.linspace(0, 1, 50)
    same(np.polynomial.chebyshev.chebfit(x, x**2, 2),
         numpy.polynomial.chebyshev.chebfit(values, values**2, 2))  # fmt: skip
    same(np.polynomial.polynomial.polyval(x, [1, 2]), 1 + 2 * values)
    np.testing.assert_allclose(x, values)
    with pytest.raises(AssertionError, match="Mismatched elements: 48"):
        np.testing.assert_allclose(x, x**2)


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
