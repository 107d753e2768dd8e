#!/usr/bin/env python3
"""Looking at running jobs: skerry stacks, top and matrix, and what a dying rank prints.

    tests/look/look_test.py --build DIR

Waits for conditions, with limits in tens of seconds: a busy machine is slow. The one promise in
seconds, a circle of locks named within 2 s, is about one call of `skerry stacks`.
"""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import running  # noqa: E402
from running import until  # noqa: E402

build = None
LIMIT_S = 60
FEW = 50


def skerry(*words, **options):
    return subprocess.run(
        [build / "bin/skerry", *map(str, words)],
        capture_output=True, text=True, timeout=LIMIT_S, **options,
    )  # fmt: skip


@contextmanager
def job(what, ranks=2, nodes=1, environment=None, **options):
    words = ["run", "-n", ranks, "--nodes", nodes, build / "bin/tests/looked_at", what]
    shown = {"stdout": None, "stderr": None, **options}
    with running.started([build / "bin/skerry", *words], environment, **shown) as process:
        yield process


class Stacks(unittest.TestCase):
    def circle(self, what, ranks, nodes):
        with job(what, ranks, nodes) as process:
            seen = until(lambda: skerry("stacks", process.pid), lambda s: s.returncode == 3)
            before = time.monotonic()
            again = skerry("stacks", process.pid)
            self.assertLess(time.monotonic() - before, 2)
        self.assertEqual(again.returncode, 3, again.stderr)
        circles = [line for line in seen.stdout.splitlines() if line.startswith("deadlock: ")]
        self.assertEqual(len(circles), 1, seen.stdout)
        return circles[0]

    def test_two_mutexes(self):
        for ranks, nodes in [(2, 1), (2, 2), (3, 2)]:
            with self.subTest(ranks=ranks, nodes=nodes):
                self.assertRegex(
                    self.circle("mutexes", ranks, nodes),
                    r"rank 0 waits for lock 0 of rank 1 .* held by rank 1, "
                    r"which waits for lock 0 of rank 0 .* held by rank 0$",
                )

    def test_two_locks_of_windows(self):
        for ranks, nodes in [(2, 1), (2, 2), (3, 2)]:
            with self.subTest(ranks=ranks, nodes=nodes):
                self.assertRegex(
                    self.circle("windows", ranks, nodes),
                    r"rank 0 waits for lock \d+ of rank 0 .* held by rank 1, "
                    r"which waits for lock \d+ of rank 0 .* held by rank 0$",
                )

    def test_every_wait_has_a_name(self):
        expected = {
            0: "counter 8 of segment",  # a notification
            1: "lock 0 of rank 0",
            2: "lock 0 of rank 0",  # the same lock, asked of another node
            3: "counter ",  # a barrier
        }

        def ready(seen):
            ranks = json.loads(seen.stdout)["ranks"] if seen.stdout else []
            waits = {rank["rank"]: rank["waits"] for rank in ranks}
            return all(waits.get(r) and text in waits[r]["for"] for r, text in expected.items())

        with job("waits", 4, 2) as process:
            seen = until(lambda: skerry("stacks", process.pid, "--json"), ready)
        self.assertEqual(seen.returncode, 0, "no circle")
        ranks = json.loads(seen.stdout)["ranks"]
        self.assertEqual([ranks[r]["waits"]["lock"]["holders"] for r in (1, 2)], [[0], [0]])

    def test_which_job(self):
        with job("waits", 4, 2) as one, job("mutexes") as other:
            for process in (one, other):
                until(lambda p=process: skerry("stacks", p.pid), lambda s: s.stdout)
            listed = skerry("stacks")
            self.assertGreaterEqual(len(listed.stdout.splitlines()), 2, listed.stdout)
            name = json.loads(skerry("stacks", one.pid, "--json").stdout)["job"]
            self.assertIn(f"job {name}: 4 ranks on 2 nodes", skerry("stacks", name).stdout)
            unclear = skerry("top", "--once")
            self.assertEqual(unclear.returncode, 1)
            self.assertIn(name, unclear.stderr)
        none = skerry("stacks", "nosuchjob")
        self.assertEqual(none.returncode, 1)
        self.assertIn('no job "nosuchjob"', none.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
    def test_another_user_is_refused(self):
        with job("mutexes") as process:
            until(lambda: skerry("stacks", process.pid), lambda s: s.returncode == 3)
            rank = running.descendants(process.pid)[-1]
            refused = subprocess.run(
                ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                 build / "bin/skerry", "stacks", str(rank)],
                capture_output=True, text=True, timeout=LIMIT_S,
            )  # fmt: skip
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("belongs to user 0", refused.stderr)

    def test_wrong_words(self):
        for words, said in [
            (["stacks", "--jsen"], "--json"),
            (["stacks", "a", "b"], "one job"),
            (["top", "--every", "0"], "0.1 to 3600"),
            (["top", "--every"], "needs a value"),
            (["matrix", "--svg"], "needs a value"),
            (["trace", "--every-ms", "0"], "0.1 to 1000"),
        ]:
            with self.subTest(words=words):
                done = skerry(*words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)
        for command in ("stacks", "top", "matrix"):
            self.assertIn(f"usage: skerry {command}", skerry(command, "--help").stdout)


class Counts(unittest.TestCase):
    def assert_puts(self, operations, moved):
        """Puts of 1000 bytes, and the few operations that start a job."""
        self.assertLess(abs(operations - moved / 1000), FEW)


class Top(Counts):
    def test_rates_and_waits(self):
        with job("traffic", 4, 2) as process:

            def look():
                return skerry("top", process.pid, "--once", "--json")

            def busy(seen):  # rank 1 is past the operations that start a job, too
                ranks = json.loads(seen.stdout)["ranks"] if seen.stdout else []
                return (
                    ranks and ranks[0]["operations"] > 100 and not ranks[1]["operations_per_second"]
                )

            seen = json.loads(until(look, busy).stdout)
            table = skerry("top", process.pid, "--once").stdout
            text = skerry("top", process.pid, "--prometheus").stdout
        ranks = seen["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1, 2, 3])
        self.assertEqual([rank["node"] for rank in ranks], [0, 0, 1, 1])
        self.assertGreater(ranks[0]["operations_per_second"], 0)
        self.assert_puts(ranks[0]["operations"], ranks[0]["bytes"])
        self.assertEqual(ranks[0]["connections"], 1)
        self.assertEqual(ranks[1]["operations_per_second"], 0)
        self.assertTrue(ranks[1]["waits"])
        self.assertGreater(seen["nodes"][1]["server_requests"], 0)
        self.assertIn("op/s", table)
        found = re.search(r'^skerry_rank_operations_total\{.*rank="0"\} (\d+)$', text, re.M)
        self.assertGreaterEqual(int(found[1]), ranks[0]["operations"])

    def test_locks(self):
        with job("mutexes") as process:
            until(lambda: skerry("stacks", process.pid), lambda s: s.returncode == 3)
            seen = json.loads(skerry("top", process.pid, "--once", "--json").stdout)
        for rank in seen["ranks"]:
            self.assertEqual((rank["locks_held"], rank["lock_waits"]), (1, 1))


class Metrics(unittest.TestCase):
    def get(self, port, path="/metrics", key=None):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def test_who_has_the_key_gets_the_values(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with job("traffic", 4, 2) as process:
            key = until(lambda: skerry("top", process.pid, "--key"), lambda s: s.stdout).stdout
            self.assertRegex(key, "^[0-9a-f]{32}\n$")
            words = ["top", str(process.pid), "--metrics", str(port)]
            server = subprocess.Popen(
                [build / "bin/skerry", *words], stdout=subprocess.PIPE, text=True
            )
            try:
                self.assertIn(f"at {port}/metrics", server.stdout.readline())
                self.assertEqual(self.get(port)[0], 401)
                self.assertEqual(self.get(port, key="0" * 32)[0], 401)
                self.assertEqual(self.get(port, key=key[:31])[0], 401)
                self.assertEqual(self.get(port, "/", key.strip())[0], 404)
                with socket.create_connection(("127.0.0.1", port)) as silent:  # keeps nobody out
                    status, text = self.get(port, key=key.strip())
                    silent.close()
                self.assertEqual(status, 200)
                self.assertRegex(text, r'(?m)^skerry_rank_bytes_total\{.*rank="0"\} [1-9]\d*$')
                taken = skerry("top", process.pid, "--metrics", port)
                self.assertEqual(taken.returncode, 1)
                self.assertIn("in use", taken.stderr)
            finally:
                os.killpg(process.pid, signal.SIGKILL)
            self.assertEqual(server.wait(LIMIT_S), 0, "it ends with the job")
            server.stdout.close()


class Matrix(Counts):
    def test_who_talked_to_whom(self):
        with tempfile.TemporaryDirectory() as place, job("traffic", 4, 2) as process:
            picture = Path(place) / "matrix.svg"

            def look():
                return skerry("matrix", process.pid, "--ranks", "--json", "--svg", picture)

            def both(seen):
                return seen.stdout and min(json.loads(seen.stdout)["rows"][0]["bytes"]) > 10_000

            rows = json.loads(until(look, both).stdout)["rows"]
            xml.etree.ElementTree.parse(picture)
            table = skerry("matrix", process.pid).stdout
        for row in rows:
            for operations, moved in zip(row["operations"], row["bytes"]):
                self.assert_puts(operations, moved)
        self.assertLess(max(max(row["operations"]) for row in rows[1:]), FEW)
        self.assertIn("bytes", table)


class Trace(unittest.TestCase):
    def test_spans(self):
        with tempfile.TemporaryDirectory() as place, job("mutexes", 3, 2) as process:
            path = Path(place) / "trace.json"
            until(lambda: skerry("stacks", process.pid), lambda s: s.returncode == 3)
            done = skerry("trace", process.pid, "--seconds", 0.5, "--output", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            events = json.loads(path.read_text())["traceEvents"]
        spans = {event["tid"]: event for event in events if event["ph"] == "X"}
        self.assertEqual(sorted(spans), [0, 1, 2])
        for rank in (0, 1):
            span = spans[rank]
            self.assertEqual(span["name"], f"lock 0 of rank {1 - rank}")
            self.assertEqual(span["args"]["held by"], f"rank {1 - rank}")
            self.assertGreater(span["dur"], 100_000)
            self.assertTrue(span["args"]["goes on"])
        self.assertTrue(any(event["ph"] == "C" for event in events))

    def trace(self, process, seconds):
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "trace.json"
            done = skerry("trace", process.pid, "--seconds", seconds, "--output", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(path.read_text())["traceEvents"]

    def test_operations(self):
        with job("traffic", 4, 2) as process:
            until(lambda: skerry("stacks", process.pid), lambda s: s.stdout)
            events = self.trace(process, 0.5)
        spans = [event for event in events if event["ph"] == "X" and event["tid"] == 0]
        puts = [span for span in spans if span["name"] == "put"]
        self.assertEqual({span["args"]["target"] for span in puts}, {0, 1, 2, 3})
        self.assertEqual({span["args"]["bytes"] for span in puts}, {1000})
        self.assertTrue(any(span["name"] == "fence" for span in spans))
        (wait,) = [event for event in events if event["ph"] == "X" and event["tid"] == 1]
        self.assertRegex(wait["name"], "^counter ", "a barrier")

    def test_after_a_killed_reader_another_one_can(self):
        with job("traffic", 2, 1) as process:
            until(lambda: skerry("stacks", process.pid), lambda s: s.stdout)
            with tempfile.TemporaryDirectory() as place:
                path = Path(place) / "trace.json"
                words = ["trace", str(process.pid), "--seconds", "600", "--output", str(path)]
                reader = subprocess.Popen([build / "bin/skerry", *words])
                until(lambda: path.exists() and path.stat().st_size > 100_000, bool)
                reader.kill()
                reader.wait()
            # A later one sees what it switched on itself.
            self.assertTrue(any(event["name"] == "put" for event in self.trace(process, 0.3)))
            self.assertIsNone(process.poll())


class Crash(unittest.TestCase):
    def test_backtrace(self):
        for what, why in [("crash", "SIGSEGV"), ("abort", "rank 1 aborts: asked to")]:
            with self.subTest(what), job(
                what, environment={"SKERRY_BACKTRACE": "1"}, stderr=subprocess.PIPE, text=True
            ) as process:  # fmt: skip
                text = process.communicate(timeout=LIMIT_S)[1]
            said = rf"skerry: rank 1 \(host {re.escape(socket.gethostname())}, process \d+\): {why}"
            self.assertRegex(text, said)
            self.assertRegex(text, r"looked_at.*\[0x")

    def test_nothing_unless_asked(self):
        with job("crash", stderr=subprocess.PIPE, text=True) as process:
            text = process.communicate(timeout=LIMIT_S)[1]
        self.assertNotIn("(host ", text)

    def test_freeze(self):
        with job(
            "crash", environment={"SKERRY_FREEZE": "1"}, stderr=subprocess.PIPE, text=True
        ) as process:  # fmt: skip
            for line in process.stderr:
                if found := re.search(r"is frozen: gdb -p (\d+)", line):
                    break
            pid = int(found[1])
            self.assertIn(pid, running.descendants(process.pid)[1:])
            self.assertIsNone(process.poll())
            os.kill(pid, signal.SIGKILL)
            process.communicate(timeout=LIMIT_S)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    given, rest = parser.parse_known_args()
    build = given.build.resolve()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
