#!/usr/bin/env python3
"""What going on without the dead costs, and how soon a job works again: out/going_on.json.

    lab/bench/going_on/bench.py [--rows protect,lost,dft,ulfm] [--mib N] [--mpirun FILE]

protect  an array of which one per cent changed, beside comparing it in memory and sending that
lost     (root) a host of 4, with 16 ranks, is killed: noticed, first step done
dft      the DFT example on 4 ranks and 2 nodes, protected in each iteration, beside the plain one
ulfm     from a rank's death to the first good allreduce, beside OpenMPI's with ULFM: `--mpirun` of
         an OpenMPI 5, in whose folder is a python with mpi4py

All runs take turns, the median counts; the load is printed. A missed target is no failure.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path += [str(ROOT / "tests" / "chaos"), str(ROOT / "lab" / "bench" / "micro")]

import stage  # noqa: E402

LEASE_MS = 1000


def median(values):
    return sorted(values)[len(values) // 2]


def environment(options):
    return dict(os.environ, PYTHONPATH=str(options.build / "python"), OMP_NUM_THREADS="1")


def run(options, *command):
    done = subprocess.run(
        [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env=environment(options), timeout=300,
    )  # fmt: skip
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
    return done.stdout


def skerry(options, ranks, nodes, *program):
    launcher = options.build / "bin/skerry"
    words = [launcher, "run", "-n", ranks, "--nodes", nodes, sys.executable, *program]
    return run(options, *words)


def protect(options):
    text = skerry(options, 4, 2, HERE / "protect.py", options.mib)
    found = re.search(r"protect ([\d.]+) compare ([\d.]+) send ([\d.]+) moved (\d+)", text)
    whole, compare, send = (float(found[i]) for i in (1, 2, 3))
    name = f"protect {options.mib} MiB, 1 % changed"
    ratio = whole / (compare + send)
    return [
        stage.row(name, whole, "s"),
        stage.row(f"{name}: comparison in memory", compare, "s"),
        stage.row(f"{name}: changed bytes on the link", send, "s"),
        stage.row(f"{name}, beside both", ratio, "x", "<= 2", ratio <= 2),
    ]


def lost(options):
    where = ",".join(f"sk{host}:4" for host in range(1, 5))
    command = [
        stage.HOSTS, "exec", "sk0", options.build / "bin/skerry", "run", "--hosts", where,
        "--agent", os.environ["TESTBED_AGENT"], "--lease", LEASE_MS,
        "--env", f"PYTHONPATH={options.build / 'python'}", "--env", "OMP_NUM_THREADS=1",
        sys.executable, HERE / "steps.py",
    ]  # fmt: skip
    job = subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    died = noticed = 0.0
    rows = []
    for line in job.stdout:
        if line.startswith("at work") and not died:
            inside = ["nsenter", "-t", stage.holder(4)]
            subprocess.run([*inside, "--net", "ip", "link", "set", "eth0", "down"], check=True)
            died = time.time()
            subprocess.run([*inside, "--pid", "--mount", "/bin/sh", "-c", "kill -KILL -1"])
        elif "the job goes on" in line and not noticed:
            noticed = time.time()
        elif found := re.match(r"first step done at ([\d.]+) recovered ([\d.]+)", line):
            name = "host of 4 lost, 16 ranks"
            first = float(found[1]) - noticed
            rows = [
                stage.row(f"{name}: noticed (lease {LEASE_MS} ms)", noticed - died, "s"),
                stage.row(f"{name}: recovered", float(found[2]), "s"),
                stage.row(f"{name}: noticed to first step done", first, "s", "<= 2", first <= 2),
            ]
        else:
            print(line, end="", file=sys.stderr)
    if job.wait() != 0 or not rows:
        sys.exit("bench.py: the job that lost a host did not end well")
    return rows


def dft(options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="skerry-going-on-"))
    example = ROOT / "examples/dft"
    seconds = {"plain": [], "protected": []}
    for _ in range(options.turns):
        for name, more in (("plain", []), ("protected", ["--go-on"])):
            results = folder / f"{name}.json"
            words = ["--arrays", "mirrored", "--no-reference", "--json", results, *more]
            skerry(options, 4, 2, example / "dft.py", *words)
            found = json.loads(results.read_text())["mirrored"]
            seconds[name].append(found["seconds"]["total"] / found["matrices"])
    plain, protected = (median(seconds[name]) for name in ("plain", "protected"))
    ratio = protected / plain
    return [
        stage.row("DFT, an iteration, plain", plain, "s"),
        stage.row("DFT, an iteration, protected", protected, "s"),
        stage.row("DFT, protected beside plain", ratio, "x", "<= 1.05", ratio <= 1.05),
    ]


def ulfm(options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="skerry-going-on-"))
    rows = []

    def again(name, text):
        found = re.search(r"good again after ([\d.]+) s", text)
        rows.append((name, float(found[1]) if found else None))

    for turn in range(options.turns):
        text = skerry(options, 4, 1, HERE / "good_again.py", "ours", folder / f"ours{turn}")
        again("Skerry", text)
        if options.mpirun:
            words = ["--with-ft", "ulfm", "--oversubscribe", "-n", 4]
            python = options.mpirun.parent / "python"
            program = [python, HERE / "good_again.py", "ulfm", folder / f"ulfm{turn}"]
            again("OpenMPI 5, ULFM", run(options, options.mpirun, *words, *program))
    out = []
    for name in dict.fromkeys(name for name, _ in rows):
        values = [value for each, value in rows if each == name and value is not None]
        if values:
            label = f"rank of 4 killed, first good allreduce: {name}"
            out.append(stage.row(label, median(values), "s"))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", default="protect,lost,dft,ulfm")
    parser.add_argument("--mib", type=int, default=1024, help="protected (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--mpirun", type=pathlib.Path, help="of an OpenMPI 5 with ULFM")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "going_on.json")
    options = parser.parse_args()
    options.build = options.build.resolve()
    wanted = options.rows.split(",")
    if "lost" in wanted:
        stage.enter_testbed(4)
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    rows = []
    for name in wanted:
        found = {"protect": protect, "lost": lost, "dft": dft, "ulfm": ulfm}[name](options)
        for each in found:
            met = "" if each["met"] is None else f" ({each['target']}: {each['met']})"
            print(f"{each['name']}: {each['value']:.4f} {each['unit']}{met}", flush=True)
        rows += found
    options.out.parent.mkdir(parents=True, exist_ok=True)
    stage.save(options.out, rows, [], "nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
