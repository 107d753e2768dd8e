"""Linear algebra. Products are distributed: each rank keeps its rows and reads the other factor
part by part. Stacks of matrices are solved where they are. One large matrix is factored by panels
(_dense.py). A small one, and those of eigenvalues and singular values, are collected on every
rank, up to xp.options()["gather_bytes"], and LAPACK solves them there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from . import _dense, _exchange, _layout, _options, _twins
from . import _reductions
from ._array import (
    Array,
    as_array,
    axis_of,
    empty_block,
    gathered,
    in_layout,
    new_layout,
    of_numpy,
    redistributed,
    shows,
    small_reads,
    undivided,
    works,
)
from ._creation import zeros
from ._elementwise import agreed, apply, astype, functions, inexact
from ._manipulation import (
    expanded,
    expand_dims,
    matrix_transpose,  # noqa: F401 (part of the namespace)
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
)
from ._layout import Layout
from ._types import Axes, Block, Operand, Shape

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


class EighResult(NamedTuple):
    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    U: Array
    S: Array
    Vh: Array


# ---- products ------------------------------------------------------------------------------------


def matmul(x1: Operand, x2: Operand, /) -> Array:
    """The matrix product, of stacks of matrices too. Shapes: as numpy.matmul. dtype: what holds
    both. Errors: TypeError (no array), ValueError (shapes do not fit). Collective. Gathers: the
    second factor, 64 MiB of it at a time, where rows of the first are divided."""
    x1, x2 = as_array(x1, "matmul's x1"), as_array(x2, "matmul's x2")
    if not x1.ndim or not x2.ndim:
        raise ValueError("matmul takes arrays of at least one dimension")
    inner = x2.shape[0] if x2.ndim == 1 else x2.shape[-2]
    if x1.shape[-1] != inner:
        raise ValueError(f"matmul: shapes {x1.shape} and {x2.shape} do not fit")
    x1, x2 = _brought(x1), _brought(x2)
    works(x1)
    works(x2)
    a = expand_dims(x1, 0) if x1.ndim == 1 else x1
    b = expand_dims(x2, 1) if x2.ndim == 1 else x2
    out = _product(a, b) if a.ndim == b.ndim == 2 else _stacked_product(a, b)
    if x1.ndim == 1:
        out = squeeze(out, -2)
    return squeeze(out, -1) if x2.ndim == 1 else out


def _brought(x: Array) -> Array:
    """A short slice that lies on one rank goes to all, so that they share the work, and see what
    the program reads."""
    if x.layout.whole or x.nbytes > _options.values["whole_bytes"]:
        return x
    if sum(_layout.volume(box) > 0 for box in x.layout.boxes) > 1:
        return x
    return redistributed(x, _layout.whole(x.shape, _exchange.ranks()))


def _product(a: Array, b: Array) -> Array:
    (m, k), n = a.shape, b.shape[1]
    dtype = np.result_type(a.dtype, b.dtype)
    if 0 in (m, k, n):
        return zeros((m, n), dtype=dtype)
    if a.layout.whole and b.layout.whole:
        return _whole_product(a, b, dtype)
    if m < _exchange.ranks() <= k or (m == 1 and not a.layout.whole) or _along_inner(a, b):
        return _inner_product(a, b, m, n, dtype)
    # Own rows of a times b, one rank's rows of b at a time: a row of blocks of the result.
    layout = _layout.slabs((m, k), 0, _exchange.ranks())
    if rows_only(a.layout) and (n < _LEAST_EVEN or a.layout.largest <= 1.5 * layout.largest):
        layout = a.layout
    mine = redistributed(a, layout)._evaluate()
    out_layout = _wide(layout, n)
    out = empty_block(out_layout, dtype)
    if b.nbytes <= _PIECE_BYTES or b.layout.whole:
        known = gathered(b, "matmul")
        agreed(lambda: np.matmul(mine, known, out=out) if out.size else out)
        return Array(out, out_layout)
    out[...] = 0
    _add_pieces(out, mine, b)
    return Array(out, out_layout)


# Columns from which on the rows of a slice, which few ranks have, are shared evenly first: to move
# an element takes as long as to multiply it some 16 times.
_LEAST_EVEN = 64
_PIECE_BYTES = 64 << 20  # of the second factor that every rank holds at a time


def _add_pieces(out: Block, mine: Block, b: Array) -> None:
    """out += mine @ b, with all ranks collecting some rows of b at a time."""
    rows = max(1, _PIECE_BYTES // max(1, b.nbytes // b.shape[0]))
    for low in range(0, b.shape[0], rows):
        piece = gathered(b[low : low + rows], "matmul")
        agreed(partial(_add_product, out, mine[:, low : low + rows], piece))


def _add_product(out: Block, a: Block, b: Block) -> None:
    if out.size:
        out += a @ b


def _along_inner(a: Array, b: Array) -> bool:
    """Whether a short result is summed over parts of a long inner axis, X^T Y: b lies in rows, and
    a in the same parts of its columns, or whole."""
    uneven = b.layout.largest * _exchange.ranks() > 1.5 * b.size
    if not rows_only(b.layout) or (uneven and min(a.shape[0], b.shape[1]) >= _LEAST_EVEN):
        return False
    if a.layout.whole:
        return a.shape[0] < b.shape[0]
    return a.shape[0] <= b.shape[0] and (
        a.layout == _layout.permuted(_wide(b.layout, a.shape[0]), (1, 0))
    )


def _wide(layout: Layout, n: int) -> Layout:
    """A layout of rows of another length."""
    nothing = ((0, 0), (0, 0))
    boxes = tuple((box[0], (0, n)) if _layout.volume(box) else nothing for box in layout.boxes)
    return _layout.Layout((layout.shape[0], n), boxes)


def rows_only(layout: Layout) -> bool:
    return not layout.whole and not _layout.divided(layout, (1,))


def _whole_product(a: Array, b: Array, dtype: np.dtype[Any]) -> Array:
    (m, k), n = a.shape, b.shape[1]
    layout = new_layout((m, n), dtype)
    if layout.whole:
        return of_numpy(np.matmul(a._evaluate(), b._evaluate()), layout)
    rows, columns = layout.boxes[_exchange.job().rank]
    x, y = a._evaluate()[slice(*rows)], b._evaluate()[:, slice(*columns)]
    return Array(agreed(lambda: np.matmul(x, y)), layout)


def _inner_product(a: Array, b: Array, m: int, n: int, dtype: np.dtype[Any]) -> Array:
    """A short result: each rank multiplies along its part of the summed axis."""
    ranks = _exchange.ranks()
    if 1 in (m, n) and not b.layout.whole:  # in a loop it costs more than a whole array would
        for told in small_reads:
            told(b, m * n * dtype.itemsize)
        if b.layout.whole:
            return _product(a, b)
    b = b if rows_only(b.layout) else redistributed(b, _layout.slabs(b.shape, 0, ranks))
    mine = redistributed(a, _layout.permuted(_wide(b.layout, m), (1, 0)))._evaluate()
    other = b._evaluate()
    partial = agreed(lambda: np.matmul(mine, other).astype(dtype, copy=False))
    if mine.size == 0:
        partial = np.zeros((m, n), dtype)
    layout = new_layout((m, n), dtype)
    if layout.whole and partial.nbytes * ranks <= _exchange.MOST_STACKED:
        return Array(_exchange.of_all(partial).sum(axis=0, dtype=dtype), layout)
    stacked = _layout.along((ranks, m, n), 0, list(range(ranks + 1)))
    return _reductions.sum(Array(partial[None], stacked), axis=0, dtype=dtype)


def _stacked_product(a: Array, b: Array) -> Array:
    """Stacks broadcast against each other. The stack is divided, as one of the factors is if it
    can be so; no factor is repeated in memory."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    if b.ndim == 2 and _layout.ordered(a.layout):  # one product in place of many
        rows = reshape(a, (prod(a.shape[:-1]), a.shape[-1]))
        return reshape(_product(rows, b), shape)
    fixed = (len(shape) - 2, len(shape) - 1)
    full = [x.layout for x in (a, b) if x.shape[:-2] == batch and not x.layout.whole]
    layout = next((_batch_layout(each, shape) for each in full
                   if not _layout.divided(each, fixed)), None)  # fmt: skip
    if layout is None:
        layout = new_layout(shape, np.result_type(a.dtype, b.dtype), fixed)
    parts = []
    for x in (a, b):
        wanted = _batch_layout(layout, (*batch, *x.shape[-2:]))
        parts.append(in_layout(x, _layout.operand(wanted, x.shape)))
    return Array(agreed(lambda: np.matmul(*parts), layout.whole), layout)


def _batch_layout(layout: Layout, shape: Shape) -> Layout:
    """A layout of stacks with whole matrices of another shape."""
    tail = tuple((0, n) for n in shape[-2:])
    boxes = tuple(
        (*box[:-2], *tail) if _layout.volume(box) else ((0, 0),) * len(box) for box in layout.boxes
    )
    return _layout.Layout(shape, boxes, layout.whole)


def tensordot(x1: Operand, x2: Operand, /, *, axes: int | Sequence[Any] = 2) -> Array:
    """The sum of products over pairs of axes. Shape: the other axes of x1, then those of x2. dtype:
    what holds both. Errors: TypeError (no array), AxisError, ValueError (lengths differ).
    Collective. Gathers: as matmul."""
    x1, x2 = as_array(x1), as_array(x2)
    if isinstance(axes, (int, np.integer)):
        pairs = [list(range(x1.ndim - axes, x1.ndim)), list(range(axes))]
    else:
        pairs = [[axis_of(a, x.ndim) for a in np.atleast_1d(which)]
                 for x, which in zip((x1, x2), axes, strict=True)]  # fmt: skip
    if [x1.shape[a] for a in pairs[0]] != [x2.shape[a] for a in pairs[1]]:
        raise ValueError(f"tensordot: {x1.shape} and {x2.shape} differ along axes {axes}")
    free1 = [d for d in range(x1.ndim) if d not in pairs[0]]
    free2 = [d for d in range(x2.ndim) if d not in pairs[1]]
    shape1, shape2 = [x1.shape[d] for d in free1], [x2.shape[d] for d in free2]
    inner = int(np.prod([x1.shape[a] for a in pairs[0]], dtype=np.int64))
    a = reshape(permute_dims(x1, free1 + pairs[0]), (int(np.prod(shape1, dtype=np.int64)), inner))
    b = reshape(permute_dims(x2, pairs[1] + free2), (inner, int(np.prod(shape2, dtype=np.int64))))
    return reshape(_product(a, b), tuple(shape1 + shape2))


def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Array:
    """Sums of conj(x1) * x2 along an axis. Shape: broadcast, without the axis. dtype: what holds
    both. Errors: TypeError (no array), AxisError, ValueError (lengths differ). Collective.
    Gathers: no."""
    x1, x2 = as_array(x1), as_array(x2)
    if not -min(x1.ndim, x2.ndim) <= axis < 0:
        ndim = max(x1.ndim, x2.ndim)
        axis = axis_of(axis, ndim) - ndim
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: {x1.shape} and {x2.shape} differ along axis {axis}")
    dtype = np.result_type(x1.dtype, x2.dtype)
    product = functions["conj"](x1) * x2 if x1.dtype.kind == "c" else x1 * x2
    return _reductions.sum(product, axis=axis, dtype=dtype)


def outer(x1: Operand, x2: Operand, /) -> Array:
    """All products of elements of two vectors. Shape: (n, m). dtype: what holds both. Errors:
    TypeError (no array), ValueError (not 1-d). Collective. Gathers: no."""
    x1, x2 = as_array(x1), as_array(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError("outer takes two 1-d arrays")
    return expand_dims(x1, 1) * expand_dims(x2, 0)


def cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Array:
    """Products of vectors with 3 components along an axis. Shape: broadcast. dtype: what holds
    both. Errors: TypeError (no array), AxisError, ValueError (no 3 components). Collective.
    Gathers: no."""
    x1, x2 = as_array(x1), as_array(x2)
    if not -min(x1.ndim, x2.ndim) <= axis < max(x1.ndim, x2.ndim):
        axis_of(axis, min(x1.ndim, x2.ndim))
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross takes 3 components along axis {axis}: {x1.shape}, {x2.shape}")
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = (moveaxis(expanded(x, shape), axis, 0) for x in (x1, x2))
    a, b = [x1[i] for i in range(3)], [x2[i] for i in range(3)]
    from ._manipulation import stack

    return stack(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]], axis=axis
    )


# ---- norms and diagonals -------------------------------------------------------------------------


def vector_norm(
    x: Operand, /, *, axis: Axes = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    """Norms of vectors along axes (None: of all elements). Shape: without these axes, or with
    length 1 if keepdims. dtype: floating. Errors: TypeError (no array), AxisError. Collective.
    Gathers: no."""
    size = functions["abs"](inexact(as_array(x)))
    along: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if ord == np.inf:
        return _reductions.max(size, **along)
    if ord == -np.inf:
        return _reductions.min(size, **along)
    if ord == 0:
        return astype(_reductions.sum(size != 0, **along), size.dtype)
    if ord == 1:
        return _reductions.sum(size, **along)
    if ord in (2, None):
        return apply(np.sqrt, _reductions.sum(size * size, **along))
    return _reductions.sum(size ** float(ord), **along) ** (1 / ord)


def matrix_norm(x: Operand, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Norms of matrices. Shape: without the last two axes, or with length 1 if keepdims. dtype:
    floating. Errors: TypeError (no array), ValueError (`ord`, or fewer than 2 dimensions).
    Collective. Gathers: one matrix for 'nuc', 2 and -2; otherwise no."""
    x = _matrices(x, "matrix_norm")
    if ord in ("fro", None):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        sums = _reductions.sum(functions["abs"](x), axis=-2 if abs(ord) == 1 else -1, keepdims=True)
        best = _reductions.max if ord > 0 else _reductions.min
        return best(sums, axis=(-2, -1), keepdims=keepdims)
    if ord not in ("nuc", 2, -2):
        raise ValueError(f"matrix_norm: no norm {ord!r}")
    values = svdvals(x)
    best = {"nuc": _reductions.sum, 2: _reductions.max, -2: _reductions.min}[ord]
    out = best(values, axis=-1)
    return expand_dims(out, (-2, -1)) if keepdims else out


def diagonal(x: Operand, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices, along a last axis; not to be written. Of one matrix in rows, each
    rank takes its part. Shape: the diagonal in place of the last two axes. dtype: that of x.
    Errors: TypeError (no array), ValueError (fewer than 2 dimensions). Collective. Gathers: no."""
    x = _matrices(x, "diagonal")
    if x.layout.whole:
        block = np.diagonal(x._evaluate(), offset, -2, -1)
        out = Array(block, _layout.whole(block.shape, _exchange.ranks()), x._memory)
        out._frozen = True
        return out
    out = _diagonal(x, offset)
    like = np.diagonal(_twins.twin(x), offset, -2, -1)
    return shows(out, x, lambda it: _diagonal(it, offset), like, fixed=True)


def _diagonal(x: Array, offset: int) -> Array:
    down, right = max(-offset, 0), max(offset, 0)
    n = max(0, min(x.shape[-2] - down, x.shape[-1] - right))
    if x.ndim > 2 or not rows_only(x.layout) or not n:
        return _solved(lambda block: np.diagonal(block, offset, -2, -1).copy(), x)
    ends = [[min(max(i - down, 0), n) for i in rows] for rows, _ in x.layout.boxes]
    boxes = tuple(((low, high) if high > low else (0, 0),) for low, high in ends)
    layout = _layout.Layout((n,), boxes)
    rank = _exchange.job().rank
    at = np.arange(*layout.boxes[rank][0])
    return Array(x._evaluate()[at + down - x.layout.boxes[rank][0][0], at + right], layout)


def trace(x: Operand, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Sums of the diagonals of matrices. Shape: without the last two axes. dtype: `dtype`; by
    default that of x, 64 bits for whole numbers. Errors: TypeError (no array), ValueError (fewer
    than 2 dimensions). Collective. Gathers: no."""
    return _reductions.sum(_diagonal(_matrices(x, "trace"), offset), axis=-1, dtype=dtype)


# ---- by LAPACK -----------------------------------------------------------------------------------


def _matrices(x: Operand, name: str) -> Array:
    x = as_array(x)
    if x.ndim < 2:
        raise ValueError(f"{name} takes at least 2 dimensions: reshape x, or take x.numpy()")
    return x


def _square(x: Operand, name: str) -> Array:
    x = _matrices(x, name)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name} takes square matrices, not {x.shape[-2:]}")
    return x


def _solved(function: Callable[..., Any], x: Array) -> Any:
    """function over own stacks of whole matrices; its arrays, or several. An error on one rank is
    one on all."""
    x = undivided(x, (x.ndim - 2, x.ndim - 1))
    block, error, out = x._evaluate(), None, None
    try:
        # A rank without matrices needs the result's shape and dtype.
        out = function(block if block.size or x.layout.whole else _identity(x))
    except np.linalg.LinAlgError as found:
        error = found
    if not x.layout.whole:
        _exchange.agree_no_error(error)
    elif error is not None:
        raise error
    if isinstance(out, tuple):
        return tuple(_stack_of(x, part) for part in out)
    return _stack_of(x, out)


def _identity(x: Array) -> Block:
    return np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape[-2:])[
        (None,) * (x.ndim - 2)
    ]


def _stack_of(x: Array, block: Any) -> Array:
    block = np.asarray(block)
    batch = x.ndim - 2
    if x.layout.whole:
        return of_numpy(block)
    tail = block.shape[batch:]
    if not batch and not tail:  # a number of one matrix, which one rank has, or none
        owner = next((rank for rank, box in enumerate(x.layout.boxes) if _layout.volume(box)), -1)
        return of_numpy(block if owner < 0 else _exchange.from_rank(owner, block, (), block.dtype))
    boxes = tuple(
        (*box[:batch], *((0, n) for n in tail))
        if _layout.volume(box)
        else ((0, 0),) * (batch + len(tail))
        for box in x.layout.boxes
    )
    layout = _layout.Layout((*x.shape[:batch], *tail), boxes)
    if not x._evaluate().size:
        block = empty_block(layout, block.dtype)
    return Array(block, layout)


def cholesky(x: Operand, /, *, upper: bool = False) -> Array:
    """Triangular factors of positive definite matrices. Shape: that of x. dtype: floating or
    complex. Errors: TypeError (no array), ValueError (no square matrices), LinAlgError on every
    rank if on one. Collective. Gathers: one small matrix."""
    x = _square(x, "cholesky")
    if _dense.fits(x):
        return _dense.cholesky(x, upper)
    return _solved(lambda a: np.linalg.cholesky(a, upper=upper), x)


def det(x: Operand, /) -> Array:
    """Determinants. Shape: without the last two axes. dtype: floating or complex. Errors: TypeError
    (no array), ValueError (no square matrices), LinAlgError on every rank if on one. Collective.
    Gathers: one small matrix."""
    x = _square(x, "det")
    if _dense.fits(x):
        sign, logarithm = _dense.slogdet(x)
        return of_numpy(sign * np.exp(logarithm))
    return _solved(np.linalg.det, x)


def slogdet(x: Operand, /) -> SlogdetResult:
    """Sign and logarithm of determinants. Shapes: without the last two axes. dtypes: floating; the
    sign of complex numbers complex. Errors: TypeError (no array), ValueError (no square
    matrices), LinAlgError on every rank if on one. Collective. Gathers: one small matrix."""
    x = _square(x, "slogdet")
    if _dense.fits(x):
        return SlogdetResult(*map(of_numpy, _dense.slogdet(x)))
    return SlogdetResult(*_solved(lambda a: tuple(np.linalg.slogdet(a)), x))


def eigh(x: Operand, /) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices. Shapes: (..., n), and that of x. dtypes:
    floating, and that of x. Errors: TypeError (no array), ValueError (no square matrices),
    LinAlgError on every rank if on one. Collective. Gathers: one matrix; of stacks no."""
    return EighResult(*_solved(lambda a: tuple(np.linalg.eigh(a)), _square(x, "eigh")))


def eigvalsh(x: Operand, /) -> Array:
    """Eigenvalues of Hermitian matrices. Shape: (..., n). dtype: floating. Errors: TypeError (no
    array), ValueError (no square matrices), LinAlgError on every rank if on one. Collective.
    Gathers: one matrix; of stacks no."""
    return _solved(np.linalg.eigvalsh, _square(x, "eigvalsh"))


def inv(x: Operand, /) -> Array:
    """Inverses. Shape: that of x. dtype: floating or complex. Errors: TypeError (no array),
    ValueError (no square matrices), LinAlgError on every rank if on one. Collective. Gathers:
    one small matrix."""
    x = _square(x, "inv")
    return _dense.solve(x, None) if _dense.fits(x) else _solved(np.linalg.inv, x)


def matrix_power(x: Operand, n: int, /) -> Array:
    """Powers of matrices by whole numbers. Shape and dtype: those of x. Errors: TypeError (no
    array), ValueError (no square matrices), LinAlgError on every rank if on one. Collective.
    Gathers: one matrix; of stacks no."""
    x = _square(x, "matrix_power")
    return _solved(lambda a: np.linalg.matrix_power(a, n), x)


def _tolerance(rtol: Any) -> Any:
    if rtol is None or isinstance(rtol, (int, float)):
        return rtol
    return gathered(rtol, "rtol") if isinstance(rtol, Array) else np.asarray(rtol)


def matrix_rank(x: Operand, /, *, rtol: float | Array | None = None) -> Array:
    """How many singular values are not negligible. Shape: without the last two axes. dtype: int64.
    Errors: TypeError (no array), ValueError (fewer than 2 dimensions). Collective. Gathers: one
    matrix, if ranks have no whole rows of a tall one; rtol."""
    x, rtol = _matrices(x, "matrix_rank"), _tolerance(rtol)
    values = svdvals(x)
    if values.shape[-1] == 0:
        return _reductions.count_nonzero(values, axis=-1)
    most = _reductions.max(values, axis=-1, keepdims=True)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(values.dtype).eps)
    elif not isinstance(rtol, (int, float)):
        rtol = of_numpy(rtol[..., None])
    return _reductions.count_nonzero(values > most * rtol, axis=-1)


def pinv(x: Operand, /, *, rtol: float | Array | None = None) -> Array:
    """Pseudo-inverses. Shape: the last two axes exchanged. dtype: floating or complex. Errors:
    TypeError (no array), ValueError (fewer than 2 dimensions). Collective. Gathers: one matrix;
    of stacks no."""
    x, rtol = inexact(_matrices(x, "pinv")), _tolerance(rtol)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    if isinstance(rtol, np.ndarray) and rtol.ndim:
        return of_numpy(np.linalg.pinv(gathered(x, "pinv with several tolerances"), rtol=rtol))
    return _solved(lambda a: np.linalg.pinv(a, rtol=rtol), x)


def qr(x: Operand, /, *, mode: Literal["reduced", "complete", "r"] = "reduced") -> Any:
    """Orthogonal and upper triangular factors; of a large square or wide matrix with 'r' the latter
    alone. Shapes: (..., m, k) and (..., k, n), k = min(m, n), or m of 'complete'. dtype: floating
    or complex. Errors: TypeError (no array), ValueError (mode, or fewer than 2 dimensions).
    Collective. Gathers: one small matrix, if ranks have no whole rows of a tall one."""
    x = _matrices(x, "qr")
    if mode == "r" and not is_tall(x) and _dense.fits(x):
        return _dense.qr(x, False, only_r=True)[1]
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: no mode {mode!r}: 'reduced', 'complete', or take xp.linalg.qr(x).R")
    if mode == "reduced" and is_tall(x):
        return _tall_qr(x)
    if _dense.fits(x):
        return QRResult(*_dense.qr(x, mode == "complete"))
    return QRResult(*_solved(lambda a: tuple(np.linalg.qr(a, mode)), x))


def is_tall(x: Array) -> bool:
    """Whether ranks hold whole rows of one matrix, each at least as many as there are columns."""
    if x.ndim != 2 or not rows_only(x.layout):
        return False
    return all(box[0][1] - box[0][0] >= x.shape[1] for box in x.layout.boxes if _layout.volume(box))


def _triangle(x: Array, mode: Literal["r", "reduced"] = "r") -> tuple[Array, Any]:
    """(R of a tall matrix, what led to it): each rank factors its rows, then all factor the
    triangles of all (Demmel et al. 2012, TSQR, as one level)."""
    n, boxes = x.shape[1], x.layout.boxes
    cuts = np.cumsum([0] + [n if _layout.volume(box) else 0 for box in boxes]).tolist()
    found = np.linalg.qr(x._evaluate(), mode)
    r = found if mode == "r" else found[1]
    triangles = Array(r, _layout.along((cuts[-1], n), 0, cuts))
    all_found = np.linalg.qr(in_layout(triangles, _layout.whole(triangles.shape, len(boxes))), mode)
    low = cuts[_exchange.job().rank]
    if mode == "r":
        return of_numpy(all_found), None
    return of_numpy(all_found[1]), (found[0], all_found[0][low : low + n])


def _tall_qr(x: Array) -> QRResult:
    """QR of a tall matrix. Rows stay where they are."""
    r, (own, of_triangles) = _triangle(x, "reduced")
    q = own @ of_triangles if own.size else empty_block(x.layout, own.dtype)
    return QRResult(Array(q, x.layout), r)


def svd(x: Operand, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular value decompositions. Shapes: (..., m, m), (..., k) and (..., n, n), k = min(m, n),
    or k in place of m and n. dtypes: floating or complex, S real. Errors: TypeError (no array),
    ValueError (fewer than 2 dimensions), LinAlgError. Collective. Gathers: one matrix, if ranks
    have no whole rows of a tall one; of stacks no."""
    x = _matrices(x, "svd")
    if is_tall(x) and not full_matrices:
        q, r = _tall_qr(x)
        u, s, vh = svd(r, full_matrices=False)
        return SVDResult(matmul(q, u), s, vh)
    return SVDResult(*_solved(lambda a: tuple(np.linalg.svd(a, full_matrices)), x))


def svdvals(x: Operand, /) -> Array:
    """Singular values, descending. Shape: (..., k), k = min(m, n). dtype: floating. Errors:
    TypeError (no array), ValueError (fewer than 2 dimensions). Collective. Gathers: one matrix,
    if ranks have no whole rows of a tall one; of stacks no."""
    x = _matrices(x, "svdvals")
    x = _triangle(x)[0] if is_tall(x) else x
    return _solved(lambda a: np.linalg.svd(a, compute_uv=False), x)


def solve(x1: Operand, x2: Operand, /) -> Array:
    """The solutions y of x1 y = x2; a 1-d x2 is one vector. Shape: that of x2. dtype: floating or
    complex. Errors: TypeError (no array), ValueError (no square matrices), LinAlgError on every
    rank if on one. Collective. Gathers: both, if x1 is small or there are stacks."""
    a, b = _square(x1, "solve"), as_array(x2)
    if _dense.fits(a) and b.ndim in (1, 2) and b.size and b.shape[0] == a.shape[0]:
        solved = _dense.solve(a, expand_dims(b, 1) if b.ndim == 1 else b)
        return squeeze(solved, 1) if b.ndim == 1 else solved
    known_a = gathered(a, "solve")
    known_b = gathered(b, "solve")
    out = np.linalg.solve(known_a, known_b)
    return of_numpy(np.ascontiguousarray(out))
