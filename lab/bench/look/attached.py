#!/usr/bin/env python3
"""For look.py: a rank that computes on its block of a named array, and a reader of it.

    attached.py compute SECONDS    under `skerry run -n 2`: rank 0 computes, rank 1 is in a barrier;
                                   prints a line for every 20 ms, as paced does
    attached.py read JOB           gets 256 x 256 elements ten times a second, until it is ended
"""

import sys
import time

import numpy as np

import skerry as sk

SHAPE = (2000, 1000)
ROUND_NS = 20_000_000


def compute(seconds):
    sk.init()
    array = sk.zeros(SHAPE)
    array.label("work")
    sk.sync()
    if sk.rank() == 0:
        mine = array.local
        values = np.ones(8192)
        end = time.monotonic_ns() + int(seconds * 1e9)
        while (begin := time.monotonic_ns()) < end:
            calls = 0
            while (now := time.monotonic_ns()) < begin + ROUND_NS:
                values *= 0.999
                values += 1.0
                mine[calls % mine.shape[0], :] = values[: mine.shape[1]]
                calls += 1
            print(now, calls, f"{(now - begin) / calls:.3f}", flush=True)
    sk.sync()
    sk.finalize()


def read(job):
    array = sk.attach(job)["work"]
    while True:
        array[:256, :256]
        time.sleep(0.1)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("compute", "read"):
        sys.exit(__doc__)
    if sys.argv[1] == "compute":
        compute(float(sys.argv[2]))
    else:
        read(int(sys.argv[2]))
