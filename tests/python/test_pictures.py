"""What notebooks show of arrays: shape, type, distribution, and who holds what."""

from xml.dom import minidom

import skerry as sk
import skerry.xp as xp
from skerry import _picture


def blocks(svg):
    """{rank: its text} of the rectangles."""
    found = [r.getElementsByTagName("title")[0].firstChild.data
             for r in minidom.parseString(svg).getElementsByTagName("rect")]  # fmt: skip
    return {int(text.split()[1]): text for text in found}


def test_each_holder_is_a_rectangle():
    a = sk.zeros((1000, 600))
    told = blocks(a._repr_svg_())
    for rank in range(sk.size()):
        bounds = a.distribution(rank)
        assert (rank in told) == all(high > low for low, high in bounds)
        if rank in told:
            place = ", ".join(f"{low}:{high}" for low, high in bounds)
            assert told[rank].endswith(f"[{place}]")
    few = blocks(sk.zeros(1)._repr_svg_())
    assert len(few) == 1


def test_the_page_says_what_it_is():
    a = sk.zeros((30, 20), "float32")
    page = minidom.parseString(a._repr_html_()).toxml()
    for word in ("skerry.Array", "(30, 20)", "float32", "2,400", "distributed"):
        assert word in page
    assert "mirrored" in sk.zeros(9, mirrored=True)._repr_html_()
    x = xp.zeros((4000, 600))  # more than arrays that are whole ever have
    assert ("divided over" in x._repr_html_()) == (sk.size() > 1)
    assert len(blocks(x._repr_svg_())) == sk.size()
    assert "whole on every rank" in xp.zeros(3)._repr_html_()
    minidom.parseString(xp.sum(x)._repr_html_())
    a.free()
    assert a._repr_html_() == "<skerry.Array, freed>"


def test_the_picture_shows_the_dimensions_that_are_divided():
    boxes = [(r, 0, ((0, 3), (10 * r, 10 * r + 10), (0, 20))) for r in range(4)]
    assert len(blocks(_picture.picture((3, 40, 20), boxes))) == 4
    many = [(r, 0, ((r, r + 1),)) for r in range(5000)]
    assert len(_picture.picture((5000,), many)) < 1 << 18
