"""Every test here is a program of all ranks: `skerry run -n 4 --nodes 2 python -m pytest -x tests/python`, or alone as a job of one.

A rank that fails must end (-x), so that the job ends instead of waiting for it.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

import skerry as sk
from skerry import xp
from skerry.xp import _exchange, _lazy

sk.init()


def late_from(elements=1 << 19):
    """From so many elements on whole arrays are computed late: otherwise the caches decide."""
    _exchange.job()
    _lazy.least_whole = elements
    _exchange.tell_limits()


@pytest.fixture(scope="session", autouse=True)
def late_alike():
    """On every machine the same arrays are computed late."""
    late_from()


@pytest.fixture(autouse=True)
def together():
    """Tests begin together, so that one's leftovers cannot be another's failure."""
    sk.sync()
    yield


@pytest.fixture(params=[0, 1 << 40], ids=["divided", "whole"])
def divided_and_whole(request):
    """A test of arrays that are divided, then of such that every rank has."""
    before = xp.options()["whole_bytes"]
    xp.options(whole_bytes=request.param, check_calls=1)
    yield
    xp.options(whole_bytes=before, check_calls=0)


@pytest.fixture
def mapped_bytes():
    """A function: how much shared memory is mapped now."""

    def count():
        with open("/proc/self/maps") as maps:
            ends = [line.split()[0].split("-") for line in maps if "memfd:" in line]
        return sum(int(end, 16) - int(begin, 16) for begin, end in ends)

    return count


@pytest.fixture(params=[False, True], ids=["distributed", "mirrored"])
def mirrored(request):
    return request.param


@pytest.fixture(params=["int32", "int64", "float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture
def numbers():
    return lambda *shape, dtype="float64": (
        np.arange(np.prod(shape)).reshape(shape).astype(dtype) + 1
    )


@pytest.fixture
def filled(numbers):
    """An array whose elements are 1, 2, 3, ..., each rank having written its own block."""

    def make(*shape, dtype="float64", **options):
        array = sk.zeros(shape, dtype, **options)
        array.local[...] = numbers(*shape, dtype=dtype)[
            tuple(slice(*bounds) for bounds in array.distribution())
        ]
        array.sync()
        return array

    return make


@pytest.fixture
def folder():
    """A folder that all ranks share."""
    name = np.zeros(200, np.uint8)
    if sk.rank() == 0:
        made = tempfile.mkdtemp(prefix="skerry-files-").encode()
        name[: len(made)] = list(made)
    path = Path(bytes(sk.broadcast(name)).rstrip(b"\0").decode())
    yield path
    sk.sync()
    if sk.rank() == 0:
        shutil.rmtree(path)
    sk.sync()
