#!/usr/bin/env python3
"""Checks columns (100), lines of functions (70), functions of the product's classes (60), and
English: words in a sentence (30), and words that hide who acts (whoever, so long, nobody needs).

    tools/check_style.py [--update]

What was longer when the check began is listed in tools/style_exceptions.txt: a file with its
number of wide lines, a function with its length, or a class with its number of functions (those
that are defined, wherever; not data members). No sentence is listed any more: none of comments or
Markdown in include, src and docs is longer, without tables, code and drawings. The list may only
shrink: what is not in it, or is worse than it says, fails; so does what became better, until
--update has written the list anew.
Tables in Markdown and lines that are one long word may be wider. Recorded data and generated pages
are not looked at. Needs lizard, which setup.sh installs.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import lizard

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = ROOT / "tools" / "style_exceptions.txt"
COLUMNS = 100
LINES = 70
FUNCTIONS = 60
WORDS = 30
PROSE = ("include/", "src/", "docs/")
HIDING = re.compile(r"\b(whoever|so long|nobody needs?)\b(?! as\b)", re.I)
PRODUCT = ("include/", "src/", "array/", "python/src/", "compat/", "launcher/")
CODE = {".c", ".h", ".cpp", ".hpp", ".py"}
TEXT = CODE | {".pyi", ".md", ".sh", ".cmake", ".pml", ".F90", ".yaml", ".toml", ".css"}
TEXT_NAMES = {"CMakeLists.txt", "Makefile", "run"}
NOT_OURS = ("hpcaas/tests/recorded/", "hpcaas/docs/examples/")
HEADER = """\
# What is wider than 100 columns or longer than 70 lines, and larger classes. May only shrink: see
# check_style.py. FILE: number of wide lines, FILE:FUNCTION: number of lines, class: functions.
"""


def files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in sorted(listed.stdout.split("\0")):
        path = ROOT / name
        if name and path.is_file() and not name.startswith(NOT_OURS):
            if path.suffix in TEXT or path.name in TEXT_NAMES:
                yield name, path


def wide_lines(name, path):
    """The numbers of the lines beyond the limit."""
    found = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        is_table = name.endswith(".md") and line.lstrip().startswith("|")
        if len(line) > COLUMNS and not is_table and re.search(r"\S\s+\S", line.strip("# /*-")):
            found.append(number)
    return found


def paragraphs(name, text):
    """(line number, text) of each paragraph of prose: comments of C and C++, or Markdown."""
    block, start, fenced = [], 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if name.endswith(".md"):
            fenced ^= line.startswith("```")
            prose = "" if fenced or line.startswith(("|", "#", "    ", "```")) else line.strip()
            begins = bool(re.match(r"\s*([-*]|\d+\.) ", line))
        else:
            comment = re.search(r"(?:^|\s)(?://|/?\*+(?!/)) ?(.*)", line)
            prose = comment.group(1) if comment else ""
            # A drawing or a table is no prose, and a comment behind code begins anew.
            begins = bool(re.match(r"\s{2}|[-*] ", prose)) or bool(re.match(r"\s*[^\s/*]", line))
            prose = prose.strip().removesuffix("*/").strip()
        if block and (not prose or begins):
            yield start, " ".join(block)
            block = []
        if prose:
            start = start if block else number
            block.append(prose)


def prose_faults(name, text):
    """(lines of long sentences, lines with words that hide who acts)."""
    long, hiding = [], []
    for number, paragraph in paragraphs(name, text):
        plain = re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", "x", paragraph)
        hiding += [number] * len(HIDING.findall(plain))
        for sentence in re.split(r"(?<=[.!?])\s+", plain):
            if len(re.findall(r"\b[A-Za-z][\w'-]*", sentence)) > WORDS:
                long.append(number)
    return long, hiding


def measure():
    """{what: (size, where to look)} of all that is beyond a limit."""
    beyond, classes = {}, {}
    for name, path in files():
        wide = wide_lines(name, path)
        if wide:
            beyond[name] = (len(wide), f"{name}:{wide[0]}: wider than {COLUMNS} columns")
        if name.startswith(PROSE) and path.suffix in {".h", ".hpp", ".cpp", ".md"}:
            long, hiding = prose_faults(name, path.read_text(errors="replace"))
            if long:
                where = f"{name}:{long[0]}: a sentence of more than {WORDS} words"
                beyond[f"sentences of {name}"] = (len(long), where)
            if hiding:
                where = f"{name}:{hiding[0]}: name who acts, or the time"
                beyond[f"words of {name}"] = (len(hiding), where)
        if path.suffix not in CODE:
            continue
        is_product = name.startswith(PRODUCT) and "test" not in name
        for function in lizard.analyze_file(str(path)).function_list:
            owner = function.name.rpartition("::")[0].rpartition("::")[2]
            if is_product and owner[:1].isupper():  # namespaces are in small letters
                room = "/".join(name.split("/")[:2])
                classes.setdefault(f"class {owner} in {room}", set()).add(
                    (name, function.start_line)
                )
            if function.length > LINES:
                what = f"{name}:{function.name.split('::')[-1]}"
                where = f"{name}:{function.start_line}: {function.name} has {function.length} lines"
                if what not in beyond or beyond[what][0] < function.length:
                    beyond[what] = (function.length, f"{where}, at most {LINES}")
    for what, found in classes.items():
        if len(found) > FUNCTIONS:
            where = f"{what} has {len(found)} functions, at most {FUNCTIONS}"
            beyond[what] = (len(found), where)
    return beyond


def listed_exceptions():
    exceptions = {}
    if EXCEPTIONS.exists():
        for line in EXCEPTIONS.read_text().splitlines():
            if line and not line.startswith("#"):
                what, size = line.rsplit(": ", 1)
                exceptions[what] = int(size)
    return exceptions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write what became better")
    options = parser.parse_args()
    beyond, exceptions = measure(), listed_exceptions()
    worse = [w for w, (size, _) in beyond.items() if size > exceptions.get(w, 0)]
    better = [w for w, size in exceptions.items() if beyond.get(w, (0, ""))[0] < size]
    if options.update and not (worse and EXCEPTIONS.exists()):
        rows = "".join(f"{what}: {size}\n" for what, (size, _) in sorted(beyond.items()))
        EXCEPTIONS.write_text(HEADER + rows)
        better = worse = []
    for what in worse:
        allowed = f" (the list allows {exceptions[what]})" if what in exceptions else ""
        print(f"{beyond[what][1]}{allowed}")
    for what in better:
        print(f"{what} became better: run tools/check_style.py --update to shrink the list")
    print(f"style: {len(beyond)} exceptions, {len(worse)} worse, {len(better)} better than listed")
    return 1 if worse or better else 0


if __name__ == "__main__":
    sys.exit(main())
