#!/usr/bin/env python3
"""What a collective call asks of the kernel, step by step, beside MPIs: of all ranks, for one call.

Each program runs under `perf stat` with few calls and with many: the difference is what the calls
take. Needs perf, and the right to count for all processes of a job (root, or
kernel.perf_event_paranoid at -1). Where it may not count, it says so and ends with status 77.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile

import bench
from harness import machine, mpis
from harness.process import run_program

# Columns: the events that are added up. A system call counts when it is entered.
STEPS = {
    "sends": ["sendto", "sendmsg", "write", "writev"],
    "receives": ["recvfrom", "recvmsg", "read", "readv"],
    "looks": ["epoll_wait", "epoll_pwait", "poll", "ppoll"],
    "yields": ["sched_yield"],
    "futexes": ["futex"],
}
OTHERS = {"switches": "context-switches", "wake-ups": "sched:sched_wakeup"}
LIMIT_S = 120


def events() -> dict[str, str]:
    """Each event and the column that it is counted in."""
    calls = {f"syscalls:sys_enter_{call}": step for step, names in STEPS.items() for call in names}
    return calls | {event: step for step, event in OTHERS.items()}


def counted(words: list[str]) -> tuple[dict[str, float], float]:
    """What the kernel counted while a program ran, by column, and its microseconds a call."""
    known = events()
    with tempfile.NamedTemporaryFile("r") as told:
        perf = ["perf", "stat", "-x", ";", "-o", told.name, "-e", ",".join(known), "--"]
        done = run_program([*perf, *words], {**os.environ, **mpis.AS_ROOT}, LIMIT_S)
        lines = [line.split(";") for line in told if ";" in line]
    if done.why or len(lines) < len(known):
        sys.exit(f"steps: {words[0]}: {done.why or 'perf counted nothing'}")
    sums = dict.fromkeys([*STEPS, *OTHERS], 0.0)
    for count, _, event, *_ in lines:
        if not count.isdigit():
            print(f"steps: perf may not count {event}: {count}", file=sys.stderr)
            sys.exit(77)
        sums[known[event]] += int(count)
    return sums, done.rows[-1][1] / 1000


def medians(words: list[str], calls: int, turns: int) -> tuple[dict[str, float], float]:
    runs = [counted([*words, str(calls)]) for _ in range(turns)]
    columns = {step: statistics.median(sums[step] for sums, _ in runs) for step in runs[0][0]}
    return columns, statistics.median(us for _, us in runs)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--layout", default="8x8", help="RANKSxNODES (%(default)s)")
    add("--kind", default="reduce", choices=bench.KINDS.split(","), help="default: %(default)s")
    add("--bytes", default="8", help="default: %(default)s")
    add("--calls", type=int, default=4000, help="the larger number (%(default)s)")
    add("--turns", type=int, default=3, help="of each, whose medians count (%(default)s)")
    options = parser.parse_args()
    if shutil.which("perf") is None:
        print("steps: perf is missing (Debian: linux-perf)", file=sys.stderr)
        return 77
    shared = bench.parse(["--layouts", options.layout, "--mpis", "openmpi4", "--no-install"])
    shared.build = shared.build.resolve()
    ranks, places = map(int, options.layout.split("x"))
    few = max(1, options.calls // 10)
    print(f"{options.layout} {options.kind} of {options.bytes} bytes, load {machine.load():.1f}")
    print(f"{'a call, all ranks':20}" + "".join(f"{step:>10}" for step in [*STEPS, *OTHERS])
          + f"{'us':>10}")  # fmt: skip
    for name, peer in {"skerry": None, **bench.peers(shared)}.items():
        if not bench.compares(peer, ranks, places, False):
            continue
        words = bench.command(shared.build, peer, ranks, places, False)
        words += [options.kind, options.bytes]
        less, _ = medians(words, few, options.turns)
        more, us = medians(words, options.calls, options.turns)
        each = [(more[step] - less[step]) / (options.calls - few) for step in more]
        print(f"{name:20}" + "".join(f"{value:10.2f}" for value in each) + f"{us:10.1f}",
              flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
