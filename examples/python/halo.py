#!/usr/bin/env python3
"""A wave on a ring-shaped sheet: each rank computes its block with ghost cells from its neighbours.

skerry run -n 4 --nodes 2 python examples/python/halo.py
"""

import numpy as np

import skerry as sk

sk.init()
n, c2 = 200, 0.2
now = sk.ghosts((n, n), width=1, periodic=True)
before, after = np.zeros_like(now.local), np.zeros_like(now.local)
if sk.rank() == 0:
    now[n // 2 - 5 : n // 2 + 5, n // 2 - 5 : n // 2 + 5] = 1.0  # a bump, wherever it lies
now.sync()
before[...] = now.local

for _ in range(100):
    p = now.update(corners=False).padded
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    after[...] = 2 * now.local - before + c2 * (around - 4 * now.local)
    before[...] = now.local
    now.local[...] = after

now.sync()
total = sk.allreduce(now.local.sum())
if sk.rank() == 0:
    print(f"the sum stays {total:.6f}; the middle is {now[n // 2, n // 2]:.4f}")
assert abs(total - 100) < 1e-6
