"""One-sided communication and distributed or mirrored arrays. The interface is described in
__init__.pyi."""

from typing import NamedTuple

import numpy as np

from . import _core
from ._advice import Advice, advise
from ._arrays import (
    Irregular,
    asarray,
    empty,
    empty_like,
    full,
    full_like,
    matmul,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from ._attach import Attached, AttachedArray, attach
from ._cluster import Cluster
from ._core import (
    Array,
    Counter,
    Epoch,
    Group,
    Mirror,
    Mutexes,
    Request,
    Segment,
    Window,
    __version__,
    abort,
    barrier,
    counters,
    fabric,
    fence,
    initialized,
    limit_connections,
    memory,
    mirror,
    node,
    node_ranks,
    nodes,
    rank,
    same_node,
    size,
    sync,
    world,
)
from ._cyclic import CyclicArray, cyclic
from ._files import load, save
from ._ghosts import GhostArray, ghosts
from ._patches import Periodic, periodic, select, symmetrize, transpose
from ._sync import Condition, Semaphore
from ._tasks import Tasks, tasks
from ._windows import window, window_dynamic, window_over
from .errors import (
    ConfigError,
    ConflictError,
    DtypeError,
    Error,
    FileError,
    ForkedError,
    FreedError,
    GatherError,
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


def init(*, threads="multiple", on_failure="end"):
    """Joins the job; collective over all ranks. A second call does nothing."""
    _core.init(threads=threads, on_failure=on_failure)


def finalize():
    """Leaves the job and frees what is left; collective."""
    _core.finalize()


def _result_buffer(values, out):
    if out is None:
        return np.array(values, order="C")
    values = np.asarray(values)
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
    in_place = out is values and type(out) is np.ndarray
    buffer = out if in_place else _result_buffer(values, out)
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


def _one_for_each(values, group, call):
    """`values` as an array whose first axis is the members, and the group."""
    values = np.asarray(values, order="C")
    members = len(group if group is not None else world())
    if values.ndim == 0 or values.shape[0] != members:
        raise InvalidError(
            f"{call}: values of shape {values.shape} need a first axis of {members}, the members"
        )
    return values


def alltoall(values, *, group=None):
    """Member i's values[j] becomes member j's result[i]."""
    values = _one_for_each(values, group, "alltoall")
    out = np.empty_like(values)
    _core._alltoall(values, out, group)
    return out


def reduce_scatter(values, op="sum", *, group=None):
    """This member's part, values[its position], combined over all members."""
    values = _one_for_each(values, group, "reduce_scatter")
    out = np.empty(values.shape[1:], values.dtype)
    _core._reduce_scatter(values, out, op, group)
    return out if out.ndim else out[()]


def scan(values, op="sum", *, out=None, group=None):
    """Combines what the members up to this one gave, in their order."""
    buffer = _result_buffer(values, out)
    _core._scan(buffer, op, True, group)
    return buffer if out is not None or buffer.ndim else buffer[()]


def exscan(values, op="sum", *, out=None, group=None):
    """Like scan, without what this member gave; the first member gets its own values back."""
    buffer = _result_buffer(values, out)
    _core._scan(buffer, op, False, group)
    return buffer if out is not None or buffer.ndim else buffer[()]


class CounterInfo(NamedTuple):
    """What a number of counters() means."""

    kind: str
    unit: str
    description: str


def counter_info():
    """What the numbers of counters() mean, by name."""
    return {name: CounterInfo(*info) for name, info in _core._counter_info().items()}


def __getattr__(name):
    if name == "array":
        raise AttributeError(
            "skerry has no array(): zeros(shape), empty(shape) and full(shape, value) make a new "
            "array, asarray(data) makes one of data"
        )
    raise AttributeError(f"module 'skerry' has no attribute {name!r}")
