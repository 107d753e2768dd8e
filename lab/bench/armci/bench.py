#!/usr/bin/env python3
"""ARMCI's operations over Skerry's libarmci beside ARMCI-MPI (polling and yielding) and ComEx MPI-PR, all in one run.

The same program (armci_rows.c) is compiled against each library and run by OpenMPI's mpirun, in turn: on one node, on two hosts (network
namespaces; root) and on two hosts joined at 100 Mbit/s; with the target idle and computing; with as many ranks as cores and four times as many. Values are medians over the
rounds, ratios medians of each round's own ratio. Prints a table and writes out/armci.json. Nothing here fails because a target is missed: `met` says so.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "micro"))
sys.path.insert(0, str(HERE))

import targets  # noqa: E402
from harness import machine, session  # noqa: E402

NET = "10.77.0.0/24"
# (scenario, row, library) -> one value a round, None where it failed
Sample = dict[tuple[str, str, str], list]


class Library:
    """One ARMCI: how its program is made and what its launcher needs. `extra_ranks`: ranks a node that serve and do not work."""

    def __init__(
        self,
        name: str,
        program: Path,
        options: dict[str, str] | None = None,
        extra_ranks: int = 0,
        far: dict[str, str] | None = None,
    ):
        self.name, self.program, self.options, self.extra_ranks, self.far = (
            name,
            program,
            options or {},
            extra_ranks,
            far or {},
        )


def compiled(name: str, build: Path, flags: list[str]) -> Path | None:
    """The program linked with one library, or None with the compiler's words on stderr."""
    program = build / "bin" / "bench" / f"armci_rows_{name}"
    program.parent.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        [
            "mpicc.openmpi",
            "-O2",
            "-Wall",
            "-Wextra",
            str(HERE / "armci_rows.c"),
            "-o",
            str(program),
            *flags,
        ],
        capture_output=True,
        text=True,
    )
    if made.returncode == 0:
        return program
    print(
        f"bench/armci: no program for {name}: {made.stderr.strip().splitlines()[-1]}",
        file=sys.stderr,
    )
    return None


def libraries(build: Path, comex: Path | None) -> list[Library]:
    """Those that can be built here. ARMCI-MPI needs the pt2pt component between hosts: no other works there."""
    found = []
    ours = build / "lib" / "armci-openmpi"
    if (ours / "libarmci.so").exists():
        if program := compiled(
            "skerry", build, [f"-I{ours}/include", f"-L{ours}", f"-Wl,-rpath,{ours}", "-larmci"]
        ):
            found.append(Library("skerry", program, {"mpi_yield_when_idle": "1"}))
    else:
        print(f"bench/armci: no {ours}/libarmci.so: build first (make build)", file=sys.stderr)
    if program := compiled("armci_mpi", build, ["-larmci-openmpi"]):
        found.append(
            Library(
                "armci_mpi_polling", program, {"mpi_yield_when_idle": "0"}, far={"osc": "pt2pt"}
            )
        )
        found.append(
            Library(
                "armci_mpi_yielding", program, {"mpi_yield_when_idle": "1"}, far={"osc": "pt2pt"}
            )
        )
    if comex:
        if program := compiled(
            "comex_mpi_pr",
            build,
            [f"-I{comex}/include", f"-L{comex}/lib", "-larmci", "-lcomex", "-lblas", "-lm"],
        ):
            found.append(
                Library("comex_mpi_pr", program, {"mpi_yield_when_idle": "1"}, extra_ranks=1)
            )
    return found


def command(library: Library, scenario: targets.Scenario) -> list[str]:
    line = ["mpirun.openmpi", "--leave-session-attached", "--bind-to", "none", "--oversubscribe"]
    options = dict(library.options)
    if scenario.hosts == 1:
        line += ["-n", str(scenario.ranks + library.extra_ranks)]
    else:
        each = scenario.ranks // scenario.hosts + library.extra_ranks
        line += [
            "-n",
            str(each * scenario.hosts),
            "--host",
            ",".join(f"sk{host + 1}:{each}" for host in range(scenario.hosts)),
        ]
        options |= {
            "plm": "rsh",
            "plm_rsh_agent": os.environ["TESTBED_AGENT"],
            "plm_rsh_no_tree_spawn": "1",
            "oob_tcp_if_include": NET,
            "btl_tcp_if_include": NET,
            "pml": "ob1",
            "btl": "tcp,vader,self",
        } | library.far
    for key, value in options.items():
        line += ["--mca", key, value]
    line += [
        str(library.program),
        "far" if scenario.hosts > 1 else "near",
        "computing" if scenario.computing else "idle",
        str(scenario.span_s),
    ]
    return (
        [str(ROOT / "testbed" / "hosts.sh"), "exec", "sk0", *line] if scenario.hosts > 1 else line
    )


def run(
    library: Library, scenario: targets.Scenario, into: Sample, notes: list[str], verbose: bool
) -> None:
    """One program to its end; a failure is noted and leaves holes."""
    line = command(library, scenario)
    if verbose:
        print("bench/armci: " + " ".join(line), file=sys.stderr)
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        output, errors = process.communicate(timeout=scenario.limit_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as why:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            output, errors = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
        if isinstance(why, KeyboardInterrupt):
            raise
        errors += f"\nno end after {scenario.limit_s:g} s"
    values = {
        found["row"]: found["value"]
        for found in (json.loads(text) for text in output.splitlines() if text.startswith('{"row"'))
    }
    for row in targets.ROWS:
        into.setdefault((scenario.name, row, library.name), []).append(values.get(row))
    if process.returncode != 0:
        note = f"{library.name} failed in {scenario.name} with status {process.returncode}: {' | '.join(errors.strip().splitlines()[-2:])}"
        notes.append(note)
        print(f"bench/armci: {note}", file=sys.stderr)


def verdict(target: dict) -> str:
    if target["met"] is None:
        return "-"
    return "met" if target["met"] else f"MISSED ({target['value']:.3g})"


def show(records: list[dict], names: list[str]) -> None:
    scenario = None
    for record in records:
        if record["scenario"] != scenario:
            scenario = record["scenario"]
            print(
                f"\n{scenario} (us)\n{'':12}"
                + "".join(f"{name:>20}" for name in names)
                + f"{'of the best':>13}  targets"
            )
        cells = "".join(
            f"{'-' if record['values'].get(name) is None else format(record['values'][name], '.4g'):>20}"
            for name in names
        )
        ratio = "-" if record["ratio_to_best"] is None else f"{record['ratio_to_best']:.2f}"
        verdicts = "; ".join(f"{t['text']}: {verdict(t)}" for t in record["targets"])
        print(f"{record['row']:12}{cells}{ratio:>13}  {verdicts}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bench.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="how often the libraries take turns (default %(default)s)",
    )
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="scenarios, such as 'two_hosts.*'"
    )
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build", help="build directory (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "out" / "armci.json", help="default: %(default)s"
    )
    parser.add_argument(
        "--comex",
        type=Path,
        metavar="PREFIX",
        help="where a ComEx with MPI-PR is installed (PREFIX/include/armci.h, PREFIX/lib/libarmci.a, libcomex.a)",
    )
    parser.add_argument(
        "--priority", action="store_true", help="weigh more than the machine's other work (root)"
    )
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    parser.add_argument("--verbose", action="store_true", help="print every command")
    options = parser.parse_args(arguments)
    chosen = targets.scenarios(os.cpu_count() or 2, options.only)
    if options.list or not chosen:
        print("\n".join(s.name for s in chosen or targets.scenarios(os.cpu_count() or 2, "*")))
        return 0 if chosen else 2
    root = os.geteuid() == 0
    if root and any(s.hosts > 1 for s in chosen):
        session.on_testbed(ROOT, 2, HERE / "bench.py", arguments)
    notes: list[str] = []
    if not root:
        notes.append("two hosts need root (network namespaces): left out")
        chosen = [s for s in chosen if s.hosts == 1]
    session.take_signals()
    session.own_session(options.priority)
    os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    known = libraries(options.build.resolve(), options.comex)
    if not known:
        print("bench/armci: nothing to measure", file=sys.stderr)
        return 2
    samples: Sample = {}
    before, loads = machine.load(), []
    names = [library.name for library in known]
    started = time.monotonic()

    def write() -> list[dict]:
        """What there is so far: an interrupted run keeps it."""
        records = targets.judge(samples, chosen, names)
        described = machine.describe() | {
            "load": {"before": before, "during": [min(loads), max(loads)], "after": machine.load()}
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            json.dumps(
                {
                    "machine": described,
                    "notes": sorted(set(notes)),
                    "rounds": options.rounds,
                    "rows": records,
                },
                indent=1,
            )
            + "\n"
        )
        return records

    for turn in range(options.rounds):
        rate = "none"
        for scenario in chosen:
            if scenario.hosts > 1 and scenario.rate != rate:
                rate = scenario.rate
                subprocess.run([str(ROOT / "testbed" / "hosts.sh"), "shape", rate], check=True)
            for library in known:
                loads.append(machine.load())
                run(library, scenario, samples, notes, options.verbose)
            write()
            print(
                f"bench/armci: {(time.monotonic() - started) / 60:.1f} min, round {turn + 1} of {options.rounds}, {scenario.name} done, load {machine.load():.2f}",
                file=sys.stderr,
            )
        if rate != "none":
            subprocess.run([str(ROOT / "testbed" / "hosts.sh"), "shape", "none"], check=True)
    records = write()
    show(records, names)
    judged = [t for record in records for t in record["targets"] if t["met"] is not None]
    print(
        f"\n{sum(t['met'] for t in judged)} of {len(judged)} targets met; load {before:.2f} before, {min(loads):.2f} to {max(loads):.2f} during; {options.out}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
