"""Published results: a folder in git, one file per machine, checked when it comes in; and which of
its machines is nearest to one's own. The paper's tables are always part of it, marked as read from
the paper."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .dataset import paper
from .errors import BadInput
from .model import ResultSet, Sample
from .running.noise import WAITING_LIMIT, disturbed
from .site import check_name

# What says where and by whom a run was made, not how fast the machine is.
PRIVATE = ("host", "hosts", "price", "filesystems")
DISTURBED = "disturbed: no verdict is drawn from it"
NEEDED = ("cpu_model", "cores", "kernel")


def checked(results: ResultSet, where: str) -> ResultSet:
    """Refuses what says too little of itself; marks disturbed runs; leaves private words out."""
    if not any(s.ok for s in results.samples):
        raise BadInput(f"'{where}' holds no good run", "measure first")
    for machine in {s.machine for s in results.samples}:
        lacking = [n for n in NEEDED if not results.machines.get(machine, {}).get(n)]
        if lacking:
            raise BadInput(
                f"'{where}' does not say the {', '.join(lacking)} of machine '{machine}'",
                "publish what `hpcaas measure` wrote, unchanged",
            )
    for sample in results.samples:
        if sample.source:
            raise BadInput(
                f"'{where}': '{sample.id}' was read from {sample.source}, not measured",
                "publish your own runs",
            )
        if sample.ok and not results.provenance.get(sample.provenance or ""):
            raise BadInput(
                f"'{where}': run '{sample.id}' has no provenance",
                "publish what `hpcaas measure` wrote, unchanged",
            )
    machines = {
        name: {k: v for k, v in one.items() if k not in PRIVATE}
        for name, one in results.machines.items()
    }
    samples = [_marked(s) for s in results.samples]
    return results.model_copy(update={"machines": machines, "samples": samples})


def _marked(sample: Sample) -> Sample:
    flags = [f for f in sample.flags if f != DISTURBED]
    if disturbed(sample.load, WAITING_LIMIT):
        flags.append(DISTURBED)
    return sample.model_copy(update={"flags": flags, "log": None})


def publish(source: Path, folder: Path) -> list[Path]:
    """Writes one file per machine into the folder; the same results twice are one file."""
    file = source / "results.json" if source.is_dir() else source
    results = checked(ResultSet.load(file), str(file))
    written = []
    for machine in dict.fromkeys(s.machine for s in results.samples):
        check_name("machine", machine)
        samples = [s for s in results.samples if s.machine == machine]
        used = {s.provenance for s in samples}
        part = results.model_copy(
            update={
                "samples": samples,
                "machines": {machine: results.machines[machine]},
                "provenance": {k: v for k, v in results.provenance.items() if k in used},
            }
        )
        ids = "\n".join(sorted(f"{s.id} {s.started}" for s in samples))
        name = f"{machine}-{hashlib.sha256(ids.encode()).hexdigest()[:8]}.json"
        folder.mkdir(parents=True, exist_ok=True)
        written.append(folder / name)
        part.save(written[-1])
    return written


def collected(folder: Path) -> list[tuple[str, ResultSet]]:
    """The paper's tables, then every file of the folder, each checked again."""
    found = [("the paper (read from its tables)", paper())]
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        found.append((path.name, checked(ResultSet.load(path), str(path))))
    return found


@dataclass(frozen=True)
class Near:
    where: str
    machine: str
    distance: float  # 0: the same in everything that is known of both
    differs: list[str]
    holds: list[str]  # applications that were measured there


def distance(mine: dict[str, Any], other: dict[str, Any]) -> tuple[float, list[str]]:
    """How far two machines are from each other, and in what. A processor of another model counts
    1, of another make 1 more; a doubling of cores 1, of the memory of a core 0.5."""
    total, differs = 0.0, []
    for name, weight in (("cpu_model", 1.0), ("cores", 1.0), ("memory_gib", 0.5)):
        if mine.get(name) and not other.get(name):
            total += weight
            differs.append(f"{name} not said")
    for name, weight in (("cpu_model", 1.0), ("cpu_vendor", 1.0), ("architecture", 4.0)):
        a, b = mine.get(name), other.get(name)
        if a and b and a != b:
            total += weight
            differs.append(f"{name} {b}")
    for name, weight in (("cores", 1.0), ("memory_gib", 0.5)):
        a, b = mine.get(name), other.get(name)
        if name == "memory_gib" and a and b:
            a, b = a / (mine.get("cores") or 1), b / (other.get("cores") or 1)
        if a and b and abs(math.log2(b / a)) > 0.1:
            total += weight * abs(math.log2(b / a))
            differs.append(f"{other[name]:g} {'cores' if name == 'cores' else 'GiB'}")
    return total, differs


def nearest(mine: dict[str, Any], folder: Path) -> list[Near]:
    found = []
    for where, results in collected(folder):
        for machine, description in results.machines.items():
            samples = [s for s in results.samples if s.machine == machine and s.ok]
            if not samples:
                continue
            far, differs = distance(mine, description)
            apps = sorted({f"{s.configuration.app} {s.configuration.size}" for s in samples})
            marked = sum(DISTURBED in s.flags for s in samples)
            words = [*apps, f"{marked} of {len(samples)} runs disturbed"] if marked else apps
            found.append(Near(where, machine, far, differs, words))
    return sorted(found, key=lambda n: n.distance)
