"""Set up the demo chain of `resources/demo` on a fresh server: the same stores, goods, members and codes at each start.

Everything goes through the use cases that headquarters' API calls, so the demo has nothing that a shop could not have.
Only the keys are new each time: they are secrets.
"""

import csv
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from random import Random
from typing import Any, TypeVar

from sqlalchemy import Connection

from app.domain.money import Currency
from app.domain.refusals import Refusal
from app.domain.uuid7 import next_tick, uuid7
from server.provision import ChainPlan, provision
from server.services import campaigns, catalog, grants, keys
from server.services.answers import Answer
from server.services.context import Context
from server.services.services import Services

T = TypeVar("T")

_FIRST_ID_MS = 1_767_225_600_000
"""2026-01-01 in UTC: before every id that a running server makes, so those of the demo data come first."""


class DemoIds:
    """Make the same ids and codes at every start; the ids in the form of UUIDv7."""

    def __init__(self) -> None:
        self._count = 0
        self._chance = Random("pawtill demo")

    def new(self) -> str:
        """Return the next id."""
        self._count += 1
        return uuid7(next_tick(0, _FIRST_ID_MS), self._count)

    def digits(self, count: int) -> str:
        """Return digits that only look random: nobody can lose money by a coupon of the demo."""
        return "".join(self._chance.choices("0123456789", k=count))


@dataclass(frozen=True, slots=True)
class DemoCoupon:
    """Name a coupon that a member of the demo holds; its campaign's names are for people."""

    id: str
    code: str
    member_id: str
    campaign_id: str
    name: str
    name_en: str


@dataclass(frozen=True, slots=True)
class DemoTill:
    """Hold which till stands where."""

    id: str
    store_id: str


@dataclass(frozen=True, slots=True)
class DemoChain:
    """Hold what the demo has to know of the chain; the two keys open it."""

    tills: tuple[DemoTill, ...]
    coupons: tuple[DemoCoupon, ...]
    headquarters_key: str
    app_key: str


def demo_data() -> dict[str, Any]:
    """Return the demo chain as it is written in `resources/demo/chain.toml`."""
    return tomllib.loads((files("resources.demo") / "chain.toml").read_text("utf-8"))


def demo_products() -> list[catalog.Product]:
    """Return the goods of the demo chain."""
    text = (files("resources.demo") / "products.csv").read_text("utf-8")
    return [
        catalog.Product(
            sku=row["sku"],
            price=row["price"],
            name=row["name"],
            name_en=row["name_en"],
            category=row["category"],
            brand=row["brand"],
            barcode=row["barcode"] or None,
            kind=row["kind"],
            by_weight=row["by_weight"] == "true",
        )
        for row in csv.DictReader(text.splitlines())
    ]


def load_demo_chain(services: Services) -> DemoChain:
    """Set everything up in an empty database, one transaction for each kind of thing."""
    data = demo_data()
    headquarters_key = provision(services, _plan(data["chain"]))
    assert headquarters_key is not None, "the demo wants a database of its own"

    def run(use_case: Callable[[Connection, Context], T]) -> T:
        return services.write(use_case)

    tills = run(lambda conn, ctx: _places(conn, ctx, data))
    run(lambda conn, ctx: _done(catalog.set_products(conn, ctx, demo_products())))
    run(lambda conn, ctx: _people(conn, ctx, data))
    run(lambda conn, ctx: [_granted(campaigns.create(conn, ctx, table)) for table in data["campaign"]])
    coupons = run(lambda conn, ctx: _coupons(conn, ctx, data))
    app_key = run(lambda conn, ctx: keys.create(conn, ctx, scope="app", name="the chain's app").token)
    return DemoChain(tills, coupons, headquarters_key, app_key)


def _plan(chain: Mapping[str, Any]) -> ChainPlan:
    step_minor = _done(Currency.of(chain["currency"]).parse(chain["cash_rounding"]))
    return ChainPlan(
        currency=chain["currency"],
        zone=chain["zone"],
        cash_step_minor=step_minor,
        lock_timeout_s=chain["lock_timeout_s"],
    )


def _places(conn: Connection, ctx: Context, data: Mapping[str, Any]) -> tuple[DemoTill, ...]:
    for store in data["store"]:
        catalog.set_store(conn, store["id"], zone=data["chain"]["zone"])
    tills = tuple(DemoTill(till["id"], till["store"]) for till in data["till"])
    for till in tills:
        _done(catalog.set_till(conn, ctx, till.id, store_id=till.store_id))
    return tills


def _people(conn: Connection, ctx: Context, data: Mapping[str, Any]) -> None:
    for member in [*data["member"], *_crowd(data["crowd"])]:
        member_id = member["id"]
        _done(
            catalog.set_member(
                conn, ctx, member_id, tier=member["tier"], home_store=member["home_store"], label=member["label"]
            )
        )
        if "stored_value" in member:
            _granted(catalog.top_up(conn, ctx, member_id, request=f"demo-{member_id}", amount=member["stored_value"]))
    for card in data["punch_card"]:
        _done(
            catalog.add_punch_card(
                conn,
                ctx,
                card["id"],
                member_id=card["member"],
                service=card["service"],
                uses=card["uses"],
                until_at=None,
            )
        )


def _crowd(crowd: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return members so that lists look as they do in a shop; tiers and stores take turns."""
    tiers, stores = crowd["tiers"], crowd["home_stores"]
    return [
        {
            "id": f"M{number}",
            "label": f"13{number % 10}****{number}",
            "tier": tiers[number % len(tiers)],
            "home_store": stores[number % len(stores)],
            "stored_value": crowd["stored_value"],
        }
        for number in range(crowd["first"], crowd["first"] + crowd["count"])
    ]


def _coupons(conn: Connection, ctx: Context, data: Mapping[str, Any]) -> tuple[DemoCoupon, ...]:
    """Claim every member's coupons, as the chain's app would."""
    names = {campaign["id"]: (campaign["name"], campaign["name_en"]) for campaign in data["campaign"]}
    found = []
    for member in data["member"]:
        for number, campaign_id in enumerate(member["coupons"], start=1):
            wanted = grants.Wanted(f"claim:demo-{member['id']}-{number}", campaign_id, member["id"], "app")
            answer = _granted(grants.grant(conn, ctx, [wanted])[0])
            found.append(DemoCoupon(answer["coupon"], answer["code"], member["id"], campaign_id, *names[campaign_id]))
    return tuple(found)


def _done(value: T | Refusal) -> T:
    """Return what a use case gave; the demo's data is ours, so a "no" to it is our bug."""
    assert not isinstance(value, Refusal), f"the demo data was refused: {value}"
    return value


def _granted(answer: Answer) -> Answer:
    assert answer["outcome"] == "ok", f"the demo data was refused: {answer}"
    return answer
