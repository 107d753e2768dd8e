"""Read-only mirrors that fetch tiles when they are first read."""

import ctypes
import gc
import mmap
from pathlib import Path

import numpy as np
import pytest

import skerry as sk

TILE = 32 * 32 * 8


def moved():
    """Payload that mirrors of all ranks fetched so far."""
    return int(sk.allreduce(sk.counters()["mirror_bytes_moved"]))


def same_numbers(turn):
    """A generator of random numbers, the same on every rank."""
    return np.random.default_rng(turn)


def random_patch(random, shape):
    ends = [sorted(random.integers(0, n + 1, 2)) for n in shape]
    return tuple(slice(int(low), int(high)) for low, high in ends)


@pytest.mark.parametrize("shape", [(7,), (5000,), (200, 150), (33, 3, 70), (0, 4)])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
def test_a_mirror_reads_what_the_array_held(shape, dtype):
    x = (np.arange(np.prod(shape)) % 200).reshape(shape).astype(dtype)
    a = sk.asarray(x)
    with sk.mirror(a) as m:
        assert m.shape == shape and m.dtype == x.dtype and len(m) == shape[0]
        random = np.random.default_rng(sk.rank())
        for _ in range(10):
            patch = random_patch(random, shape)
            np.testing.assert_array_equal(m[patch], x[patch])
        out = np.empty(shape, dtype)
        assert m.get(out=out) is out
        np.testing.assert_array_equal(out, x)
        if x.size:
            assert m[tuple(n - 1 for n in shape)] == x.flat[-1]
        sk.sync()


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_never_read_what_is_stale(seed):
    """Any kind of write: own blocks, puts, accumulates, collectives."""
    random = same_numbers(seed)
    shape = tuple(int(n) for n in random.integers(1, 260, 2))
    a = sk.zeros(shape, grid=None if seed % 2 else (1, 1))
    truth = np.zeros(shape)
    m = sk.mirror(a)
    for turn in range(12):
        for _ in range(int(random.integers(0, 4))):
            kind, patch = int(random.integers(0, 5)), random_patch(random, shape)
            value = float(random.integers(-2, 3))
            sk.sync()
            if kind == 0:
                truth[...] = value
                a.fill(value)
            elif kind == 1:
                truth[patch] = value
                if sk.rank() == int(random.integers(0, sk.size())):
                    a[patch] = value
            elif kind == 2:
                truth[patch] += value
                if sk.rank() == sk.size() - 1:
                    a.acc(patch, value)
            elif kind == 3:
                truth *= 2
                a.scale(2)
            else:
                block = tuple(slice(*bounds) for bounds in a.distribution())
                truth[patch] = -value
                a.local[...] = truth[block]
            # What other ranks do between refreshes must not matter for what comes after.
            mine = random_patch(np.random.default_rng((seed, turn, sk.rank())), shape)
            assert m[mine].shape == truth[mine].shape
        m.refresh()
        for repeat in range(3):
            mine = random_patch(np.random.default_rng((seed, turn, sk.rank(), repeat)), shape)
            np.testing.assert_array_equal(m[mine], truth[mine])
        if turn % 3 == 0:
            np.testing.assert_array_equal(m.get(), truth)
    sk.sync()
    m.free()


def test_what_did_not_change_does_not_move_again():
    n = 1280
    a = sk.ones((n, n))
    m = sk.mirror(a)
    start = moved()
    m.get()
    first = moved() - start
    here = sum(np.prod([h - l for l, h in a.distribution(r)]) for r in range(sk.size()))
    assert here == n * n
    # Every node lacks what the other nodes hold, and gets it once, however many ranks read it.
    assert first == (sk.nodes() - 1) * n * n * 8
    m.get()
    assert moved() == start + first
    m.refresh()
    m.get()
    assert moved() == start + first, "a second read without change moves nothing"
    # One tile in a hundred changes: 16 of 1600. The edges of blocks are edges of tiles, too.
    random = same_numbers(1)
    rows, columns = (random.permutation(n // 32)[:16] * 32 for _ in range(2))
    sk.sync()
    if sk.rank() == 0:
        for row, column in zip(rows, columns, strict=True):
            a[int(row), int(column)] = 2
    before = moved()
    m.refresh()
    values = m.get()
    assert values.sum() == n * n + 16
    assert moved() - before <= 0.013 * max(first, 1)
    # A write that is taken back before the refresh moves nothing.
    sk.sync()
    before = moved()
    if sk.rank() == 0:
        a[0:100] = 5.0
        a[0:100] = values[0:100]
    m.refresh()
    np.testing.assert_array_equal(m.get(), values)
    assert moved() == before
    sk.sync()
    m.free()


def mapped():
    """What of shared memory this process has mapped: (first address, bytes)."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:skerry" in line:
            low, high = (int(end, 16) for end in line.split()[0].split("-"))
            yield low, high - low


def taken(segments):
    """Their bytes that take memory, by whichever process."""
    libc, count = ctypes.CDLL(None, use_errno=True), 0
    for at, nbytes in segments:
        pages = (ctypes.c_ubyte * (nbytes // mmap.PAGESIZE))()
        assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(nbytes), pages) == 0
        count += (np.frombuffer(pages, np.uint8) & 1).sum()
    return int(count) * mmap.PAGESIZE


@pytest.mark.parametrize(("shape", "dtype"), [((2560, 2560), "float64"), ((1300, 1700), "float64"),
                                              ((3000, 2100), "int16"), ((900, 3, 700), "float32"),
                                              ((2_000_000,), "float64")])  # fmt: skip
def test_a_mirror_takes_memory_for_tiles_that_are_read(shape, dtype):
    """A node's own tiles, and those of others that its ranks read, with 5 % for ends of pages; with
    10 % where blocks are so narrow that many tiles are cut short."""
    a = sk.ones(shape, dtype)
    gc.collect()
    sk.sync()
    before = set(mapped())
    m = sk.mirror(a)
    made = set(mapped()) - before
    touched = np.zeros(shape, bool)
    low, high = a.distribution(0)[-1]
    most = (1.05 if high - low >= 400 else 1.1) * a.dtype.itemsize
    for rank in range(sk.size()):
        if sk.same_node(rank):
            touched[tuple(slice(*bounds) for bounds in a.distribution(rank))] = True
    sk.sync()
    assert taken(made) <= most * touched.sum()
    sk.sync()  # No rank of the node reads more before all of them looked.
    for rank in range(sk.size()):
        low, high = a.distribution(rank)[0]
        patch = slice(low, low + (high - low) // 2048 * 1024 if a.ndim == 1 else low + 192)
        m[patch]  # whole tiles
        touched[patch] = True
    sk.sync()
    assert taken(made) <= most * touched.sum()
    assert not touched.all() or sk.nodes() == 1
    sk.sync()
    m.free()
    a.free()


def test_mirrors_refuse():
    a = sk.zeros((20, 30))
    m = sk.mirror(a)
    with pytest.raises(sk.RangeError, match="0:40"):
        m[0:40]
    with pytest.raises(TypeError):
        m[0:2] = 1
    with pytest.raises(sk.DtypeError):
        m.get(np.s_[0:2], out=np.zeros((2, 30), "int64"))
    with pytest.raises(sk.InvalidError, match="distributed"):
        sk.mirror(sk.zeros((3, 3), mirrored=True))
    with pytest.raises(TypeError):
        sk.mirror(np.zeros(3))
    a.free()
    assert (m.get() == 0).all()
    with pytest.raises(sk.FreedError, match="array was freed"):
        m.refresh()
    sk.sync()
    m.free()
    assert m.freed
    with pytest.raises(sk.FreedError, match="mirror was freed"):
        m[0]


def test_dropped_mirrors_are_freed_when_the_next_is_made(mapped_bytes):
    """Bug guarded against: a mirror that a program dropped was kept until the job ended."""
    with sk.ones((512, 512)) as a:
        m = sk.mirror(a)
        before = mapped_bytes()
        for _ in range(40):
            m = sk.mirror(a)
            assert m[3, 7] == 1
        assert mapped_bytes() - before < 10 * a.nbytes
        sk.sync()
        del m
        sk.zeros((4, 4)).free()
