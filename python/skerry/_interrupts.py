"""An interrupt (SIGINT, Ctrl-C) of a rank whose calls must meet those of the others.

It raises KeyboardInterrupt between any two calls. If the program catches that and goes on, the
rank's next call meets one of the others' that it was not made for: they get wrong values, or wait.
So the first call afterwards that would meet others ends the job.

A program that does not catch it is ended by it, and the job with it. One that leaves the job while
others are in another call is an error on all already. One that has a handler of its own for SIGINT
is left alone.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from . import _core

seen = False  # this rank was interrupted
_pid = 0  # of the process that watches: a fork is no rank


def watch() -> None:
    """From now on this rank's calls meet others' in an order. Not collective."""
    global _pid
    if _pid or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _pid = os.getpid()
        signal.signal(signal.SIGINT, _on_interrupt)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    global seen
    seen = os.getpid() == _pid
    signal.default_int_handler(number, frame)


def end_job() -> None:
    """Of a rank that was interrupted, and is about to meet others."""
    _core.abort(
        f"rank {_core.rank()} was interrupted (SIGINT), and has gone on: its calls do not meet "
        "those of the others any more; let KeyboardInterrupt end the program, or set a handler for "
        "SIGINT that notes it, and agree on it with sk.allreduce"
    )
