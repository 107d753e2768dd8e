"""NumPy's functions of files, over all ranks: skerry.numpy has them. All are collective. Each
member writes and reads its part of a file that all nodes see. A file takes its place when it is
complete: a job that is killed leaves the previous one.

Files have NumPy's formats, bit for bit. What differs: paths alone, no open files; Python objects
are refused; np.load() of a .npz reads an array when it is asked for, on all members.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import skerry as sk
from .._files import Progress, Source, Together, Writer, check_crc, save_whole
from .._formats import PIECE_BYTES, Npy, Npz, Packed, Place, write_at
from .._together import gathered
from . import _exchange, _layout
from ._array import Array, flat_layout, in_layout, new_layout, of_numpy

_DIFFER = "the members gave {} different paths, arrays or options"
FilePath = str | PathLike[str]


def _path(file: Any, function: str, suffix: str = "") -> Path:
    if isinstance(file, (str, PathLike)):
        path = Path(file)
        return path if path.name.endswith(suffix) else path.with_name(path.name + suffix)
    raise sk.InvalidError(
        f"{function} of a {type(file).__name__}: give a path; each rank writes and reads its part"
    )


# ---- what a member writes ------------------------------------------------------------------------


def _source(data: Any) -> Source:
    """`data` in rows, of which each member has some, or as every member has all of it."""
    if isinstance(data, sk.Array):
        return Source.of(data)
    if not isinstance(data, Array):
        return _of_whole(np.asarray(data))
    layout = data.layout
    if not layout.whole and layout != _layout.slabs(data.shape, 0, _exchange.ranks()):
        layout = flat_layout(data.shape, data.dtype)
    block = in_layout(data, layout)
    if layout.whole:
        return _of_whole(block)
    bounds = layout.boxes[_exchange.job().rank]
    return Source(tuple(data.shape), data.dtype, bounds, block, blocks=True, ordered=True)


def _of_whole(block: np.ndarray) -> Source:
    return Source(block.shape, block.dtype, [(0, n) for n in block.shape], block)


def _write(
    path: Path, kind: Any, arrays: Mapping[str, Any], compression: str | None = None
) -> None:
    _exchange.job()
    writer, sources = Writer(path, _exchange.job().group), {}

    def look() -> Any:
        sources.update({name: _checked(data) for name, data in arrays.items()})
        about = [(name, tuple(data.shape), str(data.dtype)) for name, data in sources.items()]
        return str(path), about, compression

    writer.together(look, _DIFFER.format("a file's function"))
    sources = {name: _source(data) for name, data in sources.items()}
    described = {name: (each.shape, each.dtype, None) for name, each in sources.items()}
    save_whole(writer, kind, described, compression, sources)


def _checked(data: Any) -> Any:
    """An array: without communication, so that a refusal is one of all members."""
    if isinstance(data, (Array, sk.Array)):
        return data
    values = np.asanyarray(data)
    if values.dtype.hasobject:
        raise sk.DtypeError(
            f"{type(data).__name__} of Python objects: a file holds numbers and text of a fixed "
            "length; give an array with such a dtype"
        )
    return values


def save(file: FilePath, arr: Any, allow_pickle: bool = True, fix_imports: bool = False) -> None:
    """Writes an array to a .npy file, in C order; collective, gathers nothing. `arr` may also be
    what every member has. Errors: FileError, DtypeError (Python objects)."""
    _write(_path(file, "save", ".npy"), Npy(), {"": arr})


def _named(args: tuple[Any, ...], kwds: dict[str, Any]) -> dict[str, Any]:
    named = {f"arr_{i}": array for i, array in enumerate(args)}
    if both := named.keys() & kwds.keys():
        raise ValueError(f"Cannot use un-named variables and keyword {min(both)}")
    return {**named, **kwds}


def savez(file: FilePath, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Writes arrays to a .npz file by the names of the arguments, or arr_0, arr_1 and so on, with
    checksums; collective, gathers nothing. Errors: as save."""
    _write(_path(file, "savez", ".npz"), Npz(), _named(args, kwds))


def savez_compressed(file: FilePath, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """savez, compressed: each member packs its part. Collective. Errors: as savez."""
    _write(_path(file, "savez_compressed", ".npz"), Npz(), _named(args, kwds), "deflate")


# ---- what a member reads -------------------------------------------------------------------------


def _loaded(place: Place | Packed, path: Path, mmap_mode: str | None = None) -> Array:
    """The array that is there; collective."""
    together, dtype = Together(path, _exchange.job().group), place.dtype.newbyteorder("=")
    layout = new_layout(place.shape, dtype)
    bounds, rank = layout.boxes[_exchange.job().rank], _exchange.job().rank
    if mmap_mode is not None and isinstance(place, Place):
        block = together(lambda: np.asarray(_mapped(place, mmap_mode)))
        return Array(block[tuple(slice(*each) for each in bounds)], layout)
    block = np.empty(layout.extent(rank), dtype)
    progress = Progress(f"loading {path.name}", block.nbytes, rank == 0)
    try:
        together(lambda: place.read(bounds, block, progress))
    finally:
        progress.end()
    check_crc(place, _exchange.job().group, together)
    return Array(block, layout)


def _mapped(place: Place, mode: Any) -> np.ndarray:
    if not place.dtype.isnative:
        raise sk.InvalidError(
            f"{place.path}: mmap_mode of {place.dtype}, another machine's order of bytes: load it "
            "without"
        )
    return place.mapped(mode)


class NpzFile(Mapping[str, Array]):
    """The arrays of a .npz file by name. Asking for one reads it; collective."""

    def __init__(self, path: Path, stored: dict[str, Place | Packed]) -> None:
        self._path, self._stored = path, stored

    @property
    def files(self) -> list[str]:
        """The names."""
        return list(self._stored)

    def __getitem__(self, name: str) -> Array:
        name = name if name in self._stored else name.removesuffix(".npy")
        if name not in self._stored:
            raise KeyError(f"{name} is not a file in the archive")
        return _loaded(self._stored[name], self._path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Forgets the names; no file is open between calls."""
        self._stored = {}


def load(
    file: FilePath,
    mmap_mode: str | None = None,
    allow_pickle: bool = False,
    fix_imports: bool = True,
    encoding: str = "ASCII",
    *,
    max_header_size: int = 10000,
) -> Any:
    """The array of a .npy file, or the arrays of a .npz by name; collective. Each member reads its
    part. `mmap_mode` ("r", "r+", "c") maps a .npy instead: "r" is read-only, writing to "r+" writes
    the file, to "c" memory alone. Errors: FileError (none of NumPy's, damaged), DtypeError (Python
    objects), InvalidError."""
    path = _path(file, "load")
    _exchange.job()
    found = []

    def look() -> Any:
        if mmap_mode not in (None, "r", "r+", "c"):
            raise sk.InvalidError(f'mmap_mode {mmap_mode!r}: give "r", "r+", "c" or None')
        if not path.exists():
            raise sk.FileError(f"{path}: there is no such file")
        with open(path, "rb") as opened:
            begin = opened.read(6)
        kind: Any = Npy() if begin == np.lib.format.MAGIC_PREFIX else Npz()
        if begin[:4] not in (np.lib.format.MAGIC_PREFIX[:4], b"PK\3\4", b"PK\5\6"):
            raise sk.FileError(f"{path} is no .npy or .npz file")
        stored = kind.open(path, "r")
        if isinstance(kind, Npz) and list(stored) == [""]:
            stored = {"arr_0": stored[""]}
        found.append((kind, stored))
        return mmap_mode, [(name, each.shape, str(each.dtype)) for name, each in stored.items()]

    Together(path, _exchange.job().group)(look, _DIFFER.format("load"))
    kind, stored = found[0]
    return _loaded(stored[""], path, mmap_mode) if isinstance(kind, Npy) else NpzFile(path, stored)


def fromfile(
    file: FilePath, dtype: DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0
) -> Any:
    """A 1-d array of the elements in a file, as numpy.fromfile; collective. Each member reads its
    part; text (`sep`) is read by the first. Errors: FileError."""
    path = _path(file, "fromfile")
    if sep:
        return _by_the_first(path, lambda: np.fromfile(path, dtype, count, sep, offset=offset))
    _exchange.job()
    found = []

    def look() -> Any:
        element = np.dtype(dtype)
        if element.hasobject or not element.itemsize:
            raise sk.DtypeError(f"fromfile of {element}: no bytes in a file mean that")
        there = max(0, path.stat().st_size - offset) // element.itemsize
        length = there if count < 0 else min(count, there)
        found.append(Place(path, offset, (length,), element))
        return length, str(element)

    Together(path, _exchange.job().group)(look, _DIFFER.format("fromfile"))
    return _loaded(found[0], path)


# ---- text ----------------------------------------------------------------------------------------


def _by_the_first(path: Path, read: Any) -> Any:
    """What the first member reads, as arrays of all; collective."""
    here = _exchange.job()
    found: list[Any] = []

    def step() -> None:
        if here.rank == 0:
            values = read()
            arrays = values if isinstance(values, (list, tuple)) else [values]
            if any(each.dtype.hasobject for each in arrays):
                raise sk.DtypeError(f"{path} gives Python objects: give a dtype of numbers or text")
            found.extend(arrays)

    Together(path, _exchange.job().group)(step)
    about = repr([(each.shape, each.dtype.descr if each.dtype.names else each.dtype.str)
                  for each in found]).encode()  # fmt: skip
    length = _exchange.broadcast(np.array([len(about), 0]))[0]
    told = np.frombuffer(about, "u1").copy() if here.rank == 0 else np.empty(length, "u1")
    described = _literal(_exchange.broadcast(told).tobytes().decode()) if length else []
    arrays = []
    for index, (shape, dtype) in enumerate(described):
        mine = found[index] if here.rank == 0 else None
        arrays.append(_spread_from_first(mine, shape, np.dtype(dtype)))
    return arrays[0] if len(arrays) == 1 else arrays


def _name(file: Any) -> Path:
    """Of a path or of what is open, to be told in messages."""
    return Path(file if isinstance(file, (str, PathLike)) else f"<{type(file).__name__}>")


def _literal(text: str) -> Any:
    import ast

    return ast.literal_eval(text)


def _spread_from_first(values: np.ndarray | None, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """An array that the first member has, a piece of rows at a time."""
    layout = new_layout(shape, dtype)
    here = _exchange.job()
    bounds, block = layout.boxes[here.rank], np.empty(layout.extent(here.rank), dtype)
    rows = shape[0] if shape else 1
    step = max(1, PIECE_BYTES // max(1, dtype.itemsize * math.prod(shape[1:])))
    for low in range(0, rows if math.prod(shape) * dtype.itemsize else 0, step):
        high = min(rows, low + step)
        piece = np.empty((high - low, *shape[1:]), dtype)
        if values is not None:
            piece[...] = values[low:high] if shape else values
        _exchange.broadcast(piece.reshape(-1).view("u1"))
        if not shape:
            block[...] = piece[0]
            continue
        begin, end = max(low, bounds[0][0]), min(high, bounds[0][1])
        if begin < end and block.size:
            inside = (slice(begin - low, end - low), *(slice(*each) for each in bounds[1:]))
            block[begin - bounds[0][0] : end - bounds[0][0]] = piece[inside]
    return Array(block, layout)


def loadtxt(fname: Any, *args: Any, **options: Any) -> Any:
    """numpy.loadtxt, with its arguments: a path, an open file or lines. Collective. The first
    member reads, all get the array.
    Errors: FileError with NumPy's message, on all members."""
    return _by_the_first(_name(fname), lambda: np.loadtxt(fname, *args, **options))


def genfromtxt(fname: Any, *args: Any, **options: Any) -> Any:
    """numpy.genfromtxt, with its arguments; collective, as loadtxt. Errors: as loadtxt."""
    return _by_the_first(_name(fname), lambda: np.genfromtxt(fname, *args, **options))


class _Text:
    """What Writer needs to write text: each member's, one after another."""

    def __init__(self, path: Path, text: Any) -> None:
        self.writer = Writer(path, _exchange.job().group)
        self.text = text

    def write(self) -> None:
        writer, texts = self.writer, []

        def fill(hidden: Path, offsets: list[int]) -> None:
            writer.together(lambda: texts.append(self.text()))
            lengths = gathered(np.array([len(texts[0])]), writer.group)[:, 0]

            def put() -> None:
                with open(hidden, "r+b", buffering=0) as file:
                    at = int(lengths[: writer.member].sum())
                    write_at(file, at, np.frombuffer(texts[0], "u1"))

            writer.together(put)

        writer.write(lambda hidden: hidden.touch(), fill, lambda hidden: None)


def savetxt(
    fname: FilePath,
    X: Any,
    fmt: Any = "%.18e",
    delimiter: str = " ",
    newline: str = "\n",
    header: str = "",
    footer: str = "",
    comments: str = "# ",
    encoding: str | None = None,
) -> None:
    """numpy.savetxt; collective, gathers nothing: each member writes its rows. Errors: FileError,
    InvalidError (a compressed file)."""
    path = _path(fname, "savetxt")
    if path.suffix in (".gz", ".bz2", ".xz", ".lzma"):
        raise sk.InvalidError(f"{path}: savetxt writes no compressed files here: give another name")
    here = _exchange.job()
    data = of_numpy(X.get()) if isinstance(X, sk.Array) else _checked(X)
    if data.ndim not in (1, 2):
        raise ValueError(f"Expected 1D or 2D array, got {data.ndim}D array instead")
    source = _source(data)
    member, members = here.rank, here.ranks  # of the group that lives

    def text() -> bytes:
        rows = source.block
        if not source.blocks:  # every member has all of them
            rows = rows[len(rows) * member // members : len(rows) * (member + 1) // members]
        options: dict[str, Any] = {
            "delimiter": delimiter, "newline": newline, "encoding": encoding,
        }  # fmt: skip
        out = io.BytesIO()
        top, bottom = header if member == 0 else "", footer if member == members - 1 else ""
        np.savetxt(out, rows, fmt, header=top, footer=bottom, comments=comments, **options)
        return out.getvalue()

    _Text(path, text).write()


class _Bytes:
    """A file of the elements alone, as a format of save_whole."""

    def create(self, path: Path, described: dict[str, Any], compression: None) -> list[int]:
        ((shape, dtype, _),) = described.values()
        with open(path, "wb") as file:
            file.truncate(math.prod(shape) * dtype.itemsize)
        return [0]

    def seal(self, path: Path, sums: list[Any]) -> None:
        pass


def tofile(x: Array, file: FilePath, sep: str = "", format: str = "%s") -> None:
    """Writes the elements in C order, as numpy.ndarray.tofile; collective. Text (`sep`) gathers x
    on every rank. Errors: FileError."""
    path = _path(file, "tofile")
    if not sep:
        _write(path, _Bytes(), {"": x})
        return
    values = x.numpy()

    def text() -> bytes:
        if _exchange.job().rank:
            return b""
        with open(os.memfd_create("text"), "r+b") as made:
            values.tofile(made, sep, format)
            made.seek(0)
            return made.read()

    _Text(path, text).write()


setattr(Array, "tofile", tofile)
