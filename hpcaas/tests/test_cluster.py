"""Clusters without one: what nodes say is joined, native builds are kept apart, PBS and containers
by stand-ins for their commands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import archspec.cpu
import pytest
import yaml

from hpcaas import slurm
from hpcaas.apps import registry
from hpcaas.apps.base import Context, Installation
from hpcaas.apps.gromacs import Gromacs, gpu_support
from hpcaas.errors import BadInput, Missing
from hpcaas.launchers import launch
from hpcaas.machine import Topology, describe, read_topology
from hpcaas.model import Configuration, Status
from hpcaas.plan import Choice, make_plan
from hpcaas.running import nodes as nodes_module
from hpcaas.running.campaign import Campaign, Options
from hpcaas.running.jobs import Order, resolve
from hpcaas.tools import Tools
from hpcaas.running.noise import Noise
from hpcaas.running.record import read_journal
from hpcaas.running.reframe import settings
from hpcaas.site import load_site
from hpcaas.toolchain import Compiler, Mpi

PLUGIN = str(Path(__file__).with_name("toy_app.py"))
MPICH = Mpi("mpich", "mpich", "4.0.2", "mpiexec", "mpicxx", ("ucx",))
GCC = Compiler("gcc", "g++", "gcc", "gfortran", "12.2")


def report(host, noise="quiet", **changes):
    machine = {**describe(), "memory_gib": 64.0, **changes}
    heard = Noise(0.0, 0.0, 0.1, 0.01, noise, [] if noise == "quiet" else ["5% used by others"])
    return {
        "host": host,
        "machine": machine,
        "topology": read_topology().as_list(),
        "noise": heard.as_dict(),
    }


def test_nodes_are_one_machine_with_the_least_memory_and_the_worst_noise():
    joined = nodes_module.from_reports(
        [report("n2", "noisy", memory_gib=63.5), report("n1")], "cluster"
    )
    assert joined.machine["id"] == "cluster" and joined.machine["hosts"] == ["n1", "n2"]
    assert joined.machine["memory_gib"] == 63.5 and joined.topology == read_topology()
    worst = nodes_module.worst(joined.noise)
    assert worst.verdict == "noisy" and worst.reasons == ["n2: 5% used by others"]


@pytest.mark.parametrize("key, other", [("cpu_model", "other"), ("cores", 999), ("isa", ["sve"])])
def test_nodes_of_different_kinds_are_refused_by_name(key, other):
    with pytest.raises(BadInput, match=f"n1 has {key} .* n2 has"):
        nodes_module.from_reports([report("n1"), report("n2", **{key: other})])


def test_a_cluster_is_not_described_by_the_node_where_the_command_runs(tmp_path):
    """Plans and results named the login node's processor."""
    site = {"scheduler": "slurm", "access": ["--partition=a"]}
    with pytest.raises(Missing, match="compute nodes behind 'slurm' were not looked at yet"):
        nodes_module.known(site, tmp_path)
    assert "hosts" not in nodes_module.known({}, tmp_path).machine
    path = nodes_module._file(tmp_path, site)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([report("n1", cpu_model="compute")]))
    assert nodes_module.known(site, tmp_path).machine["cpu_model"] == "compute"
    with pytest.raises(Missing):  # another partition is another machine
        nodes_module.known({**site, "access": ["--partition=b"]}, tmp_path)


def test_topologies_travel_as_numbers():
    topology = Topology.regular(2, 4, 2)
    assert Topology.from_list(json.loads(json.dumps(topology.as_list()))) == topology


# Slurm


def test_slurm_says_how_ranks_find_each_other():
    v22 = "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\n"
    v22 += "specific pmix plugin versions available: pmix_v4\n"
    v20 = "srun: MPI types are...\nsrun: none\nsrun: pmi2\n"
    assert slurm.parse_mpi_types(v22) == ["pmix", "none", "cray_shasta", "pmi2", "pmix_v4"]
    assert slurm.parse_mpi_types(v20) == ["none", "pmi2"]
    assert slurm.parse_mpi_types("") == []


@pytest.mark.parametrize(
    "line, accounted",
    [
        ("AccountingStorageType   = accounting_storage/none", False),
        ("AccountingStorageType   = (null)", False),
        ("AccountingStorageType   = accounting_storage/slurmdbd", True),
        ("", False),
    ],
)
def test_without_accounting_squeue_is_asked(line, accounted, monkeypatch):
    """ReFrame's `slurm` polls sacct, which answers nothing without accounting: every job seemed to
    fail."""
    assert slurm.parse_accounting(f"Configuration data\n{line}\n") is accounted
    monkeypatch.setattr(slurm, "has_accounting", lambda: accounted)
    made = settings({"scheduler": "slurm"}, Path("/c"), None)
    (partition,) = made["systems"][0]["partitions"]
    assert partition["scheduler"] == ("slurm" if accounted else "squeue")
    assert partition["launcher"] == "srun"


def test_srun_is_told_how_ranks_find_each_other():
    config = Configuration(app="a", size="s", ranks=2, nodes=2, launcher="srun", pmi="pmix")
    assert "--mpi=pmix" in launch(config, MPICH).argv
    assert not any("--mpi" in w for w in launch(config.model_copy(update={"pmi": None}), None).argv)


def planned(tools, profile, topology, values, **machine):
    made = make_plan(
        Choice(["montecarlo"], {"": "tiny"}, values), tools, {**profile, **machine}, topology
    )
    return made, " | ".join(left.why for left in made.left_out)


@pytest.fixture()
def assumed():
    """Tools of a machine with GCC and MPICH, whatever is installed here."""

    def make(**site):
        return Tools(site, registry(site), {"gcc": GCC}, {"mpich": MPICH})

    return make


def test_pmi_is_an_axis_of_srun_only(assumed, profile, topology, monkeypatch):
    monkeypatch.setattr("hpcaas.plan.shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(slurm, "mpi_types", lambda: ["none", "pmi2", "pmix"])
    values = {
        "mpi": ["mpich"],
        "launcher": ["srun", "mpirun"],
        "pmi": ["pmix", "pmi2", "pmi9"],
        "nodes": [1, 2],
    }
    made, why = planned(assumed(), profile, topology, values, nodes_available=2)
    ways = {(r.config.launcher, r.config.pmi) for r in made.runs}
    assert ways == {("srun", "pmix"), ("srun", "pmi2"), ("mpirun", None)} and len(made.runs) == 6
    assert "srun has no --mpi=pmi9; it has none, pmi2, pmix" in why


# Builds


def test_a_native_build_made_on_another_processor_is_refused(assumed, profile, topology):
    values = {"mpi": ["mpich"], "target": ["native", "x86-64-v3"]}
    here = archspec.cpu.host().name
    made, why = planned(
        assumed(build_on="login"), profile, topology, values, microarchitecture="zen9"
    )
    assert [r.config.target for r in made.runs] == ["x86-64-v3"]
    assert f"built on this node is for {here}, the compute nodes are zen9" in why
    for site, machine in (({}, "zen9"), ({"build_on": "login"}, here)):
        made, _ = planned(assumed(**site), profile, topology, values, microarchitecture=machine)
        assert len(made.runs) == 2


def test_machines_that_share_a_cache_do_not_run_each_others_builds(assumed, tmp_path):
    """Whether a build depends on the processor is not to be seen from its flags: the key always
    says which."""

    def build(target, machine):
        config = Configuration(app="montecarlo", size="tiny", compiler="gcc", target=target)
        order = Order(
            tmp_path, tmp_path, 0, "c", {"id": machine, "microarchitecture": machine}, 60, False
        )
        (job,), run = resolve(config, assumed(), order)
        return job.destination, run.static.get("native_of")

    assert build("native", "zen4")[0] != build("native", "icelake")[0]
    assert build("native", "zen4")[1] == "zen4"
    assert build("x86-64-v3", "zen4")[0] != build("x86-64-v3", "icelake")[0]
    assert build("x86-64-v3", "zen4") == build("x86-64-v3", "zen4")
    assert build("x86-64-v3", "zen4")[1] is None


# PBS: stand-ins for its commands. Nobody here has a PBS; ReFrame's back-end speaks to it.

_QSUB = """#!/bin/bash
while [ $# -gt 1 ]; do case $1 in -o) out=$2 ;; -e) err=$2 ;; esac; shift 2; done
grep '^#PBS' "$1" >> "$PBS_RECORD"
bash "$1" > "$out" 2> "$err"
echo "$?" > "$PBS_RECORD.code"; echo 1.server
"""
_QSTAT = """#!/bin/bash
if [ "$1" = -xf ]; then echo "    Exit_status = $(cat "$PBS_RECORD.code")"; else exit 153; fi
"""


def commands(directory, monkeypatch, **scripts):
    directory.mkdir(exist_ok=True)
    for name, text in scripts.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def toys(site, tools):
    site = {"plugins": [PLUGIN], **site}
    return Tools(site, registry(site), tools.compilers, tools.mpis)


def run_toy(tmp_path, tools, found, size="good", values=None, profile=None):
    profile = profile or {**found.machine, "nodes_available": 1}
    made = make_plan(
        Choice(["toy"], {"": size}, values or {}, repeats=1), tools, profile, found.topology
    )
    assert made.runs, made.left_out
    campaign = Campaign(tmp_path / "c", tools, profile, found.topology, Options())
    return campaign.run(made).samples


@pytest.mark.slow
def test_a_campaign_under_pbs_looks_builds_and_runs_through_qsub(tmp_path, monkeypatch, tools):
    commands(tmp_path / "bin", monkeypatch, qsub=_QSUB, qstat=_QSTAT)
    record = tmp_path / "record"
    monkeypatch.setenv("PBS_RECORD", str(record))
    site = {"scheduler": "pbs", "access": ["-q workq"], "node_launcher": "local"}
    found = nodes_module.look(site, tmp_path, 1)
    assert found.machine["hosts"] and found.topology == read_topology() and found.noise
    assert nodes_module.known(site, tmp_path).machine["cpu_model"] == describe()["cpu_model"]
    (sample,) = run_toy(tmp_path, toys(site, tools), found, size="input")
    assert sample.status is Status.OK, sample.diagnosis
    asked = record.read_text()
    # one look, two inputs, one run
    assert asked.count("#PBS -q workq") == 4
    assert asked.count("#PBS -l select=1:mpiprocs=1:ncpus=1") == 4
    built = [e for e in read_journal(tmp_path / "c/journal.jsonl") if "done" in e]
    assert len(built) == 2 and all(e["host"] for e in built)


# Containers: a stand-in that writes down its words and runs the command without a container.

_CONTAINER = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CONTAINER_RECORD"
while [ "$1" != IMAGE ]; do case $1 in --pwd|-w) cd "$2" ;; esac; shift; done
shift; exec "$@"
"""


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["Apptainer", "Podman"])
def test_a_container_is_an_axis(platform, tmp_path, monkeypatch, tools):
    commands(tmp_path / "bin", monkeypatch, **{platform.lower(): _CONTAINER})
    record = tmp_path / "record"
    monkeypatch.setenv("CONTAINER_RECORD", str(record))
    image = {"platform": platform, "image": "IMAGE", "mounts": ["/opt"], "options": ["--extra"]}
    site = {"containers": {"debian": image}}
    found = nodes_module.here()
    profile = {**found.machine, "nodes_available": 1, "containers": ["debian"]}
    samples = run_toy(
        tmp_path,
        toys(site, tools),
        found,
        size="input",
        values={"container": [None, "debian"]},
        profile=profile,
    )
    assert {s.configuration.container: s.status for s in samples} == {
        None: Status.OK,
        "debian": Status.OK,
    }, [s.diagnosis for s in samples]
    words = record.read_text()
    start = "podman run --pull=never --rm" if platform == "Podman" else "apptainer exec"
    assert words.count(start) == 3 and words.count("--extra") == 3  # two inputs and the run
    assert ("--net=host" in words and "--env-host" in words) == (platform == "Podman")
    assert f"{tmp_path}:{tmp_path}" in words.replace('"', "") and "/opt:/opt" in words


def test_images_come_from_the_site_file(tmp_path, assumed, profile, topology):
    def why(images, name):
        made, words = planned(
            assumed(containers=images),
            profile,
            topology,
            {"mpi": ["mpich"], "container": [name]},
            containers=list(images),
        )
        assert not made.runs
        return words

    assert "no container 'y' (it has: x)" in why({"x": {}}, "y")
    assert "container 'x': image" in why({"x": {"platform": "Apptainer"}}, "x")
    assert "container 'x': platform" in why({"x": {"platform": "LXC", "image": "i"}}, "x")
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump({"build_on": "moon"}))
    with pytest.raises(BadInput, match="build_on is 'moon'"):
        load_site(path)


# GPUs


def test_a_gpu_is_an_axis_where_the_machine_and_the_program_have_one(profile, topology, assumed):
    config = Configuration(app="gromacs", size="tiny", gpu="on")

    def context(support):
        installed = Installation("g", Path("/nowhere/gmx"), options={"gpu": support})
        return Context(None, None, installed, {})

    words = Gromacs().run(config, context("CUDA")).args
    assert words[words.index("-nb") + 1] == "gpu"
    off = Gromacs().run(config.model_copy(update={"gpu": "off"}), context("disabled")).args
    assert off[off.index("-nb") + 1] == "cpu"
    with pytest.raises(Missing, match="built without GPU"):
        Gromacs().run(config, context("disabled"))
    assert gpu_support("Precision:  mixed\nGPU support:         CUDA\n") == "CUDA"
    assert gpu_support("GPU support:         disabled") == "disabled"


def test_a_run_that_was_to_use_a_gpu_and_did_not_is_wrong(tmp_path):
    log = Path(__file__).with_name("recorded") / "gromacs_run.log"
    shutil.copy(log, tmp_path / "run.log")
    config = Configuration(app="gromacs", size="tiny", ranks=1, threads=2, gpu="on")
    assert Gromacs().read("", tmp_path, config).wrong == "mdrun selected no GPU"
    (tmp_path / "run.log").write_text(log.read_text() + "\n1 GPU selected for this run.\n")
    seen = Gromacs().read("", tmp_path, config)
    assert not seen.wrong and seen.extra["gpus"] == 1


def test_gpus_are_asked_of_the_scheduler(tmp_path, assumed):
    tools = assumed(gpus_per_node=4)
    installed = Installation("g", Path("/nowhere/gmx"), options={"gpu": "CUDA"})
    tools._installations["gromacs"] = {"g": installed}
    machine = {"id": "m", "microarchitecture": "zen4"}
    config = Configuration(app="gromacs", size="tiny", gpu="on")
    order = Order(tmp_path, tmp_path, 0, "c", machine, 60, False)
    assert resolve(config, tools, order)[1].gpus_per_node == 4
    config = config.model_copy(update={"gpu": "off"})
    assert resolve(config, tools, order)[1].gpus_per_node == 0


def test_this_python_can_describe_its_node(tmp_path):
    """What a look at a node runs there."""
    subprocess.run([sys.executable, "-m", "hpcaas.running.node_profile", tmp_path], check=True)
    (path,) = tmp_path.glob("*.json")
    found = nodes_module.from_reports([json.loads(path.read_text())])
    assert found.machine["microarchitecture"] == archspec.cpu.host().name
