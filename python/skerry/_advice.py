"""Would mirroring an array pay? What its traffic between nodes took, and what it would take with a
mirror."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from . import _core
from ._together import gathered
from .errors import InvalidError
from ._core import Array, Group

_Waits: TypeAlias = tuple[np.ndarray, np.ndarray]  # seconds of gets and of writes, by member
_LOCAL_SECONDS = 1e-6  # of a get from shared memory
_MEMORY_RATE = 4e9  # bytes per second that one rank copies or compares
_PROBES, _PROBE_BYTES = 5, 1 << 20


class Advice(NamedTuple):
    """What to do with an array, and why. Seconds are of the rank that waits longest, bytes and
    transfers (gets, puts and accumulates, one for each holder) those between all nodes, memory what
    the job takes beyond now."""
    use: str
    seconds: float
    seconds_now: float
    bytes: int
    bytes_now: int
    transfers: int
    transfers_now: int
    memory: int
    why: str

    @property
    def pays(self) -> bool:
        """Whether something else than the distributed array is quicker, by a tenth.
        Not collective."""
        return self.use != "distributed"

    def __str__(self) -> str:
        return f"{self.use}: {self.why}"


class _Traffic(NamedTuple):
    """sk::Traffic: of each, an array over the members."""

    gets: np.ndarray
    get_bytes: np.ndarray
    get_ns: np.ndarray
    get_nb_bytes: np.ndarray
    puts: np.ndarray
    put_bytes: np.ndarray
    put_ns: np.ndarray
    put_nb_bytes: np.ndarray
    accs: np.ndarray
    acc_bytes: np.ndarray
    acc_ns: np.ndarray
    acc_nb_bytes: np.ndarray
    mirror_fetches: np.ndarray
    mirror_bytes: np.ndarray
    mirror_blocks: np.ndarray


def advise(a: Array, *, refreshes: int = 1, clear: bool = False) -> Advice:
    """Would a mirror (`sk.mirror(a)`) or a mirrored array with `merge` pay? Collective over the
    array's group. It rests on what patches and elements of the array have moved between nodes
    until now and how long that took, on the tiles that were read, and on a short measurement of
    the link. `refreshes`: how often the mirror would be filled, or the array merged, meanwhile;
    bytes and transfers are those if everything changes each time. `clear` begins counting anew.
    InvalidError for a mirrored array. Of an array of any shape and dtype. Errors: InvalidError
    (a mirrored array, or `refreshes` below 1), FreedError. Collective."""
    if a.mirrored:
        raise InvalidError("this array is mirrored already: advise takes a distributed one")
    if refreshes < 1:
        raise InvalidError(f"refreshes is {refreshes}: a mirror is filled at least once")
    group = a.group
    latency, rate = _measure_link(group)
    now = _Traffic(*gathered(np.array(a._traffic(), "int64"), group).T)
    waited = _waited(now, rate)
    if clear:
        _core.barrier(group)
        a._clear_traffic()
    options = [_distributed(now, waited)]
    nodes = len({_core.node(rank) for rank in group.ranks})
    if nodes > 1:
        options.append(_with_mirror(a, now, waited, latency, rate, refreshes))
        if now.acc_bytes.any():
            options.append(_merged(a, now, nodes, latency, rate, refreshes))
    return _chosen(options)


def _waited(now: _Traffic, rate: float) -> _Waits:
    """Seconds of gets and of writes. Non-blocking ones are taken to fill the link."""
    gets = now.get_ns / 1e9 + now.get_nb_bytes / rate
    writes = (now.put_ns + now.acc_ns) / 1e9 + (now.put_nb_bytes + now.acc_nb_bytes) / rate
    return gets, writes


def _measure_link(group: Group) -> tuple[float, float]:
    """(seconds of a short get, bytes per second of a long one) between nodes; collective. Each rank
    tries one of another node; the slowest rank counts. Through the array it would be counted."""
    found = [0.0, 0.0]
    segment = _core.Segment(_PROBE_BYTES, group=group)
    away = [rank for rank in group.ranks if not _core.same_node(rank)]
    if away:
        rank = away[group.index(_core.rank()) % len(away)]
        out = np.empty(_PROBE_BYTES, np.uint8)
        short = min(_seconds(lambda: segment.get(rank, 0, out[:8])) for _ in range(_PROBES))
        long = min(_seconds(lambda: segment.get(rank, 0, out)) for _ in range(_PROBES))
        found = [short, max(long - short, 1e-9) / out.nbytes]
    short, per_byte = gathered(np.array(found), group).max(axis=0)
    segment.free()
    return max(short, 1e-9), 1 / max(per_byte, 1e-12)


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class _Option(NamedTuple):
    use: str
    seconds: float
    bytes: int
    transfers: int
    memory: int
    why: str


def _distributed(now: _Traffic, waited: _Waits) -> _Option:
    """As it is: the rank that waited longest, and all that travelled."""
    moved = now.get_bytes + now.put_bytes + now.acc_bytes
    count = now.gets + now.puts + now.accs
    seconds = float((waited[0] + waited[1]).max())
    return _Option("distributed", seconds, int(moved.sum()), int(count.sum()),
                   0, "")  # fmt: skip


def _with_mirror(
    a: Array, now: _Traffic, waited: _Waits, latency: float, rate: float, refreshes: int
) -> _Option:
    """Each node fetches a tile once after every refresh, if it changed; then gets are local.
    Writes stay. A refresh asks the owners of tiles which changed."""
    own = a.nbytes / len(a.group)
    waits = np.minimum(now.mirror_fetches, now.gets.max()).max() * latency
    fetching = refreshes * (now.mirror_bytes.max() / rate + waits)
    comparing = (refreshes + 1) * own / _MEMORY_RATE
    reading = now.gets.max() * _LOCAL_SECONDS + now.get_bytes.max() / _MEMORY_RATE
    seconds = float(fetching + comparing + reading + waited[1].max())
    tiles = int(now.mirror_bytes.sum())
    fetches = refreshes * now.mirror_fetches + (refreshes - 1) * now.mirror_blocks
    why = (
        f"{now.gets.sum()} gets fetched {now.get_bytes.sum()} bytes from other nodes; the tiles "
        f"that they touched are {tiles} bytes over all nodes"
        + (f", {refreshes} times" if refreshes > 1 else "")
    )
    return _Option("mirror", seconds,
                   refreshes * tiles + int((now.put_bytes + now.acc_bytes).sum()),
                   int((fetches + now.puts + now.accs).sum()), tiles + a.nbytes, why)  # fmt: skip


def _merged(
    a: Array, now: _Traffic, nodes: int, latency: float, rate: float, refreshes: int
) -> _Option:
    """A mirrored array: patches are local, and merge sums the copies. Of a full array each node
    gets flags, parts to sum, and sums: each of its members from each other node."""
    moved = 2 * (nodes - 1) * a.nbytes * refreshes
    transfers = 3 * (nodes - 1) * len(a.group) * refreshes
    local = (now.gets + now.puts + now.accs).max() * _LOCAL_SECONDS
    local += (now.get_bytes + now.put_bytes + now.acc_bytes).max() / _MEMORY_RATE
    seconds = float(moved / nodes / rate + 2 * nodes * latency * refreshes + local)
    why = (
        f"{now.accs.sum()} accumulates sent {now.acc_bytes.sum()} bytes to other nodes; a merge "
        f"moves at most {moved // refreshes} bytes, less where copies are zero"
    )
    return _Option("mirrored", seconds, moved, transfers, a.nbytes * nodes, why)


def _chosen(options: list[_Option]) -> Advice:
    """The quickest; another than now only if it saves a tenth."""
    now, best = options[0], min(options, key=lambda option: option.seconds)
    if best.seconds > 0.9 * now.seconds:
        best = now
    if best is now:
        if len(options) == 1:
            why = "all ranks are on one node: nothing travels"
        elif not now.bytes:
            why = "nothing travelled between nodes"
        else:
            other = min(options[1:], key=lambda option: option.seconds)
            why = f"'{other.use}' would take {other.seconds:.3g} s instead of {now.seconds:.3g} s: "
            why += other.why
        best = now._replace(why=why)
    return Advice(best.use, best.seconds, now.seconds, best.bytes, now.bytes, best.transfers,
                  now.transfers, best.memory, best.why)  # fmt: skip
