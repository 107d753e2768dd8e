#!/usr/bin/env python3
"""Checks what a type checker knows of the package, and what its descriptions say.

    tools/check_types.py [--list]

- Every function of python/skerry is annotated, and mypy finds nothing in the package.
- The stubs of what is in C++ are those that tools/make_stubs.py makes now.
- Strictly (mypy --strict), a program that names each public name of skerry, skerry.xp, its linalg,
  fft and random, and skerry.numpy.
- mypy and pyright find three mistakes in a program, each in its line, and none in the examples.
- Every public docstring says what WORDS names.

Prints what is wrong, with --list each docstring that lacks words, and ends with status 1. Needs
mypy, which tools/setup.sh installs, and build/python; pyright if it is installed.
"""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/skerry"
BUILT = ROOT / "build/python"
# May only fall: 754, 374 and 338 when they were counted first.
MOST_UNANNOTATED = 0
MOST_MYPY = 0
MOST_WORDLESS = 0

MISTAKES = """\
import numpy as np
import skerry as sk
import skerry.xp as xp

sk.init()
a = sk.zeros((10, 20))
counter = sk.Counter()
row = counter.next()
a.put((slice(0, 1), slice(0, 20)), np.ones(20))
a.save("x.h5")  # mistake
sk.save(a, "x.h5", compresion="gzip")  # mistake
first: str = sk.rank()  # mistake
total = sk.allreduce(row, "sum")
x = xp.asarray(a)
y = xp.sum(xp.exp(-(x**2)), axis=0)
y[3:] += 1.5
middle = (y.mean(), y.T.shape, y.local.dtype)
y.array.free()
b = sk.empty_like(a)
a.copy_to(b)
b.merge()
for tile in sk.tasks(a):
    a[tile] = 2.0
with sk.window(100, "int64") as w:
    with w.lock(0):
        w.put(0, 7, w.get(0, 7) + 1)
sk.sync()
sk.finalize()
"""


# ---- the source ----------------------------------------------------------------------------------


def files():
    return sorted(PACKAGE.rglob("*.py"))


def functions(tree):
    """(node, its name with the classes around it, whether it is public) of all functions."""

    def within(node, prefix, public):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                shown = public and not re.match(r"_(?!_)", child.name)
                yield child, prefix + child.name, shown
                yield from within(child, f"{prefix}{child.name}.", False)
            elif isinstance(child, ast.ClassDef):
                shown = public and not child.name.startswith("_")
                yield from within(child, f"{prefix}{child.name}.", shown)
            else:
                yield from within(child, prefix, public)

    return within(tree, "", True)


def is_annotated(node):
    given = node.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    named = [each for each in arguments if each is not None and each.arg not in ("self", "cls")]
    return node.returns is not None and all(each.annotation for each in named)


def unannotated():
    for path in files():
        for node, name, _ in functions(ast.parse(path.read_text())):
            if not is_annotated(node):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name} is not annotated"


# ---- what docstrings say -------------------------------------------------------------------------

# What each public docstring says, and where it must.
WORDS = {
    "collective or not": re.compile(r"\bcollective\b", re.I),
    "its errors": re.compile(r"\berrors?\b", re.I),
    "shapes": re.compile(r"\bshapes?\b|\blengths?\b", re.I),
    "dtypes": re.compile(r"\bdtypes?\b", re.I),
    "gathers or not": re.compile(r"\bgathers?\b", re.I),
}
ARRAYS = re.compile(r"\b(Array|ArrayLike|Operand|Block|NDArray|ndarray)\b")


def wanted(node, path):
    """The words that a public function needs."""
    yield "collective or not"
    if "property" not in map(ast.unparse, node.decorator_list):
        yield "its errors"
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    types = [each.annotation for each in arguments if each.annotation] + [node.returns]
    if any(ARRAYS.search(ast.unparse(each)) for each in types if each is not None):
        yield "shapes"
        yield "dtypes"
        if path.parent.name == "xp" or path.name == "numpy.py":
            yield "gathers or not"


def wordless():
    """Public functions whose docstrings leave something out."""
    for path in [*files(), PACKAGE / "_core.pyi", PACKAGE / "xp/_type.pyi"]:
        for node, name, public in functions(ast.parse(path.read_text())):
            if not public or name.split(".")[-1].startswith("__") or not is_offered(path, name):
                continue
            if any(ast.unparse(each).endswith(".setter") for each in node.decorator_list):
                continue
            text = ast.get_docstring(node) or ""
            lacks = [word for word in wanted(node, path) if not WORDS[word].search(text)]
            if lacks:
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield f"{place}: {name} does not say {', '.join(lacks)}"


def is_offered(path, name):
    """Whether programs can name it: what the package and the namespaces export."""
    return (path.relative_to(PACKAGE).as_posix(), name.split(".")[0]) in OFFERED


OFFERED: set[tuple[str, str]] = set()


def find_offered():
    sys.path.insert(0, str(BUILT))
    import skerry
    from skerry import numpy, xp
    from skerry.xp import _names

    def add(name, value):
        module = getattr(value, "__module__", None) or ""
        if not module.startswith("skerry"):
            return
        if value is xp.Array:
            OFFERED.add(("xp/_type.pyi", "Array"))
            return
        file = getattr(sys.modules.get(module), "__file__", None)
        own = getattr(value, "__name__", name)
        if hasattr(skerry._core, own) and getattr(skerry._core, own) is value:
            OFFERED.add(("_core.pyi", own))
        elif file:
            OFFERED.add((Path(file).resolve().relative_to(PACKAGE).as_posix(), own))
            for base in getattr(value, "__mro__", ())[1:]:
                if base is not object:
                    add(base.__name__, base)

    for module in (skerry, xp, xp.linalg, xp.fft, xp.random, numpy):
        for name in getattr(module, "__all__", None) or public(module):
            if not name.startswith("_"):
                add(name, getattr(module, name))
    for found in _names.FUNCTIONS.values():
        add(found.__name__, found)


def made():
    """The same of functions that others make, which have no text of their own."""
    from skerry import xp

    spaces = {"xp": (xp, xp.__all__), "xp.random.Generator": (xp.random.Generator, None)}
    for space, (holder, names) in spaces.items():
        for name in names or vars(holder):
            value = getattr(holder, name)
            code = getattr(value, "__code__", None)
            if name.startswith("_") or code is None or code.co_name == name:
                continue
            lacks = [word for word, told in WORDS.items() if not told.search(value.__doc__ or "")]
            if lacks:
                yield f"{space}.{name} does not say {', '.join(lacks)}"


# ---- checkers ------------------------------------------------------------------------------------


def mypy(*arguments):
    """The complaints, a line each."""
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-color-output", *arguments],
        env={**os.environ, "MYPYPATH": str(ROOT / "python")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    if told.returncode not in (0, 1):
        sys.exit(f"mypy failed: {told.stdout}")
    return [line for line in told.stdout.splitlines() if ": error:" in line]


def pyright(folder, paths):
    """The complaints, as mypy's; None if it is not installed."""
    if importlib.util.find_spec("pyright") is None:
        return None
    settings = {"include": paths, "extraPaths": [str(ROOT / "python")], "venvPath": "",
                "reportMissingImports": False, "reportMissingModuleSource": False,
                "pythonVersion": "3.11"}  # fmt: skip
    config = Path(folder) / "pyrightconfig.json"
    config.write_text(json.dumps(settings))
    told = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "-p", config, "--pythonpath",
         sys.executable],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        found = json.loads(told.stdout)["generalDiagnostics"]
    except (ValueError, KeyError):
        print(f"skipped: pyright does not run here: {told.stderr.strip()[-200:]}")
        return None
    return [
        f"{each['file']}:{each['range']['start']['line'] + 1}: error: {each['message']}"
        for each in found
        if each["severity"] == "error"
    ]


def names_program():
    """A program that names each public name."""
    from skerry import xp

    lines, count = ["import skerry as sk", "import skerry.numpy", "from skerry import xp"], 0
    spaces = {
        "sk": sys.modules["skerry"].__all__, "xp": xp.__all__, "xp.linalg": xp.linalg.__all__,
        "xp.fft": xp.fft.__all__, "xp.random": public(xp.random),
        "skerry.numpy": public(sys.modules["skerry.numpy"]),
    }  # fmt: skip
    for space, names in spaces.items():
        lines += [f"print({space}.{name})" for name in sorted(names)]
        count += len(names)
    lines += [f"print(xp.zeros(3).{name})" for name in dir(xp.Array) if not name.startswith("_")]
    rng = (name for name in dir(xp.random.Generator) if not name.startswith("_"))
    lines += [f"print(xp.random.default_rng(1).{name})" for name in rng]
    return "\n".join(lines) + "\n", count


def public(module):
    """What a module without __all__ offers: its own, and skerry.numpy what it takes over."""
    home = "skerry" if module.__name__ == "skerry.numpy" else module.__name__
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and (getattr(value, "__module__", None) or "").startswith(home)
    ]


def judge(checker, complaints, others):
    """Mistakes that were not found, and complaints about anything else."""
    lines = MISTAKES.splitlines()
    planted = [i for i, line in enumerate(lines, 1) if line.endswith("# mistake")]
    marks = tuple(f"wrong.py:{line}:" for line in planted)
    for line, mark in zip(planted, marks, strict=True):
        if not any(mark in each for each in complaints):
            yield f"{checker} does not find a mistake: {lines[line - 1]}"
    yield from (f"{checker}: {each}" for each in complaints if not any(m in each for m in marks))
    yield from (f"{checker}: {each}" for each in others)


def main():
    if sys.argv[1:] not in ([], ["--list"]):
        print(__doc__.strip())
        sys.exit(0 if sys.argv[1] in ("-h", "--help") else 2)
    problems, bare = [], list(unannotated())
    cache = ["--cache-dir", str(ROOT / "build/mypy")]
    inside = mypy("--disallow-untyped-defs", *cache, str(PACKAGE))
    told = subprocess.run(
        [sys.executable, ROOT / "tools/make_stubs.py", "--check"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if told.returncode:
        problems.append(told.stdout.strip())
    find_offered()
    silent = [*wordless(), *made()]
    examples = sorted(map(str, (ROOT / "examples/python").glob("*.py")))
    program, names = names_program()
    with tempfile.TemporaryDirectory() as folder:
        used, wrong = Path(folder) / "used.py", Path(folder) / "wrong.py"
        used.write_text(program)
        wrong.write_text(MISTAKES)
        strictly = mypy("--strict", "--follow-imports=silent", *cache, str(used), str(wrong))
        problems += judge("mypy", strictly, mypy("--follow-imports=silent", *cache, *examples))
        found = pyright(folder, [str(used), str(wrong), *examples])
    if found is None:
        print("pyright is not installed: pip install 'pyright[nodejs]'")
    else:
        problems += judge("pyright", found, [])
    for most, lines in ((MOST_UNANNOTATED, bare), (MOST_MYPY, inside), (MOST_WORDLESS, silent)):
        if len(lines) > most or "--list" in sys.argv:
            problems += lines
    print(*problems, sep="\n", end="\n" if problems else "")
    print(
        f"types: {names} public names, {len(bare)} functions without annotations, {len(inside)} "
        f"complaints of mypy, {len(silent)} descriptions that lack words, {len(problems)} problems"
    )
    sys.exit(1 if problems else 0)


main()
