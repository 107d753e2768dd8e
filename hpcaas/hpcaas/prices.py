"""Price catalogue: YAML, every row dated with its source, an undated row is refused."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Iterable, Literal, Optional

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .errors import BadInput, read_yaml


class Unit(str, Enum):
    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    MONTH = "month"


class Term(str, Enum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED_1Y = "reserved-1y"
    RESERVED_3Y = "reserved-3y"
    INTERNAL = "internal"
    OWNED = "owned"  # bought: `purchase` over `years`, and power


# What a core-hour costs anywhere, in US dollars, with two orders of magnitude to spare on both
# sides. A month's price entered as an hour's is outside.
PLAUSIBLE_PER_CORE_HOUR = (0.0002, 5.0)
# Units of a currency for a US dollar, to a factor of two or so: only to judge what is plausible. An
# amount is never converted by them. Other currencies are not judged.
ROUGHLY_PER_DOLLAR = {
    "USD": 1, "EUR": 0.9, "GBP": 0.8, "CHF": 0.9, "CAD": 1.4, "AUD": 1.5, "NZD": 1.7, "SGD": 1.3,
    "JPY": 150, "KRW": 1400, "CNY": 7, "TWD": 32, "HKD": 8, "INR": 85, "IDR": 16000, "VND": 25000,
    "BRL": 5.5, "MXN": 19, "CLP": 950, "SEK": 10, "NOK": 10, "DKK": 7, "PLN": 4, "CZK": 23,
    "HUF": 370, "TRY": 35, "ILS": 3.6, "ZAR": 18, "AED": 3.7, "SAR": 3.75, "THB": 34,
}  # fmt: skip
HOURS_PER_YEAR = 8760.0
YEARS = {"reserved-1y": 1, "reserved-3y": 3}


class PriceRow(BaseModel):
    """Price of one node (one instance)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    provider: str = Field(min_length=1)
    shape: str = Field(min_length=1)
    region: str = Field(min_length=1)
    cores: int = Field(ge=1)  # physical cores
    vcpus: int = Field(ge=1)  # hardware threads as sold
    memory_gib: float = Field(gt=0)
    # None: owned, or a reservation that is paid in advance
    price: Optional[float] = Field(None, gt=0)
    unit: Unit = Unit.HOUR
    per: Literal["node", "core", "vcpu"] = "node"  # what the price is of
    currency: str = Field(pattern=r"^[A-Z]{3}$")
    term: Term
    date: date  # day at which the price was true
    source: str = Field(min_length=5)
    # only with unit month; providers use 720, 730 or 744
    hours_per_month: Optional[float] = Field(None, gt=600, le=744)
    processor: Optional[str] = None
    operating_system: str = Field("linux", min_length=1)  # what the price includes
    granularity_s: float = Field(1.0, gt=0)  # billing step
    minimum_s: float = Field(0.0, ge=0)  # least billed
    note: Optional[str] = None
    disk_gib_month: Optional[float] = Field(None, ge=0)  # price of a GiB of disk for 730 hours
    egress_gib: Optional[float] = Field(None, ge=0)  # price of a GiB that leaves the provider
    interruptions_per_hour: Optional[float] = Field(None, ge=0, le=60)  # of one node, spot only
    interruptions_source: Optional[str] = None  # where that rate is from; None: as the row
    upfront: Optional[float] = Field(None, gt=0)  # for the whole term of a reservation
    use: float = Field(1.0, gt=0, le=1)  # share of the hours that is used; all of them are paid
    purchase: Optional[float] = Field(None, gt=0)  # of an owned node, with its share of the rest
    years: Optional[float] = Field(None, gt=0, le=20)  # over which it is written off
    upkeep_per_year: float = Field(0.0, ge=0)
    kilowatts: float = Field(0.0, ge=0)  # of a node at work
    kilowatt_hour: float = Field(0.0, ge=0)  # price of the energy, cooling included

    @field_validator("date", mode="before")
    @classmethod
    def _dated(cls, value: Any) -> Any:
        if value in (None, ""):
            raise ValueError("an undated price is refused")
        return value

    @field_validator("unit", mode="before")
    @classmethod
    def _unit(cls, value: Any) -> Any:
        known = {
            "h": "hour",
            "hr": "hour",
            "hrs": "hour",
            "hourly": "hour",
            "per hour": "hour",
            "s": "second",
            "mo": "month",
            "monthly": "month",
        }
        if isinstance(value, str) and value.lower() in known:
            raise ValueError(f"unit '{value}' is not in the schema; write '{known[value.lower()]}'")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "PriceRow":
        if self.unit is Unit.MONTH and self.hours_per_month is None:
            raise ValueError("unit month needs hours_per_month (720, 730 or 744): providers differ")
        if self.unit is not Unit.MONTH and self.hours_per_month is not None:
            raise ValueError(f"hours_per_month says month, unit says {self.unit.value}")
        if self.vcpus < self.cores:
            raise ValueError(f"{self.vcpus} vCPUs are fewer than {self.cores} cores")
        if self.date > date.today():
            raise ValueError(f"dated {self.date}, which is in the future")
        self._whole()
        rough = ROUGHLY_PER_DOLLAR.get(self.currency)
        per_core = self.per_hour / self.cores
        if rough is None:
            return self
        low, high = (limit * rough for limit in PLAUSIBLE_PER_CORE_HOUR)
        if not low <= per_core <= high:
            raise ValueError(
                f"{self.price} {self.currency} per {self.unit.value} is {per_core:.4g} per"
                f" core-hour, outside {low:g} to {high:g} {self.currency}: is the unit right?"
            )
        return self

    def _whole(self) -> None:
        """Which fields belong together."""
        term = self.term.value
        if (self.term is Term.OWNED) != (self.purchase is not None and self.years is not None):
            raise ValueError("term owned needs purchase and years, and no other term has them")
        if self.upfront is not None and term not in YEARS:
            raise ValueError(f"upfront belongs to a reservation, the term is {term}")
        if self.interruptions_per_hour is not None and self.term is not Term.SPOT:
            raise ValueError(f"interruptions_per_hour belongs to spot, the term is {term}")
        if self.price is None and self.purchase is None and self.upfront is None:
            raise ValueError("price is missing")
        if self.use < 1 and term not in (*YEARS, "owned"):
            raise ValueError(f"use says what is paid and not used, which {term} is not")

    @property
    def per_hour(self) -> float:
        """Price of a node-hour that is used, without disk, egress and interruptions."""
        hours = {
            Unit.SECOND: 1 / 3600,
            Unit.MINUTE: 1 / 60,
            Unit.HOUR: 1.0,
            Unit.MONTH: self.hours_per_month or 730.0,
        }[self.unit]
        each = {"node": 1, "core": self.cores, "vcpu": self.vcpus}[self.per]
        paid = (self.price or 0.0) / hours * each
        if self.upfront is not None:
            paid += self.upfront / (YEARS[self.term.value] * HOURS_PER_YEAR)
        if self.purchase is not None and self.years is not None:
            paid += (self.purchase / self.years + self.upkeep_per_year) / HOURS_PER_YEAR
        # An idle node draws little: energy is counted for the hours of work.
        return paid / self.use + self.kilowatts * self.kilowatt_hour

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.shape}"

    def is_in(self, region: Optional[str]) -> bool:
        """Whether it is the price there; None: anywhere."""
        return region is None or self.region in (region, "all")

    @property
    def where(self) -> str:
        return "all regions" if self.region == "all" else self.region


def rows_from(content: Any, where: str) -> list[PriceRow]:
    if not isinstance(content, dict) or not isinstance(content.get("prices"), list):
        raise BadInput(f"'{where}' has no list `prices:`", "see docs/prices.md")
    rows = []
    for index, raw in enumerate(content["prices"]):
        try:
            rows.append(PriceRow.model_validate(raw))
        except ValidationError as error:
            first = error.errors()[0]
            at = ".".join(map(str, first["loc"])) or "row"
            name = (
                f"{raw.get('provider', '?')}/{raw.get('shape', '?')}"
                if isinstance(raw, dict)
                else str(raw)
            )
            missing = first["type"] == "missing"
            text = (
                f"{at} is missing" + (": an undated price is refused" if at == "date" else "")
                if missing
                else f"{at}: {first['msg']}"
            )
            raise BadInput(
                f"'{where}', price {index + 1} ({name}): {text}",
                "correct the row; the fields are in docs/prices.md",
            )
    return rows


def load_catalogue(path: Optional[Path] = None) -> list[PriceRow]:
    """The named catalogue, or the sample that comes with the suite."""
    where = path or Path(__file__).parent / "data" / "prices.yaml"
    content = read_yaml(where, "catalogue")
    if isinstance(content, dict) and path is None:
        content["prices"] += [row for one in content["lists"] for row in _listed(one)]
    return rows_from(content, str(where))


def _listed(one: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Rows of a CSV that comes along: one line per shape."""
    text = (Path(__file__).parent / "data" / one["file"]).read_text()
    for line in csv.DictReader(io.StringIO(text)):
        same = {k: v for k, v in line.items() if v and k not in ("on-demand", "spot", "source")}
        same |= {"currency": "USD", "unit": "hour", "date": one["date"], "note": one["note"]}
        same["source"] = one["sources"][line["source"]]
        for term in ("on-demand", "spot"):
            if line[term]:
                yield {**same, "term": term, "price": line[term]}


TERM_ORDER = (
    Term.ON_DEMAND, Term.RESERVED_1Y, Term.RESERVED_3Y, Term.SPOT, Term.INTERNAL, Term.OWNED,
)  # fmt: skip


def find_row(
    rows: list[PriceRow], name: str, region: Optional[str] = None, term: Optional[str] = None
) -> PriceRow:
    """The newest row of PROVIDER/SHAPE."""
    matching = [
        r for r in rows if r.name == name and r.is_in(region) and term in (None, r.term.value)
    ]
    if not matching:
        of_provider = {r.name for r in rows if r.provider == name.split("/")[0]}
        near = sorted(of_provider or {r.name for r in rows})
        where = (f" in {region}" if region else "") + (f" for {term}" if term else "")
        raise BadInput(f"the catalogue has no '{name}'{where}", f"it has {', '.join(near[:8])}")
    return min(matching, key=lambda r: (TERM_ORDER.index(r.term), -r.date.toordinal()))


# Public lists change every few months, spot prices every few minutes.
OLD_DAYS = {Term.SPOT: 7}
OLD_DAYS_OTHERS = 90


def age_warning(row: PriceRow, today: Optional[date] = None) -> Optional[str]:
    """Words for a price that may no longer be true; None for a fresh one. What a site sets itself
    does not age."""
    if row.term in (Term.INTERNAL, Term.OWNED):
        return None
    days = ((today or date.today()) - row.date).days
    limit = OLD_DAYS.get(row.term, OLD_DAYS_OTHERS)
    if days <= limit:
        return None
    return (
        f"the {row.term.value} price of {row.name} in {row.where} is {days} days old "
        f"({row.date}; {row.source}): import today's list"
    )


def mismatch(row: PriceRow, machine: dict[str, Any]) -> Optional[str]:
    """Why a price row is not the price of this machine; None if it may be. Memory is given some
    slack: kernels keep a part."""
    threads = machine.get("cores", 0) * machine.get("threads_per_core", 1)
    which = f"machine '{machine.get('id')}' has"
    if row.vcpus != threads and row.cores != machine.get("cores"):
        sold = f"{row.name} has {row.cores} cores ({row.vcpus} vCPUs)"
        return f"{sold}, {which} {machine.get('cores')} ({threads})"
    memory = machine.get("memory_gib")
    if memory and not 0.75 * row.memory_gib <= memory <= 1.1 * row.memory_gib:
        return f"{row.name} has {row.memory_gib} GiB, {which} {memory}"
    return None


def to_yaml(rows: list[PriceRow]) -> str:
    return yaml.safe_dump(
        {
            "prices": [
                json.loads(r.model_dump_json(exclude_none=True, exclude_unset=True)) for r in rows
            ]
        },
        sort_keys=False,
        width=160,
    )
