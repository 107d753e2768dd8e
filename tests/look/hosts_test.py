#!/usr/bin/env python3
"""A job on three hosts (network namespaces; root), looked at from one of them.

    tests/look/hosts_test.py --build DIR
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import running  # noqa: E402
from running import until  # noqa: E402

HOSTS = Path(__file__).resolve().parents[2] / "testbed/hosts.sh"
LIMIT_S = 60
build = None


def on(host, *words, **options):
    return subprocess.run(
        [HOSTS, "exec", host, *map(str, words)],
        capture_output=True, text=True, timeout=LIMIT_S, **options,
    )  # fmt: skip


def job(what):
    words = ["run", "-n", 6, "--hosts", "sk1:2,sk2:2,sk3:2"]
    words += ["--agent", os.environ["TESTBED_AGENT"], build / "bin/tests/looked_at", what]
    shown = {"stdout": None, "stderr": None}
    command = [HOSTS, "exec", "sk0", build / "bin/skerry", *words]
    return running.started(command, grace_s=10, **shown)


class Hosts(unittest.TestCase):
    def test_a_circle_over_two_hosts_is_named_from_a_third(self):
        with job("far_mutexes"):
            skerry = build / "bin/skerry"
            seen = until(lambda: on("sk2", skerry, "stacks"), lambda s: s.returncode == 3)
            self.assertRegex(
                seen.stdout,
                r"deadlock: rank 0 waits for lock 0 of rank 5 .* held by rank 5, "
                r"which waits for lock 0 of rank 0 .* held by rank 0\n",
            )
            for rank in range(6):
                self.assertIn(f"\nrank {rank} (node {rank // 2}, ", seen.stdout)
            before = time.monotonic()
            again = on("sk3", skerry, "stacks")
            self.assertLess(time.monotonic() - before, 2, "the promise of one call")
            self.assertEqual(again.returncode, 3)
            top = json.loads(on("sk1", skerry, "top", "--once", "--json").stdout)
        self.assertEqual([rank["locks_held"] for rank in top["ranks"]], [1, 0, 0, 0, 0, 1])

    def test_all_hosts_count(self):
        skerry = build / "bin/skerry"
        with job("traffic"):

            def look(*words):
                return lambda: on("sk2", skerry, *words, "--json")

            def rows(seen):
                return json.loads(seen.stdout)["rows"] if seen.stdout else []

            until(look("matrix"), lambda s: rows(s) and min(rows(s)[0]["bytes"]) > 10_000)
            top = json.loads(look("top", "--once")().stdout)
            text = on("sk3", skerry, "top", "--prometheus").stdout
            keys = {on(host, skerry, "top", "--key").stdout for host in ("sk1", "sk2", "sk3")}
        self.assertEqual([rank["rank"] for rank in top["ranks"]], list(range(6)))
        self.assertEqual([node["node"] for node in top["nodes"]], [0, 1, 2])
        self.assertGreater(top["ranks"][0]["operations_per_second"], 0)
        self.assertRegex(text, r'skerry_rank_bytes_total\{job="\w+",node="0",rank="0"\} [1-9]')
        self.assertEqual(len(keys), 1, "one key for all hosts")

    def test_another_user_gets_no_answer_of_an_agent(self):
        # Connects to every agent of its host, as anybody can.
        knock = (
            "import re, socket\n"
            "for name in set(re.findall(r'@(skerry-agent-\\d+)', open('/proc/net/unix').read())):\n"
            "    s = socket.socket(socket.AF_UNIX)\n"
            "    s.connect('\\0' + name)\n"
            "    print(name, len(s.recv(1)))\n"
        )
        with job("traffic"):
            skerry = build / "bin/skerry"
            until(lambda: on("sk2", skerry, "stacks"), lambda s: s.stdout.count("\nrank ") == 6)
            other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            refused = on("sk2", *other, sys.executable, "-c", knock)
            self.assertRegex(refused.stdout, r"^skerry-agent-\d+ 0\n$", refused.stderr)

    def test_readers_that_are_killed_change_nothing(self):
        with job("traffic") as process:
            skerry = build / "bin/skerry"
            until(lambda: on("sk2", skerry, "stacks"), lambda s: s.stdout.count("\nrank ") == 6)
            for k in range(20):
                reader = subprocess.Popen(
                    [HOSTS, "exec", "sk2", skerry, "top", "--every", "0.1"],
                    stdout=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
                time.sleep(0.02 * k)
                os.killpg(reader.pid, signal.SIGKILL)
                reader.wait()
            seen = on("sk2", skerry, "stacks")
            self.assertEqual(seen.stdout.count("\nrank "), 6, seen)
            self.assertIsNone(process.poll())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    given, rest = parser.parse_known_args()
    build = given.build.resolve()
    if "TESTBED" not in os.environ:
        os.execv(HOSTS, [HOSTS, "run", "3", "--", *map(str, [sys.executable, *sys.argv])])
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
