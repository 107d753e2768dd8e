#!/usr/bin/env python3
"""What ranks of running jobs wait for, read from the memory of their processes.

    tests/soak/waits.py PID...

Each rank notes in its node's control segment what it waits for (src/memory/wait_note.hpp) once a
wait goes on. Nothing is asked of the rank, so a stuck one tells, too. Needs the right to read
/proc/PID/mem: the same user, or root. Standard library only.
"""

import struct
import sys
import time

MAGIC = 0x6C72_7463_7279_6B73  # "skryctrl"
VERSION = 3
HEADER = struct.Struct("<QII7QI")  # ready, version, reserved; the layout's offsets; members
MEMBER_BYTES, RANK_AT, NOTE_AT, TEXT_BYTES = 192, 4, 128, 56
MEMBERS_OFFSET, MEMBERS = 3, 10  # in HEADER


def control_segments(pid):
    """Addresses of mappings that may be one."""
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            if "/memfd:skerry" in line:
                yield int(line.split("-", 1)[0], 16)


def notes(memory, base):
    """(rank, pid, since in ns, text) of each member of the node, or nothing."""
    try:
        memory.seek(base)
        header = HEADER.unpack(memory.read(HEADER.size))
        if header[0] != MAGIC or header[1] != VERSION:
            return
        memory.seek(base + header[MEMBERS_OFFSET])
        table = memory.read(MEMBER_BYTES * header[MEMBERS])
    except (OSError, ValueError, struct.error):
        return
    for at in range(0, len(table), MEMBER_BYTES):
        rank, pid = struct.unpack_from("<ii", table, at + RANK_AT)
        since_ns, text = struct.unpack_from(f"<q{TEXT_BYTES}s", table, at + NOTE_AT)
        yield rank, pid, since_ns, text.split(b"\0", 1)[0].decode(errors="replace")


def of_process(pid):
    """What the ranks of this process wait for: a line, or nothing if it hosts none."""
    lines = []
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for base in control_segments(pid):
                for rank, owner, since_ns, text in notes(memory, base):
                    if owner != pid:
                        continue
                    waited_s = (time.monotonic_ns() - since_ns) / 1e9
                    told = f"waits for {waited_s:.1f} s: {text}" if since_ns else "does not wait"
                    lines.append(f"rank {rank} {told}")
    except OSError as error:
        return str(error)
    return "; ".join(lines)


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    for word in sys.argv[1:]:
        print(f"{word}: {of_process(int(word)) or 'no rank'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
