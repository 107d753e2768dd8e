"""How ranks pass parts of arrays to one another: two staging segments, one sync an exchange.

Each rank copies what others need into its own part of a staging segment; a sync makes it visible;
each rank then reads what it needs, without the owner's help. Exchanges use the two segments in
turn. So a rank that writes a segment again has passed the sync of the exchange between, which
every reader of the older data entered after it had read. No second sync is needed.

All members call in the same order with layouts that all of them know. With the
option check_calls every exchange first compares what the members are about to do, and all get an
error if they differ.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import skerry as sk
from skerry import _core, _interrupts
from skerry._protected import living, moved_listeners, spares
from . import _layout, _lazy, _options
from ._layout import Layout
from ._types import Block, Cut, Shape

_LEAST_BYTES = 1 << 20  # of a staging segment

_counts = dict.fromkeys(("exchanges", "bytes_read", "agreements", "gathers"), 0)


def counters() -> dict[str, int]:
    """What this process has done: exchanges between layouts, bytes it read from others, agreements
    (small numbers that all ranks shared), gathers of whole arrays. Not collective. Errors: none."""
    return dict(_counts)


class _Staging:
    """The two segments; made when first needed, larger ones when too small."""

    def __init__(self, group: sk.Group) -> None:
        # `rank` and `ranks` count in the group, as all of skerry.xp does; `members` are of the job.
        self.group, self.members = group, group.ranks
        self.rank, self.ranks = group.index(sk.rank()), len(group)
        self.segments: list[sk.Segment] = []
        self.turn, self.bytes = 0, 0
        self.panels: sk.Segment | None = None  # of matrices that were factored (_dense.py)
        self.near = [sk.same_node(rank) for rank in self.members]
        self.calls = 0
        self.thread = threading.current_thread()

    def take_over(self) -> None:
        """Called in a thread that is not the one whose calls meet those of the other ranks.
        InvalidError while that one lives: nothing says in which order two threads come."""
        if self.thread.is_alive():
            raise sk.InvalidError(
                f"thread {threading.current_thread().name!r} uses divided arrays, which thread "
                f"{self.thread.name!r} uses: on several ranks one thread makes all such calls, "
                "since the ranks' calls must meet in one order; others may use whole arrays"
            )
        self.thread = threading.current_thread()

    def next(self, nbytes: int) -> sk.Segment:
        """The segment to write now. All ranks pass the same nbytes. Collective if it grows."""
        if nbytes > self.bytes:
            self.sync()  # others may still read the old ones
            for segment in self.segments:
                segment.free()
            self.segments = []
            self.bytes = max(_LEAST_BYTES, 1 << (nbytes - 1).bit_length())
            self.segments = [sk.Segment(self.bytes, group=self.group) for _ in range(2)]
        self.turn ^= 1
        return self.segments[self.turn]

    def sync(self) -> None:
        """Of exchanges, which change no element."""
        _core._sync(self.group)

    def compare(self, *what: object) -> None:
        """Before members meet. If they are about to do different things, an error on all, with
        check_calls."""
        if threading.get_ident() != self.thread.ident:
            self.take_over()
        if _interrupts.seen:
            _interrupts.end_job()
        self.calls += 1
        if not _options.values["check_calls"]:
            return
        what = (_called(), *what)
        mine = np.array([zlib.crc32(repr((self.calls, what)).encode())])
        told = sk.allgather(mine, group=self.group)
        if (told != mine).any():
            raise sk.InvalidError(
                f"the members called skerry.xp differently: this rank is about to exchange {what} "
                f"in call {self.calls}; all members call the same functions in the same order"
            )


def _called() -> tuple[str, str] | None:
    """The function of skerry.xp that the program called, for check_calls: the outermost frame."""
    frame: FrameType | None = sys._getframe(1)
    found = None
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(("skerry.xp", "skerry.numpy")):
            function = frame.f_locals.get("function", frame.f_locals.get("ufunc"))
            found = frame.f_code.co_name, getattr(function, "__name__", "")
        frame = frame.f_back
    return found


_staging = None


def job() -> _Staging:
    """The staging area; joins the job if the program has not yet."""
    global _staging
    if _staging is None or not sk.initialized():
        sk.init()
        _staging = _Staging(living())
        if _staging.ranks > 1:
            _interrupts.watch()
        try:
            if "whole_bytes" not in _options.chosen:
                _measure_bound(_staging)
        except BaseException:  # a death, which all members find in the same call: they measure anew
            _staging = None
            raise
        tell_limits()
    return _staging


def _moved(group: sk.Group) -> None:
    """All arrays are over the group of those that live from now on."""
    global _staging
    if _staging is None:
        return
    thread = _staging.thread
    _staging = _Staging(group)
    _staging.thread = thread
    _layout.regroup(len(group))
    tell_limits()


moved_listeners.append(_moved)

# Seconds of numpy.add of two small arrays where the next three were measured. They are those of the
# interpreter, and are scaled by what it takes here.
_ADD_S = 0.27e-6
# A statement on divided arrays takes so much beside the synchronization: planning, copies.
_STATEMENT_S = 100e-6
# A read of a row or an element takes so much beside the synchronization.
_READ_S = 15e-6
# An operation on a small part of a divided array takes so much more than on a whole one.
_PART_S = 30e-6
# Seconds of a statement with a synchronization, and bytes a second of memory. Alike on all ranks.
costs = (_STATEMENT_S + 20e-6, 4e9)
# Seconds of such a read and of such an operation, and bytes a second that are written into new
# memory, whose pages the kernel clears. Alike on all ranks.
read_costs = (_READ_S + 20e-6, _PART_S, 1e9)
_SAMPLES = 16
_SMALL = 50  # additions of a sample
_LEAST_BOUND, _MOST_BOUND = 256 << 10, 16 << 20


def _measure_bound(here: _Staging) -> None:
    """Sets the size up to which arrays are whole: computing all of it on every rank takes as long
    as a part and one synchronization. Powers of 4, so that the noise of a run rarely changes it.
    The same on all ranks."""
    global costs, read_costs
    ranks = here.ranks
    if ranks == 1:
        _lazy.least_whole = _least_whole(ranks)
        _options.why["whole_bytes"] = "one rank has all of every array anyway"
        return
    sync_s, speed, fresh_speed, slower, beside = _agreed_speeds(here.group)
    costs = (_STATEMENT_S * slower + sync_s, speed)
    read_costs = (_READ_S * slower + sync_s, _PART_S * slower, fresh_speed)
    even = costs[0] * speed / (1 - 1 / ranks)
    bound = _LEAST_BOUND
    while bound * 2 < even and bound < _MOST_BOUND:
        bound *= 4
    _options.values["whole_bytes"] = bound
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # Any machine may be that of all spares that come.
    mine = np.array([free // (4 * (beside + spares())), _least_whole(ranks)], np.int64)
    quarter, _lazy.least_whole = map(int, sk.allreduce(mine, "min", group=here.group))
    for name in {"loop_bytes", "sum_bytes"} - _options.chosen:
        _options.values[name] = quarter
    _options.why["whole_bytes"] = (
        f"measured on {ranks} ranks: a statement with a synchronization takes "
        f"{costs[0] * 1e6:.0f} us, results are computed at {speed / 1e9:.1f} GB/s"
    )


def _least_whole(ranks: int) -> int:
    """From how many elements on a chain of operations on whole arrays is computed by pieces: 16
    bytes of each, an operand and a result, fill a rank's share of the machine's last cache. Up to
    there pieces took 1.2 to 2.3 times as long as NumPy's own statements, beyond it 0.5 to 1."""
    return min(max(_cache_share(ranks) // 16, 1 << 19), 1 << 22)


def _cache_share(ranks: int) -> int:
    """Bytes of the largest cache of a processor for each rank that may compute beside it. 0: the
    system does not tell. (sysconf tells a virtual machine what the whole host has.)"""
    share = 0
    for size in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            cores = (size.parent / "shared_cpu_map").read_text().replace(",", "")
            # As the kernel writes it: 32768K.
            bytes_of_all = int(size.read_text().rstrip("K\n")) << 10
            share = max(share, bytes_of_all // min(ranks, max(1, int(cores, 16).bit_count())))
        except (OSError, ValueError):
            continue
    return share


def _machine() -> int:
    """The same number in all processes of a machine, of which several nodes may be."""
    try:
        return zlib.crc32(Path("/proc/sys/kernel/random/boot_id").read_bytes())
    except OSError:
        return 0


def _agreed_speeds(group: sk.Group) -> tuple[float, float, float, float, int]:
    """Seconds of a synchronization, bytes a second that are computed and that are written into new
    memory, and how many times as long the interpreter takes as where the constants above were
    measured. The same on all ranks. Last, how many ranks this machine has. Whatever else runs on
    the machine makes a sample slower and none faster, so the best of several counts: of all ranks'
    for the synchronization, which one rank that is held up makes longer for all, and for new
    memory; of each rank's own for what is computed, and then the median of the ranks."""
    a = np.ones(1 << 17)
    out = np.empty_like(a)
    small = np.ones(16)
    add_s = sync_s = fresh_s = small_s = 1.0
    fresh = []  # all are kept, so that each is new memory
    for _ in range(_SAMPLES):
        begin = time.perf_counter()
        np.add(a, a, out=out)
        between = time.perf_counter()
        sk.sync(group)
        add_s = min(add_s, between - begin)
        sync_s = min(sync_s, time.perf_counter() - between)
        begin = time.perf_counter()
        for _ in range(_SMALL):
            np.add(small, small)
        small_s = min(small_s, time.perf_counter() - begin)
    for _ in range(6):
        begin = time.thread_time()
        fresh.append(np.ones(1 << 19))
        fresh_s = min(fresh_s, max(time.thread_time() - begin, 1e-6))
    slower = max(1.0, small_s / _SMALL / _ADD_S)
    mine = np.array(
        [sync_s * 1e9, out.nbytes / add_s, fresh[0].nbytes / fresh_s, slower * 1e3, _machine()],
        np.int64,
    )
    told = sk.allgather(mine, group=group)
    return (
        float(told[:, 0].min()) / 1e9,
        float(np.median(told[:, 1])),
        float(told[:, 2].max()),
        float(told[:, 3].min()) / 1e3,
        int((told[:, 4] == mine[4]).sum()),
    )


class _Alike(NamedTuple):
    """What was measured and set, alike on all ranks."""

    is_measured: bool  # otherwise the ranks measure when skerry.xp is used first
    values: dict[str, int]
    why: dict[str, str]
    chosen: set[str]
    costs: tuple[float, float]
    read_costs: tuple[float, float, float]
    least_whole: int


def alike() -> _Alike:
    """For one that comes later."""
    return _Alike(
        _staging is not None,
        dict(_options.values),
        dict(_options.why),
        set(_options.chosen),
        costs,
        read_costs,
        _lazy.least_whole,
    )


def set_alike(told: _Alike) -> None:
    """What others have. What was not measured is measured with them."""
    global _staging, costs, read_costs
    _options.chosen.update(told.chosen)
    if told.is_measured:
        job()
    else:
        _staging = None
    _options.values.update(told.values)
    _options.why.update(told.why)
    costs, read_costs, _lazy.least_whole = told.costs, told.read_costs, told.least_whole


def tell_limits() -> None:
    """Tells the slots in C++ what they need to know of the job and the options."""
    if _staging is not None:
        limits = _options.values["whole_bytes"], _options.values["sum_bytes"] // 8
        _core.xp_limits(_staging.ranks, _lazy.least_whole, *limits)


_options.listeners.append(tell_limits)

_LEAST_CROWDED = 1024  # bytes: objects of Python take as much


def crowded() -> None:
    """Functions have made an eighth of `sum_bytes` of whole arrays since the last time. Where much
    of it lives, on the rank that has most, new arrays are divided from a smaller size on. When an
    array is freed may differ, so all ranks are asked. Collective."""
    bound, limit = _options.values["whole_bytes"], _options.values["sum_bytes"]
    most = int(agree([_core.xp_bytes()[0]]).max())
    lower = bound
    if most > limit * 3 // 4:
        lower = _LEAST_CROWDED
    elif most > limit // 2:
        lower = max(_LEAST_CROWDED, min(bound, _MOST_BOUND) // 64)
    if lower < bound:
        _options.values["whole_bytes"] = lower
        _options.why["whole_bytes"] = (
            f"whole arrays took {most} bytes of a rank, of {limit} (sum_bytes), with a bound of "
            f"{bound}"
        )
    tell_limits()


def ranks() -> int:
    return job().ranks


def broadcast(values: Block) -> Block:
    """Overwrites `values` with those of the first rank. Collective."""
    here = job()
    return sk.broadcast(values, here.members[0], group=here.group)


def bring(
    block: Block, source: Layout, target: Layout, views: bool = False, into: Block | None = None
) -> list[tuple[Cut, Block]]:
    """Parts of the own block of `target`, as (slices, array) in the order of the ranks that had
    them. The own part is a view of `block`; others are copies, or with `views` those of ranks of
    this node are views until the next exchange. `into`: where they go; parts of other nodes that
    lie there in a row are read into it, and are not among the results. Collective if anything
    moves."""
    here = job()
    plan = _layout.plan(source, target, here.rank)
    own = [] if plan.own is None else [(here.rank, plan.own[1], block[plan.own[0]])]
    if plan.most == 0:
        return [part[1:] for part in own]
    itemsize = block.dtype.itemsize
    here.compare(source.shape, target.shape, block.dtype.str)
    staging = here.next(plan.most * itemsize)
    for offset, box in plan.sends:
        part = block[box]
        _view(staging.local, offset, part.shape, block.dtype)[...] = part
    here.sync()
    _counts["exchanges"] += 1
    shapes = [tuple(piece.stop - piece.start for piece in box) for _, _, box in plan.receives]
    wanted = [
        (rank, offset, shape)
        for (rank, offset, _), shape in zip(plan.receives, shapes, strict=True)
    ]
    places = [None if into is None else into[box] for _, _, box in plan.receives]
    arrays = _read(staging, wanted, block.dtype, views, places)
    parts = own + [
        (rank, box, array)
        for (rank, _, box), array, place in zip(plan.receives, arrays, places, strict=True)
        if array is not place
    ]
    return [part[1:] for part in sorted(parts, key=lambda part: part[0])]


def _view(memory: Block, offset: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Block:
    begin = offset * dtype.itemsize
    count = int(np.prod(shape, dtype=np.int64))
    return memory[begin : begin + count * dtype.itemsize].view(dtype).reshape(shape)


def _read(
    staging: sk.Segment, wanted: Sequence[tuple[int, int, Shape]], dtype: np.dtype[Any],
    views: bool = False, places: Sequence[Block | None] | None = None,
) -> list[Block]:
    """Copies of (rank, offset, shape) from the staging segment, or views where they can be. Those
    of another node go to their place, if they have one that is contiguous."""
    here = job()
    arrays: list[Block] = []
    requests: list[sk.Request] = []
    for (rank, offset, shape), place in zip(wanted, places or [None] * len(wanted), strict=True):
        near = staging.pointer(here.members[rank]) if here.near[rank] else None
        if near is not None:
            part = _view(near, offset, shape, dtype)
            arrays.append(part if views else part.copy())
        else:
            if place is None or not place.flags.c_contiguous:
                place = np.empty(shape, dtype)
            arrays.append(place)
            flat = arrays[-1].reshape(-1)
            if dtype.kind in "mM":
                flat = flat.view("int64")  # dates give no buffer
            member = here.members[rank]
            requests.append(staging.get_nb(member, offset * dtype.itemsize, flat))
        _counts["bytes_read"] += arrays[-1].nbytes
    for request in requests:
        request.wait()
    return arrays


def rows_of_others(
    fill: Callable[[int, Block], None],
    counts: NDArray[np.int64],
    dtype: np.dtype[Any],
    row: Shape = (),
    views: bool = True,
) -> dict[int, Block]:
    """Rows whose number depends on the data: fill(to, view) writes what goes to another rank;
    counts: [from, to] rows, known to all (agree). Returns what each other rank sent, by rank:
    copies, or of a rank of this node a view, until the next exchange. Collective."""
    here = job()
    width = int(np.prod(row, dtype=np.int64))
    offsets = np.cumsum(counts, axis=1) - counts
    most = int(counts.sum(axis=1).max()) * width
    others = [at for at in range(here.ranks) if at != here.rank]
    if most == 0:
        return {at: np.empty((0, *row), dtype) for at in others}
    here.compare(counts.tolist(), dtype.str, row)
    staging = here.next(most * dtype.itemsize)
    for to in others:
        if n := int(counts[here.rank, to]):
            offset = int(offsets[here.rank, to]) * width
            fill(to, _view(staging.local, offset, (n, *row), dtype))
    here.sync()
    _counts["exchanges"] += 1
    wanted = [
        (at, int(offsets[at, here.rank]) * width, (int(counts[at, here.rank]), *row))
        for at in others
    ]
    return dict(zip(others, _read(staging, wanted, dtype, views), strict=True))


def pass_rows(
    outgoing: Sequence[Block], counts: NDArray[np.int64], dtype: np.dtype[Any], row: Shape = ()
) -> list[Block]:
    """The same of rows that are there: outgoing, for each rank an array. Returns what each rank
    sent to this one, copies. Collective."""

    def fill(to: int, view: Block) -> None:
        view[...] = outgoing[to]

    here = job().rank
    got = rows_of_others(fill, counts, dtype, row, views=False)
    got[here] = np.asarray(outgoing[here], dtype)
    return [got[at] for at in range(ranks())]


def from_rank(owner: int, block: Block | None, shape: Shape, dtype: np.dtype[Any]) -> Block:
    """What one rank has (`block`; None on the others), on every rank: its own there, copies
    elsewhere. Collective."""
    here = job()
    here.compare("from_rank", owner, shape, dtype.str)
    values = np.empty(shape, dtype) if block is None else np.asarray(block, order="C")
    kept = values if values.flags.writeable else values.copy()
    _core._broadcast(kept, here.members[owner], here.group)
    _counts["exchanges"] += 1
    if block is None:
        _counts["bytes_read"] += values.nbytes
    return values


MOST_STACKED = 1 << 20  # bytes of what all ranks have together


def of_all(values: Block) -> Block:
    """Each rank's array, of one shape and dtype, stacked along a new first axis. Collective."""
    here = job()
    values = np.asarray(values, order="C")
    here.compare("of_all", values.shape, values.dtype.str)
    out = np.empty((here.ranks, *values.shape), values.dtype)
    _core._allgather(values, out, here.group)
    _counts["exchanges"] += 1
    _counts["bytes_read"] += values.nbytes * (here.ranks - 1)
    return out


def agree(values: Any) -> NDArray[np.int64]:
    """Each rank's integers, stacked: [rank, i]. Collective."""
    here = job()
    values = np.asarray(values, np.int64)
    if here.ranks == 1:
        return values[None]
    here.compare("agree", values.shape)
    _counts["agreements"] += 1
    return sk.allgather(values, group=here.group)


def on_any_rank(flag: bool) -> bool:
    """Is it so on any rank? Collective."""
    return bool(agree([flag]).any())


def agree_no_error(error: BaseException | None) -> None:
    """Raises on all ranks if some rank has an error: its own, or a word about the others'."""
    kind = 2 if isinstance(error, FloatingPointError) else int(error is not None)
    failed = agree([kind])[:, 0]
    if error is not None:
        raise error
    if failed.any():
        rank = int(failed.argmax())
        if failed[rank] == 2:
            raise FloatingPointError(f"rank {rank} met a floating-point error in its part")
        raise sk.InvalidError(f"rank {rank} refused its part: see its error")


def count_gather() -> None:
    _counts["gathers"] += 1
