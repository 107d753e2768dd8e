"""Budgeted search: spends a given time where it matters.

Logarithms of times are modelled as a sum of effects, one per value of each axis (what the paper's
tables look like). The model is a Bayesian ridge regression; each step draws one set of effects from
its posterior and runs the configuration that looks best under it (Thompson sampling), so that
likely winners are measured often and hopeless ones once or never.
"""

from __future__ import annotations

import math
from typing import Optional

import numpy as np

from .model import Sample
from .plan import Plan, Planned


class Searcher:
    def __init__(self, plan: Plan, seed: int = 1, prior: float = 0.3, noise: float = 0.05):
        self.runs = plan.runs
        self.most = plan.repeats
        self.random = np.random.default_rng(seed)
        # standard deviations, in logarithms: an effect of 30 %, a spread of 5 %
        self.prior, self.noise = prior, noise
        names = sorted(
            {
                (p.config.app, axis, str(value))
                for p in self.runs
                for axis, value in p.config.chosen().items()
            }
        )
        self.columns = {name: i for i, name in enumerate(names)}
        self.matrix = np.zeros(
            (len(self.runs), len(names) + len({p.config.app for p in self.runs}))
        )
        apps = sorted({p.config.app for p in self.runs})
        for row, planned in enumerate(self.runs):
            for axis, value in planned.config.chosen().items():
                self.matrix[row, self.columns[(planned.config.app, axis, str(value))]] = 1.0
            self.matrix[row, len(names) + apps.index(planned.config.app)] = 1.0
        self.turn = 0

    def _posterior(self, ran: list[list[Sample]]) -> np.ndarray:
        """One draw of all effects, given what every row ran. Intercepts get a wide prior: they
        carry the size of the problem."""
        times = [(row, s.seconds) for row, of in enumerate(ran) for s in of if s.ok and s.seconds]
        rows, logs = [row for row, _ in times], [math.log(seconds) for _, seconds in times]
        k = self.matrix.shape[1]
        wide = np.full(k, 1.0 / self.prior**2)
        wide[len(self.columns) :] = 1e-4
        x, y = self.matrix[rows], np.asarray(logs)
        precision = np.diag(wide) + x.T @ x / self.noise**2
        mean = np.linalg.solve(precision, x.T @ y / self.noise**2)
        lower = np.linalg.cholesky(precision)
        return mean + np.linalg.solve(lower.T, self.random.standard_normal(k))

    def _mine(self, ran: list[list[Sample]], left_s: float) -> list[int]:
        """Rows that may run next. Applications take turns: the effects of one say nothing about
        another."""
        fits = [
            row
            for row, planned in enumerate(self.runs)
            if planned.estimate_s < left_s
            and len(ran[row]) < self.most
            and all(s.ok for s in ran[row])
        ]
        apps = sorted({self.runs[row].config.app for row in fits})
        self.turn += bool(fits)
        return [r for r in fits if self.runs[r].config.app == apps[self.turn % len(apps)]]

    def next(self, samples: dict[str, list[Sample]], left_s: float) -> Optional[Planned]:
        """The configuration to run next; None when nothing that fits into the time left is worth
        it."""
        ran = [samples.get(planned.config.key(), []) for planned in self.runs]
        mine = self._mine(ran, left_s)
        if not mine:
            return None
        unseen = [row for row in mine if not ran[row]]
        # Before anything is known: a first handful at random, spread over the axes.
        if unseen and len(mine) - len(unseen) < 2:
            return self.runs[int(self.random.choice(unseen))]
        predicted = self.matrix[mine] @ self._posterior(ran)
        return self.runs[mine[int(np.argmin(predicted))]]
