"""A 10 x 10 patch of doubles, inside one block of another rank of the same node, read from Python.

skerry run -n 2 python array_row.py
"""

import json
import statistics
import time

import numpy as np
import skerry as sk


def time_each_ns(function, batch_ns: float = 20e6) -> float:
    """Median time of one call, as the C++ programs take it; the loop around it is counted."""

    def batch(called, n: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(n):
            called()
        return (time.perf_counter_ns() - start) / n

    n = 256
    while batch(function, n) * n < batch_ns / 2:
        n *= 2
    return statistics.median(batch(function, n) for _ in range(7))


def main() -> None:
    sk.init()
    array = sk.zeros((1000, 1000))
    if sk.rank() == 0:
        (i, _), (j, _) = array.distribution(sk.size() - 1)
        i, j = i + 3, j + 5
        out = np.empty((10, 10))
        patch = ((i, i + 10), (j, j + 10))
        rows = {
            "array_get_10x10": lambda: array[i : i + 10, j : j + 10],
            "array_get_10x10_out": lambda: array.get(patch, out),
        }
        for name, function in rows.items():
            print(
                json.dumps({"row": name, "value": time_each_ns(function), "unit": "ns"}), flush=True
            )
    sk.sync()
    sk.finalize()


main()
