#!/usr/bin/env python3
"""A gate of a cluster of data servers dies on a host of its own: its process, or the agent that
started it. The job ends with one message that names it, and no process is left.

    tests/chaos/dead_gate.py [--build DIR]

4 hosts in 2 clusters (network namespaces, root). Standard library only.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time

import stage

HOSTS, RANKS, GATE = 4, 8, 3  # host 3 holds ranks 4 and 5; rank 4's process has its server
LIMIT_S = 60
MESSAGES = {
    "server": "skerry: rank 4 on host sk3 (pid ",
    "agent": "skerry: lost the agent on host sk3 ",
}


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def victim_of(kind, storm):
    """The process on the gate's host, once all ranks are at work."""
    deadline = time.monotonic() + LIMIT_S
    while not storm.reports():
        if not storm.running() or time.monotonic() > deadline:
            sys.exit(f"dead_gate: the job does not start:\n{storm.text()}")
        time.sleep(0.02)
    network = os.stat(f"/proc/{stage.holder(GATE)}/ns/net").st_ino
    server = next(
        pid
        for pid in sorted(storm.pids())
        if os.stat(f"/proc/{pid}/ns/net").st_ino == network
        and b"SKERRY_RANK=4\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    )
    return server if kind == "server" else parent_of(server)


def run(kind, build):
    """What went wrong; empty: nothing."""
    storm = stage.Storm(build, RANKS, HOSTS, 1, {"SKERRY_CLUSTER_SIZE": "2"})
    left = None
    try:
        os.kill(victim_of(kind, storm), signal.SIGKILL)
        try:
            status = storm.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            status = None
    finally:
        left = storm.end()
        text = storm.directory.joinpath("output").read_text(errors="replace")
    said = [line for line in text.splitlines() if line.startswith("skerry: ")]
    if status is None or status == 0:
        return f"status {status}\n{text}"
    if len(said) != 1 or not said[0].startswith(MESSAGES[kind]):
        return f"not one message '{MESSAGES[kind]}...' but {said}"
    if left:
        return f"processes were left behind: {left}"
    storm.forget()
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=stage.ROOT / "build")
    build = parser.parse_args().build.resolve()
    stage.enter_testbed(HOSTS)
    failed = 0
    for kind in MESSAGES:
        why = run(kind, build)
        failed += bool(why)
        print(f"{'failed' if why else 'passed'}: the {kind} of a gate dies {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
