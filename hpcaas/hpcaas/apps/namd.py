"""NAMD, used as the user's site installed it. Its licence allows academic, research and internal
business use: this suite never obtains it, and its inputs come from the NAMD site by the user's own
hand."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Iterator, Optional

from ..errors import Missing
from ..model import Configuration, Figure
from .base import BY_SITE, Context, Installation, Installed, Prepare, Reading, Run, Size, Unreadable

# Potential plus kinetic energy of ApoA1 before the first step: depends on the input alone.
APOA1_TOTAL = -223539.1745
# NAMD prints no larger numbers than these (the second in old versions): a run that blew up still
# looks finite.
_LARGEST = ("9999999999.9999", "99999999.9999")
_PAGE = (
    "https://www.ks.uiuc.edu/Research/namd/ (licence: academic, research and internal business use)"
)


def _energies(stdout: str) -> list[list[str]]:
    """The words of every ENERGY line; the first is the step."""
    return [line.split() for line in re.findall(r"^ENERGY:\s+(.*)$", stdout, re.M)]


def _impossible_energies(stdout: str) -> Iterator[str]:
    for words in _energies(stdout):
        if any(word.lstrip("-") in _LARGEST for word in words):
            yield f"an energy of step {words[0]} is beyond what NAMD prints: the run blew up"
        if not all(math.isfinite(float(word)) for word in words):
            yield f"an energy of step {words[0]} is not finite"


def _first_total(stdout: str) -> Optional[float]:
    """TOTAL of step 0; None where it is not printed."""
    title = re.search(r"^ETITLE:\s+(.*)$", stdout, re.M)
    columns = title.group(1).split() if title else []
    lines = [words for words in _energies(stdout) if words[0] == "0"]
    return float(lines[-1][columns.index("TOTAL")]) if lines and "TOTAL" in columns else None


class Namd(Installed):
    name = "namd"
    title = "NAMD, ApoA1 or STMV"
    vertical = "Life sciences"
    origin = "the site's own install (2.12 needs Charm++ 6.8); inputs apoa1 and stmv from the NAMD site, named under `options: input:`"
    licence = "NAMD licence: academic, research and internal business use; never shipped, never obtained for the user"
    check = f"every energy finite, step-0 TOTAL of ApoA1 {APOA1_TOTAL} within 1e-5"
    # Of step 0, before any rounding can grow; the sum's order depends on the split.
    agreement = {"total_0": 1e-6}
    figure = "wall seconds per step of the last TIMING line (less is better)"
    sizes = {
        s.name: s
        for s in (
            Size(
                "tiny",
                "ApoA1, 92,224 atoms, 20 steps",
                {"input": "apoa1", "steps": 20},
                40,
                500,
                20,
                "9/10 of STMV's atoms, and most steps",
            ),
            Size(
                "small",
                "ApoA1, 92,224 atoms, 200 steps",
                {"input": "apoa1", "steps": 200},
                400,
                500,
                20,
                "9/10 of STMV's atoms",
            ),
            Size(
                "paper",
                "STMV, 1,066,628 atoms, 500 steps",
                {"input": "stmv", "steps": 500},
                12000,
                4000,
                200,
                "",
            ),
        )
    }
    own_axes = {
        "variant": f"{BY_SITE} (ivdep or plain)",
        "library": "built by the site",
        "framework": "chosen when Charm++ is built",
        "filesystem": "writes almost nothing",
    }

    def on_path(self) -> list[Installation]:
        program = next(filter(None, map(shutil.which, ("namd3", "namd2"))), None)
        return [Installation("path", Path(program))] if program else []

    def absent(self) -> tuple[str, str]:
        return "NAMD is not installed", _PAGE

    def impossible(self, config: Configuration) -> str | None:
        return None

    def prepare(self, config: Configuration, context: Context) -> Prepare:
        which = self.size(config).options["input"]
        folder = (context.installation.options if context.installation else {}).get("input", {})
        path = Path(folder[which]) if isinstance(folder, dict) and which in folder else None
        if path is None or not (path / f"{which}.namd").exists():
            raise Missing(
                f"the input {which} of NAMD is not named",
                f"unpack {which} from the NAMD site and say `options:"
                f" {{input: {{{which}: DIRECTORY}}}}` with the installation in the site file",
            )
        steps = self.size(config).options["steps"]
        # The benchmark's own file with its numbers of steps and outputs replaced; the last setting
        # of a keyword wins nowhere, so lines are dropped.
        return Prepare(
            f"{which} {steps}",
            [
                f"cp -r {path}/. .",
                rf"sed -i -E '/^\s*(numsteps|outputtiming|outputenergies|outputname)\s/Id'"
                rf" {which}.namd",
                f"printf 'numsteps {steps}\\noutputtiming {max(1, steps // 10)}\\noutputenergies"
                f" {max(1, steps // 10)}\\noutputname /dev/null\\n' >> {which}.namd",
            ],
        )

    def run(self, config: Configuration, context: Context) -> Run:
        which = self.size(config).options["input"]
        installed = context.installation
        program = str(installed.path) if installed and installed.path else "namd2"
        smp = bool(installed and installed.options.get("smp", False))
        if context.mpi is None and config.launcher != "srun":
            return Run(
                program,
                [
                    f"+p{config.ranks * config.threads}",
                    "+setcpuaffinity",
                    f"$HPCAAS_INPUT/{which}.namd",
                ],
                serial_launch=True,
            )
        # One thread of every rank only communicates (Table 5 of the paper): it is one of the
        # threads asked for.
        args = ["+ppn", str(max(1, config.threads - 1))] if smp and config.threads > 1 else []
        return Run(program, args + [f"$HPCAAS_INPUT/{which}.namd"])

    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        timing = re.findall(
            r"^TIMING: (\d+)\s+CPU: [\d.e+-]+, [\d.e+-]+/step\s+Wall: ([\d.e+-]+),"
            r" ([\d.e+-]+)/step",
            stdout,
            re.M,
        )
        options = self.size(config).options
        steps = options["steps"]
        if not timing or int(timing[-1][0]) != steps or not re.search(r"^WallClock:", stdout, re.M):
            raise Unreadable(f"stopped at step {timing[-1][0] if timing else 0} of {steps}")
        total0 = _first_total(stdout)
        wrong = next(_impossible_energies(stdout), "")
        if not wrong and options["input"] == "apoa1":
            if total0 is None or abs(total0 / APOA1_TOTAL - 1) > 1e-5:
                wrong = f"step-0 TOTAL {total0} is not {APOA1_TOTAL}"
        # From one TIMING line to another, so that start-up and load balancing of the first steps
        # stay out.
        first, last = timing[0], timing[-1]
        span = int(last[0]) - int(first[0])
        per_step = (float(last[1]) - float(first[1])) / span if span > 0 else float(last[2])
        return Reading(
            per_step * steps,
            Figure(name="time per step", value=per_step, unit="s", better="lower"),
            wrong,
            {"total_0": total0, "steps": steps},
        )
