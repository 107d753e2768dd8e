#!/usr/bin/env python3
"""What a type costs that stands for a whole array, beside NumPy's own: microseconds a statement.

    lab/bench/arrays/holders.py [--elements N]

Four types in one run, in turns: an ndarray; a subclass of it in Python, empty, and one that
gives numbers where NumPy gives numbers; a thin class in Python that holds an ndarray; skerry.xp's
Array. Medians of 9 turns of 2,000 statements. Prints a table of the docs/design record.
"""

import argparse
import operator
import os
import statistics
import timeit

import numpy

import skerry.numpy


class Subclass(numpy.ndarray):
    """Nothing but another type."""

    __slots__ = ()


class Numbers(numpy.ndarray):
    """Numbers where NumPy gives numbers."""

    __slots__ = ()

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return array[()] if return_scalar else array.view(Numbers)


def _inner(value):
    return value.held if isinstance(value, Thin) else value


def _outer(value):
    return Thin(value) if type(value) is numpy.ndarray else value


class Thin:
    """Holds an ndarray, all in Python."""

    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held

    def __getitem__(self, key):
        return _outer(self.held[_inner(key)])

    def __setitem__(self, key, value):
        self.held[_inner(key)] = _inner(value)

    def sum(self):
        return _outer(self.held.sum())


for _name in "add mul matmul lt".split():
    _function = getattr(operator, _name)
    setattr(Thin, f"__{_name}__",
            lambda self, other, f=_function: _outer(f(self.held, _inner(other))))  # fmt: skip
Thin.__rmul__ = Thin.__mul__

STATEMENTS = [
    "a[5]", "a[5] = 1.0", "a[2:9]", "a[2:9] = b[2:9]", "a + b", "a * 2.0", "f * a", "a < b",
    "a.sum()", "a @ b", "b[1:-1] = 0.3 * (a[:-2] + a[1:-1] + a[2:])",
]  # fmt: skip


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--elements", type=int, default=100)
    count = options.parse_args().elements
    plain = numpy.ones(count)
    makers = {
        "ndarray": lambda: plain.copy(),
        "subclass": lambda: plain.copy().view(Subclass),
        "with numbers": lambda: plain.copy().view(Numbers),
        "thin class": lambda: Thin(plain.copy()),
        "skerry": lambda: skerry.numpy.array(plain),
    }
    print(f"{count} elements, load {os.getloadavg()[0]:.1f}: microseconds, then what is added")
    print(f"{'':46}" + "".join(f"{name:>14}" for name in makers))
    for statement in STATEMENTS:
        timers = []
        for make in makers.values():
            names = {"a": make(), "b": make(), "f": numpy.float64(2)}
            timers.append(timeit.Timer(statement, globals=names))
        turns = [[timer.timeit(2000) / 2000 * 1e6 for timer in timers] for _ in range(9)]
        found = [statistics.median(turn) for turn in zip(*turns, strict=True)]
        cells = [f"{found[0]:14.3f}", *(f"{value - found[0]:+14.3f}" for value in found[1:])]
        print(f"{statement:46}" + "".join(cells))


if __name__ == "__main__":
    main()
