#!/usr/bin/env python3
"""Runs the array API standard's own tests on skerry.xp, as jobs of several ranks and nodes.

    tests/array_api/run.py [--examples N] [--layouts 1x1,2x1,2x2,4x2] [--whole-bytes N] [TESTS ...]

The suite is in the folder ARRAY_API_TESTS (with its submodule array-api), or is cloned by name into
out/. Its packages are installed into a venv of their own. What cannot be had is a skip, with the
reason. All ranks draw the same examples. Even small arrays are divided, unless --whole-bytes says
up to which size they are whole. exceptions.txt lists tests that may fail, each with its reason.
Writes out/array_api.json: rows with name, value, target, met.
"""

import argparse
import json
import sys
from pathlib import Path

import peers
from peers import OUT

HERE = Path(__file__).resolve().parent
SUITE, TAG = "https://github.com/data-apis/array-api-tests", "2026.02.26"
PACKAGES = ["numpy", "pytest", "hypothesis>=6.151", "ndindex>=1.8", "pytest-json-report"]
IMPORTS = ["numpy", "pytest", "hypothesis", "ndindex", "pytest_jsonreport"]
MOST_EXCEPTIONS = 30


def suite():
    folder = peers.cloned("array-api-tests", SUITE, "ARRAY_API_TESTS", TAG)
    if not (folder / "array-api" / "spec").is_dir():
        raise peers.Unavailable(f"{folder} lacks its submodule array-api")
    return folder


def exceptions():
    lines = (HERE / "exceptions.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def run(folder, python, ranks, nodes, options):
    """The counts of all ranks of one job; None if it did not end."""
    words = [
        "-p", "lockstep", "--tb=short", "--max-examples", options.examples,
        "-c", folder / "pytest.ini", f"--xfails-file={HERE / 'exceptions.txt'}",
        *(options.tests or ["array_api_tests"]),
    ]  # fmt: skip
    settings = peers.environment(
        HERE, ARRAY_API_TESTS_MODULE="skerry.xp", SKERRY_USER_WHOLE_BYTES=str(options.whole_bytes)
    )
    return peers.tested(f"array_api_{ranks}x{nodes}", python, (ranks, nodes), words, folder=folder,
                        settings=settings, minutes=options.minutes)  # fmt: skip


def row(ranks, nodes, told, options):
    name = f"array-api-tests, {options.examples} examples, {ranks} ranks on {nodes} nodes"
    target = "no failure that is not listed, on any rank"
    if told is None:
        return {"name": name, "value": "did not end", "target": target, "met": False}
    first = told[0]
    failures = sorted({test for rank in told for test in rank["failures"]})
    for test in failures:
        print(f"  not expected: {test}")
    value = ", ".join(
        f"{first.get(key, 0)} {key.replace('_', ' ')}"
        for key in ("passed", "failed", "expected", "expected_but_passed", "skipped")
    )
    return {"name": name, "value": value, "target": target,
            "met": not failures and bool(first.get("passed"))}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", default=200, type=int)
    parser.add_argument("--layouts", default="1x1,2x1,2x2,4x2", help="ranks x nodes")
    parser.add_argument("--whole-bytes", default=0, type=int)
    parser.add_argument("--minutes", default=240, type=float, help="limit of each job")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    try:
        folder, python = suite(), peers.interpreter("array-api-venv", PACKAGES, IMPORTS)
    except peers.Unavailable as reason:
        print(f"skipped: {reason}")
        return
    count = len(exceptions())
    rows = [{"name": "listed exceptions, the same for every number of ranks", "value": count,
             "target": MOST_EXCEPTIONS, "met": count <= MOST_EXCEPTIONS}]  # fmt: skip
    for layout in options.layouts.split(","):
        ranks, nodes = layout.split("x")
        rows.append(row(ranks, nodes, run(folder, python, ranks, nodes, options), options))
        print(f"{rows[-1]['name']}: {rows[-1]['value']}", flush=True)
    (OUT / "array_api.json").write_text(json.dumps(rows, indent=1) + "\n")
    for line in rows:
        print(f"{'met ' if line['met'] else 'MISS'}  {line['name']}: {line['value']}")
    sys.exit(not all(line["met"] for line in rows))


if __name__ == "__main__":
    main()
