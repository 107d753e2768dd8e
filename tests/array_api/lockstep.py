"""A pytest plugin: all ranks draw the same examples, so that they make the same collective calls.

Examples are derived from the tests alone. Nothing that depends on time may end a test, and a
failing example is not made smaller: the ranks would part. Each rank tells what it counted in the
file SKERRY_USER_REPORT.RANK.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

import skerry as sk
import skerry.xp as xp

sk.init()
xp.options(whole_bytes=os.environ.get("SKERRY_USER_WHOLE_BYTES", 0), check_calls=1)
counts, failed = Counter(), []

# Hypothesis also draws numbers that it finds in source files, in an order that may differ.
if hasattr(providers, "_get_local_constants") and hasattr(providers, "Constants"):
    providers._get_local_constants = providers.Constants


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    settings.register_profile(
        "lockstep",
        parent=settings.get_profile("array-api-tests"),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile("lockstep")


@pytest.fixture(autouse=True)
def together():
    sk.sync()
    yield


def pytest_runtest_logreport(report):
    expected = hasattr(report, "wasxfail")
    if report.when == "call" or report.outcome != "passed":
        if report.outcome == "failed":
            failed.append(report.nodeid)
        if report.outcome == "skipped" and expected:
            counts["expected"] += 1
        elif report.outcome == "passed" and expected:
            counts["expected_but_passed"] += 1
        else:
            counts[report.outcome] += 1


def pytest_sessionfinish(session):
    session.exitstatus = 0  # a failing rank would end the others; the reports say what failed
    report = os.environ.get("SKERRY_USER_REPORT")
    if report:
        path = Path(f"{report}.{sk.rank()}")
        path.write_text(json.dumps({**counts, "failures": failed, "moved": xp.counters()}))
