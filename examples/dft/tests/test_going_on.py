"""The calculation goes on without ranks that die, to the same energy, in few lines more."""

import json

import pytest

from conftest import EXAMPLE

WATER = ["--xyz", EXAMPLE / "molecules" / "water.xyz", "--basis", "STO-3G"]


@pytest.mark.parametrize(
    "killed, arrays", [("2", "both"), ("0", "distributed"), ("1,3", "mirrored")]
)
def test_whoever_dies_the_energy_is_that_of_pyscf(
    run_job, water_reference, monkeypatch, killed, arrays
):
    monkeypatch.setenv("KILLED", killed)
    words = [*WATER, "--reference", water_reference, "--go-on", "--arrays", arrays]
    ranks = 4 if "," not in killed else 5
    done, results = run_job(words, program="tests/killed.py", ranks=ranks, nodes=ranks)
    assert done.returncode == 0, done.stdout
    expected = json.loads(water_reference.read_text())["reference_hartree"]
    for mode in ("distributed", "mirrored") if arrays == "both" else (arrays,):
        assert results[mode]["energy_hartree"] == pytest.approx(expected, abs=1e-8, rel=0)
    assert results["ranks"] == ranks - len(killed.split(",")), done.stdout
    assert done.stdout.count("the job goes on") == len(killed.split(",")), done.stdout


def test_it_takes_few_lines_more():
    own = (EXAMPLE / "going_on.py").read_text().split('"""\n')[1].splitlines()
    plain = (EXAMPLE / "dft.py").read_text().splitlines()
    more = [line for line in own if line]
    added = ("import going_on", '"--go-on"', ".over(")  # two other lines are not as they would be
    more += [line for line in plain if any(word in line for word in added)]
    assert len(more) <= 15, more
