"""Found the chain of a scenario: what headquarters would enter before the first customer comes, in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.domain.refusals import Refusal
from server.provision import ChainPlan, provision
from server.scenario import by_name
from server.scenario.tables import WorldTable
from server.services import accounts, campaigns, catalog, keys, risk, staff
from server.services.answers import Answer
from server.services.context import Context
from server.services.services import Services


class Unfounded(Exception):
    """Say why a world cannot be: something of the file is refused by headquarters."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Hold the tokens of the chain's own app and of headquarters, and each till's name (`by_name.py`)."""

    app: str
    headquarters: str
    tills: Mapping[str, str]


def found(services: Services, world: WorldTable) -> Keys:
    """Make everything that the file describes; raises Unfounded, by name."""
    chain = world.chain
    plan = ChainPlan(
        currency=chain.currency,
        zone=chain.timezone,
        cash_step_minor=chain.cash_rounding,
        lock_timeout_s=int(chain.lock_timeout.total_seconds()),
    )
    headquarters = provision(services, plan)
    assert headquarters is not None, "the template holds no chain"
    return services.write(lambda conn, ctx: _found(conn, ctx, world, headquarters=headquarters))


def _found(conn: Connection, ctx: Context, world: WorldTable, *, headquarters: str) -> Keys:
    for store in world.store:
        catalog.set_store(conn, store.id, zone=store.timezone or world.chain.timezone)
    _sell(conn, ctx, world)
    _enrol(conn, ctx, world)
    _appoint(conn, ctx, world)
    for campaign in world.campaign:
        data: dict[str, Any] = {
            "id": campaign.id,
            "state": campaign.state,
            "offline": campaign.offline,
            "arbiter": campaign.arbiter,
            **campaign.rule,
        }
        if campaign.claims_per_second is not None:
            data["claims_per_second"] = campaign.claims_per_second
        if campaign.risk_max is not None:
            data["risk_max"] = ctx.chain.currency.format(campaign.risk_max)
        if campaign.sync_age_max_h is not None:
            data["sync_age_max_h"] = campaign.sync_age_max_h
        if campaign.stock is not None:
            data["stock"] = campaign.stock
        _need(campaigns.create(conn, ctx, data), f"campaign {campaign.id}")
    tills = {}
    for till in world.till:
        name = by_name.take_in(conn, ctx, till.id, store_id=till.store or world.default_store)
        _need(name, f"till {till.id}")
        assert isinstance(name, str)
        tills[till.id] = name
        if till.risk:
            done = risk.set_budget(conn, ctx, till.id, limit_minor=till.risk, by="headquarters", reason="the scenario")
            _need(done, f"till {till.id}")
    return Keys(keys.create(conn, ctx, scope="app", name="the chain's app").token, headquarters, tills)


_LITTLE_WORK_KIB = 64
"""Of hashing PINs that stand in a file anyway."""


def _appoint(conn: Connection, ctx: Context, world: WorldTable) -> None:
    for manager in world.manager:
        verifier = staff.make_verifier(ctx.code_key, manager.pin, memory_kib=_LITTLE_WORK_KIB)
        if isinstance(verifier, Refusal):
            _need(verifier, f"manager {manager.id}")
        else:
            known = staff.Manager(manager.id, manager.name or manager.id, manager.store, verifier)
            _need(staff.put(conn, ctx, known), f"manager {manager.id}")


def _sell(conn: Connection, ctx: Context, world: WorldTable) -> None:
    money = ctx.chain.currency.format
    products = [
        catalog.Product(
            sku=each.sku,
            price=money(each.price),
            name=each.name,
            category=each.category,
            brand=each.brand,
            barcode=each.barcode,
            kind=each.kind,
            by_weight=each.by_weight,
        )
        for each in world.product
    ]
    _need(catalog.set_products(conn, ctx, products), "product")


def _enrol(conn: Connection, ctx: Context, world: WorldTable) -> None:
    for member in world.member:
        home = member.home_store or world.default_store
        _need(catalog.set_member(conn, ctx, member.id, tier=member.tier, home_store=home, label=""), member.id)
        if member.stored_value:
            account_id = accounts.value_id(member.id)
            accounts.add(
                conn,
                f"top_up:{member.id}",
                account_id=account_id,
                amount=member.stored_value,
                reason="top_up",
                now=ctx.now,
            )
    for card in world.punch_card:
        made = catalog.add_punch_card(
            conn, ctx, card.id, member_id=card.member, service=card.service, uses=card.uses, until_at=card.until
        )
        _need(made, f"punch_card {card.id}")


def _need(answer: Answer | Refusal | str | int | None, what: str) -> None:
    refusal = answer if isinstance(answer, Refusal) else None
    code = refusal.code.value if refusal else answer.get("outcome") if isinstance(answer, dict) else "ok"
    facts = refusal.facts if refusal else answer.get("facts", {}) if isinstance(answer, dict) else {}
    if code != "ok":
        words = ", ".join(f"{key} {value}" for key, value in facts.items())
        raise Unfounded(f"{what}: {code} ({words})" if words else f"{what}: {code}")
