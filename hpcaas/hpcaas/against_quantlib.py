"""Our Monte-Carlo against QuantLib's low-discrepancy engine: same option, same steps, Brownian
bridge on in both, one core, in one run.

Rounds alternate between the two, and CPU time is compared beside wall time: other users of a
machine take wall time from either at random, CPU time much less.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from .apps.montecarlo_app import SOURCES, MonteCarlo
from .errors import Missing
from .model import Configuration


def _build(directory: Path) -> Path:
    from .apps.base import Context, Installation
    from .toolchain import find_compilers, need_compiler

    compiler = need_compiler(find_compilers(), "gcc")
    build = MonteCarlo().build(
        Configuration(
            app="montecarlo", size="tiny", compiler="gcc", optimisation="O3", target="native"
        ),
        Context(compiler, None, Installation("built here", SOURCES), {}),
    )
    subprocess.run(build.commands[0], shell=True, check=True, cwd=directory)
    return directory / "hpcaas_montecarlo"


def _ours(program: Path, paths: int, steps: int) -> tuple[float, float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(program), "--paths", str(paths), "--steps", str(steps)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = json.loads(done.stdout)
    return (
        out["seconds"],
        (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime),
        out["price"],
    )


def _quantlib(paths: int, steps: int) -> tuple[float, float, float]:
    import QuantLib as ql

    today = ql.Date(1, 1, 2024)
    ql.Settings.instance().evaluationDate = today
    count = ql.Actual365Fixed()
    process = ql.BlackScholesProcess(
        ql.QuoteHandle(ql.SimpleQuote(30.0)),
        ql.YieldTermStructureHandle(ql.FlatForward(today, 0.06, count)),
        ql.BlackVolTermStructureHandle(ql.BlackConstantVol(today, ql.NullCalendar(), 0.2, count)),
    )
    option = ql.VanillaOption(
        ql.PlainVanillaPayoff(ql.Option.Put, 40.0), ql.EuropeanExercise(today + 365)
    )
    option.setPricingEngine(
        ql.MCEuropeanEngine(
            process, "lowdiscrepancy", timeSteps=steps, brownianBridge=True, requiredSamples=paths
        )
    )
    wall, cpu = time.perf_counter(), time.process_time()
    price = option.NPV()
    return time.perf_counter() - wall, time.process_time() - cpu, price


def compare(rounds: int = 5, steps: int = 250, paths: int = 32768) -> dict[str, Any]:
    """Rates in paths per second, median over rounds. QuantLib gets fewer paths, so that both take
    seconds; rates do not depend on it."""
    try:
        import QuantLib as ql
    except ImportError:
        raise Missing("QuantLib is not installed", "pip install QuantLib")
    with tempfile.TemporaryDirectory() as name:
        program = _build(Path(name))
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_ours(program, paths * 16, steps))
            theirs.append(_quantlib(paths, steps))

    def rate(samples: list[tuple[float, float, float]], which: int, count: int) -> float:
        return statistics.median(count / s[which] for s in samples)

    cpu = [(paths * 16 / a[1]) / (paths / b[1]) for a, b in zip(ours, theirs)]
    wall = [(paths * 16 / a[0]) / (paths / b[0]) for a, b in zip(ours, theirs)]
    return {
        "quantlib": ql.__version__,
        "steps": steps,
        "rounds": rounds,
        "ours_paths_per_cpu_s": rate(ours, 1, paths * 16),
        "quantlib_paths_per_cpu_s": rate(theirs, 1, paths),
        "ratio_cpu_median": statistics.median(cpu),
        "ratio_cpu_range": [min(cpu), max(cpu)],
        "ratio_wall_median": statistics.median(wall),
        "ratio_wall_range": [min(wall), max(wall)],
        "ours_price": ours[0][2],
        "quantlib_price": theirs[0][2],
        "load1": os.getloadavg()[0],
    }
