"""Plans: what runs, what is left out and why, how long it takes."""

import pytest

from hpcaas.apps.base import App, Installation, Reading, Run, Size, State
from hpcaas.errors import BadInput
from hpcaas.machine import Topology
from hpcaas.model import Configuration, Figure, ResultSet, Sample, Status
from hpcaas.plan import Choice, make_plan, parse_split
from hpcaas.tools import Tools
from hpcaas.search import Searcher
from hpcaas.toolchain import Compiler, Mpi


class Toy(App):
    name = title = vertical = origin = licence = check = figure = "toy"
    sizes = {"small": Size("small", "toy", {}, 8.0, 10, 1)}
    axes = {
        a: True
        for a in (
            "compiler",
            "optimisation",
            "target",
            "mpi",
            "binding",
            "distribution",
            "split",
            "smt",
            "nodes",
            "framework",
            "launcher",
        )
    } | {"library": "uses none"}

    def find(self, site):
        return State([Installation("here")])

    def run(self, config, context):
        return Run("true")

    def read(self, stdout, directory, config):
        return Reading(1.0, Figure(name="t", value=1.0, unit="s", better="lower"))


class Installed(Toy):
    name = "installed"
    axes = {
        "installation": True,
        "mpi": True,
        "split": True,
        "compiler": "installations bring this axis",
    }

    def find(self, site):
        return State(
            [
                Installation("a", axes={"compiler": "gcc", "optimisation": "O3"}),
                Installation("b", axes={"compiler": "intel", "mpi": "mpich"}),
            ]
        )


class Absent(Toy):
    name = "absent"

    def find(self, site):
        return State([], "no toy", "apt-get install toy")


MPIS = {name: Mpi(name, name, "4", "mpirun", "mpicxx", ("ucx",)) for name in ("openmpi", "mpich")}
TOOLS = Tools(
    {},
    {a.name: a for a in (Toy(), Installed(), Absent())},
    {"gcc": Compiler("gcc", "g++", "gcc", None, "12")},
    MPIS,
)
SMALL = {
    "id": "m",
    "sockets": 1,
    "threads_per_core": 1,
    "nodes_available": 1,
    "isa": ["avx2", "fma"],
    "memory_gib": 8,
}
TWO_CORES = Topology.regular(1, 2)


def plan(
    values, apps=("toy",), mode="full", machine=SMALL, topology=TWO_CORES, earlier=None, **more
):
    return make_plan(
        Choice(list(apps), {}, values, mode, **more), TOOLS, machine, topology, earlier
    )


def why(p):
    return "\n".join(f"{x.what}: {x.why}" for x in p.left_out)


def test_full_and_one_at_a_time():
    values = {
        "mpi": ["openmpi", "mpich"],
        "optimisation": ["O2", "O3"],
        "split": ["1x2", "2x1"],
        "compiler": ["gcc"],
    }
    assert len(plan(values).runs) == 8
    assert len(plan(values, mode="oat").runs) == 4


def test_what_a_machine_cannot_tell_apart_is_left_out_with_the_reason():
    p = plan(
        {
            "mpi": ["openmpi"],
            "binding": ["none", "cores", "sockets", "threads"],
            "distribution": ["block:block", "cyclic:cyclic"],
            "split": ["2x1"],
        }
    )
    assert {r.config.binding for r in p.runs} == {"none", "cores"}
    assert "distribution cyclic:cyclic: not measurable here" in why(p)
    assert "sockets" in why(p) and "same run on this machine" in why(p)


def test_a_machine_with_two_sockets_keeps_them():
    machine = {**SMALL, "sockets": 2, "threads_per_core": 2, "nodes_available": 1}
    p = plan(
        {
            "mpi": ["openmpi"],
            "binding": ["none", "cores", "sockets", "threads"],
            "distribution": ["block:block", "block:cyclic"],
            "split": ["4x1"],
        },
        machine=machine,
        topology=Topology.regular(2, 4, 2),
    )
    assert {r.config.binding for r in p.runs} == {"none", "cores", "sockets", "threads"}
    assert (
        len(
            {
                (r.config.binding, r.config.distribution)
                for r in p.runs
                if r.config.binding == "cores"
            }
        )
        == 2
    )


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"split": ["4x1"], "mpi": ["openmpi"]}, "more workers than cores"),
        ({"split": ["1x1"], "target": ["genoa"], "compiler": ["gcc"]}, "which this CPU lacks"),
        ({"split": ["1x1"], "compiler": ["cray"]}, "compiler 'cray' is not installed"),
        ({"split": ["1x1"], "mpi": ["intelmpi"]}, "MPI 'intelmpi' is not installed"),
        ({"split": ["2x1"]}, "need an MPI"),
        ({"split": ["1x1"], "nodes": ["1", "2"]}, "needs two nodes"),
        ({"split": ["1x1"], "library": ["mkl", "openblas"]}, "uses none"),
        ({"split": ["1x1"], "launcher": ["srun"]}, "no Slurm"),
        ({"split": ["1x1"], "launcher": ["jsrun"]}, "not known"),
        ({"split": ["1x1"], "smt": ["off", "on"]}, "one hardware thread"),
    ],
)
def test_impossible_choices_are_left_out_with_the_reason(values, reason, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert reason in why(plan(values))


def test_a_missing_application_is_told_with_what_brings_it():
    p = plan({}, apps=("absent", "toy"))
    assert [r.config.app for r in p.runs] == ["toy"]
    assert "bring it with: apt-get install toy" in why(p)


def test_installations_carry_axes_that_cannot_be_built():
    p = plan(
        {"compiler": ["gcc", "intel", "nag"], "mpi": ["openmpi", "mpich"], "split": ["1x1"]},
        apps=("installed",),
    )
    assert {(r.config.installation, r.config.compiler, r.config.mpi) for r in p.runs} == {
        ("a", "gcc", "openmpi"),
        ("a", "gcc", "mpich"),
        ("b", "intel", "mpich"),
    }
    assert "nag: no installation stands for it" in why(
        p
    ) and "built for MPI 'mpich', not 'openmpi'" in why(p)


@pytest.mark.parametrize("mpis, chosen", [(["openmpi"], "a"), (["mpich"], "b"), ([], "a")])
def test_without_a_name_the_installation_built_for_the_mpi_is_taken(mpis, chosen, monkeypatch):
    """Bug guarded against: the first installation was taken, and nothing was left to run."""
    built = [Installation("a", axes={"mpi": "openmpi"}), Installation("b", axes={"mpi": "mpich"})]
    monkeypatch.setattr(Installed, "find", lambda self, site: State(built))
    p = plan({"mpi": mpis} if mpis else {}, apps=("installed",))
    assert {r.config.installation for r in p.runs} == {chosen}


def test_estimates_come_from_earlier_runs_when_there_are_any():
    first = plan({"split": ["1x1", "1x2"]})
    assert [r.estimate_s for r in first.runs] == [8.0, 4.0]
    key = first.runs[0].config
    sample = Sample(
        id="1",
        campaign="c",
        configuration=key,
        machine="m",
        repeat=0,
        status=Status.OK,
        seconds=2.0,
        wall_seconds=2.5,
    )
    again = plan({"split": ["1x1", "1x2"]}, earlier=ResultSet(samples=[sample]))
    assert (again.runs[0].estimate_s, again.runs[0].measured, again.runs[1].measured) == (
        2.5,
        True,
        False,
    )
    assert again.seconds() == pytest.approx(10 * (2.5 + 4.0 + 2))


@pytest.mark.parametrize("text", ["2", "x", "0x1", "1x-1", "axb"])
def test_bad_splits_are_refused(text):
    with pytest.raises(BadInput, match="2x1"):
        parse_split(text)


def test_unknown_words_are_refused_with_the_known_ones():
    with pytest.raises(BadInput, match="use"):
        plan({"colour": ["red"]})
    with pytest.raises(BadInput, match="no application 'nothing'"):
        plan({}, apps=("nothing",))
    with pytest.raises(BadInput, match="no size"):
        make_plan(Choice(["toy"], {"": "huge"}), TOOLS, SMALL, TWO_CORES)


def simulate(searcher, times, budget):
    samples, spent = {}, 0.0
    while (chosen := searcher.next(samples, budget - spent)) is not None:
        seconds = times[chosen.config.key()]
        spent += seconds
        samples.setdefault(chosen.config.key(), []).append(
            Sample(
                id=str(spent),
                campaign="c",
                configuration=chosen.config,
                machine="m",
                repeat=0,
                status=Status.OK,
                seconds=seconds,
                wall_seconds=seconds,
            )
        )
        if spent >= budget:
            break
    return samples, spent


def test_the_search_finds_the_best_within_a_third_of_the_full_time():
    p = plan(
        {
            "mpi": ["openmpi", "mpich"],
            "optimisation": ["O1", "O2", "O3", "Ofast"],
            "binding": ["none", "cores"],
            "split": ["1x2", "2x1"],
            "compiler": ["gcc"],
        },
        repeats=3,
    )
    cost = {
        "openmpi": 1.0,
        "mpich": 1.2,
        "O1": 2.0,
        "O2": 1.3,
        "O3": 1.0,
        "Ofast": 1.05,
        "none": 1.2,
        "cores": 1.0,
        "1x2": 1.1,
        "2x1": 1.0,
    }
    times = {}
    for run in p.runs:
        c = run.config
        times[c.key()] = (
            cost[c.mpi] * cost[c.optimisation] * cost[c.binding] * cost[f"{c.ranks}x{c.threads}"]
        )
        run.estimate_s = times[c.key()]
    best = min(times, key=times.get)
    found = 0
    for seed in range(8):
        samples, spent = simulate(Searcher(p, seed=seed), times, sum(times.values()) / 2.5)
        found += min(samples, key=lambda k: times[k]) == best
        assert spent <= sum(times.values()) / 2.5 + max(times.values())
    assert found >= 6


def test_the_search_leaves_what_failed_alone():
    p = plan({"split": ["1x1", "1x2"]}, repeats=2)
    bad = Sample(
        id="1",
        campaign="c",
        configuration=p.runs[0].config,
        machine="m",
        repeat=0,
        status=Status.CRASHED,
    )
    searcher = Searcher(p)
    for _ in range(5):
        chosen = searcher.next({p.runs[0].config.key(): [bad]}, 1e9)
        assert chosen.config.key() == p.runs[1].config.key()


def test_configurations_have_stable_names():
    a = Configuration(app="x", size="s", ranks=2, mpi="openmpi")
    assert (
        a.key()
        == Configuration(app="x", size="s", mpi="openmpi", ranks=2, nodes=1).key()
        != Configuration(app="x", size="s", ranks=2).key()
    )
