#!/usr/bin/env python3
"""merge of a full mirrored array, and allreduce, beside MPI_Allreduce of the same bytes.

One rank runs on each of 2, 4 and 8 hosts, which are network namespaces (root) and share this
machine's cores. Over links of 100 Mbit/s a row also says which share of the links' rate was
reached: K hosts must each send and receive 2 (K-1)/K of the array. Programs take turns; values are
medians over the rounds. Prints a table, writes out/merge.json.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "micro"))

from harness import machine, mpis, report, session  # noqa: E402
from harness.process import run_program  # noqa: E402

HOSTS = (2, 4, 8)
PEERS = {
    "openmpi": mpis.Mpi("openmpi4", "mpirun.openmpi"),
    "mpich": mpis.Mpi("hydra", "mpiexec.hydra"),
}
OURS = {"merge": [], "allreduce": ["allreduce"]}  # the last words of merge_row
RATE_BYTES = 100e6 / 8  # of a shaped link, a second
TESTBED = ROOT / "testbed" / "hosts.sh"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round of smaller arrays")
    parser.add_argument("--rounds", type=int, help="default 3, quick 1")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build", help="build directory (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "out" / "merge.json", help="default: %(default)s"
    )
    return parser.parse_args(arguments)


def command(name: str, build: Path, hosts: int, size: int, turns: int) -> list[str]:
    """One measurement of Skerry or a peer, started from the launchers' own host."""
    each = (1,) * hosts
    if name in OURS:
        where = ",".join(f"sk{host}:1" for host in range(1, hosts + 1))
        line = [build / "bin/skerry", "run", "--hosts", where, "--agent"]
        line += [os.environ["TESTBED_AGENT"], build / "bin/bench/merge_row"]
    else:
        line = [*PEERS[name].command(each), build / f"bin/bench/peer_allreduce_{name}"]
    words = (TESTBED, "exec", "sk0", *line, size, turns, *OURS.get(name, ()))
    return [str(word) for word in words]


def known(build: Path) -> list[str]:
    """Skerry and the peers that are there; names the others."""
    found = list(OURS)
    for name, mpi in PEERS.items():
        if shutil.which(mpi.starter) and (build / f"bin/bench/peer_allreduce_{name}").exists():
            found.append(name)
        else:
            print(f"merge.py: {name} is left out: {mpi.starter} or its program is missing")
    return found


def measure(name: str, options: argparse.Namespace, hosts: int, size: int) -> float | None:
    line = command(name, options.build.resolve(), hosts, size, 3 if options.quick else 7)
    done = run_program(line, {**os.environ, **mpis.AS_ROOT}, 60)
    if done.why:
        print(f"merge.py: {name} on {hosts} hosts: {done.why}", file=sys.stderr)
        return None
    return done.rows[0][1]


def rows(rate: str, hosts: int, size: int, seconds: dict[str, list[float]]) -> list[dict]:
    """Against the fastest peer, and against the links if they are shaped."""
    middle = {name: statistics.median(each) for name, each in seconds.items() if each}
    peers = {name: value for name, value in middle.items() if name not in OURS}
    fastest = min(peers.values(), default=None)

    def row(name: str, value: float | None, unit: str, target: str, met: bool | None) -> dict:
        return {"name": name, "value": value, "unit": unit, "target": target, "met": met,
                "bytes": size, "peers": peers}  # fmt: skip

    out = []
    for call in OURS:
        ours, label = middle.get(call), f"{call}.{rate}.{hosts}_hosts"
        known = ours is not None and fastest is not None
        out.append(row(label, ours, "s", "<= 1.0 x MPI_Allreduce",
                       ours <= fastest if known else None))  # fmt: skip
        if rate != "unshaped" and ours is not None:
            share = 2 * (hosts - 1) / hosts * size / RATE_BYTES / ours
            out.append(row(f"{label}.share", share, "of the links", ">= 0.85", share >= 0.85))
    return out


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if os.geteuid() != 0:
        print("merge.py: hosts are network namespaces, which only root can make", file=sys.stderr)
        return 2
    session.on_testbed(ROOT, max(HOSTS), HERE / "merge.py", arguments)
    session.take_signals()
    session.own_session(False)
    before, records = machine.load(), []
    names = known(options.build)
    rounds = options.rounds or (1 if options.quick else 3)
    megabytes = {"unshaped": 4 if options.quick else 32, "100mbit": 1 if options.quick else 4}
    for rate, size in megabytes.items():
        shape = "none" if rate == "unshaped" else rate
        subprocess.run([str(TESTBED), "shape", shape], check=True)
        for hosts in HOSTS:
            seconds: dict[str, list[float]] = {name: [] for name in names}
            for _ in range(rounds):
                for name in names:
                    value = measure(name, options, hosts, size << 20)
                    if value is not None:
                        seconds[name].append(value)
                    elif name not in OURS:  # it would cost its time limit each time
                        names = [other for other in names if other != name]
            new = rows(rate, hosts, size << 20, seconds)
            records += new
            for row in new:
                others = ", ".join(f"{k} {v:.4g}" for k, v in row["peers"].items())
                print(f"{row['name']:32} {row['value']} {row['unit']} ({others}) "
                      f"target {row['target']}: {row['met']}", flush=True)  # fmt: skip
    described = {**machine.describe(), "load": {"before": before, "after": machine.load()}}
    report.save(options.out, records, described, [])
    print(f"\n{report.targets_met(records)}; load {before:.2f} before; {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
