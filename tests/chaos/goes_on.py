"""The program of lost_host.py: counts until a host was lost, and 20 steps beyond."""

import numpy as np

import skerry as sk

sk.init(on_failure="continue")
counts = sk.zeros((300, 100), "int64")
after = 0
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
    cost = sk.protection()
    print(f"right without {sk.failed()}: recovered in {cost.recovery_seconds:.3f} s", flush=True)
