#!/usr/bin/env python3
"""Other projects' programs and libraries on our arrays: make test-array-libraries.

    tests/array_api/libraries.py [--ranks 4] [--nodes 2] [programs estimators xarray files ...]

programs: cuPyNumeric's examples, unchanged, from the folder CUPYNUMERIC or cloned by name.
estimators: scikit-learn's PCA and Ridge. xarray: its tests of the array API, as it ships them.
notebook: sk.Cluster by ipyparallel. files: what sk.save wrote, read by zarr and Dask, on other
numbers of ranks, and after a kill.
The libraries are installed into a venv of their own, out/libraries-venv. What cannot be had is a
skip, with the reason. Writes out/array_libraries.json: rows with name, value, target, met.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers
from peers import OUT

HERE = Path(__file__).resolve().parent
CUPYNUMERIC = "https://github.com/nv-legate/cupynumeric"
PACKAGES = ["numpy", "scipy", "scikit-learn", "xarray", "dask", "zarr>=3", "pytest", "ipyparallel"]
IMPORTS = ["scipy", "sklearn", "xarray", "dask.array", "zarr", "pytest", "ipyparallel"]
ENVIRONMENT = peers.environment(HERE, SCIPY_ARRAY_API="1")


def row(name, value, target, met):
    print(f"{'met ' if met else 'MISS'}  {name}: {value}", flush=True)
    return {"name": name, "value": value, "target": target, "met": bool(met)}


def job(ranks, nodes, *command):
    """The output of a job, and its error if it failed."""
    command = list(map(str, [*peers.ranks(ranks, nodes), *command]))
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=1800)
    return done.stdout, (done.stdout + done.stderr)[-600:] if done.returncode else None


def told(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"name"')]


def programs(python, options):
    """cuPyNumeric's programs."""
    folder = peers.cloned("cupynumeric", CUPYNUMERIC, "CUPYNUMERIC") / "examples"
    script = HERE / "programs.py"
    output, error = job(options.ranks, options.nodes, python, script, folder)
    found = told(output)
    if error:
        return [row("cuPyNumeric's programs", error, "the job ends", False)]
    rows = []
    for program in found:
        value = program.get("error", program.get("reason"))
        rows.append(row(f"cuPyNumeric's {program['name']}", value, "<= 1e-10 from NumPy's",
                        isinstance(value, float) and value <= 1e-10))  # fmt: skip
    count = sum(line["met"] for line in rows)
    return [row("cuPyNumeric's programs that agree", count, "at least 8 of 9", count >= 8), *rows]


def estimators(python, options):
    """scikit-learn's estimators."""
    output, error = job(
        options.ranks, options.nodes, python, "-W", "ignore", HERE / "estimators.py"
    )
    if error:
        return [row("scikit-learn", error, "the job ends", False)]
    return [
        row(f"scikit-learn's {line['name']}",
            f"{line['error']:.1e}, {line['gathers']} gathers, {line['bytes_read']} bytes",
            "<= 1e-8 from NumPy's, no gather", line["error"] <= 1e-8 and not line["gathers"])
        for line in told(output)
    ]  # fmt: skip


def xarray(python, options):
    """xarray's own tests, their module swapped."""
    test = "xarray.tests.test_array_api"
    output, error = job(
        options.ranks, options.nodes, python, "-m", "pytest", "-q", "-p", "swapped", "-W", "ignore",
        "-p", "no:cacheprovider", "--pyargs", test,
    )  # fmt: skip
    ends = [line for line in output.splitlines() if " passed in " in line]
    met = not error and len(ends) == options.ranks
    return [row(test, error or ends[0], "all pass, no gather but the tests' own", met)]


def files(python, options):
    """Saving on 4 ranks, loading on others, and a kill in the middle."""
    folder = Path(tempfile.mkdtemp(prefix="skerry-saved-", dir=OUT))
    path, script, rows = folder / "x.zarr", HERE / "files.py", []
    try:
        for name, ranks, what in (("saved on 4 ranks", 4, "save"), ("loaded on 1", 1, "check"),
                                  ("loaded on 3", 3, "check")):  # fmt: skip
            error = job(ranks, 1, python, script, what, path, 1)[1]
            rows.append(row(f"4096^2 {name}", error or "bit-equal", "bit-equal", not error))
        rows.append(_readable("read by zarr-python and Dask", python, path))
        killed = _killed_saving(python, path)
        rows.append(_readable(f"the previous file after {killed}", python, path))
        error = job(4, 1, python, script, "save", path, 2)[1]
        left = [p.name for p in folder.iterdir() if p != path]
        rows.append(row("the next save", error or f"left over: {left}", "nothing left over",
                        not error and not left))  # fmt: skip
    finally:
        shutil.rmtree(folder)
    return rows


def _readable(name, python, path):
    command = [python, HERE / "files.py", "read", path, "1"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    return row(name, done.stderr[-300:] or "bit-equal", "bit-equal", not done.returncode)


def _killed_saving(python, path):
    """Kills all processes of a job that has written some chunks; says how many."""
    command = [*peers.ranks(4), python, HERE / "files.py", "save", path, "3"]
    saving = path.parent / f".{path.name}.saving"
    running = subprocess.Popen(list(map(str, command)), env=ENVIRONMENT, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    chunks = 0
    while running.poll() is None and not chunks:
        chunks = sum(p.is_file() and p.name != "zarr.json" for p in saving.rglob("*"))
        time.sleep(0.001)
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    chunks = sum(p.is_file() and p.name != "zarr.json" for p in saving.rglob("*"))
    if not chunks:
        raise RuntimeError("the job was done before it could be killed in the middle")
    return f"a kill with {chunks} chunks written"


def notebook(python, options):
    """Ranks by ipyparallel."""
    command = [python, HERE / "notebook.py", str(options.ranks), str(options.nodes)]
    done = subprocess.run(list(map(str, command)), env=ENVIRONMENT, capture_output=True, text=True,
                          timeout=300, cwd=OUT)  # fmt: skip
    if done.returncode:
        return [row("sk.Cluster", (done.stdout + done.stderr)[-600:], "works", False)]
    found = told(done.stdout)[0]
    alike = len(found["totals"]) == options.ranks and len(set(found["totals"])) == 1
    value = f"{len(found['totals'])} ranks, left over: {found['left']}"
    return [row("sk.Cluster", value, "engine i is rank i, nothing left over",
                alike and not found["left"])]  # fmt: skip


PARTS = {part.__name__: part for part in (programs, estimators, xarray, files, notebook)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default=4, type=int)
    parser.add_argument("--nodes", default=2, type=int)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    rows, parts = [], options.parts or list(PARTS)
    try:
        python = peers.interpreter("libraries-venv", PACKAGES, IMPORTS)
    except peers.Unavailable as reason:
        print(f"skipped: {' '.join(parts)}: {reason}", flush=True)
        parts = []
    for name in parts:
        try:
            rows += PARTS[name](python, options)
        except peers.Unavailable as reason:
            print(f"skipped: {name}: {reason}", flush=True)
    (OUT / "array_libraries.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(not all(line["met"] for line in rows))


if __name__ == "__main__":
    main()
