"""Skewed tasks, and what mirrors move: rows of make bench-arrays, as one job of 4 ranks.

    skerry run -n 4 --nodes 4 python lab/bench/arrays/sharing.py

Rank 0 prints lines of JSON. tasks: the seconds of a loop over tiles of which rank 0's take 10 times
as long, each rank its own, and drawn by sk.tasks. Tasks sleep, so that they need no core each.
mirror: bytes between nodes of reading half an array by mirror and as full mirrors, of a second
read, and after 1 % of the tiles changed; memory beyond the touched tiles.
"""

import json
import time

import numpy as np

import skerry as sk

SECONDS = 0.002  # of a short task
N, TILE = 2048, 32


def tell(name, **values):
    if sk.rank() == 0:
        print(json.dumps({"name": name, **values}), flush=True)


def timed(loop):
    sk.barrier()
    begin = time.perf_counter()
    done = loop()
    sk.sync()
    return time.perf_counter() - begin, done


def tasks():
    """Tiles of 4 blocks: 40 a rank."""
    a = sk.zeros((40 * sk.size(), 8), grid=(sk.size(), 1))

    def work(row):
        time.sleep(SECONDS * (10 if row < 40 else 1))

    def static():
        (low, high), _ = a.distribution()
        for row in range(low, high):
            work(row)
        return high - low

    def shared():
        rows = []
        for tile in sk.tasks(a, tile=(1, 8)):
            rows.append(tile[0].start)
            work(tile[0].start)
        return rows

    still, _ = timed(static)
    moving, rows = timed(shared)
    counts = np.zeros(a.shape[0], int)
    counts[rows] = 1
    once = (sk.allgather(counts).sum(axis=0) == 1).all()
    tell("tasks", static=still, shared=moving, once=bool(once))
    a.free()


def moved(name, call):
    """Bytes of a counter, over all ranks, while call() runs."""
    sk.sync()
    before = sk.counters()[name]
    call()
    sk.sync()
    return int(sk.allgather(np.array([sk.counters()[name] - before])).sum())


def mirror():
    a = sk.zeros((N, N))
    a.local[...] = sk.rank() + 1
    sk.sync()
    m = sk.mirror(a)

    def read():  # the upper half, which other nodes hold in part
        m[: N // 2, :]

    first = moved("mirror_bytes_moved", read)
    second = moved("mirror_bytes_moved", read)
    if sk.rank() == 0:  # 1 % of the tiles that were read, spread
        for k in range(0, N // 2 * N // TILE**2, 100):
            i, j = divmod(k, N // TILE)
            a[i * TILE, j * TILE] = -1.0
    sk.sync()

    def renew():
        m.refresh()
        read()

    changed = moved("mirror_bytes_moved", renew)
    full = (sk.nodes() - 1) * N * N * 8
    tell("mirror", first=first, second=second, changed=changed, full=full)


def main():
    sk.init()
    tasks()
    mirror()
    sk.finalize()


if __name__ == "__main__":
    main()
