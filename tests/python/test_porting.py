"""docs/ga.tsv: each form runs, and every function of Global Arrays has a line."""

import re
from pathlib import Path

import numpy as np
import pytest

import skerry as sk
import skerry.xp as xp

ROOT = Path(__file__).resolve().parents[2]
HEADER = Path("/usr/include/ga.h")
ROWS = [
    line.split("\t")
    for line in (ROOT / "docs" / "ga.tsv").read_text().splitlines()
    if not line.startswith("#")
]
FORMS = [form for _, form in ROWS if not form.startswith("no: ")]


def names():
    """What the forms use."""
    size = 8
    numbers = np.random.default_rng(1).random((size, size)) + 1
    a, b, d = (sk.asarray(numbers + i) for i in range(3))
    x, y, z = (xp.asarray(numbers + i) for i in range(3))
    index = np.arange(size)
    group = sk.world().split(0)
    segment = sk.Segment(64)
    return {
        "sk": sk, "xp": xp, "np": np, "a": a, "b": b, "d": d, "x": x, "y": y, "z": z,
        "w": xp.asarray(numbers[0]), "n": sk.zeros(3, "int64"),
        "c": sk.zeros((size, size), mirrored=True),
        "S": xp.asarray(numbers @ numbers.T), "T": xp.asarray(numbers + numbers.T),
        "g": sk.ghosts((size, size)), "p": np.s_[1:4, 2:5], "q": np.s_[3:6, 0:3],
        "r": a.get_nb(np.s_[0:1]), "I": index, "J": index[::-1], "v": np.ones(size),
        "values": np.ones((3, 3)), "rank": 0, "root": 0, "node": 0, "color": 0, "key": 0, "i": 0,
        "j": 0, "grid": (1, 1), "shape": (size, size), "rows": [0], "columns": [0], "nbytes": 64,
        "G": group, "H": sk.world().split(0), "m": sk.Mutexes(3), "s": segment, "file": None,
    }  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_form_runs(form):
    if form in ("sk.finalize()", 'sk.abort("text")'):  # they end the job
        assert callable(eval(form.split("(")[0], {"sk": sk}))
        return
    space = names()
    if form == "m = sk.Mutexes(n)":
        space["n"] = 3
    if "m.unlock" in form:
        space["m"].lock(0, 0)
    elif "m.lock" in form:
        space["m"].lock(0, 1)
    if form.startswith("sk.broadcast") or form.startswith("sk.allreduce"):
        space["values"] = np.ones(3)
    exec(form, space)
    if "m.lock" in form:  # other ranks wait for both
        space["m"].unlock(0, 0)
        space["m"].unlock(0, 1)
    sk.sync()


def test_no_function_is_named_twice():
    all_of_them = [name for names_, _ in ROWS for name in names_.split()]
    assert len(all_of_them) == len(set(all_of_them))
    known = [
        name for names_, form in ROWS if not form.startswith("no: ") for name in names_.split()
    ]
    assert len(known) >= 200


def test_every_function_of_global_arrays_has_a_line():
    listed = {name for names_, _ in ROWS for name in names_.split()}
    assert len(listed) == 257  # those that version 5.8.2 declares
    if HEADER.exists():
        declared = re.findall(r"\bN?GA_(\w+)(?=\s*\()", HEADER.read_text())
        assert {name.removesuffix("64") for name in declared} == listed
