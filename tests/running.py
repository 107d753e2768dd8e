"""What the runners of job tests share: a program in a session of its own, ended when it takes too
long with all that it started, and the count of what passed. Standard library only."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

under_way = set()  # what run() has started; each is taken out by the thread that put it in


class Ended(NamedTuple):
    """status: the exit status, None if it took too long. output: both streams."""

    status: int | None
    output: str
    seconds: float


def start(command, environment=None, **more):
    """The process. `environment` comes on top of ours; `more` is for Popen."""
    usual = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
        "errors": "replace",
        "start_new_session": True,
        "env": {**os.environ, **(environment or {})},
    }
    return subprocess.Popen([str(word) for word in command], **{**usual, **more})


def descendants(pid):
    """`pid` and everything it has started, found through /proc; threads' children included."""
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        found.append(current)
        for children in Path(f"/proc/{current}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                waiting += [int(child) for child in children.read_text().split()]
    return found


def marked(mark):
    """Processes with `mark`, a text that nobody else has, in their environment: only ever ours."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes():
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(entry.name))
    return found


def stamp_of(pid):
    """When a process started, as its number may belong to another one later. Empty: it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""


def end(process, grace_s=5):
    """Asks a process of start() to end, then ends what is left of it and of all that it started. A
    launcher that is killed may leave ranks behind, in groups of their own, that hold its output
    open."""
    family = {pid: stamp_of(pid) for pid in descendants(process.pid)}

    def tell(what):
        """A signal to those that are left; returns them."""
        left = [pid for pid, stamp in family.items() if stamp and stamp_of(pid) == stamp]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, what)
        return left

    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=grace_s)
    # Stopped first, until none has started another since we looked: what a killed process had just
    # started would belong to nobody, and hold the output open.
    new = family
    while new:
        found = [pid for left in tell(signal.SIGSTOP) for pid in descendants(left)]
        new = {pid: stamp_of(pid) for pid in found if pid not in family}
        family |= new
    tell(signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(command, environment=None, grace_s=0, **more):
    """A process of start() that ends with the block."""
    process = start(command, environment, **more)
    try:
        yield process
    finally:
        if process.poll() is None:
            end(process, grace_s)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


def run(command, limit_s, environment=None, on_line=None, before_end=None, **more):
    """Runs a program to its end; Ended.status is None if it did not come within `limit_s`.

    on_line(process, line): called with each line of its output; what it returns, if anything, is
    how many seconds are left from now. before_end(process): called before one that takes too long
    is ended.
    """
    began = time.monotonic()
    process = start(command, environment, **more)
    under_way.add(process)
    late = threading.Event()

    def stop():
        late.set()
        try:
            if before_end:
                before_end(process)
        finally:
            end(process)

    killer = threading.Timer(limit_s, stop)
    killer.start()
    lines = []
    try:
        for line in process.stdout or ():
            lines.append(line)
            left_s = on_line(process, line) if on_line else None
            if left_s is not None:
                killer.cancel()
                killer = threading.Timer(left_s, stop)
                killer.start()
        status = process.wait()
    except BaseException:
        end(process)
        raise
    finally:
        killer.cancel()
        under_way.discard(process)
        if process.stdout:
            process.stdout.close()
    killer.join()
    seconds = time.monotonic() - began
    return Ended(None if late.is_set() else status, "".join(lines), seconds)


def until(looks, condition, limit_s=60):
    """What `looks` said when `condition` liked it. AssertionError if it never does."""
    end_at = time.monotonic() + limit_s
    while not condition(seen := looks()):
        if time.monotonic() > end_at:
            raise AssertionError(f"after {limit_s} s: {seen}")
        time.sleep(0.1)
    return seen


def end_all():
    """For a runner that is interrupted while other threads are in run()."""
    for process in list(under_way):
        end(process)


class Counts(dict):
    """passed, failed, skipped."""

    def __init__(self):
        super().__init__(passed=0, failed=0, skipped=0)

    def add(self, kind, text):
        self[kind] += 1
        print(f"{kind if kind != 'failed' else 'FAILED':8}{text}", flush=True)

    def summary(self):
        """Prints it. The runner's exit status: 1 if something failed."""
        print(f"{self['passed']} passed, {self['failed']} failed, {self['skipped']} skipped")
        return 1 if self["failed"] else 0
