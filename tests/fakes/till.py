"""A small till in memory: the real rules of `app.domain`, a dictionary instead of a database."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from app.domain.basket import MAX_LINES, Line, check_qty
from app.domain.best import Best, best_combination
from app.domain.conditions import own_reason, read_state
from app.domain.facts import CardFacts, CouponFacts, MemberFacts, OrderFacts, Place, PromotionFacts
from app.domain.money import Currency
from app.domain.pricing import effective_member_id, price
from app.domain.quote import Quote
from app.domain.refunds import Refund, RefundLine, SoldOrder, decide_refund, refunded_so_far
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.tenders import Tender, TenderType, settle
from app.services.api import (
    BasketRequest,
    Cancelled,
    CardView,
    ChainView,
    Interrupted,
    MemberView,
    OpenOrder,
    OrderView,
    PaidOrder,
    PaymentPending,
    Receipt,
    ReceiptDiscount,
    ReceiptLine,
    RefundDone,
    ScanAnswer,
    ScanKind,
    TillStatus,
    UsableCoupon,
)
from app.services.ports import NoAnswer, Paid, PaymentAnswer, PaymentPort
from tests.fakes.clock import SetClock
from tests.fakes.manager import Manager
from tests.fakes.rights import OwnRights
from tests.fakes.stock import Card, Member, Product
from tests.fakes.terminal import FakeTerminal

NOW = datetime(2026, 7, 30, 6, 5, tzinfo=UTC)  # 14:05 in Shanghai
ZONE = ZoneInfo("Asia/Shanghai")


@dataclass
class _Order:
    request: BasketRequest
    state: str
    quote: Quote
    lines: tuple[Line, ...]
    attempt: int = 1
    stored_minor: int = 0
    tenders: tuple[Tender, ...] = ()
    change_minor: int = 0
    refunds: list[Refund] = field(default_factory=list)
    payment: tuple[str, TenderType, int] | None = None
    receipt: Receipt | None = None
    shown: bool = False


class FakeTill(Manager, OwnRights):
    """Sells from dictionaries; `block` is waited for inside checkout and refund (a slow head office)."""

    def __init__(
        self,
        *,
        products: Collection[Product] = (),
        members: Collection[Member] = (),
        cards: Collection[Card] = (),
        coupons: Mapping[str, CouponFacts] | None = None,
        promotions: Collection[PromotionFacts] = (),
        terminal: PaymentPort | None = None,
        cash_step_minor: int = 0,
        clock: SetClock | None = None,
    ) -> None:
        self.operator = "小林"
        self.products = {product.sku: product for product in products}
        self.members = {member.id: member for member in members}
        self.cards = {card.id: card for card in cards}
        self.coupons = dict(coupons or {})  # by code
        self.promotions = tuple(promotions)
        self.terminal: PaymentPort = terminal or FakeTerminal()
        self.clock = clock or SetClock(NOW)
        self.view = ChainView(Currency.of("CNY"), cash_step_minor, "R1", "riverside", "Asia/Shanghai")
        self.now_status = TillStatus(True, None, 0, 0, NOW)
        self.unfinished: list[Interrupted] = []
        self.orders: dict[str, _Order] = {}
        self.refunds: dict[str, RefundDone] = {}
        self.language = "zh"
        self.calls: list[str] = []
        self.fail: Exception | None = None
        self.refuse_checkout: Refusal | None = None
        self.block: Callable[[], object] = lambda: None
        Manager.__init__(self)
        OwnRights.__init__(self)
        self._ids = 0
        self._lock = threading.Lock()

    # ------------------------------------------------------------------ looking

    def new_order_id(self) -> str:
        with self._lock:
            self._ids += 1
            return f"order-{self._ids}"

    def chain(self) -> ChainView | None:
        return self.view

    def status(self) -> TillStatus:
        return self.now_status

    def scan(self, text: str) -> ScanAnswer:
        code = text.strip()
        for product in self.products.values():
            if code in (product.sku, product.barcode):
                return ScanAnswer(
                    ScanKind.PRODUCT,
                    product.sku,
                    product.name,
                    sku=product.sku,
                    price_minor=product.price_minor,
                    by_weight=product.by_weight,
                )
        if code in self.members:
            return ScanAnswer(ScanKind.MEMBER, code, self.members[code].label)
        if code in self.cards:
            card = self.cards[code]
            title = self.products[card.service].name
            return ScanAnswer(
                ScanKind.PUNCH_CARD,
                code,
                title,
                member_id=card.member_id,
                service=card.service,
                uses_left=card.uses_left,
                verdict=self._blocked(card=code),
            )
        coupon = self.coupons.get(code)
        if coupon is None:
            offline = RefusalCode.NEEDS_ONLINE if not self.now_status.online else RefusalCode.UNKNOWN_CODE
            return ScanAnswer(refusal=refuse(RefusalCode.UNREADABLE_CODE if "?" in code else offline))
        return ScanAnswer(
            ScanKind.COUPON,
            coupon.id,
            coupon.rule.name,
            state=read_state(coupon.state, coupon.valid_until_at, self.clock.now()),
            verdict=own_reason(coupon, self.clock.now(), order_id="") or self._coupon_blocked(coupon.id, ""),
            member_id=coupon.member_id,
        )

    def _blocked(self, **facts: object) -> Refusal | None:
        return None if self.now_status.online else refuse(RefusalCode.NEEDS_ONLINE, **facts)

    def product_names(self, skus: Collection[str]) -> Mapping[str, tuple[str, str]]:
        return {sku: (self.products[sku].name, self.products[sku].name_en) for sku in skus if sku in self.products}

    def member(self, member_id: str) -> MemberView | None:
        member = self.members.get(member_id)
        if member is None:
            return None
        cards = tuple(
            CardView(card.id, card.service, self.products[card.service].name, card.uses_left)
            for card in self.cards.values()
            if card.member_id == member_id
        )
        return MemberView(member.id, member.tier, member.label, member.balance_minor, cards)

    # ------------------------------------------------------------------ pricing

    def _facts(self, request: BasketRequest, order_id: str = "") -> OrderFacts | Refusal:
        if not 0 < len(request.lines) <= MAX_LINES:
            return refuse(RefusalCode.INVALID_QUANTITY, lines=len(request.lines), max_lines=MAX_LINES)
        lines: list[Line] = []
        for number, asked in enumerate(request.lines, start=1):
            product = self.products.get(asked.sku)
            if product is None:
                return refuse(RefusalCode.UNKNOWN_CODE, kind="product", id=asked.sku)
            qty = check_qty(asked.qty_milli, by_weight=product.by_weight)
            if isinstance(qty, Refusal):
                return qty
            lines.append(
                Line(
                    number,
                    product.sku,
                    product.price_minor,
                    qty_milli=qty,
                    category=product.category,
                    by_weight=product.by_weight,
                )
            )
        by_id = {coupon.id: coupon for coupon in self.coupons.values()}
        coupons = [
            replace(by_id[name], blocked=self._coupon_blocked(name, order_id)) for name in request.use if name in by_id
        ]
        cards = {
            cover.card_id: CardFacts(
                cover.card_id,
                self.cards[cover.card_id].member_id,
                self.cards[cover.card_id].service,
                uses_left=self.cards[cover.card_id].uses_left,
                blocked=self._blocked(card=cover.card_id),
            )
            for cover in request.covers
        }
        member_id = effective_member_id(
            request.member_id, coupons, list(cards.values()), now=self.clock.now(), order_id=order_id
        )
        member = self.members.get(member_id or "")
        return OrderFacts(
            order_id,
            tuple(lines),
            Place("riverside", ZONE),
            now=self.clock.now(),
            member=MemberFacts(member.id, member.tier) if member else None,
            coupons=tuple(coupons),
            covers=request.covers,
            cards=cards,
            promotions=self.promotions,
            unknown={name: refuse(RefusalCode.UNKNOWN_CODE) for name in request.use if name not in by_id},
        )

    def quote(self, request: BasketRequest, *, order_id: str = "") -> Quote | Refusal:
        if self.fail is not None:
            raise self.fail
        facts = self._facts(request, order_id)
        return facts if isinstance(facts, Refusal) else price(facts)

    def _of_member(self, member_id: str) -> tuple[CouponFacts, ...]:
        return tuple(coupon for coupon in self.coupons.values() if coupon.member_id == member_id)

    def best(self, request: BasketRequest, *, keep_going: Callable[[Best], bool] | None = None) -> Best | Refusal:
        if request.member_id is None:
            return refuse(RefusalCode.NEEDS_MEMBER, best=True)
        facts = self._facts(request)
        if isinstance(facts, Refusal):
            return facts
        return best_combination(replace(facts, coupons=self._of_member(request.member_id)), keep_going=keep_going)

    def usable_coupons(self, request: BasketRequest) -> list[UsableCoupon] | Refusal:
        if request.member_id is None:
            return refuse(RefusalCode.NEEDS_MEMBER)
        found: list[UsableCoupon] = []
        for coupon in self._of_member(request.member_id):
            quote = self.quote(replace(request, use=(coupon.id,))) if request.lines else None
            if isinstance(quote, Quote) and coupon.id in quote.used:
                off = sum(stage.discount_minor for stage in quote.laid if stage.coupon_id == coupon.id)
                found.append(UsableCoupon(coupon, coupon.rule.name, None, off))
            else:
                reason = quote.refused.get(coupon.id) if isinstance(quote, Quote) else None
                reason = reason or own_reason(coupon, self.clock.now(), order_id="")
                found.append(UsableCoupon(coupon, coupon.rule.name, reason or refuse(RefusalCode.NOTHING_ELIGIBLE)))
        return sorted(found, key=lambda coupon: coupon.refusal is not None)

    # ------------------------------------------------------------------ the order

    def checkout(self, order_id: str, request: BasketRequest, *, stored_value_minor: int = 0) -> OpenOrder | Refusal:
        self.calls.append("checkout")
        self.block()
        if self.fail is not None:
            raise self.fail
        if self.refuse_checkout is not None:
            return self.refuse_checkout
        facts = self._facts(request, order_id)
        if isinstance(facts, Refusal):
            return facts
        quote = price(facts)
        if quote.refused:
            return next(iter(quote.refused.values()))
        needs_server = bool(quote.used or quote.covers or stored_value_minor)
        if needs_server and not self.now_status.online:
            return refuse(RefusalCode.NEEDS_ONLINE, order=order_id)
        self.orders[order_id] = _Order(request, "HELD", quote, facts.lines, stored_minor=stored_value_minor)
        return OpenOrder(
            order_id,
            1,
            "HELD",
            quote=quote,
            held=needs_server,
            held_until_at=None,
            stored_value_minor=stored_value_minor,
        )

    def pay(
        self, order_id: str, tenders: tuple[Tender, ...] | None = None
    ) -> PaidOrder | Cancelled | PaymentPending | Refusal:
        self.calls.append("pay")
        if self.fail is not None:
            raise self.fail
        order = self.orders[order_id]
        given = tenders or ()
        settled = settle(order.quote.payable_minor, given, cash_step_minor=self.view.cash_step_minor)
        if isinstance(settled, Refusal):
            return settled
        order.tenders, order.change_minor = settled.tenders, settled.change_minor
        for tender in given:
            if tender.type in (TenderType.CARD, TenderType.WALLET):
                order.payment = (f"payment-{order_id}", tender.type, tender.amount_minor)
                return self._answered(order_id, self.terminal.charge(*order.payment))
        return self._paid(order_id)

    def _answered(self, order_id: str, answer: PaymentAnswer) -> PaidOrder | Cancelled | PaymentPending:
        order = self.orders[order_id]
        assert order.payment is not None
        if isinstance(answer, Paid):
            return self._paid(order_id)
        if isinstance(answer, NoAnswer):
            order.state = "UNKNOWN"
            payment_id, kind, amount_minor = order.payment
            return PaymentPending(order_id, 1, payment_id, kind=kind, amount_minor=amount_minor)
        order.state = "CANCELLED"
        return Cancelled(order_id, 1, "pay_failed")

    def _paid(self, order_id: str) -> PaidOrder:
        order = self.orders[order_id]
        order.state = "PAID"
        for coupon in self.coupons.values():
            if coupon.id in order.quote.used:
                code = next(code for code, known in self.coupons.items() if known is coupon)
                self.coupons[code] = replace(coupon, state="USED", order_id=order_id)
                break
        order.receipt = self._receipt(order_id, order)
        return PaidOrder(
            order_id,
            1,
            "PAID",
            quote=order.quote,
            tenders=order.tenders,
            change_minor=order.change_minor,
            receipt=order.receipt,
        )

    def _receipt(self, order_id: str, order: _Order) -> Receipt:
        quote = order.quote
        lines: list[ReceiptLine] = []
        totals: Counter[tuple[str, str, str | None]] = Counter()
        for i, line in enumerate(quote.lines):
            discounts: list[ReceiptDiscount] = []
            for stage in quote.laid:
                if stage.shares_minor[i]:
                    discounts.append(
                        ReceiptDiscount(
                            stage.rule.name, stage.campaign_id, stage.coupon_id, amount_minor=stage.shares_minor[i]
                        )
                    )
                    totals[stage.rule.name, stage.campaign_id, stage.coupon_id] += stage.shares_minor[i]
            lines.append(
                ReceiptLine(
                    line.number,
                    line.sku,
                    self.products[line.sku].name,
                    price_minor=line.price_minor,
                    qty_milli=line.qty_milli,
                    covered_units=line.covered_units,
                    gross_minor=line.gross_minor,
                    net_minor=line.net_minor,
                    by_weight=self.products[line.sku].by_weight,
                    discounts=tuple(discounts),
                )
            )
        return Receipt(
            number=f"R1-1-{len(self.orders)}",
            mark=f"R1-1-{len(self.orders)} 9f2c01ab",
            order_id=order_id,
            store_id="riverside",
            till_id="R1",
            operator=self.operator,
            at=self.clock.now(),
            currency=self.view.currency,
            lines=tuple(lines),
            discounts=tuple(ReceiptDiscount(*name, amount_minor=amount) for name, amount in totals.items()),
            gross_minor=quote.gross_minor,
            discount_minor=quote.discount_minor,
            payable_minor=quote.payable_minor,
            tenders=order.tenders,
            change_minor=order.change_minor,
        )

    def resolve(self, order_id: str) -> PaidOrder | Cancelled | PaymentPending | Refusal:
        self.calls.append("resolve")
        order = self.orders[order_id]
        assert order.payment is not None
        answer = self._answered(order_id, self.terminal.query(order.payment[0]))
        if not isinstance(answer, PaymentPending):
            self.unfinished = [item for item in self.unfinished if item.order_id != order_id]
        return answer

    def decide_payment(self, order_id: str, *, paid: bool) -> PaidOrder | Cancelled | Refusal:
        return self._paid(order_id) if paid else self.cancel(order_id)

    def late_payment(self, order_id: str, tenders: tuple[Tender, ...]) -> Refusal:
        return refuse(RefusalCode.ILLEGAL_TRANSITION, order=order_id, state="CANCELLED", event="pay_success")

    def cancel(self, order_id: str, *, reason: str = "cancelled") -> Cancelled | Refusal:
        self.calls.append("cancel")
        self.unfinished = [item for item in self.unfinished if item.order_id != order_id]
        if order_id in self.orders:
            self.orders[order_id].state = "CANCELLED"
        return Cancelled(order_id, 1, reason)

    # ------------------------------------------------------------------ refunds

    def _sold(self, order_id: str) -> SoldOrder | None:
        order = self.orders.get(order_id)
        if order is None or order.state not in ("PAID", "PARTLY_REFUNDED", "REFUNDED"):
            return None
        milli, minor, tenders = refunded_so_far(order.refunds)
        return SoldOrder(
            order_id,
            order.state,
            order.lines,
            quote=order.quote,
            tenders=order.tenders,
            refunded_milli=milli,
            refunded_minor=minor,
            refunded_tenders=tenders,
        )

    def order(self, order_id: str) -> OrderView | Refusal:
        self.block()
        order = self.orders.get(order_id)
        if order is None:
            return refuse(RefusalCode.UNKNOWN_CODE, kind="order", id=order_id)
        titles = {line.sku: self.products[line.sku].name for line in order.lines}
        return OrderView(
            order_id,
            order.state,
            True,
            quote=order.quote,
            tenders=order.tenders,
            refunds=tuple(order.refunds),
            titles=titles,
            sold=self._sold(order_id),
        )

    def refund(
        self, request_id: str, order_id: str, lines: tuple[RefundLine, ...] | None = None
    ) -> RefundDone | Refusal:
        self.calls.append(f"refund {request_id}")
        self.block()
        if self.fail is not None:
            raise self.fail
        if request_id in self.refunds:
            return self.refunds[request_id]
        sold = self._sold(order_id)
        assert sold is not None
        decided = decide_refund(sold, lines, cash_step_minor=self.view.cash_step_minor)
        if isinstance(decided, Refusal):
            return decided
        order = self.orders[order_id]
        order.refunds.append(decided)
        order.state = "REFUNDED" if decided.whole else "PARTLY_REFUNDED"
        assert order.receipt is not None
        after = {card: self.cards[card].uses_left + uses for card, uses in decided.uses.items()}
        receipt = replace(order.receipt, refund_of=order_id, payable_minor=decided.amount_minor)
        done = RefundDone(
            request_id, order_id, decided, state=order.state, uses_after=after, decided_by="server", receipt=receipt
        )
        self.refunds[request_id] = done
        return done

    def resume_refunds(self) -> tuple[RefundDone, ...]:
        self.calls.append("resume_refunds")
        waiting = [item for item in self.unfinished if item.request_id is not None]
        answers = [self.refund(str(item.request_id), item.order_id) for item in waiting]
        return tuple(answer for answer in answers if isinstance(answer, RefundDone))

    # ------------------------------------------------------------------ receipts and restarts

    def receipt(self, order_id: str) -> Receipt | None:
        order = self.orders.get(order_id)
        return order.receipt if order else None

    def receipt_shown(self, order_id: str) -> None:
        self.calls.append(f"shown {order_id}")
        self.unfinished = [item for item in self.unfinished if item.order_id != order_id]

    def interrupted(self) -> tuple[Interrupted, ...]:
        return tuple(self.unfinished)

    def close(self) -> None:
        self.calls.append("close")
