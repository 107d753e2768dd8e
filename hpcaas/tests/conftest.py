"""Shared fixtures. Nothing here needs the network; what needs an installed MPI or compiler says so
and skips."""

import atexit
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from hpcaas.apps import registry
from hpcaas.machine import describe, read_topology
from hpcaas.tools import Tools
from hpcaas.toolchain import find_compilers, find_mpis


# One measurement at a time on a machine: the lock is a file of the temporary directory, and workers
# that run side by side must not take each other's.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="hpcaas-tests-")
    atexit.register(shutil.rmtree, os.environ["TMPDIR"], ignore_errors=True)

# How long an example takes says nothing: other work may have the machine.
settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools({}, registry(), find_compilers(), find_mpis())


@pytest.fixture(scope="session")
def profile() -> dict:
    return {**describe(), "nodes_available": 1, "filesystems": []}


@pytest.fixture(scope="session")
def topology():
    return read_topology()


@pytest.fixture(scope="session")
def montecarlo(tmp_path_factory) -> Path:
    """Our own code, built once without MPI."""
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    directory = tmp_path_factory.mktemp("montecarlo")
    sources = sorted((Path(__file__).parents[1] / "hpcaas/apps/montecarlo").glob("*.cpp"))
    program = directory / "hpcaas_montecarlo"
    subprocess.run(
        [
            "g++",
            "-std=c++20",
            "-O3",
            "-march=native",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Wshadow",
            "-Wconversion",
            "-Werror",
            "-fopenmp",
            *map(str, sources),
            "-o",
            str(program),
        ],
        check=True,
    )
    return program
