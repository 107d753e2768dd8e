"""The buyer's question: what to rent for each application and for the mix of them, what comes
second, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Callable, Optional, Sequence, Union

from ..errors import BadInput
from ..prices import PriceRow
from ..stats import Ratio, chosen_p, freedom_of, log_variance, quantile, ratio, ratio_of
from .costs import Pricing
from .groups import Group, by_machine, per_app

LOT = 1000  # runs that the answers speak of
UNKNOWN = "not known on this machine"
MIX = "the mix"


@dataclass(frozen=True)
class Offer:
    """One configuration on one machine, as it would be rented. Amounts are of 1,000 runs."""

    group: Group
    hours: float
    amount: Optional[float]
    interval: Optional[tuple[float, float]]
    currency: Optional[str]
    row: Optional[PriceRow]
    estimate: bool  # the price is scaled per core

    @property
    def machine(self) -> str:
        return self.group.machine

    @property
    def label(self) -> str:
        return f"{self.machine} {self.group.label}"


@dataclass(frozen=True)
class MixOffer:
    """One machine for all applications of a mix. Amounts are of 1,000 runs of the mix."""

    machine: str
    parts: tuple[tuple[Offer, float], ...]  # offer, its share of the runs
    hours: float
    amount: Optional[float]
    interval: Optional[tuple[float, float]]
    currency: Optional[str]
    row: Optional[PriceRow]
    estimate: bool

    @property
    def label(self) -> str:
        return self.machine


AnyOffer = Union[Offer, MixOffer]


@dataclass
class Decision:
    """The answer for one application, or for the mix."""

    app: str
    by: str  # cost or time
    first: Optional[AnyOffer] = None
    second: Optional[AnyOffer] = None
    gap: Optional[Ratio] = None  # second / first, in what decides
    p: Optional[float] = None  # of that gap, counting that both were picked after looking
    unknown: str = ""  # why no verdict can be drawn, whatever the numbers
    notes: list[str] = field(default_factory=list)
    machine: str = ""  # the answer for one machine alone; empty: for all together

    @property
    def key(self) -> tuple[str, str, str]:
        return ("decision", self.app, self.machine)

    def sure(self, holds: bool) -> str:
        """How sure it is that the first is better than the second."""
        if self.first is None:
            return ""
        if self.unknown:
            return self.unknown
        if self.second is None:
            return "nothing to compare with"
        if self.p is None:
            return "one value each: no spread known"
        if holds:
            return "sure: more than chance"
        return "not sure: may be chance"

    def against(self, second: AnyOffer, gap: Ratio, doubt: str, among: float) -> None:
        """What comes second, picked out of `among` pairs; `doubt`: why that cannot be judged."""
        self.second, self.gap, self.unknown = second, gap, self.unknown or doubt
        self.p = None if self.unknown else chosen_p(gap.p, among)


def offer(group: Group, pricing: Pricing) -> Offer:
    wall = group.wall or math.nan
    cost, interval = pricing.cost(group), pricing.interval(group)
    return Offer(
        group,
        wall * LOT / 3600.0,
        cost.amount * LOT if cost else None,
        (interval[0] * LOT, interval[1] * LOT) if interval else None,
        cost.currency if cost else None,
        pricing.row(group.machine),
        group.machine in pricing.estimates,
    )


@dataclass(frozen=True)
class Deadline:
    """A run is in time if this share of the measured runs was."""

    seconds: float
    share: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise BadInput(f"the deadline is {self.seconds} s", "give seconds above 0")
        if not 0 < self.share <= 1:
            raise BadInput(
                f"--deadline-share is {self.share}", "give a share of the runs, for instance 0.95"
            )

    def __str__(self) -> str:
        return f"{self.seconds:g} s in {self.share:.0%} of the runs"


def in_time(group: Group, deadline: Optional[Deadline]) -> bool:
    if deadline is None:
        return True
    return bool(group.walls) and quantile(group.walls, deadline.share) <= deadline.seconds


def value(one: AnyOffer, by: str) -> float:
    """What decides: cost or time of 1,000 runs."""
    return (one.amount if by == "cost" else one.hours) or math.inf


def pick(some: list[Group], pricing: Pricing, deadline: Optional[Deadline], by: str) -> list[Offer]:
    """Offers that may be chosen, the best first."""
    offers = [offer(g, pricing) for g in some if g.wall and in_time(g, deadline)]
    if by == "cost":
        offers = [o for o in offers if o.amount is not None]
    return sorted(offers, key=lambda o: value(o, by))


def gap(first: Group, second: Group, pricing: Pricing, by: str) -> Ratio:
    if by == "cost":
        return ratio(pricing.amounts(first), pricing.amounts(second))
    return ratio(first.walls, second.walls)


def unknown(group: Group) -> str:
    """Why no verdict can be drawn from a group; empty where one can."""
    if group.known or group.published:
        return ""
    if group.only_searched:
        return f"{UNKNOWN}: a search ran it while choosing; no fresh runs confirm it"
    limit = f"{group.trust.waiting_limit:.0%}"
    return (
        f"{UNKNOWN}: others disturbed all its runs (limit: {limit} of the time waiting for a CPU)"
    )


def _late(group: Group, deadline: Optional[Deadline]) -> list[str]:
    """What the measured runs say of the deadline."""
    if deadline is None:
        return []
    late, runs = sum(w > deadline.seconds for w in group.walls), len(group.walls)
    within = quantile(group.walls, deadline.share)
    text = f"{deadline.share:.0%} of the runs are done in {within:.4g} s"
    lines = [f"{late} of {runs} measured runs took longer than the deadline"] if late else []
    if runs < 1.0 / (1.0 - deadline.share + 1e-9):
        lines.append(f"{text}; with {runs} runs that is the slowest of them")
    return lines or [text]


def excluded(some: list[Group]) -> list[str]:
    """Configurations that are not recommended, with the reason."""
    out = [g for g in some if g.out]
    lines = [f"left out: {g.machine} {g.label} ({g.doubt})" for g in out[:5]]
    if len(out) > 5:
        lines.append(f"left out: {len(out) - 5} more")
    return lines + (["--accept-flaky lets them in"] if out else [])


def _decidable(offers: list[Offer]) -> tuple[list[Offer], list[str]]:
    """Offers that a verdict can be drawn from, where there are any; and what was set aside."""
    known = [o for o in offers if not unknown(o.group)]
    if not known:
        return offers, []
    here = {o.machine for o in known}
    aside: dict[str, list[Offer]] = {}
    for one in offers:
        if unknown(one.group):
            aside.setdefault(one.machine, []).append(one)
    lines = []
    for machine, mine in aside.items():
        more = f" and {len(mine) - 1} more" if len(mine) > 1 else ""
        what = f"{mine[0].label}{more}" if machine in here else machine
        lines.append(f"{what}: {unknown(mine[0].group)}")
    return known, lines


def for_app(some: list[Group], pricing: Pricing, deadline: Optional[Deadline], by: str) -> Decision:
    offers, aside = _decidable(pick(some, pricing, deadline, by))
    decision = Decision(some[0].name, by, notes=excluded(some) + aside)
    if not offers:
        decision.notes += missing(some, deadline)
        return decision
    decision.first = first = offers[0]
    decision.unknown = unknown(first.group)
    if first.group.doubt:
        decision.notes.append(f"accepted although: {first.group.doubt}")
    decision.notes += _late(first.group, deadline)
    elsewhere = [o for o in offers if o.machine != first.machine]
    here = len(offers) - len(elsewhere)
    rivals = elsewhere or offers[1:]
    if rivals:
        among = here * len(elsewhere) if elsewhere else here * (here - 1) / 2
        found = gap(first.group, rivals[0].group, pricing, by)
        decision.against(rivals[0], found, unknown(rivals[0].group), among)
    return decision


def missing(some: list[Group], deadline: Optional[Deadline]) -> list[str]:
    """Why there is no answer."""
    if not any(g.wall for g in some):
        return ["no configuration is left that ran well every time"]
    if deadline is not None and not any(g.wall and in_time(g, deadline) for g in some):
        best = min(quantile(g.walls, deadline.share) for g in some if g.walls)
        return [f"nothing measured is done within {deadline}: the fastest takes {best:.4g} s"]
    return ["no machine that is fast enough has a price: --price MACHINE=PROVIDER/SHAPE"]


def parse_mix(text: Optional[str], names: Sequence[str]) -> dict[str, float]:
    """Application (or 'application size') -> share of the runs. Without a mix all applications
    count alike, however many sizes of them were measured."""
    if text is None:
        sizes = [name.split(" ")[0] for name in names]
        return {name: 1.0 / len(set(sizes)) / sizes.count(name.split(" ")[0]) for name in names}
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, runs = part.strip().partition("=")
        matching = [n for n in names if n == name or n.split(" ")[0] == name]
        try:
            count = float(runs)
        except ValueError:
            count = math.nan
        if not 0 < count < math.inf:
            raise BadInput(f"mix '{part}' is not APP=RUNS with a number above 0", "see --help")
        if len(matching) != 1:
            raise BadInput(
                f"mix '{part}' names {len(matching)} of the applications measured",
                f"name one of {', '.join(names)}",
            )
        shares[matching[0]] = shares.get(matching[0], 0.0) + count
    total = sum(shares.values())
    return {name: count / total for name, count in shares.items()}


def _mix_offer(machine: str, parts: list[tuple[Offer, float]]) -> MixOffer:
    amounts = [o.amount for o, _ in parts]
    priced = all(a is not None for a in amounts)
    total = sum((o.amount or 0.0) * share for o, share in parts) if priced else None
    spread = _variance(parts, "cost") if total else None
    interval = None
    if total and spread:
        one = ratio_of(math.log(total), math.sqrt(spread[0]), spread[1], len(parts))
        interval = (one.low or total, one.high or total)
    first = parts[0][0]
    hours = sum(o.hours * share for o, share in parts)
    return MixOffer(
        machine, tuple(parts), hours, total, interval, first.currency, first.row, first.estimate
    )


def _variance(parts: Sequence[tuple[Offer, float]], by: str) -> Optional[tuple[float, float]]:
    """Variance of the logarithm of a sum, and its degrees of freedom: every part counts with the
    square of its share of the sum. None where a part has one sample."""
    total = sum(value(o, by) * share for o, share in parts)
    terms = []
    for one, share in parts:
        own = log_variance(one.group.walls)
        if own is None:
            return None
        terms.append(((value(one, by) * share / total) ** 2 * own[0], own[1]))
    return sum(v for v, _ in terms), freedom_of(terms)


def _mix_gap(first: MixOffer, second: MixOffer, by: str) -> Ratio:
    difference = math.log(value(second, by) / value(first, by))
    spreads = [_variance(first.parts, by), _variance(second.parts, by)]
    known = [s for s in spreads if s]
    if len(known) < 2:
        return Ratio(math.exp(difference), None, None, None, 1)
    return ratio_of(difference, math.sqrt(sum(v for v, _ in known)), freedom_of(known), 2)


def _mix_on(
    machine: list[Group],
    shares: dict[str, float],
    pricing: Pricing,
    deadline: Optional[Deadline],
    by: str,
) -> tuple[list[tuple[Offer, float]], list[str], int]:
    """For one machine: the best offer of each application with its share of the runs, the
    applications without one, and out of how many combinations these were picked."""
    parts, lacking, tried = [], [], 1
    for name, share in shares.items():
        mine = [g for g in machine if g.name == name]
        found, _ = _decidable(pick(mine, pricing, deadline, by))
        if found:
            parts.append((found[0], share))
            tried *= len(found)
        else:
            lacking.append(name)
    return parts, lacking, tried


def for_mix(
    all_groups: list[Group],
    pricing: Pricing,
    deadline: Optional[Deadline],
    by: str,
    mix: Optional[str],
) -> tuple[Decision, list[MixOffer]]:
    """The machine for all applications together, each with its own best configuration there."""
    shares = parse_mix(mix, [some[0].name for some in per_app(all_groups)])
    words = ", ".join(f"{share:.0%} {name}" for name, share in shares.items())
    alike = "" if mix else " (each application alike; --mix APP=RUNS,... sets others)"
    decision, offers, among = Decision(MIX, by, notes=[words + alike]), [], 1
    for machine, mine in by_machine(all_groups).items():
        parts, lacking, tried = _mix_on(mine, shares, pricing, deadline, by)
        among *= tried
        if lacking:
            decision.notes.append(
                f"{machine} is no answer: nothing to offer for {', '.join(lacking)}"
            )
        else:
            offers.append(_mix_offer(machine, parts))
    _judge_mix(decision, offers, among)
    return decision, offers


def _judge_mix(decision: Decision, offers: list[MixOffer], among: int) -> None:
    """Sorts the offers, and says which comes first and how sure that is. Machines and, on each,
    configurations were picked out of `among` combinations after looking."""
    doubts = {o.machine: _mix_unknown(o) for o in offers}
    offers.sort(key=lambda o: (bool(doubts[o.machine]), value(o, decision.by)))
    decision.notes += [f"{machine}: {why}" for machine, why in doubts.items() if why]
    judged = [o for o in offers if not doubts[o.machine]] or offers
    if judged:
        decision.first, decision.unknown = judged[0], doubts[judged[0].machine]
    if len(judged) > 1:
        found = _mix_gap(judged[0], judged[1], decision.by)
        decision.against(judged[1], found, doubts[judged[1].machine], among)


def _mix_unknown(one: MixOffer) -> str:
    return next(filter(None, (unknown(o.group) for o, _ in one.parts)), "")


def decides_by(pricing: Pricing, all_groups: list[Group]) -> str:
    """Cost where a machine has a price, otherwise time."""
    return "cost" if any(pricing.row(g.machine) for g in all_groups) else "time"


def decide(
    all_groups: list[Group], pricing: Pricing, deadline: Optional[Deadline], mix: Optional[str]
) -> tuple[list[Decision], list[MixOffer]]:
    """One decision per application, and one for the mix where there are several."""
    if any(g.trust.by_cpu for g in all_groups):
        return [], []
    by = decides_by(pricing, all_groups)
    decisions = []
    for some in per_app(all_groups):
        one = for_app(some, pricing, deadline, by)
        unpriced = sorted({g.machine for g in some if not pricing.row(g.machine)})
        if unpriced and by == "cost":
            one.notes.append(f"without a price, so not considered: {', '.join(unpriced)}")
        decisions.append(one)
    if len(decisions) < 2 and mix is None:
        return decisions, []
    combined, offers = for_mix(all_groups, pricing, deadline, by, mix)
    return [*decisions, combined], offers


def per_machine(
    all_groups: list[Group], pricing: Pricing, deadline: Optional[Deadline]
) -> list[Decision]:
    """The answer for every application on every machine alone; empty where there is one machine."""
    machines = by_machine(all_groups)
    if len(machines) < 2 or any(g.trust.by_cpu for g in all_groups):
        return []
    found = []
    for machine, mine in machines.items():
        by = decides_by(pricing, mine)
        for some in per_app(mine):
            one = for_app(some, pricing, deadline, by)
            one.machine = machine
            found.append(one)
    return found


def _build(group: Group) -> str:
    config = group.config
    parts = (config.installation, config.compiler, config.optimisation, config.target)
    return " ".join(filter(None, (*parts, config.variant)))


# What the first screen shows of a configuration, in this order; a dash where nothing was chosen.
SHOWN: tuple[tuple[str, Callable[[Group], object]], ...] = (
    ("nodes", lambda g: g.config.nodes),
    ("MPI", lambda g: g.config.mpi),
    ("fabric", lambda g: " ".join(filter(None, (g.config.framework, g.config.interconnect)))),
    ("binding", lambda g: g.config.binding),
    ("split", lambda g: g.axis("split")),
    ("build", _build),
)
