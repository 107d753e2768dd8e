"""Factorisations of one divided matrix that no rank has all of: Cholesky, LU and QR.

Columns lie block-cyclically: block j, all rows of some columns, on rank j mod ranks, in a segment.
The owner of block k factors it, a *panel*, with LAPACK inside, and adds one to a counter of each
other rank, which then reads the panel where it lies: of the same node without a copy. Each rank
updates its own blocks. The owner of block k + 1 updates and factors that first (lookahead), so that
panels are factored while other ranks still update. Panels stay where they are: a reader may come
back. The counters count the panels of each owner: a rank that waits for one needs to know of no
other. Blocks of right-hand sides are of their owner alone.

An error of a panel (no pivot, not positive definite) is in the panel's head. Every rank reads every
head, in the same order, and all stop at the same panel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import skerry as sk
from skerry import _core
from . import _exchange, _lapack, _layout
from ._array import Array, empty_block, new_layout
from ._elementwise import astype, functions, inexact
from ._layout import Layout
from ._manipulation import matrix_transpose
from ._types import Block, Shape

# Below so many rows or columns one rank is done before the panels have gone around. Measured: on
# two ranks of fast cores (60 GFlop/s) panels take 0.6 to 1.8 of one rank's time at 512, 0.9 to 2.5
# at 384, 0.6 to 1.3 at 640.
LEAST = 512
_STRIP = 512  # rows of a product that is subtracted while it is in the cache
_LEAF = 8  # columns that are eliminated one by one
_MOST_KEPT = 128 << 20  # bytes of a rank that the next matrix finds
_OK, _BAD, _FAILED = 0, 1, 2  # in the head of a panel

Blocks = dict[int, np.ndarray]  # own blocks by number


def fits(x: Array) -> bool:
    """Whether a matrix is factored by panels."""
    return x.ndim == 2 and not x.layout.whole and min(x.shape) >= LEAST


def _width(n: int, ranks: int) -> int:
    """Columns of a block: enough for products at full speed, and some blocks for each rank."""
    return max(32, min(192, n // (10 * ranks) // 16 * 16))


class Columns:
    """How columns are cut into blocks, and whose they are."""

    def __init__(self, n: int, width: int) -> None:
        here = _exchange.job()
        self.n, self.rank, self.ranks = n, here.rank, here.ranks
        self.cuts = [(low, min(low + width, n)) for low in range(0, n, width)]

    def owner(self, j: int) -> int:
        return j % self.ranks

    def of(self, rank: int) -> range:
        """The blocks of a rank."""
        return range(rank, len(self.cuts), self.ranks)

    def met(self, rank: int, bounds: tuple[int, int]) -> Iterator[tuple[int, slice, slice, slice]]:
        """Of each block of a rank, the columns within bounds: (block, those of the block, those
        behind bounds[0], those behind the ones of the blocks before)."""
        begin = 0
        for j in self.of(rank):
            first = self.cuts[j][0]
            low, high = max(first, bounds[0]), min(self.cuts[j][1], bounds[1])
            if high > low:
                inside = slice(low - first, high - first)
                end = begin + high - low
                yield j, inside, slice(low - bounds[0], high - bounds[0]), slice(begin, end)
                begin = end

    def count(self, rank: int, box: Any) -> int:
        """Elements of a box in the columns of a rank."""
        if not _layout.volume(box):
            return 0
        (low, high), bounds = box
        return (high - low) * sum(at.stop - at.start for *_, at in self.met(rank, bounds))

    def take(self, x: Array, blocks: Blocks) -> None:
        """Fills the own blocks from a matrix. Collective."""
        value, here = x._evaluate(), self.rank
        if x.layout.whole:
            for j in self.of(here):
                blocks[j][...] = value[:, slice(*self.cuts[j])]
            return
        boxes = x.layout.boxes

        def fill(to: int, view: Block) -> None:
            (low, high), bounds = boxes[here]
            flat = view.reshape(high - low, -1)
            for _, _, near, behind in self.met(to, bounds):
                flat[:, behind] = value[:, near]

        counts = np.array([[self.count(to, box) for to in range(self.ranks)] for box in boxes])
        got = _exchange.rows_of_others(fill, counts, x.dtype)
        for at, box in enumerate(boxes):
            if not counts[at, here]:
                continue
            rows, bounds = box
            flat = None if at == here else got[at].reshape(rows[1] - rows[0], -1)
            for j, inside, near, behind in self.met(here, bounds):
                part = value[:, near] if flat is None else flat[:, behind]
                blocks[j][slice(*rows), inside] = part

    def give(self, blocks: Blocks, rows: int, layout: Layout, dtype: Any) -> Array:
        """The matrix of the first rows of all blocks, so laid out. Collective."""
        here, boxes = self.rank, layout.boxes
        out = empty_block(layout, dtype)
        counts = np.array([[self.count(at, box) for box in boxes] for at in range(self.ranks)])

        def fill(to: int, view: Block) -> None:
            (low, high), bounds = boxes[to]
            flat = view.reshape(high - low, -1)
            for j, inside, _, behind in self.met(here, bounds):
                flat[:, behind] = blocks[j][low:high, inside]

        got = _exchange.rows_of_others(fill, counts, np.dtype(dtype))
        if out.size:
            (low, high), bounds = boxes[here]
            for at in range(self.ranks):
                for j, inside, near, behind in self.met(at, bounds):
                    out[:, near] = (
                        blocks[j][low:high, inside]
                        if at == here
                        else got[at].reshape(high - low, -1)[:, behind]
                    )
        return Array(out, layout)


class Panel:
    """A factored block, where a rank reads it: rows from `low` on."""

    def __init__(self, values: Block, low: int, head: Block, aside: Block) -> None:
        self.values, self.low, self.head, self.aside = values, low, head, aside

    def rows(self, low: int, high: int | None = None) -> Block:
        return self.values[low - self.low : None if high is None else high - self.low]


class Panels:
    """A matrix in blocks of columns that all ranks read. Making and freeing it are collective."""

    def __init__(self, shape: Shape, dtype: Any, asides: int = 0) -> None:
        here = _exchange.job()
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.width = _width(min(shape), here.ranks)
        self.columns = Columns(shape[1], self.width)
        item = self.dtype.itemsize
        # A slot: how it went, the row that each step's pivot came from, squares beside, the block.
        self.head = 8 * (1 + self.width)
        self.beside = asides * self.width * self.width * item
        self.data = self.head + (self.beside + 7) // 8 * 8  # where the block begins in its slot
        self.slot = (self.data + shape[0] * self.width * item + 63) // 64 * 64
        self.begin = (8 * here.ranks + 63) // 64 * 64  # behind the counters
        self.asides = asides
        most = len(self.columns.of(0))
        self.segment = _memory(self.begin + self.slot * most)
        self.segment.local[: self.begin] = 0  # take() synchronizes before anybody counts
        self.near = {
            rank: memory
            for rank in range(here.ranks)
            if here.near[rank] and (memory := self.segment.pointer(here.members[rank])) is not None
        }
        self.near[here.rank] = self.segment.local
        self.rank, self.members, self.published = here.rank, here.members, 0
        self.own = {j: self._block(self.near[here.rank], j) for j in self.columns.of(here.rank)}

    def _at(self, j: int) -> int:
        return self.begin + j // self.columns.ranks * self.slot

    def _block(self, memory: Block, j: int) -> Block:
        low, high = self.columns.cuts[j]
        m, width = self.shape[0], high - low
        begin = self._at(j) + self.data
        size = m * width * self.dtype.itemsize
        return memory[begin : begin + size].view(self.dtype).reshape(m, width)

    def _beside(self, memory: Block, at: int) -> tuple[Block, Block]:
        """(head, squares beside) in memory that begins with a slot at `at`."""
        head = memory[at : at + self.head].view(np.int64)
        aside = memory[at + self.head : at + self.head + self.beside].view(self.dtype)
        return head, aside.reshape(self.asides, self.width, self.width)

    def mine(self, k: int) -> tuple[Block, Block]:
        """The head and the squares of an own block, to be written."""
        return self._beside(self.near[self.rank], self._at(k))

    def publish(self, k: int, how: int) -> None:
        """Block k is factored, or cannot be: the others may read it."""
        self.mine(k)[0][0] = how
        self.published += 1
        for rank in range(self.columns.ranks):
            if rank != self.rank:
                self.segment.put_notify(self.members[rank], 0, None, 8 * self.rank)

    def give_up(self) -> None:
        """The others, which may wait for a panel of this rank, find that there will be none."""
        for k in self.columns.of(self.rank)[self.published :]:
            self.publish(k, _FAILED)

    def read(self, k: int, low: int, high: int | None = None) -> Panel:
        """Panel k, rows low to high, when it is factored."""
        owner = self.columns.owner(k)
        if owner != self.rank:
            self.segment.notify_wait(8 * owner, k // self.columns.ranks + 1)
        high = self.shape[0] if high is None else high
        if owner in self.near:
            memory = self.near[owner]
            return Panel(self._block(memory, k)[low:high], low, *self._beside(memory, self._at(k)))
        beside = np.empty(self.head + self.beside, np.uint8)
        first, last = self.columns.cuts[k]
        values = np.empty((high - low, last - first), self.dtype)
        begin = self._at(k)
        member = self.members[owner]
        requests = [self.segment.get_nb(member, begin, beside)]
        if values.size:
            at = begin + self.data + low * (last - first) * self.dtype.itemsize
            requests.append(self.segment.get_nb(member, at, values))
        for request in requests:
            request.wait()
        return Panel(values, low, *self._beside(beside, 0))

    def free(self) -> None:
        if self.segment is not _exchange.job().panels:
            self.segment.free()


def _memory(nbytes: int) -> sk.Segment:
    """A segment of so many bytes or more, the same on all ranks. Collective. One is kept: fresh
    pages cost as much as to factor a matrix of 1,000 columns in them."""
    here = _exchange.job()
    if here.panels is not None:
        if here.panels.nbytes() >= nbytes:
            here.sync()  # others may still read the panels of the matrix before
            return here.panels
        if nbytes <= _MOST_KEPT:
            here.panels.free()
            here.panels = None
    segment = sk.Segment(nbytes, group=here.group)
    if nbytes <= _MOST_KEPT:
        here.panels = segment
    return segment


class _Method:
    """How a panel is factored, and what it does to blocks on its right."""

    asides = 0
    refused = ""

    def factor(self, block: Block, k0: int, head: Block, aside: Block) -> bool:
        """Factors rows k0 on of a block in place; False if it cannot be."""
        raise NotImplementedError

    def update(self, block: Block, panel: Panel, k0: int, j0: int | None) -> None:
        """Applies the panel of columns k0 on to a block: columns j0 on, or a right-hand side."""
        raise NotImplementedError


def factored(
    x: Array, method: _Method, count: int | None = None, beside: Blocks | None = None
) -> Panels:
    """The panels of a matrix, of all its blocks or the first `count`; own blocks `beside` are
    treated as columns on its right. LinAlgError on all ranks if on one. Collective."""
    _exchange.job().compare(type(method).__name__, x.shape, x.dtype.str)
    panels = Panels(x.shape, x.dtype, method.asides)
    panels.columns.take(x, panels.own)
    error: Exception | None = None
    try:
        with np.errstate(all="ignore"):  # as in LAPACK
            _run(panels, method, len(panels.columns.cuts) if count is None else count, beside or {})
    except Exception as found:
        error = found
        panels.give_up()
    try:
        _exchange.agree_no_error(error)
    except BaseException:
        panels.free()
        raise
    return panels


def _run(panels: Panels, method: _Method, count: int, beside: Blocks) -> None:
    columns = panels.columns

    def do(k: int) -> None:
        head, aside = panels.mine(k)
        done = method.factor(panels.own[k], columns.cuts[k][0], head, aside)
        panels.publish(k, _OK if done else _BAD)

    if columns.owner(0) == panels.rank:
        do(0)
    for k in range(count):
        k0 = columns.cuts[k][0]
        panel = panels.read(k, k0)
        if panel.head[0] == _BAD:
            raise np.linalg.LinAlgError(method.refused)
        if panel.head[0] == _FAILED:
            raise sk.InvalidError(f"rank {columns.owner(k)} could not factor its columns")
        ahead = k + 1 if k + 1 < count and columns.owner(k + 1) == panels.rank else None
        if ahead is not None:
            method.update(panels.own[ahead], panel, k0, columns.cuts[ahead][0])
            do(ahead)
        for j in columns.of(panels.rank):
            if j > k and j != ahead:
                method.update(panels.own[j], panel, k0, columns.cuts[j][0])
        for block in beside.values():
            method.update(block, panel, k0, None)


def _subtract(out: Block, a: Block, b: Block) -> None:
    """out -= a @ b, some rows at a time if there is no product that subtracts."""
    if _lapack.subtracted(out, a, b):
        return
    product = np.empty((min(_STRIP, len(out)), b.shape[1]), out.dtype)
    for low in range(0, len(out), _STRIP):
        part = product[: len(out) - low]
        np.matmul(a[low : low + _STRIP], b, out=part)
        out[low : low + _STRIP] -= part


class _Cholesky(_Method):
    refused = "Matrix is not positive definite"

    def factor(self, block: Block, k0: int, head: Block, aside: Block) -> bool:
        k1 = k0 + block.shape[1]
        try:
            block[k0:k1] = np.linalg.cholesky(block[k0:k1])
        except np.linalg.LinAlgError:
            return False
        block[k1:] = np.linalg.solve(block[k0:k1], block[k1:].conj().T).conj().T
        return True

    def update(self, block: Block, panel: Panel, k0: int, j0: int | None) -> None:
        assert j0 is not None
        rows = panel.rows(j0)
        _subtract(block[j0:], rows, rows[: block.shape[1]].conj().T)


class _LU(_Method):
    """Rows are exchanged on the right alone: what is on the left is not read again."""

    asides = 1  # the inverse of the unit triangle
    refused = "Singular matrix"

    def factor(self, block: Block, k0: int, head: Block, aside: Block) -> bool:
        width = block.shape[1]
        turned = np.ascontiguousarray(block[k0:].T)
        pivots = head[1 : 1 + width]
        done = _lapack.lu(turned, pivots)
        if done is False or (done is None and not _eliminated(turned, pivots)):
            return False
        block[k0:] = turned.T
        aside[0, :width, :width] = np.linalg.inv(_unit_triangle(block[k0 : k0 + width]))
        return True

    def update(self, block: Block, panel: Panel, k0: int, j0: int | None) -> None:
        width = panel.values.shape[1]
        _exchange_rows(block[k0:], panel.head[1 : 1 + width])
        block[k0 : k0 + width] = panel.aside[0, :width, :width] @ block[k0 : k0 + width]
        _subtract(block[k0 + width :], panel.rows(k0 + width), block[k0 : k0 + width])


def _unit_triangle(square: Block) -> Block:
    out = np.tril(square, -1)
    np.fill_diagonal(out, 1)
    return out


def _exchange_rows(rows: Block, pivots: Block) -> None:
    """Step i exchanged rows i and pivots[i]."""
    order: dict[int, int] = {}
    for i, p in enumerate(pivots.tolist()):
        if p != i:
            order[i], order[p] = order.get(p, p), order.get(i, i)
    if order:
        rows[list(order)] = rows[list(order.values())]


def _eliminated(turned: Block, pivots: Block) -> bool:
    """LU with partial pivoting of a transposed panel, in place, by halves of its columns. False if
    there is no pivot."""
    width = len(turned)
    if width <= _LEAF:
        return _by_columns(turned, pivots)
    half = (width // 2 + _LEAF - 1) // _LEAF * _LEAF
    left, right = turned[:half], turned[half:]
    if not _eliminated(left, pivots[:half]):
        return False
    _exchange_rows(right.T, pivots[:half])
    right[:, :half] = np.linalg.solve(_unit_triangle(left[:, :half].T), right[:, :half].T).T
    right[:, half:] -= right[:, :half] @ left[:, half:]
    if not _eliminated(right[:, half:], pivots[half:]):
        return False
    _exchange_rows(left[:, half:].T, pivots[half:])
    pivots[half:] += half
    return True


def _by_columns(turned: Block, pivots: Block) -> bool:
    for i, column in enumerate(turned):
        p = i + int(np.abs(column[i:]).argmax())
        pivots[i] = p
        if p != i:
            turned[:, [i, p]] = turned[:, [p, i]]
        pivot = column[i]
        if pivot == 0:
            return False
        below = column[i + 1 :]
        below /= pivot
        if i + 1 < len(turned):
            turned[i + 1 :, i + 1 :] -= turned[i + 1 :, i, None] * below
    return True


class _QR(_Method):
    """Householder reflections of a panel are I - V T V^H (Schreiber and Van Loan 1989)."""

    asides = 2  # T, and the triangle R

    def factor(self, block: Block, k0: int, head: Block, aside: Block) -> bool:
        width = block.shape[1]
        found, tau = np.linalg.qr(block[k0:], "raw")
        v = np.tril(found.T, -1)
        count = len(tau)
        square = np.arange(count)
        v[square, square] = 1
        aside[:] = 0
        aside[1, :count, :width] = np.triu(found.T)[:count]
        none = tau == 0
        v[:, :count][:, none] = 0
        inverse = np.triu(v[:, :count].conj().T @ v[:, :count], 1)
        inverse[square, square] = 1 / np.where(none, 1, tau)
        aside[0, :count, :count] = np.linalg.inv(inverse)
        block[k0:] = v
        return True

    def update(self, block: Block, panel: Panel, k0: int, j0: int | None) -> None:
        reflect(block, panel, k0, adjoint=True)


def reflect(block: Block, panel: Panel, k0: int, adjoint: bool) -> None:
    """block = Q block, or Q^H block, of the panel's reflections."""
    width = panel.values.shape[1]
    v, t = panel.rows(k0), panel.aside[0, :width, :width]
    _subtract(block[k0:], v, (t.conj().T if adjoint else t) @ (v.conj().T @ block[k0:]))


# ---- what users call -----------------------------------------------------------------------------


def _empty(columns: Columns, rows: int, dtype: Any) -> Blocks:
    return {
        j: np.zeros((rows, columns.cuts[j][1] - columns.cuts[j][0]), dtype)
        for j in columns.of(columns.rank)
    }


def _right(b: Array, dtype: Any) -> tuple[Columns, Blocks]:
    """The columns of a right-hand side, shared among the ranks."""
    n = b.shape[1]
    ranks = _exchange.ranks()
    columns = Columns(n, max(1, min(192, -(-n // ranks))))
    blocks = _empty(columns, b.shape[0], dtype)
    columns.take(b, blocks)
    return columns, blocks


def cholesky(x: Array, upper: bool) -> Array:
    """The triangular factor of a matrix."""
    x = inexact(x)
    panels = factored(adjoint(x) if upper else x, _Cholesky())
    try:
        for j, block in panels.own.items():  # others may still read what is below
            low, high = panels.columns.cuts[j]
            block[:low] = 0
            block[low:high] = np.tril(block[low:high])
        out = panels.columns.give(panels.own, x.shape[0], x.layout, x.dtype)
    finally:
        panels.free()
    return adjoint(out) if upper else out


def adjoint(x: Array) -> Array:
    """The conjugate of the transposed matrix."""
    return functions["conj"](matrix_transpose(x)) if x.dtype.kind == "c" else matrix_transpose(x)


def _back(panels: Panels, blocks: Blocks, count: int, triangle: Any) -> None:
    """Own blocks y become the x of R x = y, R the triangle in the panels."""
    if not blocks:
        return
    for k in reversed(range(count)):
        k0, k1 = panels.columns.cuts[k]
        panel = panels.read(k, 0, k1)
        square = triangle(panel, k0, k1)
        for block in blocks.values():
            block[k0:k1] = np.linalg.solve(square, block[k0:k1])
            _subtract(block[:k0], panel.rows(0, k0), block[k0:k1])


def _upper(panel: Panel, k0: int, k1: int) -> Block:
    return np.triu(panel.rows(k0, k1))


def solve(a: Array, b: Array | None) -> Array:
    """The solutions x of a x = b, b of two dimensions; None: the inverse."""
    n = a.shape[0]
    dtype = inexact(a).dtype if b is None else np.result_type(inexact(a).dtype, inexact(b).dtype)
    a = astype(a, dtype, copy=False)
    if b is None:
        columns = Columns(n, _width(n, _exchange.ranks()))
        blocks = _empty(columns, n, dtype)
        for j, block in blocks.items():
            block[slice(*columns.cuts[j])] = np.eye(block.shape[1])
        layout = a.layout
    else:
        columns, blocks = _right(astype(b, dtype, copy=False), dtype)
        layout = new_layout(b.shape, dtype) if b.layout.whole else b.layout
    panels = factored(a, _LU(), beside=blocks)
    try:
        _back(panels, blocks, len(panels.columns.cuts), _upper)
    finally:
        panels.free()
    return columns.give(blocks, n, layout, dtype)


def slogdet(x: Array) -> tuple[np.ndarray, np.ndarray]:
    """Sign and logarithm of the absolute value of a determinant, on every rank."""
    x = inexact(x)
    real = np.empty(0, x.dtype).real.dtype
    try:
        panels = factored(x, _LU())
    except np.linalg.LinAlgError:
        return np.zeros((), x.dtype), np.array(-np.inf, real)
    diagonal, swaps = [], 0
    try:
        for k, (k0, k1) in enumerate(panels.columns.cuts):
            panel = panels.read(k, k0, k1)
            diagonal.append(panel.rows(k0, k1).diagonal().copy())
            swaps += int((panel.head[1 : 1 + k1 - k0] != np.arange(k1 - k0)).sum())
    finally:
        panels.free()
    values = np.concatenate(diagonal)
    size = np.abs(values)
    sign = np.prod(values / size) * (-1) ** swaps
    return np.asarray(sign, x.dtype), np.asarray(np.log(size).sum(), real)


def qr(x: Array, complete: bool, only_r: bool = False) -> tuple[Array, Array]:
    """Orthogonal and triangular factors of a matrix; without the first, the second twice."""
    x = inexact(x)
    m, n = x.shape
    width = _width(min(m, n), _exchange.ranks())
    steps = -(-min(m, n) // width)  # blocks that begin above the last row
    panels = factored(x, _QR(), steps)
    try:
        columns = panels.columns
        wanted = Columns(m if complete else min(m, n), width)
        q = {} if only_r else _empty(wanted, m, x.dtype)
        for j, block in q.items():
            low, high = wanted.cuts[j]
            block[low:high] = np.eye(high - low)
        for k in reversed(range(steps)) if q else ():
            k0 = columns.cuts[k][0]
            panel = panels.read(k, k0)
            for j, block in q.items():
                if wanted.cuts[j][1] > k0:
                    reflect(block, panel, k0, adjoint=False)
        rows = m if complete else min(m, n)
        _exchange.job().sync()  # nobody reads the reflections any more
        for j, block in panels.own.items():
            low, high = columns.cuts[j]
            if j < steps:
                block[low:] = 0
                end = min(high, m)
                block[low:end] = panels.mine(j)[1][1, : end - low, : high - low]
        out = columns.give(panels.own, rows, _rows(x.layout, (rows, n), x.dtype), x.dtype)
    finally:
        panels.free()
    if only_r:
        return out, out
    shape = (m, wanted.n)
    return wanted.give(q, m, _rows(x.layout, shape, x.dtype), x.dtype), out


def _rows(like: Layout, shape: Shape, dtype: Any) -> Layout:
    """A layout for a factor: divided as new arrays are."""
    return like if like.shape == shape else new_layout(shape, dtype)
