"""Tables like the paper's 2 to 8, from any data: rows and columns are axes, a cell is the best
median over the axes left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..answers.effects import best_of
from ..answers.groups import Group, by_machine, choosing, varying


@dataclass
class Cell:
    group: Optional[Group]  # None: not run
    text: str
    best: bool = False
    title: str = ""


@dataclass
class Pivot:
    title: str
    row_axes: tuple[str, ...]
    column_axes: tuple[str, ...]
    rows: list[tuple[str, ...]]
    columns: list[tuple[str, ...]]
    cells: list[list[Cell]]
    folded: list[str]  # axes over which the best was taken


# Which axes stand where in the paper's tables, and which of them must vary for the layout to say
# something.
LAYOUTS = (
    ("like Table 2: processor, workers and SMT", ("processor",), ("split", "smt"), ("processor",)),
    (
        "like Table 4: target and source variant",
        ("processor", "target"),
        ("variant",),
        ("target", "variant"),
    ),
    ("like Table 5: ranks x threads", ("processor", "split"), ("mpi",), ("split",)),
    (
        "like Table 6: nodes against MPI, fabric, framework and file system",
        ("nodes", "split"),
        ("filesystem", "interconnect", "mpi", "framework"),
        ("mpi", "interconnect", "framework", "filesystem"),
    ),
    (
        "like Table 7: binding and distribution",
        ("binding", "distribution"),
        ("nodes", "split"),
        ("binding", "distribution"),
    ),
    (
        "like Table 8: compiler and optimisation level",
        ("compiler",),
        ("optimisation", "target"),
        ("compiler", "optimisation"),
    ),
)


def _key(group: Group, axes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("-" if group.axis(a) is None else str(group.axis(a)) for a in axes)


def _sorted(keys: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Numbers by value, words in the order of appearance."""
    order = {key: i for i, key in enumerate(dict.fromkeys(keys))}

    def rank(key: tuple[str, ...]) -> tuple[object, ...]:
        parts: list[object] = []
        for part in key:
            numbers = part.split("x")
            parts.append(
                (0, tuple(float(n) for n in numbers))
                if all(n.replace(".", "").isdigit() for n in numbers)
                else (1, ())
            )
        return (*parts, order[key])

    return sorted(order, key=rank)  # type: ignore[arg-type]


def _cell(here: list[Group], least: float) -> Cell:
    """The best of the groups that fall into one cell, or why there is none."""
    group = best_of(here)
    if group is None or group.summary is None:
        if not here or not here[0].trouble:
            return Cell(None, "")
        first = here[0]
        said = first.doubt or next((s.diagnosis or "" for s in first.samples), "")
        return Cell(first, first.trouble, False, said)
    width, spread = group.summary.half_width, ""
    if width is not None:
        spread = f" ±{width:.0%}" if width < 1 else " ± more than itself"
    return Cell(
        group,
        f"{group.seconds:.4g} s{spread}",
        group.seconds == least,
        f"{group.machine} {group.label}; {group.summary.n} samples {group.sources}",
    )


def _is_choice(some: list[Group], axis: str) -> bool:
    """Whether an axis varies within a machine: a target that follows from the processor is no
    choice of its own."""
    return axis == "processor" or any(
        len({str(g.axis(axis)) for g in mine}) > 1 for mine in by_machine(some).values()
    )


def make(
    some: list[Group],
    title: str,
    row_axes: tuple[str, ...],
    column_axes: tuple[str, ...],
    key: tuple[str, ...] = (),
) -> Optional[Pivot]:
    some = choosing(some, set(row_axes + column_axes) & set(varying(some)))
    vary = varying(some)
    if len(some) < 2 or (key and not any(_is_choice(some, a) for a in key if a in vary)):
        return None
    rows_used = tuple(a for a in row_axes if a in vary) or row_axes[:1]
    columns_used = tuple(a for a in column_axes if a in vary)
    return _pivot(some, title, rows_used, columns_used)


def _pivot(
    some: list[Group], title: str, row_axes: tuple[str, ...], column_axes: tuple[str, ...]
) -> Pivot:
    places: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Group]] = {}
    for g in some:
        places.setdefault((_key(g, row_axes), _key(g, column_axes)), []).append(g)
    rows, columns = _sorted([row for row, _ in places]), _sorted([column for _, column in places])
    best = best_of(some)
    least = best.seconds or 0.0 if best else 0.0
    cells = [[_cell(places.get((r, c), []), least) for c in columns] for r in rows]
    folded = [a for a in varying(some) if a not in row_axes + column_axes]
    return Pivot(title, row_axes, column_axes, rows, columns, cells, folded)


def pivots(some: list[Group]) -> list[Pivot]:
    found = []
    seen: set[tuple[str, ...]] = set()
    vary = varying(some)
    for title, rows, columns, key in LAYOUTS:
        if "Table 5" in title and not any(g.config.ranks > 1 for g in some):
            continue  # threads alone are Table 2's subject
        pivot = make(some, title, rows, columns, key)
        if pivot and (axes := tuple(sorted(pivot.row_axes + pivot.column_axes))) not in seen:
            seen.add(axes)
            found.append(pivot)
    if not found and vary:
        half = max(1, len(vary) // 2)
        pivot = make(some, "all choices", tuple(vary[:half]), tuple(vary[half:]))
        found += [pivot] if pivot else []
    return found
