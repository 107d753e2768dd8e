"""Adapters. `registry` finds the built-in ones, those of installed packages, and files named in the
site file."""

from __future__ import annotations

import importlib.util
import traceback
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Callable

from ..errors import BadInput, HpcaasError
from .base import App, Build, Prepare, Run, Size, State
from .configured import from_yaml


def registry(site: dict[str, Any] | None = None) -> dict[str, App]:
    from .gromacs import Gromacs
    from .montecarlo_app import MonteCarlo
    from .mpas import Mpas
    from .namd import Namd
    from .openfoam import OpenFoam
    from .openradioss import OpenRadioss

    apps: list[App] = [MonteCarlo(), Namd(), OpenRadioss(), OpenFoam(), Mpas(), Gromacs()]
    for point in entry_points(group="hpcaas.apps"):
        what = f"plug-in '{point.name}'"
        apps.append(guarded(_load(what, lambda: point.load()()), what))
    for path in (site or {}).get("plugins", []):
        apps += _from_file(Path(path))
    return {app.name: app for app in apps}


def _load(what: str, load: Callable[[], Any]) -> Any:
    """Runs code of the user's own; whatever it raises is a message with the place."""
    try:
        return load()
    except HpcaasError:
        raise
    except Exception as error:  # a plug-in may fail in any way
        frames = traceback.extract_tb(error.__traceback__)
        at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        raise BadInput(
            f"{what} failed: {type(error).__name__}: {error}{at}", "correct or remove it"
        )


def _from_file(path: Path) -> list[App]:
    """Every App subclass that a plug-in file defines, or the application that a YAML describes."""
    if not path.is_file():
        raise BadInput(
            f"plug-in file '{path}' does not exist", "correct `plugins:` in the site file"
        )
    if path.suffix in (".yaml", ".yml"):
        return [from_yaml(path)]
    spec = importlib.util.spec_from_file_location(f"hpcaas_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise BadInput(f"plug-in '{path}' is neither Python nor YAML", "name it .py or .yaml")
    module = importlib.util.module_from_spec(spec)
    execute = spec.loader.exec_module
    _load(f"plug-in '{path}'", lambda: execute(module))
    kinds = [
        v
        for v in vars(module).values()
        if isinstance(v, type) and issubclass(v, App) and v.__module__ == module.__name__
    ]
    if not kinds:
        raise BadInput(
            f"plug-in file '{path}' defines no subclass of hpcaas.apps.base.App",
            "see docs/adapters.md",
        )
    whats = [f"'{kind.__name__}' of plug-in '{path}'" for kind in kinds]
    return [guarded(_load(what, kind), what) for what, kind in zip(whats, kinds)]


# What the suite calls of a plug-in while it plans, and what must come back.
_CALLED: dict[str, Any] = {
    "find": State,
    "build": (Build, type(None)),
    "prepare": (Prepare, type(None)),
    "run": Run,
    "impossible": (str, type(None)),
    "estimate_s": (int, float),
    "defaults": dict,
    "problem": object,
}
# What it must say of itself.
_SAID = {
    **dict.fromkeys(("name", "title", "vertical", "origin", "licence", "check", "figure"), str),
    "sizes": dict,
    "axes": dict,
}


def guarded(app: App, what: str) -> App:
    """The same application; whatever it raises, or does not say or return, is a message."""
    for name, kind in _SAID.items():
        said = getattr(app, name, None)
        if not isinstance(said, kind) or (not said and name != "axes"):
            raise BadInput(f"{what} says no {name}", "see docs/adapters.md")
    if not all(isinstance(size, Size) for size in app.sizes.values()):
        raise BadInput(f"{what}: a size is no Size", "see docs/adapters.md")

    def guard(name: str, kind: Any) -> Callable[..., Any]:
        method = getattr(app, name)

        def call(*args: Any) -> Any:
            found = _load(f"{what}: {name}()", lambda: method(*args))
            if not isinstance(found, kind):
                wanted = kind[0] if isinstance(kind, tuple) else kind
                raise BadInput(
                    f"{what}: {name}() returned {type(found).__name__}, not {wanted.__name__}",
                    "see docs/adapters.md",
                )
            return found

        return call

    for name, kind in _CALLED.items():
        setattr(app, name, guard(name, kind))
    return app
