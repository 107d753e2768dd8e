"""Published results: a folder in git, one file per machine, checked when it comes in; and which of
its machines is nearest to one's own. The paper's tables are always part of it, marked as read from
the paper."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from .dataset import paper
from .errors import BadInput
from .model import ResultSet, Sample
from .running.noise import WAITING_LIMIT, disturbed
from .site import check_name

# What says where and by whom a run was made, not how fast the machine is.
PRIVATE = ("host", "hosts", "price", "filesystems")
DISTURBED = "disturbed: no verdict is drawn from it"
UNCHANGED = "publish what `hpcaas measure` wrote, unchanged"
NEEDED = ("cpu_model", "cores", "kernel")


def checked(results: ResultSet, where: str) -> ResultSet:
    """Refuses what says too little of itself; marks disturbed runs; leaves private words out."""
    if not any(s.ok for s in results.samples):
        raise BadInput(f"'{where}' holds no good run", "measure first")
    for machine in {s.machine for s in results.samples}:
        lacking = [n for n in NEEDED if not results.machines.get(machine, {}).get(n)]
        if lacking:
            raise BadInput(
                f"'{where}' does not say the {', '.join(lacking)} of machine '{machine}'", UNCHANGED
            )
    for sample in results.samples:
        _check_origin(sample, results, where)
    machines = {name: _public(one) for name, one in results.machines.items()}
    samples = [_marked(s) for s in results.samples]
    return results.model_copy(update={"machines": machines, "samples": samples})


def _check_origin(sample: Sample, results: ResultSet, where: str) -> None:
    if sample.source:
        raise BadInput(
            f"'{where}': '{sample.id}' was read from {sample.source}, not measured",
            "publish your own runs",
        )
    if sample.ok and not results.provenance.get(sample.provenance or ""):
        raise BadInput(f"'{where}': run '{sample.id}' has no provenance", UNCHANGED)


def _public(machine: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in machine.items() if k not in PRIVATE}


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

    def add(weight: float, words: str) -> None:
        nonlocal total
        total += weight
        if weight:
            differs.append(words)

    for name, weight in (("cpu_model", 1.0), ("cores", 1.0), ("memory_gib", 0.5)):
        if mine.get(name) and not other.get(name):
            add(weight, f"{name} not said")
    for name, weight in (("cpu_model", 1.0), ("cpu_vendor", 1.0), ("architecture", 4.0)):
        if len({mine.get(name), other.get(name)} - {None, ""}) > 1:
            add(weight, f"{name} {other[name]}")
    add(_doublings(mine.get("cores"), other.get("cores")), f"{other.get('cores')} cores")
    per_core = _doublings(_memory_of_core(mine), _memory_of_core(other))
    add(0.5 * per_core, f"{other.get('memory_gib')} GiB")
    return total, differs


def _memory_of_core(machine: dict[str, Any]) -> Optional[float]:
    memory = machine.get("memory_gib")
    return memory / (machine.get("cores") or 1) if memory else None


def _doublings(one: Optional[float], other: Optional[float]) -> float:
    """0 where they are nearly the same, or one is not known."""
    found = abs(math.log2(other / one)) if one and other else 0.0
    return found if found > 0.1 else 0.0


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
