#!/usr/bin/env python3
"""Ranks of one host in containers of their own, and jobs in one container.

Every kind of namespace, and pairs. All ranks reach each other's memory, or the job is refused with
the remedy; no value lands anywhere else. Standard library only; namespaces take root.

    tests/trouble/containers.py [--build DIR] [--only WORD]
"""

import itertools
import re
import subprocess

from trouble import Job, Skip, expect, run_all

# What a new namespace of a kind makes of the ranks of one host. (Memory and its descriptors pass
# between user, mount and UTS namespaces.)
NODES = {"pid": 2, "ipc": 2, "net": None, "mount": 1, "uts": 1, "user": 1}
NO_INTERFACE = "no usable network interface on this host"
NOT_TRACED = "the system does not let this process"


def unshare(kinds):
    words = ["unshare", *(f"--{kind}" for kind in kinds)]
    words += ["--fork"] if "pid" in kinds else []
    words += ["--map-root-user"] if "user" in kinds else []
    words += ["--mount-proc"] if {"pid", "mount"} <= set(kinds) else []
    try:
        tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    except OSError as why:
        raise Skip(f"no unshare: {why}") from None
    if tried.returncode != 0:
        raise Skip(f"no namespaces can be made here: {tried.stderr.strip()}")
    return words


def refused(job, why):
    expect(job.process.returncode != 0, f"status 0, expected {why!r}\n{job.out}{job.err}")
    expect(why in job.err, f"no {why!r} in: {job.err}")
    return job


def each_rank(*kinds):
    """Each of four ranks is in a container of its own."""

    def check(build, program):
        job = Job(build, ["-n", 4, *unshare(kinds), program, "reach"])
        status = job.end()
        if "net" in kinds:  # nothing but its loopback, which is down
            return refused(job, NO_INTERFACE)
        if status != 0 and "user" in kinds:
            return refused(job, NOT_TRACED)
        expect(status == 0, f"status {status}: {job.err}")
        nodes = 4 if 2 in (NODES[kind] for kind in kinds) else 1
        said = re.search(r"^nodes (\d+)$", job.out, re.M)
        expect(said is not None and int(said[1]) == nodes, f"not {nodes} nodes: {job.out}")
        return job

    return check


def whole_job(*kinds):
    """The launcher and all ranks are in one container."""

    def check(build, program):
        up = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"] if "net" in kinds else []
        environment = {"SKERRY_INTERFACE": "lo"} if "net" in kinds else {}
        ranks = ["-n", 4, "--nodes", 2, program, "reach"]
        job = Job(build, ranks, environment, [*unshare(kinds), *up])
        expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
        expect("nodes 2" in job.out, job.out)
        return job

    return check


def a_rank_dies(build, program):
    """In containers the launcher is the one who sees it. (Process 1 of a PID namespace cannot kill
    itself.)"""
    second = ["sh", "-c", '"$0" "$@"; exit $?']
    job = Job(build, ["-n", 4, *unshare(["pid"]), *second, program, "gets", 3])
    expect(job.end() != 0, "status 0 although a rank died")
    expect("rank 3 " in job.err, f"the message does not name rank 3: {job.err}")
    return job


SETS = [
    *((kind,) for kind in NODES),
    *itertools.combinations(NODES, 2),
    ("pid", "ipc", "net", "mount"),
]
CONTAINERS = [
    *((f"each rank in its own: {' and '.join(kinds)}", each_rank(*kinds)) for kinds in SETS),
    *((f"the job in one: {' and '.join(kinds)}", whole_job(*kinds)) for kinds in SETS),
    ("a rank dies in a PID namespace of its own", a_rank_dies),
]

if __name__ == "__main__":
    run_all(__doc__, CONTAINERS)
