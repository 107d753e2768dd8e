#!/usr/bin/env python3
"""A host of a job that goes on is lost: its processes are killed, its link is cut, its agent is
killed, or it is stopped for three times the lease and continues. The others go on and end with the
right result, nothing goes on on the lost host, and nothing that it writes arrives any more.

    tests/chaos/lost_host.py [--build DIR] [--lease MS]

3 hosts of 2 ranks (network namespaces, root). Standard library only; the program needs NumPy.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import stage

HOSTS, VICTIM = 3, 3
LIMIT_S = 100
PROGRAM = pathlib.Path(__file__).resolve().with_name("goes_on.py")


def processes_on(host):
    """The agent and the ranks: those in the host's network, without the ones that hold it."""
    holder = int(stage.holder(host))
    network = os.stat(f"/proc/{holder}/ns/net").st_ino
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            here = os.stat(entry / "ns/net").st_ino == network
        except OSError:
            continue
        if here and (words[0].endswith(b"bin/skerry") or os.fsencode(PROGRAM) in words):
            found.append(int(entry.name))
    return found


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def wait_for(what, limit_s):
    deadline = time.monotonic() + limit_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def lose(way, lease_s):
    pids = processes_on(VICTIM)
    agent = [p for p in pids if b"\0agent\0" in pathlib.Path(f"/proc/{p}/cmdline").read_bytes()]
    if way == "killed":
        send(pids, signal.SIGKILL)
    elif way == "agent":
        send(agent, signal.SIGKILL)
    elif way == "cut":
        stage.on(VICTIM, "ip", "link", "set", "eth0", "down", check=True)
    else:
        send(pids, signal.SIGSTOP)
        time.sleep(3 * lease_s)  # the length of the stop is what is tried
        send(pids, signal.SIGCONT)


def run(way, build, lease_ms):
    """What went wrong; empty: nothing."""
    output = pathlib.Path(tempfile.mkdtemp(prefix="skerry-lost-")) / "output"
    where = ",".join(f"sk{k + 1}:2" for k in range(HOSTS))
    command = [
        stage.HOSTS, "exec", "sk0", build / "bin/skerry", "run", "--hosts", where,
        "--agent", os.environ["TESTBED_AGENT"], "--lease", lease_ms,
        "--env", f"PYTHONPATH={build / 'python'}", "--env", "OMP_NUM_THREADS=1",
        sys.executable, PROGRAM, 5 * lease_ms / 1000 if way == "stopped" else 0,
    ]  # fmt: skip
    with open(output, "w") as file:
        job = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        if not wait_for(lambda: "at work" in output.read_text(), LIMIT_S):
            return f"the job does not start:\n{output.read_text()}"
        begin = time.monotonic()
        lose(way, lease_ms / 1000)
        try:
            status = job.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"it hangs:\n{output.read_text()}"
        print(f"    {way}: {time.monotonic() - begin:.2f} s from the loss to the job's end")
        # Also on a host that heard nothing: its agent ends them.
        if not wait_for(lambda: not processes_on(VICTIM), 5 + 3 * lease_ms / 1000):
            return f"left on the lost host: {processes_on(VICTIM)}"
    finally:
        if way == "cut":
            stage.on(VICTIM, "ip", "link", "set", "eth0", "up")
        if job.poll() is None:
            job.terminate()
            job.wait(20)
    text = output.read_text()
    print("    " + "\n    ".join(text.splitlines()))
    if status != 0 or "right without [4, 5]" not in text or text.count("the job goes on") < 1:
        return f"status {status}\n{text}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=stage.ROOT / "build")
    parser.add_argument("--lease", type=int, default=1000, help="in ms")
    options = parser.parse_args()
    stage.enter_testbed(HOSTS)
    failed = 0
    for way in ("killed", "agent", "cut", "stopped"):
        why = run(way, options.build.resolve(), options.lease)
        failed += bool(why)
        print(f"{'failed' if why else 'passed'}: a host is lost ({way}) {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
