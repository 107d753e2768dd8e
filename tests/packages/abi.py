#!/usr/bin/env python3
"""Compares the interface with the last recorded one: the C functions with their types and structs,
by abidiff, and the symbols that the built libraries export.

    tests/packages/abi.py [--build DIR]
    tests/packages/abi.py --record       what is there now becomes what later versions must keep

The record lies in packaging/abi, as of the last version. Additions are fine, and recorded with the
version that brings them; anything else is a new SOVERSION (before 1.0: a new minor version), and
CHANGELOG.md says so.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "packaging" / "abi"


def exported_by_map():
    text = (ROOT / "src/capi/symbols.map").read_text()
    return sorted(re.findall(r"^ +(skerry_\w+);$", text, re.M))


def exported(library):
    """Functions and data that a library defines, without instances of templates (weak symbols) and
    members of an Impl, which no program can name."""
    out = subprocess.run(
        ["nm", "--dynamic", "--defined-only", str(library)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = (line.split() for line in out.splitlines())
    names = (name for _, kind, name in rows if kind in "TDBR" and "4Impl" not in name)
    return sorted(name.split("@")[0] for name in names)


def describe(out):
    """The C interface as abidw sees it: a library with a pointer of each function's type."""
    with tempfile.TemporaryDirectory() as scratch:
        source, library = Path(scratch) / "interface.c", Path(scratch) / "libskerry.so"
        lines = ["#include <skerry/skerry.h>", "#include <skerry/window.h>"]
        lines += [f"__typeof__(&{name}) type_of_{name};" for name in exported_by_map()]
        source.write_text("\n".join(lines) + "\n")
        compile_ = ["cc", "-g", "-fPIC", "-shared", "-Wl,-soname,libskerry.so.0"]
        subprocess.run([*compile_, f"-I{ROOT}/include", source, "-o", library], check=True)
        quiet = ["--no-comp-dir-path", "--no-corpus-path", "--no-show-locs"]
        subprocess.run(["abidw", *quiet, "--out-file", out, library], check=True)


def differences(build):
    """What programs made for the recorded interface would notice, as lines."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        now = Path(scratch) / "skerry.abi"
        describe(now)
        done = subprocess.run(
            ["abidiff", "--no-added-syms", RECORD / "skerry.abi", now],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            found += ["the C interface differs:", *done.stdout.splitlines()]
    for library, expected in (
        ("src/capi/libskerry.so", exported_by_map()),
        ("array/libskerry_array.so", (RECORD / "skerry_array.symbols").read_text().split()),
    ):
        have = exported(build / library)
        found += [f"{library} does not export {name}" for name in set(expected) - set(have)]
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    if args.record:
        describe(RECORD / "skerry.abi")
        symbols = exported(args.build / "array/libskerry_array.so")
        (RECORD / "skerry_array.symbols").write_text("\n".join(symbols) + "\n")
        return 0
    found = differences(args.build)
    print("\n".join(found) if found else "as recorded")
    if found:
        return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
