"""The job, collectives, groups, segments, mutexes, threads."""

import math
import re
import threading

import numpy as np
import pytest

import skerry as sk


def test_who_we_are():
    assert 0 <= sk.rank() < sk.size() and 0 <= sk.node() < sk.nodes()
    assert sk.rank() in sk.node_ranks() and sk.same_node(sk.rank())
    assert sum(len(sk.node_ranks(node)) for node in range(sk.nodes())) == sk.size()
    assert all(sk.node(rank) == sk.node() for rank in sk.node_ranks())
    assert sk.initialized() and isinstance(sk.fabric(), str)
    sk.init()  # a second time does nothing
    with pytest.raises(sk.Error):
        sk.node(sk.size())


def test_allreduce():
    n, r = sk.size(), sk.rank()
    assert sk.allreduce(r) == n * (n - 1) // 2
    x = np.array([1.0, r])
    np.testing.assert_array_equal(sk.allreduce(x), [n, n * (n - 1) / 2])
    np.testing.assert_array_equal(x, [1, r])
    assert sk.allreduce(x, "max", out=x) is x and x[1] == n - 1
    z = sk.allreduce(np.array([1 + 1j * r, 2]))
    np.testing.assert_array_equal(z, [n + 1j * n * (n - 1) / 2, 2 * n])
    assert sk.allreduce(np.int32(r == 0), "lor") == 1 and sk.allreduce(np.int64(3), "band") == 3
    with pytest.raises(sk.InvalidError, match="no reduction"):
        sk.allreduce(1, "mean")
    with pytest.raises(sk.DtypeError):
        sk.allreduce(np.ones(3, "float16"))
    with pytest.raises(sk.InvalidError, match="like the values"):
        sk.allreduce(np.ones(3), out=np.ones(4))


def test_reduce_broadcast_allgather():
    n, last = sk.size(), sk.size() - 1
    total = sk.reduce(np.ones(3), root=last)
    assert (total == n).all() if sk.rank() == last else total is None
    x = np.full((2, 3), float(sk.rank()))
    assert sk.broadcast(x, root=last) is x and (x == last).all()
    with pytest.raises(sk.InvalidError, match="C-contiguous"):
        sk.broadcast(np.ones((4, 4))[:, ::2])
    everyone = sk.allgather(np.array([[sk.rank(), 7]]))
    assert everyone.shape == (n, 1, 2) and everyone[:, 0, 0].tolist() == list(range(n))


def test_each_member_gets_something_of_its_own():
    me, size = sk.rank(), sk.size()
    swapped = sk.alltoall(np.array([[me, to] for to in range(size)]))
    assert swapped.tolist() == [[given, me] for given in range(size)]
    assert sk.reduce_scatter(np.full((size, 3), 2.5)).tolist() == [2.5 * size] * 3
    assert sk.reduce_scatter(np.arange(size), "max") == me
    assert sk.scan(me) == me * (me + 1) // 2
    assert sk.exscan(np.float64(me + 1), "prod") == max(1, math.factorial(me))
    values = np.arange(3) + me
    assert sk.scan(values, "max", out=values) is values and values.tolist() == [me, me + 1, me + 2]
    with pytest.raises(sk.InvalidError, match="first axis"):
        sk.alltoall(np.zeros((size + 1, 2)))


def test_parts_of_any_length_are_swapped():
    me, size = sk.rank(), sk.size()
    got = sk.alltoallv([np.full((me + to) % 3, me) for to in range(size)])
    assert [part.tolist() for part in got] == [[f] * ((f + me) % 3) for f in range(size)]
    with pytest.raises(sk.InvalidError, match="one dtype"):
        sk.alltoallv([np.zeros((1, 1))] * size)


def test_a_reduction_with_a_function_of_the_program():
    me, size = sk.rank(), sk.size()
    assert sk.allreduce_by(float(me), np.fmax) == size - 1
    mask = sk.allreduce_by(np.array([1 << me, 0], np.uint64), np.bitwise_or)
    assert mask.tolist() == [(1 << size) - 1, 0]
    many = sk.allreduce_by(np.full(5000, float(me)), np.minimum)
    assert (many == 0).all()
    if size > 1:

        def refuses(a, b):
            raise KeyError("refused")

        raised = 0
        try:
            sk.allreduce_by(np.ones(3), refuses)
        except KeyError:
            raised = 1
        assert sk.allreduce(raised) >= 1
    assert sk.allreduce(1) == size


def test_collectives_that_are_begun():
    me, size = sk.rank(), sk.size()
    half = sk.world().split(me % 2)
    sums = [sk.allreduce_nb(np.full(n, float(me))) for n in (1, 1000, 50_000)]
    other = sk.allreduce_nb(me, "max", group=half)
    values = np.full(3, me)
    told = sk.broadcast_nb(values, root=size - 1)
    assert sk.allreduce(1) == size  # another collective in between
    passed = sk.barrier_nb()
    assert passed.wait() is None and passed.done()
    assert told.wait() is values and (values == size - 1).all()
    assert other.wait() == max(r for r in range(size) if r % 2 == me % 2)
    for request in reversed(sums):
        assert (request.wait() == size * (size - 1) / 2).all()
    with pytest.raises(sk.InvalidError, match="root"):
        sk.broadcast_nb(values, root=size)


def test_groups():
    half = sk.world().split(sk.rank() % 2, key=-sk.rank())
    assert half.ranks == sorted(
        (r for r in range(sk.size()) if r % 2 == sk.rank() % 2), reverse=True
    )
    assert half.rank(half.index(sk.rank())) == sk.rank()
    assert sk.allreduce(1, group=half) == len(half)
    a = sk.zeros((8, 8), group=half).fill(sk.rank() % 2)
    assert (a[:] == sk.rank() % 2).all()
    sk.sync(half)
    a.free()
    half.free()
    assert sk.world().split(-1) is None
    with pytest.raises(sk.InvalidError, match="skerry.Group"):
        sk.barrier("text")


def test_segment():
    n, r = sk.size(), sk.rank()
    right = (r + 1) % n
    s = sk.Segment(256)
    assert s.nbytes() == s.nbytes(right) == 256 and s.local.shape == (256,)
    s.put(right, 16, np.array([r, 1.5]))
    sk.sync()
    assert s.local.view("float64")[2:4].tolist() == [(r - 1) % n, 1.5]
    out = np.empty(2)
    assert s.get(right, 16, out) is out and out.tolist() == [r, 1.5]
    sk.sync()
    s.acc(right, 16, np.array([1.0, 1.0]), alpha=2)
    s.acc(right, 64, np.array([1j]), alpha=1j)
    sk.sync()
    assert s.local.view("float64")[3] == 3.5 and s.local.view("complex128")[4] == -1
    assert (s.pointer(right) is None) == (not sk.same_node(right))
    assert s.get_nb(right, 16, out).wait() is out and out[1] == 3.5
    s.put_nb(right, 128, np.array([9.0])).wait()
    sk.sync()
    assert sk.allreduce(s.fetch_add(0, 200, 1), "max") == n - 1
    assert s.local.view("float64")[16] == 9
    sk.sync()
    if r == 0:
        assert (
            s.swap(0, 200, -3) == n
            and s.compare_swap(0, 200, -3, 8) == -3
            and s.fetch_add(0, 200, 0, dtype="int32") == 8
        )
    sk.sync()
    small = np.array([3, 250, 7], dtype="uint8")
    s.update(right, 232, small, "replace")
    assert s.fetch_update(right, 232, small).tolist() == [3, 250, 7]  # in issue order
    old = s.fetch_update_nb(right, 232, small, "max", out=np.empty(3, "uint8")).wait()
    assert old.tolist() == [6, 244, 14]
    assert s.fetch_update(right, 232, op="no_op", out=np.empty(3, "u1")).tolist() == [6, 250, 14]
    assert s.fetch_update(right, 240, np.array([1.5], "longdouble"), "replace")[0] == 0
    assert s.fetch_update(right, 240, np.zeros(1, "longdouble"), "min")[0] == 1.5
    for wrong, message in [
        (lambda: s.update(0, 232, small, "add"), 'no operation "add"'),
        (lambda: s.update(0, 192, np.zeros(1), "band"), "double elements have no bitwise and"),
        (lambda: s.fetch_update(0, 232, op="no_op"), "give `out` or `values`"),
        (lambda: s.fetch_update(0, 232, out=small), "only no_op goes without"),
        (lambda: s.fetch_update(0, 232, small, out=small), "origin and result overlap"),
        (lambda: s.fetch_update(0, 232, small, out=small[:2].copy()), "as many elements"),
    ]:
        with pytest.raises(sk.InvalidError, match=re.escape(message)):
            wrong()
    with pytest.raises(sk.DtypeError, match="cannot update"):
        s.update(0, 232, np.zeros(3, "bool"))
    sk.sync()
    with pytest.raises(sk.RangeError):
        s.get(right, 250, out)
    with pytest.raises(sk.InvalidError, match="negative"):
        sk.Segment(-1)
    with pytest.raises(sk.DtypeError):
        s.fetch_add(0, 200, 1, dtype="float64")
    sk.sync()
    s.free()
    with pytest.raises(sk.FreedError):
        s.get(right, 0, out)


def test_notify():
    s = sk.Segment(64)
    right = (sk.rank() + 1) % sk.size()
    s.put_notify(right, 0, np.array([sk.rank()]), counter_offset=32)
    assert s.notify_wait(32, 1) >= 1
    assert s.local.view("int64")[0] == (sk.rank() - 1) % sk.size()
    with pytest.raises(TimeoutError) as caught:
        s.notify_wait(40, 1, timeout=0.01)
    assert isinstance(caught.value, sk.TimeoutError)
    sk.sync()
    s.free()


def test_mutexes_exclude():
    m, s = sk.Mutexes(2), sk.Segment(8)
    value = np.empty(1, "int64")
    for _ in range(5):
        m.lock(0, 1)
        s.get(0, 0, value)
        value += 1
        s.put(0, 0, value)
        m.unlock(0, 1)
    sk.sync()
    assert s.get(0, 0, value)[0] == 5 * sk.size()
    sk.sync()
    m.free()
    s.free()


def test_counters_grow():
    before = sk.counters()
    a = sk.zeros((10, 10))
    a[0, 0]
    a.acc(np.s_[0], 1)
    after = sk.counters()
    assert set(before) == set(after)
    assert (
        after["array_gets"] == before["array_gets"] + 1
        and after["array_accs"] == before["array_accs"] + 1
    )
    assert after["remote_operations"] >= before["remote_operations"]
    info = sk.counter_info()
    assert list(info) == list(before)
    assert info["merge_bytes_moved"].unit == "bytes" and info["setup_ns"].kind == "total"
    assert {each.kind for each in info.values()} == {"total", "now", "peak"}
    assert all(each.description for each in info.values())
    sk.sync()


def test_waiting_releases_the_interpreter_lock():
    """A thread of rank 0 waits for a notification that only its own main thread sends."""
    s = sk.Segment(16)
    if sk.rank() == 0:
        seen = []
        waiter = threading.Thread(target=lambda: seen.append(s.notify_wait(0, 1)))
        waiter.start()
        s.put_notify(0, 8, None, counter_offset=0)
        waiter.join()
        assert seen == [1]
    sk.sync()
    s.free()


def test_all_names_what_is_there():
    """Every name of __all__ exists and is described, and every public name is in it."""
    public = {
        name
        for name, value in vars(sk).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("skerry")
    }
    assert public | {"__version__"} == set(sk.__all__)
    assert not [name for name in public if not getattr(sk, name).__doc__]
