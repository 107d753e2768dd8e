"""A program of bench.py: steps on a protected array until a host is lost, and 5 beyond.

It says when it is at work, and when the first step after the loss was done.
"""

import time

import numpy as np

import skerry as sk

sk.init(on_failure="continue")
array = sk.zeros((1 << 20,))
after = 0
for step in sk.steps(1_000_000, protect=[array]):
    with step:
        array.local[:1000] += 1
        lost = sk.allreduce(step.loop.recovered, "min", group=step.group)
        step.values["after"] = step.values.get("after", 0) + int(lost > 0)
    if sk.rank() == 0 and step == 20:
        print("at work", flush=True)
    if sk.rank() == 0 and step.values.get("after") == 1:
        seconds = sk.protection().recovery_seconds
        print(f"first step done at {time.time():.6f} recovered {seconds:.6f}", flush=True)
    if step.values.get("after") == 5:
        break
