"""Published results are checked when they come in, and the nearest machine is found."""

import pytest
from test_answers import c, made
from typer.testing import CliRunner

from hpcaas.cli import app
from hpcaas.errors import BadInput
from hpcaas.model import Load, ResultSet
from hpcaas.published import DISTURBED, collected, nearest, publish

MINE = {"cpu_model": "x", "cores": 64, "memory_gib": 512, "kernel": "6", "host": "secret"}


@pytest.fixture()
def campaign(tmp_path):
    results = made({c(mpi="a"): 10.0}, "mine", input_hash="h")
    results.machines["mine"] |= MINE
    results.samples[0].load = Load(waited_fraction=0.9)
    results.samples[1].log = "/home/me/log"
    (tmp_path / "c").mkdir()
    results.save(tmp_path / "c" / "results.json")
    return tmp_path / "c"


def test_what_is_published_is_marked_and_says_no_hosts(campaign, tmp_path):
    (path,) = publish(campaign, tmp_path / "published")
    assert publish(campaign, tmp_path / "published") == [path]
    text = path.read_text()
    assert "secret" not in text and "/home/me" not in text
    kept = ResultSet.load(path)
    assert [DISTURBED in s.flags for s in kept.samples] == [True] + [False] * 4
    assert [where for where, _ in collected(tmp_path / "published")][1:] == [path.name]


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda r: r.provenance.clear(), "has no provenance"),
        (lambda r: r.machines["mine"].pop("kernel"), "does not say the kernel"),
        (lambda r: r.samples.clear(), "no good run"),
        (lambda r: setattr(r.samples[0], "source", "Table 2"), "read from Table 2, not measured"),
    ],
)
def test_what_says_too_little_of_itself_is_refused(campaign, tmp_path, change, words):
    results = ResultSet.load(campaign / "results.json")
    change(results)
    results.save(campaign / "results.json")
    with pytest.raises(BadInput, match=words):
        publish(campaign, tmp_path / "published")
    assert not (tmp_path / "published").exists()


def test_the_nearest_machine_is_the_one_most_alike(campaign, tmp_path):
    publish(campaign, tmp_path / "published")
    found = nearest(MINE, tmp_path / "published")
    assert found[0].machine == "mine" and found[0].distance == 0
    assert "1 of 5 runs disturbed" in found[0].holds
    assert any(n.where.startswith("the paper") for n in found[1:])
    half = nearest({**MINE, "cores": 32}, tmp_path / "published")
    (mine,) = [n for n in half if n.machine == "mine"]
    assert mine.distance == pytest.approx(1.5) and "64 cores" in mine.differs
    folder = str(tmp_path / "published")
    shown = CliRunner().invoke(app, ["nearest", "--folder", folder]).output
    assert "distance" in shown and "holds" in shown
    done = CliRunner().invoke(app, ["submit", str(campaign), "--folder", folder])
    assert done.exit_code == 0 and "git add" in done.output
