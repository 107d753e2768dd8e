"""What a run leaves behind: `leftovers.py WATCH FILE PID...` ends every process that was started by
a run and still lives, writes their names into FILE, and waits for PID... to end (standard library
only).

A process belongs to the run if its environment names the run's directory WATCH. That holds in a
session of its own too, which ending the process group does not reach.
"""

import json
import os
import signal
import sys
import time

# So long processes may take to end by themselves; a launcher's helpers outlive it by little.
GRACE_S = 1.0
LOOK_EVERY_S = 0.02


def _read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _state_and_parent(pid):
    """('Z', 1) of a zombie whose parent is 1; ('', 0) of a process that is gone."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return (fields[0].decode(), int(fields[1])) if len(fields) > 1 else ("", 0)


def _ancestors():
    found, pid = set(), os.getpid()
    while pid > 0:
        found.add(pid)
        pid = _state_and_parent(pid)[1]
    return found


def of_run(watch, spared):
    """Processes of the run, by number, with the names of their programs."""
    mark, found = f"HPCAAS_WATCH={watch}".encode(), {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in spared:
            continue
        words = _read(entry, "cmdline").split(b"\0")
        # The watcher ends by itself, after it has written what it saw.
        if mark not in _read(entry, "environ").split(b"\0") or _is_watcher(words):
            continue
        if _state_and_parent(entry)[0] not in ("", "Z"):
            found[int(entry)] = os.path.basename(words[0].decode(errors="replace"))
    return found


def _is_watcher(words):
    return any(word.endswith(b"/running/watch.py") for word in words)


def _wait(left, seconds):
    """What `left()` still finds when it has found nothing, or after so many seconds."""
    until = time.monotonic() + seconds
    while (found := left()) and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
    return found


def end(watch, others=()):
    """Ends what a run left, and returns the names of the programs."""
    spared = _ancestors() | set(others)
    found = _wait(lambda: of_run(watch, spared), GRACE_S)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue  # it ended by itself meanwhile
    return sorted(found.values())


def main(watch, file, *pids):
    others = [int(pid) for pid in pids]
    names = end(watch, others)
    # What carries the output to its file ends when nobody can write to it any more.
    for pid in _wait(lambda: [p for p in others if _state_and_parent(p)[0] not in ("", "Z")], 5.0):
        os.kill(pid, signal.SIGKILL)
    with open(file, "w") as out:
        json.dump(names, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
