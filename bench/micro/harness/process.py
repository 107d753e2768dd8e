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
    """`rows`: the figures that the program printed, (row, value). `why`: empty, or why the run does not count."""

    rows: list[tuple[str, float]]
    status: int
    why: str


def _stamp(pid: int) -> str:
    """The start time of a process: its number may belong to another one later. Empty: it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def _end(process: subprocess.Popen) -> tuple[str, str]:
    """Ends a program's group, then whatever of its descendants is left: launchers that die at once leave ranks that spin for ever."""
    family = [(pid, _stamp(pid)) for pid in machine.descendants(process.pid)]
    os.killpg(process.pid, signal.SIGTERM)
    try:
        return process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()
    finally:
        for pid, stamp in family:
            if stamp and _stamp(pid) == stamp:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def run_program(command: list[str], environment: dict[str, str], limit_s: float) -> Outcome:
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
        output, errors = _end(process)
    except BaseException:
        _end(process)
        raise
    found = [json.loads(line) for line in output.splitlines() if line.startswith('{"row"')]
    why = ""
    if late:
        why = f"no end after {limit_s:g} s"
    elif process.returncode != 0:
        last = " | ".join(errors.strip().splitlines()[-3:])
        why = f"status {process.returncode}: {last}"
    return Outcome([(line["row"], line["value"]) for line in found], process.returncode, why)
