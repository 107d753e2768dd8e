"""The runs of a campaign and their estimated time, before anything starts; what is left out, and
why."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Iterable, Optional

import archspec.cpu

from . import slurm
from .apps.base import App, Installation
from .axes import AXES
from .errors import BadInput, Missing
from .machine import Topology
from .model import OVERHEAD_S, Configuration, ResultSet
from .placement import DEFAULT_DISTRIBUTION, place
from .tools import Tools, container_of
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
    defaults = app.defaults()
    values: dict[str, list[Any]] = {}
    for axis in (*FIELDS, "split"):
        asked = _asked(axis, app, choice, machine, installed, left)
        values[axis] = list(dict.fromkeys(asked)) or [defaults.get(axis)]
    values["installation"] = _installations(app, choice, installed, left)
    if values["split"] == [None]:
        values["split"] = ["1x1"]
    return values


def _asked(
    axis: str,
    app: App,
    choice: Choice,
    machine: dict[str, Any],
    installed: list[Installation],
    left: list[LeftOut],
) -> list[Any]:
    """What the user asks for on one axis and what can be told apart here; the rest is left out."""
    asked = choice.values.get(axis) or []
    why = app.applies(axis)
    if asked and why is not None:
        # One value for all applications is a setting, not a comparison: nothing is lost where it
        # does not apply. An axis of the installations selects among those.
        if len(asked) > 1 and not _by_installation(axis, app, installed):
            left.append(LeftOut(f"{app.name}: {axis} {', '.join(map(str, asked))}", why))
        return []
    reason = AXES[axis].unmeasurable(machine) if len(asked) > 1 else None
    if not reason:
        return asked
    # Without SMT neither `on` nor `off` says anything of a run.
    kept = [] if axis == "smt" else asked[:1]
    lost = asked[len(kept) :]
    left.append(LeftOut(f"{app.name}: {axis} {', '.join(map(str, lost))}", reason, len(lost)))
    return kept


def _installations(
    app: App, choice: Choice, installed: list[Installation], left: list[LeftOut]
) -> list[Optional[str]]:
    """Names of the installations to run. Axes that an application cannot be built for reach it
    through installations: asking for compilers or targets selects those that stand for them."""
    chosen = _named(app, choice, installed, left)
    selecting = [a for a in FIELDS if choice.values.get(a) and _by_installation(a, app, installed)]
    for axis in selecting:
        chosen = _selected(axis, app, choice.values[axis], installed, chosen, left)
    if "installation" not in choice.values and not selecting:
        chosen = _first_of_each_mpi(app, choice, chosen)
    # With one installation that says nothing of itself the axis says nothing either.
    return [i.name if len(installed) > 1 or i.axes else None for i in chosen]


def _named(
    app: App, choice: Choice, installed: list[Installation], left: list[LeftOut]
) -> list[Installation]:
    names = choice.values.get("installation", ["all"])
    found = [i for i in installed if names == ["all"] or i.name in names]
    if not found:
        has = ", ".join(i.name for i in installed)
        left.append(LeftOut(f"{app.name}: all runs", f"no installation of that name, it has {has}"))
    return found


def _by_installation(axis: str, app: App, installed: list[Installation]) -> bool:
    """Whether an axis selects among installations instead of being a choice of the application."""
    return app.applies(axis) is not None and any(axis in i.axes for i in installed)


def _selected(
    axis: str,
    app: App,
    values: list[Any],
    installed: list[Installation],
    chosen: list[Installation],
    left: list[LeftOut],
) -> list[Installation]:
    """Those of the chosen installations that stand for one of the values."""
    asked = [str(v) for v in values]
    there = {i.axes.get(axis) for i in installed}
    absent = [v for v in asked if v not in there]
    if absent:
        why = "no installation stands for it; describe one in the site file"
        left.append(LeftOut(f"{app.name}: {axis} {', '.join(absent)}", why))
    return [i for i in chosen if i.axes.get(axis) in asked]


def _first_of_each_mpi(app: App, choice: Choice, chosen: list[Installation]) -> list[Installation]:
    """The first that fits each MPI that is asked for; one that says no MPI fits all."""
    mpis = choice.values.get("mpi") or [app.defaults().get("mpi")]
    fit = [next((i for i in chosen if i.axes.get("mpi") in (None, m)), None) for m in mpis]
    return list({i.name: i for i in fit if i}.values()) or chosen[:1]


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
    return (
        app.impossible(config)
        or _impossible_on_site(config, tools, machine)
        or _no_launcher(config, app)
        or _too_many_workers(config, topology)
        or _beyond_processor(config, machine)
        or _too_large(config, app, machine)
    )


def _no_launcher(config: Configuration, app: App) -> Optional[str]:
    if config.launcher not in (None, "srun", "mpirun"):
        return f"launcher '{config.launcher}' is not known: srun or mpirun"
    if config.ranks == 1 or config.mpi or config.launcher == "srun":
        return None
    return f"{config.ranks} ranks need an MPI" if app.applies("mpi") is None else None


def _too_many_workers(config: Configuration, topology: Topology) -> Optional[str]:
    wide = config.smt == "on" or config.binding == "threads"
    width = topology.threads_per_core if wide else 1
    available = len(topology.cores) * width
    if config.per_node * config.threads <= available:
        return None
    return (
        f"{config.per_node} ranks x {config.threads} threads on a node with {available} "
        + ("hardware threads" if width > 1 else "cores")
        + ": more workers than cores, and spinning ranks collapse"
    )


def _beyond_processor(config: Configuration, machine: dict[str, Any]) -> Optional[str]:
    needs = TARGET_NEEDS.get(config.target or "", []) if config.compiler else []
    lacking = [flag for flag in needs if flag not in machine.get("isa", [])]
    if not lacking:
        return None
    return f"target '{config.target}' uses {', '.join(lacking)}, which this CPU lacks"


def _too_large(config: Configuration, app: App, machine: dict[str, Any]) -> Optional[str]:
    memory, needed = machine.get("memory_gib"), app.size(config).memory_mib / 1024.0
    if not memory or needed <= memory * config.nodes:
        return None
    return f"size '{config.size}' needs {needed:.0f} GiB, this machine has {memory}"


def _impossible_on_site(
    config: Configuration, tools: Tools, machine: dict[str, Any]
) -> Optional[str]:
    """What the site lacks for this configuration: Slurm, a way to start ranks, an image, a GPU, the
    right processor to build on."""
    nodes = machine.get("nodes_available", 1)
    if config.nodes > nodes:
        return (
            f"{config.nodes} nodes, and this site has {nodes}: "
            "`nodes_available:` in the site file says more"
        )
    if config.gpu == "on" and not machine.get("gpus"):
        return "no GPU with a driver in this machine"
    try:
        container_of(tools.site, config.container)
        if config.gpu == "on":
            tools.apps[config.app].run(config, tools.context(config))
    except (Missing, BadInput) as error:
        return str(error)
    if machine.get("planned"):
        return None  # what else a rented cluster has is not known here
    return _without_slurm(config) or _built_elsewhere(config, tools, machine)


def _without_slurm(config: Configuration) -> Optional[str]:
    if config.launcher == "srun" and not shutil.which("srun"):
        return "launcher 'srun' is not here (no Slurm)"
    if config.pmi and config.pmi not in slurm.mpi_types():
        return f"srun has no --mpi={config.pmi}; it has {', '.join(slurm.mpi_types()) or 'none'}"
    return None


def _built_elsewhere(config: Configuration, tools: Tools, machine: dict[str, Any]) -> Optional[str]:
    if config.target != "native" or tools.site.get("build_on") != "login":
        return None
    built, runs = archspec.cpu.host().name, machine.get("microarchitecture")
    if built == runs:
        return None
    return (
        f"target 'native' built on this node is for {built}, the compute nodes are {runs}: "
        "build on them (`build_on: compute` in the site file), or name the target"
    )


def _indistinct_key(config: Configuration, topology: Topology) -> Optional[tuple[Any, ...]]:
    """Two configurations with the same key put every thread on the same CPUs with the same program:
    a machine cannot tell them apart."""
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
    reasons: Counter[str],
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
            reasons[words] += 1
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


def _times(earlier: Optional[ResultSet], machine: str) -> dict[str, list[float]]:
    """Times of whole runs on this machine, by configuration."""
    times: dict[str, list[float]] = {}
    for sample in earlier.samples if earlier else []:
        if sample.machine == machine and sample.wall:
            times.setdefault(sample.configuration.key(), []).append(sample.wall)
    return times


def make_plan(
    choice: Choice,
    tools: Tools,
    machine: dict[str, Any],
    topology: Topology,
    earlier: Optional[ResultSet] = None,
) -> Plan:
    for what, asked, known in (
        ("axis", choice.values, AXES),
        ("application", choice.apps, tools.apps),
        ("application", filter(None, choice.sizes), tools.apps),
    ):
        for name in asked:
            if name not in known:
                raise BadInput(f"there is no {what} '{name}'", f"use one of {', '.join(known)}")
    plan = Plan([], [], choice.repeats, choice.mode)
    twins, times = _Twins(topology), _times(earlier, machine["id"])
    for name in dict.fromkeys(choice.apps):
        app = tools.apps[name]
        state = app.find(tools.site)
        if not state.installations:
            why = f"{state.missing}; bring it with: {state.remedy}"
            plan.left_out.append(LeftOut(f"{name}: all runs", why))
            continue
        reasons: Counter[str] = Counter()
        for config in _wanted(app, choice, machine, state.installations, plan, reasons):
            why = _impossible(config, app, tools, machine, topology) or twins.of(config, app)
            if why:
                reasons[why] += 1
                continue
            known = times.get(config.key())
            guess = app.estimate_s(config, len(topology.cores))
            estimate = summarise(known).median if known else guess
            plan.runs.append(Planned(config, estimate, bool(known)))
        plan.left_out += [
            LeftOut(f"{name}: {count} configuration{'s' if count > 1 else ''}", why, count)
            for why, count in reasons.items()
        ]
    return plan


def _wanted(
    app: App,
    choice: Choice,
    machine: dict[str, Any],
    installed: list[Installation],
    plan: Plan,
    reasons: Counter[str],
) -> Iterable[Configuration]:
    """Configurations of one application before it is asked whether they can run."""
    size = choice.sizes.get(app.name) or choice.sizes.get("") or next(iter(app.sizes))
    if size not in app.sizes:
        raise BadInput(f"{app.name} has no size '{size}'", f"use one of {', '.join(app.sizes)}")
    values = _candidates(app, choice, machine, installed, plan.left_out)
    axes = {i.name: i.axes for i in installed}
    return _possible(app, size, values, choice.mode, axes, reasons)
