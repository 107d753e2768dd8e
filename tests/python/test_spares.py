"""Spares that take the places of the dead (`skerry run --spares`), and hosts that are drained."""

import re
import subprocess
import sys

import pytest
from test_as_jobs import LAUNCHER, LONG, run
from test_going_on import EXAMPLE_STATES, EXAMPLES, KILLED, ends_well, written

# Ranks, nodes, spares, who dies. A node and its partner do not: together they lose the state.
WAYS = [(4, 2, 2, "2"), (4, 2, 1, "3"), (4, 4, 2, "0 2"), (4, 2, 1, "1 2")]
FULL = """
group = loops[0].group
spares = int(os.environ["SPARES"])
assert len(group) == sk.size() - max(0, len(sk.failed()) - spares), (group.ranks, sk.failed())
print("in the group", flush=True)
"""


@pytest.mark.parametrize(
    ("example", "every", "way", "seed"),
    [
        *(("protected_heat", 10, way, 1) for way in WAYS),
        ("protected_tasks", 1, WAYS[0], 1),
        ("protected_tasks", 1, WAYS[2], 1),
        ("protected_xp_heat", 10, WAYS[0], 1),
        ("protected_xp_heat", 10, WAYS[1], 2),
        ("protected_xp_heat", 10, WAYS[3], 3),
        *(
            pytest.param(example, every, way, seed, marks=LONG)
            for example, every in EXAMPLE_STATES
            for seed in (3, 4)
            for way in WAYS
        ),
    ],
)
def test_the_result_is_right_with_spares(example, every, way, seed, tmp_path, monkeypatch):
    ranks, nodes, spares, victims = way
    monkeypatch.setenv("EVERY", str(every))
    monkeypatch.setenv("WHOLE", "0" if seed % 2 else str(1 << 30))
    monkeypatch.setenv("SPARES", str(spares))
    program = written(tmp_path, KILLED + FULL)
    job = run(
        ranks, nodes, program, EXAMPLES / f"{example}.py", seed, *victims.split(), spares=spares
    )
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("in the group") >= 2, job.stdout


KINDS = """
import os, signal
import numpy as np
import skerry as sk
sk.init(on_failure="continue")

def values(a, times):
    at = np.indices(a.shape)
    return (times * (1 + sum((i + 3) * x for i, x in enumerate(at)))).astype(a.dtype)

def filled(a, times):
    own = a.local
    if own.size:
        own[...] = values(a, times)[tuple(slice(*b) for b in a.distribution())]
    return a

members = len(sk.world())
partner = min(1, len({sk.node(rank) for rank in sk.world().ranks}) - 1)  # a spare is told it
arrays = [
    sk.zeros((301, 77)),
    sk.zeros(3, "int8"),
    sk.zeros((5, 40, 6, 3), "complex64"),
    sk.zeros((300, 300), distribution=sk.Irregular([0, 10, 250], [0, 100])),
    sk.zeros((64, 64), "int32", grid=(1, members)),
    sk.zeros((90, 50), mirrored=True),
    sk.ghosts((60, 44), "float32", width=(2, 1), periodic=(True, False)),
    sk.ghosts((60, 44), width=(1, 2), grid=(1, members)),
]
step = 0
for a in arrays:
    filled(a, 1)
arrays[1].protect(partner)
sk.protect([*arrays[:1], *arrays[2:]], partner=partner, step=1, rank=sk.rank())
step = sk.kept("step")
assert step == (3 if sk.is_spare() else 1), step

def is_back():
    assert all((a.get() == values(a, 3)).all() for a in arrays)
    for ghosts in arrays[-2:]:  # as after an update
        brought = ghosts.padded.copy()
        assert (brought == ghosts.update().padded).all(), ghosts
    sk.sync(arrays[0].group)

if sk.is_spare():
    is_back()
while step < 5:
    try:
        for a in arrays:
            filled(a, step + 1)
        if step == 3 and sk.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        sk.allreduce(1, group=arrays[0].group)
        sk.protect(step=step + 1, rank=sk.rank())
    except sk.PeerDeadError:
        group = sk.recover(timeout=60)
        spares = [rank for rank in range(sk.size(), sk.size() + SPARES) if rank not in sk.failed()]
        places = [spares.pop(0) if rank in sk.failed() and spares else rank
                  for rank in range(sk.size())]
        wanted = [rank for rank in places if rank not in sk.failed()]
        assert group.ranks == wanted[: len(group)], (group.ranks, wanted)
        is_back()
    step = sk.kept("step")
group = arrays[0].group
for a in arrays:
    assert (a.get() == values(a, 5)).all(), a
    assert a.group.ranks == group.ranks
sk.sync(group)
assert sk.kept("rank") == sk.rank() and sk.protection().recoveries == 1
assert sk.allreduce(1, group=group) == len(group)
print("all is well", flush=True)
"""


@pytest.mark.parametrize(
    ("ranks", "nodes", "spares", "living"), [(4, 2, 2, 4), (6, 3, 1, 5), (4, 1, 1, 4)]
)
def test_arrays_of_all_kinds_come_to_a_spare(ranks, nodes, spares, living, tmp_path):
    text = KINDS.replace("SPARES", str(spares))
    ends_well(tmp_path, text, ranks, nodes, living=living, spares=spares)


LOOPS = """
import os, signal
import numpy as np
import skerry as sk
import skerry.xp as xp
from skerry import _core
sk.init(on_failure="continue")
s = sk.over(sk.world())

def die(rank, step, at):
    if rank == sk.rank() and step == at and not sk.failed():
        os.kill(os.getpid(), signal.SIGKILL)

a, total = s.zeros(100), 0
for step in s.steps(6, protect=[a]):
    with step:
        a.acc(..., np.ones(100))
        s.sync()
        step.values["done"] = step + 1
b, c = s.zeros((10, 10)), xp.zeros((50, 4))
for step in s.steps(8, protect=[b, c], every=3):
    with step:
        die(1, step, 4)
        b.acc(..., np.full((10, 10), float(step)))
        c += 1.0
        s.sync()
        step.values["done"] = 100 + step
assert s.size() == sk.size(), s.group.ranks
assert (a.get() == 6 * sk.size()).all(), a.get()
assert (b.get() == 28 * sk.size()).all(), b.get()
assert (c.numpy() == 8).all(), c.numpy()
assert sk.kept("values") == {"done": 107}
s.sync()
print("all is well", flush=True)
"""


def test_a_spare_goes_to_the_loop_where_the_others_are(tmp_path):
    ends_well(tmp_path, LOOPS, 3, 3, living=3, spares=1)


GO_ON = """
import os, signal
import numpy as np
import skerry as sk
import skerry.xp as xp
from skerry import _core
sk.init(on_failure="continue")
s = sk.over(sk.world())
attempts = []

def attempt(group, arrays):
    attempts.append(group.ranks)
    if arrays:
        a, b, first = *arrays, sk.kept("step")
    else:
        a, b, first = s.zeros(1000), xp.zeros((40, 30)), 0
    for step in range(first, 12):
        if step in (4, 7) and s.rank() == step % s.size() and len(sk.failed()) < step // 3:
            os.kill(os.getpid(), signal.SIGKILL)
        a.acc(..., np.ones(1000))
        b += 2.0
        s.sync()
        sk.protect([a, b], step=step + 1)
    return a, b

a, b = s.go_on(attempt)
assert s.size() == sk.size() and len(sk.failed()) == 2
assert b.layout.whole and _core.xp_bytes()[0] >= b.nbytes  # a spare's counts for sum_bytes, too
assert (a.get() == 12 * sk.size()).all() and (b.numpy() == 24).all()
s.sync()
print("all is well", flush=True)
"""


def test_a_spare_calls_the_attempt_with_the_arrays_of_the_others(tmp_path):
    ends_well(tmp_path, GO_ON, 3, 3, living=3, spares=2)


# A spare that begins the first go_on() has no part in the second, where the others are.
TWO = """
import os, signal
import skerry as sk
sk.init(on_failure="continue")

def first(group, arrays):
    a = arrays[0] if arrays else sk.zeros(100)
    sk.protect([a], step=0)
    return a

def second(group, arrays):
    a = arrays[0] if arrays else made
    for step in range(sk.kept("step"), 6):
        if sk.rank() == 1 and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        a.local[...] += 1
        sk.sync(group)
        sk.protect([a], step=step + 1)
    return a

made = sk.go_on(first)
a = sk.go_on(second)
assert (a.get() == 6).all() and len(a.group) == 2, a.get()
sk.sync(a.group)
print("all is well", flush=True)
"""


def test_a_spare_whose_attempt_the_others_have_behind_them_ends_alone(tmp_path):
    job = run(3, 3, written(tmp_path, TWO), spares=1)
    assert job.stdout.count("all is well") == 2, job.stdout
    assert job.returncode == 1 and "come through the sk.go_on()" in job.stdout, job.stdout


# A spare comes to a call of protect() before the loop where the others are.
EARLIER = """
import os, signal
import skerry as sk
sk.init(on_failure="continue")
a = sk.zeros(100)
sk.protect([a], step="none yet")
assert sk.kept("step") == "none yet", sk.kept("step")
for step in sk.steps(9, protect=[a]):
    with step:
        if sk.rank() == 1 and step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        a.local[...] += 1
        sk.sync(step.group)
assert (a.get() == 9).all() and len(step.group) == 3 and sk.kept("step") == 9, a.get()
sk.sync(step.group)
print("all is well", flush=True)
"""


def test_a_spare_keeps_what_it_gave_until_it_comes_to_the_others(tmp_path):
    """It read the values of a step that it had not come to."""
    ends_well(tmp_path, EARLIER, 3, 3, living=3, spares=1)


# The first spare dies before it has joined, and the second one takes its place.
DYING = """
import os, signal
import skerry as sk
sk.init(on_failure="continue")
a = sk.zeros(100)
if sk.is_spare() and sk.rank() == sk.size():
    WHAT
for step in sk.steps(9, protect=[a]):
    with step:
        if sk.rank() == 1 and step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        a.local[...] += 1
        sk.sync(step.group)
assert (a.get() == 9).all() and len(step.group) == sk.size(), a.get()
sk.sync(step.group)
print("all is well", flush=True)
"""


@pytest.mark.parametrize(
    ("what", "status"), [("os.kill(os.getpid(), signal.SIGKILL)", 0), ("raise SystemExit(0)", 1)]
)
def test_a_spare_that_does_not_join_is_left_out(what, status, tmp_path):
    job = run(3, 3, written(tmp_path, DYING.replace("WHAT", what)), spares=2)
    assert job.stdout.count("all is well") == 3, job.stdout
    assert job.returncode == status, job.stdout
    assert (status == 0) == ("without joining" not in job.stdout), job.stdout


# A rank, perhaps a spare that has joined, ends its program in the midst of what it does with the
# others.
LEFT = """
import os, signal, sys
import skerry as sk
sk.init(on_failure="continue")

def die_or_leave(step):
    if sk.rank() == 1 and step == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if str(sk.rank()) == sys.argv[2] and step == 6 or sys.argv[2] == "all" and step == 7:
        print("leaves here")
        sys.exit()

def attempt(group, arrays):
    a = arrays[0] if arrays else sk.zeros(100)
    for step in range(sk.kept("step", 0), 9):
        die_or_leave(step)
        a.local[...] += 1
        sk.sync(group)
        sk.protect([a], step=step + 1)
    return a

if sys.argv[1] == "attempt":
    a = sk.go_on(attempt)
else:
    a = sk.zeros(100)
    for step in sk.steps(9, protect=[a]):
        with step:
            die_or_leave(step)
            a.local[...] += 1
            sk.sync(step.group)
assert (a.get() == 9).all() and len(a.group) == sk.size(), a.get()
sk.sync(a.group)
print("all is well", flush=True)
"""


@pytest.mark.parametrize(("way", "who"), [("step", 3), ("attempt", 3), ("step", 2)])
def test_a_rank_that_leaves_a_step_by_sys_exit_ends_alone(way, who, tmp_path):
    """It waited for the others to finalize, and they for it in the step."""
    job = run(3, 3, written(tmp_path, LEFT), way, who, spares=2)
    assert job.stdout.count("all is well") == 3, job.stdout
    assert job.returncode == 1 and f"rank {who} on host" in job.stdout, job.stdout
    assert job.stdout.count("while others wait for it") == 1, job.stdout
    assert "leaves here" in job.stdout, job.stdout  # what it wrote is not lost


@pytest.mark.parametrize("way", ["step", "attempt"])
def test_all_may_leave_a_step_by_sys_exit(way, tmp_path):
    """Spares ended with status 1."""
    job = run(3, 3, written(tmp_path, LEFT), way, "all", spares=2)
    assert job.returncode == 0 and "while others" not in job.stdout, job.stdout
    assert job.stdout.count("leaves here") == 3, job.stdout


# All leave the loop by SystemExit, catch it, and go on: the spare with them. Or the program
# finalizes whatever happens, and the spare alone has left.
CAUGHT = """
import os, signal, sys
import skerry as sk
sk.init(on_failure="continue")
a = sk.zeros(90)

def loop():
    for step in sk.steps(9, protect=[a]):
        with step:
            if sk.rank() == 1 and step == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            if sk.rank() == 3 and step == 5 and os.fork() == 0:
                sys.exit()  # of a child: it is in no job
            if step == 6 and (sys.argv[1] == "caught" or sk.rank() == 3):
                sys.exit()
            a.local[...] += 1
            sk.sync(step.group)

try:
    loop()
except SystemExit:
    if sys.argv[1] == "finally":
        sk.finalize()
        raise
sk.sync(a.group)
if sk.rank() == a.group.ranks[0]:
    print("sum", int(a.get().sum()), flush=True)
"""


@pytest.mark.parametrize(
    ("way", "total", "status"), [("caught", 540, 0), ("finally", 810, 1)]
)
def test_a_spare_that_leaves_a_loop_is_there_or_ends(way, total, status, tmp_path):
    job = run(3, 3, written(tmp_path, CAUGHT), way, spares=2)
    assert f"sum {total}" in job.stdout, job.stdout
    assert job.returncode == status, job.stdout


# A spare that does not fit ends, and the others go on without it: here with the second one.
OTHERS = """
import os, signal
import skerry as sk
sk.init(on_failure="continue")
WHAT
a = sk.zeros(100)
for step in sk.steps(9, protect=[a]):
    with step:
        if sk.rank() == 1 and step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        a.local[...] += 1
        sk.sync(step.group)
assert (a.get() == 9).all() and len(step.group) == 3, a.get()
sk.sync(step.group)
print("all is well", flush=True)
"""
MISTAKES = [
    ("for step in sk.steps(2, protect=[sk.zeros(7)]): pass", "makes the same arrays"),
    ("sk.steps(1, protect=[1]); sk.steps(1, protect=[1])", "goes the same way"),
    ("sk.protect([3])", "cannot be protected"),
]


@pytest.mark.parametrize(("mistake", "why"), MISTAKES)
def test_a_spare_that_does_not_fit_ends_alone(mistake, why, tmp_path):
    what = f"if sk.rank() == 3:\n    {mistake}"
    job = run(3, 3, written(tmp_path, OTHERS.replace("WHAT", what)), spares=2)
    assert job.stdout.count("all is well") == 3, job.stdout
    assert job.returncode == 1 and why in job.stdout, job.stdout


HAND = """
import os, signal
import skerry as sk
sk.init(on_failure="continue")
group = sk.world()
if sk.is_spare():
    group = group.refill()
elif sk.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    try:
        assert sk.allreduce(1, group=group) == sk.size()
        break
    except sk.PeerDeadError:
        group = group.refill(60)
assert group.ranks == [0, 3, 2], group.ranks
print("all is well", flush=True)
"""


def test_a_group_is_refilled_by_hand(tmp_path):
    ends_well(tmp_path, HAND, 3, 3, living=3, spares=1)


DRAINED = """
import os, subprocess, sys, time
import skerry as sk
sk.init(on_failure="continue")
skerry, left = sys.argv[1], int(sys.argv[2])
a, done = sk.zeros(1000), 0
for step in sk.steps(60, protect=[a], every=5, partner=int(sys.argv[3])):
    with step:
        if step == 21 and sk.rank() == 0:
            mine = subprocess.run([skerry, "drain", str(os.getpid()), "h2"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            print("drain:", mine.stdout, mine.returncode, flush=True)
        while step == 22 and sk.node() == 1 and not sk.is_leaving():
            time.sleep(0.001)
        a.local[...] += 1
        sk.sync(step.group)
        done += 1
assert (a.get() == 60).all(), a.get()
assert sk.is_spare() or done == 60, done  # no step came again
assert len(step.group) == left and not sk.is_leaving(), step.group.ranks
sk.sync(step.group)
print("all is well", flush=True)
"""


def on_hosts(tmp_path, hosts, spares, *program, elastic=None):
    """Hosts are played by an agent command that runs everything here."""
    agent = tmp_path / "agent"
    refuses = '[ "$1" = nowhere ] && exit 3'
    agent.write_text(f'#!/bin/sh\n{refuses}\nexport HOST=$1\nshift\nexec sh -c "$*"\n')
    agent.chmod(0o755)
    words = [LAUNCHER, "run", "--hosts", hosts, "--agent", agent, "--interface", "lo"]
    words += ["--spares", str(spares)] if spares else []
    words += ["--elastic", elastic] if elastic else []
    words += [sys.executable] if str(program[0]).endswith(".py") else []
    return subprocess.run(
        [*map(str, words), *map(str, program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("hosts", "spares", "left"), [("h1:2,h2:2", 0, 2), ("h1:2,h2:2,h3:2", 2, 4)]
)
def test_a_host_is_drained_and_no_step_comes_again(hosts, spares, left, tmp_path):
    job = on_hosts(tmp_path, hosts, spares, written(tmp_path, DRAINED), LAUNCHER, left, 1)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == left, job.stdout
    assert "2 ranks are told to leave" in job.stdout and "h2 has left the job" in job.stdout


# One rank hears nothing of the launcher before it recovers: no clock decides meanwhile.
DEAF = """
import skerry as sk
from skerry import _core, _steps
sk.init(on_failure="continue")
if sk.rank() == 0:
    real, recover = _core.failed, _steps.recover
    _core.failed = lambda: []
    def hearing(**options):
        _core.failed = real
        return recover(**options)
    _steps.recover = hearing
"""


def test_a_survivor_that_hears_late_of_those_who_left_goes_back_as_the_others(tmp_path):
    program = written(tmp_path, DEAF + DRAINED)
    job = on_hosts(tmp_path, "h1:2,h2:2", 0, program, LAUNCHER, 2, 1)
    assert job.returncode == 0 and job.stdout.count("all is well") == 2, job.stdout


def test_ranks_that_have_the_last_copies_do_not_leave(tmp_path):
    text = DRAINED.replace("and not sk.is_leaving(), step.group", ", step.group")
    program = written(tmp_path, text)
    job = on_hosts(tmp_path, "h1:2,h2:2", 0, program, LAUNCHER, 4, 0)
    assert job.returncode == 0 and job.stdout.count("all is well") == 4, job.stdout
    assert "cannot leave" in job.stdout, job.stdout


REFUSED = """
import os, subprocess, sys
import skerry as sk
sk.init(on_failure=sys.argv[2])
if sk.rank() == 0:
    for host in ("h2", "h7"):
        asked = subprocess.run([sys.argv[1], "drain", str(os.getpid()), host], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(asked.returncode, asked.stdout, flush=True)
sk.barrier()
"""


def test_a_host_that_cannot_be_drained_is_named(tmp_path):
    program = written(tmp_path, REFUSED)
    job = on_hosts(tmp_path, "h1:1,h2:1", 0, program, LAUNCHER, "end")
    assert job.returncode == 0, job.stdout
    assert "1 skerry drain: cannot drain h2: the job does not go on" in job.stdout, job.stdout
    assert "1 skerry drain: cannot drain h7: it is no host" in job.stdout, job.stdout


# Neighbours keep each other's copies: the second leaves with the next state.
TOGETHER = DRAINED.replace("node() == 1", "node() in (1, 2)").replace('"h2"]', "host]")
TOGETHER = TOGETHER.replace(
    "            mine = ", '          for host in ("h2", "h3"):\n            mine = '
)


@pytest.mark.parametrize(
    ("hosts", "spares", "left"), [("h1:1,h2:1,h3:1,h4:1", 0, 2), ("h1:1,h2:1,h3:1,h4:2", 2, 3)]
)
def test_neighbours_that_are_drained_together_leave_one_by_one(hosts, spares, left, tmp_path):
    job = on_hosts(tmp_path, hosts, spares, written(tmp_path, TOGETHER), LAUNCHER, left, 1)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == left, job.stdout
    assert "h2 has left the job" in job.stdout and "h3 has left the job" in job.stdout
    assert "cannot leave" not in job.stdout, job.stdout


AGAIN = """
import os, signal, sys, time
import skerry as sk
sk.init(on_failure="continue")
sign, group = sys.argv[1], sk.world()
if sk.is_spare():
    while not os.path.exists(sign):
        time.sleep(0.01)
    try:
        group.refill()
        raise SystemExit("the others had not waited")
    except sk.TimeoutError as error:
        assert ": 3" in str(error), error
    try:
        group = group.refill()
    except sk.PeerDeadError:
        group = None
else:
    if sk.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        try:
            group = group.refill(0.5)
            break
        except sk.TimeoutError:
            open(sign, "w").close()
# The spare waits again before the others come, or is not needed.
if group is not None:
    assert group.ranks in ([0, 3, 2], [0, 2]), group.ranks
    assert sk.allreduce(1, group=group) == len(group)
print("all is well", flush=True)
"""


def test_a_spare_that_came_too_late_waits_again(tmp_path):
    job = run(3, 3, written(tmp_path, AGAIN), tmp_path / "sign", spares=1)
    assert job.returncode == 0 and job.stdout.count("all is well") == 3, job.stdout


DRAWS = """
import os, signal
import skerry as sk
from skerry import xp
sk.init(on_failure="continue")
total = xp.zeros(200_000)
for step in sk.steps(4, protect=[total]):
    with step:
        if step == 2 and sk.rank() == 1 and not sk.failed():
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 0:
            xp.random.seed(7)  # the first use: a spare begins after it
        total += xp.random.rand(200_000)
xp.random.seed(7)
again = sum(xp.random.rand(200_000).numpy() for _ in range(4))
assert (total.numpy() == again).all()
print("drawn", flush=True)
"""


def test_a_spare_draws_what_the_others_draw(tmp_path):
    job = run(2, 2, written(tmp_path, DRAWS), spares=1)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("drawn") == 2, job.stdout


# skerry.xp is first used in the steps, and nothing of it is protected.
BESIDE = """
import os, signal
import numpy as np
import skerry as sk
sk.init(on_failure="continue")
total = sk.zeros(3)
for step in sk.steps(4, protect=[total]):
    with step:
        if step == 2 and sk.rank() == 1 and not sk.failed():
            os.kill(os.getpid(), signal.SIGKILL)
        import skerry.xp as xp
        if step == 0:
            xp.random.seed(7)
            CHOICE
        drawn = xp.random.rand(200_000).sum() + xp.ones((900, 700)).sum()
        if xp.options()["whole_bytes"] != sk.allreduce(xp.options()["whole_bytes"], "max",
                                                       group=step.group):
            raise SystemExit("the members have other options")
        if sk.rank() == total.group.ranks[0]:
            total[...] = total[...] + float(drawn)
        sk.sync(total.group)
xp.random.seed(7)
want = sum(float(xp.random.rand(200_000).sum()) + 630_000 for _ in range(4))
assert np.allclose(total.get(), want), (total.get(), want)
sk.sync(total.group)
print("all is well", flush=True)
"""


@pytest.mark.parametrize("choice", ["pass", "xp.options(whole_bytes=1 << 20)"])
def test_numpy_programs_go_on_with_a_spare_though_none_of_their_arrays_is_protected(
    choice, tmp_path
):
    ends_well(tmp_path, BESIDE.replace("CHOICE", choice), 3, 3, living=3, spares=1)


# The last state was made by a call after a loop: a spare leaves the loop out.
BEYOND = """
import os, signal
import numpy as np
import skerry as sk
sk.init(on_failure="continue")
a = sk.zeros(100)
for step in sk.steps(3, protect=[a]):
    with step:
        a.acc(..., np.ones(100))
        sk.sync(step.group)
sk.protect([a], round=0)
while sk.kept("round") < 5:
    try:
        if sk.rank() == 1 and sk.kept("round") == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        a.acc(..., np.ones(100))
        sk.sync(a.group)
        sk.protect(round=sk.kept("round") + 1)
    except sk.PeerDeadError:
        sk.recover()
assert (a.get() == 8 * 3).all(), a.get()
sk.sync(a.group)
print("all is well", flush=True)
"""


def test_a_spare_comes_to_a_call_beyond_a_loop(tmp_path):
    ends_well(tmp_path, BEYOND, 3, 3, living=3, spares=1)


# Nobody is there to take the place of rank 3 when it dies. Two hosts come later, by and by.
GROWS = """
import os, signal, sys, time
import skerry as sk
open(sys.argv[1] + os.environ["HOST"], "w").close()  # this host has come
sk.init(on_failure="continue")
hosts, wanted, lines = sys.argv[1], sys.argv[2].split(), sys.argv[3:]
group, size = sk.world(), sk.size()
if sk.rank() == 3:
    os.kill(os.getpid(), signal.SIGKILL)
if sk.is_spare():
    group = group.refill(60)
while True:
    try:
        over = sk.allreduce(len(group), group=group) == size * size and group.spares() == 0
        over = over and all(os.path.exists(hosts + host) for host in wanted)
        if sk.allreduce(over, "min", group=group):
            break
        if not sk.is_spare() and lines and sk.rank() == group.ranks[0]:
            with open(hosts, "a") as file:
                file.write(lines.pop(0) + "\\n")
        time.sleep(0.1)
        group = group.refill(60)
    except sk.PeerDeadError:
        group = group.refill(60)
a = sk.zeros(1000, group=group)
a.acc(slice(None), 1.0)  # to every member's node, new or old
sk.sync(group)
assert (a.get() == size).all(), a.get()
print("all is well", flush=True)
"""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["h3:2", "h4:2"], ["host h3 is added, with 2 spares", "host h4 is added"]),
        (["h3:4"], ["host h3 is added, with 4 spares"]),
        (["h3:1", "nowhere:2", "h1:2", "h4:3"], [
            "host h3 is not added: it has 1 slots", "host nowhere could not be added",
            "host h4 is added, with 2 spares",
        ]),
        (["h3 cores=2", "#"], ["no host is added from", "expected slots=N"]),
    ],
)  # fmt: skip
def test_hosts_are_added_to_a_running_job(lines, said, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("h1:2  # is there from the start\n")
    if "cores" in lines[0]:  # the mistake is corrected
        program = GROWS.replace('open(hosts, "a")', 'open(hosts, "w")')
        program = program.replace("sleep(0.1)", "sleep(1.2)")  # until it was read
        lines = [*lines, "h3:2"]
    else:
        program = GROWS
    wanted = " ".join(text.split()[1] for text in said if re.match("host .* is added", text))
    job = on_hosts(tmp_path, "h1:2,h2:2", 4, written(tmp_path, program), hosts, wanted, *lines,
                   elastic=hosts)  # fmt: skip
    assert job.returncode == 0 and job.stdout.count("all is well") == 4, job.stdout
    for text in said:
        assert text in job.stdout, job.stdout


# The loop takes in by itself who comes, and the other spare of that host after another death.
ELASTIC = """
import os, signal, sys, time
import skerry as sk
sk.init(on_failure="continue")
hosts, size = sys.argv[1], sk.size()
a = sk.zeros(1000)
waited = 0
for step in sk.steps(60, protect=[a], every=2):
    with step:
        group, first = step.group, step.group.ranks[0] == sk.rank()
        if step == 10 and sk.rank() == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 20 and first and "h3" not in open(hosts).read():
            with open(hosts, "a") as file:
                file.write("h3:2\\n")
        # Until it has grown; from the next protected state on.
        while 30 <= step < 50 and len(group) < size and waited < 600 and not group.spares():
            time.sleep(0.05)
            waited += 1
        if step == 50 and len(group) == size and sk.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        a.local[...] += 1
        sk.sync(group)
assert (a.get() == 60).all(), a.get()
print("all is well in", len(step.group), flush=True)
"""


def test_a_loop_takes_hosts_in_that_are_added(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("")
    program = written(tmp_path, ELASTIC)
    job = on_hosts(tmp_path, "h1:2,h2:2", 2, program, hosts, elastic=hosts)
    assert job.returncode == 0 and job.stdout.count("all is well in 4") == 4, job.stdout


def test_a_loop_in_cpp_takes_a_host_in_that_is_added(tmp_path):
    steps = LAUNCHER.resolve().parent / "tests" / "steps"
    if not steps.exists():
        pytest.skip(f"{steps} is not built")
    hosts = tmp_path / "hosts"
    hosts.write_text("")
    job = on_hosts(tmp_path, "h1:2,h2:2", 2, steps, 0, 1, hosts, elastic=hosts)
    assert job.returncode == 0 and job.stdout.count("ends in a group of 4") == 4, job.stdout


LEFT_OUT = """
import os, sys, time
import skerry as sk
if os.environ["HOST"] == "h3":
    {late}
sk.init(on_failure="continue")
with open(sys.argv[1], "a") as file:
    file.write("h3:2\\n" if sk.rank() == 0 else "")
{wait}
sk.barrier()
print("all is well", flush=True)
"""


@pytest.mark.parametrize(
    ("late", "wait", "said"),
    [
        ("sys.exit(0)", "time.sleep(3)", "could not be added: its rank"),
        ("sys.exit(7)", "time.sleep(3)", "exited with status 7"),
        ("time.sleep(1000)", "time.sleep(3)", ""),
        ("sk.init(); sk.abort(5, 'not here')", "time.sleep(3)", ""),
        ("os.environ['SKERRY_SERVERS'] = '2'", "time.sleep(3)", "SKERRY_SERVERS gives 2"),
        ("pass", "time.sleep(0.7)", ""),
        ("pass", "time.sleep(0.9)", ""),
        ("pass", "", ""),
    ],
)
def test_a_host_that_does_not_come_costs_the_job_nothing(late, wait, said, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("")
    program = written(tmp_path, LEFT_OUT.format(late=late, wait=wait))
    job = on_hosts(tmp_path, "h1:1,h2:2", 2, program, hosts, elastic=hosts)
    assert job.returncode == 0 and job.stdout.count("all is well") == 3, job.stdout
    assert said in job.stdout, job.stdout
