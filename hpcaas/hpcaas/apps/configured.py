"""An application that is a command, or a check of ReFrame, described in a few lines of YAML.

See docs/adapters.md. Patterns are Python's, searched line by line; the last match counts.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Iterator, Literal, Optional

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..axes import AxisName
from ..errors import BadInput, read_yaml
from ..model import Configuration, Figure
from ..toolchain import target_flags
from .base import App, Build, Context, Installation, Prepare, Reading, Run, Size, State, Unreadable

# Where a nested ReFrame leaves what it found.
_REPORT = "reframe-report.json"


# Choices that reach any command from outside.
DEFAULT_AXES = ("split", "binding", "mpi", "nodes", "launcher", "distribution", "smt")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"'{pattern}' is not a regular expression: {error}")
    return pattern


def _has_number(pattern: str) -> str:
    if not re.compile(_compiles(pattern)).groups:
        raise ValueError(f"'{pattern}' has no (group) around the number")
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]
NumberPattern = Annotated[str, AfterValidator(_has_number)]  # its first group is the number


class NumberOf(_Strict):
    """A number in the output, with its unit and direction."""

    pattern: NumberPattern
    unit: str = "s"
    better: Literal["lower", "higher"] = "lower"


class AnswerOf(_Strict):
    """A number that must be the same in every configuration, within a relative tolerance."""

    pattern: NumberPattern
    tolerance: float = Field(ge=0, allow_inf_nan=False)
    value: Optional[float] = None  # what it must be; None: what the others say


class SizeOf(BaseModel):
    """One size. Further keys are words of the command."""

    model_config = ConfigDict(extra="allow")

    what: str = ""
    core_seconds: float = Field(10.0, gt=0, allow_inf_nan=False)
    memory_mib: int = Field(100, ge=0)
    disk_mib: int = Field(10, ge=0)


class ReframeCheck(_Strict):
    """A check of ReFrame. `set`: its variables, with {ranks} and the like filled in."""

    file: str
    check: str
    figure: Optional[str] = None  # name of its performance variable; None: the time
    better: Literal["lower", "higher"] = "lower"
    set: dict[str, str] = Field(default_factory=dict)


class Described(_Strict):
    """The whole file."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")
    command: Optional[str] = None  # {ranks}, {threads}, {nodes}, {size} and own keys of the size
    reframe: Optional[ReframeCheck] = None
    build: list[str] = Field(default_factory=list)  # {flags}: of optimisation and target
    products: list[str] = Field(default_factory=list)  # files that the build leaves
    sources: list[str] = Field(default_factory=list)  # beside the YAML, at {here}
    prepare: list[str] = Field(default_factory=list)  # makes the input once, at $HPCAAS_INPUT
    check: Optional[Pattern] = None  # what a right run prints
    figure: Optional[NumberOf] = None
    seconds: Optional[NumberPattern] = None  # None: the time of the whole run
    answers: dict[str, AnswerOf] = Field(default_factory=dict)
    sizes: dict[str, SizeOf] = Field(default_factory=lambda: {"default": SizeOf()})
    axes: list[AxisName] = Field(default_factory=lambda: list(DEFAULT_AXES))
    title: str = ""
    vertical: str = "your own"
    licence: str = "as installed"

    @model_validator(mode="after")
    def _possible(self) -> "Described":
        if (self.command is None) == (self.reframe is None):
            raise ValueError("say exactly one of command and reframe")
        if self.command is not None and not self.command.strip():
            raise ValueError("the command is empty")
        if self.command and not self.check and not self.answers:
            raise ValueError("a command needs a check or answers: a wrong run must be noticed")
        if self.build and not self.products:
            raise ValueError("a build needs products: the files that it leaves")
        if not self.sizes:
            raise ValueError("sizes is empty; leave it out, or name one")
        return self


def from_yaml(path: Path) -> "Configured":
    try:
        content = read_yaml(path, "application")
        return Configured(Described.model_validate(content), path)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"])) or "the file"
        raise BadInput(f"application '{path}': {at}: {first['msg']}", "see docs/adapters.md")


def _last(pattern: str, text: str) -> Optional[float]:
    """The number of the last match; None without one."""
    found = [m.group(1) for m in re.finditer(pattern, text, re.M)]
    try:
        return float((found[-1] or "").replace(",", "")) if found else None
    except ValueError:
        return None


def _needed(pattern: str, text: str, what: str) -> float:
    value = _last(pattern, text)
    if value is None:
        raise Unreadable(f"no line matches {what} '{pattern}'")
    return value


def _build_words(config: Configuration, context: Context) -> dict[str, str]:
    """What {flags}, {cc} and the like of a build line stand for."""
    compiler, mpi = context.compiler, context.mpi
    flags = [f"-{config.optimisation}"] if config.optimisation else []
    flags += target_flags(compiler.name if compiler else "gcc", config.target)
    words = {"flags": " ".join(flags), "cc": "cc", "cxx": "c++"}
    if compiler:
        words.update(cc=compiler.cc or "cc", cxx=compiler.cxx)
    if mpi and mpi.mpicxx:
        words["mpicxx"] = mpi.mpicxx
    return words


@lru_cache(maxsize=256)
def _content(path: Path, changed_ns: int) -> str:
    """Of an input, read again only after it has changed."""
    del changed_ns
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()[:16]


class Configured(App):
    def __init__(self, described: Described, path: Path):
        self.described, self.path = described, path.resolve()
        self.name = described.name
        self.title = described.title or described.name
        self.vertical, self.licence = described.vertical, described.licence
        self.origin = f"described in {path.name}"
        judged = "as ReFrame judges" if described.reframe else "answers agree"
        self.check = described.check or judged
        self.figure = described.figure.unit if described.figure else "seconds (less is better)"
        self.sizes = {
            name: Size(
                name,
                size.what or name,
                size.model_dump(),
                size.core_seconds,
                size.memory_mib,
                size.disk_mib,
                "not in the paper",
            )
            for name, size in described.sizes.items()
        }
        self.axes = {axis: True for axis in described.axes}
        self.agreement = {name: a.tolerance for name, a in described.answers.items()}

    def find(self, site: dict[str, Any]) -> State:
        return State([Installation("described", self.path.parent, version=self.path.name)])

    def _fill(self, text: str, config: Configuration) -> str:
        """Values of the configuration and of the size in the user's words."""
        values = {
            **config.model_dump(exclude_none=True),
            **self.size(config).options,
            "here": str(self.path.parent),
        }
        # Only known names: braces of shells and programs stay as they are.
        return re.sub(r"\{(\w+)\}", lambda m: str(values.get(m.group(1), m.group(0))), text)

    def problem(self, config: Configuration) -> Any:
        """The words that make and name the input, and the content of the files beside the YAML that
        they name. Not of the program: each machine may have its own build of it."""
        one, size = self.described, self.size(config).options
        _, _, arguments = (one.command or "").partition(" ")
        words = [*one.prepare, one.reframe.file if one.reframe else arguments]
        values = {**size, "here": str(self.path.parent)}
        files: set[Path] = set()
        for text in words:
            filled = re.sub(r"\{(\w+)\}", lambda m: str(values.get(m[1], m[0])), text)
            named = (self.path.parent / word for word in re.findall(r"[^\s'\"=;<>|&$()]+", filled))
            files |= {f for f in named if f.is_file() and self.path.parent in f.parents}
        return [words, [(f.name, _content(f, f.stat().st_mtime_ns)) for f in sorted(files)]]

    def defaults(self) -> dict[str, Any]:
        return {"compiler": "gcc"} if self.described.build and "compiler" in self.axes else {}

    def build(self, config: Configuration, context: Context) -> Optional[Build]:
        if not self.described.build:
            return None
        sources = [self.path.parent / name for name in self.described.sources]
        absent = [s for s in sources if not s.is_file()]
        if absent:
            raise BadInput(
                f"source '{absent[0]}' of {self.name} does not exist", "correct sources:"
            )
        names = _build_words(config, context)
        commands = []
        for line in self.described.build:
            for name, value in names.items():
                line = line.replace("{" + name + "}", value)
            commands.append(self._fill(line, config))
        return Build(commands, self.described.products, sources, {}, names["flags"])

    def prepare(self, config: Configuration, context: Context) -> Optional[Prepare]:
        lines = [self._fill(line, config) for line in self.described.prepare]
        return Prepare(f"{config.size}", lines) if lines else None

    def run(self, config: Configuration, context: Context) -> Run:
        wrapped = self.described.reframe
        if wrapped is None:
            program, *rest = self._fill(self.described.command or "", config).split(" ", 1)
            return Run(program, rest)
        sets = [
            f"-S {shlex.quote(f'{wrapped.check}.{k}={self._fill(v, config)}')}"
            for k, v in wrapped.set.items()
        ]
        reframe = Path(sys.executable).parent / "reframe"
        args = [
            f"-c {shlex.quote(self._fill(wrapped.file, config))}",
            f"-n '^{wrapped.check}( |$)' -r --exec-policy=serial --prefix=nested",
            f"--report-file={_REPORT}",
            *sets,
        ]
        # ReFrame places its own ranks; its environment must not be that of the session around it.
        env = {"RFM_USE_LOGIN_SHELL": "no"}
        return Run(str(reframe), args, env, outputs=[_REPORT], serial_launch=True)

    def read(self, stdout: str, directory: Path, config: Configuration) -> Reading:
        if self.described.reframe:
            return self._read_reframe(directory / _REPORT)
        one = self.described
        seconds = _needed(one.seconds, stdout, "seconds") if one.seconds else None
        figure = None
        if one.figure:
            figure = Figure(
                name="figure of merit",
                value=_needed(one.figure.pattern, stdout, "figure"),
                unit=one.figure.unit,
                better=one.figure.better,
            )
        said = {name: _last(answer.pattern, stdout) for name, answer in one.answers.items()}
        return Reading(seconds, figure, next(self._faults(stdout, said), ""), dict(said))

    def _faults(self, stdout: str, said: dict[str, Optional[float]]) -> Iterator[str]:
        check = self.described.check
        if check and not re.search(check, stdout, re.M):
            yield f"no line matches check '{check}'"
        for name, answer in self.described.answers.items():
            value = said[name]
            if value is None:
                yield f"no line matches answer '{answer.pattern}'"
            elif answer.value is not None:
                if not abs(value - answer.value) <= answer.tolerance * abs(answer.value):
                    yield f"{name} is {value:g}, not {answer.value:g}"

    def _read_reframe(self, report: Path) -> Reading:
        """The result of the check in ReFrame's own report."""
        wrapped = self.described.reframe
        assert wrapped
        try:
            cases = json.loads(report.read_text())["runs"][-1]["testcases"]
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise Unreadable(f"no report of ReFrame ({type(error).__name__})")
        if len(cases) != 1:
            raise Unreadable(f"ReFrame ran {len(cases)} cases of '{wrapped.check}', not one")
        case = cases[0]
        failed = case.get("result") != "pass"
        wrong = f"{case.get('fail_phase')}: {case.get('fail_reason')}" if failed else ""
        figure = None
        if wrapped.figure and not failed:
            values = {k.split(":")[-1]: v for k, v in (case.get("perfvalues") or {}).items()}
            if wrapped.figure not in values:
                raise Unreadable(
                    f"the check has no performance variable '{wrapped.figure}',"
                    f" it has {', '.join(values) or 'none'}"
                )
            found = values[wrapped.figure]
            figure = Figure(
                name=wrapped.figure,
                value=float(found[0]),
                unit=str(found[4]),
                better=wrapped.better,
            )
        seconds = case.get("time_run")
        return Reading(float(seconds) if seconds else None, figure, wrong, {})
