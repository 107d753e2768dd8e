"""Which of NumPy's functions there are for divided arrays, and what each is here.

`FUNCTIONS` take NumPy's own arguments. A function that is in no list collects its operands, up to
xp.options()["gather_bytes"] (_whole.by_gathering). `NEVER` raises with the remedy.
tests/numpy/names.py writes the table of docs/numpy.md from here.
"""

from collections.abc import Callable
from typing import Any

from . import (
    _algebra, _histograms, _pieces, _placing, _pointwise, _products, _sets, _statistics, _whole,
)  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"numpy.{name}": getattr(module, name)
    for module in (_histograms, _pieces, _placing, _pointwise, _products, _sets, _statistics)
    for name in module.__all__
}
FUNCTIONS |= {f"numpy.linalg.{name}": getattr(_algebra, name) for name in _algebra.__all__}

# What takes an array and makes none, and what has no sense of several processes.
NEVER = {
    "numpy.asmatrix": "matrices are two-dimensional arrays: use x @ y",
    "numpy.bmat": "use numpy.block",
    "numpy.frompyfunc": "arrays hold no Python objects: use a ufunc, or x.local",
    "numpy.memmap": "use skerry.numpy.load(path, mmap_mode=...)",
    "numpy.nested_iters": "each rank iterates over x.local",
    "numpy.save": "use sk.save, or skerry.numpy.save, by all ranks",
    "numpy.savetxt": "use sk.save, or skerry.numpy.savetxt, by all ranks",
    "numpy.savez": "use sk.save, or skerry.numpy.savez, by all ranks",
    "numpy.savez_compressed": "use sk.save, or skerry.numpy.savez_compressed, by all ranks",
    "numpy.setbufsize": "NumPy's own, of this process",
}


def _reduction(name: str) -> Callable[..., Any]:
    def reduction(a: Any, axis: Any = None, *arguments: Any, **options: Any) -> Any:
        if arguments:
            raise _whole.NotDistributed(f"{name} with arguments by position: name them")
        return _statistics.reduced(name, a, axis, options)

    reduction.__doc__ = f"numpy.{name} with where=, initial= or dtype=. Collective. Gathers: no."
    return reduction


# With arguments that the standard's functions of the same name do not take.
EXTENDED: dict[str, Callable[..., Any]] = {
    **{f"numpy.{name}": _reduction(name) for name in _statistics.REDUCTIONS},
    "numpy.mean": _statistics.mean_where,
    "numpy.std": _statistics.std_where,
    "numpy.var": _statistics.var_where,
}


# They refuse arguments that have a meaning in NumPy: mode "raw", stacks, vectors.
NUMPY_DECIDES = frozenset(
    f"numpy.linalg.{name}" for name in "qr norm matrix_rank svd eigh pinv".split()
) | {f"numpy.{name}" for name in "broadcast_arrays concatenate convolve dot linspace".split()}

# What functions with the standard's arguments collect on every rank.
COLLECTS = {
    **dict.fromkeys(
        [f"numpy.linalg.{name}" for name in "cholesky det inv qr slogdet solve".split()],
        "one small matrix",
    ),
    **dict.fromkeys(
        [f"numpy.linalg.{name}" for name in "eigh eigvalsh matrix_rank pinv svd svdvals".split()],
        "one matrix, but tall ones of svd",
    ),
    **dict.fromkeys(
        [f"numpy.fft.{name}" for name in "fft ifft rfft irfft hfft ihfft".split()], "1-d arrays"
    ),
    "numpy.searchsorted": "the first array",
    "numpy.take": "the indices",
    "numpy.repeat": "the repeats",
    "numpy.convolve": "the shorter array",
}  # fmt: skip
