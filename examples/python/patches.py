"""A matrix spread over all ranks; any rank reads and writes any patch.

skerry run -n 4 --nodes 2 python examples/python/patches.py
"""

import numpy as np

import skerry as sk

sk.init()
a = sk.empty((1000, 800))
a.local[...] = sk.rank()  # the own block is a NumPy view
a.sync()

if sk.rank() == 0:
    rows = a[495:505, :]  # wherever they are
    print("around the middle:", rows[0, 0], rows[-1, -1])
    for rank, patch in a.locate_patch(np.s_[495:505, :]):
        print(f"rank {rank} holds {patch}")

a.sync()
a.acc(np.s_[0:10, 0:10], np.ones((10, 10)), alpha=0.5)  # all ranks add; each addition happens once
a.sync()
if sk.rank() == 0:
    print("corner:", a[0, 0])
a.free()
sk.finalize()
