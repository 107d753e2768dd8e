#!/usr/bin/env python3
"""A long computation that saves its state and goes on from there, on any number of ranks.

skerry run -n 4 --nodes 2 python examples/python/checkpoint.py [FILE.zarr]
"""

import sys
from pathlib import Path

import skerry as sk
import skerry.xp as xp

sk.init()
path = Path(sys.argv[1] if len(sys.argv) > 1 else "state.zarr")
try:
    state = sk.load(path)  # what an earlier job saved last, whole, even if it was killed
except sk.FileError:
    state = {"field": sk.ones((300, 200)), "step": sk.zeros(1, "int64")}
except sk.UnsupportedError as error:
    print(error)
    sys.exit(0)

field, step = (xp.asarray(state[name]) for name in ("field", "step"))
for _ in range(3):
    field[...] = 0.5 * field + 1.0
    step += 1
sk.save(state, path)
if sk.rank() == 0:
    print(f"{path}: step {state['step'][0]}, first element {state['field'][0, 0]:.6f}")
