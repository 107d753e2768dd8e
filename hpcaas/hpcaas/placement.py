"""Binding and distribution, expressed once.

`place` says which CPUs every rank and thread may use for a policy on a topology. The plan uses it
to leave out what a machine cannot tell apart, the launchers translate the same words into flags,
and the measurement compares it with what the kernel says was really in force.

Policies (section 6 of the paper): none (any CPU of the node), threads (one hardware thread each, so
that neighbours share a core), cores (one core each), sockets (any CPU of one socket), auto (what
the launcher does when it is asked for nothing). Distributions `A:B`: A deals ranks to nodes, B
deals the ranks of a node to sockets, each `block` or `cyclic`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .errors import BadInput
from .machine import Topology

BINDINGS = ("none", "threads", "cores", "sockets", "auto")
DISTRIBUTIONS = ("block:block", "block:cyclic", "cyclic:block", "cyclic:cyclic")
DEFAULT_DISTRIBUTION = "block:cyclic"


@dataclass(frozen=True)
class Place:
    """Where one rank may run. `threads` holds the CPUs of each thread, `cpus` their union."""

    node: int
    cpus: frozenset[int]
    threads: tuple[frozenset[int], ...]


def nodes_of_ranks(ranks: int, nodes: int, per_node: int, policy: str) -> list[int]:
    """Node of every rank. Cyclic deals one rank at a time to the nodes that still have room."""
    if ranks > nodes * per_node:
        raise BadInput(
            f"{ranks} ranks do not fit on {nodes} nodes with {per_node} ranks each",
            "use more nodes or more ranks per node",
        )
    if policy == "block":
        return [rank // per_node for rank in range(ranks)]
    room = [per_node] * nodes
    result: list[int] = []
    while len(result) < ranks:
        for node in range(nodes):
            if room[node] and len(result) < ranks:
                room[node] -= 1
                result.append(node)
    return result


def _units(topology: Topology, binding: str, smt: Optional[str]) -> dict[int, list[list[int]]]:
    """Per socket, the units that threads are dealt to: cores (as lists of their hardware threads)
    or single hardware threads."""
    units: dict[int, list[list[int]]] = {}
    for socket in topology.sockets:
        cores = [
            sorted(topology.of_core(core))
            for core in topology.cores
            if any(c.core == core and c.socket == socket for c in topology.cpus)
        ]
        if smt == "off":
            cores = [core[:1] for core in cores]
        if binding == "threads":
            units[socket] = [[cpu] for core in cores for cpu in core]
        else:
            units[socket] = cores
    return units


def _sockets_of_local_ranks(count: int, capacity: dict[int, int], policy: str) -> list[int]:
    """Socket of every rank of one node; capacity is how many ranks a socket can hold."""
    sockets = list(capacity)
    room = dict(capacity)
    result: list[int] = []
    if policy == "block":
        for socket in sockets:
            take = min(room[socket], count - len(result))
            result += [socket] * take
    else:
        while len(result) < count and any(room.values()):
            for socket in sockets:
                if room[socket] and len(result) < count:
                    room[socket] -= 1
                    result.append(socket)
    # Ranks that fit nowhere whole start on the first socket again: they overlap, which the plan
    # reports as oversubscribed.
    while len(result) < count:
        result.append(sockets[len(result) % len(sockets)])
    return result


def place(
    topology: Topology,
    *,
    nodes: int,
    ranks: int,
    per_node: int,
    threads: int,
    binding: str,
    distribution: str = DEFAULT_DISTRIBUTION,
    smt: Optional[str] = None,
    mpi: Optional[str] = None,
) -> Optional[list[Place]]:
    """smt: off leaves second hardware threads unused, on deals threads to them, None (nothing
    asked) deals threads to cores and lets them float between the core's hardware threads. Places of
    all ranks; None when only the launcher knows (auto on a launcher whose default is not known)."""
    if binding not in BINDINGS:
        raise BadInput(f"binding '{binding}' is not known", f"use one of {', '.join(BINDINGS)}")
    if distribution not in DISTRIBUTIONS:
        raise BadInput(
            f"distribution '{distribution}' is not known", f"use one of {', '.join(DISTRIBUTIONS)}"
        )
    over_nodes, over_sockets = distribution.split(":")
    if binding == "auto":
        return _launcher_default(topology, nodes, ranks, per_node, threads, over_nodes, mpi)
    node_of = nodes_of_ranks(ranks, nodes, per_node, over_nodes)
    every = frozenset(c.id for c in topology.cpus)
    if binding == "none":
        return [Place(node, every, (every,) * threads) for node in node_of]
    units = _units(topology, binding, smt)
    # With SMT on, a core carries as many threads as it has hardware threads, so fewer cores are
    # needed.
    width = topology.threads_per_core if smt == "on" and binding != "threads" else 1
    need = -(-threads // width)
    places: list[Optional[Place]] = [None] * ranks
    for node in range(nodes):
        mine = [rank for rank in range(ranks) if node_of[rank] == node]
        capacity = {socket: len(of) // need for socket, of in units.items()}
        if not any(capacity.values()):
            # A rank wider than any socket spans them all, in order.
            flat = [unit for socket in units for unit in units[socket]]
            for local, rank in enumerate(mine):
                places[rank] = _bind(
                    topology, node, flat, local * need, need, threads, width, binding
                )
            continue
        used = {socket: 0 for socket in units}
        for rank, socket in zip(mine, _sockets_of_local_ranks(len(mine), capacity, over_sockets)):
            places[rank] = _bind(
                topology, node, units[socket], used[socket], need, threads, width, binding
            )
            used[socket] += need
    return [p for p in places if p is not None]


def _bind(
    topology: Topology,
    node: int,
    units: list[list[int]],
    start: int,
    need: int,
    threads: int,
    width: int,
    binding: str,
) -> Place:
    chosen = [units[(start + i) % len(units)] for i in range(need)]
    if binding == "sockets":
        sockets = {c.socket for c in topology.cpus if any(c.id in unit for unit in chosen)}
        cpus = frozenset(cpu for socket in sockets for cpu in topology.of_socket(socket))
        return Place(node, cpus, (cpus,) * threads)
    cpus = frozenset(cpu for unit in chosen for cpu in unit)
    return Place(node, cpus, tuple(frozenset(chosen[t // width % need]) for t in range(threads)))


def _launcher_default(
    topology: Topology,
    nodes: int,
    ranks: int,
    per_node: int,
    threads: int,
    over_nodes: str,
    mpi: Optional[str],
) -> Optional[list[Place]]:
    """What `auto` does where documentation says it: hydra binds nothing; OpenMPI binds a rank to
    one core when there are at most two ranks, however many threads it has, and to a socket or NUMA
    domain beyond."""
    node_of = nodes_of_ranks(ranks, nodes, per_node, over_nodes)
    every = frozenset(c.id for c in topology.cpus)
    kind = (mpi or "").split("-")[0].rstrip("0123456789.")
    if kind == "mpich":
        return [Place(node, every, (every,) * threads) for node in node_of]
    if kind == "openmpi" and ranks <= 2 and nodes == 1:
        return [
            Place(
                0,
                frozenset(topology.of_core(topology.cores[rank % len(topology.cores)])),
                (frozenset(topology.of_core(topology.cores[rank % len(topology.cores)])),)
                * threads,
            )
            for rank in range(ranks)
        ]
    if kind == "openmpi" and nodes == 1 and len({c.numa for c in topology.cpus}) == 1:
        return [Place(node, every, (every,) * threads) for node in node_of]
    return None


def thread_environment(binding: str) -> dict[str, str]:
    """OpenMP's half of a binding policy. The launcher binds ranks; without this, threads roam
    inside their rank's set."""
    if binding == "none":
        return {"OMP_PROC_BIND": "false"}
    if binding in ("threads", "cores", "sockets"):
        return {"OMP_PROC_BIND": "close", "OMP_PLACES": binding}
    return {}
