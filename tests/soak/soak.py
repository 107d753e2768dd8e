#!/usr/bin/env python3
"""Runs storms, of segments and of windows, and tests of operations in random shapes, one after
another: every sum is exact, and what is read follows the memory model.

    tests/soak/soak.py [--minutes M | --runs N] [--kind KIND] [--seed N] [--jobs N] [--build DIR]
                       [--fabric NAME]
    tests/soak/soak.py [--kind KIND] --again SEED

A shape is a number of nodes, of ranks and data servers of each, of threads, caps on connections of
processes and of data servers, sharing, clusters of data servers and their budget, broken
connections, a victim policy, a lock protocol, few completion slots, the helper thread or none, the
longest payload. A job that is stuck (no end within --limit-s) or wrong is printed with the seed and
the command that runs it again; of a stuck one, what each rank waits for and where each thread
sleeps, and stacks where gdb is installed. Ends with `N passed, N failed, N skipped`. Standard
library only.

Of kind `long_gets` all are windows' locks with long gets and broken connections on three nodes with
a cap of one: each payload comes over a fresh connection.
"""

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import running  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = str(Path(__file__).resolve().parent / "here.sh")

SECTIONS = (
    "segments transfer words notify collectives groups mutexes windows window_litmus errors litmus"
    " stream"
)
LOCKS = "fair fair migrating migrating:history".split()


def draw_layout(dice):
    """(number of nodes, words for `skerry run` that say so)"""
    nodes = dice.randint(1, 8)
    if nodes > 1 and dice.random() < 0.3:  # nodes of any size: each a host that is this one
        each = [dice.choice([1, 1, 2, 3, 4]) for _ in range(nodes)]
        while sum(each) > 10:
            each[each.index(max(each))] -= 1
        hosts = ",".join(f"node{k}:{count}" for k, count in enumerate(each))
        return nodes, ["--hosts", hosts, "--agent", HERE, "--interface", "lo"]
    ranks = dice.randint(nodes, min(10, 3 * nodes))
    return nodes, ["-n", ranks, "--nodes", nodes]


def draw_connections(dice):
    """Variables of caps, sharing, clusters, data servers and their budget."""
    variables = {
        "SKERRY_MAX_CONN": dice.choice([0, 1, 1, 2, 3]),
        "SKERRY_SERVER_MAX_CONN": dice.choice([0, 0, 1, 2]),
        "SKERRY_SHARE": dice.choice([0, 0, 1]),
        "SKERRY_CLUSTER_SIZE": dice.choice([1, 1, 2, 3, 4, "sqrt", "auto", "auto"]),
    }
    if dice.random() < 0.4 or variables["SKERRY_CLUSTER_SIZE"] == "auto":
        variables["SKERRY_SERVER_BUDGET"] = dice.choice(["160K", "300K", "1M", "4M", "16M"])
    forwards = variables["SKERRY_SHARE"] == 1 or variables["SKERRY_CLUSTER_SIZE"] != 1
    if forwards and dice.random() < 0.6:
        variables["SKERRY_NODE_MAX_CONN"] = dice.choice([1, 1, 2])
    return variables


def draw_servers(dice, nodes):
    """Numbers of data servers: of all nodes, or of the nodes in turn."""
    if nodes == 1 or dice.random() < 0.4:
        return [1]
    if dice.random() < 0.5:
        return [dice.choice([2, 3])]
    return [dice.randint(1, 3) for _ in range(dice.randint(2, 3))]


def by_node(servers):
    """Words before a program: SKERRY_SERVERS by the number of its node."""
    if len(servers) == 1:
        return ["env", f"SKERRY_SERVERS={servers[0]}"]
    cases = " ".join(f"{k}) s={count};;" for k, count in enumerate(servers))
    script = f"case $((SKERRY_NODE % {len(servers)})) in {cases} esac; export SKERRY_SERVERS=$s"
    return ["sh", "-c", script + '; exec "$@"', "sh"]


def draw_long_gets(seed, fabric):
    dice = random.Random(seed)
    variables = {
        "SKERRY_MAX_CONN": 1,
        "SKERRY_PROGRESS_THREAD": 0,
        "SKERRY_FAULTS": f"drop={dice.randint(3000, 10000)},seed={seed}",
    }
    if fabric:
        variables["SKERRY_FABRIC"] = fabric
    layout = ["-n", dice.randint(3, 6), "--nodes", 3]
    return layout + ["OPS", "long_gets", "--seed", seed], variables


def draw(seed, fabric):
    """The shape of one job: (words after `skerry run`, variables). STORM, WINDOW_STORM and OPS
    stand for the programs."""
    dice = random.Random(seed)
    nodes, layout = draw_layout(dice)
    threads = dice.choice([1, 1, 2, 4])
    drops = dice.choice([0, 0, 500, 3000])
    variables = {
        **draw_connections(dice),
        "SKERRY_VICTIM": dice.choice(["lru", "lru_m", "reuse"]),
        "SKERRY_SLOTS": dice.choice([16, 32, 256]),
        "SKERRY_PROGRESS_THREAD": dice.choice([0, 1, 1, 1]),
        "SKERRY_LOCK": dice.choice(LOCKS),
    }
    if drops:
        variables["SKERRY_FAULTS"] = f"drop={drops},seed={seed}"
    if fabric:
        variables["SKERRY_FABRIC"] = fabric
    words = layout + by_node(draw_servers(dice, nodes))
    operations = dice.choice([300, 1000, 3000] if drops else [300, 3000, 10000]) // threads
    if dice.random() < 0.3:
        sections = ",".join(dice.sample(SECTIONS.split(), 2))
        return words + ["OPS", sections, "--seed", seed], variables
    if dice.random() < 0.5:
        return words + draw_window_storm(dice, seed, drops, variables), variables
    words += ["STORM", "--seed", seed, "--threads", threads]
    return words + ["--epochs", 2, "--operations", operations], variables


def draw_window_storm(dice, seed, drops, variables):
    """Words of a storm of epochs on windows, with payloads of up to 8 MiB."""
    variables["SKERRY_MOVE_GIVEN"] = dice.choice([0, 0, 1])
    largest = dice.choice([4 << 10, 300 << 10, 1 << 20, 8 << 20])
    operations = dice.choice([100, 300] if drops or largest > 1 << 20 else [300, 1000])
    words = ["WINDOW_STORM", "--seed", seed, "--epochs", 2, "--operations", operations]
    return words + ["--largest", largest, "--multiple", dice.choice([0, 0, 1])]


KINDS = {"any": draw, "long_gets": draw_long_gets}


def command_of(seed, options):
    words, variables = KINDS[options.kind](seed, options.fabric)
    names = ("STORM", "WINDOW_STORM", "OPS")
    programs = {name: options.build / "bin/tests" / name.lower() for name in names}
    words = [str(programs.get(word, word)) for word in words]
    environment = {name: str(value) for name, value in variables.items()}
    return [str(options.build / "bin" / "skerry"), "run", *words], environment


def where_threads_sleep(pid):
    lines = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        try:
            lines.append(f"  {(task / 'comm').read_text().strip()}: {(task / 'wchan').read_text()}")
        except OSError:
            continue
    return "\n".join(lines) + "\n"


def output_of(*command):
    """What it prints; if that takes longer than a minute, only that it does."""
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return f"{shlex.join(command)}: not within a minute\n"
    return shown.stdout + shown.stderr


def stacks(group, build):
    text = output_of(str(build / "bin" / "skerry"), "stacks", str(group))
    for pid in sorted(running.descendants(group)):
        text += f"--- process {pid}\n{where_threads_sleep(pid)}"
        if shutil.which("gdb") is not None:
            text += output_of("gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12")
    return text


def run(seed, options):
    """(seed, None) or (seed, what went wrong)."""
    command, variables = command_of(seed, options)
    seen = []

    def look(process):
        seen.append(stacks(process.pid, options.build))

    status, text, _ = running.run(command, options.limit_s, variables, before_end=look)
    if status is None:
        return seed, f"stuck for {options.limit_s} s\n{text}{''.join(seen)}"
    ends = {"storm": "every sum exact", "window_storm": "every value right"}
    told = [ends[name] for name in map(os.path.basename, command) if name in ends]
    if status != 0 or any(words not in text for words in told):
        return seed, f"status {status}\n{text}"
    return seed, None


def again(seed, options):
    command, variables = command_of(seed, options)
    return " ".join([f"{k}={shlex.quote(v)}" for k, v in variables.items()] + command)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to start jobs (1)")
    parser.add_argument("--runs", type=int, default=None, help="so many jobs, however long")
    parser.add_argument("--kind", choices=KINDS, default="any", help="of the shapes (any)")
    parser.add_argument("--seed", type=int, default=None, help="of the first shape (the time)")
    parser.add_argument("--jobs", type=int, default=2, help="at a time (2)")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--fabric", default=None, help="SKERRY_FABRIC: tcp, ofi (tcp)")
    parser.add_argument("--limit-s", type=float, default=120, help="a job is stuck after (120)")
    parser.add_argument("--again", type=int, default=None, help="run this seed's shape alone")
    return parser.parse_args()


def soak(options):
    """Counts of (passed, failed)."""
    seed = options.seed if options.seed is not None else int(time.time())
    load = os.getloadavg()[0]
    span = f"{options.minutes} min" if options.runs is None else f"{options.runs} runs"
    print(f"soak: {span} from seed {seed}, load {load:.1f}", flush=True)
    first, end = seed, time.monotonic() + 60 * options.minutes

    def goes_on():
        return time.monotonic() < end if options.runs is None else seed < first + options.runs

    passed = failed = 0
    told = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        running = set()
        while running or goes_on():
            while len(running) < options.jobs and goes_on():
                running.add(pool.submit(run, seed, options))
                seed += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                bad, why = one.result()
                passed, failed = passed + (why is None), failed + (why is not None)
                if why is not None:
                    print(f"FAILED seed {bad}: {again(bad, options)}\n{why}", flush=True)
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"  {passed} exact, {failed} failed, now at seed {seed}", flush=True)
    return passed, failed


def main():
    options = parse()
    options.build = options.build.resolve()
    if not (options.build / "bin" / "tests" / "window_storm").exists():
        print(f"soak.py: no {options.build}/bin/tests/window_storm: build first", file=sys.stderr)
        return 2
    if options.again is not None:
        print(again(options.again, options))
        _, why = run(options.again, options)
        print(why or "right")
        return 0 if why is None else 1
    passed, failed = soak(options)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
