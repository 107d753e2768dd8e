#!/usr/bin/env python3
"""Single statements of NumPy programs on skerry.numpy beside NumPy, in one run: microseconds.

    skerry run -n 2 lab/bench/arrays/statements.py [--turns 5] [--elements 100 4000 60000]
    skerry run -n 2 lab/bench/arrays/statements.py --large [--turns 5]

Alone: rank 0 runs a statement with NumPy while the others sleep. Together: each rank does. Then all
run it with skerry.numpy. Turns alternate; each takes the least of seven batches, the result is the
median of turns. The last line is `a[i]` in a loop over a divided array of --loop elements. --large:
functions of large arrays in place of all that.
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
# Of large arrays: the function, elements, and the most of NumPy's time on two ranks.
LARGE = {
    "m[:k, :k] @ m[k:, k:]": ("quarter", 2000 * 2000, 0.6),
    "np.sort(a)": ("sort", 4_000_000, 0.6),
    "np.unique(i)": ("unique", 4_000_000, 0.6),
    "np.linalg.solve(m, m)": ("solve", 2000 * 2000, 0.6),
    "rng.random(n)": ("random", 8_000_000, 0.6),
    "r[index]": ("rows", 8_000_000, 1.2),
    "g[1:-1] = h[2:]": ("assign", 8_000_000, 1.2),
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


def _large_calls(np, _):
    rng = np.random.default_rng(1)
    a, m = rng.random(4_000_000), rng.random((2000, 2000))
    i = rng.integers(0, 1_000_000, 4_000_000)
    g, h = np.zeros((8000, 1000)), np.ones((8000, 1000))
    r, index = rng.random((800_000, 10)), rng.permutation(800_000)
    k = 1000

    def finish(value):
        getattr(value, "_evaluate", int)()

    def quarter(_):
        finish(m[:k, :k] @ m[k:, k:])

    def sort(_):
        finish(np.sort(a))

    def unique(_):
        finish(np.unique(i))

    def solve(_):
        finish(np.linalg.solve(m, m))

    def random(_):
        finish(rng.random(8_000_000))

    def rows(_):
        finish(r[index])

    def assign(_):
        g[1:-1] = h[2:]
        finish(g)

    return locals()


def _time(call, times, meet, rounds=7):
    batches = []
    for _ in range(rounds):
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
    parser.add_argument("--large", action="store_true", help="functions of large arrays alone")
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

    def show(name, n, target, alone, together, skerry):
        if sk.rank() == 0:
            print(f"| `{name}` | {n:,} | {alone:.2f} | {together:.2f} | {skerry:.2f} "
                  f"| {skerry / alone:.2f} | {target:.2f} |", flush=True)  # fmt: skip

    if sk.rank() == 0:
        print("| statement | elements | NumPy | NumPy on all ranks | skerry | over NumPy | goal |")
        print("| -- | -- | -- | -- | -- | -- | -- |")
    if options.large:
        calls = {numpy: numpys(_large_calls, numpy, 0), snp: ours(_large_calls, snp, 0)}
        for text, (name, n, goal) in LARGE.items():
            times = row(lambda np, meet, f=name, c=calls: _time(c[np][f], 1, meet, 2))
            show(text, n, goal * times[0], *times)
        sk.finalize()
        return
    for n in options.elements:
        calls = {numpy: numpys(_calls, numpy, n), snp: ours(_calls, snp, n)}
        for text, name in STATEMENTS.items():
            times = 2000 if n <= 4000 else 200
            us = row(lambda np, meet, f=name, k=times, c=calls: _time(c[np][f], k, meet))
            show(text, n, _target(us[0], n), *us)
    if options.loop:
        options.turns = 1
        us = row(lambda np, meet: _loop(np, options.loop, meet))
        show("a[i] in a loop", options.loop, 1.0, *us)
    sk.finalize()


if __name__ == "__main__":
    main()
