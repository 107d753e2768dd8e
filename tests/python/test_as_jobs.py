"""The other tests here, and the examples, as jobs of several ranks and nodes. Started by a pytest that is itself no such job."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skerry as sk

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = Path(sk.__file__).parent / "bin" / "skerry"

pytestmark = pytest.mark.skipif(
    sk.size() > 1 or "SKERRY_RANK" in os.environ, reason="already inside a job"
)


def run(ranks, nodes, *program, spares=0):
    command = [
        LAUNCHER,
        "run",
        "-n",
        str(ranks),
        "--nodes",
        str(nodes),
        *(["--spares", str(spares)] if spares else []),
        sys.executable,
        *map(str, program),
    ]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )


def run_modules(ranks, nodes, modules):
    """All modules in one job: most of the time of a short one is Python's start in each rank."""
    files = [Path(__file__).with_name(f"test_{module}.py") for module in modules.split()]
    job = run(ranks, nodes, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files)
    assert job.returncode == 0, job.stdout[-4000:]
    assert job.stdout.count(" passed") == ranks, job.stdout[-4000:]


# One layout of each kind for `make test`.
LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("ranks", "nodes"),
    [(4, 2), *(pytest.param(*at, marks=LONG) for at in [(2, 1), (2, 2), (3, 2), (4, 4), (8, 4)])],
)
def test_modules(ranks, nodes):
    run_modules(ranks, nodes, "arrays buffers job mirrors windows")


# In two jobs, each well below a time limit that fits a crowded machine.
@pytest.mark.parametrize(
    "modules",
    [
        "xp_arrays xp_results whole followers random_programs programs random",
        "numpy numpy_alike numpy_files numpy_spelling advice cyclic porting pictures tutorial "
        "tasks files patches ga names",
    ],
    ids=["arrays", "numpy"],
)
@pytest.mark.parametrize(
    ("ranks", "nodes"),
    [(2, 2), *(pytest.param(*at, marks=LONG) for at in [(2, 1), (4, 2)])],
)
def test_modules_of_whole_arrays(ranks, nodes, modules):
    run_modules(ranks, nodes, modules)


def test_a_rank_in_another_collective_call_is_told(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import skerry as sk\nsk.init()\n"
        "sk.sync() if sk.rank() == 0 else sk.allreduce(sk.rank())\n"
    )
    job = run(4, 4, program)
    assert job.returncode != 0, job.stdout
    assert "InvalidError" in job.stdout, job.stdout
    assert "all ranks make the same collective calls" in job.stdout, job.stdout


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples" / "python").glob("*.py")), ids=lambda path: path.stem
)
def test_example(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for what it writes
    job = run(4, 2, example)
    assert job.returncode == 0, job.stdout


@pytest.mark.parametrize("example", ["hash_table", "work_stealing", "ring"])
def test_help_of_an_example(example):
    told = subprocess.run(
        [sys.executable, ROOT / "examples" / "python" / f"{example}.py", "--help"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert told.returncode == 0 and "skerry run" in told.stdout and "--" in told.stdout


@pytest.mark.parametrize("given", [None, "3"])
def test_ranks_share_the_cores_among_their_threads(given, tmp_path, monkeypatch):
    """Bug guarded against: each of two ranks started a thread for every core."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    program = tmp_path / "program.py"
    program.write_text("import os; print(os.environ['OMP_NUM_THREADS'])")
    job = run(2, 1, program)
    cores = len(os.sched_getaffinity(0))
    assert job.stdout.split() == 2 * [given or str(max(1, cores // 2))]


KEPT = """
import threading
import numpy as np
import skerry as sk
sk.init()
held = np.empty(2, dtype=object)
held[0], held[1] = sk.zeros((3, 3)), held  # a circle that no garbage collector sees
began = threading.Event()
def wait(array):
    began.set()
    threading.Event().wait()
threading.Thread(target=wait, args=(sk.zeros((3, 3)),), daemon=True).start()
began.wait()
"""


def test_arrays_that_outlive_python_are_not_listed(tmp_path):
    """Bug guarded against: nanobind listed each of them, then all its types and functions."""
    program = tmp_path / "program.py"
    program.write_text(KEPT)
    job = run(2, 1, program)
    assert (job.returncode, job.stdout) == (0, "")


LEAVES = """
import os, sys, threading
import skerry as sk
sk.init()
if sk.rank() == 1:
    {how}
{others}
"""


@pytest.mark.parametrize(
    "how",
    [
        "raise ValueError('bad')",
        "sys.exit('bad input')",
        "sys.exit(3)",
        "sk.zeros((3, 3))[5]",
        "exit(1)",
        "quit('no input')",
        "raise SystemExit",
        "raise SystemExit(1)",
        "raise SystemExit('bad input')",
        "os._exit(1)",
        "os._exit(0)",
    ],
)
def test_a_rank_that_fails_ends_the_job(how, tmp_path):
    """Finalizing at exit waits for the other ranks, which wait for the rank that failed. It must not happen after an error."""
    program = tmp_path / "program.py"
    program.write_text(
        LEAVES.format(
            how=how, others="elif 'zeros' in sys.argv[1]:\n    sk.zeros((3, 3))\nsk.barrier()"
        )
    )
    job = run(3, 1, program, how)
    assert job.returncode != 0
    assert "rank 1" in job.stdout


LEAVES_LATER = """
import sys, time
import numpy as np, skerry as sk
leaver, ranks = int(sys.argv[1]), int(sys.argv[2])
sk.init()
others = sk.world().split(int(sk.rank() == leaver))
for root in range(12):  # they have places of their own by now
    sk.broadcast(np.full(2, root), root % ranks)
    sk.reduce(np.ones(2), "sum", root % ranks)
if sk.rank() == leaver:
    sk.finalize()
for root in range(150):  # more than who only gives may run ahead
    {waits}
print("passed")
"""


@pytest.mark.parametrize(
    "ranks,nodes,leaver,waits",
    [
        (2, 2, 0, "sk.broadcast(np.ones(3), leaver)"),
        (5, 2, 3, "sk.broadcast(np.ones(3), root % ranks)"),
        (9, 3, 4, "sk.reduce(np.ones(3), 'sum', (leaver + 1) % ranks)"),
        # Those that only gave are elsewhere when the one that waits finds it.
        (6, 2, 3, "sk.reduce(np.ones(3), 'sum', 0); sk.allreduce(np.ones(1))"),
        (5, 5, 4, "sk.reduce(np.ones(3), 'sum', 2); sk.allreduce(np.ones(5000))"),
        (3, 3, 2, "sk.reduce(np.ones(3), 'sum', 0); sk.barrier(others)"),
        # Round the ring.
        (7, 7, 3, "sk.allreduce(np.ones(100_000))"),
        (6, 3, 5, "sk.broadcast(np.ones(200_000), root % ranks)"),
        (4, 4, 0, "sk.broadcast(np.ones(50_000), 2); sk.allreduce(np.ones(5000))"),
        (5, 3, 2, "sk.allgather(np.ones(50_000)); sk.barrier(others)"),
        # Who only gave comes when those that know wait for nobody any more.
        (3, 3, 2, "sk.broadcast(np.ones(9999), 1); time.sleep(4 * (sk.rank() == 1)); sk.barrier()"),
        (7, 7, 6, "time.sleep(4 * (sk.rank() == 3)); sk.allreduce(np.ones(100_000))"),
    ],
)
def test_who_leaves_is_found_by_those_that_wait_for_it(ranks, nodes, leaver, waits, tmp_path):
    """What is no sweep meets nobody, so it has to look."""
    program = tmp_path / "program.py"
    program.write_text(LEAVES_LATER.format(waits=waits))
    job = run(ranks, nodes, program, leaver, ranks)
    assert job.returncode != 0 and "passed" not in job.stdout, job.stdout
    assert f"rank {leaver} leaves the job" in job.stdout, job.stdout


# Rank 1 ends, or finalizes; the others are in a call of a group that has it.
LEAVES_GROUP = """
import sys
import numpy as np, skerry as sk
how, on_failure, waits = sys.argv[1:]
sk.init(on_failure=on_failure)
pair = sk.world().split(0)
if sk.rank() == 1:
    how == "finalize" and sk.finalize()
    sys.exit(0)
for _ in range(12):  # a barrier that finds a death may succeed: the next one does not
    exec(waits)
print("passed")
"""
BARRIER, MEGABYTES = "sk.barrier(pair)", "sk.allreduce(np.ones(400_000), group=pair)"


@pytest.mark.parametrize(
    "ranks,nodes,how,on_failure,waits",
    [
        (3, 1, "exit", "end", BARRIER),
        (3, 1, "exit", "continue", BARRIER),
        (3, 1, "finalize", "end", MEGABYTES),
        (3, 1, "finalize", "continue", "sk.barrier()"),
        (10, 1, "exit", "end", BARRIER),
        (3, 2, "finalize", "end", BARRIER),
        (3, 2, "exit", "continue", MEGABYTES),
        (4, 4, "exit", "end", MEGABYTES),
        (4, 4, "finalize", "continue", BARRIER),
        (4, 4, "exit", "continue", "sk.allreduce(np.ones(4), group=pair)"),
        (4, 4, "exit", "end", "sk.broadcast(np.ones(4), 1, group=pair)"),
        (4, 2, "exit", "continue", "sk.world().shrink() if sk.failed() else sk.barrier()"),
    ],
)
def test_who_leaves_is_found_in_every_group(ranks, nodes, how, on_failure, waits, tmp_path):
    """The others waited for it in a group, and it for them in finalize."""
    program = tmp_path / "program.py"
    program.write_text(LEAVES_GROUP)
    job = run(ranks, nodes, program, how, on_failure, waits)
    assert job.returncode == 1 and "passed" not in job.stdout, job.stdout
    assert "rank 1 le" in job.stdout or "rank 1 on host" in job.stdout, job.stdout
    assert "(finalize, or the end of its program) while others" in job.stdout, job.stdout


# All have made such a call before, so the leaver is found by one that waits for it in the midst of
# it. The others catch the error, and finalize too.
LEAVES_CAUGHT = """
import sys
import numpy as np, skerry as sk
sk.init()
group = sk.world().split(0)
x = np.ones(int(sys.argv[2]))
call = lambda: eval(sys.argv[1])
for _ in range(8):
    call()
try:
    sk.rank() != 1 and call()
except sk.InvalidError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "ranks,call,size",
    [
        (4, "sk.allreduce(x, group=group)", 400_000),
        (4, "sk.broadcast(x, 1, group=group)", 400),
        (6, "sk.broadcast(x, 1, group=group)", 400_000),
        (4, "sk.allgather(x, group=group)", 100_000),
        (5, "sk.reduce(x, 'sum', 2, group=group)", 400_000),
    ],
)
def test_who_was_told_of_a_leaver_and_leaves_too_says_so(ranks, call, size, tmp_path):
    """Its own leaving, from a later call on, overwrote what it had said: others waited for it."""
    program = tmp_path / "program.py"
    program.write_text(LEAVES_CAUGHT)
    job = run(ranks, ranks, program, call, size)
    assert 0 < job.stdout.count("rank 1 leaves the job"), job.stdout
    assert job.stdout.count("rank 1 leaves") == job.stdout.count(" leaves the job"), job.stdout


# Two ranks on different nodes have a group of their own. The late one comes to a barrier in it, and
# leaves. A rank that serves one of the nodes is stopped meanwhile: the waiter's look is answered
# when the late one has left, or what the late one sent arrives after that.
LEAVES_SOON = """
import os, signal, sys, time
import skerry as sk
late, waiter, stopped = map(int, sys.argv[2:])
sk.init(on_failure=sys.argv[1])
group = sk.world().split(int(sk.rank() in (late, waiter)))
sk.barrier(group)
sk.barrier()
if sk.rank() == stopped and os.fork() == 0:
    time.sleep(0.06)
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(0.6)
    os.kill(os.getppid(), signal.SIGCONT)
    os._exit(0)
if sk.rank() == late:
    time.sleep(0.25)
if sk.rank() in (late, waiter):
    sk.barrier(group)
    print("well")
"""


@pytest.mark.parametrize("on_failure", ["end", "continue"])
@pytest.mark.parametrize(("late", "waiter", "stopped"), [(1, 2, 0), (0, 3, 2)])
def test_who_leaves_when_it_owes_nothing_harms_nobody(on_failure, late, waiter, stopped, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(LEAVES_SOON)
    job = run(4, 2, program, on_failure, late, waiter, stopped)
    assert job.returncode == 0 and job.stdout.count("well") == 2, job.stdout


# Rank 1 begins a collective in the background that nobody else begins, or not one that all others
# do. Or ranks 0 and 1 each wait so for the other.
LEAVES_BACKGROUND = """
import sys, time
import skerry as sk
what, how = sys.argv[1:]
sk.init()
one, two, three = (sk.world().split(0) for _ in range(3))
for group in (one, two):
    sk.barrier_nb(group).wait()
rank = sk.rank()
request = None
if what in ("begins", "waits"):
    request = sk.barrier_nb(one) if rank == 1 else None
elif what == "misses":
    request = sk.barrier_nb(one) if rank != 1 else None
elif what == "cross":
    request = sk.barrier_nb([one, two][rank]) if rank < 2 else None
elif what == "world":
    request = sk.barrier_nb(one) if rank == 1 else sk.barrier()
elif what == "late":  # both have something to do in both groups when they leave
    rank == 2 and time.sleep(1)
    all_of = [(one, one, two), (one, two, two), (one, one, two, two)][rank]
    request = [sk.barrier_nb(group) for group in all_of]
else:
    request = sk.barrier_nb(one) if rank == 0 else None
    rank == 1 and sk.barrier(three)
if request is not None and what in ("waits", "misses"):
    try:
        request.wait()
        print("passed")
    except sk.InvalidError:
        print("told")

def leave(request):  # which lives until the frames of SystemExit go
    how == "function" and sys.exit(0)

how == "finalize" and sk.finalize()
leave(request)
"""


@pytest.mark.parametrize(
    "ranks,nodes,what,how,told",
    [
        (3, 1, "begins", "exit", 0),
        (3, 1, "waits", "finalize", 1),
        (3, 1, "cross", "exit", 0),
        (3, 2, "misses", "exit", 2),
        (3, 2, "chain", "exit", 0),
        (4, 4, "begins", "finalize", 0),
        (4, 4, "waits", "exit", 1),
        (4, 4, "cross", "finalize", 0),
        (3, 2, "cross", "function", 0),
        (3, 1, "world", "exit", 0),
        (3, 3, "world", "finalize", 0),
        (3, 3, "late", "exit", 0),
    ],
)
def test_who_leaves_is_found_in_the_background(ranks, nodes, what, how, told, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(LEAVES_BACKGROUND)
    job = run(ranks, nodes, program, what, how)
    assert job.stdout.count("told") == told and "passed" not in job.stdout, job.stdout
    assert (job.returncode == 0) == (told > 0), job.stdout


BAD_TEST = """
import skerry as sk
sk.init()

def test_bad():
    assert sk.rank() != 1
    sk.barrier()
"""


@pytest.mark.parametrize("form", ["-c", "-m", "pytest"])
def test_a_rank_that_fails_ends_the_job_however_it_was_started(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = LEAVES.format(how="raise SystemExit(1)", others="sk.barrier()")
    if form == "-c":
        job = run(3, 1, "-c", text)
    elif form == "-m":
        Path("program.py").write_text(text)
        job = run(3, 1, "-m", "program")
    else:
        Path("test_bad.py").write_text(BAD_TEST)
        job = run(3, 1, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_bad.py")
    assert job.returncode != 0 and "rank 1" in job.stdout, job.stdout


@pytest.mark.parametrize("ranks,nodes", [(3, 1), (3, 2), (4, 4)])
@pytest.mark.parametrize("waits", ["sk.barrier()", "sk.allreduce(np.ones(100_000))"])
def test_the_end_of_a_rank_is_no_barrier_of_others(waits, ranks, nodes, tmp_path):
    """The barrier of finalize once met other ranks' own: they went on as if all were there."""
    program = tmp_path / "program.py"
    others = f"else:\n    import numpy as np\n    {waits}\n    print('passed')"
    program.write_text(LEAVES.format(how="pass", others=others))
    job = run(ranks, nodes, program)
    assert job.returncode != 0 and "passed" not in job.stdout, job.stdout
    assert "rank 1 leaves the job" in job.stdout, job.stdout


@pytest.mark.parametrize(
    "how",
    ["sys.exit(0)", "sys.exit()", "pass", "exit(0)", "raise SystemExit(0)"]
    + [f"threading.Thread(target={call}).start()" for call in ("sys.exit, args=(1,)", "sk.barrier")]
    + ["threading.Thread(target=sk.init).start()"],
)
def test_a_rank_that_ends_well_needs_no_finalize(how, tmp_path):
    program = tmp_path / "program.py"
    others = "else:\n    sk.barrier()" if "barrier" in how else ""
    program.write_text(LEAVES.format(how=how, others=others))
    job = run(3, 2, program)
    assert job.returncode == 0, job.stdout


THREADS_JOIN = """
import threading
import skerry as sk
together, ranks = threading.Barrier(8), []

def join():
    together.wait()
    sk.init()
    ranks.append(sk.rank())

threads = [threading.Thread(target=join) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert ranks == [sk.rank()] * 8, ranks
assert sk.allreduce(1) == sk.size() == 2
for thread in [threading.Thread(target=sk.finalize) for _ in range(4)]:
    thread.start()
"""


def test_threads_that_join_at_once(tmp_path):
    """init lets other threads run while it waits: a second one joined the job again."""
    program = tmp_path / "program.py"
    program.write_text(THREADS_JOIN)
    job = run(2, 1, program)
    assert job.returncode == 0, job.stdout


VIEWS_STAY = """
import numpy as np
import skerry as sk
sk.init()
a, s, w = sk.ones((64, 64)), sk.Segment(5_000_000), sk.window(1000, "float64")
big = sk.window(100_000, "float64")
views = [a.local, s.local, s.pointer(sk.rank()), w.local, big.local]
views += [memoryview(a.local), np.from_dlpack(a.local), a.local[1:, ::-1].T]
for view in views[1:5]:
    view[...] = 1
sk.finalize()
del a, s, w, big
for view in views:
    assert (np.asarray(view) == 1).all()
views[0][...] = 2
assert (views[5].tolist()[0][0], views[6][0, 0]) == (2, 2)
del views[:3]
"""


def test_views_outlive_the_job(tmp_path):
    """They pointed at memory that was unmapped."""
    program = tmp_path / "program.py"
    program.write_text(VIEWS_STAY)
    for ranks, nodes in (1, 1), (3, 1), (3, 2):
        job = run(ranks, nodes, program)
        assert job.returncode == 0, job.stdout


def test_command_of_the_package():
    told = subprocess.run(
        [sys.executable, "-m", "skerry", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert told.returncode == 0 and "run" in told.stdout


CONTENDED = """
import numpy as np
import skerry as sk
sk.init()
mutexes, total = sk.Mutexes(1), sk.zeros((1,), dtype=np.int64)
total.fill(0)
sk.barrier()
for _ in range(30):
    mutexes.lock(0, 0)
    value = total[0:1]
    total[0:1] = value + 1
    sk.fence()
    mutexes.unlock(0, 0)
sk.barrier()
assert total[0:1][0] == 30 * sk.size(), total[0:1]
sk.barrier()
if sk.rank() == 0:
    counters = sk.counters()
    assert counters["server_connections_peak"] == 1, counters
    assert counters["server_connections_dropped"] > 0, counters
    assert counters["grants_relayed"] > 0, counters
"""


def test_data_servers_limit_their_connections(monkeypatch, tmp_path):
    """With one place at the server the waiters' connections make way for each other: grants reach them through the server of their node."""
    monkeypatch.setenv("SKERRY_SERVER_MAX_CONN", "1")
    program = tmp_path / "program.py"
    program.write_text(CONTENDED)
    job = run(4, 4, program)
    assert job.returncode == 0, job.stdout


EPOCHS = """
import skerry as sk
sk.init(threads="serialized")
w, far, epochs = sk.window(2, "int64"), sk.size() - 1, 100

def requests():
    sk.sync()
    return int(sk.allreduce(sk.counters().get("server_requests", 0)))

before = requests()
of_asking = requests() - before
if sk.rank() == 0:
    for i in range(epochs):
        with w.lock(far):
            if i % 2:
                w.put(far, 0, i)
            else:
                w.update(far, 1, 1)
of_epochs = requests() - before - 2 * of_asking
assert of_epochs < 1.5 * epochs, of_epochs
if sk.rank() == far:
    assert w.local.tolist() == [epochs - 1, epochs // 2]
w.free()
"""


def test_an_epoch_of_one_put_is_one_request(tmp_path):
    """put waits for a handle, and once made three requests of it."""
    program = tmp_path / "program.py"
    program.write_text(EPOCHS)
    job = run(2, 2, program)
    assert job.returncode == 0, job.stdout


HOLDER_DIES = """
import os, signal
import skerry as sk
sk.init(on_failure="raise")
w, last = sk.window(1, "int64"), sk.size() - 1
if sk.rank() == last:
    w.lock(0)
    w.get(0, 0)
sk.barrier()
if sk.rank() == last:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    w.lock(0)
    w.get(0, 0)
    print("granted")
except sk.Error as error:
    print("told", type(error).__name__, f"rank {last} " in str(error), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(("ranks", "nodes"), [(3, 1), (3, 3)])
def test_waiters_learn_which_holder_died(ranks, nodes, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(HOLDER_DIES)
    job = run(ranks, nodes, program)
    assert job.stdout.count("told PeerDeadError True") == ranks - 1, job.stdout


GOES_ON = """
import os, signal, threading
import numpy as np
import skerry as sk
sk.init(on_failure="continue")
world, last = sk.world(), sk.size() - 1
a = sk.zeros(6 * sk.size())
mutexes = sk.Mutexes(1)
if sk.rank() == last:
    assert mutexes.lock(0)
sk.barrier()
if sk.rank() == last:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    sk.allreduce(np.ones(1))
    raise SystemExit("an allreduce with a dead rank")
except sk.PeerDeadError as error:
    assert f"rank {last} " in str(error)
assert last in sk.failed()
group = world.shrink(timeout=60)
assert group.ranks == [r for r in range(sk.size()) if r not in sk.failed()]
is_told = not mutexes.lock(0)
mutexes.unlock(0)
told = sk.allreduce(np.array([int(is_told)]), group=group)
assert told[0] == 1, told  # one was told that the holder died
b = sk.zeros(6 * len(group), group=group)
b.acc(..., np.ones(6 * len(group)))
sk.sync(group)
assert (b.get() == len(group)).all()
try:
    sk.barrier()
    raise SystemExit("the old group works")
except sk.InvalidError:
    pass
print("all is well", flush=True)
"""


@pytest.mark.parametrize(("ranks", "nodes"), [(3, 1), (4, 2), (3, 3)])
def test_the_living_go_on(ranks, nodes, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(GOES_ON)
    job = run(ranks, nodes, program)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == ranks - 1, job.stdout


@pytest.mark.parametrize(("ranks", "nodes", "victims"), [(3, 1, "2"), (4, 2, "2"), (4, 2, "0 3")])
def test_the_example_is_right_whoever_dies(ranks, nodes, victims):
    program = ROOT / "examples" / "python" / "going_on.py"
    job = run(ranks, nodes, program, "--kill", *victims.split())
    assert job.returncode == 0, job.stdout
    assert "right, by" in job.stdout, job.stdout


SKEWED = """
import time
import numpy as np
import skerry as sk
sk.init()
n = 40 * sk.size()
# The first rank's tasks take ten times as long as the others'.
seconds = [0.01 if i < 40 else 0.001 for i in range(n)]
low, high = (n * r // sk.size() for r in (sk.rank(), sk.rank() + 1))
for name in "static", "tasks", "with costs":
    mine = np.zeros(n, int)
    work = range(low, high) if name == "static" else None
    if name == "tasks":
        work = sk.tasks(range(n))
    elif name == "with costs":
        work = sk.tasks(range(n), cost=seconds)
    sk.barrier()
    begin = time.monotonic()
    for i in work:
        time.sleep(seconds[i])
        mine[i] += 1
    sk.barrier()
    if sk.rank() == 0:
        print(f"{name}: {time.monotonic() - begin:.3f} s")
    assert (sk.allreduce(mine) == 1).all(), name
a = sk.zeros((120, 130))
for tile in sk.tasks(a, tile=(10, 10)):
    a.acc(tile, 1.0)
sk.sync()
assert (a.get() == 1).all()
sk.sync()
"""


@pytest.mark.parametrize(
    ("nodes", "cap", "faults"),
    [(1, "0", ""), (2, "0", ""), (2, "1", ""), (4, "1", "drop=20000,seed=7")],
)
def test_skewed_tasks(nodes, cap, faults, tmp_path, monkeypatch):
    """Each task once, also where connections break and make way for each other."""
    monkeypatch.setenv("SKERRY_MAX_CONN", cap)
    monkeypatch.setenv("SKERRY_FAULTS", faults)
    program = tmp_path / "program.py"
    program.write_text(SKEWED)
    job = run(4, nodes, program)
    assert job.returncode == 0, job.stdout
    print(job.stdout)


DROPPED = """
import numpy as np
import skerry as sk
sk.init()
a, marks, turns = sk.zeros((90, 70)), sk.zeros((90, 70), "int64"), 5
for _ in range(turns):
    sk.barrier()
    for tile in sk.tasks(a, tile=(3, 5)):
        a.acc(tile, 1.0)
        marks[tile] = marks[tile] + 1
    sk.sync()
assert (a.get() == turns).all() and (marks.get() == turns).all()
mine = np.zeros(300, int)
for i in sk.tasks(range(300), cost=range(300)):
    mine[i] += 1
assert (sk.allreduce(mine) == 1).all()
names = ("connections_resumed", "requests_replayed", "connections_evicted")
now = sk.counters()
told = sk.allreduce(np.array([now[name] for name in names]))
assert (told > 0).all(), dict(zip(names, told))
"""


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=LONG) for seed in range(2, 5))])
@pytest.mark.parametrize("ranks", [4, 8])
def test_tasks_are_done_once_when_the_network_drops(ranks, seed, tmp_path, monkeypatch):
    """Draws are sent again after breaks, on four nodes that have one connection each."""
    monkeypatch.setenv("SKERRY_MAX_CONN", "1")
    monkeypatch.setenv("SKERRY_FAULTS", f"drop=50000,seed={seed}")
    program = tmp_path / "program.py"
    program.write_text(DROPPED)
    job = run(ranks, 4, program)
    assert job.returncode == 0, job.stdout


SAVES = """
import os, signal, sys
import numpy as np
import skerry as sk
sk.init()
path, n, die = sys.argv[1], 3000, sys.argv[2] == "die"
a = sk.zeros((n, n))
(low, high), columns = a.distribution()
a.local[...] = np.arange(low, high)[:, None] * 1.5 + np.arange(*columns) ** 2
if die:
    a.scale(-1)
    owner, name = (sk.Array, "get") if path.endswith("zarr") else (os, "pwrite")
    writes, parts = getattr(owner, name), [0]

    def dies(*arguments):
        parts[0] += 1
        if parts[0] == 2 and sk.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return writes(*arguments)

    setattr(owner, name, dies)
sk.save(a, path)
"""

LOADS = """
import sys
import numpy as np
import skerry as sk
sk.init()
b = sk.load(sys.argv[1])
assert b.shape == (3000, 3000)
(low, high), columns = b.distribution()
np.testing.assert_array_equal(
    b.local, np.arange(low, high)[:, None] * 1.5 + np.arange(*columns) ** 2)
"""


@LONG
@pytest.mark.parametrize("name", ["x.zarr", "x.h5"])
def test_a_save_that_is_killed_leaves_the_file(name, tmp_path):
    (tmp_path / "saves.py").write_text(SAVES)
    (tmp_path / "loads.py").write_text(LOADS)
    data = tmp_path / "data"
    data.mkdir()
    job = run(4, 2, tmp_path / "saves.py", data / name, "live")
    assert job.returncode == 0, job.stdout
    for turn in "die", "live":
        job = run(4, 2, tmp_path / "saves.py", data / name, turn)
        assert (job.returncode == 0) == (turn == "live"), job.stdout
        left = sorted(path.name for path in data.iterdir())
        assert left == ([f".{name}.saving"] if turn == "die" else []) + [name]
        ranks, nodes = (3, 2) if turn == "die" else (1, 1)
        job = run(ranks, nodes, tmp_path / "loads.py", data / name)
        assert job.returncode == 0, job.stdout
def test_attach():
    """Its reader is outside the job that it looks at."""
    done = subprocess.run(
        [sys.executable, ROOT / "tests/look/attach_test.py"],
        env={**os.environ, "PYTHONPATH": str(LAUNCHER.parents[2])},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
