"""Loops whose states are in files, in jobs whose ranks kill themselves. Started by a pytest outside
jobs."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from test_as_jobs import LAUNCHER, run
from test_going_on import written

# Arguments: the file, the step of the kill, who dies, whether arrays of skerry.xp are divided.
PROGRAM = """
import os, signal, sys
import numpy as np
import skerry as sk
import skerry.numpy as snp
file, at, victims, divided = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4]
sk.init(on_failure="continue")
sk.xp.options(whole_bytes=0 if divided == "divided" else 1 << 30)
a = sk.zeros((400, 5))
plate = sk.ghosts((40, 30))
plate.padded[...] = 0
mirror = sk.zeros((7, 3), dtype="int32", mirrored=True)
places = np.arange(21, dtype="int32").reshape(7, 3)
mirror.local[...] = places[tuple(slice(*ends) for ends in mirror.distribution())]
x = snp.zeros((60, 4))
loop = sk.steps(20, protect=[a, plate, mirror, x], every=2, every_file=2, file=file)
first = None
for step in loop:
    with step:
        if first is None:
            first = int(step)
        # Where all are to die, one that heard of the others before that step dies when it comes.
        dies = not loop.recovered or len(victims) == 4
        if int(step) == at and str(sk.rank()) in victims and dies:
            os.kill(os.getpid(), signal.SIGKILL)
        a.local[...] += step + 1
        plate.local[...] += 1
        mirror.local[...] += 100
        x += step
        step.values["sum"] = step.values.get("sum", 0) + step
        sk.sync(step.group)
assert (a.get() == 210).all(), a.get()
assert (plate.get() == 20).all(), plate.get()
assert (mirror.get() == places + 2000).all(), mirror.get()
assert (np.asarray(x.numpy()) == 190).all()
assert loop.values["sum"] == 190, loop.values
sk.sync(a.group)
print("all is well from", first, "recovered", loop.recovered, flush=True)
sk.finalize()
"""


@pytest.mark.parametrize("divided", ["divided", "whole"])
def test_a_loop_goes_on_from_its_file_when_owner_and_partner_die(divided, tmp_path):
    file = tmp_path / "state.npz"
    job = run(4, 4, written(tmp_path, PROGRAM), file, 11, "1,2", divided)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well from 0 recovered 1") == 2, job.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py", "state.npz"]


def test_spares_come_to_the_state_in_the_file(tmp_path):
    file = tmp_path / "state.npz"
    job = run(4, 4, written(tmp_path, PROGRAM), file, 11, "1,2", "divided", spares=2)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == 4, job.stdout


DIES_WRITING = PROGRAM.replace(
    "first = None",
    """first = None
from skerry import _files
real, last = _files.write_at, int(at)
def dies(*given):
    if loop._at == last and sk.rank() == 2 and not loop.recovered:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given)
_files.write_at = dies""",
    1,
).replace("int(step) == at", "False")


def note_in(file):
    """Its version's line, and the rest, pickled."""
    with np.load(file) as stored:
        return stored["note"].tobytes().split(b"\n", 1)


def step_in(file):
    return pickle.loads(note_in(file)[1]).values["step"]


@pytest.mark.parametrize("spares", [0, 1])
@pytest.mark.parametrize("at", [8, 20])
def test_a_state_whose_writing_a_death_ended_is_written_again(at, spares, tmp_path):
    """It was not, and neither was the last one: the file stayed as it was."""
    file = tmp_path / "state.npz"
    job = run(4, 4, written(tmp_path, DIES_WRITING), file, at, "", "divided", spares=spares)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == (4 if spares else 3), job.stdout
    assert step_in(file) == 20


@pytest.mark.parametrize("ranks", [3, 4])
def test_a_job_started_anew_goes_on_from_the_file(ranks, tmp_path):
    file, program = tmp_path / "state.npz", written(tmp_path, PROGRAM)
    killed = run(4, 2, program, file, 11, "0,1,2,3", "divided")
    assert killed.returncode != 0 and "all is well" not in killed.stdout, killed.stdout
    job = run(ranks, 2, program, file, 0, "", "divided")
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well from 8 recovered 0") == ranks, job.stdout


DIES_READING = PROGRAM.replace(
    "first = None",
    """first = None
from skerry import _state_files
real = _state_files.fill
def dies(*given):
    if sk.rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given)
_state_files.fill = dies""",
    1,
)


@pytest.mark.parametrize("spares", [0, 1])
def test_a_death_while_the_file_is_first_read_does_not_end_the_job(spares, tmp_path):
    """It ended the loop on all, though the state in the file was whole."""
    file = tmp_path / "state.npz"
    killed = run(4, 2, written(tmp_path, PROGRAM), file, 11, "0,1,2,3", "divided")
    assert killed.returncode != 0 and step_in(file) == 8, killed.stdout
    job = run(4, 4, written(tmp_path, DIES_READING), file, -1, "", "divided", spares=spares)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well from 8 recovered 1") == 3, job.stdout
    assert step_in(file) == 20


def test_a_spare_comes_after_a_death_soon_after_the_reading(tmp_path):
    """The next state was due later: until then the loop could only read the file again."""
    file = tmp_path / "state.npz"
    run(4, 2, written(tmp_path, PROGRAM), file, 11, "0,1,2,3", "divided")
    rarely = written(tmp_path, PROGRAM.replace("every=2,", "every=5,"))
    job = run(4, 4, rarely, file, 9, "0", "divided", spares=1)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("recovered 1") == 4, job.stdout


def beside(program):
    """b is protected by the program, and is no array of the loop."""
    program = program.replace("a = sk", "b = sk.zeros(90)\nsk.protect([b])\na = sk", 1)
    kills = "        if int(step) == 15 and sk.rank() == 1:\n"
    kills += "            os.kill(os.getpid(), signal.SIGKILL)\n"
    adds = "        a.local[...] += step + 1\n"
    program = program.replace(adds, f"{kills}{adds}        b.local[...] += 1\n", 1)
    return program.replace("assert (a", "assert (b.get() == 20).all(), b.get()\nassert (a", 1)


def test_what_the_program_protected_is_so_after_the_reading(tmp_path):
    """It fell out, was not brought back by the next death, and had other values in silence."""
    file = tmp_path / "state.npz"
    run(4, 2, written(tmp_path, beside(PROGRAM)), file, 11, "0,1,2,3", "divided")
    job = run(4, 4, written(tmp_path, beside(DIES_READING)), file, -1, "", "divided")
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well from 8 recovered 2") == 2, job.stdout


BEGINS = """
import errno, os, sys
import numpy as np
import skerry as sk
sk.init(on_failure="continue")
file = sys.argv[1]
a = sk.zeros(1000)

def loop(n, array, path):
    for step in sk.steps(n, protect=[array], every_file=1, file=path):
        with step:
            array.local[...] += 1
            sk.sync()

def refused(error, text, call):
    try:
        call()
    except error as found:
        assert text in str(found) or "see its message" in str(found), found
    else:
        raise AssertionError(f"no {error}: {text}")
"""
REFUSED = BEGINS + """
refused(sk.InvalidError, "neither", lambda: sk.steps(1, protect=[a], every_file=1))
refused(sk.InvalidError, "neither", lambda: sk.steps(1, protect=[a], file=file))
refused(sk.InvalidError, ".npz", lambda: sk.steps(1, protect=[a], every_file=1, file="x.h5"))
refused(sk.FileError, "give another file", lambda: loop(1, a, "/proc/no/state.npz"))
loop(2, a, file)
before = open(file, "rb").read()

# The disk is full: what was there stays.
from skerry import _files
real = _files.write_at
def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
_files.write_at = full
refused(sk.FileError, "No space left", lambda: loop(4, a, file))
_files.write_at = real
assert open(file, "rb").read() == before
sk.sync()  # the first member removes what it began before it returns
assert not [name for name in os.listdir(os.path.dirname(file)) if "saving" in name]
loop(4, a, file)
assert (a.get() == 4).all(), a.get()
sk.sync()

# Of other arrays, damaged, and of no loop. Who goes on after that does not write over it.
b = sk.zeros(10)
others = sk.steps(1, protect=[b], every_file=1, file=file)
before = open(file, "rb").read()
for _ in range(2):
    refused(sk.InvalidError, "(1000,) float64", lambda: next(others))
    sk.sync()
assert open(file, "rb").read() == before
sk.sync()
if sk.rank() == 0:
    text = bytearray(before)
    text[-3000] ^= 1
    open(file, "wb").write(text)
sk.sync()
refused(sk.FileError, "", lambda: loop(1, a, file))
sk.save({"b": b}, file)
refused(sk.FileError, "no state of a loop", lambda: loop(1, a, file))
sk.sync()
print("all is well", flush=True)
sk.finalize()
"""


def test_files_that_cannot_be_are_refused_by_all(tmp_path):
    job = run(2, 2, written(tmp_path, REFUSED), tmp_path / "state.npz")
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == 2, job.stdout


WRONG_LISTS = BEGINS + """
def refused_by_all(text, *wrong):
    before = a.local.copy()
    for mine in [[*wrong], [*wrong] if sk.rank() == 1 else [a]]:
        steps = sk.steps(4, protect=mine, every_file=1, file=file)
        refused(sk.Error, text, lambda: next(steps))
        assert (a.local == before).all()

refused_by_all("3 of type int cannot be protected: give a Array", 3)
loop(2, a, file)
b = sk.zeros(10)
b.free()
refused_by_all("'a' of type str cannot be protected: give a Array", a, "a")
refused_by_all("the array to protect was freed", b)
a.local[...] = 0
sk.sync()
loop(4, a, file)
assert (a.get() == 4).all(), a.get()
sk.sync()
print("all is well", flush=True)
"""


def test_what_cannot_be_protected_is_refused_before_the_file_is_read(tmp_path):
    """A KeyError on the member that gave it, while the others waited."""
    job = run(2, 2, written(tmp_path, WRONG_LISTS), tmp_path / "state.npz")
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == 2, job.stdout


UNWRITABLE = BEGINS + """
lock = os.path.join(os.path.dirname(file), ".state.npz.lock")
if sk.rank() == 0:
    os.symlink("nowhere", lock)
sk.sync()
refused(sk.FileError, "a file in a folder in which the job may write", lambda: loop(1, a, file))
sk.sync()
if sk.rank() == 0:
    os.unlink(lock)
sk.sync()
for step in sk.steps(1, protect=[a], every_file=1, file=file):
    with step:
        pass
before = open(file, "rb").read()

# What a step keeps cannot be pickled.
def kept():
    for step in sk.steps(2, protect=[a], every_file=1, file=file):
        with step:
            step.values["f"] = lambda: 0
refused(sk.FileError, "keep numbers, strings and NumPy arrays in step.values", kept)
assert open(file, "rb").read() == before
sk.sync()

# The file is in its place, and its folder cannot be brought to the disk.
from skerry import _files
real = _files._to_disk
def fails(path):
    if path.is_dir():
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    real(path)
_files._to_disk = fails
before = os.stat(file).st_ino
sk.sync()
refused(sk.FileError, f"the state is at {file}, but its folder may", lambda: loop(2, a, file))
assert os.stat(file).st_ino != before
_files._to_disk = real
sk.sync()
print("all is well", flush=True)
"""


def test_a_state_that_cannot_be_written_is_said_with_what_to_do(tmp_path):
    job = run(2, 2, written(tmp_path, UNWRITABLE), tmp_path / "state.npz")
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == 2, job.stdout


OTHER_VERSIONS = BEGINS + """
loop(1, a, file)
stored = dict(np.load(file))
note = stored["note"].tobytes()

def with_note(note):
    sk.sync()  # nobody reads it any more
    if sk.rank() == 0:
        with open(file, "wb") as other:
            np.savez(other, **dict(stored, note=np.frombuffer(note, np.uint8)))
    sk.sync()

with_note(note.replace(b"version 1\\n", b"version 27\\n" + b"unknown"))
refused(sk.FileError, "of version 27, and this Skerry reads version 1: go on with the Skerry that",
        lambda: loop(2, a, file))
with_note(note.partition(b"\\n")[2])
refused(sk.FileError, "no state of a loop", lambda: loop(2, a, file))
with_note(note)
loop(2, a, file)
assert (a.get() == 2).all(), a.get()
sk.sync()
print("all is well", flush=True)
"""


def test_a_file_of_another_version_is_refused_with_both_versions(tmp_path):
    job = run(2, 2, written(tmp_path, OTHER_VERSIONS), tmp_path / "state.npz")
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == 2, job.stdout


TOO_FAR = BEGINS + """
loop(4, a, file)
before = open(file, "rb").read()
a.local[...] = 7
sk.sync()
refused(sk.InvalidError, "the state after 4 steps, and the loop has 3", lambda: loop(3, a, file))
assert (a.get() == 7).all(), a.get()
assert open(file, "rb").read() == before
sk.sync()
print("from here on", flush=True)
for _ in range(2):  # another loop of as many steps, and that is the first one in a job started anew
    loop(4, a, file)
    assert (a.get() == 4).all(), a.get()
    sk.sync()
print("all is well", flush=True)
"""


def test_a_loop_that_takes_no_step_says_so(tmp_path):
    """A loop whose file was of a longer one, or of another of as many steps, did nothing."""
    file = tmp_path / "state.npz"
    job = run(2, 2, written(tmp_path, TOO_FAR), file)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == 2, job.stdout
    before, after = job.stdout.split("from here on", 1)
    said = f"{file}: the state in this file is that after a loop's last step, so this loop takes"
    assert said not in before and after.count(said) == 2, job.stdout


HOLDS = """
import os, sys
import skerry as sk
sk.init(on_failure="continue")
file, told, go = sys.argv[1:]
a = sk.zeros(1000)
for step in sk.steps(4, protect=[a], every_file=1, file=file):
    with step:
        if step == 2 and sk.rank() == 0:
            open(told, "w").close()
            open(go).close()  # until the other job has ended
        a.local[...] += 1
        sk.sync()
assert (a.get() == 4).all()
sk.sync()
print("all is well", flush=True)
"""


def test_a_second_job_with_the_same_file_is_refused(tmp_path):
    """They shared a hidden name, and put each other's half-written file over the good one."""
    file, told, go = (tmp_path / name for name in ("state.npz", "told", "go"))
    os.mkfifo(told)
    os.mkfifo(go)
    program = written(tmp_path, HOLDS)
    command = [LAUNCHER, "run", "-n", "2", "--nodes", "2", sys.executable, program, file, told, go]
    first = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        told.read_bytes()  # until it is in its third step
        before = file.read_bytes()
        second = run(3, 1, program, file, os.devnull, os.devnull)
        assert second.returncode != 0, second.stdout
        assert f"{file} is another job's or loop's" in second.stdout, second.stdout
        assert "give each a file of its own" in second.stdout, second.stdout
        assert file.read_bytes() == before
        go.write_bytes(b"")
        assert first.wait() == 0
        assert first.stdout.read().count("all is well") == 2
    finally:
        first.kill()
        first.communicate()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["go", "program.py", "state.npz", "told"]


@pytest.mark.parametrize("spares", [0, 1])
def test_the_next_first_member_has_the_path_and_clears_up(spares, tmp_path):
    """The first one dies while it writes: of its file, a part is there, and its lock."""
    file = tmp_path / "state.npz"
    program = written(tmp_path, DIES_WRITING.replace("sk.rank() == 2", "sk.rank() == 0"))
    job = run(4, 4, program, file, 8, "", "divided", spares=spares)
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well") == (4 if spares else 3), job.stdout
    assert step_in(file) == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py", "state.npz"]


def test_what_a_killed_job_leaves_beside_the_file_is_removed(tmp_path):
    file, program = tmp_path / "state.npz", written(tmp_path, DIES_WRITING)
    program.write_text(program.read_text().replace("sk.rank() == 2", "True"))
    killed = run(3, 3, program, file, 8, "", "divided")
    assert killed.returncode != 0, killed.stdout
    left = {path.name for path in tmp_path.iterdir()} - {"program.py", "state.npz"}
    assert len(left) == 2 and ".state.npz.lock" in left, left
    assert step_in(file) == 4
    other = tmp_path / ".state.npz.notes.saving"  # of nobody here
    other.touch()
    job = run(3, 3, program, file, -1, "", "divided")
    assert job.returncode == 0, job.stdout
    other.unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py", "state.npz"]


CHANGED_MEANWHILE = """
import os, shutil, sys
import skerry as sk
sk.init(on_failure="continue")
from skerry import _formats
file = sys.argv[1]
a = sk.zeros(1000)
if sys.argv[2] == "writes":
    for step in sk.steps(4, protect=[a], every_file=1, file=file):
        with step:
            a.local[...] += 1
            sk.sync()

# Another file takes the place of the one that is being written.
seal = _formats.Npz.seal
def sealed(self, path, sums):
    seal(self, path, sums)
    shutil.copy(path, str(path) + ".copy")
    os.replace(str(path) + ".copy", path)
_formats.Npz.seal = sealed
try:
    for step in sk.steps(1, protect=[a], every_file=1, file=file + ".npz"):
        raise AssertionError("a step after a state that was not written")
except sk.FileError as error:
    assert "another file than this job began" in str(error) or "see its message" in str(error)
_formats.Npz.seal = seal
sk.sync()
assert os.listdir(os.path.dirname(file)) == [os.path.basename(file)]
sk.sync()

# One takes the place of the file that is read: what was begun is read to its end.
opens = _formats.Npz._open
def opened(self, path, descriptor):
    found = opens(self, path, descriptor)
    sk.sync()
    if sk.rank() == 0:
        with open(file + ".new", "wb") as new:
            new.write(b"something else")
        os.replace(file + ".new", file)
    sk.sync()
    return found
_formats.Npz._open = opened
if sys.argv[2] == "reads":
    for step in sk.steps(4, protect=[a], every_file=1, file=file):
        raise AssertionError("the state in the file is the last")
    assert os.stat(file).st_size > 8000  # it was written again
assert (a.get() == 4).all(), a.get()
sk.sync()
print("all is well", flush=True)
"""


def test_files_that_others_put_in_place_meanwhile(tmp_path):
    """Between two looks at the path there was another file: it was taken for the same."""
    data = tmp_path / "data"
    data.mkdir()
    for does in "writes", "reads":
        job = run(2, 2, written(tmp_path, CHANGED_MEANWHILE), data / "state.npz", does)
        assert job.returncode == 0, job.stdout
        assert job.stdout.count("all is well") == 2, job.stdout


HELD = PROGRAM.replace(
    "os.kill(os.getpid(), signal.SIGKILL)",
    """
            if os.fork() == 0:  # the lock outlives its owner, as on a file system of a lost host
                held = loop._file._lock._opened
                os.closerange(0, held)
                os.closerange(held + 1, 4096)
                signal.pause()  # until the job has ended
            os.kill(os.getpid(), signal.SIGKILL)
""",
)


def test_the_lock_of_a_dead_member_does_not_end_the_job(tmp_path):
    file = tmp_path / "state.npz"
    job = run(4, 4, written(tmp_path, HELD), file, 11, "0", "divided")
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("all is well from 0 recovered 1") == 3, job.stdout
    assert step_in(file) == 20
