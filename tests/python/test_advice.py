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


def test_bad_input():
    with pytest.raises(sk.InvalidError, match="mirrored already"):
        sk.advise(sk.zeros(10, mirrored=True))
    with pytest.raises(sk.InvalidError, match="refreshes"):
        sk.advise(sk.zeros(10), refreshes=0)
