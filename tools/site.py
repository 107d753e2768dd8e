#!/usr/bin/env python3
"""Makes a searchable site of all pages and of the interfaces' descriptions: out/site/index.html.

    tools/site.py [--serve]

`make site` runs it in .venv-site, which has mkdocs-material. Pages are those that README.md leads
to, where they lie in the tree, so that their links lead to the same files; the reference is made of
the headers, the list of Fortran's functions and the Python stub. A link that leads nowhere ends it
with status 1.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES, SITE = ROOT / "out" / "site-pages", ROOT / "out" / "site"
# Lines of a header that declare nothing.
NO_CODE = re.compile(
    r"^(#(if|endif|else|include|pragma|undef|define \w+_H(PP)?$)"
    r"|extern \"C\"|(inline )?namespace|\})"
)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
CONFIG = """site_name: Skerry
site_description: One-sided communication for clusters
docs_dir: {pages}
site_dir: {site}
site_url: ""
use_directory_urls: true
theme:
  name: material
  font: false
  features: [navigation.tabs, navigation.indexes, navigation.top, search.highlight, toc.follow]
plugins: [search]
markdown_extensions:
  - admonition
  - attr_list
  - tables
  - pymdownx.superfences
  - pymdownx.highlight
  - sane_lists
  - toc:
      permalink: true
      slugify: !!python/object/apply:pymdownx.slugs.slugify {{kwds: {{case: lower}}}}
validation:
  omitted_files: ignore
  absolute_links: warn
  unrecognized_links: warn
  anchors: warn
nav:
{nav}
"""


# ---- pages of the tree ---------------------------------------------------------------------------


def stage(page, seen):
    """Copies a page and what it leads to; links to folders become links to their README."""
    if page in seen:
        return
    seen.append(page)
    text = (ROOT / page).read_text()
    targets = []

    def follow(match):
        link, _, anchor = match[2].partition("#")
        if not link or "://" in link:
            return match[0]
        target = Path(os.path.normpath(Path(page).parent / link))
        if (ROOT / target).is_dir():
            target = target / "README.md"
        if not (ROOT / target).is_file():
            return match[0]  # mkdocs names it
        targets.append(str(target))
        target = target.with_suffix(".md") if target.suffix == ".tsv" else target
        link = os.path.relpath(target, Path(page).parent)
        return match[1] + link + ("#" + anchor if anchor else "") + match[3]

    text = LINK.sub(follow, text)
    # A list after a line of text needs an empty line where Markdown is read strictly.
    text = re.sub(r"(?m)^(?![ \t]*(?:[-*]|\d+\.) )(\S.*)\n(?=(?:[-*]|\d+\.) )", r"\1\n\n", text)
    write(page, text)
    for target in targets:
        if target.endswith(".md"):
            stage(target, seen)
        elif target.endswith(".tsv"):
            write(target.removesuffix(".tsv") + ".md", table_of(target))
        elif not (PAGES / target).exists():
            (PAGES / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / target, PAGES / target)


def table_of(file):
    """A page of a file with two columns, separated by a tab."""
    lines = (ROOT / file).read_text().splitlines()
    head = " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    cells = [
        f"| {left.replace('_', chr(92) + '_').replace(' ', ', ')} | "
        + (right if right.startswith("no: ") else f"`{right}`")
        + " |"
        for left, right in rows
    ]
    return "\n".join([f"# {Path(file).stem}", "", head, "", "|  |  |", "| -- | -- |", *cells, ""])


def write(page, text):
    (PAGES / page).parent.mkdir(parents=True, exist_ok=True)
    (PAGES / page).write_text(text)


def title(page):
    found = re.search(r"^# (.*)", (PAGES / page).read_text(), re.M)
    return found[1].replace('"', "'") if found else Path(page).stem


# ---- the reference -------------------------------------------------------------------------------


def entry(names, prose, code, language):
    """One description: headings to be found by name, the words, the declaration."""
    anchor = re.sub(r"\W+", "-", names[0])
    lines = [f"### `{', '.join(names)}` {{#{anchor}}}", ""]
    lines += [f'<span id="{name}"></span>' for name in names[1:]]
    return "\n".join([*lines, "", as_text(prose), "", f"```{language}", code, "```", "", ""])


def as_text(prose):
    """Words of a comment: what is indented or between backticks is code; elsewhere < and * mean
    themselves."""
    parts = re.split(r"(?m)(^    .*$|`[^`]*`)", prose)  # code at odd places
    parts[::2] = [re.sub(r"([*_<])", r"\\\1", words) for words in parts[::2]]
    return "".join(parts)


def comment_text(lines):
    strip = re.compile(r"^ ?(/\*+|\*/|\*|//|!) ?")
    text = [strip.sub("", line).removesuffix("*/").rstrip() for line in lines]
    return "\n".join("    " + t if t.startswith("  ") else t for t in text).strip("\n")


def names_of(code):
    """What a piece of a header declares."""
    found = re.findall(r"^(?:class|struct|enum class)(?: \w+_API)? (\w+)", code, re.M)
    found = found or re.findall(r"\b(skerry_\w+)\(", code)
    found = found or re.findall(r"^\} (\w+);", code, re.M)
    found = found or re.findall(r"^typedef .*?(\w+);", code, re.M)
    found = found or re.findall(r"^[\w:<>&*\[\] ,]*?\b(\w+)\(", code, re.M)
    found = found or re.findall(r"^#define (\w+)", code, re.M)
    return list(dict.fromkeys(found))


def header(path, language):
    """A C or C++ header: its opening words, then each comment with what follows it."""
    out, comment, code, depth = [], [], [], 0
    inside = False  # a comment of several lines

    def finish():
        nonlocal comment, code
        text, names = "\n".join(code).strip("\n"), names_of("\n".join(code))
        if names:
            out.append(entry(names, comment_text(comment), text, language))
        elif comment and not out and not text:
            out.append(as_text(comment_text(comment)) + "\n\n")
        comment, code = [], []

    for line in (ROOT / path).read_text().splitlines():
        section = re.match(r"^(?:/\*|//) ---- (.*?) -+", line)
        starts = not depth and (inside or re.match(r"^(/\*|//)", line))
        if section:
            finish()
            out.append(f"## {section[1].capitalize()}\n\n")
        elif starts:
            if code:
                finish()
            comment.append(line)
            inside = "*/" not in line if inside or line.startswith("/*") else False
        elif not line.strip() and not depth:
            finish()
        elif depth or not NO_CODE.match(line):
            code.append(line)
            depth = max(0, depth + line.count("{") - line.count("}"))
    finish()
    return "".join(out)


def signature(node, lines):
    """The lines of a function or class of Python that readers use: no bodies, nothing private."""
    start = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
    described = ast.get_docstring(node, clean=False) is not None
    head = node.body[0].end_lineno if described else node.body[0].lineno - 1
    if isinstance(node, ast.ClassDef):
        return [*lines[start:head], *members(node, lines)]
    return lines[start:head] + ([] if described else [" " * (node.col_offset + 4) + "..."])


def members(node, lines):
    """What a class has that readers use."""
    out = []
    for member in node.body:
        name = getattr(member, "name", "_")
        if isinstance(member, ast.AnnAssign) and not ast.unparse(member.target).startswith("_"):
            out += lines[member.lineno - 1 : member.end_lineno]
        elif not name.startswith("_") or name.startswith("__"):
            out += ["", *signature(member, lines)]
    return out


PACKAGE = ROOT / "python/skerry"


def imported(tree):
    """name -> module of the package that a file takes it from."""
    return {
        each.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        for each in node.names
    }


def definition(name, module, shown=signature):
    """The lines of what a module of the package defines: of _core, its stub does. A class comes
    with what it has of classes of other modules."""
    lines = (PACKAGE / f"{module}{'.pyi' if module == '_core' else '.py'}").read_text().splitlines()
    tree = ast.parse("\n".join(lines))
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            out = shown(node, lines)
            for base in map(ast.unparse, getattr(node, "bases", ())):
                there = imported(tree).get(base)
                if there not in (None, "_core"):
                    out += definition(base, there, members)[1]
            return ast.get_docstring(node) or "", out
    return "", []


def python_package():
    """Every public name of the package, and the words under it."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    home = imported(tree)
    public = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    first = ast.get_docstring(tree).replace("``", "`")
    out = [re.sub(r"(?m)^\n(?=    )", "\n", first) + "\n\n"]
    order = list(dict.fromkeys(["__init__", "_core", *home.values()]))
    for name in sorted(public, key=lambda name: order.index(home.get(name, "__init__"))):
        words, lines = definition(name, home.get(name, "__init__"))
        if lines:
            out.append(entry([name], words.replace("``", "`"), "\n".join(lines), "python"))
    return "".join(out)


def module():
    """The Fortran module: its opening words, then every public procedure with its arguments."""
    made = PAGES / "skerry.f90"
    subprocess.run([sys.executable, ROOT / "fortran" / "generate.py", made], check=True)
    source = made.read_text()
    made.unlink()
    lines = source.splitlines()
    words = [line for line in lines[: lines.index("module skerry")] if line.startswith("!")]
    out = [as_text(comment_text(words)) + "\n\n"]
    listed = "".join(re.findall(r"public :: ((?:.*&\n)*.*\n)", source))
    for name in sorted(set(re.findall(r"\b(skerry_\w+)", listed))):
        specific = re.search(rf"^ *interface {name}\n *procedure (\w+)", source, re.M)
        procedure = specific[1] if specific else name
        found = re.search(
            rf"^( *)(?:\w+(?:\(.*?\))? )*(?:subroutine|function) {procedure}\b"
            r"(?:.*\n)*?(?= *(?:end (?:subroutine|function)|$))",
            source,
            re.M,
        )
        if found:
            code = re.sub(rf"(?m)^{found[1]}", "", found[0]).rstrip()
            code = "\n".join(c for c in code.splitlines() if "import" not in c)
            out.append(entry([name], f"As `{name}` of the [C interface](c.md).", code, "fortran"))
    return "".join(out).replace("\\_", "_")


REFERENCE = {
    "api/c.md": ("C", [("include/skerry/skerry.h", "c"), ("include/skerry/window.h", "c")]),
    "api/cpp.md": (
        "C++",
        [(f"include/skerry/{name}.hpp", "cpp") for name in ("skerry", "window", "array")],
    ),
}


def reference():
    for page, (name, headers) in REFERENCE.items():
        text = "".join(header(path, language) for path, language in headers)
        spans = re.findall(r"`[^`]*`", re.sub(r"(?s)```.*?```", "", text))
        if found := [span for span in spans if re.search(r"\\[*_<]", span)]:
            sys.exit(f"{page}: a backslash that readers would see: {found[0]}")
        write(page, f"# {name}\n\n{text}")
    write("api/fortran.md", "# Fortran\n\n" + module())
    write("api/python.md", "# Python\n\n" + python_package())


def navigation(pages):
    def items(chosen):
        return [f'      - "{title(page)}": {page}' for page in chosen]

    begin = ["docs/installing.md"]
    begin += sorted(p for p in pages if p.startswith("docs/tutorial/"))
    begin += ["docs/launchers.md"]
    documents = [p for p in pages if p.startswith("docs/") and p.count("/") == 1 and p not in begin]
    design = sorted(p for p in pages if p.startswith("docs/design/"))
    rooms = [p for p in pages if p not in {"README.md", *begin, *documents, *design}]
    api = [f"api/{name}.md" for name in ("c", "cpp", "fortran", "python")]
    out = ["  - Skerry: README.md"]
    for name, chosen in (
        ("Begin", begin),
        ("Documents", documents),
        ("Reference", api),
        ("Design", design),
        ("Code", sorted(rooms)),
    ):
        out += [f"  - {name}:", *items(chosen)]
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--serve", action="store_true", help="on http://127.0.0.1:8000 instead")
    args = parser.parse_args()
    shutil.rmtree(PAGES, ignore_errors=True)
    pages = []
    stage("README.md", pages)
    reference()
    config = PAGES.parent / "site.yml"
    config.write_text(CONFIG.format(pages=PAGES, site=SITE, nav=navigation(pages)))
    mkdocs = [sys.executable, "-m", "mkdocs"]
    if args.serve:
        return subprocess.run([*mkdocs, "serve", "-f", config], check=False).returncode
    # Not -q: what is not logged is not counted, and the build would end well.
    build = [*mkdocs, "build", "--strict", "-f", config]
    done = subprocess.run(build, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        print(f"{SITE / 'index.html'}: {len(pages)} pages and the reference")
    else:
        print(*re.findall(r"^(?:WARNING|ERROR|Aborted).*", done.stderr, re.M), sep="\n")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
