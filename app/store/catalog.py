"""Look products, members, punch cards and promotions up in the till's copy: few queries, each by an index."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from app.domain.money import Currency
from app.store.driver import run
from app.store.meta import instant

OFFLINE_HOURS = 8
"""What is provided for where the server does not say it: a server, or the copy, of an older version."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Hold the chain's settings; `cash_step_minor` 0 = cash is not rounded.

    `offline_hours` without a line are provided for.
    """

    currency: Currency
    zone: ZoneInfo
    cash_step_minor: int
    offline_hours: int


@dataclass(frozen=True, slots=True)
class Product:
    """Hold one product; `category` and `brand` are "" where it has none, `barcode` is a GTIN-14."""

    sku: str
    name: str
    name_en: str
    price_minor: int
    category: str
    brand: str
    by_weight: bool
    kind: str
    barcode: str | None


@dataclass(frozen=True, slots=True)
class Member:
    """Hold one member; `balance_minor` is what the server would let the member spend, as of the last pull."""

    id: str
    tier: str
    label: str
    has_ordered: bool
    balance_minor: int


@dataclass(frozen=True, slots=True)
class Card:
    """Hold one punch card; `uses_left` as of the last pull, `until_at` None = without end."""

    id: str
    member_id: str
    service: str
    uses_left: int
    until_at: datetime | None


@dataclass(frozen=True, slots=True)
class Promotion:
    """Hold one campaign; `rule` is JSON, `budget_left_minor` None = it has no budget, `lends`: it may go offline."""

    campaign_id: str
    state: str
    snapshot_id: str
    rule: str
    budget_left_minor: int | None
    lends: bool = True


def chain(conn: Connection) -> Chain | None:
    """Return the chain's settings, None before the first pull."""
    row = run(conn, "SELECT record FROM chain WHERE key = 'chain'").fetchone()
    if row is None:
        return None
    record = json.loads(row[0])
    return Chain(
        Currency.of(record["currency"]),
        ZoneInfo(record["zone"]),
        record["cash_step_minor"] or 0,
        offline_hours=record.get("offline_hours", OFFLINE_HOURS),
    )


def store_zone(conn: Connection, store_id: str) -> ZoneInfo | None:
    """Return the zone of a store's clock on the wall, None where the store was never heard of."""
    row = run(conn, "SELECT zone FROM store WHERE id = ?", (store_id,)).fetchone()
    return ZoneInfo(row[0]) if row else None


_PRODUCT = "p.sku, p.name, p.name_en, p.price_minor, p.category, p.brand, p.by_weight, p.kind, p.barcode"


def _product(row: Sequence[Any]) -> Product:
    return Product(
        row[0],
        row[1],
        row[2],
        price_minor=row[3],
        category=row[4],
        brand=row[5],
        by_weight=bool(row[6]),
        kind=row[7],
        barcode=row[8],
    )


def products(conn: Connection, skus: Iterable[str]) -> dict[str, Product]:
    """Return the products of these skus that are there, by sku."""
    rows = run(
        conn,
        f"SELECT {_PRODUCT} FROM json_each(?) j JOIN product p ON p.sku = j.value",
        (json.dumps(list(dict.fromkeys(skus))),),
    )
    return {row[0]: _product(row) for row in rows}


def product_by_barcode(conn: Connection, barcode: str) -> Product | None:
    """Return the product with this barcode, exactly as it is written (GTIN-14 for real ones)."""
    row = run(
        conn,
        f"SELECT {_PRODUCT} FROM product p WHERE p.barcode = ? ORDER BY p.sku LIMIT 1",
        (barcode,),
    ).fetchone()
    return _product(row) if row else None


def member(conn: Connection, member_id: str) -> Member | None:
    """Return a member by id."""
    row = run(
        conn, "SELECT id, tier, label, has_ordered, balance_minor FROM member WHERE id = ?", (member_id,)
    ).fetchone()
    return Member(row[0], row[1], row[2], has_ordered=bool(row[3]), balance_minor=row[4]) if row else None


def members_at(conn: Connection, store_id: str, member_ids: Iterable[str]) -> set[str]:
    """Return those of the members whose home store it is."""
    rows = run(
        conn,
        "SELECT m.id FROM json_each(?) j JOIN member m ON m.id = j.value WHERE m.home_store = ?",
        (json.dumps(list(member_ids)), store_id),
    )
    return {row[0] for row in rows}


def cards_at(conn: Connection, store_id: str, card_ids: Iterable[str]) -> set[str]:
    """Return those of the punch cards whose member has the store as home."""
    rows = run(
        conn,
        "SELECT c.id FROM json_each(?) j JOIN punch_card c ON c.id = j.value JOIN member m ON m.id = c.member_id "
        "WHERE m.home_store = ?",
        (json.dumps(list(card_ids)), store_id),
    )
    return {row[0] for row in rows}


_CARD = "c.id, c.member_id, c.service, c.uses_left, c.until_at"


def _card(row: tuple[str, str, str, int, int | None]) -> Card:
    until_at = None if row[4] is None else instant(row[4])
    return Card(row[0], row[1], row[2], uses_left=row[3], until_at=until_at)


def cards(conn: Connection, card_ids: Iterable[str]) -> dict[str, Card]:
    """Return the punch cards of these ids that are there, by id."""
    ids = list(dict.fromkeys(card_ids))
    if not ids:
        return {}
    rows = run(
        conn,
        f"SELECT {_CARD} FROM json_each(?) j JOIN punch_card c ON c.id = j.value",
        (json.dumps(ids),),
    )
    return {row[0]: _card(tuple(row)) for row in rows}


def cards_of(conn: Connection, member_id: str) -> list[Card]:
    """Return a member's punch cards, in the order of their ids."""
    rows = run(
        conn,
        f"SELECT {_CARD} FROM punch_card c WHERE c.member_id = ? ORDER BY c.id",
        (member_id,),
    )
    return [_card(tuple(row)) for row in rows]


def campaign(conn: Connection, campaign_id: str) -> Promotion | None:
    """Return a campaign of whatever kind with the rule in force; None where it or its rule is not here."""
    row = run(
        conn,
        "SELECT k.id, k.state, k.snapshot_id, s.rule, k.budget_left_minor, k.offline != 'online_only' FROM campaign k "
        "JOIN snapshot s ON s.id = k.snapshot_id WHERE k.id = ?",
        (campaign_id,),
    ).fetchone()
    return Promotion(row[0], row[1], row[2], row[3], budget_left_minor=row[4], lends=bool(row[5])) if row else None


def promotions(conn: Connection) -> list[Promotion]:
    """Return every automatic campaign, ended ones too: time decides, not what was last written."""
    rows = run(
        conn,
        "SELECT k.id, k.state, k.snapshot_id, s.rule, k.budget_left_minor FROM campaign k "
        "JOIN snapshot s ON s.id = k.snapshot_id WHERE k.kind = 'automatic' ORDER BY k.id",
    )
    return [Promotion(row[0], row[1], row[2], rule=row[3], budget_left_minor=row[4]) for row in rows]
