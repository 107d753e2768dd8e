"""What a campaign would cost, before anything is rented. The estimate is the most that it should
take; the budget is a wall."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

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


def estimate(
    plan: Plan,
    rented: Provider,
    row: PriceRow,
    head: Optional[PriceRow],
    other_per_hour: Optional[float],
    budget: float,
) -> Estimate:
    """Refuses what could cost more than the budget, and what has a part without a price."""
    if row.term not in (Term.ON_DEMAND, Term.SPOT):
        raise BadInput(
            f"{row.name} is priced as {row.term.value}: nobody rents that for one campaign",
            "choose --term on-demand or spot",
        )
    if budget <= 0:
        raise BadInput(f"a budget of {budget} buys nothing", "give a positive --budget")
    if head is None and other_per_hour is None:
        raise BadInput(
            f"the catalogue has no price of the head node {rented.head_shape} in {row.region}: a "
            "hard budget cannot be kept with an unknown price",
            "import it, or give --other-per-hour for head node and storage together",
        )
    if head is not None and head.currency != row.currency:
        raise BadInput(
            f"head node in {head.currency}, compute nodes in {row.currency}",
            "use one catalogue in one currency",
        )
    nodes = max(run.config.nodes for run in plan.runs)
    lines = [(f"{nodes} x {row.shape}", nodes * row.per_hour)]
    if head is not None:
        lines.append((f"head node {head.shape}", head.per_hour))
    if other_per_hour is not None:
        lines.append(("other (storage, head node), as given", other_per_hour))
    rate = sum(price for _, price in lines)
    setup_s, teardown_s = rented.setup_min * 60, rented.teardown_min * 60
    campaign_s = campaign_seconds(plan)
    window_s = budget / rate * 3600
    total_s = setup_s + campaign_s + teardown_s
    cost = billed_seconds(total_s, row.granularity_s, row.minimum_s) / 3600 * rate
    if cost > budget:
        raise BadInput(
            f"this campaign may cost {cost:.2f} {row.currency} ({total_s / 3600:.1f} h at "
            f"{rate:.2f} an hour), the budget is {budget:.2f}",
            "fewer configurations, repeats or nodes, a smaller size, or a larger --budget",
        )
    warnings = [w for r in (row, head) if r is not None and (w := age_warning(r))]
    if other_per_hour is None:
        warnings.append("storage and network are not priced: --other-per-hour adds them")
    if not rented.scales_down:
        warnings.append(
            "these nodes stay rented until they are deleted: if the machine that runs run.sh dies, "
            "delete the stack by hand"
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
        window_s,
        lines,
        warnings,
    )
