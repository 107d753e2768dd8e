"""A program of bench.py: protects an array of which one per cent changes, beside the comparison in
memory and the changed bytes on the link.

    protect.py MIB_OF_ALL_RANKS
"""

import ctypes
import sys
import time

import numpy as np

import skerry as sk

sk.init(on_failure="continue")
ROUNDS, TILE = 5, 4096
libc = ctypes.CDLL(None)
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
array = sk.zeros(int(sys.argv[1]) * (1 << 20) // 8)
local = array.local
other = local.copy()  # what is compared in memory
tiles = local.size * 8 // TILE
changed = int(tiles * 0.01)
dice = np.random.default_rng(sk.rank())
partner = next(r for r in range(sk.size()) if not sk.same_node(r))
link = sk.Segment(2 * changed * TILE)
source = np.ones(2 * changed * TILE, np.uint8)


def timed(call):
    """The slowest rank's best of some rounds."""
    best = 1e9
    for _ in range(ROUNDS):
        change()
        sk.sync()
        begin = time.perf_counter()
        call()
        best = min(best, float(sk.allreduce(time.perf_counter() - begin, "max")))
    return best


def change():
    at = dice.integers(0, tiles, changed)
    local[at * (TILE // 8)] += 1


def send():
    link.put(partner, 0, source)  # what changed in two states, as protect sends it
    sk.fence()


sk.protect([array])
sk.protect()
before = sk.protection()
protect_s = timed(sk.protect)
after = sk.protection()
moved = (after.moved_bytes - before.moved_bytes) / ROUNDS
other[...] = local
compare_s = timed(lambda: libc.memcmp(other.ctypes.data, local.ctypes.data, local.nbytes))
other[...] = local


def compare():
    other[...] = local
    sk.sync()


best = 1e9
for _ in range(ROUNDS):
    sk.sync()
    begin = time.perf_counter()
    libc.memcmp(other.ctypes.data, local.ctypes.data, local.nbytes)
    best = min(best, float(sk.allreduce(time.perf_counter() - begin, "max")))
compare_s, send_s = best, timed(send)
if sk.rank() == 0:
    print(
        f"protect {protect_s:.4f} compare {compare_s:.4f} send {send_s:.4f} moved {moved:.0f}",
        flush=True,
    )
