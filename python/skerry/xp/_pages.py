"""Blocks of divided arrays that the other ranks of the node can map. Such an array becomes whole
without a copy: each rank maps all blocks in a row, privately. It then reads the same pages, and
the kernel copies those that it writes.

A block lies in a memfd of its rank, at the place modulo 2 MiB that it has in the array, so that
pages meet where blocks do. Ranks name it by process, descriptor and inode. Knows nothing of arrays
and layouts, and does not communicate.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ._types import Block

PAGE, _HUGE = 4096, 2 << 20
LEAST_BYTES = 4 << 20  # of a block: making a memfd and mapping it takes some 20 us
_MOST_BLOCKS = 64  # of a process, which may have few descriptors
_FIXED, _NO_RESERVE, _COLLAPSE = 0x10, 0x4000, 25  # of Linux: MAP_FIXED, MAP_NORESERVE, MADV_...

Name = tuple[int, int, int]  # process, descriptor, inode

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                       ctypes.c_long]  # fmt: skip
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _mmap(at: int | None, count: int, access: int, kind: int, fd: int, offset: int) -> int:
    found = _libc.mmap(at, count, access, kind, fd, offset)
    if found is None or found == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, f"mmap of {count} bytes: {os.strerror(number)}")
    return int(found)


class _Mapped:
    """Addresses from a 2 MiB boundary on, where files are put. Between them is empty memory, if it
    is to have some. An ndarray of it keeps it."""

    def __init__(self, count: int, access: int = 0) -> None:
        self.nbytes = -(-count // PAGE) * PAGE
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        room, self._unmap = self.nbytes + _HUGE, _libc.munmap
        start = _mmap(None, room, access, private, -1, 0)
        self.base = -(-start // _HUGE) * _HUGE
        end, room_end = self.base + self.nbytes, start + room
        if self.base > start:
            _libc.munmap(start, self.base - start)
        if room_end > end:
            _libc.munmap(end, room_end - end)

    def __del__(self) -> None:
        if hasattr(self, "base"):
            self._unmap(self.base, self.nbytes)

    def put(self, fd: int, at: int, count: int, offset: int, kind: int) -> None:
        """Maps `count` bytes of a file, from `offset` on, at a place that is a page's beginning."""
        assert at % PAGE == 0 and offset % PAGE == 0 and 0 <= at <= at + count <= self.nbytes
        access = mmap.PROT_READ | mmap.PROT_WRITE
        _mmap(self.base + at, count, access, kind | _FIXED, fd, offset)
        _libc.madvise(self.base + at, count, mmap.MADV_HUGEPAGE)  # a hint

    def use_huge_pages(self) -> None:
        """Of a new shared mapping. Each begins with a single small page: the kernel copies what is
        there, and refuses where nothing is. Errors: OSError (there are none)."""
        touched = self.view(0, self.nbytes)
        for at in range(0, self.nbytes - _HUGE + 1, _HUGE):
            touched[at] = 0
            if _libc.madvise(self.base + at, _HUGE, _COLLAPSE) != 0:
                number = ctypes.get_errno()
                raise OSError(number, f"no huge page: {os.strerror(number)}")

    def view(self, at: int, count: int) -> Block:
        return np.asarray(_Shown(self, at, count))


@lru_cache(maxsize=1)
def numpys_are_huge() -> bool:
    """Whether NumPy's large arrays have huge pages. Sums of an array without them take 1.1 times as
    long, products with vectors 1.4 times: then ours need them too."""
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as choices:
            return "[never]" not in choices.read()
    except OSError:
        return False


class _Shown:
    """What NumPy asks for memory: some bytes of a mapping."""

    def __init__(self, mapped: _Mapped, at: int, count: int) -> None:
        self.mapped = mapped
        self.__array_interface__ = {"data": (mapped.base + at, False), "shape": (count,),
                                    "typestr": "|u1", "version": 3}  # fmt: skip


class Pages:
    """A rank's block of an array, in memory that others of the node can map while this lives."""

    count = 0  # that live

    def __init__(self, nbytes: int, offset: int) -> None:
        """`offset`: of the block in the array. Errors: OSError."""
        self.fd = -1
        if Pages.count >= _MOST_BLOCKS:
            raise OSError(f"{_MOST_BLOCKS} blocks of this process can be mapped already")
        skew = offset % _HUGE
        mapped = _Mapped(skew + nbytes)
        self.fd, self._close = os.memfd_create("skerry-array"), os.close
        Pages.count += 1
        os.ftruncate(self.fd, mapped.nbytes)
        mapped.put(self.fd, 0, mapped.nbytes, 0, mmap.MAP_SHARED)
        if numpys_are_huge():
            mapped.use_huge_pages()
        self.bytes = mapped.view(skew, nbytes)

    def __del__(self) -> None:
        if self.fd >= 0:
            self._close(self.fd)
            Pages.count -= 1

    def name(self) -> Name:
        return os.getpid(), self.fd, os.fstat(self.fd).st_ino

    def holds(self, block: Block) -> bool:
        """Whether it is this memory, all of it, in order."""
        begin = self.bytes.__array_interface__["data"][0]
        return (
            block.nbytes == self.bytes.nbytes
            and block.flags.c_contiguous
            and block.__array_interface__["data"][0] == begin
        )


def _opened(name: Name) -> int:
    """A descriptor of the block of that name. The number of a process may mean another one in this
    rank's container: the inode tells."""
    process, number, inode = name
    fd = os.open(f"/proc/{process}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    if os.fstat(fd).st_ino != inode:
        os.close(fd)
        raise OSError(f"descriptor {number} of process {process} is another file")
    return fd


def joined(parts: Sequence[tuple[Name | None, int]]) -> Block:
    """All blocks in a row, given as (name, bytes), mapped privately: as bytes that may be written,
    which nobody else sees. In place of one without a name is empty memory. Errors: OSError."""
    total = sum(nbytes for _, nbytes in parts)
    is_full = all(name is not None for name, nbytes in parts if nbytes)
    whole = _Mapped(total, 0 if is_full else mmap.PROT_READ | mmap.PROT_WRITE)
    out: Any = whole.view(0, total)
    begin = 0
    for name, nbytes in parts:
        if not nbytes or name is None:
            begin += nbytes
            continue
        page = begin // PAGE * PAGE
        # The first page has the end of the block before, whose mapping this one covers.
        before = out[page:begin].copy()
        fd = _opened(name)
        try:
            count = -(-(begin + nbytes) // PAGE) * PAGE - page
            whole.put(fd, page, count, page - begin // _HUGE * _HUGE, mmap.MAP_PRIVATE)
        finally:
            os.close(fd)
        if len(before):
            out[page:begin] = before
        begin += nbytes
    return out
