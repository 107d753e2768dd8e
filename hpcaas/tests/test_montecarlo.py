"""The Monte-Carlo code: right price, right points, and the same price however the work is split."""

import json
import os
import subprocess

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

from hpcaas.apps.base import Unreadable
from hpcaas.apps.montecarlo_app import MonteCarlo
from hpcaas.model import Configuration


def price(program, threads=1, **options):
    args = [str(program)] + [
        part for name, value in options.items() for part in (f"--{name}", str(value))
    ]
    done = subprocess.run(
        args,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    return json.loads(done.stdout)


def black_scholes_put(s=30.0, k=40.0, r=0.06, sigma=0.2, t=1.0):
    d1 = (np.log(s / k) + (r + sigma**2 / 2) * t) / (sigma * np.sqrt(t))
    return k * np.exp(-r * t) * stats.norm.cdf(sigma * np.sqrt(t) - d1) - s * stats.norm.cdf(-d1)


def test_the_closed_form_is_black_scholes(montecarlo):
    assert price(montecarlo, paths=2048)["black_scholes"] == pytest.approx(
        black_scholes_put(), abs=1e-12
    )
    assert black_scholes_put() == pytest.approx(8.096558, abs=1e-6)


@pytest.mark.parametrize("paths", [65536, 200000])
def test_the_price_is_within_three_standard_errors(montecarlo, paths):
    out = price(montecarlo, paths=paths)
    assert abs(out["price"] - out["black_scholes"]) <= 3 * out["error"]
    assert abs(out["asian"] - out["asian_exact"]) <= 3 * out["asian_error"]
    assert out["error"] < 5e-3


def test_the_error_bar_is_honest_over_seeds(montecarlo):
    """Standard scores over independent shifts must look like Student's t: a bar that is too small would show as a large spread."""
    scores = [
        (o["price"] - o["black_scholes"]) / o["error"]
        for o in (price(montecarlo, paths=16384, steps=16, seed=s) for s in range(1, 25))
    ]
    assert np.sqrt(np.mean(np.square(scores))) < 1.7
    assert np.sqrt(np.mean(np.square(scores))) > 0.5


def test_threads_do_not_change_a_bit(montecarlo):
    one = price(montecarlo, threads=1, paths=70000)
    for threads in (2, 3, 5):
        other = price(montecarlo, threads=threads, paths=70000)
        assert (other["price"], other["error"], other["asian"]) == (
            one["price"],
            one["error"],
            one["asian"],
        )


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_ranks_do_not_change_a_bit(montecarlo, tools, tmp_path, mpi):
    if mpi not in tools.mpis or not tools.mpis[mpi].mpicxx:
        pytest.skip(f"{mpi} is not installed")
    app, installed = MonteCarlo(), tools.mpis[mpi]
    config = Configuration(
        app="montecarlo",
        size="tiny",
        ranks=2,
        compiler="gcc",
        optimisation="O1",
        target="native",
        mpi=mpi,
    )
    build = app.build(config, tools.context(config))
    subprocess.run(
        build.commands[0], shell=True, check=True, cwd=tmp_path, env={**os.environ, **build.env}
    )
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    seen = set()
    for ranks in (1, 2, 3):
        extra = ["--oversubscribe"] if mpi == "openmpi" else []
        done = subprocess.run(
            [
                installed.mpirun,
                *extra,
                "-n",
                str(ranks),
                str(tmp_path / "hpcaas_montecarlo"),
                "--paths",
                "32768",
                "--steps",
                "50",
            ],
            capture_output=True,
            text=True,
            check=True,
            env=env,
            timeout=60,
        )
        out = json.loads(done.stdout)
        assert out["ranks"] == ranks
        seen.add((out["price"], out["error"], out["asian"]))
    assert len(seen) == 1
    # Another optimisation level may round differently, in the last bits only.
    alone = price(montecarlo, paths=32768, steps=50)
    assert next(iter(seen)) == pytest.approx(
        (alone["price"], alone["error"], alone["asian"]), rel=1e-9
    )


def test_points_are_those_of_scipy(montecarlo):
    out = subprocess.run(
        [str(montecarlo), "--dump-sobol", "512", "512"], capture_output=True, text=True, check=True
    ).stdout
    ours = np.array([[int(x) for x in line.split()] for line in out.splitlines()])
    theirs = np.rint(qmc.Sobol(512, scramble=False, bits=32).random(512) * 2**32).astype(np.int64)
    assert (ours == theirs).all()


@pytest.mark.parametrize(
    "args",
    [
        ["--steps", "1"],
        ["--steps", "9999"],
        ["--paths", "x"],
        ["--paths"],
        ["--nonsense"],
        ["--shifts", "1"],
        ["--paths", "3"],
    ],
)
def test_bad_arguments_end_with_a_message(montecarlo, args):
    done = subprocess.run([str(montecarlo), *args], capture_output=True, text=True)
    assert done.returncode == 2 and "hpcaas_montecarlo:" in done.stderr


LINE = (
    '{"program": "hpcaas_montecarlo", "paths": 1, "steps": 2, "shifts": 2, "price": %s, "error": 0.1, "black_scholes": 8.0, "asian": 1.0, '
    '"asian_error": 0.1, "asian_exact": 1.0, "seconds": 1.0, "paths_per_s": 1.0, "ranks": %d, "threads": 1, "mpi": "none"}\n'
)


def test_a_price_that_is_off_is_a_wrong_result(tmp_path):
    config = Configuration(app="montecarlo", size="tiny")
    assert MonteCarlo().read(LINE % (8.2, 1), tmp_path, config).wrong == ""
    assert "standard errors" in MonteCarlo().read(LINE % (8.4, 1), tmp_path, config).wrong
    assert "standard errors" in MonteCarlo().read(LINE % ("NaN", 1), tmp_path, config).wrong
    assert "ran 2 ranks" in MonteCarlo().read(LINE % (8.0, 2), tmp_path, config).wrong


def test_ranks_that_did_not_find_each_other_are_no_result(tmp_path):
    """Bug guarded against: mpirun of one MPI with a program of another starts N single ranks, each printing a perfect price."""
    with pytest.raises(Unreadable, match="did not find each other"):
        MonteCarlo().read(
            LINE % (8.0, 1) * 2, tmp_path, Configuration(app="montecarlo", size="tiny", ranks=2)
        )
