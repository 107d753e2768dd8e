"""Writes the directory of one rented campaign: the provider's files, the site file, and run.sh that
creates, runs, collects, deletes."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

from ..errors import BadInput
from ..prices import PriceRow, Term
from .estimate import Estimate
from .providers import Provider

_FILL_IN = "FILL_IN_"
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("hpcaas.cloud", "templates"),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(q=shlex.quote, j=json.dumps, y=lambda v: json.dumps(v))


@dataclass(frozen=True)
class Campaign:
    """What is measured on the rented cluster."""

    name: str
    arguments: list[str]  # of `hpcaas measure`: applications, sizes and axes
    fabric: bool  # whether the shape has the provider's fast network between nodes
    whole_cores: bool  # second hardware threads off


def account_values(provider: Provider, given: dict[str, str]) -> dict[str, str]:
    """What only the user knows; what was not given is marked, and run.sh refuses to start while a
    mark is left."""
    unknown = sorted(set(given) - set(provider.account))
    if unknown:
        raise BadInput(
            f"{provider.name} has no value '{unknown[0]}'", f"use {', '.join(provider.account)}"
        )
    return {name: given.get(name, _FILL_IN + name) for name in provider.account}


def write(
    directory: Path,
    provider: Provider,
    row: PriceRow,
    campaign: Campaign,
    estimate: Estimate,
    given: dict[str, str],
) -> list[Path]:
    account = account_values(provider, given)
    values: dict[str, Any] = {
        "provider": provider,
        "row": row,
        "campaign": campaign,
        "estimate": estimate,
        "account": account,
        "spot": row.term is Term.SPOT,
        "missing": [n for n, v in account.items() if v.startswith(_FILL_IN)],
    }
    texts = {
        **{name: f"{provider.name}/{name}" for name in provider.files},
        "run.sh": f"{provider.name}/run.sh",
        "remote.sh": "remote.sh",
        "PLAN.md": "PLAN.md",
    }
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, template in texts.items():
        written.append(directory / name)
        written[-1].write_text(_TEMPLATES.get_template(f"{template}.j2").render(values))
    (directory / "run.sh").chmod(0o755)
    site = {
        "scheduler": "slurm",
        "access": [f"--partition={provider.partition}"],
        "nodes_available": estimate.nodes,
        "machine": f"{provider.name}-{row.shape}-{row.region}",
        "price": row.name,
    }
    for name, content in (
        ("site.yaml", yaml.safe_dump(site, sort_keys=False)),
        ("plan.json", json.dumps(_record(provider, row, campaign, estimate), indent=1) + "\n"),
    ):
        written.append(directory / name)
        written[-1].write_text(content)
    return written


def _record(
    provider: Provider, row: PriceRow, campaign: Campaign, estimate: Estimate
) -> dict[str, Any]:
    return {
        "provider": provider.name,
        "price": json.loads(row.model_dump_json(exclude_none=True)),
        "campaign": asdict(campaign),
        "estimate": asdict(estimate),
    }
