"""The paper's eight lessons (section 8) in the data at hand, with the numbers.

confirmed and contradicted: more than chance, with all claims of the report counted. not shown: it
was tried, and no effect stands out of the spread. not known: only disturbed samples speak of it.
untested: the data hold nothing about it, or this machine cannot try it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

from ..running.crash import TRIES
from .effects import Effect
from .evidence import Claim, Evidence
from .groups import Group

Judged = tuple[str, str]


@dataclass(frozen=True)
class Lesson:
    number: int
    text: str
    verdict: str  # confirmed, contradicted, not shown, not known, untested
    evidence: str


def _bars(e: Effect) -> str:
    return (
        f" (95 % interval {e.ratio.low:.3g} to {e.ratio.high:.3g})"
        if e.ratio.low is not None and e.ratio.high is not None
        else " (no spread known)"
    )


def _words(e: Effect) -> str:
    pairs = f" over {e.pairs} pair{'s' if e.pairs > 1 else ''}"
    return (
        f"{e.app}: {e.axis} '{e.value}' takes {e.ratio.value:.3g}x the time of '{e.best}'{pairs},"
        f" up to {e.largest:.3g}x{_bars(e)}"
    )


def _silent(found: Sequence[Effect | Claim], text: str) -> Judged:
    """Nothing speaks: why not."""
    if not any(one.known or one.published for one in found):
        return "not known", f"not known on this machine, all samples were disturbed: {text}"
    if all(one.p is None for one in found):
        return "untested", f"one sample each, no spread known: {text}"
    return "not shown", f"no effect beyond chance: {text}"


def _claimed(evidence: Evidence, number: int, need: str) -> Judged:
    """A lesson with questions of its own."""
    found = [c for c in evidence.claims if c.lesson == number]
    if not found:
        return "untested", need
    for verdict, confirms in (("confirmed", True), ("contradicted", False)):
        speaking = [c for c in found if c.confirms is confirms and evidence.speaks(c)]
        if speaking:
            most = sorted(speaking, key=lambda c: -c.size)
            return verdict, "; ".join(c.text for c in most[:3])
    return _silent(found, max(found, key=lambda c: c.size).text)


def _one(evidence: Evidence) -> Judged:
    need = "needs the same application on one thread and on a full node of two processors"
    return _claimed(evidence, 1, need)


def _two(evidence: Evidence) -> Judged:
    if not evidence.pricing.used:
        return "untested", "needs prices: --price MACHINE=PROVIDER/SHAPE"
    return _claimed(
        evidence, 2, "needs priced runs on two machines, or on several numbers of nodes"
    )


def _matters(evidence: Evidence, axes: tuple[str, ...], need: str) -> Judged:
    """A lesson of the form `this choice matters`: the largest effect of an axis is its evidence."""
    found = evidence.of(axes)
    if not found:
        return "untested", need
    speaking = [e for e in found if evidence.speaks(e)]
    top = max(speaking or found, key=lambda e: e.largest)
    return ("confirmed", _words(top)) if speaking else _silent(found, _words(top))


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


def _three(evidence: Evidence) -> Judged:
    """An older target or no forced vectorisation may win."""
    found = evidence.of(("target", "variant"))
    if not found:
        return "untested", "needs two targets or two source variants of one application"
    speaking = [e for e in found if evidence.speaks(e)]
    for e in speaking:
        if e.axis == "target" and OLDER.get(e.best) == e.value:
            return "confirmed", f"the older target '{e.best}' wins: {_words(e)}"
    for e in speaking:
        if e.axis == "variant" and e.best == "plain":
            return "confirmed", f"the plain source wins: {_words(e)}"
    if speaking:
        top = max(speaking, key=lambda e: e.ratio.value)
        return "contradicted", f"here the wider or forced vectorisation wins: {_words(top)}"
    return _silent(found, _words(max(found, key=lambda e: e.ratio.value)))


# A hybrid has two ranks of two threads at least.
HYBRID_CORES = 4


def _four(evidence: Evidence) -> Judged:
    most = max((int(m.get("cores") or 0) for m in evidence.pricing.machines.values()), default=0)
    if not any(c.lesson == 4 for c in evidence.claims) and 0 < most < HYBRID_CORES:
        return (
            "untested",
            f"cannot be tried here: a hybrid needs {HYBRID_CORES} cores, the largest machine of"
            f" these results has {most}",
        )
    need = "needs a hybrid split and another one with the same number of workers"
    return _claimed(evidence, 4, need)


def _five(evidence: Evidence) -> Judged:
    verdict, text = _matters(
        evidence,
        ("mpi", "interconnect", "framework", "launcher"),
        "needs two MPIs, frameworks, fabrics or launchers",
    )
    one_node = max((g.config.nodes for g in evidence.groups), default=1) == 1
    if verdict == "not shown" and one_node:
        text += "; one node only, where the lesson speaks of communication at scale"
    return verdict, text


def _six(evidence: Evidence) -> Judged:
    need = "needs two file systems: name directories under `filesystems:` in the site file"
    return _matters(evidence, ("filesystem",), need)


def _worse_default(found: list[Effect], speaking: list[Effect], worse: list[Effect]) -> str:
    """Where the default (no binding) is worse. The widest effect of any binding stands beside the
    default's own: what a wrong choice can cost."""
    about_default = {e.app for e in found if "none" in (e.value, e.best)}
    spared = sorted(about_default - {e.app for e in worse})
    top = max(worse, key=lambda e: e.ratio.value)
    widest = max(speaking, key=lambda e: e.largest)
    text = _words(top) + (f"; {_words(widest)}" if widest is not top else "")
    if spared:
        text += f"; the default (none) is not measurably worse for {', '.join(spared)}"
    return text


def _seven(evidence: Evidence) -> Judged:
    """Defaults are far from optimal; auto with block:block is usually great."""
    found = evidence.of(("binding",))
    if not found:
        return "untested", "needs two bindings of one application"
    verdict, text = _default_binding(evidence, found)
    for e in evidence.of(("distribution",)):
        if evidence.speaks(e):
            text += f"; {e.app}: distribution '{e.best}' is best, '{e.value}' costs up to"
            text += f" {e.largest:.3g}x"
    return verdict, text


def _default_binding(evidence: Evidence, found: list[Effect]) -> Judged:
    """Whether the default (no binding) is worse."""
    speaking = [e for e in found if evidence.speaks(e)]
    worse = [e for e in speaking if e.value == "none"]
    if worse:
        return "confirmed", _worse_default(found, speaking, worse)
    against = [e for e in speaking if e.best == "none"]
    if against:
        top = max(against, key=lambda e: e.ratio.value)
        return "contradicted", f"{_words(top)}; the default (none) is best here"
    verdict, text = _silent(found, _words(max(found, key=lambda e: e.largest)))
    if verdict == "not shown":
        text += "; the default (none) is not measurably worse here"
    return verdict, text


def _does_not_run(g: Group) -> bool:
    """A build that failed, or a crash that is more than chance."""
    failure = g.failure
    if failure is None:
        return False
    if failure.status.value == "build failed" or failure.source:
        return True
    crashes = sum(s.status.value == "crashed" for s in g.samples)
    return crashes >= TRIES or "Confirmed" in (failure.diagnosis or "")


def _eight(evidence: Evidence) -> Judged:
    need = "needs two compilers or two optimisation levels"
    verdict, text = _matters(evidence, ("compiler", "optimisation"), need)
    broken = [g for g in evidence.groups if _does_not_run(g)]
    for g in broken[:1]:
        assert g.failure
        said = (g.failure.diagnosis or "")[:120]
        text += f"; {g.config.app} {g.label}: {g.failure.status.value} ({said})"
        verdict = "confirmed"
    return verdict, text


LESSONS: tuple[tuple[str, Callable[[Evidence], Judged]], ...] = (
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


def judge_lessons(evidence: Evidence) -> list[Lesson]:
    return [Lesson(i + 1, text, *judge(evidence)) for i, (text, judge) in enumerate(LESSONS)]
