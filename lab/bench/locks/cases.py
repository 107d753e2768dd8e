"""What is run, which rows come of it, and what is asked of Skerry in each.

Figures are those of G. Santhanaraman et al., "Natively Supporting True One-sided Communication in
MPI on Multi-core Systems with InfiniBand" (CCGrid 2009), section 5.
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import Callable

OURS = "skerry"
SPANS_MS = (0, 1, 2, 5, 10)
SPANS_US = (0, 200, 1000, 2000)
SHARES = (0, 1, 10, 50)
CONTENDERS = (2, 4, 8, 16, 32)
NEIGHBOURS = (2, 4, 8, 16)
READERS = (1, 2, 4)
TASKS = (1, 2, 4)  # ranks on each of the four hosts


class Samples:
    """(case, row, library) -> round -> value, as the program printed it."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str, str], dict[int, float]] = {}

    def add(self, case: str, row: str, library: str, turn: int, value: float) -> None:
        self.values.setdefault((case, row, library), {})[turn] = value

    def of(self, case: str, row: str, library: str = OURS) -> dict[int, float]:
        return self.values.get((case, row, library), {})


@dataclasses.dataclass(frozen=True)
class Case:
    """One run of the program.

    ranks: on each host, the first hosts of the testbed; one number: this machine.
    family: of cases that grow. A peer that failed in one is spared the larger ones.
    patience: how many times the usual limit a peer gets.
    environment: variables of Skerry's jobs.
    """

    name: str
    words: tuple[str, ...]
    ranks: tuple[int, ...]
    pinned: bool = False
    family: str = ""
    patience: int = 1
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def on_hosts(self) -> bool:
        return len(self.ranks) > 1


@dataclasses.dataclass(frozen=True)
class Mark:
    """What a figure is compared with.

    of(samples, peers): the mark by round. It is met if figure / mark, the median over the rounds,
    is `sense` ("<=" or ">=") `bound`.
    """

    name: str
    of: Callable[[Samples, list[str]], dict[int, float]]
    sense: str = "<="
    bound: float = 1.0

    @property
    def text(self) -> str:
        times = "" if self.bound == 1 else f"{self.bound:g} x "
        return f"{self.sense} {times}{self.name}"


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    figure: of the paper. raw: the program's row; figure = raw x factor, in `unit`.
    most: an absolute bound, in `unit`. All marks must be met; the first is shown as the limit.
    """

    name: str
    figure: str
    case: str
    raw: str
    unit: str
    factor: float = 1.0
    most: float | None = None
    marks: tuple[Mark, ...] = ()

    @property
    def target(self) -> str:
        absolute = [] if self.most is None else [f"<= {self.most:g} {self.unit}"]
        return "; ".join(absolute + [mark.text for mark in self.marks])


# ---- marks ---------------------------------------------------------------------------------------


def best_peer(case: str, raw: str) -> Mark:
    """The best round of the best peer."""

    def of(samples: Samples, peers: list[str]) -> dict[int, float]:
        found = [v for peer in peers for v in samples.of(case, raw, peer).values()]
        return {turn: min(found) for turn in samples.of(case, raw)} if found else {}

    return Mark("the best peer's best", of)


def library(name: str, shown: str, case: str, raw: str) -> Mark:
    return Mark(shown, lambda samples, _: samples.of(case, raw, name), ">=")


def other_row(name: str, case: str, raw: str, sense: str, bound: float, times: float = 1) -> Mark:
    def of(samples: Samples, _: list[str]) -> dict[int, float]:
        return {turn: value * times for turn, value in samples.of(case, raw).items()}

    return Mark(name, of, sense, bound)


def overlapped(case: str, span_us: int) -> Mark:
    """1.1 times the computing, and one hop: half of what a lap of two takes without computing.

    That of the best round, as a disturbed one would excuse everything.
    """

    def of(samples: Samples, _: list[str]) -> dict[int, float]:
        laps = samples.of(case, "span_0_us")
        return {turn: 1.1 * span_us * 1e3 + min(laps.values()) / 2 for turn in laps}

    return Mark("1.1 x computing + a hop", of)


# ---- cases and rows, by figure -------------------------------------------------------------------


def _lock(cores: int) -> tuple[list[Case], list[Row]]:
    cases, rows = [], []
    moved = (("SKERRY_MOVE_GIVEN", "1"),)
    for kind, most, environment in (
        ("allocated", 60, ()),
        ("created", 200, ()),
        ("pages", 200, moved),
    ):
        name = f"same_node.{kind}"
        words = ("idle", "--kind", kind)
        cases.append(Case(name, words, (2,), pinned=True, environment=environment))
        for mode in ("exclusive", "shared"):
            rows.append(Row(f"{name}.lock.{mode}", "6", name, f"lock.{mode}", "ns"))
            raw = f"lock_put.{mode}"
            marks = (best_peer(name, raw),) if kind == "allocated" else ()
            rows.append(Row(f"{name}.{raw}", "6", name, raw, "ns", most=most, marks=marks))
    return cases, rows


def _computing(cores: int) -> tuple[list[Case], list[Row]]:
    cases, rows = [], []
    for place, ranks in (("same_node", (2,)), ("hosts", (1, 1))):
        for kind in ("allocated", "created"):
            name = f"computing.{place}.{kind}"
            cases.append(Case(name, ("computing", "--kind", kind), ranks, pinned=True))
            for span in SPANS_MS:
                raw = f"span_{span}_ms"
                if place == "hosts":
                    tcp = "tcp_busy.two_cores" if span else "tcp.two_cores"
                    mark = other_row("raw TCP", tcp, "pingpong", "<=", 1.5, times=1e3)
                else:
                    mark = other_row("an idle target's", name, "span_0_ms", "<=", 2)
                marks = (mark,) if place == "hosts" or span else ()
                rows.append(Row(f"{name}.{raw}", "7", name, raw, "us", 1e-3, marks=marks))
    return cases, rows


def _neighbours(cores: int) -> tuple[list[Case], list[Row]]:
    cases, rows = [], []
    for ranks in NEIGHBOURS:
        name = f"neighbours.{ranks}"
        cases.append(Case(name, ("neighbours",), (ranks,), family="neighbours"))
        rows.append(Row(name, "8", name, "latency", "us", 1e-3))
    return cases, rows


def _contended(cores: int) -> tuple[list[Case], list[Row]]:
    cases, rows = [], []
    for ranks in CONTENDERS:
        name = f"contended.{ranks}"
        cases.append(Case(name, ("contended",), (ranks,), family="contended"))
        marks = (
            library("openmpi5", "OpenMPI 5", name, "throughput"),
            library("two_sided", "two-sided", name, "throughput"),
        )
        rows.append(Row(f"{name}.throughput", "9", name, "throughput", "k/s", 1e3, marks=marks))
        rows.append(Row(f"{name}.fairness", "9", name, "fairness", "times", most=2))
        rows.append(Row(f"{name}.longest", "9", name, "longest", "ms", 1e-6))
    return cases, rows


def _ring(cores: int) -> tuple[list[Case], list[Row]]:
    name, rows = "ring", []
    for span in SPANS_US:
        marks = (overlapped(name, span),) if span else ()
        raw = f"span_{span}_us"
        rows.append(Row(f"{name}.{raw}", "10", name, raw, "us", 1e-3, marks=marks))
    return [Case(name, ("ring",), (1, 1), pinned=True)], rows


def _migration(cores: int) -> tuple[list[Case], list[Row]]:
    name, rows = "migration", []
    for share in SHARES:
        raw = f"local.share_{share}"
        most = 150 if share == 1 else None
        rows.append(Row(f"{name}.{raw}", "11", name, raw, "ns", most=most))
    for share in SHARES[1:]:
        raw = f"remote.share_{share}"
        rows.append(Row(f"{name}.{raw}", "11", name, raw, "us", 1e-3))
    return [Case(name, ("migration",), (2, 1))], rows


def _tasks(cores: int) -> tuple[list[Case], list[Row]]:
    cases, rows = [], []
    for each in TASKS:
        name = f"tasks.{4 * each}"
        cases.append(Case(name, ("tasks",), (each,) * 4, family="tasks", patience=3))
        rows.append(Row(name, "12", name, "total", "ms", 1e-6))
    return cases, rows


def _readers(cores: int) -> tuple[list[Case], list[Row]]:
    cases, rows = [], []
    for readers in READERS:
        name = f"readers.{readers}"
        cases.append(Case(name, ("readers",), (readers + 1,), family="readers"))
        at_once = min(readers, cores)
        shown = f"{at_once} x one reader"
        mark = other_row(shown, "readers.1", "throughput", ">=", 0.8, times=at_once)
        marks = (mark,) if readers > 1 else ()
        rows.append(Row(f"{name}", "shared", name, "throughput", "M/s", marks=marks))
    return cases, rows


def everything(cores: int) -> tuple[list[Case], list[Row]]:
    parts = [
        part(cores)
        for part in (
            _lock, _computing, _neighbours, _contended, _ring, _migration, _tasks, _readers,
        )
    ]  # fmt: skip
    return [c for cases, _ in parts for c in cases], [r for _, rows in parts for r in rows]


# ---- judging -------------------------------------------------------------------------------------


def _ratio(values: dict[int, float], mark: dict[int, float]) -> float | None:
    found = [value / mark[turn] for turn, value in values.items() if mark.get(turn)]
    return statistics.median(found) if found else None


def _middle(values: dict[int, float], factor: float) -> float | None:
    return statistics.median(values.values()) * factor if values else None


def _met(row: Row, values: dict[int, float], ratios: list[float | None]) -> bool | None:
    """None if there is nothing to judge: no target, no figure, or no mark."""
    holds = []
    if row.most is not None and values:
        holds.append(_middle(values, row.factor) <= row.most)
    for mark, ratio in zip(row.marks, ratios):
        if ratio is not None:
            holds.append(ratio <= mark.bound if mark.sense == "<=" else ratio >= mark.bound)
    return all(holds) if holds else None


def judge(
    row: Row,
    samples: Samples,
    protocols: list[str],
    peers: list[str],
    said: dict[tuple[str, str], str],
) -> dict:
    """The record of one row. `said`: (case, library) -> why there is no figure."""
    values = samples.of(row.case, row.raw)
    marks = [mark.of(samples, peers) for mark in row.marks]
    ratios = [_ratio(values, mark) for mark in marks]
    met = _met(row, values, ratios)
    names = [OURS, *protocols, *peers]
    missing = {name: said[row.case, name] for name in names if (row.case, name) in said}
    if row.target and not values and OURS in missing and not missing[OURS].startswith("not built"):
        met = False  # it ran and failed
    return {
        "name": row.name,
        "figure": row.figure,
        "value": _middle(values, row.factor),
        "unit": row.unit,
        "limit": _middle(marks[0], row.factor) if marks else None,
        "limit_name": row.marks[0].name if marks else "",
        "ratio": ratios[0] if ratios else None,
        "protocols": {n: _middle(samples.of(row.case, row.raw, n), row.factor) for n in protocols},
        "peers": {n: _middle(samples.of(row.case, row.raw, n), row.factor) for n in peers},
        "spread": {
            n: [min(v.values()) * row.factor, max(v.values()) * row.factor]
            for n in names
            if (v := samples.of(row.case, row.raw, n))
        },
        "missing": missing,
        "target": row.target,
        "met": met,
        "rounds": len(values),
    }
