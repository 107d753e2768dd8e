#!/usr/bin/env python3
"""Checks docs/process-state.md against the mutable data of a built library.

    tools/check_state.py build/src/capi/libskerry.so

Every variable in the writable sections (.data, .bss, and those of threads) must be named on the
page, and the page names none that is not there. Needs objdump. Constants that the loader relocates
(.data.rel.ro), guards of static variables and the compiler's own are no state. Standard library
only.
"""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "process-state.md"
WRITABLE = {".data", ".bss", ".tdata", ".tbss"}
NOT_OURS = re.compile(r"guard variable|^DW\.ref|^__|^completed\.|^_GLOBAL|^\.")


def short(symbol):
    """A symbol without arguments, templates, unnamed namespaces and `skerry::`."""
    symbol = symbol.replace("(anonymous namespace)::", "").replace("[abi:cxx11]", "")
    while (bare := re.sub(r"\([^()]*\)|<[^<>]*>|\{[^{}]*\}", "", symbol)) != symbol:
        symbol = bare
    return re.sub(r"\b(const)(?=::)|\s|^skerry::", "", symbol)


def state_of(library):
    listed = subprocess.run(
        ["objdump", "-tC", library], capture_output=True, text=True, check=True
    ).stdout
    found = set()
    for line in listed.splitlines():
        fields = re.match(r"^[0-9a-f]+ .{7} (\S+)\t[0-9a-f]+\s+(?:\.\w+ )?(.*)$", line)
        if fields and fields[1] in WRITABLE and not NOT_OURS.search(fields[2]):
            found.add(short(re.sub(r"\.\d+$", "", fields[2])))
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = state_of(sys.argv[1])
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    described = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    problems = [f"{name}: not in {PAGE.name}" for name in sorted(found - described)]
    problems += [f"{name}: in {PAGE.name}, not in the library" for name in described - found]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"state: {len(found)} variables of a process, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
