"""The axes, in the words of the command line, and why a machine may not be able to tell an axis'
values apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Callable, Optional

from pydantic import AfterValidator

Machine = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    name: str  # field of Configuration, or `processor` and `split`
    meaning: str
    # why one machine cannot compare values; None: it can
    unmeasurable: Callable[[Machine], Optional[str]]


def _always(_: Machine) -> Optional[str]:
    return None


def _one_node(what: str) -> Callable[[Machine], Optional[str]]:
    def reason(machine: Machine) -> Optional[str]:
        return (
            None
            if machine.get("nodes_available", 1) > 1
            else f"not measurable here: {what} needs two nodes or more, this site has one"
        )

    return reason


def _fabric(machine: Machine) -> Optional[str]:
    if machine.get("nodes_available", 1) < 2:
        return "not measurable here: an interconnect joins nodes, this site has one"
    fabrics = machine.get("interconnects", [])
    return (
        None
        if len(fabrics) > 1
        else f"not measurable here: {', '.join(fabrics) or 'no fabric device'} is the only choice"
    )


def _distribution(machine: Machine) -> Optional[str]:
    if machine.get("nodes_available", 1) > 1 or machine.get("sockets", 1) > 1:
        return None
    return "not measurable here: one node with one socket; every distribution is the same"


def _smt(machine: Machine) -> Optional[str]:
    return (
        None
        if machine.get("threads_per_core", 1) > 1
        else "not measurable here: cores have one hardware thread (no SMT, or switched off)"
    )


def _filesystem(machine: Machine) -> Optional[str]:
    return (
        None
        if len(machine.get("filesystems", [])) > 1
        else "not measurable here: name several directories under `filesystems:` in the site file"
    )


def _container(machine: Machine) -> Optional[str]:
    return (
        None
        if machine.get("containers")
        else "not measurable here: name an image under `containers:` in the site file"
    )


def _gpu(machine: Machine) -> Optional[str]:
    return None if machine.get("gpus") else "not measurable here: no GPU in this machine"


AXES: dict[str, Axis] = {
    a.name: a
    for a in (
        Axis(
            "processor",
            "machine profile; results of several machines are merged",
            lambda _: "one machine is one value: merge results of several machines",
        ),
        Axis("installation", "which of several installations of an application", _always),
        Axis("compiler", "compiler family", _always),
        Axis("optimisation", "optimisation level and its flags", _always),
        Axis(
            "target",
            "instruction set and scheduler (-march); the newest is not always fastest",
            _always,
        ),
        Axis("variant", "source variant of the application (the paper's ivdep)", _always),
        Axis("library", "scientific library", _always),
        Axis("mpi", "MPI implementation and version", _always),
        Axis("framework", "communication framework inside the MPI: ofi, ucx, ob1", _always),
        Axis("interconnect", "fabric between nodes", _fabric),
        Axis("filesystem", "where inputs and results live", _filesystem),
        Axis("launcher", "srun or mpirun", _always),
        Axis("pmi", "srun's --mpi: how its ranks find each other (pmix, pmi2, none)", _always),
        Axis(
            "container", "image of the site file, by Apptainer or Podman; none: native", _container
        ),
        Axis("gpu", "on: what the application can, runs on the GPU; off: on the CPU only", _gpu),
        Axis("binding", "none, threads, cores, sockets, auto", _always),
        Axis("distribution", "ranks over nodes : over sockets, block or cyclic", _distribution),
        Axis("split", "ranks x threads", _always),
        Axis("smt", "second hardware threads used or not", _smt),
        Axis("ranks_per_node", "partly filled nodes", _one_node("filling nodes partly")),
        Axis("nodes", "number of nodes", _one_node("scaling over nodes")),
    )
}


def _known(name: str) -> str:
    if name not in AXES:
        raise ValueError(f"axis '{name}' is not known; use {', '.join(AXES)}")
    return name


AxisName = Annotated[str, AfterValidator(_known)]
