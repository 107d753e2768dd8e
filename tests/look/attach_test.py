#!/usr/bin/env python3
"""sk.attach: named arrays of a running job, and readers that are killed.

    PYTHONPATH=build/python tests/look/attach_test.py [--kills N]

Its own job is this file, too: `attach_test.py --job DIR` computes until the file DIR/end appears.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402

import running  # noqa: E402
import skerry as sk  # noqa: E402

SHAPE = (200, 300)
LIMIT_S = 120
PACKAGE = Path(sk.__file__).parent
kills = 20


def compute(place):
    sk.init()
    still = sk.zeros(SHAPE)
    copies = sk.zeros((40, 50), "int32", mirrored=True)
    total = sk.zeros((100,), "int64")
    rows, columns = (slice(*bounds) for bounds in still.distribution())
    still[rows, columns] = expected()[rows, columns]
    copies.fill(7)
    for name, array in (("still", still), ("copies", copies), ("total", total)):
        array.label(name)
    gone = sk.zeros((10,))
    gone.label("gone")
    gone.free()
    sk.sync()
    rounds = 0
    (place / f"ready{sk.rank()}").touch()
    while not sk.allreduce(int((place / "end").exists()), "max"):
        total.acc(slice(0, 100), np.ones(100, "int64"))
        rounds += 1
    sk.sync()
    every = sk.zeros((1,), "int64")
    every.acc(slice(0, 1), np.array([rounds]))
    sk.sync()
    exact = bool((total[:] == every[0]).all()) and bool((still[:, :] == expected()).all())
    if sk.rank() == 0:
        print("exact" if exact else "WRONG", flush=True)
    sk.finalize()


def expected():
    return np.arange(np.prod(SHAPE), dtype=float).reshape(SHAPE)


class Attach(unittest.TestCase):
    def test_a_computing_job(self):
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            words = ["run", "-n", 4, "--nodes", 2, sys.executable, __file__, "--job", name]
            with running.started([PACKAGE / "bin/skerry", *words], stderr=None) as job:
                end = time.monotonic() + LIMIT_S
                while len(list(place.glob("ready*"))) < 4:
                    self.assertIsNone(job.poll())
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.05)
                seen = sk.attach(job.pid)
                self.look(seen)
                self.kill_readers(seen.name)
                if os.geteuid() == 0:
                    self.other_user(job.pid)
                still = seen["still"]
                (place / "end").touch()
                text, _ = job.communicate(timeout=LIMIT_S)
        self.assertEqual((job.returncode, text), (0, "exact\n"))
        with self.assertRaises(sk.FreedError):
            still[0, 0]
        with self.assertRaises(sk.InvalidError):
            seen.names()

    def look(self, seen):
        self.assertEqual(seen.names(), ["copies", "still", "total"])
        still = seen["still"]
        self.assertEqual((still.shape, still.dtype), (SHAPE, np.float64))
        for patch in [
            (slice(None), slice(None)), (slice(90, 110), slice(140, 160)), (3, slice(None)),
            (slice(5, 199), 299), (-1, -1), (Ellipsis, 7), (slice(4, 4), 0), slice(99, 101),
        ]:  # fmt: skip
            np.testing.assert_array_equal(still[patch], expected()[patch])
        self.assertTrue((seen["copies"][:, :] == 7).all())
        before = seen["total"][:].sum()
        end = time.monotonic() + LIMIT_S
        while seen["total"][:].sum() == before:
            self.assertLess(time.monotonic(), end, "the job goes on")
        with self.assertRaises(KeyError):
            seen["nothing"]
        with self.assertRaises(sk.RangeError):
            still[200, 0]
        with self.assertRaises(sk.InvalidError):
            still[::2, 0]

    def kill_readers(self, name):
        """Each is killed while it reads."""
        for _ in range(kills):
            told, tell = os.pipe()
            reader = os.fork()
            if reader == 0:
                try:
                    array = sk.attach(name)["still"]
                    os.write(tell, b"r")
                    while True:
                        array[:, :]
                finally:
                    os._exit(1)
            os.close(tell)
            self.assertEqual(os.read(told, 1), b"r")
            os.kill(reader, signal.SIGKILL)
            self.assertEqual(os.waitpid(reader, 0)[1], signal.SIGKILL)
            os.close(told)

    def other_user(self, pid):
        reader = os.fork()
        if reader == 0:
            try:
                os.setgid(65534)
                os.setuid(65534)
                sk.attach(pid)
            except sk.InvalidError as error:
                os._exit(0 if "belongs to user 0" in str(error) else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(reader, 0)[1], 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--job", type=Path)
    given = parser.parse_args()
    if given.job:
        compute(given.job)
    else:
        kills = given.kills
        unittest.main(argv=[sys.argv[0]], verbosity=2)
