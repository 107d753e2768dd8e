"""Whole arrays with NumPy's meaning: the Array API standard, 2024.12, over all ranks.

    import skerry as sk, skerry.xp as xp
    sk.init()
    x = xp.asarray(a)            # the memory of an sk.Array, without a copy
    y = xp.sum(xp.exp(-x**2), axis=0)
    y.array                      # and back
    y.numpy()                    # a NumPy copy of all of it, on every rank

All members call the same functions in the same order. docs/xp.md says what moves when.
"""

from math import e, inf, nan, pi

import numpy as _np

if int(_np.__version__.split(".")[0]) < 2:  # its names (acos) and rules of promotion
    raise ImportError(
        f"skerry.xp and skerry.numpy need NumPy 2.0 or newer: this is {_np.__version__}. sk.Array "
        "and everything else of skerry work with it"
    )

from . import _dispatch, _methods, _storage, fft, linalg, random
from ._array import Array
from ._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from ._elementwise import astype, clip, functions, where
from ._exchange import counters
from ._indexing import take, take_along_axis
from ._info import DTYPES, __array_namespace_info__, can_cast, finfo, iinfo, isdtype, result_type
from ._manipulation import (
    broadcast_arrays,
    broadcast_to,
    concat,
    diff,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    unstack,
)
from ._options import explain, options
from ._numpy import _array_ufunc as _
from ._printing import represented as _  # noqa: F811 (what print shows)
from ._reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from ._sorting import (
    argsort,
    nonzero,
    searchsorted,
    sort,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from .linalg import matmul, tensordot, vecdot

newaxis = None
__array_api_version__ = "2024.12"
globals().update(DTYPES)
globals().update(functions)


def to_numpy(x, /):
    """A copy of all of x as a NumPy array on every rank; collective."""
    return x.numpy()


_dispatch.STANDARD.update(
    {name: value for name, value in globals().items() if callable(value) and name[0] != "_"}
)
