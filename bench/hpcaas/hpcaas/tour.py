"""The tour: what the suite does, on any small machine, in under 15 minutes."""

from __future__ import annotations

import subprocess
import sys
import time
import webbrowser
from pathlib import Path

from rich.console import Console

from .model import ResultSet


def _command(console: Console, *args: str) -> int:
    console.print(f"\n[bold]$ hpcaas {' '.join(args)}[/bold]", highlight=False)
    return subprocess.run([sys.executable, "-m", "hpcaas.cli", *args]).returncode


def run_tour(out: Path, open_page: bool, console: Console) -> None:
    start = time.monotonic()
    out = out.resolve()
    monte = [
        "--apps",
        "montecarlo",
        "--size",
        "small",
        "--mpi",
        "openmpi,mpich",
        "--binding",
        "none,cores",
        "--split",
        "1x2,2x1",
        "--optimisation",
        "O2,O3",
        "--repeats",
        "3-5",
    ]
    foam = [
        "--apps",
        "openfoam",
        "--size",
        "tiny",
        "--mpi",
        "openmpi",
        "--binding",
        "none,cores",
        "--split",
        "1x1,2x1",
        "--repeats",
        "3-4",
    ]
    _command(console, "apps")
    codes = []
    for name, args in (("tour-montecarlo", monte), ("tour-openfoam", foam)):
        _command(console, "plan", *args)
        codes.append(
            _command(
                console,
                "measure",
                *args,
                "--out",
                str(out),
                "--campaign",
                name,
                "--budget-min",
                "5",
            )
        )
        if codes[-1] == 130:
            sys.exit(130)
    files = [
        str(f)
        for f in (out / "tour-montecarlo/results.json", out / "tour-openfoam/results.json")
        if f.exists()
    ]
    if not files:
        console.print("nothing could be measured: see the messages above")
        sys.exit(1)
    machine = next(iter(ResultSet.load(Path(files[0])).machines))
    # Nobody sells this very machine: its price is an estimate per core, and the page says so.
    price = ["--price", f"{machine}~oci/VM.Standard.E4.Flex-128-512"]
    page = out / "tour.html"
    _command(
        console,
        "report",
        *files,
        "--html",
        str(page),
        "--csv",
        str(out / "tour.csv"),
        "--title",
        "HPCaaS-Bench tour",
        *price,
    )
    _command(console, "advise", *files, *price)
    console.print(
        f"\nThe tour took {(time.monotonic() - start) / 60:.1f} minutes. The page: {page}"
    )
    if open_page and not webbrowser.open(page.as_uri()):
        console.print("no browser could be opened here; open that file in one")
    sys.exit(max(codes, default=0))
