"""Whether a machine changed while it was measured, and of what hours and days the runs are."""

from __future__ import annotations

import calendar
import math
from datetime import datetime
from functools import lru_cache

import numpy as np
from scipy import stats

from ..stats import LEVEL, holm
from .groups import Groups

# A change below this from the first to the last run is not worth a line.
WORTH = 0.02
LEAST = 8  # runs that a trend is looked for in
MOST = 400  # of more runs, so many: the line is through all pairs


@lru_cache(maxsize=2)  # asked for by the advice and by the page
def _series(groups: Groups) -> dict[str, list[tuple[datetime, float]]]:
    """Instance -> (start, logarithm of the time over the mean of its configuration there)."""
    found: dict[str, list[tuple[datetime, float]]] = {}
    for group in groups:
        for instance, some in group.on.items():
            dated = [(s.started, s.seconds) for s in some if s.started and s.seconds]
            centre = np.mean([math.log(t) for _, t in dated]) if dated else 0.0
            found.setdefault(instance, []).extend(
                (datetime.fromisoformat(at), math.log(t) - float(centre)) for at, t in dated
            )
    return found


def _names(groups: Groups) -> dict[str, str]:
    return {identity: machine for machine, identity in groups.instances.items()}


def drifts(groups: Groups) -> list[str]:
    """One line for each instance whose runs became slower or faster while it was measured, by
    Theil and Sen's line and Kendall's test. Rounds in random order spread it over all choices
    alike."""
    names, found = _names(groups), []
    for instance, series in _series(groups).items():
        series.sort()
        if len(series) < LEAST:
            continue
        series = series[:: -(-len(series) // MOST)]
        hours = np.array([(at - series[0][0]).total_seconds() / 3600.0 for at, _ in series])
        logs = np.array([value for _, value in series])
        if hours[-1] <= 0.0:
            continue
        change = math.expm1(float(stats.theilslopes(logs, hours)[0]) * float(hours[-1]))
        p = float(stats.kendalltau(hours, logs).pvalue)
        found.append((names[instance], change, float(hours[-1]), p))
    kept = holm([p for *_, p in found], LEVEL)
    return [
        f"{machine}: drift: its runs became {abs(change):.0%}"
        f" {'slower' if change > 0 else 'faster'} over {hours:.2g} hours; rounds in"
        " random order spread it over all choices alike"
        for (machine, change, hours, _), drifted in zip(found, kept)
        if drifted and abs(change) >= WORTH
    ]


def when(groups: Groups) -> list[str]:
    """Of which hours and days each instance's runs are: other hours are not known."""
    names, lines = _names(groups), []
    for instance, series in _series(groups).items():
        if not series:
            continue
        times = sorted(at for at, _ in series)
        days = [calendar.day_abbr[day] for day in dict.fromkeys(t.weekday() for t in times)]
        hours = sorted({t.hour for t in times})
        lines.append(
            f"{names[instance]}: runs on {', '.join(days)}, in {len(hours)} of the 24 hours of the"
            f" day ({', '.join(map(str, hours[:8]))}{', ...' if len(hours) > 8 else ''} h UTC)"
        )
    return lines
