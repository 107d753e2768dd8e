#!/usr/bin/env python3
"""Which of NumPy's functions there are for divided arrays: the table of docs/numpy.md.

    tests/numpy/names.py [--write]

Made from the tables of skerry.xp._names and the docstrings of the functions. Without --write it
says whether the page has the table, and ends with status 1 if not.
"""

import re
import sys
from pathlib import Path

import numpy as np

from skerry.xp import _dispatch, _names

PAGE = Path(__file__).resolve().parents[2] / "docs" / "numpy.md"
MARK = "<!-- tests/numpy/names.py --write makes what follows -->\n"
HOMES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}
# Of text, files, dtypes, settings: they take no arrays, or make none.
NOT_OF_ARRAYS = set(
    "array2string array_repr array_str base_repr binary_repr busday_count busday_offset "
    "datetime_as_string datetime_data format_float_positional format_float_scientific fromregex "
    "genfromtxt get_include get_printoptions getbufsize geterr geterrcall info is_busday load "
    "loadtxt mintypecode printoptions set_printoptions seterr seterrcall show_config show_runtime "
    "test typename promote_types issubdtype isdtype iterable isfortran isscalar fromfile "
    "fromstring frombuffer fromiter can_cast result_type min_scalar_type common_type einsum_path "
    "nested_iters require LinAlgError shape ndim size iscomplexobj isrealobj".split()
)


def kinds():
    """{module: {kind: names}}; a kind is what is collected on every rank, None for nothing."""
    found = {}
    for module, home in HOMES.items():
        groups = found[module] = {}
        for name in sorted(home.__all__):
            value = getattr(home, name)
            if not callable(value) or isinstance(value, type) or name in NOT_OF_ARRAYS:
                continue
            groups.setdefault(kind(module, name, value), []).append(name)
    return found


def kind(module, name, value):
    full = f"{module}.{name}"
    if full in _names.NEVER:
        return f"never: {_names.NEVER[full]}"
    if isinstance(value, np.ufunc):
        return "by parts"
    if type(value).__name__ != "_ArrayFunctionDispatcher":
        return "makes arrays: every rank its part, or all of what is small"
    ours = _names.FUNCTIONS.get(full)
    if ours is not None:
        text = " ".join((ours.__doc__ or "").split())
        gathers = re.search(r"Gathers: (.*?)\.(?: |$)", text)
        said = gathers.group(1) if gathers else "no"
        said = re.sub(r"^no; (.*), yes$|^(.*), yes$", r"its arrays: \1\2", said)
        return "by parts" if said == "no" else f"by parts; collects {said}"
    if full in _names.COLLECTS:
        return f"by parts; collects {_names.COLLECTS[full]}"
    if _dispatch.standard(name, module) is not None:
        return "by parts"
    return "collects its arrays"


def table():
    lines = []
    for module, groups in kinds().items():
        total = sum(map(len, groups.values()))
        lines += [f"`{module}`, {total} functions:", "", "| how | names |", "|---|---|"]
        order = sorted(groups, key=lambda k: (k != "by parts", k.startswith("never"), k))
        lines += [f"| {k} | {' '.join(f'`{name}`' for name in groups[k])} |" for k in order]
        lines.append("")
    return "\n".join(lines)


def main():
    text = PAGE.read_text()
    head, mark, rest = text.partition(MARK)
    wanted = head + MARK + "\n" + table()
    if "--write" in sys.argv:
        PAGE.write_text(wanted)
        return 0
    print("docs/numpy.md has the table" if text == wanted else "docs/numpy.md: run me with --write")
    return text != wanted


if __name__ == "__main__":
    sys.exit(main())
