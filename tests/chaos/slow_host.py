#!/usr/bin/env python3
"""Slow is not dead: a job that goes on, with the default lease, for five minutes. The ranks and the
agent of one host share a fifth of a core with burners (a control group of their own). The link of
another host loses packets (nftables), both ways. Nobody may be declared dead.

    tests/chaos/slow_host.py [--build DIR] [--seconds S] [--loss PERCENT]

3 hosts of 2 ranks (network namespaces, root, nftables, control groups v1). Standard library only.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import stage

HOSTS, BUSY, LOSSY = 3, 2, 3
BURNERS, QUOTA_US, PERIOD_US = 4, 20_000, 100_000
LIMIT_S = 120
CPU = pathlib.Path("/sys/fs/cgroup/cpu")
BURN = "import os\nos.nice(19)\nwhile True: pass"


def processes_on(host):
    """The agent and the ranks."""
    network = os.stat(f"/proc/{int(stage.holder(host))}/ns/net").st_ino
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            here = os.stat(entry / "ns/net").st_ino == network
        except OSError:
            continue
        if here and words[0].endswith((b"bin/skerry", b"until_told")):
            found.append(int(entry.name))
    return found


def own_group():
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return CPU / path.lstrip("/")
    sys.exit("no control group of processors (v1)")


def run(options):
    """What went wrong; empty: nothing."""
    folder = tempfile.mkdtemp(prefix="skerry-slow-")
    output = pathlib.Path(folder, "output")
    where = ",".join(f"sk{k + 1}:2" for k in range(HOSTS))
    command = [
        stage.HOSTS, "exec", "sk0", options.build / "bin/skerry", "run", "--hosts", where,
        "--agent", os.environ["TESTBED_AGENT"], options.build / "bin/tests/until_told",
    ]  # fmt: skip
    group = own_group() / f"slow-{os.getpid()}"
    burners = []
    with open(output, "w") as file:
        job = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + LIMIT_S
        while output.read_text().count("at work") < 2 * HOSTS:
            if time.monotonic() > deadline or job.poll() is not None:
                return f"the job does not start:\n{output.read_text()}"
            time.sleep(0.1)
        for rule in (
            "add table inet loss",
            "add chain inet loss out { type filter hook output priority 0; }",
            "add chain inet loss in { type filter hook input priority 0; }",
            f"add rule inet loss out numgen random mod 100 < {options.loss} counter drop",
            f"add rule inet loss in numgen random mod 100 < {options.loss} counter drop",
        ):
            stage.on(LOSSY, "nft", rule, check=True)
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        for _ in range(BURNERS):
            burners.append(subprocess.Popen([sys.executable, "-c", BURN]))
        for pid in [*processes_on(BUSY), *(one.pid for one in burners)]:
            (group / "cgroup.procs").write_text(str(pid))
        time.sleep(options.seconds)  # how long it goes well is what is tried
        load = pathlib.Path("/proc/loadavg").read_text().split()[0]
        for one in burners:
            one.kill()
        launcher = [p for p in processes_on(0) if b"\0run\0" in _words(p)]
        dropped = stage.on(LOSSY, "nft", "list", "table", "inet", "loss")
        for pid in launcher:
            os.kill(pid, signal.SIGUSR1)
        status = job.wait(LIMIT_S)
    finally:
        for one in burners:
            one.kill()
            one.wait()
        if job.poll() is None:
            job.terminate()
            job.wait(20)
        if group.exists():
            time.sleep(0.5)  # for what ended to leave the group
            group.rmdir()
    text = output.read_text()
    print("    " + "\n    ".join(text.splitlines()))
    counted = ", ".join(re.findall(r"packets (\d+)", dropped))
    print(f"    {options.seconds} s, load average of this machine {load}; packets lost: {counted}")
    if status != 0 or text.count(", 0 dead") != 2 * HOSTS:
        return f"status {status}"
    return ""


def _words(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=stage.ROOT / "build")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--loss", type=int, default=5, help="of packets each way, in %%")
    options = parser.parse_args()
    options.build = options.build.resolve()
    stage.enter_testbed(HOSTS)
    why = run(options)
    print(f"{'failed' if why else 'passed'}: slow hosts are not dead {why}", flush=True)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
