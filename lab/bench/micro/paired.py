#!/usr/bin/env python3
"""Two builds of Skerry in turns: is a row of the later one slower?

    lab/bench/micro/paired.py --before BUILD [--after BUILD] [--rounds N] [--fabrics LIST]

Each round runs skerry_rows of both builds, the order changes from round to round, and a ratio is
taken within its round: 1 is as fast, 2 twice as slow. Prints the median ratio of each row, its
quartiles, and the rows slower than --limit. A machine that does other things shows in the
quartiles. Writes out/paired.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))

from harness import machine  # noqa: E402
from harness.runner import CORES  # noqa: E402

SCENARIOS = ("remote", "busy")
HIGHER_IS_BETTER = ("/s",)  # how units of throughputs end
LIMIT_S = 120


def run(build: Path, fabric: str, scenario: str, cores: str, scale: str) -> dict[str, float]:
    """Time of each row, or one by its throughput: less is better."""
    words = [build / "bin/skerry", "run", "-n", "2", "--nodes", "2"]
    words += [build / "bin/bench/skerry_rows", scenario]
    pins = ",".join(map(str, CORES[cores]))
    ours = {"SKERRY_FABRIC": fabric, "BENCH_CPUS": pins, "BENCH_TIME_SCALE": scale}
    # The programs of a copied build name the library of the build that it was copied from.
    ours["LD_LIBRARY_PATH"] = str(build / "src/capi")
    done = subprocess.run(
        list(map(str, words)),
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{fabric} {scenario} of {build}: {done.stderr.strip()[-400:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"row"')]
    return {
        line["row"]: 1 / line["value"] if line["unit"].endswith(HIGHER_IS_BETTER) else line["value"]
        for line in lines
        if line["value"] > 0
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True, help="the earlier build")
    parser.add_argument("--after", type=Path, default=ROOT / "build", help="(build)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--fabrics", default="tcp,ofi:tcp")
    parser.add_argument("--scale", default="0.3", help="of each measurement's time (0.3)")
    parser.add_argument("--limit", type=float, default=1.02)
    parser.add_argument("--out", type=Path, default=ROOT / "out/paired.json")
    options = parser.parse_args()
    ratios: dict[str, list[float]] = {}
    loads = []
    for turn in range(options.rounds):
        loads.append(machine.load())
        print(f"paired: round {turn + 1}, load {loads[-1]:.2f}", file=sys.stderr, flush=True)
        for fabric in options.fabrics.split(","):
            for scenario in SCENARIOS:
                for cores in CORES:
                    both = {}
                    for build in (options.before, options.after)[:: -1 if turn % 2 else 1]:
                        both[build] = run(build.resolve(), fabric, scenario, cores, options.scale)
                    before, after = both[options.before], both[options.after]
                    for row in before.keys() & after.keys():
                        name = f"{fabric} {scenario}.{cores}.{row}"
                        ratios.setdefault(name, []).append(after[row] / before[row])
    records = {}
    for name, values in sorted(ratios.items()):
        low, middle, high = (
            statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
        )
        records[name] = {"ratio": middle, "low": low, "high": high, "rounds": len(values)}
        print(f"{name:58} {middle:6.3f}   {low:.3f} to {high:.3f}")
    slower = [name for name, one in records.items() if one["ratio"] > options.limit]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"rows": records, "loads": loads}, indent=1))
    names = ", ".join(slower)
    print(f"{len(records)} rows, {len(slower)} slower than {options.limit:g} x: {names}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
