"""`hpcaas cloud`: plan a campaign on a cluster that is not rented yet, and read how far one is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Optional

import typer
from rich.console import Console

from ..axis_options import AxisValues, axis_options
from ..errors import BadInput, HpcaasError
from ..machine import Topology
from ..plan import REPEATS, Choice, make_plan
from ..prices import PriceRow, find_row, load_catalogue
from ..tools import Tools
from ..site import check_name
from ..toolchain import Compiler, Mpi
from .estimate import estimate as make_estimate
from .providers import PROVIDERS, provider as find_provider
from .state import read_state
from .write import Campaign, write

cloud = typer.Typer(no_args_is_help=True, help="campaigns on clusters that are rented for them")
console = Console(soft_wrap=True)


def planned_machine(row: PriceRow, nodes: int) -> tuple[dict[str, Any], Topology]:
    """The machine that a price row promises. One socket: rows do not say how many, and the plan
    only counts cores."""
    threads = max(1, row.vcpus // row.cores)
    machine = {
        "id": row.name,
        "planned": True,  # what is installed there is not known here
        "cores": row.cores,
        "threads_per_core": threads,
        "sockets": 1,
        "memory_gib": row.memory_gib,
        "nodes_available": nodes,
        "interconnects": [],
    }
    return machine, Topology.regular(1, row.cores, threads)


def assumed(tools: Tools) -> Tools:
    """The providers' images bring GCC, OpenMPI and Intel MPI: a plan may name them though they are
    not here."""
    compilers = {"gcc": Compiler("gcc", "g++", "gcc", "gfortran", "assumed")} | tools.compilers
    mpis = {
        kind: Mpi(kind, kind, "assumed", "mpirun", "mpicxx", frameworks)
        for kind, frameworks in (("openmpi", ("ob1", "ucx", "ofi")), ("intelmpi", ("ofi",)))
    } | tools.mpis
    return Tools(tools.site, tools.apps, compilers, mpis)


def measure_arguments(
    names: Optional[str], size: list[str], mode: str, repeats: str, values: AxisValues
) -> list[str]:
    given = {"apps": names, "mode": mode, "repeats": repeats, **values}
    arguments = [f"--{k.replace('_', '-')}={v}" for k, v in given.items() if v]
    return arguments + [f"--size={s}" for s in size]


def _head(rows: list[PriceRow], name: str, region: str) -> Optional[PriceRow]:
    try:
        return find_row(rows, name, region, "on-demand")
    except BadInput:
        return None


@cloud.command("state")
def state(
    provider: str = typer.Argument(..., help=", ".join(PROVIDERS)),
    file: Path = typer.Argument(..., help="what the provider's tool said"),
) -> None:
    """creating, ready ADDRESS, failed, deleting or gone: for run.sh."""
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        raise BadInput(f"'{file}' cannot be read ({error.strerror})", "name a file")
    seen = read_state(provider, text)
    print(f"{seen.state.value} {seen.address or ''}".strip())


def add_to(
    app: typer.Typer, tools_of: Callable[..., Tools], choice_of: Callable[..., Choice]
) -> None:
    """Hangs `hpcaas cloud` below the command; how options become a choice is the command's own."""

    @cloud.command("plan")
    @axis_options
    def plan(
        provider: str = typer.Argument(..., help=", ".join(PROVIDERS)),
        shape: str = typer.Option(..., help="instance type, as in the price catalogue"),
        region: str = typer.Option(..., help="the provider's name of the region"),
        budget: float = typer.Option(..., help="hard limit, in the currency of the price"),
        term: str = typer.Option("on-demand", help="on-demand or spot"),
        catalogue: Optional[Path] = typer.Option(None, help="price catalogue (YAML)"),
        other_per_hour: Optional[float] = typer.Option(
            None, help="price an hour of what the catalogue does not have: storage, head node"
        ),
        account: list[str] = typer.Option([], "--set", help="NAME=VALUE that only you know"),
        names: Optional[str] = typer.Option("montecarlo", "--apps", help="comma-separated"),
        size: list[str] = typer.Option([], help="SIZE or APP=SIZE"),
        mode: str = typer.Option("full", help="full or oat (one at a time)"),
        repeats: str = typer.Option(str(REPEATS), help="runs of every configuration"),
        fabric: bool = typer.Option(True, help="the provider's fast network between nodes"),
        whole_cores: bool = typer.Option(True, help="second hardware threads off"),
        campaign: str = typer.Option("hpcaas", help="name of cluster and campaign"),
        site: Optional[Path] = typer.Option(None, help="site file with plug-ins"),
        to: Path = typer.Option(Path("cloud"), help="directory to write"),
        *,
        values: AxisValues,
    ) -> None:
        """Writes what create - run - collect - delete would do, with its price and a hard budget.
        Rents nothing."""
        check_name("--campaign", campaign)
        check_name("--region", region)
        rented = find_provider(provider)
        rows = load_catalogue(catalogue)
        row = find_row(rows, f"{provider}/{shape}", region, term)
        head = _head(rows, f"{provider}/{rented.head_for(row)}", region)
        tools = assumed(tools_of(site, names))
        choice = choice_of(names, tools, size, mode, repeats, values)
        nodes = choice.most_nodes
        machine, topology = planned_machine(row, nodes)
        made = make_plan(choice, tools, machine, topology)
        for left in made.left_out:
            console.print(f"left out: {left.what}: {left.why}", markup=False)
        if not made.runs:
            raise HpcaasError("nothing is left to run", "see the reasons above")
        cost = make_estimate(made, rented, row, head, other_per_hour, budget)
        arguments = measure_arguments(names, size, mode, repeats, values)
        wanted = Campaign(campaign, arguments, fabric and nodes > 1, whole_cores)
        files = write(to, rented, row, wanted, cost, dict(_pair(text) for text in account))
        for warning in cost.warnings:
            console.print(f"warning: {warning}", markup=False)
        console.print(
            f"{len(made.runs)} configurations on {cost.nodes} x {row.shape} in {row.region} "
            f"({row.term.value}): at most {cost.cost:.2f} {cost.currency} in "
            f"{cost.total_s / 3600:.1f} h; everything is deleted before {cost.budget:.2f} "
            f"{cost.currency} are spent ({cost.window_s / 3600:.1f} h)",
            markup=False,
        )
        console.print(f"written: {', '.join(map(str, files))}", markup=False)

    app.add_typer(cloud, name="cloud")


def _pair(text: str) -> tuple[str, str]:
    name, eq, value = text.partition("=")
    if not eq:
        raise BadInput(f"'{text}' is not NAME=VALUE", "write for instance --set key_name=mine")
    return name, value
