#!/usr/bin/env python3
"""Compiles and runs the programs in README.md and docs/windows.md, as jobs of 4 ranks, so that they
stay true.

    tests/readme.py [--build DIR]

Ends with `N passed, N failed, N skipped`. Python's standard library only; the Python programs run
with the interpreter that started this one, which needs NumPy.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

import running

ROOT = Path(__file__).resolve().parent.parent
# What the programs of a page must print: one expression for each block of a language.
EXPECTED = {
    ("README.md", "c"): [r"rank 0 got 103, drew [0-3]\n"],  # its left neighbour is rank 3
    ("README.md", "python"): [r"\[\[100\. +100\.49"],  # sqrt(100) * 10, sqrt(101) * 10, ...
    ("README.md", "fortran"): [r"^ +([0-3])\.0+ +\1\.0+ +\1\.0+"],  # one rank's whole row
    ("docs/windows.md", "c"): [r"^sum 6\n"],
    ("docs/windows.md", "python"): [r"^sum 6\.0\n"],
}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)


def run(command, environment=None):
    """Output of a command, both streams, and its status; None if it was killed after 120 s."""
    ended = running.run(command, 120, environment)
    return ended.output, ended.status


def run_c(source, scratch, build):
    program = scratch / "hello"
    (scratch / "hello.c").write_text(source)
    library = build / "src/capi"
    output, status = run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include"]
        + [scratch / "hello.c", "-o", program]
        + [f"-L{library}", "-lskerry", f"-Wl,-rpath,{library}"]
    )
    if status != 0:
        return output, status
    return run([build / "bin/skerry", "run", "-n", 4, "--nodes", 2, program])


def run_fortran(source, scratch, build):
    program = scratch / "hello"
    (scratch / "hello.f90").write_text(source)
    library, module = build / "src/capi", build / "fortran"
    output, status = run(
        ["gfortran", "-Wall", "-Werror", f"-I{module}/modules", scratch / "hello.f90"]
        + ["-o", program, f"-L{module}", "-lskerry_fortran"]
        + [f"-L{library}", "-lskerry", f"-Wl,-rpath,{library}"]
    )
    if status != 0:
        return output, status
    return run([build / "bin/skerry", "run", "-n", 4, "--nodes", 2, program])


def run_python(source, scratch, build):
    (scratch / "hello.py").write_text(source)
    return run(
        [build / "bin/skerry", "run", "-n", 4, "--nodes", 2, sys.executable, scratch / "hello.py"],
        {"PYTHONPATH": str(build / "python")},
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    counts = running.Counts()
    for (page, language), wanted in EXPECTED.items():
        start = {"c": run_c, "fortran": run_fortran, "python": run_python}[language]
        found = blocks(page, language)
        if len(found) != len(wanted):
            counts.add("failed", f"{page}: {len(found)} blocks of {language}, not {len(wanted)}")
        for number, (source, expected) in enumerate(zip(found, wanted), 1):
            with tempfile.TemporaryDirectory(prefix="skerry-readme-") as scratch:
                output, status = start(source, Path(scratch), build)
            good = status == 0 and re.search(expected, output, re.M)
            counts.add("passed" if good else "failed", f"{page}, {language}, block {number}")
            if not good:
                print(f"        status {status}, wanted 0 and /{expected}/ in")
                print("\n".join(f"        {line}" for line in output.splitlines()[-20:]))
    return counts.summary()


if __name__ == "__main__":
    sys.exit(main())
