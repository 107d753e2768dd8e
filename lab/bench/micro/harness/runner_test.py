#!/usr/bin/env python3
"""What the runner does with programs that fail or do not end."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import report  # noqa: E402
from harness.runner import Runner  # noqa: E402

ROW = json.dumps({"row": "get_8", "value": 3})


class Rounds(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.runs = Path(directory.name) / "runs"
        self.out = Path(directory.name) / "bench.json"
        self.runner = Runner(Path(), Path(), hosts=False, quick=True, verbose=False)
        self.peer = self.runner.peers.setdefault("mpich", {})

    def collect(self, name, end, into, limit_s):
        """Runs a program that notes its run, prints a row and ends so; False: it did not count."""
        script = f"echo run >> {self.runs}; echo '{ROW}'; {end}"
        command = ["sh", "-c", script]
        return self.runner._collect(name, command, into, "remote", limit_s=limit_s)

    def count(self):
        return self.runs.read_text().split().count("run")

    def test_a_peer_that_does_not_end_is_left_out_of_later_rounds(self):
        """Each round waited for its whole time limit: minutes of a run."""
        endless = "exec sleep 1000"
        for _ in range(3):
            self.assertFalse(self.collect("mpich (remote)", endless, self.peer, 2))
        self.assertEqual(self.count(), 1)
        # Said once, in the json too.
        report.save(self.out, [], {}, self.runner.complaints)
        said = "mpich (remote) failed: no end after 2 s; left out of later rounds"
        self.assertEqual(json.loads(self.out.read_text())["notes"], [said])
        # The other jobs of this peer go on.
        self.assertTrue(self.collect("mpich (local)", "exit 0", self.peer, 60))
        self.assertEqual(self.count(), 2)

    def test_a_peer_that_fails_is_tried_again(self):
        for _ in range(2):
            self.assertFalse(self.collect("mpich (remote)", "exit 3", self.peer, 60))
        self.assertEqual(self.count(), 2)

    def test_our_own_program_is_never_left_out(self):
        for _ in range(2):
            endless = "exec sleep 1000"
            self.assertFalse(self.collect("skerry_rows", endless, self.runner.samples, 2))
        self.assertEqual(self.count(), 2)


if __name__ == "__main__":
    unittest.main()
