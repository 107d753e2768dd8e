"""One measurement at a time on a machine: two would measure each other."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO, Optional

from ..errors import Busy

DEFAULT = Path(tempfile.gettempdir()) / "hpcaas-measuring.lock"


class MachineLock:
    """Held for the length of a measurement. The kernel releases it with the process, however that
    ends."""

    def __init__(self, path: Path = DEFAULT):
        self.path = path
        self._file: Optional[IO[str]] = None

    def __enter__(self) -> "MachineLock":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.fchmod(descriptor, 0o666)  # so that another user's measurement is noticed too
        except PermissionError:
            pass
        file = os.fdopen(descriptor, "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().strip() or "unknown"
            file.close()
            raise Busy(
                f"another measurement runs on this machine (process {holder}, lock '{self.path}')",
                "wait for it to end; results of two at once are worthless",
            )
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()
            self._file = None
