"""Runs beside the ranks of one host (standard library only): reads back, while they run, which CPUs each thread may use and
which libraries are mapped. Sleeps until a rank ends or a look is due, and ends with the last rank."""

import hashlib
import json
import os
import select
import sys
import time

# Looks at growing distance: early enough for runs of a second, rare enough not to disturb. Threads
# of OpenMP start late.
LOOKS_S = (0.15, 0.3, 0.6, 1.2, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0)
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
    """Adds to `known`, per thread, the nanoseconds it ran and those it was ready but waited for a CPU; threads that ended stay."""
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


def digest(path):
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16]
    except OSError:
        return "unreadable"


def main(directory, host):
    known = {}  # pid -> record; a rank may arrive after the watcher
    open_fds = {}  # pidfd -> pid
    poll = select.poll()
    start = time.monotonic()
    ended = set()
    for due in LOOKS_S + (None,):
        while True:
            for name in os.listdir(directory):
                if not name.startswith("rank."):
                    continue
                parts = open(os.path.join(directory, name)).read().split()
                if len(parts) < 5 or parts[1] != host or int(parts[2]) in known:
                    continue
                pid = int(parts[2])
                known[pid] = {
                    "rank": int(parts[0]),
                    "host": host,
                    "cpus": parts[3],
                    "stack": parts[4],
                    "threads": [],
                    "libraries": [],
                    "program": "",
                    "scheduled": {},
                }
                try:
                    fd = os.pidfd_open(pid)
                    open_fds[fd] = pid
                    poll.register(fd, select.POLLIN)
                except OSError:
                    ended.add(pid)
            left = None if due is None else due - (time.monotonic() - start)
            if left is not None and left <= 0:
                break
            if not open_fds and known:
                break
            for fd, _ in poll.poll(None if left is None else left * 1000.0):
                poll.unregister(fd)
                os.close(fd)
                ended.add(open_fds.pop(fd))
        if known and not open_fds:
            break
        for pid in open_fds.values():
            record = known[pid]
            try:
                program = program_of(pid)
                if os.path.basename(program) in ("sh", "dash", "bash"):
                    continue
                threads = threads_of(pid)
                # Helper threads of an MPI come and go; the look that saw most threads says most.
                if len(threads) >= len(record["threads"]):
                    record["threads"] = threads
                record["program"] = program
                scheduling_of(pid, record["scheduled"])
                record["libraries"] = sorted(set(record["libraries"]) | set(libraries_of(pid)))
            except OSError:
                continue  # it ended between two looks
    libraries = sorted({path for record in known.values() for path in record["libraries"]})
    programs = sorted({record["program"] for record in known.values() if record["program"]})
    for record in known.values():
        scheduled = record.pop("scheduled").values()
        # Up to the last look: a share of the run, not its whole. Absent where the kernel keeps no
        # such account.
        record["ran_ns"], record["waited_ns"] = (
            sum(s[0] for s in scheduled),
            sum(s[1] for s in scheduled),
        )
    result = {
        "ranks": list(known.values()),
        "hashes": {path: digest(path) for path in libraries + programs},
    }
    temporary = os.path.join(directory, f".watch.{host}")
    with open(temporary, "w") as file:
        json.dump(result, file)
    os.replace(temporary, os.path.join(directory, f"watch.{host}.json"))


main(sys.argv[1], sys.argv[2])
