"""Nodes that may be taken away: expectations by hand, distributions against a simulation of another
kind, and when spot loses."""

import json
import math

import numpy as np
import pytest
from test_answers import c, made
from test_money import row
from test_trust import rows
from typer.testing import CliRunner

from hpcaas import money
from hpcaas.answers.advise import advise, as_text
from hpcaas.answers.costs import Terms, price_machines
from hpcaas.answers.deadline import Deadline, in_time
from hpcaas.answers.groups import groups
from hpcaas.cli import app
from hpcaas.errors import BadInput
from hpcaas.recovery import SCHEMA, read_recovery
from hpcaas.report.page import page
from hpcaas.spot import Loss, Run, loses_from, share_within

HALF_AN_HOUR = 0.5 / 3600.0  # interruptions a second, at one in two hours


def priced(wall, rate, loss=Loss(), term="spot", spread=0.0, repeats=10):
    """Runs of this length on a machine whose shape costs 1 an hour on spot, 3 on demand."""
    results = made({c(mpi="a"): wall}, spread=spread, repeats=repeats)
    catalogue = rows({"price": 3.0}, {"price": 1.0, "term": "spot"})
    terms = Terms(term=term, loss=loss, interruptions=rate, interruptions_source="a test")
    return results, price_machines(results, catalogue, ["m=p/s"], terms)


def test_a_run_that_begins_again_by_hand():
    """An hour of work, one interruption in two hours, 300 s until new nodes are there:
    a run takes (e^0.5 - 1) x (7200 + 300) = 0.6487212707 x 7500 = 4865.4095 s
    1,000 runs take 1351.5026 hours
    at 1 USD an hour that is 1351.50 USD"""
    results, pricing = priced(3600.0, 0.5)
    (decision,) = advise(results, pricing).decisions
    assert round(decision.first.amount, 2) == 1351.50
    assert decision.first.hours == pytest.approx(1351.5026, abs=1e-3)


def test_a_run_that_goes_on_from_checkpoints_by_hand():
    """The same in six pieces of 600 s, 10 s to write, 20 s to read back; the last writes none:
    the first takes (e^(610/7200) - 1) x 7500, four more (e^(610/7200) - 1) x 7520 each
    the last (e^(600/7200) - 1) x 7520: together 662.7769 + 4 x 664.5443 + 653.5237 s
    1,000 such runs of 3974.4778 s at 1 USD an hour are 1104.02 USD"""
    results, pricing = priced(3600.0, 0.5, Loss(600.0, 10.0, 20.0))
    (decision,) = advise(results, pricing).decisions
    by_hand = math.expm1(610 / 7200) * (7500 + 4 * 7520) + math.expm1(600 / 7200) * 7520
    assert round(decision.first.amount, 2) == round(by_hand * 1000 / 3600, 2)
    assert decision.first.hours < 1351.5


def test_begun_on_spot_and_ended_on_demand_by_hand():
    """On spot until the first interruption: (1 - e^-0.5) x 7200 = 2832.9824 s at 1 an hour
    in 39.3469 % of the runs then 300 + 3600 s on demand: 1534.5305 s at 3 an hour
    1,000 runs: 786.94 + 1278.78 = 2065.72 USD"""
    results, pricing = priced(3600.0, 0.5)
    (found,) = advise(results, pricing).spot
    by_name = {s.name.split(",")[0] + str("after" in s.name): s for s in found.strategies}
    both = next(s for s in found.strategies if "after" in s.name)
    assert round(both.amount, 2) == pytest.approx(2065.72, abs=0.011)
    assert round(by_name["on demandFalse"].amount, 2) == 3000.00
    assert [s.amount for s in found.strategies] == sorted(s.amount for s in found.strategies)


def test_the_rate_from_which_on_spot_loses():
    """Spot costs a third: it loses where a run takes three times as long, (e^x - 1)(1/x + 1/12) = 3
    with x interruptions an hour."""
    results, pricing = priced(3600.0, 0.5)
    (found,) = advise(results, pricing).spot
    x = found.spot_loses
    assert math.expm1(x) * (1 / x + 1 / 12) == pytest.approx(3.0, rel=1e-4)
    for text in (page(results, pricing), as_text(advise(results, pricing))):
        assert f"spot loses from {x:.3g} interruptions of a node an hour on" in text
        assert "spot, on demand after the first interruption" in text
    assert loses_from(lambda rate: 2.0 + rate, 1.0) == 0.0
    assert loses_from(lambda rate: 0.5, 1.0) is None


@pytest.mark.parametrize("loss", [Loss(), Loss(600.0, 10.0, 20.0), Loss(1500.0, 30.0, 5.0, 60.0)])
def test_drawn_runs_are_those_of_a_simulation_of_steps(loss):
    run, rng = Run(3600.0, 2.0 / 3600.0, loss), np.random.default_rng(3)

    def one():
        total, pieces = 0.0, list(zip(run.lengths, run.again_s))
        for length, again in pieces:
            while (until := rng.exponential(1.0 / run.rate)) < length:
                total += until + again
            total += length
        return total

    stepped, drawn = np.sort([one() for _ in range(3000)]), run.drawn()
    assert drawn.mean() == pytest.approx(run.expected_s(), rel=0.02)
    assert stepped.mean() == pytest.approx(run.expected_s(), rel=0.06)
    for share in (0.5, 0.9):
        assert np.quantile(drawn, share) == pytest.approx(np.quantile(stepped, share), rel=0.08)
    spot, demand = run.drawn_then_on_demand()
    assert (spot.mean(), demand.mean()) == pytest.approx(run.then_on_demand_s(), rel=0.03)


def test_a_deadline_counts_interruptions():
    """Bug guarded against: runs of an hour at half an interruption an hour were said to be done in
    3,614 s in 90 % of the cases, where 40 % are interrupted."""
    assert share_within(Run(3600.0, HALF_AN_HOUR), 4000.0) == pytest.approx(
        math.exp(-0.5), abs=0.012
    ) or share_within(Run(3600.0, HALF_AN_HOUR), 4000.0) < 0.64
    results, pricing = priced(3600.0, 0.5, spread=0.001, repeats=30)
    (group,) = groups(results)
    due = in_time(group, Deadline(4000.0), pricing)
    assert due.good == due.runs == 30 and 0.6 < due.stays < 0.64 and due.shown < 0.6
    (decision,) = advise(results, pricing, Deadline(4000.0)).decisions
    why, remedy = decision.notes
    assert decision.first is None and "nothing measured is done within 4000 s" in why
    # Bug guarded against: it went on with "30 of 30 were", and said no more.
    assert "nodes may be taken away: of runs that would be in time 6" in why
    assert remedy == "on demand, without interruptions, it is: --term on-demand"
    on_demand = priced(3600.0, None, term="on-demand", spread=0.001, repeats=30)
    (decision,) = advise(*on_demand, Deadline(4000.0)).decisions
    assert decision.first and any("shows it of 90% of all runs" in n for n in decision.notes)


def test_a_deadline_counts_interruptions_of_machines_without_a_price():
    """Bug guarded against: a machine whose shape is not in the catalogue was never interrupted,
    and its runs of an hour were shown to be done in 4,000 s."""
    results = made({c(mpi="a"): 3600.0}, spread=0.001, repeats=30)
    results.machines["m"]["shape"] = "p/unknown@r"
    terms = Terms(term="spot", interruptions=0.5, interruptions_source="a test")
    pricing = price_machines(results, rows({"term": "spot"}), [], terms)
    (group,) = groups(results)
    assert 0.6 < in_time(group, Deadline(4000.0), pricing).stays < 0.64
    (decision,) = advise(results, pricing).decisions
    assert decision.first.hours == pytest.approx(1351.5026, rel=1e-3)
    assert "taken away 0.5 times an hour (a test)" in " ".join(pricing.remarks())


def test_interruptions_of_what_is_not_on_spot_are_refused():
    results, terms = made({c(): 1.0}), Terms(interruptions=0.5, interruptions_source="a test")
    with pytest.raises(BadInput, match="nothing is rented on spot"):
        price_machines(results, rows({}), ["m=p/s"], terms)


def test_a_longer_deadline_is_met_on_spot_with_checkpoints():
    results, pricing = priced(3600.0, 0.5, Loss(600.0, 10.0, 20.0), repeats=60)
    (found,) = advise(results, pricing, Deadline(5500.0)).spot
    share = {s.name: s.in_time for s in found.strategies}
    assert 0.9 < share["spot"] < 1.0 and share["on demand"] == 1.0


def test_a_price_that_is_scaled_per_core_is_scaled_in_every_strategy():
    results = made({c(mpi="a"): 3600.0}, spread=0.0)
    catalogue = rows(*({"cores": 32, "vcpus": 64, "price": p, "term": t}
                       for p, t in ((1.5, "on-demand"), (0.5, "spot"))))  # fmt: skip
    terms = Terms(term="spot", interruptions=0.5, interruptions_source="a test")
    pricing = price_machines(results, catalogue, ["m~p/s"], terms)
    advice = advise(results, pricing)
    amounts = {s.name: s.amount for s in advice.spot[0].strategies}
    assert amounts["on demand"] == pytest.approx(3000.0)  # 64 cores at 1.5 for 32
    assert amounts["spot"] == pytest.approx(advice.decisions[0].first.amount)


def test_spot_without_a_rate_is_never_sure():
    results = made({c(mpi="a"): 10.0, c(mpi="b"): 20.0})
    catalogue = rows({"price": 1.0, "term": "spot"})
    pricing = price_machines(results, catalogue, ["m=p/s"], Terms(term="spot"))
    advice = advise(results, pricing)
    assert advice.sure[advice.decisions[0].key].startswith("not known: nobody says how often")


def test_a_run_that_hardly_ever_ends_is_refused():
    with pytest.raises(BadInput, match="hardly ever ends at 60 interruptions"):
        Run(1e5, 60 / 3600.0).expected_s()
    spot = row(price=0.36, term="spot", interruptions_per_hour=0.0)
    assert money.cost(3600, 1, spot, extras=money.Extras(loss=Loss(60.0, 9.0))).taken_s == 3600


def test_checkpoints_are_measured_and_used(tmp_path):
    """Any program: one line that writes, one that goes on."""
    file = tmp_path / "recovery.json"
    state = tmp_path / "state"
    lines = ["--checkpoint", f"echo 1 > {state}", "--resume", f"test -s {state}"]
    made_ = CliRunner().invoke(app, ["recovery", *lines, "--repeats", "3", "--to", str(file)])
    assert made_.exit_code == 0, made_.output
    said = json.loads(file.read_text())
    assert len(said["write_s"]) == len(said["resume_s"]) == 3 and min(said["write_s"]) > 0
    loss = read_recovery(file, 600.0)
    assert loss.write_s == pytest.approx(sum(said["write_s"]) / 3) and "mean of 3" in loss.words()
    failed = CliRunner().invoke(app, ["recovery", "--checkpoint", "false", "--resume", "true"])
    assert "'false' ended with code 1" in str(failed.exception)


@pytest.mark.parametrize(
    "said, every, words",
    [
        ({}, 600.0, "has no schema"),
        ({"schema": SCHEMA}, 600.0, "write_s is None"),
        ({"schema": SCHEMA, "write_s": [1], "resume_s": [-1]}, 600.0, "resume_s is"),
        ({"schema": SCHEMA, "write_s": [1], "resume_s": [1]}, None, "without --checkpoint-s"),
    ],
)
def test_a_recovery_file_that_says_too_little_is_refused(tmp_path, said, every, words):
    (tmp_path / "r.json").write_text(json.dumps(said))
    with pytest.raises(BadInput, match=words):
        read_recovery(tmp_path / "r.json", every)


def test_a_rate_needs_a_source(tmp_path):
    made({c(): 1.0}).save(tmp_path / "r.json")
    asked = ["advise", str(tmp_path / "r.json"), "--interruptions-per-hour", "0.5"]
    told = CliRunner().invoke(app, asked)
    assert "without its source" in str(told.exception)
