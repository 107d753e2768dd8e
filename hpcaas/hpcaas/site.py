"""The site file: what a user says about a machine that cannot be found out (YAML, optional). See
docs/site.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import yaml

from .errors import BadInput

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
    "skerry",
    "axis_environment",
    "build_on",
    "node_launcher",
    "containers",
    "gpus_per_node",
}


def load_site(path: Optional[Path]) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        content = yaml.safe_load(path.read_text()) or {}
    except OSError as error:
        raise BadInput(
            f"site file '{path}' cannot be read ({error.strerror})", "name an existing file"
        )
    except yaml.YAMLError as error:
        raise BadInput(f"site file '{path}' is not YAML: {error}", "correct it")
    if not isinstance(content, dict):
        raise BadInput(
            f"site file '{path}' holds a {type(content).__name__}, not a mapping",
            "see docs/site.md",
        )
    unknown = sorted(set(content) - KNOWN)
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
    if content.get("build_on", "compute") not in ("compute", "login"):
        raise BadInput(
            f"site file '{path}': build_on is '{content['build_on']}'", "write compute or login"
        )
    return content
