#!/usr/bin/env python3
"""Runs NumPy's own tests with its functions called on divided arrays too, and compares.

    tests/numpy/run.py [--ranks 1,2,3,4] [--minutes N] [--list] [MODULES ...]

The tests come with NumPy's wheel; its packages are installed into a venv of their own. judged.py
says what is compared. Even small arrays are divided. Of every function it counts the calls that
gave the same, those that differed, those that were refused with a remedy, and those beside the
point (no array of a dtype that there is). Writes out/numpy.json. Rows: name, value, target, met.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "array_api"))
import peers  # noqa: E402
from peers import OUT  # noqa: E402

PACKAGES = ["numpy", "pytest", "hypothesis>=6.151"]
IMPORTS = ["numpy", "pytest", "hypothesis"]
MODULES = (
    "lib.tests.test_arraypad lib.tests.test_arraysetops lib.tests.test_function_base "
    "lib.tests.test_histograms lib.tests.test_index_tricks lib.tests.test_nanfunctions "
    "lib.tests.test_packbits lib.tests.test_polynomial lib.tests.test_shape_base "
    "lib.tests.test_stride_tricks lib.tests.test_twodim_base lib.tests.test_type_check "
    "lib.tests.test_ufunclike lib.tests.test_regression _core.tests.test_einsum "
    "_core.tests.test_numeric _core.tests.test_multiarray _core.tests.test_umath "
    "_core.tests.test_umath_complex _core.tests.test_ufunc _core.tests.test_item_selection "
    "_core.tests.test_shape_base _core.tests.test_function_base _core.tests.test_mem_overlap "
    "linalg.tests.test_linalg linalg.tests.test_regression fft.tests.test_pocketfft "
    "fft.tests.test_helper"
).split()
# They measure memory, start threads or processes, or are of text.
AVOID = (
    "not slow and not thread and not multiprocess and not memory and not huge and not large "
    "and not leak and not pickle and not TestIO and not many_legs and not refcount "
    "and not test_einsum_sums and not TestPickling and not test_tofile"
)


def run(python, ranks, options):
    """What the ranks of one job counted; None if it did not end."""
    words = [
        "-p", "judged", "--tb=no", "-k", AVOID, "--pyargs",
        *(f"numpy.{module}" for module in options.modules or MODULES),
    ]  # fmt: skip
    return peers.tested(f"numpy_{ranks}", python, (ranks, 1), words, folder=OUT,
                        settings=peers.environment(HERE), minutes=options.minutes)  # fmt: skip


def summary(told):
    """Counts by function of the rank that saw most that is wrong."""
    worst = max(told, key=lambda one: sum(c.get("differs", 0) for c in one["calls"].values()))
    return {name: Counter(calls) for name, calls in sorted(worst["calls"].items())}, worst


def rows_of(ranks, told, options):
    calls, worst = summary(told)
    total = sum(calls.values(), Counter())
    right = [n for n, c in calls.items() if c["same"] and not c["differs"] and not c["error"]]
    wrong = {n: c for n, c in calls.items() if c["differs"] or c["error"]}
    judged = total["same"] + total["differs"] + total["error"] + total["refused"]
    value = (
        f"{total['same']} of {judged} calls the same, {total['differs']} differ, {total['error']} "
        f"errors, {total['refused']} refused; {len(right)} functions all right, {len(wrong)} not"
    )
    print(f"{ranks} ranks: {value}; {total['beside']} calls beside the point; {worst['tests']}")
    if options.list:
        for name, found in wrong.items():
            print(f"  {name}: {dict(found)}")
            for example in worst["examples"].get(name, []):
                print(f"      {example}")
        for name, found in calls.items():
            if found["refused"]:
                print(f"  {name}: {found['refused']} refused")
    return {
        "name": f"NumPy's own tests, {ranks} ranks", "value": value,
        "target": "no call differs", "met": not wrong,
    }, {name: dict(found) for name, found in calls.items()}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ranks", default="1,2,3,4", help="jobs of so many ranks: %(default)s")
    parser.add_argument("--minutes", type=float, default=15, help="of one job: %(default)s")
    parser.add_argument("--list", action="store_true", help="says which calls differ")
    parser.add_argument("modules", nargs="*", help="of NumPy's tests, as lib.tests.test_arraypad")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    try:
        python = peers.interpreter("venv_numpy", PACKAGES, IMPORTS)
    except peers.Unavailable as reason:
        print(f"skipped: {reason}")
        return 0
    rows, tables = [], {}
    for ranks in map(int, options.ranks.split(",")):
        told = run(python, ranks, options)
        if told is None:
            rows.append({"name": f"NumPy's own tests, {ranks} ranks", "value": "not done",
                         "target": "no call differs", "met": False})  # fmt: skip
            continue
        row, tables[ranks] = rows_of(ranks, told, options)
        rows.append(row)
    (OUT / "numpy.json").write_text(json.dumps({"rows": rows, "functions": tables}, indent=1))
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
