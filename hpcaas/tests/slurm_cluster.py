"""A Slurm cluster on this machine, for `make test-slurm`: Debian's daemons on the hosts of
testbed/hosts.sh (network namespaces).

sk0 is the login and control node, sk1 and up compute. All share the file system, as a cluster's
home does. Every daemon runs in the foreground as a child of this process, dies with it, and is
ended by `close`; what runs on sk1 and up dies with its host.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Optional

HOSTS = Path(__file__).resolve().parents[2] / "testbed" / "hosts.sh"
NEEDED = ("slurmctld", "slurmd", "munged", "srun", "nsenter", "setpriv")
ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db")

_CONF = """ClusterName=hpcaas
SlurmctldHost=sk0(10.77.0.254)
AuthInfo=socket={dir}/munge.sock
SlurmUser=root
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool-%n
TmpFS={dir}/tmp-%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
MessageTimeout=60
TCPTimeout=30
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1
{accounting}
NodeName=sk[1-{nodes}] NodeAddr=10.77.0.[1-{nodes}] CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_DBD = """AuthInfo=socket={dir}/munge.sock
DbdHost=localhost
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass={password}
PidFile={dir}/slurmdbd.pid
LogFile={dir}/slurmdbd.log
"""


def missing(accounting: bool = False) -> Optional[str]:
    """Why no cluster can be started here; None if one can."""
    if os.geteuid() != 0:
        return "needs root, to make hosts of network namespaces"
    if "TESTBED" not in os.environ:
        return "needs hosts: run it by `make test-slurm`"
    absent = [p for p in (*NEEDED, *(ACCOUNTING if accounting else ())) if not shutil.which(p)]
    return f"not installed: {', '.join(absent)}" if absent else None


class Cluster:
    def __init__(self, nodes: int, accounting: bool):
        self.nodes = nodes
        self.accounting = accounting
        self.dir = Path(tempfile.mkdtemp(prefix="hpcaas-slurm-"))
        self.env = {**os.environ, "SLURM_CONF": str(self.dir / "slurm.conf")}
        self._started: list[tuple[str, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> "Cluster":
        try:
            self._configure()
            self._start_munge()
            if self.accounting:
                self._start_accounting()
            self.start("sk0", "slurmctld", "-D")
            for k in range(1, self.nodes + 1):
                self.start(f"sk{k}", "slurmd", "-D", "-N", f"sk{k}")
            self.until(self._ready, "its nodes are idle")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what was started, last first, and removes its files. A second call does nothing."""
        if not self.dir.exists():
            return
        self.login("scancel", "--full", "--user=root", check=False)
        for _, process in reversed(self._started):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for name in (f"slurmd-sk{k}.pid" for k in range(1, self.nodes + 1)):
            host, pid = name[7:-4], self.dir / name
            if pid.exists():  # numbers of its own process namespace
                self.on(host, "kill", "-KILL", pid.read_text().strip(), check=False)
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, host: str, *argv: str) -> subprocess.Popen[bytes]:
        name = f"{argv[0]} on {host}"
        log = (self.dir / f"{argv[0]}-{host}.out").open("wb")
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", str(HOSTS), "exec", host, *argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self.env,
        )
        log.close()
        self._started.append((name, process))
        return process

    def on(self, host: str, *argv: str, check: bool = True, **more) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(HOSTS), "exec", host, *argv],
            env={**self.env, **more.pop("env", {})},
            capture_output=True,
            text=True,
            check=check,
            stdin=subprocess.DEVNULL,
            timeout=more.pop("timeout", 60),
            **more,
        )

    def login(self, *argv: str, **more) -> subprocess.CompletedProcess:
        return self.on("sk0", *argv, **more)

    def until(self, condition: Callable[[], bool], what: str, patience_s: float = 60) -> None:
        """Waits for a condition; a daemon that ends meanwhile is an error with its last words."""
        end = time.monotonic() + patience_s
        while not condition():
            for name, process in self._started:
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}: {self.words()}")
            if time.monotonic() > end:
                raise RuntimeError(f"the cluster did not get to where {what}: {self.words()}")
            time.sleep(0.2)

    def words(self) -> str:
        logs = [*self.dir.glob("*.log"), *self.dir.glob("*.out")]
        return "\n".join(f"{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in logs)

    def _ready(self) -> bool:
        shown = self.login("sinfo", "-h", "-N", "-o", "%t", check=False).stdout.split()
        return shown.count("idle") == self.nodes

    def _configure(self) -> None:
        accounting = "AccountingStorageType=accounting_storage/none"
        if self.accounting:
            accounting = (
                "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=sk0\n"
                f"AccountingStoragePass={self.dir / 'munge.sock'}\n"
                "JobAcctGatherType=jobacct_gather/linux"
            )
        cpus = len(os.sched_getaffinity(0))
        text = _CONF.format(dir=self.dir, nodes=self.nodes, cpus=cpus, accounting=accounting)
        (self.dir / "slurm.conf").write_text(text)
        (self.dir / "state").mkdir()
        for k in range(1, self.nodes + 1):
            # A real node has a /tmp of its own, where PMIx keeps its sockets.
            (self.dir / f"tmp-sk{k}").mkdir(mode=0o1777)

    def _start_munge(self) -> None:
        key = self.dir / "munge.key"
        key.touch(mode=0o400)
        key.write_bytes(secrets.token_bytes(128))
        self.dir.chmod(0o755)
        names = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munge.pid"}
        names |= {"log-file": "munge.log", "seed-file": "munge.seed"}
        options = [f"--{option}={self.dir / name}" for option, name in names.items()]
        self.start("sk0", "munged", "--foreground", *options)
        self.until((self.dir / "munge.sock").exists, "munge answers")

    def _start_accounting(self) -> None:
        data, socket = self.dir / "mysql", self.dir / "mysql.sock"
        password = secrets.token_hex(8)
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"],
            check=True,
            capture_output=True,
        )
        init = self.dir / "init.sql"
        init.write_text(
            f"CREATE USER 'slurm'@'%' IDENTIFIED BY '{password}';\n"
            "GRANT ALL ON *.* TO 'slurm'@'%';\n"
        )
        self.start(
            "sk0",
            "mariadbd",
            "--no-defaults",
            "--user=root",
            f"--datadir={data}",
            f"--socket={socket}",
            f"--pid-file={self.dir / 'mysql.pid'}",
            f"--init-file={init}",
            "--skip-name-resolve",
            "--bind-address=127.0.0.1",
        )
        self.until(socket.exists, "the database answers")
        conf = self.dir / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(_DBD.format(dir=self.dir, password=password))
        self.start("sk0", "slurmdbd", "-D")
        listed = ("sacctmgr", "-n", "list", "cluster")
        self.until(lambda: self.login(*listed, check=False).returncode == 0, "slurmdbd answers")
