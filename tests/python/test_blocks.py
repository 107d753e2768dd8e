"""Memory of NumPy's arrays beside skerry.numpy: aligned, kept, and never two arrays' at once."""

import contextvars
import random
import threading

import numpy
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
    assert held_bytes() - before > 600 * MIB
    del arrays
    assert held_bytes() - before < 256 * MIB


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
