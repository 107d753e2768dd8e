"""What a run is, what was measured, and how both are kept.

Every other module speaks in these words.
"""

from __future__ import annotations

import hashlib
import json
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from . import RESULT_SCHEMA, __version__
from .errors import BadInput, read_json


# Finite and above zero: a clock that says anything else did not measure.
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Status(str, Enum):
    """How a run ended. Everything but `ok` is a result too, and is never silently dropped."""

    OK = "ok"
    WRONG = "wrong result"
    CRASHED = "crashed"
    FAILED = "failed"
    TIMEOUT = "timed out"
    BUILD_FAILED = "build failed"
    PREPARE_FAILED = "input preparation failed"
    DISK_FULL = "disk full"
    # Where the batch system put a run says nothing about the configuration.
    OTHER_PROCESSOR = "on another processor"
    MISSING = "missing"


class Configuration(BaseModel):
    """One point in the space of choices.

    None means that the axis does not apply to the application or was left alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    app: str
    size: str
    # which of several installations of the application; None: there is only one kind
    installation: Optional[str] = None
    nodes: int = Field(1, ge=1)
    ranks: int = Field(1, ge=1)  # of the whole job
    threads: int = Field(1, ge=1)  # per rank
    # None: nodes are filled evenly; fewer than cores: partly filled
    ranks_per_node: Optional[int] = Field(None, ge=1)
    smt: Optional[Literal["on", "off"]] = None  # None: the machine has one hardware thread per core
    compiler: Optional[str] = None
    optimisation: Optional[str] = None
    target: Optional[str] = None
    variant: Optional[str] = None
    library: Optional[str] = None
    mpi: Optional[str] = None
    framework: Optional[str] = None  # ofi, ucx, ...: what carries the MPI's bytes
    interconnect: Optional[str] = None
    filesystem: Optional[str] = None
    launcher: Optional[str] = None
    # srun's --mpi: how ranks that srun starts find each other; None: what the cluster is set to
    pmi: Optional[str] = None
    # name of an image of the site file; None: no container
    container: Optional[str] = None
    gpu: Optional[Literal["on", "off"]] = None  # None: the application has no such choice
    binding: Optional[str] = None
    distribution: Optional[str] = None

    def key(self) -> str:
        """Stable short name of the configuration; the same on every machine."""
        return self.short_name

    @cached_property
    def short_name(self) -> str:
        text = json.dumps(self.model_dump(exclude_none=True), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def per_node(self) -> int:
        return self.ranks_per_node or -(-self.ranks // self.nodes)

    def chosen(self) -> dict[str, Any]:
        """The axes that say something, in a fixed order, for tables and labels."""
        values = self.model_dump(exclude_none=True)
        for name in ("app", "size"):
            values.pop(name)
        values.pop("ranks")
        values.pop("threads")
        values["split"] = f"{self.ranks}x{self.threads}"
        if self.nodes == 1:
            values.pop("nodes")
        return values

    def label(self) -> str:
        words = {"smt": "smt-{}", "nodes": "{} nodes", "ranks_per_node": "{} ranks/node"}
        return " ".join(words.get(name, "{}").format(v) for name, v in self.chosen().items())


class Figure(BaseModel):
    """Figure of merit with its direction: which is better is never left to the reader."""

    name: str
    value: float = Field(allow_inf_nan=False)
    unit: str
    better: Literal["lower", "higher"]


class Answer(BaseModel):
    """A number that every run of equal input must reproduce."""

    value: float = Field(allow_inf_nan=False)
    tolerance: float = Field(ge=0, allow_inf_nan=False)  # relative, as the application states it


class Load(BaseModel):
    """What else the machine did during a sample, from the kernel; None where it does not say."""

    load_before: Optional[float] = None
    load_after: Optional[float] = None
    # of all CPU time; the hypervisor gave it to someone else
    steal_fraction: Optional[float] = None
    # of all CPU time; used by processes that are not this run
    other_fraction: Optional[float] = None
    # of the time that the run's threads wanted a CPU; they waited for one instead
    waited_fraction: Optional[float] = None
    frequency_mhz_before: Optional[float] = None
    frequency_mhz_after: Optional[float] = None
    cpu_seconds: Optional[float] = None  # user + system time of the run itself


class Energy(BaseModel):
    """Energy of a run; without a value the reason says why."""

    joules: Optional[float] = None
    source: Optional[str] = None
    reason: Optional[str] = None


class RankPlace(BaseModel):
    """Binding of one rank as the kernel reports it, not as it was asked for."""

    rank: int
    host: str
    cpus: list[int]
    # allowed CPUs of each thread seen while it ran
    threads: list[list[int]] = Field(default_factory=list)


def sample_id(machine: str, campaign: str, run: str) -> str:
    """A sample belongs to a machine: the same command elsewhere makes another sample."""
    return f"{machine}.{campaign}.{run}"


class Sample(BaseModel):
    """One execution."""

    id: str  # unique on its machine
    campaign: str
    configuration: Configuration
    machine: str  # key into ResultSet.machines
    repeat: int
    status: Status
    started: Optional[str] = None  # ISO 8601, UTC
    # time to solution by the application's own clock; None unless ok
    seconds: Optional[Seconds] = None
    wall_seconds: Optional[Seconds] = None  # of the launcher, start-up included
    figure: Optional[Figure] = None
    load: Load = Field(default_factory=Load)
    # host -> its own part of `load`; empty for runs on one node
    nodes: dict[str, Load] = Field(default_factory=dict)
    energy: Energy = Field(default_factory=Energy)
    placement: list[RankPlace] = Field(default_factory=list)
    provenance: Optional[str] = None  # key into ResultSet.provenance
    signal: Optional[int] = None
    diagnosis: Optional[str] = None
    log: Optional[str] = None
    flags: list[str] = Field(default_factory=list)  # outlier, noisy, shared, binding differs, ...
    extra: dict[str, Any] = Field(default_factory=dict)
    answers: dict[str, Answer] = Field(default_factory=dict)  # compared between configurations
    source: Optional[str] = None  # table and section of a publication; None: measured by this suite
    searched: bool = False  # run because a search liked it: shown, but no verdict is drawn from it

    @property
    def ok(self) -> bool:
        return self.status is Status.OK and self.seconds is not None

    @property
    def wall(self) -> Optional[float]:
        """Seconds of the whole run; published runs say only their application's own."""
        return self.wall_seconds or self.seconds if self.ok else None


class _Described(BaseModel):
    """Of a machine, what is reckoned with; everything else is only shown."""

    cores: Optional[int] = Field(None, ge=1)
    sockets: Optional[int] = Field(None, ge=1)
    threads_per_core: Optional[int] = Field(None, ge=1)
    memory_gib: Optional[float] = Field(None, gt=0, allow_inf_nan=False)
    price: Optional[str] = None


def _as_described(machine: dict[str, Any]) -> dict[str, Any]:
    _Described.model_validate(machine, strict=True)
    return machine


class ResultSet(BaseModel):
    """Everything that a report needs, in one file that can be merged with others."""

    schema_name: str = Field(RESULT_SCHEMA, alias="schema")
    suite_version: str = __version__
    machines: dict[str, Annotated[dict[str, Any], AfterValidator(_as_described)]] = Field(
        default_factory=dict
    )
    provenance: dict[str, dict[str, Any]] = Field(default_factory=dict)
    samples: list[Sample] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    model_config = ConfigDict(populate_by_name=True)

    def save(self, path: Path) -> None:
        """One machine, provenance set or sample per line: a difference of two files is readable."""
        parts = []
        for key, value in self.model_dump(mode="json", by_alias=True, exclude_none=True).items():
            if isinstance(value, dict):
                rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
                text = "{\n" + ",\n".join(rows) + "\n}" if rows else "{}"
            elif isinstance(value, list):
                text = "[\n" + ",\n".join(json.dumps(v) for v in value) + "\n]" if value else "[]"
            else:
                text = json.dumps(value)
            parts.append(f"{json.dumps(key)}: {text}")
        path.write_text("{\n" + ",\n".join(parts) + "\n}\n")

    @staticmethod
    def load(path: Path) -> "ResultSet":
        remedy = "name a results.json that `hpcaas measure` wrote"
        raw = read_json(path, "results file", remedy)
        if not isinstance(raw, dict) or raw.get("schema") != RESULT_SCHEMA:
            found = raw.get("schema", "nothing") if isinstance(raw, dict) else type(raw).__name__
            raise BadInput(
                f"'{path}' has schema '{found}', this suite reads '{RESULT_SCHEMA}'",
                "use the suite version that wrote it, or measure again",
            )
        try:
            results = ResultSet.model_validate(raw)
        except ValidationError as error:
            raise BadInput(
                f"'{path}' does not follow {RESULT_SCHEMA}: {first_error(error)}",
                "the file was edited or cut; export it again",
            )
        absent = {s.machine for s in results.samples} - set(results.machines)
        if absent:
            raise BadInput(
                f"'{path}' does not describe machine '{min(absent)}' of its samples",
                "the file was edited or cut; export it again",
            )
        if results.suite_version != __version__:
            results.notes.append(
                f"'{path.name}' was written by suite version {results.suite_version}, this is"
                f" {__version__}: runs are compared only where their input hashes agree"
            )
        if results.suite_version.startswith("0.1."):
            results.notes.append(
                f"'{path.name}': its numbers of runs followed the spread, as suite version"
                f" {results.suite_version} did: up to one report in seven claims what is not so"
            )
        return results


def first_error(error: ValidationError) -> str:
    """The first complaint with its place and value."""
    one = error.errors()[0]
    at = ".".join(map(str, one["loc"])) or "the file"
    return f"{at} is {one.get('input')!r}: {one['msg']}"


# What makes a machine another one. Kernel, frequency and load change on the same machine.
HARDWARE = (
    "cpu_model",
    "cpu_family_model_stepping",
    "architecture",
    "sockets",
    "cores",
    "threads_per_core",
    "host",
)
# Kernels keep a part of the memory, and another kernel keeps another part.
MEMORY_SLACK = 0.02


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """In what two descriptions of a machine differ, in words; empty for the same machine. What one
    of them does not say is not compared."""
    found = [
        f"{name} {one[name]} and {other[name]}"
        for name in HARDWARE
        if one.get(name) is not None and other.get(name) is not None and one[name] != other[name]
    ]
    memory, others = one.get("memory_gib"), other.get("memory_gib")
    if memory and others and abs(memory / others - 1.0) > MEMORY_SLACK:
        found.append(f"memory {memory} and {others} GiB")
    return found


def renamed(results: ResultSet, machine: str) -> ResultSet:
    """The results of one machine under another name."""
    if len(results.machines) != 1:
        raise BadInput(
            f"'{machine}=' names {len(results.machines)} machines at once"
            f" ({', '.join(results.machines)})",
            "give a name only to a file with the results of one machine",
        )
    (description,) = results.machines.values()
    samples = [s.model_copy(update={"machine": machine}) for s in results.samples]
    machines = {machine: {**description, "id": machine}}
    return results.model_copy(update={"machines": machines, "samples": samples})


def _measured(sample: Sample) -> Sample:
    """Without what is found out later: a file written earlier may not have it yet."""
    return sample.model_copy(update={"flags": [], "diagnosis": None})


def _add_machines(merged: ResultSet, one: ResultSet) -> None:
    for machine, description in one.machines.items():
        known = merged.machines.setdefault(machine, description)
        other = differing(known, description)
        if other:
            raise BadInput(
                f"two different machines are both called '{machine}' ({'; '.join(other)})",
                "give one of them another name where you name its file: NAME=FILE",
            )


def merge(sets: list[ResultSet]) -> ResultSet:
    """Union of several result sets; a sample that is in two of them counts once."""
    merged = ResultSet()
    seen: dict[tuple[str, str], Sample] = {}
    for one in sets:
        _add_machines(merged, one)
        merged.provenance.update(one.provenance)
        merged.notes += [note for note in one.notes if note not in merged.notes]
        for sample in one.samples:
            key = (sample.machine, sample.id)
            twin = seen.setdefault(key, sample)
            if twin is sample:
                merged.samples.append(sample)
            elif _measured(twin) != _measured(sample):
                raise BadInput(
                    f"two different samples of machine '{sample.machine}' have the id '{sample.id}'"
                    f" (started {twin.started} and {sample.started})",
                    "one file was edited, or two machines have one name: give one of them another"
                    " where you name its file, NAME=FILE",
                )
    return merged
