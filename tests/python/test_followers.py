"""What NumPy has as a view, and divided arrays as a copy: it follows what is written into the array
that it came from, wherever elements are, and may not be written."""

import gc
import weakref

import numpy
import pytest

import skerry as sk
import skerry.numpy as np
import skerry.xp as xp

windows = numpy.lib.stride_tricks.sliding_window_view


pytestmark = pytest.mark.usefixtures("divided_and_whole")


def numbers(x):
    return x.numpy() if isinstance(x, xp.Array) else numpy.array(x)  # as it is now


def alike(program):
    """Runs program(module, show) with NumPy and here; what both show is the same."""
    shown = []
    for module in (numpy, np):
        seen = []
        program(module, lambda *values, seen=seen: seen.extend(map(numbers, values)))
        shown.append(seen)
    for at, (theirs, ours) in enumerate(zip(*shown, strict=True)):
        numpy.testing.assert_allclose(ours, theirs, err_msg=f"value {at}")


def matrix(m, rows=5, columns=7):
    return m.arange(float(rows * columns)).reshape(rows, columns).copy()


MAKERS = {
    "reshape": lambda m, x: x.reshape(7, 5),
    "reshape of a slice": lambda m, x: x[1:].reshape(7, 4),
    "reshape of a reshape": lambda m, x: x.reshape(7, 5).reshape(35, 1),
    "slice of a reshape": lambda m, x: x.reshape(7, 5)[::2, 1:].T,
    "flat": lambda m, x: x.reshape(-1)[3:],
    "broadcast_to": lambda m, x: m.broadcast_to(x[2], (4, 7)),
    "broadcast_arrays": lambda m, x: m.broadcast_arrays(x, x[:1])[1],
    "diagonal": lambda m, x: m.diagonal(x, 1),
    "diag": lambda m, x: m.diag(x),
    "stack's diagonals": lambda m, x: x.reshape(5, 7, 1).diagonal(),
    "einsum": lambda m, x: m.einsum("ii->i", x[:, :5]),
    "windows": lambda m, x: windows(x, (2, 3)),
    "a part of the windows": lambda m, x: windows(x, (2, 3))[1:, ::2],
    # Copies in NumPy, too: they must not follow.
    "reshape of a transpose": lambda m, x: x.T.reshape(-1),
    "reshape of columns": lambda m, x: x[:, 1:4].reshape(-1),
    "ravel of every second": lambda m, x: x.reshape(-1)[::2].ravel(),
    "flatten": lambda m, x: x.flatten(),
}

WRITES = {
    "an element": lambda m, x: x.__setitem__((2, 3), -1.0),
    "rows": lambda m, x: x.__setitem__(slice(1, 4), 8.0),
    "all": lambda m, x: x.__setitem__(Ellipsis, x[::-1] * 2),
    "in place": lambda m, x: x.__iadd__(1.0),
    "through a view": lambda m, x: x[:, 2:][1:4].__imul__(3.0),
    "a mask": lambda m, x: x.__setitem__(x > 11.0, 0.5),
    "by an index": lambda m, x: x.__setitem__([0, 4, 0], 6.0),
    "out=": lambda m, x: m.add(x, 2.0, out=x),
    "put": lambda m, x: m.put(x, [3, 18, 34], [1.0, 2.0, 3.0]),
    "putmask": lambda m, x: m.putmask(x, x > 9, [4.0, 5.0]),
    "place": lambda m, x: m.place(x, x > 9, [4.0, 5.0]),
    "copyto": lambda m, x: m.copyto(x, 7.0, where=x < 20),
    "put_along_axis": lambda m, x: m.put_along_axis(x, numpy.arange(5)[:, None] % 3, 9.0, 1),
    "fill_diagonal": lambda m, x: m.fill_diagonal(x, 44.0),
    "fill": lambda m, x: x.fill(3.0),
    "sort": lambda m, x: (x.__imul__(-1), x.sort(axis=0)),
    "partition": lambda m, x: (x.__imul__(-1), x.partition(2, axis=1)),
    "ufunc.at": lambda m, x: numpy.add.at(x, ([0, 1, 0], [0, 1, 0]), 5.0),
    "byteswap": lambda m, x: (x.byteswap(inplace=True), x.byteswap(inplace=True), x.fill(1.0)),
}


@pytest.mark.parametrize("make", MAKERS)
def test_it_follows_each_kind_of_write(make):
    def program(m, show):
        for write in WRITES.values():
            x = matrix(m)
            shown = MAKERS[make](m, x)
            write(m, x)
            show(shown)
            x[0] = 99.0
            x[3] -= 1.0
            show(shown[1:], shown, x)

    alike(program)


USES = {
    "sum": lambda m, f: f.sum(axis=0),
    "max": lambda m, f: m.max(f),
    "operator": lambda m, f: f * 2 + 1,
    "beside itself": lambda m, f: f + f[:1],
    "in a list": lambda m, f: m.stack([f, f]),
    "where": lambda m, f: m.where(f > 3, f, 0.0),
    "product": lambda m, f: f @ f.T,
    "element": lambda m, f: float(f[3, 2]),
    "item": lambda m, f: f.item(11),
    "list": lambda m, f: f.tolist(),
    "rows": lambda m, f: [float(row.sum()) for row in f],
    "index": lambda m, f: f[[1, 5]],
    "mask": lambda m, f: f[f > 5],
    "as a mask": lambda m, f: matrix(m, 7, 5)[f > 5],
    "assigned": lambda m, f: stored(m, f),
    "added": lambda m, f: added(m, f),
    "copy": lambda m, f: f.copy(),
    "astype": lambda m, f: f.astype(int),
    "transpose": lambda m, f: f.T[1:],
    "reshape": lambda m, f: f.reshape(5, 7),
    "sorted": lambda m, f: m.sort(f, axis=0),
    "median": lambda m, f: m.median(f),
    "collected": lambda m, f: m.apply_along_axis(sum, 0, f) if m is numpy else
    numpy.apply_along_axis(sum, 0, f.numpy()),
    "nothing": lambda m, f: m.nonzero(f)[0],
}  # fmt: skip


def stored(m, f):
    out = m.zeros((7, 5))
    out[:] = f
    return out


def added(m, f):
    out = m.ones((7, 5))
    out += f
    return out


@pytest.mark.parametrize("use", USES)
def test_each_kind_of_use_sees_what_was_written(use):
    def program(m, show):
        x = matrix(m)
        f = x.reshape(7, 5)
        g = f[1:6]
        show(USES[use](m, f))
        x[1] = 4.0
        show(USES[use](m, f))
        x += 1
        show(g, USES[use](m, f), g)

    alike(program)


def test_values_are_those_of_the_line_that_took_them():
    def program(m, show):
        x = m.arange(90000.0).reshape(300, 300).copy()
        f = x.reshape(450, 200)
        before, total = f * 2 + 1, f.sum()
        x[10:20] = -1.0
        show(before, total, f)
        x[1:] = f.reshape(300, 300)[:-1]  # from itself
        show(x, f)
        x[...] = f.reshape(300, 300)[::-1] * 0.5
        show(x, f)
        kept = f + 0.5
        x *= 0
        show(kept, f)

    alike(program)


def test_an_array_that_follows_outlives_the_one_that_it_came_from():
    def program(m, show):
        x = matrix(m)
        f = x.reshape(7, 5)
        x[1] = 9.0
        del x
        show(f, f[2:4])
        f[0] = 1.0
        show(f)
        x, y = matrix(m), matrix(m)
        f = x.reshape(7, 5)
        x[2] = 3.0
        x = y
        x[3] = 5.0
        show(f)

    alike(program)


def test_it_may_not_be_written():
    x = matrix(np)
    f = x.reshape(7, 5)
    if x.layout.whole:
        f[0] = 1.0
        assert float(x[0, 1]) == 1
        return
    x[0] = 3.0
    for write in (lambda: f.fill(1.0), lambda: np.put(f, [1], 2.0), lambda: f[1:2].sort()):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(AttributeError, match="reshape"):
        f.shape = 35
    for still in np.broadcast_to(x, (2, 5, 7)), np.diagonal(x), windows(x, (2, 2)):
        with pytest.raises(ValueError, match="read-only"):
            still[0] = 1.0
    assert (f.numpy() == x.numpy().reshape(7, 5)).all()


def test_parts_of_complex_numbers_are_views():
    def program(m, show):
        z = matrix(m) + 1j
        real, imaginary = z.real, z.imag
        z *= 2
        show(real, imaginary)
        real[1] = 7.0
        imaginary[:, 2:4] = 5.0
        real *= 0.5
        m.imag(z)[4] -= 3.0
        show(z, real[1:], z.real.sum(), z.T.imag)
        z.real.T[0] = 1.0
        show(z, z.imag.reshape(-1))

    alike(program)


def test_a_shape_that_is_set_follows_what_shares_its_elements():
    def program(m, show):
        both = m.array(numpy.arange(70.0).reshape(2, 5, 7))
        one = both[0]
        one.shape = 7, 5
        both[0, 0] = -1.0
        part = one[1:4]
        both += 1
        show(one, part, both)

    alike(program)


def test_one_rank_alone_is_told_that_it_is_late():
    x = matrix(np)
    f = x.reshape(7, 5)
    x[0] = 3.0
    if not f._frozen:
        return
    assert "written since" in str(f) and "written since" in repr(f)
    assert f.shape == (7, 5) and f.dtype == numpy.float64
    with pytest.raises(sk.InvalidError, match="x.copy"):
        f.local  # noqa: B018 (raises)
    sk.sync()
    assert float(f.copy().sum()) == float(x.sum())
    assert "written since" not in str(f) and f.local.shape[1] == 5


def test_elements_that_were_read_ahead_are_not_old_ones():
    def program(m, show):
        x = matrix(m, 40, 30)
        f = x.reshape(30, 40)
        total = 0.0
        for turn in range(3):
            for i in range(30):
                for j in range(40):
                    total += f[i, j]
            show(total)
            x[1:39] += turn
            show(float(f[12, 3]))

    alike(program)


def test_nobody_keeps_memory_for_it():
    gc.disable()
    try:
        x = matrix(np)
        for _ in range(50):
            f = x.reshape(7, 5)
        assert len(x._memory.followers or ()) <= 1
        g = f.reshape(5, 7).reshape(7, 5)
        x[0] = 2.0
        total = float(x.sum())
        gone = weakref.ref(x._block)
        del x
        assert float(g.sum()) == float(f.sum()) == total
        gone_too = weakref.ref(f._block)
        if f._frozen:
            assert gone() is None
            del f, g
            assert gone_too() is None
    finally:
        gc.enable()


@pytest.fixture(params=[0, 100, 1000])
def some_whole(request):
    """Some copies are whole, of which their array is not."""
    xp.options(whole_bytes=request.param)


def test_a_whole_copy_is_there_for_one_rank_alone():
    xp.options(whole_bytes=1000)
    x = np.arange(6000.0)
    f = x[1990:2050].reshape(4, 15)
    x[1991] = -1.0
    if f.layout.whole and sk.rank() == 0:
        assert float(f[0, 1]) == -1 and "-1" in str(f) and f.strides == (120, 8)
    assert float(x.sum()) == 6000 * 5999 / 2 - 1991 - 1


def test_views_of_views_follow(some_whole):
    def program(m, show):
        x = m.arange(400.0)
        f = x[130:150].reshape(4, 5)
        g = f[1:]
        x[0] = -1
        h = g[:1]
        x[135:140] = -3
        show(h, g, f)
        e = windows(m.diagonal(x.reshape(20, 20), 1)[::-1], (2,))  # the diagonal is gone
        w = windows(x[:6], (2,))
        d = w[1:]
        x += 6
        b = d[:2]
        x *= -1
        show(b, d, w, e)
        v = m.einsum("ii->i", x[:36].reshape(6, 6))
        u = windows(v[::-1], (3,))
        y = m.broadcast_to(u, (2, 4, 3))
        flat = x[:36].reshape(18, 2, 1).T.reshape(-1)  # a copy, of which NumPy has a view
        z = m.broadcast_to(windows(flat[::-1], (2,)).T, (2, 2, 35))
        flat[3:] = 5
        x[...] = -1
        show(u, y, e, z)

    alike(program)


def test_what_numpy_copies_does_not_follow(some_whole):
    def program(m, show):
        x = matrix(m)
        a, zeros, whole = x.T * 2, m.zeros_like(x.T), x.T.astype(int)
        flat, row = a.reshape(-1), (x.T + 1)[1:].ravel()
        more = zeros.reshape(-1), whole.reshape(-1), m.diag(x.T).ravel(), x[::2, 0].reshape(1, 3)
        more[0][1] = 5
        x[...] = 7
        a[0] = whole[0] = 99
        show(flat, row, *more, zeros)
        x = matrix(m)
        y = x[::2].reshape(3, 1, 7)
        z = y.reshape(-1)
        u = x[4, 6:2:-1].reshape(1, 1, 4).ravel()
        u += -5
        x[0] = 99
        show(x, y, z, u)

    alike(program)


def test_an_array_that_becomes_an_sk_array_is_followed(some_whole):
    def program(m, show):
        x = matrix(m)
        f, part = x.reshape(7, 5), x[1:4].reshape(7, 3)
        g = m.diagonal(f)
        for each in f, x:
            if m is np and not each.layout.whole:
                each.array
                x[0] = -1
                show(f, g, part)
            else:
                x[0] = -1
                show(f, g, part)
        x[2] = 5
        show(f, g, part)

    alike(program)


def test_many_copies_of_copies(some_whole):
    def program(m, show):
        x = matrix(m)
        p = x
        for _ in range(600):
            p = p.reshape(7, 5)
            p = p.reshape(5, 7)
        kept = [x[i % 5, 1:7].reshape(2, 3) for i in range(150)]
        total = sum(float(x[i % 5, 1:7].reshape(2, 3)[1].sum()) for i in range(300))
        x[0] = 1
        show(p, x, total, *kept)

    alike(program)


def test_copies_of_an_array_that_is_gone_are_not_written_apart():
    x = matrix(np, 6, 6)
    f, g = x.reshape(2, 18), x.reshape(4, 9)
    shared = f._frozen and g._frozen
    del x
    if shared:
        with pytest.raises(ValueError, match="read-only"):
            f[0] = -5
    g = None
    f[0] = -5
    assert float(f[0, 1]) == -5
