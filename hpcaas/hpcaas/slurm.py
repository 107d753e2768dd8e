"""What Slurm says of itself. ReFrame submits and polls; this only asks which of its ways fit this
cluster."""

from __future__ import annotations

import functools
import re
import shutil

from .toolchain import run_text


def parse_mpi_types(text: str) -> list[str]:
    """Values of `srun --mpi=list`; the words around them changed between Slurm's versions."""
    names: list[str] = []
    for line in text.splitlines():
        line = re.sub(r"^srun:\s*(error:)?", "", line).strip()
        if line.startswith("specific"):  # "specific pmix plugin versions available: pmix_v4"
            names += [name.strip() for name in line.partition(":")[2].split(",")]
        elif re.fullmatch(r"[a-z0-9_]+", line):
            names.append(line)
    return list(dict.fromkeys(filter(None, names)))


@functools.cache
def mpi_types() -> list[str]:
    """What this cluster's srun takes as --mpi; empty without Slurm."""
    return parse_mpi_types(run_text(["srun", "--mpi=list"])) if shutil.which("srun") else []


def parse_accounting(text: str) -> bool:
    """Whether `scontrol show config` names a place where jobs are accounted, so that sacct
    answers."""
    found = re.search(r"^AccountingStorageType\s*=\s*(\S+)", text, re.M)
    return bool(found) and not found.group(1).endswith("none") and found.group(1) != "(null)"


@functools.cache
def has_accounting() -> bool:
    return parse_accounting(run_text(["scontrol", "show", "config"]))


def backend(scheduler: str) -> str:
    """ReFrame's name for a site's scheduler. Its `slurm` asks sacct, which needs accounting;
    without it `squeue` does."""
    return "squeue" if scheduler == "slurm" and not has_accounting() else scheduler
