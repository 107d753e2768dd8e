"""One-sided communication and distributed or mirrored arrays. The interface is described in __init__.pyi."""

import atexit
import os
import sys

import numpy as np

from . import _core
from ._core import (
    Array,
    Counter,
    Group,
    Mutexes,
    Request,
    Segment,
    __version__,
    abort,
    barrier,
    counters,
    limit_connections,
    fabric,
    fence,
    initialized,
    memory,
    node,
    node_ranks,
    nodes,
    rank,
    same_node,
    size,
    sync,
    world,
)
from .errors import (
    ConfigError,
    DtypeError,
    Error,
    ForkedError,
    FreedError,
    InternalError,
    InvalidError,
    NetworkError,
    NoMemoryError,
    PeerDeadError,
    RangeError,
    ThreadError,
    TimeoutError,
    UnsupportedError,
)

_exit_status = None  # what sys.exit was given; None: not called


def init(*, threads="multiple", on_failure="end"):
    """Joins the job; collective over all ranks. A second call does nothing."""
    if _core.initialized():
        return
    _core.init(threads=threads, on_failure=on_failure)
    _watch_exit()


def finalize():
    """Leaves the job and frees what is left; collective."""
    _core._end_arrays()
    _core.finalize()


def _watch_exit():
    # At interpreter exit nothing tells a normal end from sys.exit(1). Finalizing waits for the
    # others, so after an error it must
    # not happen: this rank ends, and the runtime ends the job.
    plain_exit = sys.exit

    def exit(status=None):
        global _exit_status
        _exit_status = status
        plain_exit(status)

    sys.exit = exit
    atexit.register(_at_exit, os.getpid())


def _at_exit(pid):
    failed = getattr(
        sys, "last_exc", getattr(sys, "last_value", None)
    ) is not None or _exit_status not in (None, 0)
    if not failed and os.getpid() == pid and _core.initialized():
        finalize()


class Irregular(_core._Irregular):
    """Blocks may start only at these indices of each dimension."""

    def __init__(self, *starts):
        super().__init__([[int(start) for start in dimension] for dimension in starts])

    @property
    def starts(self):
        return tuple(self._starts)

    def __repr__(self):
        return f"Irregular({', '.join(map(repr, self._starts))})"


def array(
    shape, dtype="float64", distribution=None, grid=None, placement="distributed", group=None
):
    """A new array of zeros; collective."""
    shape = [int(shape)] if hasattr(shape, "__index__") else [int(n) for n in shape]
    return _core._array(
        shape,
        dtype,
        distribution,
        None if grid is None else [int(n) for n in grid],
        placement,
        group,
    )


def _array_repr(self):
    if self.freed:
        return "<skerry.Array, freed>"
    return f"<skerry.Array {self.shape} {self.dtype}, {self.placement} on a grid of {self.grid}>"


Array.__repr__ = _array_repr


def matmul(a, b, out, alpha=1.0, beta=0.0, trans_a=False, trans_b=False):
    """out = alpha op(a) op(b) + beta out; collective."""
    return _core._matmul(a, b, out, alpha, beta, trans_a, trans_b)


def _result_buffer(values, out):
    values = np.asarray(values)
    if out is None:
        return np.array(values, order="C")
    if out is not values:
        if (
            not isinstance(out, np.ndarray)
            or out.shape != values.shape
            or out.dtype != values.dtype
        ):
            raise InvalidError(
                f"out must be an array like the values: shape {values.shape} and dtype {values.dtype}"
            )
        out[...] = values
    return out


def allreduce(values, op="sum", *, out=None, group=None):
    """Element-wise over the members; every member gets the same bits."""
    buffer = _result_buffer(values, out)
    _core._reduce(buffer, op, -1, group)
    return buffer if out is not None or buffer.ndim else buffer[()]


def reduce(values, op="sum", root=0, *, out=None, group=None):
    """Like allreduce, but only `root` gets the result."""
    buffer = _result_buffer(values, out)
    if root < 0:
        raise InvalidError(f"root is {root}: give the rank that gets the result")
    _core._reduce(buffer, op, root, group)
    if rank() != root:
        return None
    return buffer if out is not None or buffer.ndim else buffer[()]


def broadcast(values, root=0, *, group=None):
    """Overwrites `values` with the root's, in place, and returns it."""
    _core._broadcast(values, root, group)
    return values


def allgather(values, *, group=None):
    """Stacks every member's array along a new first axis."""
    values = np.asarray(values, order="C")
    out = np.empty((len(group if group is not None else world()), *values.shape), values.dtype)
    _core._allgather(values, out, group)
    return out


def mutexes(count, group=None):
    """Each member hosts `count` fair mutexes; collective."""
    return Mutexes(count, group)
