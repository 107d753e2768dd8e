#!/usr/bin/env python3
"""Makes from functions.txt what would be the same line forty times.

    compat/mpi/generate.py entries|functions|stubs OUTPUT

entries    definitions of the functions, which find the window and call namespace skerry::mpi
functions  macros that list the functions, for the pointers to the MPI library's own
stubs      STUB(name, parameters, arguments) of each, for the preloaded library
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Function:
    name: str
    has_large: bool
    kind: str
    arguments: tuple[tuple[str, str], ...]  # (type, name)

    def typed(self, large):
        """The arguments with the types of the form."""
        words = (
            {"COUNT": "MPI_Count", "UNIT": "MPI_Aint"} if large else {"COUNT": "int", "UNIT": "int"}
        )
        kinds = [re.sub(r"COUNT|UNIT", lambda m: words[m[0]], kind) for kind, _ in self.arguments]
        return ", ".join(f"{kind} {name}" for kind, (_, name) in zip(kinds, self.arguments))

    @property
    def ours(self):
        """The function of skerry::mpi."""
        return self.name.lower()


def read():
    found = []
    for line in (HERE / "functions.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, forms, kind, arguments = line.split(None, 3)
        pairs = [
            re.fullmatch(r"(.*?)\s*(\w+)", part.strip()).groups() for part in arguments.split(",")
        ]
        if forms not in ("one", "both") or kind not in ("make", "use", "free"):
            sys.exit(f"functions.txt: {line!r}: forms are one or both, kinds make, use or free")
        found.append(Function(name, forms == "both", kind, tuple(pairs)))
    return found


def small_call(function):
    """Calls the library's int form from the large-count form, if it has only that."""
    counts = [n for kind, n in function.arguments if kind in ("COUNT", "UNIT")]
    if any(kind == "UNIT*" for kind, _ in function.arguments):
        every = ", ".join("&unit" if k == "UNIT*" else n for k, n in function.arguments)
        return (
            f"int unit = 0;\n  const int status = real().{function.name}({every});\n"
            "  if (status == MPI_SUCCESS) *disp_unit = unit;\n  return status"
        )
    every = ", ".join(f"static_cast<int>({n})" if n in counts else n for _, n in function.arguments)
    return f"return fit_int({', '.join(counts)}) ? real().{function.name}({every}) : MPI_ERR_COUNT"


def entry(function, large, library_is_small=False):
    name = function.name + ("_c" if large else "")
    names = [n for _, n in function.arguments]
    every = ", ".join(names)
    rest = ", ".join(n for n in names if n != "win")
    theirs = small_call(function) if library_is_small else f"return real().{name}({every})"
    access = f"{function.ours}({', '.join(['*window', *([rest] if rest else [])])})"
    ours = f'return counted(*window, "MPI_{name}", {access})'
    body = {
        "make": f"  if (const auto made = {function.ours}({every})) return *made;\n  {theirs};\n",
        "free": f"  Window* const window = find_window(*win);\n"
        f"  if (window == nullptr) return real().{name}({every});\n"
        f"  const Caller caller(*window);\n"
        f"  return {function.ours}(*window, win);\n",
        "use": f"  if (Window* const window = find_plain(win); window != nullptr) [[likely]]\n"
        f"    {ours};\n  return any_{name}({every});\n",
    }[function.kind]
    typed = function.typed(large)
    before = "" if function.kind != "use" else (
        f"[[gnu::cold, gnu::noinline]] static int any_{name}({typed}) {{\n"
        f"  Window* const window = find_window(win);\n"
        f"  if (window == nullptr) {{\n  {theirs};\n  }}\n"
        f"  const Caller caller(*window);\n  {ours};\n}}\n"
    )  # fmt: skip
    return (
        f"{before}int PMPI_{name}({typed}) {{\n{body}}}\n"
        f'int MPI_{name}({typed}) __attribute__((weak, alias("PMPI_{name}")));\n'
    )


def entries(functions):
    yield 'extern "C" {\n'
    for function in functions:
        yield entry(function, False)
    yield "#ifdef SKERRY_MPI_LARGE\n"
    for function in functions:
        if function.has_large:
            yield entry(function, True)
    yield "#else\n"
    for function in functions:
        if function.has_large:
            yield entry(function, True, library_is_small=True)
    yield '#endif\n}  // extern "C"\n'


def listing(functions):
    yield "#define SKERRY_MPI_FUNCTIONS(X) " + " ".join(f"X({f.name})" for f in functions) + "\n"
    yield "#define SKERRY_MPI_LARGE_FUNCTIONS(X) "
    yield " ".join(f"X({f.name}_c)" for f in functions if f.has_large) + "\n"


def stubs(functions):
    for function in functions:
        words = [f"a{i}" for i in range(len(function.arguments))]
        types = ", ".join(f"W {word}" for word in words)
        values = ", ".join(words)
        yield f"STUB({function.name}, ({types}), ({values}))\n"
        if function.has_large:
            yield f"STUB({function.name}_c, ({types}), ({values}))\n"


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("entries", "functions", "stubs"):
        sys.exit(__doc__)
    make = {"entries": entries, "functions": listing, "stubs": stubs}[sys.argv[1]]
    text = "/* Made by compat/mpi/generate.py from functions.txt. */\n" + "".join(make(read()))
    Path(sys.argv[2]).write_text(text)


if __name__ == "__main__":
    main()
