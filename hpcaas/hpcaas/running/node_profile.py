"""`python -m hpcaas.running.node_profile DIRECTORY` on every compute node: what it is and how
quiet, in one file per node."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

from ..machine import describe, read_topology
from .noise import check


def main(directory: Path) -> None:
    report = {
        "host": platform.node(),
        "machine": describe(),
        "topology": read_topology().as_list(),
        "noise": check().as_dict(),
    }
    # Renamed into place: who reads it on the shared file system sees all of it or nothing.
    temporary = directory / f".{report['host']}.part"
    temporary.write_text(json.dumps(report))
    os.replace(temporary, directory / f"{report['host']}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
