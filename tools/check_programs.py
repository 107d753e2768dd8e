#!/usr/bin/env python3
"""Starts every Python program of the repository that takes options, with --help. One that cannot
even say what it does, as after a move of what it imports, is a failure."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def programs() -> list[str]:
    """Those that take options: hpcaas is a package with tests of its own."""
    listed = subprocess.run(
        ["git", "grep", "-l", "--untracked", '__name__ == "__main__"', "--", "*.py", ":!hpcaas"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [
        name for name in listed.stdout.split() if "ArgumentParser(" in (ROOT / name).read_text()
        and name != Path(__file__).resolve().relative_to(ROOT).as_posix()
    ]


def main() -> int:
    failed = 0
    names = programs()
    for name in names:
        done = subprocess.run(
            [sys.executable, name, "--help"],
            cwd=ROOT, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode != 0 or "usage" not in done.stdout.lower():
            failed += 1
            print(f"{name} --help: status {done.returncode}\n{done.stderr[-2000:]}")
    print(f"{len(names) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
