"""Rows of out/clusters.json, and how a part starts its programs."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "lab" / "bench" / "micro"))
from harness import machine  # noqa: E402
from harness.report import publish  # noqa: E402, F401

LATENCY_UP_TO = 64 * 1024  # bytes; as in the paper's figure 6


def say(command, **more):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=900, **more
    )
    if done.returncode:
        sys.exit(
            f"bench-clusters: {' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}"
        )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def run_on_hosts(build, ranks, setting, arguments):
    """cluster_times with so many ranks on sk1, sk2, ...: its lines. To be called inside `hosts.sh
    run`."""
    hosts = str(ROOT / "testbed" / "hosts.sh")
    places = ",".join(f"sk{i + 1}:{count}" for i, count in enumerate(ranks))
    command = [hosts, "exec", "sk0", build / "bin/skerry", "run", "--hosts", places]
    command += ["--agent", os.environ["TESTBED_AGENT"]]
    command += [build / "bin/bench/cluster_times", *arguments]
    load = machine.load()
    return [line | {"load": load} for line in say(command, env=dict(os.environ, **setting))]


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


def paired_rows(part, way, mine, theirs, base, target):
    """Rows of one size from lines of cluster_times, by round: how many times as long as `base`, of
    the same round. `put` and `get` are one at a time, `puts` and `gets` many."""
    rows = []
    bytes_ = mine[0]["bytes"]
    for what in ("put", "get", "puts", "gets"):
        field = f"{what}_us"
        ratios = sorted(m[field] / t[field] for m, t in zip(mine, theirs))
        time_us = statistics.median(m[field] for m in mine)
        rows.append(
            row(
                f"{part}.{what}_{bytes_}.{way}",
                statistics.median(ratios),
                f"times {base}",
                1.0,
                f"{base}, same round",
                target,
                # Figure 6 shows latency up to 64 KiB, figure 7 bandwidth.
                figure="latency" if what in ("put", "get") else "bandwidth",
                in_paper=what in ("puts", "gets") or bytes_ <= LATENCY_UP_TO,
                spread=[ratios[0], statistics.median(ratios), ratios[-1]],
                measured_us=time_us,
                base_us=statistics.median(t[field] for t in theirs),
                gb_s=bytes_ / time_us / 1000,
                rounds=len(mine),
                load=max(m["load"] for m in mine),
            )
        )
    return rows
