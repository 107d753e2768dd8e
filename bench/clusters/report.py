"""Rows of out/clusters.json, and how a part starts its programs."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "micro"))
from harness import machine  # noqa: E402, F401


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
