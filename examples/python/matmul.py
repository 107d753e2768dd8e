"""c = a b^T, each rank computing its own block of c from panels that it fetches while BLAS works.

skerry run -n 4 --nodes 2 python examples/python/matmul.py
"""

import skerry as sk

sk.init()
a, b, c = sk.full((600, 500), 2.0), sk.full((400, 500), 3.0), sk.empty((600, 400))
sk.matmul(a, b, c, trans_b=True)
if sk.rank() == 0:
    print(c[599, 399], "expected", 2 * 3 * 500)
sk.finalize()
