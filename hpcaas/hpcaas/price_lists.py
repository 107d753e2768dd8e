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
