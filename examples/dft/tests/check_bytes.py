"""Holds the traffic that a job on separate hosts counted against the operating system's count: python check_bytes.py RESULTS.json

The job counts what it hands to the network; the hosts' interfaces also count TCP's and IP's headers and acknowledgements.
"""

import json
import sys
from pathlib import Path

WITHIN = 0.10


def main():
    results = json.loads(Path(sys.argv[1]).read_text())
    shares = {}
    for mode in ("distributed", "mirrored"):
        found = results[mode]
        if not found["bytes_by_operating_system"]:
            sys.exit(
                f"dft_check: {mode}: the operating system counted no bytes: not on separate hosts?"
            )
        shares[mode] = found["bytes_between_nodes"] / found["bytes_by_operating_system"]
    told = ", ".join(f"{mode} {share:.3f}" for mode, share in shares.items())
    good = all(abs(1 - share) <= WITHIN for share in shares.values())
    print(
        f"dft_check: bytes between nodes, counted / operating system: {told} {'ok' if good else 'NOT within 10 %'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
