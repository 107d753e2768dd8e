"""Spares that take the places of the dead (`skerry run --spares`) in programs that protect arrays."""

import pytest
from test_as_jobs import LONG, run
from test_going_on import EXAMPLE_STATES, EXAMPLES, KILLED, ends_well, written

# Ranks, nodes, spares, who dies.
WAYS = [(4, 2, 2, "2"), (4, 2, 1, "3"), (3, 3, 2, "0 1"), (4, 2, 1, "1 2")]
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
    assert job.stdout.count("in the group") >= ranks - 1, job.stdout


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
        assert group.ranks == [0, 1, sk.size(), 3, *range(4, sk.size())], group.ranks
        assert all((a.get() == values(a, 3)).all() for a in arrays)
        sk.sync(group)
    step = sk.kept("step")
group = arrays[0].group
for a in arrays:
    assert (a.get() == values(a, 5)).all(), a
    assert a.group.ranks == group.ranks
for ghosts in arrays[-2:]:
    brought = ghosts.padded.copy()
    assert (brought == ghosts.update().padded).all(), ghosts
sk.sync(group)
assert sk.kept("rank") == sk.rank() and sk.protection().recoveries == 1
assert sk.allreduce(1, group=group) == sk.size()
print("all is well", flush=True)
"""


@pytest.mark.parametrize(("ranks", "nodes", "spares"), [(4, 2, 2), (6, 3, 1), (4, 1, 1)])
def test_arrays_of_all_kinds_come_to_a_spare(ranks, nodes, spares, tmp_path):
    ends_well(tmp_path, KINDS, ranks, nodes, living=ranks, spares=spares)


LOOPS = """
import os, signal
import numpy as np
import skerry as sk
import skerry.xp as xp
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
sk.init(on_failure="continue")
s = sk.over(sk.world())
attempts = []

def attempt(group, arrays):
    attempts.append(group.ranks)
    if arrays:
        a, b, first = *arrays, sk.kept("step")
    else:
        a, b, first = s.zeros(1000), xp.zeros((40, 3)), 0
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
assert (a.get() == 12 * sk.size()).all() and (b.numpy() == 24).all()
s.sync()
print("all is well", flush=True)
"""


def test_a_spare_calls_the_attempt_with_the_arrays_of_the_others(tmp_path):
    ends_well(tmp_path, GO_ON, 3, 3, living=3, spares=2)


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


OTHERS = """
import os, signal
import skerry as sk
sk.init(on_failure="continue")
a = sk.zeros(7 if sk.is_spare() else 100)
try:
    for step in sk.steps(9, protect=[a]):
        with step:
            if sk.rank() == 1 and step == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            sk.sync(step.group)
except sk.InvalidError as error:
    print("refused:", error, flush=True)
    raise SystemExit(1)
"""


def test_a_spare_that_makes_other_arrays_is_an_error_of_all(tmp_path):
    job = run(3, 3, written(tmp_path, OTHERS), spares=1)
    assert job.returncode != 0 and job.stdout.count("refused:") >= 1, job.stdout
    assert "makes the same arrays" in job.stdout, job.stdout


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
