"""Skerry's own DFT job, if Skerry is installed: quantum chemistry over one-sided communication.
Nothing here needs it."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

from ..model import Configuration, Figure
from .base import App, Context, Installation, Reading, Run, Size, State, Unreadable


class SkerryDft(App):
    name = "skerry_dft"
    title = "Density functional theory over Skerry"
    vertical = "Chemistry (beside the paper's five)"
    origin = "Skerry's example job dft.py, if Skerry is installed; `skerry: {command: ...}` in the site file"
    licence = "BSD-3-Clause"
    check = "186 electrons of Si8O7H18 on the grid within 0.05, energy finite"
    agreement = {"energy_hartree": 1e-8}
    figure = "seconds of the self-consistent field (less is better)"
    sizes = {
        s.name: s
        for s in (
            Size("tiny", "Si8O7H18, STO-3G", {"basis": "sto-3g"}, 10, 1000, 10, "not in the paper"),
            Size(
                "small", "Si8O7H18, 6-31G*", {"basis": "6-31g*"}, 40, 2000, 10, "not in the paper"
            ),
        )
    }
    axes: dict[str, bool | str] = {
        "split": True,
        "nodes": True,
        "mpi": "Skerry starts its own ranks",
        "binding": "Skerry's launcher decides",
        "compiler": "Skerry is built already",
    }

    def find(self, site: dict[str, Any]) -> State:
        described = site.get("skerry", {})
        command = described.get("command")
        if command:
            return State([Installation("site", None, options={"command": command})])
        return State(
            [],
            "Skerry's DFT job is not installed",
            "build Skerry and give its command in the site file (key skerry, see docs/site.md)",
        )

    def impossible(self, config: Configuration) -> str | None:
        return "Skerry's DFT job has no threads" if config.threads != 1 else None

    def run(self, config: Configuration, context: Context) -> Run:
        assert context.installation
        words = shlex.split(
            str(context.installation.options["command"]).format(
                ranks=config.ranks, basis=self.size(config).options["basis"]
            )
        )
        return Run(shlex.quote(words[0]), [shlex.quote(w) for w in words[1:]], serial_launch=True)

    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        try:
            document = json.loads((directory / "result.json").read_text())
            out = document.get("mirrored") or document["distributed"]
            energy, seconds, electrons = (
                float(out["energy_hartree"]),
                float(out["seconds"]["total"]),
                float(out["electrons"]),
            )
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise Unreadable(
                f"no result.json with energy, electrons and seconds ({type(error).__name__})"
            )
        wrong = (
            ""
            if math.isfinite(energy) and abs(electrons - 186.0) < 0.05
            else f"{electrons} electrons on the grid, energy {energy}"
        )
        return Reading(
            seconds,
            Figure(name="time of the field", value=seconds, unit="s", better="lower"),
            wrong,
            {"energy_hartree": energy, "electrons": electrons},
        )
