"""Prices for groups: a machine's own row where one is named, otherwise a per-core estimate that is
labelled, otherwise none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Optional

from ..errors import BadInput
from ..model import ResultSet
from ..money import RUNS_PER_RENTAL, Cost, Extras, Rate, cost, parse_rate
from ..prices import TERM_ORDER, PriceRow, Term, age_warning, find_row, mismatch
from .groups import Group

Machines = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Terms:
    """What the user chooses of a price, for all machines; None: not chosen."""

    region: Optional[str] = None
    operating_system: Optional[str] = None
    term: Optional[str] = None
    currency: Optional[str] = None  # of the answer; None: the one that all rows have
    rates: tuple[str, ...] = ()
    runs_per_rental: int = RUNS_PER_RENTAL
    disk_gib: float = 0.0
    egress_gib: float = 0.0
    head: Optional[str] = None  # PROVIDER/SHAPE of the head node
    checkpoint_s: Optional[float] = None


@dataclass
class Pricing:
    """Which row prices which machine. `estimates` holds rows that are scaled per core."""

    rows: dict[str, PriceRow]
    estimates: dict[str, PriceRow]
    machines: Machines
    runs: int = RUNS_PER_RENTAL
    currency: Optional[str] = None
    rates: dict[str, Rate] = field(default_factory=dict)
    extras: Extras = Extras()

    def row(self, machine: str) -> Optional[PriceRow]:
        return self.rows.get(machine) or self.estimates.get(machine)

    def of(self, machine: str, wall_s: float, nodes: int) -> Optional[Cost]:
        """Cost of one run of this length; None where the machine has no price."""
        row = self.row(machine)
        if row is None:
            return None
        own = machine in self.rows
        cores = None if own else int(self.machines[machine]["cores"])
        found = cost(wall_s, nodes, row, self.runs, cores, self.extras)
        if self.currency in (None, found.currency):
            return found
        factor = self.rates[found.currency].value
        return replace(found, amount=found.amount * factor, currency=str(self.currency))

    def cost(self, group: Group) -> Optional[Cost]:
        """Cost of one run of a group, by the median wall-clock of its runs."""
        wall = group.wall
        return None if wall is None else self.of(group.machine, wall, group.config.nodes)

    def amounts(self, group: Group) -> list[float]:
        """What each of its samples would cost, for tests between groups; empty without a price."""
        found = (self.of(group.machine, wall, group.config.nodes) for wall in group.walls)
        return [c.amount for c in found if c]

    def interval(self, group: Group) -> Optional[tuple[float, float]]:
        """95 % interval of the cost of a run; None without a spread or a price."""
        summary = group.wall_summary
        if summary is None or summary.low is None or summary.high is None:
            return None
        ends = (self.of(group.machine, w, group.config.nodes) for w in (summary.low, summary.high))
        low, high = ends
        return (low.amount, high.amount) if low and high else None

    @property
    def used(self) -> list[PriceRow]:
        return [*self.rows.values(), *self.estimates.values()]

    @property
    def rule(self) -> str:
        """How runs are billed, in words for every output that shows a cost."""
        lot = "every run in a rental of its own" if self.runs == 1 else f"{self.runs:,} in a rental"
        return f"billed by the wall-clock of whole runs, {lot}, steps and least time included"

    def remarks(self) -> list[str]:
        texts = [f"{m}: {describe(r)}" for m, r in self.rows.items()]
        texts += [
            f"{m}: ESTIMATE, nobody sells this machine: {describe(r)}, scaled per core from"
            f" {r.cores} to {self.machines[m]['cores']} cores"
            for m, r in self.estimates.items()
        ]
        rows = {r.name: r for r in self.used}
        texts += [f"OLD PRICE: {w}" for r in rows.values() if (w := age_warning(r))]
        texts += [
            f"{r.name} is spot: interruptions are not priced, its row says none"
            for r in rows.values()
            if r.term is Term.SPOT and r.interruptions_per_hour is None
        ]
        texts += [f"rate: {r} {self.currency}" for r in self.rates.values()]
        texts += self.extras.words()
        return texts + ([self.rule] if self.used else [])


def describe(row: PriceRow) -> str:
    """All that a price depends on, where it is from and how old it is."""
    days = (date.today() - row.date).days
    if row.purchase is not None:
        paid = f"bought for {row.purchase:g} {row.currency} over {row.years:g} years"
    elif row.price is None:
        paid = f"{row.upfront:g} {row.currency} in advance"
    else:
        of = "" if row.per == "node" else f"{row.per}-"
        paid = f"{row.price:g} {row.currency} per {of}{row.unit.value}"
    return (
        f"{row.name} in {row.where}, {row.operating_system}, {row.term.value}, {paid},"
        f" {row.date}, {days} days old ({'; '.join(filter(None, (row.source, row.note)))})"
    )


def _refuse_several_prices(same: list[PriceRow], name: str) -> None:
    for field_name, option in (("region", "--region"), ("operating_system", "--os")):
        newest: dict[str, PriceRow] = {}
        for row in sorted(same, key=lambda r: r.date):
            newest[getattr(row, field_name)] = row
        if len({r.per_hour for r in newest.values()}) > 1:
            raise BadInput(
                f"'{name}' has different prices in {', '.join(sorted(newest))}",
                f"choose one with {option}",
            )


def choose_row(rows: list[PriceRow], name: str, terms: Terms) -> PriceRow:
    """The newest row of PROVIDER/SHAPE under these terms: on demand if no term is chosen. Refused
    where rows of several regions or systems have several prices and none is chosen."""
    known_terms = [t.value for t in TERM_ORDER]
    if terms.term not in (None, *known_terms):
        raise BadInput(f"term '{terms.term}' is not known", f"use {', '.join(known_terms)}")
    term = find_row(rows, name, terms.region, terms.term).term
    there = [r for r in rows if r.name == name and r.term is term]
    there = [r for r in there if terms.region in (None, r.region)]
    same = [r for r in there if terms.operating_system in (None, r.operating_system)]
    if not same:
        known = sorted({r.operating_system for r in there})
        raise BadInput(
            f"the catalogue has no '{name}' for '{terms.operating_system}'",
            f"it has {', '.join(known)}",
        )
    _refuse_several_prices(same, name)
    return max(same, key=lambda r: r.date)


def _wanted(
    results: ResultSet, named: list[str], terms: Terms
) -> dict[str, tuple[str, bool, Terms]]:
    """Machine -> shape, whether it is an estimate, its terms."""
    wanted = {
        m: (str(d["price"]), False, terms) for m, d in results.machines.items() if d.get("price")
    }
    for text in named:
        price, *given = text.split(",")
        sign = "~" if "~" in price else "="
        machine, _, shape = price.partition(sign)
        own = terms
        for one in given:
            key, _, value = one.partition("=")
            key = "operating_system" if key == "os" else key
            if key not in ("region", "operating_system", "term") or not value:
                raise BadInput(f"price '{text}' says '{one}'", "use region=, os= or term=")
            own = replace(own, **{key: value})
        if machine not in results.machines or not shape:
            raise BadInput(
                f"price '{text}' names no machine of these results",
                "write MACHINE=PROVIDER/SHAPE or MACHINE~PROVIDER/SHAPE;"
                f" machines: {', '.join(results.machines)}",
            )
        wanted[machine] = (shape, sign == "~", own)
    return wanted


def _currencies(pricing: Pricing, terms: Terms) -> None:
    """Amounts of several currencies are no numbers to compare: rates are given, or it is
    refused."""
    rates = {r.currency: r for r in map(parse_rate, terms.rates)}
    found = {r.currency for r in pricing.used}
    if not found:
        return
    # Without a choice the answer is in the one currency that needs no rate.
    left = found - set(rates) if len(found) > 1 else found
    pricing.currency = terms.currency or (next(iter(left)) if len(left) == 1 else None)
    others = found - {pricing.currency}
    pricing.rates = {c: r for c, r in rates.items() if c in others}
    if pricing.currency is None or len(pricing.rates) < len(others):
        raise BadInput(
            f"prices are in {', '.join(sorted(found))}"
            + (f" and the answer in {terms.currency}" if terms.currency else ""),
            "give a dated rate for all but one, for instance --rate EUR=1.08@2026-11-01",
        )


def price_machines(
    results: ResultSet, catalogue: list[PriceRow], named: list[str], terms: Terms = Terms()
) -> Pricing:
    """`named`: MACHINE=PROVIDER/SHAPE for a machine's own price, MACHINE~PROVIDER/SHAPE for a
    per-core estimate, each with ,region= ,os= and ,term= where they differ from `terms`. Machines
    whose site file names a price are priced by it. A row that does not fit is refused."""
    if terms.runs_per_rental < 1:
        raise BadInput(f"--runs-per-rental is {terms.runs_per_rental}", "use 1 or more")
    head = choose_row(catalogue, terms.head, replace(terms, term=None)) if terms.head else None
    extras = Extras(terms.disk_gib, terms.egress_gib, head, terms.checkpoint_s)
    pricing = Pricing({}, {}, results.machines, terms.runs_per_rental, extras=extras)
    for machine, (shape, estimate, own) in _wanted(results, named, terms).items():
        row = choose_row(catalogue, shape, own)
        if estimate:
            if not results.machines[machine].get("cores"):
                raise BadInput(f"machine '{machine}' says no cores", "name its own price instead")
            pricing.estimates[machine] = row
            continue
        why = mismatch(row, {"id": machine, **results.machines[machine]})
        if why:
            raise BadInput(
                f"catalogue and machine do not match: {why}",
                "name the right shape, or write"
                f" {machine}~{shape} for a labelled estimate per core",
            )
        pricing.rows[machine] = row
    _currencies(pricing, terms)
    priced = {r.currency for r in pricing.used}
    if head is not None and priced - {head.currency}:
        raise BadInput(
            f"the head node is priced in {head.currency}, nodes in {', '.join(sorted(priced))}",
            "give the head node a row in the same currency",
        )
    return pricing


def paper_pricing(results: ResultSet, catalogue: list[PriceRow]) -> list[str]:
    """The paper's own way of pricing its machines, as estimates; Milan is what the E4 shape is
    made of."""
    del catalogue
    shapes = {
        "genoa": "oci/BM.Standard.E4.128",
        "spr": "oci/BM.Standard3.64",
        "milan": "oci/BM.Standard.E4.128",
        "milan-apollo": "oci/BM.Standard.E4.128",
    }
    return [f"{m}~{s}" for m, s in shapes.items() if m in results.machines]
