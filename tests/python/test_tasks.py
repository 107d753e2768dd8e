"""Tasks that ranks draw from one another, semaphores and conditions."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import skerry as sk


def drawn_by_all(mine):
    """What each rank drew, flags stacked: each task must have one."""
    return sk.allgather(np.asarray(mine)).sum(axis=0)


@pytest.mark.parametrize("shape", [(7,), (1000,), (40, 33), (3, 2, 90), (1, 1), (0, 5)])
@pytest.mark.parametrize("tile", [None, 3])
def test_each_element_is_in_one_tile_once(shape, tile, mirrored):
    a = sk.zeros(shape, "int32", mirrored=mirrored)
    marks = np.zeros(shape, "int32")
    tasks = sk.tasks(a, tile=None if tile is None else (tile,) * len(shape))
    for patch in tasks:
        assert a[patch].size > 0
        marks[patch] += 1
        if not mirrored:  # a tile lies in one block
            assert len(a.locate_patch(patch)) == 1
        if tile is not None:
            assert max(p.stop - p.start for p in patch) <= tile
    sk.sync()
    assert (drawn_by_all(marks) == 1).all()
    assert tasks.drawn() == len(tasks)
    if tile is None and marks.size >= 1000:
        assert len(tasks) >= 16 * sk.size()
    sk.sync()


def test_own_tiles_come_first():
    a = sk.zeros((64, 64))
    holders = []
    sk.barrier()
    for patch in sk.tasks(a):
        holders.append(a.locate_patch(patch)[0][0])
        time.sleep(0.001)  # so that all ranks take part
    others = [rank for rank in holders if rank != sk.rank()]
    assert holders == [sk.rank()] * (len(holders) - len(others)) + others
    here = [sk.same_node(rank) for rank in others]
    assert here == sorted(here, reverse=True)
    sk.sync()


def test_items_of_ranges_and_lists():
    for work, items in (
        (range(10, 500, 7), list(range(10, 500, 7))),
        (100, list(range(100))),
        ([f"task {i}" for i in range(33)], [f"task {i}" for i in range(33)]),
        (range(0), []),
        (1, [0]),
    ):
        for cost in None, [len(str(i)) for i in items], [0.0] * len(items):
            mine = np.zeros(len(items), int)
            for item in sk.tasks(work, cost=cost):
                mine[items.index(item)] += 1
            sk.sync()
            assert (drawn_by_all(mine) == 1).all()


def test_costs_share_the_work_and_order_it():
    costs = [10.0 if i % 10 == 0 else 1.0 for i in range(200)]
    tasks = sk.tasks(range(200), cost=costs)
    sums = [sum(costs[i] for i in queue) for queue in tasks._queues]
    assert max(sums) - min(sums) <= 10
    order = [costs[i] for i in tasks._queues[0]]
    assert order == sorted(order, reverse=True)
    # A draw takes a part of the cost that is left, not of the number of tasks.
    first = tasks._queues[0].share(0, 2 * sk.size())
    assert sum(order[:first]) <= max(order[0], sums[0] / (2 * sk.size()))
    sk.sync()


def test_draws_take_several_while_much_is_left():
    """A draw from another node is a request; there must be fewer of them than tasks."""
    n = 4000
    sk.sync()
    tasks = sk.tasks(n)
    reads = 0
    taken = tasks._taken.read_inc

    class Counted:
        def read_inc(self, *arguments):
            nonlocal reads
            reads += 1
            return taken(*arguments)

        def get(self, *arguments):
            return original.get(*arguments)

    original, tasks._taken = tasks._taken, Counted()
    got = sum(1 for _ in tasks)
    sk.sync()
    assert sk.allreduce(got) == n
    assert sk.allreduce(reads) < n / 4


def test_idle_ranks_take_over():
    """One rank does nothing for a while: others draw its tasks."""
    tasks = sk.tasks(64 * sk.size())
    if sk.rank() == 0 and sk.size() > 1:
        sk.barrier()
    mine = list(tasks)
    if sk.rank() != 0:
        sk.barrier()
    if sk.rank() == 0 and sk.size() > 1:
        assert mine == []
    assert sk.allreduce(len(mine)) == len(tasks)
    sk.sync()


def test_a_loop_may_end_early_and_leave_the_rest():
    tasks = sk.tasks(100)
    mine = 0
    for _ in tasks:
        mine += 1
        if sk.rank() > 0:
            break
    sk.sync()
    rest = sum(1 for _ in tasks)  # what was drawn and not given out, too
    assert sk.allreduce(mine + rest) == 100
    sk.sync()


def test_threads_share_an_iterator():
    tasks = sk.tasks(3000)
    mine, lock = [], threading.Lock()

    def work():
        for task in tasks:
            with lock:
                mine.append(task)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    flags = np.zeros(3000, int)
    np.add.at(flags, mine, 1)
    assert (drawn_by_all(flags) == 1).all()


def test_progress(capfd):
    told = []
    for _ in sk.tasks(50, progress=lambda done, total: told.append((done, total))):
        pass
    sk.sync()
    if sk.rank() == 0:
        assert told and all(0 <= done <= 50 and total == 50 for done, total in told)
    else:
        assert told == []
    capfd.readouterr()
    for _ in sk.tasks(50, progress=True):
        pass
    text = capfd.readouterr().err
    assert ("of 50 drawn" in text) == (sk.rank() == 0)
    sk.sync()


def test_tasks_of_a_group():
    half = sk.world().split(sk.rank() % 2)
    a = sk.zeros((50, 20), group=half)
    mine = np.zeros((50, 20), int)
    for patch in sk.tasks(a):
        mine[patch] += 1
    assert (sk.allreduce(mine, group=half) == 1).all()
    assert sk.allreduce(sum(1 for _ in sk.tasks(30, group=half)), group=half) == 30
    a.free()
    half.free()


def mappings():
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_many_loops_leave_no_memory():
    """Counters of loops that all ranks have left are freed when the next loop begins."""
    for _ in range(3):
        assert sum(1 for _ in sk.tasks(4, progress=lambda done, total: None)) <= 4
    before = mappings()
    for _ in range(100):
        assert sum(1 for _ in sk.tasks(4, progress=lambda done, total: None)) <= 4
    assert mappings() <= before + 20
    sk.sync()


def test_tasks_refuse_on_every_member():
    a = sk.zeros((4, 4))
    last = sk.rank() == sk.size() - 1
    for refused, text in (
        (lambda: sk.tasks(a, tile=(2,)), "2 whole numbers"),
        (lambda: sk.tasks(a, tile=(2, 0)), "whole numbers from 1"),
        (lambda: sk.tasks(a, cost=[1]), "ranges and lists"),
        (lambda: sk.tasks(5, tile=2), "for arrays"),
        (lambda: sk.tasks(5, cost=[1, 2]), "2 numbers for 5"),
        (lambda: sk.tasks(2, cost=[1, float("nan")]), "nan"),
        (lambda: sk.tasks("abc"), "tasks of a str"),
        (lambda: sk.tasks(None), "tasks of a NoneType"),
        (lambda: sk.tasks(2, cost=["x", "y"]), "could not convert"),
    ):
        with pytest.raises(sk.InvalidError, match=text):
            refused()
    if sk.size() > 1:
        with pytest.raises(sk.InvalidError, match="different"):
            sk.tasks(5 if last else 6)
        with pytest.raises(sk.InvalidError, match="different"):
            sk.tasks(a, tile=(1 + last, 1))
        with pytest.raises(sk.InvalidError, match="2 numbers|refused its part"):
            sk.tasks(5, cost=[1, 2] if last else None)
    a.free()
    with pytest.raises(sk.FreedError):
        sk.tasks(a)


# ---- semaphores and conditions -------------------------------------------------------------------


def test_a_semaphore_lets_so_many_in():
    inside, most = sk.zeros((1,), "int64"), sk.zeros((1,), "int64")
    permits = sk.Semaphore(2)
    for _ in range(20):
        with permits:
            now = inside.read_inc(0, 1) + 1
            if now > 2:
                most.read_inc(0, 1)
            inside.read_inc(0, -1)
    sk.sync()
    assert most[0] == 0 and inside[0] == 0
    sk.sync()
    if sk.rank() == 0:
        assert permits.acquire(blocking=False) and permits.acquire(blocking=False)
        assert permits.acquire(blocking=False) is False
        with pytest.raises(sk.InvalidError, match="0 of 2 permits"):
            permits.release(3)
        permits.release(2)
        with pytest.raises(sk.InvalidError, match="2 of 2 permits are free"):
            permits.release()
        with pytest.raises(sk.InvalidError, match="at least one"):
            permits.release(0)
    sk.sync()
    permits.free()


def test_an_unbounded_semaphore_counts_events():
    events = sk.Semaphore(0, bounded=False)
    if sk.rank() == 0:
        for _ in range(sk.size() - 1):
            events.acquire()
        assert events.acquire(blocking=False) is False
        events.release(sk.size())
    else:
        events.release()
    sk.barrier()
    assert events.acquire()
    sk.barrier()
    assert not events.acquire(blocking=False)
    sk.barrier()
    events.free()


def test_a_condition_hands_over():
    """A bounded buffer with two conditions over one mutex: every item once, in order."""
    places, items = 3, 20
    ring, ends = sk.zeros((places,), "int64"), sk.zeros((2,), "int64")
    not_empty = sk.Condition()
    not_full = sk.Condition(not_empty)
    got = []
    if sk.rank() == 0:
        for i in range(items * (sk.size() - 1)):
            with not_full:
                not_full.wait_for(lambda: ends[1] - ends[0] < places)
                end = ends[1]
                ring[end % places] = i
                ends[1] = end + 1
                sk.fence()
                not_empty.notify()
    else:
        for _ in range(items):
            with not_empty:
                not_empty.wait_for(lambda: ends[1] > ends[0])
                assert not_empty.locked() and not_full.locked()
                begin = ends[0]
                got.append(int(ring[begin % places]))
                ends[0] = begin + 1
                sk.fence()
                not_full.notify()
    assert got == sorted(got)
    flags = np.zeros(items * (sk.size() - 1), int)
    flags[got] = 1
    assert (drawn_by_all(flags) == 1).all()
    with pytest.raises(sk.InvalidError, match="without the mutex"):
        not_empty.notify()
    with pytest.raises(sk.InvalidError, match="without the mutex"):
        not_full.wait()
    with pytest.raises(sk.InvalidError, match="without the mutex"):
        not_full.release()
    with pytest.raises(sk.InvalidError, match="give another Condition"):
        sk.Condition(3)
    sk.barrier()
    not_full.free()
    not_empty.free()


def test_notify_all_and_locking_again():
    go, condition = sk.zeros((1,), "int64"), sk.Condition()
    waiting = sk.Counter()
    if sk.rank() == 0:
        while True:
            with condition, condition:
                if waiting.next(0) == sk.size() - 1:
                    go[0] = 1
                    sk.fence()
                    assert condition.notify_all() == sk.size() - 1
                    break
            time.sleep(0.001)
    else:
        with condition, condition:
            waiting.next()
            condition.wait_for(lambda: go[0] == 1)
            assert condition.locked()
        assert not condition.locked()
    sk.barrier()
    condition.free()
