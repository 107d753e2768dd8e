"""What a buyer must be able to trust: machines are kept apart, wrong results are out, there is one
cost, and nothing is claimed from noise."""

import copy
import csv
import io

import pytest
from hypothesis import given, settings, strategies as st
from test_answers import MACHINE, c, lessons, made
from test_campaign import SITE, by_size, start  # noqa: F401 (a fixture)

from hpcaas.answers.advise import advise, as_text, headline
from hpcaas.answers.compare import compare
from hpcaas.answers.costs import Pricing, Terms, price_machines
from hpcaas.answers.deadline import Deadline
from hpcaas.answers.decide import pick
from hpcaas.answers.evidence import Evidence
from hpcaas.answers.groups import Trust, groups
from hpcaas.apps import registry
from hpcaas.errors import BadInput
from hpcaas.model import Answer, Configuration, Sample, Status, merge, renamed
from hpcaas.plan import Choice, make_plan
from hpcaas.prices import rows_from
from hpcaas.report.export import to_csv
from hpcaas.report.page import page
from hpcaas.running.campaign import Campaign, Options
from hpcaas.tools import Tools
from hpcaas.running.record import append

ROW = dict(
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
)


def rows(*changes):
    return rows_from({"prices": [{**ROW, **change} for change in changes]}, "test")


def free(results):
    return Pricing({}, {}, results.machines)


# Identity


def test_a_run_on_another_processor_is_named_and_does_not_throw_its_configuration_out():
    """Bug guarded against: one run that the batch system put on another kind of node took a
    configuration out of the answer as if it had failed."""
    results = made({c(binding="cores"): 10.0, c(binding="none"): 12.0})
    stray = results.samples[0].model_copy(
        update={
            "id": "stray",
            "status": Status.OTHER_PROCESSOR,
            "seconds": None,
            "wall_seconds": None,
            "diagnosis": "host n2 has processor 'older'",
        }
    )
    results.samples.append(stray)
    group = next(g for g in groups(results) if stray in g.samples)
    assert not group.doubt and len(group.times) == 5
    shown = page(results, free(results), "t")
    assert "on another processor" in shown and "n2 has processor" in shown


def measured_on(machine, directory, topology, tools, sizes=("good",), **options):
    """A campaign on a machine of this name, really run here."""
    toys = Tools(SITE, registry(SITE), tools.compilers, tools.mpis)
    profile = {**MACHINE, "id": machine, "isa": [], "nodes_available": 1, "filesystems": []}
    profile["cpu_model"] = "unknown"  # else runs here would be runs on another processor
    plan = make_plan(Choice(["toy"], {"": sizes[0]}, {}, repeats=2), toys, profile, topology)
    return Campaign(directory, toys, profile, topology, Options(**options)).run(plan)


def test_two_machines_are_measured_merged_and_advised_on(tmp_path, topology, tools):
    """Bug guarded against: the same command on two machines made the same ids, and merging kept the
    first machine only."""
    one = measured_on("one", tmp_path / "a/c", topology, tools)
    two = measured_on("two", tmp_path / "b/c", topology, tools)
    for results, name in ((one, "one.json"), (two, "two.json")):
        results.save(tmp_path / name)
    both = merge([one, two, copy.deepcopy(one)])
    assert len(both.samples) == 4 and set(both.machines) == {"one", "two"}
    assert len({s.id for s in both.samples}) == 4
    catalogue = rows({"shape": "dear"}, {"shape": "cheap", "price": 0.36})
    pricing = price_machines(both, catalogue, ["one=p/dear", "two=p/cheap"])
    advice = advise(both, pricing, deadline=Deadline(90))
    (decision,) = advice.decisions
    assert decision.first.machine == "two" and decision.second.machine == "one"
    text = as_text(advice)
    assert text.startswith("ANSWER") and "cheap of p, r, linux, on-demand (two)" in text
    assert headline(advice) in page(both, pricing, deadline=Deadline(90))


def test_a_folder_shared_with_another_machine_is_refused(tmp_path, topology, tools):
    measured_on("one", tmp_path / "c", topology, tools)
    with pytest.raises(BadInput, match="holds samples of machine 'one', this is 'two'"):
        measured_on("two", tmp_path / "c", topology, tools)
    # The same default name on other hardware: a home directory that is mounted everywhere.
    toys = Tools(SITE, registry(SITE), tools.compilers, tools.mpis)
    other = {**MACHINE, "id": "one", "cores": 8}
    with pytest.raises(BadInput, match="cores 64 and 8"):
        Campaign(tmp_path / "c", toys, other, topology, Options())


def test_two_machines_of_one_name_are_told_apart_by_naming_their_files():
    one, two = made({c(): 1.0}), made({c(): 2.0})
    two.machines["m"]["host"], one.machines["m"]["host"] = "b", "a"
    with pytest.raises(BadInput, match="NAME=FILE"):
        merge([one, two])
    both = merge([one, renamed(two, "other")])
    assert len(both.samples) == 10 and set(both.machines) == {"m", "other"}


def test_two_different_samples_under_one_id_are_an_error():
    one, two = made({c(): 1.0}), made({c(): 1.0}, seed=2)
    with pytest.raises(BadInput, match="two different samples of machine 'm'"):
        merge([one, two])


# Wrong is out


def test_wrong_results_never_win_and_never_vanish(start):  # noqa: F811
    """Bug guarded against: --retry dropped the bad sample, and the fast wrong one was
    recommended."""
    first, made_ = start(["flaky", "good"], repeats=3)
    assert [s.status for s in first.samples if s.configuration.size == "flaky"][-1] is Status.WRONG
    again, _ = start(["flaky", "good"], repeats=3, retry=True)
    flaky = [s.status for s in again.samples if s.configuration.size == "flaky"]
    assert flaky.count(Status.WRONG) == 1 and flaky.count(Status.OK) == 3
    decisions = {d.app: d for d in advise(again, free(again)).decisions}
    assert decisions["toy flaky"].first is None
    assert any("1 of 4 runs: wrong result" in n for n in decisions["toy flaky"].notes)
    lenient = advise(again, free(again), trust=Trust(accept_flaky=True)).decisions
    (accepted,) = [d for d in lenient if d.app == "toy flaky"]
    assert accepted.first and any("accepted although" in n for n in accepted.notes)
    assert "1 of 4 runs: wrong result" in page(again, free(again))


def test_an_answer_unlike_the_others_is_named_and_out(start):  # noqa: F811
    results, _ = start(["odd"], values={"variant": ["a", "b", "c"]})
    by_variant = {g.config.variant: g for g in groups(results)}
    assert "sum is 2.5, the median of 3" in by_variant["c"].doubt and not by_variant["a"].doubt
    (decision,) = advise(results, free(results)).decisions
    assert decision.first.group.config.variant in ("a", "b")  # c is five times as fast
    assert any("sum is 2.5" in note for note in decision.notes)


def test_two_answers_that_differ_are_both_out_and_small_differences_are_none():
    results = made({c(mpi="a"): 1.0, c(mpi="b"): 2.0})
    for sample in results.samples:
        value = 1.0 if sample.configuration.mpi == "a" else 1.0 + 5e-7
        sample.answers = {"price": Answer(value=value, tolerance=1e-6)}
    assert not any(g.doubt for g in groups(results))
    for sample in results.samples[5:]:
        sample.answers = {"price": Answer(value=1.1, tolerance=1e-6)}
    assert all("price is" in g.doubt for g in groups(results))


def test_times_that_cannot_be_are_wrong_results(start):  # noqa: F811
    results, _ = start(["nan", "negative"])
    found = by_size(results)
    assert {s.status for s in found.values()} == {Status.WRONG}
    assert "nan s" in found["nan"].diagnosis and "-3.0 s" in found["negative"].diagnosis


# One cost


def test_the_views_agree_on_the_same_data():
    """Bug guarded against: the cost view billed exact seconds of the application's own timer, the
    deadline view whole minutes."""
    results = made({c(mpi="a"): 20, c(mpi="b"): 30}, repeats=3)
    for sample in results.samples:  # b starts up faster than a, by more than a's loop wins
        sample.wall_seconds = sample.seconds + (25 if sample.configuration.mpi == "a" else 1)
    catalogue = rows({"granularity_s": 60.0, "minimum_s": 60.0})
    for runs in (1, 1000):
        pricing = price_machines(results, catalogue, ["m=p/s"], Terms(runs_per_rental=runs))
        advice = advise(results, pricing, deadline=Deadline(40))
        best = {r.goal: r for r in advice.recommendations}
        (decision,) = advice.decisions
        assert "b" in best["time"].config and "b" in best["deadline"].config
        assert best["deadline"].cost * 1000 == pytest.approx(decision.first.amount)
        assert decision.first.group.config.mpi == "b"
        lines = list(csv.DictReader(io.StringIO(to_csv(results, pricing))))
        assert float(lines[-1]["billed_seconds"]) == (60.0 if runs == 1 else pytest.approx(31, 0.1))
        assert {lines[0][k] for k in ("provider", "shape", "region", "term")} == {
            "p",
            "s",
            "r",
            "on-demand",
        }


@settings(max_examples=25)
@given(
    st.lists(st.floats(1, 1e3), min_size=1, max_size=6, unique=True),
    st.floats(1, 1e3),
    st.sampled_from([1.0, 60.0, 3600.0]),
)
def test_the_cheapest_within_a_deadline_meets_it_and_nothing_cheaper_does(times, deadline, step):
    results = made({c(mpi=f"m{i}"): t for i, t in enumerate(times)}, repeats=1, spread=0)
    pricing = price_machines(results, rows({"granularity_s": step}), ["m=p/s"])
    offers = pick(groups(results), pricing, Deadline(deadline), "cost")
    fast = [t for t in times if t <= deadline]
    assert len(offers) == len(fast)
    if offers:
        assert offers[0].group.wall <= deadline
        everything = pick(groups(results), pricing, None, "cost")
        due = [o.amount for o in everything if o.group.wall <= deadline]
        assert offers[0].amount == min(due)


def test_currencies_are_converted_by_dated_rates_or_refused():
    both = merge([made({c(): 1.0}, "one"), made({c(): 1.0}, "two")])
    catalogue = rows({}, {"shape": "e", "currency": "EUR"})
    named = ["one=p/s", "two=p/e"]
    with pytest.raises(BadInput, match="EUR, USD.*dated rate"):
        price_machines(both, catalogue, named)
    terms = Terms(rates=("EUR=2@2026-01-01",))
    pricing = price_machines(both, catalogue, named, terms)
    cost = {g.machine: pricing.cost(g) for g in groups(both)}
    assert {c.currency for c in cost.values()} == {"USD"}
    walls = {g.machine: g.wall for g in groups(both)}
    per_second = {m: one.amount / one.billed_s for m, one in cost.items()}
    assert per_second["two"] == pytest.approx(2 * per_second["one"]) and walls
    assert any("1 EUR = 2, 2026-01-01 USD" in r for r in pricing.remarks())


def test_region_system_and_term_are_chosen_and_named():
    results = made({c(): 1.0})
    catalogue = rows(
        {"region": "north"},
        {"region": "south", "price": 7.2},
        {"region": "north", "term": "spot", "price": 1.0},
        {"region": "north", "operating_system": "windows", "price": 5.0},
    )
    with pytest.raises(BadInput, match="--region"):
        price_machines(results, catalogue, ["m=p/s"])
    with pytest.raises(BadInput, match="--os"):
        price_machines(results, catalogue, ["m=p/s"], Terms(region="north"))
    terms = Terms(region="north", operating_system="linux", term="spot")
    pricing = price_machines(results, catalogue, ["m=p/s"], terms)
    for text in (as_text(advise(results, pricing)), page(results, pricing)):
        assert "s of p, north, linux, spot (m)" in text
    own = price_machines(results, catalogue, ["m=p/s,region=south,os=linux"], terms=Terms())
    assert own.rows["m"].price == 7.2
    with pytest.raises(BadInput, match="term 'forever'"):
        price_machines(results, catalogue, ["m=p/s,term=forever"])


def test_a_mix_weighs_the_applications_by_their_runs():
    sets = []
    for machine, a, b in (("x", 10, 40), ("y", 40, 10)):
        for app, seconds in (("a", a), ("b", b)):
            one = made({c(): seconds}, machine, app=app, seed=a + len(app))
            for s in one.samples:
                s.id = app + s.id
            sets.append(one)
    both = merge(sets)
    pricing = price_machines(both, rows({"shape": "x"}, {"shape": "y"}), ["x=p/x", "y=p/y"])
    for mix, winner in (("a=9,b=1", "x"), ("a=1,b=9", "y")):
        decision = advise(both, pricing, mix=mix).decisions[-1]
        assert decision.first.machine == winner and decision.gap.value == pytest.approx(
            37 / 13, 0.1
        )
        assert decision.first.interval[0] < decision.first.amount < decision.first.interval[1]
    late = advise(both, pricing, Deadline(20), "a=1,b=1").decisions[-1]
    assert late.first is None and any("nothing to offer for" in n for n in late.notes)
    with pytest.raises(BadInput, match="names 0 of the applications"):
        advise(both, pricing, mix="nothing=1")
    with pytest.raises(BadInput, match="above 0"):
        advise(both, pricing, mix="a=-1")


# Noise

CHOICES = [
    c(mpi=mpi, binding=binding, optimisation=level, **split)
    for mpi in ("a", "b")
    for binding in ("none", "cores")
    for level in ("O2", "O3")
    for split in ({"ranks": 4}, {"threads": 4}, {"ranks": 2, "threads": 2})
]


@pytest.mark.parametrize("repeats", [3, 10])
def test_where_nothing_has_an_effect_hardly_any_report_claims_one(repeats):
    """Bug guarded against: with every test judged alone, most reports on pure noise "confirmed" or
    "contradicted" some lesson."""
    reports, claiming = 60, 0
    for seed in range(reports):
        sets = [
            made(dict.fromkeys(CHOICES, 10.0), m, 0.03, repeats, 2 * seed + i)
            for i, m in enumerate("mn")
        ]
        both = merge(sets)
        pricing = price_machines(both, rows({}, {"shape": "t"}), ["m=p/s", "n=p/t"])
        advice = advise(both, pricing)
        evidence: Evidence = advice.evidence
        claiming += (
            any(v.verdict in ("confirmed", "contradicted") for v in advice.lessons)
            or any(evidence.significant(e) for e in evidence.effects)
            or any(words.startswith("sure") for words in advice.sure.values())
        )
    assert claiming <= 0.05 * reports


def test_what_has_an_effect_is_still_found():
    times = {k: 10.0 * (1.3 if ("binding", "none") in k else 1.0) for k in CHOICES}
    found = lessons(made(times, spread=0.03))
    assert found[7].verdict == "confirmed" and found[5].verdict == "not shown"


def test_a_comparison_of_equals_hardly_ever_finds_a_winner():
    names, winners = ("A", "B"), 0
    for seed in range(60):
        one = made(dict.fromkeys(CHOICES, 10.0), spread=0.03, repeats=4, seed=2 * seed)
        two = made(dict.fromkeys(CHOICES, 10.0), spread=0.03, repeats=4, seed=2 * seed + 1)
        found = compare(one, two, names)
        winners += any(d.verdict.endswith("faster") for d in found.differences) or any(
            "(significant" in line for line in found.summary
        )
    assert winners <= 3


def test_no_verdict_is_drawn_from_disturbed_runs():
    results = made({c(mpi="a"): 10, c(mpi="b"): 20})
    assert lessons(results)[5].verdict == "confirmed"
    for sample in results.samples:
        sample.load.waited_fraction = 0.3
    assert lessons(results)[5].verdict == "not known"
    advice = advise(results, free(results))
    assert advice.sure[("decision", "toy s", "")].startswith("not known on this machine")
    assert "b 2" in advice.per_choice[0] and "not known on this machine" in advice.per_choice[0]
    assert "significant" not in advice.per_choice[0]
    # One quiet sample of each is enough for a value, and too few for a verdict.
    for sample in results.samples[::5]:
        sample.load.waited_fraction = 0.0
    assert [len(g.times) for g in groups(results)] == [1, 1]
    assert lessons(results)[5].verdict == "untested"
    known = advise(results, free(results), trust=Trust(waiting_limit=0.4))
    assert known.sure[("decision", "toy s", "")].startswith("sure")
    found = compare(results, results)
    assert {d.verdict for d in found.differences} == {"one value each"}


def test_no_interval_has_zero_width():
    results = made({c(mpi="a"): 10, c(mpi="b"): 10}, spread=0)
    for group in groups(results):
        summary = group.summary
        assert summary.low < summary.median < summary.high
    pricing = price_machines(results, rows({}), ["m=p/s"])
    low, high = advise(results, pricing).decisions[0].first.interval
    assert low < high


def test_recommendations_for_cost_name_their_twins():
    results = made({c(mpi="a"): 10, c(mpi="b"): 10.01, c(mpi="z"): 40})
    pricing = price_machines(results, rows({}), ["m=p/s"])
    best = {r.goal: r for r in advise(results, pricing).recommendations}
    assert any(
        "1 other configuration is not significantly dearer" in e for e in best["cost"].evidence
    )


def test_a_journal_of_the_time_before_hosts_were_recorded_goes_on(tmp_path, topology, tools):
    toys = Tools(SITE, registry(SITE), tools.compilers, tools.mpis)
    (tmp_path / "c").mkdir()
    config = Configuration(app="toy", size="good")
    kept = dict(campaign="c", configuration=config, machine="m", repeat=0, status=Status.OK)
    old = Sample(id="m.c.x-0", seconds=1.0, wall_seconds=1.1, **kept)
    for entry in (
        {"machine": {**MACHINE, "id": "m"}},
        {"sample": old.model_dump(mode="json", exclude_none=True), "provenance": {}},
    ):
        append(tmp_path / "c/journal.jsonl", entry)
    today = {**MACHINE, "id": "m", "host": "h", "instance": "i"}
    goes_on = Campaign(tmp_path / "c", toys, today, topology, Options())
    assert goes_on.resume() == 1 and goes_on.results().samples == [old]
