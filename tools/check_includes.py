#!/usr/bin/env python3
"""Checks that includes follow the room table, transitively, that pure rooms stay pure, and that no
modules of the Python package import one another in a circle, within functions or not.

A room is a directory. A file may include what its room's row names, and nothing may reach it through those: the rooms of all files that
it pulls in, directly or not, must be in the row's closure. Pure rooms include no header of threads, sockets, clocks or allocators,
also not through others. Tests of a room (test/, *_test.cpp) may use more and are not checked. Standard library only.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# room: (rooms it may include, pure?). The longest matching directory decides. PUBLIC stands for
# include/skerry.
PUBLIC = "include/skerry"
ORIGIN_USES = [
    *("src/core", "src/core/pure", "src/wire", "src/placement", "src/memory", "src/session"),
    "src/connection",
    "src/fabric",
]
# Those who use an engine see all of it.
ORIGIN = ["src/origin", *(f"src/origin/{room}" for room in ("progress", "link", "send", "engine"))]
ROOMS = {
    PUBLIC: ([], False),
    "src/core/pure": ([], True),
    "src/core": (["src/core/pure"], False),
    "src/wire": (["src/core/pure"], True),
    "src/memory": (["src/core", "src/core/pure"], False),
    "src/placement": (["src/core/pure"], True),
    "src/session": (["src/core/pure", "src/wire"], True),
    "src/connection": (["src/core/pure"], True),
    "src/lock": (["src/core/pure"], True),
    "src/lock/host": (
        ["src/core", "src/core/pure", "src/memory", "src/placement", "src/lock"],
        False,
    ),
    "src/fabric": (["src/core", "src/core/pure"], False),
    "src/share": (
        ["src/core", "src/core/pure", "src/wire", "src/placement", "src/connection", "src/fabric"],
        False,
    ),
    "src/server": (
        [
            "src/core",
            "src/core/pure",
            "src/wire",
            "src/memory",
            "src/placement",
            "src/session",
            "src/connection",
            "src/lock",
            "src/lock/host",
            "src/fabric",
        ],
        False,
    ),
    # What its four rooms share; then these, lowest first. ORIGIN says more.
    "src/origin": (ORIGIN_USES, False),
    "src/origin/progress": (["src/origin", *ORIGIN_USES], False),
    "src/origin/link": (["src/origin", "src/origin/progress", *ORIGIN_USES], False),
    "src/origin/send": (
        ["src/origin", "src/origin/progress", "src/origin/link", *ORIGIN_USES],
        False,
    ),
    "src/origin/engine": (
        ["src/origin", "src/origin/progress", "src/origin/link", "src/origin/send", *ORIGIN_USES],
        False,
    ),
    "src/job/bootstrap": (["src/core", "src/core/pure"], False),
    "src/job": (
        [
            "src/core",
            "src/core/pure",
            "src/wire",
            "src/memory",
            "src/placement",
            "src/session",
            "src/connection",
            "src/lock",
            "src/lock/host",
            "src/fabric",
            "src/share",
            "src/server",
            *ORIGIN,
            "src/window",
            "src/job/bootstrap",
        ],
        False,
    ),
    "src/window": (
        [
            "src/core",
            "src/core/pure",
            "src/wire",
            "src/memory",
            "src/lock",
            *ORIGIN,
            "src/job",
            "src/job/bootstrap",
        ],
        False,
    ),
    "src/capi": (
        [
            PUBLIC,
            "src/core",
            "src/core/pure",
            "src/share",
            *ORIGIN,
            "src/window",
            "src/job",
            "src/job/bootstrap",
        ],
        False,
    ),
    "array": ([PUBLIC], False),
    "python": ([PUBLIC, "array"], False),
    "compat": ([PUBLIC], False),
    "lab/bench/micro": ([PUBLIC, "array"], False),
    "lab/bench/adapter": (
        ["src/core", "src/core/pure", "src/fabric", "lab/bench/micro"],  # its clock and medians
        False,
    ),
    "lab/bench/clusters": (
        [
            PUBLIC,
            *("src/core/pure", "src/core", "src/wire", "src/placement", "src/memory"),
            *("src/session", "src/connection", "src/fabric", "src/lock", "src/share"),
            *("src/lock/host", "src/server", "src/job/bootstrap"),
            "launcher",  # it answers a start
            "lab/bench/micro",  # its clock and medians
        ],
        False,
    ),
    "hpcaas": ([PUBLIC, "array"], False),
    "examples": ([PUBLIC, "array"], False),
    "lab/locks": (["src/core/pure", "src/lock", "lab/sim"], False),
    "lab/sim": (
        [
            "src/core/pure",
            "src/core",
            "src/wire",
            "src/placement",
            "src/memory",
            "src/session",
            "src/connection",
            "src/fabric",
            "src/lock",
            "src/lock/host",
            "src/share",
            "src/server",
            *ORIGIN,
            "launcher/planner",
        ],
        False,
    ),
    "lab/sim/calibrate": ([PUBLIC, "launcher/probes"], False),
    "lab/sim/record": ([PUBLIC, "src/core/pure", "src/core", "src/wire", "src/fabric"], False),
    "launcher/probes": ([PUBLIC], False),
    "launcher/planner": (
        [
            *("src/core/pure", "src/core", "src/wire", "src/placement", "src/memory"),
            *("src/session", "src/connection", "src/fabric", "src/lock"),
            *ORIGIN,
        ],
        False,
    ),
    # The reader of running jobs knows what is in their memory.
    "launcher/look": (
        [
            *("src/core/pure", "src/core", "src/wire", "src/placement", "src/memory"),
            *("src/session", "src/connection", "src/fabric", "src/lock", "src/share"),
            *ORIGIN,
            *("src/server", "src/job", "src/job/bootstrap", "launcher"),
        ],
        False,
    ),
    # src/connection and src/lock know the values of two variables, src/fabric what libfabric
    # has here
    "launcher": (
        [
            *("src/core", "src/core/pure", "src/job/bootstrap", "src/connection"),
            *("src/fabric", "src/lock"),
        ],
        False,
    ),
}

# (room, room it includes beside its row): why. Nothing may be added without a reason.
DEVIATIONS = {
    ("src/capi", "src/fabric"): "skerry_init hands the job the fabric that SKERRY_FABRIC names"
}

# The parts of src/origin on their floors, lowest first: file or, where there are two, the name of
# both, and the class that others know it by. A part names only those of lower floors, in includes
# and otherwise; a friend is an owner, who is named by what it owns.
FLOORS = [
    {"context": "EngineContext", "description": None, "link/op": "Op", "link/link": "Link"},
    {
        "progress/progress": "Progress",
        "link/operations": "Operations",
        "link/slots": "Slots",
        "link/rma_log": "RmaLog",
        "link/table": "LinkTable",
        "send/batch": "Batch",
        "send/ways": "Ways",
    },
    {"link/links": "Links", "link/opening": None, "send/batches": "Batches"},
    {"link/resume": "Resume", "send/sender": "Sender"},
    {"send/transfers": "Transfers", "send/rma": "Rma"},
    {"engine/losses": "Losses"},
    {"engine/engine": "Engine", "engine/upcalls": None},
]
# Files of one part, and parts of one floor that know each other: none may be added without a
# reason.
SAME_PART = {
    ("link/opening", "link/links"): "the second half of Links",
    ("engine/upcalls", "engine/engine"): "what comes back to the Engine",
    ("link/op", "link/link"): "an operation names its link",
}

IMPURE = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token|chrono|ctime|time\.h|pthread\.h|"
    r"sched\.h|sys/(socket|epoll|un|uio|mman|time|timerfd|eventfd)\.h|netinet/.*|arpa/.*|poll\.h|unistd\.h|malloc\.h|"
    r"memory_resource|linux/futex\.h)$"
)
SOURCE = {".h", ".hpp", ".c", ".cpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def room_of(path):
    parts = path.relative_to(ROOT).parts
    for length in range(len(parts) - 1, 0, -1):
        name = "/".join(parts[:length])
        if name in ROOMS:
            return name
    return None


def is_test(path):
    relative = path.relative_to(ROOT)
    return bool({"test", "tests"} & set(relative.parts[:-1])) or relative.stem.endswith(
        ("_test", "_probe")
    )


class Includes:
    def __init__(self):
        self.direct_cache = {}
        self.all_cache = {}

    def direct(self, path):
        """(project files, system headers) named by this file."""
        if path not in self.direct_cache:
            files, system = [], []
            for kind, name in INCLUDE.findall(path.read_text(errors="replace")):
                found = next(
                    (
                        p
                        for p in (
                            ROOT / "src" / name,
                            ROOT / "include" / name,
                            ROOT / name,
                            ROOT / "lab" / name,
                            path.parent / name,
                            ROOT / "array" / "include" / name,
                            ROOT / "array" / name,
                        )
                        if p.is_file()
                    ),
                    None,
                )
                if found is not None:
                    files.append(found.resolve())
                elif kind == "<":
                    system.append(name)
            self.direct_cache[path] = (files, system)
        return self.direct_cache[path]

    def reached(self, path):
        """{file: the file that includes it} over everything this file pulls in."""
        if path in self.all_cache:
            return self.all_cache[path]
        seen, queue = {}, [path]
        while queue:
            at = queue.pop()
            for file in self.direct(at)[0]:
                if file not in seen and file != path:
                    seen[file] = at
                    queue.append(file)
        self.all_cache[path] = seen
        return seen


def code_of(text):
    """C++ without comments and strings, and without the friends that it names."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', " ", text, flags=re.S)
    return re.sub(r"\bfriend\s+(class|struct)\s+\w+;", " ", text)


def against_floors():
    """References within src/origin that go up or sideways, and files that stand on no floor."""
    top = ROOT / "src/origin"
    floor = {part: number for number, parts in enumerate(FLOORS) for part in parts}
    found, references = [], 0
    for path in sorted(p for p in top.rglob("*") if p.suffix in SOURCE and not is_test(p)):
        part = path.relative_to(top).with_suffix("").as_posix()
        if part not in floor:
            found.append(f"src/origin/{part}: on no floor of tools/check_includes.py (FLOORS)")
            continue
        text = path.read_text()
        code = code_of(text)
        included = set(re.findall(r'#include "origin/([\w/]+)\.hpp"', text))
        for other, height in floor.items():
            name = FLOORS[height][other]
            word = rf"(?<!struct )(?<!class )\b{name}\b(?!\s*=)"
            named = name is not None and re.search(word, code)
            if other == part or not (named or other in included):
                continue
            references += 1
            if height >= floor[part] and (part, other) not in SAME_PART:
                how = "includes" if other in included else "names"
                found.append(
                    f"{path.relative_to(ROOT)}: floor {floor[part] + 1} {how} {other}, of floor "
                    f"{height + 1}: parts know lower floors alone"
                )
    print(
        f"floors: {len(FLOORS)} in src/origin, {len(found)} of {references} references against "
        "the order"
    )
    return found


def python_modules():
    """{module of the package: {modules that it imports: line}}; of a name from a package that is a
    module, that module."""
    top = ROOT / "python"
    names = {}
    for path in (top / "skerry").rglob("*.py"):
        parts = path.relative_to(top).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for name, path in names.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = graph[name] = {}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                wanted = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*(up if node.level else []), *filter(None, [node.module])])
                wanted = [f"{base}.{each.name}" for each in node.names]
                # `from . import _core`, which is no module in Python, needs nothing of the package.
                wanted = [w if w in names else base if node.module else None for w in wanted]
            else:
                continue
            found.update({w: node.lineno for w in wanted if w in names and w != name})
    return graph


def circles(graph):
    """A circle of each set of modules that need one another, as a list of modules; and the floors
    of those that need none: modules stand above all that they import."""
    floor, way, found = {}, [], []

    def visit(module):
        if module in floor:
            return floor[module]
        if module in way:
            found.append([*way[way.index(module) :], module])
            return 0
        way.append(module)
        floor[module] = 1 + max((visit(each) for each in graph[module]), default=0)
        way.pop()
        return floor[module]

    for module in sorted(graph):
        visit(module)
    return found, floor


def python_circles():
    graph = python_modules()
    found, floor = circles(graph)
    least = min(floor[m] for m in graph if m.startswith("skerry.xp._"))
    floors = max(floor[m] for m in graph if m.startswith("skerry.xp")) - least + 1
    print(f"modules: {len(graph)} of Python, {floors} floors in skerry.xp, {len(found)} circles")
    return [
        "python: a circle of imports: "
        + " -> ".join(f"{a} (line {graph[a][b]})" for a, b in zip(way, way[1:])) + f" -> {way[-1]}"
        for way in found
    ]  # fmt: skip


def main():
    includes = Includes()
    problems, used, checked = against_floors() + python_circles(), set(), 0
    for path in sorted(
        p
        for top in ("include", "src", "array", "python", "compat", "lab", "examples", "launcher")
        for p in (ROOT / top).rglob("*")
        if p.suffix in SOURCE and p.is_file()
    ):
        room = room_of(path)
        if room is None or is_test(path):
            continue
        checked += 1
        allowed, pure = ROOMS[room]
        name = path.relative_to(ROOT)
        reached = includes.reached(path)
        for file, by in sorted(reached.items()):
            other = room_of(file)
            if other is None or other == room or other in allowed:
                continue
            if (room, other) in DEVIATIONS:
                used.add((room, other))
                continue
            # What another room's file brings along is that room's business, and checked there.
            if room_of(by) != room and may_bring(room_of(by), other):
                continue
            problems.append(
                f"{name}: {room} may not include {other}: {file.relative_to(ROOT)}"
                + ("" if by == path else f" (through {by.relative_to(ROOT)})")
            )
        if pure:
            for file in [path, *reached]:
                for header in includes.direct(file)[1]:
                    if IMPURE.match(header):
                        problems.append(
                            f"{name}: {room} is pure and may not include <{header}>"
                            + ("" if file == path else f" (through {file.relative_to(ROOT)})")
                        )
    for pair in sorted(set(DEVIATIONS) - used):
        if any((ROOT / room).is_dir() is False for room in pair):
            continue
        problems.append(
            f"tools/check_includes.py: the deviation {pair[0]} -> {pair[1]} is not needed any more: remove it"
        )
    for problem in problems:
        print(problem)
    print(
        f"includes: {checked} files, {len(problems)} against the room table, {len(used)} deviations with a reason"
    )
    return 1 if problems else 0


def may_bring(room, other):
    """May `room` bring `other` along into those who include it? Yes if its own row names it."""
    return room == other or other in ROOMS[room][0] or (room, other) in DEVIATIONS


if __name__ == "__main__":
    sys.exit(main())
