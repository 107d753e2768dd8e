"""What a run is, what was measured, and how both are kept.

Every other module speaks in these words.
"""

from __future__ import annotations

import hashlib
import json
import re
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from . import RESULT_SCHEMA, __version__
from .errors import BadInput, read_json, read_text


# What ReFrame, the probes and process start add to an execution, measured on a small machine.
OVERHEAD_S = 1.0
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
    # Nor does a clock that somebody set while it ran.
    CLOCK = "impossible times"
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
        return _short_name(self)

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


# By value, beside the objects: what is kept inside one is copied along with it by model_copy, and
# would then name the configuration that it was copied from.
@lru_cache(maxsize=65536)
def _short_name(config: Configuration) -> str:
    text = json.dumps(config.model_dump(exclude_none=True), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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


# Readings of two processes' clocks are so far apart at most, beside the clocks' own resolution.
CLOCK_SLACK_S = 0.02


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
    # resolution of the application's clock; None: not known, a second is allowed for
    clock_s: Optional[float] = Field(None, ge=0, allow_inf_nan=False)
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

    @property
    def impossible(self) -> str:
        """Why its two clocks cannot both be right; empty if they may be. No part of a run takes
        longer than the whole."""
        seconds, wall = self.seconds, self.wall_seconds
        if seconds is None or wall is None:
            return ""
        resolution = 1.0 if self.clock_s is None else self.clock_s
        if seconds <= wall * 1.01 + resolution + CLOCK_SLACK_S:
            return ""
        return (
            f"the application's clock says {seconds:.4g} s, the whole run took {wall:.4g} s: a"
            " clock was set, or the file was edited"
        )


def check_shape(text: str) -> str:
    """PROVIDER/NAME@REGION: what is rented. The region may be left out."""
    if not re.fullmatch(r"[\w.+-]+/[\w.+$-]+(@[\w.-]+)?", text):
        raise ValueError(
            f"'{text}' is not PROVIDER/NAME@REGION, for instance aws/c7a.large@eu-west-1"
        )
    return text


class _Described(BaseModel):
    """Of a machine, what is reckoned with; everything else is only shown."""

    cores: Optional[int] = Field(None, ge=1)
    sockets: Optional[int] = Field(None, ge=1)
    threads_per_core: Optional[int] = Field(None, ge=1)
    memory_gib: Optional[float] = Field(None, gt=0, allow_inf_nan=False)
    price: Optional[str] = None
    # which one of its shape: a machine that was rented, or stands in a room
    instance: Optional[str] = Field(None, min_length=1)
    shape: Optional[Annotated[str, AfterValidator(check_shape)]] = None


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
        try:  # in one pass; whatever is wrong is then said by the slower way
            results = ResultSet.model_validate_json(read_text(path, "results file", remedy))
        except (ValidationError, RecursionError):
            results = None
        if results is None or results.schema_name != RESULT_SCHEMA:
            results = ResultSet._checked(path, remedy)
        absent = {s.machine for s in results.samples} - set(results.machines)
        if absent:
            raise BadInput(
                f"'{path}' does not describe machine '{min(absent)}' of its samples",
                "the file was edited or cut; export it again",
            )
        results._say_versions(path)
        return results

    @staticmethod
    def _checked(path: Path, remedy: str) -> "ResultSet":
        raw = read_json(path, "results file", remedy)
        if not isinstance(raw, dict) or raw.get("schema") != RESULT_SCHEMA:
            found = raw.get("schema", "nothing") if isinstance(raw, dict) else type(raw).__name__
            raise BadInput(
                f"'{path}' has schema '{found}', this suite reads '{RESULT_SCHEMA}'",
                "use the suite version that wrote it, or measure again",
            )
        try:
            return ResultSet.model_validate(raw)
        except ValidationError as error:
            raise BadInput(
                f"'{path}' does not follow {RESULT_SCHEMA}: {first_error(error)}",
                "the file was edited or cut; export it again",
            )

    def _say_versions(self, path: Path) -> None:
        """Remarks on what an earlier suite did otherwise."""
        if self.suite_version != __version__:
            self.notes.append(
                f"'{path.name}' was written by suite version {self.suite_version}, this is"
                f" {__version__}: runs are compared only where their input hashes agree"
            )
        if self.suite_version.startswith("0.1."):
            self.notes.append(
                f"'{path.name}': its numbers of runs followed the spread, as suite version"
                f" {self.suite_version} did: up to one report in seven claims what is not so"
            )


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


def instance_of(machine: dict[str, Any], name: str) -> str:
    """Which machine this is, whatever name its results were given. Results of the time before
    instances were recorded may name the host."""
    host = machine.get("host")
    return machine.get("instance") or (f"{name} on {host}" if host else name)


def _two_instances(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two descriptions are of two machines of one kind."""
    mine, theirs = one.get("instance"), other.get("instance")
    alike = {k: v for k, v in other.items() if k != "host"}
    return bool(mine and theirs and mine != theirs) and not differing(one, alike)


def _known_as(merged: ResultSet, machine: str, description: dict[str, Any]) -> str:
    """The name that an earlier merge in another order gave it, or its own."""
    instance = description.get("instance") or ""
    base = machine.removesuffix(f"-{instance[:6]}") if instance else machine
    for name in (base, machine):
        if instance and merged.machines.get(name, {}).get("instance") == instance:
            return name
    return machine


def _names(merged: ResultSet, one: ResultSet) -> dict[str, str]:
    """Under which name each machine of a set joins the others. A second instance that calls itself
    like the first gets a name of its own; a different machine of that name is refused."""
    names = {}
    for machine, description in one.machines.items():
        name = _known_as(merged, machine, description)
        if name in merged.machines and _two_instances(merged.machines[name], description):
            name = f"{machine}-{description['instance'][:6]}"
        known = merged.machines.setdefault(name, {**description, "id": name})
        other = differing(known, description)
        if other:
            raise BadInput(
                f"two different machines are both called '{machine}' ({'; '.join(other)})",
                "give one of them another name where you name its file: NAME=FILE",
            )
        names[machine] = name
    return names


def _refuse_twin(twin: Sample, sample: Sample) -> None:
    if _measured(twin) != _measured(sample):
        raise BadInput(
            f"two different samples of machine '{sample.machine}' have the id '{sample.id}'"
            f" (started {twin.started} and {sample.started})",
            "one file was edited, or two machines have one name: give one of them another"
            " where you name its file, NAME=FILE",
        )


class _Copies:
    """Runs that are in a set twice under other names: they are evidence once."""

    def __init__(self) -> None:
        self.seen: dict[tuple[Any, ...], Sample] = {}
        self.dropped = 0

    def is_copy(self, sample: Sample) -> bool:
        """Two runs of one configuration do not start in the same millisecond and take equally long
        by two clocks."""
        if sample.started is None or sample.source or not sample.ok:
            return False
        run = (sample.configuration, sample.started, sample.seconds, sample.wall_seconds)
        twin = self.seen.setdefault(run, sample)
        if twin is sample:
            return False
        if twin.machine != sample.machine:
            raise BadInput(
                f"'{sample.id}' of machine '{sample.machine}' is a copy of '{twin.id}' of machine"
                f" '{twin.machine}' (started {sample.started}, {sample.seconds:g} s)",
                "a run belongs to one machine: leave one of the files out",
            )
        self.dropped += 1
        return True


def merge(sets: list[ResultSet]) -> ResultSet:
    """Union of several result sets; a sample that is in two of them counts once."""
    merged, copies = ResultSet(), _Copies()
    seen: dict[tuple[str, str], Sample] = {}
    for one in sets:
        names = _names(merged, one)
        merged.provenance.update(one.provenance)
        merged.notes += [note for note in one.notes if note not in merged.notes]
        for sample in one.samples:
            if names[sample.machine] != sample.machine:
                sample = sample.model_copy(update={"machine": names[sample.machine]})
            twin = seen.setdefault((sample.machine, sample.id), sample)
            if twin is not sample:
                _refuse_twin(twin, sample)
            elif not copies.is_copy(sample):
                merged.samples.append(sample)
    if copies.dropped:
        merged.notes.append(
            f"{copies.dropped} samples are copies of others under another campaign's name (same"
            " start, same seconds): each counts once"
        )
    return _without_impossible(merged)


def _without_impossible(results: ResultSet) -> ResultSet:
    """Times that cannot be are no samples; they stay, with the reason."""
    found = 0
    for place, sample in enumerate(results.samples):
        if sample.ok and (why := sample.impossible):
            update = {"status": Status.CLOCK, "diagnosis": why, "seconds": None, "answers": {}}
            results.samples[place] = sample.model_copy(update=update)
            found += 1
    if found:
        results.notes.append(f"{found} runs have impossible times and count for nothing")
    return results
