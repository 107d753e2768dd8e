"""Protected arrays, in jobs whose ranks kill themselves. Started by a pytest outside jobs."""

from pathlib import Path

import pytest
from test_as_jobs import LONG, run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


def written(tmp_path, text):
    program = tmp_path / "program.py"
    program.write_text(text)
    return program


def ends_well(tmp_path, text, ranks, nodes, living, spares=0):
    job = run(ranks, nodes, written(tmp_path, text), spares=spares)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == living, job.stdout


KILLED = """
import os, random, runpy, signal, sys, threading, time
import numpy as np
import skerry as sk
import skerry.xp
example, seed, victims = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
sk.init(on_failure="continue")
dice = random.Random(seed * 1000 + sk.rank())
loops = []
make = sk.steps
sk.steps = lambda n, **options: loops.append(make(n, **options)) or loops[0]

def die():
    # Within the loop: when so many of its states are valid, and a while later.
    while not loops:
        time.sleep(0.001)
    states = dice.randint(1, len(loops[0]) // int(os.environ["EVERY"]) * 2 // 3)
    while sk.protection().states < states:
        time.sleep(0.0002)
    time.sleep(dice.uniform(0, 0.003))
    os.kill(os.getpid(), signal.SIGKILL)

if str(sk.rank()) in victims:
    threading.Thread(target=die, daemon=True).start()
if "xp" in example:
    sk.xp.options(whole_bytes=int(os.environ["WHOLE"]))
found = runpy.run_path(example)
if "plate" in found:
    n = found["n"]
    plate = np.zeros((n + 2, n + 2))
    plate[0, 1:-1] = 100.0
    for _ in range(len(loops[0])):
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate[1:-1, 1:-1] = 0.25 * around
    if "inner" in found:
        assert (found["inner"].numpy() == plate[1:-1, 1:-1]).all(), "other heat"
    else:
        assert (found["plate"].get() == plate[1:-1, 1:-1]).all(), "other heat"
        found["plate"].sync()
assert loops[0].recovered >= 1
print("went on", sk.protection(), flush=True)
"""

# Ranks, nodes, who dies: a rank alone, a leader with its node, the first rank, two of them.
WAYS = [(4, 2, "3"), (4, 2, "2"), (3, 3, "0"), (6, 3, "2 3")]
EXAMPLE_STATES = (("protected_heat", 10), ("protected_tasks", 1), ("protected_xp_heat", 10))


@pytest.mark.parametrize(
    ("example", "every", "way", "seed"),
    [
        *(("protected_heat", 10, way, 1) for way in WAYS),
        *(("protected_tasks", 1, way, 1) for way in WAYS[:2]),
        *(("protected_xp_heat", 10, way, 1) for way in WAYS[1:]),
        ("protected_xp_heat", 10, WAYS[0], 2),
        *(
            pytest.param(example, every, way, seed, marks=LONG)
            for example, every in EXAMPLE_STATES
            for seed in (2, 3)
            for way in WAYS
        ),
    ],
)
def test_the_result_is_right_whoever_dies(example, every, way, seed, tmp_path, monkeypatch):
    monkeypatch.setenv("EVERY", str(every))
    monkeypatch.setenv("WHOLE", "0" if seed % 2 else str(1 << 30))  # divided, or on every rank
    program = written(tmp_path, KILLED)
    ranks, nodes, victims = way
    job = run(ranks, nodes, program, EXAMPLES / f"{example}.py", seed, *victims.split())
    assert job.returncode == 0, job.stdout
    assert "went on" in job.stdout and "dead: []" not in job.stdout, job.stdout


KINDS = """
import os, signal
import numpy as np
import skerry as sk
sk.init(on_failure="continue")

def filled(a, times):
    own = a.local
    if own.size:
        low = [b[0] for b in a.distribution()]
        at = np.indices(own.shape) + np.reshape(low, (-1,) + (1,) * own.ndim)
        own[...] = (times * (1 + sum((i + 3) * x for i, x in enumerate(at)))).astype(a.dtype)
    return a

def values(a, times):
    at = np.indices(a.shape)
    return (times * (1 + sum((i + 3) * x for i, x in enumerate(at)))).astype(a.dtype)

arrays = [
    sk.zeros((301, 77)),
    sk.zeros(3, "int8"),  # less than one for each rank
    sk.zeros((5, 40, 6, 3), "complex64"),
    sk.zeros((300, 300), distribution=sk.Irregular([0, 10, 250], [0, 100])),
    sk.zeros((64, 64), "int32", grid=(1, sk.size())),
    sk.zeros((90, 50), mirrored=True),
    sk.ghosts((60, 44), "float32", width=(2, 1), periodic=(True, False)),
    sk.ghosts((60, 44), width=(1, 2), grid=(1, sk.size())),  # corners beside a neighbour's ends
]
edges = arrays[-2].padded
if edges.size and arrays[-2].distribution()[1][0] == 0:
    edges[:, 0] = 5
if arrays[-1].padded.size:
    arrays[-1].padded[0] = 6
arrays[0].protect()
for times in (1, 2, 3):
    for a in arrays:
        filled(a, times)
    sk.protect(arrays, times=times)
before = sk.protection()
sk.protect()  # twice the same: the other copies
sk.protect()
same = sk.protection()
sk.protect(times=3)
assert sk.protection().moved_bytes == same.moved_bytes, "tiles that did not change were sent"
assert sk.protection().states == before.states + 3
last = sk.size() - 1
for a in arrays:
    filled(a, 9)  # is lost
sk.sync()
if sk.rank() == last:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    sk.allreduce(1)
    raise SystemExit("an allreduce with a dead rank")
except sk.PeerDeadError:
    pass
mine = arrays[0]
group = sk.recover(timeout=60)
assert mine.group.ranks == group.ranks == [r for r in range(sk.size()) if r not in sk.failed()]
assert sk.kept("times") == 3 and sk.kept("nothing", 7) == 7
for a in arrays:
    assert (a.get() == values(a, 3)).all(), a
edges = arrays[-2].padded
if edges.size and arrays[-2].distribution()[1][0] == 0:
    assert (edges[:, 0] == 5).all(), edges[:, 0]
if arrays[-1].padded.size and arrays[-1].distribution()[0][0] == 0:
    assert (arrays[-1].padded[0] == 6).all(), arrays[-1].padded[0]
for ghosts in arrays[-2:]:  # as after an update
    brought = ghosts.padded.copy()
    assert (brought == ghosts.update().padded).all(), ghosts
sk.sync(group)
for a in arrays:
    filled(a, 4)
sk.protect(times=4)
assert sk.protection().recoveries == 1
arrays[1].free()
sk.protect(times=5)
for use in (lambda: sk.barrier(), lambda: sk.zeros(5)):
    try:
        use()
        raise SystemExit("the old group works")
    except sk.InvalidError:
        pass
print("all is well", flush=True)
"""


@pytest.mark.parametrize(("ranks", "nodes"), [(4, 2), (3, 3), (6, 3)])
def test_arrays_of_all_kinds_come_back(ranks, nodes, tmp_path):
    ends_well(tmp_path, KINDS, ranks, nodes, living=ranks - 1)


REFUSED = """
import os, signal, sys, time
import skerry as sk
sk.init(on_failure="continue")

def refused(kind, call, *words):
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise SystemExit(f"no {kind.__name__}: {words}")

a, b = sk.zeros(1000), sk.zeros(100)
refused(sk.InvalidError, lambda: sk.protect(), "nothing to protect")
refused(sk.InvalidError, lambda: sk.protect([a], partner=sk.nodes()), "no partner", "partner=0")
refused(sk.InvalidError, lambda: a.protect(-1), "partner")
refused(sk.DtypeError, lambda: sk.protect([3]), "cannot be protected")
refused(sk.LostError, lambda: sk.recover(), "nothing was protected")
refused(sk.InvalidError, lambda: sk.protect([a] if sk.rank() else [a, b]), "different arrays")
refused(sk.InvalidError, lambda: sk.protect([a], **{f"x{sk.rank()}": 1}), "different names")
refused(sk.InvalidError, lambda: sk.protect([a, "b"] if sk.rank() == 1 else [a]))
odd = sk.world().split(sk.rank() % 2)
part = sk.zeros(10, group=odd)
refused(sk.InvalidError, lambda: sk.protect([a, part]), "one group")
refused(sk.InvalidError, lambda: sk.steps(-1, protect=[a]), "steps")
refused(sk.InvalidError, lambda: sk.steps(1, protect=[]), "something to protect")
loop = iter(sk.steps(3, protect=[a]))
step = next(loop)
refused(sk.InvalidError, lambda: next(loop), "with step")
with step:
    pass
refused(sk.InvalidError, lambda: step.__enter__(), "is over")

# Some do not come.
sign, last = sys.argv[1], sk.size() - 1
sk.barrier()
if sk.rank() == last:
    os.kill(os.getpid(), signal.SIGKILL)
refused(sk.PeerDeadError, lambda: sk.allreduce(1))
if sk.rank() == 1:
    while not os.path.exists(sign):
        time.sleep(0.01)
else:
    refused(sk.TimeoutError, lambda: sk.recover(timeout=0.5), ": 1")
    open(sign, "w").close()
while True:
    try:
        sk.recover(timeout=60)
        break
    except sk.TimeoutError:  # who comes late is told what the others were
        pass
assert a.group.ranks == [r for r in range(sk.size()) if r not in sk.failed()]
print("all is well", flush=True)
"""


@pytest.mark.parametrize(("ranks", "nodes"), [(4, 2), (3, 3)])
def test_what_cannot_be_is_refused_by_all(ranks, nodes, tmp_path):
    job = run(ranks, nodes, written(tmp_path, REFUSED), tmp_path / "sign")
    assert job.returncode == 0, job.stdout
    # Only ranks 0 and 1 are there in every layout: with a leader its node goes.
    assert job.stdout.count("all is well") >= 2, job.stdout


FOREIGN_ERRORS = """
import os, signal, threading
import numpy as np
import skerry as sk
import skerry.numpy
from skerry import _protected
from skerry.xp import _going_on
sk.init(on_failure="continue")

def told(call, kind, on=1):
    \"\"\"`kind` on one rank, and on the others an error that names it.\"\"\"
    try:
        call()
    except Exception as error:
        others = isinstance(error, sk.InvalidError) and f"rank {on} refused" in str(error)
        assert isinstance(error, kind) and not others if sk.rank() == on else others, error
    else:
        raise SystemExit(f"no error: {kind}")

a = sk.ones(1000)
value = threading.Lock() if sk.rank() == 1 else 3  # cannot be copied
told(lambda: sk.protect([a], value=value), TypeError)
told(lambda: sk.protect([a] if sk.rank() != 1 else 3), sk.InvalidError)
told(lambda: sk.protect([a] if sk.rank() != 1 else []), sk.InvalidError)
x = skerry.numpy.ones(5000)
sk.protect([x, a], value=3)

def fails(name, of=_protected._Copies):
    \"\"\"Rank 1 has no memory the next time that copies do something.\"\"\"
    original = getattr(of, name)
    def once(*given):
        setattr(of, name, original)
        if sk.rank() == 1:
            raise MemoryError("none")
        return original(*given)
    setattr(of, name, once)

a.local[...] = 2
fails("save")
told(lambda: sk.protect(value=4), MemoryError)
sk.protect(value=5)
if sk.rank() == sk.size() - 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    sk.allreduce(1)
except sk.PeerDeadError:
    pass
fails("made", _going_on._XpForm)
told(lambda: sk.recover(timeout=60), MemoryError)
for name in "fill", "save":
    fails(name)
    told(lambda: sk.recover(timeout=60), MemoryError)
group = sk.recover(timeout=60)
assert sk.kept("value") == 5 and (a.get() == 2).all() and (x.numpy() == 1).all()
print("all is well", flush=True)
"""


def test_any_error_of_one_member_is_one_of_all(tmp_path):
    ends_well(tmp_path, FOREIGN_ERRORS, 3, 3, living=2)


OVER = """
import ast, inspect, os, signal
import numpy as np
import skerry as sk
from skerry import _over
sk.init(on_failure="continue")

# What takes a group does so.
takes = set()
stubs = ast.parse(open(os.path.join(os.path.dirname(sk.__file__), "_core.pyi")).read())
for node in stubs.body:
    inits = [node] if isinstance(node, ast.FunctionDef) else [
        each for each in getattr(node, "body", ())
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    ]
    for each in inits:
        arguments = each.args.args + each.args.kwonlyargs
        if any(argument.arg == "group" for argument in arguments):
            takes.add(node.name)
for name in sk.__all__:
    value = getattr(sk, name)
    if callable(value) and (getattr(value, "__module__", "") or "").startswith("skerry"):
        try:
            group = inspect.signature(value).parameters.get("group")
            if group and group.default is None:
                takes.add(name)
        except ValueError:
            pass
takes = takes.intersection(sk.__all__) - {"recover"}
assert takes == _over.WITH_GROUP, takes ^ _over.WITH_GROUP

s = sk.over(sk.world())
attempts = []

def attempt(group, arrays):
    assert s.group is group and s.size() == len(group) and s.rank() == group.index(sk.rank())
    attempts.append(len(arrays))
    a = arrays[0] if arrays else s.zeros(40)
    values = np.full(3, s.rank())
    assert (s.broadcast(values, s.size() - 1) == s.size() - 1).all()
    total = s.reduce(s.rank(), root=1)
    assert (total == sum(range(s.size()))) if s.rank() == 1 else total is None
    assert s.allgather(sk.rank()).tolist() == group.ranks and s.world() is group
    assert s.node_ranks() == [s.rank()] and s.nodes() == s.size()
    while a[0] < 10:
        s.sync()
        a.local[...] += 1
        s.sync(group)
        sk.protect([a])
        if len(attempts) == 1 and a[0] == 4 and sk.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if len(attempts) == 2 and a[0] == 7 and sk.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return a[0]

assert s.go_on(attempt) == 10
assert attempts == [0, 1, 1] and s.size() == sk.size() - 2
assert len(s.tasks(5)) == 5
print("all is well", flush=True)
"""


def test_a_program_over_a_group_goes_over_to_those_that_live(tmp_path):
    ends_well(tmp_path, OVER, 5, 5, living=3)


OVER_STEPS = """
import os, signal
import skerry as sk
sk.init(on_failure="continue")
s = sk.over(sk.world())
other, gone = sk.over(sk.world().split(sk.rank() // 2)), sk.over(sk.world().split(0))
gone.group.free()
a = s.zeros(40)
loop = s.steps(12, protect=[a], every=2)
for step in loop:
    with step:
        if step == 5 and sk.rank() == 2 and len(s.group) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        a.local[...] += s.allreduce(1) == s.size()
        assert s.group.ranks == step.group.ranks
assert loop.recovered == 1 and s.size() == 3 and (a.get() == 12).all()
assert s.allgather(sk.rank()).tolist() == [0, 1, 3]
assert len(other.group) == 2
if sk.rank() == 3:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        s.allreduce(1)
except sk.PeerDeadError:
    sk.recover(timeout=60)
assert s.allreduce(1) == 2 and (a.get() == 12).all()
print("all is well", flush=True)
"""


def test_the_package_over_a_group_follows_loops_and_recoveries(tmp_path):
    ends_well(tmp_path, OVER_STEPS, 4, 4, living=2)


CHANGED = """
import os, signal
import numpy
import skerry as sk
import skerry.numpy as np
sk.init(on_failure="continue")
sk.xp.options(whole_bytes=2000)
from skerry.xp import _layout, _storage
from skerry.xp._array import in_layout

def refused(word):
    try:
        sk.protect()
    except sk.InvalidError as error:
        assert word in str(error) or "refused" in str(error), error
    else:
        raise SystemExit(f"protected: {word}")

values = numpy.arange(20.0).reshape(5, 4)
x, y, z = np.array(values), np.array(values), np.array(values)
wide = np.arange(4000.0).reshape(40, 100)
assert x.layout.whole and not wide.layout.whole
sk.protect([x, y, wide, z])
x.shape = (4, 5)
refused("(4, 5)")
x.shape = (5, 4)
y.dtype = "int64"
refused("int64")
y.dtype = "float64"
sk.protect()
x.shape, y.dtype = (2, 10), "int64"
x[...] = 0
z[...] = 0
seen = z[1]
block = in_layout(wide, _layout.whole(wide.shape, 3))
sk.barrier()  # all have it: nobody hears of the death in the exchange
if sk.rank() == 0:  # others died before they heard that all were to have it
    _storage._become_whole(wide, block, 0)
    assert wide.layout.whole
if sk.rank() == 2:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        sk.allreduce(1)
except sk.PeerDeadError:
    pass
sk.recover(timeout=60)
assert x.shape == (5, 4) and y.dtype == numpy.float64
assert all((each.numpy() == values).all() for each in (x, y, z))
assert (numpy.asarray(seen) == values[1]).all()
assert not wide.layout.whole and (wide.numpy() == numpy.arange(4000.0).reshape(40, 100)).all()
sk.protect()
x.shape = (20,)
refused("(20,)")
print("all is well", flush=True)
"""


def test_arrays_that_were_changed_in_place_come_back_as_they_were(tmp_path):
    ends_well(tmp_path, CHANGED, 3, 3, living=2)


XP = """
import os, signal
import numpy
import skerry as sk
import skerry.numpy as np
from skerry import xp
sk.init(on_failure="continue")
sk.xp.options(whole_bytes=2000, loop_bytes=0)

def refused(kind, call, *words):
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise SystemExit(f"no {kind.__name__}: {words}")

rng = numpy.random.RandomState(5)
values = {
    "divided": rng.rand(37, 41), "whole": rng.rand(5, 3), "few": rng.rand(2, 2000),
    "integers": rng.randint(0, 9, 5000), "complex": rng.rand(300, 3) * 1j,
}
arrays = {name: np.array(value) for name, value in values.items()}
other, whole = np.zeros((100, 100)) + 1, np.zeros(4) + 2
assert not arrays["divided"].layout.whole and arrays["whole"].layout.whole
part = arrays["divided"][3:30, ::2]
row = arrays["whole"][1]
turned = arrays["divided"].reshape(41, 37)  # a copy that follows
refused(sk.InvalidError, lambda: sk.protect([part]), "a view")
refused(sk.InvalidError, lambda: sk.protect([turned]), "a view")
refused(sk.InvalidError, lambda: sk.protect([xp.sum(xp.asarray(values["few"]))]), "without axes")
stored = np.array(values["divided"])
stored.array
refused(sk.InvalidError, lambda: sk.protect([stored]), "x.array")
for times in (1, 2, 3):
    for name, value in values.items():
        arrays[name][...] = value * times
    np.random.seed(times)
    first = np.random.rand(3)
    sk.protect([*arrays.values()], times=times)
drawn = np.random.rand(3)  # after the state: comes again
last = sk.size() - 1
if sk.rank() != 1:
    np.random.rand(7)  # ranks may differ in a broken step
for x in arrays.values():
    x[...] = 0
if sk.rank() == last:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        other[:1] + other[50:51]
        sk.allreduce(1)
except sk.PeerDeadError:
    pass
group = sk.recover(timeout=60)
assert sk.kept("times") == 3
assert (np.random.rand(3) == drawn).all()
for name, value in values.items():
    x = arrays[name]
    assert (x.numpy() == 3 * value).all(), name
    assert abs(complex(np.sum(x)) - (3 * value).sum()) < 1e-9, name
    assert len(x.layout.boxes) == len(group)
assert (part.numpy() == 3 * values["divided"][3:30, ::2]).all(), "a view does not follow"
refused(sk.InvalidError, lambda: turned.numpy(), "take it again")
turned = arrays["divided"].reshape(41, 37)
assert (turned.numpy() == 3 * values["divided"].reshape(41, 37)).all()
assert (numpy.asarray(row) == 3 * values["whole"][1]).all()
part[...] = 7
assert (arrays["divided"].numpy()[3:30, ::2] == 7).all()
assert (whole.numpy() == 2).all()
if len(group) > 1:
    refused(sk.InvalidError, lambda: np.sum(other), "has died")
    refused(sk.InvalidError, lambda: other.numpy(), "has died")
    refused(sk.InvalidError, lambda: (other + other)[5:9] + other[:4], "has died")
new = np.random.rand(400, 400)
assert abs(np.linalg.solve(new + 40 * np.eye(400), new @ np.ones(400)).sum()) > 0
assert (np.sort(arrays["integers"]).numpy() == numpy.sort(values["integers"] * 3)).all()
for _ in range(2):
    sk.protect(times=4)
print("all is well", flush=True)
"""


@pytest.mark.parametrize(("ranks", "nodes"), [(4, 2), (3, 3), (2, 2)])
def test_arrays_of_numpy_programs_come_back(ranks, nodes, tmp_path):
    ends_well(tmp_path, XP, ranks, nodes, living=ranks - 1)


ONE_NODE = """
import os, signal
import numpy as np
import skerry as sk
sk.init(on_failure="continue")
a = sk.zeros(1000)
try:
    sk.protect([a])
    raise SystemExit("a partner on one node")
except sk.InvalidError as error:
    assert "1 node" in str(error) and "partner=0" in str(error), error
whole = sk.zeros(10, mirrored=True)
whole.protect()  # needs none
for step in sk.steps(20, protect=[a], partner=0):
    with step:
        if step == 7 and sk.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        a.acc(..., np.ones(1000))
        a.sync()
        step.values["done"] = step.values.get("done", 0) + 1
assert sk.kept("values") == {"done": 20} and sk.failed() == [2]
rounds = a.get()
a.sync()
assert (rounds[:1] > 0).all() and (rounds == rounds[0]).all()
print("all is well", flush=True)
"""


def test_one_node_keeps_copies_of_ranks_but_its_leader(tmp_path):
    ends_well(tmp_path, ONE_NODE, 3, 1, living=2)


LOST = """
import os, signal
import skerry as sk
sk.init(on_failure="continue")
a = sk.ones((400, 5))
try:
    for step in sk.steps(20, protect=[a]):
        with step:
            if step == 5 and sk.rank() in (1, 2):
                os.kill(os.getpid(), signal.SIGKILL)
            sk.sync(step.group)
except sk.LostError as error:
    assert "[100:200, 0:5] of array 0, (400, 5) float64, which rank 1" in str(error), error
    print("told", flush=True)
os._exit(0)
"""


def test_blocks_whose_owner_and_partner_died_are_named(tmp_path):
    job = run(4, 4, written(tmp_path, LOST))
    assert job.stdout.count("told") == 2, job.stdout


ENDS = """
import skerry as sk
sk.init()
a = sk.zeros(10)
try:
    a.protect()
except sk.UnsupportedError as error:
    assert "continue" in str(error)
    print("told", flush=True)
"""


def test_jobs_that_end_with_a_rank_protect_nothing(tmp_path):
    job = run(2, 2, written(tmp_path, ENDS))
    assert job.stdout.count("told") == 2, job.stdout


SPLIT = """
import os, signal, time
import skerry as sk
from skerry import _protected
sk.init(on_failure="continue")
a = sk.zeros(100)
sk.protect([a], partner=0)
sk.protect()
if sk.rank() == 1:  # as if it had not heard that the last state is valid
    _protected._kept.slot, _protected._kept.number = 0, 1
sk.barrier()
if sk.rank() == 2:
    os.kill(os.getpid(), signal.SIGKILL)
while not sk.failed():
    time.sleep(0.001)
try:
    sk.recover(timeout=60)
except sk.InvalidError as error:
    assert "different states" in str(error), error
    print("told", flush=True)
while sk.rank() == 0 and len(sk.failed()) < 2:  # its end would be rank 1's, whose node it leads
    time.sleep(0.001)
os._exit(0)
"""


def test_members_that_kept_different_states_are_told(tmp_path):
    job = run(3, 1, written(tmp_path, SPLIT))
    assert job.stdout.count("told") == 2, job.stdout


OTHERS = """
import os, signal, time
import numpy as np
import skerry as sk
sk.init(on_failure="continue")
wide, a = sk.zeros(4), sk.zeros(100)  # wide is not protected
last = sk.size() - 1
turns = 0
try:
    for step in sk.steps(10, protect=[a]):
        with step:
            turns += 1
            if step == 2 and sk.rank() == last:
                os.kill(os.getpid(), signal.SIGKILL)
            sk.sync(step.group)
            if step == 5:
                wide[last:last + 1]
                raise SystemExit("a dead node answers")
except sk.PeerDeadError as error:
    assert not isinstance(error, sk.LostError) and turns < 10
    print("told", flush=True)
os._exit(0)
"""


def test_a_loop_raises_what_is_no_death_in_its_group(tmp_path):
    job = run(3, 3, written(tmp_path, OTHERS))
    assert job.stdout.count("told") == 2, job.stdout


FOREIGN = """
import os, signal, sys
import skerry as sk
sk.init(on_failure="continue")
a, b = sk.zeros(100), sk.zeros(10)
try:
    for step in sk.steps(5, protect=[a]):
        with step:
            if sys.argv[1] == "loop":
                for inner in sk.steps(3, protect=[b]):
                    with inner:
                        b.sync()
            else:
                sk.protect([b])
            if step == 2 and sk.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            sk.sync(step.group)
except sk.InvalidError as error:
    assert "not of this loop" in str(error), error
    print("told", flush=True)
os._exit(0)
"""


HEARD = """
import os, signal
import skerry as sk
from skerry import _core
sk.init(on_failure="continue")
if sk.rank() == 2:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    for _ in range(100_000):
        sk.allreduce(1)
    raise SystemExit("nobody died")
except sk.PeerDeadError:
    _core._hear()
    assert sk.failed() == [2], sk.failed()
_core._hear()
group = sk.world().shrink()
print("all is well", flush=True)
"""


@pytest.mark.parametrize("nodes", [1, 3])
def test_who_was_told_of_a_death_by_another_rank_can_ask_the_launcher(nodes, tmp_path):
    ends_well(tmp_path, HEARD, 3, nodes, living=2)


@pytest.mark.parametrize("by", ["loop", "call"])
def test_a_loop_does_not_go_back_to_a_state_of_others(by, tmp_path):
    job = run(3, 3, written(tmp_path, FOREIGN), by)
    assert job.stdout.count("told") == 2, job.stdout


ADDED = """
import os, signal
import numpy as np
import skerry as sk
from skerry import _protected
sk.init(on_failure="continue")
a, b, c = sk.ones(100), sk.zeros(1000), sk.ones(10)
sk.protect([a, c])
a.local[...] = 2
b.protect()  # its first state is never complete
last = sk.size() - 1
if sk.rank() == last:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    sk.protect()
    raise SystemExit("a state with a dead rank")
except sk.PeerDeadError:
    pass
if sk.rank() == 1:  # c is freed on one member: free() fails after it has begun
    try:
        c.free()
    except sk.PeerDeadError:
        pass
    assert c.freed
group = sk.recover(timeout=60)
assert (a.get() == 1).all() and a.group.ranks == group.ranks
assert b.group.ranks != group.ranks
assert len(_protected._kept.copies) == 1
a.sync()
b = sk.zeros(1000, group=group)
sk.protect([b])
assert len(_protected._kept.copies) == 2
print("all is well", flush=True)
"""


def test_what_has_no_state_is_left_out(tmp_path):
    job = run(4, 4, written(tmp_path, ADDED))
    assert job.stdout.count("all is well") == 3, job.stdout


ANEW = """
import os, signal, time
import skerry as sk
sk.init(on_failure="continue")
a = sk.ones(100)
a.protect()
if sk.size() - 1 == sk.rank():  # before the first state
    os.kill(os.getpid(), signal.SIGKILL)
try:
    sk.protect()
    raise SystemExit("a state with a dead rank")
except sk.PeerDeadError:
    group = sk.world().shrink()
a = sk.ones(100, group=group)
try:
    for step in sk.steps(9, protect=[a]):
        with step:
            if step == 5 and sk.rank() in (1, 2):
                os.kill(os.getpid(), signal.SIGKILL)
            sk.sync(step.group)
    raise SystemExit("nothing was lost")
except sk.LostError as error:
    group = error.group
assert sk.kept("step") is None
a = sk.ones(100, group=group)
loop = sk.steps(9, protect=[a])
for step in loop:
    with step:
        if step == 5 and sk.rank() == group.ranks[-1]:
            os.kill(os.getpid(), signal.SIGKILL)
        sk.sync(step.group)
assert loop.recovered == 1 and (a.get() == 1).all()
a.sync()
# One node is left of several.
more, mirrored = sk.ones(10, group=a.group), sk.ones(10, mirrored=True, group=a.group)
sk.protect([more, mirrored], partner=1)
print("all is well", flush=True)
"""


def test_others_are_protected_after_a_loss(tmp_path):
    job = run(5, 5, written(tmp_path, ANEW))
    assert job.stdout.count("all is well") == 1, job.stdout


SLOW = """
import os, signal, threading, time
import numpy as np
import skerry as sk
sk.init(on_failure="continue")
pids = sk.allgather(np.array([os.getpid()])).reshape(-1).tolist()
if sk.rank() == 0:
    time.sleep(0.3)  # rank 1 waits in the barrier for rank 0
    os.kill(pids[1], signal.SIGSTOP)
    threading.Timer(1.0, os.kill, (pids[1], signal.SIGCONT)).start()
try:
    sk.barrier()
    came_out = 1
except sk.PeerDeadError:
    came_out = 0
if sk.rank() == sk.size() - 1:
    os.kill(os.getpid(), signal.SIGKILL)
while not sk.failed():
    time.sleep(0.001)
group = sk.world().shrink(60)
all_came = sk.allgather(np.array([came_out]), group=group).reshape(-1).tolist()
assert all_came == [1] * (sk.size() - 1), all_came
print("all is well", flush=True)
"""


# A member that shrinks the group was gone from its last step on, which a slower one was still in.
@pytest.mark.parametrize(("ranks", "nodes"), [(4, 1), (10, 1)])
def test_a_slow_member_comes_out_of_a_call_as_the_others_did(ranks, nodes, tmp_path):
    job = run(ranks, nodes, written(tmp_path, SLOW))
    assert job.stdout.count("all is well") == ranks - 1, job.stdout
