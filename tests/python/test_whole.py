"""Whole arrays are NumPy's, and what an array means does not depend on where its elements are:
every test runs with arrays that are whole, and with arrays that are divided."""

import copy
import pickle

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


def test_an_element_is_a_copy():
    # It was a view on one rank and of small arrays: the swap lost a value.
    x = np.arange(10.0)
    t = x[0]
    x[0] = x[-1]
    x[-1] = t
    assert x.tolist() == [9, 1, 2, 3, 4, 5, 6, 7, 8, 0]
    s = x[0]
    s += x[1]
    assert float(x[0]) == 9 and isinstance(s, float)
    m = np.ones((4, 5))
    assert isinstance(m[2, 3], numpy.float64) and isinstance(m.sum(), numpy.float64)
    assert isinstance(np.dot(m[0], m[1]), numpy.float64) and isinstance(m[0] @ m[1], numpy.float64)


def test_slices_are_views():
    x = np.zeros((6, 7))
    rows, turned = x[1:4], x.T[2]
    rows[...] = 1
    turned[:2] = 5
    expected = numpy.zeros((6, 7))
    expected[1:4] = 1
    expected.T[2][:2] = 5
    assert (x.numpy() == expected).all()
    x += 1
    assert (rows.numpy() == expected[1:4] + 1).all()


def test_a_result_keeps_what_a_numpy_operand_had():
    # A result that is computed later kept the caller's array itself.
    x, other = np.zeros(200_000), numpy.ones(200_000)
    y, z = x + other, np.multiply(other, x + 2)
    other[:] = 100
    assert float(y.max()) == 1 and float(z.max()) == 2


def test_copies_and_pickles_hold_all_elements_or_say_why_not():
    # A divided array was pickled as the own block, and copy.copy gave a view.
    x = np.arange(12.0).reshape(3, 4)
    for duplicate in copy.copy(x), copy.deepcopy(x):
        duplicate[0] = 7
        assert float(x[0].max()) == 3
    if x.layout.whole:
        again = pickle.loads(pickle.dumps(x))
        assert isinstance(again, xp.Array) and (again.numpy() == x.numpy()).all()
    else:
        with pytest.raises(sk.GatherError, match=r"x\.numpy\(\)"):
            pickle.dumps(x)


def test_comparisons_with_what_is_no_number():
    x = np.arange(5.0)
    assert not (x == None).any() and (x != None).all()  # noqa: E711 (elementwise)
    assert round(x.mean(), 2) == 2 and divmod(x, 2)[1].tolist() == [0, 1, 0, 1, 0]
    assert 3.0 in x and 9.0 not in x
    assert [float(v) for v in x] == [0, 1, 2, 3, 4]
    with pytest.raises(TypeError):
        hash(x)


def test_functions_of_numpy_take_arrays_wherever_they_are():
    x = np.arange(24.0).reshape(4, 6)
    a = x.numpy()
    for name in ("sum", "mean", "argmax", "cumsum"):
        ours, theirs = getattr(np, name)(x, axis=0), getattr(numpy, name)(a, axis=0)
        assert isinstance(ours, xp.Array) and numpy.array_equal(ours.numpy(), theirs), name
    parts = np.concatenate([x, [[1.0] * 6]])
    assert isinstance(parts, xp.Array) and parts.shape == (5, 6)
    assert (np.add.reduce(a) == a.sum(axis=0)).all()
    assert isinstance(numpy.float64(2) * x, xp.Array) and isinstance(a + x, xp.Array)
    out = np.empty((4, 6))
    assert np.add(x, 1, out=out) is out and float(out[3, 5]) == 24
    x.sort(axis=1)
    x.fill(2)
    assert float(x.sum()) == 48


def test_an_sk_array_takes_the_views_that_numpy_made_along():
    x = np.arange(30.0).reshape(5, 6).copy()
    rows, column, corner = x[1:3], x[:, 2], x.T[4:1:-2, 1:]
    a = x.array
    a.fill(3.0)
    for part in rows, column, corner:
        assert (part.numpy() == 3).all()
    corner[...] = 4
    sk.sync()
    assert a[1, 4] == 4 and a[4, 2] == 4 and a[0, 4] == 3 and a[1, 3] == 3


def test_the_matrix_product_writes_in_place():
    x = np.eye(4) * 2
    kept = x
    x @= np.ones((4, 4))
    assert kept is x and (x.numpy() == 2).all()


def test_errors_are_numpys():
    x = np.zeros((3, 4))
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
        x[7]
    with pytest.raises(TypeError, match="0-d"):
        float(x)
    with pytest.raises((ValueError, TypeError)):
        bool(x)
    with pytest.raises(AttributeError, match="no_such"):
        x.no_such  # noqa: B018 (the attribute raises)
