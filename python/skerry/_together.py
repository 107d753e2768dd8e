"""Errors of one member that are errors of all."""

from __future__ import annotations

import zlib

import numpy as np

from . import _core
from .errors import Error, InvalidError
from ._core import Group
from ._types import Block


def agree(
    what: object,
    refused: Error | None = None,
    group: Group | None = None,
    *,
    differ: str | None,
    error: type[Error] = InvalidError,
) -> None:
    """Collective. Raises on every member if one has a `refused` error, or if `what` (anything with
    a repr) differs between members: then an `error` with the text `differ`."""
    mark = 0 if refused else zlib.crc32(repr(what).encode()) + 1
    marks = np.empty(len(group if group is not None else _core.world()), "int64")
    _core._allgather(np.array([mark]), marks, group)
    if refused:
        raise refused
    if not marks.all():
        members = (group if group is not None else _core.world()).ranks
        raise error(f"rank {members[int(marks.argmin())]} refused its part: see its message")
    if (marks != mark).any():
        raise error(differ)


def gathered(values: Block, group: Group) -> Block:
    """The array `values` of every member, along a new first axis; collective."""
    out = np.empty((len(group), *values.shape), values.dtype)
    _core._allgather(values, out, group)
    return out
