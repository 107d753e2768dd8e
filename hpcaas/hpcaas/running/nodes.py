"""The machine that a campaign measures: this one, or, behind a scheduler, the nodes that its jobs
get.

A login node is often another processor with more memory and a crowd of users. So processor,
topology, memory, instruction set and noise are taken by a job, on as many nodes as the campaign
uses. ReFrame runs that job with its scheduler back-ends and detects each node's processor. (Its
remote detection by itself sees one node, and neither memory nor noise.)
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Optional

from ..errors import BadInput, HpcaasError, Missing, read_json
from ..machine import Topology, describe, read_topology
from .jobs import Job, short_hash
from .noise import Noise
from .reframe import is_remote, run_batch

# What must agree between nodes that one campaign treats as one machine.
IDENTITY = (
    "cpu_model",
    "cpu_family_model_stepping",
    "microarchitecture",
    "isa",
    "sockets",
    "cores",
    "threads_per_core",
    "gpus",
)


@dataclass
class Nodes:
    """One kind of node, and every node of it that was looked at."""

    machine: dict[str, Any]
    topology: Topology
    noise: dict[str, Noise] = field(default_factory=dict)  # host -> how quiet it was


VERDICTS = ("quiet", "noisy", "very noisy")


def worst(noise: dict[str, Noise]) -> Noise:
    """A job is as disturbed as its noisiest node; every reason names its node."""
    loudest = max(noise.values(), key=lambda n: VERDICTS.index(n.verdict))
    reasons = [f"{host}: {reason}" for host, n in noise.items() for reason in n.reasons]
    return replace(loudest, reasons=reasons)


def here(name: Optional[str] = None, shape: Optional[str] = None) -> Nodes:
    return Nodes(describe(name, shape), read_topology())


def from_reports(
    reports: list[dict[str, Any]], name: Optional[str] = None, shape: Optional[str] = None
) -> Nodes:
    """Joins what the nodes said of themselves; refuses nodes of different kinds."""
    first = min(reports, key=lambda r: r["host"])
    for other in reports:
        for key in IDENTITY:
            if other["machine"].get(key) != first["machine"].get(key):
                raise BadInput(
                    f"nodes differ: {first['host']} has {key} {first['machine'].get(key)}, "
                    f"{other['host']} has {other['machine'].get(key)}",
                    "choose one kind with `access:` in the site file, such as --constraint=NAME",
                )
    # Kernels of equal nodes report slightly different memory: the least is what a job can count on.
    memory = [r["machine"]["memory_gib"] for r in reports if r["machine"].get("memory_gib")]
    machine = {
        **first["machine"],
        "memory_gib": min(memory, default=None),
        "hosts": sorted(r["host"] for r in reports),
    }
    machine.pop("instance", None)  # which nodes a job gets changes; the cluster is one machine
    if shape:
        machine["shape"] = shape
    machine["id"] = name or machine["id"]
    noise = {r["host"]: Noise(**r["noise"]) for r in reports}
    return Nodes(machine, Topology.from_list(first["topology"]), noise)


def _file(out: Path, site: dict[str, Any]) -> Path:
    """One file per way of asking for nodes: another partition is another machine."""
    asked = [site.get("scheduler"), site.get("access", [])]
    return out / "cache" / f"nodes-{short_hash(asked)}.json"


def known(site: dict[str, Any], out: Path, name: Optional[str] = None) -> Nodes:
    """What is known without starting anything: this machine, or what an earlier look at the compute
    nodes found."""
    if not is_remote(site):
        return here(name, site.get("shape"))
    path = _file(out, site)
    if not path.exists():
        raise Missing(
            f"the compute nodes behind '{site['scheduler']}' were not looked at yet",
            f"`hpcaas machine --site FILE --out {out}` submits one short job that does",
        )
    remedy = f"delete it, and ask again: `hpcaas machine --site FILE --out {out}`"
    try:
        said = read_json(path, "what the nodes said", remedy)
        return from_reports(said, name, site.get("shape"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"'{path}' was edited or cut ({type(error).__name__}: {error})", remedy)


def look(
    site: dict[str, Any],
    out: Path,
    count: int,
    name: Optional[str] = None,
    tick: Callable[[], None] = lambda: None,
    time_limit_s: int = 600,
) -> Nodes:
    """Runs a job on `count` nodes that says what they are; remembered for commands that start
    nothing."""
    directory = (out / "cache" / "look").resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    job = Job(
        id=f"look-at-{count}",
        kind="look",
        destination=str(directory / "hosts"),
        nodes=count,
        ranks=count,
        time_limit_s=time_limit_s,
    )
    failed = run_batch([job], directory, site, tick)
    reports = [json.loads(p.read_text()) for p in sorted((directory / "hosts").glob("*.json"))]
    if len(reports) != count:
        heard = ", ".join(r["host"] for r in reports) or "none"
        raise HpcaasError(
            f"{count} nodes were asked what they are, {len(reports)} answered ({heard}): "
            f"{failed.get(job.id, 'the job ended well')}",
            f"see '{directory / 'reframe.out'}'; the nodes need the directory of --out and this "
            "Python on a shared file system",
        )
    _file(out, site).write_text(json.dumps(reports))
    return from_reports(reports, name, site.get("shape"))
