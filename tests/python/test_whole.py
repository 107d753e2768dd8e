"""Whole arrays are NumPy's, and what an array means does not depend on where its elements are:
every test runs with arrays that are whole, and with arrays that are divided."""

import copy
import functools
import gc
import itertools
import operator
import os
import pickle
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib

import numpy
import pytest

import skerry as sk
import skerry.numpy as np
import skerry.xp as xp
from skerry import _core, _protected
from skerry.xp import _array, _exchange, _options, _pages, _storage


pytestmark = pytest.mark.usefixtures("divided_and_whole")


def test_an_element_is_a_copy():
    # It was a view on one rank and of small arrays: the swap lost a value.
    x = np.arange(10.0)
    t = x[0]
    x[0] = x[-1]
    x[-1] = t
    assert x.tolist() == [9, 1, 2, 3, 4, 5, 6, 7, 8, 0]
    s = x[0]
    s += x[1]
    assert float(x[0]) == 9 and isinstance(s, float)
    m = np.ones((4, 5))
    assert isinstance(m[2, 3], numpy.float64) and isinstance(m.sum(), numpy.float64)
    assert isinstance(np.dot(m[0], m[1]), numpy.float64) and isinstance(m[0] @ m[1], numpy.float64)


def test_slices_are_views():
    x = np.zeros((6, 7))
    rows, turned = x[1:4], x.T[2]
    rows[...] = 1
    turned[:2] = 5
    expected = numpy.zeros((6, 7))
    expected[1:4] = 1
    expected.T[2][:2] = 5
    assert (x.numpy() == expected).all()
    x += 1
    assert (rows.numpy() == expected[1:4] + 1).all()


def test_a_result_keeps_what_a_numpy_operand_had():
    # A result that is computed later kept the caller's array itself.
    x, other = np.zeros(200_000), numpy.ones(200_000)
    y, z = x + other, np.multiply(other, x + 2)
    other[:] = 100
    assert float(y.max()) == 1 and float(z.max()) == 2


def test_copies_and_pickles_hold_all_elements_or_say_why_not():
    # A divided array was pickled as the own block, and copy.copy gave a view.
    x = np.arange(12.0).reshape(3, 4)
    for duplicate in copy.copy(x), copy.deepcopy(x):
        duplicate[0] = 7
        assert float(x[0].max()) == 3
    if x.layout.whole:
        again = pickle.loads(pickle.dumps(x))
        assert isinstance(again, xp.Array) and (again.numpy() == x.numpy()).all()
    else:
        with pytest.raises(sk.GatherError, match=r"x\.numpy\(\)"):
            pickle.dumps(x)


def test_a_pickle_is_an_array_in_a_program_that_has_not_imported_it():
    if np.ones(3).layout.whole:
        read = "import pickle, sys; print(type(pickle.load(sys.stdin.buffer)).__name__)"
        told = subprocess.run(
            [sys.executable, "-c", read], input=pickle.dumps(np.ones(3)), capture_output=True,
            check=True,
        )  # fmt: skip
        assert told.stdout.split() == [b"Array"]


def test_functions_are_kept_in_classes_and_copied_as_numpys_are():
    # They were methods of the class, could not be replaced in an instance, nor copied.
    class Layer:
        activation = np.tanh

    layer = Layer()
    assert layer.activation(0.5) == numpy.tanh(0.5)
    layer.activation = np.sin
    assert copy.deepcopy(vars(layer)) == {"activation": np.sin}
    for function in (np.tanh, np.linalg.norm, np.fft.fft):
        assert pickle.loads(pickle.dumps(function)) is function


def test_positional_arguments_are_numpys_when_memory_is_taken_again():
    # The memory of an array that went stood where the second operand, or `out`, should.
    x, out = np.ones(5000), np.zeros(5000)
    y = x + x
    del y
    assert np.sqrt(x, out) is out and out[-1] == 1
    y = x + x
    del y
    with pytest.raises(TypeError):
        np.add(x)


def test_calls_that_numpy_refuses_are_refused():
    with pytest.raises(TypeError):
        pow(np.arange(5), 2, 5)  # was x**2
    with pytest.raises((TypeError, ValueError)):
        xp.Array.sum()  # was a crash, as the next
    with pytest.raises(ValueError):
        len(xp.Array.__new__(xp.Array))


def test_a_function_may_empty_the_list_of_its_arguments():
    # The arrays in it were looked at after they had gone.
    x = np.arange(6.0)
    conditions = [x < 3]
    if x.layout.whole:
        found = np.piecewise(x, conditions, [lambda v: conditions.clear() or -v, 7.0])
        assert found.tolist() == [0, -1, -2, 7, 7, 7]


def test_objects_and_fields_are_whole_whatever_the_size():
    made = numpy.array([None, {"a": 1}] * 50, dtype=object)
    assert np.array(made).tolist() == made.tolist()
    fields = np.array(numpy.zeros(50, [("a", int), ("b", float)]))
    assert fields["a"].shape == (50,)


def test_comparisons_with_what_is_no_number():
    x = np.arange(5.0)
    assert not (x == None).any() and (x != None).all()  # noqa: E711 (elementwise)
    assert round(x.mean(), 2) == 2 and divmod(x, 2)[1].tolist() == [0, 1, 0, 1, 0]
    assert 3.0 in x and 9.0 not in x
    assert [float(v) for v in x] == [0, 1, 2, 3, 4]
    with pytest.raises(TypeError):
        hash(x)
    text = np.array(["ab", "c"])
    assert (text == "ab").tolist() == [True, False] and (text != "ab").tolist() == [False, True]
    octets = np.array([b"ab", b"c"])
    assert (octets == b"c").tolist() == [False, True]
    if octets.layout.whole:
        octets[0] = b"zz"
        assert octets.tolist() == [b"zz", b"c"]


def test_polynomials_and_places_have_numpys_dtypes():
    # Coefficients counted as Python's numbers: 255 * 255 was 1 among bytes.
    for x in (numpy.arange(240, dtype=numpy.uint8), numpy.linspace(0, 1, 9, dtype="float32")):
        for p in ([1, 2, 3], [0.5, 2.0]):
            ours, numpys = np.polyval(p, np.array(x)), numpy.polyval(p, x)
            assert ours.dtype == numpys.dtype and (ours.numpy() == numpys).all()
    x = np.arange(20.0)
    assert np.searchsorted(x, 2.5) == 3 and np.searchsorted(x, [2.5, 7]).tolist() == [3, 7]
    bits = np.array(numpy.arange(200, dtype=numpy.uint8))
    assert numpy.bitwise_and.reduce(bits, where=bits > 191) == 192


def test_what_is_set_of_an_array_is_what_it_has():
    x = np.ones(1 << 20)
    if x.layout.whole:
        y = x + 1.0  # not evaluated yet
        x.shape = (2, -1)
        assert y.shape == (1 << 20,) and float(y.sum()) == 2 << 20
        z = np.zeros(4)
        z.dtype = "int32"
        assert z.dtype == numpy.int32 and z.layout.shape == z.shape == (8,)
        z.resize(10, refcheck=False)
        assert z.layout.shape == (10,)
    else:
        with pytest.raises(AttributeError):
            x.dtype = "int32"


def test_a_shape_is_set_wherever_elements_are():
    values = numpy.arange(12000.0).reshape(2, 30, 200)
    x = np.array(values)
    late = x + 1.0
    x.shape = (60, -1)
    assert x.shape == (60, 200) and (x.numpy() == values.reshape(60, 200)).all()
    x[3, 4] = -1.0
    x += 1
    assert float(x[3, 4]) == 0 and (late.numpy() == values + 1).all()
    if not x.layout.whole:
        part = x[2:5]
        with pytest.raises(AttributeError, match="that has views"):
            x.shape = 12000
        del part
    x.shape = 12000
    assert x.ndim == 1 and float(x.sum()) == values.sum() + 12000 - 605
    with pytest.raises(ValueError):
        x.shape = 7
    one, two = np.array(values)
    one.shape = 6000
    assert (one.numpy() == values[0].reshape(-1)).all()
    if not one.layout.whole:
        with pytest.raises(ValueError, match="a copy"):  # NumPy writes the other name of it, too
            one[0] = 5.0
    del two
    one[0] = 5.0
    assert float(one[0]) == 5


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_powers_by_operator_have_numpys_bits(dtype):
    # NumPy's operator squares; its power() multiplies, which rounds otherwise: so did z ** 2.
    rng = numpy.random.default_rng(5)
    values = rng.normal(size=(300, 40)).astype(dtype)
    if values.dtype.kind == "c":
        values += 1j * rng.normal(size=values.shape)
    for exponent in (-1, 0, 0.5, 1, 2, 2.0, 3, numpy.float64(2), numpy.int64(2)):
        with numpy.errstate(invalid="ignore"):
            wanted = values**exponent
            x = np.array(values)
            got = (x**exponent).numpy()
            assert got.dtype == wanted.dtype, exponent
            assert numpy.array_equal(got, wanted, equal_nan=True), exponent
            assert numpy.array_equal(
                np.power(x, exponent).numpy(), numpy.power(values, exponent), equal_nan=True
            ), exponent


def test_functions_of_numpy_take_arrays_wherever_they_are():
    x = np.arange(24.0).reshape(4, 6)
    a = x.numpy()
    for name in ("sum", "mean", "argmax", "cumsum"):
        ours, theirs = getattr(np, name)(x, axis=0), getattr(numpy, name)(a, axis=0)
        assert isinstance(ours, xp.Array) and numpy.array_equal(ours.numpy(), theirs), name
    parts = np.concatenate([x, [[1.0] * 6]])
    assert isinstance(parts, xp.Array) and parts.shape == (5, 6)
    assert (np.add.reduce(a) == a.sum(axis=0)).all()
    assert isinstance(numpy.float64(2) * x, xp.Array) and isinstance(a + x, xp.Array)
    out = np.empty((4, 6))
    assert np.add(x, 1, out=out) is out and float(out[3, 5]) == 24
    x.sort(axis=1)
    x.fill(2)
    assert float(x.sum()) == 48


def test_an_sk_array_takes_the_views_that_numpy_made_along():
    x = np.arange(30.0).reshape(5, 6).copy()
    rows, column, corner = x[1:3], x[:, 2], x.T[4:1:-2, 1:]
    a = x.array
    a.fill(3.0)
    for part in rows, column, corner:
        assert (part.numpy() == 3).all()
    corner[...] = 4
    sk.sync()
    assert a[1, 4] == 4 and a[4, 2] == 4 and a[0, 4] == 3 and a[1, 3] == 3


def test_an_array_that_cannot_take_all_its_views_along_stays_where_it_is():
    """It had become the sk.Array when a view of a view could not follow. That one, and all views
    made after it, looked at the old memory."""
    if sk.size() == 1:
        return
    before = xp.options()
    xp.options(whole_bytes=0, loop_bytes=1 << 30)
    values = numpy.arange(20.0 * 300).reshape(20, 300)
    x = np.asarray(values)
    part, corner = x[2:], x[:5, :7]
    reads(x, values)
    assert x.layout.whole and part.layout.whole
    bits, row = part.view("int64"), corner[1]
    with pytest.raises(sk.InvalidError, match="another dtype"):
        x.array  # noqa: B018
    x[2, 0] = 1.0
    x[1, 3] = 5.0
    assert int(bits[0, 0]) == 4607182418800017408
    assert float(part[0, 0]) == 1 and float(corner[1, 3]) == 5 and float(row[3]) == 5
    del bits
    gc.collect()  # the error's traceback has it, too
    a = x.array
    a.fill(3.0)
    assert (part.numpy() == 3).all() and (corner.numpy() == 3).all() and (row.numpy() == 3).all()
    xp.options(whole_bytes=before["whole_bytes"], loop_bytes=before["loop_bytes"])


def test_the_matrix_product_writes_in_place():
    x = np.eye(4) * 2
    kept = x
    x @= np.ones((4, 4))
    assert kept is x and (x.numpy() == 2).all()


def test_errors_are_numpys():
    x = np.zeros((3, 4))
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
        x[7]
    with pytest.raises(TypeError, match="0-d"):
        float(x)
    with pytest.raises((ValueError, TypeError)):
        bool(x)
    with pytest.raises(AttributeError, match="no_such"):
        x.no_such  # noqa: B018 (the attribute raises)


def test_a_chain_is_computed_into_the_slice_that_it_is_assigned_to():
    # Whole chains of at least 2^19 elements are computed late.
    x, y = np.arange(600_000.0), np.ones(600_000)
    theirs_x, theirs_y = x.numpy(), y.numpy()
    both = []
    for a, b in (x, y), (theirs_x, theirs_y):
        a[1:-1] = 0.5 * (a[:-2] + a[2:]) + b[1:-1]  # reads what it writes, elsewhere
        b[...] = b * 2 + a
        b -= 0.5 * (a - b)
        kept = a * 3 + b
        a += kept
        a[::2] = -b[::2] * 2 + 1
        a *= b[::-1]
        b[5] = kept[7]
        both.append(kept)
    assert numpy.allclose(x.numpy(), theirs_x, rtol=1e-14)
    assert numpy.allclose(y.numpy(), theirs_y, rtol=1e-14)
    assert numpy.allclose(both[0].numpy(), both[1], rtol=1e-14)


def test_results_take_the_memory_of_arrays_that_went_and_of_no_other():
    x = np.ones(10_000)
    kept = [x + 1, (x + 1)[5:], (x + 1).local, (x + 1).T]
    for _ in range(20):
        x = x * 2 - x * 0.5
    for part in kept:
        assert float(part.min()) == float(part.max()) == 2


def test_floating_point_errors_follow_the_line_that_wrote_the_expression():
    # They were those of the line that happened to compute it, on the rank with the zero alone.
    x = np.ones(1_200_000)
    x[-1] = 0
    with numpy.errstate(all="ignore"):
        quiet = 1 / x
    with numpy.errstate(divide="raise"):
        assert float(quiet[-1]) == numpy.inf
        with pytest.raises((FloatingPointError, sk.InvalidError)):
            (1 / x).local  # noqa: B018 (evaluates)
    assert float(x.sum()) == 1_199_999  # the next calls of all ranks meet


def test_writes_into_what_numpy_shows_as_a_view_reach_it_or_are_an_error():
    # They vanished in a copy where elements had to move.
    x = np.arange(7 * 10.0).reshape(7, 10).copy()
    flat = x.reshape(10, 7)
    try:
        flat[0] = -1
    except ValueError as error:
        assert "read-only" in str(error)  # noqa: PT017 (an error is one of two right outcomes)
    else:
        assert float(x[0, 6]) == -1
    own = flat.copy()
    own[0] = 5
    assert float(own[0, 3]) == 5


def test_cumulative_products_overflow_where_numpys_do():
    # Products of the later ranks' elements alone overflowed.
    values = numpy.array([1e-300] * 3 + [1e100] * 9)[[0, 3, 4, 1, 5, 6, 2, 7, 8, 9, 10, 11]]
    with numpy.errstate(all="ignore"):
        expected = numpy.cumprod(values)
        numpy.testing.assert_allclose(np.cumprod(np.array(values)).numpy(), expected)


if sk.size() > 1:  # needs two members

    def test_different_functions_of_equal_shapes_are_an_error_on_all():
        # check_calls compared shapes alone.
        x = np.arange(1000.0)
        if x.layout.whole:
            pytest.skip("whole arrays say nothing to the other ranks")
        with pytest.raises(sk.InvalidError, match="differently"):
            x.max() if sk.rank() else x.sum()


def test_ten_thousand_whole_arrays_stay_below_a_bound():
    bound = xp.options()["whole_bytes"]
    before = _core.xp_bytes()[0]
    limit = before + (32 << 20)
    xp.options(sum_bytes=limit)
    kept = [np.full(128 + 7 * (turn % 1100), float(turn)) for turn in range(10_000)]
    held, total = _core.xp_bytes()[0], sum(x.nbytes for x in kept)
    assert total > 4 * (limit - before)
    if sk.size() > 1:
        assert held <= limit
        assert xp.options()["whole_bytes"] <= min(bound, 4096)
    for turn in range(0, 10_000, 997):
        assert kept[turn].layout.whole or kept[turn].nbytes > xp.options()["whole_bytes"]
        assert float(kept[turn].sum()) == turn * kept[turn].size
    both = kept[1099] + kept[2199]  # one is older than the bound
    assert (both.numpy() == 1099 + 2199).all()
    xp.options(sum_bytes=0, whole_bytes=bound)


def test_what_is_computed_late_counts_as_whole_too():
    """Results of 4 MiB and more were not counted: 64 ranks held 49 MiB each, with a bound of 32.
    Nor were they until somebody read them."""
    if sk.size() == 1:
        return
    before = xp.options()
    xp.options(whole_bytes=1 << 40)
    held = _core.xp_bytes()[0]
    late = np.full(1 << 20, 2.0) * 3.0
    assert _core.xp_bytes()[0] == held + late.nbytes
    assert (late.numpy() == 6.0).all()
    assert _core.xp_bytes()[0] == held + late.nbytes
    del late
    assert _core.xp_bytes()[0] == held
    xp.options(whole_bytes=before["whole_bytes"])


def test_one_rank_alone_may_read_the_options(monkeypatch):
    """It began to count anew after how many bytes all ranks meet: the others met without it."""
    before, met = xp.options(), []

    def meet(values):  # without the others, who may not come: so that the test ends
        met.append(values)
        return numpy.array([values])

    xp.options(whole_bytes=1 << 40, sum_bytes=8 << 20)
    with monkeypatch.context() as alone:
        alone.setattr(_exchange, "agree", meet)
        for turn in range(64):
            np.full(1 << 16, float(turn))
            if sk.rank() == 0:
                assert xp.options()["check_calls"] == 1
    assert len(met) == (0 if sk.size() == 1 else 32)  # a MiB is an eighth, and two arrays
    xp.options(**{name: before[name] for name in ("whole_bytes", "sum_bytes")})


def test_nodes_of_one_machine_share_its_memory(monkeypatch):
    """Each virtual node took a quarter of the free memory: eight would have taken twice of all."""
    if sk.size() == 1:
        return
    before = xp.options()
    monkeypatch.setattr(_options, "chosen", set())
    monkeypatch.setattr(_protected._kept, "spares", 2)  # which come to any machine
    _exchange._measure_bound(_exchange.job())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    machines = len(set(sk.allgather(numpy.array([_exchange._machine()])).ravel().tolist()))
    assert 4 * xp.options()["sum_bytes"] * (sk.size() + 2 * machines) <= memory * machines
    xp.options(**{name: before[name] for name in ("whole_bytes", "loop_bytes", "sum_bytes")})


def test_the_measured_bound_is_the_same_on_all_ranks(monkeypatch):
    if sk.size() == 1:
        return
    before, sync = xp.options(), sk.sync

    def held_up(group):
        if sk.rank() == 0:
            time.sleep(1e-3)
        sync(group)

    monkeypatch.setattr(sk, "sync", held_up)
    _exchange._measure_bound(_exchange.job())
    monkeypatch.undo()
    told = sk.allgather(numpy.array([xp.options()["whole_bytes"], *map(int, _exchange.costs)]))
    assert (told == told[0]).all()
    xp.options(**{name: before[name] for name in ("whole_bytes", "loop_bytes", "sum_bytes")})


def test_an_average_and_the_sum_of_its_weights_have_numpys_dtypes():
    # Weights along an axis kept their own dtype; float16 was refused.
    for of, by in itertools.product(
        "int8 int64 float16 float32 float64 complex64 bool".split(),
        ["int32", "float16", "float32", "float64", None],
    ):
        values = (numpy.arange(24).reshape(4, 6) % 7 + 1).astype(of)
        for axis, shape in ((None, (4, 6)), (0, (4, 6)), ((0, 1), (4, 6)), (0, 4), (1, 6)):
            weights = None if by is None else (numpy.ones(shape).cumsum(-1) % 5 + 1).astype(by)
            theirs = numpy.average(values, axis, weights, returned=True)
            taken = None if weights is None else np.asarray(weights)
            ours = np.average(np.asarray(values), axis, taken, returned=True)
            for got, expected in zip(ours, theirs, strict=True):
                got = got.numpy() if isinstance(got, xp.Array) else got
                assert got.dtype == expected.dtype and got.shape == expected.shape, (of, by, axis)
                assert numpy.allclose(got, expected, rtol=1e-2)


def test_the_larger_of_two_arrays_warns_of_nothing(recwarn):
    x = np.cos(np.arange(50_000.0))
    kept = np.maximum(x, 0.0)  # its memory is there for the next
    del kept
    large = np.cos(np.arange(600_000.0))
    assert float(np.maximum(x, 0.0).min()) == 0.0 == float(np.minimum(large, 0.0).max())
    assert not [each for each in recwarn if "positional" in str(each.message)]


def test_why_arrays_are_whole_is_told():
    assert "bytes" in xp.explain()


def reads(x, values):
    """Reads that are collective: of elements, and of rows in products."""
    total = 0.0
    for turn in range(100):
        i = turn % x.shape[0]
        total += float(x[i, 3]) + float(x[i, :5] @ numpy.ones(5))
        assert float(x[i, 0]) == values[i, 0]
    return total


def test_an_array_that_is_read_by_rows_becomes_whole():
    values = numpy.arange(20.0 * 300).reshape(20, 300)
    spread, kept = np.asarray(values), np.asarray(values)
    part, turned = spread[3:7, ::2], spread.T
    lazy = spread * 2
    xp.options(loop_bytes=values.nbytes * 3 // 2)
    assert reads(spread, values) == reads(kept, values) > 0
    if sk.size() > 1 and not kept.layout.whole:  # there was room for one
        assert spread.layout.whole
        assert xp.options(loop_bytes=0)["loop_bytes"] == 0
    spread[4, 6] = -1
    assert float(part[1, 3]) == -1 and float(turned[6, 4]) == -1
    part[0, 0] = 7
    assert float(spread[3, 0]) == 7
    assert float(lazy[4, 6]) == 2 * values[4, 6]
    numpy.testing.assert_array_equal(kept.numpy(), values)
    xp.options(loop_bytes=0)


def test_strictly_nothing_is_gathered_unsaid():
    """What would fail on several ranks fails on one, for who develops there."""
    x, target = np.arange(12.0), numpy.zeros(12)
    xp.options(strict=1)
    try:
        for use in (
            lambda: numpy.asarray(x),
            lambda: target.__setitem__(slice(None), x),
            lambda: numpy.from_dlpack(x),
            lambda: pickle.dumps(x),
        ):
            with pytest.raises(sk.GatherError):
                use()
        assert float(np.sum(x * 2)) == 132 and float(x[3]) == 3 and float(x.max()) == 11
        target[:] = x.numpy()
        assert target[5] == 5 and numpy.asarray(x.sum()) == 66
    finally:
        xp.options(strict=0)


def test_who_knows_its_part_keeps_it():
    values = numpy.arange(20.0 * 300).reshape(20, 300)
    xp.options(loop_bytes=1 << 20)
    opened, placed = np.asarray(values), np.asarray(values)
    if sk.rank() == 0:  # neither is collective
        opened.local  # noqa: B018
        placed.bounds  # noqa: B018
    before = opened.layout, placed.layout
    assert reads(opened, values) == reads(placed, values)
    assert (opened.layout, placed.layout) == before
    xp.options(loop_bytes=0)


def test_views_without_elements_do_not_keep_an_array_divided():
    values = numpy.arange(20.0 * 300).reshape(20, 300)
    xp.options(loop_bytes=1 << 20)
    spread = np.asarray(values)
    nothing = spread[5:5]
    none = nothing[:, 3:]
    reads(spread, values)
    assert spread.layout.whole and none.shape == (0, 297)
    xp.options(loop_bytes=0)


def test_one_thread_uses_divided_arrays():
    """Bug guarded against: two threads of a rank in one exchange, and a crash of the process."""
    x, found = np.arange(3000.0), []

    def work(y):
        try:
            found.append(float(y.sum()))
        except sk.InvalidError as error:
            found.append(str(error))

    total = float(x.sum())
    for again in range(3):
        threads = [threading.Thread(target=work, args=(x,), name=f"t{k}") for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if x.layout.whole:
        assert found == [total] * 6
    else:
        assert len(found) == 6 and all("one thread makes all such calls" in f for f in found)
    assert float(x.sum()) == total


def test_a_view_of_one_rank_that_cannot_follow_is_an_error_on_all():
    x = np.arange(36.0).reshape(6, 6).copy()
    if not x.layout.whole:
        return
    kept = np.diagonal(x) if sk.rank() == 0 else None
    with pytest.raises(sk.InvalidError, match="no slice|refused"):
        x.array  # noqa: B018
    del kept
    assert sk.allreduce(1) == sk.size()


def test_a_product_of_a_stack_and_one_matrix_repeats_nothing():
    # The matrix was copied once for each entry of the stack: here to 470 MB.
    n, k = 120, 64
    a = numpy.arange(float(n * n * k)).reshape(n, n, 1, k) % 7
    b = numpy.arange(float(k * k)).reshape(k, k) % 5
    stack, matrix = np.array(a), np.array(b)
    tracemalloc.start()
    got = np.matmul(stack, matrix)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert got.shape == (n, n, 1, k) and (got.numpy() == a @ b).all()
    got[0, 0] = 1  # a new array
    columns = a[:3, 0].reshape(3, k, 1)
    several = np.array(a[:2, None, :3, 0]) @ np.array(columns)  # both stacks are repeated
    assert (several.numpy() == a[:2, None, :3, 0] @ columns).all()


def test_a_long_inner_axis_is_not_collected():
    # x.T @ y with x whole and y divided brought all of y to every rank.
    n = 300_000
    x = numpy.arange(2.0 * n).reshape(n, 2) % 3
    y = numpy.arange(8.0 * n).reshape(n, 8) % 11
    before = xp.options()["whole_bytes"]
    xp.options(whole_bytes=1 << 40)
    few = np.array(x)
    xp.options(whole_bytes=0)
    many = np.array(y)
    read = xp.counters()["bytes_read"]
    got = few.T @ many
    assert xp.counters()["bytes_read"] - read < y.nbytes / 100
    xp.options(whole_bytes=before)
    assert (got.numpy() == x.T @ y).all()


def test_a_chain_that_is_added_in_place_has_no_block_of_its_own():
    # It had one as long as the statement ran: a += b + c took 2 to 4 times NumPy's time.
    a, b, c = (np.ones(1 << 22) for _ in range(3))  # a chain, whatever the machine's caches
    tracemalloc.start()
    a += b + c
    a[:] = a * 2 - b
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert a.tolist()[:2] == [5, 5] and float(a.sum()) == 5 << 22
    if a.layout.whole:  # a divided one still has
        assert peak < 16e6


def test_a_result_may_take_the_memory_of_an_operand_that_nobody_has():
    a = numpy.arange(1_200_000.0) % 1000
    x = np.array(a)
    y = np.clip(x, 2, 10)
    kept = y * 4  # y has a name
    gone = np.clip(x, 3, 11) * 4 + 1
    twice = np.sqrt(np.clip(x, 3, 11) * np.clip(x, 3, 11))
    assert (y.numpy() == numpy.clip(a, 2, 10)).all()
    assert (kept.numpy() == numpy.clip(a, 2, 10) * 4).all()
    assert (gone.numpy() == numpy.clip(a, 3, 11) * 4 + 1).all()
    assert (twice.numpy() == numpy.sqrt(numpy.clip(a, 3, 11) ** 2)).all()
    chosen = np.where(np.clip(x, 3, 11) > 5, np.clip(x, 0, 8), np.clip(x, 4, 6))
    expected = numpy.where(numpy.clip(a, 3, 11) > 5, numpy.clip(a, 0, 8), numpy.clip(a, 4, 6))
    assert (chosen.numpy() == expected).all()
    with numpy.errstate(divide="raise"):
        bad = np.clip(x, 0, 10) / 0.5
        assert (bad.numpy() == numpy.clip(a, 0, 10) / 0.5).all()


def test_an_operator_writes_into_an_operand_that_nobody_names():
    # Each inner result of a line took memory of its own: a stencil took 1.2 times NumPy's time.
    values = numpy.arange(40000.0)
    x, y = np.array(values), np.array(values + 1)
    z = x + y
    w = z * 2 - (x * y) / (y + 1) + 0.5 * (z - x)
    expected = 2 * (2 * values + 1) - values * (values + 1) / (values + 2) + 0.5 * (values + 1)
    assert numpy.allclose(w.numpy(), expected)
    assert numpy.array_equal(z.numpy(), 2 * values + 1)
    assert numpy.array_equal(y.numpy(), values + 1) and numpy.array_equal(x.numpy(), values)
    kept = [x * 1.0, y * 1.0]  # have a name in a list
    total = functools.reduce(operator.add, kept)
    assert numpy.array_equal(total.numpy(), 2 * values + 1)
    assert numpy.array_equal((kept[0] * kept[1]).numpy(), values * (values + 1))
    assert numpy.array_equal(kept[0].numpy(), values)
    part = (x + y)[3:]  # a view has the memory
    assert numpy.array_equal((part * 2 + part).numpy(), 3 * (2 * values + 1)[3:])
    if x.layout.whole and sys.version_info[:2] in ((3, 11), (3, 12), (3, 13)):
        objects = numpy.empty(1, object)
        objects[0] = x * 1.0  # whose functions in C have no reference of their own
        objects * 2
        with pytest.raises(RuntimeError, match="second reference"):
            objects[0] + 1
        objects[0] = x * 1.0
        with numpy.errstate(all="raise"), pytest.raises(FloatingPointError):
            objects / 0  # raises when it has written
        with pytest.raises(RuntimeError, match="second reference"):
            objects[0] + 1


def test_a_number_of_numpys_stands_on_the_left():
    values = numpy.arange(6.0).reshape(2, 3)
    x = np.array(values)
    for number in (numpy.float64(2), numpy.float32(3), numpy.int64(4), numpy.complex128(1j)):
        for function in (operator.mul, operator.sub, operator.truediv, divmod):
            if function is divmod and number.dtype.kind == "c":
                continue
            got, expected = function(number, x + 1), function(number, values + 1)
            for ours, theirs in zip(*((r if function is divmod else (r,)) for r in (got, expected)),
                                    strict=True):  # fmt: skip
                assert isinstance(ours, xp.Array) and ours.dtype == theirs.dtype
                assert numpy.array_equal(ours.numpy(), theirs)
    assert isinstance(numpy.add(x, [[1, 2, 3]]), xp.Array)


def test_operators_of_the_interpreter_are_left_to_the_array():
    values = numpy.arange(1.0, 7).reshape(2, 3)
    x, row = np.array(values), numpy.arange(1.0, 4)
    for given in (numpy.float64(2), numpy.longdouble(2), numpy.int64(3), row, row.astype(int)):
        pairs = [
            (given + x, given + values), (given - x, given - values), (given * x, given * values),
            (given / x, given / values), (given // x, given // values),
            (given % x, given % values), (given**x, given**values), (given < x, given < values),
        ]  # fmt: skip
        for ours, theirs in pairs:
            assert isinstance(ours, xp.Array) and numpy.array_equal(ours.numpy(), theirs)
    ours, theirs = numpy.int8(3) & x.astype(int), numpy.int8(3) & values.astype(int)
    assert ours.dtype == theirs.dtype and numpy.array_equal(ours.numpy(), theirs)
    assert numpy.array_equal((row @ x.T).numpy(), row @ values.T)
    # In place NumPy writes its own array, which stays one.
    changed = row.copy()
    name = changed
    if x.layout.whole:
        changed *= x[0]
    else:
        with pytest.raises(sk.GatherError):
            changed *= x[0]
    assert changed is name
    assert numpy.array_equal(changed, row * values[0] if x.layout.whole else row)
    number = numpy.float64(2)
    number *= x
    assert numpy.array_equal(number.numpy(), 2 * values)
    # Each number has its own dtype; in place the array keeps its.
    single, theirs = np.asarray(values, dtype=np.float32), values.astype(numpy.float32)
    for given in (numpy.float64(0.1), numpy.float32(3), numpy.int16(2), numpy.True_):
        assert (single * given).dtype == (theirs * given).dtype
        single *= given
        theirs *= given
        assert single.dtype == numpy.float32 and numpy.array_equal(single.numpy(), theirs)
    with pytest.raises(TypeError):
        single += numpy.complex64(1j)
    assert float(np.add(numpy.float64(1), numpy.int8(2))) == 3


def test_elements_and_rows_come_from_their_owners():
    a = numpy.arange(3000.0).reshape(60, 50)
    x, turned = np.array(a), np.array(a.T).T  # rows and columns are divided
    for m in (x, turned, x[::-1, 3:]):
        whole = m.numpy()
        for i, j in ((0, 0), (-1, -1), (31, 7), (m.shape[0] - 1, 20)):
            assert m[i, j] == whole[i, j] and type(m[i, j]) is numpy.float64
        for i in (0, 17, -1):
            assert float(m[i] @ np.ones(m.shape[1])) == whole[i].sum()
            assert float(m[i, :9] @ np.ones(9)) == whole[i, :9].sum()
            assert float(m[:, i] @ np.ones(m.shape[0])) == whole[:, i].sum()
    with pytest.raises(IndexError):
        x[60, 0]


def test_partial_results_are_combined_alike_on_all_ranks():
    # Ranks without elements take part too.
    a = numpy.array([[3.0, -1.0, numpy.nan], [2.0, 5.0, 1.0]])
    x, y = np.array(a), np.array(a[:1, :2])
    for z, b in ((x, a), (y, a[:1, :2]), (x[1:], a[1:])):
        for name in "sum prod max min mean any all argmax".split():
            for axis in (None, 0, 1):
                got, wanted = getattr(np, name)(z, axis=axis), getattr(numpy, name)(b, axis=axis)
                numpy.testing.assert_array_equal(getattr(got, "numpy", lambda g=got: g)(), wanted)
    whole = np.arange(10**5).sum(), np.arange(1000.0) @ np.arange(1000.0)
    assert whole == (numpy.arange(10**5).sum(), numpy.arange(1000.0) @ numpy.arange(1000.0))


@pytest.mark.parametrize("shape", [(7,), (40, 3), (1, 50), (2, 3, 31)])
def test_a_large_array_is_collected_a_part_at_a_time(shape, monkeypatch):
    monkeypatch.setattr(_array, "_PIECE_BYTES", 64)
    a = numpy.arange(float(numpy.prod(shape))).reshape(shape)
    x = np.array(a)
    for got, wanted in ((x, a), (x.T, a.T), (x[1:], a[1:]), (x[..., ::-2], a[..., ::-2])):
        assert (got.numpy() == wanted).all()


def test_an_array_that_is_used_by_columns_becomes_whole():
    """A column lies on all ranks, so nothing is exchanged for it, but each turn of the loop costs
    more than on a whole array."""
    values = numpy.cos(numpy.arange(400.0 * 300)).reshape(400, 300)
    source, out = np.asarray(values), np.zeros((400, 300))
    expected = numpy.zeros((400, 300))
    xp.options(loop_bytes=4 * values.nbytes)
    for module, a, b in ((np, source, out), (numpy, values, expected)):
        for turn in range(12):
            b[:, 0] = 0.5 * a[:, turn]
            for j in range(1, a.shape[1]):
                b[:, j] = 0.25 * a[:, j] + b[:, j - 1] * 0.5
    numpy.testing.assert_array_equal(out.numpy(), expected)
    assert source.layout.whole and out.layout.whole
    xp.options(loop_bytes=0)


def test_an_array_like_one_that_became_whole_is_whole():
    values = numpy.cos(numpy.arange(400.0 * 300)).reshape(400, 300)
    x = np.array(values)
    assert x.layout.whole == (sk.size() == 1 or xp.options()["whole_bytes"] > 0)
    before = xp.options()["whole_bytes"]
    xp.options(loop_bytes=4 * values.nbytes)
    total = 0.0
    for turn in range(12):
        for j in range(x.shape[1]):
            total = x[:, j] * 2.0 + total
    assert x.layout.whole and numpy.allclose(total.numpy(), 24 * values.sum(axis=1))
    for bound, whole in ((values.nbytes // 16, True), (values.nbytes // 17, False)):
        xp.options(whole_bytes=bound)
        for y in (np.empty_like(x), np.zeros_like(x), x.copy(), np.sort(x, axis=0)):
            assert y.layout.whole == (whole or sk.size() == 1)
        assert np.zeros(x.shape).layout.whole == (sk.size() == 1)
        assert numpy.array_equal(np.sort(x, axis=0).numpy(), numpy.sort(values, axis=0))
    xp.options(loop_bytes=0, whole_bytes=before)


def products(data, out):
    """A symmetric matrix by rows and columns, as a program for NumPy makes it."""
    for i in range(out.shape[0]):
        out[i:, i] = out[i, i:] = data[:, i] @ data[:, i:] / 179.0


def test_an_array_that_is_written_by_rows_and_columns_becomes_whole():
    """What is written is whole, a small result: this was not counted."""
    values = numpy.cos(numpy.arange(180.0 * 150)).reshape(180, 150)
    if xp.options()["whole_bytes"] == 0:
        xp.options(whole_bytes=4096)
    data, out, expected = np.asarray(values), np.zeros((150, 150)), numpy.zeros((150, 150))
    xp.options(loop_bytes=4 * values.nbytes)
    products(data, out)
    products(values, expected)
    numpy.testing.assert_allclose(out.numpy(), expected, atol=1e-12)
    assert out.layout.whole
    xp.options(loop_bytes=0)


def a_loop(x, steps):
    """Elements that a program reads one after another, whatever a key is written as."""
    n = x.shape[0]
    total = [x[i, i] for i in range(0, n)]
    total += [x[n - 1 - i, -1] for i in range(n)]
    total += [x[i % n, 3] for i in range(0, 3 * n, 2)]
    steps(x)
    return total + [x[i, 2] for i in range(n)]


def test_elements_that_a_loop_reads_come_before_they_are_asked_for():
    values = numpy.arange(300.0 * 301).reshape(300, 301) % 1000
    x = np.asarray(values)

    def nothing(a):
        assert a.shape == (300, 301)

    before = xp.counters()["exchanges"]
    assert a_loop(x, nothing) == a_loop(values, nothing)
    assert xp.counters()["exchanges"] - before < 300
    got = x[5, 5]
    assert isinstance(got, numpy.float64)


def test_an_element_that_was_read_ahead_is_not_an_old_one():
    values = numpy.arange(5000.0)
    x, view = np.asarray(values.copy()), None
    other = np.asarray(values * 2)
    view = x[10:]
    writes = [
        lambda a, v, o: a.__setitem__(slice(None), o),
        lambda a, v, o: v.__setitem__(slice(3, None, 2), -1.0),
        lambda a, v, o: a.__iadd__(o),
        lambda a, v, o: numpy.add.at(a, [40, 41, 2000], 5.0),
        lambda a, v, o: numpy.put(a, [50, 4000], 7.0),
        lambda a, v, o: numpy.multiply(o, 3.0, out=a),
        lambda a, v, o: a.sort(),
        lambda a, v, o: a.__setitem__(o > 100.0, 0.5),
        lambda a, v, o: v.__setitem__(20, 9.0),
        lambda a, v, o: a.fill(4.0),
    ]
    expected = values.copy()
    for write in writes:
        for i in range(0, 60):
            assert x[i] == expected[i]
        write(x, view, other)
        write(expected, expected[10:], values * 2)
        for i in range(20, 120):
            assert x[i] == expected[i], i
    for turn in range(40):  # each reads what the one before wrote
        x[turn + 1] = x[turn] + 1
        expected[turn + 1] = expected[turn] + 1
    numpy.testing.assert_array_equal(x.numpy(), expected)


def test_own_parts_that_the_program_writes_are_seen_after_a_sync():
    x = np.asarray(numpy.arange(4000.0))
    for i in range(100):
        assert x[i] == i
    low, high = x.bounds[0]  # not collective
    x.local[...] = numpy.arange(low, high) + 0.5
    sk.sync()
    for i in range(100):
        assert x[i] == i + 0.5
    x.local[...] = numpy.arange(low, high)
    sk.sync()
    assert x[50] == 50 and x[3999] == 3999


def solved(module, lower, b):
    """A triangular system by rows, as one writes it for NumPy."""
    x = module.zeros(lower.shape[0])
    for i in range(lower.shape[0]):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


def test_an_array_of_a_node_becomes_whole_without_a_copy(monkeypatch):
    """The loop reads each element once. To copy the array to all ranks took ten times as long as
    NumPy takes for the loop."""
    monkeypatch.setattr(_pages, "LEAST_BYTES", 1)
    n = 311
    values = numpy.tril(numpy.cos(numpy.arange(float(n * n)).reshape(n, n))) + numpy.eye(n) * n
    xp.options(loop_bytes=8 * values.nbytes)
    lower, b = np.asarray(values), np.asarray(numpy.arange(float(n)))
    part, turned, lazy = lower[5:300:7, 3:], lower.T, lower * 2
    divided = not lower.layout.whole
    rows = [box[0] for box in lower.layout.boxes]
    lower[7, :] *= 3.0  # what ranks wrote before is seen
    values[7, :] *= 3.0
    before = xp.counters()["bytes_read"]
    found = solved(np, lower, b)
    read = xp.counters()["bytes_read"] - before
    numpy.testing.assert_allclose(found.numpy(), solved(numpy, values, numpy.arange(float(n))))
    if divided:  # ranks of other nodes send theirs
        far = [not sk.same_node(rank) for rank in range(sk.size())]
        least = sum((high - low) * n * 8 for low, high in itertools.compress(rows, far))
        most = values.nbytes / (2 if any(far) else 4)  # with rows, and what is shown by the node's
        assert lower.layout.whole and least <= read < least + most
    # What is written is written on every rank, and in views.
    lower[n // 2 : n // 2 + 9] = 5.0
    values[n // 2 : n // 2 + 9] = 5.0
    part[0, 0] = -1.0
    values[5, 3] = -1.0
    numpy.testing.assert_array_equal(lower.numpy(), values)
    numpy.testing.assert_array_equal(turned.numpy(), values.T)
    assert float(lazy[n // 2, 3]) != 10.0 and float(part[0, 0]) == -1.0
    xp.options(loop_bytes=0)


def test_a_loop_over_rows_is_taken_to_go_on(monkeypatch):
    """An array became whole when the rows that were read had cost as much, if all were read."""
    monkeypatch.setattr(_exchange, "costs", (1e-4, 4e9))
    monkeypatch.setattr(_exchange, "read_costs", (1e-5, 1e-5, 1e9))
    values = numpy.cos(numpy.arange(2000.0 * 300)).reshape(2000, 300)
    xp.options(loop_bytes=8 * values.nbytes)
    if xp.options()["whole_bytes"] == 0:
        xp.options(whole_bytes=4096)  # a row
    ordered, back, jumping = (np.asarray(values) for _ in range(3))
    b = np.asarray(numpy.ones(300))
    if sk.size() == 1 or ordered.layout.whole:
        xp.options(loop_bytes=0)
        return
    for i in range(63):  # the array takes 4.8 ms, and a row 40 us: 120 rows
        assert numpy.allclose(ordered[i] @ b, values[i].sum())
        assert numpy.allclose(back[-1 - i] @ b, values[-1 - i].sum())
        j = i * i % 2000
        assert numpy.allclose(jumping[j] @ b, values[j].sum())
    assert ordered.layout.whole and back.layout.whole and not jumping.layout.whole
    short = np.asarray(values)
    for turn in range(10):  # there are no more rows to come
        for i in range(1995, 2000):
            short[i] @ b
    assert not short.layout.whole
    xp.options(loop_bytes=0)


def test_blocks_that_are_mapped_in_a_row_meet_within_pages():
    """Blocks end anywhere in a page, and may be smaller than one, or empty."""
    sizes = [5003, 1, 0, 3 << 20, 77, 2]
    data = numpy.arange(sum(sizes)).astype(numpy.uint8)
    ends = numpy.cumsum(sizes).tolist()
    alive = _pages.Pages.count
    blocks = [_pages.Pages(max(n, 1), end - n) for n, end in zip(sizes, ends, strict=True)]
    for pages, n, end in zip(blocks, sizes, ends, strict=True):
        pages.bytes[:n] = data[end - n : end]
    whole = _pages.joined([(p.name(), n) for p, n in zip(blocks, sizes, strict=True)])
    numpy.testing.assert_array_equal(whole, data)
    whole[:] = 255  # nobody else sees it
    assert (blocks[3].bytes == data[ends[2] : ends[3]]).all()
    assert blocks[3].holds(blocks[3].bytes) and not blocks[3].holds(blocks[3].bytes[1:])
    with pytest.raises(OSError, match="another file"):  # a number that means another file here
        _pages.joined([((*blocks[0].name()[:2], 1), 5003)])
    del blocks, pages
    assert _pages.Pages.count == alive and (whole == 255).all()


def test_sorting_sends_values_and_no_places():
    x = numpy.cos(numpy.arange(40001.0))
    x[::100], x[50::100] = 0.0, -0.0
    x[7::1000] = numpy.nan
    a = np.asarray(x)
    before = xp.counters()["bytes_read"]
    got = np.sort(a, kind="stable")
    assert int(sk.allreduce(xp.counters()["bytes_read"] - before)) < 1.1 * x.nbytes + 10**5
    expected = numpy.sort(x, kind="stable")
    numpy.testing.assert_array_equal(got.numpy(), expected)
    numpy.testing.assert_array_equal(numpy.signbit(got.numpy()), numpy.signbit(expected))
    order = np.argsort(a, kind="stable")
    numpy.testing.assert_array_equal(order.numpy(), numpy.argsort(x, kind="stable"))
    few = np.asarray(numpy.arange(10**5) % 37)
    numpy.testing.assert_array_equal(
        np.argsort(few, kind="stable").numpy(), numpy.argsort(few.numpy(), kind="stable")
    )
    before = xp.counters()["bytes_read"]
    assert np.unique(few).tolist() == list(range(37))
    assert int(sk.allreduce(xp.counters()["bytes_read"] - before)) < few.nbytes // 2
    values, counts = np.unique(few, return_counts=True)
    assert values.tolist() == list(range(37))
    assert counts.tolist() == numpy.bincount(numpy.arange(10**5) % 37).tolist()


def test_ranges_of_values_are_merged_and_equal_ones_stay_in_order():
    dice = numpy.random.default_rng(2)
    zeros = numpy.array([1.0, -0.0, 0.0, 2.0] * 50)
    nan = numpy.where(dice.random(900) < 0.1, numpy.nan, dice.random(900))
    one = dice.random(90)
    one[70] = -numpy.nan
    cases = [
        one, dice.random(900), -dice.random(900), dice.random(900).astype(">f8"), numpy.ones(300),
        numpy.array([3.0, 1.0]), dice.integers(-4, 5, 900), dice.integers(0, 9, 900).astype("f4"),
        zeros, nan, dice.integers(0, 2**63, 900).astype("u8"),
    ]  # fmt: skip
    for kind in "?bBhHiIqQfdFD":
        cases += [dice.integers(0, 2 + most, 3000).astype(kind) for most in (0, 98)]
    for values in cases:
        x = np.array(values)
        kind = None if x.layout.whole else "stable"  # whole: NumPy's own
        assert np.sort(x).dtype == values.dtype
        assert np.sort(x).numpy().tobytes() == numpy.sort(values, kind=kind).tobytes()
        assert x.numpy().tobytes() == values.tobytes()  # it was sorted in a copy
        numpy.testing.assert_array_equal(np.unique(x).numpy(), numpy.unique(values))


def test_views_as_another_dtype_share_memory_and_bytes_are_swapped():
    values = numpy.arange(60.0).reshape(6, 10)
    x = np.asarray(values)
    bits, same = x.view(numpy.int64), x.view()
    assert bits.dtype == numpy.int64 and bits.shape == (6, 10)
    bits[2, 3] = 0
    same[4, 4] = -1.0
    assert float(x[2, 3]) == 0.0 and float(x[4, 4]) == -1.0
    swapped = x.byteswap()
    numpy.testing.assert_array_equal(swapped.numpy(), x.numpy().byteswap())
    assert float(x[1, 1]) == 11.0
    x.byteswap(True)
    numpy.testing.assert_array_equal(x.numpy(), swapped.numpy())
    if not x.layout.whole:
        with pytest.raises(sk.GatherError, match="same size"):
            x.view(numpy.int32)


def test_all_ranks_multiply_a_corner_of_a_matrix(monkeypatch):
    """A quarter of a matrix may lie on one rank of two, which multiplied alone."""
    values = numpy.cos(numpy.arange(200.0 * 200)).reshape(200, 200)
    x, multiply, done = np.asarray(values), numpy.matmul, []

    def counted(a, b, **options):
        done.append(a.shape[0] * a.shape[1] * b.shape[1])
        return multiply(a, b, **options)

    monkeypatch.setattr(numpy, "matmul", counted)
    product = x[:100, :100] @ x[:100, :100]
    most = int(sk.allreduce(sum(done), "max"))
    monkeypatch.undo()
    if not x.layout.whole:
        assert most * sk.size() < 1.1 * 100**3
    numpy.testing.assert_allclose(product.numpy(), values[:100, :100] @ values[:100, :100])


def test_a_product_of_whole_matrices_meets_nobody():
    """Each rank computes all of it: one alone may."""
    with_whole = xp.options()["whole_bytes"] != 0
    a = np.asarray(numpy.cos(numpy.arange(400.0 * 400)).reshape(400, 400))
    if with_whole and sk.rank() == 0:
        numpy.testing.assert_allclose((a @ a).numpy(), a.numpy() @ a.numpy())


def test_a_view_of_another_dtype_is_no_slice():
    """Its array became an sk.Array, and the view was one of numbers then."""
    x = np.ones(4)
    bits = x.view("int64")
    if x.layout.whole:
        with pytest.raises(sk.InvalidError, match="another dtype"):
            x.array  # noqa: B018
    assert bits.dtype == "int64" and int(bits[0]) == 4607182418800017408


def test_unique_joins_dates_that_are_none():
    values = numpy.array(["2020", "NaT", "2021", "NaT"] * 1000, "M8[s]")
    assert np.unique(np.array(values)).size == numpy.unique(values).size == 3


def test_a_divided_array_has_no_view_with_fields():
    z = np.asarray(numpy.zeros(4000, complex))
    if not z.layout.whole:
        with pytest.raises(sk.GatherError, match="numbers of the same size"):
            z.view([("re", "f8"), ("im", "f8")])


@pytest.mark.parametrize("backwards", [*itertools.product([1, -1], repeat=3)])
def test_the_key_of_a_view_is_found_whichever_way_the_axes_run(backwards):
    """A slice of a flipped view was no slice: a recovery ended there, and values went stale."""
    memory = numpy.zeros((4, 6, 5))
    block = memory[tuple(slice(None, None, step) for step in backwards)]
    slices = [slice(None), slice(1, None, 2), slice(None, 0, -1), 2, slice(1, 2)]
    for cut in itertools.product(slices, repeat=3):
        part = block[cut].transpose()
        if not part.ndim:
            continue
        key, axes = _storage._key_of(part, block)
        taken = tuple(
            slice(i[0], i[0] + i[1] * i[2] if i[0] + i[1] * i[2] >= 0 else None, i[2])
            if isinstance(i, tuple)
            else i
            for i in key
        )
        again = block[taken].transpose(axes)
        assert again.shape == part.shape, (cut, key)
        for n, one, other in zip(part.shape, again.strides, part.strides, strict=True):
            assert n == 1 or one == other, (cut, key)
        address = again.__array_interface__["data"][0]
        assert address == part.__array_interface__["data"][0], (cut, key)


def products_of_columns(x):
    """As programs write them: columns, rows and blocks of a matrix."""
    n = x.shape[1]
    yield from (x[:, i] @ x[:, i:] for i in range(0, n, 7))
    yield from (x[i:, :] @ x[i] for i in range(0, n, 7))
    yield from (x[:, i] @ x[:, i] for i in range(0, n, 7))
    yield from (x[0, :0] @ x[0, :0], x[:9, :0] @ x[:0], x[0, :0] @ x[:0])
    yield x.T @ x[:, :5]
    yield x.reshape(2, -1, n) @ x[0]


def test_products_of_whole_arrays_are_numpys_without_a_call_of_python():
    """Those of more than 8,192 elements were planned in Python on several ranks: a program of 500
    products of a column with a matrix of 2 MB took 3 times NumPy's time."""
    values = numpy.cos(numpy.arange(180.0 * 150)).reshape(180, 150)
    x, calls = np.asarray(values), []
    pairs = [(x[:, 3], x[:, 3:]), (x[0], x[0]), (x[0, :0], x[0, :0]), (x[:9, :0], x[:0])]
    sys.setprofile(lambda frame, event, _: event == "call" and calls.append(frame.f_code.co_name))
    try:
        for left, right in pairs:
            operator.matmul(left, right)
    finally:
        sys.setprofile(None)
    if x.layout.whole:
        assert not calls
    for got, expected in zip(products_of_columns(x), products_of_columns(values), strict=True):
        if x.layout.whole:
            assert numpy.array_equal(numpy.asarray(got), expected)  # the same bits
        numpy.testing.assert_allclose(
            got.numpy() if isinstance(got, np.ndarray) else got, expected, atol=1e-11
        )


def test_a_large_product_of_whole_factors_is_divided():
    """Each rank computes its rows of it alone."""
    values = numpy.cos(numpy.arange(64.0 * 3)).reshape(64, 3)
    x = np.asarray(values)
    before = xp.options()["whole_bytes"]
    xp.options(whole_bytes=values.nbytes)
    out = x @ x.T
    assert out.layout.whole == (sk.size() == 1)
    numpy.testing.assert_allclose(out.numpy(), values @ values.T, atol=1e-12)
    xp.options(whole_bytes=before)


def test_whether_a_reshape_is_a_copy_is_the_same_on_all_ranks():
    # A rank with one row, or with none, had a view where those with several rows had a copy.
    def outcome(call):
        try:
            call()
        except ValueError as error:
            return str(error)
        return ""

    made = (
        lambda: np.arange(24.0).reshape(2, 3, 4),
        lambda: np.arange(48.0).reshape(4, 12)[:, :6],
        lambda: np.arange(24.0).reshape(6, 4).T,
    )
    for make in made:
        for shape in ((24,), (12, 2), (4, 6, 1), (2, 12), (-1, 3)):
            x = make()
            if sk.rank() == 0:
                x.local.sum()  # of this rank alone
            told = [outcome(lambda: x.reshape(shape, copy=False))]  # noqa: B023
            y = x.reshape(shape)
            told += [outcome(lambda: y.fill(3.0)), repr(float(x.sum()))]  # noqa: B023
            mine = numpy.array([zlib.crc32(repr(told).encode())])
            assert (sk.allgather(mine) == mine).all(), told
