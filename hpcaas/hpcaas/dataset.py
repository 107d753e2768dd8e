"""The paper's Tables 1 to 8 as a result set, for the same report, advisor and comparison as
measured data.

Every sample has one value and no spread: the paper gives none. Cells that the text at hand has lost
stay out of the samples and are listed in the notes; nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .model import Configuration, Figure, ResultSet, Sample, Status

_FIELDS = (
    "ranks",
    "threads",
    "nodes",
    "compiler",
    "optimisation",
    "target",
    "variant",
    "mpi",
    "framework",
    "interconnect",
    "filesystem",
    "launcher",
    "binding",
    "distribution",
    "smt",
)


@cache
def tables() -> dict[str, Any]:
    return yaml.safe_load((Path(__file__).parent / "data" / "paper" / "tables.yaml").read_text())


def _configuration(cell: dict[str, Any]) -> Configuration:
    return Configuration(
        app=cell["app"],
        size="paper",
        **{name: cell[name] for name in _FIELDS if cell.get(name) is not None},
    )


def paper() -> ResultSet:
    """All cells as samples of the machines that the paper names."""
    content = tables()
    results = ResultSet()
    for name, machine in content["machines"].items():
        results.machines[name] = {"id": name, **machine}
    lost: dict[int, int] = {}
    for index, cell in enumerate(content["cells"]):
        if cell.get("garbled"):
            lost[cell["table"]] = lost.get(cell["table"], 0) + 1
            continue
        if cell.get("repeats_row"):
            continue  # printed twice: counting it twice would pretend a repetition
        crashed = cell.get("status") == "crashed"
        provenance = f"paper-{cell['table']}"
        results.provenance.setdefault(
            provenance,
            {
                "source": f"{content['title']} ({content['year']}), Table {cell['table']},"
                f" section {cell['section']}"
            },
        )
        results.samples.append(
            Sample(
                id=f"paper.{cell['table']}.{index}",
                campaign="paper",
                configuration=_configuration(cell),
                machine=cell["machine"],
                repeat=0,
                status=Status.CRASHED if crashed else Status.OK,
                seconds=cell["seconds"],
                figure=None
                if crashed
                else Figure(name="execution time", value=cell["seconds"], unit="s", better="lower"),
                provenance=provenance,
                signal=11 if crashed else None,
                diagnosis="SIGSEGV. The paper blames fast mathematics; gfortran's -Ofast implies"
                " -fstack-arrays, which overflows an 8 MiB stack: try `ulimit -s unlimited` or"
                " -Ofast -fno-stack-arrays"
                if crashed
                else None,
                extra={
                    k: cell[k] for k in ("remark", "column", "row", "printed_speedup") if k in cell
                },
                source=f"Table {cell['table']}, section {cell['section']}",
            )
        )
    for table, count in lost.items():
        results.notes.append(
            f"Table {table}: {count} cells are lost in the text at hand and left out, not guessed"
        )
    results.notes += [
        "Table 6, column 6: OpenMPI on InfiniBand ran under mpirun without the binding that srun"
        " gave Cray MPICH: that column compares two things",
        "Table 8: the paper names neither machine nor ranks",
        "Published values: one number per configuration, no spread; differences are shown without"
        " significance",
    ]
    return results


@dataclass(frozen=True)
class Priced:
    """One processor of Table 3: what is printed, and the same from Table 2 and the true cores."""

    shape: str
    best_seconds: float
    cores: int  # of the shape that is sold
    printed_cores: int  # that the paper divides by
    times_cores: int  # of the machine that nobody sells
    shape_month_usd: float
    printed_month_usd: float
    relative_performance: float
    performance_per_dollar: float
    printed_performance: float
    printed_fraction: tuple[float, float]
    fraction: tuple[float, float]  # the same of Table 2, in milliseconds
    printed: float  # performance per dollar

    @property
    def month_usd_per_core(self) -> float:
        return self.shape_month_usd / self.cores

    @property
    def month_usd(self) -> float:
        return self.month_usd_per_core * self.times_cores

    def quotients(self) -> list[tuple[str, str, str, str]]:
        """(what, as printed, correct, the error or nothing) of every quotient of the table."""
        usd = f"{self.shape_month_usd:.2f}"
        wrong_cores = (
            f"{self.shape} has {self.cores} cores, not {self.printed_cores}"
            if self.cores != self.printed_cores
            else ""
        )
        one = self.relative_performance == 1.0
        a, b = self.printed_fraction
        c, d = self.fraction
        wrong_times = "" if one else f"{a:.0f}/{b:.0f} is not in Table 2, which has {c:.0f}/{d:.0f}"
        both = "; ".join(filter(None, (wrong_cores, wrong_times)))
        return [
            (
                "USD a month (estimate)",
                f"{usd} / {self.printed_cores} x {self.times_cores} = {self.printed_month_usd:.0f}",
                f"{usd} / {self.cores} x {self.times_cores} = {self.month_usd:.0f}",
                wrong_cores,
            ),
            (
                "relative performance",
                "1" if one else f"{a:.0f}/{b:.0f} = {self.printed_performance:.2f}",
                "1" if one else f"{c:.0f}/{d:.0f} = {self.relative_performance:.3f}",
                wrong_times,
            ),
            (
                "performance per dollar",
                f"{self.printed:.2f}",
                f"{self.performance_per_dollar:.2f}",
                both and f"follows from: {both}",
            ),
        ]


TRUE_CORES = {"genoa": 128, "spr": 64}


def table_3() -> dict[str, Priced]:
    """Performance per dollar of the two processors, as printed and corrected, with all steps.

    cost of a run = time x price; the price of machines that nobody sells is scaled per core: an
    estimate, and labelled so.
    """
    content = tables()["prices"]
    cells = [c for c in tables()["cells"] if c["table"] == 2 and c["threads"] > 1]
    best = {m: min(c["seconds"] for c in cells if c["machine"] == m) for m in TRUE_CORES}
    per_month = {
        e["stands_for"]: e["month_usd"] / TRUE_CORES[e["stands_for"]] * e["times_cores"]
        for e in content["printed"]
    }
    steps: dict[str, Priced] = {}
    for entry in content["printed"]:
        m = entry["stands_for"]
        relative = best["genoa"] / best[m]
        steps[m] = Priced(
            shape=entry["shape"],
            best_seconds=best[m],
            cores=TRUE_CORES[m],
            printed_cores=entry["divided_by_cores"],
            times_cores=entry["times_cores"],
            shape_month_usd=entry["month_usd"],
            printed_month_usd=entry["printed_usd"],
            relative_performance=relative,
            performance_per_dollar=relative * per_month["genoa"] / per_month[m],
            printed_performance=content["printed_relative_performance"][m],
            printed_fraction=tuple(content["printed_relative_performance"]["fraction"]),
            fraction=(best["genoa"] * 1000, best[m] * 1000),
            printed=content["printed_performance_per_dollar"][m],
        )
    return steps
