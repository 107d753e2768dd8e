"""The table: what is measured, what it is compared with, and what counts as met."""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table.

    name: where, what, and (between hosts) on how many cores.
    source: (scenario, row) of the figure; limit: (scenario, row) of what the machine can do, or None.
    factor: figure = raw value x factor, in `unit`; limit_factor the same for the limit.
    sense: "<=" or ">="; bound: of the ratio figure/limit if `relative`, otherwise of the figure itself; None: for information only.
    peers: row name in the peers' output, "" if no peer has such a row; peer_scenario: local or remote.
    """

    name: str
    source: tuple[str, str]
    unit: str
    factor: float
    limit: tuple[str, str] | None = None
    limit_factor: float = 1.0
    limit_name: str = ""
    sense: str = "<="
    bound: float | None = None
    relative: bool = True
    peers: str = ""
    peer_scenario: str = "local"

    @property
    def target(self) -> str:
        if self.bound is None:
            return ""
        return (
            f"{self.sense} {self.bound:g} x limit"
            if self.relative
            else f"{self.sense} {self.bound:g} {self.unit}"
        )

    def met(self, value: float, ratio: float) -> bool | None:
        if self.bound is None:
            return None
        judged = ratio if self.relative else value
        if math.isnan(judged):
            return None
        return judged <= self.bound if self.sense == "<=" else judged >= self.bound


def _same_node() -> list[Row]:
    def absolute(what, raw, unit, factor, bound):
        return Row(
            f"same_node.{what}",
            ("local", raw),
            unit,
            factor,
            sense="<=",
            bound=bound,
            relative=False,
            peers=raw,
        )

    def memcpy(what, raw, bound):
        return Row(
            f"same_node.{what}",
            ("local", raw),
            "GB/s",
            1,
            ("local", f"{raw}_memcpy"),
            limit_name="memcpy",
            sense=">=",
            bound=bound,
            peers=raw,
        )

    return [
        absolute("put_8", "put_8", "ns", 1, 10),
        absolute("get_8", "get_8", "ns", 1, 10),
        absolute("get_strided_64x64", "get_strided_64x64", "us", 1e-3, 0.3),
        memcpy("put_1m", "put_1m", 0.95),
        memcpy("get_1m", "get_1m", 0.95),
        memcpy("acc_1m", "acc_1m", 0.8),
        Row(
            "same_node.acc_1m_4_processes",
            ("local4", "acc_1m_4"),
            "GB/s",
            1,
            ("local4", "acc_1m_4_memcpy"),
            limit_name="memcpy by 4 processes",
            sense=">=",
            bound=0.8,
        ),
        Row("same_node.acc_8", ("local", "acc_8"), "ns", 1, peers="acc_8"),
        absolute("fetch_add", "fetch_add", "ns", 1, 20),
        absolute("mutex", "lock", "ns", 1, 30),
    ]


def _two_hosts(cores: str) -> list[Row]:
    remote, tcp = f"remote.{cores}", f"tcp.{cores}"

    def latency(what, raw):
        return Row(
            f"two_hosts.{what}.{cores}",
            (remote, raw),
            "us",
            1e-3,
            (tcp, "pingpong"),
            1,
            "raw TCP ping-pong",
            "<=",
            1.35,
            peers=raw,
            peer_scenario="remote",
        )

    def contiguous(what, raw, other):
        return Row(
            f"two_hosts.{what}.{cores}",
            (remote, raw),
            "us",
            1e-3,
            (remote, other),
            1e-3,
            f"contiguous {other.split('_')[0]} of as many bytes",
            "<=",
            1.5,
            peers=raw,
            peer_scenario="remote",
        )

    def stream(what, raw, limit, limit_name):
        return Row(
            f"two_hosts.{what}.{cores}",
            (remote, raw),
            "GB/s",
            1,
            (tcp, limit),
            1,
            limit_name,
            ">=",
            0.8,
            peers=raw,
            peer_scenario="remote",
        )

    return [
        latency("get_8", "get_8"),
        latency("put_8_fence", "put_8_fence"),
        latency("fetch_add", "fetch_add"),
        Row(
            f"two_hosts.acc_8_fence.{cores}",
            (remote, "acc_8_fence"),
            "us",
            1e-3,
            (tcp, "pingpong"),
            1,
            "raw TCP ping-pong",
            peers="acc_8_fence",
            peer_scenario="remote",
        ),
        Row(
            f"two_hosts.mutex.{cores}",
            (remote, "lock"),
            "us",
            1e-3,
            (tcp, "pingpong"),
            1,
            "raw TCP ping-pong",
            peers="lock",
            peer_scenario="remote",
        ),
        Row(
            f"two_hosts.libfabric_ping_pong.{cores}",
            (f"ofi.{cores}", "ofi_pingpong"),
            "us",
            1,
            (tcp, "pingpong"),
            1,
            "raw TCP ping-pong",
        ),
        contiguous("get_strided_64x64", "get_strided_64x64", "get_4k"),
        contiguous("acc_4k_fence", "acc_4k_fence", "put_4k_fence"),
        contiguous("acc_1m_fence", "acc_1m_fence", "put_1m_fence_ns"),
        stream(
            "put_1m_fence", "put_1m_fence", "stream", "raw TCP stream of acknowledged 1 MiB blocks"
        ),
        stream("get_1m", "get_1m", "stream", "raw TCP stream of acknowledged 1 MiB blocks"),
        Row(
            f"two_hosts.put_nb_8.{cores}",
            (remote, "put_nb_8"),
            "M/s",
            1,
            (tcp, "frames"),
            1,
            "batched raw frames",
            ">=",
            0.5,
        ),
        Row(
            f"two_hosts.overlap_1gbit.{cores}",
            (f"overlap_1gbit.{cores}", "overlap"),
            "share",
            1,
            (f"tcp_1gbit.{cores}", "overlap"),
            1,
            "raw TCP in a helper thread",
            ">=",
            None if cores == "one_core" else 0.8,  # one core: the transfer is what computes
            relative=False,
        ),
        Row(
            f"two_hosts.overlap_unshaped.{cores}",
            (f"overlap.{cores}", "overlap"),
            "share",
            1,
            (tcp, "overlap"),
            1,
            "raw TCP in a helper thread",
        ),
        Row(
            f"two_hosts.fair_get_8.{cores}",
            (f"fair.{cores}", "fair_get_8"),
            "times",
            1,
            sense="<=",
            bound=2,
            relative=False,
        ),
        Row(
            f"two_hosts.fair_get_64k.{cores}",
            (f"fair.{cores}", "fair_get_64k"),
            "times",
            1,
            sense="<=",
            bound=2,
            relative=False,
        ),
    ] + [
        Row(
            f"busy_target.{what}.{cores}",
            (f"busy.{cores}", f"busy_{what}"),
            "us",
            1e-3,
            (f"tcp_busy.{cores}", "pingpong"),
            1,
            "raw TCP ping-pong, server thread in a busy process",
            "<=",
            1.35,
        )
        for what in ("get_8", "acc_8_fence", "fetch_add")
    ]


# Ranks on each of so many hosts (1: this machine), for collectives and for more ranks than cores.
COLLECTIVES = {"4_on_1": (4, 1), "8_on_1": (8, 1), "2_on_2": (2, 2)}


def _collectives() -> list[Row]:
    """For information, beside the same calls of the MPIs."""
    return [
        Row(f"collective.{what}.{layout}", (f"collective.{layout}", what), "us", 1e-3,
            peers=what, peer_scenario=f"collective.{layout}")
        for layout in COLLECTIVES
        for what in ("barrier", "allreduce_8", "allreduce_64k", "allreduce_1m")
    ]  # fmt: skip


def _shared(cores: str) -> list[Row]:
    """What sharing connections costs: the same operation over a connection of its own."""
    own, shared = f"remote.{cores}", f"shared.{cores}"
    return [
        Row(f"shared.{what}.{cores}", (shared, what), unit, factor, (own, what), factor,
            "the same over a connection of its own")
        for what, unit, factor in (
            ("get_8", "us", 1e-3),
            ("put_8_fence", "us", 1e-3),
            ("fetch_add", "us", 1e-3),
            ("put_1m_fence", "GB/s", 1),
            ("get_1m", "GB/s", 1),
        )
    ]  # fmt: skip


def _memory(fabric: str) -> list[Row]:
    """Own account and kernel together, beside the kernel's part alone: what a bare socket takes. For information."""
    source = f"connections.{fabric}"
    kernel = (source, "kernel") if fabric == "tcp" else None
    return [
        Row(
            f"memory.bytes_per_connection.{side}.{fabric}",
            (source, f"{side}_connection"),
            "B",
            1,
            kernel,
            1,
            "its socket in the kernel" if kernel else "",
        )
        for side in ("origin", "server")
    ] + [
        Row(f"memory.bytes_per_idle_node.origin.{fabric}", (source, "origin_known_node"), "B", 1),
        Row(f"memory.bytes_per_idle_rank.server.{fabric}", (source, "server_known_rank"), "B", 1),
        Row(f"memory.bytes_per_unknown_node.{fabric}", (source, "unknown_node"), "B", 1),
    ]


START_RANKS, START_NODES = 16, (32, 64, 128)


def _start_and_end() -> list[Row]:
    """From the launcher's start to its end, with a program that only joins and leaves."""
    fewest, most = START_NODES[0], START_NODES[-1]
    return [
        Row(
            f"job.start_and_end_{START_RANKS}_ranks",
            ("start", f"ranks_{START_RANKS}"),
            "ms",
            1,
            peers=f"ranks_{START_RANKS}",
            peer_scenario="start",
        ),
        *(
            Row(f"job.start_and_end_{nodes}_nodes", ("start", f"nodes_{nodes}"), "ms", 1)
            for nodes in START_NODES[:-1]
        ),
        # linear would be the number of nodes; the rest is room for caches that no longer fit
        Row(
            f"job.start_and_end_{most}_nodes",
            ("start", f"nodes_{most}"),
            "ms",
            1,
            ("start", f"nodes_{fewest}"),
            1,
            f"the same with {fewest} nodes",
            "<=",
            1.5 * most / fewest,
        ),
    ]


LIFE_RANKS = (2, 4)


def _life() -> list[Row]:
    """Made and freed again, on this machine: rows of lab/bench/life/life.c."""
    bounds = {
        ("segment_64", "segment of 64 B"): (10, 60),
        ("segment_1m_written", "segment of 1 MiB, written"): (None, None),
        ("split", "group split"): (6, None),
        ("mutexes_10", "10 mutexes"): (30, None),
        ("window_64", "window of 64 B"): (10, 60),
    }
    return [
        Row(
            f"life.{what}_{ranks}_ranks",
            (f"life.{ranks}", raw),
            "us",
            1,
            bound=bounds[what, raw][k],
            relative=False,
        )
        for what, raw in bounds
        for k, ranks in enumerate(LIFE_RANKS)
    ]


def all_rows() -> list[Row]:
    return (
        _same_node()
        + _two_hosts("one_core")
        + _two_hosts("two_cores")
        + _shared("two_cores")
        + _collectives()
        + _life()
        + _memory("tcp")
        + _memory("ofi")
        + [
            Row(
                "idle_job.10_s", ("idle", "idle_ms"), "ms", 1, sense="<=", bound=20, relative=False
            ),
            Row(
                "array.get_10x10.cpp",
                ("array", "array_get_10x10"),
                "us",
                1e-3,
                sense="<=",
                bound=0.25,
                relative=False,
            ),
            Row(
                "array.get_10x10.python",
                ("python", "array_get_10x10"),
                "us",
                1e-3,
                sense="<=",
                bound=2,
                relative=False,
            ),
            Row("array.get_10x10.python_out", ("python", "array_get_10x10_out"), "us", 1e-3),
            Row("limit.memcpy_1m", ("memcpy", "memcpy"), "GB/s", 1),
        ]
        + _start_and_end()
        + [
            Row(f"limit.loopback_{what}.{cores}", (f"tcp_loopback.{cores}", raw), unit, 1)
            for cores in ("one_core", "two_cores")
            for what, raw, unit in (
                ("ping_pong", "pingpong", "us"),
                ("stream_1m", "stream", "GB/s"),
                ("stream_1m_back", "stream_back", "GB/s"),
                ("frames", "frames", "M/s"),
                ("connect", "connect", "us"),
                ("close", "close", "us"),
            )
        ]
        + [
            Row(f"limit.hosts_{what}.{cores}", (f"tcp.{cores}", raw), unit, 1)
            for cores in ("one_core", "two_cores")
            for what, raw, unit in (
                ("stream_1m_back", "stream_back", "GB/s"),
                ("stream_1m_window_2", "stream_window", "GB/s"),
                ("frames_of_96_B", "frames_own", "M/s"),
                ("connect", "connect", "us"),
                ("close", "close", "us"),
            )
        ]
        + [
            Row(
                f"limit.loopback_libfabric_ping_pong.{cores}",
                (f"ofi_loopback.{cores}", "ofi_pingpong"),
                "us",
                1,
            )
            for cores in ("one_core", "two_cores")
        ]
    )
