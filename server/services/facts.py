"""Gather what prices an order from the server's database: a fixed number of queries, whatever the basket holds.

The server prices lines from its own product table, never by what the caller says they cost.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, RowMapping, Text, bindparam, cast, exists, select

from app.domain.basket import MAX_LINES, Cover, Line, check_qty
from app.domain.facts import CardFacts, CouponFacts, MemberFacts, OrderFacts, Place, PromotionFacts
from app.domain.money import Currency
from app.domain.pricing import effective_member_id
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rule_json import read_rule
from app.domain.rules import Kind, Rule
from app.domain.states import CampaignState
from server.db import schema
from server.db.bulk import Lookup
from server.services import accounts
from server.services.context import Context
from server.services.feed_records import LIVE_ORDER_STATES

_STORE = select(schema.store.c.zone).where(schema.store.c.id == bindparam("of"))
_PRODUCTS = Lookup(select(schema.product), schema.product.c.sku)
_CARDS = Lookup(select(schema.punch_card), schema.punch_card.c.id)
_COUPONS = Lookup(
    select(
        schema.coupon.c.id,
        schema.coupon.c.campaign_id,
        schema.coupon.c.member_id,
        schema.coupon.c.state,
        schema.coupon.c.order_id,
        schema.coupon.c.valid_until_at,
        schema.coupon.c.home,
        cast(schema.snapshot.c.rule, Text).label("rule"),
        schema.campaign.c.state.label("campaign_state"),
        schema.orders.c.store_id,
        schema.orders.c.sold_at,
        schema.orders.c.received_at,
    )
    .join(schema.snapshot, schema.snapshot.c.id == schema.coupon.c.snapshot_id)
    .join(schema.campaign, schema.campaign.c.id == schema.coupon.c.campaign_id)
    .outerjoin(schema.orders, schema.orders.c.id == schema.coupon.c.order_id),
    schema.coupon.c.id,
)
_PROMOTIONS = (
    select(
        schema.campaign.c.id.label("campaign_id"),
        schema.campaign.c.state.label("campaign_state"),
        cast(schema.snapshot.c.rule, Text).label("rule"),
    )
    .join(schema.snapshot, schema.snapshot.c.id == schema.campaign.c.snapshot_id)
    .where(
        schema.campaign.c.kind == Kind.AUTOMATIC,
        schema.campaign.c.state.not_in([CampaignState.DRAFT, CampaignState.ENDED]),
    )
    .order_by(schema.campaign.c.id)
)
_OTHER_ORDERS = exists().where(
    schema.orders.c.member_id == bindparam("of"),
    schema.orders.c.id != bindparam("order"),
    schema.orders.c.state.in_(LIVE_ORDER_STATES),
)
_MEMBER = select(schema.member.c.tier, _OTHER_ORDERS.label("ordered")).where(schema.member.c.id == bindparam("of"))


@dataclass(frozen=True, slots=True)
class AskedLine:
    """Ask for `qty_milli` thousandths of a product; `number` counts from 1 and is unique in the basket."""

    number: int
    sku: str
    qty_milli: int


@dataclass(frozen=True, slots=True)
class Basket:
    """Name what is to be priced, by ids alone.

    `order_id` is "" for a mere question. `use` lists coupon ids in the order of scanning. `promotions` False leaves the
    automatic promotions out.
    """

    order_id: str
    store_id: str
    member_id: str | None
    lines: tuple[AskedLine, ...]
    use: tuple[str, ...] = ()
    covers: tuple[Cover, ...] = ()
    promotions: bool = True


@dataclass(slots=True)
class _Rows:
    """Collect what the queries found, before it is told as facts."""

    coupons: Mapping[str, RowMapping]
    cards: Mapping[str, RowMapping]
    promotions: Sequence[RowMapping]
    found: Mapping[str, accounts.Account] = field(default_factory=dict)

    def left(self, account_id: str) -> int | None:
        """Return what the account has available, None where there is no such account."""
        account = self.found.get(account_id)
        return None if account is None else account.available


def gather(conn: Connection, context: Context, basket: Basket) -> OrderFacts | Refusal:
    """Return everything that `pricing.price` looks at.

    Refuses what cannot be priced at all: an unknown store, product or member (`unknown_code`, facts `kind` and `id`),
    no lines, too many, or a quantity that makes no sense (`invalid_quantity`). Unknown coupons and cards are facts
    of the order (`OrderFacts.unknown`), so that the rest is priced without them.
    """
    zone = conn.execute(_STORE, {"of": basket.store_id}).scalar_one_or_none()
    if zone is None:
        return unknown("store", basket.store_id)
    lines = _lines(conn, basket)
    if isinstance(lines, Refusal):
        return lines
    rows = _Rows(
        coupons=_by_key(conn, _COUPONS, "id", keys=basket.use),
        cards=_by_key(conn, _CARDS, "id", keys=[cover.card_id for cover in basket.covers]),
        promotions=conn.execute(_PROMOTIONS).mappings().all() if basket.promotions else (),
    )
    campaigns = [row["campaign_id"] for row in (*rows.coupons.values(), *rows.promotions)]
    rows.found = accounts.read(conn, [*map(accounts.budget_id, campaigns), *map(accounts.uses_id, rows.cards)])
    return _facts(conn, context, basket, lines=lines, place=Place(basket.store_id, ZoneInfo(zone)), rows=rows)


def _facts(
    conn: Connection, context: Context, basket: Basket, *, lines: tuple[Line, ...], place: Place, rows: _Rows
) -> OrderFacts | Refusal:
    coupons = tuple(
        _coupon(rows.coupons[name], rows, context.chain.currency, asked_only=not basket.order_id)
        for name in basket.use
        if name in rows.coupons
    )
    cards = {name: _card(row, rows) for name, row in rows.cards.items()}
    offered = [cards[cover.card_id] for cover in basket.covers if cover.card_id in cards]
    member_id = effective_member_id(basket.member_id, coupons, offered, now=context.now, order_id=basket.order_id)
    member = None if member_id is None else _member(conn, member_id, basket.order_id)
    if member_id is not None and member is None:
        return unknown("member", member_id)
    missing = {name: unknown("coupon", name) for name in basket.use if name not in rows.coupons}
    missing |= {c.card_id: unknown("punch_card", c.card_id) for c in basket.covers if c.card_id not in cards}
    return OrderFacts(
        order_id=basket.order_id,
        lines=lines,
        place=place,
        now=context.now,
        member=member,
        coupons=coupons,
        covers=basket.covers,
        cards=cards,
        promotions=tuple(_promotion(row, rows, context.chain.currency) for row in rows.promotions),
        unknown=missing,
    )


def _lines(conn: Connection, basket: Basket) -> tuple[Line, ...] | Refusal:
    asked = basket.lines
    if not 0 < len(asked) <= MAX_LINES or len({line.number for line in asked}) < len(asked):
        return refuse(RefusalCode.INVALID_QUANTITY, lines=len(asked), max_lines=MAX_LINES)
    products = _by_key(conn, _PRODUCTS, "sku", keys=[line.sku for line in asked])
    lines = []
    for line in asked:
        found = products.get(line.sku)
        if found is None:
            return unknown("product", line.sku)
        qty_milli = check_qty(line.qty_milli, by_weight=found["by_weight"])
        if isinstance(qty_milli, Refusal):
            return Refusal(qty_milli.code, {"line": line.number, **qty_milli.facts})
        lines.append(
            Line(
                number=line.number,
                sku=line.sku,
                price_minor=found["price_minor"],
                qty_milli=qty_milli,
                category=found["category"],
                brand=found["brand"],
                by_weight=found["by_weight"],
            )
        )
    return tuple(lines)


def _by_key(conn: Connection, lookup: Lookup, column: str, *, keys: Iterable[str]) -> dict[str, RowMapping]:
    """Select rows by a key column; nothing asked for costs no query."""
    found = (row._mapping for row in lookup.rows(conn, list(dict.fromkeys(keys))))
    return {row[column]: row for row in found}


@lru_cache(maxsize=4096)
def stored_rule(text: str, currency: Currency) -> Rule:
    """Read a stored rule. Keyed by its text: a snapshot never changes, and 50 coupons often share a few of them."""
    rule = read_rule(json.loads(text), currency)
    assert isinstance(rule, Rule), f"a stored snapshot reads back: {rule}"
    return rule


def _coupon(row: RowMapping, rows: _Rows, currency: Currency, *, asked_only: bool) -> CouponFacts:
    """Describe a coupon. Where the server is to decide, every till is elsewhere, also the one that asks.

    A mere question takes nothing, and the coupon comes to where its member is: its home is no reason against it.
    """
    elsewhere = row["home"] is not None and not asked_only
    rule = stored_rule(row["rule"], currency)
    at = row["sold_at"] or row["received_at"]
    return CouponFacts(
        id=row["id"],
        campaign_id=row["campaign_id"],
        rule=rule,
        state=row["state"],
        member_id=None if rule.bearer else row["member_id"],
        valid_until_at=row["valid_until_at"],
        campaign_state=row["campaign_state"],
        order_id=row["order_id"],
        state_facts={"store": row["store_id"], "at": at.isoformat()} if at else {},
        budget_left_minor=rows.left(accounts.budget_id(row["campaign_id"])),
        blocked=refuse(RefusalCode.LEASED_ELSEWHERE, coupon=row["id"], till=row["home"]) if elsewhere else None,
    )


def _promotion(row: RowMapping, rows: _Rows, currency: Currency) -> PromotionFacts:
    return PromotionFacts(
        campaign_id=row["campaign_id"],
        rule=stored_rule(row["rule"], currency),
        campaign_state=row["campaign_state"],
        budget_left_minor=rows.left(accounts.budget_id(row["campaign_id"])),
    )


def _card(row: RowMapping, rows: _Rows) -> CardFacts:
    return CardFacts(
        id=row["id"],
        member_id=row["member_id"],
        service=row["service"],
        uses_left=rows.left(accounts.uses_id(row["id"])) or 0,
        until_at=row["until_at"],
    )


def _member(conn: Connection, member_id: str, order_id: str) -> MemberFacts | None:
    found = conn.execute(_MEMBER, {"of": member_id, "order": order_id}).one_or_none()
    return None if found is None else MemberFacts(member_id, found.tier, has_ordered=bool(found.ordered))
