"""Where the time and the traffic of a rank go."""

import time
from contextlib import contextmanager

# What a rank's seconds are split into. `merge` is all that mirroring costs: the copy of the density
# into its mirror, the merge of the
# Kohn-Sham matrix and the copy back. `wait` is what a rank waits for the slowest one.
PHASES = ("matmul", "coulomb", "get", "compute", "acc", "wait", "merge", "diag")


class Clock:
    """Seconds per phase; phases do not nest."""

    def __init__(self):
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name):
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start


def traffic(sk):
    """(operations, bytes) that this process has sent to other nodes so far, the data server that it hosts included.

    Bytes are those handed to the fabric, headers included, and counted where they are sent; so their sum over the ranks counts
    each byte once.
    """
    counted = sk.counters()
    return counted["remote_operations"], counted["wire_bytes_sent"] + counted[
        "server_wire_bytes_sent"
    ]


def interface_bytes():
    """Bytes that this host's network interfaces (but the loopback) have sent, as the operating system counts; 0 if it does not say."""
    try:
        with open("/proc/self/net/dev") as lines:
            rows = [line.split(":", 1) for line in lines if ":" in line]
    except OSError:
        return 0
    return sum(int(counts.split()[8]) for name, counts in rows if name.strip() != "lo")
