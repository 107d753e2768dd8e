"""The buyer's question: what to rent for each application and for the mix of them, what comes
second, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Callable, Iterable, Optional, Sequence, Union

from ..errors import BadInput
from ..prices import PriceRow
from ..stats import INSTANCES, Ratio, between, chosen_p, freedom_of, log_variance, ratio_of
from .costs import Pricing
from .deadline import Deadline, InTime, in_time
from .groups import Group, Groups, by_name, versus, wall_of

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
    due: Optional[InTime] = None  # None: no deadline was given

    @property
    def machine(self) -> str:
        return self.group.machine

    @property
    def instances(self) -> int:
        return len(self.group.on)

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

    @property
    def instances(self) -> int:
        """That all its applications ran on."""
        return len(set.intersection(*(set(o.group.on) for o, _ in self.parts)))

    def totals(self, by: str) -> list[list[float]]:
        """Of each such instance, what the mix takes there, in parts of its offers' values."""
        common = set.intersection(*(set(o.group.on) for o, _ in self.parts))
        found = []
        for instance in sorted(common):
            total = 0.0
            for one, share in self.parts:
                logs = one.group.logs(wall_of)
                mine = math.fsum(logs[instance].values()) / len(logs[instance])
                all_means = [math.fsum(d.values()) / len(d) for d in logs.values()]
                centre = math.fsum(all_means) / len(all_means)
                total += value(one, by) * share * math.exp(mine - centre)
            found.append([total])
        return found


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
    about: str = ""  # in one line, what it speaks of beyond the machines measured, and what would

    @property
    def key(self) -> tuple[str, str, str]:
        return ("decision", self.app, self.machine)

    @property
    def contrast(self) -> Optional[frozenset[Group]]:
        """The two groups, where it compares two: another question about them is the same."""
        if isinstance(self.first, Offer) and isinstance(self.second, Offer):
            return frozenset((self.first.group, self.second.group))
        return None

    @property
    def elsewhere(self) -> bool:
        """Whether the second is at another place."""
        return bool(self.first and self.second and self.first.machine != self.second.machine)

    @property
    def instances(self) -> int:
        """Of each side, at least."""
        counts = [one.instances for one in (self.first, self.second) if one]
        if self.gap and not self.elsewhere:
            counts.append(self.gap.instances)
        return min(counts, default=0)

    def sure(self, holds: bool) -> str:
        """How sure it is that the first is better than the second."""
        if self.first is None:
            return ""
        if self.unknown:
            return self.unknown
        if self.second is None:
            return "nothing to compare with"
        if self.elsewhere and self.instances < INSTANCES and self.gap and self.gap.low is not None:
            return "of these machines only: their shapes need three instances each"
        if self.p is None:
            return "one value each: no spread known"
        if not holds:
            return "not sure: may be chance"
        enough = self.instances >= INSTANCES
        where = "" if enough else f", on {'this machine' if self.instances < 2 else 'these two'}"
        return f"sure: more than chance{where}"

    def against(self, second: AnyOffer, gap: Ratio, doubt: str, among: float) -> None:
        """What comes second, picked out of `among` pairs; `doubt`: why that cannot be judged."""
        self.second, self.gap, self.unknown = second, gap, self.unknown or doubt
        self.p = None if self.unknown else chosen_p(gap.judged, among)


def offer(group: Group, pricing: Pricing, deadline: Optional[Deadline] = None) -> Offer:
    cost, interval = pricing.cost(group), pricing.interval(group)
    return Offer(
        group,
        pricing.taken_s(group) * LOT / 3600.0,
        cost.amount * LOT if cost else None,
        (interval[0] * LOT, interval[1] * LOT) if interval else None,
        cost.currency if cost else None,
        pricing.row(group.machine),
        group.machine in pricing.estimates,
        in_time(group, deadline, pricing) if deadline else None,
    )


def value(one: AnyOffer, by: str) -> float:
    """What decides: cost or time of 1,000 runs."""
    return (one.amount if by == "cost" else one.hours) or math.inf


def pick(some: list[Group], pricing: Pricing, deadline: Optional[Deadline], by: str) -> list[Offer]:
    """Offers that may be chosen, the best first. Within a deadline those that are shown to meet it;
    where none is, those whose runs met it as measured."""
    offers = [offer(g, pricing, deadline) for g in some if g.wall]
    if by == "cost":
        offers = [o for o in offers if o.amount is not None]
    return sorted(_due(offers, deadline), key=lambda o: value(o, by))


def _due(offers: list[Offer], deadline: Optional[Deadline]) -> list[Offer]:
    if deadline is None:
        return offers
    shown = [o for o in offers if o.due and o.due.shown >= deadline.share]
    return shown or [o for o in offers if o.due and o.due.measured >= deadline.share]


def gap(first: Group, second: Group, pricing: Pricing, by: str) -> Ratio:
    return pricing.versus(first, second) if by == "cost" else versus(first, second, wall_of)


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


def _doubt(one: Offer, deadline: Optional[Deadline], pricing: Pricing, by: str) -> str:
    """Why no verdict can be drawn on an offer; empty where one can."""
    why = unknown(one.group)
    if not why and by == "cost" and pricing.without_rate(one.machine):
        why = "not known: nobody says how often this spot price is interrupted"
    if not why and one.due and deadline and one.due.shown < deadline.share:
        why = "not shown to be in time"
    return why


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


def _hidden(some: list[Group], machine: str) -> str:
    """Why the best of a machine may not be its best; empty where all of its configurations are
    known. One whose every run was disturbed could be faster than all others."""
    mine = [g for g in some if g.machine == machine and g.wall and not g.only_searched]
    hidden = sum(bool(unknown(g)) for g in mine)
    if not hidden or hidden == len(mine):
        return ""
    others = "configuration is" if hidden == 1 else "configurations are"
    return f"not sure: {hidden} other {others} not known on this machine, and may be better"


def for_app(some: list[Group], pricing: Pricing, deadline: Optional[Deadline], by: str) -> Decision:
    offers, aside = _decidable(pick(some, pricing, deadline, by))
    decision = Decision(some[0].name, by, notes=excluded(some) + aside)
    if not offers:
        decision.notes += missing(some, deadline, pricing)
        return decision
    decision.first = first = offers[0]
    decision.unknown = _doubt(first, deadline, pricing, by) or _hidden(some, first.machine)
    if first.group.doubt:
        decision.notes.append(f"accepted although: {first.group.doubt}")
    if first.due and deadline:
        decision.notes += first.due.words(deadline)
    elsewhere = [o for o in offers if o.machine != first.machine]
    here = len(offers) - len(elsewhere)
    rivals = elsewhere or offers[1:]
    if rivals:
        among = here * len(elsewhere) if elsewhere else here * (here - 1) / 2
        found = gap(first.group, rivals[0].group, pricing, by)
        doubt = _doubt(rivals[0], None, pricing, by)
        decision.against(rivals[0], found, doubt, among)
    return decision


def missing(some: list[Group], deadline: Optional[Deadline], pricing: Pricing) -> list[str]:
    """Why there is no answer."""
    if not any(g.wall for g in some):
        return ["no configuration is left that ran well every time"]
    if deadline is not None and not pick(some, pricing, deadline, "time"):
        best = max(in_time(g, deadline, pricing) for g in some if g.walls)
        lines = [f"nothing measured is done within {deadline}: {'; '.join(best.words(deadline))}"]
        if best.stays < 1.0 and best.uninterrupted >= deadline.share:
            lines.append("on demand, without interruptions, it is: --term on-demand")
        return lines
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
    if min(first.instances, second.instances) >= INSTANCES:
        return between(first.totals(by), second.totals(by))
    difference = math.log(value(second, by) / value(first, by))
    spreads = [_variance(first.parts, by), _variance(second.parts, by)]
    known = [s for s in spreads if s]
    if len(known) < 2:
        return Ratio(math.exp(difference), None, None, None, 1)
    found = ratio_of(difference, math.sqrt(sum(v for v, _ in known)), freedom_of(known), 2)
    return replace(found, p=None)  # of these machines: no verdict on their shapes


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
    all_groups: Groups, pricing: Pricing, deadline: Optional[Deadline], by: str, mix: Optional[str]
) -> tuple[Decision, list[MixOffer]]:
    """The machine for all applications together, each with its own best configuration there."""
    shares = parse_mix(mix, list(all_groups.per_app))
    words = ", ".join(f"{share:.0%} {name}" for name, share in shares.items())
    alike = "" if mix else " (each application alike; --mix APP=RUNS,... sets others)"
    decision, offers, among = Decision(MIX, by, notes=[words + alike]), [], 1
    for machine, mine in all_groups.by_machine.items():
        parts, lacking, tried = _mix_on(mine, shares, pricing, deadline, by)
        among *= tried
        if lacking:
            decision.notes.append(
                f"{machine} is no answer: nothing to offer for {', '.join(lacking)}"
            )
        else:
            offers.append(_mix_offer(machine, parts))
    _judge_mix(decision, offers, among, lambda o: _mix_unknown(o, deadline, pricing, by))
    return decision, offers


def _judge_mix(
    decision: Decision, offers: list[MixOffer], among: int, doubt: Callable[[MixOffer], str]
) -> None:
    """Sorts the offers, and says which comes first and how sure that is. Machines and, on each,
    configurations were picked out of `among` combinations after looking."""
    doubts = {o.machine: doubt(o) for o in offers}
    offers.sort(key=lambda o: (bool(doubts[o.machine]), value(o, decision.by)))
    decision.notes += [f"{machine}: {why}" for machine, why in doubts.items() if why]
    judged = [o for o in offers if not doubts[o.machine]] or offers
    if judged:
        decision.first, decision.unknown = judged[0], doubts[judged[0].machine]
    if len(judged) > 1:
        found = _mix_gap(judged[0], judged[1], decision.by)
        decision.against(judged[1], found, doubts[judged[1].machine], among)


def _mix_unknown(one: MixOffer, deadline: Optional[Deadline], pricing: Pricing, by: str) -> str:
    return next(filter(None, (_doubt(o, deadline, pricing, by) for o, _ in one.parts)), "")


def decides_by(pricing: Pricing, all_groups: Iterable[Group]) -> str:
    """Cost where a machine has a price, otherwise time."""
    return "cost" if any(pricing.row(g.machine) for g in all_groups) else "time"


def decide(
    all_groups: Groups, pricing: Pricing, deadline: Optional[Deadline], mix: Optional[str]
) -> tuple[list[Decision], list[MixOffer]]:
    """One decision per application, and one for the mix where there are several."""
    if all_groups.trust.by_cpu:
        return [], []
    by = decides_by(pricing, all_groups)
    decisions = []
    for some in all_groups.per_app.values():
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
    all_groups: Groups, pricing: Pricing, deadline: Optional[Deadline]
) -> list[Decision]:
    """The answer for every application on every machine alone; empty where there is one machine."""
    machines = all_groups.by_machine
    if len(machines) < 2 or all_groups.trust.by_cpu:
        return []
    found = []
    for machine, mine in machines.items():
        by = decides_by(pricing, mine)
        for some in by_name(mine).values():
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
