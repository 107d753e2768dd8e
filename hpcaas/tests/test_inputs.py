"""Bad input ends with a sentence and a remedy, never with a traceback; applications by YAML."""

import json
import re
from pathlib import Path

import pytest
from test_answers import c, made

from hpcaas.apps import registry
from hpcaas.apps.configured import from_yaml
from hpcaas.cli import main
from hpcaas.errors import BadInput
from hpcaas.machine import read_topology
from hpcaas.model import Status
from hpcaas.plan import Choice, make_plan
from hpcaas.running.campaign import Campaign, Options
from hpcaas.tools import Tools


def refused(monkeypatch, capsys, args):
    monkeypatch.setattr("sys.argv", ["hpcaas", *map(str, args)])
    with pytest.raises(SystemExit) as end:
        main()
    message = capsys.readouterr().err
    assert end.value.code == 2, message
    assert message.startswith("hpcaas: ") and "Remedy:" in message, message
    return message


PLAN = ["plan", "--apps", "montecarlo"]


@pytest.mark.parametrize(
    "args, words",
    [
        ([*PLAN, "--binding", "glue"], "binding 'glue'"),
        ([*PLAN, "--distribution", "random"], "distribution 'random'"),
        ([*PLAN, "--smt", "maybe"], "smt 'maybe'"),
        ([*PLAN, "--launcher", "teleport"], "launcher 'teleport'"),
        ([*PLAN, "--gpu", "some"], "gpu 'some'"),
        ([*PLAN, "--pmi", "pmi-2"], "pmi 'pmi-2'"),
        ([*PLAN, "--container", "a;b"], "container 'a;b'"),
        ([*PLAN, "--nodes", "two"], "nodes 'two'"),
        ([*PLAN, "--nodes", "0"], "nodes '0'"),
        ([*PLAN, "--ranks-per-node", "-1"], "ranks_per_node '-1'"),
        ([*PLAN, "--split", "2by2"], "split '2by2'"),
        ([*PLAN, "--optimisation", "O2; reboot"], "optimisation 'O2; reboot'"),
        ([*PLAN, "--repeats", "3-10"], "repeats '3-10'"),
        ([*PLAN, "--repeats", "some"], "repeats 'some'"),
        ([*PLAN, "--mode", "guess"], "mode 'guess'"),
        ([*PLAN, "--size", "vast"], "size 'vast'"),
        (["measure", "--apps", "montecarlo", "--budget-min", "-1"], "--budget-min is -1"),
        (["advise", "paper", "--deadline-s", "9", "--deadline-share", "2"], "share is 2"),
        (["advise", "paper", "--deadline-s", "0"], "deadline is 0"),
        (["advise", "paper", "--deadline-s", "nan"], "deadline is nan"),
        (["advise", "paper", "--mix", "namd=nan"], "mix 'namd=nan'"),
        (["advise", "paper", "--waiting-limit", "7"], "--waiting-limit is 7"),
        (["advise", "paper", "--rate", "EUR=1"], "rate 'EUR=1'"),
        (["advise", "paper", "--by", "guess"], "--by 'guess'"),
        (["advise", "paper", "--runs-per-rental", "0"], "--runs-per-rental is 0"),
        (["report", "paper", "--html", "/proc/none/r.html"], "'/proc/none/r.html'"),
        (["report", "paper", "--html", "/dev/full"], "No space left"),
        (["merge", "paper", "--to", "/proc/none/m.json"], "'/proc/none/m.json'"),
    ],
)
def test_bad_values_are_refused_with_the_value(monkeypatch, capsys, args, words):
    assert words in refused(monkeypatch, capsys, args)


@pytest.mark.parametrize(
    "axis", ["installation", "compiler", "mpi", "target", "framework", "filesystem", "interconnect"]
)
def test_what_is_not_installed_is_left_out_with_the_reason(monkeypatch, capsys, axis):
    monkeypatch.setattr("sys.argv", ["hpcaas", *PLAN, f"--{axis}", "unheard-of"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0


@pytest.mark.parametrize("value", ["0", "-1.5", "NaN", "Infinity"])
@pytest.mark.parametrize("field", ["seconds", "wall_seconds"])
def test_times_that_cannot_be_are_refused(tmp_path, monkeypatch, capsys, field, value):
    made({c(): 1.0}, repeats=1, spread=0).save(tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    (tmp_path / "r.json").write_text(text.replace(f'"{field}": 1.0', f'"{field}": {value}', 1))
    assert field in refused(monkeypatch, capsys, ["advise", tmp_path / "r.json"])


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("a.py", "import no_such_module", "ModuleNotFoundError"),
        ("b.py", "1 / 0", "ZeroDivisionError"),
        ("c.py", "def (", "SyntaxError"),
        ("d.py", "x = 1", "no subclass"),
        ("e.txt", "x", "neither Python nor YAML"),
        ("f.yaml", "name: [", "not YAML"),
        ("g.yaml", "name: x\ncommand: y", "needs a check"),
        ("h.yaml", "name: x\ncommand: y\ncheck: '('", "not a regular expression"),
        ("i.yaml", "name: x\ncommand: y\ncheck: z\naxes: [w]", "axis 'w'"),
        ("j.yaml", "name: x\ncommand: y\ncheck: z\nseconds: done", "no (group)"),
    ],
)
def test_plugins_that_do_not_load_are_named(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput) as error:
        registry({"plugins": [str(tmp_path / name)]})
    assert words in str(error.value) and name in str(error.value)


# Applications in ten lines

COMMAND = r"""
name: dot
command: '$HPCAAS_BUILD/dot {n}'
build: ['{cc} {flags} {here}/dot.c -o dot']
products: [dot]
sizes: {small: {n: 1000, core_seconds: 1}, large: {n: 2000}}
seconds: 'took ([\d.]+) s'
figure: {pattern: 'rate (\S+)', unit: MB/s, better: higher}
check: '^verified$'
answers: {sum: {pattern: 'sum (\S+)', tolerance: 1.0e-9, value: 1000}}
sources: [dot.c]
"""
PROGRAM = """#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
  int n = count > 1 ? atoi(words[1]) : 0;
  printf("took 0.25 s\\nrate 1,234.5\\nsum %d\\n%s\\n", n, n == 1000 ? "verified" : "");
}
"""
CHECK = """
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Hello(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    count = variable(int, value=1)
    executable = 'echo'

    @run_before('run')
    def words(self):
        self.executable_opts = ['rate', str(self.count * 10), 'done']

    @sanity_function
    def ok(self):
        return sn.assert_found('done', self.stdout)

    @performance_function('MB/s')
    def rate(self):
        return sn.extractsingle(r'rate (\\d+)', self.stdout, 1, float)
"""
WRAPPED = """
name: hello
reframe: {file: '{here}/hello.py', check: Hello, figure: rate, better: higher,
          set: {count: '{factor}'}}
sizes: {small: {factor: 3}}
axes: [split]
"""


def test_a_command_and_a_reframe_check_are_measured_from_yaml(tmp_path, profile, tools):
    (tmp_path / "dot.yaml").write_text(COMMAND)
    (tmp_path / "dot.c").write_text(PROGRAM)
    (tmp_path / "hello.yaml").write_text(WRAPPED)
    (tmp_path / "hello.py").write_text(CHECK)
    assert len(COMMAND.strip().splitlines()) <= 10 and len(WRAPPED.strip().splitlines()) <= 10
    site = {"plugins": [str(tmp_path / "dot.yaml"), str(tmp_path / "hello.yaml")]}
    own = Tools(site, registry(site), tools.compilers, tools.mpis)
    runs = []
    for app, size in (("dot", "small"), ("dot", "large"), ("hello", "small")):
        choice = Choice([app], {"": size}, {}, repeats=1)
        plan = make_plan(choice, own, profile, read_topology())
        runs += plan.runs
    plan.runs = runs
    results = Campaign(tmp_path / "c", own, profile, read_topology(), Options()).run(plan)
    by = {(s.configuration.app, s.configuration.size): s for s in results.samples}
    good, wrong, hello = by["dot", "small"], by["dot", "large"], by["hello", "small"]
    assert good.status is Status.OK, good.diagnosis
    assert (good.seconds, good.figure.value, good.figure.better) == (0.25, 1234.5, "higher")
    assert good.answers["sum"].value == 1000
    assert wrong.status is Status.WRONG and "verified" in wrong.diagnosis
    assert hello.status is Status.OK, hello.diagnosis
    assert (hello.figure.value, hello.figure.unit, hello.figure.name) == (30.0, "MB/s", "rate")
    assert hello.seconds > 0


def test_the_examples_of_the_readme_are_applications(tmp_path):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.S)
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        (tmp_path / f"{number}.yaml").write_text(block)
        assert from_yaml(tmp_path / f"{number}.yaml").sizes
        assert len(block.splitlines()) <= 10


def test_an_application_may_be_named_by_its_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "dot.yaml").write_text(COMMAND)
    monkeypatch.setattr("sys.argv", ["hpcaas", "plan", "--apps", str(tmp_path / "dot.yaml")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0 and "1 configurations" in capsys.readouterr().out


def test_a_reframe_check_that_fails_is_a_wrong_result(tmp_path):
    (tmp_path / "hello.yaml").write_text(WRAPPED)
    app = from_yaml(tmp_path / "hello.yaml")
    case = {"result": "fail", "fail_phase": "sanity", "fail_reason": "no luck", "time_run": 1.0}
    report = {"runs": [{"testcases": [case]}]}
    (tmp_path / "reframe-report.json").write_text(json.dumps(report))
    assert app.read("", tmp_path, None).wrong == "sanity: no luck"
