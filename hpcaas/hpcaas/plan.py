"""The runs of a campaign and their estimated time, before anything starts; what is left out, and why."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass, field
from typing import Any, Iterable, Optional

import archspec.cpu

from . import slurm
from .apps.base import App, Installation
from .axes import AXES
from .errors import BadInput, Missing
from .machine import Topology
from .model import Configuration, ResultSet
from .placement import DEFAULT_DISTRIBUTION, place
from .running.jobs import Tools, container_of
from .stats import summarise
from .toolchain import TARGET_NEEDS

FIELDS = (
    "installation",
    "compiler",
    "optimisation",
    "target",
    "variant",
    "library",
    "mpi",
    "framework",
    "interconnect",
    "filesystem",
    "launcher",
    "pmi",
    "container",
    "gpu",
    "binding",
    "distribution",
    "smt",
    "ranks_per_node",
    "nodes",
)


# Runs of every configuration. Fixed before the first run: a number that follows the spread seen so
# far makes effects out of noise. Ten show a difference of 5 % under a noise of 3 %.
REPEATS = 10


@dataclass
class Choice:
    """What the user asks for: values per axis. A missing axis takes the application's default."""

    apps: list[str]
    sizes: dict[str, str]  # application -> size; "" is for all others
    values: dict[str, list[Any]] = field(default_factory=dict)  # axis -> values; split as "RxT"
    mode: str = "full"  # full, oat (one at a time), search
    repeats: int = REPEATS

    @property
    def most_nodes(self) -> int:
        return max(int(n) for n in self.values.get("nodes", [1]))


@dataclass
class Planned:
    config: Configuration
    estimate_s: float  # of one execution
    measured: bool  # the estimate comes from an earlier run of this configuration


@dataclass
class LeftOut:
    what: str
    why: str
    count: int = 1


@dataclass
class Plan:
    runs: list[Planned]
    left_out: list[LeftOut]
    repeats: int
    mode: str

    def seconds(self) -> float:
        """Of all runs. Builds and inputs come on top, once."""
        return self.repeats * sum(r.estimate_s + OVERHEAD_S for r in self.runs)


# What ReFrame, the probes and process start add to an execution, measured on a small machine.
OVERHEAD_S = 1.0


def parse_split(text: str) -> tuple[int, int]:
    try:
        ranks, threads = (int(v) for v in text.lower().split("x"))
    except ValueError:
        raise BadInput(f"split '{text}' is not RANKSxTHREADS", "write for instance 2x1")
    if ranks < 1 or threads < 1:
        raise BadInput(f"split '{text}' has a zero or negative part", "write for instance 2x1")
    return ranks, threads


def _candidates(
    app: App,
    choice: Choice,
    machine: dict[str, Any],
    installed: list[Installation],
    left: list[LeftOut],
) -> dict[str, list[Any]]:
    """Values per axis for one application, with those that do not apply taken out."""
    values: dict[str, list[Any]] = {}
    defaults = app.defaults()
    carried = {axis for i in installed for axis in i.axes}
    for axis in (*FIELDS, "split"):
        asked = choice.values.get(axis)
        why = app.applies(axis)
        if axis == "installation":
            values[axis] = _installations(app, choice, installed, left)
            continue
        if asked and why is not None and axis in carried:
            asked = None  # selects installations, see below
        if asked and why is not None:
            # One value for all applications is a setting, not a comparison: nothing is lost where
            # it does not apply.
            if len(asked) > 1:
                left.append(LeftOut(f"{app.name}: {axis} {', '.join(map(str, asked))}", why))
            asked = None
        if asked and len(asked) > 1:
            reason = AXES[axis].unmeasurable(machine)
            if reason:
                # Without SMT neither `on` nor `off` says anything of a run.
                kept = [] if axis == "smt" else asked[:1]
                left.append(
                    LeftOut(
                        f"{app.name}: {axis} {', '.join(map(str, asked[len(kept) :]))}",
                        reason,
                        len(asked) - len(kept),
                    )
                )
                asked = kept
        values[axis] = list(dict.fromkeys(asked)) if asked else [defaults.get(axis)]
    if values["split"] == [None]:
        values["split"] = ["1x1"]
    return values


def _installations(
    app: App, choice: Choice, installed: list[Installation], left: list[LeftOut]
) -> list[Optional[str]]:
    """Names of the installations to run. Axes that an application cannot be built for reach it through installations: asking for
    compilers or targets selects those that stand for them."""
    named = choice.values.get("installation")
    chosen = [i for i in installed if named is None or named == ["all"] or i.name in named]
    selecting = [
        axis
        for axis in FIELDS
        if choice.values.get(axis)
        and axis != "installation"
        and app.applies(axis) is not None
        and any(axis in i.axes for i in installed)
    ]
    for axis in selecting:
        asked = [str(v) for v in choice.values[axis]]
        none_has = [v for v in asked if not any(i.axes.get(axis) == v for i in installed)]
        if none_has:
            left.append(
                LeftOut(
                    f"{app.name}: {axis} {', '.join(none_has)}",
                    "no installation stands for it; describe one in the site file",
                )
            )
        chosen = [i for i in chosen if i.axes.get(axis) in asked]
    if named is None and not selecting and chosen:
        # The first that fits each MPI that is asked for; one that says no MPI fits all.
        mpis = choice.values.get("mpi") or [app.defaults().get("mpi")]
        fit = [next((i for i in chosen if i.axes.get("mpi") in (None, m)), None) for m in mpis]
        chosen = list({i.name: i for i in fit if i}.values()) or chosen[:1]
    # With one installation that says nothing of itself the axis says nothing either.
    return [i.name if len(installed) > 1 or i.axes else None for i in chosen]


def _combinations(values: dict[str, list[Any]], mode: str) -> Iterable[dict[str, Any]]:
    names = list(values)
    if mode == "oat":
        base = {name: options[0] for name, options in values.items()}
        yield base
        for name in names:
            for option in values[name][1:]:
                yield {**base, name: option}
        return
    for combination in itertools.product(*(values[name] for name in names)):
        yield dict(zip(names, combination))


def _make(app: App, size: str, point: dict[str, Any]) -> Configuration:
    ranks, threads = parse_split(point["split"])
    nodes = int(point.get("nodes") or 1)
    rest = {name: point[name] for name in FIELDS if name != "nodes" and point.get(name) is not None}
    if "ranks_per_node" in rest:
        rest["ranks_per_node"] = int(rest["ranks_per_node"])
    if rest.get("launcher") != "srun":
        rest.pop("pmi", None)  # srun's word; without it the same run
    # Splits are per node, so that adding nodes adds workers; the configuration counts ranks of the
    # job.
    if "ranks_per_node" in rest:
        ranks = rest["ranks_per_node"]
    return Configuration(
        app=app.name, size=size, ranks=ranks * nodes, threads=threads, nodes=nodes, **rest
    )


def _impossible(
    config: Configuration, app: App, tools: Tools, machine: dict[str, Any], topology: Topology
) -> Optional[str]:
    """Why this configuration cannot or should not run here; None if it can."""
    try:
        tools.context(config)
    except (Missing, BadInput) as error:
        return str(error)
    why = app.impossible(config)
    if why:
        return why
    why = _impossible_on_site(config, tools, machine)
    if why:
        return why
    if config.launcher not in (None, "srun", "mpirun"):
        return f"launcher '{config.launcher}' is not known: srun or mpirun"
    if (
        config.ranks > 1
        and config.mpi is None
        and app.applies("mpi") is None
        and config.launcher != "srun"
    ):
        return f"{config.ranks} ranks need an MPI"
    width = topology.threads_per_core if config.smt == "on" or config.binding == "threads" else 1
    available = len(topology.cores) * width
    if config.per_node * config.threads > available:
        return (
            f"{config.per_node} ranks x {config.threads} threads on a node with {available} "
            + ("hardware threads" if width > 1 else "cores")
            + ": more workers than cores, and spinning ranks collapse"
        )
    if config.target and config.compiler:
        lacking = [
            f for f in TARGET_NEEDS.get(config.target, []) if f not in machine.get("isa", [])
        ]
        if lacking:
            return f"target '{config.target}' uses {', '.join(lacking)}, which this CPU lacks"
    memory = machine.get("memory_gib")
    if memory and app.size(config).memory_mib / 1024.0 > memory * config.nodes:
        return f"size '{config.size}' needs {app.size(config).memory_mib / 1024.0:.0f} GiB, this machine has {memory}"
    return None


def _impossible_on_site(
    config: Configuration, tools: Tools, machine: dict[str, Any]
) -> Optional[str]:
    """What the site lacks for this configuration: Slurm, a way to start ranks, an image, a GPU, the
    right processor to build on."""
    elsewhere = machine.get("planned")  # what a rented cluster has is not known here
    if config.launcher == "srun" and not elsewhere and not shutil.which("srun"):
        return "launcher 'srun' is not here (no Slurm)"
    if config.pmi and not elsewhere and config.pmi not in slurm.mpi_types():
        return f"srun has no --mpi={config.pmi}; it has {', '.join(slurm.mpi_types()) or 'none'}"
    if config.gpu == "on" and not machine.get("gpus"):
        return "no GPU with a driver in this machine"
    if config.nodes > machine.get("nodes_available", 1):
        return (
            f"{config.nodes} nodes, and this site has {machine.get('nodes_available', 1)}: "
            "`nodes_available:` in the site file says more"
        )
    if config.target == "native" and tools.site.get("build_on") == "login":
        built, runs = archspec.cpu.host().name, machine.get("microarchitecture")
        if built != runs:
            return (
                f"target 'native' built on this node is for {built}, the compute nodes are {runs}: "
                "build on them (`build_on: compute` in the site file), or name the target"
            )
    try:
        container_of(tools.site, config.container)
        if config.gpu == "on":
            tools.apps[config.app].run(config, tools.context(config))
    except (Missing, BadInput) as error:
        return str(error)
    return None


def _indistinct_key(config: Configuration, topology: Topology) -> Optional[tuple[Any, ...]]:
    """Two configurations with the same key put every thread on the same CPUs with the same program: a machine cannot tell them apart."""
    if config.nodes > 1:
        return None
    places = place(
        topology,
        nodes=1,
        ranks=config.ranks,
        per_node=config.per_node,
        threads=config.threads,
        binding=config.binding or "none",
        distribution=config.distribution or DEFAULT_DISTRIBUTION,
        smt=config.smt,
        mpi=config.mpi,
    )
    if places is None:
        return None
    same = config.model_dump(exclude={"binding", "distribution", "smt"})
    return (*sorted((k, str(v)) for k, v in same.items()), *((p.node, p.threads) for p in places))


def _possible(
    app: App,
    size: str,
    values: dict[str, list[Any]],
    mode: str,
    axes: dict[str, dict[str, str]],
    reasons: dict[str, int],
) -> Iterable[Configuration]:
    """Each configuration once, with what its installation stands for. `axes`: of installations;
    `reasons`: how often something was left out, and why."""
    keys: set[str] = set()
    for point in _combinations(values, mode):
        config = _make(app, size, point)
        stands_for = axes.get(config.installation or "", {})
        built_for = stands_for.get("mpi")
        if config.mpi and built_for not in (None, config.mpi):
            words = f"installation '{config.installation}' is built for MPI '{built_for}'"
            words += f", not '{config.mpi}'"
            reasons[words] = reasons.get(words, 0) + 1
            continue
        config = Configuration.model_validate({**config.model_dump(), **stands_for})
        if config.key() not in keys:
            keys.add(config.key())
            yield config


class _Twins:
    """Configurations that put every thread on the same CPUs as one before them."""

    def __init__(self, topology: Topology):
        self.topology = topology
        self.seen: dict[tuple[Any, ...], Configuration] = {}

    def of(self, config: Configuration, app: App) -> Optional[str]:
        """Why this is the same run as an earlier one; None if it is not."""
        key = _indistinct_key(config, self.topology) if app.applies("binding") is None else None
        if key is None:
            return None
        twin = self.seen.setdefault(key, config)
        if twin is config:
            return None
        mine = f"{config.ranks}x{config.threads} {config.binding or 'none'}"
        words = f"{mine} {config.distribution or ''}".strip()
        theirs = f"{twin.binding or 'none'} {twin.distribution or ''}".strip()
        return f"{words} places every thread where '{theirs}' does: same run on this machine"


def make_plan(
    choice: Choice,
    tools: Tools,
    machine: dict[str, Any],
    topology: Topology,
    earlier: Optional[ResultSet] = None,
) -> Plan:
    unknown = [axis for axis in choice.values if axis not in AXES]
    if unknown:
        raise BadInput(f"axis '{unknown[0]}' is not known", f"use {', '.join(AXES)}")
    left: list[LeftOut] = []
    runs: list[Planned] = []
    twins = _Twins(topology)
    times: dict[str, list[float]] = {}
    for sample in earlier.samples if earlier else []:
        if sample.ok and sample.machine == machine["id"]:
            times.setdefault(sample.configuration.key(), []).append(
                sample.wall_seconds or sample.seconds or 0.0
            )
    for name in choice.apps:
        if name not in tools.apps:
            raise BadInput(
                f"there is no application '{name}'", f"use one of {', '.join(tools.apps)}"
            )
        app = tools.apps[name]
        state = app.find(tools.site)
        if not state.installations:
            left.append(
                LeftOut(f"{name}: all runs", f"{state.missing}; bring it with: {state.remedy}")
            )
            continue
        size = choice.sizes.get(name) or choice.sizes.get("") or next(iter(app.sizes))
        if size not in app.sizes:
            raise BadInput(f"{name} has no size '{size}'", f"use one of {', '.join(app.sizes)}")
        values = _candidates(app, choice, machine, state.installations, left)
        axes = {i.name: i.axes for i in state.installations}
        reasons: dict[str, int] = {}
        for config in _possible(app, size, values, choice.mode, axes, reasons):
            why = _impossible(config, app, tools, machine, topology)
            if why is None:
                why = twins.of(config, app)
            if why is not None:
                reasons[why] = reasons.get(why, 0) + 1
                continue
            known = times.get(config.key())
            estimate = (
                summarise(known).median if known else app.estimate_s(config, len(topology.cores))
            )
            runs.append(Planned(config, estimate, bool(known)))
        left += [
            LeftOut(f"{name}: {count} configuration{'s' if count > 1 else ''}", why, count)
            for why, count in reasons.items()
        ]
    return Plan(runs, left, choice.repeats, choice.mode)
