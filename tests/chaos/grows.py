"""The program of elastic.py: adds up in protected steps, while members die and others come.

    grows.py SEED STEPS MARKS

In some steps, drawn by the seed, a member kills itself, once: it leaves a file in the folder MARKS.
Every step of the loop is protected, so two deaths never meet between two states.
"""

import os
import pathlib
import random
import signal
import sys
import time

import skerry as sk

seed, steps, marks = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
sk.init(on_failure="continue")
a, b = sk.zeros(700), sk.zeros((60, 7), "int32")
for step in sk.steps(steps, protect=[a, b]):
    with step:
        members = step.group.ranks
        dice = random.Random(1000 * seed + step)
        if dice.random() < 0.03 and len(members) > 2:
            mark = marks / str(int(step))
            if dice.choice(members) == sk.rank() and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.03)  # the launcher looks for hosts twice a second
        a.local[...] += 1
        b.local[...] += 2
        assert sk.allreduce(1, group=step.group) == len(members)
assert (a.get() == steps).all() and (b.get() == 2 * steps).all(), (a.get(), b.get())
print(f"right in a group of {len(step.group)}", flush=True)
