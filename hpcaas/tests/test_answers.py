"""Advice, lessons and comparison on data whose truth is known."""

import numpy as np
import pytest

from hpcaas import __version__
from hpcaas.answers.advise import advise
from hpcaas.answers.compare import as_text, compare, split_by_machine
from hpcaas.answers.costs import Pricing, Terms, price_machines
from hpcaas.answers.deadline import Deadline
from hpcaas.answers.effects import effects
from hpcaas.answers.groups import groups
from hpcaas.answers.evidence import Evidence, processors
from hpcaas.answers.lessons import judge_lessons
from hpcaas.errors import BadInput
from hpcaas.model import Configuration, Figure, Load, ResultSet, Sample, Status, merge
from hpcaas.prices import load_catalogue, rows_from
from hpcaas.running.campaign import flag_outliers

NONE = Pricing({}, {}, {})
MACHINE = {"id": "m", "cpu_model": "x", "cores": 64, "threads_per_core": 2, "memory_gib": 512}


def made(times, machine="m", spread=0.01, repeats=5, seed=1, app="toy", input_hash=None, **said):
    """times: {axis values as a dict's items: seconds}; said: more of its provenance"""
    rng = np.random.default_rng(seed)
    results = ResultSet(machines={machine: {**MACHINE, "id": machine}})
    named = f"p{input_hash}{said}" if input_hash or said else None
    if named:
        results.provenance[named] = {"input_hash": input_hash, **said}
    for n, (axes, seconds) in enumerate(times.items()):
        for repeat in range(repeats):
            t = float(seconds * np.exp(rng.normal(0, spread)))
            results.samples.append(
                Sample(
                    id=f"{machine}{n}.{repeat}",
                    campaign="c",
                    configuration=Configuration(app=app, size="s", **dict(axes)),
                    machine=machine,
                    repeat=repeat,
                    status=Status.OK,
                    seconds=t,
                    wall_seconds=t,
                    figure=Figure(name="t", value=t, unit="s", better="lower"),
                    provenance=named,
                )
            )
    return results


def of_shape(times, shape, instances=3, seed=1, speeds=(), **more):
    """So many instances of a shape, each measured like `made`. `speeds`: factors of their times."""
    sets = []
    for n in range(instances):
        factor = speeds[n] if speeds else 1.0
        own = {axes: seconds * factor for axes, seconds in times.items()}
        one = made(own, f"{shape}{n}", seed=100 * seed + n, **more)
        one.machines[f"{shape}{n}"] |= {"shape": f"p/{shape}@r", "instance": f"{shape}-{n}"}
        sets.append(one)
    return merge(sets)


def lessons(results):
    """Lessons by number."""
    pricing = Pricing({}, {}, results.machines)
    return {v.number: v for v in judge_lessons(Evidence(groups(results), pricing, []))}


def c(**axes):
    return tuple(sorted(axes.items()))


def test_an_effect_is_measured_over_pairs_that_differ_in_nothing_else():
    results = made(
        {
            c(mpi="a", binding="none"): 10,
            c(mpi="b", binding="none"): 12,
            c(mpi="a", binding="cores"): 5,
            c(mpi="b", binding="cores"): 6,
            c(mpi="b", binding="auto"): 1,
        }
    )
    (effect,) = effects(groups(results), "mpi")
    assert (effect.value, effect.best, effect.pairs) == ("b", "a", 2)
    assert effect.ratio.value == pytest.approx(1.2, abs=0.02)


def test_noise_is_not_called_a_difference():
    results = made({c(mpi="a"): 10, c(mpi="b"): 10.05}, spread=0.05)
    assert effects(groups(results), "mpi")[0].ratio.significant is False
    assert lessons(results)[5].verdict == "not shown"


def test_lessons_without_data_are_untested():
    verdicts = lessons(made({c(): 1.0})).values()
    assert (
        len(verdicts) == 8
        and {v.verdict for v in verdicts} == {"untested"}
        and all("need" in v.evidence for v in verdicts)
    )


def test_a_lesson_can_be_contradicted():
    results = made(
        {
            c(target="rome"): 10,
            c(target="genoa"): 8,
            c(ranks=4): 5,
            c(threads=4): 9,
            c(ranks=2, threads=2): 7,
        }
    )
    found = lessons(results)
    assert found[3].verdict == "contradicted" and found[4].verdict == "contradicted"
    assert "ranks alone win here" in found[4].evidence


def test_a_lesson_that_this_machine_cannot_try_says_so():
    """Bug guarded against: two cores have no hybrid split, and yet "ranks alone win"
    contradicted."""
    results = made({c(ranks=2): 5, c(threads=2): 9})
    results.machines["m"]["cores"] = 2
    found = lessons(results)[4]
    assert found.verdict == "untested" and "cannot be tried here" in found.evidence


def test_one_noisy_sample_each_is_no_evidence():
    """Bug guarded against: two single samples on a busy machine, 6 x apart, "confirmed" a
    lesson."""
    results = made({c(binding="none"): 1.0, c(binding="cores"): 6.0}, repeats=1)
    lesson = lessons(results)[7]
    assert lesson.verdict == "untested" and "one sample each" in lesson.evidence


def test_the_lesson_on_binding_is_about_the_default():
    """Bug guarded against: one application whose default is worse was called untested because
    another's is not."""
    worse = made({c(binding="none"): 1.2, c(binding="cores"): 1.0})
    equal = made(
        {c(binding="none"): 1.001, c(binding="cores"): 1.0}, app="indifferent", machine="n"
    )
    better = made({c(binding="none"): 1.0, c(binding="cores"): 1.5}, machine="o")

    def seven(*sets):
        return lessons(merge(list(sets)))[7]

    mixed = seven(worse, equal)
    assert (
        mixed.verdict == "confirmed"
        and "toy: binding 'none' takes 1.2" in mixed.evidence
        and "not measurably worse for indifferent" in mixed.evidence
    )
    assert (
        seven(equal).verdict == "not shown" and "not measurably worse here" in seven(equal).evidence
    )
    assert (
        seven(better).verdict == "contradicted"
        and "the default (none) is best here" in seven(better).evidence
    )


def test_advice_names_the_fastest_and_those_that_cannot_be_told_from_it():
    results = made(
        {c(binding="none"): 10, c(binding="cores"): 8, c(binding="sockets"): 8.01}, spread=0.02
    )
    advice = advise(results, NONE)
    (r,) = advice.recommendations
    assert "cores" in r.config or "sockets" in r.config
    assert any("not significantly slower" in e for e in r.evidence)


def test_advice_for_cost_and_a_deadline():
    results = made({c(nodes=1, ranks=4): 100, c(nodes=2, ranks=8): 60, c(nodes=4, ranks=16): 40})
    catalogue = rows_from(
        {
            "prices": [
                dict(
                    provider="p",
                    shape="s",
                    region="r",
                    cores=64,
                    vcpus=128,
                    memory_gib=512,
                    price=3.6,
                    unit="hour",
                    currency="USD",
                    term="on-demand",
                    date="2024-05-01",
                    source="price page",
                    granularity_s=1,
                )
            ]
        },
        "t",
    )
    pricing = price_machines(results, catalogue, ["m=p/s"], Terms(runs_per_rental=1))
    by_goal = {r.goal: r for r in advise(results, pricing, Deadline(70)).recommendations}
    assert "16x1" in by_goal["time"].config or "4 nodes" in by_goal["time"].config
    assert by_goal["cost"].cost == pytest.approx(100 / 3600 * 3.6, rel=0.02)
    assert "2 nodes" in by_goal["deadline"].config
    nothing = advise(results, pricing, Deadline(10))
    assert "deadline" not in {r.goal for r in nothing.recommendations}
    assert any("does not reach 10 s on m within 4 times the 16" in w for w in nothing.warnings)


def test_a_price_that_is_not_the_machines_is_refused_unless_it_is_an_estimate():
    results = made({c(): 1.0})
    with pytest.raises(BadInput, match="do not match"):
        price_machines(results, load_catalogue(), ["m=oci/VM.Standard.E4.Flex-2-16"])
    assert price_machines(results, load_catalogue(), ["m~oci/VM.Standard.E4.Flex-2-16"]).estimates
    with pytest.raises(BadInput, match="names no machine"):
        price_machines(results, load_catalogue(), ["other=oci/BM.Standard3.64"])


def test_comparison_finds_what_is_significant_and_only_that():
    base = {c(mpi=str(i)): 10.0 for i in range(12)}
    a = made(base, spread=0.02, seed=1)
    b = made({k: (8.0 if k == c(mpi="3") else 10.0) for k in base}, spread=0.02, seed=2)
    found = compare(a, b, ("before", "after"))
    verdicts = {d.config: d.verdict for d in found.differences}
    assert verdicts["3 1x1"] == "after faster"
    assert sum(v != "cannot tell" for v in verdicts.values()) <= 2
    assert "after" in as_text(found)


def test_single_values_are_compared_without_a_verdict():
    found = compare(made({c(): 10.0}, repeats=1), made({c(): 5.0}, repeats=1))
    assert [d.verdict for d in found.differences] == ["one value each"]


def test_different_inputs_are_not_compared():
    found = compare(made({c(): 1.0}, input_hash="a"), made({c(): 1.0}, input_hash="b"))
    assert not found.differences and any("inputs differ" in r for r in found.refused)


def test_what_only_one_side_has_is_said():
    found = compare(made({c(): 1.0, c(mpi="a"): 1.0}), made({c(): 1.0}))
    assert any("only in A" in r for r in found.refused)


def test_results_of_several_machines_merge_and_split():
    both = merge([made({c(): 1.0}, "one"), made({c(): 2.0}, "two"), made({c(): 1.0}, "one")])
    assert len(both.samples) == 10 and set(both.machines) == {"one", "two"}
    assert len(split_by_machine(both, "two").samples) == 5
    assert split_by_machine(both, "three") is None
    (decision,) = advise(both, Pricing({}, {}, both.machines)).decisions
    assert decision.first.machine == "one" and decision.second.machine == "two"


def test_two_machines_of_one_name_are_refused():
    other = made({c(): 1.0})
    other.machines["m"]["cpu_model"] = "another"
    with pytest.raises(BadInput, match="both called 'm'"):
        merge([made({c(): 1.0}), other])


def test_results_keep_over_a_file_and_bad_files_are_refused(tmp_path):
    results = made({c(mpi="a"): 1.0})
    results.save(tmp_path / "r.json")
    assert ResultSet.load(tmp_path / "r.json").samples == results.samples
    text = (tmp_path / "r.json").read_text()
    (tmp_path / "other.json").write_text(text.replace("hpcaas-results/1", "hpcaas-results/9"))
    with pytest.raises(BadInput, match="schema 'hpcaas-results/9'"):
        ResultSet.load(tmp_path / "other.json")
    (tmp_path / "cut.json").write_text(text[: len(text) // 2])
    with pytest.raises(BadInput, match="not JSON"):
        ResultSet.load(tmp_path / "cut.json")
    (tmp_path / "odd.json").write_text(text.replace('"status": "ok"', '"status": "splendid"', 1))
    with pytest.raises(BadInput, match="does not follow"):
        ResultSet.load(tmp_path / "odd.json")


def test_another_suite_version_is_read_with_a_remark(tmp_path):
    results = made({c(): 1.0})
    results.suite_version = "0.0.9"
    results.save(tmp_path / "r.json")
    assert any("0.0.9" in n and __version__ in n for n in ResultSet.load(tmp_path / "r.json").notes)


def test_outliers_are_kept_and_flagged():
    results = made({c(): 10.0}, repeats=6)
    for sample, seconds in zip(results.samples, (10.0, 10.1, 30.0, 9.9, 10.2, 9.8)):
        sample.seconds = seconds
    flag_outliers(results)
    assert ["outlier" in s.flags for s in results.samples] == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]
    assert len(groups(results)[0].times) == 6


def test_the_fastest_processor_is_judged_against_the_second():
    """Bug guarded against: where one machine led on one thread and on all, it was compared with
    whichever machine came first in the file, and a clear loser made the lead look sure."""
    times, speeds = {c(threads=1): 1.0, c(threads=2): 0.5}, (0.96, 1.0, 1.04)
    sides = [
        of_shape({k: t * factor for k, t in times.items()}, name, 3, seed, speeds, spread=0.002)
        for name, factor, seed in (("a", 1.0, 1), ("slow", 3.0, 2), ("close", 1.02, 3))
    ]
    (claim,) = processors(list(groups(merge(sides))))
    assert "thread p/a@r is fastest" in claim.text and not claim.confirms and claim.p > 0.05


def test_the_mean_of_a_comparison_leaves_out_what_others_disturbed():
    """Bug guarded against: one quiet pair was enough for disturbed ones to count in the mean."""
    one, two = (made({c(mpi="x"): 1.0, c(mpi="y"): 1.0}, seed=seed) for seed in (1, 2))
    for sample in two.samples:
        if sample.configuration.mpi == "y":
            sample.seconds, sample.load = 9.0, Load(waited_fraction=0.5, other_fraction=0.5)
    about, mean, *_ = compare(one, two).summary
    assert about.startswith("the same machine twice")
    assert mean.startswith(("toy s: both are equally fast", "toy s: A is 1.0", "toy s: B is 1.0"))
