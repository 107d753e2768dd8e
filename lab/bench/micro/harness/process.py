"""One program to its end, within a time limit, with everything it started."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
from pathlib import Path

from . import machine


@dataclasses.dataclass(frozen=True)
class Outcome:
    """rows: (row, value) of what the program printed. why: empty, or why the run does not count.
    output: all that it printed. late: it did not end by itself."""

    rows: list[tuple[str, float]]
    status: int
    why: str
    output: str = ""
    late: bool = False


def _stamp(pid: int) -> str:
    """When a process started, as its number may belong to another one later. Empty: it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def _end(process: subprocess.Popen, grace_s: float) -> tuple[str, str]:
    """Asks a program to end, then ends what is left of it and of all that it started.

    A launcher that is killed may leave ranks behind that spin for ever. They also hold its output
    open, so they end before the rest of it is read.
    """
    family = [(pid, _stamp(pid)) for pid in machine.descendants(process.pid)]
    with contextlib.suppress(ProcessLookupError):  # it has ended, and what it left holds its output
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=grace_s)
    for pid, stamp in family:
        if stamp and _stamp(pid) == stamp:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return process.communicate()


def run_program(
    command: list[str], environment: dict[str, str], limit_s: float, grace_s: float = 5
) -> Outcome:
    """Runs `command` to its end. After `limit_s` it is asked to end, and ended `grace_s` later."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        process_group=0,
    )
    late = False
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        late = True
        output, errors = _end(process, grace_s)
    except BaseException:
        _end(process, grace_s)
        raise
    found = [json.loads(line) for line in output.splitlines() if line.startswith('{"row"')]
    why = ""
    if late:
        why = f"no end after {limit_s:g} s"
    elif process.returncode != 0:
        last = " | ".join(errors.strip().splitlines()[-3:])
        why = f"status {process.returncode}: {last}"
    rows = [(line["row"], line["value"]) for line in found]
    return Outcome(rows, process.returncode, why, output, late)
