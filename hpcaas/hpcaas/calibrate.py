"""How often the answers are wrong, on drawn results of known truth.

Each case draws sets of results as a campaign would leave them, in rounds of random order, and has
them judged by the same code that answers users. A *false* answer is any claim where there is
nothing to find (an effect that is called significant, a lesson that is confirmed or contradicted,
an answer that is called sure, a machine that a comparison calls faster), and any claim that names
the wrong side. An answer is *found* where there is something, and a claim names the right side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Callable, Iterator, Optional

import numpy as np

from .answers.advise import Advice, advise
from .answers.compare import compare, split_by_machine
from .answers.costs import Pricing
from .model import Configuration, Load, ResultSet, Sample, Status, merge
from .plan import REPEATS

SETS = 400
QUICK = 60
FALSE = 0.05  # of the sets of a case, at most
POWER = 0.80  # of the sets of a case with a difference of 5 %, at least
BEGIN = datetime(2026, 1, 5, tzinfo=timezone.utc)
SECONDS = 10.0  # of a run, before anything makes it longer

Random = np.random.Generator
# (random numbers, number of the run on its instance) -> factor of its time
Noise = Callable[[Random, int], float]


def normal(deviation: float) -> Callable[[Random], Noise]:
    return lambda _: lambda rng, run: float(np.exp(rng.normal(0.0, deviation)))


def two_modes(_: Random) -> Noise:
    """Three of ten runs are 9 % slower."""
    return lambda rng, run: float(
        np.exp(rng.normal(0.0, 0.01)) * (1.09 if rng.random() < 0.3 else 1.0)
    )


def heavy_tails(_: Random) -> Noise:
    """Student's t with two degrees of freedom: it has no variance."""
    return lambda rng, run: float(np.exp(0.02 * np.clip(rng.standard_t(2), -20, 20)))


def outlier(_: Random) -> Noise:
    """One run of twenty takes up to half as long again."""
    return lambda rng, run: float(
        np.exp(rng.normal(0.0, 0.03)) * (rng.uniform(1.1, 1.5) if rng.random() < 0.05 else 1.0)
    )


def alike(_: Random) -> Noise:
    """Each run resembles the one before: autocorrelation 0.8."""
    state = [0.0]

    def noise(rng: Random, run: int) -> float:
        fresh = rng.normal(0.0, 0.03)
        state[0] = fresh if run == 0 else 0.8 * state[0] + 0.6 * fresh
        return float(np.exp(state[0]))

    return noise


def episodes(draw: Random) -> Noise:
    """A neighbour that comes for 5 to 40 runs and takes 15 %."""
    begin = int(draw.integers(-20, 20))
    end = begin + int(draw.integers(5, 41))
    return lambda rng, run: float(
        np.exp(rng.normal(0.0, 0.02)) * (1.15 if begin <= run < end else 1.0)
    )


def drift(_: Random) -> Noise:
    """The machine becomes a tenth slower from the first to the twentieth run."""
    return lambda rng, run: float(np.exp(rng.normal(0.0, 0.02)) * (1.0 + 0.1 * run / 20))


@dataclass(frozen=True)
class Case:
    name: str
    shapes: int = 1  # 1: two choices on the instances of one shape; 2: two shapes, one choice
    instances: int = 1  # of each shape
    truth: float = 1.0  # time of the second over the first
    noise: Callable[[Random], Noise] = field(default=normal(0.03))
    spread: float = 0.0  # standard deviation of instances
    taste: float = 0.0  # of what an instance adds to the second choice
    choices: int = 2
    clock: float = 0.0  # share of the runs in which the application's clock is set
    disturbed: float = 0.0  # share of the runs that others keep waiting
    offset: float = 0.0  # of the second shape's first instance alone
    promised: str = ""

    @property
    def where(self) -> str:
        plural = "s" if self.instances > 1 else ""
        if self.shapes == 1:
            return f"choices, {self.instances} instance{plural}"
        return f"shapes, {self.instances} instance{plural} each"


NEVER = "never sure"
CASES = (
    # Choices on one machine: the answer is about it.
    Case("equal", promised="<= 5 % false"),
    Case("equal, 5 % of noise", noise=normal(0.05)),
    Case("equal, two modes", noise=two_modes),
    Case("equal, heavy tails", noise=heavy_tails),
    Case("equal, an outlier", noise=outlier),
    Case("equal, runs like the one before", noise=alike),
    Case("equal, episodes of a neighbour", noise=episodes),
    Case("equal, drift", noise=drift),
    Case("equal, clock set in a run of ten", clock=0.1),
    Case("equal, six choices, half the runs disturbed", choices=6, disturbed=0.5),
    Case("difference of 5 %", truth=1.05),
    # Choices on three: the answer is about the shape.
    Case("equal", instances=3, spread=0.03),
    Case("equal, each instance likes another", instances=3, spread=0.03, taste=0.015),
    Case("equal, each likes another much", instances=3, spread=0.03, taste=0.06),
    Case("equal, two modes", instances=3, spread=0.03, noise=two_modes),
    Case("equal, heavy tails", instances=3, spread=0.03, noise=heavy_tails),
    Case("equal, an outlier", instances=3, spread=0.03, noise=outlier),
    Case("equal, runs like the one before", instances=3, spread=0.03, noise=alike),
    Case("equal, episodes of a neighbour", instances=3, spread=0.03, noise=episodes),
    Case("equal, drift", instances=3, spread=0.03, noise=drift),
    Case("equal, clock set in a run of ten", instances=3, spread=0.03, clock=0.1),
    Case("difference of 1 %", instances=3, spread=0.03, truth=1.01),
    Case("difference of 2 %", instances=3, spread=0.03, truth=1.02),
    Case("difference of 5 %", instances=3, spread=0.03, truth=1.05,
         promised="<= 5 % false, >= 80 % found"),
    # Machines: what one or two show says nothing of the next.
    Case("equal", 2, 1, spread=0.03, promised=NEVER),
    Case("equal, offset of 1 %", 2, 1, offset=0.01, promised=NEVER),
    Case("equal, episodes of a neighbour", 2, 1, noise=episodes, promised=NEVER),
    Case("equal, runs like the one before", 2, 1, noise=alike, promised=NEVER),
    Case("difference of 20 %", 2, 1, spread=0.03, truth=1.2, promised=NEVER),
    Case("equal", 2, 2, spread=0.03, promised=NEVER),
    # Shapes.
    Case("equal", 2, 3, spread=0.03),
    Case("equal, two modes", 2, 3, spread=0.03, noise=two_modes),
    Case("equal, heavy tails", 2, 3, spread=0.03, noise=heavy_tails),
    Case("equal, an outlier", 2, 3, spread=0.03, noise=outlier),
    Case("equal, runs like the one before", 2, 3, spread=0.03, noise=alike),
    Case("equal, episodes of a neighbour", 2, 3, spread=0.03, noise=episodes),
    Case("equal, drift", 2, 3, spread=0.03, noise=drift),
    Case("equal, clock set in a run of ten", 2, 3, spread=0.03, clock=0.1),
    Case("equal", 2, 10, spread=0.03),
    Case("difference of 5 %", 2, 3, spread=0.03, truth=1.05),
    Case("difference of 5 %", 2, 10, spread=0.03, truth=1.05),
    Case("difference of 10 %", 2, 3, spread=0.03, truth=1.1),
    Case("difference of 20 %", 2, 3, spread=0.03, truth=1.2),
)  # fmt: skip


def _sample(
    case: Case, machine: str, choice: int, repeat: int, at: datetime, seconds: float, rng: Random
) -> Sample:
    wall, load = seconds * 1.01, Load()
    if case.disturbed and rng.random() < case.disturbed:
        waited = float(rng.uniform(0.0, 0.3))
        seconds, wall = seconds / (1.0 - waited), wall / (1.0 - waited)
        load = Load(waited_fraction=waited, other_fraction=waited)
    if case.clock and rng.random() < case.clock:
        seconds = max(0.1, seconds + float(rng.normal(0.0, 5.0)))
    return Sample(
        id=f"{machine}.{choice}.{repeat}",
        campaign="drawn",
        configuration=Configuration(app="drawn", size="s", mpi=f"mpi{choice}"),
        machine=machine,
        repeat=repeat,
        status=Status.OK,
        started=at.isoformat(timespec="milliseconds"),
        seconds=seconds,
        wall_seconds=wall,
        load=load,
        clock_s=0.0,
    )


def _instance(case: Case, shape: int, number: int, rng: Random) -> Iterator[Sample]:
    """The runs of one instance, in rounds of random order."""
    speed = float(np.exp(rng.normal(0.0, case.spread))) if case.spread else 1.0
    if shape == 1:
        speed *= case.truth * (1.0 + (case.offset if number == 0 else 0.0))
    choices = case.choices if case.shapes == 1 else 1
    taste = [1.0] * choices
    if case.shapes == 1:
        taste[1] = case.truth * float(np.exp(rng.normal(0.0, case.taste)))
    noise, run = case.noise(rng), 0
    at = BEGIN + timedelta(hours=float(rng.uniform(0, 100)))
    for repeat in range(REPEATS):
        for choice in rng.permutation(choices):
            seconds = SECONDS * speed * taste[choice] * noise(rng, run)
            name = f"{'ab'[shape]}{number}"
            yield _sample(case, name, int(choice), repeat, at, seconds, rng)
            run, at = run + 1, at + timedelta(seconds=seconds + 1.0)


def draw(case: Case, seed: int) -> ResultSet:
    rng, results = np.random.default_rng(seed), ResultSet()
    for shape in range(case.shapes):
        for number in range(case.instances):
            name = f"{'ab'[shape]}{number}"
            kind = f"drawn/{'ab'[shape]}@here"
            results.machines[name] = {"id": name, "cores": 4, "shape": kind, "instance": name}
            results.samples += _instance(case, shape, number, rng)
    return merge([results])


@dataclass
class Said:
    """What was claimed of one set."""

    right: bool = False
    wrong: bool = False

    def claim(self, better: Optional[bool], truth: float) -> None:
        """`better`: whether the first is said to be better; None: something else is said."""
        if truth == 1.0 or better is False:
            self.wrong = True
        elif better:
            self.right = True


def _by_advice(said: Said, case: Case, advice: Advice) -> None:
    first = "mpi0" if case.shapes == 1 else "drawn/a@here"
    for effect in advice.evidence.effects:
        if advice.evidence.significant(effect):
            said.claim(effect.best == first, case.truth)
    for decision in advice.decisions:
        if decision.first and advice.sure[decision.key].startswith("sure"):
            own = getattr(decision.first, "group").config.mpi
            said.claim((own if case.shapes == 1 else decision.first.machine) == first, case.truth)
    if case.truth == 1.0 and any(
        lesson.verdict in ("confirmed", "contradicted") for lesson in advice.lessons
    ):
        said.claim(None, case.truth)


def _part(results: ResultSet, shape: str) -> ResultSet:
    """All instances of a shape."""
    machines = {m: d for m, d in results.machines.items() if m.startswith(shape)}
    samples = [s for s in results.samples if s.machine in machines]
    return results.model_copy(update={"machines": machines, "samples": samples})


def _by_comparison(said: Said, case: Case, results: ResultSet) -> None:
    """All instances of a shape against all of the other."""
    found = compare(_part(results, "a"), _part(results, "b"), ("a", "b"))
    for one in found.differences:
        if one.verdict.endswith("faster"):
            said.claim(one.verdict == "a faster", case.truth)
    if any("(significant" in line for line in found.summary):
        said.claim(None if case.truth == 1.0 else True, case.truth)


def _by_twins(said: Said, results: ResultSet) -> None:
    """Two instances of one shape."""
    one, two = (split_by_machine(results, name) for name in ("a0", "a1"))
    if one and two:
        within = compare(one, two, ("a0", "a1"))
        said.wrong |= any(d.verdict.endswith("faster") for d in within.differences)


def judge(case: Case, seed: int) -> Said:
    results, said = draw(case, seed), Said()
    _by_advice(said, case, advise(results, Pricing({}, {}, results.machines)))
    if case.shapes == 2:
        _by_comparison(said, case, results)
    _by_twins(said, results)
    return said


@dataclass(frozen=True)
class Row:
    case: Case
    sets: int
    false: float
    found: Optional[float]  # None: there is nothing to find

    @property
    def kept(self) -> bool:
        limit = 0.0 if self.case.promised == NEVER else FALSE
        needs = POWER if "found" in self.case.promised else 0.0
        return self.false <= limit and (self.found or 0.0) >= needs


def run(case: Case, sets: int, seed: int = 0) -> Row:
    said = [judge(case, seed + number) for number in range(sets)]
    false = sum(one.wrong for one in said) / sets
    found = None if case.truth == 1.0 else sum(one.right for one in said) / sets
    return Row(case, sets, false, found)


HEAD = ("judged", "truth and noise", "false", "found", "promised")


def cells(row: Row) -> tuple[str, ...]:
    promised = row.case.promised or "<= 5 % false"
    found = "-" if row.found is None else f"{row.found:.1%}"
    return (row.case.where, row.case.name, f"{row.false:.1%}", found, promised)


def as_markdown(rows: list[Row]) -> str:
    lines = [HEAD, ("--",) * len(HEAD), *map(cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
