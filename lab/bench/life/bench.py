#!/usr/bin/env python3
"""What programs make and free, and jobs started and ended, beside the MPIs that are installed.

    lab/bench/life/bench.py [--build DIR] [--runs N] [--rounds N] [--only WORD] [--out FILE]

Every combination runs once in each of N turns (default 5), and the median counts. Rows in
microseconds, made and freed again. Exit status 1 if a program failed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.append(str(HERE.parent / "micro"))

from harness import mpi_sources, mpis, process  # noqa: E402

STARTS = (1, 2, 8, 32)  # ranks of jobs that are only started and ended
LAYOUTS = ((1, 1), (2, 1), (4, 1), (2, 2), (4, 4))
LIMIT_S = 300


class Way:
    """How a program is started: its name in the table, and the words for so many ranks."""

    def __init__(self, name, words, program, start_end, nodes=False):
        self.name, self.words, self.program = name, words, program
        self.start_end, self.nodes = start_end, nodes


def compiled(source, name, text, directory):
    """The path of an MPI program of one source file, or None."""
    compiler = source.tool(source.compiler.replace("mpicxx", "mpicc"))
    if compiler is None:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / f"{name}-{source.name}"
    made = subprocess.run(
        [compiler, "-O2", str(text), "-o", str(program)], capture_output=True, text=True
    )
    if made.returncode:
        print(f"bench: {source.name}: {made.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return str(program)


def ways(build, directory):
    skerry = str(build / "bin" / "skerry")
    yield Way(
        "skerry",
        lambda ranks, nodes: [skerry, "run", "-n", str(ranks), "--nodes", str(nodes)],
        str(build / "bin" / "bench" / "life"),
        str(build / "bin" / "bench" / "start_end"),
        nodes=True,
    )
    for source in mpi_sources.SOURCES:
        starter = source.tool(source.starter)
        program = compiled(source, "life_mpi", HERE / "life_mpi.c", directory) if starter else None
        if program is None:
            continue
        peers = HERE.parent / "micro" / "peers"
        start_end = compiled(source, "start_end", peers / "peer_start_end.c", directory)
        mpi = mpis.Mpi(source.family, starter)
        stock = lambda ranks, nodes, mpi=mpi: mpi.command((ranks,))  # noqa: E731
        yield Way(source.name, stock, program, start_end)
        yield Way(
            f"{source.name} + skerry",
            lambda ranks, nodes, mpi=mpi: [skerry, "mpi", *mpi.command((ranks,))],
            program,
            None,
        )


def measured(way, ranks, nodes, rounds):
    """{row: microseconds} of one run, or a reason."""
    began = time.monotonic()
    outcome = process.run_program(
        [*way.words(ranks, nodes), way.program, str(rounds)],
        {**os.environ, **mpis.AS_ROOT},
        LIMIT_S,
    )
    if outcome.why:
        took_s = time.monotonic() - began
        return f"{way.name}, {ranks} ranks on {nodes}: {outcome.why} ({took_s:.0f} s)"
    return dict(outcome.rows)


def started(way, ranks):
    began = time.monotonic()
    outcome = process.run_program(
        [*way.words(ranks, 1), way.start_end], {**os.environ, **mpis.AS_ROOT}, LIMIT_S
    )
    took_ms = 1e3 * (time.monotonic() - began)
    return f"{way.name}, start and end of {ranks}: {outcome.why}" if outcome.why else took_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--only", default="", help="ways whose name has this word")
    parser.add_argument("--layouts", default="", help="such as 2x1,4x4: ranks x nodes")
    parser.add_argument("--no-starts", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "life.json")
    options = parser.parse_args()
    layouts = LAYOUTS
    if options.layouts:
        layouts = [tuple(map(int, each.split("x"))) for each in options.layouts.split(",")]
    all_ways = [w for w in ways(options.build, ROOT / "out" / "life") if options.only in w.name]
    found: dict[tuple[str, str, str], list[float]] = {}
    failures = []
    load_before = os.getloadavg()[0]

    def note(layout, row, way, value):
        found.setdefault((layout, row, way), []).append(value)

    for _ in range(options.runs):
        for ranks, nodes in layouts:
            for way in all_ways:
                if nodes > 1 and not way.nodes:
                    continue
                rows = measured(way, ranks, nodes, options.rounds)
                if isinstance(rows, str):
                    failures.append(rows)
                    continue
                for row, value in rows.items():
                    note(f"{ranks} ranks, {nodes} nodes", row, way.name, value)
        for ranks in () if options.no_starts else STARTS:
            for way in all_ways:
                if way.start_end is None:
                    continue
                took = started(way, ranks)
                if isinstance(took, str):
                    failures.append(took)
                else:
                    note("job started and ended, ms", f"{ranks} ranks", way.name, took)
    names = [way.name for way in all_ways]
    print(f"{'':46}" + "".join(f"{name:>20}" for name in names))
    for layout, row in dict.fromkeys((layout, row) for layout, row, _ in found):
        line = ""
        for name in names:
            values = found.get((layout, row, name))
            line += f"{statistics.median(values):20.1f}" if values else f"{'-':>20}"
        print(f"{layout + ': ' + row:46}{line}")
    print(f"load {load_before:.1f}, then {os.getloadavg()[0]:.1f}; medians of {options.runs}")
    for failure in dict.fromkeys(failures):
        print(failure, file=sys.stderr)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"layout": layout, "row": row, "way": way, "median": statistics.median(v), "runs": v}
        for (layout, row, way), v in found.items()
    ]
    options.out.write_text(json.dumps({"load": load_before, "rows": rows}, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
