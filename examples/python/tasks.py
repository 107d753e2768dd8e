#!/usr/bin/env python3
"""The Mandelbrot set, in tiles that take very different times: ranks that are done help others.

skerry run -n 4 --nodes 2 python examples/python/tasks.py
"""

import numpy as np

import skerry as sk

sk.init()
rows, columns = 240, 320
picture = sk.zeros((rows, columns), "int32")
done = 0
for tile in sk.tasks(picture, tile=(20, 20)):  # the own block's tiles first, then others'
    y, x = (np.arange(part.start, part.stop) for part in tile)
    c = (x / columns * 3 - 2)[None, :] + 1j * (y / rows * 2.4 - 1.2)[:, None]
    z, count = np.zeros_like(c), np.zeros(c.shape, "int32")
    for _ in range(200):
        inside = np.abs(z) <= 2
        if not inside.any():
            break
        z[inside] = z[inside] ** 2 + c[inside]
        count += inside
    picture[tile] = count
    done += 1
print(f"rank {sk.rank()} did {done} tiles")
sk.sync()
tiles = sk.allreduce(done)
if sk.rank() == 0:
    print(f"{tiles} tiles; {(picture.get() == 200).mean():.3f} of the points belong to the set")
sk.barrier()
assert tiles == (rows // 20) * (columns // 20)
