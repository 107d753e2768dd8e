"""Campaigns on a real Slurm cluster of two nodes (`make test-slurm`; root). Times mean nothing
here: both nodes are this machine."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import yaml
from slurm_cluster import Cluster, missing

from hpcaas.model import ResultSet, Status
from hpcaas.running.record import read_journal
from hpcaas.slurm import parse_mpi_types

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(missing() is not None, reason=str(missing()))]
# The way in which Debian's builds of each MPI find each other under srun.
PMI = {"openmpi": "pmix", "mpich": "pmi2"}


def mpas_installs():
    """HPCAAS_MPAS='openmpi=DIR,mpich=DIR': the user's own builds. No script here fetches or builds
    MPAS-A."""
    pairs = [part.partition("=") for part in os.environ.get("HPCAAS_MPAS", "").split(",") if part]
    return {mpi: Path(directory) for mpi, _, directory in pairs}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Where campaigns go: kept if HPCAAS_SLURM_OUT names a directory, as for the example report."""
    kept = os.environ.get("HPCAAS_SLURM_OUT")
    directory = Path(kept) if kept else tmp_path_factory.mktemp("slurm")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.fixture(scope="module")
def site(out):
    path = out / "site.yaml"
    installs = [
        {"name": mpi, "path": str(where), "version": "8.0.2", "axes": {"mpi": mpi}}
        for mpi, where in mpas_installs().items()
    ]
    content = {"scheduler": "slurm", "nodes_available": 2, "machine": "slurm-two-nodes"}
    if installs:
        content["installations"] = {"mpas": installs}
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(scope="module")
def cluster():
    with Cluster(2, accounting=False) as made:
        yield made
        started, directory = [p for _, p in made._started], made.dir
    assert all(p.poll() is not None for p in started) and not directory.exists()


def hpcaas(cluster, *argv, timeout=580, check=True):
    done = cluster.login(
        sys.executable, "-m", "hpcaas.cli", *map(str, argv), timeout=timeout, check=False
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr + cluster.words()
    return done


def measure(cluster, site, out, campaign, *argv, check=True):
    common = ("--site", site, "--out", out, "--campaign", campaign, "--repeats", "1")
    done = hpcaas(cluster, "measure", *common, *argv, check=check)
    path = out / campaign / "results.json"
    return done, ResultSet.load(path) if path.exists() else ResultSet()


def once_more_where_it_hung(cluster, site, out, app, argv, results):
    """MPICH's ranks under `srun --mpi=pmi2` sometimes do not end after their last line
    (docs/clusters.md). Such a run is a sample that timed out; it is measured once more, with a
    warning in the output of the tests. Every other trouble fails."""
    hung = [
        s
        for s in results.samples
        if s.status is Status.TIMEOUT
        and (s.configuration.app, s.configuration.mpi) == (app, "mpich")
        and (s.configuration.pmi, s.configuration.nodes) == ("pmi2", 2)
    ]
    if not hung:
        return results, []
    warnings.warn(f"measured once more, the first run did not end: {explain(hung)}", stacklevel=2)
    _, results = measure(cluster, site, out, "slurm", *argv, "--retry")
    return results, [s.id for s in hung]


def explain(samples):
    return [(s.configuration.label(), s.status.value, s.diagnosis, s.flags) for s in samples]


def test_the_cluster_is_two_hosts_that_know_how_ranks_find_each_other(cluster):
    assert set(cluster.login("srun", "-N2", "-n2", "hostname").stdout.split()) == {"sk1", "sk2"}
    shown = cluster.login("srun", "--mpi=list")
    assert {"pmix", "pmi2", "none"} <= set(parse_mpi_types(shown.stdout + shown.stderr))


def test_nothing_is_planned_for_nodes_that_nobody_looked_at(cluster, site, tmp_path):
    done = hpcaas(cluster, "plan", "--site", site, "--out", tmp_path, check=False)
    assert done.returncode == 2 and "were not looked at yet" in done.stderr


def test_the_compute_nodes_say_what_they_are(cluster, site, out):
    done = hpcaas(cluster, "machine", "--site", site, "--out", out, "--nodes", "2")
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert found["hosts"] == ["sk1", "sk2"] and found["id"] == "slurm-two-nodes"
    assert found["cores"] == len(os.sched_getaffinity(0)) and found["microarchitecture"]
    planned = hpcaas(
        cluster,
        "plan",
        "--site",
        site,
        "--out",
        out,
        "--apps",
        "montecarlo",
        "--mpi",
        "mpich",
        *("--nodes", "1,2"),
    )
    assert "2 configurations" in planned.stdout


def of(results, app, mpi):
    wanted = (app, mpi)
    return [s for s in results.samples if (s.configuration.app, s.configuration.mpi) == wanted]


def says_where_it_ran(sample):
    """Every rank on its node, and every node's noise, not the first one's only."""
    nodes = sample.configuration.nodes
    assert sample.status is Status.OK, explain([sample])
    assert [p.rank for p in sample.placement] == list(range(nodes)), explain([sample])
    hosts = {p.host for p in sample.placement}
    assert len(hosts) == nodes and hosts <= {"sk1", "sk2"}
    if nodes == 2:
        assert set(sample.nodes) == {"sk1", "sk2"}
        assert not any(f.startswith("noise unknown") for f in sample.flags)
        assert all(load.waited_fraction is not None for load in sample.nodes.values())


SIZES = {"montecarlo": "small", "mpas": "tiny"}


@pytest.mark.parametrize("mpi", PMI)
@pytest.mark.parametrize("app", SIZES)
def test_one_and_two_nodes_by_srun_and_by_mpirun(cluster, site, out, app, mpi):
    if app == "mpas" and mpi not in mpas_installs():
        pytest.skip(f"no MPAS-A built with {mpi}: set HPCAAS_MPAS={mpi}=DIRECTORY (the user's own)")
    argv = (
        *("--apps", app, "--size", SIZES[app]),
        *("--mpi", mpi, "--launcher", "srun,mpirun", "--pmi", PMI[mpi]),
        *("--nodes", "1,2", "--split", "1x1", "--binding", "none", "--time-limit-s", "120"),
    )
    starters = [("srun", PMI[mpi]), ("mpirun", None)]
    _, results = measure(cluster, site, out, "slurm", *argv)
    results, hung = once_more_where_it_hung(cluster, site, out, app, argv, results)
    mine = [s for s in of(results, app, mpi) if s.id not in hung]
    asked = {(launcher, pmi, n) for launcher, pmi in starters for n in (1, 2)}
    ran = {(s.configuration.launcher, s.configuration.pmi, s.configuration.nodes) for s in mine}
    assert ran == asked
    for sample in mine:
        says_where_it_ran(sample)
    hosts = [e["host"] for e in read_journal(out / "slurm/journal.jsonl") if "done" in e]
    assert hosts and set(hosts) <= {"sk1", "sk2"}, hosts
    assert results.machines["slurm-two-nodes"]["hosts"] == ["sk1", "sk2"]


def test_a_way_to_start_ranks_that_does_not_fit_is_a_result_with_its_reason(cluster, site, out):
    """Under --mpi=none every rank believes to be alone; a benchmark that does not notice counts it
    twice."""
    done, results = measure(
        cluster,
        site,
        out,
        "misfit",
        *("--apps", "montecarlo", "--size", "tiny", "--mpi", "mpich", "--launcher", "srun"),
        *("--pmi", "none,pmix9", "--nodes", "2", "--split", "1x1", "--binding", "none"),
    )
    assert "srun has no --mpi=pmix9" in done.stdout
    (sample,) = results.samples
    assert sample.status is Status.FAILED and "did not find each other" in sample.diagnosis


def test_the_report_of_the_campaign_names_every_node(cluster, out):
    results = out / "slurm/results.json"
    if not results.exists():
        pytest.skip("no campaign before this test")
    page = out / "slurm.html"
    subprocess.run(
        [sys.executable, "-m", "hpcaas.cli", "report", results, "--html", page],
        check=True,
        capture_output=True,
    )
    assert "slurm-two-nodes" in page.read_text()


@pytest.mark.skipif(missing(True) is not None, reason=str(missing(True)))
def test_with_accounting_sacct_is_asked(cluster, tmp_path):
    """A second cluster, with slurmdbd and a database, takes the place of the first on the same
    hosts."""
    cluster.close()
    site = tmp_path / "site.yaml"
    site.write_text(yaml.safe_dump({"scheduler": "slurm", "nodes_available": 2}))
    with Cluster(2, accounting=True) as accounted:
        _, results = measure(
            accounted,
            site,
            tmp_path,
            "c",
            *("--apps", "montecarlo", "--size", "tiny", "--mpi", "openmpi", "--launcher", "srun"),
            *("--pmi", "pmix", "--nodes", "2", "--split", "1x1", "--binding", "none"),
        )
        assert [s.status for s in results.samples] == [Status.OK], explain(results.samples)
        settings = json.loads((tmp_path / "c/settings.json").read_text())
        assert settings["systems"][0]["partitions"][0]["scheduler"] == "slurm"
        listed = accounted.login("sacct", "-n", "-X", "-P", "-o", "State,NNodes").stdout.split()
        assert "COMPLETED|2" in listed
