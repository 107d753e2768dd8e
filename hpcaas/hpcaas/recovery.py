"""What it costs a program to survive an interruption, measured: writing a checkpoint, and going on
from it."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Optional

from .errors import BadInput, HpcaasError, read_json
from .spot import Loss

SCHEMA = "hpcaas-recovery/1"


@dataclass(frozen=True)
class Commands:
    """Each is a line of shell. `resume` ends when the program works again."""

    checkpoint: str
    resume: str
    prepare: str = ""  # before each pair, not measured: for instance starts the program


def _timed(line: str, limit_s: float) -> float:
    start = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, timeout=limit_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HpcaasError(f"'{line}' did not end within {limit_s:g} s", "give --time-limit-s")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-200:]
        raise HpcaasError(
            f"'{line}' ended with code {done.returncode}: {said}", "correct it; nothing is written"
        )
    return time.monotonic() - start


def measure(commands: Commands, repeats: int, limit_s: float) -> dict[str, Any]:
    """Seconds of each, `repeats` times in turn."""
    found: dict[str, list[float]] = {"write_s": [], "resume_s": []}
    for _ in range(repeats):
        if commands.prepare:
            _timed(commands.prepare, limit_s)
        found["write_s"].append(round(_timed(commands.checkpoint, limit_s), 4))
        found["resume_s"].append(round(_timed(commands.resume, limit_s), 4))
    return {
        "schema": SCHEMA,
        "measured": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "checkpoint": commands.checkpoint,
        "resume": commands.resume,
        **found,
    }


def write(found: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n")


def read_recovery(path: Path, every_s: Optional[float]) -> Loss:
    """A file that `hpcaas recovery` or another program wrote, with `write_s` and `resume_s` as
    lists of seconds, and, if it is known, `restart_s` until new nodes are there."""
    remedy = "name what `hpcaas recovery` wrote"
    said = read_json(path, "recovery file", remedy)
    if not isinstance(said, dict) or said.get("schema") != SCHEMA:
        raise BadInput(f"'{path}' has no schema '{SCHEMA}'", remedy)
    if every_s is None:
        raise BadInput("--recovery without --checkpoint-s", "say how often checkpoints are written")
    means = {}
    for name in ("write_s", "resume_s", "restart_s"):
        values = said.get(name, [300.0] if name == "restart_s" else None)
        numbers = values if isinstance(values, list) else [values]
        if not numbers or not all(_is_time(v) for v in numbers):
            raise BadInput(f"'{path}': {name} is {values!r}", "give a list of seconds, 0 or more")
        means[name] = statistics.fmean(numbers)
    runs = len(said["write_s"]) if isinstance(said["write_s"], list) else 1
    source = f"mean of {runs} measured, {said.get('measured', 'undated')}"
    return Loss(every_s, means["write_s"], means["resume_s"], means["restart_s"], source)


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < math.inf
