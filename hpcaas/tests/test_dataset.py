"""The paper's tables, table against table: the cells as printed, the ratios that the text draws from them, the known errors."""

import pytest

from hpcaas.answers.advise import advise
from hpcaas.answers.costs import paper_pricing, price_machines
from hpcaas.answers.effects import best_of, effects
from hpcaas.answers.groups import groups
from hpcaas.dataset import paper, table_3, tables
from hpcaas.model import Status
from hpcaas.prices import load_catalogue

# The tables once more, as they stand in the text: a second transcription, compared cell by cell
# with the data set.
PRINTED = {
    2: "30.1 0.172 0.182 28.3 0.383 0.346",
    4: "39.1 39.5 33.3 26.9 - - - -",
    5: "26.3 26.0 26.7 28.8 31.7",
    6: "1403 1438 1417 1437 1644 2014 1728 618 669 606 669 777 984 778 367 389 328 351 445 623 446 335 435 232 337 363 446 380 345 543 212 357 351 381 395",
    7: "607 280 118 52 28 1211 528 222 99 46 516 216 91 46 25 575 252 111 55 29 510 210 85 41 23.4 511 209 85 41 22.7 510 210 85 41 23.4 510 211 87 42 25 509 211 87 43 25",
    8: "452 - 446 424 441 412",
}


def seconds(table, **where):
    found = [
        c["seconds"]
        for c in tables()["cells"]
        if c["table"] == table and all(c.get(k) == v for k, v in where.items())
    ]
    assert len(found) == 1, f"{len(found)} cells for {where}"
    return found[0]


@pytest.mark.parametrize("number", PRINTED)
def test_every_cell_is_the_printed_one(number):
    cells = [c["seconds"] for c in tables()["cells"] if c["table"] == number]
    assert cells == [None if v == "-" else float(v) for v in PRINTED[number].split()]


def test_table_1_names_the_five_applications():
    assert [a["app"] for a in tables()["applications"]] == [
        "montecarlo",
        "namd",
        "openradioss",
        "openfoam",
        "mpas",
    ]
    assert all(a["table"] == 1 for a in tables()["applications"])


def test_lost_cells_are_marked_and_not_guessed():
    lost = [c for c in tables()["cells"] if c.get("garbled")]
    assert len(lost) == 4 and all(
        c["seconds"] is None and c["machine"] == "spr" and c["table"] == 4 for c in lost
    )
    assert any("4 cells are lost" in n for n in paper().notes)


def test_every_cell_says_where_it_stands():
    assert all({"table", "section", "machine", "app"} <= set(c) for c in tables()["cells"])
    assert all(s.source and s.source.startswith("Table") for s in paper().samples)


def test_ratios_of_the_text_recompute():
    assert seconds(2, machine="genoa", threads=1) / seconds(
        2, machine="spr", threads=1
    ) == pytest.approx(1.06, abs=0.005)
    for machine, threads, printed in (
        ("genoa", 192, 175),
        ("genoa", 384, 165),
        ("spr", 112, 74),
        ("spr", 224, 82),
    ):
        assert seconds(2, machine=machine, threads=1) / seconds(
            2, machine=machine, threads=threads
        ) == pytest.approx(printed, abs=0.6)
    assert seconds(4, target="rome", variant="ivdep") / seconds(
        4, target="rome", variant="plain"
    ) == pytest.approx(1.24, abs=0.005)
    assert seconds(4, target="genoa", variant="plain") / seconds(
        4, target="rome", variant="plain"
    ) == pytest.approx(1.5, abs=0.05)
    assert seconds(5, ranks=24) / seconds(5, ranks=4) == pytest.approx(1.22, abs=0.005)
    assert seconds(6, column=4, ranks=392) / seconds(6, column=3, ranks=392) == pytest.approx(
        1.68, abs=0.005
    )
    assert seconds(8, compiler="intel", optimisation="Ofast") / seconds(
        8, compiler="cray", optimisation="Ofast"
    ) == pytest.approx(1.03, abs=0.005)
    assert seconds(8, compiler="gcc", optimisation="O3") / seconds(
        8, compiler="cray", optimisation="Ofast"
    ) == pytest.approx(1.10, abs=0.005)


def test_a_ratio_that_does_not_recompute_is_remarked():
    assert seconds(6, column=4, ranks=224) / seconds(6, column=3, ranks=224) == pytest.approx(
        1.45, abs=0.005
    )
    assert any("1.6 does not recompute" in c.get("remark", "") for c in tables()["claims"])


def test_table_3_is_corrected():
    steps = table_3()
    assert steps["spr"].performance_per_dollar == pytest.approx(0.65, abs=0.005)
    assert steps["genoa"].performance_per_dollar == 1.0
    assert steps["spr"].month_usd_per_core / 744 == pytest.approx(0.0640, abs=1e-4)
    assert steps["spr"].printed == 0.78
    # With the paper's own two errors its own numbers come out again.
    wrong = (162 / 327) * 7000 / (3047.42 / 76 * 112)
    assert wrong == pytest.approx(0.78, abs=0.01)


def test_both_errors_of_table_3_stand_where_the_quotients_are_printed():
    """Bug guarded against: they stood in the remarks at the end of the page, far from the table."""
    by_name = {
        what: (printed, right, error)
        for what, printed, right, error in (table_3()["spr"].quotients())
    }
    assert by_name["USD a month (estimate)"] == (
        "3047.42 / 76 x 112 = 4491",
        "3047.42 / 64 x 112 = 5333",
        "BM.Standard3.64 has 64 cores, not 76",
    )
    printed, right, error = by_name["relative performance"]
    assert printed == "162/327 = 0.50" and right == "172/346 = 0.497"
    assert error == "162/327 is not in Table 2, which has 172/346"
    printed, right, error = by_name["performance per dollar"]
    assert (printed, right) == ("0.78", "0.65") and "64 cores" in error and "172/346" in error
    assert all(not error for *_, error in table_3()["genoa"].quotients())


@pytest.fixture(scope="module")
def answers():
    results = paper()
    catalogue = load_catalogue()
    return results, price_machines(results, catalogue, paper_pricing(results, catalogue))


def test_the_report_and_the_advisor_price_it_the_same_way(answers):
    results, pricing = answers
    some = groups(results).per_app["montecarlo paper"]
    cost = {
        m: min(pricing.cost(g).amount for g in some if g.machine == m) for m in ("genoa", "spr")
    }
    assert cost["genoa"] / cost["spr"] == pytest.approx(0.65, abs=0.005)
    assert all("estimate" in pricing.cost(g).estimate for g in some)


def test_the_advisor_finds_the_papers_choices(answers):
    results, pricing = answers
    advice = advise(results, pricing)
    best = {(r.app, r.goal): r for r in advice.recommendations}
    assert (
        best[("montecarlo", "time")].machine == "genoa"
        and "1x192" in best[("montecarlo", "time")].config
    )
    assert "4x24" in best[("namd", "time")].config
    assert (
        "cray-mpich" in best[("openradioss", "time")].config
        and "slingshot" in best[("openradioss", "time")].config
        and "lustre" in best[("openradioss", "time")].config
    )
    assert "auto block:block" in best[("openfoam", "time")].config
    assert best[("mpas", "time")].config == "cray Ofast 1x1"
    text = "\n".join(advice.per_choice)
    for words in (
        "namd paper: best target is 'rome'",
        "best variant is 'plain'",
        "best mpi is 'cray-mpich'",
        "best binding is 'auto'",
        "best distribution is 'block:block'",
        "best filesystem is 'lustre'",
        "best framework is 'ucx'",
    ):
        assert words in text
    assert {v.verdict for v in advice.lessons} == {"confirmed"}


def test_a_column_that_compares_two_things_is_not_compared(answers):
    """OpenMPI on InfiniBand ran under another launcher: no pair of columns 5 and 6 may enter the MPI effect."""
    results, _ = answers
    (effect,) = effects(groups(results).per_app["openradioss paper"], "mpi")
    assert effect.pairs == 10  # five node counts on two file systems of Slingshot
    assert effect.largest == pytest.approx(357 / 212)


def test_the_crash_is_a_result_with_its_cause(answers):
    results, pricing = answers
    (crash,) = [s for s in results.samples if s.status is Status.CRASHED]
    assert (
        crash.signal == 11
        and "-fstack-arrays" in crash.diagnosis
        and "ulimit -s unlimited" in crash.diagnosis
    )
    assert any("-fno-stack-arrays" in w for w in advise(results, pricing).warnings)


def test_a_row_that_is_printed_twice_counts_once():
    some = [g for g in groups(paper()) if g.config.app == "openfoam"]
    assert len(some) == 40 and all(len(g.samples) == 1 for g in some)
    assert best_of(some).seconds == 22.7
