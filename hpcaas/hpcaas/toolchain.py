"""Compilers and MPI installations: what is there, which version it says it is, and what would bring
what is missing."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Sequence

from .errors import BadInput, Missing


@dataclass(frozen=True)
class Compiler:
    name: str
    cxx: str
    cc: str
    fortran: Optional[str]
    version: str


@dataclass(frozen=True)
class Mpi:
    """One installation. Several of one implementation differ by name (openmpi, openmpi5, ...)."""

    name: str
    kind: str  # openmpi, mpich, intelmpi
    version: str
    mpirun: str
    mpicxx: Optional[str]
    frameworks: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def major(self) -> int:
        found = re.match(r"(\d+)", self.version)
        return int(found.group(1)) if found else 0

    def compiler_environment(self, compiler: Compiler) -> dict[str, str]:
        """Variables that make the MPI's wrapper call this compiler."""
        if self.kind == "openmpi":
            return {
                "OMPI_CXX": compiler.cxx,
                "OMPI_CC": compiler.cc,
                "OMPI_FC": compiler.fortran or "gfortran",
            }
        if self.kind == "mpich":
            return {
                "MPICH_CXX": compiler.cxx,
                "MPICH_CC": compiler.cc,
                "MPICH_FC": compiler.fortran or "gfortran",
            }
        return {
            "I_MPI_CXX": compiler.cxx,
            "I_MPI_CC": compiler.cc,
            "I_MPI_FC": compiler.fortran or "gfortran",
        }


# name: (C++, C, Fortran, what brings it)
_COMPILERS = {
    "gcc": ("g++", "gcc", "gfortran", "apt-get install g++ gfortran"),
    "clang": ("clang++", "clang", None, "apt-get install clang libomp-dev"),
    "intel": (
        "icpx",
        "icx",
        "ifx",
        "https://www.intel.com/content/www/us/en/developer/tools/oneapi/hpc-toolkit.html",
    ),
    "cray": ("CC", "cc", "ftn", "module load PrgEnv-cray, on a Cray"),
    "nvhpc": ("nvc++", "nvc", "nvfortran", "https://developer.nvidia.com/hpc-sdk"),
    "aocc": (
        "aocc-clang++",
        "aocc-clang",
        "aocc-flang",
        "https://www.amd.com/en/developer/aocc.html",
    ),
}


def run_text(argv: list[str], env: Optional[dict[str, str]] = None, timeout_s: float = 20.0) -> str:
    """Output of a short command, stdout and stderr together; empty when it cannot run. Never
    raises, never hangs."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def find_compilers(site: Optional[dict[str, Any]] = None) -> dict[str, Compiler]:
    found: dict[str, Compiler] = {}
    for name, (cxx, cc, fortran, _) in _COMPILERS.items():
        path = shutil.which(cxx)
        if not path:
            continue
        # `CC` exists on many systems as something else; only Cray's wrapper says so.
        text = run_text([path, "--version"])
        if name == "cray" and "Cray" not in text:
            continue
        version = re.search(r"(\d+\.\d+(?:\.\d+)?)", text)
        found[name] = Compiler(
            name,
            path,
            shutil.which(cc) or cc,
            shutil.which(fortran) if fortran else None,
            version.group(1) if version else "unknown",
        )
    for entry in (site or {}).get("compilers", []):
        version = re.search(r"\d+\.\d+(?:\.\d+)?", run_text([entry["cxx"], "--version"]))
        found[entry["name"]] = Compiler(
            entry["name"],
            entry["cxx"],
            entry["cc"],
            entry.get("fortran"),
            version.group() if version else "unknown",
        )
    return found


def _openmpi_version(mpirun: str, env: dict[str, str]) -> Optional[str]:
    text = run_text([mpirun, "--version"], env)
    found = re.search(r"\(Open MPI\) (\S+)|\(PRRTE\) (\S+)|prterun.*?(\d+\.\d+\S*)", text)
    return next(filter(None, found.groups()), None) if found else None


def identify(
    name: str,
    mpirun: str,
    mpicxx: Optional[str],
    env: Optional[dict[str, str]] = None,
    kind: Optional[str] = None,
) -> Optional[Mpi]:
    """Asks an mpirun what it is; `kind` is believed where its answer is not known. None when
    neither says it."""
    env = env or {}
    text = run_text([mpirun, "--version"], env)
    if "Intel" in text:
        version = re.search(r"Version (\S+)", text)
        return Mpi(
            name,
            "intelmpi",
            version.group(1) if version else "unknown",
            mpirun,
            mpicxx,
            ("ofi",),
            env,
        )
    if "HYDRA" in text:
        version = re.search(r"Version:\s+(\S+)", text)
        # hydra prints the whole configure line: the device is in it, and Debian's package names no
        # other place.
        devices = tuple(dict.fromkeys(re.findall(r"ch4:(ofi|ucx)", text)))
        return Mpi(
            name, "mpich", version.group(1) if version else "unknown", mpirun, mpicxx, devices, env
        )
    version = _openmpi_version(mpirun, env)
    if version:
        kind = "openmpi"
    if kind is None:
        return None
    frameworks = {"openmpi": ("ob1", "ucx", "ofi"), "intelmpi": ("ofi",)}.get(kind, ())
    return Mpi(name, kind, version or "unknown", mpirun, mpicxx, frameworks, env)


def _first_program(names: Sequence[str]) -> Optional[str]:
    return next(filter(None, map(shutil.which, names)), None)


def _same_program(one: Mpi, other: Mpi) -> bool:
    paths = {os.path.realpath(mpi.mpirun) for mpi in (one, other)}
    return len(paths) == 1 and one.kind == other.kind


def find_mpis(site: Optional[dict[str, Any]] = None) -> dict[str, Mpi]:
    found: dict[str, Mpi] = {}
    for name, launchers, wrappers in (
        ("openmpi", ("mpirun.openmpi",), ("mpicxx.openmpi",)),
        ("mpich", ("mpirun.mpich", "mpiexec.hydra"), ("mpicxx.mpich",)),
        ("intelmpi", ("mpiexec.hydra",), ("mpicxx",)),
        ("default", ("mpirun",), ("mpicxx", "mpic++")),
    ):
        mpirun = _first_program(launchers)
        mpi = identify(name, mpirun, _first_program(wrappers)) if mpirun else None
        if mpi is None or name not in ("default", mpi.kind):
            continue
        if not any(_same_program(mpi, known) for known in found.values()):
            found[mpi.kind] = replace(mpi, name=mpi.kind)
    for entry in (site or {}).get("mpis", []):
        mpi = identify(
            entry["name"], entry["mpirun"], entry.get("mpicxx"), entry.get("env"), entry.get("kind")
        )
        if mpi is None:
            raise BadInput(
                f"'{entry['mpirun']}' of MPI '{entry['name']}' answers like no known MPI",
                "give its kind: openmpi, mpich or intelmpi",
            )
        found[entry["name"]] = mpi
    return found


_MPI_REMEDY = {
    "openmpi": "apt-get install openmpi-bin libopenmpi-dev",
    "mpich": "apt-get install mpich libmpich-dev",
    "intelmpi": "pip install impi-rt impi-devel, in a virtual environment of its own",
}


def need_compiler(compilers: dict[str, Compiler], name: str) -> Compiler:
    if name not in compilers:
        remedy = (
            _COMPILERS[name][3]
            if name in _COMPILERS
            else "describe it under `compilers:` in the site file"
        )
        raise Missing(
            f"compiler '{name}' is not installed (found: {', '.join(compilers) or 'none'})", remedy
        )
    return compilers[name]


def need_mpi(mpis: dict[str, Mpi], name: str) -> Mpi:
    if name not in mpis:
        raise Missing(
            f"MPI '{name}' is not installed (found: {', '.join(mpis) or 'none'})",
            _MPI_REMEDY.get(name, "describe it under `mpis:` in the site file"),
        )
    return mpis[name]


def target_flags(compiler: str, target: Optional[str]) -> list[str]:
    """-march in each compiler's words; Cray's and the paper's names are accepted for all."""
    if not target or target == "baseline":
        return []
    if compiler == "cray":
        return [f"-hcpu=x86-{target}"]
    alias = {"rome": "znver2", "milan": "znver3", "genoa": "znver4", "spr": "sapphirerapids"}
    return [f"-march={alias.get(target, target)}"]


# Instruction sets that a target may use; a program for one that the CPU lacks ends with SIGILL.
TARGET_NEEDS = {
    "baseline": [],
    "x86-64": [],
    "x86-64-v2": ["sse4_2"],
    "x86-64-v3": ["avx2", "fma"],
    "x86-64-v4": ["avx512f"],
    "broadwell": ["avx2", "fma"],
    "haswell": ["avx2", "fma"],
    "rome": ["avx2", "fma"],
    "znver2": ["avx2", "fma"],
    "milan": ["avx2", "fma"],
    "znver3": ["avx2", "fma"],
    "genoa": ["avx512f", "avx512_bf16"],
    "znver4": ["avx512f", "avx512_bf16"],
    "skylake": ["avx2", "fma"],
    "skylake-avx512": ["avx512f"],
    "cascadelake": ["avx512f"],
    "spr": ["avx512f", "amx_tile"],
    "sapphirerapids": ["avx512f", "amx_tile"],
    "native": [],
}


@functools.cache
def library_versions(paths: tuple[str, ...]) -> dict[str, str]:
    """Package and version of installed files, from dpkg or rpm; files of no package, and other
    systems, are left out."""
    if shutil.which("dpkg-query"):
        return _dpkg_versions(paths)
    return _rpm_versions(paths) if shutil.which("rpm") else {}


def _dpkg_versions(paths: tuple[str, ...]) -> dict[str, str]:
    # With /usr merged a library may be mapped under one name and belong to the package under the
    # other.
    names = {name: path for path in paths for name in (path, path.removeprefix("/usr"))}
    said = run_text(["dpkg-query", "-S", *names], {"LC_ALL": "C"})
    owners = re.findall(r"^([^\s:,]+)\S*?(?:, \S+)*: (/\S+)$", said, re.M)
    packages = sorted({package for package, _ in owners})
    if not packages:
        return {}
    shown = run_text(["dpkg-query", "-W", "-f=${Package} ${Version}\n", *packages])
    versions = dict(line.split(" ", 1) for line in shown.splitlines() if " " in line)
    return {
        names[path]: f"{package} {versions[package]}"
        for package, path in owners
        if package in versions and path in names
    }


def _rpm_versions(paths: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for path in paths:
        text = run_text(["rpm", "-qf", "--qf", "%{NAME} %{VERSION}-%{RELEASE}", path])
        if text and "not owned" not in text and "error" not in text.lower():
            found[path] = text
    return found
