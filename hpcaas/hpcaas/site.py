"""The site file: what a user says about a machine that cannot be found out (YAML, optional). See
docs/site.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from .axes import AxisName
from .errors import BadInput, read_yaml
from .model import check_shape


def check_name(what: str, name: Optional[str]) -> None:
    """A name becomes part of paths: it must not lead anywhere else."""
    if name is not None and not re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,99}", name):
        raise BadInput(
            f"{what} '{name}' is not a name", "use letters, digits and . _ + -, at most 100"
        )


def _plain(value: Any) -> Any:
    """Versions and variables that YAML reads as numbers are words."""
    return str(value) if isinstance(value, (int, float)) and value is not True else value


Word = Annotated[str, BeforeValidator(_plain), Field(min_length=1)]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Environment = dict[str, Annotated[str, BeforeValidator(_plain)]]
# What an installation may have been built with or for.
Built = Literal[
    "compiler", "optimisation", "target", "variant", "library", "mpi", "framework", "interconnect",
]  # fmt: skip


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Compiler(_Strict):
    name: Word
    cxx: Word
    cc: Word
    fortran: Optional[Word] = None


class _Mpi(_Strict):
    name: Word
    mpirun: Word
    mpicxx: Optional[Word] = None
    kind: Optional[Literal["openmpi", "mpich", "intelmpi"]] = None
    env: Environment = {}


class _Installation(_Strict):
    """One of path, modules, spack and easybuild, which `installations_from_site` checks."""

    name: Word
    path: Word = ""
    modules: Union[Word, list[Word]] = ""
    spack: Word = ""
    easybuild: Word = ""
    version: Word = "unknown"
    axes: dict[Built, Word] = {}
    options: dict[str, Any] = {}


class _Site(_Strict):
    scheduler: Word = "local"
    access: list[Word] = []
    nodes_available: Count = 1
    build_on: Literal["compute", "login"] = "compute"
    node_launcher: Word = ""
    gpus_per_node: Count = 1
    containers: dict[str, dict[str, Any]] = {}  # each is checked where it is used
    modules_system: Word = ""
    machine: Word = ""
    price: Word = ""
    shape: Optional[Annotated[str, AfterValidator(check_shape)]] = None
    compilers: list[_Compiler] = []
    mpis: list[_Mpi] = []
    filesystems: dict[str, Word] = {}
    axis_environment: dict[AxisName, dict[str, Environment]] = {}
    openfoam_source: Word = ""
    installations: dict[str, list[_Installation]] = {}
    plugins: list[Word] = []


_KINDS = {"dict_type": "not a mapping", "model_type": "not a mapping", "list_type": "not a list"}


def _complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    at = ".".join(map(str, first["loc"])) or "it"
    if first["type"] in ("extra_forbidden", "invalid_key"):
        return f"unknown key '{at}'"
    if first["type"] == "missing":
        return f"{at} is missing"
    return f"{at} is '{first['input']}': {_KINDS.get(first['type'], first['msg'])}"


def load_site(path: Optional[Path]) -> dict[str, Any]:
    """What the file says, and nothing that it does not say."""
    if path is None:
        return {}
    content = read_yaml(path, "site file")
    try:
        site = _Site.model_validate({} if content is None else content)
    except ValidationError as error:
        raise BadInput(f"site file '{path}': {_complaint(error)}", "see docs/site.md")
    said = site.model_dump(exclude_unset=True)
    check_name("machine of the site file", said.get("machine"))
    return said
