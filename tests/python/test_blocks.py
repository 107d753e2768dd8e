"""Memory of NumPy's arrays beside skerry.numpy: aligned, kept, and never two arrays' at once."""

import contextvars
import os
import random
import subprocess
import sys
import threading

import numpy
import pytest
from numpy._core.multiarray import get_handler_name

import skerry.numpy as np

LINE = 64
MIB = 1 << 20


def address(array):
    return numpy.asarray(array).ctypes.data


def test_arrays_are_aligned_to_a_line_of_the_cache():
    x = np.ones((50, 100))
    made_otherwise = [x[x > 0], np.sqrt(x), np.zeros(2000), x.copy(), numpy.empty(4000)]
    for made in [x, x + x, 2 * x, *made_otherwise]:
        assert address(made) % LINE == 0
    assert address(np.add.outer(x[0], x[0])) % LINE == 0


def test_the_block_that_went_last_comes_again_and_zeros_are_zero():
    x = np.ones(100_000)
    before = address(x)
    del x
    y = np.zeros(100_000)
    assert address(y) == before and not y.any()
    del y
    assert address(numpy.empty(98_000)) == before  # somewhat less
    assert address(numpy.empty(50_000)) != before  # much less


def test_other_contexts_have_numpys_own_allocator():
    names = []
    thread = threading.Thread(target=lambda: names.append(get_handler_name()))
    thread.start()
    thread.join()
    names.append(contextvars.Context().run(get_handler_name))
    assert names == ["default_allocator"] * 2 and get_handler_name() == "skerry"
    made = contextvars.Context().run(numpy.ones, 5000)
    assert get_handler_name(made) == "default_allocator"
    del made  # by the one that it is from


def held_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_what_is_kept_has_a_bound():
    before = held_bytes()
    arrays = [numpy.ones(16 * MIB // 8) for _ in range(40)]
    assert held_bytes() - before > (640 - 192) * MIB  # some may have been kept from before
    del arrays
    assert held_bytes() - before < 256 * MIB


def test_a_block_of_32_mib_is_kept():
    x = numpy.empty(32 * MIB // 8)
    before = address(x)
    del x
    assert address(numpy.empty(32 * MIB // 8)) == before


SHORT_OF_MEMORY = """
import resource
import numpy
import skerry.numpy
del_me = [numpy.ones(2 << 20) for _ in range(11)]
del del_me  # 176 MiB are kept
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + (40 << 20), -1))
assert numpy.ones(8 << 20).sum() == 8 << 20
x = numpy.ones(1 << 10)
x.resize(8 << 20)
assert x.sum() == 1 << 10
"""


@pytest.mark.parametrize("allocator", ["pymalloc", "debug", "malloc"])
def test_kept_blocks_go_where_memory_is_short(allocator):
    environment = {**os.environ, "PYTHONMALLOC": allocator}
    command = [sys.executable, "-c", SHORT_OF_MEMORY]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


def test_no_two_arrays_have_the_same_memory():
    """Arrays of all sizes, made, changed in size and freed in random order, keep their values."""
    draw = random.Random(5)
    live = []
    for step in range(6000):
        if live and draw.random() < 0.45:
            array, value = live.pop(draw.randrange(len(live)))
            assert (array == value).all(), step
            continue
        size = int(2 ** draw.uniform(0, 20))
        way = draw.choice(["full", "zeros", "resized", "bytes", "sum"])
        value = step % 251
        if way == "zeros":
            array, value = numpy.zeros(size, numpy.int32), 0
        elif way == "resized":
            array = numpy.full(size, value, numpy.uint8)
            array.resize(int(2 ** draw.uniform(0, 20)), refcheck=False)
            array[...] = value
        elif way == "bytes":
            array = numpy.full(size, value, numpy.uint64).view(numpy.uint8)[::8]
        elif way == "sum":
            array = np.full(size, float(value)) + np.zeros(size)
        else:
            array = numpy.full(size, value, numpy.float64)
        live.append((array, value))
        if len(live) > 60:
            live.pop(0)
    assert all((array == value).all() for array, value in live)
