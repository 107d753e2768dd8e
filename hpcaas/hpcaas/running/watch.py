"""Runs beside the ranks of one host (standard library only): reads back, while they run, which CPUs
each thread may use and which libraries are mapped. Sleeps until a rank ends or a look is due, and
ends with the last rank."""

import hashlib
import json
import os
import select
import sys
import time

# Looks at growing distance: early enough for runs of a tenth of a second, rare enough not to
# disturb. Threads of OpenMP start late.
LOOKS_S = (
    0.03,
    0.08,
    0.15,
    0.3,
    0.6,
    1.2,
    2.5,
    5.0,
    10.0,
    20.0,
    40.0,
    80.0,
    160.0,
    320.0,
    640.0,
    1280.0,
)
# A batch system ends everything of a job step with its last rank: what is not written by then is
# lost.
EARLY = os.environ.get("HPCAAS_WATCH_EARLY") == "yes"
INTERESTING = (
    "libmpi",
    "libmpich",
    "libfabric",
    "libucp",
    "libuct",
    "libpsm",
    "libcxi",
    "libpmix",
    "libopen-pal",
    "libgomp",
    "libomp",
    "libiomp",
    "libOpenFOAM",
    "libPstream",
    "libgromacs",
    "libpnetcdf",
    "libopenblas",
    "libmkl",
    "libfftw3",
    "libc.so",
    "libm.so",
    "libmvec",
)


def threads_of(pid):
    places = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status") as status:
            for line in status:
                if line.startswith("Cpus_allowed_list:"):
                    places.append((int(tid), line.split()[1]))
    return [cpus for _, cpus in sorted(places)]


def scheduling_of(pid, known):
    """Adds to `known`, per thread, the nanoseconds it ran and those it was ready but waited for a
    CPU; threads that ended stay."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat") as stat:
            ran, waited = stat.read().split()[:2]
        known[tid] = (int(ran), int(waited))


def libraries_of(pid):
    paths = set()
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            path = line.split(None, 5)[-1].strip()
            if path.startswith("/") and os.path.basename(path).startswith(INTERESTING):
                paths.add(path)
    return sorted(paths)


def program_of(pid):
    return os.readlink(f"/proc/{pid}/exe")


def digest(path, known={}):
    """Of a file's content, read once: `known` keeps it from look to look."""
    if path not in known:
        try:
            with open(path, "rb") as file:
                known[path] = hashlib.sha256(file.read()).hexdigest()[:16]
        except OSError:
            known[path] = "unreadable"
    return known[path]


def counters():
    """CPU time of this host in clock ticks: user nice system idle iowait irq softirq steal."""
    with open("/proc/stat") as stat:
        return [int(value) for value in stat.readline().split()[1:9]]


def cpu_model():
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith(("model name", "CPU implementer")):
                return line.partition(":")[2].strip()
    return "unknown"


class Watched:
    """The ranks of this host: those that came, and which of them still run."""

    def __init__(self, directory, host):
        self.directory, self.host = directory, host
        self.known = {}  # pid -> record
        self.running = {}  # pidfd -> pid
        self.poll = select.poll()

    def arrivals(self):
        """Takes in the ranks that came since; a rank may arrive after the watcher."""
        for name in os.listdir(self.directory):
            if not name.startswith("rank."):
                continue
            with open(os.path.join(self.directory, name)) as file:
                parts = file.read().split()
            if len(parts) < 5 or parts[1] != self.host or int(parts[2]) in self.known:
                continue
            pid = int(parts[2])
            self.known[pid] = {
                "rank": int(parts[0]),
                "host": self.host,
                "cpus": parts[3],
                "stack": parts[4],
                "threads": [],
                "libraries": [],
                "program": "",
                "scheduled": {},
            }
            try:
                fd = os.pidfd_open(pid)
            except OSError:
                continue  # it ended already
            self.running[fd] = pid
            self.poll.register(fd, select.POLLIN)

    def all_ended(self):
        return bool(self.known) and not self.running

    def wait(self, until):
        """Sleeps until a moment (None: for ever) or the end of the last rank."""
        while True:
            self.arrivals()
            left = None if until is None else until - time.monotonic()
            if self.all_ended() or (left is not None and left <= 0):
                return
            for fd, _ in self.poll.poll(None if left is None else left * 1000.0):
                self.poll.unregister(fd)
                os.close(fd)
                del self.running[fd]

    def look(self):
        for pid in self.running.values():
            try:
                look_at(pid, self.known[pid])
            except OSError:
                continue  # it ended between two looks


def look_at(pid, record):
    program = program_of(pid)
    if os.path.basename(program) in ("sh", "dash", "bash"):
        return  # not yet the program itself
    threads = threads_of(pid)
    # Helper threads of an MPI come and go; the look that saw most threads says most.
    if len(threads) >= len(record["threads"]):
        record["threads"] = threads
    record["program"] = program
    scheduling_of(pid, record["scheduled"])
    record["libraries"] = sorted(set(record["libraries"]) | set(libraries_of(pid)))


def main(directory, host):
    ranks, start = Watched(directory, host), time.monotonic()
    stat = {"begin": counters()}
    for due in LOOKS_S + (None,):
        ranks.wait(None if due is None else start + due)
        if ranks.all_ended():
            break
        ranks.look()
        # Taken with the ranks' own time, so that the difference is what others used.
        stat["last"] = counters()
        if EARLY:
            write(directory, host, ranks.known, stat)
    write(directory, host, ranks.known, stat)


def write(directory, host, known, stat):
    """Puts down what was seen up to now, in one step."""
    libraries = {path for record in known.values() for path in record["libraries"]}
    programs = {record["program"] for record in known.values() if record["program"]}
    ranks = []
    for record in known.values():
        scheduled = record["scheduled"].values()
        # Up to the last look: a share of the run, not its whole. Absent where the kernel keeps no
        # such account.
        ranks.append(
            {
                **{k: v for k, v in record.items() if k != "scheduled"},
                "ran_ns": sum(s[0] for s in scheduled),
                "waited_ns": sum(s[1] for s in scheduled),
            }
        )
    result = {
        "host": host,
        "stat": stat,
        "clock_tick": os.sysconf("SC_CLK_TCK"),
        "load1": os.getloadavg()[0],
        "cpu_model": cpu_model(),
        "ranks": ranks,
        "hashes": {path: digest(path) for path in sorted(libraries | programs)},
    }
    temporary = os.path.join(directory, f".watch.{host}")
    with open(temporary, "w") as file:
        json.dump(result, file)
    os.replace(temporary, os.path.join(directory, f"watch.{host}.json"))


main(sys.argv[1], sys.argv[2])
