#!/usr/bin/env python3
"""Makes NWChem's makefile.h quick: each of some hundred makes would ask compilers and scripts the same sixty questions again, which takes longer than compiling.
Questions that stand on one line and name nothing but tools and paths are asked once, here, and their answers written in their place. Also lets make use JOBS processes.
    test_nwchem_makefile.py MAKEFILE_H JOBS     (with the environment of the build)"""

import os
import re
import subprocess
import sys

path, jobs = sys.argv[1:3]
ASKED = ("-dM", "uname", "cpuinfo", "guess-mpidefs", "ga-config", "mpif90", "ifort")
GIVEN = {
    "$(_FC)": "gfortran",
    "$(FC)": "gfortran",
    "$(CC)": "gcc",
    "$(_CC)": "gcc",
    "$(NWCHEM_TOP)": os.environ["NWCHEM_TOP"],
    "${EXTERNAL_GA_PATH}": os.environ["EXTERNAL_GA_PATH"],
    "${GA_PATH}": os.environ["EXTERNAL_GA_PATH"],
    "$(PATH)": "$PATH",
    "$$": "$",
}


def answered(line: str) -> str:
    found = re.match(r"^(\s*\w+\s*(?::=|=|\+=) *(?:-[LI])?)\$\(shell (.*)\)\s*$", line)
    # those change from link to link
    if (
        found
        and any(word in found[2] for word in ASKED)
        and not re.search("--(ldflags|libs) ", found[2])
    ):
        question = found[2]
        for name, value in GIVEN.items():
            question = question.replace(name, value)
        if "$(" not in question:
            return (
                found[1]
                + " ".join(
                    subprocess.run(
                        ["bash", "-c", question], capture_output=True, text=True
                    ).stdout.split()
                )
                + "\n"
            )
    if re.match(r"^\s*[A-Z_0-9]+\s*=\s*\$\(shell \[", line):
        return line.replace("=", ":=", 1)
    return re.sub(
        r"^  MAKEFLAGS = -j 1 --no-print-directory",
        f"  MAKEFLAGS = -j {jobs} --no-print-directory",
        line,
    )


with open(path, encoding="utf-8", errors="surrogateescape") as file:
    lines = [answered(line) for line in file]
with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
    file.writelines(lines)
