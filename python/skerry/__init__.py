"""One-sided communication and distributed or mirrored arrays for the processes of a parallel job.

    import skerry as sk
    sk.init()
    a = sk.zeros((1000, 1000))              # collective: blocks spread over all ranks
    if sk.rank() == 0:
        a[0:10, 20:30] = 1.0                # any rank writes anywhere; the owner takes no part
    sk.sync()
    print(a[5, 20:30])
    sk.finalize()

Start it with ``skerry run -n 4 --nodes 2 python program.py``, mpirun or srun; started alone it is a
job of one rank.

*Collective* functions are called by all members of the group, in the same order, and wait for one
another. Calls that wait release the interpreter lock. Every failure is an ``Error`` whose ``code``
is the number in ``skerry.h``; its text names the value and the remedy. Sizes and offsets of memory
are bytes, times are seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core, _protected
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
    failed,
    fence,
    initialized,
    is_leaving,
    is_spare,
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
from ._over import Over, over
from ._patches import Periodic, periodic, select, symmetrize, transpose
from ._protected import Protection, kept, protect, protection, recover
from ._steps import Step, Steps, go_on, steps
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
    LostError,
    NetworkError,
    NoMemoryError,
    PeerDeadError,
    RangeError,
    ThreadError,
    TimeoutError,
    UnsupportedError,
)
from ._types import Block, Op


__all__ = [
    "Advice", "Array", "Attached", "AttachedArray", "Cluster", "Condition", "ConfigError",
    "ConflictError", "Counter", "CounterInfo", "CyclicArray", "DtypeError", "Epoch", "Error",
    "FileError", "ForkedError", "FreedError", "GatherError", "GhostArray", "Group", "InternalError",
    "InvalidError", "Irregular", "LostError", "Mirror", "Mutexes", "NetworkError", "NoMemoryError",
    "Over", "PeerDeadError", "Periodic", "Protection", "RangeError", "Request", "Segment",
    "Semaphore", "Step", "Steps", "Tasks", "ThreadError", "TimeoutError", "UnsupportedError",
    "Window", "__version__", "abort", "advise", "allgather", "allreduce", "allreduce_by",
    "allreduce_nb", "alltoall", "alltoallv", "asarray", "attach", "barrier", "barrier_nb",
    "broadcast", "broadcast_nb", "counter_info", "counters", "cyclic", "empty", "empty_like",
    "exscan", "fabric", "failed", "fence", "finalize", "full", "full_like", "ghosts", "go_on",
    "init", "initialized", "is_leaving", "is_spare", "kept", "limit_connections", "load", "matmul",
    "memory", "mirror", "node", "node_ranks", "nodes", "ones", "ones_like", "over", "periodic",
    "protect", "protection", "rank", "recover", "reduce", "reduce_scatter", "same_node", "save",
    "scan", "select", "size", "steps", "symmetrize", "sync", "tasks", "transpose", "window",
    "window_dynamic", "window_over", "world", "zeros", "zeros_like",
]  # fmt: skip


def init(
    *,
    threads: Literal["single", "serialized", "multiple"] = "multiple",
    on_failure: Literal["end", "raise", "continue"] = "end",
) -> None:
    """Joins the job; collective over all ranks. A second call does nothing. Errors: ConfigError,
    NetworkError."""
    before = _core.initialized()
    _core.init(threads=threads, on_failure=on_failure)
    if not before:
        _protected.joined(on_failure)


def finalize() -> None:
    """Leaves the job and frees what is left; collective. Called at the program's end if you did
    not, except if its exit status is not 0: then the job ends. Errors: NetworkError,
    PeerDeadError; InvalidError (others are in another collective meanwhile, or one in the
    background failed for which nobody waited)."""
    if _protected.has_not_joined():
        raise InvalidError(_protected.NOT_JOINED)
    with suppress(Exception):  # closed, or a full disk
        sys.stdout.flush()  # where this rank is ended, what it has written is not lost
    _core.finalize()


def _result_buffer(values: ArrayLike, out: Block | None) -> Block:
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


def allreduce(
    values: ArrayLike, op: Op = "sum", *, out: Block | None = None, group: Group | None = None
) -> Any:
    """Element-wise over the members; every member gets the same bits. Returns a new array (a scalar
    for a scalar), or `out`, which may be `values` itself. Integers, float32, float64,
    longdouble, complex64, complex128; of bool all but sum and prod. Shape and dtype: those of
    `values`, the same on every member. Errors: InvalidError (shapes, `out`, or an operation that
    the dtype lacks), DtypeError. Collective."""
    if out is not None and out is values and type(out) is np.ndarray:
        buffer = out
    else:
        buffer = _result_buffer(values, out)
    _core._reduce(buffer, op, -1, group)
    return buffer if out is not None or buffer.ndim else buffer[()]


def reduce(
    values: ArrayLike,
    op: Op = "sum",
    root: int = 0,
    *,
    out: Block | None = None,
    group: Group | None = None,
) -> Any:
    """Like allreduce, but only `root` (a rank) gets the result; others get None. Shapes and dtypes:
    as of allreduce. Errors: as allreduce, and InvalidError (`root`). Collective."""
    buffer = _result_buffer(values, out)
    if root < 0:
        raise InvalidError(f"root is {root}: give the rank that gets the result")
    _core._reduce(buffer, op, root, group)
    if rank() != root:
        return None
    return buffer if out is not None or buffer.ndim else buffer[()]


def broadcast(values: Block, root: int = 0, *, group: Group | None = None) -> Block:
    """Overwrites `values` (C-contiguous; the same shape and dtype on every member) with those of
    rank `root`, and returns it. Errors: InvalidError (no contiguous, writable array; no such
    rank), DtypeError (Python objects). Collective."""
    _core._broadcast(values, root, group)
    return values


def allgather(values: ArrayLike, *, group: Group | None = None) -> Block:
    """Every member's `values` (the same shape and dtype), stacked along a new first axis in the
    order of the group: the result has shape ``(len(group), *values.shape)``. Errors:
    InvalidError, DtypeError (Python objects). Collective."""
    values = np.asarray(values, order="C")
    out = np.empty((len(group if group is not None else world()), *values.shape), values.dtype)
    _core._allgather(values, out, group)
    return out


def _one_for_each(values: ArrayLike, group: Group | None, call: str) -> Block:
    """`values` as an array whose first axis is the members, and the group."""
    values = np.asarray(values, order="C")
    members = len(group if group is not None else world())
    if values.ndim == 0 or values.shape[0] != members:
        raise InvalidError(
            f"{call}: values of shape {values.shape} need a first axis of {members}, the members"
        )
    return values


def alltoall(values: ArrayLike, *, group: Group | None = None) -> Block:
    """Swaps parts: what member i has in ``values[j]`` is ``result[i]`` of member j. ``values`` (the
    same shape and dtype on every member) has the members as its first axis. Errors: InvalidError
    (the first axis), DtypeError (Python objects). Collective."""
    values = _one_for_each(values, group, "alltoall")
    out = np.empty_like(values)
    _core._alltoall(values, out, group)
    return out


def alltoallv(
    parts: Sequence[ArrayLike], *, group: Group | None = None
) -> list[NDArray[Any]]:
    """Swaps parts of any lengths: what member i has in ``parts[j]`` is ``result[i]`` of member j.
    One part for each member: arrays of one dimension, all of the same dtype on all members.
    Errors: InvalidError (the number, dimensions or dtypes of the parts), DtypeError. Collective."""
    values = [np.asarray(part, order="C") for part in parts]
    mine = _one_for_each(np.array([part.size for part in values]), group, "alltoallv")
    if any(part.ndim != 1 or part.dtype != values[0].dtype for part in values):
        raise InvalidError("alltoallv: parts are arrays of one dimension and of one dtype")
    given = alltoall(mine, group=group)
    item = values[0].itemsize
    out = np.empty(int(given.sum()), values[0].dtype)
    sizes, given_sizes = (mine * item).tolist(), (given * item).tolist()
    _core._alltoallv(np.concatenate(values), sizes, out, given_sizes, group)
    return np.split(out, np.cumsum(given)[:-1])


def allreduce_by(
    values: ArrayLike,
    combine: Callable[[NDArray[Any], NDArray[Any]], ArrayLike],
    *,
    out: NDArray[Any] | None = None,
    group: Group | None = None,
) -> Any:
    """Like allreduce, with ``combine(a, b)``: element-wise on arrays of one dimension, associative
    and commutative, and without calls of Skerry, such as ``np.hypot``. Any dtype of at most 1024
    bytes without Python objects. Not every member calls it: what it raises on one is raised there
    when all are through. The result, of the shape of ``values``, is then undefined on all. Errors:
    those of combine, InvalidError (`out` is not like the values), DtypeError. Collective."""
    buffer = _result_buffer(values, out)
    dtype = buffer.dtype

    def into(a: memoryview, b: memoryview) -> None:
        first = np.frombuffer(a, dtype)
        first[...] = combine(first, np.frombuffer(b, dtype))

    _core._reduce_by(buffer, dtype.itemsize, into, group)
    return buffer if out is not None or buffer.ndim else buffer[()]


def barrier_nb(group: Group | None = None) -> Request:
    """Begins a barrier. The members begin the collectives of a group whose names end in ``_nb`` in
    the same order; a thread of the library goes on with them. The first one of a group waits for
    all members. Errors: NoMemoryError (no thread, or no memory for another group). Collective."""
    return _core._begin(None, "", 0, group)


def broadcast_nb(
    values: NDArray[Any], root: int = 0, *, group: Group | None = None
) -> Request:
    """Begins what broadcast does, in the order of barrier_nb. Do not touch ``values``
    (C-contiguous; the same shape and dtype on every member) before ``wait()``, which returns them.
    Errors: InvalidError (no such root), DtypeError, those of barrier_nb; others come from
    ``wait()``. Collective."""
    return _core._begin(values, "", root, group)


def allreduce_nb(
    values: ArrayLike,
    op: Op = "sum",
    *,
    out: NDArray[Any] | None = None,
    group: Group | None = None,
) -> Request:
    """Begins what allreduce does, in the order of barrier_nb. ``wait()`` returns the result, always
    an array, of the shape of ``values``; do not touch ``out`` before. Errors: InvalidError (an
    operation that the dtype lacks, or `out` is not like the values), DtypeError, those of
    barrier_nb; others come from ``wait()``. Collective."""
    return _core._begin(_result_buffer(values, out), op, -1, group)


def reduce_scatter(values: ArrayLike, op: Op = "sum", *, group: Group | None = None) -> Any:
    """Element-wise over the members, of which this one gets ``values[its position]`` alone: shape
    ``values.shape[1:]``. ``values`` has the members as its first axis; dtypes as of allreduce.
    Errors: InvalidError (the first axis, or an operation that the dtype lacks), DtypeError.
    Collective."""
    values = _one_for_each(values, group, "reduce_scatter")
    out = np.empty(values.shape[1:], values.dtype)
    _core._reduce_scatter(values, out, op, group)
    return out if out.ndim else out[()]


def scan(
    values: ArrayLike, op: Op = "sum", *, out: Block | None = None, group: Group | None = None
) -> Any:
    """Element-wise over the members up to this one, in the order of the group. Otherwise like
    allreduce. Shapes, dtypes and errors: as of allreduce. Collective."""
    buffer = _result_buffer(values, out)
    _core._scan(buffer, op, True, group)
    return buffer if out is not None or buffer.ndim else buffer[()]


def exscan(
    values: ArrayLike, op: Op = "sum", *, out: Block | None = None, group: Group | None = None
) -> Any:
    """Like scan over the members before this one; the first member gets its own values back.
    Shapes, dtypes and errors: as of allreduce. Collective."""
    buffer = _result_buffer(values, out)
    _core._scan(buffer, op, False, group)
    return buffer if out is not None or buffer.ndim else buffer[()]


class CounterInfo(NamedTuple):
    """What a number of counters() means."""

    kind: str
    unit: str
    description: str


def counter_info() -> dict[str, CounterInfo]:
    """Kind, unit and description of every counter, by name. Not collective. Errors: InvalidError
    (no job), FreedError (it ended)."""
    return {name: CounterInfo(*info) for name, info in _core._counter_info().items()}


def __getattr__(name: str) -> Any:
    if name == "array":
        raise AttributeError(
            "skerry has no array(): zeros(shape), empty(shape) and full(shape, value) make a new "
            "array, asarray(data) makes one of data"
        )
    raise AttributeError(f"module 'skerry' has no attribute {name!r}")
