#!/usr/bin/env python3
"""Arrays beside NumPy, Heat, Dask and Global Arrays: make bench-arrays; out/arrays.json and .png.

    lab/bench/arrays/bench.py [--short] [--rounds N] [--turns N] [--no-peers] [--only KERNEL ...]

Heat and Dask are installed into a venv of their own, out/arrays-venv, with PyTorch, which Heat
needs (5 GB). Heat needs an MPI, Global Arrays Debian's libglobalarrays-dev. What cannot be
had is left out, with the reason. All run in turns, one thread a rank. --short: small arrays; its
ratios mean nothing.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "lab" / "bench" / "micro"))
from harness import report  # noqa: E402

OUT = ROOT / "out"
VENV = OUT / "arrays-venv"
PACKAGES = ["numpy", "dask", "heat", "mpi4py"]
FUSED = ("stencil", "black_scholes")
notes = []


def run(command, **settings):
    """The lines of JSON that a command printed; none, and a note, if it failed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                   "PYTHONPATH": str(ROOT / "build" / "python"), **settings}  # fmt: skip
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800,
                              env=environment, stdin=subprocess.DEVNULL)  # fmt: skip
        if done.returncode == 0:
            return [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
        reason = (done.stdout + done.stderr)[-300:]
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    note(f"{' '.join(command[-8:])} failed: {' '.join(reason.split())}")
    return []


def note(text):
    if text not in notes:
        notes.append(text)
        print(f"bench-arrays: {text}", flush=True)


def peers():
    """A Python with the peers' packages; None if they cannot be had."""
    python = VENV / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True, timeout=120)
        if subprocess.run([python, "-c", "import heat, dask"], capture_output=True).returncode:
            print(f"bench-arrays: installing {', '.join(PACKAGES)} into {VENV}", flush=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True,
                           capture_output=True, text=True, timeout=3600)  # fmt: skip
        return python
    except (OSError, subprocess.SubprocessError) as error:
        note(f"no Heat and Dask: {getattr(error, 'stderr', None) or error}")
        return None


def with_mpi(ranks):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    found = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    return [found, *root, "--oversubscribe", "-n", ranks] if found else None


def ga_program():
    """Global Arrays on its own ARMCI, built against Debian's OpenMPI; None if it cannot be."""
    program = OUT / "ga_elements"
    libraries = "-lga-openmpi -larmci-openmpi -lscalapack-openmpi -llapack -lblas -lgfortran -lm"
    command = ["mpicc.openmpi", "-O2", HERE / "ga_elements.c", "-o", program, *libraries.split()]
    try:
        subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
        return program
    except (OSError, subprocess.SubprocessError) as error:
        note(f"no Global Arrays: {(getattr(error, 'stderr', None) or str(error))[-300:]}")
        return None


def contestants(options):
    """{(library, ranks): the words before kernels.py's arguments}"""
    launcher = ROOT / "build" / "bin" / "skerry"
    found = {("numpy", 1): [sys.executable]}
    for ranks in 1, 2:
        found["skerry", ranks] = [launcher, "run", "-n", ranks, sys.executable]
    python = None if options.no_peers else peers()
    if python is not None:
        for ranks in 1, 2:
            found["dask", ranks] = [python]
            if with_mpi(ranks):
                found["heat", ranks] = [*with_mpi(ranks), python]
    return found


def kernels(found, options):
    """{(kernel, library, ranks): seconds of all rounds}"""
    taken, checks = {}, {}
    for turn in range(options.turns):
        for (library, ranks), start in found.items():
            lines = run(
                [*start, HERE / "kernels.py", library, "--rounds", options.rounds,
                 "--scale", options.scale, *options.only], BENCH_RANKS=str(ranks),
            )  # fmt: skip
            for line in lines:
                taken.setdefault((line["name"], library, ranks), []).extend(line["seconds"])
                checks.setdefault(line["name"], {})[library] = line["check"]
            print(f"turn {turn + 1}: {library}, {ranks} ranks", flush=True)
    for name, values in checks.items():
        first = values.get("numpy")
        for library, value in values.items():
            if first is not None and abs(value - first) > 1e-8 * abs(first):
                note(f"{name}: {library} computes {value}, NumPy {first}")
    return {key: statistics.median(seconds) for key, seconds in taken.items()}


def row(name, value, target=None, met=None):
    met = value <= target if met is None and None not in (value, target) else met
    return {"name": name, "value": value, "target": target, "met": met}


def kernel_rows(taken):
    rows = []
    for name in dict.fromkeys(kernel for kernel, _, _ in taken):
        times = {key[1:]: seconds for key, seconds in taken.items() if key[0] == name}
        for (library, ranks), seconds in times.items():
            rows.append(row(f"{name}: seconds, {library}, {ranks} ranks", seconds))
        ours, two, numpy = (times.get(key) for key in (("skerry", 1), ("skerry", 2), ("numpy", 1)))
        if ours and numpy:
            target = 0.8 if name in FUSED else 1.15
            rows.append(row(f"{name}: 1 rank / NumPy", ours / numpy, target))
        if ours and two:
            rows.append(row(f"{name}: 2 ranks / 1 rank", two / ours, 0.6))
        for (library, ranks), seconds in times.items():
            mine = times.get(("skerry", ranks))
            if library in ("heat", "dask") and mine:
                rows.append(row(f"{name}: {ranks} ranks / {library}", mine / seconds, 1.0))
    return rows


def element_rows(found, options):
    """Small accesses on one node, in turns with Heat and Global Arrays."""
    launcher = ROOT / "build" / "bin" / "skerry"
    starts = {"skerry": [launcher, "run", "-n", 2, sys.executable, HERE / "elements.py", "skerry"]}
    arguments = ["--rounds", options.rounds, "--count", options.count]
    if ("heat", 2) in found:
        starts["heat"] = [*found["heat", 2], HERE / "elements.py", "heat"]
    program = None if options.no_peers or not with_mpi(2) else ga_program()
    taken = {}
    for _ in range(options.turns):
        for library, start in starts.items():
            for line in run([*start, *arguments]):
                taken.setdefault((line["name"], library), []).append(line["seconds"])
        if program:
            for line in run([*with_mpi(2), program, options.rounds, options.count]):
                taken.setdefault((line["name"], "ga"), []).append(line["seconds"])
    times = {key: statistics.median(seconds) for key, seconds in taken.items()}
    rows = [
        row(f"{name}: microseconds, {library}, 2 ranks", seconds * 1e6,
            {"element": 0.4, "patch 10x10": 1.0}.get(name) if library == "skerry" else None)
        for (name, library), seconds in times.items()
    ]  # fmt: skip
    for name in ("gather", "scatter_acc", "halo"):
        if (name, "ga") in times and (name, "skerry") in times:
            ratio = times[name, "skerry"] / times[name, "ga"]
            rows.append(row(f"{name}: Skerry / Global Arrays", ratio, 1.0))
    return rows


def program_rows(options):
    """Whole programs beside NumPy in the same job."""
    rows = []
    for ranks in 1, 2:
        start = [ROOT / "build" / "bin" / "skerry", "run", "-n", ranks, sys.executable]
        for line in run([*start, HERE / "programs.py", "--scale", options.scale]):
            name = f"program {line['name']}: {ranks} ranks / NumPy"
            rows.append(row(name, line["ratio"], 1.5))
    return rows


def sharing_rows():
    """Skewed tasks on 4 ranks of one node; mirrors on 4 virtual nodes."""
    start = [ROOT / "build" / "bin" / "skerry", "run", "-n", 4]
    script, rows = [sys.executable, HERE / "sharing.py"], []
    for line in run([*start, *script]):
        if line["name"] == "tasks":
            ratio = line["shared"] / line["static"]
            rows.append(row("skewed tasks, 4 ranks: shared / static", ratio, 1 / 1.5))
            rows.append(row("skewed tasks: not once", int(not line["once"]), 0))
    for line in run([*start, "--nodes", 4, *script]):
        if line["name"] == "mirror":
            changed = line["changed"] / line["first"]
            rows += [
                row("mirror: bytes / full mirrors", line["first"] / line["full"], 1.0),
                row("mirror: bytes of a second read", line["second"], 0),
                row("mirror: bytes after 1 % changed / all", changed, 0.013),
            ]
    return rows


def figure(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    bars = [r for r in rows if r["target"] is not None]
    shown, axis = plt.subplots(figsize=(9, 1 + 0.3 * len(bars)))
    heights = range(len(bars))
    ratios = [r["value"] / (r["target"] or 1) for r in bars]
    axis.barh(heights, ratios, color=["tab:green" if r["met"] else "tab:red" for r in bars])
    axis.axvline(1.0, color="black")
    axis.set_yticks(heights, [r["name"] for r in bars], fontsize=8)
    axis.set_xlabel("value / target: below 1 is met")
    axis.invert_yaxis()
    shown.tight_layout()
    shown.savefig(path, dpi=120)
    plt.close(shown)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="small arrays, one turn")
    parser.add_argument("--rounds", type=int, default=3, help="of each kernel in a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--no-peers", action="store_true", help="only Skerry and NumPy")
    parser.add_argument("--only", nargs="+", metavar="KERNEL", help="of kernels.py, and no others")
    parser.add_argument("--out", type=Path, default=OUT / "arrays.json")
    options = parser.parse_args()
    whole, options.only = options.only is None, ["--only", *options.only] if options.only else []
    options.scale, options.count = (0.05, 5_000) if options.short else (1.0, 100_000)
    if options.short:
        options.turns = 1
    OUT.mkdir(exist_ok=True)
    found = contestants(options)
    rows = kernel_rows(kernels(found, options))
    if whole:
        rows += element_rows(found, options) + program_rows(options) + sharing_rows()
    report.publish(options.out, rows, notes, short=options.short)
    figure(rows, options.out.with_suffix(".png"))
    if options.short:
        print("a short run: its ratios mean nothing")


if __name__ == "__main__":
    main()
