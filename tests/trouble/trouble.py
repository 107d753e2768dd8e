#!/usr/bin/env python3
"""Jobs in which something goes wrong: a death, a stopped rank, unauthenticated peers, too little memory, wrong variables. None may hang, and nothing may be
left behind: no process, no socket, no file. Standard library only.

    tests/trouble/trouble.py [--build DIR] [--only WORD]
"""

import argparse
import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests"))

import running  # noqa: E402

LIMIT_S = 60
DEATH_S = 30  # "within seconds", on a loaded machine


# BUILD stands for the build's directory.
LAB_PROTOCOLS = "two_sided one_sided queue cohort asymmetric reader_writer".split()
LOCK_PROTOCOLS = ["fair", "migrating"]
LOCK_PROTOCOLS += [f"BUILD/lab/locks/lab_locks.so:{name}" for name in LAB_PROTOCOLS]


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Job:
    """A job with a mark in its environment, which finds the processes that it leaves behind."""

    def __init__(self, build, words, environment=None, wrapper=()):
        self.mark = f"SKERRY_USER_TROUBLE={uuid.uuid4().hex}"
        self.begin = time.monotonic()
        name, value = self.mark.split("=")
        set_by_case = {n: v.replace("BUILD", str(build)) for n, v in (environment or {}).items()}
        self.process = subprocess.Popen(
            list(wrapper) + [str(build / "bin" / "skerry"), "run"] + [str(w) for w in words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(os.environ, **set_by_case, **{name: value}),
            start_new_session=True,
        )

    def line(self, prefix):
        """Reads output up to a line that begins with `prefix`."""
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], LIMIT_S)
            if not ready:
                self.kill()
                raise Failure(f"the job does not say {prefix!r}")
            line = self.process.stdout.readline().decode(errors="replace")
            if not line:
                raise Failure(
                    f"the job ended before it said {prefix!r}: {self.process.stderr.read().decode(errors='replace')}"
                )
            if line.startswith(prefix):
                return line[len(prefix) :].strip()

    def tell(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self, limit_s=LIMIT_S):
        try:
            out, err = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            out, err = self.process.communicate()
            raise Failure(
                f"not done after {limit_s} s\n{out.decode(errors='replace')}{err.decode(errors='replace')}"
            ) from None
        self.seconds = time.monotonic() - self.begin
        self.out, self.err = out.decode(errors="replace"), err.decode(errors="replace")
        return self.process.returncode

    def kill(self):
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def left(self):
        """Processes that carry the mark: only ever ours."""
        return running.marked(self.mark)


def sockets():
    """Names of Skerry's sockets on this machine, by inode."""
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
    return {words[6]: words[-1] for words in lines if words[-1].startswith("@skerry")}


def sockets_left(before, mark):
    """Names of sockets that have come since `before`, but those of other people's jobs: processes
    hold them that do not carry `mark`."""
    new = {inode: name for inode, name in sockets().items() if inode not in before}
    if not new:
        return set()
    ours = set(running.marked(mark))
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) in ours:
            continue
        with contextlib.suppress(OSError):
            for entry in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    new.pop(os.readlink(entry).removeprefix("socket:[").removesuffix("]"), None)
    return set(new.values())


def shared_files():
    return set(os.listdir("/dev/shm"))


def wait_until(condition, what, limit_s=20):
    deadline = time.monotonic() + limit_s
    while not condition():
        expect(time.monotonic() < deadline, what)
        time.sleep(0.02)


# ---- the kinds of trouble ------------------------------------------------------------------------


def death(
    kind, victim, cause=r"signal 9|SIGKILL", layout=("-n", 4, "--nodes", 2), environment=None
):
    def check(build, program):
        job = Job(build, [*layout, program, kind, victim], environment)
        status = job.end(DEATH_S)
        expect(status != 0, "status 0 although a rank died")
        messages = [line for line in job.err.splitlines() if line.startswith("skerry: ")]
        expect(len(messages) == 1, f"not one message but {len(messages)}:\n{job.err}")
        expect(
            f"rank {victim} " in messages[0] and re.search(cause, messages[0]),
            f"the message does not name rank {victim} and the cause: {messages[0]}",
        )
        return job

    return check


def told(victim, ranks, nodes, environment):
    """Every other rank learns of a death from its own calls, by the usual message."""

    def check(build, program):
        job = Job(build, ["-n", ranks, "--nodes", nodes, program, "told", victim], environment)
        status = job.end(DEATH_S)
        expect(status != 0, "status 0 although a rank died")
        for rank in range(ranks):
            line = re.search(rf"^rank {rank} was told (.*)$", job.out, re.M)
            if rank == victim:
                expect(line is None, "the victim lives")
                continue
            expect(line is not None, f"rank {rank} was not told:\n{job.out}{job.err}")
            good = re.match(rf"SKERRY_ERR_PEER_DEAD: .*rank {victim}\b", line[1])
            expect(good, f"rank {rank} was not told who died: {line[1]}")
        return job

    return check


def stop_victim(job):
    """The victim's process id, once it is stopped and the job was told to go on."""
    pid = None
    ready = False
    while pid is None or not ready:
        line = job.line("")
        if line.startswith("victim "):
            pid = int(line.split()[1])
        ready = ready or line == "ready"
    os.kill(pid, signal.SIGSTOP)
    wait_until(
        lambda: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T",
        "the rank does not stop",
    )
    job.tell()
    return pid


def stopped(victim, is_server):
    def check(build, program):
        job = Job(build, ["-n", 4, "--nodes", 2, program, "stopped", victim])
        pid = stop_victim(job)
        if not is_server:
            job.line("worked")  # one-sided: the stopped rank is not needed
        else:
            expect(job.process.poll() is None, "a stopped server was taken for dead")
        os.kill(pid, signal.SIGCONT)
        if is_server:
            job.line("worked")
        expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
        return job

    return check


def stopped_for_long(build, program):
    """Rank 1 opens its first connection to a server that is stopped, for longer than all time-outs.
    Bug guarded against: the server was declared dead while its process lived."""
    timeouts = {"SKERRY_RECONNECT_TIMEOUT": "1", "SKERRY_SILENCE_TIMEOUT": "1"}
    timeouts["SKERRY_CONNECT_TIMEOUT"] = "3"  # the start of the job needs its time, too
    job = Job(build, ["-n", 4, "--nodes", 2, program, "stopped", 2, 1], timeouts)
    pid = stop_victim(job)
    _, port = listening_port(pid)
    # Attempts wait at the listener: two have failed when the third is there.
    wait_until(
        lambda: job.process.poll() is not None or pending_connections(pid, port) >= 3,
        "nobody connects",
    )
    expect(job.process.poll() is None, "a stopped server was taken for dead")
    os.kill(pid, signal.SIGCONT)
    job.line("worked")
    expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    expect(job.err.count("skerry: rank 1 waits for the data server of node 1") == 1, job.err)
    expect("SKERRY_CONNECT_TIMEOUT" in job.err, job.err)
    return job


def refused_for_want_of_descriptors(build, program):
    """The rank whose connection is refused says why. Bug guarded against: it said that the server
    was dead or the network broken, after a minute."""
    environment = {"SKERRY_RECONNECT_TIMEOUT": "1"}
    job = Job(build, ["-n", 4, "--nodes", 2, program, "refused", 2], environment)
    expect(job.end() != 0, "status 0 although a rank gave up")
    said = re.search(r"^refused: (.*)$", job.out, re.M)
    expect(said, job.out + job.err)
    expect(
        said[1].startswith("SKERRY_ERR_NETWORK: rank 1 cannot reach the data server of node 1"),
        said[1],
    )
    expect("refused: its process has no descriptor left (ulimit -n)" in said[1], said[1])
    return job


def pending_connections(pid, port):
    """Connections that the process has not accepted from its listener; 0: or it is gone."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            return 0
        for line in lines:
            words = line.split()
            if words[3] == "0A" and int(words[1].split(":")[1], 16) == port:
                return int(words[4].split(":")[1], 16)
    return 0


def listening_port(pid):
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                host = socket.inet_ntoa(bytes.fromhex(address)[::-1]) if table == "tcp" else "::1"
                return ("127.0.0.1" if host == "0.0.0.0" else host), int(port, 16)
    raise Failure(f"process {pid} listens nowhere")


def unauthenticated(build, program):
    job = Job(build, ["-n", 3, "--nodes", 2, program, "unauthenticated"])
    pid, ready = None, False
    while pid is None or not ready:
        line = job.line("")
        if line.startswith("server "):
            pid = int(line.split()[1])
        ready = ready or line == "ready"
    address = listening_port(pid)
    crowd = []
    try:
        for i in range(1000):
            s = socket.create_connection(address, timeout=10)
            if i % 3 == 1:
                try:
                    s.sendall(os.urandom(1 + i % 700))
                except OSError:
                    pass  # closed already: that is an answer
            crowd.append(s)
        job.tell()
        job.line("worked")
        expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    finally:
        for s in crowd:
            s.close()
    return job


def recorded_handshake(build, program):
    """What the ranks of one node said first to the other node's data server, sent again while their
    connections live: it is turned away with the reason alone, counted, and takes nothing from
    them."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "handshakes"
        environment = {
            "SKERRY_COUNTERS": "1",
            "SKERRY_USER_RECORD": str(record),
            "SKERRY_INTERFACE": "lo",
        }
        preload = f"LD_PRELOAD={program.parent / 'recorded.so'}"
        words = ["-n", 3, "--nodes", 2, "env", preload, program, "recorded"]
        job = Job(build, words, environment)
        job.line("ready")
        lines = [line.split() for line in record.read_text().splitlines()]
        expect(len(lines) >= 2, f"{len(lines)} handshakes were recorded")
        for address, port, said in lines * 5:
            with socket.create_connection((address, int(port)), timeout=20) as peer:
                peer.sendall(bytes.fromhex(said))
                answer = b""
                with contextlib.suppress(ConnectionResetError):
                    while part := peer.recv(100):
                        answer += part
                expect(
                    answer[:8] == b"SKRN\x01\0\x01\0" and len(answer) == 9, f"answered: {answer}"
                )
        job.tell()
        expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    told = re.search(r"refused_replayed +(\d+)", job.out + job.err)
    expect(told and int(told[1]) == 5 * len(lines), job.err)
    return job


def two_jobs(build, program):
    jobs = [
        Job(
            build,
            [
                "-n",
                4,
                "--nodes",
                2,
                build / "bin" / "tests" / "ops",
                "words,notify,groups,segments",
            ],
        )
        for _ in range(2)
    ]
    for job in jobs:
        expect(job.end(120) == 0, f"status {job.process.returncode}: {job.err}")
    return jobs[0]


def variable(name, value, *fragments):
    def check(build, program):
        job = Job(build, ["-n", 2, "--nodes", 2, program, "fine"], {name: value})
        expect(job.end() != 0, "status 0")
        for fragment in fragments:
            expect(fragment in job.err, f"no {fragment!r} in: {job.err}")
        return job

    return check


def larger_than_the_job(build, program):
    """A cluster of more nodes than there are is said once, and what was done instead."""
    job = Job(
        build, ["--counters", "-n", 4, "--nodes", 2, program, "fine"], {"SKERRY_CLUSTER_SIZE": "9"}
    )
    expect(job.end() == 0, job.err)
    said = "skerry: SKERRY_CLUSTER_SIZE=9, but the job has 2 nodes: they form one cluster"
    expect(job.err.count(said) == 1, job.err)
    came_to = "fabric tcp, clusters of at most 2 nodes, 1 data server a node"
    expect(came_to in job.err, job.err)
    return job


def budget_said_once(build, program):
    """A program that starts many jobs is told once, and the number that it is told suffices."""
    layout = ["-n", 6, "--nodes", 6, program, "again"]
    small = Job(build, layout, {"SKERRY_SERVER_BUDGET": "160K"})
    expect(small.end() == 0, small.err)
    said = re.findall(r"SKERRY_SERVER_BUDGET=160K is less than .*; give (\d+M)", small.err)
    expect(len(said) == 1, small.err)
    job = Job(build, layout, {"SKERRY_SERVER_BUDGET": said[0]})
    expect(job.end() == 0, job.err)
    expect("SKERRY_SERVER_BUDGET" not in job.err, job.err)
    return job


def no_room(build, program):
    """Bug guarded against: exceptions left the C interface, and ended the program."""
    job = Job(build, ["-n", 1, "env", "-u", "SKERRY_CONTROL_FD", program, "no-room"])
    expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    return job


def no_progress_thread(build, program):
    job = Job(build, ["-n", 2, "--nodes", 2, program, "no-thread"])
    expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    expect(job.err.count("has no progress thread") == 2, job.err)
    return job


def clusters_of_one_node(build, program):
    job = Job(build, ["--counters", "-n", 2, program, "fine"], {"SKERRY_CLUSTER_SIZE": "9"})
    expect(job.end() == 0, job.err)
    said = "skerry: SKERRY_CLUSTER_SIZE=9, but the job has 1 node: there is nothing to form"
    expect(job.err.count(said) == 1, job.err)
    expect("counters of 2 ranks on 1 node, fabric tcp, no clusters" in job.err, job.err)
    return job


def one_differs(build, program, its, environment, said, nodes=2):
    """Rank 3 of four has another setting, `its`; the job does not start, and says so."""
    script = f'[ "$SKERRY_RANK" != 3 ] || export {its}; exec "$0" fine'
    job = Job(build, ["-n", 4, "--nodes", nodes, "sh", "-c", script, program], environment)
    expect(job.end() != 0, "status 0")
    expect(said in job.err, job.err)
    return job


def one_budgets(build, program):
    """The message writes budgets as users do. Bug guarded against: it gave bytes."""
    said = "SKERRY_SERVER_BUDGET=32M on rank 3, but SKERRY_SERVER_BUDGET=64M on rank 0"
    environment = {"SKERRY_SERVER_BUDGET": "64M"}
    return one_differs(build, program, "SKERRY_SERVER_BUDGET=32M", environment, said)


def one_clusters(build, program):
    said = "SKERRY_CLUSTER_SIZE=sqrt on rank 3, but SKERRY_CLUSTER_SIZE=2 on rank 0"
    environment = {"SKERRY_CLUSTER_SIZE": "2"}
    return one_differs(build, program, "SKERRY_CLUSTER_SIZE=sqrt", environment, said, nodes=4)


def one_shares(build, program):
    said = "SKERRY_SHARE=1 on rank 3, but SKERRY_SHARE=0 on rank 0"
    return one_differs(build, program, "SKERRY_SHARE=1", {}, said)


def one_has_another_fabric(build, program):
    """Bug guarded against: the first call to the other node was silent for a minute, and then
    blamed the network."""
    said = "SKERRY_FABRIC=ofi:tcp on rank 3, but SKERRY_FABRIC=tcp on rank 0"
    return one_differs(build, program, "SKERRY_FABRIC=ofi:tcp", {}, said)


def one_has_its_own_timeout(build, program):
    """What each rank may have for itself is not compared."""
    script = '[ "$SKERRY_RANK" != 3 ] || export SKERRY_CONNECT_TIMEOUT=19; exec "$0" fine'
    job = Job(build, ["-n", 4, "--nodes", 2, "sh", "-c", script, program])
    expect(job.end() == 0, job.err)
    return job


def one_has_other_slots(build, program):
    """Bug guarded against: the node's first rank decided, and nobody was told."""
    said = "SKERRY_SLOTS=256 on rank 2, but SKERRY_SLOTS=64 on rank 3 of the same node"
    return one_differs(build, program, "SKERRY_SLOTS=64", {}, said)


def one_serves(build, program):
    said = "SKERRY_SERVERS=2 on rank 2, but SKERRY_SERVERS=3 on rank 3"
    return one_differs(build, program, "SKERRY_SERVERS=3", {"SKERRY_SERVERS": "2"}, said)


def fine(build, program):
    job = Job(build, ["-n", 4, "--nodes", 4, program, "fine"])
    expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    return job


def too_much_for_the_machine(build, program):
    total = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text()).group(1)) * 1024
    # each member alone would fit
    job = Job(build, ["-n", 4, "--nodes", 2, program, "memory", total // 3])
    expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    expect("answer SKERRY_ERR_NO_MEMORY" in job.out and "MemAvailable" in job.out, job.out)
    return job


def too_much_for_a_file(build, program):
    """Shared memory is a file to the kernel. Bug guarded against: the remedy was to raise the limit
    of memory, or SIGXFSZ ended the rank."""
    script = 'ulimit -f 65536; exec "$0" memory 100000000'  # 512 bytes each
    job = Job(build, ["-n", 2, "sh", "-c", script, program])
    expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    said = "at most 33554432 bytes, and shared memory is one: raise that limit (ulimit -f)"
    expect("answer SKERRY_ERR_NO_MEMORY" in job.out and said in job.out, job.out)
    return job


def no_memory_for_a_while(build, program):
    """Of a rank without a thread of ours: its calls say so, and later ones succeed."""
    environment = {"SKERRY_PROGRESS_THREAD": "0"}
    job = Job(build, ["-n", 4, "--nodes", 2, program, "starved", 3], environment)
    expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    expect(job.out.count("starved: ") == 4, job.out)
    expect(re.search(r"starved: [1-9]", job.out), "nothing was refused: " + job.out)
    return job


def no_memory_for_a_server(build, program):
    """Others wait for what it cannot do: the job ends, and says why. The server is the one thread
    of ours: with a progress thread beside it, either may be the first without memory."""
    environment = {"SKERRY_PROGRESS_THREAD": "0"}
    job = Job(build, ["-n", 4, "--nodes", 2, program, "starved", 2], environment)
    expect(job.end() != 0, "status 0 without memory")
    expect("thread skerry-server of process" in job.err and "no memory left" in job.err, job.err)
    return job


def clocks_that_jump(build, program):
    """On all ranks, each at its own time: sums are exact, and no time limit ends anything."""
    tests = program.parent
    words = ["-n", 4, "--nodes", 2, "env", f"LD_PRELOAD={tests / 'clocks.so'}", tests / "ops"]
    job = Job(build, [*words, "stream", "crowd", "segments"], {"SKERRY_RECONNECT_TIMEOUT": "5"})
    expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
    return job


def ipv6_alone(build, program):
    """A network without IPv4, not even on loopback. Bug guarded against: a job of one node listened
    on 127.0.0.1 and did not start."""
    if os.geteuid() != 0:
        raise Skip("needs root (a network namespace)")
    network = (
        "ip link set lo up; ip -4 addr flush dev lo; ip link add v0 type veth peer name v1; "
        "ip link set v0 up; ip link set v1 up; ip -6 addr add fd00::1/64 dev v0 nodad; "
    )
    ways = [["-n", "2"], ["-n", "4", "--nodes", "2"]]
    commands = " && ".join(f'"$0" run {" ".join(way)} "$1" fine' for way in ways)
    skerry = build / "bin" / "skerry"
    job = Job(build, ["-n", 1, "unshare", "-n", "sh", "-c", network + commands, skerry, program])
    expect(job.end() == 0, job.err)
    return job


@contextlib.contextmanager
def memory_cgroup(limit):
    """Gives the words that start a command in a memory cgroup of so many bytes, and its directory,
    by whichever version this machine mounts."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    if (v1 / "memory.limit_in_bytes").exists():
        parent, name = v1, "memory.limit_in_bytes"
    elif "memory" in (
        (v2 / "cgroup.subtree_control").read_text()
        if (v2 / "cgroup.subtree_control").exists()
        else ""
    ):
        parent, name = v2, "memory.max"
    else:
        raise Skip("no memory cgroup can be made here")
    group = parent / f"skerry-trouble-{os.getpid()}"
    try:
        group.mkdir()
        (group / name).write_text(str(limit))
    except OSError as why:
        if group.is_dir():
            group.rmdir()
        raise Skip(f"no memory cgroup can be made here: {why}") from None
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"], group
    finally:
        wait_until(
            lambda: not (group / "cgroup.procs").read_text().strip(),
            "the cgroup does not become empty",
        )
        group.rmdir()


def too_much_for_the_cgroup(build, program):
    with memory_cgroup(300 << 20) as (enter, _):
        job = Job(build, ["-n", 2, program, "memory", 200 << 20], wrapper=enter)
        expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
        expect("answer SKERRY_ERR_NO_MEMORY" in job.out and "cgroup" in job.out, job.out)
        small = Job(build, ["-n", 2, program, "memory", 20 << 20], wrapper=enter)
        expect(small.end() == 0 and "answer SKERRY_OK" in small.out, small.out + small.err)
        return job


def no_allocation_fails_for_what_is_kept(build, _):
    """Random makers and freers where what they free would fill the cgroup, were it all kept."""
    with memory_cgroup(300 << 20) as (enter, group):
        ops = build / "bin" / "tests" / "ops"
        words = ["-n", 8, "--nodes", 3, ops, "makers", "--rounds", 3000]
        job = Job(build, words, wrapper=enter, environment={"SKERRY_RESERVE": "8G"})
        expect(job.end() == 0, f"status {job.process.returncode}: {job.err}")
        statistics = (group / "memory.stat").read_text().splitlines()
        held = [line for line in statistics if line.split()[0] == "shmem"]
        expect(held == ["shmem 0"], f"after the end {held} is held")
        return job


TROUBLES = [
    ("nothing", fine),
    ("a rank is killed in the middle of gets", death("gets", 3)),
    ("the rank that hosts a data server is killed in the middle of gets", death("gets", 2)),
    ("rank 0 is killed in the middle of gets", death("gets", 0)),
    (
        "the rank whose data server forwards for others is killed in the middle of gets",
        death("gets", 2, layout=("-n", 4, "--nodes", 4), environment={"SKERRY_CLUSTER_SIZE": "2"}),
    ),
    (
        "the rank that hosts three data servers is killed in the middle of gets",
        death("gets", 3, layout=("-n", 6, "--nodes", 2), environment={"SKERRY_SERVERS": "3"}),
    ),
    *(
        (
            f"rank 3, a gate of clusters of {size}, dies: every rank is told"
            + (", shared connections" if share else "")
            + (f", cap {cap}" if cap else ""),
            told(
                victim=3,
                ranks=ranks,
                nodes=nodes,
                environment={
                    "SKERRY_CLUSTER_SIZE": str(size),
                    "SKERRY_SHARE": str(share),
                    "SKERRY_MAX_CONN": str(cap),
                },
            ),
        )
        for size, share, cap, ranks, nodes in ((2, 0, 1, 6, 6), (3, 0, 0, 6, 6), (3, 1, 2, 7, 7))
    ),
    ("a rank dies holding the stripes of its node", death("stripe", 3)),
    ("a rank dies holding a mutex with waiters", death("mutex", 1)),
    ("a rank of another node dies holding a mutex with waiters", death("mutex", 3)),
    *(
        (
            f"rank {victim} dies holding a window's lock with waiters, locks {protocol}",
            death("window", victim, environment={"SKERRY_LOCK": protocol}),
        )
        for protocol in LOCK_PROTOCOLS
        for victim in (1, 3)
    ),
    ("a rank dies before it starts Skerry", death("before-init", 1)),
    ("a rank ends with status 0 without finalizing", death("no-finalize", 1, r"without")),
    ("a rank is stopped: its memory is at work all the same", stopped(3, False)),
    ("the rank that hosts the data server is stopped: others wait, and go on", stopped(2, True)),
    ("a data server is stopped for longer than all time-outs: one waits", stopped_for_long),
    (
        "a data server without descriptors refuses a rank, which is told so",
        refused_for_want_of_descriptors,
    ),
    ("1000 unauthenticated peers, idle and babbling, while a peer connects", unauthenticated),
    ("two jobs at once", two_jobs),
    (
        "an unknown variable",
        variable("SKERRY_FABRIK", "tcp", "SKERRY_FABRIK", "did you mean SKERRY_FABRIC"),
    ),
    (
        "a variable with a wrong value",
        variable("SKERRY_SLOTS", "lots", "SKERRY_SLOTS=lots", "whole number"),
    ),
    (
        "an interface that does not exist",
        variable("SKERRY_INTERFACE", "nonsense0", "nonsense0", "SKERRY_INTERFACE"),
    ),
    ("a fabric that does not exist", variable("SKERRY_FABRIC", "pigeons", "SKERRY_FABRIC=pigeons")),
    (
        "a victim policy that does not exist",
        variable("SKERRY_VICTIM", "oldest", "SKERRY_VICTIM=oldest", "lru_m"),
    ),
    (
        "a lock protocol that does not exist",
        variable("SKERRY_LOCK", "fairest", "SKERRY_LOCK=fairest", "migrating"),
    ),
    (
        "a debug mode that does not exist",
        variable("SKERRY_CHECK", "yes", "SKERRY_CHECK=yes", "mpi"),
    ),
    (
        "a bound on shared connections without sharing",
        variable("SKERRY_NODE_MAX_CONN", "2", "set SKERRY_SHARE=1", "with SKERRY_MAX_CONN"),
    ),
    (
        "a cluster size that is none",
        variable("SKERRY_CLUSTER_SIZE", "0", "SKERRY_CLUSTER_SIZE=0", "sqrt or auto"),
    ),
    ("a cluster larger than the job", larger_than_the_job),
    ("a cluster of nodes in a job on one", clusters_of_one_node),
    ("a budget that is too small is said once, with one that suffices", budget_said_once),
    (
        "a budget that is none",
        variable("SKERRY_SERVER_BUDGET", "64X", "SKERRY_SERVER_BUDGET=64X", "K, M or G"),
    ),
    (
        "a budget without a unit",
        variable("SKERRY_SERVER_BUDGET", "64", "SKERRY_SERVER_BUDGET=64", "did you mean 64M"),
    ),
    (
        "more data servers of a node than there may be",
        variable("SKERRY_SERVERS", "9", "SKERRY_SERVERS=9", "1 to 8"),
    ),
    ("no data server of a node", variable("SKERRY_SERVERS", "0", "SKERRY_SERVERS=0", "1 to 8")),
    (
        "a number of data servers that is none",
        variable("SKERRY_SERVERS", "x", "SKERRY_SERVERS=x", "1 to 8, or auto"),
    ),
    (
        "a negative number of data servers",
        variable("SKERRY_SERVERS", "-1", "SKERRY_SERVERS=-1", "1 to 8"),
    ),
    ("a rank that forms other clusters than the others", one_clusters),
    ("a rank that has another budget than the others", one_budgets),
    ("a rank that shares connections among others that do not", one_shares),
    ("a rank that asks for other data servers than its node", one_serves),
    ("a rank that has another fabric than the others", one_has_another_fabric),
    ("a rank that has other slots than its node", one_has_other_slots),
    ("a rank that has a time limit of its own", one_has_its_own_timeout),
    ("no thread can be started, and no memory is left", no_room),
    ("no thread can be started for progress", no_progress_thread),
    ("more memory than the machine has", too_much_for_the_machine),
    ("more memory than the cgroup allows", too_much_for_the_cgroup),
    ("a larger segment than files may be", too_much_for_a_file),
    ("a host with IPv6 alone", ipv6_alone),
    ("no memory for a while, at a rank", no_memory_for_a_while),
    ("no memory for a while, at a data server", no_memory_for_a_server),
    ("clocks that jump", clocks_that_jump),
    ("a recorded handshake is sent again", recorded_handshake),
    ("memory that is kept, in a small cgroup", no_allocation_fails_for_what_is_kept),
]


def run_all(description, troubles):
    """Runs those that --only names, looks for what they leave behind, and exits."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    build = options.build.resolve()
    program = build / "bin" / "tests" / "trouble"
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, check in troubles:
        if options.only not in name:
            continue
        files, before, begin = shared_files(), sockets(), time.monotonic()
        why = ""
        try:
            job = check(build, program)
            wait_until(lambda: not job.left(), f"processes {job.left()} are left")
            wait_until(
                lambda: not sockets_left(before, job.mark),
                f"sockets {sockets_left(before, job.mark)} are left",
            )
            expect(shared_files() <= files, f"/dev/shm has {shared_files() - files} more")
            outcome = "passed"
        except Failure as failure:
            outcome, why = "failed", str(failure)
        except Skip as reason:
            outcome, why = "skipped", f"skipped: {reason}"
        counts[outcome] += 1
        print(f"{outcome:8} {time.monotonic() - begin:6.1f} s  {name}", flush=True)
        for line in why.splitlines()[:30]:
            print("    " + line, flush=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(1 if counts["failed"] or counts["passed"] + counts["skipped"] == 0 else 0)


if __name__ == "__main__":
    run_all(__doc__, TROUBLES)
