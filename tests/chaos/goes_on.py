"""The program of lost_host.py: counts until a host was lost, and 20 steps beyond.

Its argument: so many seconds more rank 0 sees that nothing comes of the lost ones (4 and 5), which
write into its memory all the time. By then they may have gone on again.
"""

import sys
import threading
import time

import numpy as np

import skerry as sk

sk.init(on_failure="continue")
counts = sk.zeros((300, 100), "int64")
board = sk.Segment(8 * sk.size())


def write_on():
    mine = np.zeros(1, "int64")
    while True:
        mine += 1
        board.put(0, 8 * sk.rank(), mine)
        sk.fence(0)


if sk.rank() in (4, 5):
    threading.Thread(target=write_on, daemon=True).start()
for step in sk.steps(1_000_000, protect=[counts]):
    with step:
        counts.acc(..., np.ones((300, 100), "int64"))
        counts.sync()
        members = len(step.group)
        step.values["added"] = step.values.get("added", 0) + members
        lost = sk.allreduce(step.loop.recovered, "min", group=step.group)
        step.values["after"] = step.values.get("after", 0) + int(lost > 0)
    if step == 5 and sk.rank() == 0:
        print("at work", flush=True)
    if step.values.get("after") == 20:
        break
assert (counts.get() == step.values["added"]).all(), "an update was lost, or counted twice"
counts.sync()
if sk.rank() == 0:
    written = board.local.view("int64")[4:].copy()
    time.sleep(float(sys.argv[1]))  # for the lost ones to write
    assert (written > 0).all() and (board.local.view("int64")[4:] == written).all(), written
    cost = sk.protection()
    print(f"right without {sk.failed()}: recovered in {cost.recovery_seconds:.3f} s", flush=True)
