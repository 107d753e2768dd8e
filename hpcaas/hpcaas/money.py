"""What runs cost. There is one definition, used by every view:

    cost of a run = bill(runs x time of a run) / runs x hourly + egress of a run
    hourly = nodes x (price of a node-hour + disk of a node) + head node

The wall-clock is that of the whole run, start-up included. `runs` are done one after the other in
one rental, and bill() rounds the rental up to the provider's step and least time. On spot the time
is the expected one, with what interruptions take (spot.py). Performance per dollar = 1 / cost,
normalised to the best.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from typing import Optional, Sequence

from .errors import BadInput
from .prices import PriceRow
from .spot import Loss, Run

# Runs of one rental, unless the user says otherwise: what the first screen speaks of.
RUNS_PER_RENTAL = 1000


HOURS_PER_MONTH = 730.0  # of disk prices


@dataclass(frozen=True)
class Extras:
    """What is paid beside the nodes."""

    disk_gib: float = 0.0  # of every node, while it is rented
    egress_gib: float = 0.0  # that a run sends out of the provider
    head: Optional[PriceRow] = None  # the node that holds the cluster together
    loss: Loss = Loss()  # of an interruption, on spot

    def __post_init__(self) -> None:
        for name in ("disk_gib", "egress_gib"):
            given = getattr(self, name)
            if given is not None and not 0 <= given < math.inf:
                raise BadInput(f"{name.replace('_', ' ')} is {given}", "give a number, 0 or more")

    def words(self) -> list[str]:
        found = [f"disk: {self.disk_gib:g} GiB a node"] if self.disk_gib else []
        found += [f"egress: {self.egress_gib:g} GiB a run"] if self.egress_gib else []
        return found + ([f"head node: {self.head.name}"] if self.head else [])


@dataclass(frozen=True)
class Cost:
    """Cost of one run. `estimate` says how the price was made up if it is not the machine's own."""

    amount: float
    currency: str
    billed_s: float  # of one run, its share of the rental's steps and least time included
    row: PriceRow
    estimate: Optional[str] = None
    taken_s: float = 0.0  # of one run, with the interruptions that are to be expected


def billed_seconds(seconds: float, granularity_s: float = 1.0, minimum_s: float = 0.0) -> float:
    """Time that appears on the bill: rounded up to the billing step, at least the minimum."""
    # A run of exactly n steps must not be rounded to n + 1 by the last bit of a division.
    steps = math.ceil(seconds / granularity_s * (1.0 - 1e-12))
    return max(steps * granularity_s, minimum_s)


def run_on(wall_s: float, nodes: int, row: PriceRow, loss: Loss) -> Run:
    """A run with the interruptions of its row; without any where the row is not spot."""
    return Run(wall_s, (row.interruptions_per_hour or 0.0) * nodes / 3600.0, loss)


def taken_seconds(wall_s: float, nodes: int, row: PriceRow, loss: Loss) -> float:
    """Until a run is done. Where nothing interrupts it no checkpoint is written either."""
    often = row.interruptions_per_hour
    return run_on(wall_s, nodes, row, loss).expected_s() if often else wall_s


def cost(
    wall_s: float,
    nodes: int,
    row: PriceRow,
    runs: int = 1,
    cores: Optional[int] = None,
    extras: Extras = Extras(),
) -> Cost:
    """Cost of one of `runs` runs in one rental. `cores`: of a machine that nobody sells, whose
    price is scaled per core from the row, as an estimate."""
    taken = taken_seconds(wall_s, nodes, row, extras.loss)
    return cost_of_time(taken, nodes, row, runs, cores, extras)


def cost_of_time(
    taken_s: float,
    nodes: int,
    row: PriceRow,
    runs: int = 1,
    cores: Optional[int] = None,
    extras: Extras = Extras(),
) -> Cost:
    """The same for a time in which all interruptions are counted already."""
    billed = billed_seconds(runs * taken_s, row.granularity_s, row.minimum_s) / runs
    per_hour, words = (row.per_hour, None) if cores is None else per_core_estimate(row, cores)
    disk = extras.disk_gib * _of(row, "disk_gib_month", extras.disk_gib) / HOURS_PER_MONTH
    hourly = nodes * (per_hour + disk) + (extras.head.per_hour if extras.head else 0.0)
    egress = extras.egress_gib * _of(row, "egress_gib", extras.egress_gib)
    return Cost(billed / 3600.0 * hourly + egress, row.currency, billed, row, words, taken_s)


def _of(row: PriceRow, name: str, needed: float) -> float:
    price = getattr(row, name)
    if needed and price is None:
        raise BadInput(f"the price row of {row.name} says no {name}", "add it to the catalogue")
    return price or 0.0


def per_core_estimate(row: PriceRow, cores: int) -> tuple[float, str]:
    """Price of a node-hour by scaling per core, and the words that must stand beside it."""
    return (
        row.per_hour / row.cores * cores,
        f"estimate: {row.name} scaled per core from {row.cores} to {cores} cores",
    )


@dataclass(frozen=True)
class Rate:
    """`value` units of the currency of the answer for one of `currency`, true on `day`."""

    currency: str
    value: float
    day: date

    def __str__(self) -> str:
        return f"1 {self.currency} = {self.value:g}, {self.day}"


def parse_rate(text: str) -> Rate:
    """CURRENCY=VALUE@YYYY-MM-DD."""
    found = re.fullmatch(r"([A-Z]{3})=([\d.]+)@(\d{4}-\d\d-\d\d)", text)
    try:
        assert found
        rate = Rate(found[1], float(found[2]), date.fromisoformat(found[3]))
    except (AssertionError, ValueError):
        rate = None
    if rate is None or rate.value <= 0 or rate.day > date.today():
        raise BadInput(
            f"rate '{text}' is not CURRENCY=VALUE@DATE with a value above 0 and a day that was",
            "write for instance EUR=1.08@2026-11-01: what one EUR is in the currency of the answer",
        )
    return rate


def performance_per_dollar(costs: Sequence[float]) -> list[float]:
    """1 for the cheapest, less for the others."""
    best = min(costs)
    return [best / c for c in costs]


def performance_per_watt(joules: Optional[float]) -> Optional[float]:
    """Runs per kilowatt-hour; None where no energy was readable."""
    return 3.6e6 / joules if joules and joules > 0 else None
