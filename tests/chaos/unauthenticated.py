#!/usr/bin/env python3
"""Unauthenticated peers attack a data server while a storm runs between hosts (root).

Port scans, slow hellos, recorded hellos, garbage by the hundred thousand.
All are refused, the server's memory stays flat, every sum is exact, and the job is slowed no more than if the same attack met a dummy on that
host that merely accepts and closes.

    tests/chaos/unauthenticated.py [--connections N] [--rounds N] [--seconds S] [--build DIR]
                                   [--out FILE]

Rows go to out/chaos.json.
"""

import argparse
import ctypes
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import stage
from stage import on

VICTIM = 2  # number of the host that is attacked; the attack comes from host 3


def enter(namespace):
    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "setns")


class Ear(threading.Thread):
    """Listens on the wire for a hello to the victim, as an attacker that can read the network could."""

    def __init__(self):
        super().__init__(daemon=True)
        self.hellos = []
        self.over = threading.Event()
        # In the launcher's host lies the bridge with a port per host.
        with open(f"/proc/{stage.holder(0)}/ns/net") as theirs, open("/proc/self/ns/net") as ours:
            enter(theirs)
            try:
                self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
                self.wire.bind((f"skv{VICTIM}", 0))
            finally:
                enter(ours)
        self.wire.settimeout(0.2)

    def run(self):
        while not self.over.is_set():
            try:
                packet = self.wire.recv(2048)
            except TimeoutError:
                continue
            at = packet.find(b"SKRY\x01\x00")
            to_victim = packet[30:34] == bytes((10, 77, 0, VICTIM))
            hello_bytes = int.from_bytes(packet[at + 6 : at + 8], "little")
            if at >= 0 and to_victim and len(packet) >= at + 8 + hello_bytes:
                self.hellos.append(packet[at : at + 8 + hello_bytes])


def rate(storm, seconds):
    """Operations a second of the whole job."""
    before, begin = sum(r["operations"] for r in storm.reports()), time.monotonic()
    time.sleep(seconds)
    return (sum(r["operations"] for r in storm.reports()) - before) / (time.monotonic() - begin)


def attack(knock, *words):
    return subprocess.Popen(
        ["nsenter", "-t", stage.holder(3), "--net", str(knock), *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--connections", type=int, default=100000, help="of garbage, in all (default %(default)s)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=20,
        help="of quiet, dummy, server, in turn (default %(default)s)",
    )
    parser.add_argument(
        "--seconds", type=float, default=1.5, help="of each measurement (default %(default)s)"
    )
    parser.add_argument("--build", type=pathlib.Path, default=stage.ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=stage.ROOT / "out" / "chaos.json")
    options = parser.parse_args()
    options.build = options.build.resolve()
    stage.enter_testbed(3)
    knock = options.build / "bin" / "tests" / "knock"
    host = f"10.77.0.{VICTIM}"
    ear = Ear()
    ear.start()
    # one long epoch: the check comes at its end
    storm = stage.Storm(options.build, 2, 2, 1, {}, operations=1_000_000_000)
    dummy = subprocess.Popen(
        ["nsenter", "-t", stage.holder(VICTIM), "--net", str(knock), "listen"],
        stdout=subprocess.PIPE,
        text=True,
    )
    problems, rates, made, rows = (
        [],
        {"quiet": [], "dummy": [], "server": []},
        {"dummy": 0, "server": 0},
        [],
    )
    try:
        dummy_port = int(dummy.stdout.readline())
        while storm.running() and not storm.reports():
            time.sleep(0.05)
        ports = [
            int(line.split()[3].rsplit(":", 1)[1])
            for line in on(VICTIM, "ss", "-tlnH").splitlines()
        ]
        server_port = next(port for port in ports if port != dummy_port)

        # Everything that is not a flood, all at once.
        others = {
            "scan": attack(knock, "scan", host, 5),
            "slow": attack(knock, "slow", host, server_port, 8, 500),
            "replay": attack(
                knock,
                "replay",
                host,
                server_port,
                5,
                max(ear.hellos, default=b"SKRY", key=len).hex(),
            ),
        }
        counts = {name: int(process.communicate()[0] or 0) for name, process in others.items()}
        ear.over.set()
        if not ear.hellos:
            problems.append("no hello was recorded: nothing was replayed")

        first = storm.reports()
        memory = [first[1]["resident_kib"]]
        while storm.running() and (
            len(rates["server"]) < options.rounds or made["server"] < options.connections
        ):
            # a drift of the machine's load cancels
            order = (
                ("quiet", "dummy", "server")
                if len(rates["server"]) % 2 == 0
                else ("server", "dummy", "quiet")
            )
            for case in order:
                process = None
                if case != "quiet":
                    process = attack(
                        knock,
                        "garbage",
                        host,
                        dummy_port if case == "dummy" else server_port,
                        options.seconds + 1,
                        0,
                    )
                    time.sleep(0.5)
                rates[case].append(rate(storm, options.seconds))
                if process is not None:
                    made[case] += int(process.communicate()[0] or 0)
            memory.append(storm.reports()[1]["resident_kib"])
            if storm.hung(60):
                problems.append(f"hung:\n{storm.stacks()}")
                break
        last = storm.reports()
        (storm.directory / "stop").touch()
        (storm.directory / "end").touch()
        if not storm.stop(120):
            problems.append(
                "ended badly" if not storm.running() else f"does not end:\n{storm.stacks()}"
            )
        refused = {k: v for k, v in last[1].items() if k.startswith("refused_")}
        # Sums over the same time: single measurements spread too much on a busy machine.
        quiet = round(statistics.median(rates["quiet"]))
        slower = {
            case: sum(rates["quiet"]) / max(sum(rates[case]), 1e-9) for case in ("dummy", "server")
        }
        beside = sum(rates["dummy"]) / max(sum(rates["server"]), 1e-9)
        growth = max(memory[len(memory) // 4 :]) - memory[0]
        exact = "every sum exact" in storm.text()
        rows = [
            stage.row(
                "unauthenticated.garbage",
                made["server"],
                "connections",
                f">= {options.connections}",
                made["server"] >= options.connections,
            ),
            stage.row("unauthenticated.garbage_at_dummy", made["dummy"], "connections"),
            *[
                stage.row(f"unauthenticated.{name}", count, "connections")
                for name, count in counts.items()
            ],
            stage.row("unauthenticated.refused", refused["refused_connections"], "connections"),
            stage.row(
                "unauthenticated.replays_refused",
                refused["refused_replayed"],
                "connections",
                "> 0",
                refused["refused_replayed"] > 0,
            ),
            stage.row("unauthenticated.every_sum_exact", exact, "", "true", exact),
            stage.row("unauthenticated.memory_growth", growth, "KiB", "<= 4096", growth <= 4096),
            stage.row("unauthenticated.rate_quiet", quiet, "ops/s"),
            stage.row("unauthenticated.slower_under_dummy", round(slower["dummy"], 3), "times"),
            stage.row("unauthenticated.slower_under_server", round(slower["server"], 3), "times"),
            stage.row(
                "unauthenticated.server_beside_dummy",
                round(beside, 3),
                "times",
                "<= 1.05",
                beside <= 1.05,
            ),
        ]
    finally:
        dummy.send_signal(signal.SIGKILL)
        text = storm.text()
        left = storm.end()
    if left and not problems:
        problems.append(f"processes were left behind: {left}")
    for problem in problems:
        print(f"unauthenticated: {problem}", file=sys.stderr)
    if problems:
        print(text[-4000:], file=sys.stderr)
    else:
        storm.forget()
    spread = {
        case: [round(min(found)), round(max(found))] for case, found in rates.items() if found
    }
    stage.save(
        options.out,
        rows,
        [
            f"unauthenticated: 2 ranks on 2 hosts, attacked from a third; operations a second, least and most: {spread}"
        ],
        "unauthenticated.",
    )
    return 0 if not problems and all(r["met"] is not False for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
