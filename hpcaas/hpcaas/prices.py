"""Price catalogue: YAML, every row dated with its source, an undated row is refused. Importers for
the public lists' formats.

Nothing here downloads: the importers read files that the user has fetched, and say where those come
from.
"""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Callable, Iterable, Optional

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .errors import BadInput


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


# What a core-hour costs anywhere, with two orders of magnitude to spare on both sides. A month's
# price entered as an hour's is outside.
PLAUSIBLE_PER_CORE_HOUR = (0.0002, 5.0)


class PriceRow(BaseModel):
    """Price of one node (one instance)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: str = Field(min_length=1)
    shape: str = Field(min_length=1)
    region: str = Field(min_length=1)
    cores: int = Field(ge=1)  # physical cores
    vcpus: int = Field(ge=1)  # hardware threads as sold
    memory_gib: float = Field(gt=0)
    price: float = Field(gt=0)
    unit: Unit
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
        per_core = self.per_hour / self.cores
        low, high = PLAUSIBLE_PER_CORE_HOUR
        if not low <= per_core <= high:
            raise ValueError(
                f"{self.price} {self.currency} per {self.unit.value} is {per_core:.4g} per core-hour, outside {low} to {high}: is the unit right?"
            )
        return self

    @property
    def per_hour(self) -> float:
        """Price of a node-hour."""
        hours = {
            Unit.SECOND: 1 / 3600,
            Unit.MINUTE: 1 / 60,
            Unit.HOUR: 1.0,
            Unit.MONTH: self.hours_per_month or 730.0,
        }[self.unit]
        return self.price / hours

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.shape}"


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
    try:
        content = yaml.safe_load(where.read_text())
    except OSError as error:
        raise BadInput(
            f"catalogue '{where}' cannot be read ({error.strerror})", "name an existing YAML file"
        )
    except yaml.YAMLError as error:
        raise BadInput(f"catalogue '{where}' is not YAML: {error}", "correct it")
    return rows_from(content, str(where))


def find_row(
    rows: list[PriceRow], name: str, region: Optional[str] = None, term: Optional[str] = None
) -> PriceRow:
    """The newest row of PROVIDER/SHAPE."""
    matching = [
        r
        for r in rows
        if r.name == name
        and (region is None or r.region == region)
        and (term is None or r.term.value == term)
    ]
    if not matching:
        near = sorted({r.name for r in rows if name.split("/")[0] == r.provider}) or sorted(
            {r.name for r in rows}
        )
        raise BadInput(
            f"the catalogue has no '{name}'"
            + (f" in {region}" if region else "")
            + (f" for {term}" if term else ""),
            f"it has {', '.join(near[:8])}",
        )
    order = {
        t: i
        for i, t in enumerate(
            (Term.ON_DEMAND, Term.RESERVED_1Y, Term.RESERVED_3Y, Term.SPOT, Term.INTERNAL)
        )
    }
    return sorted(matching, key=lambda r: (order[r.term], -r.date.toordinal()))[0]


# Public lists change every few months, spot prices every few minutes.
OLD_DAYS = {Term.SPOT: 7}
OLD_DAYS_OTHERS = 90


def age_warning(row: PriceRow, today: Optional[date] = None) -> Optional[str]:
    """Words for a price that may no longer be true; None for a fresh one. What a site sets itself
    does not age."""
    if row.term is Term.INTERNAL:
        return None
    days = ((today or date.today()) - row.date).days
    limit = OLD_DAYS.get(row.term, OLD_DAYS_OTHERS)
    if days <= limit:
        return None
    return (
        f"the {row.term.value} price of {row.name} in {row.region} is {days} days old "
        f"({row.date}; {row.source}): import today's list"
    )


def mismatch(row: PriceRow, machine: dict[str, Any]) -> Optional[str]:
    """Why a price row is not the price of this machine; None if it may be. Memory is given some
    slack: kernels keep a part."""
    threads = machine.get("cores", 0) * machine.get("threads_per_core", 1)
    if row.vcpus != threads and row.cores != machine.get("cores"):
        return f"{row.name} has {row.cores} cores ({row.vcpus} vCPUs), machine '{machine.get('id')}' has {machine.get('cores')} ({threads})"
    memory = machine.get("memory_gib")
    if memory and not 0.75 * row.memory_gib <= memory <= 1.1 * row.memory_gib:
        return f"{row.name} has {row.memory_gib} GiB, machine '{machine.get('id')}' has {memory}"
    return None


# Importers. Each reads the text of one file and yields raw rows; fields that the list does not
# carry are asked from the caller.


class Defaults(BaseModel):
    """What a list does not say and the caller must: never filled silently."""

    date: date
    source: str
    region: Optional[str] = None


def _number(text: Any) -> Optional[float]:
    found = re.search(r"[\d.]+", str(text).replace(",", ""))
    return float(found.group()) if found else None


def from_aws(text: str, given: Defaults) -> Iterable[dict[str, Any]]:
    """AWS Price List Bulk API, offer file of AmazonEC2 (JSON): products and terms joined by SKU."""
    offer = json.loads(text)
    published = offer.get("publicationDate", "")[:10] or given.date
    for sku, product in offer.get("products", {}).items():
        a = product.get("attributes", {})
        if (
            product.get("productFamily")
            not in ("Compute Instance", "Compute Instance (bare metal)")
            or a.get("operatingSystem") != "Linux"
            or a.get("tenancy") != "Shared"
            or a.get("preInstalledSw", "NA") != "NA"
            or a.get("capacitystatus", "Used") != "Used"
        ):
            continue
        vcpus = int(_number(a.get("vcpu")) or 0)
        memory = _number(a.get("memory"))
        # Graviton and some HPC shapes sell whole cores as vCPUs; everything else two hardware
        # threads per core.
        whole = (
            "Graviton" in a.get("physicalProcessor", "")
            or re.match(r"hpc|c7a|m7a|r7a", a.get("instanceType", "")) is not None
        )
        if not vcpus or not memory:
            continue
        for term, price in _aws_terms(offer, sku):
            yield {
                "provider": "aws",
                "shape": a["instanceType"],
                "region": a.get("regionCode") or a.get("location", given.region or "?"),
                "cores": vcpus if whole else max(1, vcpus // 2),
                "vcpus": vcpus,
                "memory_gib": memory,
                "price": price,
                "unit": "hour",
                "currency": "USD",
                "term": term,
                "date": published,
                "source": given.source,
                "operating_system": "linux",
                "processor": a.get("physicalProcessor"),
                "minimum_s": 60.0,
            }


def _aws_terms(offer: dict[str, Any], sku: str) -> Iterable[tuple[str, float]]:
    """Terms that are a price per hour: on demand, and standard reservations without a payment in
    advance."""
    reserved = {"1yr": "reserved-1y", "3yr": "reserved-3y"}
    for kind in ("OnDemand", "Reserved"):
        for offered in offer.get("terms", {}).get(kind, {}).get(sku, {}).values():
            how = offered.get("termAttributes", {})
            term = reserved.get(how.get("LeaseContractLength", ""), "on-demand")
            plain = (how.get("OfferingClass"), how.get("PurchaseOption"))
            if kind == "Reserved" and plain != ("standard", "No Upfront"):
                continue
            for dimension in offered.get("priceDimensions", {}).values():
                price = _number(dimension.get("pricePerUnit", {}).get("USD"))
                if dimension.get("unit") in ("Hrs", "Hours") and price:
                    yield term, price


# Azure's list gives the price of a whole reservation, with the unit `1 Hour` beside it.
_AZURE_RESERVED = {"1 Year": ("reserved-1y", 8760.0), "3 Years": ("reserved-3y", 26280.0)}


def from_azure(
    text: str, given: Defaults, shapes: Optional[dict[str, tuple[int, int, float]]] = None
) -> Iterable[dict[str, Any]]:
    """Azure retail prices API (JSON, `Items`). It carries no sizes: `shapes` gives (cores, vCPUs,
    GiB) per armSkuName."""
    for item in json.loads(text).get("Items", []):
        if (
            item.get("serviceName") != "Virtual Machines"
            or item.get("type") not in ("Consumption", "Reservation")
            or "Windows" in item.get("productName", "")
        ):
            continue
        if (
            item.get("unitOfMeasure") != "1 Hour"
            or not item.get("retailPrice")
            or "Low Priority" in item.get("skuName", "")
        ):
            continue
        shape = item["armSkuName"]
        if not shapes or shape not in shapes:
            continue
        cores, vcpus, memory = shapes[shape]
        term, hours = "spot" if "Spot" in item.get("skuName", "") else "on-demand", 1.0
        if item["type"] == "Reservation":
            if item.get("reservationTerm") not in _AZURE_RESERVED:
                continue
            term, hours = _AZURE_RESERVED[item["reservationTerm"]]
        yield {
            "provider": "azure",
            "shape": shape,
            "region": item["armRegionName"],
            "cores": cores,
            "vcpus": vcpus,
            "memory_gib": memory,
            "price": item["retailPrice"] / hours,
            "unit": "hour",
            "currency": item.get("currencyCode", "USD"),
            "term": term,
            "operating_system": "linux",
            "date": given.date,
            "source": given.source,
            "minimum_s": 60.0,
        }


def from_oci(
    text: str, given: Defaults, shapes: Optional[dict[str, tuple[int, int, float]]] = None
) -> Iterable[dict[str, Any]]:
    """OCI products API (JSON, `items`): prices are per OCPU-hour and GB-hour; `shapes` gives
    (cores, vCPUs, GiB) per shape family, the part of displayName between dashes, e.g. 'Standard -
    E4'."""
    per: dict[str, dict[str, float]] = {}
    for item in json.loads(text).get("items", []):
        name = item.get("displayName", "")
        metric = item.get("metricName", "")
        prices = [
            p
            for c in item.get("currencyCodeLocalizations", [])
            if c.get("currencyCode") == "USD"
            for p in c.get("prices", [])
            if p.get("model") == "PAY_AS_YOU_GO"
        ]
        if not prices:
            continue
        family = re.sub(r"\s*-\s*(OCPU|Memory).*$", "", name)
        kind = (
            "ocpu"
            if "OCPU" in metric.upper() or name.endswith("OCPU")
            else "memory"
            if "GIGABYTE" in metric.upper() or name.endswith("Memory")
            else ""
        )
        if kind:
            per.setdefault(family, {})[kind] = float(prices[0]["value"])
    for shape, (cores, vcpus, memory) in (shapes or {}).items():
        family, _, label = shape.partition("=")
        parts = per.get(family)
        if parts and "ocpu" in parts:
            price = parts["ocpu"] * cores + parts.get("memory", 0.0) * memory
            yield {
                "provider": "oci",
                "shape": label or family,
                "region": given.region or "all",
                "cores": cores,
                "vcpus": vcpus,
                "memory_gib": memory,
                "price": round(price, 6),
                "unit": "hour",
                "currency": "USD",
                "term": "on-demand",
                "operating_system": "linux",
                "date": given.date,
                "source": given.source,
                "minimum_s": 60.0,
            }


def from_gcp(
    text: str, given: Defaults, shapes: Optional[dict[str, tuple[int, int, float]]] = None
) -> Iterable[dict[str, Any]]:
    """GCP billing catalogue (JSON, `skus`): prices per core-hour and GiB-hour of a family; `shapes`
    gives (cores, vCPUs, GiB) of 'FAMILY=SHAPE', where FAMILY is how the descriptions begin, e.g.
    'C2D AMD=c2d-standard-112'."""
    for shape, (cores, vcpus, memory) in (shapes or {}).items():
        family, _, label = shape.partition("=")
        core_price = memory_price = None
        for sku in json.loads(text).get("skus", []):
            category = sku.get("category", {})
            if (
                not sku.get("description", "").startswith(family)
                or category.get("usageType") != "OnDemand"
            ):
                continue
            if given.region and given.region not in sku.get("serviceRegions", []):
                continue
            rate = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"][-1]["unitPrice"]
            value = int(rate.get("units") or 0) + rate.get("nanos", 0) / 1e9
            if "Core" in sku["description"]:
                core_price = value
            elif "Ram" in sku["description"]:
                memory_price = value
        if core_price is not None and memory_price is not None:
            yield {
                "provider": "gcp",
                "shape": label or family,
                "region": given.region or "all",
                "cores": cores,
                "vcpus": vcpus,
                "memory_gib": memory,
                "price": round(core_price * vcpus + memory_price * memory, 6),
                "unit": "hour",
                "currency": "USD",
                "term": "on-demand",
                "operating_system": "linux",
                "date": given.date,
                "source": given.source,
                "minimum_s": 60.0,
            }


def from_skypilot(text: str, given: Defaults, provider: str = "") -> Iterable[dict[str, Any]]:
    """A SkyPilot catalogue (CSV): one list of CPU instances for all four providers. Accelerator
    rows are left out."""
    for row in csv.DictReader(io.StringIO(text)):
        if row.get("AcceleratorName") or not row.get("InstanceType"):
            continue
        vcpus, memory = _number(row.get("vCPUs")), _number(row.get("MemoryGiB"))
        for column, term in (("Price", "on-demand"), ("SpotPrice", "spot")):
            price = _number(row.get(column)) if row.get(column) else None
            if price and vcpus and memory and vcpus >= 1:
                shape = row["InstanceType"]
                whole = (
                    re.match(r"hpc|[cmr][678]g|[cmr]7a|Standard_H[BX]|t2a|BM\.", shape) is not None
                )
                yield {
                    "provider": provider or given.source.split("/")[0],
                    "shape": shape,
                    "region": row.get("Region") or given.region or "?",
                    "cores": int(vcpus) if whole else max(1, int(vcpus) // 2),
                    "vcpus": int(vcpus),
                    "memory_gib": memory,
                    "price": price,
                    "unit": "hour",
                    "currency": "USD",
                    "term": term,
                    "operating_system": "linux",
                    "date": given.date,
                    "source": given.source,
                }


IMPORTERS: dict[str, Callable[..., Iterable[dict[str, Any]]]] = {
    "aws": from_aws,
    "azure": from_azure,
    "oci": from_oci,
    "gcp": from_gcp,
    "skypilot": from_skypilot,
}


def import_prices(kind: str, path: Path, given: Defaults, **options: Any) -> list[PriceRow]:
    if kind not in IMPORTERS:
        raise BadInput(f"there is no importer '{kind}'", f"use one of {', '.join(IMPORTERS)}")
    try:
        raw = list(IMPORTERS[kind](path.read_text(), given, **options))
    except OSError as error:
        raise BadInput(
            f"price list '{path}' cannot be read ({error.strerror})",
            "fetch it first; nothing is downloaded here",
        )
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f"'{path}' is not a price list of {kind} ({type(error).__name__}: {error})",
            "see docs/prices.md for the format that is expected",
        )
    if not raw:
        raise BadInput(
            f"'{path}' has no row that can be used",
            "sizes are missing for azure, oci and gcp unless --shapes gives them",
        )
    return rows_from({"prices": raw}, str(path))


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
