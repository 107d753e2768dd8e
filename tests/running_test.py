#!/usr/bin/env python3
"""How running.py ends programs that take too long, and what it says of others."""

import sys
import unittest
import uuid
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

        def is_there(_, line):
            return 0 if line.startswith("deaf") else None

        ended = running.run(["sh", "-c", DEAF], 60, on_line=is_there, before_end=look)
        self.assertIsNone(ended.status)
        self.assertGreaterEqual(len(seen), 2)
        running.until(lambda: list(filter(lives, seen)), lambda left: not left)

    def test_a_line_may_leave_less_time(self):
        def watch(_, line):
            return 0.1 if line == "done\n" else None

        ended = running.run(["sh", "-c", "echo done; exec sleep 1000"], 600, on_line=watch)
        self.assertIsNone(ended.status)
        self.assertEqual(ended.output, "done\n")

    def test_marked_processes(self):
        name, value = "SKERRY_USER_MARK", uuid.uuid4().hex  # other builds run this test, too
        with running.started(["sleep", "1000"], {name: value}) as one:
            running.until(lambda: running.marked(f"{name}={value}"), [one.pid].__eq__)
        self.assertEqual(running.marked(f"{name}={value}"), [])


if __name__ == "__main__":
    unittest.main()
