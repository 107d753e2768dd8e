"""Work stealing: each rank has a deque of tasks. Its owner pushes and takes the newest; idle ranks
steal the oldest, while the owner computes.

Use it when tasks make tasks and nobody knows how many: searching a tree, refining a mesh, branch
and bound. A shared counter (work_queue.py) suits tasks that are numbered.

The tasks here are the nodes of a random tree. A deque is guarded by the window's exclusive lock.

skerry run -n 4 --nodes 2 python examples/python/work_stealing.py --depth 12
"""

import argparse
import random
import sys
import time

import numpy as np

import skerry as sk

TOP, BOTTOM, FIRST, ROOM = 0, 1, 2, 4096  # words of a rank's memory


class Deques:
    """One of each rank. Tasks top to bottom - 1 are waiting, each in word FIRST + number % ROOM."""

    def __init__(self):
        self.window = sk.window(FIRST + ROOM, "int64")
        self.own = self.window.local  # loaded and stored under the own lock

    def push(self, task):
        with self.window.lock(sk.rank()):
            if self.own[BOTTOM] - self.own[TOP] == ROOM:
                raise RuntimeError(f"rank {sk.rank()}'s deque is full: it has room for {ROOM}")
            self.own[FIRST + self.own[BOTTOM] % ROOM] = task
            self.own[BOTTOM] += 1

    def pop(self):
        """The newest own task, or None."""
        with self.window.lock(sk.rank()):
            if self.own[BOTTOM] == self.own[TOP]:
                return None
            self.own[BOTTOM] -= 1
            return int(self.own[FIRST + self.own[BOTTOM] % ROOM])

    def looks_worthwhile(self, victim):
        """Whether a deque has tasks, without keeping anybody from it for long."""
        with self.window.lock(victim, shared=True):
            top, bottom = self.window.get(victim, TOP, np.empty(2, "int64"))
        return bottom > top

    def steal(self, victim):
        """The oldest task of `victim`, or None: near the root, so it brings much work with it."""
        with self.window.lock(victim):
            top, bottom = self.window.get(victim, TOP, np.empty(2, "int64"))
            if top == bottom:
                return None
            task = int(self.window.get(victim, FIRST + top % ROOM))
            self.window.put(victim, TOP, top + 1)
            return task


def children(task, depth):
    """A task is a node's random number, with its level in the last byte."""
    level = task % 256
    if level >= depth:
        return []
    numbers = random.Random(task)
    count = 16 if level == 0 else numbers.randrange(4)
    return [numbers.getrandbits(52) * 256 + level + 1 for _ in range(count)]


def walk(task, depth):
    """Number of tasks of a tree and the sum of their numbers, without ranks, to compare with."""
    below = [walk(child, depth) for child in children(task, depth)]
    return 1 + sum(count for count, _ in below), (task >> 8) + sum(total for _, total in below)


class Worker:
    def __init__(self, depth, work_us):
        self.depth, self.work_us = depth, work_us
        self.deques = Deques()
        self.idle = sk.Counter()  # ranks that have nothing to do
        self.done = self.sum = self.stolen = 0

    def run(self, task):
        end = time.perf_counter() + self.work_us * 1e-6
        while time.perf_counter() < end:
            pass
        self.done += 1
        self.sum += task >> 8
        for child in children(task, self.depth):
            self.deques.push(child)

    def run_own(self):
        while (task := self.deques.pop()) is not None:
            self.run(task)

    def find_work(self):
        """Steals a task and runs it. Returns False when all work of the job is done.

        Only a rank that is not idle holds or pushes tasks, so none is left when all are idle. For
        the same reason a thief is not idle while it tries.
        """
        idle, victim = self.idle.next(1) + 1, sk.rank()
        while idle < sk.size():
            victim = (victim + 1) % sk.size()
            if victim != sk.rank() and self.deques.looks_worthwhile(victim):
                self.idle.next(-1)
                if (task := self.deques.steal(victim)) is not None:
                    self.stolen += 1
                    self.run(task)
                    return True
                self.idle.next(1)
            time.sleep(0)  # others may need the core
            idle = self.idle.next(0)
        return False


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--depth", type=int, default=10, help="levels of the tree (10)")
    parser.add_argument("--work", type=int, default=50, help="microseconds of work per task (50)")
    options = parser.parse_args()
    sk.init()
    worker = Worker(options.depth, options.work)
    if sk.rank() == 0:
        worker.deques.push(0)
    sk.barrier()
    worker.run_own()
    while worker.find_work():
        worker.run_own()
    print(f"rank {sk.rank()} did {worker.done} tasks, stole {worker.stolen}")
    done, total, stolen = sk.allreduce(np.array([worker.done, worker.sum, worker.stolen]))
    expected = walk(0, options.depth)
    if sk.rank() == 0:
        print(f"{done} tasks done, {stolen} of them stolen; expected {expected[0]}")
    sk.finalize()
    sys.exit(0 if (done, total) == expected else 1)


if __name__ == "__main__":
    main()
