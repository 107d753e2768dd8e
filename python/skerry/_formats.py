"""The file formats of sk.save and sk.load.

A format makes a file without its elements (`create`), and finds the arrays of one (`open`). Where
it puts an array's elements down as they lie in memory, `create` says at which byte, and the members
write there; its `seal` completes the file. In other files elements go through the format's library.
"""

from __future__ import annotations

import ctypes
import errno
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ._parts import block_pieces, Bounds, Box, divided_last, joined_crc
from .errors import DtypeError, FileError, InvalidError, UnsupportedError
from ._types import Block, Order

PIECE_BYTES = 8 << 20  # how much one call reads or writes
SHORT_RUN_BYTES = 16 << 10  # shorter pieces of a block cost more in calls than in bytes
# name -> (shape, dtype, edges of chunks) of what is to be written; alone, an array has no name.
Described: TypeAlias = dict[str, tuple[tuple[int, ...], "np.dtype[Any]", Any]]
_MARK = "skerry_chunks"  # an attribute of arrays of which every chunk is stored


class Place:
    """Where the elements of an array lie in a file, and what they are."""

    chunks = None

    def __init__(
        self,
        path: Path,
        offset: int,
        shape: Sequence[int],
        dtype: DTypeLike,
        *,
        order: Order = "C",
        crc: int | None = None,
        checked: int = 0,
        opened: int | None = None,
    ) -> None:
        """opened: a descriptor of the file, through which it is read."""
        self.path, self.offset, self.shape, self.order = path, offset, tuple(shape), order
        self.dtype, self.opened = np.dtype(dtype), opened
        self.crc, self.checked = crc, checked  # of the bytes from `checked` to the last element
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        found = os.stat(path if opened is None else opened).st_size
        if found < offset + self.nbytes:
            raise FileError(
                f"{path} is damaged: it has {found} bytes, and its elements end at byte "
                f"{offset + self.nbytes}"
            )

    def file(self) -> io.FileIO:
        """The file, open to be read."""
        if self.opened is None:
            return io.FileIO(self.path)
        return io.FileIO(self.opened, closefd=False)

    def mapped(self, mode: Literal["r", "c", "r+", "w+"] = "r") -> Block:
        """The array, as a numpy.memmap."""
        if not self.nbytes:  # nothing can be mapped
            return np.empty(self.shape, self.dtype, self.order)
        path = self.path if self.opened is None else f"/proc/self/fd/{self.opened}"
        return np.memmap(path, self.dtype, mode, self.offset, self.shape, self.order)

    def read(self, bounds: Bounds, out: Block, progress: Callable[[int], object]) -> None:
        """The elements within `bounds` into `out`, which has their shape."""
        if not out.nbytes:
            return
        shape, most = self.shape, max(1, PIECE_BYTES // self.dtype.itemsize)
        axis = divided_last(shape, bounds) if shape else 0
        run = out[(0,) * axis].nbytes if shape else out.nbytes
        as_it_is = self.order == "C" and self.dtype == out.dtype and self.dtype.isnative
        if not as_it_is or not out.flags.c_contiguous or (axis and run < SHORT_RUN_BYTES):
            self._copy(bounds, out, most, progress)
            return
        into, at = out.reshape(-1).view("u1"), 0
        with self.file() as file:
            for start, box in block_pieces(shape, bounds, most):
                size = self.dtype.itemsize * _elements(box)
                place = self.offset + start * self.dtype.itemsize
                read_at(file, place, into[at : at + size], self.path)
                at += size
                progress(size)

    def _copy(
        self, bounds: Bounds, out: Block, most: int, progress: Callable[[int], object]
    ) -> None:
        """Part by part along the axis on which neighbours lie farthest apart."""
        mapped = self.mapped()
        if not self.shape:
            out[...] = mapped
            return
        axis = 0 if self.order == "C" else len(self.shape) - 1
        (low, high), rows = bounds[axis], max(1, most * out.shape[axis] // out.size)
        box = [slice(*each) for each in bounds]
        for first in range(low, high, rows):
            box[axis] = slice(first, min(high, first + rows))
            part = out[(slice(None),) * axis + (slice(first - low, box[axis].stop - low),)]
            part[...] = mapped[tuple(box)]
            progress(part.nbytes)


def _elements(box: Box) -> int:
    count = 1
    for each in box:
        count *= each.stop - each.start
    return count


def read_at(file: io.FileIO, at: int, into: Block, path: Path) -> None:
    """Fills a contiguous array of bytes from a place of the file."""
    done = 0
    while done < len(into):
        got = os.preadv(file.fileno(), [into[done:].data], at + done)
        if not got:
            raise FileError(f"{path} ends at byte {at + done}: it was changed meanwhile")
        done += got


def write_at(file: BinaryIO, at: int, part: Block) -> None:
    """Writes a contiguous array at a place of the file."""
    data, done = part.reshape(-1).view("u1"), 0
    while done < len(data):
        done += os.pwrite(file.fileno(), data[done:].data, at + done)


def reserve(path: Path) -> None:
    """Takes the blocks of a file that is as long as it will be, where the system can: a full disk
    is noticed now, and giving the file its name waits for fewer of them."""
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
    except AttributeError:
        return
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        done = fallocate(file.fileno(), 0, ctypes.c_int64(0), ctypes.c_int64(size)) if size else 0
        if done != 0 and ctypes.get_errno() in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            number = ctypes.get_errno()
            raise FileError(f"{path}: no room for {size} bytes: {os.strerror(number)}")


# ---- Zarr ----------------------------------------------------------------------------------------


class Zarr:
    suffixes = (".zarr",)
    package = "zarr"
    compressions = ("zstd", "gzip", "none")
    all_write = True

    def __init__(self) -> None:
        import zarr
        import zarr.codecs

        if int(zarr.__version__.split(".")[0]) < 3:
            raise ImportError(f"zarr {zarr.__version__} is too old: 3 or newer is needed")
        self.zarr = zarr

    def create(self, path: Path, described: Described, compression: str | None) -> None:
        """described: {name: (shape, dtype, chunks)}; an array that is alone has the name ""."""
        codecs = self.zarr.codecs
        if compression == "none":
            compressors = [codecs.Crc32cCodec()]
        elif compression == "gzip":
            compressors = [codecs.GzipCodec(level=1), codecs.Crc32cCodec()]
        else:
            compressors = codecs.ZstdCodec(level=1, checksum=True)
        if "" not in described:
            self.zarr.create_group(path, zarr_format=3)
        for name, (shape, dtype, chunks) in described.items():
            array = self.zarr.create_array(
                path,
                name=name or None,
                shape=shape,
                dtype=dtype,
                chunks=chunks,
                compressors=compressors,
                attributes={_MARK: "all"},
                # xarray reads no array without them; arrays of a file share no dimension
                dimension_names=[f"{name or 'dim'}_{d}" for d in range(len(shape))],
                zarr_format=3,
                config={"write_empty_chunks": True},
            )
            assert array.chunks == chunks

    def open(self, path: Path, mode: Literal["r", "r+"]) -> dict[str, Any]:
        """{name: array}."""
        if not (path / "zarr.json").exists() and not any(path.glob(".z*")):
            raise FileError(f"{path} is no Zarr array or group: it has no zarr.json")
        found = self.zarr.open(path, mode=mode)
        if isinstance(found, self.zarr.Array):
            return {"": self._complete(found)}
        return {name: self._complete(array) for name, array in sorted(found.arrays())}

    @staticmethod
    def _complete(array: Any) -> Any:
        return array.with_config({"write_empty_chunks": True})

    def read(self, path: Path, name: str, array: Any, place: tuple[int, ...], part: Box) -> Any:
        """What a part of a chunk holds. zarr takes a chunk that is not there for zeroes, which
        other programs leave out; we do not."""
        if array.attrs.get(_MARK) == "all":
            file = path / name / array.metadata.encode_chunk_key(place)
            if not file.exists():
                raise FileError(f"{path} is damaged: {file} is missing")
        return array[part]

    def close(self, arrays: dict[str, Any]) -> None:
        pass


# ---- HDF5 ----------------------------------------------------------------------------------------


class Hdf5:
    suffixes = (".h5", ".hdf5")
    package = "h5py"
    compressions = ("gzip", "lzf")
    all_write = False

    def __init__(self) -> None:
        import h5py

        self.h5py = h5py

    def create(self, path: Path, described: Described, compression: str | None) -> list[int] | None:
        """The first bytes of the arrays' elements, if all of them lie as in memory."""
        h5py, offsets = self.h5py, []
        with h5py.File(path, "w") as file:
            for name, (shape, dtype, chunks) in described.items():
                if 0 in shape or chunks is None:  # in one piece, whose place is known from now on
                    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                    space = h5py.h5s.create_simple(shape) if shape else None
                    dataset = h5py.h5d.create(
                        file.id,
                        None,
                        h5py.h5t.py_create(dtype, logical=True),
                        space or h5py.h5s.create(h5py.h5s.SCALAR),
                        dcpl=plist,
                    )
                    file[name or "array"] = h5py.Dataset(dataset)
                    offsets.append(dataset.get_offset() or 0)
                else:
                    options = 1 if compression == "gzip" else None
                    file.create_dataset(
                        name or "array", shape, dtype, chunks=chunks, fletcher32=True,
                        compression=compression, compression_opts=options,
                    )  # fmt: skip
            file.attrs[_MARK] = "" if "" in described else "names"
        if len(offsets) < len(described):
            return None
        reserve(path)
        return offsets

    def seal(self, path: Path, sums: Sequence[tuple[int, int]]) -> None:
        pass

    def open(self, path: Path, mode: str) -> dict[str, Any]:
        """{name: dataset, or the Place of one that lies there as in memory}."""
        file = self.h5py.File(path, mode)
        datasets = {n: d for n, d in sorted(file.items()) if isinstance(d, self.h5py.Dataset)}
        if file.attrs.get(_MARK) == "" and list(datasets) == ["array"]:
            datasets = {"": datasets["array"]}
        if mode == "r":
            datasets = {name: self._place(path, d) or d for name, d in datasets.items()}
        if not any(isinstance(d, self.h5py.Dataset) for d in datasets.values()):
            file.close()
        return datasets

    def _place(self, path: Path, dataset: Any) -> Place | None:
        offset = dataset.id.get_offset()
        if offset is None or dataset.chunks or dataset.external or dataset.is_virtual:
            return None
        if dataset.dtype.kind not in "biufc" or dataset.shape is None:
            return None
        if not dataset.id.get_type().equal(self.h5py.h5t.py_create(dataset.dtype, logical=True)):
            return None
        return Place(path, offset, dataset.shape, dataset.dtype)

    def read(self, path: Path, name: str, array: Any, place: tuple[int, ...], part: Box) -> Any:
        return array[part]

    def close(self, arrays: dict[str, Any]) -> None:
        for array in arrays.values():
            if not isinstance(array, Place):
                array.file.close()
                return


# ---- NumPy ---------------------------------------------------------------------------------------


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """What stands before the elements in a .npy file."""
    header = io.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    try:
        np.lib.format.write_array_header_1_0(header, about)
    except ValueError:  # longer than 64 KiB: of very many fields
        header = io.BytesIO()
        np.lib.format.write_array_header_2_0(header, about)
    return header.getvalue()


def read_npy_header(
    file: IO[bytes], path: Path | str
) -> tuple[tuple[int, ...], np.dtype[Any], Order]:
    """(shape, dtype, order) of a .npy file; leaves `file` where the elements begin."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        else:  # 3.0 differs from 2.0 in the letters of names alone
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    except (ValueError, EOFError) as error:
        raise FileError(f"{path} is no .npy file, or a damaged one: {error}") from None
    if dtype.hasobject:
        raise DtypeError(
            f"{path} holds Python objects, which are read by running code of the file: where you "
            "trust it, numpy.load(allow_pickle=True) does"
        )
    return shape, dtype, "F" if fortran else "C"


class Npy:
    suffixes = (".npy",)
    package = "numpy"
    one = True  # array, without a name
    compressions = ()
    all_write = False

    def create(self, path: Path, described: Described, compression: str | None) -> list[int]:
        ((shape, dtype, _),) = described.values()
        header = npy_header(shape, dtype)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        with open(path, "wb") as file:
            file.write(header)
            file.truncate(len(header) + nbytes)
        reserve(path)
        return [len(header)]

    def seal(self, path: Path, sums: Sequence[tuple[int, int]]) -> None:
        pass

    def open(self, path: Path, mode: str) -> dict[str, Any]:
        with open(path, "rb") as file:
            shape, dtype, order = read_npy_header(file, path)
            return {"": Place(path, file.tell(), shape, dtype, order=order)}

    def close(self, arrays: dict[str, Any]) -> None:
        pass


class Npz:
    """A zip file of .npy files, as numpy.savez makes them. Elements that are not compressed lie
    there as in memory; their checksum is made of those of the members' parts."""

    suffixes = (".npz",)
    package = "numpy"
    compressions = ("deflate",)
    all_write = False
    alone = b"skerry: one array"

    def create(self, path: Path, described: Described, compression: str | None) -> list[int]:
        self.entries, self.is_alone = [], "" in described
        at, offsets = 0, []
        with open(path, "wb") as file:
            for name, (shape, dtype, _) in described.items():
                header, entry = npy_header(shape, dtype), zipfile.ZipInfo(f"{name or 'arr_0'}.npy")
                entry.external_attr, entry.header_offset = 0o600 << 16, at
                entry.CRC, entry.create_system = 0, 3  # Unix
                entry.file_size = len(header) + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
                entry.compress_size = entry.file_size
                if compression:
                    entry.compress_type = zipfile.ZIP_DEFLATED
                self.entries.append((entry, header))
                start = at + len(entry.FileHeader(zip64=True))
                if compression:
                    offsets.append(-1)
                    continue  # where the next begins is known when this one is compressed
                file.seek(start)
                file.write(header)
                at = start + entry.file_size
                offsets.append(start + len(header))
            file.truncate(at)
        reserve(path)
        return offsets

    def packed_header(self, described: Described, index: int) -> tuple[bytes, int]:
        """The header of a compressed array, and the bytes that stand before it in the zip file."""
        name, (shape, dtype, _) = list(described.items())[index]
        entry = zipfile.ZipInfo(f"{name or 'arr_0'}.npy")
        entry.CRC, entry.file_size, entry.compress_size = 0, 0, 0
        return npy_header(shape, dtype), len(entry.FileHeader(zip64=True))

    def placed(self, index: int, begin: int, nbytes: int) -> None:
        """Where a compressed array lies."""
        entry = self.entries[index][0]
        entry.header_offset, entry.compress_size = begin, nbytes

    def seal(self, path: Path, sums: Sequence[tuple[int, int]]) -> None:
        """sums: (crc, bytes) of each array's elements."""
        end = 0
        with open(path, "r+b") as file:
            for (entry, header), (crc, nbytes) in zip(self.entries, sums, strict=True):
                entry.CRC = joined_crc(zlib.crc32(header), crc, nbytes)
                local = entry.FileHeader(zip64=True)
                file.seek(entry.header_offset)
                file.write(local)
                end = entry.header_offset + len(local) + entry.compress_size
            with zipfile.ZipFile(file, "a") as archive:
                archive.filelist += [entry for entry, _ in self.entries]
                archive.NameToInfo.update({entry.filename: entry for entry, _ in self.entries})
                archive.start_dir = end
                archive.comment = self.alone if self.is_alone else b""

    def open(self, path: Path, mode: str, opened: int | None = None) -> dict[str, Any]:
        """{name: what is stored}; opened: a descriptor of the file, through which to read."""
        try:
            return self._open(path, opened)
        except (zipfile.BadZipFile, zlib.error, struct.error) as error:
            raise FileError(f"{path} is no .npz file, or a damaged one: {error}") from None

    def _open(self, path: Path, opened: int | None) -> dict[str, Any]:
        found: dict[str, Place | Packed] = {}
        where = path if opened is None else opened
        with (
            open(where, "rb", closefd=opened is None) as file,
            zipfile.ZipFile(file) as archive,
        ):
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                if entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1:
                    found[name] = self._stored(path, archive, entry, opened)
                else:
                    found[name] = Packed(path, entry)
            alone = archive.comment == self.alone and list(found) == ["arr_0"]
        return {"": found["arr_0"]} if alone else found

    @staticmethod
    def _stored(
        path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, opened: int | None
    ) -> Place:
        assert archive.fp is not None
        lengths = struct.unpack("<26x2H", os.pread(archive.fp.fileno(), 30, entry.header_offset))
        begin = entry.header_offset + 30 + sum(lengths)
        with archive.open(entry) as file:
            shape, dtype, order = read_npy_header(file, f"{entry.filename} in {path}")
            at = begin + file.tell()
        crc = entry.CRC
        return Place(path, at, shape, dtype, order=order, crc=crc, checked=begin, opened=opened)

    def close(self, arrays: dict[str, Any]) -> None:
        pass


class Packed:
    """A compressed array in a .npz file: read from its beginning to its end."""

    chunks = None

    def __init__(self, path: Path, entry: zipfile.ZipInfo) -> None:
        self.path, self.entry = path, entry
        with zipfile.ZipFile(path) as archive, archive.open(entry) as file:
            what = f"{entry.filename} in {path}"
            self.shape, self.dtype, self.order = read_npy_header(file, what)

    def read(self, bounds: Bounds, out: Block, progress: Callable[[int], object]) -> None:
        """Every member unpacks all of it, and keeps its part."""
        shape, box = self.shape, [slice(*each) for each in bounds]
        if self.order == "F":
            shape, box, out = shape[::-1], box[::-1], out.T
        row = int(np.prod(shape[1:], dtype=np.int64)) * self.dtype.itemsize
        rows = max(1, PIECE_BYTES // max(1, row))
        with zipfile.ZipFile(self.path) as archive, archive.open(self.entry) as file:
            read_npy_header(file, self.path)
            if not shape:
                out[...] = np.frombuffer(file.read(), self.dtype).reshape(())
            for first in range(0, shape[0] if shape and row else 0, rows):
                count = min(rows, shape[0] - first)
                data = file.read(count * row)
                if len(data) < count * row:
                    raise FileError(f"{self.path} is damaged: {self.entry.filename} is too short")
                low, high = max(first, box[0].start), min(first + count, box[0].stop)
                if low < high:
                    part = np.frombuffer(data, self.dtype).reshape(count, *shape[1:])
                    target = out[low - box[0].start : high - box[0].start]
                    target[...] = part[(slice(low - first, high - first), *box[1:])]
                    progress(target.nbytes)
            file.read()  # so that the checksum is compared


FORMATS = (Zarr, Hdf5, Npy, Npz)


def format_of(path: Path) -> Any:
    for kind in FORMATS:
        if path.suffix in kind.suffixes:
            try:
                return kind()
            except ImportError as error:
                raise UnsupportedError(
                    f"{path}: {error}. {path.suffix} needs the package {kind.package}: "
                    f"pip install 'skerry[files]', or pip install {kind.package}"
                ) from None
    endings = ", ".join(suffix for kind in FORMATS for suffix in kind.suffixes)
    raise InvalidError(f"{path} ends with {path.suffix!r}: give a name with one of {endings}")
