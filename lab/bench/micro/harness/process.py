"""One program to its end, within a time limit, with everything it started."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[4] / "tests"))

import running  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Outcome:
    """rows: (row, value) of what the program printed. why: empty, or why the run does not count.
    output: all that it printed. late: it did not end by itself."""

    rows: list[tuple[str, float]]
    status: int
    why: str
    output: str = ""
    late: bool = False


def run_program(
    command: list[str], environment: dict[str, str], limit_s: float, grace_s: float = 5
) -> Outcome:
    """Runs `command` to its end. After `limit_s` it is asked to end, and ended `grace_s` later."""
    # In our session, by which the scheduler shares out time.
    ours = {"start_new_session": False, "process_group": 0, "env": environment}
    process = running.start(command, stderr=subprocess.PIPE, **ours)
    late = False
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        late = True
        running.end(process, grace_s)
        output, errors = process.communicate()
    except BaseException:
        running.end(process, grace_s)
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
