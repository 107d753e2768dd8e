#!/usr/bin/env python3
"""Tests of what the locks benchmark says and of how it ends programs. Standard library only."""

import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "micro")]

import bench  # noqa: E402
import cases  # noqa: E402
import libraries  # noqa: E402
from harness.process import run_program  # noqa: E402

PEERS = ["openmpi5", "mpich5"]


def samples(**libraries):
    """Of one row, by library: a value for each round, None where there is none."""
    found = cases.Samples()
    for library, values in libraries.items():
        for turn, value in enumerate(values):
            if value is not None:
                found.add("case", "raw", library, turn, value)
    return found


def judged(found, said=None, **row):
    line = cases.Row("name", "6", "case", "raw", "ns", **row)
    return cases.judge(line, found, ["two_sided"], PEERS, said or {})


class Judging(unittest.TestCase):
    def test_a_value_is_the_median_of_the_rounds(self):
        record = judged(samples(skerry=[50, 90, 55]), most=60)
        self.assertEqual((record["value"], record["met"], record["rounds"]), (55, True, 3))

    def test_an_absolute_bound_is_missed(self):
        self.assertIs(judged(samples(skerry=[61]), most=60)["met"], False)

    def test_the_mark_is_the_best_round_of_the_best_peer(self):
        mark = cases.best_peer("case", "raw")
        found = samples(skerry=[50, 50], openmpi5=[80, 45], mpich5=[900, 800])
        record = judged(found, most=60, marks=(mark,))
        self.assertEqual((record["limit"], record["met"]), (45, False))

    def test_without_peers_the_absolute_bound_decides(self):
        mark = cases.best_peer("case", "raw")
        self.assertIs(judged(samples(skerry=[50]), most=60, marks=(mark,))["met"], True)

    def test_a_ratio_is_taken_within_its_round(self):
        mark = cases.library("openmpi5", "OpenMPI 5", "case", "raw")
        found = samples(skerry=[10, None, 30], openmpi5=[20, 1, 15])
        record = judged(found, marks=(mark,))
        self.assertEqual((record["ratio"], record["met"]), (1.25, True))

    def test_what_ran_and_failed_misses_its_target(self):
        said = {("case", "skerry"): "status 3: wrong result"}
        self.assertIs(judged(samples(), said, most=60)["met"], False)

    def test_what_is_not_built_is_not_judged(self):
        said = {("case", "skerry"): "not built: no program"}
        self.assertIsNone(judged(samples(), said, most=60)["met"])

    def test_a_full_overlap_is_the_computing_and_a_hop(self):
        found = cases.Samples()
        for turn, lap_ns in enumerate((100e3, 5e6)):  # the second round was disturbed
            found.add("ring", "span_0_us", "skerry", turn, lap_ns)
        mark = cases.overlapped("ring", 1000)
        self.assertEqual(mark.of(found, []), {0: 1150e3, 1: 1150e3})

    def test_every_row_has_its_case(self):
        known, rows = cases.everything(2)
        self.assertLessEqual({row.case for row in rows}, {case.name for case in known})
        self.assertEqual(len({row.name for row in rows}), len(rows))


class Time(unittest.TestCase):
    def test_no_run_begins_after_the_limit(self):
        options = bench.parse(["--minutes", "0"])
        table = bench.Table(None, options)
        case = cases.Case("case", ("none",), (1,))
        table.end = 0.0
        table.run(case, libraries.Library(cases.OURS), 0)
        self.assertEqual(table.late, 1)
        self.assertIn("not run", table.said["case", cases.OURS])


class Protocols(unittest.TestCase):
    def test_every_protocol_that_the_library_names_is_run(self):
        named = (HERE.parents[1] / "locks/protocols.hpp").read_text()
        known = re.findall(r"^  (\w+), +// ", named, re.MULTILINE)
        self.assertGreater(len(known), 0)
        self.assertEqual(sorted(libraries.PROTOCOLS), sorted(known))


class Words(unittest.TestCase):
    def test_a_cell_says_why_there_is_no_figure(self):
        for why, word in (
            ("not installed: no mpirun", "-"),
            ("no end after 20 s", "no end"),
            ("in contended.8: no end after 20 s", "no end"),
            ("status 3: rank 0: wrong result: the count", "wrong"),
            ("status 139: ", "failed"),
        ):
            self.assertEqual(bench.word(why), word)


class Programs(unittest.TestCase):
    def test_figures_are_read(self):
        line = '{"row":"lock","value":2.5,"unit":"ns"}'
        done = run_program(["echo", line], dict(os.environ), 60)
        self.assertEqual((done.rows, done.why), ([("lock", 2.5)], ""))

    def test_a_failure_has_a_reason(self):
        done = run_program(["sh", "-c", "echo broken >&2; exit 3"], dict(os.environ), 60)
        self.assertEqual((done.status, done.why), (3, "status 3: broken"))

    def test_a_late_program_ends_with_what_it_started(self):
        """A rank in a session of its own that ignores signals, as some launchers start them."""
        with tempfile.TemporaryDirectory() as directory:
            left = Path(directory) / "pid"
            rank = f"trap '' TERM HUP; echo $$ > {left}; while :; do read -rt 1 x <> <(:); done"
            program = ["bash", "-c", 'trap "" TERM; setsid -w bash -c "$0"', rank]
            done = run_program(program, dict(os.environ), 3, grace_s=0.5)
            self.assertEqual(done.why, "no end after 3 s")
            while is_running(int(left.read_text())):  # the kernel ends it soon
                os.sched_yield()


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


if __name__ == "__main__":
    unittest.main()
