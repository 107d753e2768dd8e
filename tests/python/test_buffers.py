"""What Python's buffers may be: views of Skerry's memory, and memory of the program."""

import ctypes

import numpy as np
import pytest

import skerry as sk

NUMBERS = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
]


def right():
    return (sk.rank() + 1) % sk.size()


# ---- views -----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 64, 1000])
def test_a_view_keeps_the_memory_of_a_freed_array(length):
    """free() unmapped it, and a look at the view was a crash."""
    a = sk.full((length, 8), 3.0)
    view, rows, raw = a.local, a.local[:1], memoryview(a.local)
    a.free()
    assert (view == 3).all() and raw.shape == view.shape
    others = [sk.full((length, 8), 5.0) for _ in range(4)]
    assert (view == 3).all() and (rows == 3).all()
    view[...] = 4
    assert all((other.local == 5).all() for other in others)
    for other in others:
        other.free()


def test_a_view_keeps_the_memory_of_a_freed_segment():
    s = sk.Segment(10_000)
    view, shared = s.local, s.pointer(sk.rank())
    peer = next((r for r in sk.node_ranks() if r != sk.rank()), sk.rank())
    theirs = s.pointer(peer)
    view[...] = sk.rank() + 1
    sk.sync()
    assert (theirs == peer + 1).all()
    s.free()
    assert (view == sk.rank() + 1).all() and (shared == view).all()
    assert theirs.sum() >= 0  # of another rank: its contents may be gone
    with pytest.raises(sk.FreedError):
        _ = s.local


@pytest.mark.parametrize("length", [1, 500, 100_000])
def test_a_view_keeps_the_memory_of_a_freed_window(length):
    """A small window's memory serves the next window, which must not be the view's."""
    w = sk.window(length, "float64")
    view = w.local
    view[...] = 7
    w.free()
    windows = [sk.window(length, "float64") for _ in range(3)]
    assert all((other.local == 0).all() for other in windows)
    view[...] = 8
    assert all((other.local == 0).all() for other in windows)
    del view
    for other in windows:
        other.local[...] = 1
        sk.barrier()
        other.free()
    for _ in range(3):
        with sk.window(length, "float64") as again:
            assert (again.local == 0).all()


def test_a_view_keeps_memory_given_to_a_window():
    w = sk.window_over(np.full(1000, 2.0))
    view = w.local
    w.free()
    assert (view == 2).all()


# ---- what is refused -------------------------------------------------------------------------

OBJECTS = {
    "object": np.array([1, "two", None], dtype=object),
    "fields with objects": np.zeros(3, [("a", "f8"), ("b", "O")]),
    "objects inside": np.zeros(3, [("a", [("b", "O", 2)])]),
    "pointers": (ctypes.POINTER(ctypes.c_int) * 3)(),
    "C strings": (ctypes.c_char_p * 3)(),
}
NO_BUFFER = {"dates": np.zeros(3, "M8[ns]"), "durations": np.zeros(3, "m8[s]")}


def calls_on_bytes(values):
    """Every call that takes an array's bytes as they are."""
    s, w, d = sk.Segment(4096), sk.window(4096), sk.window_dynamic()
    calls = {
        "broadcast": lambda: sk.broadcast(values),
        "allgather": lambda: sk.allgather(values),
        "put": lambda: s.put(right(), 0, values),
        "get": lambda: s.get(right(), 0, values),
        "put_nb": lambda: s.put_nb(right(), 0, values),
        "get_nb": lambda: s.get_nb(right(), 0, values),
        "put_notify": lambda: s.put_notify(right(), 0, values, 1024),
        "acc": lambda: s.acc(right(), 0, values),
        "update": lambda: s.update(right(), 0, values),
        "fetch_update": lambda: s.fetch_update(right(), 0, values),
        "attach": lambda: d.attach(values),
        "window put": lambda: w.put(right(), 0, values),
        "window get": lambda: w.get(right(), 0, values),
        "window put_nb": lambda: w.put_nb(right(), 0, values),
        "window get_nb": lambda: w.get_nb(right(), 0, values),
        "window update": lambda: w.update(right(), 0, values),
    }
    yield from calls.items()
    sk.sync()
    for each in s, w, d:
        each.free()


@pytest.mark.parametrize("kind", [*OBJECTS, *NO_BUFFER])
def test_addresses_of_this_process_are_refused(kind):
    """Objects went as bytes: references to what another process does not have, and a crash."""
    values = {**OBJECTS, **NO_BUFFER}[kind]
    for name, call in calls_on_bytes(values):
        if not isinstance(values, np.ndarray) and name in ("allgather",):
            continue  # NumPy makes an array of it first
        with pytest.raises(TypeError) as caught:
            call()
        assert isinstance(caught.value, sk.DtypeError), (name, caught.value)
        text = str(caught.value)
        if isinstance(values, np.ndarray):
            assert str(values.dtype) in text, (name, text)


def test_arrays_and_windows_of_objects_are_refused():
    for dtype in "O", [("a", "O")], "M8[ns]", "U4", "float16", ">f8":
        with pytest.raises(sk.DtypeError, match="is not supported: use bool, int8"):
            sk.zeros(4, dtype)
    for dtype in "O", [("a", "f8"), ("b", "O")]:
        with pytest.raises(sk.DtypeError, match="numbers, not references"):
            sk.window(4, dtype)
    with pytest.raises(sk.DtypeError, match="numbers, not references"):
        sk.window_over(np.zeros(3, "O"))
    a = sk.zeros(3)
    for values in OBJECTS["object"], np.zeros(3, "M8[ns]"):
        with pytest.raises(sk.DtypeError):
            a.put(np.s_[:], values)
        with pytest.raises(sk.DtypeError):
            a.get(np.s_[:], out=values)
    with pytest.raises(sk.DtypeError):
        a.acc(np.s_[:], OBJECTS["object"])
    for values in OBJECTS["object"], np.zeros(2, "M8[ns]"), np.zeros(2, "U3"), np.zeros(2, ">f8"):
        with pytest.raises(sk.DtypeError, match="reduce|gives no buffer"):
            sk.allreduce(values)
    sk.sync()


def test_bytes_that_mean_the_same_everywhere_are_taken():
    for values in (
        np.array(["ab", "c"]),
        np.array([b"ab", b"c"]),
        np.array([(1, 2.5)], [("a", "i4"), ("O", "f8")]),  # a field may be called O
        np.array([1.5, 2.5], ">f8"),
        np.array([True, False]),
        np.array([1, 2], "float16"),
        np.array(7.0),
        np.zeros((0, 3)),
        np.array(["2020-01-01"], "M8[D]").view("int64"),
    ):
        kept = values.copy()
        if sk.rank() != 0:
            values[...] = np.zeros((), values.dtype)
        assert sk.broadcast(values) is values
        np.testing.assert_array_equal(values, kept)
        everyone = sk.allgather(values)
        assert everyone.shape == (sk.size(), *values.shape) and everyone.dtype == values.dtype
        np.testing.assert_array_equal(everyone[-1], kept)


def test_shapes_of_buffers():
    s = sk.Segment(4096)
    numbers = np.arange(12.0).reshape(3, 4)
    fixed = numbers.copy()
    fixed.flags.writeable = False
    for bad in numbers[:, ::2], numbers[::-1], numbers.T:
        for call in (sk.broadcast, lambda x: s.get(right(), 0, x), lambda x: s.put(right(), 0, x)):
            with pytest.raises(sk.InvalidError, match="C-contiguous"):
                call(bad)
    for call in (
        sk.broadcast,
        lambda x: s.get(right(), 0, x),
        lambda x: s.get_nb(right(), 0, x),
        lambda x: sk.allreduce(x, out=x),
    ):
        with pytest.raises(sk.InvalidError, match="read-only"):
            call(fixed)
    s.put(right(), 0, fixed)
    sk.sync()
    s.free()
    a = sk.asarray(numbers)
    for out in np.zeros((3, 4))[::-1], np.zeros((3, 8))[:, :4], np.zeros((6, 4))[::2]:
        np.testing.assert_array_equal(a.get(out=out), numbers)
    for values in numbers[::-1], numbers[:, ::-1], np.repeat(numbers, 2, 1)[:, ::2], fixed:
        sk.sync()
        if sk.rank() == 0:
            a.put(..., values)
        sk.sync()
        np.testing.assert_array_equal(a.get(), values)
    with pytest.raises(sk.InvalidError):
        a.get(out=fixed)
    with pytest.raises(sk.InvalidError):
        a.get(out=np.zeros((3, 4))[:, ::-1])
    sk.sync()


# ---- element types of arrays ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMBERS)
def test_arrays_of_every_type(dtype, mirrored):
    kind = np.dtype(dtype)
    a = sk.zeros((9, 5), dtype, mirrored=mirrored)
    assert a.dtype == kind and a.local.dtype == kind and a.nbytes == 45 * kind.itemsize
    x = (np.arange(45).reshape(9, 5) % 3).astype(dtype)
    block = tuple(slice(*bounds) for bounds in a.distribution())
    a.local[...] = x[block]
    a.sync()
    np.testing.assert_array_equal(a.get(), x)
    assert a[4, 1] == x[4, 1] and type(a[4, 1]) is type(x[4, 1].item())
    np.testing.assert_array_equal(a.get_nb(np.s_[2:7, 1:4]).wait(), x[2:7, 1:4])
    sk.sync()
    if sk.rank() == 0 or mirrored and sk.rank() == sk.node_ranks()[0]:
        a[0:2] = x[3:5]
        a[8, 4] = x[1, 1].item()
    a.sync()
    assert (a[0:2] == x[3:5]).all() and a[8, 4] == x[1, 1]
    largest = np.iinfo(kind).max if kind.kind in "iu" else kind.kind == "b" or -1.5
    last = kind.type(largest)
    assert (a.fill(last).local == last).all()
    copy = sk.empty_like(a, mirrored=not mirrored)
    a.copy_to(copy)
    np.testing.assert_array_equal(copy.get(), a.get())
    assert sk.asarray(x).dtype == kind and sk.full(3, last).dtype == kind


@pytest.mark.parametrize("dtype", NUMBERS[1:])
def test_sums_of_every_type(dtype, mirrored):
    a = sk.zeros((6, 6), dtype, mirrored=mirrored)
    ones = np.ones((6, 6), dtype)
    alpha = 2 + 1j if "complex" in dtype else 2
    sharers = len(sk.node_ranks()) if mirrored else sk.size()
    a.acc(..., ones, alpha)
    a.acc_nb(..., ones).wait()
    a.sync()
    assert (a.get() == np.dtype(dtype).type(sharers * (alpha + 1))).all()
    a.sync()
    a.scale(2)
    assert (a.get() == 2 * sharers * (alpha + 1)).all()
    a.merge()
    assert (a.get() == 2 * sk.size() * (alpha + 1)).all()
    big = np.iinfo(dtype).max if "int" in dtype else 3
    a.fill(big)
    a.scale(3)
    with np.errstate(over="ignore"):
        assert (a.get() == np.full(1, big, dtype) * np.full(1, 3, dtype)).all()
    one = sk.Segment(64)
    one.acc(right(), 0, ones[0, :1], alpha)
    sk.sync()
    assert one.local[: ones.itemsize].view(dtype)[0] == alpha
    total = sk.allreduce(ones[0])
    assert total.dtype == ones.dtype and (total == sk.size()).all()
    sk.sync()
    one.free()


def test_bool_has_no_sums():
    a = sk.zeros((4, 4), "bool")
    for call in (
        lambda: a.acc(..., True),
        lambda: a.scale(1),
        lambda: a.merge(),
        lambda: a.read_inc((0, 0)),
        lambda: sk.allreduce(np.array([True])),
    ):
        with pytest.raises(sk.InvalidError, match="bool|reduce"):
            call()
    sk.sync()
    mine = np.array([sk.rank() == 0, True, False])
    assert sk.allreduce(mine, "lor").tolist() == [True, True, False]
    assert sk.allreduce(mine, "land").tolist() == [sk.size() == 1, True, False]
    assert sk.allreduce(mine, "max").dtype == bool


def test_numbers_that_do_not_fit_are_refused():
    a = sk.zeros(3, "uint8")
    for value, error in (300, sk.InvalidError), (-1, sk.InvalidError), (1.5, sk.DtypeError):
        with pytest.raises(error, match=str(value)):
            a.fill(value)
    for value in 300, -1:
        with pytest.raises(sk.DtypeError):
            a.put(np.s_[0:1], value)
    with pytest.raises(TypeError):
        sk.zeros(3).fill(1j)
    with pytest.raises(sk.InvalidError, match="float32 or float64"):
        m = sk.zeros((3, 3), "complex128")
        sk.matmul(m, m, sk.zeros((3, 3), "complex128"))
    sk.sync()


def test_arrays_that_only_look_plain_are_seen_as_they_are():
    """Of plain arrays NumPy's struct is read; others must still go the way of the protocol."""
    class Derived(np.ndarray):
        pass

    s, x = sk.Segment(800), np.arange(100.0)
    s.put(right(), 0, x)
    sk.sync()
    for out in (
        np.zeros(100).view(Derived),
        np.zeros(100, np.dtype("f8").newbyteorder("=")),
        np.zeros((10, 1, 10))[:, 0, :],
        np.zeros(100).reshape(10, 10).view("i8").view("f8"),
        np.zeros((10, 10), order="F").T,
        np.zeros(100, "q").view("f8"),
        memoryview(np.zeros(100)),
    ):
        assert s.get(sk.rank(), 0, out) is out
        assert np.asarray(out).ravel().tolist() == x.tolist()
    read_only = np.zeros(100)
    read_only.flags.writeable = False
    with pytest.raises(sk.InvalidError, match="read-only"):
        s.get(sk.rank(), 0, read_only)
    for strided in np.zeros(200)[::2], np.zeros((10, 10))[:, ::-1], np.zeros((10, 10)).T:
        with pytest.raises(sk.InvalidError, match="C-contiguous"):
            s.get(sk.rank(), 0, strided)
    s.put(sk.rank(), 0, np.zeros((0, 7)))
    sk.sync()
    s.free()


def test_words_are_named_by_their_dtype():
    s = sk.Segment(16)
    s.local[...] = 0
    sk.sync()
    if sk.rank() == 0:
        last = sk.size() - 1
        for dtype in "int64", np.int64, np.dtype("int64"), "i8", int:
            s.fetch_add(last, 8, 1, dtype)
        assert s.fetch_add(last, 8, 0) == 5
        assert s.fetch_add(last, 0, 3, dtype="int32") == 0 == s.fetch_add(last, 4, 1, "int32")
        with pytest.raises(sk.DtypeError, match="int32 or int64"):
            s.fetch_add(last, 0, 1, "float64")
    with pytest.raises(sk.InvalidError, match="rank"):
        s.fetch_add(sk.size(), 0, 1)
    with pytest.raises(sk.InvalidError, match="rank"):
        sk.fence(sk.size())
    sk.sync()
    s.free()
