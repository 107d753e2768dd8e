"""The scenarios of the ARMCI table, and what is asked of Skerry in each."""

from __future__ import annotations

import fnmatch
import statistics
from dataclasses import dataclass

ROWS = (
    "put_8",
    "get_8",
    "acc_8",
    "fetch_add",
    "lock",
    "get_64x64",
    "put_1m",
    "get_1m",
    "acc_1m",
    "get_64x16k",
)


@dataclass(frozen=True)
class Scenario:
    """`hosts` 1: the same node. `span_s`: how long a computing target computes for each row, longer than ten of its slowest operations."""

    hosts: int
    rate: str  # "none" or what `hosts.sh shape` takes
    computing: bool
    ranks: int
    cores: int

    @property
    def place(self) -> str:
        return (
            "same_node"
            if self.hosts == 1
            else "two_hosts"
            if self.rate == "none"
            else f"two_hosts_{self.rate}"
        )

    @property
    def name(self) -> str:
        return f"{self.place}.{'computing' if self.computing else 'idle'}.{self.ranks}_ranks"

    @property
    def span_s(self) -> float:
        return 0.08 if self.rate == "none" else 1.0

    @property
    def limit_s(self) -> float:
        return 60 if self.rate == "none" else 120


def scenarios(cores: int, pattern: str) -> list[Scenario]:
    """Ranks are an even number, as many as cores and four times as many; unshaped first."""
    few = max(2, cores - cores % 2)
    every = [
        Scenario(hosts, rate, computing, ranks, cores)
        for hosts, rate in ((1, "none"), (2, "none"), (2, "100mbit"))
        for ranks in (few, 4 * few)
        for computing in (False, True)
    ]
    return [scenario for scenario in every if fnmatch.fnmatch(scenario.name, pattern)]


def _ratio(
    samples: dict, above: tuple[str, str, str], below: list[tuple[str, str, str]]
) -> float | None:
    """Median over the rounds of ours / the best of theirs in that round."""
    found = []
    for turn, ours in enumerate(samples.get(above, [])):
        theirs = [
            values[turn]
            for key in below
            if (values := samples.get(key)) and turn < len(values) and values[turn] is not None
        ]
        if ours is not None and theirs:
            found.append(ours / min(theirs))
    return statistics.median(found) if found else None


def judge(samples: dict, chosen: list[Scenario], names: list[str]) -> list[dict]:
    """One record a scenario and row. A target holds at its bound's last digit: 1.04 times the best is "no slower", 1.06 is not."""
    peers = [name for name in names if name != "skerry"]
    records = []
    for scenario in chosen:
        for row in ROWS:

            def key(library: str, where: Scenario = scenario) -> tuple[str, str, str]:
                return (where.name, row, library)

            wanted: list[tuple[str, float | None, float]] = []
            best = _ratio(samples, key("skerry"), [key(p) for p in peers])
            if scenario.hosts == 1:
                wanted.append(("no slower than the best", best, 1.05))
                if row in ("fetch_add", "lock"):
                    wanted.append(
                        (
                            "1/10 of MPI-PR",
                            _ratio(samples, key("skerry"), [key("comex_mpi_pr")]),
                            0.1,
                        )
                    )
            else:
                wanted.append(("1.1 x the best", best, 1.15))
                if row == "get_64x64":
                    wanted.append(
                        (
                            "1/20 of ARMCI-MPI",
                            _ratio(
                                samples,
                                key("skerry"),
                                [key(p) for p in peers if p.startswith("armci_mpi")],
                            ),
                            0.05,
                        )
                    )
            if scenario.computing:
                idle = Scenario(
                    scenario.hosts, scenario.rate, False, scenario.ranks, scenario.cores
                )
                wanted.append(
                    (
                        "as with an idle target, 1.35 x",
                        _ratio(samples, key("skerry"), [key("skerry", idle)]),
                        1.35,
                    )
                )
            if scenario.ranks > scenario.cores:
                fewer = Scenario(
                    scenario.hosts,
                    scenario.rate,
                    scenario.computing,
                    scenario.ranks // 4,
                    scenario.cores,
                )
                wanted.append(
                    (
                        "as with fewer ranks, 2 x",
                        _ratio(samples, key("skerry"), [key("skerry", fewer)]),
                        2.0,
                    )
                )
            values = {
                name: (
                    statistics.median(v)
                    if (v := [x for x in samples.get(key(name), []) if x is not None])
                    else None
                )
                for name in names
            }
            records.append(
                {
                    "scenario": scenario.name,
                    "row": row,
                    "unit": "us",
                    "values": values,
                    "ratio_to_best": best,
                    "targets": [
                        {
                            "text": text,
                            "value": value,
                            "met": None if value is None else value <= bound,
                        }
                        for text, value, bound in wanted
                    ],
                }
            )
    return records
