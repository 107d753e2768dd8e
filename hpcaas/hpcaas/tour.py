"""The tour: what the suite does, on any small machine, in under 15 minutes."""

from __future__ import annotations

import subprocess
import sys
import time
import webbrowser
from pathlib import Path
from typing import Optional

from rich.console import Console

from .errors import BadInput
from .model import ResultSet

# Campaign -> what it measures.
CAMPAIGNS = {
    "tour-montecarlo": "--apps montecarlo --size small --mpi openmpi,mpich --binding none,cores"
    " --split 1x2,2x1 --optimisation O2,O3 --repeats 5",
    "tour-openfoam": "--apps openfoam --size tiny --mpi openmpi --binding none,cores"
    " --split 1x1,2x1 --repeats 4",
}
# Nobody sells this very machine: its price is an estimate per core, and the page says so.
SHAPE = "oci/VM.Standard.E4.Flex-128-512"
INTERRUPTED = 130


def _command(console: Console, *args: str) -> int:
    console.print(f"\n[bold]$ hpcaas {' '.join(args)}[/bold]", highlight=False)
    return subprocess.run([sys.executable, "-m", "hpcaas.cli", *args]).returncode


def _chosen(only: Optional[str]) -> dict[str, str]:
    chosen = {n: w for n, w in CAMPAIGNS.items() if only in (None, n.removeprefix("tour-"))}
    if not chosen:
        names = ", ".join(n.removeprefix("tour-") for n in CAMPAIGNS)
        raise BadInput(f"the tour has no '{only}'", f"use one of {names}")
    return chosen


def _measure(console: Console, out: Path, only: Optional[str]) -> list[int]:
    codes = []
    for name, words in _chosen(only).items():
        args = words.split()
        _command(console, "plan", *args)
        place = ["--out", str(out), "--campaign", name, "--budget-min", "3"]
        codes.append(_command(console, "measure", *args, *place))
        if codes[-1] == INTERRUPTED:
            sys.exit(INTERRUPTED)
    return codes


def run_tour(out: Path, open_page: bool, console: Console, only: Optional[str] = None) -> None:
    start = time.monotonic()
    out = out.resolve()
    _command(console, "apps")
    codes = _measure(console, out, only)
    files = [str(f) for name in _chosen(only) if (f := out / name / "results.json").exists()]
    if not files:
        console.print("nothing could be measured: see the messages above")
        sys.exit(1)
    machine = next(iter(ResultSet.load(Path(files[0])).machines))
    price = ["--price", f"{machine}~{SHAPE}"]
    page = out / "tour.html"
    title = ["--title", "HPCaaS-Bench tour"]
    _command(
        console,
        "report",
        *files,
        "--html",
        str(page),
        "--csv",
        str(out / "tour.csv"),
        *title,
        *price,
    )
    _command(console, "advise", *files, *price)
    console.print(
        f"\nThe tour took {(time.monotonic() - start) / 60:.1f} minutes. The page: {page}"
    )
    if open_page and not webbrowser.open(page.as_uri()):
        console.print("no browser could be opened here; open that file in one")
    sys.exit(max(codes, default=0))
