"""All that one report claims, judged together: effects of choices, the lessons' own questions, and
which offer comes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..stats import INSTANCES, Family, Ratio, chosen_p, pareto
from .costs import Pricing
from .decide import Decision
from .effects import Effect, best_of, effects
from .groups import Group, Groups, by_machine, rest, varying, versus, wall_of

# Below this a difference is not worth a lesson, however significant.
WORTH = 1.02


@dataclass(frozen=True)
class Claim:
    """Something that the data may say about a lesson."""

    lesson: int
    text: str
    confirms: bool  # otherwise it contradicts
    size: float  # of the difference, as a ratio
    p: Optional[float]
    published: bool = False
    known: bool = True

    @property
    def key(self) -> tuple[object, ...]:
        return ("claim", self.lesson, self.text)


def _both(a: Ratio, b: Ratio, among: float) -> Optional[float]:
    """p of two statements that must both hold, picked out of `among` pairs."""
    return (
        None if a.judged is None or b.judged is None else chosen_p(max(a.judged, b.judged), among)
    )


@dataclass(frozen=True)
class _Fastest:
    """The fastest group of a machine, and of how many it was picked."""

    group: Group
    tried: int

    @property
    def seconds(self) -> float:
        return self.group.seconds or 0.0


def _fastest(some: list[Group], alone: bool) -> dict[str, _Fastest]:
    """Of each machine, on one worker or on several."""
    ran = by_machine(g for g in some if g.seconds and (g.workers == 1) is alone)
    return {m: _Fastest(best, len(mine)) for m, mine in ran.items() if (best := best_of(mine))}


def processors(some: list[Group]) -> list[Claim]:
    """Lesson 1: the order of processors on one thread against that on a full node."""
    single, full = _fastest(some, alone=True), _fastest(some, alone=False)
    machines = [m for m in single if m in full]
    if len(machines) < 2:
        return []
    on_one, then = sorted(machines, key=lambda m: single[m].seconds)[:2]
    on_all, next_on_all = sorted(machines, key=lambda m: full[m].seconds)[:2]
    if on_one != on_all:
        then, next_on_all = on_all, on_one  # two machines that change places
    used = [single[on_one], single[then], full[on_all], full[next_on_all]]
    among = float(len(machines) * (len(machines) - 1))
    for one in used:
        among *= one.tried
    best, second, whole, behind = (one.group for one in used)
    alone, together = versus(best, second), versus(whole, behind)
    text = (
        f"{best.name}: on one thread {on_one} is fastest ({best.seconds:.4g} s),"
        f" on all {on_all} ({whole.seconds:.4g} s)"
    )
    size = min(alone.value, together.value)
    p = _both(alone, together, among)
    return [_claim(1, text, on_one != on_all, size, p, [one.group for one in used])]


def _claim(
    lesson: int, text: str, confirms: bool, size: float, p: Optional[float], used: list[Group]
) -> Claim:
    known = all(g.known or g.published for g in used)
    published = all(g.published for g in used)
    return Claim(lesson, text, confirms, size, p if known else None, published, known)


def money(some: list[Group], pricing: Pricing) -> list[Claim]:
    """Lesson 2: the fastest against the cheapest."""
    priced = [(g, c.amount) for g in some if g.wall and (c := pricing.cost(g))]
    if len({(g.machine, g.config.nodes) for g, _ in priced}) < 2:
        return []
    fastest, its = min(priced, key=lambda p: p[0].wall or 0)
    cheapest, least = min(priced, key=lambda p: p[1])
    among = len(priced) * (len(priced) - 1) / 2
    if fastest is cheapest:
        return [_no_trade_off(fastest, priced, pricing, among)]
    front = len(pareto([(g.wall or 0, a) for g, a in priced]))
    text = (
        f"{fastest.name}: fastest is {fastest.machine} {fastest.label}"
        f" ({fastest.wall:.4g} s, {its:.4g}), cheapest {cheapest.machine} {cheapest.label}"
        f" ({cheapest.wall:.4g} s, {least:.4g}); {front} on the Pareto front"
    )
    slower = versus(fastest, cheapest, wall_of)
    dearer = pricing.versus(cheapest, fastest)
    size = min(slower.value, dearer.value)
    return [_claim(2, text, True, size, _both(slower, dearer, among), [fastest, cheapest])]


def _no_trade_off(
    winner: Group, priced: list[tuple[Group, float]], pricing: Pricing, among: float
) -> Claim:
    """The fastest is the cheapest: against the next in time and the next in cost elsewhere."""
    here = (winner.machine, winner.config.nodes)
    others = [(g, amount) for g, amount in priced if (g.machine, g.config.nodes) != here]
    rival, _ = min(others, key=lambda p: p[0].wall or 0)
    dear, _ = min(others, key=lambda p: p[1])
    text = (
        f"{winner.name}: the fastest, {winner.machine} {winner.label}, is also the cheapest of"
        " those with a price"
    )
    slower = versus(winner, rival, wall_of)
    dearer = pricing.versus(winner, dear)
    size = min(slower.value, dearer.value)
    return _claim(2, text, False, size, _both(slower, dearer, among), [winner, rival, dear])


def splits(some: list[Group]) -> list[Claim]:
    """Lesson 4: hybrids against ranks or threads alone, where nothing else differs and the number
    of workers is the same."""
    alike: dict[tuple[str, ...], list[Group]] = {}
    for g in some:
        if g.seconds and g.workers > 1:
            alike.setdefault((*rest(g, "split"), str(g.workers)), []).append(g)
    return [claim for same in alike.values() if len(same) > 1 and (claim := _split(same))]


def _is_hybrid(group: Group) -> bool:
    return group.config.threads > 1 and group.config.ranks > 1


def _split(same: list[Group]) -> Optional[Claim]:
    """The best split against the best of the other kind; where all are hybrids, against the worst
    of them. None without a hybrid."""
    ordered = sorted(same, key=lambda g: g.seconds or 0.0)
    best = ordered[0]
    if not any(map(_is_hybrid, same)):
        return None
    rival = next((g for g in ordered if _is_hybrid(g) is not _is_hybrid(best)), ordered[-1])
    r = versus(best, rival)
    kind = "ranks" if best.config.threads == 1 else "threads"
    text = (
        f"{best.config.app} on {best.workers} workers: {best.axis('split')} is best"
        f" ({best.seconds:.4g} s), {rival.axis('split')} takes {r.value:.3g}x"
        + ("" if _is_hybrid(best) else f": {kind} alone win here")
    )
    p = chosen_p(r.judged, len(same) * (len(same) - 1) / 2)
    return _claim(4, text, _is_hybrid(best), r.value, p, [best, rival])


class Evidence:
    """Everything that is claimed, with one correction for all of it."""

    def __init__(self, all_groups: Groups, pricing: Pricing, decisions: list[Decision]):
        self.groups, self.pricing = all_groups, pricing
        self.family = Family()
        self.effects: list[Effect] = []
        self.claims: list[Claim] = []
        for some in all_groups.per_app.values():
            self.effects += [e for axis in varying(some) for e in effects(some, axis)]
            self.claims += processors(some) + money(some, pricing) + splits(some)
        for one in self.claims:
            self.family.ask(one.key, one.p)
        for one in (*self.effects, *decisions):
            self.family.ask(one.key, one.p, one.contrast)

    def of(self, axes: tuple[str, ...]) -> list[Effect]:
        return [e for e in self.effects if e.axis in axes]

    def of_app(self, name: str) -> list[Effect]:
        return [e for e in self.effects if e.name == name]

    def significant(self, e: Effect) -> Optional[bool]:
        """More than chance, all claims counted. None: untestable, or only disturbed samples."""
        return None if e.p is None else self.family.holds(e.key)

    def speaks(self, one: Effect | Claim) -> bool:
        """Large enough and not chance. Published single values are taken at their word."""
        size = one.ratio.value if isinstance(one, Effect) else one.size
        if one.p is None:
            return one.published and size >= WORTH
        return size >= WORTH and self.family.holds(one.key)

    def words(self, e: Effect) -> str:
        """The verdict on an effect."""
        if not e.known and not e.published:
            return "not known on this machine"
        judged = self.significant(e)
        if judged is None:
            alone = e.axis == "processor" and e.ratio.low is not None
            return "of these machines only" if alone else "cannot be tested"
        words = "significant" if judged else "not significant"
        if not judged or e.ratio.instances >= INSTANCES:
            return words
        return f"{words} on {'this machine' if e.ratio.instances < 2 else 'these two machines'}"

    def best_values(self) -> list[str]:
        """One line per application and axis: what is best, and what of the others is worse."""
        lines = []
        by_axis: dict[tuple[str, str], list[Effect]] = {}
        for e in self.effects:
            if e.axis not in ("nodes", "processor"):
                by_axis.setdefault((e.name, e.axis), []).append(e)
        for (name, axis), found in by_axis.items():
            sure = any(self.speaks(e) for e in found)
            others = ", ".join(
                f"{e.value} {e.ratio.value:.3g}x"
                + ("" if self.speaks(e) else f" ({self.words(e)})")
                for e in found
            )
            lines.append(
                f"{name}: best {axis} is '{found[0].best}'"
                f"{'' if sure else ' as measured'} (time of the others: {others})"
                + (" [one value each]" if max(e.pairs for e in found) == 1 and not sure else "")
            )
        return lines
