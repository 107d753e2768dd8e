"""Prices for groups: a machine's own row where one is named, otherwise a per-core estimate that is labelled, otherwise none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from ..errors import BadInput
from ..model import ResultSet
from ..money import Cost, cost, estimated_cost
from ..prices import PriceRow, find_row, mismatch
from .groups import Group


@dataclass
class Pricing:
    """Which row prices which machine. `estimates` holds rows that are scaled per core."""

    rows: dict[str, PriceRow]
    estimates: dict[str, PriceRow]
    machines: dict[str, dict[str, Any]]

    def cost(self, group: Group, exact: bool = True) -> Optional[Cost]:
        if group.seconds is None:
            return None
        if group.machine in self.rows:
            return cost(group.seconds, group.config.nodes, self.rows[group.machine], exact)
        if group.machine in self.estimates:
            return estimated_cost(
                group.seconds,
                group.config.nodes,
                self.estimates[group.machine],
                int(self.machines[group.machine]["cores"]),
            )
        return None

    @property
    def any(self) -> bool:
        return bool(self.rows or self.estimates)

    def remarks(self) -> list[str]:
        texts = [
            f"{m}: {r.name}, {r.price} {r.currency} per {r.unit.value}, {r.term.value}, {r.date} ({r.source})"
            for m, r in self.rows.items()
        ]
        texts += [
            f"{m}: ESTIMATE, nobody sells this machine: {r.name} ({r.price} {r.currency} per {r.unit.value}, {r.date}) scaled per core from {r.cores} to "
            f"{self.machines[m]['cores']} cores ({r.source})"
            for m, r in self.estimates.items()
        ]
        return texts


def price_machines(results: ResultSet, catalogue: list[PriceRow], named: list[str]) -> Pricing:
    """`named`: MACHINE=PROVIDER/SHAPE for a machine's own price, MACHINE~PROVIDER/SHAPE for a per-core estimate. Machines whose site
    file names a price are priced by it. A row that does not fit its machine is refused."""
    pricing = Pricing({}, {}, results.machines)
    wanted = {m: (str(d["price"]), False) for m, d in results.machines.items() if d.get("price")}
    for text in named:
        sign = "~" if "~" in text else "="
        machine, _, shape = text.partition(sign)
        if machine not in results.machines or not shape:
            raise BadInput(
                f"price '{text}' names no machine of these results",
                f"write MACHINE=PROVIDER/SHAPE or MACHINE~PROVIDER/SHAPE; machines: {', '.join(results.machines)}",
            )
        wanted[machine] = (shape, sign == "~")
    for machine, (shape, estimate) in wanted.items():
        row = find_row(catalogue, shape)
        if estimate:
            pricing.estimates[machine] = row
            continue
        why = mismatch(row, {"id": machine, **results.machines[machine]})
        if why:
            raise BadInput(
                f"catalogue and machine do not match: {why}",
                f"name the right shape, or write {machine}~{shape} for a labelled estimate per core",
            )
        pricing.rows[machine] = row
    return pricing


def paper_pricing(results: ResultSet, catalogue: list[PriceRow]) -> list[str]:
    """The paper's own way of pricing its machines, as estimates; Milan is what the E4 shape is made of."""
    del catalogue
    shapes = {
        "genoa": "oci/BM.Standard.E4.128",
        "spr": "oci/BM.Standard3.64",
        "milan": "oci/BM.Standard.E4.128",
        "milan-apollo": "oci/BM.Standard.E4.128",
    }
    return [f"{m}~{s}" for m, s in shapes.items() if m in results.machines]
