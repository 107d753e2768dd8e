#!/usr/bin/env python3
"""Runs the operation tests as jobs, on every layout, and counts.

    tests/run_jobs.py [--build DIR] [--quick] [--only WORD] [--fabric NAME] [--jobs N] [--seed N]

One line per job as it ends, the output of those that fail, and at the end `N passed, N failed,
N skipped`. `--jobs N` runs N at a time. A job that takes longer than its limit is killed (its
process group, which this script made) and counts as failed. Needs nothing but Python's standard
library.
"""

import argparse
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import running

ROOT = Path(__file__).resolve().parent.parent
LAYOUTS = [(ranks, nodes) for nodes in (1, 2, 4) for ranks in (1, 2, 3, 4, 8) if ranks >= nodes]

SECTIONS = (
    "segments makers transfer words notify collectives random_collectives groups mutexes"
    " windows window_litmus errors litmus counters"
).split()

# What SKERRY_LOCK takes beside the default; and the protocols of the laboratory (lab/locks).
PROTOCOLS = "migrating migrating:hysteresis migrating:history".split()
LAB_PROTOCOLS = "two_sided one_sided queue cohort asymmetric reader_writer".split()


class Case:
    """One job: its name, the words after `skerry run`, variables, and how long it may take: five
    times what the longest takes beside three others on two cores."""

    def __init__(self, name, words, limit_s=360, environment=None, expected_status=0, program=None):
        self.name = name
        self.words = words
        self.limit_s = limit_s
        self.environment = environment or {}
        self.expected_status = expected_status
        self.program = program


def lock_cases(options, ops, seed):
    """Windows under each protocol of their locks: the laboratory's, too, where that was built."""
    library = options.build / "lab/locks/lab_locks.so"
    lab = LAB_PROTOCOLS if library.exists() else []
    for protocol in [*PROTOCOLS, *lab]:
        value = f"{library}:{protocol}" if protocol in lab else protocol
        for nodes in [2] if options.quick else [1, 2, 4]:
            yield Case(
                f"windows, locks {protocol}, 4 ranks on {nodes} nodes",
                ["-n", "4", "--nodes", str(nodes), ops, "windows"],
                environment={"SKERRY_LOCK": value},
            )
        if options.quick and protocol not in ("migrating", "cohort"):
            continue
        yield Case(
            f"windows, locks {protocol}, 4 ranks on 4 nodes, cap 1, 3000 breaks per million "
            "messages",
            ["-n", "4", "--nodes", "4", ops, "windows"],
            environment={
                "SKERRY_LOCK": value,
                "SKERRY_MAX_CONN": "1",
                "SKERRY_FAULTS": f"drop=3000,seed={seed}",
            },
        )
        yield Case(
            f"windows, locks {protocol}, 4 ranks on 2 nodes that share connections",
            ["-n", "4", "--nodes", "2", ops, "windows"],
            environment={"SKERRY_LOCK": value, "SKERRY_SHARE": "1"},
        )


def without_helper(ops, seed):
    """Jobs in which no thread makes progress while the program's own sleep or compute."""
    yield Case(
        "random stream without the helper thread",
        ["-n", "3", "--nodes", "2", ops, "stream,transfer", "--seed", str(seed + 1)],
        environment={"SKERRY_PROGRESS_THREAD": "0"},
    )
    # Bug guarded against: a rank that slept on its own memory never heard that a server wanted its
    # connection back.
    yield Case(
        "windows without the helper thread, 4 ranks on 4 nodes, server cap 1",
        ["-n", "4", "--nodes", "4", ops, "windows,window_litmus"],
        environment={"SKERRY_PROGRESS_THREAD": "0", "SKERRY_SERVER_MAX_CONN": "1"},
    )
    # Bug guarded against: all that was outstanding was sent again at once, over up to three
    # connections in a row, and the next break came before the first answer: minutes.
    yield Case(
        "transfers without the helper thread, 8 ranks on 5 nodes that share connections, clusters "
        "of 4, cap 1, 3000 breaks per million messages",
        ["-n", "8", "--nodes", "5", ops, "transfer", "--seed", str(seed)],
        environment={
            "SKERRY_PROGRESS_THREAD": "0",
            "SKERRY_SHARE": "1",
            "SKERRY_CLUSTER_SIZE": "4",
            "SKERRY_MAX_CONN": "1",
            "SKERRY_FAULTS": f"drop=3000,seed={seed}",
        },
        limit_s=120,
    )


def without_polling(sections):
    """For a server's cap: looks at each other's memory change partners all the time, which takes
    minutes there. without_helper has them under such a cap."""
    return sections.replace("window_litmus,", "")


def server_cases(options, ops, seed, sections):
    """Several data servers on a node, with caps, breaks, sharing and clusters."""
    shapes = [  # servers, ranks, nodes, cluster, cap, share, breaks per million messages
        (2, 4, 2, 1, 0, 0, 0),
        (3, 6, 3, 1, 1, 0, 1000),
        (2, 6, 3, 1, 0, 1, 0),
        (3, 6, 4, 2, 0, 0, 1000),
        (2, 8, 4, 2, 1, 1, 1000),
    ]
    drawn = shapes[1 + seed % 4 :][:1] if options.quick else shapes[1:]
    for servers, ranks, nodes, size, cap, share, drop in [shapes[0], *drawn]:
        yield Case(
            f"operations, {servers} servers a node, {ranks} ranks on {nodes} nodes, clusters of "
            f"{size}, cap {cap}, share {share}, {drop} breaks per million messages",
            ["-n", str(ranks), "--nodes", str(nodes), ops, sections],
            environment={
                "SKERRY_SERVERS": str(servers),
                "SKERRY_CLUSTER_SIZE": str(size),
                "SKERRY_MAX_CONN": str(cap),
                "SKERRY_SHARE": str(share),
                "SKERRY_FAULTS": f"drop={drop},seed={seed}",
            },
        )


def cluster_cases(options, ops, seed, sections):
    """Clusters of data servers: sizes that divide the nodes and others, with caps and breaks."""
    shapes = [  # ranks, nodes, cluster, cap, node cap, share, breaks per million messages
        (4, 4, 2, 0, 0, 0, 0),
        (6, 6, 3, 1, 0, 0, 1000),
        (7, 5, 2, 2, 1, 0, 0),
        (6, 5, 3, 1, 1, 0, 1000),
        (8, 4, 2, 0, 0, 1, 1000),
        (6, 6, "sqrt", 0, 1, 1, 0),
        (12, 6, 2, 1, 0, 0, 1000),
        (6, 6, 6, 0, 0, 0, 1000),
    ]
    # Each run draws some of the others: all of them would take a minute more.
    drawn = [shapes[(seed + i) % len(shapes)] for i in range(0, 2 * (1 if options.quick else 3), 2)]
    for ranks, nodes, size, cap, node_cap, share, drop in [shapes[0], *drawn]:
        environment = {
            "SKERRY_CLUSTER_SIZE": str(size),
            "SKERRY_MAX_CONN": str(cap),
            "SKERRY_NODE_MAX_CONN": str(node_cap),
            "SKERRY_SHARE": str(share),
            "SKERRY_FAULTS": f"drop={drop},seed={seed}",
        }
        label = (
            f"{ranks} ranks on {nodes} nodes, clusters of {size}, cap {cap}, node cap {node_cap}"
        )
        label += ", shared" if share else ""
        label += f", {drop} breaks per million messages" if drop else ""
        where = ["-n", str(ranks), "--nodes", str(nodes), ops]
        yield Case(f"operations, {label}", where + [sections], environment=environment)
        yield Case(
            f"random stream, seed {seed}, {label}",
            where + ["stream", "--seed", str(seed)],
            environment=environment,
        )
        seed += 1


def cluster_and_lock_cases(options, ops, seed, sections):
    yield from server_cases(options, ops, seed, sections)
    yield from cluster_cases(options, ops, seed, sections)
    yield from lock_cases(options, ops, seed)


def cases(options):
    ops, smoke = (str(options.build / "bin" / "tests" / name) for name in ("ops", "ops_smoke"))
    seed = options.seed
    every = ",".join(SECTIONS)  # counters: bytes are counted as if nothing were sent twice
    unbroken = every.removesuffix(",counters")
    layouts = [(4, 2), (3, 1)] if options.quick else LAYOUTS
    for ranks, nodes in layouts:
        where = ["-n", str(ranks), "--nodes", str(nodes)]
        label = f"{ranks} ranks on {nodes} nodes"
        yield Case(f"operations, {label}", where + [ops, every])
        yield Case(
            f"random stream, seed {seed}, {label}", where + [ops, "stream", "--seed", str(seed)]
        )
        seed += 1
    for ranks, nodes in [(2, 2)] if options.quick else [(2, 1), (2, 2), (4, 2)]:
        where = ["-n", str(ranks), "--nodes", str(nodes)]
        yield Case(
            f"random stream of 3 threads per rank, seed {seed}, {ranks} ranks on {nodes} nodes",
            where + [ops, "stream", "--threads", "3", "--seed", str(seed)],
        )
        seed += 1
    yield Case(
        "random stream with few completion slots",
        ["-n", "3", "--nodes", "3", ops, "stream,transfer", "--seed", str(seed)],
        environment={"SKERRY_SLOTS": "16"},
    )
    yield from without_helper(ops, seed)
    for cap, victim, drop in [(1, "lru", 0), (2, "lru_m", 0), (0, "lru", 5000), (1, "lru", 3000)]:
        breaks = f", {drop} breaks per million messages" if drop else ""
        yield Case(
            f"operations, 4 ranks on 4 nodes, cap {cap} {victim}{breaks}",
            ["-n", "4", "--nodes", "4", ops, unbroken if drop else every],
            environment={
                "SKERRY_MAX_CONN": str(cap),
                "SKERRY_VICTIM": victim,
                "SKERRY_FAULTS": f"drop={drop},seed={seed}",
            },
        )
        yield Case(
            f"random stream, seed {seed}, 4 ranks on 4 nodes, cap {cap} {victim}{breaks}",
            ["-n", "4", "--nodes", "4", ops, "stream", "--seed", str(seed)],
            environment={
                "SKERRY_MAX_CONN": str(cap),
                "SKERRY_VICTIM": victim,
                "SKERRY_FAULTS": f"drop={drop},seed={seed}",
            },
        )
    slow = options.quick and options.fabric == "ofi"  # its connections are slow to make
    for server_cap, cap in (
        [(2, 1)] if slow else [(1, 1)] if options.quick else [(1, 0), (2, 0), (1, 1)]
    ):
        for ranks, nodes in [(4, 4)] if options.quick else [(4, 4), (8, 4)]:
            yield Case(
                f"operations, {ranks} ranks on {nodes} nodes, server cap {server_cap}, cap {cap}",
                ["-n", str(ranks), "--nodes", str(nodes), ops, without_polling(unbroken)],
                environment={
                    "SKERRY_SERVER_MAX_CONN": str(server_cap),
                    "SKERRY_MAX_CONN": str(cap),
                },
            )
        yield Case(
            f"random stream, seed {seed}, 4 ranks on 4 nodes, server cap {server_cap}, cap {cap}",
            ["-n", "4", "--nodes", "4", ops, "stream", "--seed", str(seed)],
            environment={"SKERRY_SERVER_MAX_CONN": str(server_cap), "SKERRY_MAX_CONN": str(cap)},
        )
    for cap, node_cap, drop in (
        [(0, 0, 0)]
        if slow
        else [(0, 0, 0), (1, 1, 1000)]
        if options.quick
        else [(0, 0, 0), (1, 0, 1000), (0, 1, 0), (0, 2, 1000), (1, 1, 1000)]
    ):
        environment = {
            "SKERRY_SHARE": "1",
            "SKERRY_MAX_CONN": str(cap),
            "SKERRY_NODE_MAX_CONN": str(node_cap),
            "SKERRY_FAULTS": f"drop={drop},seed={seed}",
        }
        label = f"4 ranks on 2 nodes that share connections, cap {cap}, node cap {node_cap}"
        label += f", {drop} breaks per million messages" if drop else ""
        yield Case(
            f"operations, {label}",
            ["-n", "4", "--nodes", "2", ops, unbroken if drop else every],
            environment=environment,
        )
        label = label.replace("4 ranks on 2 nodes", "8 ranks on 4 nodes")
        yield Case(
            f"random stream, seed {seed}, {label}",
            ["-n", "8", "--nodes", "4", ops, "stream", "--seed", str(seed)],
            environment=environment,
        )
    yield from cluster_and_lock_cases(options, ops, seed, unbroken)
    yield Case("C program, 4 ranks on 2 nodes", ["-n", "4", "--nodes", "2", smoke])
    yield Case("a job of one without a launcher", [ops, "all"], program=ops)
    if not options.quick:
        yield Case(
            "a transfer of more than 2^31 bytes",
            ["-n", "2", "--nodes", "2", ops, "huge"],
        )


def run(case, options):
    """Returns (outcome, seconds, text); outcome is passed, failed or skipped."""
    environment = dict(case.environment)
    if options.fabric:
        environment["SKERRY_FABRIC"] = options.fabric
    if case.program:
        command = case.words
    else:
        command = [str(options.build / "bin" / "skerry"), "run"] + case.words
    ended = running.run(command, case.limit_s, environment)
    text = ended.output
    outcome = "passed" if ended.status == case.expected_status else "failed"
    if ended.status is None:
        text += f"\nnot done after {case.limit_s} s: killed\n"
    elif outcome == "failed":
        text += f"\nstatus {ended.status}, expected {case.expected_status}\n"
    elif ": skipped:" in text:
        outcome = "skipped"
    if outcome == "failed":
        text += "command: " + " ".join(command) + "\n"
    return outcome, ended.seconds, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--quick", action="store_true", help="two layouts only")
    parser.add_argument("--only", default="", help="jobs whose name contains this")
    parser.add_argument("--fabric", default="", help="value for SKERRY_FABRIC")
    parser.add_argument(
        "--seed", type=int, default=None, help="first seed (printed; drawn if not given)"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="run so many jobs at a time (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: give a number of at least 1")
    options.build = options.build.resolve()
    if options.seed is None:
        options.seed = random.randrange(1, 1_000_000)
    counts = running.Counts()
    print(f"first seed {options.seed}", flush=True)
    chosen = [case for case in cases(options) if options.only in case.name]
    pool = ThreadPoolExecutor(options.jobs)
    try:
        for case, result in zip(chosen, pool.map(lambda case: run(case, options), chosen)):
            report(case, *result)
            counts[result[0]] += 1
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        running.end_all()
        raise
    return counts.summary() or int(counts["passed"] == 0)


def report(case, outcome, seconds, text):
    print(f"{outcome:8} {seconds:6.1f} s  {case.name}", flush=True)
    lines = []
    if outcome == "skipped":
        lines = [line for line in text.splitlines() if "skipped:" in line]
    if outcome == "failed":
        lines = text.splitlines()[-40:]
    print("".join("    " + line + "\n" for line in lines), end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
