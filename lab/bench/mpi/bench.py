#!/usr/bin/env python3
"""Unmodified MPI programs, as they are and with Skerry's windows preloaded, in one run.

One program (program/rows.cpp) and two examples (examples/mpi) are built with each MPI's own
compiler and run in turns, stock and preloaded (`skerry mpi --`). Values are medians over the
rounds, ratios medians of each round's own ratio. Prints one table, writes out/mpi.json and draws
out/mpi.svg and .png. Rows between hosts need root (testbed/hosts.sh). Nothing here fails because a
target is missed: `met` says so.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import os
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MICRO = HERE.parent / "micro"
sys.path[:0] = [str(HERE), str(MICRO)]

import cases  # noqa: E402
import plots  # noqa: E402
from harness import machine, mpi_sources, mpis, session  # noqa: E402
from harness.process import run_program  # noqa: E402
from harness.runner import Runner  # noqa: E402

HOSTS = 2


def parse(arguments: list[str]) -> argparse.Namespace:
    turns, only = "stock and preloaded", "openmpi4.same_node.*"
    parser = session.parser(__doc__, ROOT, "mpi", turns, only)
    limit = "end a run after S (%(default)g)"
    parser.add_argument("--limit", type=float, metavar="S", default=60, help=limit)
    return parser.parse_args(arguments)


@dataclasses.dataclass(frozen=True)
class Built:
    """One MPI with the programs built for it. missing: why it cannot run here, or empty."""

    name: str
    mpi: mpis.Mpi | None = None
    programs: dict[str, Path] = dataclasses.field(default_factory=dict)
    missing: str = ""

    def command(self, case: cases.Case, quick: bool) -> list[str]:
        if case.example:
            words = [str(self.programs[case.example]), *case.words]
        else:
            words = [str(self.programs["rows"]), *case.words, "--scale", "0.3" if quick else "1"]
        if case.pinned:
            words += ["--cpus", ",".join(map(str, range(min(2, os.cpu_count() or 1))))]
        return [*self.mpi.command(case.ranks), *words]


class Table:
    """Runs cases and keeps what came of them."""

    def __init__(self, runner: Runner, options: argparse.Namespace):
        self.runner, self.options = runner, options
        self.samples = cases.Samples()
        self.said: dict[tuple[str, str, str], str] = {}  # (case, mpi, library) -> why no figure

    def run(self, case: cases.Case, built: Built, library: str, turn: int) -> None:
        """A run that fails or takes too long gets no other try. What the stock library printed
        before counts, as its results were right until then."""
        key = (case.name, built.name, library)
        if built.missing:
            self.said[key] = built.missing
        elif case.on_hosts and not self.runner.hosts:
            self.said[key] = "not run: several hosts need root (network namespaces)"
        if key in self.said:
            return
        command = built.command(case, self.options.quick)
        if library == cases.OURS:
            command = [str(self.runner.launcher), "mpi", "--", *command]
        if case.on_hosts:
            command = self.runner.on("sk0", command)
        if self.options.verbose:
            print("bench/mpi: " + " ".join(command), file=sys.stderr)
        self.runner.loads.append(machine.load())
        start = time.monotonic()
        done = run_program(command, self.runner.environment, self.options.limit)
        took_ns = (time.monotonic() - start) * 1e9
        if done.why:
            print(f"bench/mpi: {' '.join(key)}: {done.why}", file=sys.stderr)
            self.said[key] = done.why
            if library == cases.OURS:
                return
        rows = list(done.rows)
        if case.timed and not done.why:
            rows.append((case.timed, took_ns))
        if case.example and (found := re.search(r": ([\d.]+) (us a step|ms)$", done.output, re.M)):
            rows.append((case.example, float(found[1])))
        for row, value in rows:
            self.samples.add(case.name, row, built.name, library, turn, value)

    def raw_tcp(self, turn: int) -> None:
        """What a wake-up over TCP takes beside a computing process, pinned as the cases are."""
        self.runner.tcp("two_cores", "pingpong", "tcp_busy", busy=True)
        if found := self.runner.samples.get(("tcp_busy.two_cores", "pingpong")):
            self.samples.add(cases.RAW[0], "pingpong", cases.RAW[1], "skerry", turn, found[-1])


def builds(runner: Runner, install: bool, wanted) -> list[Built]:
    """The MPIs for whose name wanted(name) holds, each with its program."""
    parts = {"rows": sorted(HERE.glob("program/*.cpp"))}
    parts |= {name: [ROOT / "examples" / "mpi" / f"{name}.c"] for name in cases.EXAMPLES}
    shared = [*MICRO.glob("*.hpp"), *MICRO.glob("limits/*.hpp")]
    found = []
    for source in filter(lambda source: wanted(source.name), mpi_sources.SOURCES):
        starter, compiler, missing = mpi_sources.tools(source, install)
        programs = {name: runner.bench / f"mpi_{name}_{source.name}" for name in parts}
        for name, sources in parts.items():
            missing = missing or mpi_sources.compiled(
                compiler, programs[name], sources, [*sources, *shared]
            )
        if missing:
            print(f"bench/mpi: {source.name} is left out: {missing}", file=sys.stderr)
            found.append(Built(source.name, missing=missing))
        else:
            found.append(Built(source.name, mpis.Mpi(source.family, starter), programs))
    return found


def measure(
    table: Table, chosen: list[cases.Case], known: list[Built], now: session.Session, write
) -> None:
    for turn in range(now.rounds):
        if any(case.on_hosts for case in chosen):
            table.raw_tcp(turn)
        for case in chosen:
            for built in known:
                # which of the two comes first changes from round to round
                pair = (cases.STOCK, cases.OURS)
                for library in pair if turn % 2 == 0 else reversed(pair):
                    table.run(case, built, library, turn)
            write()
            now.case_done(turn, case.name)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    all_cases, all_rows = cases.everything()
    names = [source.name for source in mpi_sources.SOURCES]
    wanted = [
        (mpi, row)
        for mpi in names
        for row in all_rows
        if fnmatch.fnmatch(f"{mpi}.{row.name}", options.only)
    ]
    if not wanted:
        print(f"bench.py: no row matches '{options.only}'; --list shows all", file=sys.stderr)
        return 2
    if options.list:
        for mpi, row in wanted:
            record = cases.judge(row, mpi, cases.Samples(), {})
            print(f"{record['name']:50} {record['target']}")
        return 0
    needed = {row.case for _, row in wanted}
    chosen = [case for case in all_cases if case.name in needed]
    hosts = HOSTS if any(case.on_hosts for case in chosen) else 0
    now = session.Session(options, ROOT, HERE / "bench.py", arguments, hosts)
    known = builds(now.runner, not options.no_install, {mpi for mpi, _ in wanted}.__contains__)
    if all(built.missing for built in known) or not now.runner.launcher.exists():
        print("bench.py: nothing to measure: no MPI, or make build first", file=sys.stderr)
        return 2
    table = Table(now.runner, options)

    def write() -> list[dict]:
        records = [cases.judge(row, mpi, table.samples, table.said) for mpi, row in wanted]
        where = "network namespaces joined by veth" if now.can_host else "none"
        return now.save(records, {"hosts": where})

    now.run(lambda: measure(table, chosen, known, now, write), write, plots.draw)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("bench.py: interrupted")
