"""Gather every fact that prices a basket from the till's copy, into one frozen value (STYLE, lesson 3).

What this till has a right to decide, it decides, with or without a line. Offline, the rest is marked as the server's:
coupons, punch cards, and promotions with a budget are blocked (`needs_online`), so that they are refused behind their
own reasons (an expired coupon stays expired). What is at home at another till is blocked always (`leased_elsewhere`).
A coupon that may be taken at a risk is blocked until a manager has approved it for this order (`risks`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from app.domain.basket import MAX_LINES, Line, check_qty, line_gross
from app.domain.facts import CardFacts, CouponFacts, MemberFacts, OrderFacts, Place, PromotionFacts
from app.domain.money import MAX_MINOR
from app.domain.pricing import effective_member_id
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rights import budget_id, uses_id
from app.services.api import BasketRequest
from app.services.parts import Parts
from app.services.risks import RiskDesk
from app.store import catalog, coupons, meta, orders, rights
from app.store.catalog import Card, Chain, Product
from app.store.coupons import CouponRow
from app.store.meta import Meta

KEPT_PRODUCTS = 20_000
"""Products kept in memory, some MB; past it they are looked up anew."""


@dataclass(frozen=True, slots=True)
class Published:
    """Hold what changes only with a pull: it is read anew when the feed's `cursor` has moved.

    `products` are those that were asked for since, by sku.
    """

    cursor: int
    chain: Chain
    place: Place
    promotions: tuple[PromotionFacts, ...]
    products: dict[str, Product]


@dataclass(frozen=True, slots=True)
class Site:
    """Hold what every decision of this till starts from; `now` is the till's best knowledge of the time."""

    published: Published
    meta: Meta
    now: datetime
    online: bool

    @property
    def chain(self) -> Chain:
        """Return the chain's settings."""
        return self.published.chain

    @property
    def today(self) -> str:
        """Return the date in the store."""
        return self.now.astimezone(self.published.place.zone).date().isoformat()

    @property
    def is_closed(self) -> bool:
        """Tell whether this till's rights went back for the night: it asks for none before tomorrow."""
        return self.meta.rights_closed_on == self.today


def gather_site(conn: Connection, parts: Parts) -> Site | Refusal:
    """Return where and when we are; `needs_online` before the first pull: a till that knows no prices sells nothing."""
    known = meta.load(conn)
    published = _published(conn, parts, known.cursor)
    if isinstance(published, Refusal):
        return published
    return Site(published, known, known.corrected(parts.now()), online=parts.head_office.online)


def _published(conn: Connection, parts: Parts, cursor: int) -> Published | Refusal:
    """Return what was published up to the cursor. Every pull that brings something moves it, so a copy may be kept."""
    kept = parts.kept
    if isinstance(kept, Published) and kept.cursor == cursor:
        return kept
    chain = catalog.chain(conn)
    zone = catalog.store_zone(conn, parts.store_id)
    if chain is None or zone is None:
        return refuse(RefusalCode.NEEDS_ONLINE, kind="chain" if chain is None else "store")
    place, promotions = Place(parts.store_id, zone), _promotions(conn, parts, chain)
    fresh = parts.kept = Published(cursor, chain, place, promotions=promotions, products={})
    return fresh


def products(conn: Connection, site: Site, skus: Iterable[str]) -> Mapping[str, Product]:
    """Return the products of these skus that are there, by sku."""
    kept, wanted = site.published.products, set(skus)
    # A mapping of our own: another thread may empty what is kept at any moment.
    found = {sku: product for sku in wanted if (product := kept.get(sku)) is not None}
    missing = wanted - found.keys()
    if missing:
        fresh = catalog.products(conn, missing)
        if len(kept) > KEPT_PRODUCTS:
            kept.clear()
        kept.update(fresh)
        found |= fresh
    return found


def gather(
    conn: Connection, parts: Parts, basket: BasketRequest, *, order_id: str, site: Site | Refusal | None = None
) -> OrderFacts | Refusal:
    """Return the facts that price the basket.

    Refuses a basket that makes no sense (see `Till.quote`); a coupon or card that is not there goes into `unknown` and
    is refused by the quote. `site` where the caller has read it in this transaction already.
    """
    site = site or gather_site(conn, parts)
    if isinstance(site, Refusal):
        return site
    lines = _lines(conn, site, basket)
    if isinstance(lines, Refusal):
        return lines
    found = coupons.by_ids(conn, basket.use)
    desk = risk_desk(conn, parts, site, order_id=order_id)
    known, unknown = _coupons(parts, site, basket.use, found=found, desk=desk)
    return _facts(conn, parts, site, basket=basket, lines=lines, order_id=order_id, coupons=known, unknown=unknown)


def gather_member_coupons(conn: Connection, parts: Parts, basket: BasketRequest) -> OrderFacts | Refusal:
    """Return the facts of the basket with every coupon of its member in place of those scanned.

    The basket may be empty here: a member's coupons are shown before anything is scanned.
    """
    assert basket.member_id is not None, "the caller asked who it is"
    site = gather_site(conn, parts)
    if isinstance(site, Refusal):
        return site
    lines = _lines(conn, site, basket) if basket.lines else ()
    if isinstance(lines, Refusal):
        return lines
    rows = {row.id: row for row in coupons.of_member(conn, basket.member_id)}
    known, _ = _coupons(parts, site, rows, found=rows, desk=risk_desk(conn, parts, site, order_id=""))
    return _facts(conn, parts, site, basket=basket, lines=lines, order_id="", coupons=known, unknown={})


def _facts(
    conn: Connection,
    parts: Parts,
    site: Site,
    *,
    basket: BasketRequest,
    lines: tuple[Line, ...],
    order_id: str,
    coupons: tuple[CouponFacts, ...],
    unknown: dict[str, Refusal],
) -> OrderFacts | Refusal:
    cards = _cards(conn, basket, site)
    owners = [cards[cover.card_id] for cover in basket.covers if cover.card_id in cards]
    member_id = effective_member_id(basket.member_id, coupons, owners, now=site.now, order_id=order_id)
    member = None if member_id is None else _member(conn, site, member_id, order_id=order_id)
    if isinstance(member, Refusal):
        return member
    missing = {cover.card_id for cover in basket.covers} - cards.keys()
    return OrderFacts(
        order_id=order_id,
        lines=lines,
        place=site.published.place,
        now=site.now,
        member=member,
        coupons=coupons,
        covers=basket.covers,
        cards=cards,
        promotions=_allowed(conn, site) if basket.promotions else (),
        unknown=unknown | {card_id: _not_here(site, "punch_card", card_id) for card_id in missing},
    )


def _not_here(site: Site, kind: str, name: str) -> Refusal:
    """Say that the copy does not have it: online it is unknown, offline only the server can tell."""
    code = RefusalCode.UNKNOWN_CODE if site.online else RefusalCode.NEEDS_ONLINE
    return refuse(code, kind=kind, id=name)


def _lines(conn: Connection, site: Site, basket: BasketRequest) -> tuple[Line, ...] | Refusal:
    if not 1 <= len(basket.lines) <= MAX_LINES:
        return refuse(RefusalCode.INVALID_QUANTITY, lines=len(basket.lines), max_lines=MAX_LINES)
    known = products(conn, site, [line.sku for line in basket.lines])
    lines: list[Line] = []
    gross_minor = 0
    for number, asked in enumerate(basket.lines, start=1):
        product = known.get(asked.sku)
        if product is None:
            return refuse(RefusalCode.UNKNOWN_CODE, kind="product", id=asked.sku, line=number)
        qty_milli = check_qty(asked.qty_milli, by_weight=product.by_weight)
        if isinstance(qty_milli, Refusal):
            return Refusal(qty_milli.code, {**qty_milli.facts, "line": number})
        gross_minor += line_gross(product.price_minor, qty_milli)
        lines.append(
            Line(
                number,
                product.sku,
                product.price_minor,
                qty_milli=qty_milli,
                category=product.category,
                brand=product.brand,
                by_weight=product.by_weight,
            )
        )
    if gross_minor > MAX_MINOR:
        return refuse(RefusalCode.INVALID_AMOUNT, amount_minor=gross_minor, max_minor=MAX_MINOR)
    return tuple(lines)


def _member(conn: Connection, site: Site, member_id: str, *, order_id: str) -> MemberFacts | Refusal:
    row = catalog.member(conn, member_id)
    if row is None:
        return _not_here(site, "member", member_id)
    ordered = row.has_ordered or orders.has_local_order(
        conn, member_id, other_than=order_id, behind=(site.meta.epoch, site.meta.acked_seq)
    )
    return MemberFacts(row.id, row.tier, has_ordered=ordered)


def _cards(conn: Connection, basket: BasketRequest, site: Site) -> Mapping[str, CardFacts]:
    rows = catalog.cards(conn, (cover.card_id for cover in basket.covers))
    return {row.id: _card(conn, site, row) for row in rows.values()}


def _card(conn: Connection, site: Site, row: Card) -> CardFacts:
    uses_left, blocked = card_uses(conn, site, row)
    return CardFacts(row.id, row.member_id, row.service, uses_left=uses_left, until_at=row.until_at, blocked=blocked)


def card_uses(conn: Connection, site: Site, row: Card) -> tuple[int, Refusal | None]:
    """Return what a card has left, and why nobody can decide over it now; offline that is what this till has leased."""
    lent = rights.left(conn, uses_id(row.id))
    if site.online:
        return row.uses_left + (lent or 0), None
    return lent or 0, refuse(RefusalCode.NEEDS_ONLINE, card=row.id) if lent is None else None


def risk_desk(conn: Connection, parts: Parts, site: Site, *, order_id: str) -> RiskDesk:
    """Return what knows which coupons an order may use without a right; "" = no order yet."""
    return RiskDesk(conn, parts, site.meta, site.now, order_id)


def _coupons(
    parts: Parts, site: Site, wanted: Iterable[str], *, found: Mapping[str, CouponRow], desk: RiskDesk
) -> tuple[tuple[CouponFacts, ...], dict[str, Refusal]]:
    known: list[CouponFacts] = []
    unknown: dict[str, Refusal] = {}
    for coupon_id in wanted:
        row = found.get(coupon_id)
        facts = _not_here(site, "coupon", coupon_id) if row is None else coupon_facts(parts, site, row, desk=desk)
        if isinstance(facts, Refusal):
            unknown[coupon_id] = facts
        else:
            known.append(facts)
    return tuple(known), unknown


def coupon_facts(parts: Parts, site: Site, row: CouponRow, *, desk: RiskDesk) -> CouponFacts | Refusal:
    """Describe a coupon; `needs_online` or `invalid_campaign` where its rule is not here or cannot be read."""
    if row.rule is None:
        return refuse(RefusalCode.NEEDS_ONLINE, coupon=row.id, snapshot=row.snapshot_id)
    rule = parts.rules.read(row.snapshot_id, row.rule, site.chain.currency)
    if isinstance(rule, Refusal):
        return Refusal(rule.code, {"coupon": row.id, **rule.facts})
    where = {"store": row.store_id} if row.store_id else {}
    when = {"at": row.state_at.isoformat()} if row.state_at else {}
    lent = rule.budget_minor is None or row.budget_lent_minor is not None
    at_risk = lent and not site.online and not row.at_home and row.home in (None, parts.till_id)
    return CouponFacts(
        row.id,
        row.campaign_id,
        rule,
        state=row.state,
        member_id=None if rule.bearer else row.member_id,
        valid_until_at=row.valid_until_at,
        campaign_state=row.campaign_state,
        order_id=row.order_id,
        state_facts={**where, **when},
        budget_left_minor=row.budget_left_minor if site.online else row.budget_lent_minor,
        blocked=desk.reason(row) if at_risk else _coupon_blocked(parts, site, row, lent=lent),
        risk=desk.room(row) if at_risk else None,
    )


def _coupon_blocked(parts: Parts, site: Site, row: CouponRow, *, lent: bool) -> Refusal | None:
    if not row.at_home and row.home not in (None, parts.till_id):
        return refuse(RefusalCode.LEASED_ELSEWHERE, coupon=row.id, till=row.home)
    if site.online or (row.at_home and lent):
        return None
    return refuse(RefusalCode.NEEDS_ONLINE, coupon=row.id)


def _promotions(conn: Connection, parts: Parts, chain: Chain) -> tuple[PromotionFacts, ...]:
    """Describe the automatic promotions; one with a rule that this version cannot read takes nothing off."""
    facts = []
    for row in catalog.promotions(conn):
        rule = parts.rules.read(row.snapshot_id, row.rule, chain.currency)
        if not isinstance(rule, Refusal):
            facts.append(
                PromotionFacts(row.campaign_id, rule, campaign_state=row.state, budget_left_minor=row.budget_left_minor)
            )
    return tuple(facts)


def _allowed(conn: Connection, site: Site) -> tuple[PromotionFacts, ...]:
    """Block what the server must decide while it cannot be asked: the promotions with a budget that is not leased."""
    if site.online:
        return site.published.promotions
    return tuple(
        facts if facts.rule.budget_minor is None else _by_lease(conn, facts) for facts in site.published.promotions
    )


def _by_lease(conn: Connection, facts: PromotionFacts) -> PromotionFacts:
    lent = rights.left(conn, budget_id(facts.campaign_id))
    if lent is None:
        return replace(facts, blocked=refuse(RefusalCode.NEEDS_ONLINE, campaign=facts.campaign_id))
    return replace(facts, budget_left_minor=lent)
