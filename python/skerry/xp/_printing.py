"""What print(x) and repr(x) show. Neither communicates: one rank alone may print."""

import numpy as np

from . import _exchange
from ._array import Array
from ._followers import is_late

_LATE = "written since: x.copy() on all ranks has the values"


def _part(x: Array) -> str:
    """Which indices the own part has, as in a slice."""
    box = x.layout.boxes[_exchange.job().rank]
    return ", ".join(f"{low}:{high}" for low, high in box)


def represented(x: Array) -> str:
    """NumPy's repr of a whole array; of a divided one the own part, with the shape of all and where
    the part lies. Not collective."""
    if is_late(x):
        return f"array({_LATE}, shape={x.shape}, dtype={x.dtype})"
    block = x._evaluate()
    if x.layout.whole:
        return np.array_repr(block)
    values = np.array2string(block, separator=", ", prefix="array(")
    if not block.size:
        values = "[]"
    rank = _exchange.job().rank
    return (
        f"array({values},\n      shape={x.shape}, dtype={x.dtype}; divided, rank {rank} shows its "
        f"part [{_part(x)}])"
    )


def printed(x: Array) -> str:
    """NumPy's str of a whole array; of a divided one the own part, and where it lies. Not
    collective."""
    if is_late(x):
        return f"[{_LATE}]"
    block = x._evaluate()
    if x.layout.whole:
        return np.array_str(block)
    values = np.array2string(block) if block.size else "[]"
    return f"{values}\n(rank {_exchange.job().rank}'s part [{_part(x)}] of {x.shape} {x.dtype})"


def formatted(x: Array, specification: str) -> str:
    """As NumPy: numbers in the format asked for, arrays without one. Not collective."""
    return format(x._number("format()")[()], specification) if specification else str(x)


for _name, _function in {"repr": represented, "str": printed, "format": formatted}.items():
    setattr(Array, f"__{_name}__", _function)
