#!/usr/bin/env python3
"""Locks of one-sided windows: Skerry with each of its protocols beside four MPIs, all in one run.

The same program (program/) is built over Skerry's windows and over each MPI's, and the libraries
take turns within each round. Values are medians over the rounds, ratios medians of each round's own
ratio. Prints one table, writes out/locks.json and draws out/locks.svg and .png. Rows between hosts
need root (testbed/hosts.sh makes four hosts). Nothing here fails because a target is missed: `met`
says so.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent / "micro")]

import cases  # noqa: E402
import libraries  # noqa: E402
import plots  # noqa: E402
from harness import machine, mpi_sources, session  # noqa: E402
from harness.process import run_program  # noqa: E402
from harness.runner import Runner  # noqa: E402

HOSTS = 4


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = session.parser(__doc__, ROOT, "locks", "the libraries", "contended.*")
    add = parser.add_argument
    add("--libraries", metavar="LIST", help="only these, such as skerry,openmpi5")
    add("--no-peers", action="store_true", help="leave the MPIs out")
    add("--peer-limit", type=float, metavar="S", help="end a peer's run after S (20, quick 8)")
    add(
        "--minutes",
        type=float,
        default=60,
        metavar="M",
        help="begin no run after M (60): the whole takes at most a few minutes more",
    )
    return parser.parse_args(arguments)


class Table:
    """Runs cases and keeps what came of them."""

    def __init__(self, runner: Runner, options: argparse.Namespace):
        self.runner, self.verbose = runner, options.verbose
        self.scale = "0.3" if options.quick else "1"
        self.peer_limit_s = options.peer_limit or (8 if options.quick else 20)
        self.samples = cases.Samples()
        self.said: dict[tuple[str, str], str] = {}  # (case, library) -> why it has no figure
        self.given_up: dict[tuple[str, str], str] = {}  # (family or case, library) -> where and why
        self.end = time.monotonic() + 60 * options.minutes
        self.late = 0  # runs that did not begin

    def _refused(self, case: cases.Case, library: libraries.Library) -> str:
        if library.missing:
            return library.missing
        if case.on_hosts and not self.runner.hosts and library.mpi:
            return "not run: several hosts need root (network namespaces)"
        return self.given_up.get((case.family or case.name, library.name), "")

    def run(self, case: cases.Case, library: libraries.Library, turn: int) -> None:
        """A run that fails or is too slow has no figures; only our default gets another try."""
        if time.monotonic() > self.end:
            self.late += 1
            self.said.setdefault((case.name, library.name), "not run: --minutes were over")
            return
        if why := self._refused(case, library):
            self.said.setdefault((case.name, library.name), why)
            return
        words = [*case.words, "--scale", self.scale]
        if case.pinned:
            words += ["--cpus", ",".join(map(str, range(min(2, os.cpu_count() or 1))))]
        command = library.command(case, self.runner, words)
        if self.verbose:
            print("bench/locks: " + " ".join(command), file=sys.stderr)
        self.runner.loads.append(machine.load())
        limit_s = self.peer_limit_s * case.patience if library.mpi else 60
        done = run_program(
            command, {**self.runner.environment, **library.environment(case)}, limit_s
        )
        if not done.why:
            for row, value in done.rows:
                self.samples.add(case.name, row, library.name, turn, value)
            return
        print(f"bench/locks: {library.name} in {case.name}: {done.why}", file=sys.stderr)
        self.said[case.name, library.name] = done.why
        if library.mpi or library.protocol:
            key = (case.family or case.name, library.name)
            self.given_up[key] = f"in {case.name}: {done.why}"

    def raw_tcp(self, turn: int) -> None:
        """What a wake-up over TCP takes, target idle and computing, pinned as the cases are."""
        for busy, name in ((False, "tcp"), (True, "tcp_busy")):
            self.runner.tcp("two_cores", "pingpong", name, busy=busy)
            found = self.runner.samples.get((f"{name}.two_cores", "pingpong"), [])
            if found:
                self.samples.add(f"{name}.two_cores", "pingpong", cases.OURS, turn, found[-1])


def measure(
    table: Table, chosen: list[cases.Case], known: list, now: session.Session, write
) -> None:
    for turn in range(now.rounds):
        if any(case.name.startswith("computing.hosts") for case in chosen):
            table.raw_tcp(turn)
        for case in chosen:
            # the first of a round moves on: nobody always follows the same one
            for library in known[turn % len(known) :] + known[: turn % len(known)]:
                table.run(case, library, turn)
            write()
            now.case_done(turn, case.name)
    if table.late:
        print(f"bench/locks: {table.late} runs left out: time is over", file=sys.stderr)


def word(why: str) -> str:
    """What a table's cell has room for; the whole reason is in the JSON file."""
    if why.startswith("not "):
        return "-"
    if "no end after" in why:
        return "no end"
    return "wrong" if "wrong result" in why else "failed"


def shown(record: dict) -> dict:
    """The record as the table prints it: protocols beside peers, a word in place of a figure."""
    ours = {f"our {name}": value for name, value in record["protocols"].items()}
    beside = {**ours, **record["peers"]}
    for name, why in record["missing"].items():
        column = f"our {name}" if name in record["protocols"] else name
        if column in beside and beside[column] is None:
            beside[column] = word(why)
    return {**record, "peers": beside}


def select(options: argparse.Namespace) -> tuple[list[cases.Case], list[cases.Row]]:
    """The rows asked for and the cases that they, or their marks, need."""
    all_cases, all_rows = cases.everything(os.cpu_count() or 1)
    rows = [row for row in all_rows if fnmatch.fnmatch(row.name, options.only)]
    needed = {row.case for row in rows}
    if any(case.startswith("readers") for case in needed):
        needed.add("readers.1")
    return [case for case in all_cases if case.name in needed], rows


def known_libraries(runner: Runner, options: argparse.Namespace) -> list[libraries.Library]:
    def wanted(name: str) -> bool:
        return not options.libraries or name in options.libraries.split(",")

    found = [one for one in libraries.skerry(runner) if wanted(one.name)]
    if not options.no_peers:
        found += libraries.peers(runner, not options.no_install, wanted)
    for one in found:
        if one.missing:
            print(f"bench/locks: {one.name} is left out: {one.missing}", file=sys.stderr)
    return found


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    chosen, rows = select(options)
    if not rows:
        print(f"bench.py: no row matches '{options.only}'; --list shows all", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{row.name:45} {row.figure:8} {row.target}" for row in rows))
        return 0
    hosts = HOSTS if any(case.on_hosts for case in chosen) else 0
    now = session.Session(options, ROOT, HERE / "bench.py", arguments, hosts)
    known = known_libraries(now.runner, options)
    if all(one.missing for one in known):
        print(
            "bench.py: nothing to measure, see above; make build builds Skerry's part",
            file=sys.stderr,
        )
        return 2
    table = Table(now.runner, options)
    protocols = [one.name for one in known if not one.mpi and one.name in libraries.PROTOCOLS]
    peers = [one.name for one in known if one.name in {s.name for s in mpi_sources.SOURCES}]

    def write() -> list[dict]:
        records = [cases.judge(row, table.samples, protocols, peers, table.said) for row in rows]
        joined = "network namespaces joined by veth"
        where = joined if now.can_host else "virtual nodes (Skerry only)"
        domains = "cpu and server are real; nic is not measured here"
        return now.save(records, {"hosts": where, "domains": domains})

    now.run(lambda: measure(table, chosen, known, now, write), write, plots.draw, shown)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("bench.py: interrupted")
