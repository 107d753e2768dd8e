"""How a benchmark begins: on hosts of its own, in a session of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path


def on_testbed(root: Path, hosts: int, script: Path, arguments: list[str]) -> None:
    """Starts `script` again on so many hosts, which go however it ends. Root; returns if it runs
    there already."""
    if "TESTBED" not in os.environ:
        testbed = str(root / "testbed" / "hosts.sh")
        again = [sys.executable, str(script), *arguments]
        os.execv(testbed, [testbed, "run", str(hosts), "--", *again])


def take_signals() -> None:
    """Ctrl-C and SIGTERM end the run by KeyboardInterrupt. A start in the background, or through
    the testbed, passes on an ignored SIGINT."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def own_session(priority: bool) -> None:
    """The scheduler shares out time by session, so what is compared belongs into one. `priority`:
    it weighs more than the machine's other work, if we are root."""
    with contextlib.suppress(PermissionError):
        os.setsid()
    if priority:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -15)
            Path("/proc/self/autogroup").write_text("-15")
