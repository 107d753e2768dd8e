"""Prices and costs: the formula, the schema, the importers, and everything that is refused."""

import json
import math
from datetime import date, timedelta

import pytest
import yaml
from hypothesis import given, strategies as st

from hpcaas import money
from hpcaas.answers.costs import Pricing
from hpcaas.errors import BadInput
from hpcaas.price_lists import Defaults, import_prices, updated
from hpcaas.prices import PriceRow, find_row, load_catalogue, mismatch, rows_from, to_yaml

ROW = dict(
    provider="p",
    shape="s",
    region="r",
    cores=64,
    vcpus=128,
    memory_gib=512,
    price=3.2,
    unit="hour",
    currency="USD",
    term="on-demand",
    date="2024-05-01",
    source="price page",
)


def row(**changes):
    return PriceRow.model_validate({k: v for k, v in {**ROW, **changes}.items() if v is not None})


@given(st.floats(0.001, 1e6), st.integers(1, 64))
def test_cost_is_time_times_nodes_times_price(seconds, nodes):
    c = money.cost(seconds, nodes, row(granularity_s=1e-6))
    assert c.amount == pytest.approx(seconds / 3600 * nodes * 3.2, rel=1e-3)


@given(st.floats(0.001, 1e4), st.integers(1, 2000))
def test_the_least_time_of_a_rental_is_billed_once_for_all_its_runs(seconds, runs):
    c = money.cost(seconds, 1, row(minimum_s=60.0), runs)
    assert c.billed_s * runs == pytest.approx(
        max(60.0, math.ceil(runs * seconds * (1.0 - 1e-12))), rel=1e-6
    )


@pytest.mark.parametrize(
    "text", ["EUR=1.08", "EUR=0@2026-01-01", "eur=1@2026-01-01", "EUR=1@2999-01-01"]
)
def test_a_rate_needs_a_value_and_a_day(text):
    with pytest.raises(BadInput, match="EUR=1.08@"):
        money.parse_rate(text)
    assert str(money.parse_rate("EUR=1.08@2026-01-01")) == "1 EUR = 1.08, 2026-01-01"


@given(st.floats(0.001, 1e6), st.sampled_from([1.0, 60.0, 3600.0]), st.sampled_from([0.0, 60.0]))
def test_bills_round_up_by_less_than_one_step(seconds, step, least):
    billed = money.billed_seconds(seconds, step, least)
    assert billed >= seconds * (1 - 1e-9) and billed >= least
    assert billed < max(seconds + step, least + step)


def test_an_exact_number_of_steps_is_not_rounded_up():
    assert money.billed_seconds(0.1 * 3 * 10, 0.1) == pytest.approx(3.0)
    assert money.billed_seconds(7200, 3600) == 7200


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_performance_per_dollar_is_one_for_the_cheapest_and_falls_with_cost(costs):
    values = money.performance_per_dollar(costs)
    assert max(values) == 1.0
    order = sorted(range(len(costs)), key=lambda i: costs[i])
    assert all(values[a] >= values[b] for a, b in zip(order, order[1:]))
    assert all(v * c == pytest.approx(min(costs)) for v, c in zip(values, costs))


def test_per_core_scaling_is_labelled():
    c = money.cost(3600, 2, row(), cores=96)
    assert (
        c.amount == pytest.approx(2 * 3.2 / 64 * 96)
        and "estimate" in c.estimate
        and "64 to 96" in c.estimate
    )


def test_energy_becomes_runs_per_kilowatt_hour_or_nothing():
    assert money.performance_per_watt(3.6e6) == 1.0
    assert money.performance_per_watt(None) is None


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"date": None}, "undated price is refused"),
        ({"date": ""}, "undated price is refused"),
        ({"unit": "hourly"}, "write 'hour'"),
        ({"unit": "fortnight"}, "unit"),
        ({"unit": "month"}, "hours_per_month"),
        ({"hours_per_month": 730}, "unit says hour"),
        ({"price": -1}, "price"),
        ({"price": "cheap"}, "price"),
        ({"price": 3047.42}, "is the unit right"),
        ({"unit": "second"}, "is the unit right"),
        ({"vcpus": 32}, "fewer than"),
        ({"currency": "dollars"}, "currency"),
        ({"source": None}, "source"),
        ({"surprise": 1}, "surprise"),
        ({"date": str(date.today() + timedelta(days=2))}, "future"),
        ({"term": "forever"}, "term"),
    ],
)
def test_rows_that_cannot_be_meant_are_refused_with_the_reason(changes, words):
    with pytest.raises(BadInput) as error:
        rows_from(
            {"prices": [{k: v for k, v in {**ROW, **changes}.items() if v is not None}]},
            "test.yaml",
        )
    assert words in str(error.value) and "price 1 (p/s)" in str(error.value)


def test_the_sample_catalogue_is_dated_and_sourced():
    rows = load_catalogue()
    assert len(rows) >= 4 and all(r.date and len(r.source) > 10 for r in rows)
    assert find_row(rows, "oci/BM.Standard3.64").per_hour / 64 == pytest.approx(0.0640, abs=1e-4)
    with pytest.raises(BadInput, match="it has"):
        find_row(rows, "oci/BM.Nothing")


def test_a_row_that_is_not_this_machine_is_noticed():
    machine = {"id": "m", "cores": 2, "threads_per_core": 1, "memory_gib": 23.5}
    assert "64 cores" in mismatch(row(), machine)
    assert mismatch(row(cores=1, vcpus=2, memory_gib=24, price=0.05), machine) is None
    assert "GiB" in mismatch(row(cores=2, vcpus=2, memory_gib=256, price=0.05), machine)


def test_files_that_are_no_catalogue(tmp_path):
    for name, text, words in (("a.yaml", "x: [", "not YAML"), ("b.yaml", "prices: 3", "no list")):
        (tmp_path / name).write_text(text)
        with pytest.raises(BadInput, match=words):
            load_catalogue(tmp_path / name)
    with pytest.raises(BadInput, match="cannot be read"):
        load_catalogue(tmp_path / "absent.yaml")


GIVEN = Defaults(date=date(2026, 11, 1), source="provider's public list")


def imported(tmp_path, kind, text, **options):
    path = tmp_path / "list"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return import_prices(kind, path, GIVEN, **options)


def test_aws(tmp_path):
    offer = {
        "publicationDate": "2026-10-05T00:00:00Z",
        "products": {
            "A": {
                "productFamily": "Compute Instance",
                "attributes": {
                    "instanceType": "c6a.48xlarge",
                    "vcpu": "192",
                    "memory": "384 GiB",
                    "operatingSystem": "Linux",
                    "tenancy": "Shared",
                    "preInstalledSw": "NA",
                    "capacitystatus": "Used",
                    "regionCode": "us-east-1",
                    "physicalProcessor": "AMD EPYC 7R13",
                },
            },
            "B": {
                "productFamily": "Compute Instance",
                "attributes": {
                    "instanceType": "c6a.48xlarge",
                    "vcpu": "192",
                    "memory": "384 GiB",
                    "operatingSystem": "Windows",
                    "tenancy": "Shared",
                },
            },
        },
        "terms": {
            "OnDemand": {
                "A": {
                    "A.1": {
                        "priceDimensions": {
                            "d": {"unit": "Hrs", "pricePerUnit": {"USD": "7.3440000000"}}
                        }
                    }
                }
            }
        },
    }
    (r,) = imported(tmp_path, "aws", offer)
    assert (r.name, r.cores, r.vcpus, r.per_hour, str(r.date)) == (
        "aws/c6a.48xlarge",
        96,
        192,
        7.344,
        "2026-10-05",
    )


def test_reservations_are_terms_of_their_own(tmp_path):
    """A reserved price must never pass for one on demand; Azure's is of the whole term."""

    def hourly(value):
        return {"d": {"unit": "Hrs", "pricePerUnit": {"USD": str(value)}}}

    def how(length, option, kind="standard"):
        return dict(LeaseContractLength=length, PurchaseOption=option, OfferingClass=kind)

    attributes = dict(
        **dict(instanceType="c7a.large", vcpu="2", memory="4 GiB", operatingSystem="Linux"),
        **dict(tenancy="Shared", preInstalledSw="NA", capacitystatus="Used", regionCode="r"),
    )
    offer = {
        "products": {"A": {"productFamily": "Compute Instance", "attributes": attributes}},
        "terms": {
            "OnDemand": {"A": {"1": {"priceDimensions": hourly(1.0), "termAttributes": {}}}},
            "Reserved": {
                "A": {
                    "2": {
                        "priceDimensions": hourly(0.6),
                        "termAttributes": how("1yr", "No Upfront"),
                    },
                    "3": {
                        "priceDimensions": hourly(0.3),
                        "termAttributes": how("1yr", "Partial Upfront"),
                    },
                    "4": {
                        "priceDimensions": hourly(0.5),
                        "termAttributes": how("3yr", "No Upfront", "convertible"),
                    },
                }
            },
        },
    }
    rows = imported(tmp_path, "aws", offer)
    assert [(r.term.value, r.per_hour) for r in rows] == [("on-demand", 1.0), ("reserved-1y", 0.6)]
    item = {
        **dict(serviceName="Virtual Machines", type="Reservation", productName="HBv3"),
        **dict(skuName="HB120rs v3", armSkuName="S", armRegionName="eastus", currencyCode="USD"),
        **dict(unitOfMeasure="1 Hour", retailPrice=17520.0, reservationTerm="1 Year"),
    }
    (found,) = imported(tmp_path, "azure", {"Items": [item]}, shapes={"S": (120, 120, 448.0)})
    assert (found.term.value, found.per_hour) == ("reserved-1y", pytest.approx(2.0))


def test_azure(tmp_path):
    item = {
        "serviceName": "Virtual Machines",
        "type": "Consumption",
        "productName": "HBv3",
        "skuName": "HB120rs v3",
        "armSkuName": "Standard_HB120rs_v3",
        "armRegionName": "eastus",
        "unitOfMeasure": "1 Hour",
        "retailPrice": 3.6,
        "currencyCode": "USD",
    }
    listing = {
        "Items": [
            item,
            {**item, "productName": "HBv3 Windows"},
            {**item, "skuName": "HB120rs v3 Spot", "retailPrice": 0.36},
        ]
    }
    rows = imported(tmp_path, "azure", listing, shapes={"Standard_HB120rs_v3": (120, 120, 448.0)})
    assert [(r.term.value, r.per_hour) for r in rows] == [("on-demand", 3.6), ("spot", 0.36)]
    with pytest.raises(BadInput, match="no row"):
        imported(tmp_path, "azure", listing)


def test_oci(tmp_path):
    def item(name, metric, value):
        return {
            "displayName": name,
            "metricName": metric,
            "currencyCodeLocalizations": [
                {"currencyCode": "USD", "prices": [{"model": "PAY_AS_YOU_GO", "value": value}]}
            ],
        }

    listing = {
        "items": [
            item("Compute - Standard - E4 - OCPU", "OCPU Per Hour", 0.025),
            item("Compute - Standard - E4 - Memory", "Gigabyte Per Hour", 0.0015),
        ]
    }
    (r,) = imported(
        tmp_path,
        "oci",
        listing,
        shapes={"Compute - Standard - E4=VM.Standard.E4.Flex": (64, 128, 512.0)},
    )
    assert r.per_hour == pytest.approx(64 * 0.025 + 512 * 0.0015)


def test_gcp(tmp_path):
    def sku(description, nanos):
        return {
            "description": description,
            "category": {"usageType": "OnDemand"},
            "serviceRegions": ["us-central1"],
            "pricingInfo": [
                {
                    "pricingExpression": {
                        "tieredRates": [{"unitPrice": {"units": "0", "nanos": nanos}}]
                    }
                }
            ],
        }

    listing = {
        "skus": [
            sku("C2D AMD Instance Core running in Americas", 29563000),
            sku("C2D AMD Instance Ram running in Americas", 3959000),
        ]
    }
    (r,) = imported(tmp_path, "gcp", listing, shapes={"C2D AMD=c2d-standard-112": (56, 112, 448.0)})
    assert r.per_hour == pytest.approx(112 * 0.029563 + 448 * 0.003959)


def test_skypilot(tmp_path):
    text = (
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
        "VM.Standard.E4.Flex$_2_8,,,2,8,,0.037,0.0185,eu-frankfurt-1,AD-1\nBM.GPU.A10.4,A10,4,128,1024,{},8,,eu-frankfurt-1,AD-1\n"
    )
    rows = imported(tmp_path, "skypilot", text, provider="oci")
    assert [(r.term.value, r.per_hour, r.cores) for r in rows] == [
        ("on-demand", 0.037, 1),
        ("spot", 0.0185, 1),
    ]
    assert rows_from(__import__("yaml").safe_load(to_yaml(rows)), "again") == rows


def test_lists_of_the_wrong_kind_are_refused(tmp_path):
    for kind in ("aws", "azure", "gcp"):
        with pytest.raises(BadInput):
            imported(tmp_path, kind, "not json at all")
    with pytest.raises(BadInput, match="no importer"):
        imported(tmp_path, "ibm", "{}")


def test_an_imported_price_says_which_system_it_includes(tmp_path):
    csv = "InstanceType,vCPUs,MemoryGiB,Price,SpotPrice,Region,AcceleratorName\ns,8,16,0.4,,r,\n"
    rows = imported(tmp_path, "skypilot", csv, provider="oci")
    assert "operating_system: linux" in to_yaml(rows)
    assert rows_from(yaml.safe_load(to_yaml(rows)), "again") == rows


def test_an_old_price_is_named_beside_the_answer():
    pricing = Pricing({"m": row(date="2024-05-01")}, {}, {"m": {}})
    assert any(r.startswith("OLD PRICE: ") and "2024-05-01" in r for r in pricing.remarks())
    fresh = Pricing({"m": row(date=str(date.today()))}, {}, {"m": {}})
    assert not any(r.startswith("OLD PRICE") for r in fresh.remarks())


# Ten rows by hand, to the cent: what 1,000 runs cost, of 90 s each unless the case says otherwise.
# 1,000 x 90 s are 25 hours.
SMALL = {"cores": 2, "vcpus": 4, "memory_gib": 16}
BY_HAND = [
    # 25 h x 540 JPY
    ("JPY", dict(price=540, currency="JPY", cores=96, vcpus=192), {}, 1, 13500.00),
    # 25 h x 2 nodes x 5,200 KRW
    ("KRW", dict(price=5200, currency="KRW"), {}, 2, 260000.00),
    # 25 h x 2.75 EUR
    ("EUR", dict(price=2.75, currency="EUR"), {}, 1, 68.75),
    # 25 h x 64 cores x 0.05
    ("core-hour", dict(price=0.05, per="core"), {}, 1, 80.00),
    # 25 h x 128 vCPUs x 0.03 / h, at 0.0005 a minute
    ("vCPU-minute", dict(price=0.0005, per="vcpu", unit="minute"), {}, 1, 96.00),
    # 25 h x (3.20 + 500 GiB x 0.073 / 730 h) + 1,000 x 0.5 GiB x 0.09
    ("disk", dict(disk_gib_month=0.073, egress_gib=0.09), dict(disk_gib=500, egress_gib=0.5), 1,
     25 * 3.25 + 45.00),
    # 25 h x (4 x 3.20 + 0.10 for the head node)
    ("head node", {}, dict(head=dict(SMALL, price=0.1)), 4, 322.50),
    # 876 in advance are 0.10 an hour, 1.50 on top; 80 % of the hours are used: 2.00
    ("reserved", dict(price=1.5, term="reserved-1y", upfront=876.0, use=0.8), {}, 1, 50.00),
    # (43,800 / 5 years + 876 upkeep) / 8,760 h = 1.10, used half: 2.20; 0.8 kW at 0.25: 0.20
    ("on-premise", dict(price=None, term="owned", purchase=43800, years=5, upkeep_per_year=876,
                        use=0.5, kilowatts=0.8, kilowatt_hour=0.25), {}, 1, 60.00),
    # 2 nodes, each taken 20 times an hour: 1/90 a second. A run takes (e - 1) x (90 + 300) s.
    ("spot", dict(price=0.36, term="spot", interruptions_per_hour=20), {}, 2,
     670.12991 * 1000 / 3600 * 0.72),
]  # fmt: skip


@pytest.mark.parametrize("changes, extras, nodes, expected", [c[1:] for c in BY_HAND],
                         ids=[c[0] for c in BY_HAND])  # fmt: skip
def test_ten_price_rows_are_what_a_hand_reckons(changes, extras, nodes, expected):
    if "head" in extras:
        extras = {**extras, "head": row(**extras["head"])}
    one = money.cost(90, nodes, row(**changes), 1000, extras=money.Extras(**extras))
    assert round(one.amount * 1000, 2) == pytest.approx(expected, abs=0.006)
    assert one.currency == changes.get("currency", "USD")


def test_a_price_is_plausible_in_its_own_currency():
    """Bug guarded against: 540 JPY an hour for 96 cores, 3.6 dollars, was refused as too dear."""
    assert row(price=540, currency="JPY", cores=96, vcpus=192).per_hour == 540
    for wrong in (dict(price=540), dict(price=0.0037, currency="KRW")):
        with pytest.raises(ValueError, match="is the unit right"):
            row(**wrong)
    assert row(price=1e6, currency="XTS").price == 1e6  # no rough rate is known: not judged


@pytest.mark.parametrize(
    "changes, words",
    [
        (dict(price=None), "price is missing"),
        (dict(purchase=5000.0, years=5.0), "term owned"),
        (dict(term="owned"), "term owned"),
        (dict(upfront=100.0), "belongs to a reservation"),
        (dict(interruptions_per_hour=1.0), "belongs to spot"),
        (dict(use=0.5), "paid and not used"),
    ],
)
def test_fields_of_a_row_that_do_not_belong_together_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        row(**changes)


def test_an_extra_that_has_no_price_is_refused():
    with pytest.raises(BadInput, match="says no disk_gib_month"):
        money.cost(10, 1, row(), extras=money.Extras(disk_gib=1))


def test_a_newer_list_replaces_its_own_rows_and_keeps_the_others(tmp_path):
    old = [row(shape="a", price=1.0), row(shape="b", price=2.0, date="2024-06-01")]
    new = [row(shape="a", price=3.0, date="2024-07-01"), row(shape="b", price=9.0)]
    assert {r.shape: r.price for r in updated(old, new)} == {"a": 3.0, "b": 2.0}


def test_the_catalogue_that_comes_along_is_dated_cited_and_large():
    found = load_catalogue()
    assert len({r.name for r in found}) >= 90 and len({r.provider for r in found}) >= 5
    assert all("revision" in r.source or "Table 3" in r.source for r in found)
    assert find_row(found, "azure/Standard_HB120rs_v3", "eastus", "spot").per_hour == 0.396
    assert find_row(found, "aws/c7gn.16xlarge", "eu-west-1").per_hour == 4.512
    assert find_row(found, "gcp/c3-highcpu-88", "us-central1", "spot").per_hour == 0.57235
