#!/usr/bin/env python3
"""Writes the stubs of what is written in C++: python/skerry/_core.pyi and xp/_type.pyi.

    tools/make_stubs.py [--check]

_core.pyi is what nanobind's stubgen makes of the module: signatures and descriptions stand at the
bindings (python/src). xp/_type.pyi is the class of whole arrays, whose slots nanobind does not
know: what Python gives it comes from there, with its annotations; NumPy's methods and the operators
have the types that are listed here. Both must have every attribute that the class has, and no
other. --check writes nothing: it compares, and ends with status 1 if the stubs differ. Needs
build/python.
"""

import argparse
import ast
import inspect
import re
import sys
import textwrap
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build/python"))

from nanobind.stubgen import ReplacePattern, StubGen  # noqa: E402

from skerry import _core, xp  # noqa: E402

COLUMNS = 100
HEAD = "# Made by tools/make_stubs.py: do not edit.\n"
# Parts of modules whose names stubs use without the module's.
SHORT = {
    "numpy.typing": ("ArrayLike", "DTypeLike", "NDArray"),
    "skerry._types": ("Block", "Op", "Patch", "UpdateOp"),
    "types": ("TracebackType",),
}
FUNCTIONS_OF_WHOLE = {
    "setup": "(view: Block, generic: type, functions: dict[str, Any], /) -> None",
    "limits": "(ranks: int, lazy_elements: int, whole_bytes: int, crowd_bytes: int, /) -> None",
    "function": "(whole: Any, spread: Any, kind: str, /) -> Any",
    "whole": "(block: Any, /) -> Any",
    "room": "(shape: tuple[int, ...], dtype: Any, operands: list[Any], /) -> Any",
    "bytes": "() -> tuple[int, int]",
}


class Stubs(StubGen):
    """nanobind's, with short names and with docstrings as wide as the code."""

    def format_docstr(self, docstr: str, depth: int) -> str:
        return described(docstr, depth)

    def simplify_types(self, s: str) -> str:
        for module, names in SHORT.items():
            for name in names:
                if f"{module}.{name}" in s:
                    s = s.replace(f"{module}.{name}", self.bind(module, name))
        return super().simplify_types(s)


def described(text, depth):
    """A docstring."""
    room = COLUMNS - 4 * depth
    parts = inspect.cleandoc(text).replace("\\", "\\\\").split("\n\n")
    lines = []
    for part in parts:
        short = all(len(line) <= room - 6 for line in part.splitlines())
        lines += [part] if short else textwrap.wrap(part, room - 6, break_on_hyphens=False)
        lines.append("")
    body = "\n".join(lines).rstrip()
    end = '\n"""' if "\n\n" in body or body.endswith('"') else '"""'
    return textwrap.indent(f'"""{body}{end}\n', "    " * depth)


def broken(text):
    """Signatures wider than the code in a line for each parameter."""
    out = []
    for line in text.splitlines():
        found = re.fullmatch(r"( *)(def \w+)\((.*)\)( -> .*:(?: \.\.\.)?)", line)
        if len(line) <= COLUMNS or not found:
            out.append(line)
            continue
        indent, begin, inside, end = found.groups()
        if len(indent) + 4 + len(inside) <= COLUMNS:
            out += [f"{indent}{begin}(", f"{indent}    {inside}", f"{indent}){end}"]
            continue
        cuts, depth = [0], 0
        for at, letter in enumerate(inside):
            depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(letter, 0)
            if letter == "," and not depth:
                cuts.append(at + 2)
        parts = [inside[a:b].rstrip(", ") for a, b in zip(cuts, [*cuts[1:], None], strict=True)]
        out += [f"{indent}{begin}(", *(f"{indent}    {part}," for part in parts), f"{indent}){end}"]
    return "\n".join(out) + "\n"


# ---- _core.pyi -----------------------------------------------------------------------------------

# Whose functions in Python refuse all arguments: what they would take.
REFUSED = {
    "__array__": "(self, dtype: Any = None, copy: bool | None = None) -> NoReturn",
    "__contains__": "(self, value: object) -> NoReturn",
    **{f"__{name}__": "(self) -> NoReturn" for name in "iter bool int float complex".split()},
}


def own_functions(kind):
    """Makes functions that Python gave a class of the module look like its own."""
    for name, value in vars(kind).items():
        if isinstance(value, types.FunctionType):
            value.__module__, value.__name__ = _core.__name__, name
            value.__annotations__.pop("self", None)
            for key, told in value.__annotations__.items():
                value.__annotations__[key] = re.sub(r"\bnp\.", "numpy.", told)


def core_stub():
    for kind in (_core.Array, _core.Mirror):
        own_functions(kind)
    known = {f"xp_{name}": words for name, words in FUNCTIONS_OF_WHOLE.items()}
    known |= {rf"Array\.{name}": words for name, words in REFUSED.items()}
    patterns = [
        ReplacePattern(
            re.compile(rf"skerry\._core\.{name}$"), [f"def {name.split('.')[-1]}{words}: ..."], 0
        )
        for name, words in known.items()
    ]
    patterns.append(ReplacePattern(re.compile(r"skerry\._core\.Whole$"), [], 0))
    version = re.compile(r"skerry\._core\.__version__$")  # stubgen leaves out what modules have
    patterns.append(ReplacePattern(version, ["__version__: str", ""], 0))
    made = Stubs(module=_core, include_private=True, quiet=True, patterns=patterns)
    made.put(_core)
    for module, name in (
        ("skerry._types", "Block"), ("typing", "Any"), ("typing", "NoReturn"),
        ("collections.abc", "Callable"), ("typing", "final"),
    ):  # fmt: skip
        made.bind(module, name)
    # None of them is made to be derived from, but _Irregular.
    return HEAD + broken(re.sub(r"(?m)^class (?!_)", "@final\nclass ", made.get()))


# ---- xp/_type.pyi --------------------------------------------------------------------------------

TEMPLATE = ROOT / "python/src/whole.pyi"
# What every class has.
USUAL = "__module__ __doc__ __new__ __getattribute__ __delitem__".split()
# What whole arrays have from NumPy's when they are asked (`missing`): not in the class.
LATE = "flat flags strides base data ctypes".split()


def written_by_hand():
    """The lines of the template before its class and of the class, and {attribute: its lines}."""
    lines = TEMPLATE.read_text().splitlines()
    kind = next(n for n in ast.parse("\n".join(lines)).body if isinstance(n, ast.ClassDef))
    begin = kind.body[0].end_lineno
    members = {}
    for node in kind.body[1:]:
        marks = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in marks)]) - 1
        name = getattr(node, "name", None) or ast.unparse(node.target)
        members.setdefault(name, []).extend(lines[first : node.end_lineno])
    head = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return lines[head:begin], members


def python_function(name, function):
    """What Python defines: with its own annotations and words."""
    words = inspect.signature(function)
    first, *rest = words.parameters.values()
    first = first.replace(name="self" if first.name == "x" else first.name, annotation=first.empty)
    text = str(words.replace(parameters=[first, *rest]))
    text = re.sub("(: |-> )'([^']*)'", r"\1\2", text)  # annotations that are text
    if not function.__doc__:
        return [f"    def {name}{text}: ..."]
    return [f"    def {name}{text}:", described(function.__doc__, 2).rstrip("\n")]


def of_python(name, value):
    """The lines of what Python gave the class; [] for anything else."""
    if isinstance(value, property):
        kind = inspect.signature(value.fget).return_annotation
        lines = python_function(name, value.fget)
        return ["    @property", re.sub(r" -> .*?(?=:)", f" -> {kind}", lines[0]), *lines[1:]]
    if isinstance(value, classmethod):
        return ["    @classmethod", *python_function(name, value.__func__)]
    return python_function(name, value) if isinstance(value, types.FunctionType) else []


def array_stub():
    out, known = written_by_hand()
    there = {name: value for name, value in vars(xp.Array).items() if name not in USUAL}
    found = {name: of_python(name, value) for name, value in there.items()}
    unknown = sorted(name for name, lines in found.items() if not lines and name not in known)
    gone = sorted(name for name in known if name not in LATE and (
        name not in there or found[name]))  # fmt: skip
    if unknown or gone:
        sys.exit(f"{TEMPLATE}: what is {', '.join(unknown) or 'fine'}? Too much: {', '.join(gone)}")
    for name in sorted({**found, **known}, key=lambda name: (name.startswith("_"), name)):
        out += ["", *(known.get(name) or found[name])]
    return HEAD + broken("\n".join(out))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="compares, and writes nothing")
    options = parser.parse_args()
    different = []
    for path, text in (("_core.pyi", core_stub()), ("xp/_type.pyi", array_stub())):
        ast.parse(text)
        file = ROOT / "python/skerry" / path
        if not file.exists() or file.read_text() != text:
            different.append(path)
            if not options.check:
                file.write_text(text)
    if options.check and different:
        sys.exit(f"stubs: {', '.join(different)} must be made again: tools/make_stubs.py")
    print(f"stubs: {len(different)} of 2 {'differ' if options.check else 'were made again'}")


if __name__ == "__main__":
    main()
