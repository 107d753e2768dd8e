"""What killed a run. A cause is named only after it was tried.

The paper's -Ofast crash of MPAS-A is a stack limit, not fast mathematics: gfortran's -Ofast implies
-fstack-arrays, which puts automatic arrays on a stack of 8 MB.
"""

from __future__ import annotations

import re
import signal
from typing import Optional, Sequence

_NAMES = {
    "Segmentation fault": signal.SIGSEGV,
    "Illegal instruction": signal.SIGILL,
    "Floating point exception": signal.SIGFPE,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Killed": signal.SIGKILL,
}


def signal_of(code: int, text: str) -> Optional[int]:
    """Signal that ended a rank, from the exit code or from the words of OpenMPI, MPICH and Slurm;
    None if none did."""
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
    """Worth trying without the limit: a segmentation fault under a finite one."""
    return number == signal.SIGSEGV and _finite(stack)


def explain(number: int, flags: str, stack: str) -> str:
    """What happened, without a cause: none was tried yet."""
    name = (
        signal.Signals(number).name
        if number in signal.Signals._value2member_map_
        else f"signal {number}"
    )
    if number == signal.SIGILL:
        return f"{name}: an instruction that this CPU does not run"
    if number == signal.SIGKILL:
        return f"{name}: killed from outside; the kernel's log says whether memory ran out"
    if may_be_stack(number, stack):
        flagged = "-Ofast" in flags
        limit = f"{name} with a stack limit of {int(stack) // 1024} MiB"
        return limit + (", built with -Ofast" if flagged else "") + "; the cause was not tried"
    return name


# Crashes with and runs without the limit that tell cause from chance: with four of each and not one
# exception, chance does it once in 70 times.
TRIES = 4
CHANCE = 0.05


def chance(limited: Sequence[bool], unlimited: Sequence[bool]) -> float:
    """Probability of so clear a difference if the limit had nothing to do with it (Fisher's exact
    test, one-sided). True is a run that crashed."""
    from scipy import stats  # 0.7 s of CPU time, which every ReFrame session would pay

    table = [[sum(x), len(x) - sum(x)] for x in (limited, unlimited)]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)


def verdict(original: str, flags: str, limited: Sequence[bool], unlimited: Sequence[bool]) -> str:
    """Words for what trying found. limited, unlimited: whether each run crashed."""
    fact = original.removesuffix("; the cause was not tried")
    tried = (
        f"{fact}. Tried: {sum(limited)} of {len(limited)} runs crashed with the limit,"
        f" {sum(unlimited)} of {len(unlimited)} without it"
    )
    p = chance(limited, unlimited)
    if p >= CHANCE:
        if all(limited) and all(unlimited):
            return f"{tried}. It also fails with an unlimited stack: not the stack limit alone"
        return f"{tried}: chance could do that (p = {p:.2f}), so no cause is named"
    why = (
        ": -Ofast implies -fstack-arrays in gfortran"
        if "-Ofast" in flags or "-fstack-arrays" in flags
        else ""
    )
    return (
        f"{tried} (p = {p:.3f}). Confirmed: the same program ran with an unlimited stack, so this"
        f" is the stack limit and not the optimisation{why}. Remedy: `ulimit -s unlimited`"
        + (", or -Ofast -fno-stack-arrays" if why else "")
    )


def first_error(text: str) -> str:
    """The line of a build's log that says what went wrong: what follows the first error is mostly
    its echo."""
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
