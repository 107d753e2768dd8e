"""Arrays: patches, collectives, and what is refused."""

import gc

import numpy as np
import pytest

import skerry as sk


def test_get_returns_what_owners_wrote(filled, numbers, mirrored, dtype):
    a, x = filled(23, 17, dtype=dtype, mirrored=mirrored), numbers(23, 17, dtype=dtype)
    assert (
        a.dtype == x.dtype
        and a.shape == x.shape
        and a.nbytes == x.nbytes
        and len(a) == 23
        and a.ndim == 2
    )
    assert a.mirrored == mirrored
    for patch in (
        np.s_[3:20, 2:15],
        np.s_[:, 4],
        np.s_[7],
        np.s_[5:6, :],
        np.s_[-4:, -3:-1],
        np.s_[...],
        np.s_[..., 3],
        np.s_[4:4, :],
    ):
        got = a.get(patch)
        assert got.dtype == x.dtype and got.shape == x[patch].shape
        np.testing.assert_array_equal(got, x[patch])
        np.testing.assert_array_equal(a[patch], x[patch])
    np.testing.assert_array_equal(a.get(((2, 9), (0, 17))), x[2:9])
    np.testing.assert_array_equal(a.get(), x)
    assert a[22, 16] == x[22, 16] and isinstance(a[22, 16], float if dtype.startswith("f") else int)


def test_making_arrays_as_numpy_does(mirrored):
    for ours, theirs in (
        (sk.zeros((5, 4), mirrored=mirrored), np.zeros((5, 4))),
        (sk.zeros(7, "int32", mirrored=mirrored), np.zeros(7, "int32")),
        (sk.ones((3, 9), "float32", mirrored=mirrored), np.ones((3, 9), "float32")),
        (sk.full((4, 4), 2.5, mirrored=mirrored), np.full((4, 4), 2.5)),
        (sk.full(6, 3, mirrored=mirrored), np.full(6, 3)),
        (sk.full(6, 3, "float32", mirrored=mirrored), np.full(6, 3, "float32")),
        (sk.full(6, np.float32(3), mirrored=mirrored), np.full(6, np.float32(3))),
    ):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert ours.mirrored == mirrored
        np.testing.assert_array_equal(ours.get(), theirs)
    made = sk.empty((6, 6), "int64", mirrored=mirrored)
    assert made.shape == (6, 6) and made.dtype == "int64" and made.mirrored == mirrored
    with pytest.raises(TypeError, match="positional"):
        sk.zeros((2, 2), "float64", None)  # options have names
    with pytest.raises(TypeError, match="whole number"):
        sk.full((2, 2), 0.5, "int64")
    with pytest.raises(AttributeError, match="zeros.*asarray"):
        sk.array((2, 2))


def test_asarray_takes_what_numpy_takes(numbers, mirrored, dtype):
    x = numbers(13, 7, dtype=dtype)
    a = sk.asarray(x, mirrored=mirrored)
    assert a.dtype == x.dtype and a.mirrored == mirrored
    np.testing.assert_array_equal(a.get(), x)
    assert sk.asarray(a) is a and sk.asarray(a, dtype) is a
    np.testing.assert_array_equal(sk.asarray(x.T[::2]).get(), x.T[::2])
    assert sk.asarray([1, 2, 3]).dtype == "int64"
    np.testing.assert_array_equal(sk.asarray([[1, 2], [3, 4]], "float32").get(), [[1, 2], [3, 4]])
    with pytest.raises(sk.InvalidError, match="copy_to"):
        sk.asarray(a, grid=(1, 1))
    with pytest.raises(sk.DtypeError, match="as it is"):
        sk.asarray(a, "int32" if dtype != "int32" else "int64")
    assert sk.asarray([True, False]).dtype == "bool"
    with pytest.raises(sk.DtypeError, match="float16"):
        sk.asarray(np.zeros(2, "float16"))
    with pytest.raises(sk.InvalidError, match="1 to 7 dimensions"):
        sk.asarray(3.0)


def test_like_keeps_shape_dtype_distribution_and_group(filled, mirrored):
    irregular = sk.Irregular([0, 3, 4, 11, 18], [0, 9])
    for options in {"distribution": irregular}, {"grid": (1, sk.size())}, {}:
        if mirrored and "grid" in options:
            continue
        a = filled(25, 12, dtype="int32", mirrored=mirrored, **options)
        for b, value in (
            (sk.zeros_like(a), 0),
            (sk.ones_like(a), 1),
            (sk.full_like(a, 5), 5),
            (sk.empty_like(a).fill(9), 9),
        ):
            assert b.shape == a.shape and b.dtype == a.dtype and b.mirrored == a.mirrored
            assert b.grid == a.grid and b.block_starts == a.block_starts
            assert (b.get() == value).all()
    assert sk.zeros_like(a, "float64").dtype == "float64"
    assert sk.zeros_like(a, mirrored=not mirrored).mirrored != mirrored
    c = sk.zeros_like(np.ones((3, 5), "float32"))
    assert c.shape == (3, 5) and c.dtype == "float32" and not c.mirrored
    half = sk.world().split(sk.rank() % 2)
    d = sk.ones((4, 4), group=half)
    e = sk.zeros_like(d)
    assert e.group.ranks == half.ranks
    e.free()
    d.free()
    half.free()


def test_nothing_gathers_silently():
    """NumPy would fetch a row at a time over the network, for each of these, on every rank."""
    a = sk.ones((4, 4))
    before = sk.counters()["array_gets"]
    refused = {
        "asarray": lambda: np.asarray(a),
        "array of it": lambda: np.array(a, dtype="float32"),
        "ufunc": lambda: np.add(a, 1),
        "operator": lambda: np.ones((4, 4)) + a,
        "function": lambda: np.sum(a),
        "concatenate": lambda: np.concatenate([a, a]),
        "iteration": lambda: list(a),
        "for": lambda: [row for row in a],
        "in": lambda: 1.0 in a,
        "unpacking": lambda: (lambda *rows: rows)(*a),
        "bool": lambda: bool(a),
        "int": lambda: int(a),
        "float": lambda: float(a),
        "complex": lambda: complex(a),
        "values of put": lambda: a.put(np.s_[...], a),
        "reduce": lambda: sk.allreduce(a),
    }
    for what, call in refused.items():
        with pytest.raises(sk.GatherError, match="without saying so: use ") as caught:
            call()
        assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError), what
    assert "a.get()" in str(pytest.raises(sk.GatherError, np.asarray, a).value)
    assert "a[index]" in str(pytest.raises(sk.GatherError, float, a).value)
    grid = "(" + ", ".join(map(str, a.grid)) + ")"
    assert str(a) == f"<skerry.Array (4, 4) float64, distributed on a grid of {grid}>"
    assert f"{a}" == repr(a) == str(a)
    assert sk.counters()["array_gets"] == before
    np.testing.assert_array_equal(np.asarray(a.get()), np.ones((4, 4)))
    sk.sync()


def test_get_into_out(filled, numbers, mirrored):
    a, x = filled(12, 12, mirrored=mirrored), numbers(12, 12)
    frame = np.zeros((20, 20))
    assert a.get(np.s_[1:9, 2:7], out=frame[4:12, 5:10]) is not None
    np.testing.assert_array_equal(frame[4:12, 5:10], x[1:9, 2:7])
    frame[4:12, 5:10] = 0
    assert not frame.any()
    for out in (
        np.zeros((8, 4)),
        np.zeros((8, 5), "float32"),
        np.zeros((5, 8)).T,
        np.zeros(3),
        "text",
    ):
        with pytest.raises(sk.InvalidError, match="out has shape"):
            a.get(np.s_[1:9, 2:7], out=out)
    with pytest.raises(TypeError, match="float32"):
        a.get(np.s_[1:9, 2:7], out=np.zeros((8, 5), "float32"))
    fixed = np.zeros((8, 5))
    fixed.flags.writeable = False
    with pytest.raises(sk.InvalidError, match="writable"):
        a.get(np.s_[1:9, 2:7], out=fixed)


def test_put_from_any_rank(numbers, dtype):
    a, x = sk.zeros((15, 11), dtype), numbers(15, 11, dtype=dtype)
    if sk.rank() == sk.size() - 1:
        a.put(np.s_[2:13, 1:10], x[2:13, 1:10])
        a[0] = 7
        a[1, :] = list(range(11))
        a[14, 3:6] = x.T[3:6, 14]
        a[13, 0] = 5
    a.sync()
    np.testing.assert_array_equal(a[2:13, 1:10], x[2:13, 1:10])
    assert (a[0] == 7).all() and a[1].tolist() == list(range(11)) and a[13, 0] == 5
    np.testing.assert_array_equal(a[14, 3:6], x[14, 3:6])


def test_acc_of_all_ranks_adds_up(numbers, mirrored, dtype):
    a, x = sk.zeros((9, 14), dtype, mirrored=mirrored), numbers(9, 14, dtype=dtype)
    for _ in range(3):
        a.acc(np.s_[1:8, 3:], x[1:8, 3:], alpha=2)
    a.sync()
    a.merge()
    np.testing.assert_array_equal(a[1:8, 3:], 6 * sk.size() * x[1:8, 3:])
    assert not a[0].any() and not a[:, :3].any()


def test_non_blocking(filled, numbers, mirrored):
    a, x = filled(20, 20, mirrored=mirrored), numbers(20, 20)
    requests = [a.get_nb(np.s_[i : i + 2]) for i in range(19)]
    for i in reversed(range(19)):
        np.testing.assert_array_equal(requests[i].wait(), x[i : i + 2])
    a.sync()
    adding = a.acc_nb(np.s_[:, 5:8], np.ones((20, 3)), alpha=0.5)
    while not adding.done():
        pass
    assert adding.wait() is None
    a.sync()
    a.merge()
    on_node = len(sk.node_ranks()) if mirrored else sk.size()
    if not mirrored:
        np.testing.assert_array_equal(a[:, 5:8], x[:, 5:8] + 0.5 * on_node)
    else:
        np.testing.assert_array_equal(a[:, 5:8], sk.nodes() * x[:, 5:8] + 0.5 * sk.size())
    a.sync()
    if sk.rank() == 0:
        a.put_nb(np.s_[3], np.full(20, 4.0)).wait()
        assert (a[3] == 4).all()
    a.sync()


def test_request_keeps_its_array_and_buffer_alive(filled, numbers):
    request = filled(8, 8).get_nb(np.s_[2:5])
    gc.collect()
    np.testing.assert_array_equal(request.wait(), numbers(8, 8)[2:5])


def test_local_is_a_view(mirrored):
    a = sk.zeros((10, 10), mirrored=mirrored)
    low, high = a.distribution()[0][0], a.distribution()[1][0]
    assert a.local.flags.writeable and a.local.shape == tuple(
        hi - lo for lo, hi in a.distribution()
    )
    if a.local.size:
        a.local[0, 0] = 3.5
        assert a[low, high] == 3.5 and np.shares_memory(a.local, a.local)
    view = a.local
    del a
    gc.collect()
    view[...] = 1
    assert (view == 1).all()


def test_read_inc_hands_out_every_number_once():
    for dtype in "int32", "int64":
        a = sk.zeros((4, 4), dtype)
        mine = [a.read_inc((3, 3)) for _ in range(10)]
        assert sorted(sk.allgather(np.array(mine)).ravel()) == list(range(10 * sk.size()))
        v = sk.zeros(3, dtype)
        v.read_inc(2, n=5)
        v.sync()
        assert v[2] == 5 * sk.size()
        v.sync()
    with pytest.raises(sk.InvalidError, match="int32 or int64"):
        sk.zeros((2, 2)).read_inc((0, 0))


def test_counter():
    counter = sk.Counter(start=100)
    assert sorted(sk.allgather(np.array([counter.next(2) for _ in range(5)])).ravel()) == list(
        range(100, 100 + 10 * sk.size(), 2)
    )
    counter.reset()
    assert sk.allreduce(counter.next(), "max") == sk.size() - 1
    counter.free()
    with pytest.raises(sk.FreedError):
        counter.next()


def test_irregular_blocks_start_only_where_allowed(filled, numbers, mirrored):
    starts = [0, 3, 4, 11, 18]
    irregular = sk.Irregular(starts, [0, 9])
    assert irregular.starts == (starts, [0, 9])
    a, x = filled(25, 12, distribution=irregular, mirrored=mirrored), numbers(25, 12)
    assert set(a.block_starts[0]) <= set(starts) and set(a.block_starts[1]) <= {0, 9}
    np.testing.assert_array_equal(a[2:20, 5:12], x[2:20, 5:12])


def test_queries_agree(mirrored):
    a = sk.zeros((19, 8), mirrored=mirrored, grid=None)
    blocks = {rank: a.distribution(rank) for rank in range(sk.size())}
    elements = sum(np.prod([hi - lo for lo, hi in block]) for block in blocks.values())
    assert elements == 19 * 8 * (sk.nodes() if mirrored else 1)
    for i, j in (0, 0), (18, 7), (9, 3):
        (low0, high0), (low1, high1) = blocks[a.locate(i, j)]
        assert low0 <= i < high0 and low1 <= j < high1
    holders = a.locate_patch(np.s_[4:15, 2:6])
    assert sum(np.prod([hi - lo for lo, hi in part]) for _, part in holders) == 11 * 4
    if mirrored:
        assert {rank for rank, _ in holders} <= set(sk.node_ranks())


def test_given_grid():
    a = sk.zeros((12, 12), grid=(1, sk.size()))
    assert a.grid == (1, min(sk.size(), 12))
    with pytest.raises(sk.InvalidError, match="more blocks"):
        sk.zeros((100, 100), grid=(sk.size() + 1, 1))


def test_copy_between_all_placements(filled, numbers, mirrored):
    x = numbers(40, 33)
    a = filled(40, 33, mirrored=mirrored)
    for target in False, True:
        b = sk.zeros(
            (40, 33), mirrored=target, distribution=sk.Irregular(range(0, 40, 7), [0])
        ).fill(-1)
        b.sync()
        assert a.copy_to(b) is b
        np.testing.assert_array_equal(b[:], x)


def test_merge_sums_the_copies(filled, numbers):
    a, x = filled(70, 50, mirrored=True), numbers(70, 50)
    before = sk.counters()
    assert a.merge() is a
    np.testing.assert_array_equal(a[:], sk.nodes() * x)
    after = sk.counters()
    moved = sk.allreduce(after["merge_bytes_moved"] - before["merge_bytes_moved"])
    assert moved == 2 * (sk.nodes() - 1) * x.nbytes


def test_merge_skips_zeros():
    before = sk.counters()
    a = sk.zeros((256, 256), mirrored=True)
    a.merge()
    assert sk.counters()["merge_bytes_moved"] == before["merge_bytes_moved"]
    if sk.nodes() > 1 and a.local.size:
        assert sk.counters()["merge_bytes_skipped"] > before["merge_bytes_skipped"]


def test_matmul(mirrored):
    random = np.random.default_rng(1)
    x, y = random.normal(size=(30, 21)), random.normal(size=(21, 26))
    for dtype, tolerance in ("float64", 1e-13), ("float32", 1e-5):
        a, b, c = (
            sk.zeros(shape, dtype, mirrored=mirrored) for shape in ((30, 21), (26, 21), (30, 26))
        )
        on_node = sk.node_ranks()[0] == sk.rank()
        if on_node if mirrored else sk.rank() == 0:
            a[...] = x.astype(dtype)
            b[...] = np.ascontiguousarray(y.T.astype(dtype))
        c.fill(2)
        sk.sync()
        assert sk.matmul(a, b, c, alpha=3, beta=0.5, trans_b=True) is c
        np.testing.assert_allclose(c[:], 3 * x @ y + 1, rtol=tolerance, atol=tolerance * 30)
    with pytest.raises(sk.InvalidError, match="do not fit"):
        sk.matmul(a, b, c)


def test_more_dimensions(filled, numbers, mirrored):
    a, x = filled(4, 5, 6, 3, mirrored=mirrored), numbers(4, 5, 6, 3)
    np.testing.assert_array_equal(a[1:3, 2, 1:, 0:2], x[1:3, 2, 1:, 0:2])
    np.testing.assert_array_equal(a[2, 3], x[2, 3])
    v, y = filled(1000, mirrored=mirrored), numbers(1000)
    np.testing.assert_array_equal(v[400:600], y[400:600])
    v.merge()
    np.testing.assert_array_equal(v[:], y * (sk.nodes() if mirrored else 1))


def test_fill_zero_scale(mirrored):
    a = sk.zeros((6, 6), "int64", mirrored=mirrored).fill(4).scale(3)
    assert (a[:] == 12).all()
    a.sync()
    assert not a.zero()[:].any()
    with pytest.raises(TypeError, match="whole number"):
        a.fill(0.5)


def test_dropped_arrays_are_freed_when_the_next_is_made(mapped_bytes):
    # Of 40 arrays of 2 MiB each 4 live at a time. If nothing were freed, all 40 would stay mapped.
    before = mapped_bytes()
    live = []
    for _ in range(40):
        live.append(sk.zeros((512, 512)))
        # The group may have kept memory of earlier ones, so that nothing new is mapped.
        assert mapped_bytes() >= len(live) * live[0].nbytes / sk.size()
        if len(live) > 3:
            live.pop(0)
    assert mapped_bytes() - before < 16 * live[0].nbytes
    del live
    sk.zeros((4, 4)).free()


def test_with_frees():
    with sk.zeros((5, 5)) as a:
        a.fill(1)
    assert a.freed
    assert repr(a) == "<skerry.Array, freed>"


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "patch",
    [np.s_[3:12, 0:5], np.s_[:, 10], np.s_[-11], np.s_[5:2], np.s_[0, 0, 0], ((0, 11), (0, 1))],
)
def test_out_of_range_is_an_index_error(patch):
    a = sk.zeros((10, 10))
    for call in (
        lambda: a.get(patch),
        lambda: a.put(patch, 0),
        lambda: a.acc(patch, 0),
        lambda: a[patch],
    ):
        with pytest.raises(IndexError) as caught:
            call()
        assert isinstance(caught.value, sk.RangeError) and caught.value.code == -2


def test_nonsense_is_refused():
    a = sk.zeros((10, 10))
    with pytest.raises(sk.UnsupportedError, match="step of 2"):
        a.get_nb(np.s_[::2])
    for patch in "text", (0, "text"), (1.5, 2), (None, 1), ((1, 2, 3), 0):
        with pytest.raises((sk.InvalidError, TypeError)):
            a[patch]


def test_wrong_dtype_is_a_type_error():
    a = sk.zeros((4, 4))
    for values in np.ones((4, 4), "float32"), np.ones((4, 4), "int64"), np.ones((4, 4), ">f8"):
        with pytest.raises(TypeError, match="astype") as caught:
            a.put(np.s_[...], values)
        assert isinstance(caught.value, sk.DtypeError)
    with pytest.raises(TypeError, match="not supported"):
        sk.zeros((4, 4), "float16")
    with pytest.raises(TypeError):
        sk.zeros((4, 4), "longdouble")
    with pytest.raises(ValueError, match="do not fit patch"):
        a.put(np.s_[0:2, 0:2], np.ones((3, 2)))


def test_wrong_shapes_and_options_are_value_errors():
    with pytest.raises(ValueError, match="negative: -4"):
        sk.zeros((-4, 3))
    with pytest.raises(ValueError, match="2\\^63"):
        sk.zeros((1 << 40, 1 << 40))
    with pytest.raises(ValueError, match="begin with 0"):
        sk.zeros((10, 10), distribution=sk.Irregular([1, 2], [0]))
    with pytest.raises(ValueError, match="ascend"):
        sk.zeros((10, 10), distribution=sk.Irregular([0, 5, 5], [0]))
    with pytest.raises(ValueError, match="1 to 7 dimensions"):
        sk.zeros((1,) * 8)


def test_too_much_memory_is_a_memory_error_on_every_rank():
    with pytest.raises(MemoryError) as caught:
        sk.zeros((1 << 24, 1 << 24))
    assert isinstance(caught.value, sk.NoMemoryError)
    assert sk.zeros((10, 10)).fill(1)[0, 0] == 1


def test_freed_array_is_refused():
    a = sk.zeros((4, 4))
    a.free()
    for call in (lambda: a[0, 0], lambda: a.put(np.s_[...], 0), a.zero, a.free, lambda: a.local):
        with pytest.raises(sk.FreedError, match="freed"):
            call()


def test_members_that_disagree_all_learn_of_it():
    if sk.size() == 1:
        return  # one rank agrees with itself
    with pytest.raises(sk.InvalidError, match="different arrays"):
        sk.zeros((10, 10 + sk.rank()))


def test_request_that_is_dropped_has_been_waited_for(filled, numbers):
    """Its buffer must not go first: a late answer would be written into memory of something else."""
    a, x = filled(300, 300), numbers(300, 300)
    for _ in range(20):
        a.get_nb(...)
        np.testing.assert_array_equal(np.full((300, 300), 7.0), 7)
    if sk.rank() == 0:
        a.put_nb(..., x + 1)
    a.sync()
    np.testing.assert_array_equal(a[...], x + 1)
