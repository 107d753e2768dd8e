"""What the campaign's own rule of stopping does to the verdicts: the real loop of rounds on a
simulated machine, judged by the real answers. Nothing here knows how many runs there will be."""

import time

import numpy as np
import pytest

from hpcaas.answers.advise import advise
from hpcaas.answers.costs import Pricing
from hpcaas.model import Configuration, ResultSet, Sample, Status
from hpcaas.plan import REPEATS, Plan, Planned
from hpcaas.running.campaign import FINALISTS, Campaign, Options, _State
from hpcaas.search import Searcher
from hpcaas.stats import paired

DATA_SETS = 600
HIGHEST = 0.05
MACHINE = {"id": "m", "cores": 4}
RUN = Sample(
    id="", campaign="c", configuration=Configuration(app="toy", size="s"), machine="m", repeat=0,
    status=Status.OK,
)  # fmt: skip


class Simulated(Campaign):
    """A campaign whose runs are drawn. `draw(run, setting)`: seconds of the n-th run of all."""

    def __init__(self, draw, seed):  # without a directory, a journal and a lock
        self.options, self.state, self.draw = Options(seed=seed), _State(), draw
        self.runs, self._measuring_s = 0, 0.0
        self.progress = type("Progress", (), {})()
        self._started = time.monotonic()

    def _execute(self, batch, searched=False):
        for planned in batch:
            key = planned.config.key()
            before = self.state.samples.setdefault(key, [])
            seconds = float(self.draw(self.runs, planned.config.mpi))
            drawn = {"configuration": planned.config, "repeat": len(before), "searched": searched}
            drawn |= {"id": f"{key}-{len(before)}", "seconds": seconds, "wall_seconds": seconds}
            before.append(RUN.model_copy(update=drawn))
            self.runs += 1
            self._measuring_s += seconds


def settings(count):
    config = [Configuration(app="toy", size="s", mpi=f"mpi{i}") for i in range(count)]
    return Plan([Planned(c, 10.0, False) for c in config], [], REPEATS, "full")


def judged(samples):
    results = ResultSet(machines={"m": MACHINE})
    results.samples = [s for some in samples.values() for s in some]
    return advise(results, Pricing({}, {}, results.machines))


def claims(advice):
    """Whether a reader would learn something: a lesson, a significant effect, a sure answer."""
    evidence = advice.evidence
    return (
        any(v.verdict in ("confirmed", "contradicted") for v in advice.lessons)
        or any(evidence.significant(e) for e in evidence.effects)
        or any(words.startswith("sure") for words in advice.sure.values())
    )


def normal(deviation):
    return lambda rng, run: 10.0 * (1.0 + rng.normal(0.0, deviation))


def two_modes(rng, run):
    """Three of ten runs are 9 % slower: the data on which stopping by the spread claimed 14.7 %."""
    return 10.0 * (1.0 + rng.normal(0.0, 0.01)) * (1.09 if rng.random() < 0.3 else 1.0)


def drift(rng, run):
    """The machine becomes a tenth slower from the first to the last run."""
    return 10.0 * (1.0 + rng.normal(0.0, 0.02)) * (1.0 + 0.1 * run / (2 * REPEATS))


def outliers(rng, run):
    """One run of twenty takes up to half as long again."""
    late = rng.uniform(1.1, 1.5) if rng.random() < 0.05 else 1.0
    return 10.0 * (1.0 + rng.normal(0.0, 0.03)) * late


MACHINES = {
    "3 % of noise": normal(0.03),
    "5 % of noise": normal(0.05),
    "two modes": two_modes,
    "drift": drift,
    "outliers": outliers,
}


def campaigns(draw, slower=1.0, count=2):
    """The share of campaigns that claim something. `slower`: factor of the second setting."""
    plan, found = settings(count), 0
    for seed in range(DATA_SETS):
        rng = np.random.default_rng(seed)
        simulated = Simulated(
            lambda run, mpi: draw(rng, run) * (slower if mpi == "mpi1" else 1.0), seed
        )
        simulated._rounds(plan.runs, plan)
        assert all(len(s) == REPEATS for s in simulated.state.samples.values())
        found += claims(judged(simulated.state.samples))
    return found / DATA_SETS


@pytest.mark.parametrize("machine", MACHINES)
def test_equal_settings_hardly_ever_make_a_lesson(machine):
    """Bug guarded against: repeating until the interval was narrow, and then testing as if the
    number had been fixed, claimed a lesson in 14.7 % of the campaigns with two modes."""
    share = campaigns(MACHINES[machine])
    print(f"{machine}: {share:.1%} false lessons")
    assert share <= HIGHEST


def test_a_difference_of_5_percent_is_found_under_a_noise_of_3_percent():
    share = campaigns(normal(0.03), slower=1.05)
    print(f"power: {share:.1%}")
    assert REPEATS <= 10 and share >= 0.8


def test_what_a_search_liked_is_judged_by_fresh_runs_only():
    """A search runs what was fast once again: its own runs would make equal settings differ."""
    plan, false = settings(6), 0
    for seed in range(DATA_SETS // 6):
        rng = np.random.default_rng(seed)
        simulated = Simulated(lambda run, mpi: two_modes(rng, run), seed)
        simulated.options.budget_s = 10.0 * 6 * REPEATS * 1.5
        simulated._searching(plan.runs, plan, Searcher(plan, seed).next)
        fresh = [[s for s in some if not s.searched] for some in simulated.state.samples.values()]
        assert sorted(map(len, fresh))[-FINALISTS:] == [REPEATS] * FINALISTS
        advice = judged(simulated.state.samples)
        false += claims(advice)
        for group in advice.evidence.groups:
            assert group.known is any(not s.searched for s in group.samples)
    assert false <= HIGHEST * DATA_SETS / 6


def test_the_rounds_are_shuffled_so_that_a_drift_falls_on_all_alike():
    plan, order = settings(2), []
    simulated = Simulated(lambda run, mpi: order.append(mpi) or 1.0, 3)
    simulated._rounds(plan.runs, plan)
    rounds = [tuple(order[i : i + 2]) for i in range(0, len(order), 2)]
    assert all(sorted(one) == ["mpi0", "mpi1"] for one in rounds) and len(set(rounds)) == 2


class UntilDifferent(Simulated):
    """A rule that looks: goes on until the two differ, for at most thirty rounds."""

    def _wanted(self, planned, plan):
        some = [[s.seconds for s in of] for of in self.state.samples.values()]
        rounds = min(map(len, some)) if len(some) > 1 else 0
        if rounds < 3 or len(set(map(len, some))) > 1:
            return len(self.state.samples.get(planned.config.key(), [])) <= rounds
        differences = np.log(some[1][:rounds]) - np.log(some[0][:rounds])
        return rounds < 30 and paired([differences]).judged > HIGHEST


def test_the_simulation_sees_a_rule_that_looks_at_the_times():
    plan, found = settings(2), 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        simulated = UntilDifferent(lambda run, mpi: two_modes(rng, run), seed)
        simulated._rounds(plan.runs, plan)
        found += claims(judged(simulated.state.samples))
    assert found > 2 * HIGHEST * 100
