"""The page: complete, self-contained, honest, and readable in a real browser at two window sizes."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from typer.testing import CliRunner

from hpcaas.answers.costs import Pricing, paper_pricing, price_machines
from hpcaas.answers.groups import groups
from hpcaas.cli import app, main
from hpcaas.dataset import paper
from hpcaas.model import Configuration, Load, ResultSet, Sample, Status
from hpcaas.prices import load_catalogue
from hpcaas.report.export import to_csv, to_json
from hpcaas.report.page import page
from hpcaas.report.pivot import pivots

NONE = Pricing({}, {}, {})


@pytest.fixture(scope="module")
def paper_page():
    results = paper()
    rows = load_catalogue()
    return page(results, price_machines(results, rows, paper_pricing(results, rows)), "The paper")


def test_the_page_needs_nothing_from_outside(paper_page):
    assert not re.search("<script[^>]*src|@import|fetch\\(|XMLHttp|import\\(", paper_page)
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", paper_page)


def test_every_chart_is_well_formed_and_no_id_is_used_twice(paper_page):
    charts = re.findall(r"<svg.*?</svg>", paper_page, re.S)
    assert len(charts) >= 12
    for chart in charts:
        ElementTree.fromstring(chart)
    ids = re.findall(r"""\bid=["']([^"']+)["']""", paper_page)
    assert len(ids) == len(set(ids))


def test_the_page_has_what_a_reader_asks_for(paper_page):
    for words in (
        "What to choose",
        "eight lessons",
        "Effect of each choice",
        "Scaling",
        "Heat map",
        "Pareto",
        "Performance per dollar",
        "Provenance",
        "like Table 2",
        "like Table 4",
        "like Table 5",
        "like Table 6",
        "like Table 7",
        "like Table 8",
        "genoa 1.00, spr 0.65",
        "ESTIMATE",
        "crashed",
        "not available",
    ):
        assert words.lower() in paper_page.lower(), words


def test_tables_are_those_of_the_paper():
    some = groups(paper()).per_app["openfoam paper"]
    (table,) = [p for p in pivots(some) if "Table 7" in p.title]
    cells = {
        (row, column): cell.group.seconds
        for row, line in zip(table.rows, table.cells)
        for column, cell in zip(table.columns, line)
        if cell.group
    }
    assert any(
        "auto" in r and "block:block" in r and "16" in c and v == 22.7
        for (r, c), v in cells.items()
    )
    assert len(cells) == 40


def test_hostile_text_stays_text():
    evil = "<img src=x onerror=alert(1)>"
    results = ResultSet(
        machines={evil: {"cpu_model": evil, "cores": 1}},
        notes=[evil],
        samples=[
            Sample(
                id="1",
                campaign="c",
                configuration=Configuration(app=evil, size=evil, mpi=evil),
                machine=evil,
                repeat=0,
                status=Status.OK,
                seconds=1.0,
            ),
            Sample(
                id="2",
                campaign="c",
                configuration=Configuration(app=evil, size=evil),
                machine=evil,
                repeat=0,
                status=Status.CRASHED,
                diagnosis=evil,
            ),
        ],
    )
    assert "<img" not in page(results, Pricing({}, {}, {}))


def test_failures_alone_make_a_page_too():
    results = ResultSet(
        machines={"m": {"cores": 1}},
        samples=[
            Sample(
                id="1",
                campaign="c",
                configuration=Configuration(app="a", size="s"),
                machine="m",
                repeat=0,
                status=Status.BUILD_FAILED,
                diagnosis="no compiler",
            )
        ],
    )
    assert "no compiler" in page(results, Pricing({}, {}, {}))


def test_csv_and_json_hold_every_sample():
    results = paper()
    rows = list(csv.DictReader(io.StringIO(to_csv(results, NONE))))
    assert len(rows) == len(results.samples) and rows[0]["source"] == "Table 2, section 3"
    content = json.loads(to_json(results, Pricing({}, {}, results.machines)))
    assert (
        len(content["results"]["samples"]) == len(results.samples)
        and len(content["advice"]["lessons"]) == 8
    )


def test_answers_can_be_given_in_cpu_seconds(tmp_path):
    """On a machine that others use, CPU seconds say what wall time cannot."""
    results = ResultSet(
        machines={"m": {"cores": 2}},
        samples=[
            Sample(
                id=f"{opt}{i}",
                campaign="c",
                configuration=Configuration(app="a", size="s", optimisation=opt),
                machine="m",
                repeat=i,
                status=Status.OK,
                seconds=wall,
                load=Load(cpu_seconds=cpu),
            )
            for opt, cpu0 in (("O2", 2.0), ("O3", 1.0))
            for i, (wall, cpu) in enumerate(((3.0, cpu0), (9.0, cpu0 * 1.01), (5.0, cpu0 * 0.99)))
        ],
    )
    results.save(tmp_path / "r.json")
    run = CliRunner().invoke
    assert "not significant" in run(app, ["advise", str(tmp_path / "r.json")]).output
    text = run(app, ["advise", str(tmp_path / "r.json"), "--by", "cpu"]).output
    assert "best optimisation is 'O3' (time of the others: O2 2x)" in text and "CPU SECONDS" in text


def test_commands_answer(tmp_path):
    run = CliRunner().invoke
    for args in (
        ["paper"],
        ["prices"],
        ["advise", "paper"],
        ["compare", "paper:genoa", "paper:spr", "--any-target"],
        ["apps"],
        ["axes"],
        ["version"],
        [
            "report",
            "paper",
            "--html",
            str(tmp_path / "p.html"),
            "--csv",
            str(tmp_path / "p.csv"),
            "--json",
            str(tmp_path / "p.json"),
        ],
        ["plan", "--apps", "montecarlo", "--split", "1x1"],
    ):
        result = run(app, args)
        assert result.exit_code == 0, f"{args}: {result.output} {result.exception}"
    assert (tmp_path / "p.html").stat().st_size > 100_000


@pytest.mark.parametrize(
    "args",
    [
        ["report", "/nowhere.json"],
        ["plan", "--apps", "nothing"],
        ["measure", "--apps", "montecarlo", "--mode", "search"],
        ["advise", "paper", "--price", "x"],
        [
            "prices",
            "update",
            "aws",
            "absent.json",
            "--date",
            "2026-11-01",
            "--source",
            "a list",
            "--to",
            "x",
        ],
        ["compare", "paper:moon", "paper:spr"],
    ],
)
def test_errors_are_sentences_with_a_remedy(monkeypatch, capsys, args):
    monkeypatch.setattr("sys.argv", ["hpcaas", *args])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("hpcaas: ") and "Remedy:" in message and "Traceback" not in message
