"""Looking at the arrays of a running job from outside."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .errors import FreedError, InternalError, InvalidError, RangeError
from ._types import Block


def attach(job: str | int = "") -> Attached:
    """A running job of this user, seen from a process that is none of its ranks, such as a
    notebook on a node of the job. `job`: its name, as `skerry stacks` lists it, or the process of a
    rank or of `skerry run`; "": the only one. Reads the ranks' memory and asks nothing of them, so
    that ending the reader, or killing it, does nothing to the job.

        job = sk.attach()
        job["density"][10:20, :]         # what is there now

    Only named arrays (Array.label), and of them what ranks of this machine hold. Needs no
    sk.init(). Errors: InvalidError (no such job, or another user's). Not collective."""
    return Attached(str(job))


def _slices(job: str) -> tuple[str, list[dict[str, Any]]]:
    """What the reader of running jobs says: the job's name, and its named slices."""
    launcher = (Path(__file__).parent / "bin" / "skerry").resolve()
    reader = launcher.parent.parent / "libexec" / "skerry" / "skerry-look"
    if not reader.exists():
        raise InternalError(f"no {reader}: the package is not installed completely")
    words = [str(reader), "labels"] + ([job] if job else [])
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise InvalidError(done.stderr.strip().removeprefix("skerry attach: "))
    said = json.loads(done.stdout)
    return said["job"], said["slices"]


class Attached:
    """A running job, as attach() finds it."""

    def __init__(self, job: str) -> None:
        self._job, _ = _slices(job)

    @property
    def name(self) -> str:
        """Of the job. Not collective."""
        return self._job

    def names(self) -> list[str]:
        """Of its arrays, now. Not collective. Errors: InvalidError (the job has ended)."""
        return sorted({one["name"] for one in self._arrays()})

    def __getitem__(self, name: str) -> AttachedArray:
        """Errors: KeyError."""
        found = [one for one in self._arrays() if one["name"] == name]
        if not found:
            names = ", ".join(self.names()) or "none"
            raise KeyError(f"no array {name!r} in job {self._job}: {names}")
        return AttachedArray(name, found)

    def __repr__(self) -> str:
        return f"<skerry job {self._job}, attached>"

    def _arrays(self) -> list[dict[str, Any]]:
        return [one for one in _slices(self._job)[1] if one["text"].startswith("array ")]


class _Block:
    """One rank's part."""

    def __init__(self, said: dict[str, Any]) -> None:
        _, kind, *bounds, placement = said["text"].split()
        self.shape, self.lo, self.hi = (tuple(map(int, each.split(","))) for each in bounds)
        self.dtype = np.dtype(kind)
        self.mirrored = placement == "mirrored"
        self.node, self.rank = said["node"], said["rank"]
        self.segment, self._record = said["segment"], said["record"]
        self._pid, self._address = said["pid"], said["address"]

    def read_into(self, out: Block, lo: Sequence[int], hi: Sequence[int]) -> int:
        """Its part of the patch [lo, hi), which `out` is. How many elements that was."""
        low = [max(a, b) for a, b in zip(lo, self.lo)]
        high = [min(a, b) for a, b in zip(hi, self.hi)]
        if any(a >= b for a, b in zip(low, high)):
            return 0
        size = self.dtype.itemsize
        strides = [size] * len(low)
        for d in range(len(low) - 2, -1, -1):
            strides[d] = strides[d + 1] * (self.hi[d + 1] - self.lo[d + 1])
        # Dimensions from `whole` on lie together in the block.
        whole = len(low) - 1
        while whole > 0 and (low[whole], high[whole]) == (self.lo[whole], self.hi[whole]):
            whole -= 1
        extent = [b - a for a, b in zip(low, high)]
        part = np.empty(extent, self.dtype)
        run = part.nbytes // int(np.prod(extent[:whole], dtype=np.int64))
        flat = part.reshape(-1).view(np.uint8).data
        memory = self._open()
        try:
            self._check(memory)
            for at, outer in enumerate(np.ndindex(*extent[:whole])):
                first = [a + i for a, i in zip(low, outer)] + low[whole:]
                offset = sum((a - b) * s for a, b, s in zip(first, self.lo, strides))
                self._read(memory, self._address + offset, flat[at * run : (at + 1) * run])
            self._check(memory)  # what was read is not another segment's
        finally:
            os.close(memory)
        out[tuple(slice(a - o, b - o) for a, b, o in zip(low, high, lo))] = part
        return part.size

    def _gone(self) -> FreedError:
        return FreedError("the array was freed, or its job has ended")

    def _open(self) -> int:
        try:
            return os.open(f"/proc/{self._pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise self._gone() from None

    def _read(self, memory: int, address: int, into: memoryview) -> None:
        while len(into):
            try:
                got = os.preadv(memory, [into], address)
            except OSError:
                raise self._gone() from None
            if got == 0:
                raise self._gone()
            into, address = into[got:], address + got

    def _check(self, memory: int) -> None:
        word = bytearray(8)
        self._read(memory, self._record, memoryview(word))
        if struct.unpack("=Q", word)[0] != self.segment:
            raise self._gone()


class AttachedArray:
    """A named array of a running job, read-only. It is gone when the job frees it: reading raises
    FreedError, then or when the job has ended."""
    def __init__(self, name: str, slices: list[dict[str, Any]]) -> None:
        blocks = [_Block(one) for one in slices]
        if len({one.segment for one in blocks}) > 1:
            raise InvalidError(f"ranks have given the name {name!r} to several arrays")
        if blocks[0].mirrored:  # each node has all of it
            blocks = [one for one in blocks if one.node == blocks[0].node]
        self._name, self._blocks = name, blocks

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions. Not collective."""
        return self._blocks[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements. Not collective."""
        return self._blocks[0].dtype

    def __getitem__(self, patch: Any) -> Any:
        """A copy of a patch, as Array's; ranks may be writing it meanwhile. Steps must be 1.
        Errors: RangeError, InvalidError (a part of it is on another machine), FreedError."""
        lo, hi, kept = self._bounds(patch)
        out = np.empty([b - a for a, b in zip(lo, hi)], self.dtype)
        seen = sum(block.read_into(out, lo, hi) for block in self._blocks)
        if seen != out.size:
            raise InvalidError(
                f"{out.size - seen} of {out.size} elements of {self._name!r} are on other "
                "machines: attach there, or ask for a smaller patch"
            )
        return out[tuple(slice(None) if keep else 0 for keep in kept)]

    def __repr__(self) -> str:
        return f"<array {self._name!r} of a running job, {self.dtype} {self.shape}>"

    def _bounds(self, patch: Any) -> tuple[list[int], list[int], list[bool]]:
        """(from, to, which dimensions stay) of what is asked for."""
        words = list(patch) if isinstance(patch, tuple) else [patch]
        if words.count(Ellipsis) > 1:
            raise InvalidError("give one ... at most")
        missing = len(self.shape) - len([word for word in words if word is not Ellipsis])
        if missing < 0:
            raise RangeError(f"{len(words)} indices for {self._name!r} of shape {self.shape}")
        at = words.index(Ellipsis) if Ellipsis in words else len(words)
        words[at : at + 1] = [slice(None)] * missing
        lo, hi, kept = [], [], []
        for word, extent in zip(words, self.shape):
            if isinstance(word, slice):
                begin, end, step = word.indices(extent)
                if step != 1:
                    raise InvalidError(f"step {step}: only 1 is possible")
                lo.append(begin)
                hi.append(max(begin, end))
                kept.append(True)
                continue
            index = int(word) + (extent if word < 0 else 0)
            if not 0 <= index < extent:
                raise RangeError(f"index {word} of {extent} in {self._name!r}")
            lo.append(index)
            hi.append(index + 1)
            kept.append(False)
        return lo, hi, kept
