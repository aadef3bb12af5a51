"""A server in memory, small and real: it publishes, holds, settles what tills push, and decides refunds.

What it knows is in `memory_world.py`. It outlives the tills; `tests/fakes/head_office.py` is one till's line to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from app.domain.basket import Line
from app.domain.facts import CardFacts, CouponFacts, MemberFacts, OrderFacts, Place, PromotionFacts
from app.domain.ledger import Entry
from app.domain.pricing import effective_member_id, price
from app.domain.quote import Quote
from app.domain.quote_json import (
    read_line,
    read_quote,
    read_refund,
    read_tenders,
    write_line,
    write_quote,
    write_refund,
)
from app.domain.refunds import Refund, SoldOrder, decide_refund, refunded_so_far
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rule_json import read_rule
from app.domain.rules import Rule
from app.services.ports import (
    HoldGranted,
    HoldRequest,
    HomeGranted,
    LeaseGranted,
    LeaseRequest,
    RefundGranted,
    RefundRequest,
)
from app.store.ledger import Result
from tests.fakes.clock import SetClock
from tests.fakes.memory_world import CNY, Json, Order, World


class FakeServer(World):
    """Decide over the world: hold, lend, take in what tills push, refund."""

    def __init__(self, clock: SetClock) -> None:
        super().__init__(clock)
        self.orders: dict[str, Order] = {}
        self.answers: dict[tuple[str, int], tuple[HoldRequest, HoldGranted | Refusal]] = {}
        self.refunds: dict[str, tuple[RefundRequest, RefundGranted | Refusal]] = {}
        self.to_bring_home: list[str] = []
        self.homes_asked = 0
        self.leases: dict[str, tuple[LeaseRequest, LeaseGranted | Refusal]] = {}
        self.entries: dict[str, list[Entry]] = {}
        self.findings: list[str] = []
        self.holds_asked = 0

    def time_out(self) -> None:
        """Give back every hold that is over."""
        for order in self.orders.values():
            if order.state == "HELD" and order.held_until is not None and self.clock.now() >= order.held_until:
                self._release(order)

    # ------------------------------------------------------------ deciding

    def _rule(self, data: Mapping[str, Any]) -> Rule:
        rule = read_rule(data, CNY)
        assert isinstance(rule, Rule), rule
        return rule

    def _facts(self, request: HoldRequest) -> OrderFacts:
        def line(number: int, sku: str, qty_milli: int) -> Line:
            product = self.products[sku]
            return Line(
                number,
                sku,
                product["price_minor"],
                qty_milli=qty_milli,
                category=product["category"],
                brand=product["brand"],
                by_weight=product["by_weight"],
            )

        coupons = tuple(
            CouponFacts(
                each.id,
                each.campaign,
                self._rule(each.rule),
                state=each.state,
                member_id=each.member,
                valid_until_at=each.until,
                order_id=each.order,
                budget_left_minor=self.campaigns[each.campaign]["budget_left_minor"],
            )
            for each in (self.coupons[name] for name in request.use)
        )
        cards = {
            name: CardFacts(
                name, self.cards[name]["member"], self.cards[name]["service"], self.cards[name]["uses_left"]
            )
            for name in {cover.card_id for cover in request.covers}
        }
        promotions = tuple(
            PromotionFacts(name, self._rule(each["rule"]), budget_left_minor=each["budget_left_minor"])
            for name, each in self.campaigns.items()
            if each["kind"] == "automatic" and request.promotions
        )
        owners = [cards[cover.card_id] for cover in request.covers]
        now = self.clock.now()
        member_id = effective_member_id(request.member_id, coupons, owners, now=now, order_id=request.order_id)
        return OrderFacts(
            request.order_id,
            tuple(line(each.number, each.sku, each.qty_milli) for each in request.lines),
            Place(request.store_id, ZoneInfo("Asia/Shanghai")),
            now,
            member=MemberFacts(member_id, self.members[member_id]["tier"]) if member_id else None,
            coupons=coupons,
            covers=request.covers,
            cards=cards,
            promotions=promotions,
        )

    def lend(self, till_id: str, request: LeaseRequest) -> LeaseGranted | Refusal:
        """Lend the smaller of what is asked for and what is there, once for each id."""
        if request.lease_id in self.leases:
            first, answer = self.leases[request.lease_id]
            return answer if first == request else refuse(RefusalCode.DUPLICATE_MISMATCH, request=request.lease_id)
        amount = min(request.amount, self.lendable.get(request.account_id, 0))
        answer = self._lend(till_id, request, amount) if amount else refuse(RefusalCode.OUT_OF_STOCK)
        self.leases[request.lease_id] = (request, answer)
        return answer

    def _lend(self, till_id: str, request: LeaseRequest, amount: int) -> LeaseGranted:
        self.lendable[request.account_id] -= amount
        stock = request.account_id.startswith("stock:")
        coupons = tuple((f"{request.lease_id}-{n}", f"7654321{n:09}") for n in range(amount if stock else 0))
        self.publish_lease(request.lease_id, till=till_id, account=request.account_id, qty=amount, coupons=coupons)
        return LeaseGranted(amount, coupons)

    def take_home(self, till_id: str, coupon_id: str) -> HomeGranted | Refusal:
        coupon = self.coupons[coupon_id]
        if coupon.home not in (None, till_id):
            self.recall(coupon_id)
            return refuse(RefusalCode.LEASED_ELSEWHERE, coupon=coupon_id, till=coupon.home, retry_after_s=20)
        if coupon.home is None:
            self.move_home(coupon_id, till_id)
        return HomeGranted(coupon.version)

    def bring_home(self, till_id: str) -> tuple[tuple[str, int], ...]:
        """Let every coupon of a member of s1 that may go go to the till."""
        self.homes_asked += 1
        free = [name for name in self.to_bring_home if self.coupons[name].home is None]
        for name in free:
            self.move_home(name, till_id)
        return tuple((name, self.coupons[name].version) for name in free)

    def recall(self, coupon_id: str) -> None:
        self.recalled.add(coupon_id)
        self._publish_coupon(coupon_id)

    def move_home(self, coupon_id: str, home: str | None) -> None:
        coupon = self.coupons[coupon_id]
        coupon.home, coupon.version = home, coupon.version + 1
        self.recalled.discard(coupon_id)
        self._publish_coupon(coupon_id)

    def hold(self, request: HoldRequest) -> HoldGranted | Refusal:
        key = (request.order_id, request.attempt)
        if key in self.answers:
            first, answer = self.answers[key]
            return answer if first == request else refuse(RefusalCode.DUPLICATE_MISMATCH, order=request.order_id)
        self.holds_asked += 1
        answer = self._hold(request)
        self.answers[key] = (request, answer)
        return answer

    def _hold(self, request: HoldRequest) -> HoldGranted | Refusal:
        order = self.orders.get(request.order_id)
        if order is not None and (request.attempt <= order.attempt or order.state != "CANCELLED"):
            return refuse(RefusalCode.ILLEGAL_TRANSITION, order=order.id, state=order.state, event="hold")
        facts = self._facts(request)
        quote = price(facts)
        for name in (*request.use, *(cover.card_id for cover in request.covers)):
            if name in quote.refused:
                return quote.refused[name]
        if quote.payable_minor != request.payable_minor:
            return refuse(
                RefusalCode.PAYMENT_MISMATCH, shown_minor=request.payable_minor, now_minor=quote.payable_minor
            )
        if request.stored_value_minor:
            member = quote.member_id or ""
            if self.members[member]["balance_minor"] < request.stored_value_minor:
                return refuse(RefusalCode.INSUFFICIENT_BALANCE, member=member)
        until = self.clock.now() + timedelta(minutes=15)
        self._take(request, facts.lines, quote, until=until)
        return HoldGranted(request.attempt, until, write_quote(quote, CNY))

    def _take(self, request: HoldRequest, lines: tuple[Line, ...], quote: Quote, *, until: datetime) -> None:
        order = Order(
            request.order_id,
            request.attempt,
            "HELD",
            until,
            quote.used,
            value_minor=request.stored_value_minor,
            lines=[write_line(line) for line in lines],
            quote=write_quote(quote, CNY),
            member=quote.member_id,
        )
        for cover in quote.covers:
            order.uses[cover.card_id] = order.uses.get(cover.card_id, 0) + 1
        for stage in quote.laid:
            if stage.rule.budget_minor is not None:
                order.budgets[stage.campaign_id] = order.budgets.get(stage.campaign_id, 0) + stage.discount_minor
        self.orders[order.id] = order
        self._move(order, -1)
        for coupon_id in order.used:
            self._set_coupon(coupon_id, "FROZEN", order.id)

    def _move(self, order: Order, sign: int) -> None:
        for card_id, uses in order.uses.items():
            self.cards[card_id]["uses_left"] += sign * uses
            self._publish("punch_card", card_id, self.cards[card_id])
        for campaign_id, minor in order.budgets.items():
            self.campaigns[campaign_id]["budget_left_minor"] += sign * minor
            self._publish_campaign(campaign_id)
        if order.value_minor and order.member:
            self.members[order.member]["balance_minor"] += sign * order.value_minor
            self._publish("member", order.member, self.members[order.member])

    def _set_coupon(self, coupon_id: str, state: str, order_id: str | None) -> None:
        coupon = self.coupons[coupon_id]
        coupon.state, coupon.order = state, order_id
        self._publish_coupon(coupon_id)

    def _release(self, order: Order) -> None:
        self._move(order, +1)
        for coupon_id in order.used:
            self._set_coupon(coupon_id, "ISSUED", None)
        order.state, order.used, order.uses, order.budgets, order.value_minor = "CANCELLED", (), {}, {}, 0

    # ------------------------------------------------------------ taking in

    def take_in(self, till_id: str, entry: Entry) -> Result:
        """Take one entry in, in order; what was taken before is known."""
        known = self.entries.setdefault(till_id, [])
        if entry.seq <= len(known):
            assert known[entry.seq - 1].hash == entry.hash, "a fork"
            return Result(entry.seq)
        assert entry.seq == len(known) + 1, "a gap"
        known.append(entry)
        body = entry.read()
        if "order" not in body or entry.kind == "approval":
            return Result(entry.seq)  # of rights: what is given back here nobody asks for again
        order = self.orders.get(body["order"])
        code = getattr(self, f"_{entry.kind}")(body, order)
        if code:
            self.findings.append(code)
            return Result(entry.seq, "PARKED", f"CONFLICT {code}")
        return Result(entry.seq)

    def _sale(self, body: Json, order: Order | None) -> str:
        if sum(tender["amount_minor"] for tender in body["tenders"]) != body["quote"]["payable_minor"]:
            return "bad_sums"
        if order is None:
            order = self.orders[body["order"]] = Order(body["order"], body["attempt"], "NEW")
        elif order.state == "CANCELLED" and body["held"]:
            return "late_payment"
        elif order.state in ("PAID", "PARTLY_REFUNDED", "REFUNDED"):
            return "duplicate_order"
        order.attempt, order.state, order.member = body["attempt"], "PAID", body["member"]
        order.lines, order.quote, order.tenders = body["lines"], body["quote"], body["tenders"]
        for coupon_id in order.used:
            self._set_coupon(coupon_id, "USED", order.id)
        return ""

    def _cancel(self, body: Json, order: Order | None) -> str:
        if order is None:
            self.orders[body["order"]] = Order(body["order"], body["attempt"], "CANCELLED")
        elif order.attempt == body["attempt"] and order.state in ("HELD", "UNKNOWN"):
            self._release(order)
        else:
            order.attempt = max(order.attempt, body["attempt"])
        return ""

    def _payment_unknown(self, body: Json, order: Order | None) -> str:
        if order is None:
            self.orders[body["order"]] = Order(body["order"], body["attempt"], "UNKNOWN")
        elif order.state == "HELD":
            order.state = "UNKNOWN"
        return ""

    def _late_payment(self, body: Json, order: Order | None) -> str:
        return "late_payment"

    def _refund(self, body: Json, order: Order | None) -> str:
        assert order is not None, "a refund names its order"
        if body["decided_by"] == "till":
            self._give_back(order, read_refund(body["body"]))
        return ""

    # ------------------------------------------------------------ refunds

    def refund(self, request: RefundRequest) -> RefundGranted | Refusal:
        if request.request_id in self.refunds:
            first, answer = self.refunds[request.request_id]
            return answer if first == request else refuse(RefusalCode.DUPLICATE_MISMATCH, request=request.request_id)
        answer = self._decide(request)
        self.refunds[request.request_id] = (request, answer)
        return answer

    def _decide(self, request: RefundRequest) -> RefundGranted | Refusal:
        order = self.orders.get(request.order_id)
        if order is None or not order.quote:
            return refuse(RefusalCode.UNKNOWN_CODE, kind="order", id=request.order_id)
        milli, minor, tenders = refunded_so_far([read_refund(each) for each in order.refunds])
        sold = SoldOrder(
            order.id,
            order.state,
            tuple(read_line(line) for line in order.lines),
            quote=read_quote(order.quote, CNY),
            tenders=read_tenders(order.tenders),
            refunded_milli=milli,
            refunded_minor=minor,
            refunded_tenders=tenders,
        )
        decision = decide_refund(sold, request.lines, cash_step_minor=self.cash_step_minor)
        if isinstance(decision, Refusal):
            return decision
        self._give_back(order, decision)
        after = {card_id: self.cards[card_id]["uses_left"] for card_id in decision.uses}
        return RefundGranted(write_refund(decision), order.state, after)

    def _give_back(self, order: Order, refund: Refund) -> None:
        order.refunds.append(write_refund(refund))
        order.state = "REFUNDED" if refund.whole else "PARTLY_REFUNDED"
        for coupon_id in refund.returned:
            self._set_coupon(coupon_id, "ISSUED", None)
        for card_id, uses in refund.uses.items():
            self.cards[card_id]["uses_left"] += uses
            self._publish("punch_card", card_id, self.cards[card_id])
        value = sum(t.amount_minor for t in refund.tenders if t.type.value == "stored_value")
        if value and order.member:
            self.members[order.member]["balance_minor"] += value
            self._publish("member", order.member, self.members[order.member])
