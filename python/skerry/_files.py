"""Arrays in files. The interface is described in __init__.pyi.

A file is written under a hidden name beside its place, and takes its place when all members have
written their parts: exchanged with the old one in one step, where the system can. What fails on one
member is told to all before anybody goes on, so all raise.
"""

import ctypes
import os
import shutil
from itertools import product
from pathlib import Path

import numpy as np

from . import _core
from ._arrays import empty
from ._core import Array
from ._together import agree
from .errors import DtypeError, Error, FileError, InvalidError, UnsupportedError

_CHUNK_BYTES = 8 << 20
_MARK = "skerry_chunks"  # an attribute of arrays of which every chunk is stored


# ---- steps that all members take, or none --------------------------------------------------------


class _Together:
    """Runs a step on this member; then all members raise if one of them could not. The step's
    value must be the same on all if `differ` says what to tell if it is not."""

    def __init__(self, path, group):
        self.path, self.group = path, group

    def __call__(self, step, differ=None):
        value, refused = None, None
        try:
            value = step()
        except Error as error:
            refused = error
        except MemoryError:
            raise
        except Exception as error:  # whatever the libraries raise
            refused = FileError(f"{self.path}: {type(error).__name__}: {error}")
        agree(value if differ else None, refused, self.group, differ=differ, error=FileError)
        return value


def _chunk_of(array):
    """The edges of a block of `array`, halved until a chunk is short enough."""
    edges = [max(1, -(-n // blocks)) for n, blocks in zip(array.shape, array.grid, strict=True)]
    while int(np.prod(edges)) * array.dtype.itemsize > _CHUNK_BYTES and max(edges) > 1:
        longest = max(range(len(edges)), key=edges.__getitem__)
        edges[longest] = (edges[longest] + 1) // 2
    return tuple(edges)


def _parts(shape, chunks, within=None):
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


# ---- Zarr ----------------------------------------------------------------------------------------


class _Zarr:
    suffixes = (".zarr",)
    package = "zarr"
    all_write = True

    def __init__(self):
        import zarr

        if int(zarr.__version__.split(".")[0]) < 3:
            raise ImportError(f"zarr {zarr.__version__} is too old: 3 or newer is needed")
        self.zarr = zarr

    def create(self, path, described):
        """The file without its elements. described: {name: (shape, dtype, chunks)}; an array that
        is alone has the name ""."""
        if "" not in described:
            self.zarr.create_group(path, zarr_format=3)
        for name, (shape, dtype, chunks) in described.items():
            array = self.zarr.create_array(
                path,
                name=name or None,
                shape=shape,
                dtype=dtype,
                chunks=chunks,
                compressors=self.zarr.codecs.ZstdCodec(level=1, checksum=True),
                attributes={_MARK: "all"},
                zarr_format=3,
                config={"write_empty_chunks": True},
            )
            assert array.chunks == chunks

    def open(self, path, mode):
        """{name: array}."""
        if not (path / "zarr.json").exists() and not any(path.glob(".z*")):
            raise FileError(f"{path} is no Zarr array or group: it has no zarr.json")
        found = self.zarr.open(path, mode=mode)
        if isinstance(found, self.zarr.Array):
            return {"": self._complete(found)}
        return {name: self._complete(array) for name, array in sorted(found.arrays())}

    @staticmethod
    def _complete(array):
        return array.with_config({"write_empty_chunks": True})

    def read(self, path, name, array, place, part):
        """What a part of a chunk holds. zarr takes a chunk that is not there for zeroes, which
        other programs leave out; we do not."""
        if array.attrs.get(_MARK) == "all":
            file = path / name / array.metadata.encode_chunk_key(place)
            if not file.exists():
                raise FileError(f"{path} is damaged: {file} is missing")
        return array[part]

    def close(self, arrays):
        pass


class _Hdf5:
    suffixes = (".h5", ".hdf5")
    package = "h5py"
    all_write = False

    def __init__(self):
        import h5py

        self.h5py = h5py

    def create(self, path, described):
        with self.h5py.File(path, "w") as file:
            for name, (shape, dtype, chunks) in described.items():
                file.create_dataset(
                    name or "array", shape, dtype, chunks=chunks if 0 not in shape else None,
                    fletcher32=0 not in shape, compression="gzip" if 0 not in shape else None,
                    compression_opts=1 if 0 not in shape else None,
                )  # fmt: skip
            file.attrs[_MARK] = "" if "" in described else "names"

    def open(self, path, mode):
        file = self.h5py.File(path, mode)
        datasets = {n: d for n, d in sorted(file.items()) if isinstance(d, self.h5py.Dataset)}
        if file.attrs.get(_MARK) == "" and list(datasets) == ["array"]:
            datasets = {"": datasets["array"]}
        return datasets

    def read(self, path, name, array, place, part):
        return array[part]

    def close(self, arrays):
        for array in arrays.values():
            array.file.close()
            return


_FORMATS = (_Zarr, _Hdf5)


def _format_of(path):
    for kind in _FORMATS:
        if path.suffix in kind.suffixes:
            try:
                return kind()
            except ImportError as error:
                raise UnsupportedError(
                    f"{path}: {error}. {path.suffix} needs the package {kind.package}: "
                    f"pip install 'skerry[files]', or pip install {kind.package}"
                ) from None
    endings = ", ".join(suffix for kind in _FORMATS for suffix in kind.suffixes)
    raise InvalidError(f"{path} ends with {path.suffix!r}: give a name with one of {endings}")


# ---- saving --------------------------------------------------------------------------------------


def save(data, path, *, chunks=None):
    """Writes an array, or a dict of arrays; collective."""
    arrays = _arrays_of(data)
    path, group = Path(path), next(iter(arrays.values())).group
    if any(array.group.ranks != group.ranks for array in arrays.values()):
        raise InvalidError("the arrays belong to different groups: save them in one call each")
    together, hidden = _Together(path, group), _hidden(path)

    def agree_on():
        kind, described = _format_of(path), {}
        for name, array in arrays.items():
            edges = chunks.get(name) if isinstance(chunks, dict) else chunks
            edges = _chunk_of(array) if edges is None else _checked_chunks(edges, array)
            described[name] = (array.shape, array.dtype, edges)
        agreed.append((kind, described))
        return str(path), described

    agreed = []
    together(agree_on, "the members gave sk.save different paths, names, arrays or chunks")
    kind, described = agreed[0]
    leads = _core.rank() == group.ranks[0]

    def begin():
        if leads:
            if not path.parent.is_dir():
                raise FileError(f"{path}: there is no folder {path.parent}")
            _recover(path)
            _remove(hidden)
            kind.create(hidden, described)

    def check():
        if not hidden.exists():
            raise FileError(
                f"{path}: rank {_core.rank()} does not see the folder that rank "
                f"{group.ranks[0]} writes to: give a path on a file system that all nodes share"
            )

    def write():
        if not (kind.all_write or leads):
            return
        opened = kind.open(hidden, "r+")
        for name, array in arrays.items():
            member, members = group.ranks.index(_core.rank()), len(group)
            for i, (_, part) in enumerate(_parts(array.shape, described[name][2])):
                if kind.all_write:  # a member whose memory has some of it, or of a mirror, any
                    low = (at.start for at in part)
                    mine = i % members == member if array.mirrored else (
                        array.locate(*low) == _core.rank())  # fmt: skip
                    if not mine:
                        continue
                opened[name][part] = array.get(part)
        kind.close(opened)

    def finish():
        if leads:
            _replace(path, hidden)

    _core.sync(group)  # what was written before is visible to those who save it
    try:
        together(begin)
        together(check)
        together(write)
        together(finish)
    except Error:
        if leads:
            _remove(hidden)
        raise


def _arrays_of(data):
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
        from . import xp

        return {"": (xp.asarray(data, copy=True) if data._is_view else data).array}
    raise InvalidError(
        f"cannot save a {type(data).__name__}: give an Array, a whole array, or a dict of them "
        "(sk.asarray makes one of what every member has)"
    )


def _checked_chunks(edges, array):
    edges = tuple(int(n) for n in edges)
    if len(edges) != array.ndim or min(edges) < 1:
        raise InvalidError(f"chunks {edges}: give {array.ndim} numbers from 1 on")
    return tuple(min(n, max(1, size)) for n, size in zip(edges, array.shape, strict=True))


# ---- the hidden name and the real one ------------------------------------------------------------


def _hidden(path):
    return path.with_name(f".{path.name}.saving")


def _old(path):
    return path.with_name(f".{path.name}.old")


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _exchange(a, b):
    """Lets two names change places in one step; False where the system cannot."""
    at_cwd, exchange = -100, 2
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return rename(at_cwd, os.fsencode(a), at_cwd, os.fsencode(b), exchange) == 0


def _replace(path, hidden):
    """Puts `hidden` into the place of `path`, which is whole at any time: the old one or the new
    one. If names cannot be exchanged, the old one has another name for a moment (see _recover)."""
    if not path.exists():
        hidden.rename(path)
    elif hidden.is_file() and path.is_file():
        hidden.replace(path)
    elif _exchange(path, hidden):
        _remove(hidden)
    else:
        path.rename(_old(path))
        hidden.rename(path)
        _remove(_old(path))


def _recover(path):
    """After a save that was killed between two renames the old file has its other name."""
    if _old(path).exists():
        if path.exists():
            _remove(_old(path))
        else:
            _old(path).rename(path)


# ---- loading -------------------------------------------------------------------------------------


def load(path, *, distribution=None, grid=None, mirrored=False, group=None):
    """The array at `path`, or a dict of arrays; collective."""
    path, group = Path(path), _core.world() if group is None else group
    together = _Together(path, group)
    opened = []

    def look():
        kind = _format_of(path)
        place = path if path.exists() or not _old(path).exists() else _old(path)
        if not place.exists():
            raise FileError(f"{path}: there is no such file")
        stored = kind.open(place, "r")
        if not stored:
            raise FileError(f"{path}: there are no arrays in it")
        opened.append((kind, place, stored))
        return {name: (tuple(a.shape), _known(name, a.dtype)) for name, a in stored.items()}

    found = together(look, "the members found different arrays; is the path on a shared system?")
    kind, place, stored = opened[0]
    arrays = {}
    try:
        for name, (shape, dtype) in found.items():
            arrays[name] = empty(
                shape, dtype, distribution=distribution, grid=grid, mirrored=mirrored, group=group
            )
        together(lambda: [_read(kind, place, n, stored[n], a) for n, a in arrays.items()] and None)
    except Error:
        for array in arrays.values():
            array.free()  # all members are here
        raise
    finally:
        kind.close(stored)
    _core.sync(group)
    return arrays[""] if list(arrays) == [""] else arrays


def _known(name, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufc" or dtype.itemsize not in (1, 2, 4, 8, 16) or dtype == "float16":
        raise DtypeError(f"{name or 'the array'} in it is {dtype}, which no Array can hold")
    return dtype.newbyteorder("=").name


def _read(kind, path, name, stored, array):
    """The own block, a chunk at a time."""
    box, local = array.distribution(), array.local
    chunks = stored.chunks or tuple(max(1, n) for n in array.shape)
    for place, part in _parts(array.shape, chunks, box):
        inside = tuple(
            slice(p.start - low, p.stop - low) for p, (low, _) in zip(part, box, strict=True)
        )
        local[inside] = kind.read(path, name, stored, place, part)
