"""Whatever a user names wrongly ends in a sentence with a remedy: never in a traceback, and never
outside the folder that was named."""

import json
import os

import pytest
from test_answers import c, made

from hpcaas.cli import main

NOISE = bytes(range(256)) * 8
DEEP = "[" * 200_000

PLUGIN = """
from hpcaas.apps.base import App, Installation, Run, Size, State

class Odd(App):
    name, title, vertical, origin, licence = "odd", "odd", "test", "here", "none"
    check, figure = "none", "none"
    sizes = {"small": Size("small", "small", {}, 1, 10, 10)}
    axes = {}
    def find(self, site):
        %s
        return State([Installation("odd")])
    def run(self, config, context):
        %s
    def read(self, stdout, directory, config):
        return None
"""


def fails(monkeypatch, capsys, *args):
    monkeypatch.setattr("sys.argv", ["hpcaas", *map(str, args)])
    with pytest.raises(SystemExit) as end:
        main()
    message = capsys.readouterr().err
    assert end.value.code == 2 and "Traceback" not in message, message
    return message


@pytest.fixture()
def files(tmp_path):
    (tmp_path / "noise").write_bytes(NOISE)
    (tmp_path / "deep").write_text(DEEP)
    return tmp_path


@pytest.mark.parametrize("name", ["noise", "deep"])
@pytest.mark.parametrize(
    "command",
    [
        ["advise", "@"],
        ["report", "@"],
        ["compare", "@", "paper"],
        ["merge", "@"],
        ["show", "@"],
        ["advise", "paper", "--catalogue", "@"],
        ["prices", "--catalogue", "@"],
        ["prices", "update", "aws", "@", "--date=2026-01-01", "--source=list", "--to=x.yaml"],
        ["apps", "--site", "@"],
        ["plan", "--site", "@"],
    ],
    ids=" ".join,
)
def test_a_file_that_is_not_what_it_should_be(monkeypatch, capsys, files, command, name):
    monkeypatch.chdir(files)
    message = fails(monkeypatch, capsys, *(name if word == "@" else word for word in command))
    assert message.startswith("hpcaas: ") and "Remedy:" in message and name in message


@pytest.mark.parametrize(
    "text, words",
    [
        ("nodes_available: many", "nodes_available is 'many'"),
        ("nodes_available: 0", "nodes_available is '0'"),
        ("machine: ../../x", "machine of the site file '../../x' is not a name"),
        ("machine: [a]", "machine is"),
        ("3: x", "unknown key '3'"),
        ("compilers: [5]", "compilers.0 is '5': not a mapping"),
        ("compilers: [{name: a, cxx: b}]", "compilers.0.cc is missing"),
        ("mpis: [{name: a, mpirun: b, colour: red}]", "unknown key 'mpis.0.colour'"),
        ("filesystems: {a: [b]}", "filesystems.a is"),
        ("containers: {a: 5}", "containers.a is '5': not a mapping"),
        ("access: [{a: b}]", "access.0 is"),
        ("axis_environment: {colour: {}}", "axis 'colour' is not known"),
        ("installations: {namd: {a: b}}", "installations.namd is"),
        ("installations: {namd: [{name: a, axes: {split: 2x2}}]}", "installations.namd.0.axes"),
        ("gpus_per_node: true", "gpus_per_node is 'True'"),
    ],
)
def test_a_site_file_with_a_value_that_cannot_be_meant(monkeypatch, capsys, tmp_path, text, words):
    (tmp_path / "site.yaml").write_text(text)
    assert words in fails(monkeypatch, capsys, "axes", "--site", tmp_path / "site.yaml")


@pytest.mark.parametrize(
    "find, run, words",
    [
        ("raise ValueError('no')", "return None", "find() failed: ValueError: no"),
        ("return None", "return None", "find() returned NoneType, not State"),
        ("pass", "1 / 0", "run() failed: ZeroDivisionError"),
        ("pass", "return None", "run() returned NoneType, not Run"),
        ("pass", "return Run(5)", "run() failed: ValidationError"),
        ("return State(['odd'])", "return None", "find() failed: ValidationError"),
    ],
)
def test_a_plug_in_that_fails_is_named(monkeypatch, capsys, tmp_path, find, run, words):
    (tmp_path / "odd.py").write_text(PLUGIN % (find, run))
    (tmp_path / "site.yaml").write_text(f"plugins: [{tmp_path}/odd.py]")
    args = ["measure", "--site", tmp_path / "site.yaml", "--apps", "odd", "--noise", "ignore"]
    message = fails(monkeypatch, capsys, *args, "--out", tmp_path / "out", "--repeats", "1")
    assert words in message and "odd.py" in message


@pytest.mark.parametrize("name", ["../../etc", "/etc", "..", "a/b", "", "a\nb"])
def test_nothing_is_written_outside_the_folder_that_was_named(monkeypatch, capsys, tmp_path, name):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    message = fails(
        monkeypatch, capsys, "measure", "--apps", "montecarlo", "--out", "out", "--campaign", name
    )
    assert "is not a name" in message
    assert [str(p) for p, d, f in os.walk(tmp_path) if d or f] == [
        str(tmp_path),
        str(tmp_path / "a"),
    ]


@pytest.mark.parametrize("lacking", ["name", "sizes", "axes", "check"])
def test_a_plug_in_that_says_too_little_is_named(monkeypatch, capsys, tmp_path, lacking):
    lines = [line for line in (PLUGIN % ("pass", "pass")).splitlines() if line.strip()]
    text = "\n".join([*lines, f"    {lacking} = None"])
    (tmp_path / "odd.py").write_text(text)
    (tmp_path / "site.yaml").write_text(f"plugins: [{tmp_path}/odd.py]")
    assert f"says no {lacking}" in fails(
        monkeypatch, capsys, "apps", "--site", tmp_path / "site.yaml"
    )


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda raw: raw["machines"]["m"].update(cores="many"), "machines.m"),
        (lambda raw: raw["machines"]["m"].update(memory_gib=-1), "machines.m"),
        (lambda raw: raw.update(machines={}), "does not describe machine 'm'"),
        (lambda raw: raw.update(machines={"m": 5}), "machines.m is 5"),
        (lambda raw: raw.update(samples={"a": 1}), "samples is"),
        (lambda raw: raw["samples"][0].update(configuration={"app": "x"}), "samples.0.config"),
        (lambda raw: raw["samples"][0].update(repeat="often"), "samples.0.repeat is 'often'"),
        (lambda raw: raw.update(schema=["x"]), "has schema"),
    ],
)
def test_results_that_were_edited_are_refused_with_the_place(
    monkeypatch, capsys, tmp_path, change, words
):
    made({c(): 1.0}).save(tmp_path / "r.json")
    raw = json.loads((tmp_path / "r.json").read_text())
    change(raw)
    (tmp_path / "r.json").write_text(json.dumps(raw))
    for command in ("advise", "submit"):
        assert words in fails(monkeypatch, capsys, command, tmp_path / "r.json")


def test_names_may_hold_what_other_languages_read(monkeypatch, tmp_path):
    """A dollar sign is no formula, a bracket no markup, and HTML is text."""
    name = "a$b$c_{<script>x</script>[/red]"
    results = made({c(compiler=one): t for one, t in (("gcc", 1.0), ("clang", 2.0))}, machine=name)
    results.save(tmp_path / "r.json")
    monkeypatch.chdir(tmp_path)
    for command in (["report", "r.json"], ["advise", "r.json"], ["show", "r.json"]):
        monkeypatch.setattr("sys.argv", ["hpcaas", *command])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
    assert "<script>x" not in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("line", ['{"sample": {"id": "a.b.c"}}', '{"machine": {}}'])
def test_a_journal_that_was_edited_is_refused(monkeypatch, capsys, tmp_path, line):
    folder = tmp_path / "out" / "campaign"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text(f"5\n[1]\n{DEEP}\n{line}\n")
    args = ["measure", "--apps", "montecarlo", "--noise", "ignore", "--out", tmp_path / "out"]
    message = fails(monkeypatch, capsys, *args, "--repeats", "1")
    assert str(folder) in message


@pytest.mark.parametrize("text", ["[1, 2]", "5", "{}", '{"a": NaN}', DEEP, "\0"])
def test_what_a_provider_never_says_is_no_state(monkeypatch, capsys, tmp_path, text):
    (tmp_path / "state").write_text(text)
    message = fails(monkeypatch, capsys, "cloud", "state", "aws", tmp_path / "state")
    assert "not what aws's tool says" in message


@pytest.mark.parametrize(
    "args, words",
    [
        (["--campaign", "../x"], "--campaign '../x' is not a name"),
        (["--region", "a'b"], "--region"),
        (["--budget", "nan"], "--budget is nan"),
        (["--other-per-hour", "-1"], "--other-per-hour is -1"),
    ],
)
def test_what_would_become_part_of_a_script_is_checked(monkeypatch, capsys, args, words):
    plan = ["cloud", "plan", "aws", "--shape=c7gn.16xlarge", "--budget=60", "--region=eu-west-1"]
    assert words in fails(monkeypatch, capsys, *plan, "--to=/proc/none", *args)
