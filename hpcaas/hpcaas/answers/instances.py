"""What an answer speaks of: a shape, or only the machines that were measured; and what it would
take to know more."""

from __future__ import annotations

import math
import statistics
from typing import Optional

from ..money import billed_seconds
from ..model import OVERHEAD_S
from ..stats import INSTANCES, instances_needed
from .costs import Pricing
from .decide import AnyOffer, Decision, MixOffer
from .groups import Group, Groups, wall_of

# How far instances of one shape differ, as a relative standard deviation, where too few were
# measured to say: what public clouds have.
ASSUMED = 0.03


def _groups_of(one: AnyOffer) -> list[Group]:
    return [o.group for o, _ in one.parts] if isinstance(one, MixOffer) else [one.group]


def spread(sides: list[AnyOffer]) -> Optional[float]:
    """Standard deviation of instances, from sides with two of them at least; None without one."""
    variances = []
    for group in (g for side in sides for g in _groups_of(side)):
        means = [statistics.fmean(of.values()) for of in group.logs(wall_of).values()]
        if len(means) > 1:
            variances.append(statistics.variance(means))
    return math.sqrt(statistics.fmean(variances)) if variances else None


def _hours(place: str, all_groups: Groups) -> float:
    """That the runs of one instance of a place took, builds and inputs left out."""
    mine = [s for g in all_groups.by_machine.get(place, []) for s in g.samples]
    instances = max(1, len(all_groups.instances_of(place)))
    return sum((s.wall_seconds or s.seconds or 0.0) + OVERHEAD_S for s in mine) / instances / 3600.0


def _renting(more: dict[str, int], all_groups: Groups, pricing: Pricing) -> str:
    """What it costs to measure so many more instances of each place, in words."""
    total, hours, unpriced = 0.0, 0.0, False
    for place, count in more.items():
        row, price = pricing.row(place), pricing.node_hour(place)
        mine = all_groups.by_machine.get(place, [])
        if row is None or price is None:
            unpriced = True
            continue
        one = billed_seconds(_hours(place, all_groups) * 3600.0, row.granularity_s, row.minimum_s)
        nodes = max((g.config.nodes for g in mine), default=1)
        hours += count * one / 3600.0
        total += count * one / 3600.0 * nodes * price
    if unpriced:
        return "what they cost is not known: no price"
    length = f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
    return f"about {total:,.2f} {pricing.currency} for {length} hours"


def _said(place: str, all_groups: Groups) -> str:
    count = len(all_groups.instances_of(place))
    return f"{place} {count} instance{'' if count == 1 else 's'}"


def about(decision: Decision, all_groups: Groups, pricing: Pricing) -> str:
    """One line; empty where nothing was found, or where enough instances of each shape were
    measured."""
    first, second = decision.first, decision.second
    if first is None or decision.unknown.startswith("not known"):
        return ""
    if any(g.published for g in _groups_of(first)):
        return ""
    if second is None or not decision.elsewhere:
        return _alone(first, all_groups, pricing)
    if decision.instances >= INSTANCES:
        return ""
    difference = decision.gap.value if decision.gap else 1.0
    return _two([first, second], difference, all_groups, pricing)


def _two(sides: list[AnyOffer], difference: float, all_groups: Groups, pricing: Pricing) -> str:
    """Of two places: how many instances would tell them apart."""
    known = spread(sides)
    deviation = known or ASSUMED
    measured = ", ".join(_said(one.machine, all_groups) for one in sides)
    start = f"This is about these machines, not their shapes ({measured})."
    needed, size = instances_needed(difference, deviation), f"{abs(difference - 1):.1%}"
    between = f"if instances differ by {deviation:.1%}{'' if known else ', as clouds have it'}"
    if needed is None:
        return f"{start} Even 50 of each would not tell {size} from chance, {between}."
    more = {o.machine: max(0, needed - len(all_groups.instances_of(o.machine))) for o in sides}
    return (
        f"{start} {needed} of each would settle {size}, {between}:"
        f" {sum(more.values())} more, {_renting(more, all_groups, pricing)}."
    )


def _alone(first: AnyOffer, all_groups: Groups, pricing: Pricing) -> str:
    """Of one place: whether its choices hold for the next instance."""
    place = first.machine
    count = len(all_groups.instances_of(place))
    if count >= INSTANCES:
        return ""
    more = {place: INSTANCES - count}
    which = "this machine" if count == 1 else f"these {count} machines"
    return (
        f"This is about {which}, not about others of its shape: {INSTANCES - count} more would say"
        f" whether they are alike, {_renting(more, all_groups, pricing)}."
    )
