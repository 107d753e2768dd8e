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


UPDATES = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "min": np.minimum,
    "max": np.maximum,
    "land": lambda a, b: (a != 0) & (b != 0),
    "lor": lambda a, b: (a != 0) | (b != 0),
    "lxor": lambda a, b: (a != 0) ^ (b != 0),
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "replace": lambda a, b: b,
    "no_op": lambda a, b: a,
}


@pytest.mark.parametrize(
    "dtype", "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64 complex128".split()
)
def test_updates_do_what_numpy_does(dtype):
    right = neighbours()[1]
    with sk.window(4, dtype) as w:
        first, second = np.array([0, 1, 6, 100], dtype), np.array([3, 0, 5, 2], dtype)
        known = set(UPDATES)
        if dtype.startswith(("float", "complex")):
            known -= {"land", "lor", "lxor", "band", "bor", "bxor"}
        if dtype.startswith("complex"):
            known -= {"min", "max"}
        with w.lock(right):
            for op in UPDATES:
                w.put(right, 0, first)
                if op not in known:
                    with pytest.raises(sk.InvalidError):
                        w.update(right, 0, second, op)
                    continue
                w.update(right, 0, second, op)
                expected = UPDATES[op](first, second).astype(dtype)
                assert w.get(right, 0, np.empty(4, dtype)).tolist() == expected.tolist(), op
                old = w.fetch_update(right, 0, first, "replace")
                assert old.dtype == dtype and old.tolist() == expected.tolist()
            assert w.fetch_update(right, 2, None, "no_op") == 6
            out = np.empty(2, dtype)
            assert w.fetch_update(right, 1, None, "no_op", out) is out and out.tolist() == [1, 6]
        sk.barrier()


def test_fetching_hands_out_numbers_once_each():
    w = sk.window(2, "int64")
    with w.lock_all():
        drawn = [w.fetch_update(0, 1, 1) for _ in range(20)]
    assert drawn == sorted(drawn)
    everyone = sk.allgather(np.array(drawn))
    assert sorted(everyone.ravel().tolist()) == list(range(20 * sk.size()))
    won = 0
    with w.lock_all():
        won = int(w.compare_swap(0, 0, 0, 7 + sk.rank()) == 0)
    assert sk.allreduce(won) == 1
    with w.lock(0, shared=True):
        assert 7 <= w.get(0, 0) < 7 + sk.size()
    sk.barrier()
    w.free()


def test_updates_refuse_what_they_cannot_do():
    w = sk.window(4, "float64")
    with w.lock(0):
        for mistake, text in (
            (lambda: w.update(0, 0, 1, "mean"), 'no operation "mean"'),
            (lambda: w.fetch_update(0, 0, None), "only"),
            (lambda: w.compare_swap(0, 0, 1.0, 2.0), "integer type"),
        ):
            with pytest.raises(sk.InvalidError, match=text):
                mistake()
        with pytest.raises(sk.DtypeError, match="out must be"):
            w.fetch_update(0, 0, [1, 2], "sum", np.empty(3))
        with pytest.raises(sk.RangeError):
            w.update(0, 3, [1, 2])
    sk.barrier()
    w.free()
    pairs = sk.window(4, [("a", "i8"), ("b", "i8")])
    with pairs.lock(0):
        with pytest.raises(sk.DtypeError, match="cannot update"):
            pairs.update(0, 0, np.zeros(1, pairs.dtype))
    sk.barrier()
    pairs.free()


def test_windows_over_memory_of_the_program():
    memory = np.full((3, 4), float(sk.rank()))
    left, right = neighbours()
    w = sk.window_over(memory)
    assert w.shape == (3, 4) and w.pointer(sk.rank()) is None
    assert w.local.ctypes.data == memory.ctypes.data
    sk.barrier()
    with w.lock(right):
        assert w.get(right, 11) == right
        w.put(right, 4, [5, 6])
        w.update(right, 11, 0.5)
    sk.barrier()
    assert memory.ravel().tolist() == [sk.rank()] * 4 + [5, 6] + [sk.rank()] * 5 + [sk.rank() + 0.5]
    sk.barrier()
    w.free()
    memory[...] = 0
    for bad in (memory.T, [1, 2], np.broadcast_to(memory, (2, 3, 4))):
        with pytest.raises(sk.InvalidError, match="memory"):
            sk.window_over(bad)


def test_dynamic_windows():
    left, right = neighbours()
    w = sk.window_dynamic()
    assert w.local.size == 0
    memory = np.arange(6, dtype="int64") + 10 * sk.rank()
    address = w.attach(memory)
    addresses = sk.allgather(np.array(address, "uint64"))
    with w.lock(right):
        got = w.get(right, int(addresses[right]) + 8, np.empty(2, "int64"))
        assert got.tolist() == [10 * right + 1, 10 * right + 2]
        w.put(right, int(addresses[right]), np.array([-1]))
    sk.barrier()
    assert memory[0] == -1
    with pytest.raises(sk.InvalidError):
        w.attach(memory)
    w.detach(address)
    with pytest.raises(sk.InvalidError):
        w.detach(address)
    w.attach(memory)
    sk.barrier()
    w.free()
    allocated = sk.window(8)
    with pytest.raises(sk.InvalidError):
        allocated.attach(memory)
    allocated.free()


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
    with w.lock(right):
        with pytest.raises(sk.InvalidError, match="again: unlock it first"):
            w.lock(right)
        with pytest.raises(sk.RangeError, match="outside the 8 bytes"):
            w.get(right, 8)
    with pytest.raises(sk.InvalidError, match="has not locked"):
        w.unlock(right)
    with w.lock_all():
        with pytest.raises(sk.InvalidError, match="inside a lock_all epoch"):
            w.lock(right)
    with pytest.raises(sk.InvalidError, match="needs lock or lock_all"):
        w.flush()
    with w.lock(right, shared=True):
        with pytest.raises(sk.InvalidError, match="cannot become an exclusive one"):
            w.lock(right)
        with pytest.raises(sk.InvalidError, match="inside a lock epoch"):
            w.fence()
        with pytest.raises(sk.InvalidError, match="end it first"):
            w.free()
        w.get(right, 0)
    w.free()
    for use in (
        lambda: w.lock(right),
        lambda: w.unlock(right),
        lambda: w.lock_all(),
        lambda: w.flush(),
        lambda: w.fence(),
        lambda: w.post([right]),
        lambda: w.start([right]),
        lambda: w.put(right, 0, 1),
        lambda: w.get(right, 0),
        lambda: w.update(right, 0, 1),
        lambda: w.fetch_update(right, 0, 1),
        lambda: w.free(),
    ):
        with pytest.raises(sk.FreedError):
            use()
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


def test_a_thread_that_waits_for_a_lock_lets_another_unlock():
    """The waiting thread once kept the whole window, so that two ranks waited for each other."""
    if sk.size() < 4:
        return  # nobody's lock is far from both
    near, far = sk.size() - 2, sk.size() - 1
    w = sk.window(1, "int64")

    def add(rank):
        with w.lock(rank):
            w.put(rank, 0, w.get(rank, 0) + 1)

    for _ in range(3):
        if sk.rank() < 2:
            w.lock((near, far)[sk.rank()])
            w.get((near, far)[sk.rank()], 0)  # held now
        sk.barrier()
        if sk.rank() == 0:
            started = threading.Event()
            waiter = threading.Thread(target=lambda: (started.set(), add(far)))
            waiter.start()
            started.wait()
            w.unlock(near)
            waiter.join()
        if sk.rank() == 1:
            add(near)
            w.unlock(far)
        sk.barrier()
    if sk.rank() in (near, far):
        with w.lock(sk.rank(), shared=True):
            assert w.local[0] == 3
    sk.barrier()
    w.free()
