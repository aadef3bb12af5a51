"""Set up what the chain is made of: settings, stores, tills, products, members, punch cards, stored value.

Everything here is set by its id, so the same call again changes nothing. Each change moves its feed row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from app.domain.gtin import to_gtin14
from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from server.db import schema
from server.db.portable import upsert
from server.services import accounts, devices, feed, feed_records
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.idempotency import once

CHAIN_KEY = "chain"
OFFLINE_HOURS_MAX = 168
"""A week: demand is not counted for longer (`app/services/demand.py`)."""


@dataclass(frozen=True, slots=True)
class Product:
    """Describe a product as it is set: `price` is text in the chain's currency, `barcode` what is printed, or None."""

    sku: str
    price: str
    name: str
    name_en: str = ""
    category: str = ""
    brand: str = ""
    barcode: str | None = None
    kind: str = "goods"
    by_weight: bool = False


def set_chain(
    conn: Connection, now: datetime, *, currency: str, zone: str, cash_step_minor: int, lock_timeout_s: int
) -> Refusal | None:
    """Set the chain's settings; None = done. The currency stays as it is once a price or a rule is written in it."""
    row = schema.chain
    known = conn.execute(select(row.c.currency)).scalar_one_or_none()
    if known not in (None, currency) and _has_amounts(conn):
        return refuse(RefusalCode.NOT_ALLOWED, field="currency", reason="amounts are written in it", currency=known)
    values = {
        "currency": currency,
        "zone": zone,
        "cash_step_minor": cash_step_minor,
        "lock_timeout_s": lock_timeout_s,
    }
    conn.execute(
        upsert(conn, row)
        .values(id=1, incarnation=1, **values)
        .on_conflict_do_update(index_elements=["id"], set_=values)
    )
    feed.touch(conn, [(feed_records.CHAIN, CHAIN_KEY)])
    return None


def set_offline_hours(conn: Connection, hours: int) -> None:
    """Let tills provide for so many hours without a line; each hears of it with its next sync."""
    assert 1 <= hours <= OFFLINE_HOURS_MAX, "the callers bound it"
    conn.execute(update(schema.chain).values(offline_hours=hours))
    feed.touch(conn, [(feed_records.CHAIN, CHAIN_KEY)])


def chain_settings(ctx: Context) -> Answer:
    """Show the chain's settings."""
    chain = ctx.chain
    step = chain.currency.format(chain.cash_step_minor) if chain.cash_step_minor else None
    return ok(
        currency=chain.currency.code,
        zone=chain.zone.key,
        cash_rounding=step,
        lock_timeout_s=round(chain.lock_timeout.total_seconds()),
        offline_hours=chain.offline_hours,
    )


def _has_amounts(conn: Connection) -> bool:
    tables = (schema.product, schema.campaign, schema.orders)
    return any(conn.execute(select(func.count()).select_from(table)).scalar_one() for table in tables)


def set_store(conn: Connection, store_id: str, *, zone: str) -> None:
    """Set a store and its time zone, in which hours and weekdays count."""
    conn.execute(
        upsert(conn, schema.store)
        .values(id=store_id, zone=zone)
        .on_conflict_do_update(index_elements=["id"], set_={"zone": zone})
    )
    feed.touch(conn, [(feed_records.STORE, store_id)])


def set_till(conn: Connection, ctx: Context, till_id: str, *, store_id: str) -> Refusal | None:
    """Set in which store a till stands; None = done. One that moves has to enrol anew there."""
    if not _is_there(conn, schema.store.c.id, store_id):
        return unknown("store", store_id)
    stood = conn.execute(select(schema.till.c.store_id).where(schema.till.c.id == till_id)).scalar_one_or_none()
    if stood == store_id:
        return None
    conn.execute(
        upsert(conn, schema.till)
        .values(id=till_id, store_id=store_id)
        .on_conflict_do_update(index_elements=["id"], set_={"store_id": store_id})
    )
    devices.replace(conn, ctx, till_id)
    return None


def set_products(conn: Connection, ctx: Context, products: Sequence[Product]) -> Refusal | int:
    """Set the products by sku, all or none; returns how many. Refuses a price that is no amount, a barcode in use."""
    rows: dict[str, dict[str, Any]] = {}
    for product in products:
        row = _product_row(product, ctx.chain.currency)
        if isinstance(row, Refusal):
            return row
        rows[product.sku] = row
    taken = _taken_barcode(conn, rows)
    if taken is not None:
        return taken
    # Barcodes may change hands among the products that are set together: let go of all of them first.
    conn.execute(update(schema.product).where(schema.product.c.sku.in_(list(rows))).values(barcode=None))
    statement = upsert(conn, schema.product)
    changed = {column.name: statement.excluded[column.name] for column in schema.product.c if column.name != "sku"}
    if rows:
        conn.execute(statement.on_conflict_do_update(index_elements=["sku"], set_=changed), list(rows.values()))
    feed.touch(conn, [(feed_records.PRODUCT, sku) for sku in rows])
    return len(rows)


def _product_row(product: Product, currency: Currency) -> dict[str, Any] | Refusal:
    price_minor = currency.parse(product.price)
    if isinstance(price_minor, Refusal):
        return Refusal(price_minor.code, {"sku": product.sku, **price_minor.facts})
    if price_minor < 0:
        return refuse(RefusalCode.INVALID_AMOUNT, sku=product.sku, text=product.price)
    return {
        "sku": product.sku,
        "name": product.name or product.sku,
        "name_en": product.name_en,
        "price_minor": price_minor,
        "category": product.category,
        "brand": product.brand,
        "barcode": _barcode(product.barcode),
        "kind": product.kind,
        "by_weight": product.by_weight,
    }


def _barcode(text: str | None) -> str | None:
    """Return the GTIN-14; a shop's own number, or one with a wrong check digit on the pack, stays as it is printed."""
    return (to_gtin14(text) or text) if text else None


def _taken_barcode(conn: Connection, rows: dict[str, dict[str, Any]]) -> Refusal | None:
    owners: dict[str, str] = {}
    for sku, row in rows.items():
        if row["barcode"] is not None and owners.setdefault(row["barcode"], sku) != sku:
            return refuse(RefusalCode.DUPLICATE_MISMATCH, barcode=row["barcode"], sku=owners[row["barcode"]])
    product = schema.product
    others = conn.execute(
        select(product.c.barcode, product.c.sku).where(
            product.c.barcode.in_(list(owners)), product.c.sku.not_in(list(rows))
        )
    ).first()
    return refuse(RefusalCode.DUPLICATE_MISMATCH, barcode=others.barcode, sku=others.sku) if others else None


def set_member(
    conn: Connection, ctx: Context, member_id: str, *, tier: str, home_store: str, label: str
) -> Refusal | None:
    """Set a member; None = done. `label` is what a till may show: a masked phone, no name."""
    if not _is_there(conn, schema.store.c.id, home_store):
        return unknown("store", home_store)
    values = {"tier": tier, "home_store": home_store, "label": label}
    conn.execute(
        upsert(conn, schema.member)
        .values(id=member_id, **values)
        .on_conflict_do_update(index_elements=["id"], set_=values)
    )
    accounts.open_account(conn, accounts.value_id(member_id), kind=accounts.VALUE, total=0, now=ctx.now)
    feed.touch(conn, [(feed_records.MEMBER, member_id)])
    return None


def add_punch_card(
    conn: Connection, ctx: Context, card_id: str, *, member_id: str, service: str, uses: int, until_at: datetime | None
) -> Refusal | None:
    """Sell a card with `uses` (> 0) units of the sku `service`; None = done. A card is made once and stays as it is."""
    if not _is_there(conn, schema.member.c.id, member_id):
        return unknown("member", member_id)
    if not _is_there(conn, schema.product.c.sku, service):
        return unknown("product", service)
    card = schema.punch_card
    known = conn.execute(select(card).where(card.c.id == card_id)).one_or_none()
    if known is not None:
        total = accounts.read(conn, [accounts.uses_id(card_id)])[accounts.uses_id(card_id)].total
        same = (known.member_id, known.service, known.until_at, total) == (member_id, service, until_at, uses)
        return None if same else refuse(RefusalCode.DUPLICATE_MISMATCH, kind="punch_card", id=card_id)
    conn.execute(insert(card).values(id=card_id, member_id=member_id, service=service, until_at=until_at))
    accounts.open_account(conn, accounts.uses_id(card_id), kind=accounts.USES, total=uses, now=ctx.now)
    feed.touch(conn, [(feed_records.PUNCH_CARD, card_id)])
    return None


def top_up(conn: Connection, ctx: Context, member_id: str, *, request: str, amount: str) -> Answer:
    """Put stored value on a member's account, once for each request; answers with the balance behind it."""
    content = {"member": member_id, "amount": amount}
    return once(
        conn,
        f"top_up:{request}",
        content,
        decide=lambda: _top_up(conn, ctx, member_id, request=request, amount=amount),
        now=ctx.now,
    )


def _top_up(conn: Connection, ctx: Context, member_id: str, *, request: str, amount: str) -> Answer:
    currency, account_id = ctx.chain.currency, accounts.value_id(member_id)
    amount_minor = currency.parse(amount)
    if isinstance(amount_minor, Refusal):
        return refused(amount_minor)
    if amount_minor <= 0:
        return refused(refuse(RefusalCode.INVALID_AMOUNT, text=amount))
    if not _is_there(conn, schema.member.c.id, member_id):
        return refused(unknown("member", member_id))
    transfer_id = f"top_up:{request}"
    accounts.add(conn, transfer_id, account_id=account_id, amount=amount_minor, reason="top_up", now=ctx.now)
    accounts.pay_back_overdraft(conn, f"{transfer_id}:over", account_id=account_id, reason="top_up", now=ctx.now)
    feed.touch(conn, [(feed_records.MEMBER, member_id)])
    standing = accounts.read(conn, [account_id])[account_id].standing
    return ok(member=member_id, balance=currency.format(standing))


def _is_there(conn: Connection, column: Any, value: str) -> bool:
    return conn.execute(select(column).where(column == value)).first() is not None
