"""Skerry's own DFT job, if Skerry is installed: quantum chemistry over one-sided communication. Nothing here needs it."""

from __future__ import annotations

import json
import math
import shlex
import shutil
from pathlib import Path
from typing import Any

from ..model import Configuration, Figure
from .base import App, Context, Installation, Reading, Run, Size, State, Unreadable


class SkerryDft(App):
    name = "skerry_dft"
    title = "Density functional theory over Skerry"
    vertical = "Chemistry (beside the paper's five)"
    origin = "Skerry's examples, if installed; `skerry: {command: ...}` in the site file"
    licence = "BSD-3-Clause"
    check = "energy of Si8O7H18 the same to 1e-6 hartree in every split (compared with the first run)"
    figure = "seconds of the self-consistent field (less is better)"
    sizes = {s.name: s for s in (
        Size("tiny", "Si8O7H18, STO-3G", {"basis": "sto-3g"}, 10, 1000, 10, "not in the paper"),
        Size("small", "Si8O7H18, 6-31G*", {"basis": "6-31g*"}, 40, 2000, 10, "not in the paper"),
    )}
    axes: dict[str, bool | str] = {"split": True, "nodes": True, "mpi": "Skerry starts its own ranks", "binding": "Skerry's launcher decides",
                                   "compiler": "Skerry is built already"}

    def find(self, site: dict[str, Any]) -> State:
        described = site.get("skerry", {})
        command = described.get("command")
        if command:
            return State([Installation("site", None, options={"command": command})])
        program = shutil.which("skerry-dft")
        if program:
            return State([Installation("path", Path(program), options={"command": f"{program} --ranks {{ranks}} --basis {{basis}} --json"})])
        return State([], "Skerry's DFT job is not installed", "build Skerry and give `skerry: {command: ...}` in the site file, see docs/site.md")

    def impossible(self, config: Configuration) -> str | None:
        return "Skerry's DFT job has no threads" if config.threads != 1 else None

    def run(self, config: Configuration, context: Context) -> Run:
        assert context.installation
        words = shlex.split(str(context.installation.options["command"]).format(ranks=config.ranks, basis=self.size(config).options["basis"]))
        return Run(shlex.quote(words[0]), [shlex.quote(w) for w in words[1:]], serial_launch=True)

    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        for line in reversed(stdout.splitlines()):
            if line.startswith("{") and '"energy"' in line and '"seconds"' in line:
                out = json.loads(line)
                break
        else:
            raise Unreadable('no line of JSON with "energy" and "seconds"')
        wrong = "" if math.isfinite(out["energy"]) and out.get("converged", True) else "the field did not converge"
        return Reading(float(out["seconds"]), Figure(name="time of the field", value=float(out["seconds"]), unit="s", better="lower"), wrong, {"energy": out["energy"]})
