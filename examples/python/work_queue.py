"""Tasks of unknown length, handed out by a shared counter.

skerry run -n 4 python examples/python/work_queue.py
"""

import numpy as np

import skerry as sk

sk.init()
tasks, done, total = sk.Counter(), 0, 0.0
while (task := tasks.next()) < 100:
    total += np.sqrt(np.arange(task * 1000 + 1)).sum()
    done += 1
print(f"rank {sk.rank()} did {done} tasks")
total = sk.allreduce(total)
if sk.rank() == 0:
    print(f"sum {total:.6e}")
sk.finalize()
