"""Put and get from one rank to the others on 4 hosts in 2 clusters of 2 (network namespaces,
root), as in figures 6 and 7 of W. Yu et al., "Cooperative server clustering for a scalable GAS
model on petascale cray XT5 systems": latency of 8 B to 64 KiB, bandwidth of 8 B to 4 MiB with many
under way. Without clusters, and with them to the gate (direct) and through it (forwarded), in turn
within each round."""

from report import paired_rows, run_on_hosts

ORIGINAL, DIRECT, FORWARDED = "original", "direct", "forwarded"
HOSTS = 4
TARGETS = {DIRECT: 1.03, FORWARDED: 2.0}  # times without clusters: one hop more is twice the hops


def measure_times(build, rounds, operations):
    """[{(way, ORIGINAL or way, bytes): sample}] by round."""
    found = []
    for number in range(rounds):
        samples = {}
        # Which comes first changes, so that neither always meets the warmer machine.
        for size in (1, 2) if number % 2 == 0 else (2, 1):
            setting = {"SKERRY_CLUSTER_SIZE": str(size)}
            for line in run_on_hosts(build, [1] * HOSTS, setting, ["--rounds", operations]):
                # Clusters 0 1 | 2 3: node 0's gate in the other one is node 2.
                if line["partner"] == 1:
                    continue
                way = DIRECT if line["partner"] == 2 else FORWARDED
                samples[way, ORIGINAL if size == 1 else way, line["bytes"]] = line
        found.append(samples)
        print(f"bench-clusters: times, round {number + 1} of {rounds}", flush=True)
    return found


def times_rows(found):
    rows = []
    for way in (DIRECT, FORWARDED):
        for bytes_ in sorted({key[2] for key in found[0]}):
            mine = [samples[way, way, bytes_] for samples in found]
            theirs = [samples[way, ORIGINAL, bytes_] for samples in found]
            rows += paired_rows("clusters", way, mine, theirs, "without clusters", TARGETS[way])
    return rows


def rows(options):
    """To be called inside `hosts.sh run`, with HOSTS hosts."""
    return times_rows(measure_times(options.build, options.rounds, options.operations))
