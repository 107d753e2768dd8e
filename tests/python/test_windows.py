"""Windows: every kind of epoch, NumPy arrays in and out, and each mistake's error."""

import threading

import numpy as np
import pytest

import skerry as sk


def neighbours():
    return (sk.rank() - 1) % sk.size(), (sk.rank() + 1) % sk.size()


@pytest.fixture(params=["float64", "int64", "uint8", "complex64", [("key", "i8"), ("n", "u2")]])
def any_dtype(request):
    return np.dtype(request.param)


def test_local_is_the_own_memory(any_dtype):
    rows = 2 + sk.rank()
    with sk.window((rows, 3), any_dtype) as w:
        assert w.local.shape == w.shape == (rows, 3) and w.local.dtype == w.dtype == any_dtype
        assert not w.local.view("uint8").any()
        left, right = neighbours()
        assert w.nbytes() == rows * 3 * any_dtype.itemsize
        assert w.nbytes(right) == (2 + right) * 3 * any_dtype.itemsize
        assert w.group.ranks == list(range(sk.size()))
        row = np.frombuffer(bytes(range(sk.rank(), sk.rank() + 3 * any_dtype.itemsize)), any_dtype)
        with w.fence():
            w.put(right, 3, row)
        assert w.local[1].tobytes() == bytes(range(left, left + 3 * any_dtype.itemsize))
        seen = w.pointer(right)
        assert (seen is None) == (not sk.same_node(right))
        if seen is not None:
            assert seen[3:6].tobytes() == row.tobytes()
        sk.sync()
    with pytest.raises(sk.FreedError):
        w.fence()


def test_memory_outlives_its_last_name():
    """A view of the own memory keeps the window: nothing of it goes while the view is there."""
    view = sk.window(4, "int64").local
    view[...] = 7
    assert view.tolist() == [7, 7, 7, 7]


def test_windows_of_nothing():
    w = sk.window((0, 5), "float64")
    assert w.local.shape == (0, 5) and w.nbytes() == 0
    with w.lock(0):
        w.put(0, 0, np.empty(0))
        with pytest.raises(sk.RangeError, match="outside the 0 bytes"):
            w.put(0, 0, 1.0)
    w.free()
    mixed = sk.window(8 if sk.rank() == 0 else 0)
    assert mixed.nbytes(0) == 8 and mixed.local.size == (8 if sk.rank() == 0 else 0)
    mixed.free()


def test_exclusive_locks_exclude():
    w = sk.window(4, "int64")
    for _ in range(20):
        with w.lock(0):
            w.put(0, 2, w.get(0, 2) + 1)
    sk.barrier()
    with w.lock(0, shared=True):
        assert w.get(0, 2) == 20 * sk.size() and isinstance(w.get(0, 2), np.int64)
    sk.barrier()
    w.free()


def test_lock_all_and_flush():
    w = sk.window(sk.size(), "float64")
    with w.lock_all():
        for rank in range(sk.size()):
            w.put(rank, sk.rank(), 0.5 + sk.rank())
        w.flush()
        w.flush(sk.rank())
        out = np.empty(1)
        assert w.get(neighbours()[1], sk.rank(), out) is out and out[0] == 0.5 + sk.rank()
    sk.barrier()
    w.sync()
    assert w.local.tolist() == [0.5 + rank for rank in range(sk.size())]
    w.lock_all()
    w.unlock_all()
    w.free()


def test_post_and_start_pass_round_a_ring():
    w = sk.window(1000, "int32")
    left, right = neighbours()
    for turn in range(4):
        with w.post([left]), w.start([right]):
            w.put(right, 0, np.full(1000, 10 * turn + sk.rank(), "int32"))
        assert (w.local == 10 * turn + left).all()
    w.post([left])
    w.start([right])
    w.complete()
    while not w.test():
        pass
    sk.barrier()
    w.free()


def test_requests():
    w = sk.window(1000, "float32")
    right = neighbours()[1]
    values, out = np.arange(1000, dtype="float32") + sk.rank(), np.empty(1000, "float32")
    with w.lock(right, no_check=True):
        assert w.put_nb(right, 0, values).wait() is None
        request = w.get_nb(right, 0, out)
        assert request.wait() is out and (out == values).all()
    sk.barrier()
    w.free()


def test_values_are_converted_or_refused():
    w = sk.window(8, "int64")
    with w.lock(0):
        w.put(0, 0, [1, 2, 3])
        w.put(0, 3, np.int64(4))
        w.put(0, 4, 5)
        assert w.get(0, 0, np.empty((5, 1), "int64")).ravel().tolist() == [1, 2, 3, 4, 5]
        for bad in (np.ones(2), np.float64(1), np.ones(2, "int32"), b"abc", "abc"):
            with pytest.raises(sk.DtypeError):
                w.put(0, 0, bad)
        for bad in ([1j], 1.5, [[1, 2], [3]], [None]):
            with pytest.raises(sk.DtypeError, match="cannot make int64"):
                w.put(0, 0, bad)
        with pytest.raises(sk.DtypeError, match="out is float64"):
            w.get(0, 0, np.empty(2))
        with pytest.raises(sk.InvalidError, match="C-contiguous"):
            w.put(0, 0, np.ones((4, 4), "int64")[:, 1])
        with pytest.raises(sk.InvalidError, match="writable"):
            w.get(0, 0, (1, 2))
        with pytest.raises(sk.RangeError, match="displacement 7"):
            w.put(0, 7, [1, 2])
        with pytest.raises(TypeError):
            w.put(0, -1, 1)
        assert w.get(0, 0) == 1
    sk.barrier()
    w.free()
    raw = sk.window(64)  # bytes
    with raw.lock(0):
        raw.put(0, 8, np.array([1.5, 2.5]))
        assert raw.get(0, 8, np.empty(2)).tolist() == [1.5, 2.5]
        raw.put(0, 0, b"abc")
        assert raw.get(0, 1) == ord("b")
    sk.barrier()
    raw.free()


def test_with_ends_a_lock_after_an_error():
    w = sk.window(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            with w.lock(0):
                1 / 0
    with pytest.raises(sk.InvalidError, match="outside an epoch"):
        w.get(0, 0)
    sk.barrier()
    w.free()


def test_mistakes():
    w = sk.window(8)
    right = neighbours()[1]
    for mistake, text in (
        (lambda: w.get(right, 0), "outside an epoch"),
        (lambda: w.unlock(right), "has not locked"),
        (lambda: w.unlock_all(), "without lock_all"),
        (lambda: w.complete(), "without start"),
        (lambda: w.wait(), "without post"),
        (lambda: w.test(), "without post"),
        (lambda: w.lock(sk.size()), "does not exist"),
        (lambda: w.post([sk.size()]), "does not exist"),
        (lambda: w.pointer(sk.size()), str(sk.size())),
    ):
        with pytest.raises(sk.InvalidError, match=text):
            mistake()
    with w.lock(right, shared=True):
        with pytest.raises(sk.InvalidError, match="cannot become an exclusive one"):
            w.lock(right)
        with pytest.raises(sk.InvalidError, match="inside a lock epoch"):
            w.fence()
        with pytest.raises(sk.InvalidError, match="end it first"):
            w.free()
        w.get(right, 0)
    w.free()
    with pytest.raises(TypeError):
        sk.Window(8)


def test_members_that_disagree_all_learn_of_it():
    with pytest.raises(sk.InvalidError, match="negative" if sk.rank() == 0 else None):
        sk.window(-1 if sk.rank() == 0 else 8)
    with pytest.raises(sk.DtypeError):
        sk.window(8, "no such type")
    with pytest.raises(sk.DtypeError, match="references"):
        sk.window(8, object)
    with pytest.raises(sk.InvalidError, match="shape is"):
        sk.window("8x")
    if sk.size() > 1:
        with pytest.raises(sk.DtypeError, match="another member gave another"):
            sk.window(8, "int64" if sk.rank() == 0 else "float64")


def test_waiting_releases_the_interpreter_lock():
    """A thread waits for an epoch that only the main thread of the same rank ends."""
    w = sk.window(1, "int64")
    order = []
    if sk.rank() == 0:
        w.post([0])
        waiter = threading.Thread(target=lambda: (w.wait(), order.append("waited")))
        waiter.start()
        with w.start([0]):
            order.append("accessed")
            w.put(0, 0, 1)
        waiter.join()
        assert order == ["accessed", "waited"] and w.local[0] == 1
    sk.barrier()
    w.free()


def test_groups():
    half = sk.world().split(sk.rank() % 2)
    w = sk.window(1, "int64", group=half)
    first = half.ranks[0]
    for _ in range(5):
        with w.lock(first):
            w.put(first, 0, w.get(first, 0) + 1)
    sk.barrier(half)
    with w.lock(first, shared=True):
        assert w.get(first, 0) == 5 * len(half)
    if sk.size() > 1:
        with pytest.raises(sk.InvalidError, match="not a member"):
            w.lock((sk.rank() + 1) % 2)
    sk.barrier(half)
    w.free()
    half.free()
