"""cuPyNumeric's example programs, unchanged, with skerry.numpy as their module, as one job.

    skerry run -n 4 python tests/array_api/programs.py EXAMPLES_FOLDER

Each program's function runs twice: with skerry.numpy, and with NumPy and the same random numbers.
All arrays that its functions had or returned must agree to 1e-10. Rank 0 prints a line of JSON a
program: name, error (the largest relative difference), arrays (how many), reason (if it failed).
"""

import json
import runpy
import sys
import time
import types
from pathlib import Path

import numpy as np

import skerry as sk
import skerry.numpy as snp
import skerry.xp as xp

LIMIT = 1e-10
F64 = np.float64
RUNS = {  # program: (function, arguments, options)
    "stencil": ("run_stencil", (200, 20, 1), {}),
    "jacobi": ("run_jacobi", (200, 40, 1), {"perform_check": True, "verbose": False,
                                            "print_timing": False}),
    "cg": ("run_cg", (12, False, 1, 1), {"conv_threshold": 1e-5}),  # after it, noise
    "gemm": ("run_gemm", (150, 2, 1, F64), {}),
    "black_scholes": ("run_black_scholes", (100, F64), {}),
    "kmeans": ("run_kmeans", (10, 3, F64, 60, 5000, 25), {}),
    "linreg": ("run_linear_regression", (5, 16, F64, 40, 1, 20, True), {}),
    "logreg": ("run_logistic_regression", (5, 16, F64, 40, 1, 20, True), {}),
    "richardson_lucy": ("run_richardson_lucy", ((24, 20, 16), (4, 4, 4), 4, 1, "auto"), {}),
}  # fmt: skip


class Timer:
    """What the programs measure with."""

    def start(self):
        self.begin = time.perf_counter()

    def stop(self):
        return (time.perf_counter() - self.begin) * 1e3


def harness():
    """A stand-in for the package by which the programs measure themselves."""
    module = types.ModuleType("_benchmark")
    module.benchmark_info = lambda *_, **__: lambda function: function
    module.format_dtype = str
    module.get_benchmark_info = module.parse_with_harness = None  # of their main programs alone
    sys.modules["_benchmark"] = module


class Reference:
    """NumPy with the random numbers of skerry.xp, and convolution in several dimensions."""

    class random:  # noqa: N801
        @staticmethod
        def seed(value):
            Reference.state = snp.random.RandomState(value)

    @staticmethod
    def convolve(a, v, mode, method):
        from scipy.signal import convolve

        return convolve(a, v, mode, method)

    def __getattr__(self, name):
        return getattr(np, name)


def _reference_draws(name):
    def draw(*arguments, **options):
        drawn = getattr(Reference.state, name)(*arguments, **options)
        return drawn.numpy() if isinstance(drawn, xp.Array) else drawn

    return staticmethod(draw)


for _name in ("rand", "randn", "random", "uniform"):
    setattr(Reference.random, _name, _reference_draws(_name))


def states(function, file, *arguments, **options):
    """All arrays in the program's functions when they return, in order: (where, value)."""
    seen = []

    def profile(frame, event, argument):
        if event != "return" or frame.f_code.co_filename != file:
            return
        sys.setprofile(None)
        where = f"{frame.f_code.co_name}"
        values = {**frame.f_locals, "return": argument}
        for name in sorted(values):
            value = values[name]
            for i, part in enumerate(value if isinstance(value, tuple) else (value,)):
                if isinstance(part, xp.Array | np.ndarray | np.generic):
                    part = part.numpy() if isinstance(part, xp.Array) else part
                    seen.append((f"{where}:{name}:{i}", np.array(part)))
        sys.setprofile(profile)

    sys.setprofile(profile)
    try:
        function(*arguments, **options)
    finally:
        sys.setprofile(None)
    return [item for item in seen if not item[0].startswith("stop:")]


def compare(ours, theirs):
    """The largest difference, relative to the largest element that the function had: residuals of a
    solver that has converged are noise, its solution is not."""
    if [where for where, _ in ours] != [where for where, _ in theirs]:
        raise AssertionError("the programs took different ways")
    worst, scales = 0.0, {}
    for where, other in theirs:
        if other.size:
            function = where.split(":")[0]
            scales[function] = max(scales.get(function, 1e-300), float(np.abs(other).max()))
    for (where, mine), (_, other) in zip(ours, theirs, strict=True):
        if mine.shape != other.shape:
            raise AssertionError(f"{where} has shape {mine.shape}, NumPy's {other.shape}")
        if mine.size:
            difference = float(np.abs(mine.astype(F64) - other).max())
            worst = max(worst, difference / scales[where.split(":")[0]])
    return worst


def run(folder, name):
    function_name, arguments, options = RUNS[name]
    file = str(folder / f"{name}.py")
    program = runpy.run_path(file, run_name=name)
    if "float_type" in program:  # richardson_lucy's setting
        program[function_name].__globals__["float_type"] = "float64"
    function = program[function_name]
    options = {**options, "timer": Timer()}
    snp.random.seed(7)
    ours = states(function, file, snp, *arguments, **options)
    Reference.random.seed(7)
    theirs = states(function, file, Reference(), *arguments, **options)
    return {"error": compare(ours, theirs), "arrays": len(ours)}


def main():
    sk.init()
    xp.options(whole_bytes=0, check_calls=1)
    harness()
    folder = Path(sys.argv[1]).resolve()
    for name in RUNS:
        row = {"name": name}
        try:
            row.update(run(folder, name))
        except Exception as error:
            row["reason"] = f"{type(error).__name__}: {error}"[:300]
        if sk.rank() == 0:
            print(json.dumps(row), flush=True)
        sk.sync()
    sk.finalize()


if __name__ == "__main__":
    main()
