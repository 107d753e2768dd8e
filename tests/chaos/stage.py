"""Shared by the runs on hosts: a job of storms, its ranks' reports, and commands on a host."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "lab" / "bench" / "micro")]

import running  # noqa: E402
from harness import report  # noqa: E402

HOSTS = ROOT / "testbed" / "hosts.sh"


def enter_testbed(hosts):
    """Starts this program again inside a testbed of its own, unless it is in one. Ends it with status 77 (skipped) where that is not possible."""
    if "TESTBED" in os.environ:
        return
    lacking = (
        "needs root, to make hosts of network namespaces"
        if os.geteuid() != 0
        else "needs iproute2"
        if shutil.which("ss") is None
        else None
    )
    if lacking:
        print(f"{pathlib.Path(sys.argv[0]).name}: skipped: {lacking}", file=sys.stderr)
        sys.exit(77)
    os.execv(HOSTS, [str(HOSTS), "run", str(hosts), "--", sys.executable, *sys.argv])


def holder(host):
    """Process that holds the namespaces of host number `host`; 0 is where the launcher runs."""
    return (
        (pathlib.Path(os.environ["TESTBED_DIR"]) / os.environ["TESTBED"] / f"sk{host}")
        .read_text()
        .split(":")[0]
        .strip()
    )


def on(host, *command, check=False):
    """Runs a command in the host's network; its output."""
    done = subprocess.run(
        ["nsenter", "-t", holder(host), "--net", *map(str, command)], capture_output=True, text=True
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} on sk{host}: {done.stderr}")
    return done.stdout


class Storm:
    """A job of tests/chaos/storm.cpp that goes on until it is told to stop."""

    def __init__(self, build, ranks, hosts, seed, environment, operations=1500, first_host=1):
        self.ranks = ranks
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="skerry-chaos-"))
        self.mark = uuid.uuid4().hex
        each = ranks // hosts
        where = ",".join(f"sk{first_host + k}:{each}" for k in range(hosts))
        command = [
            str(HOSTS),
            "exec",
            "sk0",
            str(build / "bin" / "skerry"),
            "run",
            "-n",
            str(ranks),
            "--hosts",
            where,
            "--agent",
            os.environ["TESTBED_AGENT"],
            str(build / "bin" / "tests" / "storm"),
            "--seed",
            str(seed),
            "--epochs",
            "0",
            "--operations",
            str(operations),
            "--report",
            str(self.directory),
        ]
        self.output = open(self.directory / "output", "w+")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ, SKERRY_USER_CHAOS=self.mark, **environment),
        )
        self.moved = time.monotonic()
        self.operations = -1

    def reports(self):
        """The last report of each rank; empty until all have reported."""
        found = []
        for rank in range(self.ranks):
            try:
                found.append(json.loads((self.directory / f"rank.{rank}").read_text()))
            except (OSError, ValueError):
                return []
        operations = sum(r["operations"] for r in found)
        if operations != self.operations:
            self.operations, self.moved = operations, time.monotonic()
        return found

    def running(self):
        return self.process.poll() is None

    def hung(self, limit_s):
        self.reports()
        return self.running() and time.monotonic() - self.moved > limit_s

    def pids(self):
        """Every process with the job's mark."""
        return running.marked(self.mark)

    def stop(self, limit_s):
        """Lets the job end. Returns True if it ended without an error."""
        (self.directory / "stop").touch()
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return self.process.returncode == 0 and "every sum exact" in self.text()

    def text(self):
        self.output.flush()
        return (self.directory / "output").read_text(errors="replace")

    def stacks(self):
        """Where its threads sleep, for a report on a hang."""
        lines = []
        for pid in self.pids():
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
                try:
                    lines.append(
                        f"{pid} {(task / 'comm').read_text().strip()}: {(task / 'wchan').read_text()}"
                    )
                except OSError:
                    continue
        return "\n".join(lines)

    def end(self):
        """Ends every process left of the job. Returns those that were left after a second's grace."""
        grace = time.monotonic() + 5
        while self.pids() and not self.running() and time.monotonic() < grace:
            time.sleep(0.05)
        left = self.pids()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.output.close()
        return left

    def forget(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def row(name, value, unit, target="", met=None):
    return {"name": name, "value": value, "unit": unit, "target": target, "met": met}


def save(path, rows, notes, replace):
    """Writes the rows; those of earlier runs whose names do not begin with `replace` are kept."""
    kept = []
    if path.exists():
        with contextlib.suppress(ValueError, KeyError):
            kept = json.loads(path.read_text())["rows"]
    kept = [one for one in kept if not one["name"].startswith(replace)]
    report.publish(path, kept + rows, notes)
