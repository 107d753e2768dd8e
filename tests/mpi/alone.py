"""Jobs of tests/mpi/run.py with programs of their own (tests/mpi/alone, tests/mpi/random): random
programs, threads, the debug mode and the lines that it names, ranks that die, and what is large."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent / "alone"
sys.path.append(str(HERE.parents[2] / "hpcaas" / "tests"))

import slurm_cluster  # noqa: E402
from harness import mpis  # noqa: E402

GIB = 1 << 30
C_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra"]
NOT_OURS = r"^skerry: (?!MPI_Win_allocate_shared).*the MPI library's"

# ---- random programs, threads -------------------------------------------------------------------

FIRST_SEED, EPOCHS = 1, 60


def random_programs(runner):
    """Programs drawn from seeds leave the memory that a serial model of them leaves. To repeat one
    that failed: `skerry mpi mpirun -n RANKS build/bin/tests/mpi/random-MPI SEED 1 60`, with a last
    word `unshared` for several nodes."""
    program = runner.compiled("random", sorted((HERE.parent / "random").glob("*.c")))
    if program is None:
        return
    seeds = 2 if runner.options.quick else 12
    layouts = [(2, 1, ""), (2, 2, "")]
    if not runner.options.quick:
        layouts += [(1, 1, ""), (3, 1, ""), (4, 2, ""), (2, 2, "mpi")]
    for ranks, nodes, check in layouts:
        checked = " in the debug mode" if check else ""
        # Shared memory over several virtual nodes is the library's, and its outcome too.
        words = [program, str(FIRST_SEED), str(seeds), str(EPOCHS), *["unshared"][: nodes - 1]]
        text = f"{seeds} random programs from seed {FIRST_SEED}{checked}"
        runner.job(
            f"{text}, {ranks} ranks on {nodes} nodes",
            runner.command((ranks,), words),
            rf"^random: {ranks} ranks, seeds .*, ok$",
            {"SKERRY_NODES": str(nodes), **({"SKERRY_CHECK": check} if check else {})},
            unwanted=r"the MPI library's",
            limit_s=600,
        )


def threads(runner):
    """Threads in calls of different windows of one communicator at the same time."""
    program = runner.compiled("threads", [HERE / "threads.c"])
    if program is None:
        return
    for ranks, nodes in ((2, 1), (2, 2)) if runner.options.quick else ((2, 1), (2, 2), (4, 2)):
        runner.job(
            f"threads on windows of their own, {ranks} ranks on {nodes} nodes",
            runner.command((ranks,), [program]),
            rf"^threads: {ranks} ranks, ok$|has no MPI_THREAD_MULTIPLE",
            {"SKERRY_NODES": str(nodes)},
            unwanted=NOT_OURS,
        )


# ---- the debug mode -----------------------------------------------------------------------------

PLACE = r"(?:\S+ \()?[^\s()]+\+(0x[0-9a-f]+)\)?"
CONFLICT = rf"rank 0's put at {PLACE} conflicts with rank 0's put at {PLACE} in the same epoch"


def lines_of(source):
    """The lines that hold 'site 1' and 'site 2' in a comment."""
    text = source.read_text().splitlines()
    return [
        next(n for n, line in enumerate(text, 1) if re.search(rf"[*!] site {k}\b", line))
        for k in (1, 2)
    ]


def named_lines(program, places):
    command = ["addr2line", "-e", program, *places]
    told = subprocess.run(command, capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in re.findall(r":(\S+.*)", told) if line[0].isdigit()]


def call_sites_of(runner, name, program, source, words, environment):
    """The debug mode finds the conflict, and names the two lines of the program."""
    # A shared window is one piece of memory, the first rank's.
    memory = "rank 0's memory" if "shared" in words else "rank 1's memory"
    if program is None or not runner.wanted(name):
        return
    name = f"{runner.source.name}: {name}"
    status, output, seconds = runner.run(
        runner.command((2,), [program, *words]), 120, runner.environment(environment)
    )
    found = re.search(CONFLICT, output)
    second, first = lines_of(source)[::-1]
    lines = named_lines(program, found.groups()) if found else []
    good = status not in (0, None) and lines == [second, first] and "not found" not in output
    good = good and "libskerry" not in found[0] and memory in output
    runner.count("passed" if good else "failed", f"{name} ({seconds:.1f} s)")
    if not good:
        print(f"        status {status}, lines {lines}, wanted {[second, first]}, from:")
        print("".join(f"        {line}\n" for line in output.splitlines()[-15:]), end="")


def call_sites(runner):
    source = HERE / "call_sites.c"
    program = runner.compiled("call_sites", [source])
    for kind, nodes in (
        ("allocate", 1),
        ("allocate", 2),
        ("shared", 1),
        ("create", 1),
        ("vector", 2),
    ):
        name = f"debug mode names both lines, {kind}, {nodes} nodes"
        environment = {"SKERRY_CHECK": "mpi", "SKERRY_NODES": str(nodes)}
        call_sites_of(runner, name, program, source, [kind], environment)
    compiler = runner.source.tool(runner.source.fortran) if runner.source.fortran else None
    if compiler is None:
        return
    source = HERE / "call_sites.F90"
    for interface in ("F08", "USE_MPI", "MPIF"):
        flags = ["-g", "-w", "-ffree-line-length-none", "-fallow-argument-mismatch"]
        program = runner.compiled(
            f"call_sites_{interface.lower()}", [source], compiler, [*flags, f"-DWITH_{interface}"]
        )
        name = f"debug mode names both lines, Fortran, {interface}"
        call_sites_of(runner, name, program, source, [], {"SKERRY_CHECK": "mpi"})


# ---- ranks that die -----------------------------------------------------------------------------

# The first to notice says it and ends the job: Skerry, or the MPI's launcher.
TOLD = (
    r"^skerry: .*(ended without leaving the job|ended the job|the job is ending)"
    r"|exited on\s+signal|exited with\s+non-zero status"
    r"|called \"init\", but exited without calling \"finalize\""
    r"|BAD TERMINATION|exited without calling finalize|KILLED BY SIGNAL"
)


def processes(mark):
    """Processes with this word in their environment, but for dead ones."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state != "Z":
                    found.add(int(entry.name))
        except OSError:
            continue
    return found


def gone(mark, limit_s=30):
    """Waits until no process has the mark; False: some stay."""
    until = time.monotonic() + limit_s
    while processes(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def files_left():
    """Skerry's shared memory and sockets have no names in the file system: they end with their
    processes."""
    return [str(path) for path in Path("/dev/shm").glob("*skerry*")]


def deaths(runner):
    program = runner.compiled("trouble", [HERE / "trouble.c"])
    if program is None:
        return
    layouts = [("killed", "allocate", 1), ("killed", "create", 2), ("left", "allocate", 2)]
    if not runner.options.quick:
        layouts += [("killed", "shared", 1), ("left", "create", 1), ("status", "allocate", 2)]
        layouts += [("aborted", "allocate", 1)]
    for how, kind, nodes in layouts:
        name = f"a rank ends in window calls: {how}, {kind}, {nodes} nodes"
        if not runner.wanted(name):
            continue
        mark = f"SKERRY_USER_MARK={os.getpid()}-{how}-{kind}-{nodes}"
        variable, value = mark.split("=")
        status, output, seconds = runner.run(
            runner.command((3,), [program, how, kind]),
            90,
            runner.environment({variable: value, "SKERRY_NODES": str(nodes)}),
        )
        left = not gone(mark)
        # MPI_Abort is the MPI library's own way to end a job, and says so itself.
        told = how == "aborted" or re.search(TOLD, output, re.M)
        # MPICH's launcher ends a job of which a rank exits before MPI_Finalize; often silently,
        # with that rank's status, without Skerry as well.
        passed_on = {"left": 0, "status": 3}.get(how, -1)
        silent = runner.source.family == "hydra" and status == passed_on
        good = (silent or (status not in (0, None) and told)) and not left and not files_left()
        runner.count(
            "passed" if good else "failed", f"{runner.source.name}: {name} ({seconds:.1f} s)"
        )
        if not good:
            print(f"        status {status}, processes left: {left}, files: {files_left()}, from:")
            print("".join(f"        {line}\n" for line in output.splitlines()[-20:]), end="")


# ---- what is large ------------------------------------------------------------------------------


def available_bytes():
    found = re.search(r"MemAvailable: *(\d+)", Path("/proc/meminfo").read_text())
    return int(found[1]) * 1024 if found else 0


def large(runner):
    program = runner.compiled("large", [HERE / "large.c"])
    if program is None:
        return
    # MPICH has some 2,000 windows at a time, of whatever kind. Quick: more than descriptors.
    alive = 3000 if runner.source.adapter == "openmpi" else 1500
    alive, turns = (400, 200) if runner.options.quick else (alive, 20000)
    for nodes in (1, 2):
        runner.job(
            f"{alive} windows at once, {turns} in all, 256 descriptors, {nodes} nodes",
            runner.command((2,), [program, "windows", str(alive), str(turns // nodes**4)]),
            r"^large: 2 ranks, ok$",
            {"SKERRY_NODES": str(nodes), "SKERRY_MPI_EXPLAIN": "0"},
            limit_s=600,
        )
    if runner.options.quick:
        return
    if available_bytes() < 9 * GIB and runner.wanted("a window of 5 GiB"):
        runner.count("skipped", f"{runner.source.name}: a window of 5 GiB: needs 9 GiB of memory")
    for nodes in (1, 2) if available_bytes() >= 9 * GIB else ():
        runner.job(
            f"a window of 5 GiB, transfers beyond 2^31 bytes, {nodes} nodes",
            runner.command((2,), [program, "bytes"]),
            r"^large: 2 ranks, ok$",
            {"SKERRY_NODES": str(nodes)},
            unwanted=NOT_OURS,
            limit_s=300,
        )


# ---- what others trip over ----------------------------------------------------------------------


def libraries(runner):
    """What libraries and large programs do with MPI, each in a program of its own."""
    layouts = ((2, 1), (2, 2)) if runner.options.quick else ((1, 1), (2, 1), (2, 2), (4, 2))
    for name, text, words in (
        ("freed_late", "windows freed in MPI_Finalize, behind Skerry's own callback", []),
        ("renamed", "types of MPI_Type_create_f90_*, duplicates, and renamed ones", []),
        ("pieces", "a million pieces take loops, not lists", ["1000000"]),
    ):
        program = runner.compiled(name, [HERE / f"{name}.c"])
        for ranks, nodes in layouts if program else ():
            # Shared memory over several virtual nodes is the library's.
            more = ["unshared"] if name == "freed_late" and nodes > 1 else words
            runner.job(
                f"{text}, {ranks} ranks on {nodes} nodes",
                runner.command((ranks,), [program, *more]),
                rf"^{name}: {ranks} ranks, ok$",
                {"SKERRY_NODES": str(nodes)},
                unwanted=r"the MPI library's",
                limit_s=120,
            )


def polls(runner, layouts=((1, []), (2, []))):
    """A program that polls a window moves on the messages that it has under way. Layouts: virtual
    nodes, 0 for real ones, and what stands before the command."""
    program = runner.compiled("polls", [HERE / "polls.c"])
    for nodes, before in layouts if program else ():
        runner.job(
            f"each call that polls a window moves messages on, {nodes or 'two real'} nodes",
            [*before, *runner.command((2,) if nodes else (1, 1), [program])],
            r"^polls: 2 ranks, ok$",
            {"SKERRY_NODES": str(nodes)} if nodes else {},
            unwanted=NOT_OURS,
            limit_s=120,
        )


def processes_of_others(runner):
    """Processes that were stopped, or that nobody may trace."""
    silent = runner.compiled("silent", [HERE / "silent.c"], flags=[*C_FLAGS, "-rdynamic", "-ldl"])
    if silent is not None:
        runner.job(
            "a rank stopped in its first window call is waited for",
            runner.command((2,), [silent]),
            r"^silent: 2 ranks, ok$",
            unwanted="does not have libskerry_mpi.so",
        )
    untraceable = runner.compiled("untraceable", [HERE / "untraceable.c"])
    if untraceable is None:
        return
    # They become the MPI library's. OpenMPI's usual transport copies between processes, too, and
    # does not notice that it may not.
    runner.job(
        "windows over memory of processes that may not be traced",
        runner.command((2,), [untraceable]),
        r"^untraceable: 2 ranks, ok$",
        {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_osc": "pt2pt"},
    )


# ---- Slurm --------------------------------------------------------------------------------------

PMI = {"openmpi4": "pmix", "mpich4": "pmi2"}  # how Debian's builds find each other under srun


def slurm(runner):
    """`skerry mpi srun`, on a cluster of two hosts (inside a testbed)."""
    name = "skerry mpi srun, 2 hosts"
    if runner.source.name not in PMI or not runner.wanted(name):
        return
    name = f"{runner.source.name}: {name}"
    if why := slurm_cluster.missing():
        return runner.count("skipped", f"{name}: {why}")
    program = runner.compiled("mpi_check", sorted(HERE.parent.glob("*.c")))
    if program is None:
        return
    words = ["srun", f"--mpi={PMI[runner.source.name]}", "-N", "2", "-n", "2", program, "epochs"]
    settings = {**runner.environment(), "OMPI_MCA_btl_tcp_if_include": mpis.NET}
    with slurm_cluster.Cluster(2, accounting=False) as cluster:
        done = cluster.login(
            *(runner.skerry, "mpi", "--", *words), env=settings, check=False, timeout=300
        )
    output = done.stdout + done.stderr
    good = done.returncode == 0 and "mpi_check: 2 ranks, ok" in output
    good = good and "of 2: Skerry's" in output and "MPI library's" not in output
    runner.count("passed" if good else "failed", name)
    if not good:
        print("".join(f"        {line}\n" for line in output.splitlines()[-20:]), end="")


PARTS = (
    *(random_programs, threads, call_sites, deaths, large),
    *(libraries, polls, processes_of_others),
)
