"""Build the records that tills pull, many of one kind at a time. Instants are milliseconds since 1970."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, exists, literal, or_, select

from app.domain.rights import risk_id
from app.domain.states import OrderState
from server.db import schema
from server.db.bulk import Lookup
from server.services import accounts
from server.services.context import load_chain

CHAIN, STORE, PRODUCT, MEMBER, PUNCH_CARD = "chain", "store", "product", "member", "punch_card"
SNAPSHOT, CAMPAIGN, COUPON, LEASE = "snapshot", "campaign", "coupon", "lease"
RISK, STAFF = "risk", "staff"

Records = dict[str, dict[str, Any]]
LIVE_ORDER_STATES = (OrderState.HELD, OrderState.UNKNOWN, OrderState.PAID, OrderState.PARTLY_REFUNDED)
"""What counts as "has ordered": not an order cancelled or wholly refunded, else its returned coupon is worthless."""


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else round(instant.timestamp() * 1000)


_STORES = Lookup(select(schema.store), schema.store.c.id)
_PRODUCTS = Lookup(select(schema.product), schema.product.c.sku)
_ORDERED = exists().where(schema.orders.c.member_id == schema.member.c.id, schema.orders.c.state.in_(LIVE_ORDER_STATES))
_MEMBERS = Lookup(select(schema.member, _ORDERED.label("has_ordered")), schema.member.c.id)
_PUNCH_CARDS = Lookup(select(schema.punch_card), schema.punch_card.c.id)
_SNAPSHOTS = Lookup(select(schema.snapshot), schema.snapshot.c.id)
_CAMPAIGNS = Lookup(select(schema.campaign), schema.campaign.c.id)
_ASKED_BACK = and_(
    schema.coupon_recall.c.coupon_id == schema.coupon.c.id, schema.coupon_recall.c.version == schema.coupon.c.version
)
_COUPONS = Lookup(
    select(
        schema.coupon,
        schema.orders.c.store_id,
        schema.orders.c.sold_at,
        schema.orders.c.received_at,
        or_(schema.coupon_recall.c.coupon_id.is_not(None), schema.till.c.lost_at.is_not(None)).label("recalled"),
    )
    .outerjoin(schema.orders, schema.orders.c.id == schema.coupon.c.order_id)
    .outerjoin(schema.coupon_recall, _ASKED_BACK)
    .outerjoin(schema.till, schema.till.c.id == schema.coupon.c.home),
    schema.coupon.c.id,
)
_LEASES = Lookup(select(schema.lease), schema.lease.c.id)
_LEASE_COUPONS = Lookup(
    select(schema.lease_coupon).order_by(schema.lease_coupon.c.coupon_id), schema.lease_coupon.c.lease_id
)
_RISK_BUDGETS = Lookup(select(schema.risk_budget), schema.risk_budget.c.till_id)
_STAFF = Lookup(select(schema.staff).where(schema.staff.c.active.is_(True)), schema.staff.c.id)


def _chain(conn: Connection, keys: Sequence[str]) -> Records:
    chain = load_chain(conn)
    record = {
        "currency": chain.currency.code,
        "zone": chain.zone.key,
        "cash_step_minor": chain.cash_step_minor,
        "lock_timeout_s": round(chain.lock_timeout.total_seconds()),
        "offline_hours": chain.offline_hours,
    }
    return dict.fromkeys(keys, record)


def _stores(conn: Connection, keys: Sequence[str]) -> Records:
    return {row.id: {"id": row.id, "zone": row.zone} for row in _STORES.rows(conn, keys)}


def _products(conn: Connection, keys: Sequence[str]) -> Records:
    return {row.sku: dict(row._mapping) for row in _PRODUCTS.rows(conn, keys)}


def _members(conn: Connection, keys: Sequence[str]) -> Records:
    values = accounts.read(conn, map(accounts.value_id, keys))
    return {
        row.id: {
            "id": row.id,
            "tier": row.tier,
            "home_store": row.home_store,
            "label": row.label,
            "has_ordered": row.has_ordered,
            "balance_minor": _available(values, accounts.value_id(row.id)),
        }
        for row in _MEMBERS.rows(conn, keys)
    }


def _punch_cards(conn: Connection, keys: Sequence[str]) -> Records:
    uses = accounts.read(conn, map(accounts.uses_id, keys))
    return {
        row.id: {
            "id": row.id,
            "member": row.member_id,
            "service": row.service,
            "uses_left": _available(uses, accounts.uses_id(row.id)),
            "until_at": _ms(row.until_at),
        }
        for row in _PUNCH_CARDS.rows(conn, keys)
    }


def _available(found: Mapping[str, accounts.Account], account_id: str) -> int:
    return found[account_id].available if account_id in found else 0


def _snapshots(conn: Connection, keys: Sequence[str]) -> Records:
    rows = _SNAPSHOTS.rows(conn, keys)
    return {row.id: {"id": row.id, "campaign": row.campaign_id, "rule": row.rule} for row in rows}


def _campaigns(conn: Connection, keys: Sequence[str]) -> Records:
    budgets = accounts.read(conn, map(accounts.budget_id, keys))
    records = {}
    for row in _CAMPAIGNS.rows(conn, keys):
        budget = budgets.get(accounts.budget_id(row.id))
        records[row.id] = {
            "id": row.id,
            "kind": row.kind,
            "state": row.state,
            "snapshot": row.snapshot_id,
            "budget_left_minor": budget.available if budget else None,
            "offline": row.offline,
            "risk_max_minor": row.risk_max_minor,
            "sync_age_max_h": row.sync_age_max_h,
        }
    return records


def _coupons(conn: Connection, keys: Sequence[str]) -> Records:
    return {
        row.id: {
            "id": row.id,
            "digest": row.code_digest.hex(),
            "campaign": row.campaign_id,
            "snapshot": row.snapshot_id,
            "member": row.member_id,
            "state": row.state,
            "order": row.order_id,
            "store": row.store_id,
            "at": _ms(row.sold_at or row.received_at),
            "valid_until_at": _ms(row.valid_until_at),
            "home": row.home,
            "version": row.version,
            "recalled": bool(row.recalled and row.home),
            "frozen": row.frozen_version == row.version,
        }
        for row in _COUPONS.rows(conn, keys)
    }


def _leases(conn: Connection, keys: Sequence[str]) -> Records:
    """Show leases, each with the coupons of its stock: for its own till alone (`feed.page`)."""
    too_much = _beyond_budget(conn)
    records = {
        row.id: {
            "id": row.id,
            "till": row.till_id,
            "account": row.account_id,
            "qty": row.qty,
            "state": row.state,
            "coupons": [],
            "recalled": row.stranded_at is not None or row.account_id in too_much,
        }
        for row in _LEASES.rows(conn, keys)
    }
    for row in _LEASE_COUPONS.rows(conn, keys):
        records[row.lease_id]["coupons"].append({"coupon": row.coupon_id, "code": row.code})
    return records


def _beyond_budget(conn: Connection) -> frozenset[str]:
    """Return the accounts of risk of which more is leased than their budget: it was lowered meanwhile."""
    budget, account = schema.risk_budget, schema.account
    name = literal(f"{accounts.RISK}:") + budget.c.till_id
    over = account.c.leased + account.c.stranded > budget.c.limit_minor
    return frozenset(conn.execute(select(account.c.id).join(budget, account.c.id == name).where(over)).scalars())


def _risk_budgets(conn: Connection, keys: Sequence[str]) -> Records:
    """Show what a till may lose, and what of that it has not leased yet: for that till alone (`feed.page`)."""
    found = accounts.read(conn, map(risk_id, keys))
    return {
        row.till_id: {
            "till": row.till_id,
            "limit_minor": row.limit_minor,
            "available_minor": _available(found, risk_id(row.till_id)),
        }
        for row in _RISK_BUDGETS.rows(conn, keys)
    }


def _staff(conn: Connection, keys: Sequence[str]) -> Records:
    """Show who may approve, with the verifier of the PIN: for the tills of that person's store alone (`feed.page`).

    Who has left is gone.
    """
    return {
        row.id: {
            "id": row.id,
            "name": row.name,
            "store": row.store_id,
            "verifier": row.verifier,
            "pin_version": row.pin_version,
        }
        for row in _STAFF.rows(conn, keys)
    }


READERS: Mapping[str, Callable[[Connection, Sequence[str]], Records]] = {
    CHAIN: _chain,
    STORE: _stores,
    PRODUCT: _products,
    MEMBER: _members,
    PUNCH_CARD: _punch_cards,
    SNAPSHOT: _snapshots,
    CAMPAIGN: _campaigns,
    COUPON: _coupons,
    LEASE: _leases,
    RISK: _risk_budgets,
    STAFF: _staff,
}
