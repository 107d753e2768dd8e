"""`python -m skerry run ...` and the console script `skerry`: hands over to the native launcher
that comes with the package. `--cflags`, `--libs`, `--prefix` tell compilers where the package's
headers and libraries are."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

USAGE = """usage: python -m skerry [--cflags] [--libs] [array]   flags for C, with `array` for C++20
       python -m skerry --prefix                      for CMAKE_PREFIX_PATH; pkg-config files are
                                                      in its lib/pkgconfig
       python -m skerry COMMAND ...                   the command skerry (see skerry --help)"""


def flags(words: Sequence[str]) -> str:
    """What is to be printed for `--cflags` and its like."""
    prefix = Path(__file__).parent
    unknown = set(words) - {"--cflags", "--libs", "--prefix", "array"}
    if unknown:
        sys.exit(f"skerry: unknown word {sorted(unknown)[0]}\n{USAGE}")
    if not (prefix / "include").is_dir():
        sys.exit(
            f"skerry: no headers in {prefix}, which is not an installed wheel; "
            "ask pkg-config: pkg-config --cflags --libs skerry"
        )
    out = [str(prefix)] if "--prefix" in words else []
    if "--cflags" in words:
        out += [*(["-std=c++20"] if "array" in words else []), f"-I{prefix}/include"]
    if "--libs" in words:
        array = ["-lskerry_array"] if "array" in words else []
        out += [f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", *array, "-lskerry"]
    return " ".join(out)


def main() -> None:
    words = sys.argv[1:]
    if {"--cflags", "--libs", "--prefix"} & set(words[:1]):
        print(flags(words))
        return
    launcher = Path(__file__).parent / "bin" / "skerry"
    if not launcher.exists():
        sys.exit(
            f"skerry: no launcher at {launcher}: the package is not installed completely; install it again"
        )
    os.execv(launcher, ["skerry", *words])


if __name__ == "__main__":
    main()
