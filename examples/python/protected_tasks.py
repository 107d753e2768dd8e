#!/usr/bin/env python3
"""Tasks that balance themselves, whoever dies: those of a step in which a rank died come again.

skerry run -n 4 --nodes 2 python examples/python/protected_tasks.py

The Mandelbrot set in bands of rows, and how many points take how long. Both arrays go back to the
last protected step, so what the tasks of a broken step have added does not count twice.
"""

import numpy as np

import skerry as sk

sk.init(on_failure="continue")
rows, columns, band, longest = 240, 320, 20, 100
picture = sk.zeros((rows, columns), "int32")
points = sk.zeros(longest + 1, "int64")  # by the number of iterations

for step in sk.steps(rows // band, protect=[picture, points], partner=min(1, sk.nodes() - 1)):
    with step:
        for first in sk.tasks(range(0, columns, 20), group=step.group):
            y, x = np.arange(step * band, (step + 1) * band), np.arange(first, first + 20)
            c = (x / columns * 3 - 2)[None, :] + 1j * (y / rows * 2.4 - 1.2)[:, None]
            z, count = np.zeros_like(c), np.zeros(c.shape, "int32")
            for _ in range(longest):
                inside = np.abs(z) <= 2
                z[inside] = z[inside] ** 2 + c[inside]
                count += inside
            picture[y[0] : y[-1] + 1, first : first + 20] = count
            points.acc(..., np.bincount(count.ravel(), minlength=longest + 1))

points.sync()
if sk.rank() == points.group.rank(0):
    found = np.bincount(picture.get().ravel(), minlength=longest + 1)
    assert (points.get() == found).all() and found.sum() == rows * columns
    print(f"{found[longest] / found.sum():.3f} of the points belong to the set; "
          f"dead: {sk.failed()}, steps done again: {step.loop.recovered}")
points.sync()
