"""What machine this is: read from the kernel, never assumed."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import archspec.cpu


@dataclass(frozen=True)
class Cpu:
    """One hardware thread."""

    id: int
    core: int  # unique over the machine, not only within a socket
    socket: int
    numa: int


@dataclass(frozen=True)
class Topology:
    """Hardware threads that this process may use."""

    cpus: tuple[Cpu, ...]

    @property
    def sockets(self) -> list[int]:
        return sorted({c.socket for c in self.cpus})

    @property
    def cores(self) -> list[int]:
        """Core numbers, socket by socket."""
        return list(
            dict.fromkeys(c.core for c in sorted(self.cpus, key=lambda c: (c.socket, c.core, c.id)))
        )

    @property
    def threads_per_core(self) -> int:
        return max(sum(1 for c in self.cpus if c.core == core) for core in self.cores)

    def of_core(self, core: int) -> list[int]:
        return [c.id for c in self.cpus if c.core == core]

    def as_list(self) -> list[list[int]]:
        """For JSON: [id, core, socket, NUMA node] of every hardware thread."""
        return [[c.id, c.core, c.socket, c.numa] for c in self.cpus]

    @staticmethod
    def from_list(cpus: list[list[int]]) -> "Topology":
        return Topology(tuple(Cpu(*values) for values in cpus))

    @staticmethod
    def regular(sockets: int, cores_per_socket: int, threads_per_core: int = 1) -> "Topology":
        """A made-up machine numbered as Linux does: second hardware threads come after all
        cores."""
        total = sockets * cores_per_socket
        return Topology(
            tuple(
                Cpu(core + t * total, core, core // cores_per_socket, core // cores_per_socket)
                for t in range(threads_per_core)
                for core in range(total)
            )
        )


def _read(path: str, default: str = "") -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return default


def parse_cpu_list(text: str) -> list[int]:
    """'0-3,8' -> [0, 1, 2, 3, 8]"""
    cpus: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
    return cpus


def _cpus_of(mask: str) -> list[int]:
    """'0x5' -> [0, 2]"""
    bits = int(mask, 16)
    return [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]


def read_topology() -> Topology:
    """ReFrame's detection, limited to what this process may use. What the kernel does not say of a
    CPU makes it a core of its own on the first socket."""
    from reframe.utility.cpuinfo import cpuinfo  # 0.4 s, which other commands need not wait for

    seen = cpuinfo().get("topology", {})

    def number(kind: str) -> dict[int, int]:
        groups = sorted(_cpus_of(mask) for mask in set(seen.get(kind, [])))
        return {cpu: i for i, group in enumerate(groups) for cpu in group}

    core, socket, numa = number("cores"), number("sockets"), number("numa_nodes")
    cores: dict[int, int] = {}
    cpus = []
    for cpu in sorted(os.sched_getaffinity(0)):
        own = cores.setdefault(core.get(cpu, -1 - cpu), len(cores))
        cpus.append(Cpu(cpu, own, socket.get(cpu, 0), numa.get(cpu, 0)))
    return Topology(tuple(cpus))


def cpu_info() -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def frequency_mhz() -> Optional[float]:
    """Mean over CPUs of what the kernel reports now; None where it reports nothing (most ARM
    servers without cpufreq)."""
    values = [
        float(v) / 1000.0
        for v in (
            _read(str(p))
            for p in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
        )
        if v
    ]
    if not values:
        values = [
            float(v) for v in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _read("/proc/cpuinfo"), re.M)
        ]
    return sum(values) / len(values) if values else None


def interconnects() -> list[str]:
    """Fabrics with a device in this machine, by the names used on the interconnect axis."""
    found = []
    for device in (
        sorted(Path("/sys/class/infiniband").glob("*"))
        if Path("/sys/class/infiniband").exists()
        else []
    ):
        layer = _read(f"{device}/ports/1/link_layer", "InfiniBand")
        found.append("roce" if layer == "Ethernet" else "infiniband")
    if list(Path("/sys/class/cxi").glob("*")):
        found.append("slingshot")
    return sorted(set(found))


def gpus() -> list[str]:
    """GPUs with a driver, as the kernel names them; what an application can use of them is its
    affair."""
    nvidia = [
        re.sub(r"^Model:\s*", "", line)
        for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
        for line in _read(str(path)).splitlines()
        if line.startswith("Model:")
    ]
    # ROCm lists CPUs too; only GPUs have SIMD units.
    amd = [
        _read(str(path.with_name("name"))) or "AMD GPU"
        for path in sorted(Path("/sys/class/kfd/kfd/topology/nodes").glob("*/properties"))
        if re.search(r"^simd_count [1-9]", _read(str(path)), re.M)
    ]
    return nvidia + amd


def stack_limit() -> str:
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return "unlimited" if soft == resource.RLIM_INFINITY else f"{soft // 1024} KiB"


def isa_flags(info: dict[str, str]) -> list[str]:
    interesting = (
        "sse4_2",
        "avx",
        "avx2",
        "fma",
        "avx512f",
        "avx512bw",
        "avx512_bf16",
        "amx_tile",
        "sve",
        "sve2",
        "asimd",
    )
    present = set((info.get("flags") or info.get("Features") or "").split())
    return [f for f in interesting if f in present]


_DMI = Path("/sys/class/dmi/id")


def rented_shape() -> Optional[str]:
    """PROVIDER/NAME where the firmware says what was rented: Amazon's does."""
    if _read(str(_DMI / "sys_vendor")) != "Amazon EC2":
        return None
    return f"aws/{_read(str(_DMI / 'product_name'))}"


def instance() -> str:
    """Which machine this is among all of its kind; the same after a restart. A hash: it says who it
    is to nobody who does not know."""
    rented = _read(str(_DMI / "board_asset_tag"))
    own = rented if rented.startswith("i-") else _read("/etc/machine-id") + platform.node()
    return hashlib.sha256(own.encode()).hexdigest()[:12]


def describe(name: Optional[str] = None, shape: Optional[str] = None) -> dict[str, Any]:
    """Profile of this machine; `id` is stable across runs and differs between machines that would
    perform differently."""
    info = cpu_info()
    topology = read_topology()
    os_release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', _read("/etc/os-release"), re.M))
    memory = re.search(r"MemTotal:\s+(\d+) kB", _read("/proc/meminfo"))
    profile: dict[str, Any] = {
        "cpu_model": info.get("model name")
        or info.get("CPU implementer")
        or platform.processor()
        or "unknown",
        "cpu_vendor": info.get("vendor_id", ""),
        "cpu_family_model_stepping": "/".join(
            info.get(k, "?") for k in ("cpu family", "model", "stepping")
        ),
        "microcode": info.get("microcode", ""),
        "architecture": platform.machine(),
        # what -march=native stands for here, in archspec's words (ReFrame and Spack use the same)
        "microarchitecture": archspec.cpu.host().name,
        "isa": isa_flags(info),
        "sockets": len(topology.sockets),
        "cores": len(topology.cores),
        "threads_per_core": topology.threads_per_core,
        "numa_nodes": len({c.numa for c in topology.cpus}),
        "memory_gib": round(int(memory.group(1)) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "os": os_release.get("PRETTY_NAME", platform.system()),
        "virtual": "hypervisor" in (info.get("flags") or "").split(),
        "vendor_product": " ".join(
            filter(
                None,
                (_read("/sys/class/dmi/id/sys_vendor"), _read("/sys/class/dmi/id/product_name")),
            )
        ),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        or "not reported",
        "interconnects": interconnects(),
        "gpus": gpus(),
        "stack_limit": stack_limit(),
        "instance": instance(),
    }
    shape = shape or rented_shape()
    if shape:
        profile["shape"] = shape
    profile["id"] = name or _name(profile)
    return profile


def _name(profile: dict[str, Any]) -> str:
    """The same on every machine of one kind; of a shape, of which there may be several, every
    instance has its own."""
    if "shape" in profile:
        _, _, one = profile["shape"].partition("/")
        return f"{re.sub(r'[^A-Za-z0-9.+-]+', '-', one)}-{profile['instance'][:6]}"
    identity = "|".join(
        str(profile[k])
        for k in (
            "cpu_model",
            "cpu_family_model_stepping",
            "sockets",
            "cores",
            "threads_per_core",
            "memory_gib",
        )
    )
    digest = hashlib.sha256(identity.encode()).hexdigest()[:6]
    short = re.sub(r"[^a-z0-9]+", "-", profile["cpu_model"].lower()).strip("-")[:32]
    return f"{short}-{profile['cores']}c-{digest}"
