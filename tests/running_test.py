#!/usr/bin/env python3
"""How running.py ends programs that take too long, and what it says of others."""

import sys
import time
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))

import running  # noqa: E402

# A child in a session of its own, which ignores SIGTERM and holds the output open.
DEAF = "setsid sh -c \"trap '' TERM; echo deaf $$ >&2; sleep 1000; sleep 1000\" & wait"


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Run(unittest.TestCase):
    def test_a_program_that_ends_by_itself(self):
        status, output, _ = running.run(["sh", "-c", "echo $WORD; exit 3"], 60, {"WORD": "told"})
        self.assertEqual((status, output), (3, "told\n"))

    def test_what_takes_too_long_ends_with_all_that_it_started(self):
        """A job's ranks outlived their launcher, and the runner waited for their output."""
        seen = []

        def look(process):
            seen.extend(running.descendants(process.pid))

        ended = running.run(["sh", "-c", DEAF], 2, before_end=look)
        self.assertIsNone(ended.status)
        self.assertGreaterEqual(len(seen), 2)
        deadline = time.monotonic() + 60
        while any(map(lives, seen)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_line_may_leave_less_time(self):
        def watch(_, line):
            return 0.1 if line == "done\n" else None

        ended = running.run(["sh", "-c", "echo done; exec sleep 1000"], 600, on_line=watch)
        self.assertIsNone(ended.status)
        self.assertEqual(ended.output, "done\n")

    def test_marked_processes(self):
        with running.started(["sleep", "1000"], {"SKERRY_USER_MARK": "only-this-test"}) as one:
            while not running.marked("SKERRY_USER_MARK=only-this-test"):
                time.sleep(0.01)
            self.assertEqual(running.marked("SKERRY_USER_MARK=only-this-test"), [one.pid])
        self.assertEqual(running.marked("SKERRY_USER_MARK=only-this-test"), [])


if __name__ == "__main__":
    unittest.main()
