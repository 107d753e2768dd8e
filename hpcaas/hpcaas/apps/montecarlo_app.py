"""Monte-Carlo option pricing: our own code, Sobol points with a Brownian bridge, checked against
Black-Scholes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Iterator

from ..errors import Missing
from ..model import Configuration, Figure
from ..toolchain import target_flags
from .base import App, Build, Context, Installation, Reading, Run, Size, State, Unreadable

SOURCES = Path(__file__).parent / "montecarlo"

# Neither changes a value here: no code reads errno or the floating-point exception flags. Without
# them GCC vectorises nothing.
_BASE_FLAGS = ["-std=c++20", "-fno-math-errno", "-fno-trapping-math"]


# What a result line says beside its times.
_SAID = (
    "price", "error", "black_scholes", "asian", "asian_error", "asian_exact", "paths", "steps",
    "mpi",
)  # fmt: skip


def _faults(out: dict[str, Any], config: Configuration) -> Iterator[str]:
    """What is wrong with a result line: prices against their exact values, workers as asked."""
    for what, price, error, exact in (
        ("price", out["price"], out["error"], out["black_scholes"]),
        ("Asian price", out["asian"], out["asian_error"], out["asian_exact"]),
    ):
        off = abs(price - exact)
        if not off <= 3 * error + 1e-12:  # so that not-a-number is wrong
            errors = off / max(error, 1e-300)
            yield f"{what} {price:.6f} is {errors:.1f} standard errors from {exact:.6f}"
    ran = (out["ranks"], out["threads"])
    if ran != (config.ranks, config.threads):
        yield f"ran {ran[0]} ranks x {ran[1]} threads, not {config.ranks} x {config.threads}"


class MonteCarlo(App):
    name = "montecarlo"
    title = "Monte-Carlo option pricing"
    vertical = "Financial services"
    origin = "hpcaas/apps/montecarlo, part of this suite"
    licence = "BSD-3-Clause; Joe-Kuo direction numbers under their BSD-style licence"
    check = (
        "price within 3 standard errors of Black-Scholes, geometric Asian put within 3 of its"
        " closed form"
    )
    # The points do not depend on the split; sums in another order differ in the last digits.
    agreement = {"price": 1e-9, "asian": 1e-9}
    figure = "paths per second (more is better)"
    clock_s = 0.001
    sizes = {
        s.name: s
        for s in (
            Size(
                "tiny",
                "65,536 paths of 250 steps",
                {"paths": 65536},
                0.6,
                50,
                1,
                "1/153 of the paper's samples",
            ),
            Size(
                "small",
                "1,048,576 paths of 250 steps",
                {"paths": 1048576},
                6,
                60,
                1,
                "1/10 of the paper's samples",
            ),
            Size(
                "medium",
                "4,000,000 paths of 250 steps",
                {"paths": 4000000},
                20,
                80,
                1,
                "2/5 of the paper's samples",
            ),
            Size(
                "paper",
                "10,000,000 paths of 250 steps",
                {"paths": 10000000},
                50,
                100,
                1,
                "nothing of the size; the paper draws pseudo-random numbers with rand_r(), this"
                " draws Sobol points",
            ),
        )
    }
    axes = {
        "compiler": True,
        "optimisation": True,
        "target": True,
        "variant": True,
        "mpi": True,
        "framework": True,
        "interconnect": True,
        "launcher": True,
        "binding": True,
        "distribution": True,
        "split": True,
        "smt": True,
        "ranks_per_node": True,
        "nodes": True,
        "library": "uses none",
        "filesystem": "reads and writes no files",
        "installation": "is built here, for every choice",
    }

    def find(self, site: dict[str, Any]) -> State:
        return State([Installation("built here", SOURCES, version="own code")])

    def defaults(self) -> dict[str, Any]:
        return {"compiler": "gcc", "optimisation": "O3", "target": "native", "variant": "simd"}

    def build(self, config: Configuration, context: Context) -> Build:
        if context.compiler is None:
            raise Missing("no compiler is chosen for montecarlo", "choose --compiler")
        flags = list(_BASE_FLAGS)
        flags += [f"-{config.optimisation or 'O3'}"] + target_flags(
            context.compiler.name, config.target or "native"
        )
        flags += ["-fopenmp"] + (["-DHPCAAS_VARIANT_PLAIN"] if config.variant == "plain" else [])
        program = context.compiler.cxx
        env: dict[str, str] = {}
        if context.mpi:
            if not context.mpi.mpicxx:
                raise Missing(
                    f"MPI '{context.mpi.name}' has no C++ compiler wrapper",
                    "install its development package, or give mpicxx in the site file",
                )
            program, env = context.mpi.mpicxx, context.mpi.compiler_environment(context.compiler)
            flags.append("-DHPCAAS_MPI")
        sources = sorted(SOURCES.iterdir())
        units = " ".join(shlex.quote(str(s)) for s in sources if s.suffix == ".cpp")
        return Build(
            [f"{program} {' '.join(flags)} {units} -o hpcaas_montecarlo"],
            ["hpcaas_montecarlo"],
            sources,
            env,
            " ".join(flags),
        )

    def run(self, config: Configuration, context: Context) -> Run:
        return Run(
            "$HPCAAS_BUILD/hpcaas_montecarlo", ["--paths", str(self.size(config).options["paths"])]
        )

    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        start = '{"program": "hpcaas_montecarlo"'
        lines = [line for line in stdout.splitlines() if line.startswith(start)]
        if not lines:
            raise Unreadable("no result line")
        if len(lines) > 1:
            # Happens when a launcher of one MPI starts a program of another: every rank believes to
            # be alone.
            raise Unreadable(
                f"{len(lines)} result lines: the ranks did not find each other (launcher and"
                f" library of different MPIs?)"
            )
        out = json.loads(lines[0])
        return Reading(
            out["seconds"],
            Figure(name="paths per second", value=out["paths_per_s"], unit="1/s", better="higher"),
            next(_faults(out, config), ""),
            {k: v for k, v in out.items() if k in _SAID},
        )
