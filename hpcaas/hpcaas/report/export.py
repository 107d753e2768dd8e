"""The same data for other programs: CSV, one line per sample, with its cost; JSON is the result set
itself plus the advice."""

from __future__ import annotations

import csv
import io
import json
from typing import Any, Optional

from ..answers.advise import advise, as_dict
from ..answers.costs import Pricing
from ..answers.deadline import Deadline
from ..answers.groups import ORDER, Trust, axis_value
from ..model import ResultSet, Sample

_COLUMNS = (
    "id",
    "app",
    "size",
    *ORDER,
    "status",
    "seconds",
    "wall_seconds",
    "cpu_seconds",
    "figure",
    "figure_unit",
    "figure_better",
    "load_before",
    "steal_fraction",
    "other_fraction",
    "waited_fraction",
    "frequency_mhz",
    "joules",
    "billed_seconds",
    "cost",
    "currency",
    "runs_per_rental",
    "provider",
    "shape",
    "region",
    "operating_system",
    "term",
    "price_date",
    "price_is_estimate",
    "flags",
    "diagnosis",
    "source",
)


def _money(sample: Sample, pricing: Pricing) -> list[Any]:
    """What this very run would have cost; empty cells without a price or a good end."""
    nodes = sample.configuration.nodes
    spent = pricing.of(sample.machine, sample.wall, nodes) if sample.wall else None
    if spent is None:
        return [None] * 11
    r = spent.row
    return [
        spent.billed_s,
        spent.amount,
        spent.currency,
        pricing.runs,
        r.provider,
        r.shape,
        r.region,
        r.operating_system,
        r.term.value,
        r.date,
        "yes" if spent.estimate else "no",
    ]


def to_csv(results: ResultSet, pricing: Pricing) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for s in results.samples:
        f = s.figure
        values = [
            s.id,
            s.configuration.app,
            s.configuration.size,
            *(axis_value(s.machine, s.configuration, a) for a in ORDER),
            s.status.value,
            s.seconds,
            s.wall_seconds,
            s.load.cpu_seconds,
            f.value if f else None,
            f.unit if f else None,
            f.better if f else None,
            s.load.load_before,
            s.load.steal_fraction,
            s.load.other_fraction,
            s.load.waited_fraction,
            s.load.frequency_mhz_after,
            s.energy.joules,
            *_money(s, pricing),
            "; ".join(s.flags),
            s.diagnosis,
            s.source,
        ]
        writer.writerow(["" if v is None else v for v in values])
    return out.getvalue()


def to_json(
    results: ResultSet,
    pricing: Pricing,
    deadline: Optional[Deadline] = None,
    mix: Optional[str] = None,
    trust: Trust = Trust(),
) -> str:
    advice = advise(results, pricing, deadline, mix, trust)
    return json.dumps(
        {
            "results": json.loads(results.model_dump_json(by_alias=True, exclude_none=True)),
            "advice": as_dict(advice),
        },
        indent=1,
    )
