"""How long jobs take to start. Measured: `skerry run` of a program that starts and ends, beside the
same processes without Skerry. Simulated, and labelled so, for up to a million ranks: the launcher's
own code answers every frame of the start in one process; the time on the wire, in system calls and
in waiting is added with the constants below."""

import statistics
import subprocess
import time

from report import machine, row, say

HOSTS = 0  # needs no network of its own
PROCESSES = (8, 32, 100, 200)
PER_NODE = 4
MOST_ROUNDS = 5
RANKS = (1_024, 10_240, 102_400, 1_000_000)
PER_SIMULATED_NODE = 64
WIRE_GB_S = 1.25  # of the launcher's adapter: 10 Gbit/s
SYSTEM_CALL_US = 1.5  # to send or receive a frame that travels alone: the worst case
ROUNDS = 12  # of messages between a rank and the launcher, one after the other
ROUND_US = 200  # of one: rank, agent, launcher and back


def seconds_of(command):
    begin = time.monotonic()
    subprocess.run([str(word) for word in command], check=True, timeout=300)
    return time.monotonic() - begin


def measured_rows(options):
    probe = options.build / "bin/bench/cluster_start"
    rows = []
    for ranks in PROCESSES:
        job = [options.build / "bin/skerry", "run", "-n", ranks, "--nodes", ranks // PER_NODE]
        ours, theirs = [], []
        for _ in range(min(options.rounds, MOST_ROUNDS)):
            ours.append(seconds_of([*job, probe, "rank"]))
            theirs.append(seconds_of([*job, "true"]))
        value = statistics.median(ours)
        rows.append(
            row(
                f"clusters.start_{ranks}_processes",
                value,
                "s",
                statistics.median(theirs),
                "the same processes without Skerry",
                nodes=ranks // PER_NODE,
                rounds=len(ours),
                spread=[min(ours), value, max(ours)],
                load=machine.load(),
            )
        )
        print(
            f"bench-clusters: start of {ranks} processes on {ranks // PER_NODE} nodes: "
            f"{value:.2f} s, without Skerry {statistics.median(theirs):.2f} s",
            flush=True,
        )
    return rows


def simulated_rows(options):
    probe = options.build / "bin/bench/cluster_start"
    rows = []
    for ranks in RANKS:
        found = say([probe, "exchange", ranks, PER_SIMULATED_NODE])[0]
        wire_s = (found["bytes_in"] + found["bytes_out"]) / WIRE_GB_S / 1e9
        calls_s = (found["frames_in"] + found["frames_out"]) * SYSTEM_CALL_US / 1e6
        wait_s = ROUNDS * ROUND_US / 1e6
        value = found["processor_s"] + wire_s + calls_s + wait_s
        rows.append(
            row(
                f"clusters.simulated.start_{ranks}_ranks",
                value,
                "s",
                wire_s,
                "its bytes on a wire of 10 Gbit/s",
                label="simulated: the launcher's code, and constants of start.py",
                simulated=True,
                system_calls_s=calls_s,
                **found,
            )
        )
        print(
            f"bench-clusters: start of {ranks} ranks, simulated: {value:.3g} s, of that wire "
            f"{wire_s:.3g}, system calls {calls_s:.3g}, the launcher's code "
            f"{found['processor_s']:.3g}; list of a node {found['list_bytes'] / 1e6:.3g} MB",
            flush=True,
        )
    return rows


def rows(options):
    return measured_rows(options) + simulated_rows(options)
