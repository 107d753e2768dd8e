"""Sets of values, and orders: by the same sampled sort as sort() and unique(); every rank gets one
range of values."""

from typing import Any

import numpy as np

from . import _lines, _whole
from ._array import Array, axis_of, gathered
from ._elementwise import apply, astype
from ._indexing import select
from ._manipulation import concat, reshape
from ._sorting import argsort, sort, unique_all, unique_values
from ._manipulation import array_of as as_array

__all__ = (
    "argpartition intersect1d isin lexsort partition setdiff1d setxor1d sort_complex union1d"
).split()


def _flat(x: Any) -> Array:
    x = x if isinstance(x, Array) else as_array(np.asarray(x))
    return reshape(x, (-1,))


def _distinct(x: Any) -> Array:
    """Its different values, ascending; NaN once, last."""
    from ._more import unique

    return unique(_flat(x))


def union1d(ar1: Any, ar2: Any) -> Array:
    """The different values of both, ascending. Of any shapes; 1-d. dtype: what holds both. Errors:
    none. Collective. Gathers: no."""
    return _distinct(concat([_flat(ar1), _flat(ar2)], axis=0))


def _in_both(a: Array, b: Array) -> tuple[Array, Array]:
    """Both sets' values together, ascending, and which are there twice: (n,), (n - 1,)."""
    together = sort(concat([a, b], axis=0))
    return together, together[1:] == together[:-1]


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The values in both, ascending; with `return_indices` also where each is first. Errors: none.
    Collective. Gathers: no."""
    one, two = _flat(ar1), _flat(ar2)
    first: Any = None
    second: Any = None
    if not assume_unique:
        if return_indices:
            one, first = unique_all(one)[:2]
            two, second = unique_all(two)[:2]
        else:
            one, two = _distinct(one), _distinct(two)
    if not return_indices:
        together, twice = _in_both(one, two)
        return select(together[:-1], twice)
    together = concat([one, two], axis=0)
    order = argsort(together)
    ranked = together[order]
    twice = ranked[1:] == ranked[:-1]
    at_one = select(order[:-1], twice)
    at_two = select(order[1:], twice) - one.size
    values = select(ranked[:-1], twice)
    if first is not None:
        at_one, at_two = first[at_one], second[at_two]
    return values, at_one, at_two


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """The values in one of both only, ascending. Of any shapes; 1-d. dtype: what holds both.
    Errors: none. Collective. Gathers: no."""
    one, two = _flat(ar1), _flat(ar2)
    if not assume_unique:
        one, two = _distinct(one), _distinct(two)
    together, twice = _in_both(one, two)
    if not together.size:
        return together
    no = as_array(np.zeros(1, bool))
    alone = ~(concat([no, twice], axis=0) | concat([twice, no], axis=0))
    return select(together, alone)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """The values of ar1 that are not in ar2, ascending. Of any shapes; 1-d. dtype: what holds both.
    Errors: none. Collective. Gathers: the values of ar2."""
    one = _flat(ar1)
    if not assume_unique:
        one = _distinct(one)
    return select(one, isin(one, ar2, assume_unique=True, invert=True))


def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: str | None = None,
) -> Array:  # fmt: skip
    """Whether each element is one of test_elements: bool, in the shape of element. Of any dtype.
    Errors: ValueError (`kind`). Collective. Gathers: the different values of test_elements."""
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    element = element if isinstance(element, Array) else as_array(np.asarray(element))
    test = test_elements
    if isinstance(test, Array) and not test.layout.whole:
        test = gathered(unique_values(_flat(test)), "isin")
    test = np.asarray(_whole.known(test, "isin")).reshape(-1)
    if test.dtype.kind not in "biufc":
        raise _whole.NotDistributed(f"isin with values of {test.dtype}: use x.numpy()")

    def call(block: np.ndarray, out: np.ndarray) -> None:
        out[...] = np.isin(block, test, invert=invert)

    return apply(call, element, dtype=np.dtype(bool))


def sort_complex(a: Any) -> Array:
    """Sorted along the last axis, as complex numbers. Shape: its own. dtype: complex. Errors:
    TypeError (no array). Collective. Gathers: no."""
    a = sort(as_array(a))
    if a.dtype.kind == "c":
        return a
    small = a.dtype.char in "bhBH"
    return astype(a, np.dtype("complex64" if small else "complex128"))


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The order along an axis by the last key, of equal ones by the one before, and so on: int64.
    Shape: that of a key. dtypes of keys: any. Errors: AxisError, TypeError (no key). Collective.
    Gathers: no."""
    keys = list(keys) if not isinstance(keys, Array) else [keys[i] for i in range(keys.shape[0])]
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    keys = [as_array(k) if isinstance(k, Array) else as_array(np.asarray(k)) for k in keys]
    if any(k.shape != keys[0].shape for k in keys):
        raise ValueError("all keys need to be the same shape")
    if not keys[0].ndim:
        raise _whole.NotDistributed("lexsort of numbers")
    axis = axis_of(axis, keys[0].ndim)
    if keys[0].ndim > 1:
        from ._manipulation import stack

        last = stack(keys, axis=-1)
        k = last.ndim - 1
        return _lines_of_keys(last, axis, k)
    order = argsort(keys[0])
    for key in keys[1:]:
        order = order[argsort(key[order])]
    return order


def _lines_of_keys(last: Array, axis: int, k: int) -> Array:
    """lexsort of keys along a last axis: whole lines of `axis`."""
    from . import _layout
    from ._array import spread, undivided

    x = undivided(last, (axis, k))
    block = x._evaluate()
    order = np.lexsort(np.moveaxis(block, k, 0), axis=axis)
    layout = _layout.Layout(
        x.shape[:k], tuple(box[:k] for box in x.layout.boxes), x.layout.whole
    )
    return spread(Array(np.asarray(order, np.int64), layout))


def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect",
              order: Any = None) -> Array:  # fmt: skip
    """A copy in which the element at kth is where sorting puts it, with no greater ones before it.
    A divided 1-d array is sorted, which is such an order. Shape: its own. dtypes of a: any.
    Errors: AxisError, ValueError (kth). Collective. Gathers: no."""
    a = as_array(a)
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    kth = _checked(kth, a, axis, kind)
    if a.ndim == 1 and not a.layout.whole:
        return sort(a)
    return _lines.mapped(a, axis, lambda block: np.partition(block, kth, axis=axis))


def _checked(kth: Any, a: Array, axis: int, kind: Any) -> np.ndarray:
    np.partition([0], 0, kind=kind)  # its errors
    kth = np.asarray(_whole.known(kth, "partition"))
    n = a.shape[axis_of(axis, a.ndim)]
    if kth.dtype.kind not in "iu":
        raise TypeError("Partition index must be integer")
    if kth.size and (kth.min() < -n or kth.max() >= n):
        raise ValueError(f"kth(={kth}) out of bounds ({n})")
    return kth


def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect",
                 order: Any = None) -> Array:  # fmt: skip
    """The positions for partition: int64. Shape: its own. dtypes of a: any. Errors: AxisError,
    ValueError (kth). Collective. Gathers: no."""
    a = as_array(a)
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    kth = _checked(kth, a, axis, kind)
    if a.ndim == 1 and not a.layout.whole:
        return argsort(a)
    return _lines.mapped(a, axis, lambda block: np.argpartition(block, kth, axis=axis))
