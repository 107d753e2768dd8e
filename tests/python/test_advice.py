"""sk.advise: what travelled, whether a mirror would pay, the same answer on all ranks."""

import numpy as np
import pytest

import skerry as sk
from skerry import _advice


def alike(advice):
    """All ranks got the same numbers."""
    told = sk.allgather(np.array([advice.seconds, advice.bytes, advice.bytes_now, advice.memory]))
    assert (told == told[0]).all()
    assert str(advice).startswith(f"{advice.use}: ")
    assert advice.pays == (advice.use != "distributed")
    return advice


@pytest.fixture
def steady(monkeypatch):
    """A network of 100 us and 100 MB/s, whatever this machine is doing."""
    monkeypatch.setattr(_advice, "_measure_link", lambda group: (1e-4, 1e8))
    monkeypatch.setattr(_advice, "_waited", lambda t, rate: (t.gets * 1e-4, t.accs * 1e-4))


def on_other_nodes():
    return [rank for rank in range(sk.size()) if not sk.same_node(rank)]


def test_without_traffic_nothing_pays():
    a = sk.zeros((300, 300))
    advice = alike(sk.advise(a))
    assert not advice.pays and advice.bytes_now == 0
    a[tuple(slice(*bounds) for bounds in a.distribution())]
    assert sk.advise(a).bytes_now == 0


def test_counts_are_of_what_crossed_nodes():
    a = sk.zeros((256, 256))
    expected = 0
    for rank in on_other_nodes():
        (low, high), (left, right) = a.distribution(rank)
        for _ in range(3):
            a[low:high, left:right]
            a.get_nb((slice(low, high), slice(left, right))).wait()
        expected += 6 * 8 * (high - low) * (right - left)
    total = int(sk.allgather(np.array([expected])).sum())
    assert alike(sk.advise(a, clear=True)).bytes_now == total
    assert sk.advise(a).bytes_now == 0


def test_what_is_read_often_pays_as_a_mirror(steady):
    a = sk.zeros((256, 256))
    for rank in on_other_nodes():
        (low, high), (left, right) = a.distribution(rank)
        for _ in range(200):
            a[low : low + 32, left : left + 32]
    advice = alike(sk.advise(a))
    if sk.nodes() == 1:
        assert not advice.pays and "one node" in advice.why
        return
    assert advice.use == "mirror", advice
    assert advice.bytes < advice.bytes_now / 10 and advice.memory > a.nbytes
    assert "tiles" in advice.why
    seldom = alike(sk.advise(a, refreshes=100000))
    assert not seldom.pays and "instead of" in seldom.why
    sk.sync()


def test_what_is_added_to_often_pays_as_a_mirrored_array(steady):
    a = sk.zeros((64, 64))
    for rank in on_other_nodes():
        (low, _), (left, _) = a.distribution(rank)
        for _ in range(500):
            a.acc((low, left), 1.0)
    sk.sync()
    advice = alike(sk.advise(a))
    if sk.nodes() == 1:
        assert not advice.pays and "one node" in advice.why
        return
    assert advice.use == "mirrored" and "merge" in advice.why, advice


def counted():
    """Operations and bytes between nodes of this rank, so far."""
    now = sk.counters()
    return np.array([now["remote_operations"], now["remote_bytes"]])


def by_all(before):
    """What all ranks counted since."""
    since = counted() - before
    return sk.allreduce(since)


def reads(x, seed):
    """Parts of tiles, each by several ranks; elements; what one rank alone reads."""
    mine = np.random.default_rng((seed, sk.rank()))
    alike = np.random.default_rng((seed, sk.node()))
    for random in alike, mine, alike:
        for _ in range(3):
            cuts = [sorted(random.integers(0, n + 1, 2)) for n in x.shape]
            x[tuple(slice(int(low), int(high)) for low, high in cuts)]
        x.gather(tuple(random.integers(0, n, 40) for n in x.shape))


def writes(a, seed):
    random = np.random.default_rng((seed, sk.rank()))
    index = tuple(random.integers(0, n, 50) for n in a.shape)
    a.scatter(index, 1)
    a.scatter_acc(index, 2)
    a[tuple(slice(0, n // 2) for n in a.shape)] = 3
    a.acc(tuple(slice(n // 2, n) for n in a.shape), 1)


def options(a, monkeypatch, **arguments):
    """What advise weighs, by name."""
    with monkeypatch.context() as patched:
        patched.setattr(_advice, "_chosen", lambda weighed: weighed)
        return {option.use: option for option in sk.advise(a, **arguments)}


def near(predicted, moved):
    """Within a fifth, in bytes and in operations."""
    told = np.array([predicted.transfers, predicted.bytes])
    assert (abs(told - moved) <= 0.2 * np.maximum(moved, 1)).all(), (told, moved)


SHAPES = [((300, 260), "float64"), ((9000,), "float64"), ((70, 3, 150), "int16"),
          ((33, 40), "complex128")]  # fmt: skip


@pytest.mark.parametrize(("shape", "dtype"), SHAPES)
@pytest.mark.parametrize("refreshes", [1, 3])
@pytest.mark.parametrize("writing", [False, True])
def test_a_mirror_moves_what_was_predicted(shape, dtype, refreshes, writing, monkeypatch):
    """Each tile counted as much as the largest and as a transfer, an element as nothing: it was
    wrong by a factor of up to four."""
    a = sk.zeros(shape, dtype)
    before = counted()
    for turn in range(2 * refreshes):
        reads(a, 0)
        if writing:
            writes(a, turn)
    now = by_all(before)
    found = options(a, monkeypatch, refreshes=refreshes)
    assert [found["distributed"].transfers, found["distributed"].bytes] == now.tolist()
    if sk.nodes() == 1:
        assert list(found) == ["distributed"]
        return
    m = sk.mirror(a)
    before = counted()
    m.refresh()
    collective = by_all(before)  # of a refresh when nothing has changed
    before = counted()
    for turn in range(2 * refreshes):
        if turn and turn % 2 == 0:
            a.local[...] += 1
            m.refresh()
        reads(m, 0)
        if writing:
            writes(a, turn)
    near(found["mirror"], by_all(before) - (refreshes - 1) * collective)
    m.free()


def test_a_mirror_gathers_elements():
    x = np.arange(300 * 70).reshape(300, 70)
    with sk.mirror(sk.asarray(x)) as m:
        random = np.random.default_rng(sk.rank())
        index = random.integers(-300, 300, (4, 50)), random.integers(0, 70, 50)
        assert (m.gather(index) == x[index]).all()
        out = np.empty((4, 50), x.dtype)
        assert m.gather(index, out) is out and (out == x[index]).all()
        with pytest.raises(sk.RangeError, match="300"):
            m.gather(([0, 300], [0, 0]))
        assert m.gather(([], [])).shape == (0,)
        sk.sync()


def test_a_merge_moves_what_was_predicted(monkeypatch):
    shape = (256, 320)
    a, copies = sk.zeros(shape), sk.ones(shape, mirrored=True)
    a.acc(..., 1.0)
    found = options(a, monkeypatch)
    before = counted()
    copies.merge()
    if sk.nodes() > 1:
        transfers, moved = by_all(before)
        assert abs(found["mirrored"].bytes - moved) <= 0.2 * moved
        # Where tiles of one node end within a row, it takes several boxes.
        assert found["mirrored"].transfers <= transfers <= 2 * found["mirrored"].transfers


def test_bad_input():
    with pytest.raises(sk.InvalidError, match="mirrored already"):
        sk.advise(sk.zeros(10, mirrored=True))
    with pytest.raises(sk.InvalidError, match="refreshes"):
        sk.advise(sk.zeros(10), refreshes=0)
