#!/usr/bin/env python3
"""NPBench's programs on skerry.numpy beside NumPy, in one run: make bench-npbench NPBENCH=DIR.

    lab/bench/arrays/npbench.py DIR [--sizes S M L] [--layouts 1x1 2x1 2x2] [--only NAME ...]

DIR is a checkout of spcl/npbench; nothing of it is kept here. Each program's NumPy version runs as
it is but for its import. One job a program, size and layout (ranks x nodes). By turns rank 0 runs
it with NumPy while the others sleep, all with NumPy at the same time, each for itself, and all with
skerry.numpy; the best of 5 turns each, fewer after 16 seconds, one BLAS thread a rank. Results are
compared. What takes more than --seconds (20) is given up. A program beside which other processes
computed is measured again, twice at most; its row says how much of the cores they took. Writes
out/npbench.json and out/npbench.png; prints the losers first.
"""

import argparse
import contextvars
import copy
import importlib.util
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OUT = ROOT / "out"
SIZES, LAYOUTS = ["S", "M", "L"], ["1x1", "2x1", "2x2"]
TARGETS = {"1x1": 1.5, "2x1": 1.5, "2x2": 1.6}
TURNS = 5
MOST_OTHERS = 0.05  # of the cores' time, taken by others while a program is measured


# ---- one program, in a job -----------------------------------------------------------------------


def _module(path, imports):
    """The module of a file, with another NumPy if `imports` names one."""
    source = path.read_text()
    if imports:
        source = source.replace("import numpy as np", f"import {imports} as np")
    spec = importlib.util.spec_from_loader(path.stem, loader=None)
    module = importlib.util.module_from_spec(spec)
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def _arguments(folder, info, size):
    """All values by name, as the program's own initialize() makes them."""
    values = dict(info["parameters"][size])
    init = info.get("init")
    if init:
        made = getattr(_module(folder / f"{info['module_name']}.py", None), init["func_name"])(
            *[values[name] for name in init["input_args"]]
        )
        names = init["output_args"]
        values.update(zip(names, made if len(names) > 1 else [made], strict=True))
    return values


class _Way:
    """One way to run a program: its best seconds, and what it gave last."""

    def __init__(self, kernel, arguments, run, together):
        self._kernel, self._arguments, self._run = kernel, arguments, run
        self._together = together
        self.seconds = self.used = math.inf
        self.given = self.result = None

    def drop(self):
        self.given = self.result = None

    def turn(self):
        """Runs it once; returns the seconds."""
        self.drop()
        self.given = self._run(self._arguments)
        self._together()
        begin, begin_used = time.perf_counter(), time.process_time()
        self._run(self._once)
        self.used = min(self.used, time.process_time() - begin_used)
        self._together()
        seconds = time.perf_counter() - begin
        self.seconds = min(self.seconds, seconds)
        return seconds

    def _once(self):
        self.result = self._kernel(*self.given)
        for each in _flat([self.result, self.given]):  # what is to be computed late is computed now
            getattr(each, "_evaluate", int)()


def _flat(value):
    return [item for each in value for item in _flat(each)] if isinstance(value, (tuple, list)) \
        else [value]  # fmt: skip


def _alike(ours, theirs):
    """Whether results are equal but for the order of sums."""
    import numpy

    for a, b in zip(_flat(ours), _flat(theirs), strict=True):
        if b is None:
            continue
        a = a.numpy() if hasattr(a, "numpy") else numpy.asarray(a)
        b = numpy.asarray(b)
        single = b.dtype in (numpy.float32, numpy.complex64)
        if a.shape != b.shape or not numpy.allclose(
            a, b, rtol=1e-3 if single else 1e-7, atol=1e-4 if single else 1e-8, equal_nan=True
        ):
            return False
    return True


def work(folder, name, size, seconds):
    """Runs one program; rank 0 prints a line of JSON."""
    import numpy

    import skerry as sk
    import skerry.numpy as snp

    info = json.loads((folder / "bench_info" / f"{name}.json").read_text())["benchmark"]
    home = folder / "npbench" / "benchmarks" / info["relative_path"]
    sk.init()
    signal.alarm(4 * seconds)  # a rank that stands still ends the job
    numpy.random.seed(42)
    values = _arguments(home, info, size)
    path = home / f"{info['module_name']}_numpy.py"
    names, arrays = info["input_args"], set(info["array_args"])
    kernels = [getattr(_module(path, imports), info["func_name"])
               for imports in (None, "skerry.numpy")]  # fmt: skip

    def given():
        return [copy.deepcopy(values[name]) for name in names]

    def ours():
        return [snp.array(values[name]) if isinstance(values[name], numpy.ndarray)
                else copy.deepcopy(values[name]) for name in names]  # fmt: skip

    # In a context of its own NumPy has its own allocator: skerry.xp gives aligned memory.
    numpys, skerrys = contextvars.Context().run, contextvars.copy_context().run
    alone = _Way(kernels[0], given, numpys, int)
    # What the machine's memory and caches leave to ranks that all compute everything.
    beside = _Way(kernels[0], given, numpys, sk.sync)
    skerry = _Way(kernels[1], ours, skerrys, sk.sync)
    spent = 0.0
    for _ in range(TURNS):  # by turns, so that a change of the machine's speed meets all of them
        signal.alarm(3 * seconds)
        skerry.drop()  # size L leaves no memory for three
        spent += alone.turn() if sk.rank() == 0 else 0.0
        sk.sync()
        spent += beside.turn() if sk.size() > 1 else 0.0
        beside.drop()
        spent += skerry.turn()
        if sk.allreduce(spent, "max") > 16:
            break
    used = sk.allreduce(skerry.used, "max")
    kept = [at for at, name in enumerate(names) if name in arrays]
    got, result = skerry.given, skerry.result
    ours_out = [got[at].numpy() if hasattr(got[at], "numpy") else got[at] for at in kept]
    result = [r.numpy() if hasattr(r, "numpy") else r for r in _flat(result)]
    if sk.rank() == 0:
        right = _alike(ours_out, [alone.given[at] for at in kept])
        right = right and _alike(result, _flat(alone.result))
        told = {"program": name, "size": size, "numpy_s": alone.seconds,
                "skerry_s": skerry.seconds, "ratio": skerry.seconds / alone.seconds,
                "right": right, "processor_ratio": used / alone.used,
                "numpys_ratio": beside.seconds / alone.seconds
                if sk.size() > 1 else None}  # fmt: skip
        print(json.dumps(told), flush=True)
    sk.finalize()


# ---- all of them ---------------------------------------------------------------------------------


def _busy():
    """Seconds of processor time that all have taken, and that our children have."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    everybodys = sum(fields) - fields[3] - fields[4]  # but idle, and waiting for a disk
    return everybodys / os.sysconf("SC_CLK_TCK"), ours.ru_utime + ours.ru_stime


def measured(options, name, size, layout):
    """What became of one program, at best with nothing else running."""
    best = None
    for _ in range(3):
        begin, (all_before, ours_before) = time.perf_counter(), _busy()
        row = run(options, name, size, layout)
        all_after, ours_after = _busy()
        seconds = (time.perf_counter() - begin) * os.cpu_count()
        others = all_after - all_before - (ours_after - ours_before)
        row["others"] = round(max(0.0, others / seconds), 3)
        if best is None or row["others"] < best["others"]:
            best = row
        if best["others"] < MOST_OTHERS or "error" in row:
            break
    return best


def run(options, name, size, layout):
    """What became of one program, once."""
    ranks, nodes = layout.split("x")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                   "PYTHONPATH": str(ROOT / "build" / "python")}  # fmt: skip
    command = [ROOT / "build" / "bin" / "skerry", "run", "-n", ranks, "--nodes", nodes,
               sys.executable, __file__, options.folder, "--work", name,
               "--sizes", size, "--seconds", options.seconds]  # fmt: skip
    row = {"program": name, "size": size, "layout": layout}
    pipe = subprocess.PIPE
    process = subprocess.Popen(list(map(str, command)), env=environment, stdout=pipe, stderr=pipe,
                               text=True, start_new_session=True)  # fmt: skip
    try:
        out, error = process.communicate(timeout=3 * options.seconds + 15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
        return row | {"error": "too long"}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if lines:
        return row | json.loads(lines[-1])
    wrong = [line for line in error.splitlines() if "Error" in line]
    return row | {"error": (wrong or error.splitlines() or ["no word"])[-1][-200:]}


def _mean(ratios):
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def table(rows, layout, size):
    """The losers first."""
    mine = [r for r in rows if r["layout"] == layout and r["size"] == size]
    done = sorted((r for r in mine if "ratio" in r), key=lambda r: -r["ratio"])
    if not mine:
        return
    ratios = [r["ratio"] for r in done]
    mean = _mean(ratios)
    over = sum(ratio > TARGETS.get(layout, 1.6) for ratio in ratios)
    wrong = [r["program"] for r in done if not r["right"]]
    print(f"\n{layout}, size {size}: {len(done)} of {len(mine)} ended, geometric mean {mean:.2f}, "
          f"{sum(ratio <= 1.1 for ratio in ratios)} at most 1.1, "
          f"{over} above {TARGETS.get(layout, 1.6)}, "
          f"{len(wrong)} wrong {' '.join(wrong)}")  # fmt: skip
    print("  " + ", ".join(f"{r['program']} {r['ratio']:.2f}" for r in done))
    if layout != "1x1":
        mean = _mean([r["numpys_ratio"] for r in done])
        print(f"  as many NumPys at once: {mean:.2f}; " + ", ".join(
            f"{r['program']} {r['numpys_ratio']:.2f}" for r in done))  # fmt: skip
    beside = [r["program"] for r in done if r["others"] >= MOST_OTHERS]
    print(f"  beside others' work: {len(beside)} {' '.join(beside)}")
    for r in mine:
        if "error" in r:
            print(f"  {r['program']}: {r['error']}")


def picture(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    parts = sorted({(r["layout"], r["size"]) for r in rows})
    figure, axes = pyplot.subplots(len(parts), 1, figsize=(11, 3 * len(parts)), squeeze=False)
    for (layout, size), ax in zip(parts, axes[:, 0], strict=True):
        done = sorted((r for r in rows if (r["layout"], r["size"]) == (layout, size)
                       and "ratio" in r), key=lambda r: -r["ratio"])  # fmt: skip
        ax.bar([r["program"] for r in done], [r["ratio"] for r in done])
        ax.axhline(1, color="black")
        ax.set(yscale="log", ylabel="time / NumPy's", title=f"{layout} ranks x nodes, {size}")
        ax.tick_params(axis="x", labelrotation=90, labelsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.folder, options.work, options.sizes[0], options.seconds)
    if not (options.folder / "bench_info").is_dir():
        sys.exit(f"{options.folder} is no checkout of spcl/npbench: git clone it, and name it")
    names = sorted(path.stem for path in (options.folder / "bench_info").glob("*.json"))
    unknown = set(options.only) - set(names)
    if unknown:
        parser.error(f"--only {' '.join(sorted(unknown))}: no program; there are {' '.join(names)}")
    names = [name for name in names if not options.only or name in options.only]
    rows = []
    for layout in options.layouts:
        for size in options.sizes:
            for name in names:
                rows.append(measured(options, name, size, layout))
                print(json.dumps(rows[-1]), flush=True)
            table(rows, layout, size)
    OUT.mkdir(exist_ok=True)
    told = {"load": os.getloadavg()[0], "cores": os.cpu_count(), "rows": rows}
    (OUT / "npbench.json").write_text(json.dumps(told, indent=1))
    picture(rows, OUT / "npbench.png")
    return None


if __name__ == "__main__":
    main()
