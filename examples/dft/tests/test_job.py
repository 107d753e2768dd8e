"""The whole example as jobs of several ranks and virtual nodes, on small molecules in STO-3G."""

import json

import pytest

from conftest import EXAMPLE

WATER = ["--xyz", EXAMPLE / "molecules" / "water.xyz", "--basis", "STO-3G"]
DISILOXANE = ["--xyz", EXAMPLE / "molecules" / "disiloxane.xyz", "--basis", "STO-3G"]
SECONDS = {"get", "compute", "acc", "merge", "total"}


@pytest.mark.parametrize("ranks, nodes", [(1, 1), (2, 2), (3, 2), (4, 1)])
def test_both_modes_find_the_energy_of_pyscf(run_job, water_reference, ranks, nodes):
    done, results = run_job([*WATER, "--reference", water_reference], ranks=ranks, nodes=nodes)
    assert done.returncode == 0, done.stdout
    expected = json.loads(water_reference.read_text())["reference_hartree"]
    for mode in ("distributed", "mirrored"):
        assert results[mode]["energy_hartree"] == pytest.approx(expected, abs=1e-8, rel=0)
    assert results["ranks"] == ranks and results["nodes"] == nodes


def test_results_have_what_is_promised_and_mirroring_crosses_nodes_less(
    run_job, disiloxane_reference
):
    done, results = run_job([*DISILOXANE, "--reference", disiloxane_reference], ranks=4, nodes=2)
    assert done.returncode == 0, done.stdout
    assert (
        results["reference_hartree"]
        == json.loads(disiloxane_reference.read_text())["reference_hartree"]
    )
    for mode in ("distributed", "mirrored"):
        found = results[mode]
        assert found["energy_hartree"] == pytest.approx(
            results["reference_hartree"], abs=1e-8, rel=0
        )
        assert SECONDS <= found["seconds"].keys()
        assert (
            found["iterations"] > 3
            and found["bytes_between_nodes"] > 0
            and found["operations_between_nodes"] > 0
        )
    far, near = (results[mode]["steps_1_to_6"] for mode in ("distributed", "mirrored"))
    assert near["bytes_between_nodes"] < 0.5 * far["bytes_between_nodes"]
    assert near["operations_between_nodes"] < 0.5 * far["operations_between_nodes"]


def test_one_node_has_no_traffic_between_nodes(run_job):
    done, results = run_job([*WATER, "--arrays", "distributed", "--no-reference"], ranks=2, nodes=1)
    assert done.returncode == 0, done.stdout
    assert (
        results["distributed"]["operations_between_nodes"]
        == results["distributed"]["bytes_between_nodes"]
        == 0
    )
    assert "mirrored" not in results and results["reference_hartree"] is None


@pytest.mark.parametrize("arrays", ["distributed", "mirrored"])
def test_a_spoiled_block_of_the_density_changes_the_energy(run_job, water_reference, arrays):
    """Guards against a comparison that would agree with any contents of the arrays."""
    words = [*WATER, "--arrays", arrays, "--reference", water_reference]
    done, results = run_job(words, program="tests/spoiled.py", ranks=2, nodes=2)
    assert abs(results[arrays]["energy_hartree"] - results["reference_hartree"]) > 1e-3
    assert done.returncode == 1 and "DIFFERS" in done.stdout


def test_the_figure_is_drawn(run_job, tmp_path):
    import report

    done, results = run_job([*WATER, "--no-reference"], ranks=2, nodes=2)
    assert done.returncode == 0, done.stdout
    report.draw(results, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["--xyz", "no-such.xyz"], "no-such.xyz"),
        (["--xc", "pbe,pbe"], "GGA"),
        (["--basis", "no-such-basis"], "no-such-basis"),
    ],
)
def test_bad_input_ends_the_job_with_one_clear_message(run_job, words, complaint):
    done, results = run_job([*words, "--no-reference"], ranks=2, nodes=2)
    assert done.returncode != 0 and results is None
    assert complaint.lower() in done.stdout.lower() and "Traceback" not in done.stdout
