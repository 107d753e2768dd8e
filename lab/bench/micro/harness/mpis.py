"""The words of each MPI's launcher for ranks on this machine or on the testbed's hosts."""

from __future__ import annotations

import dataclasses
import os

NET = "10.77.0.0/24"
# What launchers ask of a root user, and what their own daemons need.
AS_ROOT = {
    f"{prefix}_ALLOW_RUN_AS_ROOT{suffix}": "1"
    for prefix in ("OMPI", "PRTE")
    for suffix in ("", "_CONFIRM")
}


def _where(ranks: tuple[int, ...]) -> str:
    return ",".join(f"sk{number}:{each}" for number, each in enumerate(ranks, 1))


def _options(kind: str, pairs: list[tuple[str, str]]) -> list[str]:
    return [word for key, value in pairs for word in (f"--{kind}", key, value)]


@dataclasses.dataclass(frozen=True)
class Mpi:
    """`family`: openmpi4, openmpi5 or hydra (MPICH's launcher). `starter`: its path."""

    family: str
    starter: str

    def command(self, ranks: tuple[int, ...]) -> list[str]:
        """Starts so many ranks on each host; one number: on this machine."""
        agent = os.environ.get("TESTBED_AGENT", "")
        words = {"openmpi4": _openmpi4, "openmpi5": _openmpi5, "hydra": _hydra}[self.family]
        return [self.starter, *words(ranks, agent)]


def _yielding(ranks: tuple[int, ...]) -> list[tuple[str, str]]:
    """Ranks yield if there are more of them than cores: mpirun sets it so itself where it knows."""
    return [("mpi_yield_when_idle", "1")] if sum(ranks) > (os.cpu_count() or 1) else []


def _openmpi4(ranks: tuple[int, ...], agent: str) -> list[str]:
    words = ["-n", str(sum(ranks)), "--bind-to", "none", "--oversubscribe"]
    mca = _yielding(ranks)
    if len(ranks) > 1:
        words += ["--host", _where(ranks)]
        mca += [
            ("plm", "rsh"),
            ("plm_rsh_agent", agent),
            ("plm_rsh_no_tree_spawn", "1"),
            ("oob_tcp_if_include", NET),
            ("btl_tcp_if_include", NET),
            ("pml", "ob1"),
            ("btl", "tcp,vader,self"),
            ("osc", "pt2pt"),  # no other works between hosts
        ]
    return words + _options("mca", mca)


def _openmpi5(ranks: tuple[int, ...], agent: str) -> list[str]:
    words = ["-n", str(sum(ranks)), "--bind-to", "none", "--map-by", "slot:OVERSUBSCRIBE"]
    mca = _yielding(ranks) + [("osc", "^ucx")]  # its ucx component only complains
    if len(ranks) > 1:
        words += ["--host", _where(ranks)]
        mca += [("btl_tcp_if_include", NET), ("pml", "ob1"), ("btl", "tcp,sm,self")]
        words += _options(
            "prtemca",
            [
                ("plm", "ssh"),
                ("plm_ssh_agent", agent),
                ("plm_ssh_no_tree_spawn", "1"),
                ("prte_if_include", NET),
                # Daemons name their directory by process number, which hosts may share; /tmp is
                # one for all hosts, /dev/shm is each host's own.
                ("prte_tmpdir_base", "/dev/shm"),
            ],
        )
    return words + _options("mca", mca)


def _hydra(ranks: tuple[int, ...], agent: str) -> list[str]:
    count = ["-n", str(sum(ranks))]
    if len(ranks) == 1:
        return count
    remote = ["-launcher", "ssh", "-launcher-exec", agent]
    return [*remote, "-hosts", _where(ranks), "-iface", "skbr", *count]
