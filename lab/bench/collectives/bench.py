#!/usr/bin/env python3
"""Collective calls of Skerry beside those of OpenMPI and MPICH, on this machine.

    lab/bench/collectives/bench.py [--runs N] [--layouts RANKSxNODES,...] [--sizes BYTES,...]

Alternating runs; a figure is the median over the runs of the medians that the programs report, in
microseconds. Of an MPI several "nodes" are ranks that may talk through tcp alone. Writes
out/collectives.json. `calls_*` of lab/bench/collectives must be built.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BIN = ROOT / "build" / "bin"
LIMIT_S = 120


def commands(ranks, nodes):
    """The words that start each program, of those that are built and can be started so."""
    words = {
        "skerry": [BIN / "skerry", "run", "-n", str(ranks), "--nodes", str(nodes)],
        "openmpi": [shutil.which("mpirun.openmpi"), "--oversubscribe", "-n", str(ranks)],
        "mpich": [shutil.which("mpirun.mpich"), "-n", str(ranks)],
    }
    words["openmpi"] += ["--bind-to", "none"]
    if nodes > 1:
        words["openmpi"] += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
        if ranks != nodes:
            del words["openmpi"]
        del words["mpich"]
    if ranks > (os.cpu_count() or 1) and "openmpi" in words:
        words["openmpi"] += ["--mca", "mpi_yield_when_idle", "1"]
    return {
        name: [*map(str, start), str(BIN / "bench" / f"calls_{name}")]
        for name, start in words.items()
        if start[0] is not None and (BIN / "bench" / f"calls_{name}").exists()
    }


def run(words, sizes):
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = {**os.environ, **as_root}
    try:
        done = subprocess.run(
            [*words, "all", sizes], env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        print(f"{words[0]}: more than {LIMIT_S} s", file=sys.stderr)
        return {}
    if done.returncode != 0:
        print(f"{words[0]}: {done.stderr[-500:]}", file=sys.stderr)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["row"]: row["value"] / 1000 for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--layouts", default="2x1,4x1,2x2,4x4,8x8")
    parser.add_argument("--sizes", default="8,1024,65536,1048576,16777216")
    arguments = parser.parse_args()
    table = []
    for layout in arguments.layouts.split(","):
        ranks, nodes = map(int, layout.split("x"))
        programs = commands(ranks, nodes)
        figures = {}
        for _ in range(arguments.runs):
            for name, words in programs.items():
                for row, value in run(words, arguments.sizes).items():
                    figures.setdefault(row, {}).setdefault(name, []).append(value)
        print(f"\n{ranks} ranks on {nodes} nodes, load {os.getloadavg()[0]:.1f}")
        print(f"{'us':24}" + "".join(f"{name:>12}" for name in programs) + f"{'ratio':>9}")
        for row, by_name in figures.items():
            medians = {name: statistics.median(values) for name, values in by_name.items()}
            peers = [value for name, value in medians.items() if name != "skerry"]
            ratio = medians["skerry"] / min(peers) if peers and "skerry" in medians else None
            cells = "".join(f"{medians.get(name, float('nan')):12.2f}" for name in programs)
            print(f"{row:24}{cells}" + (f"{ratio:9.2f}" if ratio else ""), flush=True)
            where = {"ranks": ranks, "nodes": nodes, "row": row}
            table.append({**where, "us": medians, "ratio": ratio})
    out = ROOT / "out" / "collectives.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"load": os.getloadavg(), "rows": table}, indent=1) + "\n")
    print(f"\nwritten: {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
