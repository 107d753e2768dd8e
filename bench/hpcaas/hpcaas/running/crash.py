"""What killed a run. The paper's -Ofast crash of MPAS-A is a stack limit, not fast mathematics: gfortran's -Ofast implies
-fstack-arrays, which puts automatic arrays on a stack of 8 MB."""

from __future__ import annotations

import re
import signal
from typing import Optional

_NAMES = {
    "Segmentation fault": signal.SIGSEGV,
    "Illegal instruction": signal.SIGILL,
    "Floating point exception": signal.SIGFPE,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Killed": signal.SIGKILL,
}


def signal_of(code: int, text: str) -> Optional[int]:
    """Signal that ended a rank, from the exit code or from the words of OpenMPI, MPICH and Slurm; None if none did."""
    if code == 0:
        return None
    for pattern in (
        r"exited on signal (\d+)",
        r"\(signal (\d+)\)",
        r"KILLED BY SIGNAL: (\d+)",
        r"signal: [^(\n]*\((\d+)\)",
    ):
        found = re.search(pattern, text)
        if found:
            return int(found.group(1))
    for words, number in _NAMES.items():
        # srun: 'task 0: Segmentation fault'; shells: 'Segmentation fault (core dumped)'
        if re.search(
            rf"task \d+: {words}|{words} +\(core dumped\)|^\S*:? *line \d+: +\d+ {words}",
            text,
            re.M,
        ):
            return int(number)
    if 128 < code < 128 + 65:
        return code - 128
    return None


def _finite(stack: str) -> bool:
    return stack.isdigit()


def may_be_stack(number: Optional[int], stack: str) -> bool:
    """Worth one repetition with an unlimited stack: a segmentation fault under a finite limit."""
    return number == signal.SIGSEGV and _finite(stack)


def explain(number: int, flags: str, stack: str) -> str:
    name = (
        signal.Signals(number).name
        if number in signal.Signals._value2member_map_
        else f"signal {number}"
    )
    if number == signal.SIGILL:
        return (
            f"{name}: the program uses instructions that this CPU lacks; build for an older target"
        )
    if number == signal.SIGKILL:
        return f"{name}: killed from outside, usually for want of memory; use a smaller size or fewer ranks"
    if may_be_stack(number, stack):
        hint = f"{name} with a stack limit of {int(stack) // 1024} MiB"
        if "-Ofast" in flags or "-fstack-arrays" in flags:
            return (
                hint
                + ": -Ofast implies -fstack-arrays in gfortran; try `ulimit -s unlimited` or -Ofast -fno-stack-arrays before blaming fast mathematics"
            )
        return hint + ": large local arrays may have overflowed it; try `ulimit -s unlimited`"
    return name


def confirmed(ran: bool, original: str) -> str:
    """Words for the outcome of the repetition with an unlimited stack."""
    if ran:
        return (
            original
            + ". Confirmed: the same program ran with an unlimited stack, so this is the stack limit and not the optimisation"
        )
    return original + ". It also fails with an unlimited stack: not the stack limit"


def first_error(text: str) -> str:
    """The line of a build's log that says what went wrong: what follows the first error is mostly its echo."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next(
        (
            line
            for line in lines
            if re.search(r"\b(?:fatal )?error\b|not found|cannot|No such", line, re.I)
        ),
        lines[-1] if lines else "the log is empty",
    )[:300]


def last_words(text: str, lines: int = 3) -> str:
    kept = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(kept[-lines:])[:400] or "none"
