"""A million ranks, 64 a node, by `skerry-sim routes`: memory of a node, connections on the way,
forwarding, latency, hot spots. Simulated, and labelled so: the routes and budgets are the
product's, the bytes of connections, sessions and channels are this folder's own, the times are
given. docs/simulator.md says what remains in the memory, and why."""

import json
import tempfile
from pathlib import Path

from report import row, say

HOSTS = 0  # needs no network of its own
RANKS = 1_000_000
PER_NODE = 64
SIZES = ("1", "sqrt", "auto")
BUDGET_MIB = 32
# Of each job: MB of a node in all, connections that a message crosses.
TARGETS = {"memory": 64.0, "hops": 3.0}


def rows(options):
    program = options.build / "bin/skerry-sim"
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "routes.json"
        command = [program, "routes", "--ranks", RANKS, "--per-node", PER_NODE]
        command += ["--clusters", ",".join(SIZES), "--budget", f"{BUDGET_MIB}M", "--out", out]
        say(command)
        found = json.loads(out.read_text())
    jobs = {job["cluster"]: job for job in found["jobs"]}
    rows = []
    for one in found["rows"]:
        size, what = one["name"].split(".size_")[1].split(".")[0], one["name"].rsplit(".", 1)[1]
        target = TARGETS.get(what) if size == "auto" else None
        name = one["name"].replace("sim.routes.", "clusters.simulated.")
        more = {"label": "simulated: skerry-sim routes", "simulated": True}
        if what == "memory":
            more["bytes"] = jobs[size]["memory"]
        rows.append(row(name, one["value"], one["unit"], target=target, **more))
        print(f"bench-clusters: {name}: {one['value']:.6g} {one['unit']}", flush=True)
    return rows
