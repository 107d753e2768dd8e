"""Products of tensors: einsum and its relatives, over the parts of one divided index."""

import itertools
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _exchange, _layout, _twins, _whole, linalg
from ._array import Array, gathered, in_layout, new_layout, redistributed, shows
from ._elementwise import astype, functions
from ._histograms import added
from ._manipulation import permute_dims, reshape
from ._manipulation import array_of as as_array

__all__ = "cross einsum inner kron vdot".split()


def inner(a: Any, b: Any) -> Array:
    """Sums of products over the last axes. Shape: the other axes of a, then those of b. dtype: what
    holds both. Errors: ValueError (lengths differ). Collective. Gathers: no."""
    a, b = as_array(a), as_array(b)
    if not a.ndim or not b.ndim:
        return a * b
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"shapes {a.shape} and {b.shape} not aligned")
    return linalg.tensordot(a, b, axes=([-1], [-1]))


def vdot(a: Any, b: Any) -> Array:
    """The sum of conj(a) b over all elements, in C order. Shapes: any, of equal size; gives a
    number. dtype: what holds both. Errors: ValueError (sizes differ). Collective. Gathers: no."""
    a, b = (reshape(as_array(x), (-1,)) for x in (a, b))
    if a.size != b.size:
        raise ValueError("cannot reshape array: vdot takes arrays of equal sizes")
    return linalg.matmul(functions["conj"](a) if a.dtype.kind == "c" else a, b)


def kron(a: Any, b: Any) -> Array:
    """The Kronecker product: every element of a times all of b. Shape: the product of the lengths.
    dtype: what holds both. Errors: none. Collective. Gathers: no."""
    a, b = as_array(a), as_array(b)
    ndim = max(a.ndim, b.ndim)
    a = reshape(a, (1,) * (ndim - a.ndim) + a.shape)
    b = reshape(b, (1,) * (ndim - b.ndim) + b.shape)
    long = reshape(a, tuple(itertools.chain(*((n, 1) for n in a.shape))))
    short = reshape(b, tuple(itertools.chain(*((1, n) for n in b.shape))))
    return reshape(long * short, tuple(n * m for n, m in zip(a.shape, b.shape, strict=True)))


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """Cross products of vectors along an axis of length 3. dtype: what holds both. Errors:
    ValueError (lengths), AxisError. Collective. Gathers: no."""
    from ._manipulation import moveaxis, stack

    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = as_array(a), as_array(b)
    if not a.ndim or not b.ndim:
        raise ValueError("At least one array has zero dimension")
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if (a.shape[-1], b.shape[-1]) != (3, 3):
        raise _whole.NotDistributed("cross of vectors in the plane: give them a third component 0")
    parts = [
        a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    dtype = np.result_type(a.dtype, b.dtype)
    return astype(moveaxis(stack(parts, axis=-1), -1, axisc), dtype, copy=False)


# ---- einsum --------------------------------------------------------------------------------------


def _parsed(subscripts: str, operands: Sequence[Array]) -> tuple[list[str], str]:
    """The index letters of each operand and of the result, without '...'."""
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        raise ValueError(f"einsum: {len(terms)} terms in {subscripts!r} for {len(operands)} arrays")
    free = [c for c in string.ascii_letters if c not in text]
    longest = 0
    for term, x in zip(terms, operands, strict=True):
        if "..." in term:
            longest = max(longest, x.ndim - len(term) + 3)
    dots = "".join(free[:longest])
    full = []
    for term, x in zip(terms, operands, strict=True):
        if "..." in term:
            extra = x.ndim - len(term) + 3
            if extra < 0:
                raise ValueError(f"einsum: {term!r} has more indices than {x.ndim} dimensions")
            term = term.replace("...", dots[len(dots) - extra:] if extra else "")
        if len(term) != x.ndim or not (term.isalpha() or term == ""):
            raise ValueError(f"einsum: {term!r} does not name the {x.ndim} dimensions of an array")
        full.append(term)
    if arrow:
        output = output.replace("...", dots)
    else:
        letters = "".join(full)
        output = dots + "".join(
            sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1)
        )
    if len(set(output)) != len(output) or set(output) - set("".join(full)):
        raise ValueError(f"einsum: the result's indices in {subscripts!r}")
    return full, output


def _from_lists(operands: tuple) -> tuple[str, list[Any]]:
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as subscripts."""
    arrays, rest = list(operands[: len(operands) // 2 * 2 : 2]), operands[1::2]
    lists, out = list(rest), operands[-1] if len(operands) % 2 else None
    letters = string.ascii_letters

    def written(indices: Any) -> str:
        return "".join("..." if i is Ellipsis else letters[i] for i in indices)

    text = ",".join(map(written, lists[: len(arrays)]))
    return text + ("" if out is None else "->" + written(out)), arrays


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Array:
    """Sums of products over indices, as numpy.einsum. One index, the longest of the divided
    operands, is parted: every rank sums over its part, with NumPy inside. Operands without that
    index go to every rank. Shape: the indices of the result. dtype: what holds all operands.
    Errors: ValueError (the subscripts, or lengths that differ). Collective. Gathers: operands
    without the parted index."""
    if isinstance(operands[0], str):
        subscripts, arrays = operands[0], list(operands[1:])
    else:
        subscripts, arrays = _from_lists(operands)
    dtype = options.pop("dtype", None)
    if any(value not in ("K", "C", "safe", "same_kind") for value in options.values()):
        raise _whole.NotDistributed("einsum with order or casting: use x.numpy()")
    arrays = [as_array(x) for x in arrays]
    terms, output = _parsed(subscripts, arrays)
    shows_it = len(arrays) == 1 and set(terms[0]) == set(output) and dtype is None and out is None
    if shows_it and len(terms[0]) == len(output):
        return permute_dims(arrays[0], [terms[0].index(c) for c in output])
    lengths = _lengths(terms, arrays)
    kind = np.dtype(dtype) if dtype is not None else np.result_type(*[x.dtype for x in arrays])
    value = _contracted(terms, output, arrays, lengths, kind, optimize)
    if out is None:
        if not shows_it or arrays[0].layout.whole:
            return value
        like = np.einsum(subscripts, _twins.twin(arrays[0]))

        def again(x: Array) -> Array:
            return _contracted(terms, output, [x], lengths, kind, optimize)

        return shows(value, arrays[0], again, like)
    out[...] = value
    return out


def _lengths(terms: list[str], arrays: list[Array]) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for term, x in zip(terms, arrays, strict=True):
        for letter, n in zip(term, x.shape, strict=True):
            if lengths.setdefault(letter, n) != n:
                if 1 not in (n, lengths[letter]):
                    raise ValueError(
                        f"einsum: index {letter!r} has lengths {lengths[letter]} and {n}"
                    )
                lengths[letter] = max(n, lengths[letter])
    return lengths


def _contracted(
    terms: list[str], output: str, arrays: list[Array], lengths: dict[str, int],
    dtype: np.dtype, optimize: Any,
) -> Array:  # fmt: skip
    text = ",".join(terms) + "->" + output
    weight = dict.fromkeys(lengths, 0)  # bytes that lie where they are if this index is parted
    for term, x in zip(terms, arrays, strict=True):
        if not x.layout.whole:
            for letter, n in zip(term, x.shape, strict=True):
                if n > 1:
                    weight[letter] += x.nbytes
    ranks = _exchange.ranks()
    shape = tuple(lengths[c] for c in output)
    if 0 in lengths.values():
        return as_array(np.zeros(shape, dtype))
    index = max(weight, key=lambda c: (weight[c], c in output, lengths[c]))
    cuts = [lengths[index] * i // ranks for i in range(ranks + 1)]
    blocks = [_part(term, x, index, cuts) for term, x in zip(terms, arrays, strict=True)]
    rank = _exchange.job().rank
    empty = cuts[rank] == cuts[rank + 1]
    options: dict[str, Any] = {"optimize": optimize if isinstance(optimize, (bool, str)) else True}
    if index in output:
        axis = output.index(index)
        layout = _layout.along(shape, axis, cuts)
        block = (
            np.zeros(layout.extent(rank), dtype)
            if empty
            else np.asarray(np.einsum(text, *blocks, dtype=dtype, casting="unsafe", **options))
        )
        return redistributed(Array(np.ascontiguousarray(block), layout), new_layout(shape, dtype))
    partial = (
        np.zeros(shape, dtype)
        if empty
        else np.asarray(np.einsum(text, *blocks, dtype=dtype, casting="unsafe", **options))
    )
    total = added(partial, _layout.along((ranks,), 0, list(range(ranks + 1))))
    # Sums of small integers are wider than what is asked for.
    return redistributed(astype(total, dtype, copy=False), new_layout(shape, dtype))


def _part(term: str, x: Array, index: str, cuts: list[int]) -> np.ndarray:
    """What a rank needs of an operand: its part of the index, or all."""
    if index not in term or x.shape[term.index(index)] == 1:
        return gathered(x, "einsum")
    axis = term.index(index)
    if term.count(index) > 1:
        whole = gathered(x, "einsum of a diagonal")
        rank = _exchange.job().rank
        key = tuple(slice(cuts[rank], cuts[rank + 1]) if c == index else slice(None) for c in term)
        return whole[key]
    return in_layout(x, _layout.along(x.shape, axis, cuts))
