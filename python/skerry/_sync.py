"""Semaphores and conditions of all ranks.

Both keep a queue of waiting members in the memory of the group's first member. A mutex guards it;
what its holder wrote there is visible to the next holder. Each member has a counter in its own
slice and sleeps until somebody raises it: it was taken out of the queue.

A slice is int64 words: [counter] of the member; of the host also [value, head, waiting], and a ring
of as many members as there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

import numpy as np

from . import _core
from ._together import agree
from .errors import InvalidError
from ._core import Group

_Result = TypeVar("_Result")
_WORD = 8
_VALUE, _HEAD, _WAITING, _RING = 1, 2, 3, 4


class _Mutex:
    """A mutex of all ranks and of the threads of this one; its holder may lock it again."""

    def __init__(self, group: Group | None) -> None:
        self.group = _core.world() if group is None else group
        self.host = self.group.ranks[0]
        self._mutexes = _core.Mutexes(1, group=self.group)
        self._here = threading.RLock()
        self._owner: int | None = None  # the thread that holds it; written by that thread
        self._depth = 0  # how often; likewise

    def lock(self, depth: int = 1) -> None:
        for _ in range(depth):
            self._here.acquire()
        if self._depth == 0:
            try:
                self._mutexes.lock(self.host, 0)
            except BaseException:
                for _ in range(depth):
                    self._here.release()
                raise
        self._owner, self._depth = threading.get_ident(), self._depth + depth

    def unlock(self, depth: int = 1) -> None:
        self._depth -= depth
        if self._depth == 0:
            self._owner = None
            self._mutexes.unlock(self.host, 0)
        for _ in range(depth):
            self._here.release()

    def held(self) -> int:
        """How often this thread has locked it."""
        return self._depth if self._owner == threading.get_ident() else 0

    def free(self) -> None:
        self._mutexes.free()


class _Queue:
    """The members that wait, and a number; guarded by a mutex that the caller holds."""

    def __init__(self, mutex: _Mutex, value: int = 0) -> None:
        group = mutex.group
        self._host, self._members = mutex.host, len(group)
        hosts = _core.rank() == self._host
        self._memory = _core.Segment((_RING + self._members if hosts else 1) * _WORD, group=group)
        if hosts:
            self._memory.local.view(np.int64)[_VALUE] = value
        self._told = 0  # times that this member entered the queue
        _core.sync(group)

    def read(self, word: int) -> int:
        return int(self._memory.get(self._host, word * _WORD, np.empty(1, np.int64))[0])

    def write(self, word: int, value: int) -> None:
        self._memory.put(self._host, word * _WORD, np.array([value], np.int64))

    def waiting(self) -> int:
        return self.read(_WAITING)

    def enter(self) -> int:
        """This member waits from now on. Returns what it gives to sleep(), without the mutex."""
        waiting = self.waiting()
        place = (self.read(_HEAD) + waiting) % self._members
        self.write(_RING + place, _core.rank())
        self.write(_WAITING, waiting + 1)
        self._told += 1
        return self._told

    def wake(self, n: int) -> int:
        """Takes n members, or as many as wait, out of the queue; returns how many."""
        waiting, head = self.waiting(), self.read(_HEAD)
        n = min(n, waiting)
        for i in range(n):
            rank = self.read(_RING + (head + i) % self._members)
            self._memory.put_notify(rank, 0, None, 0)
        self.write(_HEAD, (head + n) % self._members)
        self.write(_WAITING, waiting - n)
        return n

    def sleep(self, told: int) -> None:
        self._memory.notify_wait(0, told)

    def free(self) -> None:
        self._memory.free()


@contextmanager
def _locked(mutex: _Mutex) -> Iterator[None]:
    mutex.lock()
    try:
        yield
    finally:
        mutex.unlock()


class Semaphore:
    """`value` permits. `bounded`: never more than that; release() refuses. ``with`` takes one."""

    def __init__(self, value: int = 1, *, bounded: bool = True, group: Group | None = None) -> None:
        refused = None
        if not hasattr(value, "__index__") or value < 0:
            refused = InvalidError(f"value is {value!r}: give a whole number from 0 on")
        agree(
            (value, bool(bounded)),
            refused,
            group,
            differ=f"value is {value}, bounded {bounded}; another member gave others",
        )
        self._most = int(value) if bounded else None
        self._mutex = _Mutex(group)
        self._queue = _Queue(self._mutex, int(value))
        self._here = threading.Lock()  # of the threads of this rank, one waits for a permit

    def acquire(self, blocking: bool = True) -> bool:
        """Takes a permit, first come first served. False if there is none and not `blocking`. Waits
        sleep. Not collective. Errors: FreedError, PeerDeadError."""
        if not self._here.acquire(blocking):
            return False
        try:
            told = None
            with _locked(self._mutex):
                value = self._queue.read(_VALUE)
                if value > 0:
                    self._queue.write(_VALUE, value - 1)
                elif blocking:
                    told = self._queue.enter()
            if told is not None:
                self._queue.sleep(told)  # whoever wakes this member hands it a permit
            return value > 0 or blocking
        finally:
            self._here.release()

    def release(self, n: int = 1) -> None:
        """Gives n permits back. What this rank wrote before, after a fence, the taker sees. Errors:
        InvalidError. Not collective."""
        if n < 1:
            raise InvalidError(f"{n} permits: give back at least one")
        with _locked(self._mutex):
            value = self._queue.read(_VALUE)
            if self._most is not None and value + n > self._most:
                raise InvalidError(
                    f"release({n}): {value} of {self._most} permits are free; only what was "
                    "acquired can be given back (bounded=False lifts this)"
                )
            self._queue.write(_VALUE, value + n - self._queue.wake(n))

    def free(self) -> None:
        """Gives the memory back; collective. Errors: FreedError."""
        self._queue.free()
        self._mutex.free()

    def __enter__(self) -> Semaphore:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Condition:
    """A mutex that a thread may lock again, and waiting until another rank changed something.
    `mutex`: another Condition, whose mutex this one shares.

        with condition:                     # one rank
            condition.wait_for(lambda: a[0] > 0)
        with condition:                     # another
            a[0] = 1
            sk.fence()
            condition.notify()
    """

    def __init__(self, mutex: Condition | None = None, *, group: Group | None = None) -> None:
        if mutex is not None and not isinstance(mutex, Condition):
            raise InvalidError(f"mutex is {mutex!r}: give another Condition, whose mutex it shares")
        if mutex is not None and group is not None:
            raise InvalidError("a shared mutex has a group already: leave out `group`")
        self._owns = mutex is None
        self._mutex: _Mutex = _Mutex(group) if mutex is None else mutex._mutex
        self._queue = _Queue(self._mutex)
        self._waits = False  # whether a thread of this rank is in wait(); with the mutex held

    def acquire(self) -> None:
        """Locks the mutex; a thread that holds it may lock it again. Waits sleep. Not collective.
        Errors: FreedError, PeerDeadError."""
        self._mutex.lock()

    def release(self) -> None:
        """Unlocks the mutex, when this thread has released it as often as it acquired it. Not
        collective. Errors: InvalidError (not held)."""
        self._depth("release")
        self._mutex.unlock()

    def locked(self) -> bool:
        """Whether this thread holds the mutex. Not collective. Errors: none."""
        return self._mutex.held() > 0

    def _depth(self, what: str) -> int:
        depth = self._mutex.held()
        if depth == 0:
            raise InvalidError(f"{what} without the mutex: call it inside `with condition`")
        return depth

    def wait(self) -> None:
        """Gives the mutex away, sleeps until notified, and takes it again. One thread of a rank can
        wait at a time. Not collective. Errors: InvalidError (the mutex is not held, or another
        thread waits)."""
        depth = self._depth("wait")
        if self._waits:  # the queue has one place for each rank
            raise InvalidError("another thread of this rank waits already: one at a time can")
        self._waits, told = True, self._queue.enter()
        self._mutex.unlock(depth)
        try:
            self._queue.sleep(told)
        finally:
            self._mutex.lock(depth)
            self._waits = False

    def wait_for(self, predicate: Callable[[], _Result]) -> _Result:
        """Waits until predicate() is true; returns what it returned. Not collective. Errors: as
        wait()."""
        while not (result := predicate()):
            self.wait()
        return result

    def notify(self, n: int = 1) -> int:
        """Wakes n of those that wait, the first first; returns how many it woke. Not collective.
        Errors: InvalidError (the mutex is not held)."""
        self._depth("notify")
        return self._queue.wake(n)

    def notify_all(self) -> int:
        """Wakes all that wait; returns how many. Not collective. Errors: InvalidError (the mutex is
        not held)."""
        return self.notify(len(self._mutex.group))

    def free(self) -> None:
        """Gives the memory back; collective. A shared mutex goes with the condition that made it.
        Errors: FreedError."""
        self._queue.free()
        if self._owns:
            self._mutex.free()

    def __enter__(self) -> Condition:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
