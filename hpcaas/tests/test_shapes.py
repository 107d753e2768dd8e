"""Answers about a shape: instances are what is repeated, and few of them say little."""

import copy
import re

import pytest
from test_answers import c, made, of_shape
from test_trust import free, rows
from typer.testing import CliRunner

from hpcaas import calibrate
from hpcaas.answers.advise import advise, as_text
from hpcaas.answers.compare import Same, compare
from hpcaas.answers.costs import price_machines
from hpcaas.answers.drift import drifts
from hpcaas.answers.groups import groups
from hpcaas.cli import app
from hpcaas.errors import BadInput
from hpcaas.model import Load, merge, renamed
from hpcaas.report.page import page

ONE = {c(mpi="a"): 10.0}


def dated(results, hour=0):
    for n, sample in enumerate(results.samples):
        sample.started = f"2026-01-05T{hour:02d}:{n:02d}:00.000+00:00"
    return results


def two_shapes(instances, factor=1.2, **more):
    """Two shapes with instances of different speed; the second takes `factor` of the time."""
    speeds = [1.0, 0.97, 1.03, 1.02, 0.98][:instances]
    a = of_shape(ONE, "a", instances, 1, speeds, **more)
    b = of_shape({c(mpi="a"): 10.0 * factor}, "b", instances, 2, speeds, **more)
    return merge([a, b])


@pytest.mark.parametrize("instances, sure", [(1, False), (2, False), (3, True)])
def test_a_shape_needs_three_instances(instances, sure):
    """Bug guarded against: two instances of equal shapes, each with its own speed, were called
    different and sure in 78 % of the cases."""
    results = two_shapes(instances)
    advice = advise(results, free(results))
    (decision,) = advice.decisions
    assert decision.first.machine == "p/a@r"
    assert advice.sure[decision.key].startswith("sure") is sure
    assert bool(advice.about) is not sure
    assert any(e.startswith("sure") for e in advice.sure.values()) is sure


def test_one_line_says_what_is_missing_and_what_it_costs():
    results = two_shapes(1)
    catalogue = rows({"shape": "a", "minimum_s": 3600.0}, {"shape": "b", "minimum_s": 3600.0})
    pricing = price_machines(results, catalogue, [])
    advice = advise(results, pricing)
    # 20 % at 3 % between instances: three of each, two more of each, an hour at 3.60 each.
    assert advice.about.startswith("This is about these machines, not their shapes")
    assert re.search(r"3 of each would settle (19|20|21)\.\d%, if instances differ", advice.about)
    assert "4 more, about 14.40 USD for 4 hours" in advice.about
    shown = page(results, pricing)
    assert shown.count("id='about'") == 1 and "4 more, about 14.40 USD" in shown
    assert advice.about in as_text(advice)


def test_a_price_of_all_regions_is_that_of_each():
    results = made(ONE)
    results.machines["m"] |= {"shape": "p/s@somewhere"}
    catalogue = rows({"region": "all"})
    assert price_machines(results, catalogue, []).row("m").per_hour == 3.6
    assert "no price for its shape" in " ".join(price_machines(results, rows({}), []).remarks())


def test_an_answer_about_one_machine_says_so():
    results = made({c(mpi="a"): 10.0, c(mpi="b"): 12.0})
    advice = advise(results, free(results))
    assert advice.about.startswith("This is about this machine, not about others of its shape: 2")
    (decision,) = advice.decisions
    assert advice.sure[decision.key] == "sure: more than chance, on this machine"
    assert advice.evidence.words(advice.evidence.effects[0]) == "significant on this machine"


def test_machines_that_one_row_prices_are_instances_of_one_shape():
    results = merge([made(ONE, "x", seed=1), made({c(mpi="a"): 10.3}, "y", seed=2)])
    pricing = price_machines(results, rows({}), ["x=p/s", "y=p/s"])
    (group,) = [g for g in advise(results, pricing).evidence.groups]
    assert group.machine == "p/s@r" and set(group.on) == {"x", "y"}


def test_an_effect_inside_instances_is_paired_and_tested_across_them():
    """Each instance has a speed of its own, ten times the effect; the pairs do not care."""
    times = {c(mpi="a"): 10.0, c(mpi="b"): 10.5}
    results = of_shape(times, "a", 3, 3, (1.0, 1.5, 0.7), spread=0.01, repeats=10)
    advice = advise(results, free(results))
    (effect,) = advice.evidence.effects
    assert effect.ratio.value == pytest.approx(1.05, abs=0.01) and effect.ratio.instances == 3
    assert advice.evidence.words(effect) == "significant"
    assert effect.ratio.low > 1.0 and effect.ratio.freedom == 2


def test_the_test_across_instances_is_what_scipy_does_on_their_means():
    import numpy as np
    from scipy.stats import ttest_1samp

    from hpcaas.stats import between, paired

    rng = np.random.default_rng(4)
    parts = [rng.normal(m, 0.001, 8) for m in (0.03, 0.08, 0.05)]
    ours, theirs = paired(parts), ttest_1samp([p.mean() for p in parts], 0.0)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-9)
    from scipy.stats import ttest_ind

    a, b = ([np.exp(rng.normal(m, 1e-4, 5)) for m in side] for side in ((0, 1, 2), (3, 4, 5.5, 6)))
    means = [[float(np.log(p).mean()) for p in side] for side in (a, b)]
    welch = ttest_ind(means[1], means[0], equal_var=False)
    assert between(a, b).p == pytest.approx(welch.pvalue, rel=1e-6)


def test_the_nested_test_agrees_with_a_mixed_model():
    """Variance of the effect as statsmodels estimates it with a random effect of the instance."""
    import numpy as np
    import pandas as pd
    import statsmodels.formula.api as smf

    from hpcaas.stats import paired

    rng = np.random.default_rng(2)
    parts = [rng.normal(m, 0.01, 10) for m in rng.normal(0.05, 0.03, 8)]
    table = pd.DataFrame(
        [(i, float(d)) for i, part in enumerate(parts) for d in part], columns=["instance", "d"]
    )
    fit = smf.mixedlm("d ~ 1", table, groups="instance").fit(reml=True)
    ours = paired(parts)
    assert np.log(ours.value) == pytest.approx(float(fit.params["Intercept"]), rel=1e-6)
    assert ours.error == pytest.approx(float(fit.bse["Intercept"]), rel=0.01)


def test_instances_that_happen_to_be_close_are_no_proof():
    """Three means that agree by chance must not make an interval narrower than their rounds do."""
    from hpcaas.stats import paired

    noisy = [[-0.05, 0.0502], [-0.05, 0.0501], [0.05, -0.0499]]
    assert paired(noisy).p > 0.5 and paired([[0.0001], [0.00010001], [0.0001]]).p > 0.05


def test_merge_keeps_two_instances_that_have_one_name(tmp_path):
    """The same command on two rented machines of one shape, without a name for either."""
    sets = []
    for n in range(3):
        one = made(ONE, "c7a-large", seed=n)
        one.machines["c7a-large"] |= {"shape": "p/a@r", "instance": f"{n}{n}{n}{n}{n}{n}aa"}
        one.machines["c7a-large"]["host"] = f"h{n}"
        sets.append(one)
        dated(one, n)
    both = merge([*sets, copy.deepcopy(sets[1])])
    assert set(both.machines) == {"c7a-large", "c7a-large-111111", "c7a-large-222222"}
    assert len(both.samples) == 15
    (group,) = groups(both)
    assert len(group.on) == 3
    both.save(tmp_path / "all.json")
    again = merge([sets[2], both, sets[0]])  # in another order: the same three
    assert {d["instance"][0] for d in again.machines.values()} == {"0", "1", "2"}
    assert len(again.machines) == 3 and len(again.samples) == 15
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "all.json")]).output
    assert "c7a-large-111111 (one p/a@r): toy s: 5 runs" in shown


def test_one_instance_under_two_names_is_one():
    one, other = made(ONE, "x", seed=1), made(ONE, "y", seed=2)
    for name, results in (("x", one), ("y", other)):
        results.machines[name] |= {"shape": "p/a@r", "instance": "same"}
    (group,) = groups(merge([one, other]))
    assert list(group.on) == ["same"]


def test_two_instances_of_one_shape_are_the_same_shape():
    """Bug guarded against: an offset of 1 % between two instances was called a faster machine in
    46.5 % of the cases."""
    results = of_shape(ONE, "a", 2, 1, (1.0, 1.3))
    from hpcaas.answers.compare import split_by_machine

    one, two = (split_by_machine(results, name) for name in ("a0", "a1"))
    found = compare(one, two, ("a0", "a1"))
    assert [d.verdict for d in found.differences] == ["the same shape"]
    assert found.summary[0].startswith("a0 and a1 are instances of the same shape, p/a@r")
    assert not any("(significant" in line for line in found.summary)


@pytest.mark.parametrize("instances, verdict", [(1, "these machines only"), (3, "a faster")])
def test_a_comparison_of_shapes_needs_three_instances_too(instances, verdict):
    sides = [
        of_shape({c(mpi="a"): t}, shape, instances, seed)
        for shape, t, seed in (("a", 10.0, 1), ("b", 13.0, 2))
    ]
    found = compare(*sides, ("a", "b"))
    assert [d.verdict for d in found.differences] == [verdict]
    assert any("(significant" in line for line in found.summary) is (instances == 3)


def test_a_drift_is_shown():
    results = made({c(mpi="a"): 10.0, c(mpi="b"): 10.0}, spread=0.01, repeats=20)
    for n, sample in enumerate(sorted(results.samples, key=lambda s: s.repeat)):
        sample.started = f"2026-01-05T{n // 4:02d}:{15 * (n % 4):02d}:00+00:00"
        sample.seconds *= 1.0 + 0.1 * n / 40
    (line,) = drifts(groups(results))
    assert re.match("m: drift: its runs became (9|10|11)% slower over 9.8 hours", line)
    shown = page(results, free(results))
    assert line in shown and "in 10 of the 24 hours of the day" in shown
    still = made({c(mpi="a"): 10.0}, spread=0.01, repeats=20)
    assert drifts(groups(still)) == []


def test_a_machine_says_which_it_is_and_of_what_shape():
    from hpcaas.machine import describe

    named, plain = describe(shape="p/a.large@r"), describe()
    assert named["shape"] == "p/a.large@r" and named["instance"] == plain["instance"]
    assert named["id"] == f"a.large-r-{named['instance'][:6]}" and "shape" not in plain
    assert describe("own", "p/a.large")["id"] == "own"


@pytest.mark.parametrize("shape", ["a", "p/", "p/a@", "p a/b"])
def test_a_shape_that_is_none_is_refused(shape):
    told = CliRunner().invoke(app, ["measure", "--shape", shape, "--apps", "montecarlo"])
    assert f"'{shape}' is not PROVIDER/NAME@REGION" in str(told.exception)


# What is not comparable


def other_input(**said):
    return made({c(mpi="b"): 7.0, c(mpi="a"): 7.1}, seed=2, **said)


def distinct(results, name):
    """The same runs under other ids."""
    for sample in results.samples:
        sample.id += name
    return results


@pytest.mark.parametrize(
    "one, two, words",
    [
        ({"input_hash": "x"}, {"input_hash": "y"}, "input"),
        ({"app_version": "1.0"}, {"app_version": "2.0"}, "version"),
        ({"problem": "x"}, {"problem": "y"}, "input"),
        ({"source_hash": "x"}, {"source_hash": "y"}, "version"),
    ],
)
@pytest.mark.parametrize("machine", ["m", "n"])
def test_different_inputs_and_versions_are_never_compared(one, two, words, machine):
    """Bug guarded against: times of two inputs were compared and called sure, and on one machine
    pooled, 10 s and 7 s to 8.5."""
    first = made({c(mpi="a"): 10.0, c(mpi="b"): 10.1}, **one)
    second = distinct(other_input(**two), "-two")
    if machine != "m":
        second = renamed(second, machine)
    both = merge([first, second])
    advice = advise(both, free(both))
    assert [words in d.app for d in advice.decisions] == [True, True, False]  # and the mix
    for decision in advice.decisions[:2]:
        assert decision.first.machine == decision.second.machine  # of its own runs only
    assert not [g for g in advice.evidence.groups if 7.5 <= g.seconds <= 9.5]
    assert "processor" not in {e.axis for e in advice.evidence.effects}
    assert page(both, free(both)).count("<section id='app") == 2
    found = compare(first, second)
    assert not found.differences and "best against best" not in " ".join(found.summary)
    assert f"{words}s differ" in " ".join(found.refused)


def test_versions_are_compared_where_that_is_asked_for():
    one, two = made(ONE, app_version="1.0"), made(ONE, app_version="2.0", seed=2)
    assert not compare(one, two).differences
    assert len(compare(one, two, same=Same(version=True)).differences) == 1


def test_decompositions_of_one_input_are_compared():
    """The files for two ranks are not those for one, and yet it is one problem."""
    sets = [
        made({c(ranks=ranks): 10.0 / ranks}, input_hash=f"files-{ranks}", seed=ranks)
        for ranks in (1, 2)
    ]
    both = merge([sets[0], distinct(sets[1], "-two")])
    assert len(groups(both).per_app) == 1


def test_a_library_rebuilt_for_another_mpi_is_no_other_version():
    """OpenFOAM's libPstream has a source here, the application has not."""
    one = made({c(mpi="openmpi"): 10.0}, app_version="1912")
    two = made({c(mpi="mpich"): 11.0}, app_version="1912", source_hash="libPstream", seed=2)
    both = merge([one, distinct(two, "-two")])
    assert [e.axis for e in advise(both, free(both)).evidence.effects] == ["mpi"]


def test_answers_that_differ_are_not_compared_between_two_files():
    from hpcaas.model import Answer

    one, two = made(ONE), made(ONE, seed=2)
    for results, value in ((one, 1.0), (two, 2.0)):
        for sample in results.samples:
            sample.answers = {"sum": Answer(value=value, tolerance=1e-6)}
    found = compare(one, two)
    assert not found.differences
    assert any("answers differ (sum is 1 and 2)" in line for line in found.refused)
    assert not any("best against best" in line for line in found.summary)


def test_any_target_compares_builds_for_each_machines_own():
    """Bug guarded against: the short name of a configuration was kept when it was copied, and the
    copy without its target was called by the target's name."""
    one, two = made({c(target="znver3"): 1.0}), made({c(target="znver4"): 1.0})
    assert not compare(one, two).differences
    assert len(compare(one, two, same=Same(target=True)).differences) == 1
    config = one.samples[0].configuration
    assert config.key() != config.model_copy(update={"target": None}).key()


# What cannot be, and what is there twice


def test_a_whole_run_shorter_than_its_part_is_no_sample():
    """Bug guarded against: 0.01 s of wall-clock beside 10 s by the application's own clock was
    taken and priced."""
    results = made({c(mpi="a"): 10.0, c(mpi="b"): 10.0})
    for sample in results.samples[:5]:
        sample.wall_seconds = 0.01
    read = merge([results])
    (decision,) = advise(read, free(read)).decisions
    assert decision.first.group.config.mpi == "b"
    assert "impossible times" in page(read, free(read))
    assert any("5 runs have impossible times" in note for note in read.notes)


def test_copies_under_another_campaigns_name_count_once():
    """Bug guarded against: renaming the campaign of a file doubled the evidence."""
    results = dated(made(ONE))
    copied = copy.deepcopy(results)
    for sample in copied.samples:
        sample.campaign, sample.id = "again", sample.id + "-again"
    both = merge([results, copied])
    assert len(both.samples) == 5 and any("5 samples are copies" in note for note in both.notes)
    (group,) = groups(both)
    assert group.summary.n == 5


def test_a_copy_under_another_machines_name_is_refused():
    """Three copies of one file are not three instances."""
    results = dated(made(ONE))
    with pytest.raises(BadInput, match="is a copy of"):
        merge([results, renamed(copy.deepcopy(results), "other")])


# Choosing among half disturbed runs, and the table of false answers


def test_runs_that_others_disturbed_choose_nothing():
    results = made({c(mpi=m): 10.0 for m in "abcdef"}, spread=0.02, repeats=10)
    for n, sample in enumerate(results.samples):
        if n % 2:
            sample.load = Load(waited_fraction=0.2, other_fraction=0.3)
            sample.seconds *= 1.25
    assert all(len(g.times) == 5 for g in groups(results))


def test_the_best_of_those_that_are_known_is_not_sure_to_be_the_best():
    """Bug guarded against: the best configuration, all of whose runs others had disturbed, was set
    aside, and the next one called sure."""
    results = made({c(mpi="a"): 10.0, c(mpi="b"): 12.0, c(mpi="best"): 8.0})
    for sample in results.samples:
        if sample.configuration.mpi == "best":
            sample.load = Load(waited_fraction=0.3, other_fraction=0.5)
            sample.wall_seconds = sample.seconds = sample.seconds * 1.4
    advice = advise(results, free(results))
    (decision,) = advice.decisions
    assert decision.first.group.config.mpi == "a"
    said = advice.sure[decision.key]
    assert said.startswith("not sure: 1 other configuration is not known on this machine")


@pytest.mark.parametrize("case", calibrate.CASES, ids=lambda c: f"{c.where}: {c.name}")
def test_a_few_sets_of_each_case_are_judged(case):
    """`make calibrate` draws hundreds; here the machinery runs, and what is promised never to be
    sure is not."""
    row = calibrate.run(case, 3)
    assert row.false <= (0.0 if case.promised == calibrate.NEVER else 0.7)
    assert (row.found is None) is (case.truth == 1.0)


def test_two_machines_of_equal_shapes_are_never_called_different():
    """Each instance has its own speed: 78 % of the sets were called sure."""
    equal = [c for c in calibrate.CASES if c.promised == calibrate.NEVER and c.truth == 1.0]
    assert len(equal) == 5
    assert all(calibrate.run(case, 20).false == 0.0 for case in equal)


def test_the_table_is_printed(monkeypatch):
    monkeypatch.setattr(calibrate, "CASES", calibrate.CASES[:2])
    told = CliRunner().invoke(app, ["calibrate", "--sets", "4"]).output
    assert "| judged | truth and noise | false | found | promised |" in told
    assert "| choices, 1 instance | equal | " in told
