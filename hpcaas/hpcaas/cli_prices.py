"""`hpcaas prices`: shows and checks a catalogue, and reads newer lists into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import typer
from rich.console import Console

from .answers.costs import describe
from .cli_answers import CATALOGUE
from .errors import BadInput, read_yaml
from .price_lists import Defaults, import_prices, updated
from .prices import age_warning, load_catalogue, to_yaml

prices = typer.Typer(invoke_without_command=True, help="the catalogue of prices")
console = Console(soft_wrap=True)


@prices.callback()
def show(context: typer.Context, catalogue: Optional[Path] = CATALOGUE) -> None:
    """Shows and checks a catalogue: each price, where it is from and how old it is."""
    if context.invoked_subcommand:
        return
    for row in load_catalogue(catalogue):
        warning = age_warning(row)
        if warning:
            console.print(f"warning: {warning}", markup=False, highlight=False)
        console.print(
            f"{describe(row)}: {row.cores} cores, {row.vcpus} vCPUs, {row.memory_gib:g} GiB,"
            f" {row.per_hour:.4g} {row.currency} an hour"
            f" ({row.per_hour / row.cores:.4g} a core-hour)",
            markup=False,
            highlight=False,
        )


def _shapes(path: Optional[Path]) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return {"shapes": {k: tuple(v) for k, v in read_yaml(path, "shapes").items()}}
    except (AttributeError, TypeError):
        raise BadInput(f"shapes '{path}' is not SHAPE: [cores, vcpus, GiB]", "see docs/prices.md")


@prices.command()
def update(
    kind: str = typer.Argument(..., help="aws, azure, oci, gcp or skypilot"),
    file: Path = typer.Argument(..., help="price list that you fetched"),
    date: str = typer.Option(..., help="YYYY-MM-DD of the list: an undated price is refused"),
    source: str = typer.Option(..., help="where the list is from"),
    to: Path = typer.Option(..., help="catalogue to write; what it holds is kept or replaced"),
    region: Optional[str] = typer.Option(None),
    provider: str = typer.Option("", help="for skypilot: whose list it is"),
    shapes: Optional[Path] = typer.Option(None, help="YAML: SHAPE: [cores, vcpus, GiB]"),
) -> None:
    """Reads a provider's public list into a catalogue. Rows of the same shape, region, system and
    term are replaced by newer ones. Nothing is downloaded."""
    options = {"provider": provider} if kind == "skypilot" else _shapes(shapes)
    try:
        given = Defaults.model_validate({"date": date, "source": source, "region": region})
    except ValueError:
        raise BadInput(f"date '{date}' is not a day", "write YYYY-MM-DD")
    new = import_prices(kind, file, given, **options)
    old = load_catalogue(to) if to.exists() else []
    rows = updated(old, new)
    to.write_text(to_yaml(rows))
    console.print(f"{len(new)} rows read, {len(rows)} in '{to}'")
