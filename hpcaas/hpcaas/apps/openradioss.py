"""OpenRadioss, used as the user's site installed it: the starter splits the model, the engine is
what is measured."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from ..errors import Missing
from ..model import Configuration, Figure
from .base import Context, Installation, Installed, Prepare, Reading, Run, Size, Unreadable


ROOT = "NEON1M11"  # the model's files begin with it
# A line of the engine's cycle table: CYCLE TIME TIME-STEP ELEMENT (kind and id) ERROR% and
# energies. Not-a-number does not match.
_CYCLE = re.compile(r"^ *\d+ +([\d.E+-]+) +[\d.E+-]+ +\S+ +\d+ +(-?[\d.]+)%", re.M)


def _reached(cycle_lines: list[tuple[float, float]]) -> float:
    """Time that the run got to: every so many cycles are printed, so it may have ended up to one
    such distance after the last line."""
    last = cycle_lines[-1][0]
    return last + (last - cycle_lines[-2][0] if len(cycle_lines) > 1 else 0.0)


def _fault(text: str, cycle_lines: list[tuple[float, float]], end: float) -> str:
    """What is wrong with a run that terminated; empty if nothing is. The engine also ends
    `normally` when a limit on energy or mass stops it: the end time decides."""
    stopped = re.search(r"RUN (?:KILLED|STOPPED)\s*:[^\n]*", text)
    if stopped:
        return stopped.group(0).strip()
    if not cycle_lines:
        return "no line of the cycle table says the time and the energy error"
    if not _reached(cycle_lines) >= 0.99 * end:
        return f"the last printed cycle is at {cycle_lines[-1][0]:g} of {end:g}"
    if not abs(cycle_lines[-1][1]) <= 15.0:
        return f"energy error {cycle_lines[-1][1]} %"
    return ""


class OpenRadioss(Installed):
    name = "openradioss"
    title = "OpenRadioss, Neon"
    vertical = "Finite element analysis"
    origin = (
        "the site's own install (starter and engine); Neon 1M11 comes from the OpenRadioss site by"
        " the user's hand"
    )
    licence = "AGPL-3, used as installed, nothing shipped; its QA decks (CC BY-NC) are not used"
    check = "NORMAL TERMINATION, energy error within 15 %, end time reached"
    # The time step follows from the smallest element: the split must not change it much.
    agreement = {"cycles": 0.01}
    figure = "elapsed seconds of the engine (less is better)"
    sizes = {
        s.name: s
        for s in (
            Size(
                "neon8",
                "Neon 1M11, 1 million elements, 8 ms",
                {"neon": 0.008},
                30000,
                8000,
                5000,
                "72 of the 80 ms",
            ),
            Size(
                "paper",
                "Neon 1M11, 1 million elements, 80 ms",
                {"neon": 0.08},
                300000,
                8000,
                20000,
                "",
            ),
        )
    }
    own_axes = {"library": "built by the site"}

    def lacking(self, directory: Path) -> tuple[str, str] | None:
        if all(self._programs(directory, kind) for kind in ("starter", "engine")):
            return None
        return (
            f"'{directory}' holds no starter_* or no engine_*",
            "name the directory that holds both (usually exec/)",
        )

    def on_path(self) -> list[Installation]:
        program = shutil.which("engine_linux64_gf_ompi")
        return [Installation("path", Path(program).parent)] if program else []

    def absent(self) -> tuple[str, str]:
        return (
            "OpenRadioss is not installed",
            "https://www.openradioss.org, then name its exec directory under `installations:"
            " openradioss:` in the site file",
        )

    @staticmethod
    def _programs(path: Path, kind: str) -> list[Path]:
        return sorted(p for p in path.glob(f"{kind}_*") if p.is_file())

    def _program(self, context: Context, kind: str) -> str:
        installed = context.installation
        if installed and kind in installed.options:
            return str(installed.options[kind])
        if installed and installed.path:
            programs = self._programs(installed.path, kind)
            with_mpi = [p for p in programs if re.search(r"mpi", p.name)]
            return str((with_mpi or programs)[0])
        return f"{kind}_linux64_gf" + ("_ompi" if kind == "engine" else "")

    def prepare(self, config: Configuration, context: Context) -> Prepare:
        options = self.size(config).options
        starter = self._program(context, "starter")
        folder = (context.installation.options if context.installation else {}).get("neon")
        if not folder:
            raise Missing(
                "the Neon 1M11 model is not named",
                "fetch it from the OpenRadioss site and say `options: {neon: DIRECTORY}` with"
                " the installation in the site file",
            )
        # The run's end time is the line after /RUN in the engine file.
        make = [
            f"cp -r {shlex.quote(str(folder))}/. .",
            rf"sed -i '/^\/RUN/{{n;s/.*/{options['neon']}/}}' {ROOT}_0001.rad",
        ]
        return Prepare(
            f"{ROOT} {config.size} {config.ranks}x{config.threads}",
            make + [f"{starter} -i {ROOT}_0000.rad -np {config.ranks} > log.starter"],
            {"OMP_STACKSIZE": "400m"},
            3600,
        )

    def run(self, config: Configuration, context: Context) -> Run:
        return Run(
            self._program(context, "engine"),
            ["-i", f"{ROOT}_0001.rad", "-nt", str(config.threads)],
            {"OMP_STACKSIZE": "400m"},
            ['cp -r "$HPCAAS_INPUT"/. .'],
            after=["rm -f *.rst *T01"],
            outputs=[f"{ROOT}_0001.out"],
        )

    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        path = directory / f"{ROOT}_0001.out"
        text = (path.read_text(errors="replace") if path.exists() else "") + "\n" + stdout
        if "NORMAL TERMINATION" not in text:
            raise Unreadable("no NORMAL TERMINATION")
        if "USER BREAK" in text:
            raise Unreadable("USER BREAK: a control file ended it")
        elapsed = re.findall(r"ELAPSED TIME[ .]*=\s*([\d.E+-]+)", text)
        if not elapsed:
            raise Unreadable("no ELAPSED TIME")
        table = [(float(t), float(e)) for t, e in _CYCLE.findall(text)]
        cycles = re.search(r"TOTAL NUMBER OF CYCLES\s*:\s*(\d+)", text)
        seconds = float(elapsed[-1])
        return Reading(
            seconds,
            Figure(name="elapsed time", value=seconds, unit="s", better="lower"),
            _fault(text, table, float(self.size(config).options["neon"])),
            {
                "cycles": int(cycles.group(1)) if cycles else None,
                "energy_error_percent": table[-1][1] if table else None,
            },
        )
