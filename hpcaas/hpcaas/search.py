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

    def _posterior(self, rows: list[int], logs: list[float]) -> np.ndarray:
        """One draw of all effects. Intercepts get a wide prior: they carry the size of the
        problem."""
        k = self.matrix.shape[1]
        wide = np.full(k, 1.0 / self.prior**2)
        wide[len(self.columns) :] = 1e-4
        x, y = self.matrix[rows], np.asarray(logs)
        precision = np.diag(wide) + x.T @ x / self.noise**2
        mean = np.linalg.solve(precision, x.T @ y / self.noise**2)
        lower = np.linalg.cholesky(precision)
        return mean + np.linalg.solve(lower.T, self.random.standard_normal(k))

    def next(self, samples: dict[str, list[Sample]], left_s: float) -> Optional[Planned]:
        """The configuration to run next; None when nothing that fits into the time left is worth
        it."""
        rows, logs = [], []
        for row, planned in enumerate(self.runs):
            for sample in samples.get(planned.config.key(), []):
                if sample.ok and sample.seconds:
                    rows.append(row)
                    logs.append(math.log(sample.seconds))
        failed = {key for key, ss in samples.items() if any(not s.ok for s in ss)}
        open_rows = [
            r
            for r, p in enumerate(self.runs)
            if p.config.key() not in failed
            and len(samples.get(p.config.key(), [])) < self.most
            and p.estimate_s < left_s
        ]
        if not open_rows:
            return None
        # Applications take turns: the effects of one say nothing about another.
        apps = sorted({self.runs[r].config.app for r in open_rows})
        self.turn += 1
        mine = [r for r in open_rows if self.runs[r].config.app == apps[self.turn % len(apps)]]
        unseen = [r for r in mine if self.runs[r].config.key() not in samples]
        # Before anything is known: a first handful at random, spread over the axes.
        if sum(1 for r in mine if self.runs[r].config.key() in samples) < 2 and unseen:
            return self.runs[int(self.random.choice(unseen))]
        predicted = self.matrix[mine] @ self._posterior(rows, logs)
        return self.runs[mine[int(np.argmin(predicted))]]
