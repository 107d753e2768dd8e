"""Options of skerry.xp, the same on every member."""

from __future__ import annotations

from collections.abc import Callable

import skerry as sk

values = {
    "whole_bytes": 1 << 20,
    "loop_bytes": 0,
    "sum_bytes": 0,
    "gather_bytes": 1 << 30,
    "check_calls": 0,
    "strict": 0,
}


chosen: set[str] = set()  # options that the program has set
why = {"whole_bytes": "not measured yet: no job"}
listeners: list[Callable[[], None]] = []  # called when options change


def options(**changes: int) -> dict[str, int]:
    """Sets and returns options; all members set the same.

    whole_bytes: new arrays up to this size are kept whole on every rank. Unless it is set, what
    the ranks need for a synchronization beside the speed of memory decides when the job begins.
    loop_bytes: the most that a rank may take for divided arrays that the program reads by rows or
    elements: they become whole when that would have cost less. Of blocks that the ranks of a node
    can map half counts, since they take memory as they are written. By default a quarter of the
    free memory, shared by the ranks of a machine and the job's spares; 0 if whole_bytes was set
    before the job began.
    sum_bytes: what the whole arrays of a rank may take together. When half of it lives, new arrays
    are divided from a 64th of the size on, with three quarters from 1 KiB on. 0: no bound. By
    default as loop_bytes.
    gather_bytes: the largest array that a function may collect on every rank when it has no
    distributed method. check_calls: 1 compares what the members are about to exchange, to find
    calls that differ. strict: 1 refuses numpy.asarray(x), DLPack and pickle of every array with
    axes, on one rank as well: for programs that are to run on several. Not collective. Errors:
    InvalidError (no such option)."""
    for name, value in changes.items():
        if name not in values:
            raise sk.InvalidError(f"no option {name!r}: there are {', '.join(values)}")
        values[name] = int(value)
        chosen.add(name)
        why[name] = "set by the program"
    # One rank alone may read them: then nothing begins anew, such as counts that all have alike.
    for told in listeners if changes else ():
        told()
    return dict(values)


def explain() -> str:
    """Why arrays are whole or divided, in words. Not collective. Errors: none."""
    return (
        f"new arrays are whole on every rank up to {values['whole_bytes']} bytes: "
        f"{why['whole_bytes']}; divided ones that are read by rows or elements become whole, up to "
        f"{values['loop_bytes']} bytes"
    )
