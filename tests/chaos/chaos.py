#!/usr/bin/env python3
"""Breaks connections under a storm of one-sided operations on separate hosts (root). Every sum must be exact, nothing may hang or leak.

    tests/chaos/chaos.py [--breaks N] [--ways hook,kill,reject,link] [--cap N] [--seed N] [--build DIR] [--out FILE]

hook     inside: SKERRY_FAULTS drops connections between and in the middle of messages
kill     from outside: `ss -K` resets connections, single ones or all between two hosts
reject   from outside: a packet filter answers with resets for a moment
link     an interface goes down for a moment; what stays silent for a second is given up

Rows go to out/chaos.json. A seed repeats the storm and the breaker's choices, not their timing.
"""

import argparse
import contextlib
import pathlib
import random
import shutil
import sys
import threading
import time

import stage
from stage import on

HANG_S = 60  # without one operation anywhere, on a machine that also does other things
SHARES = {"hook": 0.5, "kill": 0.35, "reject": 0.14, "link": 0.01}


class Breaker:
    """Breaks connections from outside until told to stop. `count`: how many, as far as it can tell itself."""

    def __init__(self, way, hosts, seed):
        self.way, self.hosts, self.random = way, hosts, random.Random(seed)
        self.count = 0
        self.over = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.over.is_set():
                getattr(self, self.way)()
        except Exception as error:  # shown by the main thread
            self.failure = error

    def two_hosts(self):
        return self.random.sample(range(1, self.hosts + 1), 2)

    def kill(self):
        here, there = self.two_hosts()
        picked = ["dst", f"10.77.0.{there}"]
        if self.random.random() < 0.5:
            lines = on(here, "ss", "-tnH", "state", "established", *picked).splitlines()
            if not lines:
                return
            _, _, mine, theirs = self.random.choice(lines).split()[:4]
            picked += [
                "sport",
                "=",
                ":" + mine.rsplit(":", 1)[1],
                "dport",
                "=",
                ":" + theirs.rsplit(":", 1)[1],
            ]
        self.count += len(on(here, "ss", "-tnHK", "state", "established", *picked).splitlines())
        self.over.wait(self.random.uniform(0, 0.05))

    def reject(self):
        here, there = self.two_hosts()
        chain, field = self.random.choice((("out", "daddr"), ("in", "saddr")))
        on(
            here,
            "nft",
            "add",
            "rule",
            "inet",
            "chaos",
            chain,
            "ip",
            field,
            f"10.77.0.{there}",
            "tcp",
            "sport",
            "1-65535",
            "reject",
            "with",
            "tcp",
            "reset",
            check=True,
        )
        try:
            self.over.wait(self.random.uniform(0, 0.05))
        finally:
            on(here, "nft", "flush", "chain", "inet", "chaos", chain, check=True)
        self.over.wait(self.random.uniform(0, 0.2))

    def link(self):
        here = self.random.randint(1, self.hosts)
        on(here, "ip", "link", "set", "eth0", "down", check=True)
        try:
            time.sleep(self.random.choice((0.05, 0.3, 1.2, 2.5)))
        finally:
            on(here, "ip", "link", "set", "eth0", "up", check=True)
        self.over.wait(self.random.uniform(0.5, 2))

    @contextlib.contextmanager
    def at_work(self):
        if self.way == "reject":
            for host in range(1, self.hosts + 1):
                on(host, "nft", "add", "table", "inet", "chaos", check=True)
                for chain, hook in (("in", "input"), ("out", "output")):
                    on(
                        host,
                        "nft",
                        "add",
                        "chain",
                        "inet",
                        "chaos",
                        chain,
                        f"{{ type filter hook {hook} priority 0; }}",
                        check=True,
                    )
        self.thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self.thread.join()
            if self.way == "reject":
                for host in range(1, self.hosts + 1):
                    on(host, "nft", "delete", "table", "inet", "chaos")


def total(reports, field):
    return sum(r[field] for r in reports)


def run(way, wanted, options):
    """One storm with `wanted` breaks of one way. Its rows, and whether all was well."""
    environment = {}
    if options.cap:
        environment["SKERRY_MAX_CONN"] = str(options.cap)
    if way == "hook":
        environment["SKERRY_FAULTS"] = f"drop={options.drops_per_million},seed={options.seed}"
    if way == "link":
        environment["SKERRY_SILENCE_TIMEOUT"] = "1"
    begin = time.monotonic()
    storm = stage.Storm(options.build, options.ranks, options.hosts, options.seed, environment)
    breaker = Breaker(way, options.hosts, options.seed)
    problems, first, last = [], [], []
    try:
        # warm: every connection was opened once
        while storm.running() and not (first and min(r["epochs"] for r in first) >= 1):
            first = storm.reports()
            if storm.hung(HANG_S):
                problems.append(f"hung before anything was broken:\n{storm.stacks()}")
                break
            time.sleep(0.05)
        with breaker.at_work() if way != "hook" else contextlib.nullcontext(breaker):
            while storm.running() and not problems:
                last = storm.reports() or last
                if max(total(last, "broken") if last else 0, breaker.count) >= wanted:
                    break
                if storm.hung(HANG_S):
                    problems.append(f"hung after {total(last, 'broken')} breaks:\n{storm.stacks()}")
                if time.monotonic() - begin > options.limit:
                    problems.append(f"only {total(last, 'broken')} breaks in {options.limit} s")
                if breaker.failure is not None:
                    problems.append(f"the breaker failed: {breaker.failure}")
                time.sleep(0.1)
        if not problems and not storm.stop(HANG_S + 60):
            problems.append(
                "ended badly" if not storm.running() else f"does not end:\n{storm.stacks()}"
            )
        elif problems and storm.running() and "only" in problems[0]:
            storm.stop(HANG_S)
        last = storm.reports() or last
    finally:
        text = storm.text()
        left = storm.end()
    if left and not problems:
        problems.append(f"processes were left behind: {left}")
    exact = "every sum exact" in text and storm.process.returncode == 0
    broken = max(total(last, "broken") if last else 0, breaker.count)
    growth_kib = max(
        (b["resident_kib"] - a["resident_kib"] for a, b in zip(first, last)), default=0
    )
    files = max((b["files"] - a["files"] for a, b in zip(first, last)), default=0)
    seconds = time.monotonic() - begin
    rows = [
        stage.row(f"chaos.{way}.breaks", broken, "breaks", f">= {wanted}", broken >= wanted),
        stage.row(f"chaos.{way}.every_sum_exact", exact, "", "true", exact),
        stage.row(
            f"chaos.{way}.operations", total(last, "operations") if last else 0, "operations"
        ),
        stage.row(f"chaos.{way}.resumed", total(last, "resumed") if last else 0, "connections"),
        stage.row(
            f"chaos.{way}.requests_replayed", total(last, "replayed") if last else 0, "requests"
        ),
        stage.row(
            f"chaos.{way}.memory_growth", growth_kib, "KiB a rank", "<= 16384", growth_kib <= 16384
        ),
        stage.row(f"chaos.{way}.descriptors_more", files, "a rank", "<= 16", files <= 16),
        stage.row(f"chaos.{way}.time", round(seconds, 1), "s"),
    ]
    for problem in problems:
        print(f"chaos: {way}: {problem}", file=sys.stderr)
    if problems or not exact:
        print(text[-4000:], file=sys.stderr)
        print(f"chaos: {way}: reports and output are in {storm.directory}", file=sys.stderr)
    else:
        storm.forget()
    return rows, exact and not problems and all(r["met"] is not False for r in rows)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--breaks", type=int, default=10000)
    parser.add_argument("--ways", default=",".join(SHARES))
    parser.add_argument("--cap", type=int, default=0, help="SKERRY_MAX_CONN; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument(
        "--drops-per-million", type=int, default=3000, help="of hook (default %(default)s)"
    )
    parser.add_argument(
        "--limit", type=int, default=3600, help="seconds a way may take (default %(default)s)"
    )
    parser.add_argument("--build", type=pathlib.Path, default=stage.ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=stage.ROOT / "out" / "chaos.json")
    options = parser.parse_args()
    options.build = options.build.resolve()
    ways = options.ways.split(",")
    unknown = [way for way in ways if way not in SHARES]
    if unknown:
        parser.error(f"no way '{unknown[0]}': {', '.join(SHARES)}")
    stage.enter_testbed(options.hosts)
    notes, rows, well = (
        [
            f"{options.ranks} ranks on {options.hosts} hosts, cap {options.cap or 'none'}, seed {options.seed}"
        ],
        [],
        True,
    )
    if "reject" in ways and shutil.which("nft") is None:
        notes.append("reject was left out: nft is not installed (apt-get install nftables)")
        ways.remove("reject")
    share = sum(SHARES[way] for way in ways)
    for way in ways:
        found, good = run(way, round(options.breaks * SHARES[way] / share), options)
        rows += found
        well = well and good
    stage.save(options.out, rows, notes, "chaos.")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
