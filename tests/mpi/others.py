"""Jobs of tests/mpi/run.py beside its own C program: Fortran, and programs of others as they come.

Nothing of others is kept here: mpi4py's tests come from PyPI into the cache (--fetch); tests of
OpenCoarrays, NWChem and Global Arrays from the system's packages. What is not there is skipped, and
the package to install is named.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import mpich_suite

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
LEFT_TO_MPI = r"^skerry: .*the MPI library's"

# ---- Fortran ------------------------------------------------------------------------------------

INTERFACES = {"mpif_h": 1, "use_mpi": 2, "mpi_f08": 3}
FORTRAN_FLAGS = ["-O1", "-g", "-w", "-fallow-argument-mismatch"]
FORTRAN_WRAPPERS = {"openmpi4": "mpifort.openmpi", "mpich4": "mpifort.mpich"}


def fortran_program(runner, interface):
    """(path, why not)."""
    wrapper = shutil.which(FORTRAN_WRAPPERS[runner.source.name])
    if not wrapper or not shutil.which("gfortran"):
        return None, "install gfortran"
    directory = runner.directory / f"modules-{runner.source.name}-{interface}"
    program, source = directory / "fortran_check", HERE / "fortran_check.F90"
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return str(program), ""
    directory.mkdir(parents=True, exist_ok=True)
    flags = [*FORTRAN_FLAGS, f"-DINTERFACE={INTERFACES[interface]}"]
    if runner.source.family == "hydra" and interface == "mpi_f08":
        flags.append("-DLARGE")  # OpenMPI has the large-count forms in no version yet
    command = [wrapper, *flags, f"-J{directory}", str(source), "-o", str(program)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        return None, f"{wrapper} fails: {made.stderr.strip().splitlines()[-1]}"
    return str(program), ""


def every_function(runner):
    """Each function through each Fortran interface."""
    if runner.source.name not in FORTRAN_WRAPPERS:
        return  # run.py says so
    layouts = [(2, 1)] if runner.options.quick else [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2)]
    for interface in INTERFACES:
        program, why = fortran_program(runner, interface)
        if program is None:
            kind = "failed" if " fails: " in why else "skipped"
            runner.count(kind, f"{runner.source.name}: Fortran, {interface}: {why}")
            continue
        for ranks, nodes in layouts:
            runner.job(
                f"Fortran, all functions, {interface}, {ranks} ranks on {nodes} nodes",
                runner.command((ranks,), [program]),
                rf"^fortran_check: {ranks} ranks, ok$",
                {"SKERRY_NODES": str(nodes)},
                unwanted=r"^skerry: (?!MPI_Win_allocate_shared).*the MPI library's",
            )


def arrivals(runner):
    """Each function of each interface passes through libskerry_mpi.so: once for all MPIs."""
    if runner.source.name != "openmpi4" or runner.options.quick:
        return
    if not runner.wanted("Fortran, arrivals"):
        return
    if not shutil.which("gfortran"):
        runner.count("skipped", "Fortran, arrivals: install gfortran")
        return
    command = [sys.executable, str(HERE / "coverage.py"), "--build", str(runner.options.build)]
    status, output, _ = runner.run(command, 600, {})
    good = status == 0
    runner.count("passed" if good else "failed", "Fortran, arrivals: each function reaches Skerry")
    if not good:
        print(output[-2000:])


# ---- mpi4py -------------------------------------------------------------------------------------

MPI4PY = "4.1.2"
SUITES = r"test_(rma|rma_nb|win|attributes|errhandler|util_sync)(.py)?$"


def mpi4py_home(runner):
    return runner.cache / f"mpi4py-{MPI4PY}"


def fetch_mpi4py(runner):
    """mpi4py in a virtual environment of its own, and its sources for their tests."""
    home = mpi4py_home(runner)
    if (home / "source").exists():
        return
    print(f"tests/mpi: installing mpi4py {MPI4PY} into {home}", file=sys.stderr)
    pip = [str(home / "bin" / "pip"), "--quiet", "--disable-pip-version-check"]
    packed = home / "packed"
    for command in (
        [sys.executable, "-m", "venv", str(home)],
        [*pip, "install", f"mpi4py=={MPI4PY}", "setuptools"],
        [*pip, "download", "--no-deps", "--no-binary", "mpi4py", "--dest", str(packed)]
        + [f"mpi4py=={MPI4PY}"],
    ):
        if subprocess.run(command).returncode:
            return
    for archive in packed.glob("*.tar.gz"):
        with tarfile.open(archive) as opened:
            opened.extractall(home / "unpacked")
        (home / "unpacked" / f"mpi4py-{MPI4PY}").rename(home / "source")


def mpi4py_library(runner):
    """The MPI library by the name that mpi4py loads."""
    if runner.source.package:
        soname = "libmpi.so.40" if runner.source.family == "openmpi5" else "libmpi.so.12"
        return runner.source.home / "lib" / soname
    if runner.source.name == "openmpi4":
        return LIBRARIES / "libmpi.so.40"
    # Debian calls MPICH's library libmpich, and mpi4py looks for libmpi.
    directory = runner.directory / "mpich-names"
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / "libmpi.so.12"
    if not link.is_symlink():
        link.symlink_to(LIBRARIES / "libmpich.so.12")
    return link


def mpi4py(runner):
    """mpi4py's own tests of windows."""
    source = runner.source
    if runner.options.quick:
        return
    if source.adapter == "abi":
        runner.count("skipped", f"{source.name}: mpi4py: its wheels do not have the standard ABI")
        return
    if runner.options.fetch:
        fetch_mpi4py(runner)
    home = mpi4py_home(runner)
    if not (home / "source" / "test").exists():
        runner.count("skipped", f"{source.name}: mpi4py: not in {home} (--fetch)")
        return
    library = mpi4py_library(runner)
    environment = {
        "MPI4PY_MPIABI": "openmpi" if source.adapter == "openmpi" else "mpich",
        "MPI4PY_LIBMPI": str(library),
        "LD_LIBRARY_PATH": str(library.parent),
    }
    if source.name == "openmpi4":
        # mpi4py finds the library by the link for compilers, if nothing else is said.
        one = "from mpi4py import MPI; MPI.Win.Allocate(8).Free(); print('made')"
        python = str(home / "bin" / "python")
        runner.job("mpi4py as it comes", runner.command((2,), [python, "-c", one]), "made")
    # MPICH's ranks do not yield: with more of them than cores its barriers take long.
    for ranks, nodes in ((1, 1), (2, 1), (2, 2), (4, 1)):
        words = [str(home / "bin" / "python"), "runtests.py", "-v", "-i", SUITES]
        runner.job(
            f"mpi4py's tests of windows, {ranks} ranks on {nodes} nodes",
            runner.command((ranks,), words),
            # Ranks print into each other's lines; a rank whose tests fail ends with a status.
            r"Ran [1-9]\d+ tests",
            {**environment, "SKERRY_NODES": str(nodes)},
            unwanted=r"FAILED|skerry: (?!MPI_Win_allocate_shared).*the MPI library's",
            directory=home / "source" / "test",
            limit_s=900,
        )


# ---- coarrays -----------------------------------------------------------------------------------

COARRAY_TESTS = "open-coarrays/openmpi/bin/OpenCoarrays-*-tests"
YIELD = {"OMPI_MCA_mpi_yield_when_idle": "1"}
STOCK_RUNS = 5
# Images 1 and 4 read from each other and never wait for each other, once in some 15 runs too early.
# So also on OpenMPI's own windows of `--mca osc rdma --mca btl vader,self`, which need no call of
# the target's; its usual ones do, and hide it. With `sync images` between the two it passes.
RACES = {"coarray_burgers_pde"}


def coarray_examples(runner):
    compiler = shutil.which("caf.openmpi")
    if compiler is None:
        runner.count("skipped", "openmpi4: coarrays: install libcoarrays-openmpi-dev")
        return
    for source in sorted((ROOT / "examples" / "coarray").glob("*.f90")):
        program = runner.directory / f"coarray_{source.stem}"
        program.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run(
            [compiler, str(source), "-o", str(program)], capture_output=True, text=True
        )
        if made.returncode:
            runner.count("failed", f"openmpi4: coarrays, {source.stem} does not compile")
            print(made.stderr[-2000:])
            continue
        for ranks, nodes in [(1, 1), (2, 1), (4, 1), (4, 2)]:
            runner.job(
                f"coarrays, {source.stem}, {ranks} images on {nodes} nodes",
                runner.command((ranks,), [str(program)]),
                rf"^{source.stem}: {ranks} images, ok$",
                {**YIELD, "SKERRY_NODES": str(nodes)},
                unwanted=LEFT_TO_MPI,
            )


def coarray_tests(runner):
    """Those of OpenCoarrays that always pass on the library's own windows pass on Skerry's."""
    found = next(iter(sorted(LIBRARIES.glob(COARRAY_TESTS))), None)
    if found is None:
        runner.count("skipped", "openmpi4: OpenCoarrays' tests: install libcoarrays-openmpi-dev")
        return
    for program in sorted(found.iterdir()):
        # Images that fail on purpose: OpenMPI 4.1 does not survive that, and waits.
        if program.name.startswith("image_fail") or not program.is_file():
            continue
        name = f"OpenCoarrays' {program.name}, 4 images"
        if not runner.wanted(name):
            continue
        if program.name in RACES:
            runner.count("skipped", f"openmpi4: {name}: its images race, see RACES")
            continue
        scratch = runner.directory / "coarrays"
        scratch.mkdir(parents=True, exist_ok=True)
        if failed := stock_fails(runner, program, scratch):
            reason = f"fails on OpenMPI's own windows, run {failed} of {STOCK_RUNS}"
            runner.count("skipped", f"openmpi4: {name}: {reason}")
            continue
        runner.job(
            name,
            runner.command((4,), [str(program)]),
            r"(?i)test passed",
            YIELD,
            unwanted=LEFT_TO_MPI,
            directory=scratch,
            limit_s=120,
        )


# Reads what it gets before the lock is given back: wrong between nodes, right where every call is
# complete when it returns.
READS_EARLY = "sendget_convert_nums"


def coarrays_at_once(runner):
    program = next(iter(sorted(LIBRARIES.glob(f"{COARRAY_TESTS}/{READS_EARLY}"))), None)
    name = f"OpenCoarrays' {READS_EARLY}, 4 images on 2 nodes"
    if not runner.wanted(name):
        return
    if program is None:
        runner.count("skipped", f"openmpi4: {name}: install libcoarrays-openmpi-dev")
        return
    scratch = runner.directory / "coarrays"
    scratch.mkdir(parents=True, exist_ok=True)
    runner.job(
        f"{name}, complete at once",
        runner.command((4,), [str(program)]),
        r"(?i)test passed",
        {**YIELD, "SKERRY_NODES": "2", "SKERRY_COMPLETE_AT_ONCE": "1"},
        unwanted=LEFT_TO_MPI,
        directory=scratch,
        limit_s=120,
    )


def stock_fails(runner, program, scratch):
    """Which run, from 1, fails on the library's own windows. None: all pass. Several, as some of
    the tests race: increment_my_neighbor fails in three of four."""
    stock = runner.command((4,), [str(program)], with_skerry=False)
    for run in range(1, STOCK_RUNS + 1):
        status, output, _ = runner.run(stock, 60, runner.environment(YIELD), scratch)
        if status != 0 or not re.search(r"(?i)test passed", output):
            return run
    return None


def coarrays(runner):
    if runner.source.name != "openmpi4" or runner.options.quick:
        return
    coarray_examples(runner)
    coarray_tests(runner)
    coarrays_at_once(runner)


# ---- Global Arrays on ARMCI-MPI -----------------------------------------------------------------


def global_arrays(runner):
    """Debian's Global Arrays on Debian's ARMCI-MPI, which does everything through windows."""
    mpi = {"openmpi4": "openmpi", "mpich4": "mpich"}.get(runner.source.name)
    if mpi is None or runner.options.quick:
        return
    needed = [LIBRARIES / f"lib{name}-{mpi}.a" for name in ("ga", "armci")]
    absent = [path.name for path in needed if not path.exists()]
    if absent:
        packages = "libglobalarrays-dev and libarmci-mpi-dev"
        runner.count("skipped", f"{runner.source.name}: Global Arrays: install {packages}")
        return
    program = runner.directory / f"ga_check-{runner.source.name}"
    libraries = [f"-lga-{mpi}", f"-lscalapack-{mpi}", "-llapack", "-lblas", f"-larmci-{mpi}"]
    source = ROOT / "tests" / "armci" / "ga_check.c"
    command = [runner.source.tool(runner.source.compiler), "-O1", "-w", str(source)]
    made = subprocess.run(
        [*command, "-o", str(program), *libraries, "-lgfortran", "-lm"],
        capture_output=True,
        text=True,
    )
    if made.returncode:
        runner.count("failed", f"{runner.source.name}: ga_check does not compile with ARMCI-MPI")
        print(made.stderr[-2000:])
        return
    for ranks, nodes in ((1, 1), (2, 1), (4, 1), (4, 2)):
        runner.job(
            f"Global Arrays on ARMCI-MPI, {ranks} ranks on {nodes} nodes",
            runner.command((ranks,), [str(program)]),
            rf"^ga_check: {ranks} processes, .* ok$",
            {**YIELD, "SKERRY_NODES": str(nodes)},
            unwanted=LEFT_TO_MPI,
        )


# ---- Intel's benchmark of windows ----------------------------------------------------------------


def imb(runner):
    """IMB-RMA comes with Intel MPI: every transfer it measures, once."""
    program = runner.source.home / "bin" / "IMB-RMA"
    if runner.source.name != "intel" or runner.options.quick or not program.exists():
        return
    for nodes in (1, 2):
        runner.job(
            f"IMB-RMA, 2 ranks on {nodes} nodes",
            runner.command((2,), [str(program), "-iter", "5", "-msglog", "3:12", "-time", "1"]),
            r"^# All processes entering MPI_Finalize",
            {"SKERRY_NODES": str(nodes)},
            unwanted=LEFT_TO_MPI,
        )


# ---- NWChem, the larger test --------------------------------------------------------------------

# Of NWChem's own reference output; the tolerance is what differing orders of summation may change.
SIOSI3_ENERGY, TOLERANCE = -2840.723743345628, 1e-6
SIOSI3 = "source/nwchem/QA/tests/dft_siosi3/dft_siosi3.nw"


def siosi3_input():
    """In the cache of tools/test_nwchem.sh, which fetches NWChem's source."""
    home = os.environ.get("NWCHEM_CACHE") or Path.home() / ".cache" / "skerry-nwchem"
    return Path(home) / SIOSI3


def nwchem_energies(runner, test, ranks, nodes, deck, line, expected):
    """One calculation by Debian's NWChem. ranks: on each host; one number: on this machine."""
    where = f"{len(ranks)} hosts" if len(ranks) > 1 else f"{nodes} nodes"
    name = f"NWChem, {test}, {sum(ranks)} ranks on {where}"
    if not runner.wanted(name):
        return
    scratch = runner.directory / f"nwchem-{test}-{sum(ranks)}-{len(ranks)}-{nodes}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    variables = ["OPENBLAS_NUM_THREADS=1", "NWCHEM_BASIS_LIBRARY=/usr/share/nwchem/libraries/"]
    words = ["env", f"--chdir={scratch}", *variables, shutil.which("nwchem.openmpi"), str(deck)]
    command = runner.command(ranks, words)
    if len(ranks) > 1:
        command = [str(ROOT / "testbed/hosts.sh"), "exec", "sk0", *command]
    environment = {**YIELD, **({"SKERRY_NODES": str(nodes)} if len(ranks) == 1 else {})}
    status, output, seconds = runner.run(command, 900, runner.environment(environment), scratch)
    energies = re.findall(rf"{line} *= *(-[\d.]+)", output)
    good = status == 0 and energies and abs(float(energies[-1]) - expected) < TOLERANCE
    good = good and not re.search(LEFT_TO_MPI, output, re.M) and ": Skerry's" in output
    found = energies[-1] if energies else "no energy"
    text = f"{runner.source.name}: {name} ({seconds:.1f} s): {found}"
    runner.count("passed" if good else "failed", text)
    if not good:
        print("".join(f"        {line}\n" for line in output.splitlines()[-20:]), end="")


def siosi3(runner, layouts):
    if runner.source.name != "openmpi4" or runner.options.quick:
        return
    if shutil.which("nwchem.openmpi") is None:
        runner.count("skipped", "openmpi4: NWChem, dft_siosi3: install nwchem-openmpi")
        return
    if not siosi3_input().exists():
        runner.count("skipped", f"openmpi4: NWChem: no {siosi3_input()} (make test-nwchem)")
        return
    for ranks, nodes in layouts:
        nwchem_energies(
            runner, "dft_siosi3", ranks, nodes, siosi3_input(), "Total DFT energy", SIOSI3_ENERGY
        )


def larger_nwchem(runner):
    siosi3(runner, [((2,), 1), ((2,), 2)])


def on_hosts(runner):
    """Inside a testbed."""
    if runner.source.name == "openmpi4" and shutil.which("nwchem.openmpi"):
        deck, energy = HERE / "h2o.nw", -76.010538615916
        nwchem_energies(runner, "h2o", (1, 1), 1, deck, "Total SCF energy", energy)
    siosi3(runner, [((1, 1), 1)])


PARTS = (
    *(every_function, arrivals, mpi4py, coarrays, global_arrays, larger_nwchem),
    *(imb, mpich_suite.mpich_suite),
)
