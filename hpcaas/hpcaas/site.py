"""The site file: what a user says about a machine that cannot be found out (YAML, optional). See
docs/site.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Optional

from .errors import BadInput, read_yaml

KNOWN = {
    "scheduler",
    "access",
    "nodes_available",
    "modules_system",
    "installations",
    "compilers",
    "mpis",
    "plugins",
    "filesystems",
    "price",
    "openfoam_source",
    "machine",
    "axis_environment",
    "build_on",
    "node_launcher",
    "containers",
    "gpus_per_node",
}


def check_name(what: str, name: Optional[str]) -> None:
    """A name becomes part of paths: it must not lead anywhere else."""
    if name is not None and not re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,99}", name):
        raise BadInput(
            f"{what} '{name}' is not a name", "use letters, digits and . _ + -, at most 100"
        )


def load_site(path: Optional[Path]) -> dict[str, Any]:
    if path is None:
        return {}
    content = read_yaml(path, "site file") or {}
    if not isinstance(content, dict):
        raise BadInput(
            f"site file '{path}' holds a {type(content).__name__}, not a mapping",
            "see docs/site.md",
        )
    unknown = sorted(map(str, set(content) - KNOWN))
    if unknown:
        raise BadInput(
            f"site file '{path}' has an unknown key '{unknown[0]}'",
            f"use {', '.join(sorted(KNOWN))}",
        )
    for key, kind in (
        ("filesystems", dict),
        ("axis_environment", dict),
        ("installations", dict),
        ("containers", dict),
        ("access", list),
        ("compilers", list),
        ("mpis", list),
        ("plugins", list),
    ):
        if key in content and not isinstance(content[key], kind):
            raise BadInput(
                f"site file '{path}': {key} is a {type(content[key]).__name__}, not a {'mapping' if kind is dict else 'list'}",
                "see docs/site.md",
            )
    for key in ("nodes_available", "gpus_per_node"):
        count = content.get(key, 1)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 1_000_000:
            raise BadInput(f"site file '{path}': {key} is '{count}'", "write a number, 1 or more")
    for key in ("machine", "price", "scheduler", "node_launcher", "modules_system"):
        if key in content and not isinstance(content[key], str):
            raise BadInput(f"site file '{path}': {key} is '{content[key]}'", "write a word")
    check_name("machine of the site file", content.get("machine"))
    if content.get("build_on", "compute") not in ("compute", "login"):
        raise BadInput(
            f"site file '{path}': build_on is '{content['build_on']}'", "write compute or login"
        )
    return content
