"""An application that is a command, or a check of ReFrame, described in a few lines of YAML.

See docs/adapters.md. Patterns are Python's, searched line by line; the last match counts.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Literal, Optional

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..axes import AXES
from ..errors import BadInput, read_yaml
from ..model import Configuration, Figure
from .base import App, Build, Context, Installation, Prepare, Reading, Run, Size, State, Unreadable

# Where a nested ReFrame leaves what it found.
_REPORT = "reframe-report.json"


# Choices that reach any command from outside.
DEFAULT_AXES = ("split", "binding", "mpi", "nodes", "launcher", "distribution", "smt")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NumberOf(_Strict):
    """A number in the output, by the first group of a pattern, with its unit and direction."""

    pattern: str
    unit: str = "s"
    better: Literal["lower", "higher"] = "lower"


class AnswerOf(_Strict):
    """A number that must be the same in every configuration, within a relative tolerance."""

    pattern: str
    tolerance: float = Field(ge=0)
    value: Optional[float] = None  # what it must be; None: what the others say


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
    check: Optional[str] = None  # pattern that a right run prints
    figure: Optional[NumberOf] = None
    seconds: Optional[str] = None  # pattern; None: the time of the whole run
    answers: dict[str, AnswerOf] = Field(default_factory=dict)
    sizes: dict[str, dict[str, Any]] = Field(default_factory=lambda: {"default": {}})
    axes: list[str] = Field(default_factory=lambda: list(DEFAULT_AXES))
    title: str = ""
    vertical: str = "your own"
    licence: str = "as installed"

    @model_validator(mode="after")
    def _possible(self) -> "Described":
        if (self.command is None) == (self.reframe is None):
            raise ValueError("say exactly one of command and reframe")
        if self.command and not self.check and not self.answers:
            raise ValueError("a command needs a check or answers: a wrong run must be noticed")
        unknown = [a for a in self.axes if a not in AXES]
        if unknown:
            raise ValueError(f"axis '{unknown[0]}' is not known; use {', '.join(AXES)}")
        patterns = [self.check, self.seconds, self.figure and self.figure.pattern]
        for pattern in (*patterns, *(a.pattern for a in self.answers.values())):
            try:
                groups = re.compile(pattern).groups if pattern else 1
            except re.error as error:
                raise ValueError(f"pattern '{pattern}' is not a regular expression: {error}")
            if not groups and pattern != self.check:
                raise ValueError(f"pattern '{pattern}' has no (group) around the number")
        if self.build and not self.products:
            raise ValueError("a build needs products: the files that it leaves")
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
        return float(found[-1].replace(",", "")) if found else None
    except ValueError:
        return None


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
                str(options.get("what", name)),
                options,
                float(options.get("core_seconds", 10)),
                int(options.get("memory_mib", 100)),
                int(options.get("disk_mib", 10)),
                "not in the paper",
            )
            for name, options in described.sizes.items()
        }
        self.axes = {axis: True for axis in described.axes}
        self.agreement = {name: a.tolerance for name, a in described.answers.items()}

    def find(self, site: dict[str, Any]) -> State:
        return State([Installation("described", self.path.parent, version=self.path.name)])

    def _fill(self, text: str, config: Configuration) -> str:
        """Values of the configuration and of the size in the user's words."""
        values = {
            **config.model_dump(exclude_none=True),
            **{k: v for k, v in self.size(config).options.items()},
            "here": str(self.path.parent),
        }
        # Only known names: braces of shells and programs stay as they are.
        return re.sub(r"\{(\w+)\}", lambda m: str(values.get(m.group(1), m.group(0))), text)

    def defaults(self) -> dict[str, Any]:
        return {"compiler": "gcc"} if self.described.build and "compiler" in self.axes else {}

    def build(self, config: Configuration, context: Context) -> Optional[Build]:
        if not self.described.build:
            return None
        from ..toolchain import target_flags

        compiler = context.compiler.name if context.compiler else "gcc"
        flags = [f"-{config.optimisation}"] if config.optimisation else []
        flags += target_flags(compiler, config.target) if config.target else []
        names = {"flags": " ".join(flags), "cc": "cc", "cxx": "c++"}
        if context.compiler:
            names.update(cc=context.compiler.cc or "cc", cxx=context.compiler.cxx)
        if context.mpi and context.mpi.mpicxx:
            names["mpicxx"] = context.mpi.mpicxx
        commands = []
        for line in self.described.build:
            for name, value in names.items():
                line = line.replace("{" + name + "}", value)
            commands.append(self._fill(line, config))
        sources = [self.path.parent / name for name in self.described.sources]
        absent = [s for s in sources if not s.is_file()]
        if absent:
            raise BadInput(
                f"source '{absent[0]}' of {self.name} does not exist", "correct sources:"
            )
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
        seconds = _last(one.seconds, stdout) if one.seconds else None
        if one.seconds and seconds is None:
            raise Unreadable(f"no line matches seconds '{one.seconds}'")
        figure = None
        if one.figure:
            value = _last(one.figure.pattern, stdout)
            if value is None:
                raise Unreadable(f"no line matches figure '{one.figure.pattern}'")
            figure = Figure(
                name="figure of merit", value=value, unit=one.figure.unit, better=one.figure.better
            )
        wrong = ""
        if one.check and not re.search(one.check, stdout, re.M):
            wrong = f"no line matches check '{one.check}'"
        extra: dict[str, Any] = {}
        for name, answer in one.answers.items():
            extra[name] = _last(answer.pattern, stdout)
            if extra[name] is None:
                wrong = wrong or f"no line matches answer '{answer.pattern}'"
            elif answer.value is not None:
                off = abs(extra[name] - answer.value)
                if not off <= answer.tolerance * abs(answer.value):
                    wrong = wrong or f"{name} is {extra[name]:g}, not {answer.value:g}"
        return Reading(seconds, figure, wrong, extra)

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
