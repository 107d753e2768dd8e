"""Arrays in files. _formats.py knows the formats.

A file is written under a hidden name beside its place, and takes its place when all members have
written their parts: exchanged with the old one in one step, where the system can. What fails on one
member is told to all before anybody goes on, so all raise.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._arrays import Irregular, empty
from ._core import Array, Group
from ._formats import Described, format_of, PIECE_BYTES, read_at, SHORT_RUN_BYTES, write_at
from ._parts import block_pieces, Bounds, Box, joined_crc, pieces, share
from ._together import agree, gathered
from .errors import DtypeError, Error, FileError, InvalidError
from ._types import Block

_CHUNK_BYTES = 8 << 20
_Value = TypeVar("_Value")


class Whole(Protocol):
    """A whole array of skerry.xp."""

    @property
    def array(self) -> Array: ...


# ---- steps that all members take, or none --------------------------------------------------------


class Together:
    """Runs a step on this member; then all members raise if one of them could not. The step's
    value must be the same on all if `differ` says what to tell if it is not."""

    def __init__(self, path: Path, group: Group) -> None:
        self.path, self.group = path, group

    def __call__(self, step: Callable[[], _Value], differ: str | None = None) -> _Value:
        value: Any = None
        refused: Error | None = None
        try:
            value = step()
        except Error as error:
            refused = error
        except MemoryError:
            raise
        except Exception as error:  # whatever the libraries raise
            refused = FileError(f"{self.path}: {type(error).__name__}: {error}")
        agree(value if differ else None, refused, self.group, differ=differ, error=FileError)
        return value  # agree() has raised the error, if there was one


class Progress:
    """A bar on the first member's terminal, of what has taken longer than a second: called with
    the bytes that this member has done, of `total`."""

    def __init__(self, what: str, total: int, leads: bool) -> None:
        self.what, self.total, self.done = what, total, 0
        self.shown = leads and sys.stderr is not None and sys.stderr.isatty()
        self.next, self.drawn = time.monotonic() + 1, False

    def __call__(self, nbytes: int) -> None:
        self.done += nbytes
        if self.shown and time.monotonic() > self.next:
            part = min(1, self.done / max(1, self.total))
            bar = ("#" * round(30 * part)).ljust(30)
            sys.stderr.write(f"\r{self.what} [{bar}] {100 * part:3.0f} %")
            sys.stderr.flush()
            self.next, self.drawn = time.monotonic() + 0.1, True

    def end(self) -> None:
        if self.drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _chunk_of(array: Array) -> tuple[int, ...]:
    """The edges of a block of `array`, halved until a chunk is short enough; of a mirrored array,
    which nodes may divide differently, of all of it."""
    grid = [1] * array.ndim if array.mirrored else array.grid
    edges = [max(1, -(-n // blocks)) for n, blocks in zip(array.shape, grid, strict=True)]
    while int(np.prod(edges)) * array.dtype.itemsize > _CHUNK_BYTES and max(edges) > 1:
        longest = max(range(len(edges)), key=edges.__getitem__)
        edges[longest] = (edges[longest] + 1) // 2
    return tuple(edges)


def _chunks(
    shape: tuple[int, ...], chunks: Sequence[int], within: Bounds | None = None
) -> Iterator[tuple[tuple[int, ...], Box]]:
    """(number of the chunk per dimension, its slices, or what of them lies `within` a box)."""
    box = within or tuple((0, n) for n in shape)
    if any(high <= low for low, high in box):
        return
    first_to_last = (
        range(low // n, -(-high // n)) for (low, high), n in zip(box, chunks, strict=True)
    )
    for place in product(*first_to_last):
        yield (
            place,
            tuple(
                slice(max(at * n, low), min((at + 1) * n, high))
                for at, n, (low, high) in zip(place, chunks, box, strict=True)
            ),
        )


# ---- what a member writes ------------------------------------------------------------------------


class Source:
    """What is to be written, as one member sees it. All members write a share, in C order: of
    what they have all of, or can get. If `blocks` each writes its block.

    shape, dtype: of all of it. bounds: of `block`, the part that is here. get(box, out): a part
    that is elsewhere; None if no part is. ordered: blocks follow one another as the members do."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        bounds: Bounds,
        block: Block,
        *,
        blocks: bool = False,
        ordered: bool = False,
        get: Callable[..., Block] | None = None,
    ) -> None:
        self.shape, self.dtype, self.bounds, self.block = shape, dtype, bounds, block
        self.blocks, self.ordered, self._get, self.summed = blocks, ordered, get, False
        self.elements = int(np.prod(shape, dtype=np.int64))
        self._buffer: Block | None = None

    @classmethod
    def of(cls, array: Array) -> Source:
        """Of an Array: of short pieces, a share that is got from others costs less."""
        shape, bounds = tuple(array.shape), array.distribution()
        blocks, axis = not array.mirrored, 0
        for d, starts in enumerate(array.block_starts):
            if len(starts) > 1:
                axis = d
        if axis and blocks:
            edges = [*array.block_starts[axis], shape[axis]]
            stride = int(np.prod(shape[axis + 1 :], dtype=np.int64)) * array.dtype.itemsize
            blocks = min(b - a for a, b in zip(edges, edges[1:])) * stride >= SHORT_RUN_BYTES
        return cls(shape, array.dtype, bounds, array.local, blocks=blocks, get=array.get)

    def in_order(self) -> Source:
        """The same, so that what the members write follows in their order, with checksums."""
        self.blocks, self.summed = self.blocks and self.ordered, True
        return self

    def pieces(self, offset: int, member: int, members: int) -> Iterator[tuple[int, Block]]:
        """(place in C order, contiguous array) of what this member writes."""
        size = self.dtype.itemsize
        if not size * self.elements:
            return
        most = max(1, PIECE_BYTES // size)
        if self.blocks:
            found = block_pieces(self.shape, self.bounds, most)
        else:
            low, high = share(self.elements, size, offset, member, members)
            found = pieces(self.shape, low, high, most)
        for at, box in found:
            yield at, self._part(box, most)

    def _part(self, box: Box, most: int) -> Block:
        inside = [
            slice(part.start - low, part.stop - low)
            for part, (low, high) in zip(box, self.bounds, strict=True)
            if low <= part.start and part.stop <= high
        ]
        if len(inside) == len(box):
            return np.ascontiguousarray(self.block[tuple(inside)])
        assert self._get is not None  # something is elsewhere
        if self._buffer is None:
            self._buffer = np.empty(most, self.dtype)
        shape = [part.stop - part.start for part in box]
        return self._get(box, out=self._buffer[: int(np.prod(shape))].reshape(shape))


class Writer:
    """Writes arrays to a file under its hidden name, and puts it into its place. Collective."""

    def __init__(self, path: Path, group: Group, durable: bool = False) -> None:
        """durable: it outlives a crash of the system when write() has returned, and the hidden
        name is its own."""
        self._number = secrets.randbits(62) if durable else None  # the first member's is told
        self.path, self.group, self.hidden = path, group, _hidden(path, self._number)
        self.durable, self.is_placed = durable, False
        self._made: os.stat_result | None = None
        self.leads = _core.rank() == group.ranks[0]
        self.member, self.members = group.ranks.index(_core.rank()), len(group)
        self.together = Together(path, group)

    def write(
        self,
        begin: Callable[[Path], Sequence[int] | None],
        fill: Callable[[Path, list[int]], object],
        finish: Callable[[Path], object],
    ) -> None:
        """begin() and finish() on the first member, fill(what begin returned) on all: the first
        bytes of the parts, or none."""
        found = [np.zeros(0, np.int64)]

        def start() -> None:
            if self.leads:
                if not self.path.parent.is_dir():
                    raise FileError(f"{self.path}: there is no folder {self.path.parent}")
                _finish_removal()
                _recover(self.path)
                self._take_name()
                offsets = begin(self.hidden)
                found[0] = np.array([] if offsets is None else offsets, np.int64)

        def check() -> None:
            if not self.hidden.exists():
                raise FileError(
                    f"{self.path}: rank {_core.rank()} does not see the folder that rank "
                    f"{self.group.ranks[0]} writes to: give a path on a file system that all "
                    "nodes share"
                )

        def end() -> None:
            if self.leads:
                finish(self.hidden)
                if self.durable:
                    _to_disk(self.hidden)
                    self._check_name()
                _replace(self.path, self.hidden)

        try:
            self.together(start)
            told = np.array([len(found[0]), self._number or 0], np.int64)
            _core._broadcast(told, self.group.ranks[0], self.group)
            if self.durable:
                self.hidden = _hidden(self.path, int(told[1]))
            self.together(check)
            offsets = found[0] if self.leads else np.empty(int(told[0]), np.int64)
            if len(offsets):
                _core._broadcast(offsets, self.group.ranks[0], self.group)
            fill(self.hidden, offsets.tolist())
            self.together(end)
        except BaseException:
            if self.leads:
                _remove(self.hidden)
            raise
        self.is_placed = True
        if self.durable:
            self.together(lambda: _to_disk(self.path.parent) if self.leads else None)

    def _take_name(self) -> None:
        if not self.durable:
            return _remove(self.hidden)
        opened = os.open(self.hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        self._made = os.fstat(opened)
        os.close(opened)

    def _check_name(self) -> None:
        assert self._made is not None
        if not os.path.samestat(os.stat(self.hidden), self._made):
            raise FileError(f"{self.hidden} is another file than this job began")

    def elements(
        self, hidden: Path, sources: Sequence[Source], offsets: Sequence[int], progress: Progress
    ) -> NDArray[np.int64]:
        """Each member's share of elements that lie in the file as in memory. Returns (crc, bytes)
        of each array, if `in_order` of the sources; the crc of others means nothing."""
        sums = np.zeros((len(sources), 2), np.int64)

        def put() -> None:
            with open(hidden, "r+b", buffering=0) as file:
                for mine, source, offset in zip(sums, sources, offsets, strict=True):
                    for at, part in source.pieces(offset, self.member, self.members):
                        write_at(file, offset + at * source.dtype.itemsize, part)
                        if source.summed:
                            mine[0] = zlib.crc32(part.reshape(-1).view("u1").data, int(mine[0]))
                        mine[1] += part.nbytes
                        progress(part.nbytes)
                if self.durable:
                    os.fsync(file.fileno())

        self.together(put)
        return sums

    def joined(self, sums: NDArray[np.int64]) -> list[tuple[int, int]]:
        """(crc, bytes) of all members' parts in a row."""
        joined = []
        for parts in gathered(sums, self.group).swapaxes(0, 1).tolist():
            crc, nbytes = 0, 0
            for more, count in parts:
                crc, nbytes = joined_crc(crc, more, count), nbytes + count
            joined.append((crc, nbytes))
        return joined

    def packed(
        self, hidden: Path, source: Source, header: bytes, at: int, progress: Progress
    ) -> tuple[tuple[int, int], int]:
        """The share of an array that is compressed: each member's part ends at a whole byte, and
        refers to nothing before it, so that they can follow one another. Returns (crc and bytes of
        all parts, and where the last ends)."""
        sums, packed = np.zeros((1, 3), np.int64), []

        def squeeze() -> None:
            squeezer = zlib.compressobj(6, zlib.DEFLATED, -15)
            packed.append(squeezer.compress(header if self.member == 0 else b""))
            for _, part in source.pieces(0, self.member, self.members):
                data = part.reshape(-1).view("u1").data
                packed.append(squeezer.compress(data))
                sums[0, :2] = zlib.crc32(data, int(sums[0, 0])), sums[0, 1] + part.nbytes
                progress(part.nbytes)
            last = self.member == self.members - 1
            packed.append(squeezer.flush(zlib.Z_FINISH if last else zlib.Z_FULL_FLUSH))
            sums[0, 2] = sum(map(len, packed))

        def put() -> None:
            with open(hidden, "r+b", buffering=0) as file:
                begin = at + int(lengths[: self.member].sum())
                for data in filter(None, packed):
                    write_at(file, begin, np.frombuffer(data, "u1"))
                    begin += len(data)

        self.together(squeeze)
        lengths = gathered(sums, self.group)[:, 0, 2]
        self.together(put)
        return self.joined(sums[:, :2])[0], at + int(lengths.sum())


# ---- saving --------------------------------------------------------------------------------------


def save(
    data: Array | Whole | Mapping[str, Array | Whole],
    path: str | PathLike[str],
    *,
    chunks: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    compression: Literal["gzip", "lzf", "zstd", "deflate", "none"] | None = None,
) -> None:
    """Writes an array, or several with names, of any distribution; `data` may be a whole array of
    skerry.xp. The suffix of `path` says how:

    - ``.npy`` (one array), ``.npz``, as numpy.save and numpy.savez: each member writes its part,
      long rows from where they lie. A .npz has checksums, and may be compressed ("deflate"), by
      all members at once.
    - ``.h5``, ``.hdf5``: HDF5 by the package h5py, each array in one piece, of which each member
      writes its part; without checksums. With `compression` ("gzip", "lzf") or `chunks` one member
      writes, with checksums.
    - ``.zarr``: a Zarr 3 array or group with checksums, by the package zarr, compressed ("zstd" if
      you do not say "gzip" or "none"). Each member writes whole chunks, which it gets one-sidedly.

    `chunks`: their edges; default: a block, or parts of it of 8 MiB at most. What was at `path`
    is replaced when all is written: a job that is killed before leaves it as it was, and a
    hidden file beside it that the next save() removes. All nodes must see the folder. On a
    terminal a bar shows what takes longer than a second. Begins and ends with a sync. Errors:
    InvalidError, FileError, UnsupportedError (a package is missing). Arrays of any shape and
    dtype that there is. Collective over the arrays' group; what one member meets, all raise."""
    arrays = _arrays_of(data)
    path, group = Path(path), next(iter(arrays.values())).group
    if any(array.group.ranks != group.ranks for array in arrays.values()):
        raise InvalidError("the arrays belong to different groups: save them in one call each")
    writer, agreed = Writer(path, group), []

    def agree_on() -> tuple[str, Described, str | None]:
        kind, described = format_of(path), {}
        _check_compression(kind, path, compression)
        if hasattr(kind, "one") and "" not in arrays:
            raise InvalidError(f"{path}: a {path.suffix} file holds one array: .npz holds a dict")
        if chunks is not None and path.suffix in (".npy", ".npz"):
            raise InvalidError(f"{path}: a {path.suffix} file has no chunks: leave them out")
        for name, array in arrays.items():
            edges: Any = chunks.get(name) if isinstance(chunks, dict) else chunks
            if edges is not None:
                edges = _checked_chunks(edges, array)
            elif kind.all_write or (compression and path.suffix != ".npz"):
                edges = _chunk_of(array)
            described[name] = (tuple(array.shape), array.dtype, edges)
        agreed.append((kind, described))
        return str(path), described, compression

    writer.together(agree_on, "the members gave sk.save different paths, names, arrays or options")
    kind, described = agreed[0]
    _core.sync(group)  # what was written before is visible to those who save it
    if kind.all_write or any(edges for _, _, edges in described.values()):
        _save_chunks(writer, kind, described, compression, arrays)
    else:
        sources = {name: Source.of(array) for name, array in arrays.items()}
        save_whole(writer, kind, described, compression, sources)


def _check_compression(kind: Any, path: Path, compression: str | None) -> None:
    if compression is not None and compression not in kind.compressions:
        can = " or ".join(map(repr, kind.compressions)) or "none at all"
        raise InvalidError(f"{path}: compression {compression!r}: {path.suffix} has {can}")


def save_whole(
    writer: Writer,
    kind: Any,
    described: Described,
    compression: str | None,
    sources: dict[str, Source],
) -> None:
    """Arrays whose elements lie in the file as in memory, or are packed in that order."""
    if any(source.dtype.hasobject for source in sources.values()):
        raise DtypeError("Python objects mean nothing in another process: save numbers")
    sums, order = [], list(sources.values())
    if hasattr(kind, "alone"):  # it has checksums
        order = [source.in_order() for source in order]
    total = sum(s.elements * s.dtype.itemsize for s in order) // writer.members
    progress = Progress(f"saving {writer.path.name}", total, writer.leads)

    def fill(hidden: Path, offsets: list[int]) -> None:
        if not compression:
            parts = writer.elements(hidden, order, offsets, progress)
            if hasattr(kind, "alone"):
                sums.extend(writer.joined(parts))
            return
        end = 0
        for i, source in enumerate(order):
            header, length = kind.packed_header(described, i)
            begin = end + length
            told, finish = writer.packed(hidden, source, header, begin, progress)
            if writer.leads:
                kind.placed(i, end, finish - begin)
            sums.append(told)
            end = finish

    try:
        writer.write(
            lambda hidden: kind.create(hidden, described, compression),
            fill,
            lambda hidden: kind.seal(hidden, sums),
        )
    finally:
        progress.end()


def _save_chunks(
    writer: Writer,
    kind: Any,
    described: Described,
    compression: str | None,
    arrays: dict[str, Array],
) -> None:
    """Arrays in chunks, each of them through the format's library."""
    total = sum(array.nbytes for array in arrays.values())
    total //= writer.members if kind.all_write else 1
    progress = Progress(f"saving {writer.path.name}", total, writer.leads)

    def put(hidden: Path) -> None:
        if not (kind.all_write or writer.leads):
            return
        opened = kind.open(hidden, "r+")
        for name, array in arrays.items():
            edges = described[name][2] or tuple(max(1, n) for n in array.shape)
            for i, (_, part) in enumerate(_chunks(array.shape, edges)):
                if kind.all_write:  # a member whose memory has some of it, or of a mirror, any
                    low = (at.start for at in part)
                    mine = i % writer.members == writer.member if array.mirrored else (
                        array.locate(*low) == _core.rank())  # fmt: skip
                    if not mine:
                        continue
                values = array.get(part)
                opened[name][part] = values
                progress(np.asarray(values).nbytes)
        kind.close(opened)

    try:
        writer.write(
            lambda hidden: kind.create(hidden, described, compression) and None,
            lambda hidden, _: writer.together(lambda: put(hidden)),
            lambda hidden: None,
        )
    finally:
        progress.end()


def _arrays_of(data: Any) -> dict[str, Array]:
    """{name: Array}."""
    if isinstance(data, dict):
        if not data:
            raise InvalidError("nothing to save: the dict is empty")
        for name in data:
            if not isinstance(name, str) or not name.isprintable() or "/" in name or (
                name.startswith(("__", ".")) or not name
            ):  # fmt: skip
                raise InvalidError(f"the name {name!r}: give letters, without '/' and dots before")
        return {name: _arrays_of(data[name])[""] for name in sorted(data)}
    if isinstance(data, Array):
        return {"": data}
    if hasattr(data, "__array_namespace__") and type(data).__module__.startswith("skerry.xp"):
        return {"": (data.copy() if data._is_view else data).array}
    raise InvalidError(
        f"cannot save a {type(data).__name__}: give an Array, a whole array, or a dict of them "
        "(sk.asarray makes one of what every member has)"
    )


def _checked_chunks(edges: Sequence[int], array: Array) -> tuple[int, ...]:
    edges = tuple(int(n) for n in edges)
    if len(edges) != array.ndim or min(edges) < 1:
        raise InvalidError(f"chunks {edges}: give {array.ndim} numbers from 1 on")
    return tuple(min(n, max(1, size)) for n, size in zip(edges, array.shape, strict=True))


# ---- the hidden name and the real one ------------------------------------------------------------


def _hidden(path: Path, number: int | None = None) -> Path:
    """number: the name is one writer's alone."""
    middle = "" if number is None else f"{number:016x}."
    return path.with_name(f".{path.name}.{middle}saving")


def remove_unfinished(path: Path) -> None:
    """What durable writers to `path` have begun and not ended: there is none that lives."""
    numbered = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}[.]saving")
    for name in filter(numbered.fullmatch, os.listdir(path.parent)):
        _remove(path.with_name(name))


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    """What a file or a folder holds."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    except OSError as error:  # some file systems have it for no folders
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(opened)


def _exchange(a: Path, b: Path) -> bool:
    """Lets two names change places in one step; False where the system cannot."""
    at_cwd, exchange = -100, 2
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return rename(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), exchange) == 0


_removal: threading.Thread | None = None  # the last one


def _finish_removal() -> None:
    """Waits until the disk has back what the last save replaced."""
    if _removal is not None:
        _removal.join()


@contextlib.contextmanager
def _removed_aside(path: Path) -> Iterator[None]:
    """What replaces the file at `path` meanwhile does not wait until the system has forgotten its
    bytes, which takes as long as writing a part of them: a thread does."""
    global _removal
    old = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield
    finally:
        _removal = threading.Thread(target=os.close, args=(old,), daemon=True)
        _removal.start()


def _replace(path: Path, hidden: Path) -> None:
    """Puts `hidden` into the place of `path`, which is whole at any time: the old one or the new
    one. If names cannot be exchanged, the old one has another name for a moment (see _recover)."""
    if not path.exists():
        hidden.rename(path)
    elif hidden.is_file() and path.is_file():
        with _removed_aside(path):
            hidden.replace(path)
    elif _exchange(path, hidden):
        _remove(hidden)
    else:
        path.rename(_old(path))
        hidden.rename(path)
        _remove(_old(path))


def _recover(path: Path) -> None:
    """After a save that was killed between two renames the old file has its other name."""
    if _old(path).exists():
        if path.exists():
            _remove(_old(path))
        else:
            _old(path).rename(path)


# ---- loading -------------------------------------------------------------------------------------


def stored_at(path: Path, kind: Any = None) -> tuple[Any, Path, dict[str, Any]]:
    """(format, {name: what is stored}) of the file at `path`, or of the one that a killed save
    left under another name."""
    kind = kind or format_of(path)
    place = path if path.exists() or not _old(path).exists() else _old(path)
    if not place.exists():
        raise FileError(f"{path}: there is no such file")
    return kind, place, kind.open(place, "r")


def load(
    path: str | PathLike[str],
    *,
    distribution: Irregular | None = None,
    grid: Sequence[int] | None = None,
    mirrored: bool = False,
    group: Group | None = None,
) -> Any:
    """The Array at `path`, or a dict of Arrays by name; on any number of ranks. Reads what zarr,
    h5py and NumPy can read, of any writer, but no Python objects; elements in the order or the
    bytes of other machines too. Each member reads its own block. The options are those of
    empty(), for each array. Errors: FileError (damaged, too short, a checksum is wrong),
    InvalidError (no dimensions, or more than 7), DtypeError (text, fields: no Array holds them),
    UnsupportedError. Collective over the group; what one member meets, all raise."""
    path, group = Path(path), _core.world() if group is None else group
    together = Together(path, group)
    opened = []

    def look() -> dict[str, tuple[tuple[int, ...], str]]:
        kind, place, stored = stored_at(path)
        if not stored:
            raise FileError(f"{path}: there are no arrays in it")
        opened.append((kind, place, stored))
        return {name: (tuple(a.shape), _known(name, a.dtype)) for name, a in stored.items()}

    found = together(look, "the members found different arrays; is the path on a shared system?")
    kind, place, stored = opened[0]
    arrays, progress = {}, None
    try:
        for name, (shape, dtype) in found.items():
            arrays[name] = empty(
                shape, dtype, distribution=distribution, grid=grid, mirrored=mirrored, group=group
            )
        total = sum(array.local.nbytes for array in arrays.values())
        progress = Progress(f"loading {path.name}", total, _core.rank() == group.ranks[0])

        def read() -> None:
            for name, array in arrays.items():
                _read(kind, place, name, stored[name], array, progress)

        together(read)
        for name in arrays:
            check_crc(stored[name], group, together)
    except Error:
        for array in arrays.values():
            array.free()  # all members are here
        raise
    finally:
        kind.close(stored)
        if progress:
            progress.end()
    _core.sync(group)
    return arrays[""] if list(arrays) == [""] else arrays


def _known(name: str, dtype: np.dtype[Any]) -> str:
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufc" or dtype.itemsize not in (1, 2, 4, 8, 16) or dtype == "float16":
        raise DtypeError(f"{name or 'the array'} in it is {dtype}, which no Array can hold")
    return dtype.newbyteorder("=").name


def _read(kind: Any, path: Path, name: str, stored: Any, array: Array, progress: Progress) -> None:
    """The own block, a piece at a time."""
    box, local = array.distribution(), array.local
    if hasattr(stored, "read"):
        stored.read(box, local, progress)
        return
    chunks = stored.chunks or tuple(max(1, n) for n in array.shape)
    for place, part in _chunks(array.shape, chunks, box):
        inside = tuple(
            slice(p.start - low, p.stop - low) for p, (low, _) in zip(part, box, strict=True)
        )
        local[inside] = kind.read(path, name, stored, place, part)
        progress(local[inside].nbytes)


def check_crc(stored: Any, group: Group, together: Together) -> None:
    """Compares the checksum of elements that lie in the file as in memory. Each member reads a
    share of the bytes again, since it may have loaded others. Collective."""
    if getattr(stored, "crc", None) is None:
        return
    begin, end = stored.checked, stored.offset + stored.nbytes
    member, members = group.ranks.index(_core.rank()), len(group)
    low, high = share(end - begin, 1, begin, member, members)
    sums = np.array([[0, high - low]], np.int64)

    def count() -> None:
        buffer = np.empty(min(PIECE_BYTES // 8, high - low), "u1")
        with stored.file() as file:
            for at in range(begin + low, begin + high, max(1, len(buffer))):
                part = buffer[: begin + high - at]
                read_at(file, at, part, stored.path)
                sums[0, 0] = zlib.crc32(part.data, int(sums[0, 0]))

    together(count)
    crc = 0
    for more, nbytes in gathered(sums, group)[:, 0].tolist():
        crc = joined_crc(crc, more, nbytes)
    if crc != stored.crc:
        raise FileError(f"{stored.path} is damaged: a checksum is wrong")
