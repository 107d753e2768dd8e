"""Campaigns through `qsub` and `qstat` (`make test-slurm`; root). Debian 12 has no PBS server; its
package slurm-wlm-torque has the PBS commands over Slurm, so the jobs really run."""

import shutil

import pytest
import yaml
from slurm_cluster import Cluster, missing
from test_slurm import explain, hpcaas, measure

NEEDED = missing() or (None if shutil.which("qsub") else "not installed: slurm-wlm-torque")
pytestmark = [pytest.mark.slurm, pytest.mark.skipif(NEEDED is not None, reason=str(NEEDED))]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(2, accounting=False) as made:
        yield made


def test_a_campaign_runs_through_the_commands_of_pbs(cluster, tmp_path):
    site = tmp_path / "site.yaml"
    content = {"scheduler": "torque", "nodes_available": 1, "machine": "pbs-one-node"}
    site.write_text(yaml.safe_dump({**content, "node_launcher": "local"}))
    done = hpcaas(cluster, "machine", "--site", site, "--out", tmp_path, "--nodes", "1")
    assert '"id": "pbs-one-node"' in done.stdout
    asked = ("--apps", "montecarlo", "--size", "tiny", "--split", "1x1", "--mpi", "none")
    done, results = measure(cluster, site, tmp_path, "pbs", *asked)
    assert results.samples and all(s.ok for s in results.samples), explain(results.samples)
    hosts = {p.host for s in results.samples for p in s.placement}
    assert hosts <= {"sk1", "sk2"} and hosts
