"""Programs of others that no registry brings: Casper's tests and the Parallel Research Kernels.

Nothing of them is kept here. Their sources are looked for in the folders that SKERRY_USER_CASPER
and SKERRY_USER_PRK name, by default `casper` and `prk` in the cache: a checkout of the GitHub
repository pmodels/casper, of ParRes/Kernels. Skipped, with this said, where they are not.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

# A test of error handlers asks for windows of -1 bytes.
LEFT_TO_MPI = r"^skerry: .*the MPI library's(?!, because its size is below 0)"
YIELD = {"OMPI_MCA_mpi_yield_when_idle": "1"}
LIMIT_S = 120


def folder(runner, name):
    return Path(os.environ.get(f"SKERRY_USER_{name.upper()}") or runner.cache / name)


def compiled(runner, name, sources, flags):
    """(program, why not)"""
    program = runner.directory / f"{name}-{runner.source.name}"
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [shutil.which(runner.source.compiler) or runner.source.tool(runner.source.compiler)]
    command += ["-O2", "-w", *flags, *map(str, sources), "-o", str(program), "-lm", "-lpthread"]
    made = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **runner.own_environment()}
    )
    return (program, "") if made.returncode == 0 else (None, made.stderr.strip()[-300:])


def passes(runner, command, expected, environment, is_ours):
    """(passed, output): `expected` is in what it prints, and the windows are whose they are."""
    status, output, _ = runner.run(command, LIMIT_S, runner.environment(environment))
    good = status == 0 and re.search(expected, output, re.M) is not None
    return good and not (is_ours and re.search(LEFT_TO_MPI, output, re.M)), output


def compare(runner, name, ranks, words, expected, environment):
    """What does not pass must not pass on the MPI library's windows either; it is named."""
    if not runner.wanted(name):
        return
    name = f"{runner.source.name}: {name}"
    good, output = passes(runner, runner.command((ranks,), words), expected, environment, True)
    if good:
        return runner.count("passed", name)
    stock = runner.command((ranks,), words, with_skerry=False)
    if not passes(runner, stock, expected, environment, False)[0]:
        return runner.count("skipped", f"{name}: fails on the MPI library's own windows, too")
    runner.count("failed", name)
    print("".join(f"        {line}\n" for line in output.splitlines()[-15:]), end="")


# ---- Casper's tests -----------------------------------------------------------------------------


def casper_tests(home):
    """Those of windows: name -> (source, flags)."""
    rules = (home / "Makefile.am").read_text().replace("\\\n", " ")
    listed = [line.split()[0] for line in (home / "testlist.in").read_text().splitlines() if line]
    found = {}
    for name in listed:
        if name.startswith(("#", "isend")):  # messages
            continue
        source = re.search(rf"^{name}_SOURCES\s*=\s*(\S+)", rules, re.M)
        flags = re.search(rf"^{name}_CPPFLAGS\s*=\s*(.*?)\$\(", rules, re.M)
        found[name] = (
            home / (source[1] if source else f"{name}.c"),
            shlex.split(flags[1]) if flags else [],
        )
    return found


def casper(runner):
    home = folder(runner, "casper") / "test"
    if runner.options.quick:
        return
    if not (home / "testlist.in").exists():
        why = "no checkout of pmodels/casper in $SKERRY_USER_CASPER"
        return runner.count("skipped", f"{runner.source.name}: Casper's tests: {why}")
    made = runner.directory / "casper"
    made.mkdir(parents=True, exist_ok=True)
    # What its configuration would write.
    (made / "ctestconf.h").write_text("#define CTEST_ENABLE_THREAD_TEST 1\n")
    include = [f"-I{made}", f"-I{home / 'include'}"]
    for name, (source, flags) in casper_tests(home).items():
        program, why = compiled(runner, f"casper/{name}", [source], [*include, *flags])
        if program is None:
            text = f"{runner.source.name}: Casper's {name} does not compile: {why}"
            runner.count("skipped", text)
            continue
        compare(runner, f"Casper's {name}, 4 ranks", 4, [str(program)], "^PASS", YIELD)


# ---- the Parallel Research Kernels --------------------------------------------------------------

KERNELS = {
    "stencil": ("Stencil", ["-DSTAR=1", "-DRADIUS=2", "-DDOUBLE=1"], ["20", "500"]),
    "transpose": ("Transpose", [], ["20", "512", "32"]),
    "p2p": ("Synch_p2p", ["-DSYNCHRONOUS=0"], ["10", "500", "500"]),
}


def kernels(runner):
    home = folder(runner, "prk")
    if runner.options.quick:
        return
    if not (home / "MPIRMA").exists():
        why = "no checkout of ParRes/Kernels in $SKERRY_USER_PRK"
        return runner.count("skipped", f"{runner.source.name}: PRK's MPIRMA: {why}")
    flags = [f"-I{home / 'include'}", "-DRESTRICT_KEYWORD=0", "-DVERBOSE=0"]
    common = [home / "common" / name for name in ("MPI_bail_out.c", "wtime.c")]
    for name, (folder_name, defined, words) in KERNELS.items():
        source = home / "MPIRMA" / folder_name / f"{name}.c"
        program, why = compiled(runner, f"prk-{name}", [source, *common], [*flags, *defined])
        if program is None:
            text = f"{runner.source.name}: PRK's {name} does not compile: {why}"
            runner.count("skipped", text)
            continue
        for nodes in ("1", "2"):
            compare(
                *(runner, f"PRK's {name}, 4 ranks on {nodes} nodes", 4, [str(program), *words]),
                *("Solution validates", {**YIELD, "SKERRY_NODES": nodes}),
            )


PARTS = (casper, kernels)
