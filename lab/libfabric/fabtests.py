#!/usr/bin/env python3
"""What libfabric's own tests say of its software providers with datagrams.

    lab/libfabric/fabtests.py --source DIR [--build DIR] [--providers LIST] [--limit-s N]

DIR is the folder `fabtests` of libfabric's sources, of the version that is installed: Debian has
no package of it. The four tests are compiled into the build. Each is a server and a client on this
host. Prints a table: `yes`, `fails` (with what it said last), `no end` within the limit, `-` if the
provider says that it has no such thing.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
COMMON = "shared hmem hmem_cuda hmem_rocr hmem_ze hmem_neuron".split()
FLAGS = "-O1 -w -D_GNU_SOURCE -DHAVE_CLOCK_GETTIME=1".split()
PROVIDERS = "tcp;ofi_rxm,udp;ofi_rxd,sockets,net,shm"
STRESS = "test_configs/rdm_stress/stress.json"


class Test(NamedTuple):
    name: str
    server: list[str]  # the words of both
    client: list[str]  # more words of the client
    server_stays: bool = False  # it serves until it is ended


TESTS = [
    Test("av_xfer", ["fi_av_xfer", "-e", "rdm"], []),
    Test("rdm_atomic", ["fi_rdm_atomic", "-I", "5", "-o", "all"], []),
    Test("rdm_multi_client", ["fi_rdm_multi_client", "-C", "10", "-I", "5"], []),
    Test("rdm_stress", ["fi_rdm_stress"], ["-u", STRESS], True),
]
ABSENT = (errno.ENODATA, errno.ENOSYS)  # as runfabtests.sh has it


def compile_tests(source: Path, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    where = [f"-I{source / part}" for part in ("include", "include/unix", "functional")]
    common = [str(source / "common" / f"{name}.c") for name in COMMON]
    for name in (test.server[0] for test in TESTS):
        if (into / name).exists():
            continue
        own = str(source / "functional" / f"{name.removeprefix('fi_')}.c")
        libraries = ["-lfabric", "-lpthread", "-ldl"]
        command = ["gcc", *FLAGS, *where, own, *common, "-o", str(into / name), *libraries]
        subprocess.run(command, check=True)


def end(one: subprocess.Popen) -> None:
    """It and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(one.pid, signal.SIGKILL)
    one.wait()


def judge(provider: str, test: Test, options: argparse.Namespace) -> str:
    program = str(options.build / "fabtests" / test.server[0])
    command = [program, *test.server[1:], "-p", provider]
    own, there = ([], []) if provider == "shm" else (["-s", "127.0.0.1"], ["127.0.0.1"])
    with tempfile.TemporaryFile("w+") as log:

        def start(words: list[str]) -> subprocess.Popen:
            streams = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
            return subprocess.Popen(words, cwd=options.source, start_new_session=True, **streams)

        server = start([*command, *own])
        time.sleep(options.wait_s)  # it has no other way to tell that it listens
        client = start([*command, *test.client, *there])
        states: list[int | None] = []
        for one in (client, server)[: 1 if test.server_stays else 2]:
            try:
                states.append(one.wait(options.limit_s))
            except subprocess.TimeoutExpired:
                states.append(None)
        end(client)
        end(server)
        log.seek(0)
        said = log.read().strip().splitlines()
    if not any(states) and None not in states:
        return "yes"
    if all(state in ABSENT for state in states):
        return "-"
    print(f"{provider} {test.name}: client, server {states}: {said[-6:]}", file=sys.stderr)
    return "no end" if None in states else f"fails: {said[-1] if said else states}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--providers", default=PROVIDERS)
    parser.add_argument("--limit-s", type=float, default=120, help="of one test (120)")
    parser.add_argument("--wait-s", type=float, default=1, help="for a server to listen (1)")
    options = parser.parse_args()
    options.build = options.build.resolve()
    compile_tests(options.source, options.build / "fabtests")
    print(f"| provider | {' | '.join(test.name for test in TESTS)} |")
    print(f"| -- {'| -- ' * len(TESTS)}|", flush=True)
    for provider in options.providers.split(","):
        cells = [judge(provider, test, options) for test in TESTS]
        print(f"| `{provider}` | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
