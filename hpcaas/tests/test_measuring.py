"""The small parts of honest measurement: signals, noise, load, energy, flags."""

import json
import signal

import numpy as np
import pytest

from hpcaas.model import Configuration, Load, RankPlace, Sample, Status
from hpcaas.power import parse_ipmi, parse_sacct, state
from hpcaas.running import crash, noise
from hpcaas.running.jobs import Job
from hpcaas.running.record import (
    _judge_clocks,
    _judge_nodes,
    _verify,
    _wall,
    cpu_seconds,
    energy_of,
    load_record,
    mpi_seen,
    new_sample,
    node_loads,
    noise_flag,
    rapl_energy,
)
from hpcaas.site import load_site
from hpcaas.errors import BadInput


@pytest.mark.parametrize(
    "code, text, number",
    [
        (139, "", 11),
        (134, "", 6),
        (0, "exited on signal 11", None),
        (1, "", None),
        (
            1,
            "mpirun noticed that process rank 0 with PID 0 on node n exited on signal 4 (Illegal instruction).",
            4,
        ),
        (
            139,
            "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)",
            11,
        ),
        (1, "srun: error: node1: task 3: Segmentation fault", 11),
        (255, "KILLED BY SIGNAL: 9 (Killed)", 9),
    ],
)
def test_signals_are_read_from_every_launcher(code, text, number):
    assert crash.signal_of(code, text) == number


def test_what_happened_is_said_and_no_cause_before_it_was_tried():
    assert "8 MiB" in crash.explain(11, "-Ofast", "8192")
    for words in ("fstack", "ulimit", "fast mathematics"):
        assert words not in crash.explain(11, "-Ofast -march=native", "8192")
    assert "not tried" in crash.explain(11, "-O2", "8192")
    assert "stack" not in crash.explain(11, "-Ofast", "unlimited")
    assert "memory" in crash.explain(signal.SIGKILL, "", "8192")


@pytest.mark.parametrize(
    "limited, unlimited, words",
    [
        ([True], [False], "no cause is named"),  # a crash by chance looks the same
        ([True, False], [False, False], "no cause is named"),
        ([True] * 3, [True] * 3, "not the stack limit"),
        ([True] * 4, [False] * 4, "Confirmed: the same program ran with an unlimited stack"),
    ],
)
def test_a_cause_is_named_when_trying_tells_it_from_chance(limited, unlimited, words):
    text = crash.verdict(crash.explain(11, "-Ofast", "8192"), "-Ofast", limited, unlimited)
    assert words in text
    assert ("fstack-arrays" in text) == (words.startswith("Confirmed"))


def test_a_program_that_crashes_at_random_is_seldom_given_a_cause():
    """Bug guarded against: one crash and one good run "confirmed" the stack limit half the time."""
    rng = np.random.default_rng(3)
    named = 0
    for _ in range(1000):
        limited, unlimited = [True], [bool(rng.random() < 0.5)]
        while not unlimited[-1] and limited[-1] and len(unlimited) < crash.TRIES:
            limited.append(bool(rng.random() < 0.5))
            unlimited.append(bool(rng.random() < 0.5))
        named += "Confirmed" in crash.verdict("SIGSEGV", "", limited, unlimited)
    assert named <= 50


def test_noise_is_judged_by_its_worst_sign():
    assert noise.judge(0.01, 0.0, 0.1, 0.02).verdict == "quiet"
    assert noise.judge(0.10, 0.0, 1.0, 0.02).verdict == "noisy"
    assert noise.judge(0.10, 0.2, 1.0, 0.02).verdict == "very noisy"
    assert len(noise.judge(0.10, 0.2, 1.0, 0.6).reasons) == 3


def test_the_noise_check_runs_here_and_gives_the_affinity_back():
    import os

    before = os.sched_getaffinity(0)
    found = noise.check(listen_s=0.05, pieces=20)
    assert found.verdict in ("quiet", "noisy", "very noisy") and os.sched_getaffinity(0) == before


def test_cpu_time_of_a_run_is_the_difference_of_two_times():
    assert cpu_seconds(
        "0m0.010s 0m0.002s\n0m1.000s 0m0.500s\n", "0m0.010s 0m0.002s\n1m2.000s 0m1.500s\n"
    ) == pytest.approx(62.0)
    assert cpu_seconds("", "") is None


def node(busy_s, steal_s, idle_s):
    begin = dict(stat=[0] * 8, load1=0.5, mhz=2000.0, clock_tick=100, rapl={})
    end = dict(
        stat=[int(busy_s * 100), 0, 0, int(idle_s * 100), 0, 0, 0, int(steal_s * 100)],
        load1=0.9,
        mhz=2100.0,
        clock_tick=100,
        rapl={},
    )
    return {"begin": begin, "end": end}


def test_load_separates_the_run_from_others_and_from_the_hypervisor():
    load = load_record(node(busy_s=6.0, steal_s=1.0, idle_s=3.0), own_cpu_s=4.0)
    assert load.steal_fraction == pytest.approx(0.1) and load.other_fraction == pytest.approx(0.2)
    assert (load.load_before, load.load_after, load.frequency_mhz_after) == (0.5, 0.9, 2100.0)
    assert load_record({}, 1.0).other_fraction is None


def watched(directory, host, ranks, busy=0, idle=100, steal=0, model="cpu"):
    """What a host's watcher leaves: ticks of 10 ms, ranks as (ran, waited) seconds."""
    directory.mkdir(exist_ok=True)
    (directory / f"watch.{host}.json").write_text(
        json.dumps(
            {
                "host": host,
                "cpu_model": model,
                "clock_tick": 100,
                "stat": {"begin": [0] * 8, "last": [busy, 0, 0, idle, 0, 0, 0, steal]},
                "ranks": [
                    {"rank": i, "ran_ns": ran * 1e9, "waited_ns": waited * 1e9}
                    for i, (ran, waited) in enumerate(ranks)
                ],
            }
        )
    )


def test_waiting_for_a_cpu_is_summed_over_the_ranks_of_a_host(tmp_path):
    assert node_loads(tmp_path) == {}
    watched(tmp_path, "a", [(60, 10), (20, 10)])
    assert node_loads(tmp_path)["a"].waited_fraction == pytest.approx(0.2)
    (tmp_path / "watch.a.json").write_text("{}")
    # no look saw it run
    (tmp_path / "watch.b.json").write_text(json.dumps({"host": "b", "ranks": [{"rank": 0}]}))
    assert all(load.waited_fraction is None for load in node_loads(tmp_path).values())


def run_on(directory, nodes, cpu_model="cpu"):
    """Records a run on several nodes whose watchers left their files."""
    config = Configuration(app="montecarlo", size="tiny", ranks=nodes, nodes=nodes)
    job = Job(
        id="x-0",
        kind="run",
        destination=str(directory / "c/records/x-0"),
        nodes=nodes,
        campaign="c",
        machine="m",
        cpu_model=cpu_model,
        configuration=config,
    )
    sample = new_sample(job, Status.OK)
    _judge_nodes(job, sample, directory)
    return sample


def test_every_noisy_node_of_a_run_is_named_and_the_worst_one_counts(tmp_path):
    """The flag came from the first node only: a job beside a busy neighbour on its second node
    looked clean."""
    watched(tmp_path, "n1", [(1.0, 0.0)], busy=100)
    watched(tmp_path, "n2", [(1.0, 0.5)], busy=150, idle=50)
    sample = run_on(tmp_path, 2)
    assert sample.flags == ["noisy: n2: 25% used by others, waited 33.3% of the time for a CPU"]
    assert sample.load.other_fraction == pytest.approx(0.25)
    assert sample.nodes["n1"].other_fraction == 0.0 and sample.nodes["n2"].cpu_seconds == 1.0


def test_a_node_that_says_nothing_is_not_called_quiet(tmp_path):
    watched(tmp_path, "n1", [(1.0, 0.0)], busy=100)
    assert run_on(tmp_path, 2).flags == ["noise unknown: 1 of 2 nodes said nothing"]


def test_a_run_on_another_processor_is_no_sample_of_the_machine(tmp_path):
    watched(tmp_path, "n1", [(1.0, 0.0)], busy=100)
    watched(tmp_path, "n2", [(1.0, 0.0)], busy=100, model="older cpu")
    sample = run_on(tmp_path, 2)
    assert sample.status is Status.OTHER_PROCESSOR and sample.seconds is None
    assert "n2 has processor 'older cpu'" in sample.diagnosis


@pytest.mark.parametrize(
    "steal, others, waited, flag",
    [
        (0.0, 0.01, 0.5, None),  # more threads than CPUs wait for each other: nobody else's doing
        (0.0, 0.5, 0.001, "shared: 50% used by others, waited 0.1%"),
        (0.0, 0.5, 0.1, "noisy: 50% used by others, waited 10.0%"),
        (0.2, 0.0, 0.0, "noisy: 20% stolen"),
        (0.0, 0.5, None, "noisy: 50% used by others"),
        (0.0, None, 0.1, "noisy: waited 10.0%"),  # several nodes: nobody says what others used
    ],
)
def test_using_what_a_run_leaves_free_is_not_the_same_as_taking_from_it(
    steal, others, waited, flag
):
    found = noise_flag(Load(steal_fraction=steal, other_fraction=others, waited_fraction=waited))
    assert found is None if flag is None else found.startswith(flag)


def test_energy_counters_wrap_around():
    counters = {"begin": {"rapl": {"d": [900, 1000]}}, "end": {"rapl": {"d": [100, 1000]}}}
    assert rapl_energy(counters).joules == pytest.approx(200e-6)
    assert "no readable RAPL" in rapl_energy({}).reason


def test_energy_is_taken_from_what_is_readable():
    ipmi = "    Instantaneous power reading:                   200 Watts\n"
    found = energy_of(
        {
            "begin": {"ipmi": ipmi, "time": 10.0},
            "end": {"ipmi": ipmi.replace("200", "300"), "time": 14.0},
        }
    )
    assert found.joules == 1000.0 and "IPMI" in found.source
    assert (
        energy_of({"begin": {"time": 1.0}, "end": {"time": 2.0, "slurm": "5000\n"}}).joules == 5000
    )
    assert "Slurm gathered no energy" in energy_of({"begin": {}, "end": {"slurm": "0\n"}}).reason
    assert energy_of({}).joules is None


def test_power_sources_say_why_they_are_silent():
    assert set(state()) == {"rapl", "ipmi", "slurm"} and all(state().values())
    assert parse_ipmi("    Instantaneous power reading:                   220 Watts\n") == 220.0
    assert parse_ipmi("no") is None
    assert parse_sacct("12345\n12300\n").joules == 12345
    assert parse_sacct("18446744073709551614\n").joules is None and parse_sacct("0\n").reason


def job(**static):
    return Job(
        id="x-0",
        kind="run",
        configuration=Configuration(
            app="a", size="s", ranks=2, framework=static.pop("framework", None)
        ),
        expected=[[0], [1]],
        static=static,
    )


def flags_of(placement, libraries, **static):
    sample = Sample(
        id="x",
        campaign="c",
        configuration=Configuration(app="a", size="s"),
        machine="m",
        repeat=0,
        status=Status.OK,
        placement=[RankPlace(rank=r, host="h", cpus=c) for r, c in enumerate(placement)],
    )
    _verify(job(**static), sample, libraries)
    return sample.flags


def test_what_was_asked_for_is_compared_with_what_was_in_force():
    assert flags_of([[0], [1]], ["/usr/lib/libmpi.so.40"], mpi="openmpi 4.1.4") == []
    assert "binding differs: rank 1" in flags_of([[0], [0, 1]], [], mpi="none")[0]
    assert (
        "MPI differs" in flags_of([[0], [1]], ["/usr/lib/libmpich.so.12"], mpi="openmpi 4.1.4")[0]
    )
    assert (
        "framework differs"
        in flags_of([[0], [1]], ["/usr/lib/libmpi.so.40"], mpi="openmpi 4.1.4", framework="ucx")[0]
    )


@pytest.mark.parametrize(
    "binding, threads, words",
    [
        ("cores", [[0], [1]], None),
        ("cores", [[0], [1], [0, 1]], None),
        ("cores", [[0, 1], [0, 1]], "0 of 2 workers"),
        ("none", [[0, 1], [0, 1]], None),
        ("none", [[0], [1]], "2 threads are bound"),
        ("cores", [[0, 1]], None),
        (None, [[0], [1]], None),
    ],
)
def test_programs_that_bind_their_own_threads_are_looked_at_too(binding, threads, words):
    config = Configuration(app="a", size="s", threads=2, binding=binding)
    sample = Sample(
        id="x",
        campaign="c",
        configuration=config,
        machine="m",
        repeat=0,
        status=Status.OK,
        placement=[RankPlace(rank=0, host="h", cpus=[0, 1], threads=threads)],
    )
    _verify(Job(id="x-0", kind="run", configuration=config), sample, [])
    assert sample.flags == [] if words is None else words in sample.flags[0]


def test_mapped_libraries_name_mpi_and_fabric():
    assert mpi_seen(["/usr/lib/libmpi.so.40", "/usr/lib/libucp.so.0"]) == ["openmpi", "ucx"]
    assert mpi_seen(["/opt/intel/mpi/lib/libmpi.so.12", "/opt/intel/libfabric.so.1"]) == [
        "intelmpi",
        "ofi",
    ]


@pytest.mark.parametrize(
    "text, words",
    [
        ("[1, 2]", "not a mapping"),
        ("x: [", "not YAML"),
        ("colour: red", "unknown key 'colour'"),
        ("filesystems: [a]", "not a mapping"),
        ("plugins: a.py", "not a list"),
    ],
)
def test_site_files_that_cannot_be_meant(tmp_path, text, words):
    (tmp_path / "site.yaml").write_text(text)
    with pytest.raises(BadInput, match=words):
        load_site(tmp_path / "site.yaml")


def a_run():
    config = Configuration(app="toy", size="s")
    return Sample(
        id="x", campaign="c", configuration=config, machine="m", repeat=0, status=Status.OK
    )


@pytest.mark.parametrize(
    "said, wall, words",
    [
        ("1000.0 1010.0 0 50.00 60.01", 10.0, ""),
        ("1000.0 1010.0 0", 10.0, ""),  # a script of an earlier suite
        ("1000.0 1013.0 0 50.00 60.00", 10.0, "the host's clock was set by +3.00 s while it ran"),
        ("1000.0 0.5 0 50.00 60.00", 10.0, "the host's clock was set by -1009.50 s while it ran"),
        ("", None, ""),
    ],
)
def test_a_clock_that_was_set_during_a_run_is_noticed(said, wall, words):
    """Bug guarded against: the time of day alone was asked how long a run took."""
    sample = a_run()
    code, why = _wall(sample, said)
    assert (sample.wall_seconds, why) == (wall, words) and code == (0 if said else -1)
    sample.seconds = 9.0
    _judge_clocks(sample, why)
    assert sample.status is (Status.CLOCK if words else Status.OK)


def test_an_application_that_says_more_than_the_whole_run_took_has_no_time():
    sample = a_run()
    sample.seconds, sample.wall_seconds, sample.clock_s = 10.0, 0.01, 0.001
    _judge_clocks(sample, "")
    assert sample.status is Status.CLOCK and "the whole run took 0.01 s" in sample.diagnosis
    coarse = a_run()
    coarse.seconds, coarse.wall_seconds, coarse.clock_s = 10.0, 9.6, 1.0  # whole seconds
    _judge_clocks(coarse, "")
    assert coarse.ok
