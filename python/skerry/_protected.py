"""Arrays that come back after a death (on_failure="continue").

Each member of the group keeps copies of its block in a segment: two in its own slice, and two in
that of its partner, a member on another node. The copies alternate. A state is written over the
one before the last, so the last stays whole until the new one is. Only tiles that differ from that
copy are written and sent. An agreement of all members at the end makes the new state the valid
one: it succeeds on all that live or fails on all.

After a death the living shrink the group, make the arrays anew over it, and read each block's copy
from its owner's slice if that node lives, otherwise from the partner's. The program's objects
become the new arrays when an agreement has told that all have theirs. Spares that have come into
the group are told of the state first, and sent what they need (_newcomers.py).
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import os
import pickle
import reprlib
import sys
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from . import _core, _newcomers
from ._arrays import Irregular, empty
from ._core import Array, Group, Request, Segment
from ._parts import Bounds
from ._together import gathered
from ._types import Block
from .errors import (
    DtypeError,
    FreedError,
    InvalidError,
    LostError,
    PeerDeadError,
    TimeoutError,
    UnsupportedError,
)

_TILE = 4096  # bytes that are compared and sent together
_READ = 8 << 20  # bytes that are read in one piece when blocks come back
_UNDER_WAY = 64  # puts whose source is not done
_ALIGN = 64


# ---- arrays as boxes -----------------------------------------------------------------------------


class Form:
    """What is kept of a kind of arrays: boxes of indices, one for each member, and how such an
    array is made again over another group."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def kind(self) -> type[Form]:
        return type(self)

    @property
    def storage(self) -> Array:
        """Of the group, the dtype, and whether it was freed."""
        return self.array

    def boxes(self) -> list[Bounds]:
        """Of each member of the group, in its order."""
        return [self.array.distribution(rank) for rank in self.storage.group.ranks]

    def check(self) -> None:
        """An error if such an array cannot be protected."""
        if self.storage.freed:
            raise InvalidError("the array to protect was freed")

    def own(self) -> Block:
        """The own box, a view."""
        return self.array.local

    def targets(self) -> list[tuple[Bounds, Block]]:
        """(box, a view) of all that this member has of copied boxes, its own and others'."""
        rank = _core.rank()
        return [(self.boxes()[self.storage.group.index(rank)], self.own())]

    def description(self) -> tuple[Any, ...]:
        """All that made() needs: what can be pickled."""
        starts, grid = self.array._options
        members, mirrored = len(self.array.group), self.array.mirrored
        return self.array.shape, self.array.dtype, starts, grid, mirrored, members

    @staticmethod
    def made(description: tuple[Any, ...], group: Group) -> Any:
        """A new array of this kind over `group`. Collective."""
        shape, dtype, starts, grid, mirrored, members = description
        return empty(
            shape,
            dtype,
            distribution=Irregular(*starts) if starts else None,
            grid=grid if grid and len(group) == members else None,
            mirrored=mirrored,
            group=group,
        )

    def become(self, other: Any) -> None:
        """The program's object is `other` from now on."""
        self.array._become(other)

    def taken(self) -> Form:
        """Of what made() has made: the form of an array that the program can use."""
        return self

    def __str__(self) -> str:
        return f"{self.array.shape} {self.array.dtype}"

    # What the kind keeps beside the elements, the same on all members: as of the state, also if no
    # array of the kind is protected.

    @staticmethod
    def beside() -> Any:
        return None

    @staticmethod
    def set_beside(value: Any) -> None:
        pass

    # What all processes have alike, and a newcomer must have, too. None: nothing.

    @staticmethod
    def alike() -> Any:
        return None

    @staticmethod
    def set_alike(value: Any) -> None:
        pass


class _Absent(Form):
    """Of an array of the others, as a newcomer is told."""

    def __init__(self, told: _newcomers.Copied) -> None:
        self._told = told
        self._storage = SimpleNamespace(
            dtype=told.dtype, mirrored=told.mirrored, freed=False, group=None
        )
        self.given: Form | None = None  # the program's own array, in its place

    @property
    def kind(self) -> type[Form]:
        return self._told.kind

    @property
    def storage(self) -> Any:
        return self._storage

    def boxes(self) -> list[Bounds]:
        return self._told.boxes

    def description(self) -> tuple[Any, ...]:
        return self._told.description

    def __str__(self) -> str:
        return self._told.text


FORMS: dict[type, type[Form]] = {Array: Form}  # other modules add theirs


def _form_of(array: Any) -> Form:
    form = FORMS.get(type(array))
    if form is None:
        kinds = " or ".join(f"a {kind.__name__}" for kind in FORMS)
        raise DtypeError(
            f"{reprlib.repr(array)} of type {type(array).__name__} cannot be protected: "
            f"give {kinds}"
        )
    found = form(array)
    found.check()
    return found


# ---- where copies are ----------------------------------------------------------------------------


def _partners(ranks: Sequence[int], distance: int) -> list[int | None]:
    """The partner of each member, as a place in `ranks`: on the node `distance` further."""
    by_node: dict[int, list[int]] = {}
    for member, rank in enumerate(ranks):
        by_node.setdefault(_core.node(rank), []).append(member)
    nodes = [by_node[node] for node in sorted(by_node)]
    partners: list[int | None] = [None] * len(ranks)
    if distance == 0 or len(nodes) == 1:
        return partners
    step = (distance - 1) % (len(nodes) - 1) + 1  # of fewer nodes than there were, too
    for at, members in enumerate(nodes):
        there = nodes[(at + step) % len(nodes)]
        for i, member in enumerate(members):
            partners[member] = there[i % len(there)]
    return partners


class _Copies:
    """The copies of one array's blocks. Making it is collective."""

    def __init__(
        self, form: Form, distance: int, group: Group | None, ranks: Sequence[int] | None = None
    ) -> None:
        """`ranks`: of a group that this rank was no member of; it has no copies then."""
        self.form, self.distance = form, distance
        self.ranks = ranks = group.ranks if group is not None else list(ranks or ())
        self.dtype, self.boxes = form.storage.dtype, form.boxes()
        self.mirrored = form.storage.mirrored
        self.bytes = [
            prod(high - low for low, high in box) * self.dtype.itemsize for box in self.boxes
        ]
        room = [-(-n // _ALIGN) * _ALIGN for n in self.bytes]
        # A mirrored array is on every node already.
        self.partners = _partners(self.ranks, 0 if self.mirrored else distance)
        # Slices: the member's own two copies, then two of each member whose partner it is.
        used = [2 * n for n in room]
        self.at_partner = [0] * len(room)
        for member, partner in enumerate(self.partners):
            if partner is not None:
                self.at_partner[member] = used[partner]
                used[partner] += 2 * room[member]
        self.room = room
        self.is_valid = False  # the last valid state has it
        if group is not None:
            self.me = ranks.index(_core.rank())
            self.segment = Segment(used[self.me], group=group)

    def save(self, slot: int, everything: bool, cost: _Cost) -> None:
        """Brings a copy of the own block, and the partner's, to what the block is now. What the
        partner gets is there after a fence. Not collective."""
        me = self.me
        if self.bytes[me] == 0:
            return
        now = np.ascontiguousarray(self.form.own()).reshape(-1).view(np.uint8)
        mine = self.segment.local[slot * self.room[me] :][: now.size]
        partner, at = self.partners[me], self.at_partner[me] + slot * self.room[me]
        sent: list[Request] = []
        if everything:
            mine[:] = now
        runs = [(0, now.size)] if everything else _core._take_changed(now, mine, _TILE)
        for begin, end in runs:
            if partner is None:
                continue
            sent.append(
                self.segment.put_nb(self.ranks[partner], at + begin, mine[begin:end])
            )
            cost.moved_bytes += end - begin
            if len(sent) == _UNDER_WAY:
                sent.pop(0).wait()
        for request in sent:
            request.wait()
        cost.compared_bytes += now.size

    def sources(
        self, slot: int, lost: set[int], prefers_near: bool = True
    ) -> list[tuple[int, int] | None]:
        """(rank, offset) of a copy of each member's block that outlived the nodes in `lost`; None:
        there is none."""
        found: list[tuple[int, int] | None] = []
        for member, rank in enumerate(self.ranks):
            partner = self.partners[member]
            places = [(rank, slot * self.room[member])]
            if partner is not None:
                place = self.ranks[partner], self.at_partner[member] + slot * self.room[member]
                is_near = prefers_near and _core.same_node(place[0])
                places.insert(0 if is_near else 1, place)
            living = [place for place in places if _core.node(place[0]) not in lost]
            found.append(living[0] if living else None)
        return found

    def lost_boxes(self, lost: set[int]) -> list[tuple[int, Bounds]]:
        """(rank, its box) of what cannot come back. The same on every member."""
        if self.mirrored:
            return []
        found = zip(self.ranks, self.boxes, self.bytes, self.sources(0, lost), strict=True)
        return [(rank, box) for rank, box, n, source in found if n and source is None]

    def bring_back(self, slot: int, lost: set[int], fresh: Form, cost: _Cost) -> None:
        """Fills what this member has of the new array from copies. Not collective."""
        sources = self.sources(slot, lost)
        if self.mirrored:  # each node has all of it
            sources = [
                source if _core.same_node(rank) else None
                for rank, source in zip(self.ranks, sources, strict=True)
            ]
        for wanted, view in fresh.targets():
            self.fill(wanted, view, sources, cost)

    def fill(
        self, wanted: Bounds, view: Block, sources: list[tuple[int, int] | None], cost: _Cost
    ) -> None:
        """Fills a view from copies of the boxes that meet `wanted`. Not collective."""
        def got_from(rank: int, begin: int) -> Callable[[int, Block], object]:
            def get(offset: int, out: Block) -> None:
                self.segment.get(rank, begin + offset, out)
                cost.recovered_bytes += out.nbytes

            return get

        gets = [got_from(*source) if source else None for source in sources]
        fill(self.boxes, self.dtype, wanted, view, gets)


def fill(
    boxes: Sequence[Bounds],
    dtype: np.dtype[Any],
    wanted: Bounds,
    view: Block,
    gets: Sequence[Callable[[int, Block], object] | None],
) -> None:
    """Fills the view of the box `wanted` from the boxes that meet it: gets[i](offset, out) reads
    bytes of the i-th; None: it has none. Not collective."""
    for box, get in zip(boxes, gets, strict=True):
        common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, wanted, strict=True)]
        if get is None or any(low >= high for low, high in common):
            continue
        inside = tuple(
            slice(low - first, high - first)
            for (low, high), (first, _) in zip(common[1:], box[1:], strict=True)
        )
        there = tuple(
            slice(low - first, high - first)
            for (low, high), (first, _) in zip(common, wanted, strict=True)
        )
        lengths = [high - low for low, high in box[1:]]
        row = prod(lengths) * dtype.itemsize
        rows = max(1, _READ // row)
        target, first = view[there], common[0][0]
        for low in range(first, common[0][1], rows):
            high = min(low + rows, common[0][1])
            read = np.empty((high - low, *lengths), dtype)
            get((low - box[0][0]) * row, read)
            target[low - first : high - first] = read[(slice(None), *inside)]


# ---- the protected state of the job --------------------------------------------------------------


class Protection(NamedTuple):
    """What protecting has cost this rank so far; times in seconds, waits for others included."""

    states: int  # that became valid
    compared_bytes: int
    moved_bytes: int  # to partners, in tiles that had changed
    seconds: float
    recoveries: int
    recovered_bytes: int  # read from copies
    recovery_seconds: float


class _Cost:
    """The numbers of Protection, as they grow."""

    def __init__(self) -> None:
        self.states = self.compared_bytes = self.moved_bytes = 0
        self.recoveries = self.recovered_bytes = 0
        self.seconds = self.recovery_seconds = 0.0


_DIFFER = (
    "the members protect different arrays, or have values of different names: all give the same"
)
_LAST_COPIES = (
    "nobody else has copies of what they protect. Arrays that are protected with a partner on "
    "another host have (partner=1)"
)
_REFUSED, _DIED = 0, -1  # in place of a checksum; died: a rank, as this member has seen


class _Later(Exception):
    """The state is of a loop that this newcomer's program has not come to yet."""


class _Kept:
    """All protected arrays and values of this process."""

    def __init__(self) -> None:
        self.goes_on = False  # the job was joined with on_failure="continue"
        self.copies: list[_Copies] = []
        self.group: Group | None = None  # None: nothing was protected yet
        self.shrunk: Group | None = None  # what came of it, if that is not over yet
        self.slot: int | None = None  # of the valid state; None: there is none
        self.number = 0  # how many were valid, this one too
        self.is_torn = False  # the other slot is neither of the states before
        self.values: dict[str, Any] = {}
        self.beside: dict[type[Form], Any] = {}  # of each kind of protected arrays
        self.loop: Any = None  # that made the valid state; None: the program itself
        self.loops = 0  # begun so far
        self.within: int | None = None  # the place of the go_on() that runs; None: none does
        self.place = 0  # in the program, where the valid state was made: see place_of()
        self.leaving: list[int] = []  # whose host is drained, as of the last agreement
        self.staying: list[int] = []  # of these, who was told last that they cannot leave
        self.parted: set[int] = set()  # who has left so; the launcher may tell it later
        self.may_grow = False  # spares wait for places that are free, as of the last agreement
        self.grows = False  # the group breaks off, to take them in
        self.cost = _Cost()
        self.spares = 0  # of the job, at its start
        self.ranks = 1  # of the job, spares too
        # This rank was a spare, and has not got the state yet.
        self.is_newcomer = False
        self.given: list[Any] = []  # of a newcomer: the program's arrays, as they were protected
        self.makes_arrays = False  # of a newcomer: the program has none
        # Of a newcomer that has not come to the state's place: what the program has just kept.
        self.passed: dict[str, Any] = {}
        self.at = 0  # of a newcomer: the place in the program that it has come to
        self.told: _newcomers.Told | None = None  # of a newcomer: the state

    def agreed(
        self, what: object, refused: Exception | None, group: Group, differ: str = _DIFFER
    ) -> bool:
        """As agree(), but `refused` may be any error, and a death that one member has seen is a
        PeerDeadError on all. True: a member has freed a protected array."""
        mark = zlib.crc32(repr(what).encode()) + 1
        if refused:
            mark = _DIED if isinstance(refused, PeerDeadError) else _REFUSED
        freed = any(each.form.storage.freed for each in self.copies)
        mine = np.array([mark, freed, _core.is_leaving(), group.spares() > 0])
        marks, freed_by, leaves, grows = gathered(mine, group).T
        self.may_grow = bool(grows.any())
        self.leaving = [rank for rank, does in zip(group.ranks, leaves, strict=True) if does]
        if refused:
            raise refused
        if (marks <= 0).any():
            rank, seen = group.rank(int(marks.argmin())), marks.min() == _DIED
            raise PeerDeadError(f"rank {rank} has seen that a rank died") if seen else InvalidError(
                f"rank {rank} refused its part: see its message"
            )
        if (marks != mark).any():
            raise InvalidError(differ)
        return bool(freed_by.any())

    def add(
        self, arrays: Sequence[Any], distance: int, values: dict[str, Any]
    ) -> dict[str, Any]:
        """Agrees with the others on what is protected from now on; returns copies of the values.
        Begins with a sync."""
        group, fresh, copied = self.agreed_on(arrays, distance, values)
        self.group = group
        for form in fresh:
            self.copies.append(_Copies(form, distance, group))
        return copied

    def agreed_on(
        self, arrays: Sequence[Any], distance: int, values: dict[str, Any]
    ) -> tuple[Group, list[Form], dict[str, Any]]:
        """What add() would begin to protect, of which group, and copies of the values. An error on
        all if a member gave what cannot be. Collective."""
        if not self.goes_on:
            raise UnsupportedError(
                'arrays are protected in jobs that go on: sk.init(on_failure="continue")'
            )
        if self.is_over():
            self.forget(None)
        group = self.group_of(arrays)
        refused: Exception | None = None
        fresh: list[Form] = []
        copied: dict[str, Any] = {}
        try:
            fresh = self.checked(arrays, distance, group)
            copied = copy.deepcopy(values)  # may raise anything: these are the program's objects
            if self.spares:  # which get them
                pickle.dumps(values)
            _core.fence()
        except Exception as error:
            refused = error
        known = [(str(each.form), each.distance) for each in self.copies]
        what = (known, [str(form) for form in fresh], distance, sorted(values))
        if self.agreed(what, refused, group):
            self.drop_freed(group)
        return group, fresh, copied

    def group_of(self, arrays: Sequence[Any]) -> Group:
        """Who takes part, also if what this member gave is wrong."""
        is_fixed = self.copies or self.slot is not None
        if self.group is not None and is_fixed and not self.is_over():
            return self.group
        for array in arrays if isinstance(arrays, Sequence) else ():
            form = FORMS.get(type(array))
            if form is not None and not form(array).storage.freed:
                return form(array).storage.group
        return self.group or _core.world()

    def is_over(self) -> bool:
        """A member died before the first state: there is nothing to go back to, and the program
        may begin anew."""
        return (
            self.slot is None
            and self.group is not None
            and is_hurt(self.group)
        )

    def forget(self, group: Group | None) -> None:
        """As if nothing had been protected; `group`: those that live, if they have met."""
        self.copies, self.group, self.shrunk = [], group, None
        self.slot, self.number, self.is_torn = None, 0, False
        self.values, self.loop, self.told = {}, None, None
        self.is_newcomer = self.grows = False

    def checked(self, arrays: Sequence[Any], distance: int, group: Group) -> list[Form]:
        """What is not protected yet."""
        if not isinstance(arrays, Sequence):
            raise InvalidError(f"what to protect is a {type(arrays).__name__}: give a list")
        if not arrays and not self.copies and self.slot is None:
            raise InvalidError("nothing to protect: give arrays")
        if not hasattr(distance, "__index__") or distance < 0:
            raise InvalidError(f"partner is {distance}: give a number of nodes from 0 on")
        fresh: list[Form] = []
        known = {id(each.form.array) for each in self.copies}
        for array in arrays:
            form = _form_of(array)
            if form.storage.group.ranks != group.ranks:
                raise InvalidError("all protected arrays are of one group: give arrays of that one")
            if id(array) not in known:
                known.add(id(array))
                fresh.append(form)
        nodes = len({_core.node(rank) for rank in group.ranks})
        # With fewer nodes than there were, the copies go to one that is left.
        dead = self.parted.union(_core.failed())
        lost = sum(_core.node_ranks(node)[0] in dead for node in range(_core.nodes()))
        if distance >= nodes + lost and any(not form.storage.mirrored for form in fresh):
            raise InvalidError(
                f"no partner for partner={distance}: the group is on {nodes} node(s). With "
                "partner=0 copies stay on the own node, and outlive all ranks but its leader"
            )
        return fresh

    def any_freed(self, group: Group, marks: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Which protected arrays a member has freed: a death may end free() before others have.
        `marks` of all members are combined in the same call, and come first. Collective."""
        own = [each.form.storage.freed for each in self.copies]
        both = np.concatenate([marks, np.array(own, np.uint8)])
        _core._reduce(both, "max", -1, group)
        return both

    def drop_freed(self, group: Group) -> None:
        """All members drop the same. Collective."""
        freed = self.any_freed(group, np.zeros(0, np.uint8)).tolist()
        dropped = [each for each, is_freed in zip(self.copies, freed, strict=True) if is_freed]
        self.copies = [each for each in self.copies if each not in dropped]
        for each in dropped:
            each.segment.free()

    def save(self, values: dict[str, Any], loop: Any) -> None:
        """A new valid state, or an error and the one before. Collective."""
        group = self.group
        assert group is not None
        slot = 0 if self.slot is None else 1 - self.slot
        everything, self.is_torn = self.is_torn, True
        refused: Exception | None = None
        try:
            for each in self.copies:
                each.save(slot, everything, self.cost)
            _core.fence()
        except Exception as error:
            refused = error
        self.agreed(slot, refused, group)
        self.is_torn, self.slot, self.values = False, slot, values
        self.beside = {kind: kind.beside() for kind in FORMS.values()}
        self.number += 1
        self.loop, self.place = loop, self.place_of(loop)
        for each in self.copies:
            each.is_valid = True
        self.cost.states += 1
        self.part(group)

    def part(self, group: Group) -> None:
        """The state is whole: ranks whose host is drained leave, and the others go back to it
        without them. All know who these are. Or spares have come since the group lost members: it
        takes them in. Not collective."""
        if not self.leaving:
            if self.may_grow:
                self.grows = True
                raise PeerDeadError("spares have come, and take the places of the dead")
            return
        parts = self.parting(group)
        if not parts:
            if _core.rank() == self.leaving[0] and self.leaving != self.staying:
                text = f"skerry: ranks {self.leaving} cannot leave: {_LAST_COPIES}\n"
                os.write(2, text.encode())
            self.staying = self.leaving
            return
        if _core.rank() in parts:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        self.parted.update(parts)
        raise PeerDeadError(f"ranks {parts} leave, since their host is drained")

    def parting(self, group: Group) -> list[int]:
        """Of the ranks whose host is drained, those that leave with this state. Nodes are taken one
        by one: where two keep each other's copies, the second leaves with the next state. The same
        on every member."""
        parts: list[int] = []
        lost: set[int] = set()
        for node in sorted(set(map(_core.node, self.leaving))):
            ranks = [rank for rank in self.leaving if _core.node(rank) == node]
            with_it = lost | {node} if _core.node_ranks(node)[0] in ranks else lost
            is_all = len(parts) + len(ranks) == len(group)
            if not is_all and not any(each.lost_boxes(with_it) for each in self.copies):
                parts += ranks
                lost = with_it
        return parts

    # ---- after a death ---------------------------------------------------------------------------

    def shrink(self, timeout: float) -> Group:
        before = self.shrunk or self.group or _core.world()
        return before.refill(timeout) if self.spares else before.shrink(timeout)

    def recover(self, given: Group | None, timeout: float) -> Group:
        if self.slot is None and not self.is_newcomer:
            raise LostError("nothing was protected yet: there is no state to go back to")
        begin = time.monotonic()
        # The last errors of what was under way to the dead.
        for _ in range(self.ranks):
            try:
                _core.fence()
                break
            except PeerDeadError:
                continue
        self.shrunk = given or self.shrunk
        while True:
            if given is None and self.told is None:  # one that was told has met already
                self.shrunk = self.shrink(timeout)
            given = None
            assert self.shrunk is not None
            try:
                self.bring_back(self.shrunk)
                break
            except LostError as error:
                error.group = self.shrunk
                before = self.group or _core.world()
                _move_to(before, self.shrunk, before.ranks == living().ranks)
                self.forget(self.shrunk)  # others can be protected
                raise
            except PeerDeadError:  # another one
                self.told = None
                continue
        assert self.group is not None
        self.cost.recoveries += 1
        self.cost.recovery_seconds += time.monotonic() - begin
        return self.group

    def bring_back(self, group: Group) -> None:
        """Everything over the new group, or an error, and all is as before. Collective."""
        having = self.introduced(group)
        newcomers = [rank for rank in group.ranks if rank not in having]
        if self.told is not None:
            before = self.told.ranks
            is_all = self.told.is_all
        else:
            assert self.group is not None
            before, is_all = self.group.ranks, self.group.ranks == living().ranks
        if self.told is not None:
            self.match(self.told)
        assert self.slot is not None
        gone = np.zeros(self.ranks, np.uint8)
        gone[_core.failed()] = 1
        gone[list(set(before) - set(group.ranks))] = 1
        gone, freed = np.split(self.any_freed(group, gone), [gone.size])
        lost = {n for n in range(_core.nodes()) if gone[_core.node_ranks(n)[0]]}
        kept = [each for each, is_freed in zip(self.copies, freed, strict=True) if not is_freed]
        self.check_lost(kept, lost)
        kept = [each for each in kept if each.is_valid]  # the others' first state is not complete
        refused: Exception | None = None
        fresh: list[Form] = []
        for each in kept:
            kind = each.form.kind
            try:
                fresh.append(kind(kind.made(each.form.description(), group)))
            except Exception as error:  # some kinds are made without the others
                refused = error
        self.agreed("remade", refused, group)
        if newcomers:
            refused = None
            sent = _newcomers.Sent(kept, fresh, newcomers, having, lost, self.slot, group)
            try:
                sent.give(self.cost)
                _core.fence()
            except Exception as error:
                refused = error
            self.agreed("sent", refused, group)
            sent.take()
        copies: list[_Copies] = []
        for each, form in zip(kept, fresh, strict=True):
            try:
                if self.told is None:
                    each.bring_back(self.slot, lost, form, self.cost)
            except Exception as error:
                refused = error
            copies.append(_Copies(form, each.distance, group))
            try:
                copies[-1].save(0, False, self.cost)
            except Exception as error:
                refused = error
        try:
            _core.fence()
        except Exception as error:
            refused = error
        state = (self.slot, self.number)
        self.agreed(state, refused, group, "the members have kept different states")
        if self.told is not None:
            for kind in FORMS.values():
                kind.set_alike(self.told.alike.get(kind))
        _move_to(self.group or _core.world(), group, is_all)
        self.swap(kept, copies)
        self.copies, self.group, self.shrunk = copies, group, None
        self.slot, self.is_torn = 0, False
        self.is_newcomer, self.given, self.told = False, [], None
        self.grows = False

    def swap(self, kept: list[_Copies], copies: list[_Copies]) -> None:
        """The program's objects become the new arrays. Not collective."""
        for kind in FORMS.values():
            kind.set_beside(self.beside.get(kind))
        for each, new in zip(kept, copies, strict=True):
            old = each.form.given if isinstance(each.form, _Absent) else each.form
            if old is None:
                new.form = new.form.taken()
            else:
                if old is not each.form and isinstance(old.storage, Array):
                    old.storage.free()  # a newcomer's, over itself alone
                old.become(new.form.array)
                new.form = old
            new.is_valid = True

    # ---- newcomers -------------------------------------------------------------------------------

    def introduced(self, group: Group) -> set[int]:
        """The members of the new group that have the state, when they have told the others of it.
        Collective."""
        if not self.spares:
            return set(group.ranks)
        if self.told is not None:
            return self.told.having
        has_it = gathered(np.array([not self.is_newcomer], np.uint8), group).ravel()
        having = {rank for rank, has in zip(group.ranks, has_it.tolist(), strict=True) if has}
        if len(having) == len(group):
            return having
        if not having:
            raise LostError("nobody is left that has the last protected state")
        told = _newcomers.tell(
            None if self.is_newcomer else self.telling(having), min(having), group
        )
        if self.is_newcomer:
            try:
                self.listen(pickle.loads(told))
            except Exception as error:  # a class that it has not, say
                _end_alone(f"this spare cannot read what the others keep: {error!r}")
        return having

    def telling(self, having: set[int]) -> _newcomers.Told:
        assert self.group is not None and self.slot is not None
        copied = [
            _newcomers.Copied(
                each.form.kind,
                each.form.description(),
                str(each.form),
                each.distance,
                each.dtype,
                each.mirrored,
                each.boxes,
                each.is_valid,
            )
            for each in self.copies
        ]
        return _newcomers.Told(
            self.group.ranks,
            having,
            self.group.ranks == living().ranks,
            self.slot,
            self.number,
            self.values,
            self.beside,
            {kind: kind.alike() for kind in FORMS.values()},
            self.place,
            copied,
        )

    def listen(self, told: _newcomers.Told) -> None:
        """Of a newcomer."""
        self.told, self.slot, self.number = told, told.slot, told.number
        self.place = told.place
        self.values, self.beside, self.copies = told.values, told.beside, []
        for one in told.copied:
            copies = _Copies(_Absent(one), one.distance, None, told.ranks)
            copies.is_valid = one.is_valid
            self.copies.append(copies)

    def place_of(self, loop: Any) -> int:
        """Of that loop; None: of a call of protect(), after the loops that were begun. A spare
        comes to these places in the same order. All in a go_on() is at its place, for the members
        may have begun its attempt a different number of times."""
        if self.within is not None:
            return self.within
        return 2 * self.loops + 1 if loop is None else 2 * int(loop.number)

    def match(self, told: _newcomers.Told) -> None:
        """Puts the program's own arrays in the places of those that the others protected. A spare
        that does not fit ends: then the others go on without it."""
        if self.at < told.place:
            if self.makes_arrays:  # what it would return is known to the others alone
                _end_alone("the others have come through the sk.go_on() that this spare begins")
            raise _Later
        if self.at > told.place:
            _end_alone(
                "the last protected state is of another loop or call than the one that this spare "
                "has come to: a spare goes the same way through the program"
            )
        if self.makes_arrays:
            return
        own = [form for form in map(_form_of, self.given) if not form.storage.freed]
        named = [(form.kind, str(form)) for form in own]
        if named != [(one.kind, one.text) for one in told.copied]:
            _end_alone(
                f"the others have protected {[one.text for one in told.copied]}, and this spare "
                f"{[name for _, name in named]}: a spare makes the same arrays in the same order"
            )
        for each, form in zip(self.copies, own, strict=True):
            assert isinstance(each.form, _Absent)
            each.form.given = form

    def give(self, arrays: Sequence[Any]) -> None:
        """Of a newcomer: what the program protects."""
        known = {id(array) for array in self.given}
        for array in arrays:
            _form_of(array)
            if id(array) not in known:
                known.add(id(array))
                self.given.append(array)

    def join(self, loop: Any, makes_arrays: bool, timeout: float) -> bool:
        """Of a newcomer at that loop, or in protect(): the arrays become what the others have
        protected, and are over their group. False: the program comes to that later. Collective
        over that group."""
        self.at, self.makes_arrays = self.place_of(loop), makes_arrays
        while True:
            try:
                self.recover(None, timeout)
                return True
            except _Later:
                return False
            except TimeoutError:
                if self.shrunk is not None:
                    raise  # of the group that it had come to; otherwise it may be taken in again
            except LostError:
                raise  # it has come to the others, and nothing is protected there
            except PeerDeadError:
                if self.shrunk is None:  # nobody needs it any more
                    self.is_newcomer = False
                    raise SystemExit(0) from None
                raise

    def check_lost(self, kept: list[_Copies], lost: set[int]) -> None:
        texts = []
        no_state = not any(each.is_valid for each in kept)
        for i, each in enumerate(kept):
            what = f"array {i}, {each.form},"
            if no_state:
                texts.append(f"{what} whose first protected state was not complete")
            for rank, box in each.lost_boxes(lost) if each.is_valid else []:
                patch = ", ".join(f"{low}:{high}" for low, high in box)
                texts.append(f"[{patch}] of {what} which rank {rank} and its partner had")
        if texts:
            raise LostError(
                "what was protected cannot be brought back, for its nodes "
                f"{sorted(lost)} are lost: {'; '.join(texts)}"
            )


_kept = _Kept()

# Objects whose attribute `group` goes from the group that shrank to what came of it.
followers: weakref.WeakSet[Any] = weakref.WeakSet()

# Called as (group) when the arrays of the group that shrank have come back, or are lost.
moved_listeners: list[Callable[[Group], None]] = []
_living: Group | None = None  # what is left of all ranks, as recover() has it; None: all live


def _move_to(before: Group, group: Group, is_all: bool) -> None:
    """is_all: what is left of all ranks has moved."""
    global _living
    for each in list(followers):
        try:
            if each.group.ranks == before.ranks:
                each.group = group
        except FreedError:
            continue
    if is_all:
        _living = group
        for listener in moved_listeners:
            listener(group)


def is_hurt(group: Group) -> bool:
    """Whether a member has died, as far as this rank has heard, or the group makes room for more.
    Not collective."""
    return _kept.grows or not _kept.parted.union(_core.failed()).isdisjoint(group.ranks)


def living() -> Group:
    """The group of all ranks, without those that died before a recover()."""
    return _core.world() if _living is None else _living


def goes_on() -> bool:
    return _kept.goes_on


def spares() -> int:
    """How many the job had at its start."""
    return _kept.spares


def joined(on_failure: str) -> None:
    """How this process has joined its job."""
    global _living
    _living = None
    _kept.goes_on = on_failure == "continue"
    _kept.ranks = sum(len(_core.node_ranks(node)) for node in range(_core.nodes()))
    _kept.spares = _kept.ranks - _core.size()
    _kept.is_newcomer = _core.is_spare()
    if _kept.is_newcomer:
        atexit.register(end_if_apart)


def end_if_apart() -> None:
    """The program of a spare ends. The others wait for one that never came to them: it dies, and
    they wait no longer."""
    if _core.initialized() and has_not_joined():
        _end_alone(NOT_JOINED)


def _end_alone(why: str) -> NoReturn:
    """Of a newcomer. The others hear of its death, and wait for it no longer."""
    with contextlib.suppress(Exception):  # closed, or a full disk
        sys.stdout.flush()
    os.write(2, f"skerry: rank {_core.rank()}: {why}\n".encode())
    os._exit(1)


NOT_JOINED = (
    "this spare was taken in, and its program has ended without joining the others: it calls "
    "sk.protect(), sk.go_on() or loops over sk.steps(), or the refill() of its world"
)


def has_not_joined() -> bool:
    return _kept.is_newcomer and (_kept.told is not None or not _core._has_refilled())


def is_newcomer() -> bool:
    """Whether this rank was a spare, and has not got the protected state yet."""
    return _kept.is_newcomer


def join(loop: Any, arrays: Sequence[Any], timeout: float) -> bool:
    """Of a newcomer that has come to that loop: see _Kept.join()."""
    _kept.give(arrays)
    return _kept.join(loop, False, timeout)


def join_making(timeout: float) -> Group:
    """Of a newcomer whose program takes the arrays that the others have: makes them. Collective."""
    _kept.join(None, True, timeout)
    return _kept.group_of(())


def next_loop() -> int:
    _kept.loops += 1
    return _kept.loops


@contextmanager
def attempts() -> Iterator[None]:
    """A go_on() runs: it has a place as a loop has, and so has all that it does."""
    if _kept.within is not None:
        yield
        return
    number = next_loop()
    _kept.within = 2 * number
    try:
        yield
    finally:
        _kept.within, _kept.loops = None, number


# ---- what the program calls ----------------------------------------------------------------------


def protect(arrays: Sequence[Any] = (), *, partner: int = 1, **values: Any) -> None:
    """Makes what all protected arrays hold now the state that recover() goes back to, with
    on_failure="continue". `arrays` are added to the protected ones: Arrays or GhostArrays of any
    shape and dtype, or arrays of skerry.xp, of one group. Each member copies its block, and sends
    the tiles that changed to a member on the node `partner` further; 0: to none. `values`: small
    ones of this rank, for kept(). The new state is valid on all members or on none. A mirrored
    array's copies must be equal. Begins and ends with a sync. Collective. Errors: InvalidError (no
    partner: one node; or members that disagree), UnsupportedError, DtypeError, NoMemoryError,
    PeerDeadError, and what copying a value raises; on the others that is an InvalidError."""
    begin = time.monotonic()
    if _kept.is_newcomer:
        _kept.give(arrays)
        if not _kept.join(None, False, -1.0):  # the state and its values are of a later place
            _kept.passed = copy.deepcopy(values)
        return
    _kept.save(_kept.add(arrays, partner, values), None)
    _kept.cost.seconds += time.monotonic() - begin


def protect_for(loop: Any, arrays: Sequence[Any], partner: int, **values: Any) -> None:
    """As protect(): the state is of that loop."""
    begin = time.monotonic()
    _kept.save(_kept.add(arrays, partner, values), loop)
    _kept.cost.seconds += time.monotonic() - begin


def recover(group: Group | None = None, *, timeout: float = -1.0) -> Group:
    """After a PeerDeadError: shrinks the group of the protected arrays, and brings them back to the
    last valid state, in the same objects, over the new group, which it returns. Views of them, as
    ``a.local``, stay those of the old memory: take them again. Shapes and dtypes stay; blocks are
    others. `group`: what the program has shrunk that group to itself. `timeout` seconds (negative:
    never) after the first member came an error names who is missing. Collective over those that
    live. Errors: LostError (names what cannot come back),
    TimeoutError, NoMemoryError, InvalidError."""
    return _kept.recover(group, timeout)


def kept(name: str, default: Any = None) -> Any:
    """A copy of the value of that name in the last valid state, or `default`. Not collective.
    Errors: none."""
    values = _kept.passed if _kept.is_newcomer else _kept.values
    return copy.deepcopy(values.get(name, default))


def protection() -> Protection:
    """What protecting and recovering have cost this rank. Not collective. Errors: none."""
    return Protection(**vars(_kept.cost))


def own_state(loop: object) -> None:
    """The valid state is of that loop. Not collective."""
    _kept.loop = loop


def is_state_of(loop: object) -> bool:
    return _kept.loop is loop


def protected_group(arrays: Sequence[Any]) -> Group:
    """The group of the protected arrays, or of `arrays` if none are."""
    return _kept.group_of(arrays)


def shrink_again(group: Group, timeout: float) -> Group:
    """What is left of `group`, which protects nothing now. Collective over that."""
    is_all = group.ranks == living().ranks
    shrunk = group.shrink(timeout)
    _move_to(group, shrunk, is_all)
    _kept.forget(shrunk)
    return shrunk


def given_arrays() -> list[Any]:
    """Of a newcomer: what the program has protected so far."""
    return list(_kept.given)


def would_protect(arrays: Sequence[Any], partner: int) -> list[Any]:
    """What is protected, and then those of `arrays` that are not yet. Collective. Errors: those of
    protect()."""
    _, fresh, _ = _kept.agreed_on(arrays, partner, {})
    return protected_arrays() + [form.array for form in fresh]


def protected_arrays() -> list[Any]:
    """In the order in which they were added."""
    return [each.form.array for each in _kept.copies]


def protect_one(array: Any, partner: int) -> None:
    """What the method of an array does."""
    if _kept.is_newcomer:
        _kept.give([array])
    else:
        _kept.add([array], partner, {})


def _protect(self: Array, partner: int = 1) -> None:
    """From the next sk.protect() on the array comes back after a death: see there. Of any shape
    and dtype. Collective. Errors: those of sk.protect()."""
    protect_one(self, partner)


setattr(Array, "protect", _protect)  # the class is in C++
