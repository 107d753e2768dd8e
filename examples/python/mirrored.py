"""A mirrored array: one copy per node. Reading and adding never leave the node; merge sums the copies.

skerry run -n 4 --nodes 2 python examples/python/mirrored.py
"""

import numpy as np

import skerry as sk

sk.init()
data = sk.ones((512, 512))
near = sk.empty_like(data, mirrored=True)
result = sk.zeros((512, 512), mirrored=True)

data.copy_to(near)  # every node fetches what it lacks, once

before = sk.counters()
for i in range(64 * sk.rank(), 512, 64 * sk.size()):
    result.acc(np.s_[i : i + 64, 0:64], 2 * near[i : i + 64, 0:64])  # no bytes cross
after = sk.counters()

result.merge()  # moves only what is not zero
counted = sk.counters()
print(
    f"rank {sk.rank()}: result {result[0, 0]}; {after['remote_operations'] - before['remote_operations']} operations left the node"
    f" while working; merge fetched {counted['merge_bytes_moved']} bytes and skipped {counted['merge_bytes_skipped']}"
)
result.copy_to(data)  # back to the distributed array: local copies only
sk.finalize()
