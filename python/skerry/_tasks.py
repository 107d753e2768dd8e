"""Tasks that ranks draw from one another.

Every member has a queue: the tasks that are its own, in an order that all members know. A counter
says how many of a queue are taken; a draw adds to it atomically and so takes the next ones, each of
them once. The counters of a node's members lie side by side in the memory of its first member: one
get shows how much is left on a node. A member draws from its own queue, then from the fullest of
its node, then from those of the other nodes, the next node first. Counters only grow, so a queue
that was found empty stays empty.
"""

from __future__ import annotations

import heapq
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import isfinite, prod
from typing import Any

import numpy as np

from . import _core
from ._arrays import Irregular, zeros
from ._core import Array, Group
from ._together import agree
from .errors import Error, InvalidError
from ._parts import Bounds

_TILES_OF_A_BLOCK = 5  # as a power of two
_DIFFER = "the members gave sk.tasks different work, costs or tiles: all give the same"


class Tasks:
    """An iterator over the tasks that this rank draws, made by tasks()."""

    def __init__(
        self,
        queues: Sequence[_Tiles | _Items],
        group: Group,
        progress: bool | Callable[[int, int], object],
    ) -> None:
        self._queues, self._group = queues, group
        ranks = group.ranks
        self._me = ranks.index(_core.rank())
        by_node: dict[int, list[int]] = {}
        for member, rank in enumerate(ranks):
            by_node.setdefault(_core.node(rank), []).append(member)
        # A node's first member holds the counters of all its members, others one that is not used.
        widths = [1] * len(ranks)
        for members in by_node.values():
            widths[members[0]] = len(members)
        starts = [0, *accumulate(widths)]
        self._taken = zeros(starts[-1], "int64", distribution=Irregular(starts[:-1]), group=group)
        self._at = {
            member: starts[members[0]] + i
            for members in by_node.values()
            for i, member in enumerate(members)
        }
        numbers, own = sorted(by_node), _core.node()
        turn = numbers.index(own)
        self._nodes = [by_node[node] for node in numbers[turn:] + numbers[:turn]]
        self._own_seen = 0  # of the own queue known to be taken; below its length: draw there first
        self._ready: list[Any] = []  # drawn and not yet given out, the next one last
        self._lock = threading.Lock()  # of _ready, _nodes and _own_seen
        self._progress = _Progress(len(self), progress) if progress and self._me == 0 else None

    def __len__(self) -> int:
        """Tasks of all members."""
        return sum(len(queue) for queue in self._queues)

    def __iter__(self) -> Tasks:
        return self

    def __next__(self) -> Any:
        with self._lock:
            while not self._ready:
                if self._progress:
                    self._progress.look(self)
                if not self._draw():
                    raise StopIteration
            return self._ready.pop()

    def drawn(self) -> int:
        """How many were drawn so far by all members. One-sided. Not collective. Errors:
        PeerDeadError."""
        taken = self._taken.get()
        return int(
            sum(min(taken[at], len(self._queues[member])) for member, at in self._at.items())
        )

    def _draw(self) -> bool:
        """Draws once, or finds out that a node has nothing left. False if nobody has."""
        me = self._me
        if self._own_seen < len(self._queues[me]):
            self._own_seen = self._take(me, self._own_seen)
            return True
        if not self._nodes:
            return False
        members = self._nodes[0]
        first = self._at[members[0]]
        taken = self._taken.get((slice(first, first + len(members)),))
        left = [len(self._queues[m]) - int(n) for m, n in zip(members, taken, strict=True)]
        # Members look from different places on, so that equal queues get different helpers.
        turn = me % len(members)
        fullest = max(range(len(members)), key=lambda i: (left[i], -((i - turn) % len(members))))
        if left[fullest] <= 0:
            self._nodes.pop(0)
        else:
            self._take(members[fullest], int(taken[fullest]))
        return True

    def _take(self, member: int, seen: int) -> int:
        """Draws from a queue of which `seen` were taken; returns how many are taken now."""
        queue = self._queues[member]
        n = queue.share(seen, 2 * len(self._queues))
        begin = self._taken.read_inc(self._at[member], n)
        end = min(begin + n, len(queue))
        self._ready += [queue[i] for i in range(end - 1, begin - 1, -1)]
        return begin + n


class _Progress:
    """Tells, at most once a second, how many tasks were drawn."""

    def __init__(self, total: int, tell: bool | Callable[[int, int], object]) -> None:
        self.total, self.begin, self.next = total, time.monotonic(), 0.0
        self.tell = tell  # a function of the program's; anything else: write()

    def look(self, tasks: Tasks) -> None:
        now = time.monotonic()
        if now < self.next:
            return
        drawn = tasks.drawn()
        self.next = now + 1.0 if drawn < self.total else float("inf")
        (self.tell if callable(self.tell) else self.write)(drawn, self.total)

    def write(self, drawn: int, total: int) -> None:
        seconds = time.monotonic() - self.begin
        print(f"tasks: {drawn} of {total} drawn after {seconds:.0f} s", file=sys.stderr, flush=True)


# ---- queues --------------------------------------------------------------------------------------


class _Tiles:
    """Some of the tiles of a box of indices, in row-major order."""

    def __init__(
        self, box: Bounds, tile: Sequence[int], first: int = 0, count: int | None = None
    ) -> None:
        self.box, self.tile, self.first = box, tile, first
        self.grid = [-(-(high - low) // n) for (low, high), n in zip(box, tile, strict=True)]
        self.count = prod(self.grid) if count is None else count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[slice, ...]:
        at, i = [], i + self.first
        for n in reversed(self.grid):
            i, place = divmod(i, n)
            at.append(place)
        return tuple(
            slice(low + place * n, min(low + (place + 1) * n, high))
            for (low, high), n, place in zip(self.box, self.tile, reversed(at), strict=True)
        )

    def share(self, seen: int, parts: int) -> int:
        return max(1, (self.count - seen) // parts)


class _Items:
    """Tasks of a sequence; `costs`: what each is expected to cost, or None."""

    def __init__(self, items: Sequence[Any], costs: Sequence[float] | None = None) -> None:
        self.items = items
        self.before = None if costs is None else [0.0, *accumulate(costs)]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]

    def share(self, seen: int, parts: int) -> int:
        """How many to draw at once: of what is left, a part of the tasks, or of their cost."""
        if self.before is None:
            return max(1, (len(self) - seen) // parts)
        if seen >= len(self):
            return 1
        done, all_of_it = self.before[seen], self.before[-1]
        return max(1, bisect_right(self.before, done + (all_of_it - done) / parts) - 1 - seen)


def _of_array(array: Array, tile: Sequence[int] | None) -> list[_Tiles]:
    """The tiles of each member's block; of a mirrored array, even parts of all tiles."""
    shape, group = array.shape, array.group
    if array.mirrored:
        everything = tuple((0, n) for n in shape)
        tiles = _Tiles(everything, _tile_of(everything, tile, len(group)))
        cuts = [len(tiles) * i // len(group) for i in range(len(group) + 1)]
        return [
            _Tiles(everything, tiles.tile, low, high - low)
            for low, high in zip(cuts[:-1], cuts[1:], strict=True)
        ]
    blocks = [array.distribution(rank) for rank in group.ranks]
    return [_Tiles(block, _tile_of(block, tile)) for block in blocks]


def _tile_of(box: Bounds, tile: Sequence[int] | None, members: int = 1) -> list[int]:
    """The wanted edges of a tile, or some that divide a box into 2^5 tiles for each member."""
    edges = [max(1, high - low) for low, high in box]
    if tile is not None:
        return [min(n, edge) for n, edge in zip(tile, edges, strict=True)]
    for _ in range(_TILES_OF_A_BLOCK + (members - 1).bit_length()):
        longest = max(range(len(edges)), key=edges.__getitem__)
        edges[longest] = (edges[longest] + 1) // 2
    return edges


def _of_sequence(items: Sequence[Any], costs: Sequence[float] | None, members: int) -> list[_Items]:
    if costs is None:  # neighbouring tasks often use the same data
        cuts = [len(items) * i // members for i in range(members + 1)]
        return [_Items(items[low:high]) for low, high in zip(cuts[:-1], cuts[1:], strict=True)]
    # The dearest first, each to the member that has least: all get about the same.
    queues: list[tuple[list[Any], list[float]]] = [([], []) for _ in range(members)]
    loads = [(0.0, member) for member in range(members)]
    for i in sorted(range(len(items)), key=lambda i: -costs[i]):
        load, member = loads[0]
        queues[member][0].append(items[i])
        queues[member][1].append(costs[i])
        heapq.heapreplace(loads, (load + costs[i], member))
    return [_Items(*queue) for queue in queues]


# ---- what the program asks for -------------------------------------------------------------------


def _checked_tile(array: Array, tile: Any) -> tuple[int, ...]:
    edges = (tile,) if hasattr(tile, "__index__") else tuple(tile)
    if len(edges) != array.ndim or any(int(n) != n or n < 1 for n in edges):
        raise InvalidError(
            f"tile is {tile}: give {array.ndim} whole numbers from 1 on, one per dimension"
        )
    return tuple(int(n) for n in edges)


def _checked_costs(
    items: Sequence[Any], cost: Callable[[Any], float] | Sequence[float] | None
) -> list[float] | None:
    if cost is None:
        return None
    costs = [float(c) for c in (map(cost, items) if callable(cost) else cost)]
    if len(costs) != len(items):
        raise InvalidError(f"cost has {len(costs)} numbers for {len(items)} tasks: give one each")
    for item, c in zip(items, costs, strict=True):
        if not isfinite(c) or c < 0:
            raise InvalidError(f"the cost of task {item} is {c}: give a number from 0 on")
    return costs


def _checked_items(work: Any) -> Sequence[Any]:
    if hasattr(work, "__index__"):
        work = range(int(work))
    if isinstance(work, str | bytes | np.ndarray) or not hasattr(work, "__getitem__"):
        raise InvalidError(
            f"tasks of a {type(work).__name__}: give an Array, a range, a number or a list"
        )
    return work if isinstance(work, range) else list(work)


def tasks(
    work: Array | Sequence[Any] | int,
    *,
    tile: Sequence[int] | int | None = None,
    cost: Callable[[Any], float] | Sequence[float] | None = None,
    progress: bool | Callable[[int, int], object] = False,
    group: Group | None = None,
) -> Tasks:
    """Work that balances itself: each task is drawn by one member, once.

        for tile in sk.tasks(a):              # a patch of a, mostly of the own block
            a[tile] = f(a[tile])
        for i in sk.tasks(range(1000), cost=lambda i: i):
            ...
        sk.sync()

    The call is collective; the loop is not: ranks leave it when nothing is left, or before. An
    Array: its tiles, as patches; a member draws its own first, then those of its node, then
    those of the next nodes. A mirrored array's tiles are shared evenly. `tile`: their edges;
    default: about 32 tiles for each member. A range, a number n (range(n)) or a list: its
    entries. `cost` tells what each is expected to cost: the dearest come first, and members
    begin with equal sums. `progress` True: the group's first member says on stderr, when it
    draws and once a second at most, how many were drawn; or it calls what you give with (drawn,
    all). Several threads may draw from one iterator. Errors, on every member: InvalidError,
    FreedError. Arrays of any shape and dtype."""
    queues: Sequence[_Tiles | _Items] = []
    what: object = None
    refused = None
    if isinstance(work, Array):
        if group is not None:
            raise InvalidError("the tiles of an array go to its own group: leave out `group`")
        group = work.group  # FreedError on every member alike
    group = _core.world() if group is None else group
    try:
        if isinstance(work, Array):
            if cost is not None:
                raise InvalidError("`cost` is for ranges and lists: tiles cost alike at the start")
            edges = None if tile is None else _checked_tile(work, tile)
            queues = _of_array(work, edges)
            what = ("array", work.shape, edges)
        else:
            if tile is not None:
                raise InvalidError("`tile` is for arrays: leave it out")
            items = _checked_items(work)
            costs = _checked_costs(items, cost)
            queues = _of_sequence(items, costs, len(group))
            what = (items if isinstance(items, range) else len(items), costs)
    except (TypeError, ValueError) as error:
        refused = error if isinstance(error, Error) else InvalidError(f"tasks of {work!r}: {error}")
    agree(what, refused, group, differ=_DIFFER)
    return Tasks(queues, group, progress)
