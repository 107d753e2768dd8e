"""The example of several machines, `make example-machines`: it is run where hosts can be made."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcaas.answers.advise import advise
from hpcaas.answers.costs import price_machines
from hpcaas.answers.groups import Trust
from hpcaas.model import ResultSet
from hpcaas.prices import load_catalogue
from hpcaas.running.noise import disturbed

HERE = Path(__file__).resolve().parents[1]
HOSTS = HERE.parent / "testbed" / "hosts.sh"
KEPT = HERE / "docs" / "examples" / "machines.json"
MACHINES = ["disturbed", "old", "one-core", "two-cores"]


def missing():
    """Why no hosts can be made here; None if they can."""
    if os.geteuid() != 0:
        return "hosts of network namespaces need root"
    if len(os.sched_getaffinity(0)) < 2:
        return "two of the four machines have two CPUs, here is one"
    absent = [p for p in ("g++", "ip", "unshare", "nsenter", "taskset") if not shutil.which(p)]
    if absent:
        return f"not installed: {', '.join(absent)}"
    made = subprocess.run([HOSTS, "run", "1", "--", "true"], capture_output=True, text=True)
    return f"no hosts can be made: {made.stderr.strip()}" if made.returncode else None


def answer(file):
    results = ResultSet.load(file)
    shapes = [f"{name}~oci/VM.Standard.E4.Flex-4-16" for name in MACHINES]
    pricing = price_machines(results, load_catalogue(), shapes)
    return results, advise(results, pricing, trust=Trust(waiting_limit=0.2))


def best_time(results, machine):
    times = [s.seconds for s in results.samples if s.machine == machine and s.ok]
    return sorted(times)[len(times) // 4]


def test_the_kept_example_has_an_answer_for_each_machine_and_one_for_all():
    results, advice = answer(KEPT)
    assert sorted(results.machines) == MACHINES and KEPT.stat().st_size < 200_000
    assert {d.machine for d in advice.per_machine} == set(MACHINES)
    (one,) = advice.decisions[:1]
    assert one.first.machine != "disturbed"
    assert any("disturbed: not known on this machine" in note for note in one.notes)
    alone = {d.machine: advice.sure[d.key] for d in advice.per_machine}
    assert alone["disturbed"].startswith("not known")
    # The limits are real: one core, and a processor without AVX, are slower.
    two = best_time(results, "two-cores")
    assert best_time(results, "one-core") > 1.3 * two and best_time(results, "old") > 1.3 * two


@pytest.mark.slow
def test_four_machines_are_measured_with_one_command_each_and_merged(tmp_path):
    why = missing()
    if why:
        pytest.skip(why)
    program = tmp_path / "hpcaas"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hpcaas.cli "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "HPCAAS": str(program), "PYTHONPATH": str(HERE), "SIZE": "small"}
    script = HERE / "docs" / "examples" / "machines.sh"
    subprocess.run([HOSTS, "run", "4", "--", script, tmp_path, "2"], env=env, check=True)
    results, advice = answer(tmp_path / "machines.json")
    assert sorted(results.machines) == MACHINES and all(s.ok for s in results.samples)
    assert {d.machine for d in advice.per_machine} == set(MACHINES)
    cores = {name: profile["cores"] for name, profile in results.machines.items()}
    assert cores == {"disturbed": 2, "old": 2, "one-core": 1, "two-cores": 2}
    loads = [s.load for s in results.samples if s.machine == "disturbed"]
    assert loads and all(disturbed(load, 0.2) for load in loads), loads
    assert "disturbed" in (tmp_path / "machines.html").read_text()
