"""Prices for groups: a machine's own row where one is named, otherwise a per-core estimate that is
labelled, otherwise none."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Iterable, Optional

from ..errors import BadInput
from ..model import ResultSet, Sample
from ..money import RUNS_PER_RENTAL, Cost, Extras, Rate, cost, parse_rate
from ..prices import TERM_ORDER, PriceRow, Term, age_warning, find_row, mismatch
from ..spot import Loss, Run
from ..stats import Ratio
from .groups import Group, Reader, places_of, versus

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
    loss: Loss = Loss()  # of an interruption on spot
    interruptions: Optional[float] = None  # of a node an hour; None: what the row says
    interruptions_source: str = ""


@dataclass
class Pricing:
    """Which row prices which machine. `estimates` holds rows that are scaled per core. Instances of
    one shape are one place, priced and offered as one."""

    rows: dict[str, PriceRow]
    estimates: dict[str, PriceRow]
    machines: Machines
    runs: int = RUNS_PER_RENTAL
    currency: Optional[str] = None
    rates: dict[str, Rate] = field(default_factory=dict)
    extras: Extras = Extras()
    places: dict[str, str] = field(default_factory=dict)  # machine -> place; empty: as they say
    # on-demand rows of places that are priced as spot, to compare with
    on_demand: dict[str, PriceRow] = field(default_factory=dict)
    unpriced: list[str] = field(default_factory=list)  # machines whose shape has no price, and why
    # The user's, of a node an hour on spot, for machines without a price: time needs none.
    interruptions: Optional[float] = None
    interruptions_source: str = ""

    def __post_init__(self) -> None:
        self._readers: dict[tuple[str, int], Reader] = {}
        self.places = self.places or places_of(self.machines)

    def row(self, machine: str) -> Optional[PriceRow]:
        """Of a machine or a place."""
        place = self.places.get(machine, machine)
        return self.rows.get(place) or self.estimates.get(place)

    def cores(self, machine: str) -> Optional[int]:
        """Cores by which an estimate is scaled; None where the price is the machine's own."""
        place = self.places.get(machine, machine)
        if place in self.rows:
            return None
        one = next(m for m in self.machines if self.places.get(m, m) == place)
        return int(self.machines[one]["cores"])

    def node_hour(self, machine: str) -> Optional[float]:
        """Price of a node-hour, in the currency of the answer."""
        row = self.row(machine)
        if row is None:
            return None
        cores = self.cores(machine)
        price = row.per_hour if cores is None else row.per_hour / row.cores * cores
        return price * (self.rates[row.currency].value if row.currency in self.rates else 1.0)

    def of(self, machine: str, wall_s: float, nodes: int) -> Optional[Cost]:
        """Cost of one run of this length; None where the machine has no price."""
        row = self.row(machine)
        if row is None:
            return None
        found = cost(wall_s, nodes, row, self.runs, self.cores(machine), self.extras)
        return self.converted(found)

    def run(self, machine: str, wall_s: float, nodes: int) -> Run:
        """One run there, with its interruptions."""
        row = self.row(machine)
        per_hour = row.interruptions_per_hour if row else self.interruptions
        return Run(wall_s, (per_hour or 0.0) * nodes / 3600.0, self.extras.loss)

    def taken_s(self, group: Group) -> float:
        """Until a run of a group is done, by the median of its runs, as it is to be expected.
        Where nothing interrupts it no checkpoint is written either."""
        run = self.run(group.machine, group.wall or math.nan, group.config.nodes)
        return run.expected_s() if run.rate else run.seconds

    def converted(self, found: Cost) -> Cost:
        """In the currency of the answer."""
        if self.currency in (None, found.currency):
            return found
        factor = self.rates[found.currency].value
        return replace(found, amount=found.amount * factor, currency=str(self.currency))

    def without_rate(self, machine: str) -> bool:
        """Whether a price is spot, and nobody says how often it is interrupted."""
        row = self.row(machine)
        return row is not None and row.term is Term.SPOT and row.interruptions_per_hour is None

    def cost(self, group: Group) -> Optional[Cost]:
        """Cost of one run of a group, by the median wall-clock of its runs."""
        wall = group.wall
        return None if wall is None else self.of(group.machine, wall, group.config.nodes)

    def _reader(self, group: Group) -> Reader:
        """What a sample of a group would cost. The same function for a place and number of nodes:
        a group keeps what it read by it."""
        key = (self.places.get(group.machine, group.machine), group.config.nodes)
        if key not in self._readers:
            self._readers[key] = self._new_reader(*key)
        return self._readers[key]

    def _new_reader(self, place: str, nodes: int) -> Reader:
        def amount(sample: Sample) -> Optional[float]:
            spent = self.of(place, sample.wall, nodes) if sample.wall else None
            return spent.amount if spent else None

        return amount

    def versus(self, a: Group, b: Group) -> Ratio:
        """Cost of b over that of a."""
        return versus(a, b, self._reader(a), self._reader(b))

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
            f" {r.cores} to {self.cores(m)} cores"
            for m, r in self.estimates.items()
        ]
        rows = {r.name: r for r in self.used}
        texts += [f"OLD PRICE: {w}" for r in rows.values() if (w := age_warning(r))]
        texts += [words for r in rows.values() if (words := self._interruptions(r))]
        texts += [f"rate: {r} {self.currency}" for r in self.rates.values()]
        texts += self.unpriced
        if self.interruptions and not all(map(self.row, self.machines)):
            texts.append(
                f"machines without a price: each node is taken away {self.interruptions:g} times"
                f" an hour ({self.interruptions_source}); {self.extras.loss.words()}"
            )
        texts += self.extras.words()
        return texts + ([self.rule] if self.used else [])

    def _interruptions(self, row: PriceRow) -> str:
        """What is known of a spot price; empty of another."""
        if row.term is not Term.SPOT:
            return ""
        if row.interruptions_per_hour is None:
            return (
                f"{row.name} is spot: interruptions are not priced, nobody says how many there are:"
                " --interruptions-per-hour with --interruptions-source"
            )
        return (
            f"{row.name}: each node is taken away {row.interruptions_per_hour:g} times an hour"
            f" ({row.interruptions_source or row.source}); {self.extras.loss.words()}"
        )


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
    there = [r for r in there if r.is_in(terms.region)]
    same = [r for r in there if terms.operating_system in (None, r.operating_system)]
    if not same:
        known = sorted({r.operating_system for r in there})
        raise BadInput(
            f"the catalogue has no '{name}' for '{terms.operating_system}'",
            f"it has {', '.join(known)}",
        )
    _refuse_several_prices(same, name)
    return _interrupted(max(same, key=lambda r: r.date), terms)


def _interrupted(row: PriceRow, terms: Terms) -> PriceRow:
    """A spot row with the rate that the user gives."""
    if terms.interruptions is None or row.term is not Term.SPOT:
        return row
    said = {
        "interruptions_per_hour": terms.interruptions,
        "interruptions_source": terms.interruptions_source,
    }
    return row.model_copy(update=said)


@dataclass(frozen=True)
class _Wanted:
    """How one machine is to be priced."""

    shape: str  # PROVIDER/SHAPE
    estimate: bool
    terms: Terms
    optional: bool = False  # nobody asked: the machine's shape may not be in the catalogue


def _said(machine: dict[str, Any], terms: Terms) -> Optional[_Wanted]:
    """By its site file, or by the shape that it has."""
    if machine.get("price"):
        return _Wanted(str(machine["price"]), False, terms)
    if not machine.get("shape"):
        return None
    shape, _, region = str(machine["shape"]).partition("@")
    return _Wanted(shape, False, replace(terms, region=region or terms.region), optional=True)


def _named(text: str, results: ResultSet, terms: Terms) -> dict[str, _Wanted]:
    """What one --price says. A shape stands for all its machines."""
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
    places = places_of(results.machines)
    meant = [m for m in results.machines if machine in (m, places[m])]
    if not meant or not shape:
        raise BadInput(
            f"price '{text}' names no machine of these results",
            "write MACHINE=PROVIDER/SHAPE or MACHINE~PROVIDER/SHAPE;"
            f" machines: {', '.join(results.machines)}",
        )
    return {m: _Wanted(shape, sign == "~", own) for m in meant}


def _wanted(results: ResultSet, named: list[str], terms: Terms) -> dict[str, _Wanted]:
    wanted = {m: one for m, d in results.machines.items() if (one := _said(d, terms))}
    for text in named:
        wanted.update(_named(text, results, terms))
    return wanted


def _row_of(machine: str, one: _Wanted, results: ResultSet, catalogue: list[PriceRow]) -> PriceRow:
    """The row that prices a machine; refused where they do not match."""
    row = choose_row(catalogue, one.shape, one.terms)
    if one.estimate:
        if not results.machines[machine].get("cores"):
            raise BadInput(f"machine '{machine}' says no cores", "name its own price instead")
        return row
    said = str(results.machines[machine].get("shape") or one.shape).partition("@")[0]
    other = f"machine '{machine}' is a {said}" if said != one.shape else ""
    why = other or mismatch(row, {"id": machine, **results.machines[machine]})
    if why:
        raise BadInput(
            f"catalogue and machine do not match: {why}",
            "name the right shape, or write"
            f" {machine}~{one.shape} for a labelled estimate per core",
        )
    return row


def _rows(
    wanted: dict[str, _Wanted], results: ResultSet, catalogue: list[PriceRow]
) -> tuple[dict[str, PriceRow], list[str]]:
    """Machine -> row, and in words which shapes have none."""
    rows, unpriced = {}, []
    for machine, one in wanted.items():
        try:
            rows[machine] = _row_of(machine, one, results, catalogue)
        except BadInput as error:
            if not one.optional:
                raise
            unpriced.append(f"{machine}: no price for its shape: {error}")
    return rows, unpriced


def _places(results: ResultSet, own: dict[str, PriceRow]) -> dict[str, str]:
    """Machine -> place. Machines that are priced by one row are instances of one shape, whatever
    they are called."""
    places = places_of(results.machines)
    for row in set(own.values()):
        mine = [m for m, r in own.items() if r == row]
        if len({places[m] for m in mine}) > 1:
            places.update(dict.fromkeys(mine, f"{row.name}@{row.region}"))
    return places


def _on_demand(
    wanted: dict[str, _Wanted], pricing: Pricing, catalogue: list[PriceRow]
) -> dict[str, PriceRow]:
    """Of each place that is priced as spot, the row on demand, where the catalogue has it."""
    found = {}
    for machine, one in wanted.items():
        row = pricing.row(machine)
        if row is None or row.term is not Term.SPOT:
            continue
        terms = replace(one.terms, term=Term.ON_DEMAND.value, region=row.region)
        try:
            found[pricing.places[machine]] = choose_row(catalogue, one.shape, terms)
        except BadInput:
            continue  # nothing to compare with
    return found


def _rate_on_spot(terms: Terms, rows: Iterable[PriceRow]) -> Optional[float]:
    """Of a machine without a price. A rate is refused where nothing is rented on spot."""
    if terms.term == Term.SPOT.value:
        return terms.interruptions
    if terms.interruptions and all(r.term is not Term.SPOT for r in rows):
        raise BadInput(
            f"--interruptions-per-hour {terms.interruptions:g}, and nothing is rented on spot",
            "add --term spot",
        )
    return None


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
    wanted = _wanted(results, named, terms)
    rows, unpriced = _rows(wanted, results, catalogue)
    own = {m: r for m, r in rows.items() if not wanted[m].estimate}
    pricing = Pricing(
        {},
        {},
        results.machines,
        terms.runs_per_rental,
        extras=Extras(terms.disk_gib, terms.egress_gib, head, terms.loss),
        places=_places(results, own),
        unpriced=unpriced,
        interruptions=_rate_on_spot(terms, rows.values()),
        interruptions_source=terms.interruptions_source,
    )
    for machine, row in rows.items():
        kind = pricing.rows if machine in own else pricing.estimates
        kind[pricing.places[machine]] = row
    pricing.on_demand = _on_demand({m: wanted[m] for m in rows}, pricing, catalogue)
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
