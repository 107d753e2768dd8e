"""All that one report claims, judged together: effects of choices, the lessons' own questions, and
which offer comes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..stats import Family, Ratio, chosen_p, pareto, ratio
from .costs import Pricing
from .decide import Decision
from .groups import Effect, Group, best_of, effects, per_app, rest, varying

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
    return None if a.p is None or b.p is None else chosen_p(max(a.p, b.p), among)


def processors(some: list[Group]) -> list[Claim]:
    """Lesson 1: the order of processors on one thread against that on a full node."""
    machines = list(dict.fromkeys(g.machine for g in some if g.seconds))
    by_machine: dict[str, tuple[list[Group], list[Group]]] = {}
    for m in machines:
        mine = [g for g in some if g.machine == m and g.seconds]
        single, full = [g for g in mine if g.workers == 1], [g for g in mine if g.workers > 1]
        if single and full:
            by_machine[m] = single, full
    if len(by_machine) < 2:
        return []
    first = {m: best_of(single) for m, (single, _) in by_machine.items()}
    whole = {m: best_of(full) for m, (_, full) in by_machine.items()}
    a = min(first, key=lambda m: first[m].seconds or 0)  # type: ignore[union-attr]
    b = min(whole, key=lambda m: whole[m].seconds or 0)  # type: ignore[union-attr]
    other = b if a != b else next(m for m in by_machine if m != a)
    picked = [first[a], first[other], whole[a], whole[other]]
    one, two, three, four = (g for g in picked if g)
    among = 1.0
    for m in (a, other):
        among *= len(by_machine[m][0]) * len(by_machine[m][1])
    among *= len(by_machine) * (len(by_machine) - 1)
    alone = ratio(one.times, two.times)
    together = ratio(four.times, three.times) if a != b else ratio(three.times, four.times)
    best, least = whole[b], first[a]
    assert best and least
    text = (
        f"{one.name}: on one thread {a} is fastest ({least.seconds:.4g} s),"
        f" on all {b} ({best.seconds:.4g} s)"
    )
    size = min(alone.value, together.value)
    return [_claim(1, text, a != b, size, _both(alone, together, among), picked)]


def _claim(
    lesson: int,
    text: str,
    confirms: bool,
    size: float,
    p: Optional[float],
    used: list[Optional[Group]],
) -> Claim:
    groups = [g for g in used if g]
    known = all(g.known or g.published for g in groups)
    published = all(g.published for g in groups)
    return Claim(lesson, text, confirms, size, p if known else None, published, known)


def money(some: list[Group], pricing: Pricing) -> list[Claim]:
    """Lesson 2: the fastest against the cheapest."""
    priced = [(g, c.amount) for g in some if g.wall and (c := pricing.cost(g))]
    places = {(g.machine, g.config.nodes) for g, _ in priced}
    if len(places) < 2:
        return []
    fastest, its = min(priced, key=lambda p: p[0].wall or 0)
    cheapest, least = min(priced, key=lambda p: p[1])
    among = len(priced) * (len(priced) - 1) / 2
    if fastest is not cheapest:
        front = len(pareto([(g.wall or 0, a) for g, a in priced]))
        text = (
            f"{fastest.name}: fastest is {fastest.machine} {fastest.label}"
            f" ({fastest.wall:.4g} s, {its:.4g}), cheapest {cheapest.machine} {cheapest.label}"
            f" ({cheapest.wall:.4g} s, {least:.4g}); {front} on the Pareto front"
        )
        slower = ratio(fastest.walls, cheapest.walls)
        dearer = ratio(pricing.amounts(cheapest), pricing.amounts(fastest))
        size = min(slower.value, dearer.value)
        return [_claim(2, text, True, size, _both(slower, dearer, among), [fastest, cheapest])]
    here = (fastest.machine, fastest.config.nodes)
    others = [g for g, _ in priced if (g.machine, g.config.nodes) != here]
    rival = min(others, key=lambda g: g.wall or 0)
    dear = min(others, key=lambda g: c.amount if (c := pricing.cost(g)) else 0)
    text = (
        f"{fastest.name}: the fastest, {fastest.machine} {fastest.label}, is also the cheapest of"
        " those with a price"
    )
    slower = ratio(fastest.walls, rival.walls)
    dearer = ratio(pricing.amounts(fastest), pricing.amounts(dear))
    size = min(slower.value, dearer.value)
    used = [fastest, rival, dear]
    return [_claim(2, text, False, size, _both(slower, dearer, among), used)]


def splits(some: list[Group]) -> list[Claim]:
    """Lesson 4: hybrids against ranks or threads alone, where nothing else differs and the number
    of workers is the same."""
    alike: dict[tuple[str, ...], list[Group]] = {}
    for g in some:
        if g.seconds and g.workers > 1:
            alike.setdefault((*rest(g, "split"), str(g.workers)), []).append(g)
    found = []
    for same in alike.values():
        hybrids = [g for g in same if g.config.threads > 1 and g.config.ranks > 1]
        pure = [g for g in same if g not in hybrids]
        best = best_of(same)
        if not hybrids or len(same) < 2 or best is None:
            continue
        # Where all are hybrids, the best is compared with the worst of them.
        rivals = (pure if best in hybrids else hybrids) or [g for g in same if g is not best]
        rival = best_of(rivals) if pure else max(rivals, key=lambda g: g.seconds or 0)
        assert rival
        r = ratio(best.times, rival.times)
        among = len(same) * (len(same) - 1) / 2
        p = None if r.p is None else chosen_p(r.p, among)
        kind = "ranks" if best.config.threads == 1 else "threads"
        text = (
            f"{best.config.app} on {best.workers} workers: {best.axis('split')} is best"
            f" ({best.seconds:.4g} s), {rival.axis('split')} takes {r.value:.3g}x"
            + ("" if best in hybrids else f": {kind} alone win here")
        )
        found.append(_claim(4, text, best in hybrids, r.value, p, [best, rival]))
    return found


class Evidence:
    """Everything that is claimed, with one correction for all of it."""

    def __init__(self, all_groups: list[Group], pricing: Pricing, decisions: list[Decision]):
        self.groups, self.pricing = all_groups, pricing
        self.family = Family()
        self.effects: list[Effect] = []
        self.claims: list[Claim] = []
        for some in per_app(all_groups):
            self.effects += [e for axis in varying(some) for e in effects(some, axis)]
            self.claims += processors(some) + money(some, pricing) + splits(some)
        for one in (*self.effects, *self.claims, *decisions):
            self.family.ask(one.key, one.p)

    def of(self, axes: tuple[str, ...]) -> list[Effect]:
        return [e for e in self.effects if e.axis in axes]

    def of_app(self, app: str, size: str) -> list[Effect]:
        return [e for e in self.effects if (e.app, e.size) == (app, size)]

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
            return "cannot be tested"
        return "significant" if judged else "not significant"

    def best_values(self) -> list[str]:
        """One line per application and axis: what is best, and what of the others is worse."""
        lines = []
        by_axis: dict[tuple[str, str, str], list[Effect]] = {}
        for e in self.effects:
            if e.axis not in ("nodes", "processor"):
                by_axis.setdefault((e.app, e.size, e.axis), []).append(e)
        for (app, size, axis), found in by_axis.items():
            sure = any(self.speaks(e) for e in found)
            others = ", ".join(
                f"{e.value} {e.ratio.value:.3g}x"
                + ("" if self.speaks(e) else f" ({self.words(e)})")
                for e in found
            )
            lines.append(
                f"{app} {size}: best {axis} is '{found[0].best}'"
                f"{'' if sure else ' as measured'} (time of the others: {others})"
                + (" [one value each]" if max(e.pairs for e in found) == 1 and not sure else "")
            )
        return lines
