"""Which parts of an array lie where in a file of its elements in C order. Pure arithmetic.

A box is a slice for each dimension. A piece is (its first element's place in C order, box): its
elements are neighbours in the file.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product

Box = tuple[slice, ...]
Piece = tuple[int, Box]
Bounds = Sequence[tuple[int, int]]


def pieces(shape: Sequence[int], low: int, high: int, most: int) -> Iterator[Piece]:
    """Pieces of at most `most` elements that cover the elements [low, high), in their order."""
    if low >= high:
        return
    if not shape:
        yield 0, ()
        return
    stride = math.prod(shape[1:])
    while low < high:
        row, within = divmod(low, stride)
        if within or low + stride > high or stride > most:
            end = min(high, (row + 1) * stride)
            for at, box in pieces(shape[1:], within, end - row * stride, most):
                yield row * stride + at, (slice(row, row + 1), *box)
            low = end
        else:
            rows = min((high - low) // stride, most // stride)
            yield low, (slice(row, row + rows), *(slice(0, n) for n in shape[1:]))
            low += rows * stride


def divided_last(shape: Sequence[int], bounds: Bounds) -> int:
    """The last dimension of which `bounds` leave something out; 0 if there is none."""
    return max((d for d, n in enumerate(shape) if bounds[d] != (0, n)), default=0)


def block_pieces(shape: Sequence[int], bounds: Bounds, most: int) -> Iterator[Piece]:
    """Pieces of at most `most` elements that cover a block."""
    if not shape:
        yield 0, ()
        return
    if any(high <= low for low, high in bounds):
        return
    axis = divided_last(shape, bounds)
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    low, high = bounds[axis]
    for index in product(*(range(*each) for each in bounds[:axis])):
        start = sum(i * n for i, n in zip(index, strides)) + low * strides[axis]
        yield from pieces(shape, start, start + (high - low) * strides[axis], most)


def share(
    elements: int, itemsize: int, offset: int, member: int, members: int, align: int = 4096
) -> tuple[int, int]:
    """[low, high): the elements that a member writes, if all write about as many. Where it can be,
    the edge between two members is one of pages of the file, whose elements begin at `offset`."""

    def edge(index: int) -> int:
        if index in (0, members):
            return elements * index // members
        at = offset + elements * index // members * itemsize
        return max(0, at - at % align - offset) // itemsize

    return edge(member), edge(member + 1)


# ---- checksums of parts --------------------------------------------------------------------------


def _times(a: int, b: int) -> int:
    """The product of two polynomials modulo that of CRC-32; bit 31 is the coefficient of 1."""
    result = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            result ^= b
        b = (b >> 1) ^ 0xEDB88320 if b & 1 else b >> 1
    return result


def joined_crc(first: int, second: int, second_bytes: int) -> int:
    """zlib.crc32 of two texts in a row, from each one's: the first is moved on by the length of the
    second, that is multiplied by x to the power of its bits."""
    power, square = 1 << 31, 1 << 23  # 1 and x^8
    while second_bytes:
        if second_bytes & 1:
            power = _times(square, power)
        square = _times(square, square)
        second_bytes >>= 1
    return _times(power, first) ^ second
