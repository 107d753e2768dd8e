"""Put and get between two hosts with SKERRY_SHARE=0 and =1, in turn within each round: one rank on
each (one), and several on one host that all talk to the other at the same time (several). Sharing
takes every message through one more server, that of the own node."""

from report import paired_rows, run_on_hosts

HOSTS = 2
SEVERAL = 3  # ranks at it at the same time
WAYS = {"one": [1, 1], "several": [SEVERAL, 1]}
TARGET = 2.0  # times unshared: a hop more is twice the hops


def measure_sharing(build, rounds, operations):
    """[{(way, share, bytes): sample}] by round."""
    found = []
    for number in range(rounds):
        samples = {}
        for way, ranks in WAYS.items():
            for share in (0, 1) if number % 2 == 0 else (1, 0):
                arguments = ["--rounds", operations, "--senders", ranks[0]]
                setting = {"SKERRY_SHARE": str(share)}
                for line in run_on_hosts(build, ranks, setting, arguments):
                    samples[way, share, line["bytes"]] = line
        found.append(samples)
        print(f"bench-clusters: sharing, round {number + 1} of {rounds}", flush=True)
    return found


def sharing_rows(found):
    rows = []
    for way in WAYS:
        for bytes_ in sorted({key[2] for key in found[0]}):
            mine = [samples[way, 1, bytes_] for samples in found]
            theirs = [samples[way, 0, bytes_] for samples in found]
            rows += paired_rows("sharing", way, mine, theirs, "unshared", TARGET)
    return rows


def rows(options):
    """To be called inside `hosts.sh run`, with HOSTS hosts."""
    return sharing_rows(measure_sharing(options.build, options.rounds, options.operations))
