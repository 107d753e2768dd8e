"""One hot spot: 2 to 32 ranks add to one counter and accumulate into one rank's memory (4 KiB, then
8 bytes), beside ARMCI-MPI (ARMCI_Rmw, ARMCI_NbAccS) and the windows of four MPIs (MPI_Fetch_and_op,
MPI_Accumulate), in one run.

`remote`: the target is alone on its host, the clients are on two others. `mixed`: a third of them
is on the target's host. `same_node`: all on one (Skerry only). A bystander on a third host gets 8
bytes of another page of the target, one get after the other. Libraries take turns within a round;
a value is the median over the rounds. The target waits in a barrier: peers get the fair case.
"""

import dataclasses
import os
import statistics
import sys

from report import ROOT, machine, row  # isort: skip

from harness import mpi_sources, mpis
from harness.process import run_program

HOSTS = 3
HERE = ROOT / "lab" / "bench" / "clusters"
CLIENTS = (2, 4, 8, 16, 32)
MIXED = (6, 24)
OURS, SHARED, CLUSTERED = "skerry", "skerry_share", "skerry_cluster_3"
MS = 500
LIMIT_S = 25  # of a peer's run; one that takes longer is spared more clients
KINDS = ("fetch_add", "accumulate", "accumulate_8")
KEPT = 0.9  # of the best rate at fewer clients, that 32 must keep
FAIR = 2.0  # the most operations of a remote client by the fewest


@dataclasses.dataclass(frozen=True)
class Case:
    """per_host: ranks on each host; the first is the target, the last the bystander."""

    name: str
    clients: int
    per_host: tuple[int, ...]


def cases():
    found = []
    for clients in CLIENTS:
        half = clients // 2
        found.append(Case(f"remote_{clients}", clients, (1, clients - half, half + 1)))
    for clients in MIXED:
        third = clients // 3
        found.append(Case(f"mixed_{clients}", clients, (1 + third, third, third + 1)))
    for clients in CLIENTS:
        found.append(Case(f"same_node_{clients}", clients, (clients + 2,)))
    return found


# ---- libraries -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Library:
    """mpi: of a peer. extra: what a Skerry job gets beside the defaults. missing: why not here."""

    name: str
    program: object = None
    mpi: mpis.Mpi | None = None
    extra: tuple[tuple[str, str], ...] = ()
    missing: str = ""

    def command(self, case, build, ms):
        words = [self.program, "--ms", ms]
        remote = len(case.per_host) > 1
        where = ",".join(f"sk{host}:{ranks}" for host, ranks in enumerate(case.per_host, 1))
        if self.mpi:
            line = [*self.mpi.command(case.per_host), *words]
        elif remote:
            variables = [word for pair in self.extra for word in ("--env", "=".join(pair))]
            agent = ["--agent", os.environ["TESTBED_AGENT"]]
            line = [build / "bin/skerry", "run", "--hosts", where, *agent, *variables, *words]
        else:
            line = [build / "bin/skerry", "run", "-n", sum(case.per_host), *words]
        if remote:
            line = [ROOT / "testbed/hosts.sh", "exec", "sk0", *line]
        return [str(word) for word in line]

    def takes(self, case):
        return self.name == OURS or (
            len(case.per_host) > 1 and not (self.extra and case.name.startswith("mixed"))
        )


def libraries(build):
    program = build / "bin/bench/hot_spot"
    ours = "" if program.exists() else f"not built: no {program}"
    found = [
        Library(OURS, program, missing=ours),
        Library(SHARED, program, extra=(("SKERRY_SHARE", "1"),), missing=ours),
        Library(CLUSTERED, program, extra=(("SKERRY_CLUSTER_SIZE", "3"),), missing=ours),
    ]
    sources = [HERE / "hot_spot" / "hot_spot.cpp"]
    parts = [*(HERE / "hot_spot").glob("*"), HERE.parent / "micro" / "common.hpp"]
    for source in mpi_sources.SOURCES:
        starter, compiler, missing = mpi_sources.tools(source, install=True)
        made = build / "bin" / "bench" / f"hot_spot_{source.name}"
        missing = missing or mpi_sources.compiled(compiler, made, sources, parts)
        mpi = None if missing else mpis.Mpi(source.family, starter)
        found.append(Library(source.name, made, mpi, missing=missing))
        if source.name == "openmpi4":
            made = made.with_name("hot_spot_armci_mpi")
            flags = ("-DHOT_ARMCI", "-larmci-openmpi")
            missing = missing or mpi_sources.compiled(compiler, made, sources, parts, flags)
            found.append(Library("armci_mpi", made, mpi, missing=missing))
    for library in found:
        if library.missing:
            print(f"bench-clusters: hot_spot without {library.name}: {library.missing}", flush=True)
    return found


# ---- runs ----------------------------------------------------------------------------------------


class Table:
    def __init__(self, build, ms=MS):
        self.build, self.ms = build, ms
        self.samples = {}  # (case, library, row) -> [value of each round]
        self.said = {}  # (case, library) -> why it has no figure
        self.given_up = {}  # (library, kind of case) -> from so many clients on
        self.loads = {}  # case -> most

    def run(self, case, library):
        kind = case.name.rsplit("_", 1)[0]
        if library.missing or case.clients >= self.given_up.get((library.name, kind), 1 << 30):
            why = library.missing or "not run: fewer clients took too long"
            self.said.setdefault((case.name, library.name), why)
            return
        self.loads[case.name] = max(self.loads.get(case.name, 0), machine.load())
        limit_s = LIMIT_S if library.mpi else 60
        environment = {**os.environ, **mpis.AS_ROOT}
        done = run_program(library.command(case, self.build, self.ms), environment, limit_s)
        if done.why:
            print(f"bench-clusters: {library.name}, {case.name}: {done.why}", file=sys.stderr)
            self.said[case.name, library.name] = done.why
            if library.mpi:
                self.given_up[library.name, kind] = case.clients
            return
        for name, value in done.rows:
            self.samples.setdefault((case.name, library.name, name), []).append(value)

    def value(self, case, library, name):
        found = self.samples.get((case, library, name))
        return statistics.median(found) if found else None

    def spread(self, case, library, name):
        found = self.samples[case, library, name]
        return [min(found), statistics.median(found), max(found)]


def measure(build, rounds, chosen=None, names=None, ms=MS):
    """To be called inside `hosts.sh run`, with HOSTS hosts."""
    known = [one for one in libraries(build) if names is None or one.name in names]
    table = Table(build, ms)
    for number in range(rounds):
        for case in chosen or cases():
            turn = number % len(known)
            for library in known[turn:] + known[:turn]:
                if library.takes(case):
                    table.run(case, library)
            print(
                f"bench-clusters: hot_spot, round {number + 1} of {rounds}, {case.name},"
                f" load {machine.load():.2f}",
                flush=True,
            )
    return table, known


# ---- rows ----------------------------------------------------------------------------------------


def judged(name, value, unit, target, **more):
    """A row whose target is a most; None: for information."""
    return row(name, value, unit, target=target, **more)


def rate_rows(table, known, case, kind):
    """Rate beside all others, fairness, and what the bystander pays."""
    name = f"clusters.hot_spot.{case.name}.{kind}"
    rate_name = f"{kind}.rate"
    rate = table.value(case.name, OURS, rate_name)
    if rate is None:
        return []
    rates = {one.name: table.value(case.name, one.name, rate_name) for one in known}
    said = {lib: why for (at, lib), why in table.said.items() if at == case.name}
    common = {"load": table.loads[case.name], "missing": said}
    found = [
        judged(
            f"{name}.rate",
            rate / 1000,
            "1000/s",
            None,
            spread=[v / 1000 for v in table.spread(case.name, OURS, rate_name)],
            **common,
        )
        | {"peers": {lib: v and v / 1000 for lib, v in rates.items() if lib != OURS}}
    ]
    peers = [v for lib, v in rates.items() if v and not lib.startswith(OURS)]
    if peers:
        found.append(
            judged(f"{name}.best_peer", max(peers) / rate, "times our rate", 1.0, **common)
        )
    for what in ("fairness", "fairness_all"):
        value = table.value(case.name, OURS, f"{kind}.{what}")
        if value is None:
            continue
        others = {lib: table.value(case.name, lib, f"{kind}.{what}") for lib in rates}
        target = FAIR if what == "fairness" else None
        found.append(
            judged(f"{name}.{what}", value, "times", target, **common)
            | {"peers": {lib: v for lib, v in others.items() if lib != OURS}}
        )
    cpu = {lib: table.value(case.name, lib, f"{kind}.target_cpu") for lib in rates}
    found.append(
        judged(f"{name}.target_cpu", cpu[OURS] / 1000, "us an operation", None, **common)
        | {"peers": {lib: v and v / 1000 for lib, v in cpu.items() if lib != OURS}}
    )
    return found + bystander_rows(table, rates, case, kind, name, common)


def bystander_rows(table, rates, case, kind, name, common):
    """A bystander's get by the time of a client's operation: 1 is its fair turn."""
    clients_us = 1e6 * case.clients / rates[OURS]
    found = []
    for what in ("bystander", "bystander_p99"):
        value_us = table.value(case.name, OURS, f"{kind}.{what}") / 1000
        others = {lib: table.value(case.name, lib, f"{kind}.{what}") for lib in rates}
        quiet_us = table.value(case.name, OURS, f"quiet.{what}") / 1000
        more = common | {"quiet_us": quiet_us, "times_an_operation": value_us / clients_us}
        found.append(
            judged(f"{name}.{what}", value_us, "us", None, **more)
            | {"peers": {lib: v and v / 1000 for lib, v in others.items() if lib != OURS}}
        )
    return found


def kept_rows(table, place, kind):
    """The best rate at fewer clients by the rate at most of them."""
    found = {}
    for clients in CLIENTS:
        value = table.value(f"{place}_{clients}", OURS, f"{kind}.rate")
        if value:
            found[clients] = value
    if len(found) < 2 or max(found) != CLIENTS[-1]:
        return []
    most = found.pop(CLIENTS[-1])
    best = max(found.values())
    name = f"clusters.hot_spot.{place}.{kind}.best_at_fewer"
    rates = {str(clients): value / 1000 for clients, value in found.items()}
    return [judged(name, best / most, "times the rate at 32", 1 / KEPT, rates=rates)]


def memory_rows(table, case):
    found = []
    for what, target in (("account_grown", 0.064), ("account", None), ("resident_grown", None)):
        value = table.value(case.name, OURS, f"memory.{what}")
        if value is not None:
            name = f"clusters.hot_spot.{case.name}.memory.{what}"
            found.append(judged(name, value / 1e6, "MB", target, load=table.loads[case.name]))
    return found


def table_rows(table, known):
    found = []
    for case in cases():
        for kind in KINDS:
            found += rate_rows(table, known, case, kind)
        found += memory_rows(table, case)
    for place in ("remote", "same_node"):
        for kind in KINDS:
            found += kept_rows(table, place, kind)
    return found


def rows(options):
    """To be called inside `hosts.sh run`, with HOSTS hosts."""
    return table_rows(*measure(options.build, min(options.rounds, 3)))
