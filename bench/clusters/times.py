"""Put and get from one rank to the others on 4 hosts in 2 clusters of 2 (network namespaces,
root), as in figures 6 and 7 of W. Yu et al., "Cooperative server clustering for a scalable GAS
model on petascale cray XT5 systems". Without clusters, and with them to the gate (direct) and
through it (forwarded), in turn within each round."""

import os
import statistics

from report import ROOT, machine, row, say

ORIGINAL, DIRECT, FORWARDED = "original", "direct", "forwarded"
HOSTS = 4


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


def rows(options):
    """To be called inside `hosts.sh run`, with HOSTS hosts."""
    return times_rows(measure_times(options.build, options.rounds, options.operations))
