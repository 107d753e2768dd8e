"""Values of axes as the user wrote them: what cannot be meant is refused before anything is
planned."""

from __future__ import annotations

import re
from typing import Any

from .errors import BadInput
from .placement import BINDINGS, DISTRIBUTIONS

# Axes with a closed list of values. The others name what is installed, and the plan says so.
CLOSED: dict[str, tuple[str, ...]] = {
    "binding": BINDINGS,
    "distribution": DISTRIBUTIONS,
    "smt": ("on", "off"),
    "launcher": ("srun", "mpirun"),
    "gpu": ("on", "off"),
}
COUNTS = ("nodes", "ranks_per_node")
# srun's own names (`pmix_v4`): which there are, srun says when the campaign is planned.
_PMI = re.compile(r"[a-z][a-z0-9_]*")
# Everything else becomes a word of a command.
_WORD = re.compile(r"[A-Za-z0-9][\w.+:@/%=-]*")


def check_value(axis: str, value: Any) -> None:
    """Raises BadInput with the values that there are."""
    text = str(value)
    if axis in CLOSED and text not in CLOSED[axis]:
        raise BadInput(f"{axis} '{text}' is not known", f"use one of {', '.join(CLOSED[axis])}")
    if axis in COUNTS and not re.fullmatch(r"[1-9]\d{0,6}", text):
        raise BadInput(f"{axis} '{text}' is not a number of 1 or more", "write for instance 2")
    if axis == "split":
        from .plan import parse_split

        parse_split(text)
    elif axis == "pmi" and not _PMI.fullmatch(text):
        raise BadInput(f"pmi '{text}' is not a word of srun's --mpi", "write pmix, pmi2 or none")
    elif value is not None and not _WORD.fullmatch(text):
        raise BadInput(f"{axis} '{text}' is not a name", "use letters, digits and . _ + - : = /")


def parse_repeats(text: str) -> int:
    """How often every configuration is run."""
    if not re.fullmatch(r"[1-9]\d{0,5}", text.strip()):
        raise BadInput(
            f"repeats '{text}' is not one number of 1 or more",
            "write 10; a number that follows the spread finds effects in noise",
        )
    return int(text)


def check_positive(option: str, value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise BadInput(f"{option} is {value}", "give a number above 0")
