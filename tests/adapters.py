#!/usr/bin/env python3
"""What can be tested of network adapters without one: libfabric's software providers.

    tests/adapters.py [--build DIR] [--only WORD] [--sample] [--seed N] [--jobs N]

For each provider with datagrams: what fabric.hpp promises; then jobs with caps, tear-down, breaks,
sharing and clusters. --sample runs the former, and a random stream for each provider, in about a
minute. A provider that is not here counts as skipped. Ends with `N passed, N failed,
N skipped`. Needs nothing but Python's standard library.
"""

import argparse
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import running

ROOT = Path(__file__).resolve().parent.parent
# Each with the parts of run_jobs.py --quick that are run over it.
PROVIDERS = {
    "tcp;ofi_rxm": "",
    "sockets:rdm": "operations, 4 ranks on 2 nodes",
    "udp;ofi_rxd": "operations, 4 ranks on 2 nodes",
    "shm": "operations, 4 ranks on 2 nodes that share connections, cap 0",  # a close crashes it
    "net:rdm": "random stream of 3 threads",
}
SAMPLED = "random stream of 3 threads"
NAMED_BY_2 = {"net:rdm": "tcp:rdm"}  # by libfabric 2, which has no net
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped", re.MULTILINE)
LISTED = re.compile(r"^\s+ofi:(\S+)\s+(?!no \()", re.MULTILINE)


def add(counts, passed, failed, skipped):
    counts["passed"] += passed
    counts["failed"] += failed
    counts["skipped"] += skipped


def tell(outcome, seconds, name, text=""):
    print(f"{outcome} {seconds:8.1f} s  {name}", flush=True)
    if outcome == "failed":
        print(text[-8000:], flush=True)


def unit_test(counts, program, arguments, environment):
    """A program of GoogleTest's: each of its tests counts, in its own summary, the last one. A test
    may start the program again."""
    ended = running.run([program, "--gtest_brief=1", *arguments], 1800, environment)
    ran = re.findall(r"(\d+) tests? from \d+ test suites? ran", ended.output)
    passed = re.findall(r"\[  PASSED  \] (\d+) test", ended.output)
    skipped = re.findall(r"\[  SKIPPED \] (\d+) test", ended.output)
    numbers = [int(found[-1]) if found else 0 for found in (ran, passed, skipped)]
    failed = numbers[0] - numbers[1] - numbers[2] if numbers[0] else 1
    if ended.status != 0:
        failed = max(failed, 1)
    add(counts, numbers[1], failed, numbers[2])
    name = " ".join([program.name, *arguments])
    tell("failed" if failed else "passed", ended.seconds, name, ended.output)


def jobs(counts, options, provider, only):
    """run_jobs.py, whose own count is added."""
    words = [sys.executable, ROOT / "tests/run_jobs.py", "--build", options.build, "--quick"]
    words += ["--fabric", f"ofi:{provider}", "--jobs", options.jobs, "--seed", options.seed]
    if only:
        words += ["--only", only]
    ended = running.run([str(word) for word in words], 3600, {})
    found = SUMMARY.findall(ended.output)
    numbers = [int(number) for number in found[-1]] if found else [0, 1, 0]
    add(counts, *numbers)
    name = f"jobs over {provider}: {numbers[0]} passed, {numbers[1]} failed, {numbers[2]} skipped"
    tell("failed" if numbers[1] else "passed", ended.seconds, name, ended.output)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="(build)")
    parser.add_argument("--only", default="", help="only what has WORD in its provider's name")
    parser.add_argument("--sample", action="store_true", help="a little of each")
    parser.add_argument("--seed", type=int, default=None, help="of the jobs (drawn)")
    parser.add_argument("--jobs", type=int, default=3, help="so many at a time (3)")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.seed is None:
        options.seed = random.randrange(100_000)
    print(f"seed {options.seed}", flush=True)
    info = subprocess.run(
        [options.build / "bin/skerry", "info"], capture_output=True, text=True, check=False
    )
    here = set(LISTED.findall(info.stdout))
    counts = running.Counts()
    chosen = {}
    for provider, only in PROVIDERS.items():
        name = provider if provider in here else NAMED_BY_2.get(provider, provider)
        if options.only in name and not (options.sample and provider == "shm"):
            chosen[name] = SAMPLED if options.sample else only
    rounds = "2" if options.sample else "5"
    units = options.build / "src/fabric"
    if "tcp;ofi_rxm" in chosen and "tcp;ofi_rxm" in here:
        of_rxm = {"SKERRY_TEST_ROUNDS": "2" if options.sample else "10"}
        unit_test(counts, units / "fabric_datagrams_test", [], of_rxm)
        unit_test(counts, units / "fabric_conformance_test", ["--gtest_filter=*unordered*"], {})
    for provider, only in chosen.items():
        if provider not in here and provider.removesuffix(":rdm") not in here:
            add(counts, 0, 0, 1)
            tell("skipped", 0, f"{provider}: libfabric has nothing of it here")
            continue
        if provider != "shm":
            word = re.sub("[^A-Za-z0-9]", "_", provider)
            unit_test(
                counts,
                units / "fabric_conformance_test",
                [f"--gtest_filter=*/ofi_{word}"],
                {"SKERRY_TEST_PROVIDERS": "udp;ofi_rxd sockets:rdm net:rdm tcp:rdm"},
            )
        if provider not in ("tcp;ofi_rxm", "shm"):  # rxm: above
            unit_test(
                counts,
                units / "fabric_datagrams_test",
                ["--gtest_filter=*KilledPeers*:*APeerThatIsLeft*"],
                {"SKERRY_TEST_PROVIDER": provider, "SKERRY_TEST_ROUNDS": rounds},
            )
        jobs(counts, options, provider, only)
    return counts.summary()


if __name__ == "__main__":
    os.chdir(ROOT)
    # Else threads of sockets, one for each side of a process, spin for 10 ms before they sleep.
    os.environ.setdefault("FI_SOCKETS_PE_WAITTIME", "0")
    sys.exit(main())
