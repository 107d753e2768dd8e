"""What is installed on this machine: applications, compilers, MPIs, and images of the site file."""

from __future__ import annotations

from typing import Any, Literal, Optional

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .apps.base import App, Context, Installation
from .errors import BadInput, Missing
from .model import Configuration
from .toolchain import Compiler, Mpi, need_compiler, need_mpi


class Container(BaseModel):
    """An image of the site file. The launcher stays outside and starts one container per rank."""

    model_config = ConfigDict(extra="forbid")

    platform: Literal["Apptainer", "Singularity", "Podman", "Docker"]
    image: str = Field(min_length=1)
    mounts: list[str] = Field(default_factory=list)  # beside the campaign's own directories
    options: list[str] = Field(default_factory=list)


class Tools:
    """What is installed, looked up once."""

    def __init__(
        self,
        site: dict[str, Any],
        apps: dict[str, App],
        compilers: dict[str, Compiler],
        mpis: dict[str, Mpi],
    ):
        self.site = site
        self.apps = apps
        self.compilers = compilers
        self.mpis = mpis
        self._installations: dict[str, dict[str, Installation]] = {}

    def installations(self, app: str) -> dict[str, Installation]:
        if app not in self._installations:
            state = self.apps[app].find(self.site)
            if not state.installations:
                raise Missing(f"{app} is not there: {state.missing}", state.remedy)
            self._installations[app] = {i.name: i for i in state.installations}
        return self._installations[app]

    def context(self, config: Configuration) -> Context:
        if config.app not in self.apps:
            raise BadInput(
                f"there is no application '{config.app}'", f"use one of {', '.join(self.apps)}"
            )
        app = self.apps[config.app]
        installed = self.installations(config.app)
        if config.installation is not None and config.installation not in installed:
            raise Missing(
                f"{config.app} has no installation '{config.installation}'",
                f"use one of {', '.join(installed)}",
            )
        compiler = (
            need_compiler(self.compilers, config.compiler)
            if config.compiler and app.applies("compiler") is None
            else None
        )
        mpi = need_mpi(self.mpis, config.mpi) if config.mpi else None
        return Context(
            compiler,
            mpi,
            installed[config.installation]
            if config.installation
            else next(iter(installed.values())),
            self.site,
        )


def container_of(site: dict[str, Any], name: Optional[str]) -> Optional[Container]:
    if name is None:
        return None
    images = site.get("containers", {})
    if name not in images:
        raise Missing(
            f"the site file has no container '{name}' (it has: {', '.join(images) or 'none'})",
            "give `containers: {NAME: {platform: Apptainer, image: FILE}}` in the site file",
        )
    try:
        return Container.model_validate(images[name])
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise BadInput(f"container '{name}': {at}: {first['msg']}", "see docs/site.md")
