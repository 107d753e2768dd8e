#!/usr/bin/env python3
"""One library's whole-array programs, timed: started by bench.py, once for each library.

    kernels.py LIBRARY --rounds N --scale S [--only NAME ...]

LIBRARY is numpy, skerry, heat or dask. The first rank prints one line of JSON for each kernel:
name, seconds (of each round, without the first), check (a number that all libraries must share).
"""

import argparse
import json
import time

import numpy as np


class NumPy:
    xp = np
    first = True

    def array(self, values):
        return values.copy()

    def settle(self, *arrays):
        """Until the arrays are computed, everywhere. Returns them."""
        return arrays

    def number(self, value):
        return float(value)

    def put_inner(self, grid, work):
        grid[1:-1, 1:-1] = work
        return grid


class Skerry(NumPy):
    def __init__(self):
        import skerry as sk
        import skerry.xp as xp

        sk.init()
        self.sk, self.xp, self.first = sk, xp, sk.rank() == 0

    def array(self, values):
        return self.xp.asarray(values, copy=True)

    def settle(self, *arrays):
        for array in arrays:
            array._evaluate()  # without marking it as memory that the program writes
        self.sk.barrier()
        return arrays


class Heat(NumPy):
    def __init__(self):
        import heat

        self.xp, self.first = heat, heat.MPI_WORLD.rank == 0

    def array(self, values):
        return self.xp.array(values.copy(), split=0)  # it may keep what it is given

    def settle(self, *arrays):
        self.xp.MPI_WORLD.handle.Barrier()
        return arrays

    def number(self, value):
        return float(value.item())


class Dask(NumPy):
    def __init__(self):
        import os

        import dask
        import dask.array

        workers = int(os.environ.get("BENCH_RANKS", "1"))
        dask.config.set(scheduler="threads", num_workers=workers)
        self.xp, self.dask, self.workers = dask.array, dask, workers

    def array(self, values):
        chunks = (-(-values.shape[0] // self.workers), *values.shape[1:])
        return self.settle(self.xp.from_array(values, chunks=chunks))[0]

    def settle(self, *arrays):
        return self.dask.persist(*arrays)

    def number(self, value):
        return float(value.compute())

    def put_inner(self, grid, work):
        edges = self.xp.concatenate([grid[1:-1, :1], work, grid[1:-1, -1:]], axis=1)
        whole = self.xp.concatenate([grid[:1], edges, grid[-1:]], axis=0).rechunk(grid.chunks)
        return self.settle(whole)[0]


# ---- kernels: (library, scale) -> a function of a round that returns the check -------------------


def stencil(library, scale):
    n, steps = int(4000 * scale), max(2, int(100 * scale))
    start = np.zeros((n + 2, n + 2))
    start[0], start[:, 0] = 1.0, -2.0

    def run():
        grid = library.array(start)
        begin = time.perf_counter()
        for _ in range(steps):
            around = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
            grid = library.put_inner(grid, 0.2 * (grid[1:-1, 1:-1] + around))
        library.settle(grid)
        seconds = time.perf_counter() - begin
        return seconds, library.number(library.xp.sum(grid))

    return run


def cumulative_normal(xp, d):
    k = 1.0 / (1.0 + 0.2316419 * xp.abs(d))
    tail = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (
        -1.821255978 + k * 1.330274429))))  # fmt: skip
    value = 0.39894228040143267794 * xp.exp(-0.5 * d * d) * tail
    return xp.where(d > 0, 1.0 - value, value)


def black_scholes(library, scale):
    n = int(10_000_000 * scale)
    random = np.random.default_rng(0)
    data = [random.uniform(low, high, n) for low, high in ((5, 30), (1, 100), (0.25, 10))]
    xp, rate, volatility = library.xp, 0.02, 0.30

    def run():
        stock, strike, years = map(library.array, data)
        library.settle()
        begin = time.perf_counter()
        root = volatility * xp.sqrt(years)
        d1 = (xp.log(stock / strike) + (rate + 0.5 * volatility**2) * years) / root
        cnd1, cnd2 = cumulative_normal(xp, d1), cumulative_normal(xp, d1 - root)
        discount = xp.exp(-rate * years)
        call = stock * cnd1 - strike * discount * cnd2
        put = strike * discount * (1.0 - cnd2) - stock * (1.0 - cnd1)
        call, put = library.settle(call, put)
        seconds = time.perf_counter() - begin
        return seconds, library.number(xp.sum(call + put))

    return run


def kmeans(library, scale):
    n, width, clusters = int(1_000_000 * scale), 16, 8
    points = np.random.default_rng(1).random((n, width))
    xp = library.xp

    def run():
        x = library.array(points)
        centers = points[:clusters].copy()
        library.settle()
        begin = time.perf_counter()
        for _ in range(5):
            gaps = [xp.sum((x - library_row(library, c)) ** 2, axis=1) for c in centers]
            nearest, label = gaps[0], 0 * gaps[0]
            for k in range(1, clusters):
                label = xp.where(gaps[k] < nearest, float(k), label)
                nearest = xp.where(gaps[k] < nearest, gaps[k], nearest)
            for k in range(clusters):
                mine = xp.where(label == float(k), 1.0, 0.0)
                total = xp.sum(x * mine[:, None], axis=0)
                count = library.number(xp.sum(mine))
                centers[k] = as_numpy(total) / max(count, 1.0)
        seconds = time.perf_counter() - begin
        return seconds, float(centers.sum())

    return run


def lasso(library, scale):
    """Coordinate descent on the columns, three times round."""
    n, width, weight = int(1_000_000 * scale), 16, 0.05
    random = np.random.default_rng(2)
    data = random.standard_normal((width, n))
    target = np.linspace(-1, 1, width) @ data + 0.1 * random.standard_normal(n)
    xp = library.xp

    def run():
        columns, rest = [library.array(column) for column in data], library.array(target)
        theta = np.zeros(width)
        library.settle()
        begin = time.perf_counter()
        for _ in range(3):
            for k, column in enumerate(columns):
                rho = library.number(xp.mean(column * (rest + float(theta[k]) * column)))
                before, theta[k] = theta[k], np.sign(rho) * max(abs(rho) - weight, 0.0)
                rest = library.settle(rest + float(before - theta[k]) * column)[0]
        seconds = time.perf_counter() - begin
        return seconds, float(theta.sum())

    return run


def distances(library, scale):
    """Between all pairs of points."""
    points = np.random.default_rng(3).random((int(4000 * scale), 16))
    xp = library.xp

    def run():
        x, y = library.array(points), library.array(np.ascontiguousarray(points.T))
        row = library_row(library, (points**2).sum(axis=1))
        library.settle()
        begin = time.perf_counter()
        squares = xp.sum(x * x, axis=1)[:, None] + row - 2.0 * xp.matmul(x, y)
        whole = library.settle(xp.sqrt(xp.abs(squares)))[0]
        seconds = time.perf_counter() - begin
        return seconds, library.number(xp.sum(whole))

    return run


def moments(library, scale):
    """Mean, variance, skewness and kurtosis of the columns."""
    points = np.random.default_rng(4).random((int(1_000_000 * scale), 16))
    xp = library.xp

    def run():
        x = library.array(points)
        library.settle()
        begin = time.perf_counter()
        apart = x - xp.mean(x, axis=0)
        square = apart * apart
        variance = xp.mean(square, axis=0)
        skewness = xp.mean(square * apart, axis=0) / (variance * xp.sqrt(variance))
        kurtosis = xp.mean(square * square, axis=0) / (variance * variance)
        check = library.number(xp.sum(skewness + kurtosis))
        return time.perf_counter() - begin, check

    return run


def library_row(library, row):
    if isinstance(library, Heat):
        return library.xp.array(row)
    return library.xp.asarray(row)


def as_numpy(array):
    for name in ("numpy", "compute"):
        if hasattr(array, name):
            return np.asarray(getattr(array, name)())
    return np.asarray(array)


KERNELS = {
    "stencil": stencil, "black_scholes": black_scholes, "kmeans": kmeans, "lasso": lasso,
    "distances": distances, "moments": moments,
}  # fmt: skip
LIBRARIES = {"numpy": NumPy, "skerry": Skerry, "heat": Heat, "dask": Dask}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", nargs="+", choices=KERNELS, default=list(KERNELS))
    options = parser.parse_args()
    library = LIBRARIES[options.library]()
    for name in options.only:
        run = KERNELS[name](library, options.scale)
        results = [run() for _ in range(options.rounds + 1)]  # the first one warms up
        if library.first:
            seconds = [seconds for seconds, _ in results[1:]]
            print(json.dumps({"name": name, "seconds": seconds, "check": results[-1][1]}))


if __name__ == "__main__":
    main()
