#!/usr/bin/env python3
"""Small accesses, timed: started by bench.py on two ranks.

    elements.py LIBRARY [--rounds N] [--count N]

LIBRARY is skerry or heat. Prints a line of JSON for each: name, microseconds or seconds. One
element and a 10 x 10 patch of the other rank's block; 1e5 random elements gathered, and added;
ghost cells of 2048 x 2048, width 2, updated.
"""

import argparse
import json
import statistics
import time

import numpy as np


def best_of(rounds, times, call):
    """Seconds of one call: the median of some rounds."""
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(times):
            call()
        taken.append((time.perf_counter() - begin) / times)
    return statistics.median(taken)


def say(name, seconds):
    print(json.dumps({"name": name, "seconds": seconds}), flush=True)


def with_skerry(options):
    import skerry as sk

    sk.init()
    n = 2048
    a = sk.zeros((n, n), grid=(sk.size(), 1))
    a.local[...] = 1.0
    sk.sync()
    if sk.rank() == 0:
        say("element", best_of(options.rounds, 20000, lambda: a[n - 1, 5]))
        patch = np.s_[n - 20 : n - 10, 5:15]
        say("patch 10x10", best_of(options.rounds, 20000, lambda: a[patch]))
    sk.sync()
    random = np.random.default_rng(sk.rank())
    index = tuple(random.integers(0, n, options.count) for _ in range(2))
    values, out = np.ones(options.count), np.empty(options.count)
    for name, call in (
        ("gather", lambda: a.gather(index, out=out)),
        ("scatter_acc", lambda: a.scatter_acc(index, values)),
    ):
        sk.sync()
        seconds = sk.allreduce(best_of(options.rounds, 1, call), "max")
        sk.sync()
        if sk.rank() == 0:
            say(name, seconds)
    g = sk.ghosts((n, n), width=2, periodic=True)
    g.update()
    seconds = sk.allreduce(best_of(options.rounds, 20, g.update), "max")
    if sk.rank() == 0:
        say("halo", seconds)


def with_heat(options):
    import heat as ht

    a = ht.ones((2048, 2048), split=0, dtype=ht.float64)
    element = best_of(options.rounds, 20, lambda: a[2047, 5].item())
    patch = best_of(options.rounds, 20, lambda: a[2028:2038, 5:15].numpy())
    if ht.MPI_WORLD.rank == 0:
        say("element", element)
        say("patch 10x10", patch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=("skerry", "heat"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=100_000)
    options = parser.parse_args()
    (with_skerry if options.library == "skerry" else with_heat)(options)


if __name__ == "__main__":
    main()
