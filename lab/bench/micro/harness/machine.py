"""The machine of the measurement, and what else it was doing."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path


def load() -> float:
    """Runnable processes, averaged over the last minute."""
    return os.getloadavg()[0]


def describe() -> dict:
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    memory = next(
        int(line.split()[1])
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal")
    )
    return {
        "processor": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**20, 1),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def cpu_time_ns(pids: list[int]) -> dict[int, int]:
    """User + system time per process in ns: schedstat is exact where stat counts ticks of 10 ms."""
    spent = {}
    for pid in pids:
        try:
            spent[pid] = sum(
                int((task / "schedstat").read_text().split()[0])
                for task in Path(f"/proc/{pid}/task").iterdir()
            )
        except OSError:
            continue
    return spent
