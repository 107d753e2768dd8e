"""`node_probe.py begin|end FILE`: kernel counters around the measured command, taken on the machine
that runs it (standard
library only, because compute nodes have what they have)."""

import glob
import json
import os
import shutil
import subprocess
import sys
import time


def read(path, default=""):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return default


def frequency_mhz():
    values = [
        float(read(p)) / 1000.0
        for p in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
        if read(p)
    ]
    if not values:
        values = [
            float(line.split(":")[1])
            for line in read("/proc/cpuinfo").splitlines()
            if line.startswith("cpu MHz")
        ]
    return sum(values) / len(values) if values else None


def rapl():
    """Package energy counters in microjoules with their wrap-around; empty when unreadable."""
    counters = {}
    for domain in glob.glob("/sys/class/powercap/intel-rapl:[0-9]*"):
        if domain.count(":") == 1 and read(f"{domain}/energy_uj"):
            counters[domain] = [
                int(read(f"{domain}/energy_uj")),
                int(read(f"{domain}/max_energy_range_uj", "0") or 0),
            ]
    return counters


def ask(argv):
    """Output of a short command, empty if it cannot be had."""
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def ipmi():
    """Text of the board's power reading; empty without tool or device."""
    if shutil.which("ipmitool") and any(
        os.path.exists(p) for p in ("/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0")
    ):
        return ask(["ipmitool", "dcmi", "power", "reading"])
    return ""


def slurm_energy():
    """Energy that Slurm has gathered for this job up to now; empty outside Slurm."""
    job = os.environ.get("SLURM_JOB_ID")
    return (
        ask(["sacct", "-n", "-P", "-j", job, "-o", "ConsumedEnergyRaw"])
        if job and shutil.which("sacct")
        else ""
    )


def counters():
    fields = [int(v) for v in read("/proc/stat").splitlines()[0].split()[1:9]]
    return {
        "time": time.time(),
        "load1": os.getloadavg()[0],
        "stat": fields,
        "mhz": frequency_mhz(),
        "rapl": rapl(),
        "ipmi": ipmi(),
        "slurm": slurm_energy(),
        "host": read("/proc/sys/kernel/hostname"),
        "stack": read("/proc/self/limits").split("Max stack size")[-1].split()[0],
        "kernel": read("/proc/sys/kernel/osrelease"),
        "clock_tick": os.sysconf("SC_CLK_TCK"),
    }


which, path = sys.argv[1:3]
record = json.loads(read(path, "{}") or "{}")
record[which] = counters()
with open(path, "w") as out:
    json.dump(record, out)
