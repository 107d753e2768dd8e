"""Saves or checks an array of 4096 x 4096 numbers, as one job.

    skerry run -n 4 python tests/array_api/files.py save PATH FACTOR
    skerry run -n 3 python tests/array_api/files.py check PATH FACTOR
    python tests/array_api/files.py read PATH FACTOR       with zarr and Dask, without Skerry
"""

import sys

import numpy as np

N = 4096


def numbers(rows, columns, factor):
    """Element (i, j), the same bits wherever it is computed; compresses badly."""
    i, j = np.ogrid[slice(*rows), slice(*columns)]
    return np.sin(i * 0.37 + j * 1.91) * factor


def read(path, factor):
    import dask.array
    import zarr

    whole = numbers((0, N), (0, N), factor)
    assert zarr.__version__ and np.array_equal(zarr.open_array(path, mode="r")[...], whole)
    assert np.array_equal(dask.array.from_zarr(path).compute(), whole)


def main():
    what, path, factor = sys.argv[1], sys.argv[2], float(sys.argv[3])
    if what == "read":
        return read(path, factor)
    import skerry as sk

    sk.init()
    if what == "save":
        a = sk.empty((N, N))
        a.local[...] = numbers(*a.distribution(), factor)
        sk.sync()
        print("saving", flush=True)
        sk.save(a, path)
    else:
        a = sk.load(path)
        assert np.array_equal(a.local, numbers(*a.distribution(), factor)), "not the same bits"
    sk.finalize()


if __name__ == "__main__":
    main()
