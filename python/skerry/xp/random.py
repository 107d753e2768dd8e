"""Random arrays: the same numbers for every number of ranks, each rank drawing its own part alone.

Elements come in runs of 65536 in C order; each run has a stream of its own (numpy.random.Philox,
a counter-based generator), found from the seed, the number of the call and the place of the run.
All members call together, as everywhere in skerry.xp.
"""

from math import prod

import numpy as np

import skerry as sk
from . import _exchange
from ._array import made, new_layout

_RUN = 65536
_state = {"seed": None, "calls": 0}


def seed(value):
    """Begins the sequence of a seed; the same on all members."""
    _state.update(seed=int(value) % 2**64, calls=0)


def _next_key():
    if _state["seed"] is None:  # rank 0's choice
        _exchange.job()
        fresh = np.random.SeedSequence().generate_state(1, np.uint64)
        seed(sk.broadcast(fresh.view(np.int64)).view(np.uint64)[0])
    _state["calls"] += 1
    return _state["seed"], _state["calls"]


def values(key, method, low, high):
    """Elements low to high of a call's sequence: method(generator, count) draws a run."""
    parts = []
    for run in range(low // _RUN, -(-high // _RUN)):
        stream = np.random.Philox(counter=[0, 0, run, 0], key=np.array(key, np.uint64))
        begin = run * _RUN
        drawn = method(np.random.Generator(stream), min(_RUN, high - begin))
        parts.append(drawn[max(low - begin, 0) : high - begin])
    return np.concatenate(parts) if parts else method(np.random.default_rng(0), 0)


def _made(size, method, dtype="float64"):
    shape = () if size is None else (size,) if hasattr(size, "__index__") else tuple(size)
    key = _next_key()

    def fill(block, box):
        if not block.ndim:
            block[...] = values(key, method, 0, 1)[0]
            return
        if not block.size:
            return
        (low, high), row = box[0], prod(shape[1:])
        rows = values(key, method, low * row, high * row).reshape(high - low, *shape[1:])
        block[...] = rows[(slice(None), *(slice(*bounds) for bounds in box[1:]))]

    return made(new_layout(shape, dtype), np.dtype(dtype), fill)


def random(size=None):
    """Uniform in [0, 1)."""
    return _made(size, lambda generator, n: generator.random(n))


def uniform(low=0.0, high=1.0, size=None):
    """Uniform in [low, high)."""
    return _made(size, lambda generator, n: generator.uniform(low, high, n))


def standard_normal(size=None):
    """Normal, mean 0 and deviation 1."""
    return _made(size, lambda generator, n: generator.standard_normal(n))


def normal(loc=0.0, scale=1.0, size=None):
    """Normal, mean `loc` and deviation `scale`."""
    return _made(size, lambda generator, n: generator.normal(loc, scale, n))


def randint(low, high=None, size=None):
    """Integers in [low, high), or below `low` if it is alone; int64."""
    low, high = (0, low) if high is None else (low, high)
    return _made(size, lambda generator, n: generator.integers(low, high, n), "int64")


def rand(*shape):
    """random(shape)."""
    return random(shape or None)


def randn(*shape):
    """standard_normal(shape)."""
    return standard_normal(shape or None)
