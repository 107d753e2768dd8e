"""Ranks for a notebook, by ipyparallel.

ipyparallel starts a controller, and the engines by a launcher. Ours is `skerry run`: each engine is
a rank, and its number is the rank's. `python -m skerry._cluster` is what runs as an engine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .errors import InvalidError, UnsupportedError

_RANK = ("SKERRY_RANK", "SLURM_PROCID")
_XP = "import skerry.xp as xp; " if int(np.__version__.split(".")[0]) >= 2 else ""
_START = f"import numpy as np; import skerry as sk; {_XP}sk.init()"


def Cluster(
    n: int, *, nodes: int = 1, launcher: Literal["skerry", "srun"] = "skerry", **options: Any
) -> Any:  # noqa: N802 (ipyparallel's name)
    """Ranks for a notebook, by ipyparallel's conventions: an ``ipyparallel.Cluster`` whose n
    engines are the ranks of one job on `nodes` virtual nodes, engine i being rank i. They have
    joined the job and know ``sk``, ``xp`` and ``np``. Launcher srun: on nodes of Slurm. `options`
    are ipyparallel's. UnsupportedError without ipyparallel.

        with sk.Cluster(4) as ranks:
            ranks[:].execute("a = sk.zeros((1000, 1000))").get()

    Not collective. Errors: InvalidError (n, nodes or launcher), UnsupportedError (no
    ipyparallel)."""
    if n < 1 or not 1 <= nodes <= n:
        raise InvalidError(f"a cluster of {n} ranks on {nodes} nodes: give 1 <= nodes <= n")
    commands = {"skerry": _own_launcher(), "srun": ["srun"]}
    if launcher not in commands:
        raise InvalidError(f"launcher {launcher!r}: 'skerry' or 'srun'")
    try:
        import ipyparallel
        from ipyparallel.cluster.launcher import EngineLauncher, MPILauncher
    except ImportError as missing:
        raise UnsupportedError(
            f"a cluster needs ipyparallel ({missing}): pip install 'skerry[notebook]'"
        ) from None

    class Ranks(MPILauncher, EngineLauncher):
        """Starts all engines as one job."""

        mpi_cmd = commands[launcher]
        mpi_args = ["--nodes", str(nodes)] if launcher == "skerry" else [f"--nodes={nodes}"]

        @property
        def program(self) -> list[str]:
            return [sys.executable, "-m", "skerry._cluster"]

        @property
        def program_args(self) -> list[str]:
            return self.cluster_args + self.engine_args

    return ipyparallel.Cluster(n=n, engines=Ranks, **options)


def _own_launcher() -> list[str]:
    return [str(Path(__file__).parent / "bin" / "skerry"), "run"]


def main() -> None:
    """An engine whose number is its rank, with the job joined."""
    from ipyparallel.engine.app import main as engine

    rank = next((os.environ[name] for name in _RANK if name in os.environ), None)
    if rank is None:
        sys.exit(f"skerry: an engine finds no rank: none of {', '.join(_RANK)} is set")
    sys.argv += [f"--IPEngine.id={rank}", f"--IPEngine.startup_command={_START}"]
    engine()


if __name__ == "__main__":
    main()
