"""Equal inputs must give equal answers, whatever the MPI, split, compiler and flags."""

from __future__ import annotations

import statistics

from ..model import Answer, Sample
from .problems import Problem

Key = tuple[str, str, Problem]  # place, key of the configuration, what was computed


def _answers(samples: list[Sample]) -> dict[str, list[Answer]]:
    """Answers of the good samples of one configuration, by name."""
    found: dict[str, list[Answer]] = {}
    for sample in samples:
        for name, answer in sample.answers.items() if sample.ok else ():
            found.setdefault(name, []).append(answer)
    return found


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


def disagreements(collected: dict[Key, list[Sample]]) -> dict[Key, str]:
    """Configurations whose answer is further from the median of all than the application's stated
    tolerance allows, each with the words for it. With two that differ, both are named: nobody can
    say which is right."""
    found: dict[Problem, dict[str, dict[Key, list[Answer]]]] = {}
    for key, samples in collected.items():
        for name, answers in _answers(samples).items():
            found.setdefault(key[2], {}).setdefault(name, {})[key] = answers
    odd: dict[Key, str] = {}
    for by_name in found.values():
        for name, by_key in by_name.items():
            _judge(name, by_key, odd)
    return odd


def unlike(one: list[Sample], two: list[Sample]) -> str:
    """In which answer two configurations differ by more than is tolerated; empty if in none."""
    mine, theirs = _answers(one), _answers(two)
    for name in mine.keys() & theirs.keys():
        a, b = (statistics.median(x.value for x in side[name]) for side in (mine, theirs))
        allowed = max(x.tolerance for x in (*mine[name], *theirs[name])) * max(abs(a), abs(b))
        if abs(a - b) > allowed:
            return f"{name} is {a:.10g} and {b:.10g}"
    return ""
