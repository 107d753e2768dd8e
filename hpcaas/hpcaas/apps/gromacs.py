"""GROMACS on a water box that `gmx solvate` makes: a life-sciences application without a licence
question. It stands beside NAMD and does not replace its row. Debian's binary is built for SSE4.1
and thread-MPI: it says nothing about SIMD targets."""

from __future__ import annotations

import math
import re
import shlex
import shutil
from pathlib import Path
from typing import Any, Iterator, Optional

from ..errors import Missing
from ..model import Configuration, Figure
from ..toolchain import run_text
from .base import Context, Installation, Installed, Prepare, Reading, Run, Size, Unreadable

_MDP = """integrator = md
dt = 0.002
nsteps = {steps}
nstlog = {log}
nstenergy = {log}
nstxout-compressed = 0
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
tcoupl = v-rescale
tc-grps = System
tau-t = 0.1
ref-t = 300
gen-vel = yes
gen-temp = 300
gen-seed = 20231112
ld-seed = 20231112
constraints = h-bonds
"""
_MINIMISE = "integrator = steep\nnsteps = 100\nemtol = 500\ncutoff-scheme = Verlet\ncoulombtype = PME\nrcoulomb = 0.9\nrvdw = 0.9\n"
_TOPOLOGY = '#include "oplsaa.ff/forcefield.itp"\n#include "oplsaa.ff/spc.itp"\n\n[ system ]\nwater\n\n[ molecules ]\n'


def gpu_support(text: str) -> str:
    """What a binary was built for, from `gmx --version`: CUDA, OpenCL, SYCL or disabled."""
    found = re.search(r"^GPU support:\s+(\S+)", text, re.M)
    return found.group(1) if found else "unknown"


def _said(pattern: str, log: str) -> Optional[int]:
    """The number of a pattern's group; None where the log does not have it."""
    found = re.search(pattern, log)
    return int(found.group(1)) if found else None


class Gromacs(Installed):
    name = "gromacs"
    title = "GROMACS, water box with PME"
    vertical = "Life sciences (second code)"
    origin = "Debian package gromacs (2022.5), or the site's own"
    licence = "LGPL-2.1, used as installed, nothing shipped"
    check = "temperature 300 K within 15 K, conserved energy and pressure finite, all steps done"
    # Trajectories are chaotic: only averages can agree, and a short run's are rough.
    agreement = {"temperature_k": 0.05, "atoms": 0.0}
    figure = "nanoseconds per day (more is better)"
    sizes = {
        s.name: s
        for s in (
            Size(
                "tiny",
                "3 nm box, 2,600 atoms, 2,000 steps",
                {"box": 3.0, "steps": 2000},
                14,
                300,
                50,
                "not in the paper; 1/400 of STMV's atoms",
            ),
            Size(
                "small",
                "5 nm box, 12,000 atoms, 1,000 steps",
                {"box": 5.0, "steps": 1000},
                32,
                400,
                80,
                "not in the paper; 1/90 of STMV's atoms",
            ),
            Size(
                "medium",
                "10 nm box, 100,000 atoms, 1,000 steps (ApoA1's size)",
                {"box": 10.0, "steps": 1000},
                300,
                1000,
                200,
                "not in the paper; 1/10 of STMV's atoms",
            ),
            Size(
                "paper",
                "22 nm box, 1.06 million atoms (STMV's size), 10,000 steps",
                {"box": 22.0, "steps": 10000},
                32000,
                8000,
                2000,
                "water only: no virus, no bonds but those of water",
            ),
        )
    }
    reaches = dict.fromkeys(("split", "binding", "smt", "installation", "gpu"), True)
    own_axes = {
        "mpi": "Debian's gmx has thread-MPI; an installation with gmx_mpi brings the axis",
        "compiler": "built already; several installations bring this axis",
        "optimisation": "built already",
        "target": "Debian's binary is SSE4.1 only",
        "variant": "one source",
        "library": "built with FFTW or MKL; an installation's choice",
        "nodes": "thread-MPI stays in a node",
        "distribution": "thread-MPI stays in a node",
    }

    def packaged(self) -> list[Installation]:
        program = shutil.which("gmx")
        if not program:
            return []
        text = run_text([program, "--version"])
        version = re.search(r"GROMACS version:\s+(\S+)", text)
        return [
            Installation(
                "debian" if program == "/usr/bin/gmx" else "path",
                Path(program),
                version=version.group(1) if version else "unknown",
                options={"gpu": gpu_support(text)},
            )
        ]

    def absent(self) -> tuple[str, str]:
        return "no gmx", "apt-get install gromacs"

    def defaults(self) -> dict[str, Any]:
        return {}

    def impossible(self, config: Configuration) -> str | None:
        if config.binding not in (None, "none", "cores"):
            return f"mdrun pins to cores or not at all, not '{config.binding}'"
        if config.ranks > 1 and self.size(config).options["box"] / config.ranks < 1.0:
            box = self.size(config).options["box"]
            return f"a box of {box} nm cannot be cut into {config.ranks} domains"
        return None

    def _gmx(self, context: Context) -> str:
        installed = context.installation
        return str(installed.path) if installed and installed.path else "gmx"

    def prepare(self, config: Configuration, context: Context) -> Prepare:
        options = self.size(config).options
        gmx = self._gmx(context)
        quiet = "> log.{0} 2>&1"
        box = options["box"]
        steps = options["steps"]
        return Prepare(
            f"water {config.size}",
            [
                f"printf '%s' {shlex.quote(_TOPOLOGY)} > topol.top",
                f"printf '%s' {shlex.quote(_MINIMISE)} > minimise.mdp",
                f"printf '%s' {shlex.quote(_MDP.format(steps=steps, log=max(steps // 10, 1)))} > run.mdp",
                f"{gmx} solvate -cs spc216.gro -box {box} {box} {box} -o box.gro -p topol.top {quiet.format('solvate')}",
                f"{gmx} grompp -f minimise.mdp -c box.gro -p topol.top -o minimise.tpr -maxwarn 2 {quiet.format('grompp1')}",
                f"{gmx} mdrun -s minimise.tpr -deffnm minimise {quiet.format('minimise')}",
                f"{gmx} grompp -f run.mdp -c minimise.gro -p topol.top -o run.tpr -maxwarn 2 {quiet.format('grompp2')}",
            ],
            {"GMX_MAXBACKUP": "-1"},
            3600,
        )

    def run(self, config: Configuration, context: Context) -> Run:
        if config.gpu == "on" and context.installation:
            support = context.installation.options.get("gpu", "unknown")
            if support == "unknown" and context.installation.path:
                support = gpu_support(run_text([str(context.installation.path), "--version"]))
            if support in ("disabled", "unknown"):
                raise Missing(
                    f"GROMACS '{context.installation.name}' is built without GPU ({support})",
                    "describe one with GPU under `installations: gromacs:` in the site file",
                )
        pin = {"cores": "on", "none": "off"}.get(config.binding or "", "auto")
        return Run(
            self._gmx(context),
            [
                "mdrun",
                "-s",
                "$HPCAAS_INPUT/run.tpr",
                "-deffnm",
                "run",
                "-ntmpi",
                str(config.ranks),
                "-ntomp",
                str(config.threads),
                "-pin",
                pin,
                "-noconfout",
                "-nb",
                "gpu" if config.gpu == "on" else "cpu",
            ],
            {"GMX_MAXBACKUP": "-1"},
            outputs=["run.log"],
            serial_launch=True,
        )

    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        try:
            log = (directory / "run.log").read_text(errors="replace")
        except OSError:
            raise Unreadable("no run.log")
        performance = re.search(r"^Performance:\s+([\d.]+)", log, re.M)
        wall = re.search(r"^\s+Time:\s+([\d.]+)\s+([\d.]+)", log, re.M)
        if not performance or not wall:
            raise Unreadable("run.log has no Performance line")
        simd = re.search(r"SIMD instructions:\s+(\S+)", log)
        return Reading(
            float(wall.group(2)),
            Figure(
                name="simulated time per day",
                value=float(performance.group(1)),
                unit="ns/day",
                better="higher",
            ),
            next(self._faults(log, config), ""),
            {
                "temperature_k": self._average(log, "Temperature"),
                "gpus": _said(r"(\d+) GPUs? selected for this run", log) or 0,
                "atoms": _said(r"There are: (\d+) Atoms", log),
                "simd": simd.group(1) if simd else None,
            },
        )

    def _faults(self, log: str, config: Configuration) -> Iterator[str]:
        temperature = self._average(log, "Temperature")
        if temperature is None or not abs(temperature - 300.0) < 15.0:
            yield f"mean temperature {temperature} K is not 300 K"
        conserved = self._average(log, "Conserved En.")
        if conserved is None or not math.isfinite(conserved):
            yield "the conserved energy is not finite"
        ranks, threads = (_said(rf"Using (\d+) {kind} thread", log) for kind in ("MPI", "OpenMP"))
        # A log may leave out what it used only one of.
        if ranks not in (None, config.ranks) or threads not in (None, config.threads):
            yield f"mdrun used {ranks} ranks x {threads} threads"
        if config.gpu == "on" and not _said(r"(\d+) GPUs? selected for this run", log):
            yield "mdrun selected no GPU"

    @staticmethod
    def _average(log: str, column: str) -> Optional[float]:
        """Value of a column in the averages at the end: names in fields of 15 characters, values on
        the next line."""
        tail = log.partition("A V E R A G E S")[2]
        lines = tail.splitlines()
        for names, values in zip(lines, lines[1:]):
            columns = [names[i : i + 15].strip() for i in range(0, len(names), 15)]
            if column in columns:
                field = values[
                    columns.index(column) * 15 : (columns.index(column) + 1) * 15
                ].strip()
                try:
                    return float(field)
                except ValueError:
                    return None
        return None
