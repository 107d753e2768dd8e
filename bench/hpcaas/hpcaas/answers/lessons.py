"""The paper's eight lessons (section 8), each confirmed, contradicted or untested by the data at hand, with the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from ..stats import pareto, ratio
from .costs import Pricing
from .groups import Effect, Group, apps_of, best_of, effects, of_app, rest

# Below this a difference is not worth a lesson, however significant.
WORTH = 1.02


@dataclass(frozen=True)
class Lesson:
    number: int
    text: str
    verdict: str  # confirmed, contradicted, untested
    evidence: str


def _names(g: Group) -> str:
    return f"{g.config.app} {g.config.size}"


def _speaks(e: Effect) -> bool:
    """An effect that is large enough and not chance. Published single values are taken at their word; measured ones need a spread."""
    return e.ratio.value >= WORTH and (
        e.ratio.significant is True or (e.ratio.significant is None and e.published)
    )


def _per_app(all_groups: list[Group]) -> list[list[Group]]:
    return [of_app(all_groups, app, size) for app, size in apps_of(all_groups)]


def _one(all_groups: list[Group], pricing: Pricing) -> tuple[str, str]:
    """Single-thread order against full-node order of processors."""
    del pricing
    for some in _per_app(all_groups):
        machines = {g.machine for g in some}
        single = {
            m: best_of([g for g in some if g.machine == m and g.workers == 1]) for m in machines
        }
        full = {m: best_of([g for g in some if g.machine == m and g.workers > 1]) for m in machines}
        both = [m for m in machines if single[m] and full[m]]
        if len(both) > 1:
            by_single = min(both, key=lambda m: single[m].seconds or 0)  # type: ignore[union-attr]
            by_full = min(both, key=lambda m: full[m].seconds or 0)  # type: ignore[union-attr]
            # type: ignore[union-attr]
            text = f"{_names(some[0])}: on one thread {by_single} is fastest ({single[by_single].seconds:.4g} s), on all {by_full} ({full[by_full].seconds:.4g} s)"
            return ("confirmed" if by_single != by_full else "contradicted"), text
    return (
        "untested",
        "needs the same application on one thread and on a full node of two processors",
    )


def _two(all_groups: list[Group], pricing: Pricing) -> tuple[str, str]:
    """Fastest against cheapest."""
    if not pricing.any:
        return "untested", "needs prices: --price MACHINE=PROVIDER/SHAPE"
    against, same = [], []
    for some in _per_app(all_groups):
        priced = [(g, c.amount) for g in some if g.seconds and (c := pricing.cost(g))]
        if len(priced) > 1 and (
            len({g.machine for g, _ in priced}) > 1 or len({g.config.nodes for g, _ in priced}) > 1
        ):
            fastest = min(priced, key=lambda p: p[0].seconds or 0)
            cheapest = min(priced, key=lambda p: p[1])
            front = len(pareto([(g.seconds or 0, a) for g, a in priced]))
            if fastest[0] is not cheapest[0]:
                against.append(
                    f"{_names(some[0])}: fastest is {fastest[0].machine} {fastest[0].label} ({fastest[0].seconds:.4g} s, {fastest[1]:.4g}), "
                    f"cheapest {cheapest[0].machine} {cheapest[0].label} ({cheapest[0].seconds:.4g} s, {cheapest[1]:.4g}); {front} on the Pareto front"
                )
            else:
                same.append(
                    f"{_names(some[0])}: the fastest, {fastest[0].machine} {fastest[0].label}, is also the cheapest of those with a price"
                )
    if against or same:
        return ("confirmed" if against else "contradicted"), "; ".join(against + same)
    return "untested", "needs priced runs on two machines, or on several numbers of nodes"


def _axis_lesson(
    axes: tuple[str, ...], need: str, largest: bool = True
) -> Callable[[list[Group], Pricing], tuple[str, str]]:
    """A lesson of the form `this choice matters`: the largest effect of an axis is its evidence."""

    def judge(all_groups: list[Group], pricing: Pricing) -> tuple[str, str]:
        del pricing
        found = [e for some in _per_app(all_groups) for axis in axes for e in effects(some, axis)]
        if not found:
            return "untested", need
        top = max(found, key=lambda e: e.largest if largest else e.ratio.value)
        speaking = [e for e in found if _speaks(e)]
        text = (
            f"{top.app}: {top.axis} '{top.value}' takes {top.ratio.value:.3g}x the time of '{top.best}' over {top.pairs} pair{'s' if top.pairs > 1 else ''}, up to {top.largest:.3g}x"
            + _bars(top)
        )
        return _verdict(bool(speaking), found, text)

    return judge


# Contradicted means that an effect of this size can be excluded; a wide interval around 1 says
# nothing either way.
EXCLUDED = 1.10


def _verdict(speaks: bool, found: list[Effect], text: str) -> tuple[str, str]:
    if speaks:
        return "confirmed", text
    if all(e.ratio.high is None and not e.published for e in found):
        return "untested", "one sample each, no spread known: " + text
    if any(e.ratio.high is not None and max(e.ratio.high, e.ratio.value) > EXCLUDED for e in found):
        return "untested", "the spread is too wide to tell: " + text
    return "contradicted", text


def _bars(e: Effect) -> str:
    return (
        f" (95 % interval {e.ratio.low:.3g} to {e.ratio.high:.3g})"
        if e.ratio.low is not None and e.ratio.high is not None
        else " (no spread known)"
    )


OLDER = {
    "rome": "genoa",
    "broadwell": "spr",
    "znver2": "znver4",
    "x86-64": "native",
    "x86-64-v2": "native",
    "x86-64-v3": "x86-64-v4",
    "baseline": "native",
    "haswell": "native",
    "skylake": "skylake-avx512",
}


def _three(all_groups: list[Group], pricing: Pricing) -> tuple[str, str]:
    """An older target or no forced vectorisation may win."""
    del pricing
    found = [
        e
        for some in _per_app(all_groups)
        for axis in ("target", "variant")
        for e in effects(some, axis)
    ]
    if not found:
        return "untested", "needs two targets or two source variants of one application"
    for e in found:
        if _speaks(e) and e.axis == "target" and OLDER.get(e.best) == e.value:
            return (
                "confirmed",
                f"{e.app}: the older target '{e.best}' beats '{e.value}' by {e.ratio.value:.3g}x on average, up to {e.largest:.3g}x"
                + _bars(e),
            )
    for e in found:
        if _speaks(e) and e.axis == "variant" and e.best == "plain":
            return (
                "confirmed",
                f"{e.app}: the plain source beats '{e.value}' by {e.ratio.value:.3g}x on average"
                + _bars(e),
            )
    top = max(found, key=lambda e: e.ratio.value)
    if not _speaks(top):
        return _verdict(
            False,
            found,
            f"{top.app}: {top.axis} '{top.value}' takes {top.ratio.value:.3g}x the time of '{top.best}'"
            + _bars(top),
        )
    return (
        "contradicted",
        f"{top.app}: here the wider or forced vectorisation wins: {top.axis} '{top.best}' against '{top.value}' {top.ratio.value:.3g}x"
        + _bars(top),
    )


def _four(all_groups: list[Group], pricing: Pricing) -> tuple[str, str]:
    """The best split is often a hybrid."""
    del pricing
    hybrids, pure = [], []
    for some in _per_app(all_groups):
        # Splits are compared where nothing else differs and the number of workers is the same.
        same_otherwise: dict[tuple[str, ...], list[Group]] = {}
        for g in some:
            if g.seconds and g.workers > 1:
                same_otherwise.setdefault((*rest(g, "split"), str(g.workers)), []).append(g)
        for same in same_otherwise.values():
            if len(same) > 1:
                best, worst = best_of(same), max(same, key=lambda g: g.seconds or 0)
                assert best and best.seconds and worst.seconds
                published = all(x.source for g in same for x in g.samples)
                if worst.seconds / best.seconds < WORTH or not (
                    ratio(best.times, worst.times).significant is True or published
                ):
                    continue
                text = f"{best.config.app} on {best.workers} workers: {best.axis('split')} is best ({best.seconds:.4g} s), {worst.axis('split')} worst ({worst.seconds / best.seconds:.3g}x)"
                (hybrids if best.config.threads > 1 and best.config.ranks > 1 else pure).append(
                    (worst.seconds / best.seconds, text, best)
                )
    if hybrids:
        return "confirmed", max(hybrids, key=lambda h: h[0])[1]
    if pure:
        _, text, best = max(pure, key=lambda h: h[0])
        return "contradicted", text + (
            ": threads alone win here" if best.config.ranks == 1 else ": ranks alone win here"
        )
    return "untested", "needs two splits of the same number of workers that differ measurably"


def _six(all_groups: list[Group], pricing: Pricing) -> tuple[str, str]:
    return _axis_lesson(
        ("filesystem",),
        "needs two file systems: name directories under `filesystems:` in the site file",
    )(all_groups, pricing)


def _seven(all_groups: list[Group], pricing: Pricing) -> tuple[str, str]:
    """Defaults are far from optimal; auto with block:block is usually great."""
    del pricing
    found = [e for some in _per_app(all_groups) for e in effects(some, "binding")]
    if not found:
        return "untested", "needs two bindings of one application"
    distributions = [
        dist for some in _per_app(all_groups) if (dist := effects(some, "distribution"))
    ]
    also = "".join(
        f"; {d[0].app}: distribution '{d[0].best}' is best, '{d[-1].value}' costs up to {d[-1].largest:.3g}x"
        for d in distributions
    )

    def words(e: Effect) -> str:
        return (
            f"{e.app}: binding '{e.value}' takes {e.ratio.value:.3g}x the time of '{e.best}', up to {e.largest:.3g}x"
            + _bars(e)
        )

    worse = [e for e in found if e.value == "none" and _speaks(e)]
    if worse:
        spared = sorted(
            {e.app for e in found if e.value == "none" or e.best == "none"} - {e.app for e in worse}
        )
        # The widest effect of any binding stands beside the default's own: what a wrong choice can
        # cost.
        top, widest = (
            max(worse, key=lambda e: e.ratio.value),
            max((e for e in found if _speaks(e)), key=lambda e: e.largest),
        )
        text = words(top) + (f"; {words(widest)}" if widest is not top else "")
        return "confirmed", text + also + (
            f"; the default (none) is not measurably worse for {', '.join(spared)}"
            if spared
            else ""
        )
    against = [e for e in found if e.best == "none" and _speaks(e)]
    if against:
        return "contradicted", words(
            max(against, key=lambda e: e.ratio.value)
        ) + also + "; the default (none) is best here"
    verdict, text = _verdict(False, found, words(max(found, key=lambda e: e.largest)))
    return verdict, text + also + (
        "; the default (none) is not measurably worse here" if verdict == "contradicted" else ""
    )


def _eight(all_groups: list[Group], pricing: Pricing) -> tuple[str, str]:
    crashes = [
        g for g in all_groups if g.failure and g.failure.status.value in ("crashed", "build failed")
    ]
    verdict, text = _axis_lesson(
        ("compiler", "optimisation"), "needs two compilers or two optimisation levels"
    )(all_groups, pricing)
    if crashes:
        g = crashes[0]
        text += f"; {g.config.app} {g.label}: {g.failure.status.value if g.failure else ''} ({(g.failure.diagnosis or '')[:120] if g.failure else ''})"
        verdict = "confirmed"
    return verdict, text


def _five(all_groups: list[Group], pricing: Pricing) -> tuple[str, str]:
    verdict, text = _axis_lesson(
        ("mpi", "interconnect", "framework", "launcher"),
        "needs two MPIs, frameworks, fabrics or launchers",
    )(all_groups, pricing)
    if verdict == "contradicted" and max((g.config.nodes for g in all_groups), default=1) == 1:
        text += "; one node only, where the lesson speaks of communication at scale"
    return verdict, text


LESSONS: tuple[tuple[str, Callable[[list[Group], Pricing], tuple[str, str]]], ...] = (
    ("A processor cannot be judged by its single-thread performance", _one),
    ("Nor by its aggregate throughput alone: performance per dollar decides", _two),
    ("Vectorisation with gather and scatter can hurt: an older target may be faster", _three),
    ("The best split into ranks and threads depends on the application; hybrids often win", _four),
    ("MPI and interconnect together can matter most, and so can the launcher", _five),
    ("I/O intensive applications want a parallel file system", _six),
    ("Default binding is far from optimal; auto with block:block is usually great", _seven),
    (
        "Compiler and options matter, and some builds do not even run: have several compilers",
        _eight,
    ),
)


def judge_lessons(all_groups: list[Group], pricing: Pricing) -> list[Lesson]:
    return [
        Lesson(i + 1, text, *judge(all_groups, pricing)) for i, (text, judge) in enumerate(LESSONS)
    ]
