"""Is the machine quiet enough to measure? Asked before measuring, answered with numbers."""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..model import Load

# A sample with more than this of the machine's time taken by others is flagged, not dropped.
NOISY_FRACTION = 0.05
# Waiting goes straight into the time of a run, so less of it is tolerated before it is flagged.
NOISY_WAIT = 0.02
# No verdict is drawn from a sample that waited longer than this share of its time for a CPU, or
# that lost this share of the CPUs to the hypervisor.
WAITING_LIMIT = 0.05


def waited_for_others(load: Load, limit: float) -> bool:
    """Whether a run waited longer than this for CPUs that others used; more threads than CPUs wait
    for each other. Where nobody says what others used, all waiting counts."""
    others = load.other_fraction
    return (load.waited_fraction or 0.0) > limit and (others is None or others > NOISY_FRACTION)


def disturbed(load: Load, limit: float = WAITING_LIMIT) -> bool:
    """Whether a sample is too disturbed to judge by. Where the kernel keeps no account of waiting,
    CPUs that others used count."""
    unknown = load.waited_fraction is None and (load.other_fraction or 0.0) > limit
    return waited_for_others(load, limit) or (load.steal_fraction or 0.0) > limit or unknown


@dataclass
class Noise:
    """Result of a check; `verdict` is quiet, noisy or very noisy."""

    busy_fraction: float  # of all CPU time while we slept: what others use
    steal_fraction: float
    load1: float
    spread: float  # of equal pieces of work: 90th percentile over the fastest tenth, minus 1
    verdict: str
    reasons: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return dict(self.__dict__)


def judge(busy: float, steal: float, load1: float, spread: float) -> Noise:
    """Thresholds: a few per cent change which of two choices looks better, a third makes any
    ranking worthless."""
    noise = Noise(busy, steal, load1, spread, "quiet")
    for value, some, much, words in (
        (busy, 0.03, 0.30, "of the CPUs are used by others"),
        (steal, 0.01, 0.10, "of CPU time is stolen by the hypervisor"),
        (spread, 0.05, 0.50, "spread of equal pieces of work"),
    ):
        if value > some:
            noise.reasons.append(f"{value:.0%} {words}")
            noise.verdict = (
                "very noisy" if value > much or noise.verdict == "very noisy" else "noisy"
            )
    return noise


def _stat() -> list[int]:
    return [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def check(listen_s: float = 1.0, pieces: int = 120) -> Noise:
    """Listens, then works: `listen_s` asleep to see what others use, then equal pieces of work on
    every CPU in turn."""
    before = _stat()
    time.sleep(listen_s)
    delta = [b - a for a, b in zip(before, _stat())]
    total = sum(delta) or 1
    busy = (total - delta[3] - delta[4] - delta[7]) / total
    allowed = os.sched_getaffinity(0)
    data = b"\0" * 262144
    times: list[float] = []
    try:
        for cpu in sorted(allowed)[:16]:
            os.sched_setaffinity(0, {cpu})
            here = []
            for _ in range(pieces // min(len(allowed), 16) + 1):
                start = time.perf_counter()
                hashlib.sha256(data).digest()
                here.append(time.perf_counter() - start)
            fastest = statistics.quantiles(here, n=10)[0]
            times += [t / fastest for t in here]
    finally:
        os.sched_setaffinity(0, allowed)
    spread = statistics.quantiles(times, n=10)[8] - 1.0
    return judge(busy, delta[7] / total, os.getloadavg()[0], max(0.0, spread))
