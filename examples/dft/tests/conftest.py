"""Makes the example's modules importable, and starts jobs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(EXAMPLE))
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def run_job(tmp_path):
    """run_job(program, words, ranks=, nodes=): (finished process, results or None)."""
    import launch

    def run(words, program="dft.py", ranks=2, nodes=1, timeout=120):
        results = tmp_path / "results.json"
        results.unlink(missing_ok=True)
        command = [
            *launch.launcher(),
            "run",
            "-n",
            str(ranks),
            "--nodes",
            str(nodes),
            sys.executable,
            str(EXAMPLE / program),
        ]
        done = subprocess.run(
            [*command, *map(str, words), "--json", str(results)],
            env=launch.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
        )
        return done, json.loads(results.read_text()) if results.exists() else None

    return run


@pytest.fixture(scope="session")
def water_reference(tmp_path_factory):
    return reference_of("water", tmp_path_factory)


@pytest.fixture(scope="session")
def disiloxane_reference(tmp_path_factory):
    return reference_of("disiloxane", tmp_path_factory)


def reference_of(name, tmp_path_factory):
    """File with PySCF's own energy of molecules/`name`.xyz in STO-3G, computed once per test run."""
    import argparse

    import reference

    path = tmp_path_factory.mktemp("reference") / f"{name}.json"
    arguments = argparse.Namespace(
        xyz=EXAMPLE / "molecules" / f"{name}.xyz", basis="STO-3G", xc="lda,vwn", level=1
    )
    reference.in_own_process(arguments, path)
    return path
