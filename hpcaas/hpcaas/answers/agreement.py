"""Equal inputs must give equal answers, whatever the MPI, split, compiler and flags."""

from __future__ import annotations

import statistics
from typing import Any

from ..model import Answer, Sample

Key = tuple[str, str]  # machine, key of the configuration


def _answers(samples: list[Sample]) -> dict[str, list[Answer]]:
    """Answers of the good samples of one configuration, by name."""
    found: dict[str, list[Answer]] = {}
    for sample in samples:
        for name, answer in sample.answers.items() if sample.ok else ():
            found.setdefault(name, []).append(answer)
    return found


def _problem(samples: list[Sample], provenance: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    """What must be the same for answers to be comparable. Not the hash of the input's files: two
    decompositions of one mesh are different files of the same problem."""
    first = samples[0]
    of_run = provenance.get(first.provenance or "", {})
    versions = (str(of_run.get(k)) for k in ("suite_version", "app_version"))
    return (first.configuration.app, first.configuration.size, *versions)


def _judge(name: str, by_key: dict[Key, list[Answer]], odd: dict[Key, str]) -> None:
    medians = {key: statistics.median(a.value for a in found) for key, found in by_key.items()}
    centre = statistics.median(medians.values())
    for key, found in by_key.items():
        worst = max(found, key=lambda a: abs(a.value - centre))
        allowed = worst.tolerance * max(abs(centre), abs(worst.value))
        if abs(worst.value - centre) > allowed:
            odd.setdefault(
                key,
                f"{name} is {worst.value:.10g}, the median of {len(medians)} configurations is"
                f" {centre:.10g} (tolerance {worst.tolerance:g})",
            )


def disagreements(
    collected: dict[Key, list[Sample]], provenance: dict[str, dict[str, Any]]
) -> dict[Key, str]:
    """Configurations whose answer is further from the median of all than the application's stated
    tolerance allows, each with the words for it. With two that differ, both are named: nobody can
    say which is right."""
    problems: dict[tuple[str, ...], dict[str, dict[Key, list[Answer]]]] = {}
    for key, samples in collected.items():
        for name, found in _answers(samples).items():
            problem = problems.setdefault(_problem(samples, provenance), {})
            problem.setdefault(name, {})[key] = found
    odd: dict[Key, str] = {}
    for by_name in problems.values():
        for name, by_key in by_name.items():
            _judge(name, by_key, odd)
    return odd
