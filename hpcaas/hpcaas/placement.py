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


@dataclass(frozen=True)
class _Room:
    """What one rank takes of a node."""

    topology: Topology
    binding: str
    threads: int
    width: int  # threads that one unit carries
    need: int  # units

    def bind(self, node: int, units: list[list[int]], start: int) -> Place:
        """The rank that begins at unit `start`; where units end, it begins again at the first."""
        chosen = [units[(start + i) % len(units)] for i in range(self.need)]
        if self.binding == "sockets":
            all_cpus = self.topology.cpus
            sockets = {c.socket for c in all_cpus if any(c.id in unit for unit in chosen)}
            cpus = frozenset(c.id for c in all_cpus if c.socket in sockets)
            return Place(node, cpus, (cpus,) * self.threads)
        cpus = frozenset(cpu for unit in chosen for cpu in unit)
        of_thread = (chosen[t // self.width % self.need] for t in range(self.threads))
        return Place(node, cpus, tuple(map(frozenset, of_thread)))

    def fill(self, node: int, ranks: int, units: dict[int, list[list[int]]], policy: str):
        """Places of the ranks of one node; `units`: of each socket."""
        capacity = {socket: len(of) // self.need for socket, of in units.items()}
        if not any(capacity.values()):
            # A rank wider than any socket spans them all, in order.
            flat = [unit for of in units.values() for unit in of]
            return [self.bind(node, flat, local * self.need) for local in range(ranks)]
        used = dict.fromkeys(units, 0)
        places = []
        for socket in _sockets_of_local_ranks(ranks, capacity, policy):
            places.append(self.bind(node, units[socket], used[socket]))
            used[socket] += self.need
        return places


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
    for what, given, known in (
        ("binding", binding, BINDINGS),
        ("distribution", distribution, DISTRIBUTIONS),
    ):
        if given not in known:
            raise BadInput(f"{what} '{given}' is not known", f"use one of {', '.join(known)}")
    over_nodes, over_sockets = distribution.split(":")
    node_of = nodes_of_ranks(ranks, nodes, per_node, over_nodes)
    if binding == "auto":
        return _launcher_default(topology, node_of, nodes, threads, mpi)
    if binding == "none":
        return _unbound(topology, node_of, threads)
    # With SMT on, a core carries as many threads as it has hardware threads, so fewer cores are
    # needed.
    width = topology.threads_per_core if smt == "on" and binding != "threads" else 1
    room = _Room(topology, binding, threads, width, -(-threads // width))
    units = _units(topology, binding, smt)
    of_node = {
        node: iter(room.fill(node, node_of.count(node), units, over_sockets))
        for node in set(node_of)
    }
    return [next(of_node[node]) for node in node_of]


def _unbound(topology: Topology, node_of: list[int], threads: int) -> list[Place]:
    every = frozenset(c.id for c in topology.cpus)
    return [Place(node, every, (every,) * threads) for node in node_of]


def _launcher_default(
    topology: Topology, node_of: list[int], nodes: int, threads: int, mpi: Optional[str]
) -> Optional[list[Place]]:
    """What `auto` does where documentation says it: hydra binds nothing; OpenMPI binds a rank to
    one core when there are at most two ranks, however many threads it has, and to a socket or NUMA
    domain beyond."""
    kind = (mpi or "").split("-")[0].rstrip("0123456789.")
    if kind == "mpich":
        return _unbound(topology, node_of, threads)
    if kind != "openmpi" or nodes > 1:
        return None
    if len(node_of) <= 2:
        cores = [topology.cores[rank % len(topology.cores)] for rank in range(len(node_of))]
        sets = [frozenset(topology.of_core(core)) for core in cores]
        return [Place(0, cpus, (cpus,) * threads) for cpus in sets]
    one_domain = len({c.numa for c in topology.cpus}) == 1
    return _unbound(topology, node_of, threads) if one_domain else None


def thread_environment(binding: str) -> dict[str, str]:
    """OpenMP's half of a binding policy. The launcher binds ranks; without this, threads roam
    inside their rank's set."""
    if binding == "none":
        return {"OMP_PROC_BIND": "false"}
    if binding in ("threads", "cores", "sockets"):
        return {"OMP_PROC_BIND": "close", "OMP_PLACES": binding}
    return {}
