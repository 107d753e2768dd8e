"""Finds the launcher and the Python package: installed, or in this repository's build directory."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


def build_directory():
    return Path(os.environ.get("SKERRY_USER_BUILD", REPOSITORY / "build"))


def launcher():
    """The start of a command line: the native launcher, or the package's own."""
    built = build_directory() / "bin" / "skerry"
    if built.exists():
        return [str(built)]
    beside = Path(sys.executable).with_name("skerry")
    if beside.exists():
        return [str(beside)]
    if found := shutil.which("skerry"):
        return [found]
    sys.exit(
        f"no launcher: neither {built} nor an installed skerry; build the project (cmake --build) or pip install ."
    )


def python_path():
    """PYTHONPATH for the ranks: the built package first, unless another one is installed and nothing is built."""
    built = build_directory() / "python"
    paths = [str(built)] if (built / "skerry").exists() else []
    if not paths and importlib.util.find_spec("skerry") is None:
        sys.exit(
            f"no Python package skerry: neither in {built} nor installed; build the project or pip install ."
        )
    return os.pathsep.join(paths + [path for path in [os.environ.get("PYTHONPATH")] if path])


def environment():
    """For a process that starts ranks."""
    return os.environ | {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1"}
