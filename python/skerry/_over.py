"""The package over one group: programs written for all ranks run over those that live."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from . import _core
from ._core import Array, Group
from ._protected import followers, recover
from ._steps import go_on

_Result = TypeVar("_Result")

# What takes group=, or as its first argument; and what takes a root.
WITH_GROUP = frozenset(
    "Condition Counter Mutexes Segment Semaphore allgather allreduce allreduce_by allreduce_nb "
    "alltoall alltoallv asarray barrier barrier_nb broadcast broadcast_nb cyclic empty exscan full "
    "ghosts load ones reduce reduce_scatter scan sync tasks window window_dynamic window_over "
    "zeros".split()
)
_GROUP_FIRST = frozenset(("barrier", "barrier_nb", "sync"))
_WITH_ROOT = frozenset(("broadcast", "broadcast_nb", "reduce"))


class Over:
    """What over() makes. `group` may be assigned."""

    def __init__(self, group: Group) -> None:
        self.group = group
        followers.add(self)

    def rank(self) -> int:
        """The place of this rank in the group. Not collective. Errors: InvalidError (no member)."""
        return self.group.index(_core.rank())

    def size(self) -> int:
        """Members. Not collective. Errors: FreedError."""
        return len(self.group)

    def world(self) -> Group:
        """The group. Not collective. Errors: none."""
        return self.group

    def nodes(self) -> int:
        """Nodes that members are on. Not collective. Errors: FreedError."""
        return len({_core.node(rank) for rank in self.group.ranks})

    def node_ranks(self) -> list[int]:
        """Places of the members on this rank's node. Not collective. Errors: FreedError."""
        return [at for at, rank in enumerate(self.group.ranks) if _core.same_node(rank)]

    def recover(self, group: Group | None = None, *, timeout: float = -1.0) -> Group:
        """As recover(), and goes over to the group that it returns. Collective. Errors: those of
        recover()."""
        self.group = recover(group, timeout=timeout)
        return self.group

    def go_on(
        self, attempt: Callable[[Group, list[Any]], _Result], *, timeout: float = -1.0
    ) -> _Result:
        """As go_on(), and goes over to the group of each attempt. Collective. Errors: those of
        go_on()."""

        def moved(group: Group, arrays: list[Any]) -> _Result:
            self.group = group
            return attempt(group, arrays)

        return go_on(moved, timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        value = getattr(sys.modules[__package__], name)
        if name not in WITH_GROUP:
            return value

        def call(*given: Any, **options: Any) -> Any:
            is_told = given and (name in _GROUP_FIRST or isinstance(given[0], Array))
            if not is_told:
                options.setdefault("group", self.group)
            if name in _WITH_ROOT:
                bound = inspect.signature(value).bind(*given, **options)
                bound.arguments["root"] = self.group.rank(bound.arguments.get("root", 0))
                return value(*bound.args, **bound.kwargs)
            return value(*given, **options)

        return call


def over(group: Group) -> Over:
    """The package with `group` in place of all ranks, for programs that do not say group= in each
    call:

        s = sk.over(sk.world())
        ...              # s.zeros(...), s.allreduce(...), s.rank() == 0
        s.recover()      # and after a death: the same over those that live

    So do ``sk.recover()`` and the loops of ``s.steps(...)``, if the arrays are of its group.
    ``s.rank()``, ``s.size()`` and a `root` are places in the group; collectives, arrays and
    segments are of the group if you give none; everything else is the package's. Methods of arrays
    and segments take ranks of the job, as ever. Not collective. Errors: none."""
    return Over(group)
