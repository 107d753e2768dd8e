#!/usr/bin/env python3
"""Collective calls of Skerry beside those of OpenMPI and MPICH.

Programs take turns; a figure is the median over the rounds of the medians that the programs report,
in microseconds, the ratio that by the fastest MPI's. A layout is RANKSxNODES, where nodes are
virtual (of OpenMPI, ranks that may talk through the network alone), or RANKS@HOSTS: ranks on hosts
that are network namespaces (root), with links of each of --rates.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "micro"))

from harness import machine, mpi_sources, mpis, report, session  # noqa: E402
from harness.process import run_program  # noqa: E402

TESTBED = ROOT / "testbed" / "hosts.sh"
LIMIT_S = 120
KINDS = "barrier,broadcast,reduce,allreduce,allgather"
OSU_SIZES = ",".join(str(1 << power) for power in range(3, 21))  # its doubles: from 8 bytes on
# What makes OpenMPI's ranks on one machine talk through the network. MPICH's cannot be made to.
APART = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="default: %(default)s")
    add("--layouts", default="2x1,8x1,2x2,8x8,4@4", help="default: %(default)s")
    add("--rates", default="unshaped,1gbit,100mbit", help="of hosts' links, default: %(default)s")
    add("--kinds", default=KINDS, help="default: %(default)s")
    sizes = "8,1024,65536,1048576,16777216"
    add("--sizes", default=sizes, help="bytes, or `osu`, those of its benchmarks (%(default)s)")
    add("--mpis", default="", help="those alone whose name begins so, such as mpich5")
    add("--no-install", action="store_true", help="fetch no MPI from PyPI")
    add("--build", type=Path, default=ROOT / "build", help="default: %(default)s")
    add("--out", type=Path, default=ROOT / "out" / "collectives.json", help="default: %(default)s")
    options = parser.parse_args(arguments)
    options.sizes = OSU_SIZES if options.sizes == "osu" else options.sizes
    for layout in options.layouts.split(","):
        ranks, _, places = layout.replace("@", "x").partition("x")
        if not (ranks.isdigit() and places.isdigit() and 0 < int(places) <= int(ranks)):
            parser.error(f"--layouts {layout}: give RANKSxNODES or RANKS@HOSTS, such as 8x2 or 4@4")
    return options


def peers(options: argparse.Namespace) -> dict[str, tuple[mpis.Mpi, Path]]:
    """The MPIs that are there, with the program built for each; names the others."""
    found = {}
    for source in mpi_sources.SOURCES:
        if not source.name.startswith(options.mpis):
            continue
        starter, compiler, missing = mpi_sources.tools(source, not options.no_install)
        program = options.build / "bin" / "bench" / f"calls_{source.name}"
        parts = [HERE / "calls.c", HERE.parent / "micro" / "peers" / "peer.h"]
        missing = missing or mpi_sources.compiled(compiler, program, parts[:1], parts)
        if missing:
            print(f"bench/collectives: {source.name} is left out: {missing}", file=sys.stderr)
        else:
            found[source.name] = (mpis.Mpi(source.family, starter), program)
    return found


def spread(ranks: int, hosts: int) -> tuple[int, ...]:
    return tuple(ranks // hosts + (host < ranks % hosts) for host in range(hosts))


def command(
    build: Path, peer: tuple[mpis.Mpi, Path] | None, ranks: int, places: int, on_hosts: bool
) -> list[str]:
    """The words that start one program. peer: None for Skerry."""
    each = spread(ranks, places) if on_hosts else (ranks,)
    if peer is None:
        line = [build / "bin" / "skerry", "run"]
        if on_hosts:
            where = ",".join(f"sk{host}:{n}" for host, n in enumerate(each, 1))
            line += ["--hosts", where, "--agent", os.environ["TESTBED_AGENT"]]
        else:
            line += ["-n", ranks, "--nodes", places]
        line += [build / "bin" / "bench" / "calls_skerry"]
    else:
        mpi, program = peer
        line = [*mpi.command(each), *(APART if places > 1 and not on_hosts else []), program]
    start = [TESTBED, "exec", "sk0"] if on_hosts else []
    return [str(word) for word in (*start, *line)]


def compares(peer: tuple[mpis.Mpi, Path] | None, ranks: int, places: int, on_hosts: bool) -> bool:
    """No MPI has virtual nodes of several ranks."""
    if peer is None or on_hosts or places == 1:
        return True
    return ranks == places and peer[0].family != "hydra"


def measure(options, programs, layout: str, rate: str) -> list[dict]:
    """The rows of one layout, printed as a table."""
    on_hosts = "@" in layout
    ranks, places = map(int, layout.replace("@", "x").split("x"))
    figures: dict[str, dict[str, list[float]]] = {}
    missing: set[str] = set()  # those that failed would cost their time limit each time
    for _ in range(options.rounds):
        for name, peer in programs.items():
            if name in missing or not compares(peer, ranks, places, on_hosts):
                continue
            words = command(options.build, peer, ranks, places, on_hosts)
            words += [options.kinds, options.sizes]
            done = run_program(words, {**os.environ, **mpis.AS_ROOT}, LIMIT_S)
            if done.why:
                print(f"bench/collectives: {layout}: {name}: {done.why}", file=sys.stderr)
                missing.add(name)
            for row, value in done.rows if done.late or not done.why else []:
                figures.setdefault(row, {}).setdefault(name, []).append(value / 1000)
    print(f"\n{layout} {rate if on_hosts else ''}, load {machine.load():.1f}")
    print(f"{'us':22}" + "".join(f"{name:>11}" for name in programs) + f"{'ratio':>8}")
    rows = []
    for row, by_name in figures.items():
        us = {name: statistics.median(values) for name, values in by_name.items()}
        best = min((value for name, value in us.items() if name != "skerry"), default=None)
        ratio = us["skerry"] / best if best and "skerry" in us else None
        cells = "".join(f"{us[name]:11.2f}" if name in us else f"{'-':>11}" for name in programs)
        print(f"{row:22}{cells}" + (f"{ratio:8.2f}" if ratio else ""), flush=True)
        where = {"layout": layout, "rate": rate if on_hosts else None}
        rows.append({**where, "name": row, "us": us, "ratio": ratio, "load": machine.load()})
    return rows


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    options.build = options.build.resolve()
    layouts = options.layouts.split(",")
    hosts = [int(layout.partition("@")[2]) for layout in layouts if "@" in layout]
    if hosts and os.geteuid() != 0:
        print("bench/collectives: hosts are left out: only root can make them", file=sys.stderr)
        layouts = [layout for layout in layouts if "@" not in layout]
    elif hosts:
        session.on_testbed(ROOT, max(hosts), Path(__file__).resolve(), arguments)
    session.take_signals()
    session.own_session(False)
    before, records = machine.load(), []
    programs = {"skerry": None, **peers(options)}
    places = [(each, rate) for each in layouts
              for rate in (options.rates.split(",") if "@" in each else [""])]  # fmt: skip
    try:
        for layout, rate in places:
            if rate:
                shape = "none" if rate == "unshaped" else rate
                subprocess.run([str(TESTBED), "shape", shape], check=True)
            records += measure(options, programs, layout, rate)
            described = {**machine.describe(), "load": {"before": before, "after": machine.load()}}
            report.save(options.out, records, described, [])
    except KeyboardInterrupt:
        print("bench/collectives: interrupted; whole layouts stay", file=sys.stderr)
    known = [row["ratio"] for row in records if row["ratio"] is not None]
    print(
        f"\n{sum(ratio <= 1 for ratio in known)} of {len(known)} rows at most 1.0 times the fastest"
        f" MPI, {sum(ratio <= 2 for ratio in known)} at most 2.0; {options.out}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
