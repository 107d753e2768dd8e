#!/usr/bin/env python3
"""Checks that the documentation says what the code does.

    tools/check_docs.py [--write]

The variables in docs/tuning.md against the table in src/core/config.cpp; docs/counters.md against
the tables in src/capi/counters.cpp and array/array.cpp (--write makes it anew); docs/errors.md
against the statuses in skerry.h; src/capi/symbols.map against the functions in skerry.h; every
relative link of every page, and the files of the code that it names; on the pages about the code
also the functions. Prints what is wrong and ends with status 1. Standard library only.
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
problems = []


def rows(page):
    """First column in backticks, second column without them, of every table row; names in the text
    have no default."""
    text = (ROOT / page).read_text()
    named = dict.fromkeys(re.findall(r"`(SKERRY_(?!ERR_|USER_)[A-Z_]+)`", text), "")
    return named | dict(re.findall(r"^\| `(SKERRY_\w+)` \| `?([^|`]*?)`? ?\|", text, re.M))


def compare(what, code, page, documented):
    for name in sorted(set(code) | set(documented)):
        if name not in documented:
            problems.append(f"{page}: {what} {name} is missing")
        elif name not in code:
            problems.append(f"{page}: {what} {name} is not in the code")
        elif code[name] is not None and code[name] != documented[name]:
            problems.append(
                f'{page}: {what} {name} has default "{documented[name]}", '
                f'in the code "{code[name]}"'
            )


table = re.findall(
    r'^\s*\{"(SKERRY_\w+)", "([^"]*)",', (ROOT / "src/core/config.cpp").read_text(), re.M
)
if not table:
    problems.append("src/core/config.cpp: no table of variables found")
compare("variable", dict(table), "docs/tuning.md", rows("docs/tuning.md"))

header = (ROOT / "include/skerry/skerry.h").read_text()
headers = header + (ROOT / "include/skerry/window.h").read_text()
functions = re.findall(r"\b(skerry_\w+)\(", re.sub(r"/\*.*?\*/", "", headers, flags=re.S))
exported = re.findall(r"^ +(skerry_\w+);", (ROOT / "src/capi/symbols.map").read_text(), re.M)
compare("function", dict.fromkeys(functions), "src/capi/symbols.map", dict.fromkeys(exported))


def text_of(literals):
    """Adjacent C string literals as one text."""
    return "".join(re.findall(r'"([^"]*)"', literals))


def counters_page():
    """docs/counters.md as the code has it, and how many counters it shows."""
    source = (ROOT / "src/capi/counters.cpp").read_text()
    headings = dict(re.findall(r'case (\w+): return "([^"]{8,})";', source))
    literals = r'((?:"[^"]*"\s*)+),'
    entries = re.findall(rf'\{{(\w+), "(\w+)", (\w+), "(\w+)",\s*{literals}', source)
    arrays = re.findall(
        rf'\{{"(\w+)", CounterKind::(\w+), "(\w+)",\s*{literals}',
        (ROOT / "array/array.cpp").read_text(),
    )
    readers = len(re.findall(r"_value<&|\[\]\(const Sources", source))
    if len(entries) != readers or not arrays:
        problems.append(
            f"docs/counters.md: {len(entries)} counters of {readers} and {len(arrays)} of arrays "
            "can be read from the code"
        )
    sections = {}
    for section, name, kind, unit, text in entries:
        sections.setdefault(headings[section], []).append((name, kind, unit, text_of(text)))
    sections["arrays (C++ and Python)"] = [(*entry[:3], text_of(entry[3])) for entry in arrays]
    lines = [COUNTERS_TOP]
    for heading, found in sections.items():
        lines.append(f"## {heading[0].upper()}{heading[1:]}\n")
        for name, kind, _, text in found:
            line = f"- `{name}`{'' if kind == 'total' else f' ({kind})'}: {text}"
            lines.append(textwrap.fill(line, 100, subsequent_indent="  ", break_on_hyphens=False))
        lines.append("")
    return "\n".join(lines).rstrip() + "\n", len(entries) + len(arrays)


COUNTERS_TOP = """\
# Counters

What a process has done since it joined the job. `tools/check_docs.py --write` makes this page
from the tables in `src/capi/counters.cpp` and `array/array.cpp`.

C reads them with `skerry_counter_values` (`skerry_counter_unit` names the unit), C++ with
`job.counters()` and `sk::array_counters(group)`, Python with `sk.counters()`.
`skerry run --counters` prints at the end what all ranks did. A counter only grows, unless it says
*now* (the present value) or *peak* (the highest so far). Data servers and shared connections count
in the lowest rank of their node.
"""

made, counters = counters_page()
if "--write" in sys.argv[1:]:
    (ROOT / "docs/counters.md").write_text(made)
elif (ROOT / "docs/counters.md").read_text() != made:
    problems.append("docs/counters.md: not what the code says; check_docs.py --write mends it")

statuses = re.findall(r"\b(SKERRY_ERR_\w+) = -\d+", header)
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
FOLDERS = "src|array|launcher|compat|lab|tests|tools|testbed|examples|include|python"
NAMED_FILE = re.compile(rf"^(?:{FOLDERS})/[\w./-]+\.(?:cpp|hpp|h|c|py|sh|pml|txt)$")
sources = "".join(
    path.read_text(errors="replace")
    for room in ("src", "launcher", "array")
    for path in sorted((ROOT / room).rglob("*.[ch]pp"))
)


def check_code_names(page, text):
    """Files that a page names exist, and on the two pages about the code so do functions."""
    for name in re.findall(r"`([^`\s]+)`", text):
        if NAMED_FILE.match(name) and not any((at / name).exists() for at in page.parents):
            problems.append(f"{page.relative_to(ROOT)}: names {name}, which does not exist")
        function = re.fullmatch(r"(\w+)::(\w+)", name)
        if page.name in ("architecture.md", "reading.md") and function:
            there = rf"\b{name}\b|(?s:class {function[1]}\b.{{0,20000}}?\b{function[2]}\()"
            if not re.search(there, sources):
                problems.append(f"{page.relative_to(ROOT)}: names {name}, which the code has not")


links = 0
for page in pages:
    if not page.exists():
        continue
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    check_code_names(page, text)
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
    f"documentation: {len(table)} variables, {counters} counters, {len(statuses)} statuses,"
    f" {len(exported)} functions, {links} links in {len(pages)} pages, {len(problems)} problems"
)
sys.exit(1 if problems else 0)
