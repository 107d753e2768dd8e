"""Ranks that are interrupted (SIGINT) in a loop of skerry.xp. Started by a pytest outside jobs."""

import pytest
from test_as_jobs import run

LOOP = """
import os, signal, sys
import numpy
import skerry as sk
import skerry.xp as xp
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of what a shell starts with &
    signal.signal(signal.SIGINT, signal.default_int_handler)
sk.init()
xp.options(whole_bytes=0)
x = xp.asarray(numpy.ones(1000))
what, *ranks = sys.argv[1:]
turn = 0
try:
    while True:
        assert float(xp.sum(x)) == 1000
        turn += 1
        if turn == 100 and str(sk.rank()) in ranks:
            os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    exec(what)
"""


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("raise", "rank 1"),
        ("pass", "rank 1 leaves the job"),
        ("sk.finalize()", "rank 1 leaves the job"),
        ("print(float(xp.max(x + 1.0)))", "rank 1 was interrupted"),
        ("while True: float(xp.sum(x))", "rank 1 was interrupted"),
    ],
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_job_ends_and_names_the_rank(what, words, nodes, tmp_path):
    """What the rank called next met calls of the others: they had other values, in silence."""
    program = tmp_path / "program.py"
    program.write_text(LOOP)
    job = run(3, nodes, program, what, 1)
    assert job.returncode != 0 and words in job.stdout, job.stdout


@pytest.mark.parametrize("what", ["pass", "sk.finalize()"])
def test_ranks_that_were_all_interrupted_leave_together(what, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(LOOP)
    job = run(3, 2, program, what, 0, 1, 2)
    assert job.returncode == 0, job.stdout


def test_a_handler_of_the_programs_own_stays(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import signal\nsignal.signal(signal.SIGINT, lambda *_: None)\n"
        + LOOP.replace("while True", "while turn < 200")
    )
    job = run(3, 2, program, "pass", 1)
    assert job.returncode == 0, job.stdout
