"""Tell what a scanned text is: parsed, then looked up in the till's copy by one or two queries, each by an index.

Never asks the network: a scan answers in the time of a few index look-ups, whatever the line does.
"""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.domain.codes import Candidate, CodeKind, code_digest, parse
from app.domain.conditions import own_reason, read_state
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.api import ScanAnswer, ScanKind
from app.services.gathering import Site, card_uses, coupon_facts, gather_site, risk_desk
from app.services.parts import Parts
from app.services.receipts import product_title
from app.store import catalog, coupons
from app.store.catalog import Card, Product
from app.store.coupons import CouponRow


def scan(parts: Parts, text: str) -> ScanAnswer:
    """Tell what a text is; see `Till.scan`."""
    parsed = parse(text)
    if isinstance(parsed, Refusal):
        return ScanAnswer(refusal=parsed)
    with parts.database.read() as conn:
        site = gather_site(conn, parts)
        if isinstance(site, Refusal):
            return ScanAnswer(refusal=site)
        shelf = _Shelf(conn, parts, site)
        for candidate in parsed.candidates:
            answer = shelf.find(candidate)
            if answer is not None:
                return answer
    if not site.online and any(candidate.kind in _MAY_BE_NEW for candidate in parsed.candidates):
        return ScanAnswer(refusal=refuse(RefusalCode.NEEDS_ONLINE))
    return ScanAnswer(refusal=refuse(parsed.if_absent))


_MAY_BE_NEW = frozenset({CodeKind.COUPON, CodeKind.MEMBER, CodeKind.PUNCH_CARD})
"""Codes of our own making: where the copy does not have one, it may have been issued since the last pull."""


@dataclass(frozen=True, slots=True)
class _Shelf:
    """Look candidates up in one snapshot of the till's copy."""

    conn: Connection
    parts: Parts
    site: Site

    def find(self, candidate: Candidate) -> ScanAnswer | None:
        text = candidate.text
        match candidate.kind:
            case CodeKind.COUPON:
                row = coupons.by_digest(self.conn, code_digest(self.parts.code_key, text))
                return None if row is None else self._coupon(row)
            case CodeKind.GTIN:
                return self._barcode(text)
            case CodeKind.MEMBER:
                return self._member(text)
            case CodeKind.PUNCH_CARD:
                return self._card(text)
            case CodeKind.ID:
                # Exactly as it was typed: a sku, a barcode as it was entered, a member, a punch card.
                return self._sku(text) or self._barcode(text) or self._member(text) or self._card(text)

    def _sku(self, sku: str) -> ScanAnswer | None:
        product = catalog.products(self.conn, [sku]).get(sku)
        return None if product is None else self._product(product)

    def _barcode(self, barcode: str) -> ScanAnswer | None:
        product = catalog.product_by_barcode(self.conn, barcode)
        return None if product is None else self._product(product)

    def _product(self, product: Product) -> ScanAnswer:
        return ScanAnswer(
            ScanKind.PRODUCT,
            product.sku,
            product_title(self.parts, product),
            sku=product.sku,
            price_minor=product.price_minor,
            by_weight=product.by_weight,
        )

    def _member(self, member_id: str) -> ScanAnswer | None:
        member = catalog.member(self.conn, member_id)
        return None if member is None else ScanAnswer(ScanKind.MEMBER, member.id, member.label, member_id=member.id)

    def _card(self, card_id: str) -> ScanAnswer | None:
        card = catalog.cards(self.conn, [card_id]).get(card_id)
        if card is None:
            return None
        service = catalog.products(self.conn, [card.service]).get(card.service)
        uses_left, blocked = card_uses(self.conn, self.site, card)
        return ScanAnswer(
            ScanKind.PUNCH_CARD,
            card.id,
            product_title(self.parts, service) if service else card.service,
            verdict=self._card_verdict(card, uses_left, blocked),
            member_id=card.member_id,
            valid_until_at=card.until_at,
            service=card.service,
            uses_left=uses_left,
        )

    def _card_verdict(self, card: Card, uses_left: int, blocked: Refusal | None) -> Refusal | None:
        if card.until_at is not None and self.site.now >= card.until_at:
            return refuse(RefusalCode.EXPIRED, card=card.id, until_at=card.until_at.isoformat())
        if blocked is None and uses_left < 1:
            return refuse(RefusalCode.INSUFFICIENT_USES, card=card.id, uses_left=uses_left)
        return blocked

    def _coupon(self, row: CouponRow) -> ScanAnswer:
        desk = risk_desk(self.conn, self.parts, self.site, order_id="")
        facts = coupon_facts(self.parts, self.site, row, desk=desk)
        name, name_en, owner = "", "", row.member_id
        verdict = facts if isinstance(facts, Refusal) else None
        if not isinstance(facts, Refusal):
            name, name_en, owner = facts.rule.name, facts.rule.name_en, facts.member_id
            verdict = own_reason(facts, self.site.now, order_id="") or facts.blocked
        return ScanAnswer(
            ScanKind.COUPON,
            row.id,
            name or row.campaign_id,
            title_en=name_en,
            verdict=verdict,
            state=read_state(row.state, row.valid_until_at, self.site.now),
            member_id=owner,
            campaign_id=row.campaign_id,
            valid_until_at=row.valid_until_at,
        )
