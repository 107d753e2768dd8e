#!/usr/bin/env python3
"""Makes the Fortran module from the list of its functions, functions.txt, and the rest, module.f90.

    fortran/generate.py OUTPUT

Constants come from the C headers, which are also asked whether they have the listed functions.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADERS = [HERE.parent / "include" / "skerry" / name for name in ("skerry.h", "window.h")]
# Enumerations that Fortran needs no names for: an array brings its type.
NO_CONSTANTS = ("skerry_type", "skerry_kind")
OBJECTS = ("job", "group", "segment", "mutexes", "protected", "window")
SCALARS = {"int": "integer(c_int)", "long": "integer(c_int64_t)"}
SCALARS |= {"handle": "integer(skerry_handle)", "procedure": "type(c_funptr)"}
# What a question answers, and how the answer is made of the C function's.
ANSWERS = {
    "int": ("integer(c_int)", "{}"),
    "logical": ("integer(c_int)", "{} == 1"),
    "long": ("integer(c_int64_t)", "{}"),
    "pointer": ("type(c_ptr)", "{}"),
    "text": ("type(c_ptr)", "text_of({})"),
    "group": ("type(c_ptr)", "{}"),
}
TYPES = {"i4": "integer(c_int32_t)", "i8": "integer(c_int64_t)", "r4": "real(c_float)"}
TYPES |= {"r8": "real(c_double)", "c4": "complex(c_float_complex)"}
TYPES |= {"c8": "complex(c_double_complex)"}


@dataclass(frozen=True)
class Argument:
    name: str
    type: str
    flags: frozenset[str]

    def declared(self, sizes):
        """The declaration, with the sizes in bytes that OFFSET and WORD have."""
        words = {"array": "type(*), dimension(..)"} | SCALARS
        words |= {name: f"integer(c_int{8 * size}_t)" for name, size in sizes.items()}
        parts = [words.get(self.type, f"type(skerry_{self.type})")]
        intent = next((f for f in ("inout", "out", "in") if f in self.flags), None)
        if intent is None and self.type in SCALARS | sizes and "optional" not in self.flags:
            parts.append("value")
        else:
            parts.append(f"intent({intent or 'in'})")
        parts += [word for word in ("optional", "asynchronous") if word in self.flags]
        return f"{', '.join(parts)} :: {self.name}"


@dataclass(frozen=True)
class Function:
    kind: str
    name: str
    answer: str  # of a question; empty: a call with a status
    arguments: tuple[Argument, ...]

    @property
    def public(self):
        return "skerry_" + self.name.removesuffix("_WORD")

    def variants(self):
        """(what stands behind the name, sizes) of each specific procedure."""
        types = {a.type for a in self.arguments}
        words = (4, 8) if "WORD" in types else (None,)
        offsets = (4, 8) if "OFFSET" in types else (None,)
        for word in words:
            for offset in offsets:
                sizes = {"WORD": word} if word else {}
                sizes |= {"OFFSET": offset} if offset else {}
                name = self.name.replace("WORD", f"i{8 * (word or 0)}")
                yield name + (f"_{offset}" if offset else ""), sizes

    @property
    def is_generic(self):
        return any(sizes for _, sizes in self.variants())

    def specific(self, name):
        """What Fortran calls a variant."""
        return name if self.is_generic else self.public


def argument(text):
    *flags, last = text.split()
    unnamed = (*OBJECTS, "handle")
    if flags and (flags[-1] in (*SCALARS, *OBJECTS, "array", "OFFSET", "WORD")):
        kind, name = flags.pop(), last
    elif last in unnamed:
        kind, name = last, last
    else:
        sys.exit(f"functions.txt: {text!r}: no type")
    return Argument(name, kind, frozenset(flags))


def read():
    found = []
    for line in (HERE / "functions.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        kind, name, *rest = line.split(None, 2)
        rest = rest[0] if rest else ""
        answer = ""
        if kind == "ask":
            answer, _, rest = rest.partition(" ")
        elif kind != "call":
            sys.exit(f"functions.txt: {line!r}: kinds are call and ask")
        arguments = tuple(argument(part.strip()) for part in rest.split(",") if part.strip())
        found.append(Function(kind, name, answer, arguments))
    return found


def declared_in_headers():
    """Names of the C functions, and (name, value) of the constants."""
    text = "".join(path.read_text() for path in HEADERS)
    functions = set(re.findall(r"^SKERRY_API [^;(]*?\b(skerry_\w+)\(", text, re.M))
    constants = []
    for body, name in re.findall(r"typedef enum \w+ \{(.*?)\} (\w+);", text, re.S):
        if name not in NO_CONSTANTS:
            constants += re.findall(r"\b(SKERRY_\w+) = (-?\d+)", body)
    constants += re.findall(r"^#define (SKERRY_NO_\w+) +(\d+)u?\b", text, re.M)
    return functions, constants


def wrapped(words, indent, first=""):
    """Words with commas between them on lines of at most 92 characters."""
    lines, line = [], first
    for i, word in enumerate(words):
        piece = word + (", " if i + 1 < len(words) else "")
        if len(line) + len(piece) > 90:
            lines.append(line + "&")
            line = " " * indent
        line += piece
    return "\n".join([*lines, line.rstrip()])


def constants(_, known):
    for name, value in known:
        yield f"  integer(c_int), parameter, public :: {name} = {value}"


def generics(functions, _):
    for f in functions:
        if f.is_generic:
            yield f"  interface {f.public}"
            yield wrapped([name for name, _ in f.variants()], 8, "    procedure ")
            yield "  end interface"
    yield "  interface skerry_local"
    names = [f"{kind}_local_{t}" for kind in ("segment", "window") for t in TYPES]
    yield wrapped(names, 8, "    procedure ")
    yield "  end interface"


def call(f, name, sizes):
    arguments = [*f.arguments, Argument("status", "int", frozenset({"optional", "out"}))]
    yield wrapped(
        [a.name for a in arguments], 8, f"    subroutine {f.specific(name)}("
    ) + ") &"
    yield f'        bind(C, name="skerryf_{name}")'
    yield "      import"
    for a in arguments:
        yield f"      {a.declared(sizes)}"
    yield "    end subroutine"


def ask(f):
    """The C function, of the pointers inside objects."""
    names = ", ".join(a.name for a in f.arguments)
    yield f'    function c_{f.name}({names}) result(answer) bind(C, name="skerry_{f.name}")'
    yield "      import"
    for a in f.arguments:
        yield f"      {SCALARS.get(a.type, 'type(c_ptr)')}, value :: {a.name}"
    yield f"      {ANSWERS[f.answer][0]} :: answer"
    yield "    end function"


def interfaces(functions, _):
    for f in functions:
        if f.kind == "ask":
            yield from ask(f)
        else:
            for name, sizes in f.variants():
                yield from call(f, name, sizes)


def questions(functions, _):
    """What programs call to ask."""
    for f in functions:
        if f.kind != "ask":
            continue
        kind, made = ANSWERS[f.answer]
        kind = {"logical": "logical", "text": "character(:), allocatable"}.get(f.answer, kind)
        kind = "type(skerry_group)" if f.answer == "group" else kind
        given = [f"{a.name}%handle" if a.type in OBJECTS else a.name for a in f.arguments]
        names = ", ".join(a.name for a in f.arguments)
        yield f"  function {f.public}({names}) result(answer)"
        for a in f.arguments:
            kind_of = SCALARS.get(a.type, f"type(skerry_{a.type})")
            yield f"    {kind_of}, intent(in) :: {a.name}"
        yield f"    {kind} :: answer"
        target = "answer%handle" if f.answer == "group" else "answer"
        yield f"    {target} = {made.format(f'c_{f.name}(' + ', '.join(given) + ')')}"
        yield "  end function"


def locals_(*_):
    """The own slice as an array of each type."""
    for kind in ("segment", "window"):
        for name, declared in TYPES.items():
            yield f"  subroutine {kind}_local_{name}({kind}, array)"
            yield f"    type(skerry_{kind}), intent(in) :: {kind}"
            yield f"    {declared}, pointer, intent(out) :: array(:)"
            yield f"    call c_f_pointer(c_{kind}_local({kind}%handle), array, &"
            yield f"        [own_{kind}_bytes({kind}) * 8_c_int64_t / storage_size(array)])"
            yield "  end subroutine"


def publics(functions, _):
    yield wrapped(sorted({f.public for f in functions}), 7, "  public :: ")


PARTS = {
    "constants": constants,
    "generics": generics,
    "interfaces": interfaces,
    "publics": publics,
    "questions": questions,
    "locals": locals_,
}


def module():
    functions = read()
    in_c, known = declared_in_headers()
    for f in functions:
        name = "skerry_" + f.name.replace("WORD", "i32")
        if name not in in_c:
            sys.exit(f"functions.txt: {f.name}: the headers have no {name}")
    text = (HERE / "module.f90").read_text()

    def made(match):
        return "\n".join(PARTS[match[1]](functions, known))

    return re.sub(r"^ *!@(\w+)$", made, text, flags=re.M)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    Path(sys.argv[1]).write_text(module())


if __name__ == "__main__":
    main()
