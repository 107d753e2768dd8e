"""Where an element may raise an error, one of a rank is one of all, and the ranks still meet."""

import warnings

import numpy
import pytest

import skerry as sk
import skerry.numpy as np
import skerry.xp as xp


@pytest.fixture(autouse=True)
def divided():
    before = xp.options()["whole_bytes"]
    xp.options(whole_bytes=0)
    yield
    xp.options(whole_bytes=before)


def nan_first(n=24):
    x = np.arange(float(n))
    x[0] = numpy.nan
    return x


def integers():
    return np.zeros(24, dtype=int)


def large(shape=24):
    x = np.ones(shape)
    x[0] = x[1] = 1e308
    return x


def rows():
    x = np.ones((24, 24))
    x[:2] = 1e308
    return x


CALLS = {
    "assignment": lambda: integers().__setitem__(slice(None), nan_first()),
    "a slice": lambda: integers().__setitem__(slice(3, 6), nan_first()[:3]),
    "an index": lambda: integers().__setitem__(numpy.arange(5), nan_first()[:5]),
    "a mask": lambda: integers().__setitem__(np.arange(24) % 2 == 0, nan_first()[:12]),
    "an element": lambda: integers().__setitem__(0, nan_first()[0]),
    "a float32": lambda: np.zeros(24, dtype="f4").__setitem__(slice(0, 2), large()[:2]),
    "astype": lambda: nan_first().astype(int).numpy(),
    "imaginary parts": lambda: np.zeros(24).__setitem__(slice(None), nan_first() + 1j),
    "putmask": lambda: np.putmask(integers(), np.arange(24) < 3, nan_first()[:3]),
    "place": lambda: np.place(integers(), np.arange(24) < 3, nan_first()[:3]),
    "a sum": lambda: large().sum(),
    "a sum along rows": lambda: rows().sum(axis=1),
    "a sum along columns": lambda: rows().sum(axis=0),
    "a sum of what comes later": lambda: (large() * 1.0).sum(),
    "a sum as integers": lambda: nan_first().sum(dtype=int),
    "a cumulative sum": lambda: np.cumsum(large()),
    "a cumulative sum along rows": lambda: np.cumsum(rows(), axis=1),
    "a cumulative product": lambda: np.cumprod(large()),
    "a product of a matrix": lambda: rows() @ rows(),
    "accumulate": lambda: np.multiply.accumulate(large()),
    "at": lambda: np.add.at(large(), [0, 23], 1.7e308),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_are_those_of_all(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = None
        try:
            CALLS[name]()
        except Exception as found:
            error = found
    raised = sk.allgather(numpy.array([int(error is not None)]))
    assert raised.min() == raised.max(), (raised, error)
    assert raised.all()
    assert np.ones(24).sum() == 24  # they still meet


@pytest.mark.parametrize("name", ["a sum", "a cumulative sum along rows", "a product of a matrix"])
def test_errstate(name):
    with numpy.errstate(all="raise"), pytest.raises((FloatingPointError, sk.InvalidError)):
        CALLS[name]()
    with numpy.errstate(all="ignore"):
        CALLS[name]()
    assert np.ones(24).sum() == 24


@pytest.mark.parametrize("whole_bytes", [0, 1 << 40])
def test_imaginary_parts_go_with_a_warning(whole_bytes):
    """On several ranks it was a TypeError."""
    xp.options(whole_bytes=whole_bytes)
    x, y = np.arange(24) + 1j, np.zeros(24)
    with pytest.warns(numpy.exceptions.ComplexWarning):
        y[:] = x
    assert (y == np.arange(24)).all()
    with pytest.warns(numpy.exceptions.ComplexWarning):
        assert x.astype("f4").dtype == "f4"
    with pytest.raises(TypeError):
        y[:] = 1j
    with pytest.raises(TypeError, match="imaginary"):
        xp.astype(x, xp.float64)  # as the standard has it
