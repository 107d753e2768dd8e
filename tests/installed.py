#!/usr/bin/env python3
"""Installs the build into a directory of its own and uses it as others will: programs compiled with what pkg-config says, run from there.

    tests/installed.py [--build DIR]

Ends with `N passed, N failed, N skipped`. Python's standard library only.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import running

ROOT = Path(__file__).resolve().parent.parent
LAUNCH = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"],
    "mpich": ["mpiexec.hydra"],
}
counts = running.Counts()


class Installed:
    """An installation in `prefix`."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.pkgconfig = next(prefix.glob("lib*/**/pkgconfig"))
        self.libraries = self.pkgconfig.parent
        self.environment = {
            **os.environ,
            "PKG_CONFIG_PATH": str(self.pkgconfig),
            "LD_LIBRARY_PATH": str(self.libraries),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def armci(self, mpi):
        return self.libraries / f"armci-{mpi}"

    def flags(self, package, *options):
        return subprocess.run(
            ["pkg-config", *options, "--cflags", "--libs", package],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()

    def job(self, name, compiler, source, flags, launch, expected, environment=None, words=()):
        """Compiles and runs one program with `words`; `expected` must be in what it prints."""
        program = self.prefix / "try"
        for command in (
            [compiler, str(source), "-o", str(program), *flags],
            [*launch, str(program), *words],
        ):
            settings = {**self.environment, **(environment or {})}
            status, output, _ = running.run(command, 120, settings)
            if status != 0:
                break
        good = status == 0 and expected in output
        counts.add("passed" if good else "failed", name)
        if not good:
            print(
                f"        status {status}, wanted 0 and '{expected}' from {' '.join(command)}\n"
                + "\n".join(f"        {line}" for line in output.splitlines()[-15:])
            )


def archive(flags):
    """The same, with the static libarmci."""
    return ["-l:libarmci.a" if flag == "-larmci" else flag for flag in flags]


def try_programs(installed, run):
    """A C and two C++ programs, with what pkg-config says."""
    cpp = ["-std=c++20", *installed.flags("skerry_array")]
    try_windows_of_mpi(installed)
    for name, compiler, source, flags, expected in (
        ("skerry, C", "cc", "tests/ops/smoke.c", installed.flags("skerry"), "right on 2 ranks"),
        ("skerry_array, C++", "c++", "examples/cpp/array.cpp", cpp, ""),
        ("skerry_array, windows", "c++", "examples/cpp/window.cpp", cpp, "sum 1, expected 1"),
    ):
        installed.job(name, compiler, ROOT / source, flags, run, expected)
    installed.job(
        "skerry_fortran",
        "gfortran",
        ROOT / "tests/fortran/check.f90",
        installed.flags("skerry_fortran"),
        run,
        "all checks passed",
    )


def try_windows_of_mpi(installed):
    """`skerry mpi` of the installation, and no library path."""
    sources = sorted((ROOT / "tests/mpi").glob("*.c"))
    for mpi, launch in LAUNCH.items():
        name = f"skerry mpi, {mpi}"
        if not (installed.libraries / f"libskerry_mpi_{mpi}.so").exists():
            counts.add("skipped", f"{name}: its adapter is not built")
            continue
        if not shutil.which(f"mpicc.{mpi}") or not shutil.which(launch[0]):
            counts.add("skipped", f"{name}: no mpicc.{mpi} or no {launch[0]}")
            continue
        installed.job(
            name,
            f"mpicc.{mpi}",
            sources[0],
            ["-D_GNU_SOURCE", *map(str, sources[1:])],
            [str(installed.prefix / "bin/skerry"), "mpi", "--explain", "--", *launch, "-n", "2"],
            "at rank 0 of 2: Skerry's",
            {"LD_LIBRARY_PATH": "", "SKERRY_USER_CHECKS": "1"},
            ["epochs", "errors"],
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    if not shutil.which("pkg-config"):
        print("skipped installed programs: no pkg-config\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(prefix="skerry-installed-") as scratch:
        prefix = Path(scratch) / "prefix"
        subprocess.run(
            ["cmake", "--install", str(build), "--prefix", str(prefix)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        installed = Installed(prefix)
        run = [str(prefix / "bin/skerry"), "run", "-n", "2"]
        try_programs(installed, run)
        for mpi, launch in LAUNCH.items():
            if not (installed.pkgconfig / f"armci-{mpi}.pc").exists():
                continue
            if not shutil.which(f"mpicc.{mpi}") or not shutil.which(LAUNCH[mpi][0]):
                counts.add("skipped", f"armci-{mpi}: no mpicc.{mpi} or no {LAUNCH[mpi][0]}")
                continue
            launch = [*launch, "-n", "3"]
            source, compiler = ROOT / "tests/armci/armci_check.c", f"mpicc.{mpi}"
            installed.job(
                f"armci-{mpi}, shared",
                compiler,
                source,
                [*installed.flags(f"armci-{mpi}"), "-lm"],
                launch,
                ", ok",
            )
            # As a prefix, and by the names of Debian's ga-config.
            directory = installed.armci(mpi)
            installed.job(
                f"armci-{mpi}, by its directory",
                compiler,
                source,
                [
                    f"-I{directory}/include",
                    f"-L{directory}/lib",
                    f"-Wl,-rpath,{directory}/lib",
                    f"-larmci-{mpi}",
                    "-lm",
                ],
                launch,
                ", ok",
                {"LD_LIBRARY_PATH": ""},
            )
            # Without a library path: the flags name where it is.
            installed.job(
                f"armci-{mpi}, shared, found by itself",
                compiler,
                source,
                [*installed.flags(f"armci-{mpi}"), "-lm"],
                launch,
                ", ok",
                {"LD_LIBRARY_PATH": ""},
            )
            installed.job(
                f"armci-{mpi}, static",
                compiler,
                source,
                [*archive(installed.flags(f"armci-{mpi}", "--static")), "-lm"],
                launch,
                ", ok",
                {"LD_LIBRARY_PATH": ""},
            )
    return counts.summary()


if __name__ == "__main__":
    sys.exit(main())
