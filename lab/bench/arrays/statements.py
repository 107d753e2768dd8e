#!/usr/bin/env python3
"""Single statements of NumPy programs on skerry.numpy beside NumPy, in one run: microseconds.

    skerry run -n 2 lab/bench/arrays/statements.py [--turns 5] [--elements 100 4000 60000]

Alone: rank 0 runs a statement with NumPy while the others sleep. Together: each rank does. Then all
run it with skerry.numpy. Turns alternate; each takes the least of seven batches, the result is the
median of turns. The last line is `a[i]` in a loop over a divided array of --loop elements.
"""

import argparse
import contextvars
import statistics
import time

STATEMENTS = {
    "b[1:-1] = c * (a[:-2] + a[1:-1] + a[2:])": "stencil",
    "a + b": "add",
    "a[5]": "element",
    "a[5] = 1": "store",
    "a[2:9]": "slice",
    "a.sum()": "sum",
    "a @ b": "product",
}


def _target(alone, n):
    """The most microseconds that a statement may take."""
    return 1.3 * alone + 0.3 if n <= 4000 else alone


def _calls(np, n):
    """Each statement as a function of a count; what is computed late is computed in it."""
    a, b, c = np.arange(float(n)), np.ones(n), 0.25

    def finish(value):
        getattr(value, "_evaluate", int)()

    def stencil(times):
        for _ in range(times):
            b[1:-1] = c * (a[:-2] + a[1:-1] + a[2:])
        finish(b)

    def add(times):
        for _ in range(times):
            finish(a + b)

    def element(times):
        for _ in range(times):
            a[5]

    def store(times):
        for _ in range(times):
            a[5] = 1

    def slice(times):
        for _ in range(times):
            a[2:9]

    def sum(times):
        for _ in range(times):
            a.sum()

    def product(times):
        for _ in range(times):
            a @ b

    return locals()


def _time(call, times, meet):
    batches = []
    for _ in range(7):
        meet()
        began = time.perf_counter()
        call(times)
        batches.append((time.perf_counter() - began) / times * 1e6)
    return min(batches)


def _loop(np, n, meet):
    a, total = np.arange(float(n)), 0.0
    meet()
    began = time.perf_counter()
    for i in range(n):
        total += a[i]
    assert total == n * (n - 1) / 2, "a[i] of another element"
    return (time.perf_counter() - began) / n * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--elements", type=int, nargs="+", default=[100, 4000, 60000])
    parser.add_argument("--loop", type=int, default=10_000_000, help="0: not at all")
    options = parser.parse_args()
    import numpy

    import skerry as sk

    # In a context of its own NumPy has its own allocator: skerry.xp gives aligned memory.
    numpys = contextvars.Context().run
    import skerry.numpy as snp

    sk.init()
    ours = contextvars.copy_context().run
    ways = {"NumPy": numpy, "together": numpy, "skerry": snp}

    def row(run):
        times = {way: [] for way in ways}
        for _ in range(options.turns):
            for way, np in ways.items():
                sk.sync()
                if way != "NumPy" or sk.rank() == 0:
                    within = numpys if np is numpy else ours
                    times[way].append(within(run, np, int if way == "NumPy" else sk.sync))
        return [statistics.median(each or [0.0]) for each in times.values()]

    def show(name, n, alone, together, skerry):
        target = 1.0 if n == options.loop else _target(alone, n)
        if sk.rank() == 0:
            print(f"| `{name}` | {n:,} | {alone:.2f} | {together:.2f} | {skerry:.2f} "
                  f"| {skerry / alone:.2f} | {target:.2f} |", flush=True)  # fmt: skip

    if sk.rank() == 0:
        print("| statement | elements | NumPy | NumPy on all ranks | skerry | over NumPy | goal |")
        print("| -- | -- | -- | -- | -- | -- | -- |")
    for n in options.elements:
        calls = {numpy: numpys(_calls, numpy, n), snp: ours(_calls, snp, n)}
        for text, name in STATEMENTS.items():
            times = 2000 if n <= 4000 else 200
            show(text, n, *row(lambda np, meet, f=name, k=times, c=calls: _time(c[np][f], k, meet)))
    if options.loop:
        options.turns = 1
        show("a[i] in a loop", options.loop, *row(lambda np, meet: _loop(np, options.loop, meet)))
    sk.finalize()


if __name__ == "__main__":
    main()
