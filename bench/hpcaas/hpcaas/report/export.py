"""The same data for other programs: CSV, one line per sample; JSON is the result set itself plus the advice."""

from __future__ import annotations

import csv
import io
import json

from ..answers.advise import advise, as_dict
from ..answers.costs import Pricing
from ..answers.groups import ORDER, axis_value
from ..model import ResultSet

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
    "flags",
    "diagnosis",
    "source",
)


def to_csv(results: ResultSet) -> str:
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
            "; ".join(s.flags),
            s.diagnosis,
            s.source,
        ]
        writer.writerow(["" if v is None else v for v in values])
    return out.getvalue()


def to_json(results: ResultSet, pricing: Pricing) -> str:
    return json.dumps(
        {
            "results": json.loads(results.model_dump_json(by_alias=True, exclude_none=True)),
            "advice": as_dict(advise(results, pricing)),
        },
        indent=1,
    )
