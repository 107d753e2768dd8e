"""Several machines: an answer for each and one for all, nothing dropped in silence, and predictions
of what was not measured."""

import numpy as np
import pytest
from test_answers import c, made
from test_trust import free, rows
from typer.testing import CliRunner

from hpcaas.answers.advise import advise, as_text
from hpcaas.answers.costs import price_machines
from hpcaas.cli import app
from hpcaas.dataset import paper
from hpcaas.answers.groups import groups
from hpcaas.model import Load, merge
from hpcaas.stats import predict_time

SHAPES = ["a=p/a", "b=p/b", "d=p/d", "noisy=p/noisy"]
PRICES = [{"shape": s, "price": p} for s, p in zip(("a", "b", "d", "noisy"), (3, 3.5, 4, 1))]


@pytest.fixture(scope="module")
def four():
    """Three machines, and a fourth whose every run was disturbed: it would be the cheapest."""
    sets = [
        [made({c(mpi="x"): t, c(mpi="y"): t * 1.2}, m, 0.01, 5, n, app_name)
         for n, app_name in enumerate(("one", "two"))]
        for m, t in (("a", 10.0), ("b", 12.0), ("d", 14.0), ("noisy", 9.0))
    ]  # fmt: skip
    for sample in sets[3][0].samples + sets[3][1].samples:
        sample.load = Load(waited_fraction=0.5)
    for one, two in sets:  # ids of the two applications of a machine must differ
        for sample in two.samples:
            sample.id += "-two"
    return merge([part for pair in sets for part in pair])


def test_each_machine_has_its_answer_and_all_have_one(four):
    pricing = price_machines(four, rows(*PRICES), SHAPES)
    advice = advise(four, pricing)
    assert advice.decisions[0].first.machine == "a"
    assert any("noisy: not known on this machine" in n for n in advice.decisions[0].notes)
    assert advice.decisions[-1].first.machine == "a"  # the mix
    only = "of these machines only: their shapes need three instances each"
    assert {advice.sure[d.key] for d in advice.decisions} == {only}
    alone = {(d.machine, d.app): d for d in advice.per_machine}
    assert len(alone) == 8 and all(d.first.machine == m for (m, _), d in alone.items())
    assert advice.sure[alone["b", "one s"].key].startswith("sure")
    assert advice.sure[alone["noisy", "one s"].key].startswith("not known")
    text = as_text(advice)
    assert "EACH MACHINE ALONE" in text and "noisy: one s" in text


def test_no_machine_is_dropped_by_a_comparison(four, tmp_path):
    """Bug guarded against: a file of several machines was compared by its last one."""
    one, two, three = (tmp_path / n for n in ("all.json", "again.json", "a.json"))
    four.save(one), four.save(two)
    merge([made({c(mpi="x"): 10.0}, "other")]).save(three)
    run = lambda *args: CliRunner().invoke(app, ["compare", *map(str, args)])  # noqa: E731
    both = run(one, two).output
    assert all(f"{one}:{m} against {two}:{m}" in both for m in ("a", "b", "d", "noisy"))
    inside = run(one).output
    assert inside.count("== ") == 6 and "== a against noisy" in inside
    refused = run(one, three).exception
    assert "holds a, b, d, noisy" in str(refused) and "FILE:MACHINE" in str(refused)
    assert "== " in run(f"{one}:a", three).output
    shown = CliRunner().invoke(app, ["show", str(one)]).output
    assert "noisy: one s: 10 runs of 2 configurations, 10 good, 0 of them undisturbed" in shown


def test_plan_and_measure_count_the_same_configurations(tmp_path):
    site = tmp_path / "site.yaml"
    site.write_text("plugins: [%s]\n" % (__file__.rsplit("/", 1)[0] + "/toy_app.py"))
    same = ["--site", str(site), "--apps", "toy", "--size", "good", "--out", str(tmp_path)]
    same += ["--repeats", "1"]
    planned = CliRunner().invoke(app, ["plan", *same]).output.splitlines()
    measured = CliRunner().invoke(app, ["measure", *same, "--noise", "ignore"]).output.splitlines()
    count = [line for line in planned if "configurations, 1 repeats" in line]
    assert len(count) == 1 and count[0].split(":")[0] in "\n".join(measured)


def test_what_was_left_out_lies_within_its_interval():
    """Curves of known form with 3 % of noise; every measured size is left out and predicted."""
    rng, inside, tried, widths = np.random.default_rng(2), 0, 0, []
    sizes = [1, 2, 4, 8, 16, 32]
    for _ in range(60):
        serial, work, log = rng.uniform(0, 2), rng.uniform(50, 200), rng.uniform(0, 0.5)
        times = [(serial + work / p + log * np.log2(p)) * (1 + rng.normal(0, 0.03)) for p in sizes]
        for left in range(len(sizes)):
            rest = [i for i in range(len(sizes)) if i != left]
            found = predict_time([sizes[i] for i in rest], [times[i] for i in rest], sizes[left])
            tried += 1
            inside += found.low <= times[left] <= found.high
            widths.append(found.high / found.low)
    print(f"{inside / tried:.0%} of {tried} inside, median width {np.median(widths):.2f}")
    assert inside >= 0.9 * tried and np.median(widths) < 2.5


def test_the_papers_own_node_counts_are_predicted_from_the_others():
    some = [g for g in groups(paper()) if g.config.app == "openfoam" and g.seconds]
    curves: dict[tuple, dict[int, float]] = {}
    for g in some:
        key = (g.machine, g.config.mpi, g.config.interconnect, g.config.filesystem)
        best = curves.setdefault(key, {})
        best[g.config.nodes] = min(g.seconds, best.get(g.config.nodes, 1e9))
    inside = tried = 0
    for curve in curves.values():
        for left in curve:
            rest = {n: t for n, t in curve.items() if n != left}
            found = predict_time(list(rest), list(rest.values()), left)
            if found:
                tried += 1
                inside += found.low <= curve[left] <= found.high
    print(f"{inside} of {tried} of the paper's points inside")
    assert tried == 0 or inside >= 0.8 * tried


def test_three_sizes_are_not_enough_for_a_prediction_and_distance_widens_it():
    assert predict_time([1, 2, 4], [8, 4, 2], 8) is None
    near, far = (predict_time([1, 2, 4, 8], [80, 41, 21, 11], p) for p in (16, 32))
    assert near.high / near.low < far.high / far.low
    results = made({c(nodes=n, ranks=n): 80.0 / n + 1 for n in (1, 2, 4, 8)})
    text = as_text(advise(results, free(results), predict=[4, 16, 64]))
    assert "on 64 nodes of m: no estimate: 1 to 8 nodes were measured" in text
    assert "on 4 nodes of m: measured" in text and "on 16 nodes of m: ESTIMATE" in text
