#!/usr/bin/env python3
"""Skerry's figures beside the machine's limits and other libraries' figures, all in one run.

Limits and Skerry take turns (A B A B ...), so that both meet the same load; values are medians over the rounds, ratios medians of each
round's own ratio. Prints one table and writes out/bench.json. Rows between two hosts need root (testbed/hosts.sh makes the hosts); without it they
run on virtual nodes over the loopback. Nothing here fails because a target is missed: `met` says so.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))

from harness import machine, report, rows, session  # noqa: E402
from harness.runner import Runner  # noqa: E402

PEERS = (
    ("armci_mpi", "peer_armci_openmpi"),
    ("openmpi_rma", "peer_rma_openmpi"),
    ("mpich_rma", "peer_rma_mpich"),
)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer and shorter rounds: about a minute"
    )
    parser.add_argument(
        "--rounds", type=int, help="how often limits and Skerry take turns (default 5, quick 2)"
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        default="*",
        help="rows whose name matches, such as 'two_hosts.get_8.*'",
    )
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build", help="build directory (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "out" / "bench.json", help="default: %(default)s"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave ARMCI-MPI and MPI out")
    parser.add_argument(
        "--no-hosts", action="store_true", help="no network namespaces, even as root"
    )
    parser.add_argument(
        "--priority",
        action="store_true",
        help="weigh more than the machine's other work (root): for one that is not quiet; "
        "overlap then suffers, as the kernel's own threads that handle packets stay behind",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the names of the rows and their targets"
    )
    parser.add_argument("--verbose", action="store_true", help="print every command")
    return parser.parse_args(arguments)


def measure_pinned(runner: Runner, cores: str, want) -> None:
    """What runs with origin and target pinned to `cores`."""
    if want(f"tcp.{cores}"):
        rows_wanted = "pingpong,stream,stream_back,stream_window,frames,frames_own,connect,overlap"
        runner.tcp(cores, rows_wanted)
    if want(f"remote.{cores}"):
        runner.skerry("remote", f"remote.{cores}", nodes=2, cores=cores, per_host=(1, 1))
    if want(f"shared.{cores}"):
        shared = {"SKERRY_SHARE": "1"}
        runner.skerry(
            "remote", f"shared.{cores}", nodes=2, cores=cores, per_host=(1, 1), extra=shared
        )
    if want(f"ofi.{cores}"):
        runner.ofi(cores)
    if want(f"tcp_busy.{cores}"):
        runner.tcp(cores, "pingpong", "tcp_busy", busy=True)
    if want(f"busy.{cores}"):
        runner.skerry("busy", f"busy.{cores}", nodes=2, cores=cores, per_host=(1, 1))
    if want(f"overlap.{cores}"):
        runner.skerry("overlap", f"overlap.{cores}", nodes=2, cores=cores, per_host=(1, 1))
    if want(f"fair.{cores}"):
        runner.skerry("fair", f"fair.{cores}", ranks=9, nodes=9, cores=cores, per_host=(1, 8))
    if runner.hosts and want(f"overlap_1gbit.{cores}"):
        name = f"overlap_1gbit.{cores}"
        runner.shape("1gbit")
        runner.tcp(cores, "overlap", "tcp_1gbit")
        runner.skerry("overlap", name, cores=cores, per_host=(1, 1), argument="150")
        runner.shape("none")


def measure_collectives(runner: Runner, want, peers: bool) -> None:
    for layout, (each, hosts) in rows.COLLECTIVES.items():
        if not want(f"collective.{layout}"):
            continue
        runner.skerry(
            "collective", f"collective.{layout}", ranks=each * hosts, nodes=hosts,
            per_host=(each, each) if hosts > 1 else None,
        )  # fmt: skip
        for name in ("openmpi", "mpich") if peers else ():
            runner.peer_collective(name, layout, each, hosts)


def measure_peers(runner: Runner, want) -> None:
    if not want("local", "remote.one_core", "remote.two_cores"):
        return
    for name, program in PEERS:
        if want("local"):
            runner.peer(name, program, remote=False)
        if want("remote.one_core", "remote.two_cores"):
            runner.peer(name, program, remote=True)


def measure(runner: Runner, wanted: set[str], rounds: int, options: argparse.Namespace) -> None:
    """`wanted`: scenarios that some chosen row needs, as values or as limits."""

    def want(*names: str) -> bool:
        return any(name in wanted for name in names)

    for turn in range(rounds):
        print(f"bench: round {turn + 1} of {rounds}, load {machine.load():.2f}", file=sys.stderr)
        peers = not options.no_peers and turn < 3
        if want("memcpy"):
            runner.memcpy()
        if want("local"):
            runner.skerry("local", "local", cores="two_cores")
        if want("local4"):
            runner.skerry("local4", "local4", ranks=4, cores="two_cores")
        if want("array", "python"):
            runner.array()
        for cores in ("one_core", "two_cores"):
            measure_pinned(runner, cores, want)
        measure_collectives(runner, want, peers)
        for ranks in rows.LIFE_RANKS:
            if want(f"life.{ranks}"):
                runner.life(ranks)
        if turn < 2:  # what the loopback gives is for information: two rounds are enough
            for cores in ("one_core", "two_cores"):
                if want(f"tcp_loopback.{cores}"):
                    loopback = "pingpong,stream,stream_back,frames,connect"
                    runner.tcp(cores, loopback, "tcp_loopback", loopback=True)
                if want(f"ofi_loopback.{cores}"):
                    runner.ofi(cores, loopback=True)
        if peers:
            measure_peers(runner, want)
        for fabric in ("tcp", "ofi"):
            if turn == 0 and want(f"connections.{fabric}"):
                runner.connections(fabric)
        if turn < 3 and want("start"):
            runner.start_and_end_skerry(rows.START_RANKS, 1, f"ranks_{rows.START_RANKS}")
            if not options.no_peers:
                runner.start_and_end_peers(rows.START_RANKS, f"ranks_{rows.START_RANKS}")
            for nodes in rows.START_NODES:
                runner.start_and_end_skerry(nodes, nodes, f"nodes_{nodes}")
        if turn == 0 and want("idle"):
            runner.idle(3 if options.quick else 10)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    chosen = [row for row in rows.all_rows() if fnmatch.fnmatch(row.name, options.only)]
    if not chosen:
        print(f"bench.py: no row matches '{options.only}'; --list shows them all", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{row.name:45} {row.target}" for row in chosen))
        return 0
    if not (options.build / "bin" / "bench" / "limit_tcp").exists():
        print(
            f"bench.py: no benchmark programs in {options.build}/bin/bench: build first (make build), or name the build directory with --build",
            file=sys.stderr,
        )
        return 2
    can_host = os.geteuid() == 0 and not options.no_hosts
    if can_host:
        session.on_testbed(ROOT, 2, HERE / "bench.py", arguments)
    session.own_session(options.priority)
    rounds = options.rounds or (2 if options.quick else 5)
    before = machine.load()
    runner = Runner(
        ROOT, options.build.resolve(), hosts=can_host, quick=options.quick, verbose=options.verbose
    )
    wanted = {key[0] for row in chosen for key in (row.source, row.limit) if key}
    measure(runner, wanted, rounds, options)

    described = machine.describe()
    described["load"] = runner.load_since(before)
    described["hosts"] = (
        "network namespaces joined by veth" if can_host else "virtual nodes over the loopback"
    )
    records = report.to_records(chosen, runner.samples, runner.peers)
    report.save(options.out, records, described, runner.complaints)
    print(report.table(records))
    print(
        f"\n{described['processor']}, {described['cores']} cores, kernel {described['kernel']}; hosts: {described['hosts']}; "
        f"load {before:.2f} before, {described['load']['during'][0]:.2f} to {described['load']['during'][1]:.2f} during; "
        f"one_core, two_cores: origin and target pinned to one core, to two; written to {options.out}"
    )
    for complaint in runner.complaints:
        print(complaint)
    print(report.targets_met(records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
