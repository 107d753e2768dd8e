"""Programs that nobody wrote for clusters, on 6 virtual nodes with clusters of 1, 2 and 3, each
without a cap on connections and with caps of 1 and 2: the DFT example, NWChem's own test
dft_siosi3 on libarmci, storms with breaks inside, and storms on 6 hosts whose connections another
process kills. Every run must be exact. A time is given as the ratio to clusters of 1 with the same
cap in the same round."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import ROOT, machine, row

sys.path.insert(0, str(ROOT / "lab" / "bench" / "armci"))
import nwchem  # noqa: E402

HOSTS = 0  # virtual nodes; chaos.py makes its own hosts
NODES = 6
SIZES = (1, 2, 3)
CAPS = (0, 1, 2)
DFT_TOLERANCE = 1e-8  # Hartree, between runs: what another order of summation may change
DFT = ("--basis", "sto-3g", "--arrays", "distributed", "--no-reference")
STORM = ("--epochs", "2", "--operations", "2000", "--seed", "1")
STORM_DROPS = 1000  # breaks per million messages
BREAKS = 15  # of a run of chaos.py
ROUNDS = {"dft": 1, "nwchem": 1, "storm": 2, "chaos": 1}  # at most
LIMIT_S = 600
NOTES = []  # what was left out, and why


class Wrong(Exception):
    """A run that ended badly or with another result."""


def settings(size, cap):
    return {"SKERRY_CLUSTER_SIZE": str(size), "SKERRY_MAX_CONN": str(cap)}


def finish(command, variables, expected=0):
    """The output of a run."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(
            command,
            env=dict(os.environ, **variables),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise Wrong(f"no end after {LIMIT_S} s") from None
    if done.returncode != expected:
        text = (done.stdout + done.stderr)[-1500:]
        raise Wrong(f"status {done.returncode} of {' '.join(command)}:\n{text}")
    return done.stdout


# Each takes (build, size, cap, what the first run found) and returns (seconds, what it found).


def dft(build, size, cap, first):
    with tempfile.TemporaryDirectory(prefix="skerry-dft-") as directory:
        path = Path(directory) / "dft.json"
        command = [build / "bin/skerry", "run", "-n", NODES, "--nodes", NODES, sys.executable]
        command += [ROOT / "examples/dft/dft.py", *DFT, "--json", path]
        more = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(build / "python")}
        finish(command, settings(size, cap) | more)
        found = json.loads(path.read_text())["distributed"]
    energy = found["energy_hartree"]
    if first is not None and abs(energy - first) > DFT_TOLERANCE:
        raise Wrong(f"energy {energy} instead of {first}")
    return found["seconds"]["total"], energy


def cache():
    home = os.environ.get("NWCHEM_CACHE")
    return Path(home) if home else Path.home() / ".cache" / "skerry-nwchem"


def siosi3(build, size, cap, _first):
    """Relinked by tools/test_nwchem.sh; it runs on the libarmci of this build."""
    os.environ |= {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "NWCHEM_BASIS_LIBRARY": f"{cache()}/source/nwchem/src/basis/libraries/",
    }
    variables = settings(size, cap) | {
        "SKERRY_NODES": str(NODES),
        "LD_LIBRARY_PATH": str(build / "lib/armci-openmpi/lib"),
    }
    program = nwchem.Program(
        "skerry",
        cache() / "nwchem.skerry",
        variables=tuple(f"{name}={value}" for name, value in variables.items()),
    )
    deck = cache() / "source/nwchem/QA/tests/dft_siosi3/dft_siosi3.nw"
    keep = cache() / "run" / f"clusters.{size}.cap_{cap}.out"
    keep.parent.mkdir(exist_ok=True)
    found = nwchem.run(program, nwchem.Place(1, NODES), deck, LIMIT_S, keep)
    if found["why"] is not None:
        raise Wrong(f"{found['why']}: see {keep}")
    return found["seconds"], found["energy"]


def storm(build, size, cap, _first):
    command = [build / "bin/skerry", "run", "-n", 2 * NODES, "--nodes", NODES]
    command += [build / "bin/tests/storm", *STORM]
    begin = time.monotonic()
    text = finish(command, settings(size, cap) | {"SKERRY_FAULTS": f"drop={STORM_DROPS},seed=1"})
    if "every sum exact" not in text:
        raise Wrong(f"the sums are not exact:\n{text[-1500:]}")
    return time.monotonic() - begin, None


def chaos(build, size, cap, _first):
    with tempfile.TemporaryDirectory(prefix="skerry-chaos-") as directory:
        path = Path(directory) / "chaos.json"
        command = [ROOT / "tests/chaos/chaos.py", "--build", build, "--out", path]
        command += ["--ways", "kill", "--hosts", NODES, "--ranks", NODES, "--cap", cap]
        command += ["--breaks", BREAKS, "--limit", LIMIT_S]
        finish(command, {"SKERRY_CLUSTER_SIZE": str(size)})
        rows = {r["name"]: r["value"] for r in json.loads(path.read_text())["rows"]}
    if not rows["chaos.kill.every_sum_exact"]:
        raise Wrong("the sums are not exact")
    return rows["chaos.kill.time"], None


JOBS = {"dft": dft, "nwchem": siosi3, "storm": storm, "chaos": chaos}


def why_not(job, build):
    """Why a job cannot run here; empty: it can."""
    if job == "nwchem" and not (cache() / "nwchem.skerry").exists():
        return f"no {cache()}/nwchem.skerry: tools/test_nwchem.sh makes it"
    if job == "nwchem" and not (build / "lib/armci-openmpi/lib").exists():
        return f"no {build}/lib/armci-openmpi: build with OpenMPI's development package"
    if job == "chaos" and os.geteuid() != 0:
        return "network namespaces need root"
    return ""


def measure(job, build, rounds):
    """({(size, cap): [seconds by round; None: wrong]}, [what was wrong])"""
    taken = {(size, cap): [] for cap in CAPS for size in SIZES}
    wrong, first = [], None
    for number in range(rounds):
        for (size, cap), seconds in taken.items():
            try:
                found, result = JOBS[job](build, size, cap, first)
                first = result if first is None else first
            except Wrong as why:
                found = None
                wrong.append(f"size {size}, cap {cap}: {why}")
                print(f"bench-clusters: {job}, {wrong[-1]}", flush=True)
            seconds.append(found)
            print(
                f"bench-clusters: {job}, round {number + 1} of {rounds}, size {size}, "
                f"cap {cap or 'none'}: {'WRONG' if found is None else f'{found:.1f} s'}, "
                f"load {machine.load():.1f}",
                flush=True,
            )
    return taken, wrong


def job_rows(job, taken, wrong, rounds):
    runs = sum(len(seconds) for seconds in taken.values())
    rows = [row(f"clusters.{job}.wrong", len(wrong), "runs", target=0, runs=runs, why=wrong)]
    for (size, cap), seconds in taken.items():
        pairs = [(s, b) for s, b in zip(seconds, taken[(1, cap)]) if s is not None and b]
        if not pairs:
            continue
        ratios = sorted(s / b for s, b in pairs)
        rows.append(
            row(
                f"clusters.{job}.cap_{cap or 'none'}.size_{size}",
                statistics.median(ratios),
                "times clusters of 1",
                1.0,
                "clusters of 1, same cap and round",
                spread=[ratios[0], statistics.median(ratios), ratios[-1]],
                measured_s=statistics.median(s for s, _ in pairs),
                rounds=rounds,
                load=machine.load(),
            )
        )
    return rows


def rows(options):
    found = []
    build = options.build.resolve()
    for job in JOBS:
        if why := why_not(job, build):
            NOTES.append(f"jobs: {job} is not run: {why}")
            continue
        rounds = min(options.rounds, ROUNDS[job])
        begin = time.monotonic()
        found += job_rows(job, *measure(job, build, rounds), rounds)
        print(f"bench-clusters: {job} took {time.monotonic() - begin:.0f} s", flush=True)
    return found
