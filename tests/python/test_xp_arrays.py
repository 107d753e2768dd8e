"""skerry.xp beside sk.Array: shared memory, views and writes, what moves and what does not."""

import numpy as np
import pytest

import skerry as sk
import skerry.xp as xp


@pytest.fixture(autouse=True)
def divided():
    xp.options(whole_bytes=0, check_calls=1)
    yield
    xp.options(whole_bytes=16 << 10, check_calls=0)


@pytest.fixture
def numbers():
    return np.arange(23 * 17, dtype="float64").reshape(23, 17)


def moved(call):
    """Exchanges, agreements and gathers of a call, and its result."""
    before = xp.counters()
    result = call()
    after = xp.counters()
    return sum(
        after[name] - before[name] for name in ("exchanges", "agreements", "gathers")
    ), result


def test_an_array_and_its_whole_view_share_memory(numbers):
    a = sk.asarray(numbers)
    x = xp.asarray(a)
    assert x.array is a and np.may_share_memory(x.local, a.local) or not a.local.size
    x[3:5] = 7.0
    sk.sync()
    assert (a[3:5, 0:17] == 7).all() and a[5, 0] == numbers[5, 0]
    sk.sync()
    if sk.rank() == 0:
        a[0, 0] = -5.0
    a.sync()
    assert float(x[0, 0]) == -5
    x += 1
    assert float(x[0, 0]) == -4
    sk.sync()
    assert a[0, 0] == -4


def test_a_computed_array_becomes_an_sk_array(numbers):
    x = xp.asarray(numbers) * 2
    a = x.array
    np.testing.assert_array_equal(a.get(), numbers * 2)
    a.fill(1.0)
    np.testing.assert_array_equal(x.numpy(), np.ones((23, 17)))
    assert x.array is a


@pytest.mark.parametrize("whole", [0, 1 << 20])
def test_views_follow_an_array_that_becomes_an_sk_array(numbers, whole):
    xp.options(whole_bytes=whole)
    x = xp.asarray(numbers)
    rows = x[4:9]
    corner = rows.T[2:5]
    a = x.array
    a.fill(3.0)
    np.testing.assert_array_equal(corner.numpy(), np.full((3, 5), 3.0))
    corner[...] = 4
    sk.sync()
    assert a[4, 2] == 4 and a[8, 4] == 4 and a[9, 4] == 3
    with pytest.raises(sk.InvalidError, match="view"):
        x[2:].array  # noqa: B018 (the property raises)


def test_equal_layouts_move_nothing(numbers):
    x, y = xp.asarray(numbers), xp.asarray(numbers)
    count, z = moved(lambda: xp.exp(-(x**2)) * y[:, ::-1][:, ::-1] + xp.sqrt(y))
    assert count == 0
    count, _ = moved(lambda: (z[:, 3:] - z[:, :-3]).local)
    assert count == 0
    count, _ = moved(lambda: xp.sum(z, axis=1))
    assert count == 0


if sk.size() > 1:  # alone nothing moves

    def test_a_shifted_operand_moves_what_is_missing(numbers):
        x = xp.asarray(numbers)
        before = xp.counters()
        (x[1:] + x[:-1]).local  # noqa: B018 (evaluates)
        after = xp.counters()
        assert after["exchanges"] - before["exchanges"] == 1
        assert after["bytes_read"] - before["bytes_read"] <= 17 * 8


def test_views_write_through(numbers):
    x = xp.asarray(numbers)
    row, turned = x[4], x.T[::-1]
    row[...] = 1.5
    numbers[4] = 1.5
    turned[0, 2:9] = -1
    numbers.T[::-1][0, 2:9] = -1
    np.testing.assert_array_equal(x.numpy(), numbers)
    x[1:] = x[:-1]
    numbers[1:] = numbers[:-1].copy()
    x[x > 100.0] = 0
    numbers[numbers > 100] = 0
    x[:, 3] = x[:, 5]
    numbers[:, 3] = numbers[:, 5]
    x[xp.asarray([1, 5]), xp.asarray([2, 2])] = xp.asarray([8.0, 9.0])
    numbers[[1, 5], [2, 2]] = [8, 9]
    np.testing.assert_array_equal(x.numpy(), numbers)


def large(seed):
    values = np.random.default_rng(seed).random((700, 900))
    return xp.asarray(values), values


def test_an_expression_keeps_the_values_of_its_time():
    (x, values), (y, others) = large(1), large(2)
    kept = x * 2 + xp.sin(y)
    wanted = values * 2 + np.sin(others)
    x[5] = 0
    y += 1
    np.testing.assert_allclose(kept.numpy(), wanted, rtol=1e-14)
    stencil = x[1:-1] + x[:-2] + x[2:]
    values[5] = 0
    wanted = values[1:-1] + values[:-2] + values[2:]
    x.local[...] = 3
    np.testing.assert_allclose(stencil.numpy(), wanted, rtol=1e-14)


def test_inner_results_in_use_are_kept():
    x, values = large(3)
    inner = x + 1
    outer = inner * inner - x.T[:1, :1]
    np.testing.assert_allclose(outer.numpy(), (values + 1) ** 2 - values[0, 0], rtol=1e-14)
    assert inner._expression is None
    np.testing.assert_allclose(inner.numpy(), values + 1, rtol=1e-14)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (0, 1), (1, 2)])
def test_an_expression_is_reduced_while_it_is_computed(axis):
    values = np.random.default_rng(5).random((60, 50, 90)) - 0.5
    x = xp.permute_dims(xp.asarray(values), (2, 0, 1))
    values = values.transpose(2, 0, 1)
    for name in ("sum", "prod", "min", "max", "mean", "var", "std"):
        found = getattr(xp, name)(x * 2 - 0.1, axis=axis).numpy()
        wanted = getattr(np, name)(values * 2 - 0.1, axis=axis)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=name)
    for name in ("any", "all", "count_nonzero"):
        found = getattr(xp, name)(x > 0.45, axis=axis).numpy()
        np.testing.assert_array_equal(found, getattr(np, name)(values > 0.45, axis=axis))
    shifted = xp.sum(x[1:, ::-1] * x[:-1], axis=axis).numpy()
    np.testing.assert_allclose(shifted, np.sum(values[1:, ::-1] * values[:-1], axis=axis),
                               rtol=1e-9)  # fmt: skip


def test_a_reduced_expression_in_use_is_kept():
    x, values = large(6)
    named = xp.sin(x)
    total = xp.sum(named)
    assert named._expression is None
    np.testing.assert_allclose(
        (named / total).numpy(), np.sin(values) / np.sin(values).sum(), rtol=1e-13
    )


def test_what_is_quick_to_compute_is_kept_when_it_is_reduced_again():
    """Whether a block was kept depended on the number of references that CPython counts."""
    x, values = large(6)
    named, again = x * x + 1, [x * x + 1]
    for each, wanted in ((named, values * values + 1), (again.pop(), values * values + 1)):
        assert float(xp.sum(each)) == pytest.approx(wanted.sum(), rel=1e-13)
        assert each._expression is not None
        assert float(xp.max(each)) == pytest.approx(wanted.max(), rel=1e-13)
        assert each._expression is None
        np.testing.assert_allclose(each.numpy(), wanted, rtol=1e-13)


def test_long_chains_end():
    x, values = large(4)
    for _ in range(500):
        x = x * 0.5 + 1
    for _ in range(500):
        values = values * 0.5 + 1
    np.testing.assert_allclose(x.numpy(), values, rtol=1e-13)


def test_what_would_gather_says_so(numbers):
    x = xp.asarray(numbers)
    if sk.size() > 1:
        with pytest.raises(sk.GatherError, match="numpy()"):
            np.asarray(x)
        with pytest.raises(sk.GatherError, match="numpy()"):
            np.from_dlpack(x)
        xp.options(gather_bytes=100)
        with pytest.raises(sk.GatherError, match="gather_bytes"):
            xp.linalg.solve(x[:17], x[:17])
        xp.options(gather_bytes=1 << 30)
    assert float(x[2, 3]) == numbers[2, 3] and bool(x[2, 3]) and int(x[0, 5]) == 5
    with pytest.raises(TypeError, match="0-d"):
        float(x)
    assert np.from_dlpack(x.local).shape == x.local.shape


def test_mirrored_arrays_and_parts_of_the_job_are_refused(numbers):
    with pytest.raises(sk.InvalidError, match="mirrored"):
        xp.asarray(sk.asarray(numbers, mirrored=True))


if sk.size() > 1:  # needs two members

    def test_calls_that_differ_are_an_error_on_all(numbers):
        x = xp.asarray(numbers)
        with pytest.raises(sk.InvalidError, match="differently"):
            x[1:] + x[:-1] if sk.rank() else x[2:] + x[:-2]


def test_small_arrays_are_whole():
    xp.options(whole_bytes=1000)
    count, value = moved(lambda: xp.sum(xp.arange(100) * 2)[()])
    assert count == 0 and int(value) == 9900


def test_the_namespace():
    assert xp.zeros(3).__array_namespace__() is xp
    info = xp.__array_namespace_info__()
    assert info.default_device() == "cpu" and set(info.dtypes()) >= {"bool", "complex128"}
    with pytest.raises(ValueError, match="2024.12"):
        xp.zeros(3).__array_namespace__(api_version="1999.12")
