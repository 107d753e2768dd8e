"""Energy of a run: RAPL, IPMI or Slurm, whichever is readable here; otherwise why none is."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Optional

from .model import Energy
from .toolchain import run_text


def rapl_state() -> Optional[str]:
    """None if RAPL is readable, else why not."""
    domains = (
        list(Path("/sys/class/powercap").glob("intel-rapl:[0-9]*"))
        if Path("/sys/class/powercap").exists()
        else []
    )
    if not domains:
        return "no RAPL counter in /sys/class/powercap (a virtual machine, or no such hardware)"
    if not any(os.access(d / "energy_uj", os.R_OK) for d in domains):
        return (
            "RAPL counters are readable by root only here; ask the administrator for read permission"
            " on energy_uj"
        )
    return None


def ipmi_state() -> Optional[str]:
    if not shutil.which("ipmitool"):
        return "no ipmitool"
    if not any(Path(p).exists() for p in ("/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0")):
        return "no IPMI device"
    return None


def slurm_state() -> Optional[str]:
    if not shutil.which("sacct"):
        return "no Slurm"
    text = run_text(["scontrol", "show", "config"])
    plugin = re.search(r"AcctGatherEnergyType\s*=\s*(\S+)", text)
    if not plugin or plugin.group(1).endswith("/none"):
        return "Slurm gathers no energy (AcctGatherEnergyType is none)"
    return None


def state() -> dict[str, str]:
    """Per source, `readable` or why not."""
    return {
        name: why or "readable"
        for name, why in (("rapl", rapl_state()), ("ipmi", ipmi_state()), ("slurm", slurm_state()))
    }


def parse_ipmi(text: str) -> Optional[float]:
    """Watts of `ipmitool dcmi power reading`."""
    found = re.search(r"Instantaneous power reading:\s+(\d+) Watts", text)
    return float(found.group(1)) if found else None


def parse_sacct(text: str) -> Energy:
    """Energy of `sacct -n -P -o ConsumedEnergyRaw`: joules of the job; 0 or empty means that
    nothing was gathered."""
    values = [float(v) for v in text.split() if re.fullmatch(r"\d+(\.\d+)?", v)]
    joules = max(values, default=0.0)
    # Slurm writes 2^64 - 2 where a counter failed.
    if 0 < joules < 1e18:
        return Energy(
            joules=joules, source="Slurm ConsumedEnergyRaw of the whole job, all its nodes"
        )
    return Energy(reason="Slurm gathered no energy for this job")
