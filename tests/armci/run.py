#!/usr/bin/env python3
"""Runs the programs over libarmci and over the system's Global Arrays, on every layout, and counts.

    tests/armci/run.py [--build DIR] [--quick | --smoke] [--only WORD] [--mpi openmpi|mpich|abi] [--abi PREFIX]...

On this host with one node and with virtual ones; as root also on several hosts (testbed/hosts.sh). A job that takes longer than its limit is killed (its
process group, which this script made) and counts as failed. `abi` is the library for MPI's standard ABI: it runs under the MPI that it was compiled with, and
with each --abi under the one installed there as well. Ends with `N passed, N failed, N skipped`. Python's standard library only.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests"))

import running  # noqa: E402

MPIS = ("openmpi", "mpich", "abi")
counts = running.Counts()
count = counts.add
abi_prefix = None  # where the MPI is installed that programs of `abi` run under now

# Each runs on every layout. ga_fortran_O0 is ga_fortran without optimisation.
CHECKS = ("armci_check", "ga_check", "ga_scf", "ga_fortran", "ga_fortran_O0")
WANTED = {True: "0", False: "another than 0", None: "any"}  # status, by what `succeeds` says
SURVIVES = r"^armci_trouble: survived$"
# case: (processes, status 0 expected, what its output must hold)
TROUBLE = {
    "wrong_arguments": (3, True, SURVIVES),
    "no_memory": (3, True, SURVIVES),
    "outside": (
        2,
        False,
        r"ARMCI_Put: address 0x[0-9a-f]+ of process 1 lies in no live allocation",
    ),
    "beyond": (2, False, r"ARMCI_Put: bytes \[0, 0 \+ 100000\) lie outside"),
    "wrong_group": (2, False, r"ARMCI_msg_group_barrier: there is no such group"),
    "unknown_mutex": (2, False, r"ARMCI_Lock: mutex 1 of process 2: this job has processes 0 to 1"),
    "mutex_too_high": (2, False, r"ARMCI_Lock: .*5"),
    "exit_in_the_middle": (3, False, r"process 2 exits with status 0 but without ARMCI_Finalize"),
    "exit_256": (3, False, r"process 2 exits with status 256 but without ARMCI_Finalize"),
    "error_512": (2, False, r"a program's own reason \(512\)"),
    "forked": (3, True, r"\A(?!(?s:.*)without ARMCI_Finalize)(?s:.*)" + SURVIVES),
    "vector_on_busy_handle": (2, True, SURVIVES),
    "wait_all_beside": (2, True, SURVIVES),
    "error_call": (2, False, r"a program's own reason \(17\)"),
    "interrupted": (2, False, r"^armci_trouble: process \d+$(?s:.*)^armci_trouble: waiting"),
    "mpi_first": (3, True, SURVIVES),
    "never_finalised": (3, True, SURVIVES),
    "without_mpi": (2, True, SURVIVES),
    "without_mpi_but_its_end": (2, True, SURVIVES),
    "too_many_nodes": (2, False, r"\A(?!(?s:.*)goes on)(?s:.*)ARMCI_Init: SKERRY_NODES=9"),
    "started_too_late": (
        2,
        False,
        r"\A(?!(?s:.*)goes on)(?s:.*)ARMCI_Init: MPI has been finalised",
    ),
    "part_of_world": (4, True, SURVIVES),
    "part_of_nodes": (4, True, SURVIVES),
    "threads": (2, True, SURVIVES),
    "threads_unknown_to_mpi": (2, True, SURVIVES),
    "serialized": (2, True, SURVIVES),
    "before_start": (1, False, r"ARMCI_Put: ARMCI is not initialised"),
    "again": (3, True, SURVIVES),
}
SMOKE = ("wrong_arguments", "no_memory", "beyond", "exit_in_the_middle", "mpi_first", "threads")
ON_NODES = (
    "wrong_arguments",
    "no_memory",
    "outside",
    "beyond",
    "unknown_mutex",
    "exit_in_the_middle",
    "interrupted",
    "mpi_first",
    "threads",
    "again",
    "vector_on_busy_handle",
    "wait_all_beside",
)


def run(command, limit_s, environment, interrupt_at=None, enough=None):
    """As running.run. At the line `interrupt_at` the command gets SIGINT; once `enough` matches a
    line, it has 20 s left."""

    def watch(process, line):
        if interrupt_at and interrupt_at in line:
            process.send_signal(signal.SIGINT)
        return 20 if enough and re.search(enough, line) else None

    return running.run(command, limit_s, environment, on_line=watch)


def left_over(output, limit_s=20):
    """The processes that named themselves in the output and still run after limit_s seconds."""
    pids = re.findall(r"^armci_trouble: process (\d+)$", output, re.M)
    deadline = time.monotonic() + limit_s
    while True:
        alive = [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.01)


def launcher(mpi, processes, environment):
    """Words before the program, on this host."""
    if mpi == "openmpi":
        words = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", str(processes)]
        for name in environment:
            words += ["-x", name]
        return words
    return [hydra(mpi), "-n", str(processes)]


def hydra(mpi):
    return str(abi_prefix / "bin/mpiexec.hydra") if mpi == "abi" else "mpiexec.hydra"


def label(mpi):
    return f"abi, {abi_prefix.name}" if mpi == "abi" else mpi


def on_hosts(mpi, hosts, each, environment):
    """The same on hosts sk1.. of the testbed, from sk0."""
    agent = os.environ["TESTBED_AGENT"]
    where = ",".join(f"sk{k + 1}:{each}" for k in range(hosts))
    before = [str(ROOT / "testbed/hosts.sh"), "exec", "sk0"]
    if mpi == "openmpi":
        words = before + [
            "mpirun.openmpi",
            "--mca",
            "plm",
            "rsh",
            "--mca",
            "plm_rsh_agent",
            agent,
            "--mca",
            "plm_rsh_no_tree_spawn",
            "1",
            "--host",
            where,
            "--mca",
            "oob_tcp_if_include",
            "10.77.0.0/24",
            "--mca",
            "btl_tcp_if_include",
            "10.77.0.0/24",
            "--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "tcp,vader,self",
            "--bind-to",
            "none",
            "--oversubscribe",
            "-n",
            str(hosts * each),
        ]
        for name in environment:
            words += ["-x", name]
        return words
    words = before + [
        hydra(mpi),
        "-launcher",
        "ssh",
        "-launcher-exec",
        agent,
        "-hosts",
        where,
        "-iface",
        "skbr",
        "-n",
        str(hosts * each),
    ]
    for name, value in environment.items():
        words += ["-genv", name, value]
    return words


def job(
    options,
    name,
    command,
    expected=r", ok$",
    succeeds=True,
    limit_s=180,
    environment=None,
    interrupt_at=None,
    finalize_may_hang=False,
):
    if options.only and options.only not in name:
        return
    environment = {
        **(environment or {}),
        **({"LD_LIBRARY_PATH": f"{abi_prefix}/lib", "I_MPI_FABRICS": "shm"} if abi_prefix else {}),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    status, output, seconds = run(
        command, limit_s, environment, interrupt_at, expected if finalize_may_hang else None
    )
    if status is None and finalize_may_hang and re.search(expected, output, re.M):
        count("passed", f"{name} ({seconds:.1f} s; its MPI_Finalize hung after ARMCI had ended)")
        return
    good = status is not None and (succeeds is None or (status == 0) == succeeds)
    good = good and re.search(expected, output, re.M)
    if good and interrupt_at and (alive := left_over(output)):
        good = False
        output += f"\nprocesses {' '.join(alive)} are left over"
    count("passed" if good else "failed", f"{name} ({seconds:.1f} s)")
    if not good:
        print(
            f"        status {status}, wanted {WANTED[succeeds]} and /{expected}/ from {' '.join(command)}"
        )
        print(
            "".join(f"        {line}\n" for line in output.splitlines()[-25:]), end="", flush=True
        )


def programs(options, mpi):
    directory = options.build / "bin/tests/armci"
    found = {
        name: directory / f"{name}-{mpi}" for name in (*CHECKS, "armci_trouble", "ga_check_static")
    }
    return {name: str(path) for name, path in found.items() if path.exists()}


def check_symbols(options, mpi):
    """Every ARMCI name that the system's libga, with its TCGMSG and parallel input and output, leaves open is in our library."""
    library = next(
        (
            p
            for p in (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib"))
            if (p / f"libga-{mpi}.a").exists()
        ),
        None,
    )
    if library is None or not shutil.which("nm"):
        count("skipped", f"{mpi}: symbols: no libga-{mpi}.a (libglobalarrays-dev) or no nm")
        return
    if options.only and options.only not in f"{mpi}: symbols":
        return

    def names(which, *arguments):
        lines = subprocess.run(
            ["nm", *arguments], capture_output=True, text=True
        ).stdout.splitlines()
        return {
            line.split()[-1]
            for line in lines
            if len(line.split()) >= 2 and line.split()[-2] in which
        }

    archive = str(library / f"libga-{mpi}.a")
    # pario and tcgmsg are inside the archive.
    missing = names("U", archive) - names("TWDBRVC", archive)
    wanted = {name for name in missing if re.match(r"p?armci_|P?ARMCI_", name)}
    absent = wanted - names(
        "TW", "-D", "--defined-only", str(options.build / f"lib/armci-{mpi}/libarmci.so")
    )
    count(
        "failed" if absent or not wanted else "passed",
        f"{mpi}: symbols: libga needs {len(wanted)} of ARMCI, {len(absent)} are missing {' '.join(sorted(absent))}",
    )


def one_host(options, mpi, found):
    checks = [name for name in CHECKS if not options.smoke or name != "ga_fortran"]
    layouts = (
        [(3, 1), (4, 2)]
        if options.smoke
        else [(1, 1), (4, 1), (4, 2), (3, 3)]
        if options.quick
        else [
            (1, 1),
            (2, 1),
            (3, 1),
            (4, 1),
            (8, 1),
            (16, 1),
            (2, 2),
            (4, 2),
            (4, 4),
            (5, 2),
            (8, 3),
            (16, 4),
        ]
    )
    for processes, nodes in layouts:
        environment = {"SKERRY_NODES": str(nodes)} if nodes > 1 else {}
        for name in checks:
            if name in found:
                job(
                    options,
                    f"{label(mpi)}: {name}, {processes} processes on {nodes} nodes",
                    launcher(mpi, processes, environment) + [found[name]],
                    environment=environment,
                    limit_s=300,
                )
    if "armci_check" in found and mpi == "openmpi":
        # Messages within a host that their sender must move, like those between hosts.
        environment = {"SKERRY_NODES": "2", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
        job(
            options,
            f"{label(mpi)}: armci_check, 4 processes on 2 nodes, messages in pieces",
            launcher(mpi, 4, environment) + [found["armci_check"], "beside_mpi"],
            environment=environment,
        )
    if "ga_check_static" in found:
        job(
            options,
            f"{label(mpi)}: ga_check, libarmci.a, 3 processes",
            launcher(mpi, 3, {}) + [found["ga_check_static"]],
        )
    # Without any launcher: a job of one.
    for name in checks:
        if name in found:
            job(options, f"{label(mpi)}: {name}, alone", [found[name]])
    for name in checks:
        if name in found:
            processes = 4 if options.smoke else 8
            environment = {"SKERRY_NODES": "4", "SKERRY_MAX_CONN": "1"}
            job(
                options,
                f"{label(mpi)}: {name}, {processes} processes on 4 nodes, one connection each",
                launcher(mpi, processes, environment) + [found[name]],
                environment=environment,
                limit_s=300,
            )
    if "armci_trouble" in found:
        troubles(options, mpi, found)


def troubles(options, mpi, found):
    for case, (processes, succeeds, expected) in TROUBLE.items():
        for nodes in (1, 2):
            if nodes == 2 and (case not in ON_NODES or options.quick or options.smoke):
                continue
            if options.smoke and case not in SMOKE:
                continue
            environment = {"SKERRY_NODES": "2"} if nodes == 2 else {}
            if case == "interrupted" and mpi != "openmpi":
                # MPICH's hydra ends with status 0 about one time in three, also for a program
                # of MPI alone. That all processes end is what counts.
                succeeds = None
            job(
                options,
                f"{label(mpi)}: trouble, {case}{', 2 nodes' if nodes == 2 else ''}",
                launcher(mpi, processes, environment) + [found["armci_trouble"], case],
                expected,
                succeeds,
                60,
                environment,
                "armci_trouble: waiting" if case == "interrupted" else None,
            )
    job(
        options,
        f"{label(mpi)}: trouble, under skerry run",
        [str(options.build / "bin/skerry"), "run", "-n", "2", found["armci_trouble"], "alone"],
        r"skerry run starts no MPI",
        False,
        60,
    )


# MPICH 4.0.2 over UCX now and then does not come out of MPI_Finalize with more ranks than cores on
# several hosts, also in programs of MPI alone.
def several_hosts(options, mpi, found):
    for hosts, each in ((2, 1), (2, 2)) if options.quick else ((2, 1), (2, 2), (4, 1), (4, 4)):
        environments = [{}, {"SKERRY_MAX_CONN": "1"}]
        for environment in environments:
            for name in CHECKS:
                if name in found:
                    job(
                        options,
                        f"{label(mpi)}: {name}, {hosts} hosts x {each}{', one connection each' if environment else ''}",
                        on_hosts(mpi, hosts, each, environment) + [found[name]],
                        environment=environment,
                        limit_s=300,
                        finalize_may_hang=mpi == "mpich",
                    )


def standard_abi(options, found, quiet):
    """Programs of plain ARMCI, under each MPI with the standard ABI that there is; between hosts under the first."""
    global abi_prefix
    cache = (
        (options.build / "CMakeCache.txt").read_text()
        if (options.build / "CMakeCache.txt").exists()
        else ""
    )
    wrapper = re.search(r"^ARMCI_WRAPPER_abi:[A-Z]+=(/.*)/bin/", cache, re.M)
    prefixes = ([Path(wrapper[1])] if wrapper else []) + [
        prefix.resolve() for prefix in options.abi
    ]
    if not found or not prefixes:
        if not quiet:
            count(
                "skipped",
                "abi: no MPI with the standard ABI: configure with -DARMCI_WRAPPER_abi=PREFIX/bin/mpicc_abi",
            )
        return
    for prefix in prefixes[:1] if options.inside else prefixes:
        abi_prefix = prefix
        (several_hosts if options.inside else one_host)(options, "abi", found)
    abi_prefix = None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--quick", action="store_true", help="fewer layouts")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="fewest layouts, on this host only, and no word about what is not installed",
    )
    parser.add_argument(
        "--abi",
        type=Path,
        action="append",
        default=[],
        metavar="PREFIX",
        help="a further MPI with the standard ABI; may be repeated",
    )
    parser.add_argument("--only", help="jobs whose name holds this word")
    parser.add_argument("--mpi", choices=MPIS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # in a testbed
    options = parser.parse_args()
    options.build = options.build.resolve()
    for mpi in MPIS:
        if options.mpi not in (None, mpi):
            continue
        found = programs(options, mpi)
        quiet = options.inside or options.smoke
        if mpi == "abi":
            standard_abi(options, found, quiet)
            continue
        start = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.hydra"}[mpi]
        if not found or not shutil.which(start):
            if not quiet:
                count(
                    "skipped",
                    f"{mpi}: no programs in {options.build}/bin/tests/armci, or no {start}: install {mpi} with its headers and build again",
                )
            continue
        if "ga_check" not in found and not quiet:
            count(
                "skipped",
                f"{mpi}: Global Arrays: install libglobalarrays-dev, libscalapack-{mpi}-dev and gfortran and build again",
            )
        if options.inside:
            several_hosts(options, mpi, found)
            continue
        check_symbols(options, mpi)
        one_host(options, mpi, found)
    if not options.inside and not options.smoke:
        if os.geteuid() != 0 or not shutil.which("ip"):
            count("skipped", "several hosts: needs root (network namespaces) and iproute2")
        else:
            words = [a for a in sys.argv[1:]] + ["--inside"]
            inner = subprocess.run(
                [
                    str(ROOT / "testbed/hosts.sh"),
                    "run",
                    "4",
                    "--",
                    sys.executable,
                    str(Path(__file__).resolve()),
                    *words,
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            lines = inner.stdout.splitlines()
            summary = (
                re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1])
                if lines
                else None
            )
            print("\n".join(lines[:-1] if summary else lines), flush=True)
            if summary:
                for kind, number in zip(counts, summary.groups()):
                    counts[kind] += int(number)
            else:
                count(
                    "failed", f"several hosts: ended with status {inner.returncode} and no summary"
                )
    return counts.summary()


if __name__ == "__main__":
    sys.exit(main())
