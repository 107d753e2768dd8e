"""Memory that any rank reads and writes, without the owner's help.

skerry run -n 4 --nodes 2 python examples/python/put_get.py
"""

import numpy as np

import skerry as sk

sk.init()
rank, right = sk.rank(), (sk.rank() + 1) % sk.size()

memory = sk.Segment(1024)  # collective: every rank owns 1 KiB, zeroed
memory.put(right, 64, np.array([rank, 2.0 * rank]))  # into the neighbour's; it takes no part
sk.sync()
print(f"rank {rank} on node {sk.node()} got {memory.local[64:80].view('float64').tolist()}")

memory.acc(0, 0, np.array([float(rank)]))  # atomic: all add to one place
sk.sync()
if rank == 0:
    print("sum of all ranks:", float(memory.local[:8].view("float64")[0]))

requests = [memory.get_nb(right, offset, np.empty(1)) for offset in (64, 72)]  # both under way
print(f"rank {rank} reads from rank {right}: {[float(request.wait()[0]) for request in requests]}")
sk.finalize()
