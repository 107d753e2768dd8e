#!/usr/bin/env python3
"""Heat spreads through a plate by Jacobi's method, whoever dies: those that live go on.

skerry run -n 4 --nodes 2 python examples/python/protected_heat.py

With --spares 2 two more ranks wait, and take the places of the dead.
"""

import numpy as np

import skerry as sk

sk.init(on_failure="continue")
n = 120
plate = sk.ghosts((n, n), width=1)
if plate.local.size and plate.distribution()[0][0] == 0:
    plate.padded[0, :] = 100.0  # one hot edge, in the ghost cells
plate.sync()

for step in sk.steps(400, protect=[plate], every=10, partner=min(1, sk.nodes() - 1)):
    with step:
        p = plate.update(corners=False).padded
        new = 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
        step.values["change"] = sk.allreduce(np.abs(new - plate.local).max(initial=0.0), "max",
                                             group=step.group)
        plate.local[...] = new

plate.sync()
heat = sk.allreduce(plate.local.sum(), group=plate.group)
if sk.rank() == plate.group.rank(0):
    print(f"heat {heat:.6f}, last change {sk.kept('values')['change']:.2e}; dead: {sk.failed()}")
