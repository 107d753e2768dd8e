#!/usr/bin/env python3
"""NWChem's own test dft_siosi3 (Si8O7H18) on Skerry's libarmci beside the same objects on ARMCI-MPI, in one run.

    lab/bench/armci/nwchem.py --cache DIR [--rounds N] [--only PATTERN] [--other NAME=PROGRAM:EXTRA] [--budget MINUTES]

DIR is the cache of tools/test_nwchem.sh, which builds the programs. On one node with 1, 2, 4 and 8 processes; on 2 and 4 hosts (network namespaces;
root) at full speed and at 100 Mbit/s; Skerry without a connection cap and with a cap of 1. Each calculation is written to out/nwchem.json, and the table so far to
out/nwchem.md, as soon as it is there: an interrupted run keeps what it has. A wrong energy is a failure. --other: a further program, such as NWChem on ComEx MPI-PR, and how many processes a node it needs beyond the workers.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "micro"))

from harness import machine, session  # noqa: E402

ENERGY, TOLERANCE = -2840.7237434, 1e-6
NET = "10.77.0.0/24"


@dataclass(frozen=True)
class Place:
    hosts: int  # 1: this machine as it is
    each: int  # workers a host
    rate: str = "none"

    @property
    def name(self) -> str:
        if self.hosts == 1:
            return f"one_node.{self.each}"
        return f"hosts.{self.hosts}x{self.each}.{'full' if self.rate == 'none' else self.rate}"


@dataclass(frozen=True)
class Program:
    name: str
    path: Path
    extra: int = 0  # processes a node that serve and do not work
    variables: tuple[str, ...] = ()  # NAME=VALUE for every rank
    far: tuple[tuple[str, str], ...] = ()  # MCA parameters between hosts


# The most telling first, so that a run that is cut short has them.
PLACES = (
    Place(1, 2),
    Place(2, 2),
    Place(2, 2, "100mbit"),
    Place(1, 4),
    Place(4, 1, "100mbit"),
    Place(4, 1),
    Place(1, 8),
    Place(1, 1),
)


def command(program: Program, place: Place, deck: Path) -> list[str]:
    each = place.each + program.extra
    line = [
        "mpirun.openmpi",
        "--leave-session-attached",
        "--bind-to",
        "none",
        "--oversubscribe",
        "-n",
        str(each * place.hosts),
        "--mca",
        "mpi_yield_when_idle",
        "1",
    ]
    if place.hosts > 1:
        line += ["--host", ",".join(f"sk{k + 1}:{each}" for k in range(place.hosts))]
        for key, value in (
            ("plm", "rsh"),
            ("plm_rsh_agent", os.environ["TESTBED_AGENT"]),
            ("plm_rsh_no_tree_spawn", "1"),
            ("oob_tcp_if_include", NET),
            ("btl_tcp_if_include", NET),
            ("pml", "ob1"),
            ("btl", "tcp,vader,self"),
            *program.far,
        ):
            line += ["--mca", key, value]
    for name in ("NWCHEM_BASIS_LIBRARY", "OPENBLAS_NUM_THREADS"):
        line += ["-x", name]
    for variable in program.variables:
        line += ["-x", variable]
    line += [str(program.path), str(deck)]
    return [str(ROOT / "testbed" / "hosts.sh"), "exec", "sk0", *line] if place.hosts > 1 else line


def ended(process: subprocess.Popen) -> str:
    """Ends a calculation with all its processes; what it had printed."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def run(program: Program, place: Place, deck: Path, limit_s: float, keep: Path) -> dict:
    """One calculation in a directory of its own. `seconds` is NWChem's own wall time; None if anything was wrong, `why` says what."""
    with tempfile.TemporaryDirectory(prefix="nwchem-") as scratch:
        start = time.monotonic()
        process = subprocess.Popen(
            command(program, place, deck),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
        why = None
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            why = f"no end after {limit_s:g} s"
            output = ended(process)
        except KeyboardInterrupt:
            ended(process)
            raise
        elapsed = time.monotonic() - start
    keep.write_text(output)
    energies = [float(e) for e in re.findall(r"Total DFT energy *= *(-[0-9.]+)", output)]
    walls = [
        float(w) for w in re.findall(r"Total times +cpu: +[0-9.]+s +wall: +([0-9.]+)s", output)
    ]
    if why is None and process.returncode != 0:
        why = f"status {process.returncode}"
    if why is None and (not energies or abs(energies[-1] - ENERGY) > TOLERANCE):
        why = f"energy {energies[-1] if energies else 'none'}"
    return {
        "energy": energies[-1] if energies else None,
        "seconds": walls[-1] if walls and why is None else None,
        "elapsed": round(elapsed, 2),
        "why": why,
        "load": machine.load(),
    }


def show(results: dict[str, dict[str, list[dict]]], programs: list[Program]) -> str:
    """The table in Markdown: the median of the rounds, in seconds; a failure as such."""
    lines = [
        "| | " + " | ".join(p.name for p in programs) + " |",
        "|---" * (len(programs) + 1) + "|",
    ]
    for place, row in results.items():
        cells = []
        for program in programs:
            taken = row.get(program.name, [])
            good = [t["seconds"] for t in taken if t["seconds"] is not None]
            cells.append(
                f"{statistics.median(good):.1f}"
                if good
                else (f"failed: {taken[-1]['why']}" if taken else "-")
            )
        lines.append(f"| {place} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="nwchem.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(os.environ.get("NWCHEM_CACHE", Path.home() / ".cache" / "skerry-nwchem")),
        help="default: %(default)s",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=2,
        help="how often the programs take turns in each place (default %(default)s)",
    )
    parser.add_argument(
        "--only",
        default="*",
        metavar="PATTERN",
        help="places, such as 'one_node.*' or 'hosts.2x2.*'",
    )
    parser.add_argument(
        "--programs", default="*", metavar="PATTERN", help="programs, such as 'skerry*'"
    )
    parser.add_argument(
        "--other",
        action="append",
        default=[],
        metavar="NAME=PROGRAM:EXTRA",
        help="a further program and its extra processes a node",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=float("inf"),
        metavar="MINUTES",
        help="begin no calculation later than this",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=150,
        metavar="SECONDS",
        help="for one calculation (default %(default)s)",
    )
    parser.add_argument(
        "--priority", action="store_true", help="weigh more than the machine's other work (root)"
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="add to the results that are there instead of starting anew",
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "out" / "nwchem.json", help="default: %(default)s"
    )
    options = parser.parse_args(arguments)
    cache = options.cache.resolve()
    places = [place for place in PLACES if fnmatch.fnmatch(place.name, options.only)]
    hosts = max((place.hosts for place in places), default=0)
    root = os.geteuid() == 0
    if hosts > 1 and root:
        session.on_testbed(ROOT, hosts, HERE / "nwchem.py", arguments)
    if not root:
        places = [place for place in places if place.hosts == 1]
    deck = cache / "source" / "nwchem" / "QA" / "tests" / "dft_siosi3" / "dft_siosi3.nw"
    programs = [
        Program("skerry", cache / "nwchem.skerry"),
        Program("skerry_cap_1", cache / "nwchem.skerry", variables=("SKERRY_MAX_CONN=1",)),
        Program("armci_mpi", cache / "nwchem.armci-mpi", far=(("osc", "pt2pt"),)),
    ]
    for other in options.other:
        name, _, rest = other.partition("=")
        path, _, extra = rest.rpartition(":")
        programs.append(Program(name, Path(path).resolve(), int(extra)))
    programs = [
        p for p in programs if p.path.exists() and fnmatch.fnmatch(p.name, options.programs)
    ]
    if not places or not programs or not deck.exists():
        print(
            f"nwchem.py: nothing to run: {len(places)} places, {len(programs)} programs in {cache}; tools/test_nwchem.sh builds them",
            file=sys.stderr,
        )
        return 2
    session.take_signals()
    session.own_session(options.priority)
    os.environ |= {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "NWCHEM_BASIS_LIBRARY": f"{cache}/source/nwchem/src/basis/libraries/",
    }
    results: dict[str, dict[str, list[dict]]] = {}
    if options.add and options.out.exists():
        results = json.loads(options.out.read_text())["results"]
    failed = 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    (cache / "run").mkdir(exist_ok=True)
    started, left_out = time.monotonic(), 0

    def measure(program: Program, place: Place, turn: int) -> bool:
        taken = run(
            program,
            place,
            deck,
            options.limit,
            cache / "run" / f"{place.name}.{program.name}.{turn}.out",
        )
        results[place.name].setdefault(program.name, []).append(taken)
        options.out.write_text(
            json.dumps({"machine": machine.describe(), "results": results}, indent=1) + "\n"
        )
        options.out.with_suffix(".md").write_text(show(results, programs) + "\n")
        minutes = (time.monotonic() - started) / 60
        print(
            f"{minutes:5.1f} min  {place.name:20} {program.name:14} {taken['why'] or ''} {taken['seconds']} s, energy {taken['energy']}, load {taken['load']:.1f}",
            flush=True,
        )
        return taken["why"] is None or not program.name.startswith("skerry")

    try:
        for place in places:
            results.setdefault(place.name, {})
            if "TESTBED" in os.environ:
                subprocess.run(
                    [str(ROOT / "testbed" / "hosts.sh"), "shape", place.rate], check=True
                )
            for turn in range(options.rounds):
                for program in programs:
                    if program.name == "skerry_cap_1" and place.hosts == 1:
                        continue  # no connections there
                    if time.monotonic() - started > options.budget * 60:
                        left_out += 1
                        continue
                    failed += not measure(program, place, turn)
    except KeyboardInterrupt:
        failed += 1
    print(show(results, programs))
    if left_out:
        print(f"{left_out} calculations left out: the {options.budget:g} minutes were over")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
