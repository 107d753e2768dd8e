"""Runs the programs: servers and clients of the limits, Skerry jobs, peers. Everything started here is ended here."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import machine, mpis
from .process import run_program, running
from .report import Samples

CORES = {"one_core": (0, 0), "two_cores": (0, 1)}  # origin, target
CLIENT, SERVER = ("sk1", "10.77.0.1"), ("sk2", "10.77.0.2")


class Runner:
    """`build` holds bin/; `hosts`: this runs under testbed/hosts.sh. Without it two-host rows use the loopback and virtual nodes."""

    def __init__(self, root: Path, build: Path, hosts: bool, quick: bool, verbose: bool):
        self.bench, self.launcher, self.testbed = (
            build / "bin" / "bench",
            build / "bin" / "skerry",
            root / "testbed" / "hosts.sh",
        )
        self.lab_locks = build / "lab" / "locks" / "lab_locks.so"
        self.root, self.hosts, self.verbose = root, hosts, verbose
        self.samples: Samples = {}
        self.peers: dict[str, Samples] = {}
        self.loads: list[float] = []
        self.complaints: list[str] = []
        self.endless: set[str] = set()  # peers' jobs that did not end: not run again
        self.environment = {
            **os.environ,
            "BENCH_TIME_SCALE": "0.3" if quick else "1",
            **mpis.AS_ROOT,
        }

    def load_since(self, before: float) -> dict:
        """What the machine did besides: before the first run, least and most at a start, now."""
        during = [min(self.loads, default=before), max(self.loads, default=before)]
        return {"before": before, "during": during, "after": machine.load()}

    def has(self, program: str) -> bool:
        return (self.bench / program).exists()

    # ---- processes -------------------------------------------------------------------------------

    def on(self, host: str, command: list) -> list[str]:
        command = [str(part) for part in command]
        return [str(self.testbed), "exec", host, *command] if self.hosts else command

    def _note(self, text: str) -> None:
        if text not in self.complaints:
            self.complaints.append(text)
            print(f"bench: {text}", file=sys.stderr)

    def _collect(
        self,
        name: str,
        command: list[str],
        into: Samples,
        scenario: str,
        extra: dict[str, str] | None = None,
        limit_s: float = 120,
    ) -> bool:
        """Runs one program to its end and files its rows. A failure is reported once and leaves the row empty: a table with a hole beats none.
        A peer that did not end is left out of later rounds: each would cost its time limit."""
        if name in self.endless:
            return False
        self.loads.append(machine.load())
        if self.verbose:
            print("bench: " + " ".join(command), file=sys.stderr)
        done = run_program(command, {**self.environment, **(extra or {})}, limit_s)
        for row, value in done.rows:
            into.setdefault((scenario, row), []).append(value)
        if done.late and into is not self.samples:
            self.endless.add(name)
            self._note(f"{name} failed: {done.why}; left out of later rounds")
        elif done.why:
            self._note(f"{name} failed: {done.why}")
        return not done.why

    @contextlib.contextmanager
    def _server(self, host: tuple[str, str], command: list, on_hosts: bool):
        process = subprocess.Popen(
            self.on(host[0], command) if on_hosts else [str(c) for c in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        try:
            word = process.stdout.readline().split()
            if len(word) != 2:
                raise RuntimeError(f"{command[0]} did not start")
            yield (host[1] if on_hosts and self.hosts else "127.0.0.1"), word[1]
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # ---- limits ----------------------------------------------------------------------------------

    def tcp(
        self,
        cores: str,
        rows: str,
        scenario: str = "tcp",
        busy: bool = False,
        loopback: bool = False,
    ) -> None:
        origin, target = CORES[cores]
        on_hosts = self.hosts and not loopback
        serve = [self.bench / "limit_tcp", "serve", "--cpu", target] + (["--busy"] if busy else [])
        with self._server(SERVER, serve, on_hosts) as (host, port):
            measure = [
                self.bench / "limit_tcp",
                "measure",
                "--host",
                host,
                "--port",
                port,
                "--cpu",
                origin,
                "--rows",
                rows,
            ]
            self._collect(
                "limit_tcp",
                self.on(CLIENT[0], measure) if on_hosts else [str(m) for m in measure],
                self.samples,
                f"{scenario}.{cores}",
            )

    def ofi(self, cores: str, loopback: bool = False) -> None:
        if not self.has("limit_ofi"):
            return
        origin, target = CORES[cores]
        on_hosts = self.hosts and not loopback
        serve = [self.bench / "limit_ofi", "serve", "--cpu", target] + (
            ["--address", SERVER[1]] if on_hosts else []
        )
        with self._server(SERVER, serve, on_hosts) as (host, port):
            measure = [
                self.bench / "limit_ofi",
                "measure",
                "--host",
                host,
                "--port",
                port,
                "--cpu",
                origin,
            ]
            self._collect(
                "limit_ofi",
                self.on(CLIENT[0], measure) if on_hosts else [str(m) for m in measure],
                self.samples,
                f"{'ofi_loopback' if loopback else 'ofi'}.{cores}",
                limit_s=60,
            )

    def memcpy(self) -> None:
        self._collect(
            "limit_memcpy", [str(self.bench / "limit_memcpy"), "--cpu", "0"], self.samples, "memcpy"
        )

    # ---- Skerry ----------------------------------------------------------------------------------

    def job_command(
        self,
        ranks: int,
        nodes: int,
        cores: str | None,
        program: list,
        per_host: tuple[int, ...] | None = None,
        extra: dict[str, str] | None = None,
    ) -> tuple[list[str], dict[str, str]]:
        """The command of a Skerry job: on the testbed's hosts, `per_host` ranks each, when that is given and hosts are there."""
        pins = ",".join(map(str, CORES[cores])) if cores else ""
        variables = {
            "BENCH_CPUS": pins,
            "BENCH_TIME_SCALE": self.environment["BENCH_TIME_SCALE"],
            **(extra or {}),
        }
        command = [str(self.launcher), "run", "-n", str(ranks)]
        if per_host and self.hosts:
            command += [
                "--hosts",
                ",".join(f"sk{host}:{each}" for host, each in enumerate(per_host, 1)),
                "--agent",
                os.environ["TESTBED_AGENT"],
            ]
            for name, value in variables.items():
                command += ["--env", f"{name}={value}"]
            return self.on("sk0", [*command, *program]), variables
        return [*command, "--nodes", str(nodes), *map(str, program)], variables

    def skerry(
        self,
        scenario: str,
        name: str,
        ranks: int = 2,
        nodes: int = 1,
        cores: str | None = None,
        per_host: tuple[int, int] | None = None,
        argument: str = "",
        extra: dict[str, str] | None = None,
    ) -> None:
        if not (self.has("skerry_rows") and self.launcher.exists()):
            self._note(
                "build/bin/skerry or build/bin/bench/skerry_rows is missing: only limits and peers are measured"
            )
            return
        program = [self.bench / "skerry_rows", scenario] + ([argument] if argument else [])
        command, variables = self.job_command(ranks, nodes, cores, program, per_host, extra)
        self._collect(f"skerry_rows {scenario}", command, self.samples, name, variables)

    def array(self) -> None:
        if self.has("array_row") and self.launcher.exists():
            command, variables = self.job_command(2, 1, "two_cores", [self.bench / "array_row"])
            self._collect("array_row", command, self.samples, "array", variables)
        python = os.environ.get("BENCH_PYTHON") or next(
            (
                str(p)
                for p in (self.root / ".venv" / "bin" / "python", Path(sys.executable))
                if p.exists()
            ),
            "python3",
        )
        path = os.pathsep.join(
            filter(None, [str(self.bench.parents[1] / "python"), os.environ.get("PYTHONPATH")])
        )
        if (
            self.launcher.exists()
            and subprocess.run(
                [python, "-c", "import skerry"],
                capture_output=True,
                env={**os.environ, "PYTHONPATH": path},
            ).returncode
            == 0
        ):
            command, variables = self.job_command(
                2,
                1,
                "two_cores",
                [python, self.root / "lab" / "bench" / "micro" / "skerry" / "array_row.py"],
            )
            variables["PYTHONPATH"] = path
            self._collect("array_row.py", command, self.samples, "python", variables)
        else:
            self._note(f"{python} cannot import skerry: no Python row")

    def idle(self, seconds: float) -> None:
        """User + system time of a 4-rank, 2-node job waiting in a barrier, launcher included, scaled to 10 s."""
        if not (self.has("skerry_rows") and self.launcher.exists()):
            return
        command, variables = self.job_command(
            4, 2, None, [self.bench / "skerry_rows", "idle", str(seconds + 1)]
        )
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
        )
        try:
            if process.stdout.readline().strip() != "waiting":
                self._note("the idle job did not start")
                return
            # the others settle into their wait; nothing depends on it but the figure
            time.sleep(0.4)
            before = machine.cpu_time_ns(running.descendants(process.pid))
            time.sleep(seconds)
            after = machine.cpu_time_ns(running.descendants(process.pid))
            spent_ns = sum(after[pid] - before.get(pid, 0) for pid in after)
            self.samples.setdefault(("idle", "idle_ms"), []).append(spent_ns / 1e6 * 10 / seconds)
        finally:
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.communicate()

    def connections(self, fabric: str) -> None:
        """What connections and idle nodes take in memory; left out where the fabric is not available."""
        if not self.launcher.exists():
            return
        with tempfile.TemporaryDirectory() as directory:
            found = Path(directory) / "connections.json"
            done = subprocess.run(
                [str(self.launcher), "info", "--connections", "--json", str(found)],
                env={**self.environment, "SKERRY_FABRIC": fabric},
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=120,
            )
            if done.returncode:
                if fabric == "tcp":
                    self._note(
                        f"skerry info --connections failed: {' | '.join(done.stderr.strip().splitlines()[-2:])}"
                    )
                return
            measured = json.loads(found.read_text())
        for name, bytes_of in measured.items():
            if isinstance(bytes_of, dict):
                self.samples.setdefault((f"connections.{fabric}", name), []).append(
                    bytes_of["account"] + (bytes_of["kernel"] or 0)
                )
        if measured["origin_connection"]["kernel"]:
            self.samples.setdefault((f"connections.{fabric}", "kernel"), []).append(
                measured["origin_connection"]["kernel"]
            )

    def shape(self, rate: str) -> None:
        if self.hosts:
            subprocess.run([str(self.testbed), "shape", rate], check=True)

    def start_and_end(self, name: str, command: list, into: Samples, row: str) -> None:
        """Wall time in ms of one job that only starts and ends, launcher included."""
        before = time.perf_counter()
        if self._collect(name, [str(part) for part in command], into, "start"):
            into.setdefault(("start", row), []).append((time.perf_counter() - before) * 1e3)

    def start_and_end_skerry(self, ranks: int, nodes: int, row: str) -> None:
        if not (self.has("start_end") and self.launcher.exists()):
            return
        command = [self.launcher, "run", "-n", ranks, "--nodes", nodes, self.bench / "start_end"]
        self.start_and_end("start_end", command, self.samples, row)

    def life(self, ranks: int) -> None:
        if not (self.has("life") and self.launcher.exists()):
            return
        command = [self.launcher, "run", "-n", ranks, self.bench / "life", 500]
        self._collect("life", [str(part) for part in command], self.samples, f"life.{ranks}")

    def start_and_end_peers(self, ranks: int, row: str) -> None:
        for name, program, starter, more in (
            (
                "openmpi",
                "peer_start_end_openmpi",
                "mpirun.openmpi",
                ["--bind-to", "none", "--oversubscribe"],
            ),
            ("mpich", "peer_start_end_mpich", "mpiexec.hydra", []),
        ):
            found = shutil.which(starter)
            if found is None or not self.has(program):
                continue
            command = [found, "-n", ranks, *more, self.bench / program]
            self.start_and_end(name, command, self.peers.setdefault(name, {}), row)

    # ---- peers -----------------------------------------------------------------------------------

    def peer(self, name: str, program: str, remote: bool) -> None:
        """The rows of two ranks, on this machine or on two hosts."""
        where = "remote" if remote else "local"
        self._peer_job(name, program, where, 1 if remote else 2, 2 if remote else 1)

    def peer_collective(self, name: str, layout: str, each: int, hosts: int) -> None:
        self._peer_job(name, f"peer_collective_{name}", f"collective.{layout}", each, hosts)

    def _peer_job(self, name: str, program: str, scenario: str, each: int, hosts: int) -> None:
        """`each` ranks on each of `hosts`; 1 is this machine."""
        if not self.has(program):
            return
        mpich, remote = program.endswith("mpich"), hosts > 1
        starter = shutil.which("mpiexec.hydra" if mpich else "mpirun.openmpi")
        if starter is None or (remote and not self.hosts):
            return
        mpi = mpis.Mpi("hydra" if mpich else "openmpi4", starter)
        command = [*mpi.command((each,) * hosts), str(self.bench / program), scenario]
        self._collect(
            f"{name} ({scenario})",
            self.on("sk0", command) if remote else command,
            self.peers.setdefault(name, {}),
            scenario,
            limit_s=90,
        )
