"""Would mirroring an array pay? What its traffic between nodes took, and what it would take with a
mirror. The interface is described in __init__.pyi."""

import time
from typing import NamedTuple

import numpy as np

from . import _core
from ._together import gathered
from .errors import InvalidError

_LOCAL_SECONDS = 1e-6  # of a get from shared memory
_MEMORY_RATE = 4e9  # bytes per second that one rank copies or compares
_PROBES, _PROBE_BYTES = 5, 1 << 20


class Advice(NamedTuple):
    use: str
    seconds: float
    seconds_now: float
    bytes: int
    bytes_now: int
    memory: int
    why: str

    @property
    def pays(self):
        return self.use != "distributed"

    def __str__(self):
        return f"{self.use}: {self.why}"


class _Traffic(NamedTuple):
    gets: int
    get_bytes: int
    get_ns: int
    get_nb_bytes: int
    accs: int
    acc_bytes: int
    acc_ns: int
    acc_nb_bytes: int
    tile_bytes: int
    tiles: bytes


def advise(a, *, refreshes=1, clear=False):
    """See __init__.pyi."""
    if a.mirrored:
        raise InvalidError("this array is mirrored already: advise takes a distributed one")
    if refreshes < 1:
        raise InvalidError(f"refreshes is {refreshes}: a mirror is filled at least once")
    mine = _Traffic(*a._traffic())
    group = a.group
    latency, rate = _measure_link(group)
    mine_now = np.array(
        [*_waited(mine, rate), *mine[:2], mine.accs, mine.acc_bytes, mine.tile_bytes]
    )
    all_now = gathered(mine_now, group)
    tiles_by_node = _tiles_by_node(mine.tiles, group)
    if clear:
        _core.barrier(group)
        a._clear_traffic()
    tile = all_now[:, 6].max()
    options = [_distributed(all_now)]
    if tiles_by_node:
        options.append(_with_mirror(a, all_now, tiles_by_node, tile, latency, rate, refreshes))
        if all_now[:, 5].any():
            options.append(_merged(a, all_now, len(tiles_by_node), latency, rate, refreshes))
    return _chosen(options)


def _waited(mine, rate):
    """Seconds of gets and of accumulates. Non-blocking ones are taken to fill the link."""
    gets = mine.get_ns / 1e9 + mine.get_nb_bytes / rate
    return gets, mine.acc_ns / 1e9 + mine.acc_nb_bytes / rate


def _tiles_by_node(mine, group):
    """How many tiles of other nodes the ranks of each node have read together; none on one node."""
    nodes = {_core.node(rank) for rank in group.ranks}
    if len(nodes) == 1:
        return {}
    length = int(gathered(np.array([len(mine)]), group).max())
    flags = np.zeros((max(length, 1),), np.uint8)
    flags[: len(mine)] = np.frombuffer(mine, np.uint8)
    read = {}
    for node in sorted(nodes):
        part = flags.astype(np.int32) if node == _core.node() else np.zeros(len(flags), np.int32)
        _core._reduce(part, "max", -1, group)
        read[node] = int(np.count_nonzero(part))
    return read


def _measure_link(group):
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


def _seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class _Option(NamedTuple):
    use: str
    seconds: float
    bytes: int
    memory: int
    why: str


def _distributed(now):
    """As it is: the rank that waited longest, and all that travelled."""
    return _Option("distributed", float((now[:, 0] + now[:, 1]).max()),
                   int(now[:, 3].sum() + now[:, 5].sum()), 0, "")  # fmt: skip


def _with_mirror(a, now, tiles, tile, latency, rate, refreshes):
    """Each node fetches a tile once after every refresh; then gets are local. Accumulates stay."""
    runs = max(tiles.values())
    most = runs * tile
    moved = int(sum(tiles.values()) * tile * refreshes)
    own = a.nbytes / len(a.group)
    fetching = refreshes * (most / rate + min(runs, now[:, 2].max()) * latency)
    comparing = (refreshes + 1) * own / _MEMORY_RATE
    reading = now[:, 2].max() * _LOCAL_SECONDS + now[:, 3].max() / _MEMORY_RATE
    seconds = float(fetching + comparing + reading + now[:, 1].max())
    memory = int(sum(tiles.values()) * tile + a.nbytes)
    why = (
        f"{int(now[:, 2].sum())} gets fetched {int(now[:, 3].sum())} bytes from other nodes; the "
        f"tiles that they touched are {moved // refreshes} bytes over all nodes"
        + (f", {refreshes} times" if refreshes > 1 else "")
    )
    return _Option("mirror", seconds, moved + int(now[:, 5].sum()), memory, why)


def _merged(a, now, nodes, latency, rate, refreshes):
    """A mirrored array: accumulates and gets are local, and merge sums the copies."""
    moved = int(2 * (nodes - 1) * a.nbytes * refreshes)
    local = now[:, [2, 4]].sum(axis=1).max() * _LOCAL_SECONDS
    local += now[:, [3, 5]].sum(axis=1).max() / _MEMORY_RATE
    seconds = float(moved / nodes / rate + 2 * nodes * latency * refreshes + local)
    why = (
        f"{int(now[:, 4].sum())} accumulates sent {int(now[:, 5].sum())} bytes to other nodes; a "
        f"merge moves at most {moved // refreshes} bytes, less where copies are zero"
    )
    return _Option("mirrored", seconds, moved, int(a.nbytes * nodes), why)


def _chosen(options):
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
        return Advice("distributed", now.seconds, now.seconds, now.bytes, now.bytes, 0, why)
    return Advice(best.use, best.seconds, now.seconds, best.bytes, now.bytes, best.memory, best.why)
