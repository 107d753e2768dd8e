"""The other tests here, and the examples, as jobs of several ranks and nodes. Started by a pytest that is itself no such job."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skerry as sk

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = Path(sk.__file__).parent / "bin" / "skerry"
LAYOUTS = [(2, 1), (2, 2), (3, 2), (4, 2), (4, 4), (8, 4)]

pytestmark = pytest.mark.skipif(
    sk.size() > 1 or "SKERRY_RANK" in os.environ, reason="already inside a job"
)


def run(ranks, nodes, *program):
    command = [
        LAUNCHER,
        "run",
        "-n",
        str(ranks),
        "--nodes",
        str(nodes),
        sys.executable,
        *map(str, program),
    ]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180
    )


@pytest.mark.parametrize(("ranks", "nodes"), LAYOUTS)
@pytest.mark.parametrize("module", ["test_arrays.py", "test_job.py", "test_windows.py"])
def test_module(module, ranks, nodes):
    job = run(
        ranks,
        nodes,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        Path(__file__).with_name(module),
    )
    assert job.returncode == 0, job.stdout[-4000:]
    assert job.stdout.count(" passed") == ranks, job.stdout[-4000:]


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples" / "python").glob("*.py")), ids=lambda path: path.stem
)
def test_example(example):
    job = run(4, 2, example)
    assert job.returncode == 0, job.stdout


@pytest.mark.parametrize("example", ["hash_table", "work_stealing", "ring"])
def test_help_of_an_example(example):
    told = subprocess.run(
        [sys.executable, ROOT / "examples" / "python" / f"{example}.py", "--help"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert told.returncode == 0 and "skerry run" in told.stdout and "--" in told.stdout


LEAVES = """
import sys
import skerry as sk
sk.init()
if sk.rank() == 1:
    {how}
{others}
"""


@pytest.mark.parametrize(
    "how",
    ["raise ValueError('bad')", "sys.exit('bad input')", "sys.exit(3)", "sk.zeros((3, 3))[5]"],
)
def test_a_rank_that_fails_ends_the_job(how, tmp_path):
    """Finalizing at exit waits for the other ranks, which wait for the rank that failed. It must not happen after an error."""
    program = tmp_path / "program.py"
    program.write_text(
        LEAVES.format(
            how=how, others="elif 'zeros' in sys.argv[1]:\n    sk.zeros((3, 3))\nsk.barrier()"
        )
    )
    job = run(3, 1, program, how)
    assert job.returncode != 0
    assert "rank 1" in job.stdout


@pytest.mark.parametrize("how", ["sys.exit(0)", "sys.exit()", "pass"])
def test_a_rank_that_ends_well_needs_no_finalize(how, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(LEAVES.format(how=how, others=""))
    job = run(3, 2, program)
    assert job.returncode == 0, job.stdout


def test_command_of_the_package():
    told = subprocess.run(
        [sys.executable, "-m", "skerry", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert told.returncode == 0 and "run" in told.stdout


CONTENDED = """
import numpy as np
import skerry as sk
sk.init()
mutexes, total = sk.Mutexes(1), sk.zeros((1,), dtype=np.int64)
total.fill(0)
sk.barrier()
for _ in range(30):
    mutexes.lock(0, 0)
    value = total[0:1]
    total[0:1] = value + 1
    sk.fence()
    mutexes.unlock(0, 0)
sk.barrier()
assert total[0:1][0] == 30 * sk.size(), total[0:1]
sk.barrier()
if sk.rank() == 0:
    counters = sk.counters()
    assert counters["server_connections_peak"] == 1, counters
    assert counters["server_connections_dropped"] > 0, counters
    assert counters["grants_relayed"] > 0, counters
"""


def test_data_servers_limit_their_connections(monkeypatch, tmp_path):
    """With one place at the server the waiters' connections make way for each other: grants reach them through the server of their node."""
    monkeypatch.setenv("SKERRY_SERVER_MAX_CONN", "1")
    program = tmp_path / "program.py"
    program.write_text(CONTENDED)
    job = run(4, 4, program)
    assert job.returncode == 0, job.stdout


EPOCHS = """
import skerry as sk
sk.init(threads="serialized")
w, far, epochs = sk.window(2, "int64"), sk.size() - 1, 100

def requests():
    sk.sync()
    return int(sk.allreduce(sk.counters().get("server_requests", 0)))

before = requests()
of_asking = requests() - before
if sk.rank() == 0:
    for i in range(epochs):
        with w.lock(far):
            if i % 2:
                w.put(far, 0, i)
            else:
                w.update(far, 1, 1)
of_epochs = requests() - before - 2 * of_asking
assert of_epochs < 1.5 * epochs, of_epochs
if sk.rank() == far:
    assert w.local.tolist() == [epochs - 1, epochs // 2]
w.free()
"""


def test_an_epoch_of_one_put_is_one_request(tmp_path):
    """put waits for a handle, and once made three requests of it."""
    program = tmp_path / "program.py"
    program.write_text(EPOCHS)
    job = run(2, 2, program)
    assert job.returncode == 0, job.stdout


HOLDER_DIES = """
import os, signal
import skerry as sk
sk.init(on_failure="raise")
w, last = sk.window(1, "int64"), sk.size() - 1
if sk.rank() == last:
    w.lock(0)
    w.get(0, 0)
sk.barrier()
if sk.rank() == last:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    w.lock(0)
    w.get(0, 0)
    print("granted")
except sk.Error as error:
    print("told", type(error).__name__, f"rank {last} " in str(error), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(("ranks", "nodes"), [(3, 1), (3, 3)])
def test_waiters_learn_which_holder_died(ranks, nodes, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(HOLDER_DIES)
    job = run(ranks, nodes, program)
    assert job.stdout.count("told PeerDeadError True") == ranks - 1, job.stdout
