#!/usr/bin/env python3
"""A launcher that stands still for three leases loses no host: ranks of other hosts stop, and go on
with it. Nor is one lost if all of the job stands still, and the launcher goes on first.

    stalled_launcher.py SKERRY PROGRAM

Hosts are played by an agent command that runs everything here. Standard library only.
"""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import running

LEASE_S, LIMIT_S = 0.4, 60
MARK = f"SKERRY_USER_MARK=stalled-{os.getpid()}"


def wait_for(what):
    deadline = time.monotonic() + LIMIT_S
    while not what():
        if time.monotonic() > deadline:
            sys.exit(f"not within {LIMIT_S} s: {what.__name__}")
        time.sleep(0.02)


def states(program):
    """Of the ranks, as in /proc: T is stopped."""
    found = []
    for pid in running.marked(MARK):
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        if f"({program.name[:15]})" in text:
            found.append(text.rsplit(")", 1)[1].split()[0])
    return found


def main():
    skerry, program = (Path(word).resolve() for word in sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="skerry-stalled-") as folder:
        agent, output = Path(folder, "agent"), Path(folder, "output")
        agent.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        agent.chmod(0o755)
        command = [
            skerry, "run", "--hosts", "h1:2,h2:2", "--agent", agent, "--interface", "lo",
            "--lease", int(1000 * LEASE_S), program,
        ]  # fmt: skip
        with open(output, "w") as file:
            name, _, value = MARK.partition("=")
            job = running.start(command, {name: value}, stdout=file)

        def all_work():
            return output.read_text().count("at work") == 4

        def all_are_stopped():
            return states(program) == ["T"] * 4

        def all_go_on():
            return "T" not in states(program)

        try:
            wait_for(all_work)
            os.kill(job.pid, signal.SIGSTOP)
            wait_for(all_are_stopped)
            time.sleep(3 * LEASE_S)  # the length of the stop is what is tried
            os.kill(job.pid, signal.SIGCONT)
            wait_for(all_go_on)
            time.sleep(2 * LEASE_S)  # they hold leases again
            others = [pid for pid in running.marked(MARK) if pid != job.pid]
            for pid in [job.pid, *others]:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(3 * LEASE_S)
            os.kill(job.pid, signal.SIGCONT)
            time.sleep(LEASE_S / 2)  # it looks twice meanwhile
            for pid in others:
                os.kill(pid, signal.SIGCONT)
            wait_for(all_go_on)
            time.sleep(2 * LEASE_S)
            os.kill(job.pid, signal.SIGUSR1)
            status = job.wait(LIMIT_S)
        finally:
            for pid in [job.pid, *running.marked(MARK)]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        text = output.read_text()
        if status != 0 or text.count(", 0 dead") != 4:
            sys.exit(f"status {status}\n{text}")
    print("passed: a launcher that stood still lost nobody")


if __name__ == "__main__":
    main()
