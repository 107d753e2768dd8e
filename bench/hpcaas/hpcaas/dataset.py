"""The paper's Tables 1 to 8 as a result set, for the same report, advisor and comparison as measured data.

Every sample has one value and no spread: the paper gives none. Cells that the text at hand has lost stay out of the samples and are
listed in the notes; nothing is guessed.
"""

from __future__ import annotations

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
                "source": f"{content['title']} ({content['year']}), Table {cell['table']}, section {cell['section']}"
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
                diagnosis="SIGSEGV. The paper blames fast mathematics; gfortran's -Ofast implies -fstack-arrays, which overflows an 8 MiB stack: try "
                "`ulimit -s unlimited` or -Ofast -fno-stack-arrays"
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
    results.notes += [f"Table 3: {error}" for error in content["prices"]["errors"]]
    results.notes.append(
        "Table 6, column 6: OpenMPI on InfiniBand ran under mpirun without the binding that srun gave Cray MPICH: that column compares two things"
    )
    results.notes.append("Table 8: the paper names neither machine nor ranks")
    results.notes.append(
        "Published values: one number per configuration, no spread; differences are shown without significance"
    )
    return results


def table_3() -> dict[str, dict[str, float]]:
    """Performance per dollar of the two processors, as printed and corrected, with all steps.

    cost of a run = time x price; the price of machines that nobody sells is scaled per core: an estimate, and labelled so.
    """
    content = tables()["prices"]
    cells = [c for c in tables()["cells"] if c["table"] == 2 and c["threads"] > 1]
    best = {m: min(c["seconds"] for c in cells if c["machine"] == m) for m in ("genoa", "spr")}
    true_cores = {"genoa": 128, "spr": 64}
    steps: dict[str, dict[str, float]] = {}
    for entry in content["printed"]:
        machine = entry["stands_for"]
        per_core = entry["month_usd"] / true_cores[machine]
        steps[machine] = {
            "best_seconds": best[machine],
            "month_usd_per_core": per_core,
            "month_usd": per_core * entry["times_cores"],
            "relative_performance": best["genoa"] / best[machine],
        }
    for machine, step in steps.items():
        step["performance_per_dollar"] = (
            step["relative_performance"] * steps["genoa"]["month_usd"] / step["month_usd"]
        )
        step["printed"] = content["printed_performance_per_dollar"][machine]
    return steps
