#!/usr/bin/env python3
"""What a cap on connections costs (make bench-acts): real runs at several caps and victim policies.

A synthetic load (task pool, work stealing, partners that change over time) on 64 virtual nodes of one rank, and the DFT example on 32. Caps take
turns within each round, so that all meet the same load of the machine; a ratio is the median over the rounds of each round's own. Every run must
end with the same result. Beside it what a raw TCP connect and close cost on this machine, in the same run. Writes out/acts.json and out/acts.png.

A. Vishnu, M. Krishnan, P. Balaji, "Dynamic Time-Variant Connection Management for PGAS Models on InfiniBand": 5 % at a sixteenth of the
connections, 7 % at a hundred-and-twenty-eighth.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "lab" / "bench" / "micro"))
from harness import machine, report  # noqa: E402

KINDS = ("pool", "steal", "drift")
CAPS = (0, 32, 16, 8, 4, 2, 1)
POLICIES = ("lru", "lru_m")


def configurations(caps):
    """(cap, policy), the run without a cap once."""
    return [(cap, policy) for cap in caps for policy in (POLICIES if cap else POLICIES[:1])]


def environment(cap, policy):
    return dict(os.environ, SKERRY_MAX_CONN=str(cap), SKERRY_VICTIM=policy)


def run_load(build, kind, cap, policy, ranks, tasks):
    command = [
        build / "bin/skerry",
        "run",
        "-n",
        ranks,
        "--nodes",
        ranks,
        build / "bin/bench/acts_load",
        "--kind",
        kind,
        "--tasks",
        tasks,
    ]
    done = subprocess.run(
        [str(word) for word in command],
        env=environment(cap, policy),
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise SystemExit(f"bench-acts: {kind} at cap {cap} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_dft(build, cap, policy, ranks, words, path):
    command = [
        build / "bin/skerry",
        "run",
        "-n",
        ranks,
        "--nodes",
        ranks,
        sys.executable,
        ROOT / "examples/dft/dft.py",
        "--arrays",
        "distributed",
        "--no-reference",
        "--json",
        path,
        *words,
    ]
    settings = environment(cap, policy) | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(build / "python"),
    }
    done = subprocess.run(
        [str(word) for word in command], env=settings, capture_output=True, text=True, timeout=1800
    )
    if done.returncode:
        raise SystemExit(
            f"bench-acts: the DFT example at cap {cap} failed:\n{done.stdout}{done.stderr}"
        )
    document = json.loads(path.read_text())
    counted, found = document["connections"], document["distributed"]
    return {
        "seconds": found["seconds"]["total"],
        "checksum": found["energy_hartree"],
        "opened": counted["connections_opened"],
        "evicted": counted["connections_evicted"],
        "hidden": counted["teardowns_hidden"],
        "broken": counted["connections_broken"],
        "peak": counted["connections_peak"],
        "partners": counted["servers_known"],
        "operations": counted["remote_operations"],
        **{
            name: counted[name]
            for name in (
                "teardown_ns",
                "teardown_exposed_ns",
                "setup_ns",
                "setup_exposed_ns",
                "connection_bytes",
            )
        },
    }


def raw_tcp(build):
    """Medians of a TCP connect (with its first byte back) and close over the loopback, in us."""
    serve = subprocess.Popen(
        [str(build / "bin/bench/limit_tcp"), "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = serve.stdout.readline().split()[1]
        measure = [
            str(build / "bin/bench/limit_tcp"),
            "measure",
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--rows",
            "connect",
        ]
        text = subprocess.run(
            measure, capture_output=True, text=True, check=True, timeout=120
        ).stdout
    finally:
        serve.stdin.close()
        serve.wait(timeout=10)
    found = {}
    for line in text.splitlines():
        words = line.replace('"', " ").replace(",", " ").replace(":", " ").split()
        for name in ("connect", "close"):
            if name in words:
                found[name] = next(
                    float(word)
                    for word in words[words.index(name) + 1 :]
                    if word.replace(".", "", 1).replace("e-", "", 1).isdigit()
                )
    return found


def spread(values):
    return [min(values), statistics.median(values), max(values)]


def same(a, b):
    return abs(a - b) < 1e-7 if isinstance(a, float) else a == b


def measure(name, runs, caps, rounds):
    """{(cap, policy): [sample, ...]} of `rounds` rounds; every sample's result must be that of the first."""
    samples, expected = {}, None
    for number in range(rounds):
        for cap, policy in configurations(caps):
            begin = time.monotonic()
            sample = runs(cap, policy)
            expected = sample["checksum"] if expected is None else expected
            if not same(sample["checksum"], expected):
                raise SystemExit(
                    f"bench-acts: {name} at cap {cap} ended with {sample['checksum']}, not {expected}"
                )
            samples.setdefault((cap, policy), []).append(sample | {"load": machine.load()})
            print(
                f"bench-acts: {name}, round {number + 1} of {rounds}, cap {cap or 'none'} {policy}: {sample['seconds']:.2f} s, "
                f"{sample['evicted']} evicted, peak {sample['peak']} ({time.monotonic() - begin:.0f} s, load {machine.load():.1f})",
                flush=True,
            )
    return samples


def records(name, samples, ranks, raw):
    """One row per cap and policy: time against the run of the same round without a cap, and the share of teardown in it."""
    base = samples[(0, POLICIES[0])]
    rows = []
    for (cap, policy), found in samples.items():
        ratio = spread([sample["seconds"] / other["seconds"] for sample, other in zip(found, base)])
        evicted = sum(sample["evicted"] for sample in found)
        wall_ns = sum(sample["seconds"] for sample in found) * 1e9 * ranks  # of all processes
        row = {
            "name": f"{name}.cap_{cap or 'none'}.{policy}",
            "value": ratio[1],
            "unit": "times the run without a cap",
            "limit": 1.0,
            "limit_name": "no cap, same round",
            "peers": {},
            "target": None,
            "met": None,
            "spread": ratio,
            "seconds": statistics.median(sample["seconds"] for sample in found),
            "evicted": evicted / len(found),
            "opened": statistics.median(sample["opened"] for sample in found),
            "peak_connections": max(sample["peak"] for sample in found),
            "partners": max(sample["partners"] for sample in found),
            "connection_bytes": max(sample["connection_bytes"] for sample in found),
            "teardown_share": sum(sample["teardown_exposed_ns"] for sample in found) / wall_ns,
            "setup_share": sum(sample["setup_exposed_ns"] for sample in found) / wall_ns,
            "teardown_exposed_us": sum(sample["teardown_exposed_ns"] for sample in found)
            / evicted
            / 1e3
            if evicted
            else 0.0,
            "teardown_us": sum(sample["teardown_ns"] for sample in found) / evicted / 1e3
            if evicted
            else 0.0,
            "hidden_share": sum(sample["hidden"] for sample in found) / evicted if evicted else 1.0,
            "rounds": len(found),
            "load": max(sample["load"] for sample in found),
        }
        if name == "dft" and cap in (1, 2):
            bound = 1.03 if cap == 2 else 1.07
            row |= {
                "target": f"<= {bound}",
                "met": ratio[1] <= bound,
                "teardown_met": 1 + row["teardown_share"] <= bound,
            }
        rows.append(row)
    if name != "dft" and raw:
        cost = raw["connect"] + raw["close"]
        evicting = [row for row in rows if row["evicted"]]
        worst = max(evicting, key=lambda row: row["teardown_exposed_us"], default=None)
        if worst:
            rows.append(
                {
                    "name": f"{name}.teardown_exposed",
                    "value": worst["teardown_exposed_us"] / cost,
                    "unit": "of connect + close",
                    "limit": cost,
                    "limit_name": "raw TCP connect + close, us",
                    "peers": {},
                    "target": "<= 0.3",
                    "met": worst["teardown_exposed_us"] <= 0.3 * cost,
                    "of": worst["name"],
                }
            )
            least = min(evicting, key=lambda row: row["hidden_share"])
            rows.append(
                {
                    "name": f"{name}.closes_hidden",
                    "value": least["hidden_share"],
                    "unit": "share",
                    "limit": None,
                    "limit_name": "",
                    "peers": {},
                    "target": ">= 0.8",
                    "met": least["hidden_share"] >= 0.8,
                    "of": least["name"],
                }
            )
            pairs = [
                (by["lru_m"]["evicted"], by["lru"]["evicted"])
                for by in (
                    {
                        policy: next(r for r in rows if r["name"] == f"{name}.cap_{cap}.{policy}")
                        for policy in POLICIES
                    }
                    for cap in sorted({cap for cap, _ in samples if cap})
                )
                if by["lru"]["evicted"]
            ]
            if pairs:
                value = statistics.median(a / b for a, b in pairs)
                rows.append(
                    {
                        "name": f"{name}.lru_m_against_lru",
                        "value": value,
                        "unit": "times the evictions",
                        "limit": 1.0,
                        "limit_name": "lru",
                        "peers": {},
                        "target": "<= 1.02",
                        "met": value <= 1.02,
                    }
                )
    return rows


def draw(rows, path):
    try:
        import matplotlib
    except ImportError:
        print("bench-acts: no figure: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (times, teardowns) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    for name in (*KINDS, "dft"):
        for policy, style in zip(POLICIES, ("-o", "--s")):
            own = sorted(
                (int(r["name"].split(".cap_")[1].split(".")[0]), r)
                for r in rows
                if r["name"].startswith(f"{name}.cap_")
                and r["name"].endswith("." + policy)
                and "none" not in r["name"]
            )
            if not own:
                continue
            caps = [cap for cap, _ in own]
            times.plot(
                caps, [r["value"] for _, r in own], style, label=f"{name}, {policy}", markersize=4
            )
            teardowns.plot(caps, [100 * r["teardown_share"] for _, r in own], style, markersize=4)
    for axis, what in (
        (times, "time, times the run without a cap"),
        (teardowns, "exposed teardown, % of all processes' time"),
    ):
        axis.set_xscale("log", base=2)
        axis.set_xticks([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16, 32])
        axis.set_xlabel("most connections of a process")
        axis.set_ylabel(what)
        axis.grid(alpha=0.3)
    times.axhline(1, color="black", linewidth=0.8)
    times.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


COLUMNS = ("evicted", "teardown_exposed_us", "hidden_share", "teardown_share", "setup_share")
SHARED = ("put_8_us", "get_8_us", "fetch_add_us", "put_mib_s", "get_mib_s", "all_fetch_add_per_s")


def share_records(build, rounds):
    """Rows of single operations and connections by SKERRY_SHARE; the ways take turns within each round, values are medians over the rounds."""
    rows = []
    for ranks, nodes in ((8, 2), (16, 4)):
        samples = {"own": [], "shared": []}
        for number in range(rounds):
            for way, found in samples.items():
                command = [
                    build / "bin/skerry",
                    "run",
                    "-n",
                    ranks,
                    "--nodes",
                    nodes,
                    build / "bin/bench/share_load",
                ]
                done = subprocess.run(
                    [str(word) for word in command],
                    env=dict(os.environ, SKERRY_SHARE=str(int(way == "shared"))),
                    capture_output=True,
                    text=True,
                    timeout=600,
                )
                if done.returncode:
                    raise SystemExit(
                        f"bench-acts: share_load with {way} connections failed:\n{done.stdout}{done.stderr}"
                    )
                found.append(
                    json.loads(done.stdout.strip().splitlines()[-1]) | {"load": machine.load()}
                )
                print(
                    f"bench-acts: share, round {number + 1} of {rounds}, {ranks} ranks on {nodes} nodes, {way}: {found[-1]}",
                    flush=True,
                )
        for way, found in samples.items():
            for name in SHARED:
                ratio = spread(
                    [sample[name] / other[name] for sample, other in zip(found, samples["own"])]
                )
                rows.append(
                    {
                        "name": f"share.{ranks}_on_{nodes}.{way}.{name}",
                        "value": ratio[1],
                        "unit": "times not shared",
                        "limit": 1.0,
                        "limit_name": "not shared, same round",
                        "peers": {},
                        "target": None,
                        "met": None,
                        "spread": ratio,
                        "measured": statistics.median(sample[name] for sample in found),
                        "load": max(sample["load"] for sample in found),
                        "rounds": len(found),
                        "tcp_ends": max(sample["tcp_ends"] for sample in found),
                        "shared_per_node": max(sample["shared_per_node"] for sample in found),
                        "connections": max(sample["connections"] for sample in found),
                    }
                )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--out", type=Path, default=ROOT / "out/acts.json")
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often all caps take turns (default: %(default)s)"
    )
    parser.add_argument(
        "--ranks",
        type=int,
        default=64,
        help="virtual nodes of the synthetic load (default: %(default)s)",
    )
    parser.add_argument("--tasks", type=int, default=30, help="per rank (default: %(default)s)")
    parser.add_argument(
        "--kinds", default=",".join(KINDS), help="loads, or none (default: %(default)s)"
    )
    parser.add_argument(
        "--caps", default=",".join(map(str, CAPS)), help="0: none (default: %(default)s)"
    )
    parser.add_argument(
        "--dft-ranks",
        type=int,
        default=32,
        help="virtual nodes of the DFT example; 0: leave it out (default: %(default)s)",
    )
    parser.add_argument("--dft-rounds", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument(
        "--dft-caps", default=",".join(map(str, CAPS)), help="(default: %(default)s)"
    )
    parser.add_argument(
        "--dft-options",
        default="--basis 6-31G*",
        help="words for examples/dft/dft.py (default: %(default)s)",
    )
    parser.add_argument(
        "--share",
        action="store_true",
        help="only what sharing connections saves and costs; written to acts_share.json beside --out",
    )
    options = parser.parse_args()
    if options.share:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        path = options.out.with_name("acts_share.json")
        rows = share_records(options.build, options.rounds)
        report.publish(path, rows, [], ("measured", "tcp_ends"))
        return
    caps = sorted({0, *map(int, options.caps.split(","))}, key=lambda cap: (cap != 0, -cap))
    dft_caps = sorted({0, *map(int, options.dft_caps.split(","))}, key=lambda cap: (cap != 0, -cap))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    raw, rows = raw_tcp(options.build), []
    print(
        f"bench-acts: raw TCP over the loopback: connect {raw.get('connect')} us, close {raw.get('close')} us",
        flush=True,
    )
    for kind in filter(None, options.kinds.replace("none", "").split(",")):
        found = measure(
            kind,
            lambda cap, policy: run_load(
                options.build, kind, cap, policy, options.ranks, options.tasks
            ),
            caps,
            options.rounds,
        )
        rows += records(kind, found, options.ranks, raw)
    if options.dft_ranks:
        path = options.out.with_name("acts_dft.json")
        found = measure(
            "dft",
            lambda cap, policy: run_dft(
                options.build, cap, policy, options.dft_ranks, options.dft_options.split(), path
            ),
            dft_caps,
            options.dft_rounds,
        )
        rows += records("dft", found, options.dft_ranks, raw)
        path.unlink(missing_ok=True)
    told = {k: str(v) for k, v in vars(options).items()}
    report.publish(options.out, rows, [], COLUMNS, raw_tcp_us=raw, options=told)
    draw(rows, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
