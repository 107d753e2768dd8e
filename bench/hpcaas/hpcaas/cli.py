"""The command `hpcaas`. Each command is a few lines over the modules; errors are messages with a remedy, never tracebacks."""

from __future__ import annotations

import json
import platform
import signal
import sys
from pathlib import Path
from typing import Any, Optional

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn
from rich.table import Table

from . import __version__, cli_answers
from .apps import registry
from .apps.configured import from_yaml
from .axes import AXES
from .axis_values import check_positive, check_value, parse_repeats
from .errors import BadInput, HpcaasError, Noisy
from .machine import describe, read_topology
from .cli_answers import CATALOGUE
from .model import ResultSet
from .plan import Choice, Plan, make_plan
from .running.jobs import Tools
from .site import load_site
from .toolchain import find_compilers, find_mpis

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="HPCaaS-Bench: representative applications over the choices that matter, "
    "which is fastest and which gives most per dollar.",
)
console = Console(soft_wrap=True)

SITE = typer.Option(
    None, "--site", help="site file (YAML): scheduler, installations, price", envvar="HPCAAS_SITE"
)
OUT = typer.Option(Path("out"), "--out", help="directory of results and caches")


def _tools(site_path: Optional[Path], names: Optional[str] = None) -> Tools:
    """What is installed. An application may be named by the YAML file that describes it."""
    site = load_site(site_path)
    described = [n for n in _split(names) or [] if n.endswith((".yaml", ".yml"))]
    if described:
        site["plugins"] = [*site.get("plugins", []), *described]
    return Tools(site, registry(site), find_compilers(site), find_mpis(site))


def _machine(tools: Tools, name: Optional[str] = None) -> dict[str, Any]:
    profile = describe(name or tools.site.get("machine"))
    profile["nodes_available"] = int(tools.site.get("nodes_available", 1))
    profile["filesystems"] = list(tools.site.get("filesystems", []))
    profile["interconnects"] = sorted(
        {*profile["interconnects"], *tools.site.get("axis_environment", {}).get("interconnect", {})}
    )
    if name is None and "machine" not in tools.site and tools.site.get("scheduler") is None:
        # A name that the user gave says which machine it is; otherwise the host does.
        profile["host"] = platform.node()
    if "price" in tools.site:
        profile["price"] = tools.site["price"]
    return profile


def _split(text: Optional[str]) -> Optional[list[str]]:
    return [part.strip() for part in text.split(",") if part.strip()] if text else None


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


@app.command()
def apps(
    site: Optional[Path] = SITE,
    details: bool = typer.Option(False, help="origin, licence, sizes and axes of each"),
) -> None:
    """The applications: which are there, and what would bring the others."""
    tools = _tools(site)
    table = Table("application", "vertical", "state", "installations or remedy")
    for one in tools.apps.values():
        state = one.find(tools.site)
        table.add_row(
            one.name,
            one.vertical,
            "ready" if state.installations else "missing",
            ", ".join(f"{i.name} ({i.version})" for i in state.installations)
            or f"{state.missing}; {state.remedy}",
        )
    console.print(table)
    if details:
        for one in tools.apps.values():
            console.print(
                f"\n[bold]{one.title}[/bold] ({one.name})\n  origin: {one.origin}\n  licence: {one.licence}\n  check: {one.check}\n  figure of merit: {one.figure}"
            )
            for size in one.sizes.values():
                console.print(
                    f"  size {size.name}: {size.what}"
                    + (f"; leaves out: {size.omits}" if size.omits else "; the paper's")
                )
    console.print(
        f"compilers: {', '.join(f'{c.name} {c.version}' for c in tools.compilers.values()) or 'none'}; "
        f"MPI: {', '.join(f'{m.name} {m.version}' for m in tools.mpis.values()) or 'none'}"
    )


@app.command()
def axes(site: Optional[Path] = SITE) -> None:
    """Which axis applies to which application, and what this machine can compare."""
    tools = _tools(site)
    machine = _machine(tools)
    table = Table("axis", *tools.apps, "on this machine")
    reasons = []
    for axis in AXES.values():
        row = []
        for one in tools.apps.values():
            why = one.applies(axis.name)
            row.append("yes" if why is None or axis.name == "processor" else "-")
            if why and axis.name != "processor" and why != "this application has no such choice":
                reasons.append(f"{one.name}, {axis.name}: {why}")
        table.add_row(axis.name, *row, axis.unmeasurable(machine) or "measurable")
    console.print(table)
    console.print("\n".join(reasons))


def _choice(
    names: Optional[str],
    tools: Tools,
    size: Optional[list[str]],
    mode: str,
    repeats: str,
    axis_values: dict[str, Optional[str]],
) -> Choice:
    sizes: dict[str, str] = {}
    for text in size or []:
        left, eq, right = text.partition("=")
        sizes[left if eq else ""] = right if eq else left
    if mode not in ("full", "oat", "search"):
        raise BadInput(f"mode '{mode}' is not known", "use full, oat or search")
    values: dict[str, list[Any]] = {
        name: v for name, text in axis_values.items() if (v := _split(text))
    }
    # `none` is a value of the mpi axis: run without one.
    if "mpi" in values:
        values["mpi"] = [None if v == "none" else v for v in values["mpi"]]
    for axis, asked in values.items():
        for value in asked:
            check_value(axis, value)
    chosen = [
        from_yaml(Path(name)).name if name.endswith((".yaml", ".yml")) else name
        for name in _split(names) or list(tools.apps)
    ]
    return Choice(chosen, sizes, values, mode, parse_repeats(repeats))


def show_plan(plan: Plan, verbose: bool = True) -> None:
    if verbose:
        table = Table("application", "size", "configuration", "estimate", "known")
        for run in plan.runs:
            table.add_row(
                run.config.app,
                run.config.size,
                run.config.label(),
                f"{run.estimate_s:.3g} s",
                "measured" if run.measured else "guess",
            )
        console.print(table)
    for left in plan.left_out:
        console.print(f"left out: {left.what}: {left.why}", markup=False)
    low, high = plan.seconds()
    console.print(
        f"{len(plan.runs)} configurations, {plan.repeats[0]} to {plan.repeats[1]} repeats each: {duration(low)} to {duration(high)}, builds and inputs on top"
    )


_AXIS = {
    name: typer.Option(
        None, f"--{name.replace('_', '-')}", help=f"{AXES[name].meaning}; comma-separated"
    )
    for name in AXES
    if name not in ("processor",)
}


@app.command()
def plan(
    names: Optional[str] = typer.Option(None, "--apps", help="comma-separated; all by default"),
    size: Optional[list[str]] = typer.Option(None, help="SIZE or APP=SIZE"),
    mode: str = typer.Option("full", help="full, oat (one at a time) or search"),
    repeats: str = typer.Option("3-10", help="MIN-MAX"),
    site: Optional[Path] = SITE,
    earlier: Optional[Path] = typer.Option(None, help="results to take run times from"),
    installation: Optional[str] = _AXIS["installation"],
    compiler: Optional[str] = _AXIS["compiler"],
    optimisation: Optional[str] = _AXIS["optimisation"],
    target: Optional[str] = _AXIS["target"],
    variant: Optional[str] = _AXIS["variant"],
    library: Optional[str] = _AXIS["library"],
    mpi: Optional[str] = _AXIS["mpi"],
    framework: Optional[str] = _AXIS["framework"],
    interconnect: Optional[str] = _AXIS["interconnect"],
    filesystem: Optional[str] = _AXIS["filesystem"],
    launcher: Optional[str] = _AXIS["launcher"],
    binding: Optional[str] = _AXIS["binding"],
    distribution: Optional[str] = _AXIS["distribution"],
    split: Optional[str] = _AXIS["split"],
    smt: Optional[str] = _AXIS["smt"],
    ranks_per_node: Optional[str] = _AXIS["ranks_per_node"],
    nodes: Optional[str] = _AXIS["nodes"],
) -> None:
    """The runs, their estimated time, and what is left out; starts nothing."""
    tools = _tools(site, names)
    values = dict(
        installation=installation,
        compiler=compiler,
        optimisation=optimisation,
        target=target,
        variant=variant,
        library=library,
        mpi=mpi,
        framework=framework,
        interconnect=interconnect,
        filesystem=filesystem,
        launcher=launcher,
        binding=binding,
        distribution=distribution,
        split=split,
        smt=smt,
        ranks_per_node=ranks_per_node,
        nodes=nodes,
    )
    show_plan(
        make_plan(
            _choice(names, tools, size, mode, repeats, values),
            tools,
            _machine(tools),
            read_topology(),
            ResultSet.load(earlier) if earlier else None,
        )
    )


def _check_limits(
    budget_min: Optional[float], precision: float, time_limit_s: Optional[int], noise: str
) -> None:
    """Refuses what cannot be meant."""
    check_positive("--budget-min", budget_min)
    check_positive("--precision", precision)
    check_positive("--time-limit-s", time_limit_s)
    if noise not in ("flag", "refuse", "ignore"):
        raise BadInput(f"--noise '{noise}' is not known", "use flag, refuse or ignore")


@app.command()
def measure(
    names: Optional[str] = typer.Option(None, "--apps", help="comma-separated; all by default"),
    size: Optional[list[str]] = typer.Option(None, help="SIZE or APP=SIZE"),
    mode: str = typer.Option("full", help="full, oat (one at a time) or search"),
    repeats: str = typer.Option("3-10", help="MIN-MAX"),
    site: Optional[Path] = SITE,
    out: Path = OUT,
    campaign: str = typer.Option(
        "campaign", help="name; the same name continues an interrupted campaign"
    ),
    machine: Optional[str] = typer.Option(None, help="name of this machine in reports"),
    budget_min: Optional[float] = typer.Option(None, help="minutes of measuring"),
    precision: float = typer.Option(
        0.03, help="relative half width of the interval at which a configuration is done"
    ),
    time_limit_s: Optional[int] = typer.Option(None, help="of one run"),
    noise: str = typer.Option("flag", help="noisy machine: flag, refuse or ignore"),
    retry: bool = typer.Option(
        False,
        "--retry",
        help="measure again what did not end well in an earlier start of this campaign",
    ),
    installation: Optional[str] = _AXIS["installation"],
    compiler: Optional[str] = _AXIS["compiler"],
    optimisation: Optional[str] = _AXIS["optimisation"],
    target: Optional[str] = _AXIS["target"],
    variant: Optional[str] = _AXIS["variant"],
    library: Optional[str] = _AXIS["library"],
    mpi: Optional[str] = _AXIS["mpi"],
    framework: Optional[str] = _AXIS["framework"],
    interconnect: Optional[str] = _AXIS["interconnect"],
    filesystem: Optional[str] = _AXIS["filesystem"],
    launcher: Optional[str] = _AXIS["launcher"],
    binding: Optional[str] = _AXIS["binding"],
    distribution: Optional[str] = _AXIS["distribution"],
    split: Optional[str] = _AXIS["split"],
    smt: Optional[str] = _AXIS["smt"],
    ranks_per_node: Optional[str] = _AXIS["ranks_per_node"],
    nodes: Optional[str] = _AXIS["nodes"],
) -> None:
    """Measures a plan: serially, with repeats, load and provenance. Ctrl-C keeps what was measured; the same command goes on."""
    from .running import noise as noise_check
    from .running.campaign import Campaign, Options, Progress, save_results
    from .running.lock import MachineLock
    from .running.record import append
    from .search import Searcher

    tools = _tools(site, names)
    _check_limits(budget_min, precision, time_limit_s, noise)
    values = dict(
        installation=installation,
        compiler=compiler,
        optimisation=optimisation,
        target=target,
        variant=variant,
        library=library,
        mpi=mpi,
        framework=framework,
        interconnect=interconnect,
        filesystem=filesystem,
        launcher=launcher,
        binding=binding,
        distribution=distribution,
        split=split,
        smt=smt,
        ranks_per_node=ranks_per_node,
        nodes=nodes,
    )
    profile, topology = _machine(tools, machine), read_topology()
    planned = make_plan(
        _choice(names, tools, size, "full" if mode == "search" else mode, repeats, values),
        tools,
        profile,
        topology,
    )
    show_plan(planned, verbose=False)
    if not planned.runs:
        raise HpcaasError("nothing is left to run", "see the reasons above")
    if mode == "search" and budget_min is None:
        raise HpcaasError(
            "a search spends a given time, and none is given", "add --budget-min MINUTES"
        )
    directory = (out / campaign).resolve()
    with (
        MachineLock(),
        Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TextColumn("to go: {task.fields[left]}"),
            TextColumn("{task.fields[last]}"),
            console=console,
            transient=True,
        ) as bar,
    ):
        task = bar.add_task("starting", total=len(planned.runs), left="?", last="")

        def show(progress: Progress) -> None:
            bar.update(
                task,
                description=progress.phase,
                total=max(1, progress.expected),
                completed=progress.done,
                left=duration(progress.left_s) if progress.left_s else "?",
                last=progress.last,
            )

        run = Campaign(
            directory,
            tools,
            profile,
            topology,
            Options((budget_min or 0) * 60 or None, precision, time_limit_s, retry=retry),
            show,
        )
        if noise != "ignore":
            found = noise_check.check()
            append(run.journal, {"noise": found.as_dict()})
            if found.verdict != "quiet":
                console.print(
                    f"this machine is {found.verdict}: {'; '.join(found.reasons)}", markup=False
                )
                if noise == "refuse":
                    raise Noisy(
                        f"this machine is {found.verdict} ({'; '.join(found.reasons)})",
                        "wait until it is quiet, or --noise flag",
                    )
        kept = run.resume()
        if kept:
            console.print(f"{kept} samples of an earlier start are kept")
        # SIGTERM (a batch system's end of time) is treated like Ctrl-C. What a script starts in the
        # background ignores SIGINT, and ReFrame, which we end by it, would inherit that.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)
        try:
            results = run.run(planned, Searcher(planned, seed=1).next if mode == "search" else None)
        except KeyboardInterrupt:
            save_results(run.results(), directory)
            bar.stop()
            console.print(
                f"interrupted; {len(run.results().samples)} samples are kept in '{directory}', the same command continues"
            )
            raise typer.Exit(130)
    path = save_results(results, directory)
    good = sum(1 for s in results.samples if s.ok)
    console.print(f"{good} good samples, {len(results.samples) - good} others, in '{path}'")
    for sample in results.samples:
        if not sample.ok:
            console.print(
                f"  {sample.configuration.app} {sample.configuration.label()}: {sample.status.value}: {sample.diagnosis}"
                + (f" (log '{directory / sample.log}')" if sample.log else ""),
                markup=False,
            )


cli_answers.register(app)


@app.command()
def prices(
    catalogue: Optional[Path] = CATALOGUE,
    import_kind: Optional[str] = typer.Option(
        None, "--import", help="aws, azure, oci, gcp or skypilot"
    ),
    file: Optional[Path] = typer.Option(None, help="price list that you fetched"),
    date: Optional[str] = typer.Option(None, help="YYYY-MM-DD of the list"),
    source: Optional[str] = typer.Option(None, help="where the list is from"),
    region: Optional[str] = typer.Option(None),
    provider: str = typer.Option("", help="for skypilot: whose list it is"),
    shapes: Optional[Path] = typer.Option(None, help="YAML: SHAPE: [cores, vcpus, GiB]"),
    to: Optional[Path] = typer.Option(None, help="catalogue to write"),
) -> None:
    """Shows and checks a catalogue, or imports a provider's public list that you have fetched."""
    import yaml

    from .prices import Defaults, import_prices, load_catalogue, to_yaml

    if import_kind:
        if not file or not date or not source:
            raise HpcaasError(
                "an import needs --file, --date and --source", "an undated price is refused"
            )
        options: dict[str, Any] = {"provider": provider} if import_kind == "skypilot" else {}
        if shapes:
            options["shapes"] = {k: tuple(v) for k, v in yaml.safe_load(shapes.read_text()).items()}
        try:
            given = Defaults(date=date, source=source, region=region)
        except ValueError:
            raise HpcaasError(f"date '{date}' is not a day", "write YYYY-MM-DD")
        rows = import_prices(import_kind, file, given, **options)
        text = to_yaml(rows)
        if to:
            to.write_text(text)
            console.print(f"{len(rows)} rows in '{to}'")
        else:
            print(text)
        return
    for row in load_catalogue(catalogue):
        console.print(
            f"{row.name} in {row.region}: {row.cores} cores, {row.vcpus} vCPUs, {row.memory_gib:g} GiB, {row.per_hour:.4g} {row.currency} an hour "
            f"({row.per_hour / row.cores:.4g} a core-hour), {row.term.value}, {row.date}; {row.source}",
            markup=False,
            highlight=False,
        )


@app.command()
def quantlib(rounds: int = typer.Option(5)) -> None:
    """Our Monte-Carlo against QuantLib's low-discrepancy engine, per core, in one run."""
    from .against_quantlib import compare as against

    console.print_json(json.dumps(against(rounds)))


@app.command()
def tour(
    out: Path = OUT,
    open_page: bool = typer.Option(
        True, "--open/--no-open", help="open the page where a browser is"
    ),
) -> None:
    """Monte-Carlo over two MPIs, bindings, splits and optimisation levels, OpenFOAM over bindings and ranks, and a report."""
    from .tour import run_tour

    run_tour(out, open_page, console)


@app.command()
def machine(
    site: Optional[Path] = SITE, noise: bool = typer.Option(False, help="check the noise too")
) -> None:
    """What this machine is, as results will say it."""
    console.print_json(json.dumps(_machine(_tools(site))))
    if noise:
        from .running.noise import check

        console.print_json(json.dumps(check().as_dict()))


@app.command()
def version() -> None:
    """The suite's version."""
    console.print(__version__)


def main() -> None:
    try:
        app()
    except HpcaasError as error:
        message = str(error)
    except OSError as error:
        # Unwritable and full disks, wherever a command writes.
        what = f"'{error.filename}': {error.strerror}" if error.filename else str(error)
        message = f"{what}. Remedy: free space, or name a place that can be written to"
    else:
        return
    print(f"hpcaas: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
