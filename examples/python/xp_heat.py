#!/usr/bin/env python3
"""Heat spreads through a plate: whole-array arithmetic over all ranks, with one-sided reads of it.

skerry run -n 4 --nodes 2 python examples/python/xp_heat.py
"""

import skerry as sk
import skerry.xp as xp

sk.init()
plate = xp.zeros((200, 300))
plate[0] = 100.0  # one hot edge
inner = plate[1:-1, 1:-1]  # a view: writing to it changes the plate

for _ in range(500):
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    inner[...] = 0.25 * around

mean = float(xp.mean(plate))
storage = plate.array  # the same memory as an sk.Array: any rank reads any part
if sk.rank() == 0:
    print(f"mean {mean:.3f}, near the hot edge {storage[3, 150]:.3f}")
sk.barrier()
assert 2 < mean < 10
