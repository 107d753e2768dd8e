"""Whether runs are done in time: what was measured, what that shows, what interruptions take."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from ..errors import BadInput
from ..spot import share_within
from ..stats import runs_needed, share_bound
from .costs import Pricing
from .groups import Group


@dataclass(frozen=True)
class Deadline:
    """A configuration meets it if this share of all its runs is done in time."""

    seconds: float
    share: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise BadInput(f"the deadline is {self.seconds} s", "give seconds above 0")
        if not 0 < self.share < 1:
            raise BadInput(
                f"--deadline-share is {self.share}",
                "give a share of the runs below 1, for instance 0.95: no number of runs shows that"
                " all are in time",
            )

    def __str__(self) -> str:
        return f"{self.seconds:g} s in {self.share:.0%} of the runs"


@dataclass(frozen=True, order=True)
class InTime:
    """What the runs of one configuration say of a deadline."""

    measured: float  # share of the runs, interruptions counted
    shown: float  # the share that so many runs show, with 95 % confidence
    good: int
    runs: int
    stays: float = 1.0  # chance that a run in time is so although its nodes may be taken away

    @property
    def uninterrupted(self) -> float:
        """The share that so many runs show where nodes are not taken away."""
        return share_bound(self.good, self.runs)

    def words(self, deadline: Deadline) -> list[str]:
        lines = [
            f"{self.good} of {self.runs} measured runs were done in {deadline.seconds:g} s: that"
            f" shows it of {self.uninterrupted:.0%} of all runs (95 % confidence)"
        ]
        if self.stays < 1.0:
            lines.append(
                f"nodes may be taken away: of runs that would be in time {self.stays:.0%} are;"
                f" together {self.shown:.0%} is shown"
            )
        if self.shown < deadline.share and self.measured >= deadline.share:
            least = runs_needed(deadline.share)
            if self.stays == 1.0 and self.good == self.runs:
                lines.append(f"{least} runs, all in time, would show {deadline.share:.0%}")
            else:
                lines.append(
                    f"more runs would show more: {deadline.share:.0%} takes {least} or more"
                )
        return lines


def in_time(group: Group, deadline: Deadline, pricing: Pricing) -> InTime:
    good = [wall for wall in group.walls if wall <= deadline.seconds]
    runs, stays = len(group.walls), 1.0
    run = [pricing.run(group.machine, w, group.config.nodes) for w in good]
    if any(r.rate for r in run):
        stays = statistics.fmean(share_within(r, deadline.seconds) for r in run)
    # Published values are single numbers, taken at their word.
    bound = share_bound(len(good), runs) if not group.published else len(good) / max(1, runs)
    return InTime(len(good) / max(1, runs) * stays, bound * stays, len(good), runs, stays)
