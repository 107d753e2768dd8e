"""Whatever a user names wrongly ends in a sentence with a remedy: never in a traceback, and never
outside the folder that was named."""

import os

import pytest

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
    (tmp_path / "noise.yaml").write_bytes(NOISE)
    (tmp_path / "deep").write_text(DEEP)
    (tmp_path / "deep.yaml").write_text(DEEP)
    return tmp_path


@pytest.mark.parametrize("name", ["noise", "deep", "noise.yaml", "deep.yaml"])
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
