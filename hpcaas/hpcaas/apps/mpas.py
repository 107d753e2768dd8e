"""MPAS-A, dynamical core: the Jablonowski-Williamson wave on a mesh made here. It is not the
paper's 20-day forecast with physics."""

from __future__ import annotations

import math
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, Optional

from ..model import Configuration, Figure
from .base import Context, Installation, Installed, Prepare, Reading, Run, Size, Unreadable

_PROGRAMS = ("atmosphere_model", "init_atmosphere_model")
_INIT = """&nhyd_model
    config_init_case = 2
    config_start_time = '0000-01-01_00:00:00'
    config_stop_time = '0000-01-01_00:00:00'
    config_theta_adv_order = 3
    config_coef_3rd_order = 0.25
/
&dimensions
    config_nvertlevels = 26
/
&decomposition
    config_block_decomp_file_prefix = 'graph.info.part.'
/
"""
_INIT_STREAMS = """<streams>
<immutable_stream name="input" type="input" filename_template="grid.nc" input_interval="initial_only" />
<immutable_stream name="output" type="output" filename_template="init.nc" packages="initial_conds" output_interval="initial_only" />
</streams>
"""
_RUN = """&nhyd_model
    config_dt = {dt}
    config_start_time = '0000-01-01_00:00:00'
    config_run_duration = '{duration}'
/
&damping
    config_zd = 22000.0
    config_xnutr = 0.0
/
&decomposition
    config_block_decomp_file_prefix = 'graph.info.part.'
/
&printout
    config_print_global_minmax_vel = true
/
&physics
    config_physics_suite = 'none'
/
"""
_RUN_STREAMS = """<streams>
<immutable_stream name="input" type="input" filename_template="init.nc" input_interval="initial_only" />
<immutable_stream name="restart" type="input;output" filename_template="restart.nc" input_interval="initial_only" output_interval="none" />
</streams>
"""


def duration(seconds: int) -> str:
    """MPAS's D_HH:MM:SS."""
    return (
        f"{seconds // 86400}_{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    )


def _file(name: str, text: str) -> str:
    return f"printf '%s' {shlex.quote(text)} > {name}"


def _strongest(wind: str, log: str) -> Optional[float]:
    """The largest amount of a wind component in the last step that says it; None if none does."""
    found = re.findall(rf"global min, max {wind}\s+(\S+)\s+(\S+)", log)
    if not found:
        return None
    low, high = map(float, found[-1])
    return max(-low, high) if math.isfinite(low + high) else math.nan


class Mpas(Installed):
    name = "mpas"
    title = "MPAS-A, Jablonowski-Williamson wave"
    vertical = "Weather forecasting services"
    origin = "the site's own install of MPAS-Model with its init_atmosphere_model and atmosphere_model (8.0.2 is self-contained); the mesh is made here"
    licence = "BSD-3-Clause, used as installed, nothing shipped"
    check = "strongest wind between 33 and 38 m/s (the balanced jet's 35), vertical wind under 1 m/s, all steps done without an error message"
    # The strongest wind of the balanced jet, after the last step.
    agreement = {"max_u": 1e-4, "cells": 0.0}
    figure = "seconds of the `time integration` timer per step (less is better)"
    # The time step halves with the mesh spacing; 720 s belongs to 120 km.
    sizes = {
        s.name: s
        for s in (
            Size(
                "tiny",
                "2,562 cells (480 km), 26 levels, 10 steps",
                {"level": 4, "dt": 2880, "steps": 10},
                3,
                300,
                100,
                "15/16 of the cells, physics, and all but 8 hours of the 20 days",
            ),
            Size(
                "small",
                "10,242 cells (240 km), 26 levels, 10 steps",
                {"level": 5, "dt": 1440, "steps": 10},
                14,
                700,
                300,
                "3/4 of the cells, physics, and all but 4 hours of the 20 days",
            ),
            Size(
                "medium",
                "40,962 cells (120 km, the paper's mesh), 26 levels, 10 steps",
                {"level": 6, "dt": 720, "steps": 10},
                60,
                2000,
                1000,
                "physics, and all but 2 hours of the 20 days",
            ),
            Size(
                "paper",
                "40,962 cells (120 km), 26 levels, 20 days",
                {"level": 6, "dt": 720, "steps": 2400},
                14000,
                2000,
                1000,
                "the mesoscale reference suite of physics: dynamics only",
            ),
        )
    }
    own_axes = {"library": "uses PnetCDF only"}

    def lacking(self, directory: Path) -> tuple[str, str] | None:
        missing = [p for p in _PROGRAMS if not (directory / p).exists()]
        if not missing:
            return None
        return (
            f"'{directory}' holds no {' and no '.join(missing)}",
            "name the directory that holds both programs",
        )

    def on_path(self) -> list[Installation]:
        programs = [shutil.which(p) for p in _PROGRAMS]
        return [Installation("path", Path(str(programs[0])).parent)] if all(programs) else []

    def absent(self) -> tuple[str, str]:
        return (
            "no atmosphere_model",
            "https://mpas-dev.github.io, then name its directory under `installations: mpas:`"
            " in the site file",
        )

    def defaults(self) -> dict[str, Any]:
        return {"mpi": "openmpi"}

    def impossible(self, config: Configuration) -> str | None:
        if config.ranks > 1 and not shutil.which("gpmetis"):
            return "more than one rank needs gpmetis to partition the mesh: apt-get install metis"
        return None

    @staticmethod
    def _program(context: Context, name: str) -> str:
        return (
            str(context.installation.path / name)
            if context.installation and context.installation.path
            else name
        )

    def prepare(self, config: Configuration, context: Context) -> Prepare:
        options = self.size(config).options
        # Initialisation is serial and belongs to the installation: another build may write other
        # bits.
        init = Prepare(
            f"wave level {options['level']}"
            f" {context.installation.name if context.installation else ''}",
            [
                f"{shlex.quote(sys.executable)} -m hpcaas.apps.mpas_mesh {options['level']}"
                f" grid.nc graph.info",
                _file("namelist.init_atmosphere", _INIT),
                _file("streams.init_atmosphere", _INIT_STREAMS),
                self._program(context, "init_atmosphere_model"),
                "test -s init.nc",
            ],
            {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
            3600,
        )
        if config.ranks == 1:
            return init
        return Prepare(
            f"partition {options['level']} {config.ranks}",
            [
                'ln -s "$HPCAAS_PARENT"/init.nc init.nc',
                'cp "$HPCAAS_PARENT"/graph.info .',
                f"gpmetis graph.info {config.ranks} > log.gpmetis",
                f"test -s graph.info.part.{config.ranks}",
            ],
            {},
            600,
            init,
        )

    def run(self, config: Configuration, context: Context) -> Run:
        options = self.size(config).options
        namelist = _RUN.format(
            dt=float(options["dt"]), duration=duration(options["dt"] * options["steps"])
        )
        return Run(
            self._program(context, "atmosphere_model"),
            [],
            {},
            [
                'ln -s "$HPCAAS_INPUT"/init.nc .',
                'cp "$HPCAAS_INPUT"/graph.info* .',
                _file("namelist.atmosphere", namelist),
                _file("streams.atmosphere", _RUN_STREAMS),
            ],
            outputs=["log.atmosphere.0000.out"],
        )

    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        try:
            log = (directory / "log.atmosphere.0000.out").read_text(errors="replace")
        except OSError:
            raise Unreadable("no log.atmosphere.0000.out")
        steps = self.size(config).options["steps"]
        timer = re.search(r"^\s*\d+\s+time integration\s+([\d.]+)\s+(\d+)", log, re.M)
        if not timer or "Finished running the atmosphere core" not in log:
            raise Unreadable("the atmosphere core did not finish")
        seconds, calls = float(timer.group(1)), int(timer.group(2))
        wind, vertical = _strongest("u", log), _strongest("w", log)
        wrong = ""
        if calls != steps:
            wrong = f"{calls} steps instead of {steps}"
        elif wind is None or not 33.0 <= wind <= 38.0:
            wrong = f"strongest wind {wind} m/s is not the jet's 35"
        elif vertical is not None and not vertical < 1.0:
            wrong = f"vertical wind {vertical} m/s"
        return Reading(
            seconds,
            Figure(name="time per step", value=seconds / calls, unit="s", better="lower"),
            wrong,
            {
                "max_u": wind,
                "steps": calls,
                "cells": 10 * 4 ** self.size(config).options["level"] + 2,
            },
        )
