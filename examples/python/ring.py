"""A token that goes round all ranks; each computes, adds its number and passes it on.

Use it when work goes from rank to rank in order: pipelines, a Gauss-Seidel sweep, or anything of
which there is only one. It also shows what one hop costs while the ranks compute.

It goes round twice: by lock, put, unlock, where the receiver looks into its own memory; and by
post, start, complete, wait, where the receiver sleeps until the token is there.

skerry run -n 4 --nodes 4 python examples/python/ring.py --work 1000
"""

import argparse
import sys
import time

import numpy as np

import skerry as sk

TOKEN = np.dtype([("hops", "i8"), ("sum", "i8")])  # made so far; of rank + 1 of all that had it


class ByLock:
    """The receiver takes no part, and looks."""

    name = "lock, put, unlock"

    def __init__(self, left, right):
        self.right, self.window = right, sk.window((), TOKEN)

    def prepare(self):
        pass

    def send(self, token):
        with self.window.lock(self.right):
            self.window.put(self.right, 0, token)

    def receive(self, hops):
        while True:
            with self.window.lock(sk.rank(), shared=True):
                token = self.window.local.copy()
            if token["hops"] == hops:
                return token
            time.sleep(0)  # others may need the core


class ByStart:
    """The receiver posts its memory and sleeps."""

    name = "post, start"

    def __init__(self, left, right):
        self.left, self.right, self.window = left, right, sk.window((), TOKEN)

    def prepare(self):
        self.window.post([self.left])

    def send(self, token):
        with self.window.start([self.right]):
            self.window.put(self.right, 0, token)

    def receive(self, hops):
        self.window.wait()
        return self.window.local.copy()


def compute(token, work_us):
    end = time.perf_counter() + work_us * 1e-6
    while time.perf_counter() < end:
        pass
    token["hops"] += 1
    token["sum"] += sk.rank() + 1


def go_round(way, rounds, work_us):
    """Rank 0 begins each round and ends it. Returns the token as this rank had it last."""
    first, token = sk.rank() == 0, np.zeros((), TOKEN)
    for turn in range(rounds):
        hops = turn * sk.size() + (sk.size() if first else sk.rank())  # on arrival
        way.prepare()
        if not first:
            token = way.receive(hops)
        compute(token, work_us)
        way.send(token)
        if first:
            token = way.receive(hops)
    return token


def measure(way, rounds, work_us):
    """Whether the token came round as it should."""
    sk.barrier()
    start = time.perf_counter()
    token = go_round(way, rounds, work_us)
    hops = rounds * sk.size()
    hop_us = (time.perf_counter() - start) * 1e6 / max(hops, 1)
    expected = rounds * sk.size() * (sk.size() + 1) // 2
    if sk.rank() != 0:
        return True
    print(
        f"{way.name}: {hop_us:.1f} us per hop, {work_us} us of them computing; "
        f"sum {token['sum']}, expected {expected}"
    )
    return token["hops"] == hops and token["sum"] == expected


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10, help="times round the ring (10)")
    parser.add_argument("--work", type=int, default=100, help="microseconds of work per hop (100)")
    options = parser.parse_args()
    sk.init()
    left, right = (sk.rank() - 1) % sk.size(), (sk.rank() + 1) % sk.size()
    right_sums = [
        measure(way(left, right), options.rounds, options.work) for way in (ByLock, ByStart)
    ]
    sk.finalize()
    sys.exit(0 if all(right_sums) else 1)


if __name__ == "__main__":
    main()
