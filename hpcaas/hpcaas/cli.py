"""The command `hpcaas`. Each command is a few lines over the modules; errors are messages with a
remedy, never tracebacks."""

from __future__ import annotations

import json
import platform
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, NoReturn, Optional

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn
from rich.table import Table

from . import __version__, cli_answers, cli_prices
from .apps import registry
from .apps.base import App
from .apps.configured import from_yaml
from .axes import AXES
from .axis_options import AxisValues, axis_options
from .axis_values import check_positive, check_value, parse_repeats
from .cloud.command import add_to as add_cloud
from .errors import BadInput, HpcaasError, Noisy
from .model import ResultSet, check_shape
from .plan import REPEATS, Choice, Plan, make_plan
from .running import nodes as nodes_module
from .tools import Tools
from .running.nodes import Nodes
from .running.reframe import is_remote
from .site import check_name, load_site
from .stats import detectable
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
REPEATS_OPTION = typer.Option(
    str(REPEATS), "--repeats", help="runs of every configuration, fixed before the first one"
)
SHAPE = typer.Option(
    None, "--shape", help="what it is one of: PROVIDER/NAME@REGION; measure three of each shape"
)
OVER_HOURS = typer.Option(
    None,
    "--over-hours",
    help="spread the rounds over so many hours, each at a moment drawn in its part of them",
)
OUT = typer.Option(Path("out"), "--out", help="directory of results and caches")


def _tools(site_path: Optional[Path], names: Optional[str] = None) -> Tools:
    """What is installed. An application may be named by the YAML file that describes it."""
    site = load_site(site_path)
    described = [n for n in _split(names) or [] if n.endswith((".yaml", ".yml"))]
    if described:
        site["plugins"] = [*site.get("plugins", []), *described]
    return Tools(site, registry(site), find_compilers(site), find_mpis(site))


def _machine(tools: Tools, found: Nodes, name: Optional[str] = None) -> dict[str, Any]:
    """Profile of the machine to be measured, with what only the site file can say of it."""
    profile = found.machine
    profile["nodes_available"] = int(tools.site.get("nodes_available", 1))
    profile["containers"] = list(tools.site.get("containers", {}))
    profile["filesystems"] = list(tools.site.get("filesystems", []))
    profile["interconnects"] = sorted(
        {*profile["interconnects"], *tools.site.get("axis_environment", {}).get("interconnect", {})}
    )
    if name is None and "machine" not in tools.site and not is_remote(tools.site):
        # A name that the user gave says which machine it is; otherwise the host does.
        profile["host"] = platform.node()
    if "price" in tools.site:
        profile["price"] = tools.site["price"]
    return profile


def _known(tools: Tools, out: Path) -> Nodes:
    return nodes_module.known(tools.site, out, tools.site.get("machine"))


def _look(tools: Tools, out: Path, name: Optional[str], count: int) -> Nodes:
    """This machine, or the compute nodes asked anew: noise is of today."""
    name = name or tools.site.get("machine")
    if not is_remote(tools.site):
        return nodes_module.here(name, tools.site.get("shape"))
    console.print(f"asking {count} nodes what they are")
    return nodes_module.look(tools.site, out.resolve(), count, name)


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
        found = ", ".join(f"{i.name} ({i.version})" for i in state.installations)
        ready = "ready" if found else "missing"
        table.add_row(one.name, one.vertical, ready, found or f"{state.missing}; {state.remedy}")
    console.print(table)
    if details:
        for one in tools.apps.values():
            _show_details(one)
    for what, found in (("compilers", tools.compilers), ("MPI", tools.mpis)):
        names = ", ".join(f"{one.name} {one.version}" for one in found.values())
        console.print(f"{what}: {names or 'none'}", markup=False)


def _show_details(one: App) -> None:
    console.print(f"\n[bold]{one.title}[/bold] ({one.name})", highlight=False)
    for what in ("origin", "licence", "check", "figure"):
        console.print(f"  {what}: {getattr(one, what)}", markup=False, highlight=False)
    for size in one.sizes.values():
        omits = f"leaves out: {size.omits}" if size.omits else "the paper's"
        console.print(f"  size {size.name}: {size.what}; {omits}", markup=False)


@app.command()
def axes(site: Optional[Path] = SITE, out: Path = OUT) -> None:
    """Which axis applies to which application, and what this machine can compare."""
    tools = _tools(site)
    machine = _machine(tools, _known(tools, out))
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
    if mode not in ("full", "oat", "search"):
        raise BadInput(f"mode '{mode}' is not known", "use full, oat or search")
    sizes: dict[str, str] = {}
    for text in size or []:
        name, _, value = text.rpartition("=")
        sizes[name] = value
    values: dict[str, list[Any]] = {}
    for axis, text in axis_values.items():
        if text is not None:
            values[axis] = [_value(axis, part) for part in _split(text) or [""]]
    chosen = [
        from_yaml(Path(name)).name if name.endswith((".yaml", ".yml")) else name
        for name in _split(names) or list(tools.apps)
    ]
    return Choice(chosen, sizes, values, mode, parse_repeats(repeats))


def _value(axis: str, text: str) -> Optional[str]:
    """`none` is a value of some axes: run without one."""
    if text == "none" and axis in ("mpi", "container"):
        return None
    check_value(axis, text)
    return text


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
    text = f"{len(plan.runs)} configurations, {plan.repeats} repeats each"
    if plan.repeats > 1:
        least = detectable(plan.repeats, 0.03) - 1.0
        text += f" (at a noise of 3 % two settings are told apart from {least:.1%} on)"
    console.print(f"{text}: {duration(plan.seconds())}, builds and inputs on top", highlight=False)


@app.command()
@axis_options
def plan(
    names: Optional[str] = typer.Option(None, "--apps", help="comma-separated; all by default"),
    size: Optional[list[str]] = typer.Option(None, help="SIZE or APP=SIZE"),
    mode: str = typer.Option("full", help="full, oat (one at a time) or search"),
    repeats: str = REPEATS_OPTION,
    site: Optional[Path] = SITE,
    earlier: Optional[Path] = typer.Option(None, help="results to take run times from"),
    out: Path = OUT,
    *,
    values: AxisValues,
) -> None:
    """The runs, their estimated time, and what is left out; starts nothing."""
    tools = _tools(site, names)
    choice = _choice(names, tools, size, mode, repeats, values)
    found = _known(tools, out)
    show_plan(
        make_plan(
            choice,
            tools,
            _machine(tools, found),
            found.topology,
            ResultSet.load(earlier) if earlier else None,
        )
    )


def _check_limits(
    mode: str,
    budget_min: Optional[float],
    time_limit_s: Optional[int],
    noise: str,
    over_hours: Optional[float],
) -> None:
    """Refuses what cannot be meant."""
    check_positive("--over-hours", over_hours)
    check_positive("--budget-min", budget_min)
    check_positive("--time-limit-s", time_limit_s)
    if noise not in ("flag", "refuse", "ignore"):
        raise BadInput(f"--noise '{noise}' is not known", "use flag, refuse or ignore")
    if mode == "search" and budget_min is None:
        raise BadInput(
            "a search spends a given time, and none is given", "add --budget-min MINUTES"
        )


@app.command()
@axis_options
def measure(
    names: Optional[str] = typer.Option(None, "--apps", help="comma-separated; all by default"),
    size: Optional[list[str]] = typer.Option(None, help="SIZE or APP=SIZE"),
    mode: str = typer.Option("full", help="full, oat (one at a time) or search"),
    repeats: str = REPEATS_OPTION,
    site: Optional[Path] = SITE,
    out: Path = OUT,
    campaign: str = typer.Option(
        "campaign", help="name; the same name continues an interrupted campaign"
    ),
    machine: Optional[str] = typer.Option(None, help="name of this machine in reports"),
    shape: Optional[str] = SHAPE,
    over_hours: Optional[float] = OVER_HOURS,
    budget_min: Optional[float] = typer.Option(None, help="minutes of measuring"),
    time_limit_s: Optional[int] = typer.Option(None, help="of one run"),
    noise: str = typer.Option("flag", help="noisy machine: flag, refuse or ignore"),
    retry: bool = typer.Option(
        False,
        "--retry",
        help="measure again what did not end well in an earlier start of this campaign",
    ),
    *,
    values: AxisValues,
) -> None:
    """Measures a plan: serially, with repeats, load and provenance. Ctrl-C keeps what was measured;
    the same command goes on."""
    from .running.campaign import Campaign, Options, save_results
    from .running.lock import MachineLock
    from .search import Searcher

    _check_limits(mode, budget_min, time_limit_s, noise, over_hours)
    check_name("--campaign", campaign)
    check_name("--machine", machine)
    tools = _tools(site, names)
    _take_shape(tools, shape)
    # A search chooses from all.
    choice = _choice(names, tools, size, "full" if mode == "search" else mode, repeats, values)
    found = _look(tools, out, machine, choice.most_nodes)
    profile, topology = _machine(tools, found, machine), found.topology
    planned = make_plan(choice, tools, profile, topology)
    show_plan(planned, verbose=False)
    if not planned.runs:
        raise HpcaasError("nothing is left to run", "see the reasons above")
    chooser = Searcher(planned, seed=1).next if mode == "search" else None
    directory = (out / campaign).resolve()
    over_s = (over_hours or 0) * 3600
    options = Options((budget_min or 0) * 60 or None, time_limit_s, retry=retry, over_s=over_s)
    with (
        MachineLock(*([directory / "lock"] if is_remote(tools.site) else [])),
        _progress(len(planned.runs)) as (bar, show),
    ):
        run = Campaign(directory, tools, profile, topology, options, show)
        if noise != "ignore":
            _check_noise(run, found, noise)
        kept = run.resume()
        if kept:
            console.print(f"{kept} samples of an earlier start are kept")
        _end_by_signals()
        try:
            results = run.run(planned, chooser)
        except KeyboardInterrupt:
            bar.stop()
            _interrupted(run.results(), directory)
    _show_results(results, save_results(results, directory))


def _end_by_signals() -> None:
    """SIGTERM (a batch system's end of time) is treated like Ctrl-C. What a script starts in the
    background ignores SIGINT, and ReFrame, which we end by it, would inherit that."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def _take_shape(tools: Tools, shape: Optional[str]) -> None:
    """What the user says wins over the site file."""
    if shape is None:
        return
    try:
        tools.site["shape"] = check_shape(shape)
    except ValueError as error:
        raise BadInput(f"--shape: {error}", "name what the provider's price list names")


def _interrupted(results: ResultSet, directory: Path) -> NoReturn:
    from .running.campaign import save_results

    save_results(results, directory)
    console.print(
        f"interrupted; {len(results.samples)} samples are kept in '{directory}', the same command"
        " continues"
    )
    raise typer.Exit(130)


@contextmanager
def _progress(total: int) -> Iterator[tuple[Bar, Callable[[Any], None]]]:
    """A bar, and what a campaign tells its progress to."""
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("to go: {task.fields[left]}"),
        TextColumn("{task.fields[last]}"),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=total, left="?", last="")

        def show(progress: Any) -> None:
            bar.update(
                task,
                description=progress.phase,
                total=max(1, progress.expected),
                completed=progress.done,
                left=duration(progress.left_s) if progress.left_s else "?",
                last=progress.last,
            )

        yield bar, show


def _check_noise(run: Any, found: Nodes, noise: str) -> None:
    """Writes into the journal how noisy the machine is; refuses to go on where that was asked."""
    from .running import noise as noise_check
    from .running.record import append

    heard = nodes_module.worst(found.noise) if found.noise else noise_check.check()
    append(run.journal, {"noise": heard.as_dict()})
    if heard.verdict == "quiet":
        return
    words = f"this machine is {heard.verdict}: {'; '.join(heard.reasons)}"
    console.print(words, markup=False)
    if noise == "refuse":
        raise Noisy(words, "wait until it is quiet, or --noise flag")


def _show_results(results: ResultSet, path: Path) -> None:
    good = sum(1 for s in results.samples if s.ok)
    console.print(f"{good} good samples, {len(results.samples) - good} others, in '{path}'")
    for sample in results.samples:
        if not sample.ok:
            console.print(
                f"  {sample.configuration.app} {sample.configuration.label()}:"
                f" {sample.status.value}: {sample.diagnosis}"
                + (f" (log '{path.parent / sample.log}')" if sample.log else ""),
                markup=False,
            )


cli_answers.register(app)
app.add_typer(cli_prices.prices, name="prices")


@app.command()
def tour(
    out: Path = OUT,
    only: Optional[str] = typer.Option(None, help="montecarlo or openfoam alone"),
    open_page: bool = typer.Option(
        True, "--open/--no-open", help="open the page where a browser is"
    ),
) -> None:
    """Monte-Carlo over two MPIs, bindings, splits and optimisation levels, OpenFOAM over bindings
    and ranks, and a report."""
    from .tour import run_tour

    run_tour(out, open_page, console, only)


@app.command()
def machine(
    site: Optional[Path] = SITE,
    noise: bool = typer.Option(False, help="check the noise too"),
    out: Path = OUT,
    nodes: Optional[int] = typer.Option(
        None, min=1, help="compute nodes to ask; 2 at most by default"
    ),
) -> None:
    """What this machine is, as results will say it; behind a scheduler a job asks its nodes."""
    tools = _tools(site)
    found = _look(tools, out, None, nodes or min(2, int(tools.site.get("nodes_available", 1))))
    console.print_json(json.dumps(_machine(tools, found)))
    if noise:
        from .running.noise import check

        heard = nodes_module.worst(found.noise) if found.noise else check()
        console.print_json(json.dumps(heard.as_dict()))


FOLDER = typer.Option(Path("published"), "--folder", help="of published results, kept in git")


@app.command()
def submit(
    source: Path = typer.Argument(..., help="folder of a campaign, or its results.json"),
    folder: Path = FOLDER,
) -> None:
    """Checks results and puts them among the published ones: schema, provenance, disturbed runs
    marked, names of hosts left out."""
    from .published import publish

    for path in publish(source, folder):
        console.print(f"'{path}' is checked; `git add {path}` publishes it", markup=False)


@app.command()
def nearest(site: Optional[Path] = SITE, out: Path = OUT, folder: Path = FOLDER) -> None:
    """The measured machines that are most like this one, and what was measured there."""
    from .published import nearest as find

    tools = _tools(site)
    for one in find(_machine(tools, _known(tools, out)), folder)[:5]:
        differs = "; ".join(one.differs) or "the same in all that is known"
        console.print(
            f"{one.machine}, from {one.where}: distance {one.distance:.2f} ({differs})\n"
            f"    holds {', '.join(one.holds)}",
            markup=False,
            highlight=False,
        )


add_cloud(app, _tools, _choice)


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
