"""The checks of the source find what is planted."""

import runpy
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.skipif(not TOOLS.exists(), reason="an installed package has no tools")
def test_a_circle_of_imports_is_found():
    checks = runpy.run_path(str(TOOLS / "check_includes.py"), run_name="checks")
    graph = checks["python_modules"]()
    assert checks["circles"](graph)[0] == []
    graph["skerry.xp._indexing"]["skerry.xp._reductions"] = 1  # which imports it
    (way, *_) = checks["circles"](graph)[0]
    assert way[0] == way[-1] and "skerry.xp._indexing" in way
