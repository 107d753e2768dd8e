"""Copies of what NumPy has as a view, such as a reshape whose elements move to other ranks. They
may not be written, and follow what is written into the array that they came from.

A write notes that divided ones are late. The next collective use makes them again, in the same
memory, so that views of them follow too. All ranks see the same writes and uses, so all make them
again in the same call. What a rank does alone (`x.local`, print) cannot, and says so.

Whole ones are small, and a rank may use them alone. So the write itself makes them again. Garbage
collectors may differ: the ranks ask one another whether somebody still has the copy.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import skerry as sk
from . import _exchange, _lazy
from ._type import Array
from ._types import Block

_MOST_WHOLE = 64  # that follow one memory before the ranks ask whether somebody still has them


class Copy:
    """Where a copy is, and who looks at it."""

    __slots__ = ("block", "layout", "memory", "first", "late_by")

    def __init__(self, x: Array) -> None:
        self.block: Block | None = x._evaluate()  # None: nobody has it here any more
        self.layout = x.layout
        self.memory = weakref.ref(x._memory)
        self.first = weakref.ref(x)  # the array that is no view
        # Of what was written last since it was made. None: it is not late.
        self.late_by: weakref.ref[Follower] | None = None

    def arrays(self) -> Iterator[Array]:
        """The copy and its views, as far as they are in use."""
        memory, first = self.memory(), self.first()
        for each in [first, *(memory.views if memory is not None else ())]:
            if each is not None:
                yield each


class Follower:
    """A copy that follows what is written into a memory, and how it is made. That memory has it;
    while it is late, so have the arrays that wait for it. No memory keeps another one."""

    __slots__ = ("copy", "source", "path", "make", "before", "owner", "reshapes",
                 "__weakref__")  # fmt: skip

    def __init__(
        self, copy: Copy, x: Array, make: Make, before: Follower | None, owner: Any
    ) -> None:
        self.copy = copy
        self.source = Array(x._evaluate(), x.layout)  # x, with a memory of its own
        self.path = _path(x)
        self.make = make
        self.before = before  # of x, which is a copy itself
        self.owner = weakref.ref(owner)  # the memory that it follows
        self.reshapes = False  # make() alone: so does that of a copy of this copy

    def is_late(self) -> None:
        """What it follows was written."""
        if self.before is not None:
            self.before.is_late()
        copy = self.copy
        if copy.late_by is not None and copy.late_by() is self:
            return
        copy.late_by = weakref.ref(self)
        for each in copy.arrays():
            block = each._block
            if block is not None:
                each._block, each.dtype = None, block.dtype
                each._expression, each._ahead = Late(self, block), None
            elif type(each._expression) is Late:
                each._expression.follower = self

    def renew(self) -> None:
        """Makes it again, where it lies, if it is late. Collective."""
        if self.copy.late_by is None:
            return
        self.write()
        self.copy.late_by = None

    def write(self) -> None:
        """Makes it again, where it lies. Collective."""
        if self.before is not None:
            self.before.renew()
        copy = self.copy
        values = self.make(self.source, copy.layout)
        if copy.block is not None:
            _lazy.settle(copy.block)
            copy.block[...] = values


Make = Callable[[Array, Any], Block]  # (source, layout): the own block of a copy; collective


class Late:
    """What an array has in place of an expression while the copy that it shows is late."""

    __slots__ = ("follower", "block")

    def __init__(self, follower: Follower, block: Block) -> None:
        self.follower, self.block = follower, block

    def evaluate(self) -> Block:
        """The block, with what has been written since. Collective."""
        self.follower.renew()
        return self.block


def follow(out: Array, x: Array, make: Make, reshapes: bool) -> None:
    """`out`, a copy that make() has made of x, follows x from now on, and what x follows.
    `reshapes`: make() gives the same of x in another shape. Collective."""
    copy, memory = Copy(out), out._memory
    memory.follows, memory.families = [], []
    for owner, before in [*((each.owner(), each) for each in _of(x._memory)), (x._memory, None)]:
        if owner is None:
            continue
        follower = Follower(copy, x, make, before, owner)
        follower.reshapes = reshapes
        if before is not None and before.reshapes and reshapes and not x._is_view:
            follower.source, follower.path = before.source, before.path  # no chain of copies
            follower.before = before.before
        _enter(owner, follower, memory)
        memory.follows.append(weakref.ref(follower))


def _enter(owner: Any, follower: Follower, memory: Any) -> None:
    """The owner has the follower until nobody uses the memory of the copy. Collective."""
    key, known = id(follower), weakref.ref(owner)

    def end(_: Any) -> None:
        left = known()
        followers = (None if left is None else left.followers) or {}
        found = followers.get(key)
        if found is not None and found[0].copy.layout.whole:
            found[0].copy.block = None  # until all agree
        elif found is not None:
            del followers[key]

    if owner.followers is None:
        owner.followers, owner.family = {}, weakref.WeakSet()
    owner.followers[key] = follower, weakref.ref(memory, end)
    owner.family.add(memory)
    memory.families.append(owner.family)
    wholes = [each for each, _ in owner.followers.values() if each.copy.layout.whole]
    if len(wholes) % _MOST_WHOLE == 0 and follower.copy.layout.whole:
        _of_use(owner, wholes)


def _of_use(memory: Any, wholes: list[Follower]) -> list[Follower]:
    """Those of the whole copies that somebody has; the others are forgotten. Collective."""
    told = _exchange.agree([each.copy.block is not None for each in wholes]).sum(axis=0).tolist()
    used = []
    for each, count in zip(wholes, told, strict=True):
        if count:
            used.append(each)
        else:
            memory.followers.pop(id(each), None)
    return used


def are_late(memory: Any) -> None:
    """The copies that follow what lies there, which was written. Collective."""
    followers = [each for each, _ in memory.followers.values()]
    for each in followers:
        if not each.copy.layout.whole:
            each.is_late()
        elif each.before is not None:  # which nobody may have any more but this one
            each.before.is_late()
    wholes = [each for each in followers if each.copy.layout.whole]
    for each in _of_use(memory, wholes) if wholes else ():
        each.write()


def _of(memory: Any) -> list[Follower]:
    """What follows, in this memory, others that are still in use."""
    known = [reference() for reference in memory.follows or ()]
    return [each for each in known if each is not None and each.owner() is not None]


def shows_others(x: Array) -> bool:
    """Whether x is a copy, or shows one, of what is still in use, or of what another copy that is
    in use came from. Not collective."""
    memory = x._memory
    return bool(_of(memory)) or any(
        other is not memory and all(each.owner() is not memory for each in _of(other))
        for family in memory.families
        for other in family
    )


# ---- arrays that move ----------------------------------------------------------------------------


def _path(x: Array) -> list[tuple[Any, Any]] | None:
    """What makes x of the array that is no view; None: nobody knows."""
    path: list[tuple[Any, Any]] = []
    while x._is_view:
        if x._recipe is None:
            return None
        function, x, argument = x._recipe
        path.insert(0, (function, argument))
    return path


def moved(x: Array, block: Block, layout: Any) -> None:
    """x, which is no view, lies elsewhere now, and its views with it."""
    for own in _of(x._memory):
        own.copy.block, own.copy.layout = block, layout
    for follower, _ in list((x._memory.followers or {}).values()):
        memory = follower.copy.memory()
        for each in [follower] if memory is None else {follower, *_of(memory)}:
            from_memory = each.owner() if each.before is None else each.before.copy.memory()
            if from_memory is not x._memory:
                continue
            if each.path is None:
                _refuse(each, "moved: take it again")
                continue
            source = x
            for function, argument in each.path:
                source = function(source, argument)
            each.source = Array(source._evaluate(), source.layout)


def has_gone_back(memory: Any) -> None:
    """What lies there comes back as it was, perhaps on fewer ranks. What follows it cannot."""
    for follower, _ in list((memory.followers or {}).values()):
        _refuse(follower, "came back: take it again")
    memory.followers = None


def _refuse(follower: Follower, why: str) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise sk.InvalidError(
            f"this array is a copy of what NumPy shows as a view of an array that {why}"
        )

    follower.make = refuse
    follower.is_late()


# ---- uses ----------------------------------------------------------------------------------------


def is_late(x: Array) -> bool:
    """Whether what x shows was written since it was copied. Not collective."""
    return x._block is None and type(x._expression) is Late


def in_time(x: Array) -> Array:
    """x, made again if it is late. Collective."""
    if type(x._expression) is Late:
        x._evaluate()
    return x


def check_alone(x: Array, what: str) -> None:
    """InvalidError if x is late: this rank cannot make it again alone. Not collective."""
    if is_late(x):
        raise sk.InvalidError(
            f"{what}: this array is a copy of what NumPy shows as a view, and what it came from "
            "was written since. All ranks bring it up to date in a call: take x.copy() on all"
        )
