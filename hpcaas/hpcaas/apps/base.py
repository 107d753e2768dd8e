"""What an adapter is. To add an application, subclass App and name the file under `plugins:`.

An adapter never runs anything itself: it answers with recipes (commands, environment, inputs) that
the runner hands to ReFrame, and reads the output back. All its functions are called on the machine
that plans, except `read`, which sees only files. An application that is one command needs no class:
see `configured.py`.
"""

from __future__ import annotations

import abc
import hashlib
from dataclasses import field
from pathlib import Path
from typing import Any, Optional

from pydantic.dataclasses import dataclass  # a plug-in that gives a wrong type is told so

from ..errors import BadInput
from ..model import Answer, Configuration, Figure
from ..toolchain import Compiler, Mpi


@dataclass(frozen=True)
class Size:
    """One input. `omits` says what of the paper's case it leaves out; empty only for the paper's
    own."""

    name: str
    what: str
    options: dict[str, Any]
    # rough cost on one core, for the plan's estimate before anything was measured
    core_seconds: float
    memory_mib: int  # of the whole job
    disk_mib: int
    omits: str = ""


@dataclass(frozen=True)
class Installation:
    """One way in which the application is there.

    `axes` are the values of the axes that this installation stands for.
    """

    name: str
    path: Optional[Path] = None  # directory or program
    modules: tuple[str, ...] = ()
    module_system: Optional[str] = None  # ReFrame's name: tmod4, lmod, spack, ...; None: no modules
    axes: dict[str, str] = field(default_factory=dict, hash=False)
    version: str = "unknown"
    options: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass
class State:
    """For `hpcaas apps`: is it there, and if not, the one command or page that would bring it."""

    installations: list[Installation]
    missing: str = ""
    remedy: str = ""


@dataclass
class Build:
    """Commands that produce `products` in the current directory; `sources` are hashed into the
    build's key."""

    commands: list[str]
    products: list[str]
    sources: list[Path] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    flags: str = ""


@dataclass
class Prepare:
    """Commands that make an input once; `key` names it among the inputs of all sizes and splits."""

    key: str
    commands: list[str]
    env: dict[str, str] = field(default_factory=dict)
    time_limit_s: int = 3600
    after: Optional["Prepare"] = None  # an input that this one starts from, found at $HPCAAS_PARENT


@dataclass
class Run:
    """The measured part. The working directory is fresh; inputs lie at $HPCAAS_INPUT and are
    read-only by convention."""

    executable: str
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)  # shell lines, not measured
    after: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)  # files beside stdout that `read` wants
    serial_launch: bool = False  # the program splits itself (thread-MPI): no MPI launcher in front


@dataclass
class Reading:
    """What the output says. `wrong` is empty if the correctness check passed."""

    seconds: Optional[float]  # None: the application has no clock; the whole run's time is taken
    figure: Optional[Figure]  # None: the time is the figure of merit
    wrong: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(config={"arbitrary_types_allowed": True})
class Context:
    """What a recipe may depend on besides the configuration."""

    compiler: Optional[Compiler]
    mpi: Optional[Mpi]
    installation: Optional[Installation]
    site: dict[str, Any]


class Unreadable(Exception):
    """The output lacks what a finished run prints: the run did not get to its end."""


class App(abc.ABC):
    name: str
    title: str
    vertical: str  # of the paper's Table 1
    origin: str  # where it comes from
    licence: str
    check: str  # the correctness check in one sentence
    figure: str  # the figure of merit in one sentence
    sizes: dict[str, Size]
    # Axis name -> True, or why it does not apply. Axes that are not named do not apply.
    axes: dict[str, bool | str]
    # Names in `Reading.extra` that must be the same for equal input under every MPI, split,
    # compiler and flag -> relative tolerance.
    agreement: dict[str, float] = {}
    # Resolution of its own clock: `Reading.seconds` may exceed the whole run's time by this. None:
    # not known, a second is allowed for.
    clock_s: Optional[float] = None

    def answers(self, reading: Reading) -> dict[str, Answer]:
        """What of a reading is compared between configurations."""
        return {
            name: Answer(value=float(reading.extra[name]), tolerance=tolerance)
            for name, tolerance in self.agreement.items()
            if reading.extra.get(name) is not None
        }

    @abc.abstractmethod
    def find(self, site: dict[str, Any]) -> State:
        """Installations on this machine. Must be quick and must not download."""

    def build(self, config: Configuration, context: Context) -> Optional[Build]:
        """How to build it for these choices; None: it is used as installed."""
        return None

    def prepare(self, config: Configuration, context: Context) -> Optional[Prepare]:
        return None

    @abc.abstractmethod
    def run(self, config: Configuration, context: Context) -> Run:
        """The command of one measured run."""

    @abc.abstractmethod
    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        """Reads the output; raises Unreadable if the run did not finish."""

    def size(self, config: Configuration) -> Size:
        if config.size not in self.sizes:
            raise BadInput(
                f"{self.name} has no size '{config.size}'", f"use one of {', '.join(self.sizes)}"
            )
        return self.sizes[config.size]

    def problem(self, config: Configuration) -> Any:
        """What else than the size's options makes the input another one: times of different
        problems are never compared. Must not depend on ranks, compilers and the like."""
        return None

    def estimate_s(self, config: Configuration, cores: int) -> float:
        """Seconds of one run, from the size alone; measured runs replace it."""
        return self.size(config).core_seconds / max(
            1, min(config.ranks * config.threads, cores * config.nodes)
        )

    def impossible(self, config: Configuration) -> Optional[str]:
        """Why this application cannot run a configuration (no threads, powers of two only, ...);
        None if it can."""
        return None

    def applies(self, axis: str) -> Optional[str]:
        """None if the axis applies, else why it does not."""
        if axis == "container":
            return None  # whatever can be started can be started in one
        if axis == "pmi":
            axis = "launcher"  # srun's own choice
        answer = self.axes.get(axis, "this application has no such choice")
        return None if answer is True else str(answer)

    def defaults(self) -> dict[str, Any]:
        """Axis values used where the user names none and the axis applies."""
        return {}


# Choices that reach whatever an MPI starts.
MPI_AXES: dict[str, bool | str] = dict.fromkeys(
    ("mpi", "framework", "interconnect", "filesystem", "launcher", "binding", "distribution",
     "split", "smt", "ranks_per_node", "nodes"),
    True,
)  # fmt: skip
BY_SITE = "built by the site: installations bring this axis"


class Installed(App):
    """An application that is not built here: the site file describes installations, packages bring
    one, or it is on the search path.

    Its axes are those of what an MPI starts, built elsewhere; `own_axes` says what differs.
    """

    own_axes: dict[str, bool | str] = {}
    reaches: dict[str, bool | str] = {
        **MPI_AXES,
        **dict.fromkeys(("compiler", "optimisation", "target"), BY_SITE),
        "variant": "one source",
        "installation": True,
    }

    @property
    def axes(self) -> dict[str, bool | str]:  # type: ignore[override]
        return {**self.reaches, **self.own_axes}

    def packaged(self) -> list[Installation]:
        """What packages brought; it stands before what the site file describes."""
        return []

    def on_path(self) -> list[Installation]:
        """What the search path finds, where nothing else is there."""
        return []

    def lacking(self, directory: Path) -> Optional[tuple[str, str]]:
        """What a directory that the site file names lacks, and the remedy; None if nothing."""
        return None

    @abc.abstractmethod
    def absent(self) -> tuple[str, str]:
        """What is missing where there is no installation, and what would bring it."""

    def find(self, site: dict[str, Any]) -> State:
        found = installations_from_site(site, self.name)
        for one in found:
            if one.path and (why := self.lacking(one.path)):
                return State([], *why)
        found = [*self.packaged(), *found] or self.on_path()
        return State(found) if found else State([], *self.absent())


def hash_files(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _modules(entry: dict[str, Any], way: str) -> tuple[str, ...]:
    """Environment modules that bring an installation. EasyBuild's are modules by another name."""
    value = entry[way]
    if isinstance(value, list):
        return tuple(map(str, value))
    if way == "easybuild":
        return (value.replace(".eb", "").replace("-", "/", 1),)
    return (str(value),)


def installations_from_site(site: dict[str, Any], app: str) -> list[Installation]:
    """Installations that the site file describes: a path, environment modules, or the name of a
    Spack or EasyBuild package. Spack packages are loaded through ReFrame's `spack` module
    system."""
    found = []
    for entry in site.get("installations", {}).get(app, []):
        if "name" not in entry:
            raise BadInput(
                f"an installation of {app} in the site file has no name",
                "give every installation a name; it is its value on the axis",
            )
        ways = [w for w in ("path", "modules", "spack", "easybuild") if w in entry]
        if len(ways) != 1:
            raise BadInput(
                f"installation '{entry['name']}' of {app} says {', '.join(ways) or 'nothing'}",
                "say exactly one of path, modules, spack, easybuild",
            )
        path, modules, system = None, (), None
        if ways == ["path"]:
            path = Path(entry["path"])
            if not path.exists():
                raise BadInput(
                    f"installation '{entry['name']}' of {app}: '{path}' does not exist",
                    "correct the path in the site file",
                )
        else:
            modules = _modules(entry, ways[0])
            system = "spack" if ways == ["spack"] else site.get("modules_system", "tmod4")
        axes = {k: str(v) for k, v in entry.get("axes", {}).items()}
        version, options = str(entry.get("version", "unknown")), entry.get("options", {})
        found.append(Installation(entry["name"], path, modules, system, axes, version, options))
    return found
