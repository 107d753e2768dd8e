"""What runs cost. There is one definition, used by every view:

    cost of a run = bill(runs x wall-clock of a run) / runs x nodes x price of a node-hour

The wall-clock is that of the whole run, start-up included. `runs` are done one after the other in
one rental, and bill() rounds the rental up to the provider's step and least time. Performance per
dollar = 1 / cost, normalised to the best.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from typing import Optional, Sequence

from .errors import BadInput
from .prices import PriceRow

# Runs of one rental, unless the user says otherwise: what the first screen speaks of.
RUNS_PER_RENTAL = 1000


@dataclass(frozen=True)
class Cost:
    """Cost of one run. `estimate` says how the price was made up if it is not the machine's own."""

    amount: float
    currency: str
    billed_s: float  # of one run, its share of the rental's steps and least time included
    row: PriceRow
    estimate: Optional[str] = None


def billed_seconds(seconds: float, granularity_s: float = 1.0, minimum_s: float = 0.0) -> float:
    """Time that appears on the bill: rounded up to the billing step, at least the minimum."""
    # A run of exactly n steps must not be rounded to n + 1 by the last bit of a division.
    steps = math.ceil(seconds / granularity_s * (1.0 - 1e-12))
    return max(steps * granularity_s, minimum_s)


def cost(
    wall_s: float, nodes: int, row: PriceRow, runs: int = 1, cores: Optional[int] = None
) -> Cost:
    """Cost of one of `runs` runs in one rental. `cores`: of a machine that nobody sells, whose
    price is scaled per core from the row, as an estimate."""
    billed = billed_seconds(runs * wall_s, row.granularity_s, row.minimum_s) / runs
    per_hour, words = (row.per_hour, None) if cores is None else per_core_estimate(row, cores)
    return Cost(billed / 3600.0 * nodes * per_hour, row.currency, billed, row, words)


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


def performance_per_watt(seconds: float, joules: Optional[float]) -> Optional[float]:
    """Runs per kilowatt-hour; None where no energy was readable."""
    return None if joules is None or joules <= 0 or seconds <= 0 else 3.6e6 / joules
