"""Random programs on skerry.numpy give what they give on NumPy, whole and divided: assignments,
views, views whose elements lie elsewhere, in-place operators, chains, NumPy operands that change
meanwhile, reductions, elements, floating-point errors.

SKERRY_USER_PROGRAMS=N runs N programs a bound instead of 25; SKERRY_USER_SEED=N begins elsewhere.
A failure prints the program.
"""

import os
import random

import numpy
import pytest

import skerry.numpy as snp
import skerry.xp as xp
from conftest import late_from

PROGRAMS = int(os.environ.get("SKERRY_USER_PROGRAMS", "25"))
SEED = int(os.environ.get("SKERRY_USER_SEED", "0"))


def a_slice(dice, n):
    low, high = sorted((dice.randrange(n + 1), dice.randrange(n + 1)))
    step = dice.choice(["", "", ":2", ":3"])
    return dice.choice([f"{low}:{high}{step}", ":", "::-1", f"{low}:", f":{high}"])


def statement(dice, rows, columns):
    """A line over the matrices a, b, c of one shape, the row v, NumPy's matrix o, number s, and p
    and d, which show a part of some matrix and follow it. `off` is 1: it stands where ranks add up
    in another order than NumPy. Matrices are in C order: that of others differs from NumPy's."""
    x, y, z = (dice.choice("abc") for _ in range(3))
    i, j = dice.randrange(rows), dice.randrange(columns)
    key = f"{a_slice(dice, rows)}, {a_slice(dice, columns)}"
    shift = dice.randrange(1, 3)
    return dice.choice([
        f"{x} = {y} * 0.5 + {z}",
        f"{x} = np.abs({y} - {z}) / (np.abs({z}) + 1)",
        f"{x} = np.where({y} > {z}, {y}, o)",
        f"{x} = np.minimum({y}, 50.0) + o; o[{i}] = {j}",
        f"{x}[{key}] = {y}[{key}]",
        f"{x}[{key}] = {j}",
        f"{x}[{key}] += {y}[{key}] * 0.25",
        f"{x}[{shift}:] = 0.5 * ({x}[:-{shift}] + {y}[{shift}:])",
        f"{x}[1:-1, 1:-1] = 0.2 * ({y}[:-2, 1:-1] + {y}[2:, 1:-1] + {y}[1:-1, 2:])",
        f"t = {x}[{i}, {j}]; {x}[{i}, {j}] = {x}[-1 - {i}, {j}]; {x}[-1 - {i}, {j}] = t",
        f"w = {x}[{key}]; w *= 0.5; {y} = {x} + 1",
        f"{x} -= {y} * 0.125",
        f"{x} *= 0.75",
        f"{x}[{i}] = v; v = {x}[{i}] * 0.5",
        f"s = {x}.sum() * off * 1e-3; {y} = {y} + s",
        f"s = {x}[{i}, {j}]; s += 1; {y}[{i}] = s",
        f"v = {x}.max(axis=0) - {y}.mean(axis=0) * off",
        f"{x} = ({y}.T.copy().T + v).copy()",
        f"{x}[{y} > 10.0] = 1.5",
        f"m = {y} > {z}; {x}[m] = {x}[m] * 0.5 + {z}[m]",
        f"m = {y}[:, {j}] > 1.0; {x}[m] = {z}[m]",
        f"{x}[{y}[:, {j}] > 1.0] = v",
        f"{x}[{y} > 1.0] = {z}[{y} > 1.0][::-1].copy()",
        f"{x} = {y}[np.array({[dice.randrange(rows) for _ in range(rows)]})]",
        f"{x} = np.cumsum({y} * 1e-2 * off, axis={dice.randrange(2)})",
        f"{x} = np.sort({y}, axis={dice.randrange(2)})",
        f"{x} = np.concatenate(({y}[{i}:], {y}[:{i}]))",
        f"v = {x} @ np.arange({columns}.0) * 1e-3 * off; {y} = {y} + v[:, None]; v = {y}[{i}]",
        f"{x} = {x}.copy(); {y} = np.sqrt(np.abs({x}))",
        f"p = {x}.reshape({columns}, {rows}){dice.choice(['', '.T', '[1:]', '[:, ::-1]'])}",
        f"p = {x}[{key}].reshape(-1); d = p",
        f"p = {x}{dice.choice(['', '.T', '[::-1]'])}.reshape(-1)[{j}:-{i} - 1].reshape(-1, 1)",
        f"p = {x}{dice.choice(['', '.T', f'[{key}]'])}.ravel()",
        "p = p.reshape(-1, 1)",
        "p = p[1:].reshape(-1); d = p[::2]",
        f"p = np.broadcast_to({x}[{i}], ({dice.randrange(1, 9)}, {columns}))",
        f"p = numpy.lib.stride_tricks.sliding_window_view({x}, (2, 2))",
        f"d = np.diagonal({x}, {j - 2})",
        f"d = np.einsum('ii->i', {x}[:3, :3])",
        f"k = {x} + 1j * {y}; d = k.real; k *= 0.5; d += 1; k.imag[{i}] = d[{i}]; {z} = k.imag + d",
        f"{x}[{i}] = p.sum() * off * 1e-3; {y} += (d * 0.5).sum() * off * 1e-2",
        f"{x} = p.reshape({rows}, {columns}).copy() if p.size == {rows * columns} else {y} * 0.5",
        f"{x} = {x}.copy(); {x}[{i}, {j}] = d[d.shape[0] // 2 :].sum() * off * 1e-2",
        f"d = p * 0.5; {x}[{key}] = {y}[{key}]; d += 1",
        f"np.add.at({x}, ([{i}, {i}], [{j}, 0]), 2.0); np.put({y}, [{j}, 1], p[-1:].sum() * off)",
        f"try:\n with np.errstate(all='raise'): {x} = {y} / ({z} - {z}[{i}, {j}])\n"
        f"except FloatingPointError: {x} = {y} * 0.5",
        f"try:\n with np.errstate(over='raise'): s = (np.abs({x}) * 1e307).sum() * 1e-307\n"
        f"except FloatingPointError: s = {j}; {x} *= 0.5",
    ])  # fmt: skip


def program(seed):
    dice = random.Random(seed)
    rows, columns = dice.choice([(7, 5), (12, 3), (4, 9), (30, 20), (3, 3), (260, 130)])
    begin = [
        f"a = np.arange({rows * columns}.0).reshape({rows}, {columns}).copy()",
        "b = a * 0.5 - 3; c = np.cos(a); v = a[1].copy()",
        f"o = numpy.ones(({rows}, {columns})); s = 1.0; p, d = a.reshape(-1), np.diagonal(b)",
    ]
    return begin + [statement(dice, rows, columns) for _ in range(dice.randrange(4, 16))]


def outcome(lines, module, off=1.0):
    names = {"np": module, "numpy": numpy, "off": off}
    with numpy.errstate(all="ignore"):
        exec("\n".join(lines), names)
        return {name: names[name] for name in "abcvspd"}


def _rounding(lines, name, expected, values):
    """Whether NumPy's own result moves about as far if its sums are off by 4e-15: what is left of
    a difference, or `a > b`, may hang on their last bits."""
    moved = numpy.zeros(numpy.shape(expected))
    for off in (1 - 4e-15, 1 + 4e-15):
        moved = numpy.maximum(moved, numpy.abs(outcome(lines, numpy, off)[name] - expected))
    moved = numpy.nan_to_num(moved, nan=0, posinf=0)
    return bool((numpy.abs(values - expected) <= 10 * moved + 1e-9).all())


@pytest.fixture(params=[0, None, 1 << 40], ids=["divided", "measured", "whole"])
def bound(request):
    before = xp.options()["whole_bytes"]
    if request.param is not None:
        xp.options(whole_bytes=request.param, loop_bytes=1 << 14)
    yield request.param
    xp.options(whole_bytes=before, loop_bytes=0)
    late_from()


def test_random_programs(bound):
    for seed in range(SEED, SEED + PROGRAMS):
        late_from((1 << 19, 40)[seed % 2])  # no whole array of these is late, or most are
        lines = program(seed)
        theirs, ours = outcome(lines, numpy), outcome(lines, snp)
        for name, expected in theirs.items():
            got = ours[name]
            assert isinstance(got, xp.Array) == isinstance(expected, numpy.ndarray), (name, lines)
            values = got.numpy() if isinstance(got, xp.Array) else got
            assert numpy.shape(values) == numpy.shape(expected), (seed, name, lines)
            same = numpy.allclose(values, expected, rtol=1e-9, atol=1e-9)
            assert same or _rounding(lines, name, expected, values), (seed, name, lines)
