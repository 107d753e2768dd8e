"""Renting a cluster for a campaign: prices, budget, files, and a rehearsal of create - run -
collect - delete with stand-ins."""

import json
import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from hpcaas.cli import app
from hpcaas.cloud.providers import PROVIDERS
from hpcaas.cloud.state import State, read_state
from hpcaas.errors import BadInput, HpcaasError
from hpcaas.prices import PriceRow, age_warning

SHAPES = {"aws": ("hpc7a.96xlarge", "us-east-2", 192, 192, 768, 7.2)}
SUBNET = "subnet-0123456789abcdef0"
ACCOUNT = {"aws": ["key_name=mine", f"subnet_id={SUBNET}"]}
RECORDED = Path(__file__).with_name("recorded") / "cloud"


def row(provider, shape, region, cores, vcpus, memory, price, **more):
    return {
        **dict(provider=provider, shape=shape, region=region, cores=cores, vcpus=vcpus),
        **dict(memory_gib=memory, price=price, unit="hour", currency="USD", minimum_s=60.0),
        **dict(term="on-demand", date=str(date.today()), source="a list of today"),
        **more,
    }


@pytest.fixture()
def catalogue(tmp_path):
    rows = [row(name, *shape) for name, shape in SHAPES.items()]
    rows += [
        row(p.name, p.head_shape, SHAPES[p.name][1], 2, 4, 16, 0.2) for p in PROVIDERS.values()
    ]
    path = tmp_path / "prices.yaml"
    path.write_text(yaml.safe_dump({"prices": rows}))
    return path


@pytest.fixture()
def plan(catalogue, tmp_path):
    def run(provider, *more, budget=60, account=True, to="out"):
        shape, region = SHAPES[provider][:2]
        argv = ["cloud", "plan", provider, "--shape", shape, "--region", region]
        argv += ["--budget", str(budget), "--catalogue", str(catalogue), "--to", str(tmp_path / to)]
        argv += ["--mpi", "openmpi", "--launcher", "srun", "--pmi", "pmix", "--nodes", "1,2"]
        argv += ["--split", "32x1"]
        for value in ACCOUNT[provider] if account else []:
            argv += ["--set", value]
        result = CliRunner().invoke(app, [*argv, *more])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return tmp_path / to, " ".join(result.output.split())

    return run


@pytest.mark.parametrize("provider", SHAPES)
def test_a_plan_says_what_it_costs_before_anything_is_rented(plan, provider):
    directory, text = plan(provider)
    shape, region, *_, price = SHAPES[provider]
    kept = json.loads((directory / "plan.json").read_text())["estimate"]
    assert kept["rate_per_hour"] == pytest.approx(2 * price + 0.2)
    total = kept["setup_s"] + kept["campaign_s"] + kept["teardown_s"]
    assert kept["cost"] == pytest.approx(total / 3600 * kept["rate_per_hour"], rel=1e-3)
    assert kept["window_s"] == pytest.approx(60 / kept["rate_per_hour"] * 3600)
    assert f"2 x {shape} in {region} (on-demand): at most {kept['cost']:.2f} USD" in text
    readme = (directory / "PLAN.md").read_text()
    assert "hard budget" in readme and "60.00 USD" in readme and "FILL_IN" not in readme
    site = yaml.safe_load((directory / "site.yaml").read_text())
    assert site["nodes_available"] == 2 and site["price"] == f"{provider}/{shape}"
    for script in ("run.sh", "remote.sh"):
        subprocess.run(["bash", "-n", directory / script], check=True)


def test_the_file_says_what_was_asked_for(plan):
    aws = yaml.safe_load((plan("aws", to="aws")[0] / "cluster.yaml").read_text())
    (queue,) = aws["Scheduling"]["SlurmQueues"]
    (nodes,) = queue["ComputeResources"]
    assert queue["CapacityType"] == "ONDEMAND" and queue["Networking"]["SubnetIds"] == [SUBNET]
    assert (nodes["InstanceType"], nodes["MinCount"], nodes["MaxCount"]) == ("hpc7a.96xlarge", 0, 2)
    assert nodes["Efa"] == {"Enabled": True} and nodes["DisableSimultaneousMultithreading"] is True


PCLUSTER = """
import sys, yaml
from pcluster.schemas.cluster_schema import ClusterSchema

cluster = ClusterSchema(cluster_name="hpcaas").load(yaml.safe_load(open(sys.argv[1])))
(queue,) = cluster.scheduling.queues
print(queue.capacity_type.value, queue.compute_resources[0].max_count)
"""


@pytest.mark.cloud
@pytest.mark.parametrize("term, said", [("on-demand", "ONDEMAND 2"), ("spot", "SPOT 2")])
def test_parallelcluster_itself_reads_the_file(plan, catalogue, term, said):
    """AWS's own schema, without a network: it knows every key, and refuses one that it does not."""
    python = os.environ.get("HPCAAS_PCLUSTER_PYTHON")
    if not python:
        pytest.skip("`make test-cloud` installs AWS ParallelCluster beside the suite")
    spot = yaml.safe_load(catalogue.read_text())
    spot["prices"].append({**spot["prices"][0], "term": "spot", "price": 2.4})
    catalogue.write_text(yaml.safe_dump(spot))
    file = plan("aws", "--term", term)[0] / "cluster.yaml"

    def read():
        env = {**os.environ, "AWS_DEFAULT_REGION": "us-east-2"}
        return subprocess.run(
            [python, "-c", PCLUSTER, file], env=env, capture_output=True, text=True
        )

    done = read()
    assert done.returncode == 0 and done.stdout.strip() == said, done.stderr
    file.write_text(file.read_text().replace("MaxCount", "MostNodes"))
    assert "'MostNodes': ['Unknown field.']" in read().stderr


def test_spot_is_asked_for_where_spot_is_priced(plan, catalogue):
    rows = yaml.safe_load(catalogue.read_text())["prices"]
    for each in rows[:1]:
        rows.append({**each, "term": "spot", "price": each["price"] / 3})
    catalogue.write_text(yaml.safe_dump({"prices": rows}))
    aws = yaml.safe_load((plan("aws", "--term", "spot", to="a")[0] / "cluster.yaml").read_text())
    assert aws["Scheduling"]["SlurmQueues"][0]["CapacityType"] == "SPOT"


def test_a_campaign_that_may_cost_more_than_the_budget_is_refused(plan, tmp_path):
    with pytest.raises(BadInput, match=r"may cost \d+\.\d+ USD .* the budget is 3.00"):
        plan("aws", budget=3)
    assert not (tmp_path / "out").exists()


def test_an_unknown_price_keeps_no_budget(plan, catalogue):
    rows = yaml.safe_load(catalogue.read_text())["prices"][:1]
    catalogue.write_text(yaml.safe_dump({"prices": rows}))
    with pytest.raises(BadInput, match="no price of the head node c6a.xlarge"):
        plan("aws")
    kept = json.loads((plan("aws", "--other-per-hour", "0.5")[0] / "plan.json").read_text())
    assert kept["estimate"]["rate_per_hour"] == pytest.approx(2 * 7.2 + 0.5)


def test_bad_requests_are_answered_with_a_remedy(plan):
    with pytest.raises(BadInput, match="no value 'key'"):
        plan("aws", "--set", "key=x")
    with pytest.raises(BadInput, match="not NAME=VALUE"):
        plan("aws", "--set", "key")
    with pytest.raises(BadInput, match="--budget is 0"):
        plan("aws", budget=0)
    with pytest.raises(HpcaasError, match="nothing is left to run"):
        plan("aws", "--split", "256x1")  # 192 cores


def test_old_prices_are_warned_of():
    today = date(2026, 11, 1)

    def aged(days, term="on-demand"):
        raw = row("aws", "s", "r", 64, 128, 512, 3.2, date=today - timedelta(days=days), term=term)
        return age_warning(PriceRow.model_validate(raw), today)

    assert aged(90) is None and "91 days old" in aged(91)
    assert aged(7, "spot") is None and "8 days old" in aged(8, "spot")
    assert aged(1000, "internal") is None


@pytest.mark.parametrize(
    "provider, file, state, address",
    [
        ("aws", "aws_creating.json", State.CREATING, None),
        ("aws", "aws_ready.json", State.READY, "203.0.113.7"),
        ("aws", "aws_failed.json", State.FAILED, None),
        ("aws", "aws_gone.json", State.GONE, None),
    ],
)
def test_what_the_tools_say_of_a_cluster(provider, file, state, address):
    seen = read_state(provider, (RECORDED / file).read_text())
    assert (seen.state, seen.address) == (state, address)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_no_tool_says_is_no_state(provider):
    for text in ("", "{}", '{"data": {}}', "Segmentation fault"):
        with pytest.raises(BadInput):
            read_state(provider, text)
    with pytest.raises(BadInput, match="none of the states known here"):
        read_state("aws", '{"clusterStatus": "ROLLBACK_OF_SOMETHING"}')


# A rehearsal. The stand-in keeps the cluster's state in a file and writes down what it was asked.
_PCLUSTER = """#!/bin/bash
echo "$1" >> "$REHEARSAL/calls"
case $1 in
create-cluster) echo ready > "$REHEARSAL/state"; exit "${CREATE_CODE:-0}" ;;
delete-cluster) rm -f "$REHEARSAL/state" ;;
describe-cluster)
  SEEN=aws_gone.json; [ ! -e "$REHEARSAL/state" ] || SEEN=aws_ready.json
  cat "$RECORDED/$SEEN" ;;
esac
"""
_SSH = """#!/bin/bash
LAST=${@: -1} WHO=$(basename "$0")
echo "$WHO $LAST" >> "$REHEARSAL/calls"
case $WHO:$LAST in
ssh:*remote.sh*) exit "${REMOTE_CODE:-0}" ;;
scp:results/) touch results/collected ;;
esac
"""


@pytest.fixture()
def rehearse(plan, tmp_path):
    def run(account=True, **env):
        directory, _ = plan("aws", account=account)
        tools = tmp_path / "bin"
        tools.mkdir()
        python = Path(sys.executable)
        for name, text in (
            ("pcluster", _PCLUSTER),
            ("ssh", _SSH),
            ("scp", _SSH),
            ("hpcaas", f'#!/bin/bash\nexec {python} -m hpcaas.cli "$@"\n'),
        ):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        done = subprocess.run(
            [directory / "run.sh"],
            env={
                **os.environ,
                **dict(PATH=f"{tools}:{os.environ['PATH']}", REHEARSAL=str(tmp_path)),
                **dict(
                    RECORDED=str(RECORDED), HPCAAS_SOURCE=".", HPCAAS_KEY="k", HPCAAS_POLL_S="0"
                ),
                **env,
            },
            capture_output=True,
            text=True,
            timeout=500,  # a loaded machine starts Python slowly
        )
        calls = tmp_path / "calls"
        asked = calls.read_text().splitlines() if calls.exists() else []
        return done, [c for c in asked if not c.startswith("describe")], directory

    return run


def test_a_rehearsal_creates_runs_collects_and_deletes(rehearse, tmp_path):
    done, calls, directory = rehearse()
    assert done.returncode == 0, done.stdout + done.stderr
    assert calls[0] == "create-cluster" and calls[-1] == "delete-cluster"
    assert any(c.startswith("ssh") and "remote.sh" in c for c in calls)
    assert (directory / "results/collected").exists() and not (tmp_path / "state").exists()


def test_whatever_fails_the_cluster_is_deleted_and_what_was_measured_is_collected(
    rehearse, tmp_path
):
    done, calls, directory = rehearse(REMOTE_CODE="9")
    assert done.returncode == 9 and calls[-1] == "delete-cluster"
    assert (directory / "results/collected").exists() and not (tmp_path / "state").exists()


def test_a_creation_that_fails_half_way_is_deleted_too(rehearse, tmp_path):
    done, calls, _ = rehearse(CREATE_CODE="1")
    assert done.returncode == 1 and calls == ["create-cluster", "delete-cluster"]
    assert not (tmp_path / "state").exists()


def test_nothing_is_rented_while_a_value_is_missing(rehearse):
    done, calls, _ = rehearse(account=False)
    assert done.returncode == 2 and calls == [] and "FILL_IN_subnet_id" in done.stdout
