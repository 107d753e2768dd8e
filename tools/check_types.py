#!/usr/bin/env python3
"""Checks what a type checker knows of the package, with mypy.

    tools/check_types.py

Strictly: a program that names each public name of skerry/__init__.pyi; the modules of the package
that are annotated (TYPED); that three mistakes in a program are found, each in its line. Prints
what is wrong and ends with status 1. Needs mypy, which tools/setup.sh installs.
"""

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPED = ["__init__.pyi", "_parts.py"]

MISTAKES = """\
import numpy as np
import skerry as sk

sk.init()
a = sk.zeros((10, 20))
counter = sk.Counter()
row = counter.next()
a.put((slice(0, 1), slice(0, 20)), np.ones(20))
a.save("x.h5")  # mistake
sk.save(a, "x.h5", compresion="gzip")  # mistake
first: str = sk.rank()  # mistake
total = sk.allreduce(row, "sum")
sk.sync()
sk.finalize()
"""


def public_names():
    stub = ast.parse((ROOT / "python/skerry/__init__.pyi").read_text())
    for node in stub.body:
        name = getattr(node, "name", None)
        if name and not name.startswith("_"):
            yield name


def mypy(*arguments):
    """The complaints, a line each."""
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-color-output", *arguments],
        env={**os.environ, "MYPYPATH": str(ROOT / "python")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    if told.returncode not in (0, 1):
        sys.exit(f"mypy failed: {told.stdout}")
    return told.stdout.splitlines()


def main():
    if len(sys.argv) > 1:
        print(__doc__.strip())
        sys.exit(0 if sys.argv[1] in ("-h", "--help") else 2)
    problems, names = [], list(public_names())
    with tempfile.TemporaryDirectory() as folder:
        used, wrong = Path(folder) / "used.py", Path(folder) / "wrong.py"
        used.write_text("import skerry as sk\n" + "".join(f"print(sk.{name})\n" for name in names))
        wrong.write_text(MISTAKES)
        modules = [str(ROOT / "python/skerry" / name) for name in TYPED]
        options = ["--follow-imports=silent", "--cache-dir", str(ROOT / "build/mypy")]
        told = mypy("--strict", *options, str(used), str(wrong), *modules)
    complaints = [line for line in told if ": error:" in line]
    planted = [i for i, line in enumerate(MISTAKES.splitlines(), 1) if line.endswith("# mistake")]
    for line in planted:
        if not any(f"wrong.py:{line}:" in each for each in complaints):
            problems.append(f"a mistake is not found: {MISTAKES.splitlines()[line - 1]}")
    known = tuple(f"wrong.py:{line}:" for line in planted)
    problems += [each for each in complaints if not any(mark in each for mark in known)]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"types: {len(names)} public names, {len(planted)} mistakes, {len(problems)} problems")
    sys.exit(1 if problems else 0)


main()
