#!/usr/bin/env python3
"""One program on a Slurm cluster of two hosts, which are network namespaces (root): by srun through
PMIx and PMI-2, and by the commands of PBS, which Debian has over Slurm, with mpirun.

    testbed/hosts.sh run 2 -- tests/launchers/slurm.py [--build DIR]      (make test-srun)

Ends with `N passed, N failed, N skipped`.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hpcaas" / "tests"))
from slurm_cluster import Cluster, missing  # noqa: E402

RANKS = 4
SCRIPT = """#!/bin/sh
exec mpirun.openmpi --allow-run-as-root --oversubscribe -n {ranks} {program}
"""


def compiled(build, scratch):
    out, library = scratch / "smoke", build / "src/capi"
    flags = [f"-I{ROOT}/include", f"-L{library}", "-lskerry", f"-Wl,-rpath,{library}"]
    subprocess.run(["cc", ROOT / "tests/ops/smoke.c", "-o", out, *flags], check=True)
    return out


def by_srun(cluster, kind, program):
    """What the program and srun said; None if this Slurm has no such interface."""
    types = cluster.login("srun", "--mpi=list", check=False)
    if kind not in (types.stdout + types.stderr).split():
        return None
    srun = ["srun", f"--mpi={kind}", "-N", "2", "-n", str(RANKS), "--overcommit"]
    done = cluster.login(*srun, str(program), check=False, timeout=120)
    return done.stdout + done.stderr


def by_pbs(cluster, program, scratch):
    """The same of a job script of PBS, in which mpirun asks the batch system for its hosts."""
    if not shutil.which("qsub") or not shutil.which("mpirun.openmpi"):
        return None
    script, out = scratch / "job.sh", scratch / "job.out"
    script.write_text(SCRIPT.format(ranks=RANKS, program=program))
    where = ["-l", "nodes=2:ppn=1", "-j", "oe", "-o", str(out)]
    said = cluster.login("qsub", *where, str(script), check=False)
    if said.returncode:
        return said.stdout + said.stderr
    idle = lambda: not cluster.login("squeue", "-h").stdout.strip()  # noqa: E731
    cluster.until(idle, "the job has ended", 120)
    return out.read_text() if out.exists() else "the job left no output"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    if why := missing():
        print(f"skipped srun: {why}\n0 passed, 0 failed, 1 skipped")
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory(prefix="skerry-srun-") as directory:
        scratch = Path(directory)
        program = compiled(build, scratch)
        with Cluster(2, accounting=False) as cluster:
            for name, run in (
                ("srun --mpi=pmix", lambda: by_srun(cluster, "pmix", program)),
                ("srun --mpi=pmi2", lambda: by_srun(cluster, "pmi2", program)),
                ("qsub, mpirun of OpenMPI", lambda: by_pbs(cluster, program, scratch)),
            ):
                try:
                    said = run()
                except (subprocess.TimeoutExpired, RuntimeError) as late:
                    said = str(late)
                good = said is not None and f"right on {RANKS} ranks, 2 nodes" in said
                verdict = "skipped" if said is None else "passed" if good else "failed"
                counts[verdict] += 1
                print(f"{verdict}  {name}, {RANKS} ranks on 2 hosts", flush=True)
                if not good:
                    print("not installed here" if said is None else said[-3000:])
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
