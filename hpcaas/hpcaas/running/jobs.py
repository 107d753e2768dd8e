"""Jobs: fully resolved recipes that the ReFrame tests execute. Nothing is decided after this
point."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Optional

from pydantic import BaseModel, Field

from .. import __version__
from ..apps.base import App, Build, Context, Prepare, Run, hash_files
from ..errors import Missing
from ..launchers import Launch, launch
from ..model import Configuration
from ..tools import Container, Tools, container_of


class Job(BaseModel):
    id: str
    kind: Literal["build", "prepare", "run", "look"]
    commands: list[str] = Field(default_factory=list)  # build and prepare
    products: list[str] = Field(default_factory=list)
    destination: str = ""  # where products go; for run: the directory of this sample's records
    env: dict[str, str] = Field(default_factory=dict)
    modules: list[str] = Field(default_factory=list)
    module_system: Optional[str] = None
    executable: str = ""
    args: list[str] = Field(default_factory=list)
    before: list[str] = Field(default_factory=list)
    after: list[str] = Field(default_factory=list)
    outputs: list[str] = Field(default_factory=list)
    launcher: list[str] = Field(default_factory=list)
    nodes: int = 1
    ranks: int = 1
    per_node: int = 1
    threads: int = 1
    time_limit_s: int = 600
    configuration: Optional[Configuration] = None
    repeat: int = 0
    campaign: str = ""
    machine: str = ""
    stack: str = ""  # `unlimited` for the diagnostic repetition of a crash
    # CPUs that each rank should be bound to; empty: only the launcher knows
    expected: list[list[int]] = Field(default_factory=list)
    # files that define the user's own applications: the reader may be in one
    plugins: list[str] = Field(default_factory=list)
    stage: str = ""  # directory on the file system of that axis; empty: beside the campaign
    static: dict[str, Any] = Field(default_factory=dict)  # provenance known before the run
    container: Optional[Container] = None
    gpus_per_node: int = 0  # asked of the scheduler
    # a build's flags or commands say -march=native: it may run on this microarchitecture only
    native_of: str = ""
    cpu_model: str = ""  # of the machine that the campaign measures


def short_hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def build_key(
    build: Build, context: Context, container: Optional[Container], processor: str
) -> str:
    """Names a build in the cache. `processor` is the microarchitecture it is to run on: machines
    that share a cache directory must not run each other's builds. Flags do not tell whether a build
    depends on it, for a makefile may say -march=native too."""
    tools = [
        context.compiler.version if context.compiler else "",
        context.mpi.version if context.mpi else "",
        context.mpi.mpirun if context.mpi else "",
        container.image if container else "",
        processor,
    ]
    return short_hash([build.commands, build.env, tools, hash_files(build.sources)])


@dataclass(frozen=True)
class Order:
    """One execution that a campaign asks for: what `resolve` needs beside the configuration."""

    cache: Path
    records: Path
    repeat: int
    campaign: str
    machine: dict[str, Any]
    time_limit_s: int
    wide_cores: bool  # several hardware threads per core
    stack: str = ""
    expected: Optional[list[list[int]]] = None


def _build_job(config: Configuration, app: App, context: Context, order: Order) -> Optional[Job]:
    build = app.build(config, context)
    if build is None:
        return None
    processor = order.machine.get("microarchitecture", "")
    said = " ".join([build.flags, *build.commands, *build.env.values()])
    native = processor if "native" in said else ""
    key = build_key(build, context, container_of(context.site, config.container), processor)
    return Job(
        id=f"build-{key}",
        kind="build",
        commands=build.commands,
        products=build.products,
        destination=str(order.cache / "build" / key),
        env=build.env,
        time_limit_s=3600,
        native_of=native,
        static={
            "build": key,
            "flags": build.flags,
            "source_hash": hash_files(build.sources),
            **({"native_of": native} if native else {}),
        },
    )


def _input_jobs(
    config: Configuration, app: App, context: Context, cache: Path, env: dict[str, str]
) -> list[Job]:
    """One job per step of an input, parents first; the parent's identity is part of the child's, so
    that a changed mesh makes its decompositions new."""
    chain: list[Prepare] = []
    step = app.prepare(config, context)
    while step is not None:
        chain.insert(0, step)
        step = step.after
    jobs: list[Job] = []
    for one in chain:
        parent = jobs[-1].destination if jobs else ""
        key = short_hash([config.app, one.key, one.commands, Path(parent).name])
        jobs.append(
            Job(
                id=f"prepare-{key}",
                kind="prepare",
                commands=one.commands,
                destination=str(cache / "input" / key),
                env={**env, **one.env, **({"HPCAAS_PARENT": parent} if parent else {})},
                time_limit_s=one.time_limit_s,
            )
        )
    return jobs


def _site_environment(config: Configuration, site: dict[str, Any]) -> dict[str, str]:
    """What only the site knows: which variables choose a fabric, which library path a scientific
    library."""
    env: dict[str, str] = {}
    for axis, by_value in site.get("axis_environment", {}).items():
        env.update({k: str(v) for k, v in by_value.get(getattr(config, axis, None), {}).items()})
    return env


def _stage(config: Configuration, site: dict[str, Any]) -> str:
    if config.filesystem is None:
        return ""
    stage = str(site.get("filesystems", {}).get(config.filesystem, ""))
    if not stage:
        raise Missing(
            f"file system '{config.filesystem}' has no directory",
            "give `filesystems: {NAME: DIRECTORY}` in the site file",
        )
    return stage


def _versions(context: Context) -> dict[str, Any]:
    compiler, mpi, installed = context.compiler, context.mpi, context.installation
    return {
        "suite_version": __version__,
        "app_version": installed.version if installed else "unknown",
        "compiler": f"{compiler.name} {compiler.version}" if compiler else "as installed",
        "mpi": f"{mpi.name} {mpi.version}" if mpi else "none",
    }


def _provenance(
    config: Configuration,
    app: App,
    context: Context,
    started: Launch,
    recipe: Run,
    needs: list[Job],
) -> dict[str, Any]:
    """What is known of a run before it starts."""
    static = _versions(context)
    for job in needs:
        static |= job.static
    inputs = [Path(j.destination).name for j in needs if j.kind == "prepare"]
    static |= {"input": inputs[-1]} if inputs else {}
    arguments, options, own = (
        "" if inputs else recipe.args,
        app.size(config).options,
        app.problem(config),
    )
    # Of the very files and arguments of this run: a decomposition for other ranks is another input.
    named = [config.app, config.size, static.get("input"), options, arguments]
    static["input_hash"] = short_hash([*named, own] if own else named)
    # What is computed, by whatever number of ranks, compiler and installation.
    static["problem"] = short_hash([config.app, config.size, options, own])
    static["launch"] = " ".join(started.argv)
    environment = sorted({**started.env, **recipe.env}.items())
    static["environment"] = {k: v for k, v in environment if "ROOT" not in k}
    container = container_of(context.site, config.container)
    if started.remarks:
        static["remarks"] = started.remarks
    if container:
        static["container"] = container.model_dump()
    return static


def _needs(
    config: Configuration, app: App, context: Context, order: Order, common: dict[str, Any]
) -> tuple[list[Job], dict[str, str]]:
    """Builds and inputs in order, and the variables by which the run finds them."""
    env: dict[str, str] = {}
    build = _build_job(config, app, context, order)
    if build:
        env["HPCAAS_BUILD"] = build.destination
    inputs = _input_jobs(config, app, context, order.cache, env)
    if inputs:
        env["HPCAAS_INPUT"] = inputs[-1].destination
    return [j.model_copy(update=common) for j in [*filter(None, [build]), *inputs]], env


def resolve(config: Configuration, tools: Tools, order: Order) -> tuple[list[Job], Job]:
    """The builds and inputs that a configuration needs (in order, possibly done already) and the
    run itself."""
    app, context = tools.apps[config.app], tools.context(config)
    installed = context.installation
    common: dict[str, Any] = {
        "modules": list(installed.modules) if installed else [],
        "module_system": installed.module_system if installed else None,
        "container": container_of(tools.site, config.container),
    }
    needs, env = _needs(config, app, context, order, common)
    recipe = app.run(config, context)
    if recipe.serial_launch:
        started = Launch([], {"OMP_NUM_THREADS": str(config.threads)})
        ranks, threads = 1, config.threads * config.ranks
    else:
        started = launch(config, context.mpi, wide_cores=order.wide_cores)
        ranks, threads = config.ranks, config.threads
    run_id = f"{config.key()}-{order.repeat}" + ("-stack" if order.stack else "")
    run = Job(
        id=run_id,
        kind="run",
        destination=str(order.records / run_id),
        env={**env, **_site_environment(config, tools.site), **started.env, **recipe.env},
        executable=recipe.executable,
        args=recipe.args,
        before=recipe.before,
        after=recipe.after,
        outputs=recipe.outputs,
        launcher=started.argv,
        nodes=config.nodes,
        ranks=ranks,
        per_node=config.per_node,
        threads=threads,
        time_limit_s=order.time_limit_s,
        configuration=config,
        repeat=order.repeat,
        campaign=order.campaign,
        machine=order.machine["id"],
        cpu_model=order.machine.get("cpu_model", ""),
        stack=order.stack,
        expected=order.expected or [],
        stage=_stage(config, tools.site),
        static=_provenance(config, app, context, started, recipe, needs),
        plugins=[str(Path(p).resolve()) for p in tools.site.get("plugins", [])],
        gpus_per_node=int(tools.site.get("gpus_per_node", 1)) if config.gpu == "on" else 0,
        **common,
    )
    return needs, run
