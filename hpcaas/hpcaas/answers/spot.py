"""On demand, spot, or both: what each costs and how long it takes, as distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from ..money import Cost, cost_of_time, run_on, taken_seconds
from ..prices import PriceRow
from ..spot import MOST_PER_HOUR, loses_from
from .costs import Pricing
from .deadline import Deadline
from .decide import LOT, Decision, Offer
from .groups import Group

ON_DEMAND, SPOT, BOTH = "on demand", "spot", "spot, on demand after the first interruption"
# Of the runs, what the ranges shown leave out on either side.
TAIL = 0.05


@dataclass(frozen=True)
class Strategy:
    """One way to rent the nodes of a run."""

    name: str
    amount: float  # of 1,000 runs, expected
    currency: str
    low: float  # of one run, in nine of ten cases between these
    high: float
    seconds: float  # of one run, expected
    late_s: float  # nine of ten runs are done by then
    in_time: Optional[float]  # share of the runs; None: no deadline


def money(amount: float) -> str:
    """To the cent where cents are few beside it."""
    return f"{amount:,.2f}" if amount >= 10 else f"{amount:.4g}"


def _near(fit: list[Strategy], spot: float) -> bool:
    """Whether the cheapest of these saves less than a per cent."""
    return fit[0].amount > 0.99 * spot


@dataclass(frozen=True)
class Choices:
    """The strategies for one offer, the cheapest first."""

    name: str
    place: str
    per_hour: float
    source: str
    strategies: tuple[Strategy, ...]
    spot_loses: Optional[float]  # interruptions of a node an hour; None: not within reason

    @property
    def verdict(self) -> str:
        if self.spot_loses is None:
            return f"spot stays cheaper up to {MOST_PER_HOUR:g} interruptions of a node an hour"
        if self.spot_loses == 0.0:
            return "spot is not cheaper at any rate of interruptions"
        return f"spot loses from {self.spot_loses:.3g} interruptions of a node an hour on"

    def better(self, deadline: Optional[Deadline]) -> str:
        """Words where another way to rent is cheaper than spot; empty where spot is cheapest."""
        fit = [
            s
            for s in self.strategies
            if deadline is None or s.in_time is None or s.in_time >= deadline.share
        ]
        spot = next(s.amount for s in self.strategies if s.name == SPOT)
        if not fit or fit[0].name == SPOT or (SPOT in {s.name for s in fit} and _near(fit, spot)):
            return ""
        return f"rent it {fit[0].name}: {money(fit[0].amount)} {fit[0].currency}; {self.verdict}"

    def lines(self) -> list[str]:
        found = [
            f"{self.name} on {self.place}, {self.per_hour:g} interruptions of a node an hour"
            f" ({self.source}): {self.verdict}"
        ]
        for s in self.strategies:
            due = "" if s.in_time is None else f", {s.in_time:.0%} in time"
            found.append(
                f"    {s.name}: {money(s.amount)} {s.currency} for {LOT:,} runs (of one run nine of"
                f" ten times {s.low:.4g} to {s.high:.4g}), {s.seconds:.4g} s a run, nine of ten"
                f" done in {s.late_s:.4g} s{due}"
            )
        return found

    def as_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "strategies": [s.__dict__ for s in self.strategies]}


def _strategy(
    name: str, spent: float, currency: str, drawn: np.ndarray, times: np.ndarray,
    seconds: float, deadline: Optional[Deadline],
) -> Strategy:  # fmt: skip
    """`drawn`: costs of single runs, `times`: their lengths."""
    low, high = np.quantile(drawn, [TAIL, 1.0 - TAIL])
    due = None if deadline is None else float(np.mean(times <= deadline.seconds))
    late = float(np.quantile(times, 0.9))
    return Strategy(name, spent * LOT, currency, float(low), float(high), seconds, late, due)


class _Priced:
    """One group under the rows of its place, spot and on demand."""

    def __init__(self, group: Group, pricing: Pricing, spot: PriceRow, demand: PriceRow):
        self.pricing, self.spot, self.demand = pricing, spot, demand
        self.wall, self.nodes = group.wall or 0.0, group.config.nodes
        self.cores = pricing.cores(group.machine)
        self.run = run_on(self.wall, self.nodes, spot, pricing.extras.loss)

    def spent(self, seconds: float, row: PriceRow) -> Cost:
        """Egress of a run included: it is paid once, in the first part."""
        found = cost_of_time(
            seconds, self.nodes, row, self.pricing.runs, self.cores, self.pricing.extras
        )
        return self.pricing.converted(found)

    def both(self, first: float, then: float) -> float:
        """Begun on spot, ended on demand."""
        egress = self.spent(0.0, self.demand).amount
        return self.spent(first, self.spot).amount + self.spent(then, self.demand).amount - egress

    def hourly(self, row: PriceRow) -> float:
        """What a second more costs, without steps and least times."""
        far = 1e6 * row.granularity_s + row.minimum_s
        return (self.spent(2 * far, row).amount - self.spent(far, row).amount) / far

    def at(self, per_hour: float) -> float:
        row = self.spot.model_copy(update={"interruptions_per_hour": per_hour})
        taken = taken_seconds(self.wall, self.nodes, row, self.pricing.extras.loss)
        return self.spent(taken, row).amount


def _compare(offer: Offer, pricing: Pricing, deadline: Optional[Deadline]) -> Optional[Choices]:
    spot, demand = offer.row, pricing.on_demand.get(offer.machine)
    if spot is None or demand is None or spot.interruptions_per_hour is None:
        return None
    one = _Priced(offer.group, pricing, spot, demand)
    money = pricing.currency or spot.currency
    flat = one.spent(one.wall, demand).amount
    drawn = one.run.drawn() if one.run.rate else np.full(1, one.wall)
    base, seconds = one.spent(0.0, spot).amount, one.hourly(spot)
    taken = taken_seconds(one.wall, one.nodes, spot, pricing.extras.loss)
    first, then = one.run.drawn_then_on_demand()
    firsts, thens = one.run.then_on_demand_s()
    found = [
        _strategy(ON_DEMAND, flat, money, np.full(1, flat), np.full(1, one.wall), one.wall,
                  deadline),
        _strategy(SPOT, one.spent(taken, spot).amount, money, base + drawn * seconds, drawn,
                  taken, deadline),
        _strategy(BOTH, one.both(firsts, thens), money,
                  base + first * seconds + then * one.hourly(demand), first + then,
                  firsts + thens, deadline),
    ]  # fmt: skip
    return Choices(
        offer.group.name,
        offer.machine,
        spot.interruptions_per_hour,
        spot.interruptions_source or spot.source,
        tuple(sorted(found, key=lambda s: s.amount)),
        loses_from(one.at, flat),
    )


def choices(
    decisions: list[Decision], pricing: Pricing, deadline: Optional[Deadline]
) -> list[Choices]:
    """Of each application's first offer, where it is priced as spot and its rate is known. Where
    another way is cheaper the decision gets a note."""
    found = []
    for decision in decisions:
        first = decision.first
        one = _compare(first, pricing, deadline) if isinstance(first, Offer) else None
        if one:
            found.append(one)
            words = one.better(deadline)
            decision.notes += [words] if words else []
    return found
