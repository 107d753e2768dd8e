"""From samples to rows, the table and out/bench.json."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

from . import machine
from .rows import Row

Samples = dict[tuple[str, str], list[float]]


def _of(samples: Samples, key: tuple[str, str] | None, factor: float) -> list[float]:
    return [value * factor for value in samples.get(key, [])] if key else []


def to_records(rows: list[Row], samples: Samples, peers: dict[str, Samples]) -> list[dict]:
    """Values and limits are medians over the rounds; the ratio is the median of each round's own ratio, as both met the same load there."""
    records = []
    for row in rows:
        values, limits = (
            _of(samples, row.source, row.factor),
            _of(samples, row.limit, row.limit_factor),
        )
        value = statistics.median(values) if values else None
        limit = statistics.median(limits) if limits else None
        paired = [a / b for a, b in zip(values, limits) if b]
        ratio = statistics.median(paired) if paired else math.nan
        # The best round of each peer: most of them poll, and lose whole time slices when the
        # machine does something else.
        best = min if row.unit in ("ns", "us", "ms") else max
        beside = {
            name: best(_of(found, (row.peer_scenario, row.peers), row.factor))
            for name, found in peers.items()
            if row.peers and found.get((row.peer_scenario, row.peers))
        }
        if value is None and limit is None and not beside:
            continue
        records.append(
            {
                "name": row.name,
                "value": value,
                "unit": row.unit,
                "limit": limit,
                "limit_name": row.limit_name,
                "ratio": None if math.isnan(ratio) else ratio,
                "peers": beside,
                "target": row.target,
                "met": None if value is None else row.met(value, ratio),
                "rounds": len(values),
            }
        )
    return records


def _number(value: float | str | None) -> str:
    """Words in place of a figure stay as they are."""
    if isinstance(value, (str, bool)):
        return str(value)
    return "" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def table(records: list[dict]) -> str:
    peer_names = sorted({name for record in records for name in record["peers"]})
    head = ["row", "value", "unit", "limit", "ratio", "target", "met", "limit is", *peer_names]
    lines = [head]
    for r in records:
        met = {True: "yes", False: "NO", None: ""}[r["met"]]
        lines.append(
            [
                r["name"],
                _number(r["value"]),
                r["unit"],
                _number(r["limit"]),
                _number(r["ratio"]),
                str(r["target"]),
                met,
                r["limit_name"],
                *[_number(r["peers"].get(name)) for name in peer_names],
            ]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    right = {1, 3, 4, *range(8, len(head))}
    text = [
        (
            "  ".join(
                c.rjust(w) if i in right else c.ljust(w)
                for i, (c, w) in enumerate(zip(line, widths))
            )
        ).rstrip()
        for line in lines
    ]
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text)


def targets_met(records: list[dict]) -> str:
    judged = [record for record in records if record["met"] is not None]
    return f"{sum(record['met'] for record in judged)} of {len(judged)} targets met"


def save(path: Path, records: list[dict], machine: dict, notes: list[str], **facts) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    described = {"machine": machine, "notes": notes, **facts, "rows": records}
    path.write_text(json.dumps(described, indent=1) + "\n")


# What a record may lack.
BLANK = {"value": None, "unit": "", "limit": None, "ratio": None, "limit_name": ""}
BLANK |= {"peers": {}, "target": "", "met": None}


def publish(
    path: Path, records: list[dict], notes: list[str], columns: tuple[str, ...] = (), **facts
) -> None:
    """Writes records, each with a name and a value at least, beside what machine they are of, and
    prints them as a table. columns: what else it shows of each."""
    where = {**machine.describe(), "load": round(machine.load(), 2)}
    save(path, records, where, notes, **facts)
    shown = []
    for record in records:
        known = {name: value for name, value in record.items() if value is not None}
        more = {name: record[name] for name in columns if name in record}
        shown.append({**BLANK, **known, **({"peers": more} if columns else {})})
    print(table(shown))
    print(f"\n{targets_met(records)}; {path}")
