"""The tutorial's code runs as it stands, one page after another, on any ranks."""

import re
from pathlib import Path

import pytest

import skerry as sk

PAGES = sorted((Path(__file__).parents[2] / "docs" / "tutorial").glob("*.md"))


def test_there_are_six_pages():
    assert [page.name[0] for page in PAGES] == list("123456")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_of_page(page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S))
    exec(compile(code, str(page), "exec"), {"__name__": page.stem})
    sk.sync()
