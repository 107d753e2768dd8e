"""Adapters. `registry` finds the built-in ones, those of installed packages, and files named in the site file."""

from __future__ import annotations

import importlib.util
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..errors import BadInput
from .base import App


def registry(site: dict[str, Any] | None = None) -> dict[str, App]:
    from .gromacs import Gromacs
    from .montecarlo_app import MonteCarlo
    from .mpas import Mpas
    from .namd import Namd
    from .openfoam import OpenFoam
    from .openradioss import OpenRadioss
    from .skerry_dft import SkerryDft

    apps: list[App] = [
        MonteCarlo(),
        Namd(),
        OpenRadioss(),
        OpenFoam(),
        Mpas(),
        Gromacs(),
        SkerryDft(),
    ]
    apps += [point.load()() for point in entry_points(group="hpcaas.apps")]
    for path in (site or {}).get("plugins", []):
        apps += _from_file(Path(path))
    return {app.name: app for app in apps}


def _from_file(path: Path) -> list[App]:
    """Every App subclass that a plug-in file defines."""
    if not path.is_file():
        raise BadInput(
            f"plug-in file '{path}' does not exist", "correct `plugins:` in the site file"
        )
    spec = importlib.util.spec_from_file_location(f"hpcaas_plugin_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = [
        v()
        for v in vars(module).values()
        if isinstance(v, type) and issubclass(v, App) and v.__module__ == module.__name__
    ]
    if not found:
        raise BadInput(
            f"plug-in file '{path}' defines no subclass of hpcaas.apps.base.App",
            "see docs/adapters.md",
        )
    return found
