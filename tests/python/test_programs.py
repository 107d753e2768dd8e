"""Ten whole programs written for NumPy give on skerry.numpy what they give on NumPy, with arrays
that are whole, divided, or become whole as the programs run."""

import importlib.util
from pathlib import Path

import numpy
import pytest

import skerry.numpy as snp
import skerry.xp as xp

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("programs", ROOT / "lab/bench/arrays/programs.py")
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)


@pytest.fixture(
    params=[(0, 0), (0, 1 << 20), (1 << 40, 0)], ids=["divided", "becoming whole", "whole"]
)
def layouts(request):
    before = xp.options()
    bound, loops = request.param
    xp.options(whole_bytes=bound, loop_bytes=loops, check_calls=1)
    yield
    xp.options(whole_bytes=before["whole_bytes"], loop_bytes=before["loop_bytes"], check_calls=0)


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_program_gives_what_numpy_gives(name, layouts):
    n = {"escapes": 40, "walks": 60}.get(name, 70)
    theirs, ours = (programs.PROGRAMS[name](module, n) for module in (numpy, snp))
    for expected, got in zip(
        *(each if isinstance(each, tuple) else (each,) for each in (theirs, ours)), strict=True
    ):
        assert isinstance(got, xp.Array) == isinstance(expected, numpy.ndarray)
        values = got.numpy() if isinstance(got, xp.Array) else numpy.asarray(got)
        assert values.dtype == numpy.asarray(expected).dtype
        numpy.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
