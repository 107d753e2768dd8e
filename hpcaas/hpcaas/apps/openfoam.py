"""OpenFOAM motorBike: Debian's binaries and tutorial, one mesh per size, decomposed per number of
ranks.

Traps that shape this file: ExecutionTime is CPU time, so the time loop is read from OpenFOAM's own
wall-clock profiling and checked against ClockTime; Debian's scotch library is a stub, so
decomposition is hierarchical; Debian's binaries speak OpenMPI through libPstream alone, so another
MPI needs that one library rebuilt and put first in the library path.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

from ..errors import Missing
from ..model import Configuration, Figure
from ..toolchain import run_text
from .base import Build, Context, Installation, Installed, Prepare, Reading, Run, Size, Unreadable

_EXAMPLES = Path("/usr/share/doc/openfoam-examples/examples")
_TUTORIAL = "incompressible/simpleFoam/motorBike"
_SOLVE = re.compile(r"Solving for (\w+), Initial residual = (\S+?), Final residual = (\S+?),")
_CONTINUITY = re.compile(
    r"continuity errors : sum local = (\S+?), global = (\S+?), cumulative = (\S+)"
)
# Of the flow through the domain in a time step. The tutorial stays below 0.1 from the start.
MOST_CONTINUITY = 0.5
_PSTREAM = ("UOPwrite.C", "UIPread.C", "UPstream.C", "PstreamGlobals.C")


def _has_packages() -> bool:
    return bool(shutil.which("simpleFoam")) and Path("/usr/share/openfoam").is_dir()


def split_in_three(ranks: int) -> tuple[int, int, int]:
    """Factors of a number of ranks, as equal as can be, largest first: the domain is longest in
    x."""
    best = (ranks, 1, 1)
    for a in range(1, ranks + 1):
        if ranks % a:
            continue
        for b in range(1, ranks // a + 1):
            if (ranks // a) % b == 0:
                parts = tuple(sorted((a, b, ranks // a // b), reverse=True))
                if sum(parts) < sum(best):
                    best = parts  # type: ignore[assignment]
    return best


def _control(iterations: int) -> str:
    # No function objects: stream lines and pictures are not what a solver benchmark times. One
    # write, at the end: it carries the profile.
    return (
        "FoamFile { version 2.0; format ascii; class dictionary; object controlDict;"
        " }\napplication simpleFoam; startFrom startTime; startTime 0; "
        f"stopAt endTime; endTime {iterations}; deltaT 1; writeControl timeStep; writeInterval"
        f" {iterations}; purgeWrite 0; writeFormat binary; "
        "writePrecision 6; writeCompression off; timeFormat general; timePrecision 6;"
        " runTimeModifiable false;\n"
        "profiling { active true; cpuInfo false; memInfo false; sysInfo false; }\n"
    )


def _decompose(ranks: int) -> str:
    n = " ".join(map(str, split_in_three(ranks)))
    return (
        "FoamFile { version 2.0; format ascii; class dictionary; object decomposeParDict; }\n"
        f"numberOfSubdomains {ranks};\nmethod hierarchical;\ncoeffs {{ n ({n}); }}\n"
    )


def _write(path: str, text: str) -> str:
    return f"printf '%s' {shlex.quote(text)} > {path}"


class OpenFoam(Installed):
    name = "openfoam"
    title = "OpenFOAM simpleFoam, motorBike"
    vertical = "Computational fluid dynamics"
    origin = "Debian packages openfoam and openfoam-examples (1912), or the site's own OpenFOAM"
    licence = "GPL-3, used as installed, nothing shipped"
    check = (
        "every iteration solves for every field, every linear solve reduces its residual, all"
        " residuals finite, pressure residual at the end below the first, mass conserved:"
        " continuity errors bounded and not growing"
    )
    # The multigrid solver of the pressure works on other cell groups in every decomposition: after
    # 20 iterations one and two ranks differ by 1.4 %, two MPIs by nothing.
    agreement = {"pressure_residual": 0.1, "cells": 0.0}
    figure = "seconds per iteration of the time loop (less is better), with the cell count"
    # Iterations are chosen so that the loop takes seconds to minutes; the paper does not say its
    # number (the tutorial does 500).
    sizes = {
        s.name: s
        for s in (
            Size(
                "tiny",
                "background 8x3x3, under 60,000 cells, 20 iterations",
                {"mesh": (8, 3, 3), "iterations": 20},
                6,
                400,
                200,
                "the mesh of 10 million cells (0.4 % of it) and 480 of the tutorial's 500"
                " iterations",
            ),
            Size(
                "small",
                "background 10x4x4, 66,000 cells, 30 iterations",
                {"mesh": (10, 4, 4), "iterations": 30},
                18,
                600,
                400,
                "the mesh of 10 million cells (0.7 % of it) and 470 of the tutorial's 500"
                " iterations",
            ),
            Size(
                "medium",
                "background 20x8x8, 353,767 cells (the tutorial's own), 30 iterations",
                {"mesh": (20, 8, 8), "iterations": 30},
                200,
                1200,
                2000,
                "the mesh of 10 million cells (3.5 % of it) and 470 of the tutorial's 500"
                " iterations",
            ),
            Size(
                "paper",
                "background 60x24x24, about 10 million cells, 500 iterations",
                {"mesh": (60, 24, 24), "iterations": 500, "parallel_mesh": True},
                90000,
                32000,
                60000,
                "",
            ),
        )
    }
    own_axes = {
        "compiler": "the packages are built already; several installations bring this axis",
        "optimisation": "Debian's packages have one",
        "target": "Debian's packages have one (x86-64)",
        "library": "uses none",
    }
    clock_s = 1.0

    def packaged(self) -> list[Installation]:
        if not _has_packages() or not (_EXAMPLES / _TUTORIAL).is_dir():
            return []
        said = run_text(["dpkg-query", "-W", "-f=Version: ${Version}\n", "openfoam"])
        version = re.search(r"^Version: (\S+)", said, re.M)
        return [
            Installation(
                "debian",
                Path("/usr/bin"),
                version=version.group(1) if version else "unknown",
                options={"project": "/usr/share/openfoam", "examples": str(_EXAMPLES)},
            )
        ]

    def absent(self) -> tuple[str, str]:
        if _has_packages():
            return "the motorBike tutorial is not installed", "apt-get install openfoam-examples"
        return "no simpleFoam", "apt-get install openfoam openfoam-examples"

    def defaults(self) -> dict[str, Any]:
        return {"mpi": "openmpi"}

    def impossible(self, config: Configuration) -> str | None:
        return "OpenFOAM has no threads" if config.threads != 1 else None

    def _environment(self, context: Context) -> dict[str, str]:
        installed = context.installation
        assert installed
        env = {}
        if "project" in installed.options:
            env["WM_PROJECT_DIR"] = str(installed.options["project"])
        if installed.path and str(installed.path) != "/usr/bin":
            env["PATH"] = f"{installed.path}:$PATH"
        return env

    def build(self, config: Configuration, context: Context) -> Build | None:
        """Only for an MPI other than the one that Debian's binaries were linked with: libPstream,
        four files."""
        if (
            context.installation is None
            or context.installation.name != "debian"
            or context.mpi is None
            or context.mpi.name == "openmpi"
        ):
            return None
        source = context.site.get("openfoam_source")
        if not source:
            raise Missing(
                f"Debian's OpenFOAM speaks OpenMPI; for '{context.mpi.name}' its libPstream must"
                f" be rebuilt and the source is not named",
                "`apt-get source openfoam` in a directory of your choice, then `openfoam_source:"
                " THAT/openfoam-OpenFOAM-v1912.200626` in the site file",
            )
        root = Path(source)
        if not (root / "src/Pstream/mpi" / _PSTREAM[0]).exists():
            raise Missing(
                f"'{root}' holds no src/Pstream/mpi",
                "name the unpacked source of the same OpenFOAM version",
            )
        if not context.mpi.mpicxx:
            raise Missing(
                f"MPI '{context.mpi.name}' has no C++ compiler wrapper",
                "install its development package, or give mpicxx in the site file",
            )
        version = re.search(r"v(\d{4})", root.name)
        flags = (
            f"-std=c++11 -DOPENFOAM={version.group(1) if version else '1912'} -DWM_DP"
            f" -DWM_LABEL_SIZE=32 -O3 -DNoRepository -ftemplate-depth-100 "
            "-fPIC -w -Iinclude"
        )
        src = shlex.quote(str(root / "src"))
        commands = [
            "mkdir -p include",
            f"find {src}/OpenFOAM {src}/OSspecific/POSIX -name '*.[CH]' -exec ln -sf -t include"
            f" {{}} +",
        ]
        commands += [
            f"{context.mpi.mpicxx} {flags} -c {src}/Pstream/mpi/{name} -o {name[:-2]}.o"
            for name in _PSTREAM
        ]
        commands.append(
            f"{context.mpi.mpicxx} -shared -o libPstream.so "
            + " ".join(f"{name[:-2]}.o" for name in _PSTREAM)
        )
        return Build(
            commands,
            ["libPstream.so"],
            [root / "src/Pstream/mpi" / name for name in _PSTREAM],
            {},
            flags,
        )

    def prepare(self, config: Configuration, context: Context) -> Prepare:
        size = self.size(config)
        examples = (
            Path(context.installation.options.get("examples", _EXAMPLES))
            if context.installation
            else _EXAMPLES
        )
        env = self._environment(context)
        x, y, z = size.options["mesh"]
        cores = os.cpu_count() or 1
        mesh = [
            f"cp -r {examples}/{_TUTORIAL}/0.orig {examples}/{_TUTORIAL}/constant"
            f" {examples}/{_TUTORIAL}/system .",
            "gunzip -f system/*.gz 2>/dev/null || true",
            f"mkdir -p constant/triSurface && cp {examples}/resources/geometry/motorBike.obj.gz"
            f" constant/triSurface/",
            f"sed -i 's/(20 8 8) simpleGrading/({x} {y} {z}) simpleGrading/' system/blockMeshDict",
            f"grep -q '({x} {y} {z}) simpleGrading' system/blockMeshDict",
            "sed -i 's/maxLocalCells.*/maxLocalCells 2000000;/; s/maxGlobalCells.*/maxGlobalCells"
            " 40000000;/' system/snappyHexMeshDict",
            _write("system/controlDict", _control(size.options["iterations"])),
            "surfaceFeatureExtract > log.features",
            "blockMesh > log.blockMesh",
        ]
        if size.options.get("parallel_mesh"):
            mesh += [
                _write("system/decomposeParDict", _decompose(cores)),
                "decomposePar > log.decompose",
                f"OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n {cores}"
                f" snappyHexMesh -parallel -overwrite > log.snappy",
                "reconstructParMesh -constant > log.reconstruct",
                "rm -rf processor*",
            ]
        else:
            mesh.append("snappyHexMesh -overwrite > log.snappy")
        # The initial field is solved before decomposition: every split starts from the same
        # numbers.
        mesh += [
            "rm -rf 0 && cp -r 0.orig 0",
            "checkMesh -constant > log.checkMesh || true",
            "potentialFoam -writephi > log.potential",
            "grep -E '^ *cells:' log.checkMesh > cells",
        ]
        whole = Prepare(f"mesh {config.size}", mesh, env, 6 * 3600)
        if config.ranks == 1:
            return whole
        return Prepare(
            f"{config.size} on {config.ranks}",
            [
                "cp -r \"$HPCAAS_PARENT\"/{0,constant,system,cells} .",
                _write("system/decomposeParDict", _decompose(config.ranks)),
                "decomposePar > log.decompose",
                "rm -rf 0",
            ],
            env,
            6 * 3600,
            whole,
        )

    def run(self, config: Configuration, context: Context) -> Run:
        env = self._environment(context)
        if (
            context.mpi
            and context.mpi.name != "openmpi"
            and context.installation
            and context.installation.name == "debian"
        ):
            env["LD_LIBRARY_PATH"] = "$HPCAAS_BUILD:$LD_LIBRARY_PATH"
        # Links, not copies: a mesh of gigabytes is not copied for every sample, and nothing in it
        # is written to.
        return Run(
            "simpleFoam",
            ["-parallel"] if config.ranks > 1 else [],
            env,
            before=['cp -rs "$HPCAAS_INPUT"/. .'],
            after=["rm -rf processor*/[1-9]*/[A-Za-tv-z]* processor*/constant"],
        )

    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        iterations = self.size(config).options["iterations"]
        times = re.findall(r"^Time = (\d+)", stdout, re.M)
        if not times or int(times[-1]) != iterations or not re.search(r"^End\b", stdout, re.M):
            raise Unreadable(f"stopped at iteration {times[-1] if times else 0} of {iterations}")
        clocks = [int(v) for v in re.findall(r"ClockTime = (\d+) s", stdout)]
        wrong = self._judge(stdout, iterations)
        loop = self._profile(directory, iterations)
        if loop is None:
            loop = self._by_clock(clocks, iterations)
        # ClockTime counts whole seconds from process start; the loop cannot be longer.
        elif clocks and loop > clocks[-1] + 2:
            wrong = wrong or f"the profile says {loop:.1f} s, ClockTime {clocks[-1]} s"
        execution = re.findall(r"ExecutionTime = ([\d.]+) s", stdout)
        said = {
            "cells": self._cells(directory),
            "iterations": iterations,
            "clock_time_s": clocks[-1] if clocks else None,
            "execution_time_s": float(execution[-1]) if execution else None,
            "pressure_residual": next(reversed(self._residuals(stdout)), None),
        }
        return Reading(
            loop,
            Figure(name="time per iteration", value=loop / iterations, unit="s", better="lower"),
            wrong,
            said,
        )

    @staticmethod
    def _by_clock(clocks: list[int], iterations: int) -> float:
        """Seconds of the loop without a profile; refused where whole seconds are too coarse."""
        moved = clocks[-1] - clocks[0] if clocks else 0
        if moved < 10:
            raise Unreadable(
                f"no profile, and ClockTime moved by {moved} s only: whole seconds are too coarse"
            )
        return moved * iterations / (iterations - 1)

    @staticmethod
    def _residuals(stdout: str) -> list[float]:
        return [float(v) for v in re.findall(r"Solving for p, Initial residual = (\S+?),", stdout)]

    def _judge(self, stdout: str, iterations: int) -> str:
        """What is wrong with a solution; empty if nothing is."""
        said = re.findall(r"(?:Initial|Final) residual = (\S+?),", stdout)
        if not all(math.isfinite(float(v)) for v in said):
            return "a residual is not finite"
        solves = _SOLVE.findall(stdout)
        # A field that one iteration skipped, or a solver that gave up, leaves an old field behind.
        times = Counter(name for name, *_ in solves)
        for name, count in times.items():
            if count < iterations:
                return f"'{name}' was solved for {count} times in {iterations} iterations"
        for name, first, last in solves:
            if float(last) > float(first) > 0:
                return f"a linear solve for '{name}' made its residual larger"
        for name in ("Ux", "Uy", "Uz", "p"):
            if name not in times:
                return f"no equation for '{name}' was solved"
        pressure = self._residuals(stdout)
        if len(pressure) < 2 or pressure[-1] >= pressure[0]:
            return f"the pressure residual did not fall ({pressure[:1]} to {pressure[-1:]})"
        return self._continuity(stdout, iterations)

    @staticmethod
    def _continuity(stdout: str, iterations: int) -> str:
        """Mass must be conserved: an error of the order of the flow itself is no solution."""
        errors = [tuple(map(float, found)) for found in _CONTINUITY.findall(stdout)]
        if len(errors) < iterations:
            return f"continuity errors are said {len(errors)} times in {iterations} iterations"
        local, whole, total = errors[-1]
        if not all(math.isfinite(v) for v in errors[-1]):
            return "a continuity error is not finite"
        if local > MOST_CONTINUITY or abs(whole) > local + 1e-12:
            return f"continuity error {local:g} local, {whole:g} global: mass is not conserved"
        if abs(total) > MOST_CONTINUITY * len(errors):
            return f"cumulative continuity error {total:g}: mass is not conserved"
        middle = statistics.median(e[0] for e in errors)
        if local > 2 * middle and local == max(e[0] for e in errors):
            return f"continuity error grows: {local:g} at the end, {middle:g} in the middle"
        return ""

    @staticmethod
    def _profile(directory: Path, iterations: int) -> float | None:
        for path in (
            directory / f"processor0/{iterations}/uniform/profiling",
            directory / f"{iterations}/uniform/profiling",
        ):
            if path.exists():
                found = re.search(
                    r'"time\.run\(\)[^"]*";\s+calls\s+(\d+);\s+totalTime\s+([\d.e+-]+);',
                    path.read_text(errors="replace"),
                )
                if found and int(found.group(1)) == iterations:
                    return float(found.group(2))
        return None

    @staticmethod
    def _cells(directory: Path) -> int | None:
        try:
            return int((directory / "cells").read_text().split(":")[1])
        except (OSError, IndexError, ValueError):
            return None
