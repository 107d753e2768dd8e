"""Functions stay small enough to be read in one go."""

from pathlib import Path

import lizard

ROOM = Path(__file__).resolve().parent.parent
MOST = 12  # cyclomatic complexity, as lizard counts it


def test_no_function_has_more_than_12_ways_through_it():
    files = [p for folder in ("hpcaas", "tests", "docs") for p in (ROOM / folder).rglob("*")]
    code = [str(p) for p in files if p.suffix in (".py", ".cpp", ".hpp", ".h", ".js")]
    assert len(code) > 90
    over = [
        f"{found.filename}:{one.start_line} {one.name}: {one.cyclomatic_complexity}"
        for found in lizard.analyze_files(code)
        for one in found.function_list
        if one.cyclomatic_complexity > MOST
    ]
    assert not over, "\n".join(over)
