#!/usr/bin/env python3
"""Checks that the documentation says what the code does: docs/variables.md against the table in src/core/config.cpp, docs/errors.md against
the statuses in skerry.h, and every relative link of every page. Prints what is wrong and ends with status 1. Standard library only."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
problems = []


def rows(page):
    """First column in backticks, second column without them, of every table row."""
    return dict(
        re.findall(r"^\| `(SKERRY_\w+)` \| `?([^|`]*?)`? ?\|", (ROOT / page).read_text(), re.M)
    )


def compare(what, code, page, documented):
    for name in sorted(set(code) | set(documented)):
        if name not in documented:
            problems.append(f"{page}: {what} {name} is missing")
        elif name not in code:
            problems.append(f"{page}: {what} {name} is not in the code")
        elif code[name] is not None and code[name] != documented[name]:
            problems.append(
                f"{page}: {what} {name} has default \"{documented[name]}\", in the code \"{code[name]}\""
            )


table = re.findall(
    r'^\s*\{"(SKERRY_\w+)", "([^"]*)",', (ROOT / "src/core/config.cpp").read_text(), re.M
)
if not table:
    problems.append("src/core/config.cpp: no table of variables found")
compare("variable", dict(table), "docs/variables.md", rows("docs/variables.md"))

statuses = re.findall(r"\b(SKERRY_ERR_\w+) = -\d+", (ROOT / "include/skerry/skerry.h").read_text())
headings = re.findall(r"^## `(SKERRY_ERR_\w+)`", (ROOT / "docs/errors.md").read_text(), re.M)
compare("status", dict.fromkeys(statuses), "docs/errors.md", dict.fromkeys(headings))


def anchors(page):
    found = set()
    for title in re.findall(r"^#+ +(.*)$", page.read_text(), re.M):
        found.add(re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-"))
    return found


listed = subprocess.run(
    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT,
    capture_output=True,
    text=True,
)
pages = (
    [ROOT / name for name in listed.stdout.split("\0") if name]
    if listed.returncode == 0 and listed.stdout
    else [
        p
        for p in ROOT.rglob("*.md")
        if not any(part.startswith((".", "build")) for part in p.relative_to(ROOT).parts)
    ]
)
links = 0
for page in pages:
    if not page.exists():
        continue
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        links += 1
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            problems.append(f"{page.relative_to(ROOT)}: link to {target}, which does not exist")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            problems.append(
                f"{page.relative_to(ROOT)}: link to {target}, which has no such heading"
            )

for problem in problems:
    print(problem)
print(
    f"documentation: {len(table)} variables, {len(statuses)} statuses, {links} links in {len(pages)} pages, {len(problems)} problems"
)
sys.exit(1 if problems else 0)
