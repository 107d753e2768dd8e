"""What is run, which rows come of it, and what is asked of a preloaded program in each."""

from __future__ import annotations

import dataclasses
import statistics

SMALL = ("lock_put", "put_flush", "fetch_and_op", "compare_and_swap")
OPERATIONS = (*SMALL, "vector_put", "put_1m")
STATES = ("idle", "computing")
KINDS = ("allocated", "created")
PLACES = {"same_node": (2,), "hosts": (1, 1)}
STOCK, OURS = "stock", "skerry"
RAW = ("tcp", "raw")  # the case and the library under which raw TCP's figures are kept


SPANS_US = (100, 500, 2000, 8000)  # what the examples compute at a time
EXAMPLES = {"halo": "us", "stealing": "ms"}


@dataclasses.dataclass(frozen=True)
class Case:
    """One run of a program. ranks: on each host, or on this machine if it is one number.

    example: of examples/mpi, whose line ends with the figure; empty: program/rows.cpp.
    """

    name: str
    words: tuple[str, ...]
    ranks: tuple[int, ...]
    pinned: bool = True
    timed: str = ""  # the row that the harness itself takes: the time of the whole run
    example: str = ""

    @property
    def on_hosts(self) -> bool:
        return len(self.ranks) > 1


@dataclasses.dataclass(frozen=True)
class Row:
    """figure = what the program printed as `raw` x factor, in `unit`.

    bound: x the stock library's in the same round; wake_up: x raw TCP's wake-up; own: x our own
    row of that name. 0 or empty: not asked.
    """

    name: str
    case: str
    raw: str
    unit: str = "us"
    factor: float = 1e-3
    bound: float = 0
    wake_up: float = 0
    own: tuple[str, float] | None = None


def everything() -> tuple[list[Case], list[Row]]:
    cases, rows = [], []
    for place, ranks in PLACES.items():
        for kind in KINDS:
            name = f"{place}.{kind}"
            cases.append(Case(name, ("ops", "--kind", kind), ranks))
            for state in STATES:
                rows += [_operation(name, place, operation, state) for operation in OPERATIONS]
    cases.append(Case("create", ("create",), (2,), pinned=False))
    rows.append(Row("same_node.create_free", "create", "create_free", bound=1.1))
    cases.append(Case("calls", ("calls",), (2,)))
    for raw in ("comm_rank", "ping_pong"):
        rows.append(Row(f"no_windows.{raw}", "calls", raw, "ns", 1, bound=1.1))
    cases.append(Case("start", ("none",), (2,), pinned=False, timed="start_end"))
    rows.append(Row("no_windows.start_end", "start", "start_end", "ms", 1e-6, bound=1.1))
    for example, unit in EXAMPLES.items():
        for span in SPANS_US:
            name = f"{example}.span_{span}_us"
            count = str(max(40, 200_000 // span))
            cases.append(Case(name, (count, str(span)), (1, 1), pinned=False, example=example))
            rows.append(Row(name, name, example, unit, 1, bound=1.1))
    return cases, rows


def _operation(case: str, place: str, operation: str, state: str) -> Row:
    name, raw = f"{case}.{operation}.{state}", f"{state}.{operation}"
    if state == "idle":
        return Row(name, case, raw, bound=1.1)
    if place == "same_node":
        return Row(name, case, raw, own=(f"idle.{operation}", 2))
    return Row(name, case, raw, wake_up=1.5 if operation in SMALL else 0)


class Samples:
    """(case, row, mpi, library) -> round -> value, as the program printed it."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str, str, str], dict[int, float]] = {}

    def add(self, case: str, row: str, mpi: str, library: str, turn: int, value: float) -> None:
        self.values.setdefault((case, row, mpi, library), {})[turn] = value

    def of(self, case: str, row: str, mpi: str, library: str = OURS) -> dict[int, float]:
        return self.values.get((case, row, mpi, library), {})


def _limit(row: Row, mpi: str, samples: Samples) -> tuple[str, float, dict[int, float]]:
    """What the row is compared with: its name, how many times it, and its figures by round."""
    if row.bound:
        return "stock", row.bound, samples.of(row.case, row.raw, mpi, STOCK)
    if row.wake_up:
        raw = samples.of(RAW[0], "pingpong", RAW[1])
        return "raw TCP wake-up", row.wake_up, {turn: us * 1e3 for turn, us in raw.items()}
    if row.own:
        return "an idle target's", row.own[1], samples.of(row.case, row.own[0], mpi)
    return "", 0, {}


def judge(row: Row, mpi: str, samples: Samples, said: dict) -> dict:
    """The record of one row and MPI. `said`: (case, mpi, library) -> why there is no figure."""
    values = samples.of(row.case, row.raw, mpi)
    stock = samples.of(row.case, row.raw, mpi, STOCK)
    name, bound, limits = _limit(row, mpi, samples)
    ratios = [value / limits[turn] for turn, value in values.items() if limits.get(turn)]
    ratio = statistics.median(ratios) if ratios else None
    met = ratio <= bound if ratio is not None else None
    why = {one: said[row.case, mpi, one] for one in (STOCK, OURS) if (row.case, mpi, one) in said}
    if bound and not values and OURS in why and not why[OURS].startswith("not "):
        met = False  # it ran and failed

    def middle(found: dict[int, float]) -> float | None:
        return statistics.median(found.values()) * row.factor if found else None

    return {
        "name": f"{mpi}.{row.name}",
        "value": middle(values),
        "unit": row.unit,
        "limit": middle(limits),
        "limit_name": name,
        "ratio": ratio,
        "peers": {STOCK: middle(stock)},
        "spread": {
            one: [min(found.values()) * row.factor, max(found.values()) * row.factor]
            for one, found in ((OURS, values), (STOCK, stock))
            if found
        },
        "missing": why,
        "target": f"<= {bound:g} x {name}" if bound else "",
        "met": met,
        "rounds": len(values),
    }
