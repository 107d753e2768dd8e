#!/usr/bin/env python3
"""Heat spreads through a plate in NumPy's arithmetic, whoever dies: those that live go on.

skerry run -n 4 --nodes 2 python examples/python/protected_xp_heat.py
"""

import skerry as sk
import skerry.numpy as np

sk.init(on_failure="continue")
n = 200
plate = np.zeros((n + 2, n + 2))
plate[0, 1:-1] = 100.0  # one hot edge
inner = plate[1:-1, 1:-1]  # a view: it follows the plate

for step in sk.steps(200, protect=[plate], every=10, partner=min(1, sk.nodes() - 1)):
    with step:
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        step.values["change"] = float(abs(0.25 * around - inner).max())
        inner[...] = 0.25 * around

heat = float(np.sum(inner))
if sk.rank() == step.group.rank(0):
    print(f"heat {heat:.6f}, last change {sk.kept('values')['change']:.2e}; dead: {sk.failed()}")
