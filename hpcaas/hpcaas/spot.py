"""Runs on nodes that may be taken away: how long one takes and what it costs, as expectations and
as distributions.

Interruptions come at random, each node `per_hour` times an hour (a Poisson process); one of any
node stops the run. It goes on from its last checkpoint, or begins again, after `restart_s` on new
nodes. While it waits and reads back nothing is interrupted. A run of `seconds` of work is cut into
equal pieces; a checkpoint is written after each but the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Optional

import numpy as np
from scipy import optimize

from .errors import BadInput

# Runs that a distribution is drawn from: the error of a share is 0.35 % at most.
DRAWN = 20_000
# A run that is stopped so often on average before a piece is done never ends in practice.
HOPELESS = 50.0
# Interruptions of a node an hour, beyond which no break-even is looked for.
MOST_PER_HOUR = 1000.0


@dataclass(frozen=True)
class Loss:
    """What an interruption takes from a run."""

    every_s: Optional[float] = None  # of work between two checkpoints; None: the run begins again
    write_s: float = 0.0  # to write a checkpoint
    resume_s: float = 0.0  # to read it back
    restart_s: float = 300.0  # until new nodes are there
    source: str = ""  # of the times to write, read back and restart

    def __post_init__(self) -> None:
        for name in ("every_s", "write_s", "resume_s", "restart_s"):
            given = getattr(self, name)
            if given is not None and not 0 <= given < math.inf:
                raise BadInput(f"{name.replace('_s', '')} is {given} s", "give seconds, 0 or more")
        if self.every_s == 0:
            raise BadInput("there are 0 s between two checkpoints", "give seconds above 0")

    def words(self) -> str:
        if self.every_s is None:
            return f"an interrupted run begins again after {self.restart_s:g} s"
        costs = f"{self.write_s:g} s to write, {self.resume_s:g} s to read back"
        return (
            f"an interrupted run goes on from a checkpoint, one every {self.every_s:g} s of work"
            f" ({costs}{'; ' + self.source if self.source else ''}), after {self.restart_s:g} s"
        )


@dataclass(frozen=True)
class Run:
    """One run on spot. `rate`: interruptions of any of its nodes, a second."""

    seconds: float
    rate: float
    loss: Loss = Loss()

    @property
    def pieces(self) -> int:
        return (
            max(1, math.ceil(self.seconds / self.loss.every_s - 1e-9)) if self.loss.every_s else 1
        )

    @property
    def lengths(self) -> np.ndarray:
        """Of the pieces, each with its checkpoint."""
        found = np.full(self.pieces, self.seconds / self.pieces + self.loss.write_s)
        found[-1] -= self.loss.write_s
        return found

    @property
    def again_s(self) -> np.ndarray:
        """From an interruption until the work goes on, by piece. The first has nothing to read."""
        found = np.full(self.pieces, self.loss.restart_s + self.loss.resume_s)
        found[0] = self.loss.restart_s
        return found

    def expected_s(self) -> float:
        """Until it is done: of each piece (e^(rate x length) - 1) x (1 / rate + again)."""
        lengths = self.lengths
        if self.rate == 0.0:
            return float(lengths.sum())
        if self.rate * lengths.max() > HOPELESS:
            raise BadInput(
                f"a run of {self.seconds:.4g} s hardly ever ends at {self.rate * 3600:g}"
                " interruptions an hour",
                "choose another term, or give --checkpoint-s",
            )
        return float(np.sum(np.expm1(self.rate * lengths) * (1.0 / self.rate + self.again_s)))

    def drawn(self, seed: int = 1) -> np.ndarray:
        """Times of many such runs, sorted."""
        rng, total = np.random.default_rng(seed), np.full(DRAWN, self.lengths.sum())
        if self.rate == 0.0:
            return total
        for piece, (length, again) in enumerate(zip(self.lengths, self.again_s)):
            if piece > 1 and self.pieces > 3:  # all but the first and the last are alike
                break
            alike = self.pieces - 2 if piece == 1 and self.pieces > 3 else 1
            total += self._lost(rng, float(length), float(again), alike)
        if self.pieces > 3:
            total += self._lost(rng, float(self.lengths[-1]), float(self.again_s[-1]), 1)
        return np.sort(total)

    def _lost(
        self, rng: np.random.Generator, length: float, again: float, alike: int
    ) -> np.ndarray:
        """What interruptions of so many equal pieces add to each drawn run."""
        stops = rng.negative_binomial(alike, math.exp(-self.rate * length), DRAWN)
        # Each stopped after a time of work that is exponential, and shorter than the piece.
        spent = -np.log1p(rng.random(int(stops.sum())) * np.expm1(-self.rate * length)) / self.rate
        owner = np.repeat(np.arange(DRAWN), stops)
        return stops * again + np.bincount(owner, weights=spent, minlength=DRAWN)

    def then_on_demand_s(self) -> tuple[float, float]:
        """Expected seconds on spot until the first interruption or the end, and then on demand."""
        ends = np.cumsum(self.lengths)
        if self.rate == 0.0:
            return float(ends[-1]), 0.0
        begins = np.concatenate([[0.0], ends[:-1]])
        stopped = np.exp(-self.rate * begins) - np.exp(-self.rate * ends)
        left = self.seconds * (1.0 - np.arange(self.pieces) / self.pieces)
        spot = -math.expm1(-self.rate * float(ends[-1])) / self.rate
        return spot, float(np.sum(stopped * (self.again_s + left)))

    def drawn_then_on_demand(self, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Of many such runs: seconds on spot, seconds on demand."""
        ends = np.cumsum(self.lengths)
        if self.rate == 0.0:
            return np.full(DRAWN, ends[-1]), np.zeros(DRAWN)
        first = np.random.default_rng(seed).exponential(1.0 / self.rate, DRAWN)
        piece = np.minimum(np.searchsorted(ends, first, side="right"), self.pieces - 1)
        left = self.again_s[piece] + self.seconds * (1.0 - piece / self.pieces)
        done = first >= ends[-1]
        return np.where(done, ends[-1], first), np.where(done, 0.0, left)


@lru_cache(maxsize=4096)
def share_within(run: Run, deadline_s: float) -> float:
    """Share of such runs that are done by then."""
    if run.rate == 0.0:
        return float(run.lengths.sum() <= deadline_s)
    return float(np.searchsorted(run.drawn(), deadline_s, side="right")) / DRAWN


def loses_from(cost_at: Callable[[float], float], limit: float) -> Optional[float]:
    """Interruptions of a node an hour from which on spot costs more than `limit`; 0 where it always
    does, None where it never does within reason."""

    def over(per_hour: float) -> float:
        try:
            return math.log(cost_at(per_hour) / limit)
        except BadInput:
            return HOPELESS

    if over(0.0) >= 0.0:
        return 0.0
    if over(MOST_PER_HOUR) < 0.0:
        return None
    return float(optimize.brentq(over, 0.0, MOST_PER_HOUR, xtol=1e-6))
