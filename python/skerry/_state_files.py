"""Protected states in files: for when owner and partner of a block die together, or the job.

A file is a .npz with checksums: the bytes of each array's blocks, one after another, and a pickled
note that says what they are. It is written from the copies in memory, by all members.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _core, _newcomers
from ._core import Array, Group
from ._files import check_crc, save_whole, Source, stored_at, Together, Writer
from ._formats import format_of
from ._parts import Bounds
from ._protected import fill, Form, FORMS, _Kept, _kept
from .errors import FileError, InvalidError

_NOTE = "note"


class _Described(NamedTuple):
    kind: type[Form]
    description: tuple[Any, ...]
    text: str
    dtype: np.dtype[Any]
    boxes: list[Bounds]
    sizes: list[int]  # bytes of each box that are in the file; 0: they are elsewhere in it, too


class _Note(NamedTuple):
    values: dict[str, Any]  # of the first member
    beside: dict[Any, Any]
    alike: dict[Any, Any]
    arrays: list[_Described]


def _sizes(each: Any, group: Group) -> list[int]:
    """A mirrored array is whole on the first member's node."""
    node = _core.node(group.ranks[0])
    return [
        n if not each.mirrored or _core.node(rank) == node else 0
        for rank, n in zip(group.ranks, each.bytes, strict=True)
    ]


def _note_of(kept: _Kept, group: Group) -> bytes:
    arrays = [
        _Described(
            each.form.kind,
            each.form.description(),
            str(each.form),
            each.dtype,
            each.boxes,
            _sizes(each, group),
        )
        for each in kept.copies
    ]
    alike = {kind: kind.alike() for kind in FORMS.values()}
    return pickle.dumps(_Note(kept.values, kept.beside, alike, arrays))


def write(path: Path) -> None:
    """The valid state, to `path`, on the disk when this returns. What was there stays until then.
    Collective over the protected arrays' group. Errors: FileError, PeerDeadError."""
    kept, group = _kept, _kept.group
    assert group is not None and kept.slot is not None
    writer = Writer(path, group, durable=True)
    mine: list[bytes] = []
    writer.together(lambda: mine.append(_note_of(kept, group) if writer.leads else b""))
    text = pickle.loads(_newcomers.tell(mine[0], group.ranks[0], group))
    note = np.frombuffer(text, np.uint8)
    own = note if writer.leads else note[:0]
    sources = {_NOTE: _source([note.size] + [0] * (len(group) - 1), writer.member, own)}
    for i, each in enumerate(kept.copies):
        sizes = _sizes(each, group)
        block = each.segment.local[kept.slot * each.room[each.me] :][: sizes[each.me]]
        sources[f"array{i}"] = _source(sizes, writer.member, block)
    kind = format_of(path)
    described = {name: (source.shape, source.dtype, None) for name, source in sources.items()}
    try:
        save_whole(writer, kind, described, None, sources)
    except FileError as error:
        raise FileError(
            f"the state was not written: {error}. What was at {path} before is as it was: make "
            "room there, or give another file"
        ) from error


def _source(sizes: Sequence[int], member: int, block: NDArray[np.uint8]) -> Source:
    low = sum(sizes[:member])
    bounds = ((low, low + block.size),)
    return Source(
        (sum(sizes),), np.dtype(np.uint8), bounds, block, blocks=True, ordered=True
    )


def exists(path: Path, group: Group) -> bool:
    """The same on all members. Collective."""
    found: list[bool] = []

    def look() -> bool:
        found.append(path.exists() or path.with_name(f".{path.name}.old").exists())
        return found[0]

    Together(path, group)(
        look, f"some members see {path}, and others do not: give a path that all hosts share"
    )
    return found[0]


def read(path: Path, arrays: Sequence[Any], group: Group, is_lost: bool) -> dict[str, Any]:
    """Brings `arrays` to the state at `path`, and returns its small values. is_lost: they are made
    anew over `group`; otherwise they are of it already. All or none. Collective. Errors: FileError
    (damaged, or no such state), InvalidError (of other arrays), PeerDeadError."""
    together = Together(path, group)
    opened: list[dict[str, Any]] = []
    notes: list[_Note] = []
    forms = [FORMS[type(array)](array) for array in arrays]

    def look() -> tuple[str, ...]:
        stored = stored_at(path)[2]
        if _NOTE not in stored:
            raise FileError(f"{path} has no state of a loop: give another file, or remove it")
        opened.append(stored)
        return tuple(stored)

    def read_note() -> None:
        told = np.empty(opened[0][_NOTE].shape, np.uint8)
        opened[0][_NOTE].read(((0, told.size),), told, _no_progress)
        note = pickle.loads(told.tobytes())
        if not isinstance(note, _Note):
            raise FileError(f"{path} has no state of a loop: give another file, or remove it")
        own, stored = [str(form) for form in forms], [one.text for one in note.arrays]
        if own != stored:
            raise InvalidError(
                f"{path} has the state of {stored}, and the loop protects {own}: give another "
                "file, or remove it"
            )
        notes.append(note)

    together(look, "the members found different files: give a path that all hosts share")
    for stored in opened[0].values():
        check_crc(stored, group, together)
    together(read_note)
    note, fresh = notes[0], list[Form]()

    def make() -> None:
        for one in note.arrays:
            fresh.append(one.kind(one.kind.made(one.description, group)))

    def bring_back() -> None:
        for i, (one, form) in enumerate(zip(note.arrays, fresh, strict=True)):
            gets = _gets(opened[0][f"array{i}"], one.sizes)
            for wanted, view in form.targets():
                fill(one.boxes, one.dtype, wanted, view, gets)

    if is_lost:
        together(make)
    else:
        for form in forms:
            is_array = isinstance(form.storage, Array)
            fresh.append(
                form if is_array else form.kind(form.kind.made(form.description(), group))
            )
    together(bring_back)
    for kind in FORMS.values():
        if is_lost:
            kind.set_alike(note.alike.get(kind))
        kind.set_beside(note.beside.get(kind))
    for old, new in zip(forms, fresh, strict=True):
        if old is not new:
            old.become(new.array)
    _core.sync(group)
    return note.values


def _no_progress(nbytes: int) -> None:
    pass


def _gets(stored: Any, sizes: Sequence[int]) -> list[Callable[[int, Any], object] | None]:
    """Of each box: reads its bytes from an offset on; None: it is elsewhere in the file, too."""
    gets: list[Callable[[int, Any], object] | None] = []
    low = 0
    for size in sizes:

        def get(offset: int, out: Any, low: int = low) -> None:
            into = out.reshape(-1).view(np.uint8)
            begin = low + offset
            stored.read(((begin, begin + into.size),), into, _no_progress)

        gets.append(get if size else None)
        low += size
    return gets
