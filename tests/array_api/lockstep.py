"""A pytest plugin: all ranks draw the same examples, so that they make the same collective calls.

Examples are derived from the tests alone. Nothing that depends on time may end a test, and a failing
example is not made smaller: ranks would part.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

import skerry as sk
import skerry.xp as xp

sk.init()
xp.options(whole_bytes=os.environ.get("SKERRY_USER_WHOLE_BYTES", 0), check_calls=1)


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
