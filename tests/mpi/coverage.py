#!/usr/bin/env python3
"""How each of MPI's window functions arrives at Skerry, by interface and MPI: measured.

    tests/mpi/coverage.py [--build DIR]

Runs fortran_check with a second library preloaded before libskerry_mpi.so, which prints every
function that arrives there (coverage/seen.c), and looks what came after each step. Prints a table
in Markdown: `*` is the function's name, a dash means that the interface has none. Status 1 if a
function of an interface does not arrive.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "compat" / "mpi")]

import generate  # noqa: E402
import others  # noqa: E402
import run  # noqa: E402

# What Fortran's interfaces ask without C's functions, by the name that is taken over.
BESIDE_C = {"mpi_win_get_attr_", "pmpi_win_get_attr_", "MPII_Win_get_attr"}
TITLES = {"mpif_h": "`mpif.h`", "use_mpi": "`use mpi`", "mpi_f08": "`mpi_f08`"}


def seen_library(build):
    """libseen.so, with every entry that libskerry_mpi.so has."""
    library = build / "bin" / "tests" / "mpi" / "libseen.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    stubs = library.parent / "stubs.inc"
    stubs.write_text("".join(generate.stubs(generate.read())))
    flags = ["-shared", "-fPIC", "-O1", "-Wall", f"-I{library.parent}"]
    source = HERE / "coverage" / "seen.c"
    subprocess.run(["cc", *flags, str(source), "-o", str(library), "-ldl"], check=True)
    return library


def arrivals(output):
    """function -> the first name of it that arrived after its step."""
    found, step = {}, None
    for kind, name in re.findall(r"^(step|seen) ?(.*)$", output, re.M):
        if kind == "step":
            step = name
        elif step and step not in found and matches(name, step):
            found[step] = name
    return found


def matches(name, step):
    return name in (f"MPI_{step}", f"PMPI_{step}") or (step == "Win_get_attr" and name in BESIDE_C)


def measured(source, build):
    """(interface, MPI) -> arrivals, or a reason in place of them."""
    runner = run.Runner(SimpleNamespace(build=build, only=None), source)
    seen = seen_library(build)
    found = {}
    for interface in others.INTERFACES:
        program, why = others.fortran_program(runner, interface)
        if program is None:
            found[interface, source.name] = why
            continue
        ours = subprocess.run(
            [runner.skerry, "mpi", "--library"], capture_output=True, text=True, check=True
        ).stdout.strip()
        environment = {"MPI_CHECK_STEPS": "1", "LD_PRELOAD": f"{seen}:{ours}"}
        words = ["env", *(f"{name}={value}" for name, value in environment.items()), program]
        command = runner.command((1,), words, with_skerry=False)
        status, output, _ = run.run(command, 120, {})
        if status != 0 or "fortran_check: 1 ranks, ok" not in output:
            sys.exit(f"coverage.py: {' '.join(command)}: status {status}\n{output[-2000:]}")
        found[interface, source.name] = arrivals(output)
    return found


def names():
    """Functions in their order, large-count forms after each."""
    for function in generate.read():
        yield function.name
        if function.has_large:
            yield function.name + "_c"


def has(name, interface, mpi):
    """Does this interface of this MPI have the function?"""
    return not name.endswith("_c") or (interface == "mpi_f08" and mpi == "mpich4")


def table(found):
    """Markdown; and what is missing."""
    columns = [key for key in found if not isinstance(found[key], str)]
    rows, missing = {}, []
    for name in names():
        cells = []
        for key in columns:
            arrived = found[key].get(name)
            if arrived is None and has(name, *key):
                missing.append(f"{name} through {key[0]} of {key[1]}")
            cells.append(f"`{shown(arrived, name)}`" if arrived else "-")
        rows.setdefault(tuple(cells), []).append(name)
    heads = [f"{TITLES[interface]}, {mpi}" for interface, mpi in columns]
    lines = [f"| functions | {' | '.join(heads)} |", "| -- |" + " -- |" * len(heads)]
    for cells, group in rows.items():
        listed = ", ".join(f"`{name}`" for name in group)
        lines.append(f"| {listed} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n", missing


def shown(arrived, name):
    """MPI_Put as MPI_*."""
    return arrived.replace(name, "*") if arrived not in BESIDE_C else arrived


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    options = parser.parse_args()
    found = {}
    for source in run.SOURCES:
        if source.name in others.FORTRAN_WRAPPERS:
            found |= measured(source, options.build.resolve())
    for key, why in found.items():
        if isinstance(why, str):
            print(f"skipped {key[0]} of {key[1]}: {why}", file=sys.stderr)
    if all(isinstance(one, str) for one in found.values()):
        sys.exit("coverage.py: nothing measured: no Fortran interface is installed")
    text, missing = table(found)
    print(text, end="")
    for what in missing:
        print(f"coverage.py: nothing arrives of {what}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
