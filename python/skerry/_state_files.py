"""Protected states in files: for when owner and partner of a block die together, or the job.

A file is a .npz with checksums: the bytes of each array's blocks, one after another, and a note
that says what they are: a line with its version, and the rest pickled. It is written from the
copies in memory, by all members. The first one has a lock on a hidden file beside it, so that no
other job writes there or reads meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pickle
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _core, _newcomers
from ._core import Array, Group
from ._files import check_crc, remove_unfinished, save_whole, Source, Together, Writer
from ._formats import Npz, Place
from ._parts import Bounds
from ._protected import fill, Form, FORMS, _Kept, _kept
from ._together import gathered
from .errors import FileError, InvalidError

_NOTE = "note"
_HEAD = b"skerry state, version "
_VERSION = 1  # of a note, and of what it says of the arrays: one more with each change


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
    note = pickle.dumps(_Note(kept.values, kept.beside, alike, arrays))
    return _HEAD + f"{_VERSION}\n".encode() + note


def _told_by(note: bytes, path: Path) -> _Note:
    """FileError if it is none, or of another version."""
    head, _, pickled = note.partition(b"\n")
    if not head.startswith(_HEAD):
        raise FileError(f"{path} has no state of a loop: give another file, or remove it")
    version = head.removeprefix(_HEAD).decode("ascii", "replace")
    if version != str(_VERSION):
        raise FileError(
            f"{path} has a state of version {version}, and this Skerry reads version {_VERSION}: "
            "go on with the Skerry that has written it, give another file, or remove it"
        )
    told: _Note = pickle.loads(pickled)
    return told


# ---- whose a path is -----------------------------------------------------------------------------

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of a file system


class _Lock:
    """On a file beside `path`: no other job has the path meanwhile. One that dies leaves the file,
    which is nobody's then."""

    def __init__(self, path: Path, token: int) -> None:
        self.path, self._pid = path.with_name(f".{path.name}.lock"), os.getpid()
        self.is_sure = True  # no other job has the path
        self._opened: int | None = None
        while True:
            self._opened = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666
            )
            try:
                fcntl.flock(self._opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = os.pread(self._opened, 999, 0).decode("utf8", "replace")
                owner, _, where = text.partition(" ")
                self._close()
                if owner == str(token):  # a rank of this job that has died, as far as is known
                    return
                raise FileError(
                    f"{path} is another job's or loop's, whose states are written there by "
                    f"{where or 'a process that has just begun'}: give each a file of its own, or "
                    "end that one first"
                ) from None
            except OSError as error:
                self._close()
                if error.errno not in _NO_LOCKS:
                    raise
                self.path.unlink(missing_ok=True)
                self.is_sure = False
                return
            if self.is_held():
                break
            self._close()  # its owner has removed it meanwhile
        text = f"{token} process {self._pid} on {socket.gethostname()}"
        os.ftruncate(self._opened, 0)
        os.pwrite(self._opened, text.encode(), 0)

    def is_held(self) -> bool:
        """Nobody has removed it."""
        if self._opened is None:
            return True
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._opened))
        except FileNotFoundError:
            return False

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            os.close(opened)

    def release(self) -> None:
        if self._opened is not None and self._pid == os.getpid():  # not in a child by fork
            with contextlib.suppress(OSError):
                if self.is_held():
                    self.path.unlink()
            self._close()

    def __del__(self) -> None:
        self.release()


class StateFile:
    """The file of one loop, and this member's part in having the path."""

    def __init__(self, path: Path, steps: int) -> None:
        self.path, self.steps = path, steps
        self._token = 0  # of the loop, the same on all members; 0: not known
        self._ranks: list[int] | None = None  # who has met here last
        self._lock: _Lock | None = None  # of the first member

    def _meet(self, group: Group) -> None:
        """Gets the path for this loop. An error on all if another job has it. Collective."""
        if self._ranks == group.ranks:
            return
        known, offered = gathered(np.array([self._token, 1 + secrets.randbits(60)]), group).T
        self._token = int(known.max() or offered[0])  # the others of a spare know it
        Together(self.path, group)(lambda: self._have(group))
        self._ranks = group.ranks

    def _have(self, group: Group) -> None:
        """Of the first member: has the lock from now on."""
        if _core.rank() != group.ranks[0] or (self._lock is not None and self._lock.is_held()):
            return
        if not self.path.parent.is_dir():
            raise FileError(
                f"{self.path}: there is no folder {self.path.parent}: make it, or give another file"
            )
        self.release()
        try:
            self._lock = _Lock(self.path, self._token)
            if self._lock.is_sure:
                remove_unfinished(self.path)
        except FileError:
            raise
        except OSError as error:
            raise FileError(
                f"no state can be written to {self.path}: {error}: make room there, or give a file "
                "in a folder in which the job may write"
            ) from error

    def release(self) -> None:
        """The path is free for others. Not collective."""
        self._ranks = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def exists(self, group: Group) -> bool:
        """The same on all members. Collective."""
        self._meet(group)
        return Together(self.path, group)(
            self.path.exists,
            f"some members see {self.path}, and others do not: give a path that all hosts share",
        )

    def write(self) -> None:
        """As _write()."""
        group = _kept.group
        assert group is not None
        self._meet(group)
        _write(self.path, group, lambda: self._have(group))

    def read(self, arrays: Sequence[Any], group: Group, is_lost: bool) -> dict[str, Any]:
        """As _read()."""
        opened: list[int] = []
        try:
            return _read(self, opened, arrays, group, is_lost)
        finally:
            for descriptor in opened:
                os.close(descriptor)


# ---- writing and reading -------------------------------------------------------------------------


def _write(path: Path, group: Group, begin: Callable[[], None]) -> None:
    """The valid state, to `path`, on the disk when this returns. What was there stays until then.
    `begin` is done first. Collective over the protected arrays' group. Errors: FileError,
    PeerDeadError."""
    kept = _kept
    assert kept.slot is not None
    writer = Writer(path, group, durable=True)
    mine: list[bytes] = []

    def note_it() -> None:
        begin()
        try:
            mine.append(_note_of(kept, group) if writer.leads else b"")
        except Exception as error:  # the values are the program's objects
            raise FileError(
                f"the state was not written to {path}, since its values cannot be pickled, "
                f"{error!r}: keep numbers, strings and NumPy arrays in step.values"
            ) from error

    writer.together(note_it)
    text = pickle.loads(_newcomers.tell(mine[0], group.ranks[0], group))
    note = np.frombuffer(text, np.uint8)
    own = note if writer.leads else note[:0]
    sources = {_NOTE: _source([note.size] + [0] * (len(group) - 1), writer.member, own)}
    for i, each in enumerate(kept.copies):
        sizes = _sizes(each, group)
        block = each.segment.local[kept.slot * each.room[each.me] :][: sizes[each.me]]
        sources[f"array{i}"] = _source(sizes, writer.member, block)
    described = {name: (source.shape, source.dtype, None) for name, source in sources.items()}
    try:
        save_whole(writer, Npz(), described, None, sources)
    except FileError as error:
        if writer.is_placed:
            raise FileError(
                f"the state is at {path}, but its folder may lose it if the system crashes: "
                f"{error}. Make room there, or give another file"
            ) from error
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


def _read(
    file: StateFile, opened: list[int], arrays: Sequence[Any], group: Group, is_lost: bool
) -> dict[str, Any]:
    """Brings `arrays` to the state in `file`, and returns its small values. is_lost: they are made
    anew over `group`; otherwise they are of it already. All or none. `opened` gets the descriptor
    through which all is read. Collective. Errors: FileError (damaged, of another version, or no
    such state), InvalidError (of other arrays, or of a longer loop), PeerDeadError."""
    path, together = file.path, Together(file.path, group)
    parts: dict[str, Any] = {}
    notes: list[_Note] = []
    forms = [FORMS[type(array)](array) for array in arrays]

    def look() -> list[tuple[str, int]]:
        opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        parts.update(Npz().open(path, "r", opened[0]))
        if _NOTE not in parts or not all(isinstance(one, Place) for one in parts.values()):
            raise FileError(f"{path} has no state of a loop: give another file, or remove it")
        return [(name, one.crc) for name, one in parts.items()]

    def read_note() -> None:
        told = np.empty(parts[_NOTE].shape, np.uint8)
        parts[_NOTE].read(((0, told.size),), told, _no_progress)
        note = _told_by(told.tobytes(), path)
        own, stored = [str(form) for form in forms], [one.text for one in note.arrays]
        if own != stored:
            raise InvalidError(
                f"{path} has the state of {stored}, and the loop protects {own}: give another "
                "file, or remove it"
            )
        if note.values["step"] > file.steps:
            raise InvalidError(
                f"{path} has the state after {note.values['step']} steps, and the loop has "
                f"{file.steps}: give it more steps or another file, or remove this one"
            )
        notes.append(note)

    together(look, "the members found different files: give a path that all hosts share")
    for stored in parts.values():
        check_crc(stored, group, together)
    together(read_note)
    note, fresh = notes[0], list[Form]()

    def make() -> None:
        for one in note.arrays:
            fresh.append(one.kind(one.kind.made(one.description, group)))

    def bring_back() -> None:
        for i, (one, form) in enumerate(zip(note.arrays, fresh, strict=True)):
            gets = _gets(parts[f"array{i}"], one.sizes)
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
