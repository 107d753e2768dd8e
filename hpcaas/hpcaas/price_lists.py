"""Importers for the formats of the providers' public lists.

Nothing here downloads: they read files that the user has fetched, and say where those come from.
"""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date
from pathlib import Path
from typing import Any, Callable, Iterable, Optional

from pydantic import BaseModel

from .errors import BadInput, read_text
from .prices import PriceRow, rows_from

# Each reads the text of one file and yields raw rows; fields that the list does not
# carry are asked from the caller.


class Defaults(BaseModel):
    """What a list does not say and the caller must: never filled silently."""

    date: date
    source: str
    region: Optional[str] = None


def _number(text: Any) -> Optional[float]:
    found = re.search(r"[\d.]+", str(text).replace(",", ""))
    return float(found.group()) if found else None


Sizes = tuple[int, int, float]  # cores, vCPUs, GiB


def _row(given: Defaults, provider: str, shape: str, size: Sizes, price: float, **other: Any):
    """A raw row. `other`: what differs from a price on demand in dollars."""
    cores, vcpus, memory = size
    return {
        "provider": provider,
        "shape": shape,
        "region": given.region or "all",
        "cores": cores,
        "vcpus": vcpus,
        "memory_gib": memory,
        "price": price,
        "unit": "hour",
        "currency": "USD",
        "term": "on-demand",
        "operating_system": "linux",
        "date": given.date,
        "source": given.source,
        "minimum_s": 60.0,
        **other,
    }


# What is rented by itself: no tenancy, licence or capacity that is bought beside it.
_AWS_PLAIN = {
    "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
    "capacitystatus": "Used",
}  # fmt: skip


def _aws_size(attributes: dict[str, Any]) -> Optional[Sizes]:
    """Graviton and some HPC shapes sell whole cores as vCPUs; everything else two hardware threads
    per core."""
    vcpus, memory = int(_number(attributes.get("vcpu")) or 0), _number(attributes.get("memory"))
    if not vcpus or not memory:
        return None
    whole = "Graviton" in attributes.get("physicalProcessor", "") or re.match(
        r"hpc|c7a|m7a|r7a", attributes.get("instanceType", "")
    )
    return vcpus if whole else max(1, vcpus // 2), vcpus, memory


def from_aws(text: str, given: Defaults) -> Iterable[dict[str, Any]]:
    """AWS Price List Bulk API, offer file of AmazonEC2 (JSON): products and terms joined by SKU."""
    offer = json.loads(text)
    published = offer.get("publicationDate", "")[:10] or given.date
    for sku, product in offer.get("products", {}).items():
        a = {"preInstalledSw": "NA", "capacitystatus": "Used", **product.get("attributes", {})}
        family, size = product.get("productFamily", ""), _aws_size(a)
        if not family.startswith("Compute Instance") or size is None:
            continue
        if any(a.get(key) != value for key, value in _AWS_PLAIN.items()):
            continue
        region = a.get("regionCode") or a.get("location", given.region or "?")
        more = {"region": region, "date": published, "processor": a.get("physicalProcessor")}
        for term, price in _aws_terms(offer, sku):
            yield _row(given, "aws", a["instanceType"], size, price, term=term, **more)


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


def _azure_term(item: dict[str, Any]) -> Optional[tuple[str, float]]:
    """The term, and for how many hours its price is; None for what is no row."""
    if "Windows" in item.get("productName", "") or "Low Priority" in item.get("skuName", ""):
        return None
    if item.get("type") == "Reservation":
        return _AZURE_RESERVED.get(item.get("reservationTerm", ""))
    if item.get("type") != "Consumption":
        return None
    return "spot" if "Spot" in item.get("skuName", "") else "on-demand", 1.0


def from_azure(
    text: str, given: Defaults, shapes: Optional[dict[str, Sizes]] = None
) -> Iterable[dict[str, Any]]:
    """Azure retail prices API (JSON, `Items`). It carries no sizes: `shapes` gives (cores, vCPUs,
    GiB) per armSkuName."""
    for item in json.loads(text).get("Items", []):
        found, price = _azure_term(item), item.get("retailPrice")
        size = (shapes or {}).get(item.get("armSkuName", ""))
        sold = (item.get("serviceName"), item.get("unitOfMeasure"))
        if sold != ("Virtual Machines", "1 Hour") or not found or not price or not size:
            continue
        term, hours = found
        more = {"region": item["armRegionName"], "currency": item.get("currencyCode", "USD")}
        yield _row(given, "azure", item["armSkuName"], size, price / hours, term=term, **more)


def _oci_part(item: dict[str, Any]) -> tuple[str, Optional[float]]:
    """What an item is a price of ("ocpu", "memory", or "" for neither), and that price."""
    name, metric = item.get("displayName", ""), item.get("metricName", "").upper()
    prices = [
        float(price["value"])
        for local in item.get("currencyCodeLocalizations", [])
        if local.get("currencyCode") == "USD"
        for price in local.get("prices", [])
        if price.get("model") == "PAY_AS_YOU_GO"
    ]
    kind = ""
    if "OCPU" in metric or name.endswith("OCPU"):
        kind = "ocpu"
    elif "GIGABYTE" in metric or name.endswith("Memory"):
        kind = "memory"
    return kind, prices[0] if prices else None


def from_oci(
    text: str, given: Defaults, shapes: Optional[dict[str, Sizes]] = None
) -> Iterable[dict[str, Any]]:
    """OCI products API (JSON, `items`): prices are per OCPU-hour and GB-hour; `shapes` gives
    (cores, vCPUs, GiB) per shape family, the part of displayName between dashes, e.g. 'Standard -
    E4'."""
    per: dict[str, dict[str, float]] = {}
    for item in json.loads(text).get("items", []):
        kind, price = _oci_part(item)
        if kind and price is not None:
            family = re.sub(r"\s*-\s*(OCPU|Memory).*$", "", item["displayName"])
            per.setdefault(family, {})[kind] = price
    for shape, size in (shapes or {}).items():
        family, _, label = shape.partition("=")
        parts = per.get(family, {})
        if "ocpu" in parts:
            price = parts["ocpu"] * size[0] + parts.get("memory", 0.0) * size[2]
            yield _row(given, "oci", label or family, size, round(price, 6))


def _gcp_prices(skus: list[dict[str, Any]], family: str, region: Optional[str]) -> dict[str, float]:
    """Price of a core-hour ("Core") and of a GiB-hour ("Ram") of a family."""
    found: dict[str, float] = {}
    for sku in skus:
        words = sku.get("description", "")
        if not words.startswith(family):
            continue
        if sku.get("category", {}).get("usageType") != "OnDemand":
            continue
        if region and region not in sku.get("serviceRegions", []):
            continue
        rate = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"][-1]["unitPrice"]
        kind = next((k for k in ("Core", "Ram") if k in words), "")
        found[kind] = int(rate.get("units") or 0) + rate.get("nanos", 0) / 1e9
    return found


def from_gcp(
    text: str, given: Defaults, shapes: Optional[dict[str, Sizes]] = None
) -> Iterable[dict[str, Any]]:
    """GCP billing catalogue (JSON, `skus`): prices per core-hour and GiB-hour of a family; `shapes`
    gives (cores, vCPUs, GiB) of 'FAMILY=SHAPE', where FAMILY is how the descriptions begin, e.g.
    'C2D AMD=c2d-standard-112'."""
    skus = json.loads(text).get("skus", [])
    for shape, size in (shapes or {}).items():
        family, _, label = shape.partition("=")
        found = _gcp_prices(skus, family, given.region)
        if "Core" in found and "Ram" in found:
            price = found["Core"] * size[1] + found["Ram"] * size[2]
            yield _row(given, "gcp", label or family, size, round(price, 6))


# Shapes whose vCPUs are whole cores.
_WHOLE = re.compile(r"hpc|[cmr][678]g|[cmr]7a|Standard_H[BX]|t2a|BM\.")


def _skypilot_size(row: dict[str, str]) -> Optional[Sizes]:
    """None for accelerators, and for parts of a vCPU."""
    vcpus, memory = int(_number(row.get("vCPUs")) or 0), _number(row.get("MemoryGiB"))
    shape = row.get("InstanceType")
    if row.get("AcceleratorName") or not shape or not vcpus or not memory:
        return None
    return vcpus if _WHOLE.match(shape) else max(1, vcpus // 2), vcpus, memory


def from_skypilot(text: str, given: Defaults, provider: str = "") -> Iterable[dict[str, Any]]:
    """A SkyPilot catalogue (CSV): one list of CPU instances for all four providers. Accelerator
    rows are left out."""
    provider = provider or given.source.split("/")[0]
    for row in csv.DictReader(io.StringIO(text)):
        size = _skypilot_size(row)
        if size is None:
            continue
        more = {"region": row.get("Region") or given.region or "?", "minimum_s": 0.0}
        for column, term in (("Price", "on-demand"), ("SpotPrice", "spot")):
            price = _number(row.get(column))
            if price:
                yield _row(given, provider, row["InstanceType"], size, price, term=term, **more)


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
        text = read_text(path, "price list", "fetch it first; nothing is downloaded here")
        raw = list(IMPORTERS[kind](text, given, **options))
    except BadInput:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
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


def updated(old: list[PriceRow], new: list[PriceRow]) -> list[PriceRow]:
    """A catalogue with the rows of a newer list in place of its own of the same kind."""

    def kind(row: PriceRow) -> tuple[object, ...]:
        return (row.name, row.region, row.term, row.operating_system)

    found = {kind(r): r for r in sorted([*old, *new], key=lambda r: r.date)}
    return list(found.values())
