"""Copies of what NumPy has as a view, such as a reshape whose elements move to other ranks. They
may not be written, and follow what is written into the array that they came from.

A write notes that they are late. The next collective use of one makes it again, in the same memory,
so that views of it follow too. All ranks see the same writes and uses, so all make it again in the
same call. What a rank does alone (`x.local`, print) cannot, and says so.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import skerry as sk
from . import _lazy
from ._type import Array
from ._types import Block


class Copy:
    """Where a copy is, and who looks at it."""

    __slots__ = ("block", "layout", "memory", "first")

    def __init__(self, x: Array) -> None:
        self.block, self.layout = x._evaluate(), x.layout
        self.memory = weakref.ref(x._memory)
        self.first = weakref.ref(x)  # the array that is no view

    def arrays(self) -> Iterator[Array]:
        """The copy and its views, as far as they are in use."""
        memory, first = self.memory(), self.first()
        for each in [first, *(memory.views if memory is not None else ())]:
            if each is not None:
                yield each
                yield from each._whole_views


class Follower:
    """A copy that follows what is written into a memory, and how it is made. That memory has it;
    while it is late, so have the arrays that wait for it. No memory keeps another one."""

    __slots__ = ("copy", "source", "make", "before", "owner", "late", "__weakref__")

    def __init__(
        self,
        copy: Copy,
        source: Array,
        make: Callable[[Array, Any], Block],
        before: Follower | None,
        owner: Any,
    ) -> None:
        self.copy = copy
        self.source = source  # the array that was copied, with a memory of its own
        self.make = make  # gives the own block of the copy in a layout; collective
        self.before = before  # of what was copied, which is a copy itself
        self.owner = weakref.ref(owner)  # the memory that it follows
        self.late = False

    def is_late(self) -> None:
        """What it follows was written."""
        self.late = True
        if self.before is not None:
            self.before.is_late()
        for each in self.copy.arrays():
            block = each._block
            if block is not None:
                _ = each.layout  # without its block a whole array could not tell
                each._block, each.dtype = None, block.dtype
                each._expression, each._ahead = Late(self, block), None

    def renew(self) -> None:
        """Makes it again, where it is late. Collective."""
        if not self.late:
            return
        if self.before is not None:
            self.before.renew()
        values = self.make(self.source, self.copy.layout)
        _lazy.settle(self.copy.block)
        self.copy.block[...] = values
        self.late = False


class Late:
    """What an array has in place of an expression while the copy that it shows is late."""

    __slots__ = ("follower", "block")

    def __init__(self, follower: Follower, block: Block) -> None:
        self.follower, self.block = follower, block

    def evaluate(self) -> Block:
        """The block, with what has been written since. Collective."""
        self.follower.renew()
        return self.block


def follow(out: Array, x: Array, source: Array, make: Callable[[Array, Any], Block]) -> None:
    """`out`, a copy, follows x from now on, and what x follows. `source`: x, with a memory of its
    own; make(source, layout) gives the own block of `out`."""
    copy = Copy(out)
    followed = [(known.owner(), known) for known in _of(x._memory)]
    out._memory.follows = [
        weakref.ref(_enter(owner, Follower(copy, source, make, before, owner), out._memory))
        for owner, before in [*followed, (x._memory, None)]
        if owner is not None
    ]


def _enter(owner: Any, follower: Follower, memory: Any) -> Follower:
    """The owner has it until nobody uses the memory of the copy."""
    key, known = id(follower), weakref.ref(owner)

    def end(_: Any) -> None:
        left = known()
        if left is not None and left.followers is not None:
            left.followers.pop(key, None)

    if owner.followers is None:
        owner.followers = {}
    owner.followers[key] = follower, weakref.ref(memory, end)
    return follower


def _of(memory: Any) -> list[Follower]:
    """What follows, in this memory, others that are still in use."""
    known = [reference() for reference in memory.follows or ()]
    return [each for each in known if each is not None and each.owner() is not None]


def follows(x: Array) -> bool:
    """Whether x is a copy, or shows one, of what is still in use. Not collective."""
    return bool(_of(x._memory))


def are_late(memory: Any) -> None:
    """The copies that follow what lies there, which was written. Collective."""
    for follower, _ in list(memory.followers.values()):
        follower.is_late()


def moved(memory: Any, block: Block, layout: Any) -> None:
    """What lay in the memory lies elsewhere now. Others may write it there without telling, so what
    followed it does not any more."""
    for own in _of(memory):
        own.copy.block, own.copy.layout = block, layout
    memory.followers = None


def has_gone_back(memory: Any) -> None:
    """What lies there comes back as it was, perhaps on fewer ranks. What follows it cannot."""

    def refuse(*_: Any) -> NoReturn:
        raise sk.InvalidError(
            "this array is a copy of what NumPy shows as a view of an array that came back: take "
            "it again"
        )

    for follower, _ in list((memory.followers or {}).values()):
        follower.make = refuse
        follower.is_late()


def is_late(x: Array) -> bool:
    """Whether what x shows was written since it was copied. Not collective."""
    return type(x._expression) is Late


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
