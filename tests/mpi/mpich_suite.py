"""The tests of windows that MPICH's authors wrote, on Skerry's windows.

Nothing of them is kept here: --fetch takes Debian's source package of MPICH into the cache, where
each MPI's own compiler makes the programs. A program that also fails on the MPI library's own
windows is skipped, and named.
"""

import re
import shutil
import subprocess
import sys

SUITES = ("rma", "errors/rma", "f77/rma", "f90/rma", "f08/rma", "threads/rma")
WRAPPERS = {
    "openmpi4": ("mpicc.openmpi", "mpifort.openmpi"),
    "mpich4": ("mpicc.mpich", "mpifort.mpich"),
}
# What MPI 3 removed and OpenMPI 4.1 does not compile any more.
REMOVED = (
    *("-DMPI_Type_hvector=MPI_Type_create_hvector", "-DMPI_Type_hindexed=MPI_Type_create_hindexed"),
    *("-DMPI_Type_struct=MPI_Type_create_struct", "-DMPI_Address=MPI_Get_address"),
)
# Not tests of windows' meaning, with the reason.
LEFT_OUT = {"winattr2f": "asks for an MPI library that keeps 64-bit attributes in 32-bit integers"}
SOURCE_LIMIT_S, BUILD_LIMIT_S, LIMIT_S = 600, 3600, 240
EXPECTED = r"(?mi)^\s*No errors\s*$"


def home(runner):
    return runner.cache / "mpich-suite"


def source(runner):
    """test/mpi of MPICH's sources; None: not there."""
    return next(iter(sorted(home(runner).glob("mpich-*/test/mpi"))), None)


def fetch(runner):
    """MPICH's sources from the archive that the machine takes its packages from."""
    if source(runner) or not shutil.which("apt-get"):
        return
    apt = home(runner) / "apt"
    for directory in ("lists/partial", "cache/archives/partial"):
        (apt / directory).mkdir(parents=True, exist_ok=True)
    print(f"tests/mpi: fetching MPICH's tests into {home(runner)}", file=sys.stderr)
    listed = ["apt-get", "indextargets", "--format", "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)"]
    listed += ["Created-By: Packages", "Origin: Debian"]
    archives = subprocess.run(listed, capture_output=True, text=True).stdout.splitlines()
    wanted = sorted({line for line in archives if "-security " not in line})
    (apt / "sources.list").write_text("".join(f"{line}\n" for line in wanted))
    places = {
        "Dir::Etc::SourceList": apt / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in places.items() for word in ("-o", f"{name}={value}")]
    for words in (["update", "-q"], ["source", "--download-only", "-q", "mpich"]):
        command = ["apt-get", *options, *words]
        done = subprocess.run(
            command, cwd=home(runner), stdout=subprocess.DEVNULL, timeout=SOURCE_LIMIT_S
        )
        if done.returncode:
            return
    for archive in sorted(home(runner).glob("mpich_*.orig.tar.*")):
        subprocess.run(["tar", "--extract", f"--file={archive}"], cwd=home(runner), check=False)


def built(runner):
    """(Directory of the programs, why not)."""
    tests, name = source(runner), runner.source.name
    if tests is None:
        return None, f"not in {home(runner)} (--fetch)"
    directory = home(runner) / f"build-{name}"
    if (directory / "made").exists():
        return directory, ""
    c, fortran = (shutil.which(tool) for tool in WRAPPERS[name])
    if not c or not fortran:
        return None, "no compilers for C and Fortran"
    directory.mkdir(parents=True, exist_ok=True)
    print(f"tests/mpi: building MPICH's tests for {name} in {directory}", file=sys.stderr)
    c_flags = " ".join(["-O1", "-g", "-w", *(REMOVED if name == "openmpi4" else ())])
    fortran_flags = "-O1 -w -fallow-argument-mismatch"
    variables = {"CC": c, "MPICC": c, "CFLAGS": c_flags, "MPI_CFLAGS": c_flags}
    for kind in ("FC", "F77"):
        variables |= {kind: fortran, f"MPI{kind}": fortran}
    variables |= {"FFLAGS": fortran_flags, "FCFLAGS": fortran_flags}
    settings = [f"{key}={value}" for key, value in variables.items()]
    commands = [
        [str(tests / "configure"), "--disable-cxx", "--disable-dependency-tracking", *settings]
    ]
    # Some do not compile with some MPIs.
    commands += [["make", "-k", "-C", part] for part in ("util", "dtpools")]
    # Outside MPICH's own build, configure leaves out what the programs with mpi_f08 link.
    commands.append(["make", "-C", "util", "mtest_f08.o"])
    for suite in SUITES:
        linked = ["LDADD=../../util/mtest_f08.o"] if suite.startswith("f08") else []
        commands.append(["make", "-k", "-C", suite, *linked])
    with (directory / "build.log").open("w") as log:
        for command in commands:
            done = subprocess.run(
                command, cwd=directory, stdout=log, stderr=log, timeout=BUILD_LIMIT_S
            )
            if done.returncode and command is commands[0]:
                return None, f"configure fails: {directory}/build.log"
    (directory / "made").touch()
    return directory, ""


def listed(tests, suite):
    """(program, ranks, arguments) of each test of a suite."""
    for name in ("testlist", "testlist.in"):
        if (tests / suite / name).exists():
            lines = (tests / suite / name).read_text().splitlines()
            break
    else:
        return
    for line in lines:
        words = line.split("#")[0].split()
        if len(words) < 2 or words[0].startswith("@"):
            continue
        arguments = [word.removeprefix("arg=") for word in words[2:] if word.startswith("arg=")]
        yield words[0], int(words[1]), arguments


def run_one(runner, directory, suite, test):
    program, ranks, arguments = test
    name = " ".join([f"MPICH's {suite}/{program}", *arguments, f"{ranks} ranks"])
    if not runner.wanted(name):
        return
    path = directory / suite / program
    if not path.exists():
        text = f"{runner.source.name}: {name}: does not compile with this MPI"
        return runner.count("skipped", text)
    words = [str(path), *arguments]
    environment = runner.environment({"OMPI_MCA_mpi_yield_when_idle": "1"})
    for with_skerry in (True, False):
        command = runner.command((ranks,), words, with_skerry=with_skerry)
        status, output, seconds = runner.run(command, LIMIT_S, environment, path.parent)
        good = status == 0 and re.search(EXPECTED, output)
        if with_skerry:
            ours = status, output, seconds, command
            if good:
                return runner.count("passed", f"{runner.source.name}: {name} ({seconds:.1f} s)")
        elif not good:
            how = f"takes over {LIMIT_S} s" if status is None else "fails"
            text = f"{runner.source.name}: {name}: {how} on the MPI library's own windows, too"
            return runner.count("skipped", text)
    status, output, seconds, command = ours
    runner.count("failed", f"{runner.source.name}: {name} ({seconds:.1f} s)")
    print(f"        status {status} from {' '.join(command)}")
    print("".join(f"        {line}\n" for line in output.splitlines()[-25:]), end="", flush=True)


def mpich_suite(runner):
    if runner.source.name not in WRAPPERS or runner.options.quick:
        return
    if runner.options.only and "MPICH's" not in runner.options.only:
        return
    if runner.options.fetch:
        fetch(runner)
    directory, why = built(runner)
    if directory is None:
        return runner.count("skipped", f"{runner.source.name}: MPICH's tests of windows: {why}")
    for suite in SUITES:
        for test in listed(source(runner), suite):
            run_one(runner, directory, suite, test)
