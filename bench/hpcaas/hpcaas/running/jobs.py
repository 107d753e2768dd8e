"""Jobs: fully resolved recipes that the ReFrame tests execute. Nothing is decided after this point."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal, Optional

from pydantic import BaseModel, Field

from .. import __version__
from ..apps.base import App, Build, Context, Installation, Prepare, hash_files
from ..errors import BadInput, Missing
from ..launchers import launch
from ..model import Configuration
from ..toolchain import Compiler, Mpi, need_compiler, need_mpi


class Job(BaseModel):
    id: str
    kind: Literal["build", "prepare", "run"]
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


def short_hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def build_key(build: Build, context: Context) -> str:
    tools = [
        context.compiler.version if context.compiler else "",
        context.mpi.version if context.mpi else "",
        context.mpi.mpirun if context.mpi else "",
    ]
    return short_hash([build.commands, build.env, tools, hash_files(build.sources)])


def resolve(
    config: Configuration,
    tools: Tools,
    cache: Path,
    records: Path,
    *,
    repeat: int,
    campaign: str,
    machine: str,
    time_limit_s: int,
    wide_cores: bool,
    stack: str = "",
    expected: Optional[list[list[int]]] = None,
) -> tuple[list[Job], Job]:
    """The builds and inputs that a configuration needs (in order, possibly done already) and the run itself."""
    app = tools.apps[config.app]
    context = tools.context(config)
    modules = list(context.installation.modules) if context.installation else []
    module_system = context.installation.module_system if context.installation else None
    needs: list[Job] = []
    env: dict[str, str] = {}
    static: dict[str, Any] = {
        "suite_version": __version__,
        "app_version": context.installation.version if context.installation else "unknown",
        "compiler": f"{context.compiler.name} {context.compiler.version}"
        if context.compiler
        else "as installed",
        "mpi": f"{context.mpi.name} {context.mpi.version}" if context.mpi else "none",
    }
    build = app.build(config, context)
    if build is not None:
        key = build_key(build, context)
        env["HPCAAS_BUILD"] = str(cache / "build" / key)
        static.update(build=key, flags=build.flags, source_hash=hash_files(build.sources))
        needs.append(
            Job(
                id=f"build-{key}",
                kind="build",
                commands=build.commands,
                products=build.products,
                destination=env["HPCAAS_BUILD"],
                env=build.env,
                modules=modules,
                module_system=module_system,
                time_limit_s=3600,
            )
        )
    prepare = app.prepare(config, context)
    if prepare is not None:
        chain: list[Prepare] = []
        step: Optional[Prepare] = prepare
        while step is not None:
            chain.insert(0, step)
            step = step.after
        parent = ""
        for one in chain:
            # The parent's identity is part of the child's: a changed mesh makes its decompositions
            # new.
            key = short_hash([config.app, one.key, one.commands, parent])
            parent_env = {"HPCAAS_PARENT": str(cache / "input" / parent)} if parent else {}
            needs.append(
                Job(
                    id=f"prepare-{key}",
                    kind="prepare",
                    commands=one.commands,
                    destination=str(cache / "input" / key),
                    env={**env, **one.env, **parent_env},
                    modules=modules,
                    module_system=module_system,
                    time_limit_s=one.time_limit_s,
                )
            )
            parent = key
        env["HPCAAS_INPUT"] = str(cache / "input" / parent)
        static["input"] = parent
    recipe = app.run(config, context)
    if recipe.serial_launch:
        argv, launch_env, remarks = [], {"OMP_NUM_THREADS": str(config.threads)}, []
    else:
        built = launch(config, context.mpi, wide_cores=wide_cores)
        argv, launch_env, remarks = built.argv, built.env, built.remarks
    # What only the site knows: which variables choose a fabric, which library path a scientific
    # library.
    for axis, by_value in tools.site.get("axis_environment", {}).items():
        env.update({k: str(v) for k, v in by_value.get(getattr(config, axis, None), {}).items()})
    stage = ""
    if config.filesystem is not None:
        stage = str(tools.site.get("filesystems", {}).get(config.filesystem, ""))
        if not stage:
            raise Missing(
                f"file system '{config.filesystem}' has no directory",
                "give `filesystems: {NAME: DIRECTORY}` in the site file",
            )
    static["input_hash"] = short_hash(
        [
            config.app,
            config.size,
            static.get("input"),
            app.size(config).options,
            recipe.args if prepare is None else "",
        ]
    )
    static["launch"] = " ".join(argv)
    static["environment"] = {
        k: v for k, v in sorted({**launch_env, **recipe.env}.items()) if "ROOT" not in k
    }
    if remarks:
        static["remarks"] = remarks
    run_id = f"{config.key()}-{repeat}" + ("-stack" if stack else "")
    run = Job(
        id=run_id,
        kind="run",
        destination=str(records / run_id),
        env={**env, **launch_env, **recipe.env},
        modules=modules,
        module_system=module_system,
        executable=recipe.executable,
        args=recipe.args,
        before=recipe.before,
        after=recipe.after,
        outputs=recipe.outputs,
        launcher=argv,
        nodes=config.nodes,
        ranks=1 if recipe.serial_launch else config.ranks,
        per_node=config.per_node,
        threads=config.threads * (config.ranks if recipe.serial_launch else 1),
        time_limit_s=time_limit_s,
        configuration=config,
        repeat=repeat,
        campaign=campaign,
        machine=machine,
        stack=stack,
        expected=expected or [],
        stage=stage,
        static=static,
        plugins=[str(Path(p).resolve()) for p in tools.site.get("plugins", [])],
    )
    return needs, run
