"""What a campaign would cost, before anything is rented. The estimate is the most that it should
take; the budget is a wall."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Optional

from ..axis_values import check_positive
from ..errors import BadInput
from ..money import billed_seconds
from ..plan import Plan
from ..prices import PriceRow, Term, age_warning
from .providers import Provider

# Guesses for what a plan does not time: one build, one input.
BUILD_S = 120.0
INPUT_S = 300.0


@dataclass(frozen=True)
class Estimate:
    currency: str
    rate_per_hour: float  # of everything that is rented, while it is all there
    nodes: int
    setup_s: float
    campaign_s: float  # builds and inputs included
    teardown_s: float
    cost: float
    budget: float
    # The longest time that anything may be rented: run.sh deletes the cluster before it is over.
    window_s: float
    lines: list[tuple[str, float]] = field(default_factory=list)  # what is rented, price per hour
    warnings: list[str] = field(default_factory=list)

    @property
    def total_s(self) -> float:
        return self.setup_s + self.campaign_s + self.teardown_s

    @property
    def measure_min(self) -> float:
        """Minutes that measuring may take so that collecting and deleting stay inside the
        budget."""
        return max(0.0, self.window_s - self.setup_s - self.teardown_s) / 60.0


def campaign_seconds(plan: Plan) -> float:
    """Time of a plan on its machine, builds and inputs included."""
    builds = {
        (c.app, c.compiler, c.optimisation, c.target, c.variant, c.mpi, c.container)
        for c in (run.config for run in plan.runs)
        if c.compiler
    }
    inputs = {(r.config.app, r.config.size) for r in plan.runs}
    return plan.seconds() + BUILD_S * len(builds) + INPUT_S * len(inputs)


def _per_hour(
    row: PriceRow,
    nodes: int,
    rented: Provider,
    head: Optional[PriceRow],
    other_per_hour: Optional[float],
) -> list[tuple[str, float]]:
    """What is rented, with its price an hour; refused where a part has none."""
    if row.term not in (Term.ON_DEMAND, Term.SPOT):
        raise BadInput(
            f"{row.name} is priced as {row.term.value}: nobody rents that for one campaign",
            "choose --term on-demand or spot",
        )
    lines = [(f"{nodes} x {row.shape}", nodes * row.per_hour)]
    if head is not None:
        if head.currency != row.currency:
            raise BadInput(
                f"head node in {head.currency}, compute nodes in {row.currency}",
                "use one catalogue in one currency",
            )
        lines.append((f"head node {head.shape}", head.per_hour))
    elif other_per_hour is None:
        raise BadInput(
            f"the catalogue has no price of the head node {rented.head_for(row)} in {row.region}:"
            " a hard budget cannot be kept with an unknown price",
            "import it, or give --other-per-hour for head node and storage together",
        )
    if other_per_hour is not None:
        lines.append(("other (storage, head node), as given", other_per_hour))
    return lines


def _warnings(rows: list[Optional[PriceRow]], other_per_hour: Optional[float]) -> list[str]:
    found = [words for row in rows if row and (words := age_warning(row))]
    if other_per_hour is None:
        found.append("storage and network are not priced: --other-per-hour adds them")
    return found


def estimate(
    plan: Plan,
    rented: Provider,
    row: PriceRow,
    head: Optional[PriceRow],
    other_per_hour: Optional[float],
    budget: float,
) -> Estimate:
    """Refuses what could cost more than the budget, and what has a part without a price."""
    check_positive("--budget", budget)
    if other_per_hour is not None and not 0 <= other_per_hour < math.inf:
        raise BadInput(f"--other-per-hour is {other_per_hour}", "give a price of 0 or more")
    nodes = max(run.config.nodes for run in plan.runs)
    lines = _per_hour(row, nodes, rented, head, other_per_hour)
    rate = sum(price for _, price in lines)
    setup_s, teardown_s = rented.setup_min * 60, rented.teardown_min * 60
    campaign_s = campaign_seconds(plan)
    total_s = setup_s + campaign_s + teardown_s
    cost = billed_seconds(total_s, row.granularity_s, row.minimum_s) / 3600 * rate
    if cost > budget:
        raise BadInput(
            f"this campaign may cost {cost:.2f} {row.currency} ({total_s / 3600:.1f} h at "
            f"{rate:.2f} an hour), the budget is {budget:.2f}",
            "fewer configurations, repeats or nodes, a smaller size, or a larger --budget",
        )
    return Estimate(
        row.currency,
        rate,
        nodes,
        setup_s,
        campaign_s,
        teardown_s,
        cost,
        budget,
        budget / rate * 3600,
        lines,
        _warnings([row, head], other_per_hour),
    )
