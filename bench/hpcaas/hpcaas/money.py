"""What a run costs. cost = billed time x nodes x price of a node-hour; performance per dollar = 1 / cost, normalised to the best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence

from .prices import PriceRow


@dataclass(frozen=True)
class Cost:
    """Cost of one run. `estimate` says how the price was made up if it is not the machine's own."""

    amount: float
    currency: str
    billed_s: float
    row: PriceRow
    estimate: Optional[str] = None


def billed_seconds(seconds: float, granularity_s: float = 1.0, minimum_s: float = 0.0) -> float:
    """Time that appears on the bill: rounded up to the billing step, at least the minimum."""
    # A run of exactly n steps must not be rounded to n + 1 by the last bit of a division.
    steps = math.ceil(seconds / granularity_s * (1.0 - 1e-12))
    return max(steps * granularity_s, minimum_s)


def cost(seconds: float, nodes: int, row: PriceRow, exact: bool = False) -> Cost:
    """exact: without billing steps, for comparing runs that would be part of a longer job."""
    billed = seconds if exact else billed_seconds(seconds, row.granularity_s, row.minimum_s)
    return Cost(billed / 3600.0 * nodes * row.per_hour, row.currency, billed, row)


def per_core_estimate(row: PriceRow, cores: int) -> tuple[float, str]:
    """Price of a node-hour for a machine that nobody sells, by scaling per core, and the words that must stand beside it."""
    return (
        row.per_hour / row.cores * cores,
        f"estimate: {row.name} scaled per core from {row.cores} to {cores} cores",
    )


def estimated_cost(seconds: float, nodes: int, row: PriceRow, cores: int) -> Cost:
    per_hour, words = per_core_estimate(row, cores)
    return Cost(seconds / 3600.0 * nodes * per_hour, row.currency, seconds, row, words)


def performance_per_dollar(costs: Sequence[float]) -> list[float]:
    """1 for the cheapest, less for the others."""
    best = min(costs)
    return [best / c for c in costs]


@dataclass(frozen=True)
class Deadline:
    """The cheapest way to be done in time."""

    index: int
    seconds: float
    amount: float


def cheapest_by(deadline_s: float, points: Sequence[tuple[float, float]]) -> Optional[Deadline]:
    """points: (seconds, cost). None if nothing is fast enough."""
    fast = [
        (amount, seconds, index)
        for index, (seconds, amount) in enumerate(points)
        if seconds <= deadline_s
    ]
    if not fast:
        return None
    amount, seconds, index = min(fast)
    return Deadline(index, seconds, amount)


def performance_per_watt(seconds: float, joules: Optional[float]) -> Optional[float]:
    """Runs per kilowatt-hour; None where no energy was readable."""
    return None if joules is None or joules <= 0 or seconds <= 0 else 3.6e6 / joules
