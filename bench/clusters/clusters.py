#!/usr/bin/env python3
"""What clusters of data servers cost and save: make bench-clusters, out/clusters.json and .png.

Times: put and get from one rank to the others on 4 hosts in 2 clusters of 2 (network namespaces,
root), as in figures 6 and 7 of W. Yu et al., "Cooperative server clustering for a scalable GAS
model on petascale cray XT5 systems". Without clusters, and with them to the gate (direct) and
through it (forwarded), in turn within each round.

Memory: what one data server takes for its clients, by its own account, VmRSS and the kernel's
objects for its sockets, as in figure 8. The clients are real connections that another process
holds. What a whole job would ask of a server follows from the product's routes, and is labelled
simulated.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "micro"))
from harness import machine  # noqa: E402

PER_NODE = 12  # the paper's
RANKS = (60, 300, 1200, 2400, 4800, 9600)
SIZES = ("1", "sqrt", "auto")
BUDGET = 16 << 20  # of `auto`
ORIGINAL, DIRECT, FORWARDED = "original", "direct", "forwarded"


def say(command, **more):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=900, **more
    )
    if done.returncode:
        sys.exit(
            f"bench-clusters: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}"
        )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def row(name, value, unit, limit=None, limit_name=None, target=None, **more):
    met = None if target is None else bool(value <= target)
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "limit": limit,
        "limit_name": limit_name,
        "peers": {},
        "target": target,
        "met": met,
    } | more


# ---- times -------------------------------------------------------------------------------------


def measure_times(build, rounds, operations):
    """[{(way, partner, bytes): sample}] by round. To be called inside `hosts.sh run 4`."""
    hosts = str(ROOT / "testbed" / "hosts.sh")
    found = []
    for number in range(rounds):
        samples = {}
        for size in (1, 2):
            command = [hosts, "exec", "sk0", build / "bin/skerry", "run"]
            command += ["--hosts", "sk1:1,sk2:1,sk3:1,sk4:1"]
            command += ["--agent", os.environ["TESTBED_AGENT"]]
            command += [build / "bin/bench/cluster_times", "--rounds", operations]
            load = machine.load()
            lines = say(command, env=dict(os.environ, SKERRY_CLUSTER_SIZE=str(size)))
            for line in lines:
                # Clusters 0 1 | 2 3: node 0's gate in the other one is node 2.
                if line["partner"] == 1:
                    continue
                way = DIRECT if line["partner"] == 2 else FORWARDED
                key = (way, ORIGINAL if size == 1 else way, line["bytes"])
                samples[key] = line | {"load": load}
        found.append(samples)
        print(f"bench-clusters: times, round {number + 1} of {rounds}", flush=True)
    return found


def times_rows(found):
    rows = []
    for way in (DIRECT, FORWARDED):
        for bytes_ in sorted({key[2] for key in found[0]}):
            for what in ("put", "get"):
                mine = [s[(way, way, bytes_)][f"{what}_us"] for s in found]
                theirs = [s[(way, ORIGINAL, bytes_)][f"{what}_us"] for s in found]
                ratios = sorted(m / t for m, t in zip(mine, theirs))
                target = 1.03 if way == DIRECT else 2.0
                rows.append(
                    row(
                        f"clusters.{what}_{bytes_}.{way}",
                        statistics.median(ratios),
                        "times without clusters",
                        1.0,
                        "without clusters, same round",
                        target,
                        spread=[ratios[0], statistics.median(ratios), ratios[-1]],
                        measured_us=statistics.median(mine),
                        original_us=statistics.median(theirs),
                        gb_s=bytes_ / statistics.median(mine) / 1000,
                        rounds=len(found),
                        load=max(s[(way, way, bytes_)]["load"] for s in found),
                    )
                )
    return rows


# ---- memory ------------------------------------------------------------------------------------


def memory_of(program, clients, routed):
    """What a server takes for so many: bytes by its own account, VmRSS, of the kernel."""
    found = say([program, clients, int(routed)])[0]
    return found | {"kernel_bytes": found["sockets"] * found["socket_bytes"]}


# A channel that passes through a server, by the size of its records (Transit, two table entries).
PASSING_BYTES = 400


def passing_bytes(plan, session_bytes):
    """What else a server takes if all ranks talk to all: sessions that come by other servers, and
    about as many channels that it passes on. Computed."""
    if plan["size"] == 1:
        return 0
    return max(0, plan["sessions"] - plan["clients"]) * session_bytes + (
        plan["sessions"] * PASSING_BYTES
    )


def memory_rows(build):
    program = build / "bin/bench/cluster_memory"
    rows, first = [], {}
    for ranks in RANKS:
        for size in SIZES:
            plan = say([program, "plan", ranks // PER_NODE, PER_NODE, size, BUDGET])[0]
            routed = plan["size"] > 1
            real = memory_of(program, plan["clients"], routed)
            own = real["resident_bytes"] + real["kernel_bytes"]
            all_to_all = own + passing_bytes(plan, real["account_bytes"] / plan["clients"])
            first.setdefault(ranks, own)
            common = {"plan": plan, "load": machine.load()} | real
            name = f"clusters.memory_{ranks}_ranks.size_{size}"
            limit = (first[ranks] / 1e6, "size 1")
            target = first[ranks] / 1e7 if routed and ranks == 9600 else None
            label = "measured: VmRSS and the kernel's objects, for a server's own clients"
            rows.append(row(name, own / 1e6, "MB", *limit, None, label=label, **common))
            label = "simulated: the same, and the sessions and channels of a job of all to all"
            name += ".all_to_all"
            rows.append(row(name, all_to_all / 1e6, "MB", *limit, target, label=label, **common))
            print(f"bench-clusters: {name}: {own / 1e6:.2f}, {all_to_all / 1e6:.2f} MB", flush=True)
    return rows


def million_rows(build):
    """A million ranks, 64 a node: the product's routes, and what a client was measured to take."""
    program = build / "bin/bench/cluster_memory"
    link = memory_of(program, 1000, True)
    each = (link["account_bytes"] + link["kernel_bytes"]) / 1000
    session = link["account_bytes"] / 1000
    rows = []
    for size, budget in (("1", 0), ("sqrt", 0), ("auto", 64 << 20)):
        plan = say([program, "plan", 15625, 64, size, budget])[0]
        connections = plan["clients"] + plan["trunks"]
        rows.append(
            row(
                f"clusters.million_ranks.size_{size}",
                (connections * each + plan["sessions"] * (session + PASSING_BYTES)) / 1e6,
                "MB",
                target=64.0 if size == "auto" else None,
                plan=plan,
                label="simulated: all ranks talk to all; bytes of a connection and a session as "
                "measured with 1000",
            )
        )
    return rows


def figure(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for way in (DIRECT, FORWARDED):
        for what, style in (("put", "-"), ("get", "--")):
            points = [
                (int(r["name"].split("_")[1].split(".")[0]), r["value"])
                for r in rows
                if r["name"].startswith(f"clusters.{what}_") and r["name"].endswith(way)
            ]
            if points:
                left.plot(*zip(*points), style, marker="o", markersize=3, label=f"{what}, {way}")
    left.set_xscale("log", base=2)
    left.set_xlabel("bytes")
    left.set_ylabel("time, times without clusters")
    for size in SIZES:
        points = [
            (int(r["name"].split("_")[1]), r["value"])
            for r in rows
            if r["name"].startswith("clusters.memory_") and r["name"].endswith(f"size_{size}")
        ]
        if points:
            right.plot(*zip(*points), marker="o", markersize=3, label=f"size {size}")
    right.set_xlabel("ranks of the job, 12 a node")
    right.set_ylabel("MB of one server and its kernel")
    right.set_yscale("log")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    shown.tight_layout()
    shown.savefig(path, dpi=120)
    plt.close(shown)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--out", type=Path, default=ROOT / "out/clusters.json")
    parser.add_argument("--rounds", type=int, default=5, help="of the times (default: %(default)s)")
    parser.add_argument(
        "--operations", type=int, default=500, help="of a time (default: %(default)s)"
    )
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:  # on the hosts
        rows = times_rows(measure_times(options.build, options.rounds, options.operations))
        options.inside.write_text(json.dumps(rows))
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = memory_rows(options.build) + million_rows(options.build)
    notes = []
    if os.geteuid() == 0:
        part = options.out.with_suffix(".times.json")
        command = [ROOT / "testbed/hosts.sh", "run", 4, "--", sys.executable, __file__]
        command += ["--build", options.build, "--rounds", options.rounds]
        command += ["--operations", options.operations, "--inside", part]
        subprocess.run([str(word) for word in command], check=True)
        rows = json.loads(part.read_text()) + rows
        part.unlink()
    else:
        notes.append("times are not measured: network namespaces need root")
    described = {"machine": machine.describe(), "notes": notes, "rows": rows}
    options.out.write_text(json.dumps(described, indent=1))
    figure(rows, options.out.with_suffix(".png"))
    for r in rows:
        met = {None: "", True: "met", False: "not met"}[r["met"]]
        print(f"{r['name']:44} {r['value']:10.3f} {r['unit']:24} {met}")


if __name__ == "__main__":
    main()
