"""What tests of other projects' programs need: the programs by name, a Python with packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out"


class Unavailable(Exception):
    """Why something cannot be had here."""


def cloned(name, source, variable, tag=None):
    """The folder of a repository: what the variable names, or a clone by name in out/."""
    given = os.environ.get(variable)
    folder = Path(given) if given else OUT / name
    if not given and not folder.exists():
        which = ["--branch", tag] if tag else ["--depth", "1"]
        clone = ["git", "clone", "-q", "--recursive", *which, source, str(folder)]
        try:
            subprocess.run(clone, check=True, capture_output=True, text=True, timeout=300,
                           env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            subprocess.run(["rm", "-rf", str(folder)], check=False)
            reason = getattr(error, "stderr", None) or error
            raise Unavailable(f"no {name}: {reason}; {variable} may name a folder") from None
    return folder


def interpreter(name, packages, imports):
    """A Python with packages, in a venv of that name in out/."""
    python = OUT / name / "bin" / "python"
    check = [str(python), "-c", f"import {', '.join(imports)}"]
    try:
        if not python.exists():
            base = ROOT / ".venv" / "bin" / "python"
            base = base if base.exists() else sys.executable
            subprocess.run([base, "-m", "venv", OUT / name], check=True, timeout=120)
        if subprocess.run(check, capture_output=True).returncode:
            install = [str(python), "-m", "pip", "install", "-q", *packages]
            subprocess.run(install, check=True, capture_output=True, text=True, timeout=1200)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"no packages: {getattr(error, 'stderr', None) or error}") from None
    return python


def ranks(count, nodes=1):
    """The words that start a program on ranks."""
    return [ROOT / "build" / "bin" / "skerry", "run", "-n", str(count), "--nodes", str(nodes)]


def environment(*folders, **settings):
    """Of programs on ranks: our package and `folders` to import from, one thread a rank."""
    paths = map(str, [ROOT / "build" / "python", *folders])
    return {
        **os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **settings,
    }  # fmt: skip


def tested(name, python, layout, words, *, folder, settings, minutes):
    """What each rank of one job of pytest told: out/NAME.RANK, as SKERRY_USER_REPORT says. None if
    the job did not end within so many minutes, or some rank told nothing; then its log is named."""
    (count, nodes), report, log = layout, OUT / name, OUT / f"{name}.log"
    for old in OUT.glob(f"{name}.*"):
        old.unlink()
    command = [*ranks(count, nodes), python, "-m", "pytest", "-p", "no:cacheprovider", "-q",
               "-W", "ignore", *words]  # fmt: skip
    about = f"{count} ranks on {nodes} nodes"
    with log.open("w") as output:
        try:
            subprocess.run(list(map(str, command)), cwd=folder, stdout=output,
                           env={**settings, "SKERRY_USER_REPORT": str(report)},
                           stderr=subprocess.STDOUT, timeout=minutes * 60)  # fmt: skip
        except subprocess.TimeoutExpired:
            print(f"{about}: not done after {minutes} minutes; {log}")
    found = [Path(f"{report}.{rank}") for rank in range(int(count))]
    if not all(path.exists() for path in found):
        print(f"{about}: some rank told nothing; {log}")
        return None
    return [json.loads(path.read_text()) for path in found]
