"""Campaigns through the real ReFrame: what is recorded, and everything that goes wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from hpcaas.apps import registry
from hpcaas.errors import BadInput, Busy, NoSpace
from hpcaas.model import Configuration, Sample, Status
from hpcaas.plan import Choice, make_plan
from hpcaas.running import campaign as campaign_module, leftovers
from hpcaas.running.campaign import Campaign, Options
from hpcaas.tools import Tools
from hpcaas.running.lock import MachineLock
from hpcaas.running.record import PRINTED_BYTES, append, read_journal

PLUGIN = Path(__file__).with_name("toy_app.py")
SITE = {"plugins": [str(PLUGIN)]}


@pytest.fixture()
def start(tmp_path, profile, topology, tools):
    toys = Tools(SITE, registry(SITE), tools.compilers, tools.mpis)

    def run(sizes, repeats=1, name="c", values=None, **options):
        runs, left = [], []
        for size in sizes:
            plan = make_plan(
                Choice(["toy"], {"": size}, values or {}, repeats=repeats), toys, profile, topology
            )
            runs += plan.runs
            left += plan.left_out
        plan.runs = runs
        made = Campaign(tmp_path / name, toys, profile, topology, Options(**options))
        return made.run(plan), made

    run.toys = toys
    return run


def by_size(results):
    return {s.configuration.size: s for s in results.samples}


def test_everything_that_goes_wrong_is_a_result_and_the_others_go_on(start):
    results, made = start(
        ["badbuild", "badinput", "good", "wrong", "silent", "segv", "stack", "full", "input"]
    )
    found = by_size(results)
    assert {size: s.status for size, s in found.items()} == {
        "badbuild": Status.BUILD_FAILED,
        "badinput": Status.PREPARE_FAILED,
        "good": Status.OK,
        "wrong": Status.WRONG,
        "silent": Status.FAILED,
        "segv": Status.CRASHED,
        "stack": Status.CRASHED,
        "full": Status.DISK_FULL,
        "input": Status.OK,
    }
    assert "no_such_file.c" in (made.directory / found["badbuild"].log).read_text()
    assert "the mesh is missing" in (made.directory / found["badinput"].log).read_text()
    assert (
        found["wrong"].diagnosis == "answer 2 is not 1" and "no time" in found["silent"].diagnosis
    )
    assert (found["segv"].signal, found["stack"].signal) == (11, 11)
    assert "not the stack limit" in found["segv"].diagnosis
    assert (
        "Confirmed: the same program ran with an unlimited stack" in found["stack"].diagnosis
        and "-fstack-arrays" in found["stack"].diagnosis
    )
    assert found["input"].seconds == 0.42  # the child input was made from its parent
    good = found["good"]
    assert (
        good.placement[0].cpus == sorted(os.sched_getaffinity(0))
        and good.load.load_before is not None
        and good.wall_seconds > 0
    )
    assert good.energy.joules is not None or "RAPL" in good.energy.reason
    provenance = results.provenance[good.provenance]
    assert {
        "suite_version",
        "app_version",
        "input_hash",
        "stack_limit_kib",
        "kernel",
        "launch",
        "environment",
    } <= set(provenance)
    assert "time 0.25" in (made.directory / good.log).read_text()


def still_running(directory):
    """Processes of any run of a campaign."""
    return [w for w in directory.glob("records/*/watch") if leftovers.of_run(str(w), set())]


def test_a_hung_run_is_ended_at_its_time_limit_with_all_that_it_started(start):
    """Bug guarded against: a child in a session of its own outlived its run."""
    results, made = start(["stuck", "good"], time_limit_s=3)
    found = by_size(results)
    assert found["stuck"].status is Status.TIMEOUT and "3 s" in found["stuck"].diagnosis
    assert found["stuck"].flags == ["left running: sleep; ended after the run"]
    assert found["good"].status is Status.OK and not still_running(made.directory)


def test_what_a_good_run_leaves_is_ended_and_named_and_a_flood_is_cut(start):
    """Bugs guarded against: a child in a session of its own survived a good run unmentioned; a
    program that printed 3 GB filled the disk and outlived its time limit by a minute."""
    results, made = start(["orphan", "flood"], time_limit_s=100)
    found = by_size(results)
    assert found["orphan"].status is Status.OK and found["orphan"].seconds == 0.05
    assert found["orphan"].flags[0] == "left running: sleep; ended after the run"
    assert found["flood"].status is Status.FAILED
    assert found["flood"].diagnosis == "it printed more than 64 MiB and was cut there"
    printed = [p.stat().st_size for p in made.directory.rglob("rfm_job.out")]
    assert max(printed) <= PRINTED_BYTES and not still_running(made.directory)


def test_the_same_campaign_continues_and_repeats_nothing(start):
    _, made = start(["good"], repeats=2)
    lines = made.journal.read_text().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if '"sample"' in line)
    made.journal.write_text("".join(lines[:last]))  # as if it had been killed before the second run
    first = made.results()
    again, _ = start(["good"], repeats=2)
    assert [s.repeat for s in again.samples] == [0, 1]
    assert again.samples[0] == first.samples[0]


def test_rounds_are_spread_at_moments_that_are_drawn_and_kept(tmp_path, profile, topology, tools):
    toys = Tools(SITE, registry(SITE), tools.compilers, tools.mpis)
    before = time.time()
    new = [
        Campaign(tmp_path / "c", toys, profile, topology, Options(over_s=3600.0)) for _ in range(2)
    ]
    moments, again = (one._moments(4) for one in new)
    assert moments == again  # what goes on later keeps to them
    parts = [(moment - before) / 900.0 for moment in moments]
    assert [int(part) for part in parts] == [0, 1, 2, 3]
    assert len({round(part % 1.0, 3) for part in parts}) == 4


def test_a_campaign_keeps_the_number_of_runs_that_it_began_with(start):
    """Bug guarded against: whoever adds runs after looking, until a difference shows, finds one."""
    start(["good"], repeats=1)
    with pytest.raises(BadInput, match="was begun with 1 repeats, this asks for 2"):
        start(["good"], repeats=2)


def test_a_journal_line_that_was_cut_loses_only_itself(tmp_path):
    append(tmp_path / "j", {"a": 1})
    with (tmp_path / "j").open("a") as file:
        file.write('{"sample": {"id": "ha')
    assert read_journal(tmp_path / "j") == [{"a": 1}]


def test_a_full_disk_is_refused_before_and_named_in_the_middle(start, monkeypatch):
    monkeypatch.setattr(
        campaign_module.shutil, "disk_usage", lambda _: type("U", (), {"free": 50 * 2**20})()
    )
    with pytest.raises(NoSpace, match="50 MiB free"):
        start(["good"])
    monkeypatch.undo()
    original = campaign_module.append
    monkeypatch.setattr(
        campaign_module, "append", lambda path, entry: original(Path("/dev/full"), entry)
    )
    with pytest.raises(NoSpace, match="is full; all samples up to now are in the journal"):
        start(["good"], name="d")


def test_a_failure_is_measured_again_only_when_asked_for(start, tmp_path, monkeypatch):
    """What was missing may have been brought since: here, the compiler's name."""
    first, made = start(["badbuild", "good"])
    assert "no_such_file.c" in by_size(first)["badbuild"].diagnosis
    monkeypatch.setattr(start.toys.apps["toy"], "build", lambda config, context: None)
    again, _ = start(["badbuild", "good"])
    assert by_size(again)["badbuild"].status is Status.BUILD_FAILED
    retried, _ = start(["badbuild", "good"], retry=True)
    assert (
        by_size(retried)["badbuild"].status is not Status.BUILD_FAILED and len(retried.samples) == 2
    )
    # the journal forgets nothing
    assert sum("sample" in e for e in read_journal(made.journal)) == 3


def test_two_measurements_at_once_are_refused(tmp_path):
    with MachineLock(tmp_path / "lock"):
        with pytest.raises(Busy, match=f"process {os.getpid()}"):
            with MachineLock(tmp_path / "lock"):
                pass
    with MachineLock(tmp_path / "lock"):
        pass


@pytest.mark.parametrize("end, in_background", [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_ctrl_c_keeps_what_was_measured_and_ends_what_runs(tmp_path, profile, end, in_background):
    """The whole command: interrupted in a run that hangs, it exits with 130, keeps the sample of an
    earlier start, and leaves no process. A script's background commands start with SIGINT ignored;
    there SIGTERM must do the same."""
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(SITE))
    common = [
        *(sys.executable, "-m", "hpcaas.cli", "measure", "--site", str(tmp_path / "site.yaml")),
        *("--apps", "toy", "--out", str(tmp_path), "--campaign", "c", "--noise", "ignore"),
        *("--repeats", "1"),
    ]
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # a lock of its own
    before = Sample(
        id="before",
        campaign="c",
        configuration=Configuration(app="toy", size="good"),
        machine=profile["id"],
        repeat=0,
        status=Status.OK,
        seconds=0.25,
        wall_seconds=0.3,
    )
    (tmp_path / "c").mkdir()
    append(tmp_path / "c/journal.jsonl", {"machine": profile})
    said = {"sample": before.model_dump(mode="json", exclude_none=True), "provenance": {}}
    append(tmp_path / "c/journal.jsonl", said)
    process = subprocess.Popen(
        [*common, "--size", "hang", "--time-limit-s", "300"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        if in_background
        else None,
    )
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("c/records/*/watch/rank.0")):
        assert process.poll() is None and time.monotonic() < deadline, (
            "the hanging run did not start"
        )
        time.sleep(0.05)  # waits for the condition above
    pid = next(
        int(p.read_text().split()[2])
        for p in tmp_path.glob("c/records/*/watch/rank.0")
        if (p.parent.parent / "fifo").exists()
    )
    process.send_signal(end)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted; 1 samples are kept" in output, output
    assert (
        not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    )
    kept = json.loads((tmp_path / "c/results.json").read_text())
    assert [s["status"] for s in kept["samples"]] == ["ok"]


@pytest.mark.slow
def test_a_file_system_is_where_the_run_takes_place(
    start, tmp_path, profile, topology, tools, monkeypatch
):
    place = tmp_path / "fast"
    place.mkdir()
    site = {**SITE, "filesystems": {"fast": str(place), "slow": str(tmp_path)}}
    toys = Tools(site, registry(site), tools.compilers, tools.mpis)
    plan = make_plan(
        Choice(["toy"], {"": "good"}, {"filesystem": ["fast"]}, repeats=1),
        toys,
        {**profile, "filesystems": ["fast", "slow"]},
        topology,
    )
    results = Campaign(tmp_path / "c", toys, profile, topology, Options()).run(plan)
    assert results.samples[0].status is Status.OK and (place / "hpcaas-stage").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_binding_and_mpi_are_read_back_from_the_processes(tmp_path, profile, topology, tools, mpi):
    if mpi not in tools.mpis or len(topology.cores) < 2 or "gcc" not in tools.compilers:
        pytest.skip("needs g++, two cores and this MPI")
    plan = make_plan(
        Choice(
            ["montecarlo"],
            {"": "small"},  # seconds, so that the watcher sees it run
            {"mpi": [mpi], "binding": ["cores"], "split": ["2x1"], "optimisation": ["O3"]},
            repeats=1,
        ),
        tools,
        profile,
        topology,
    )
    results = Campaign(tmp_path / "c", tools, profile, topology, Options()).run(plan)
    (sample,) = results.samples
    assert sample.status is Status.OK, sample.diagnosis
    first, second = (topology.of_core(core)[:1] for core in topology.cores[:2])
    assert sorted(p.cpus for p in sample.placement) == [first, second]
    assert not [f for f in sample.flags if f.startswith(("binding differs", "MPI differs"))]
    provenance = results.provenance[sample.provenance]
    assert mpi in provenance["fabric_and_mpi_mapped"]
    assert "libmpi" in " ".join(provenance["libraries"])
    if shutil.which("dpkg-query"):
        packages = {said.split()[0] for said in provenance["library_versions"].values()}
        assert "libc6" in packages
        assert any(name.startswith(("libopenmpi", "libmpich")) for name in packages)


@pytest.mark.slow
def test_installations_by_module_are_loaded_through_reframe(
    tmp_path, profile, topology, tools, monkeypatch
):
    """Two installations of one application, one per compiler, as a site would have them."""
    if not shutil.which("modulecmd"):
        pytest.skip("no environment modules here: apt-get install environment-modules")
    for version, seconds in (("gcc", "0.5"), ("intel", "0.25")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "toytool").write_text(f"#!/bin/sh\necho time {seconds} 1\n")
        (tmp_path / version / "toytool").chmod(0o755)
        (tmp_path / "modules/toytool").mkdir(parents=True, exist_ok=True)
        (tmp_path / "modules/toytool" / version).write_text(
            f"#%Module1.0\nprepend-path PATH {tmp_path / version}\n"
        )
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules"))
    site = {
        **SITE,
        "modules_system": "tmod4",
        "installations": {
            "moduled": [
                {"name": v, "modules": [f"toytool/{v}"], "axes": {"compiler": v}}
                for v in ("gcc", "intel")
            ]
        },
    }
    toys = Tools(site, registry(site), tools.compilers, tools.mpis)
    plan = make_plan(
        Choice(["moduled"], {"": "good"}, {"compiler": ["gcc", "intel"]}, repeats=1),
        toys,
        profile,
        topology,
    )
    results = Campaign(tmp_path / "c", toys, profile, topology, Options()).run(plan)
    assert {s.configuration.compiler: s.seconds for s in results.samples} == {
        "gcc": 0.5,
        "intel": 0.25,
    }, [s.diagnosis for s in results.samples]
