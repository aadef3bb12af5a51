"""A server in memory, small and real: it publishes, holds, settles what tills push, and decides refunds.

It outlives the tills; `tests/fakes/head_office.py` is one till's line to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from app.domain.basket import Line
from app.domain.codes import code_digest
from app.domain.facts import CardFacts, CouponFacts, MemberFacts, OrderFacts, Place, PromotionFacts
from app.domain.ledger import Entry
from app.domain.money import Currency
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

CNY = Currency.of("CNY")
CODE_KEY = b"k" * 32
NOON = datetime(2026, 6, 1, 4, 0, tzinfo=UTC)

Json = dict[str, Any]


class FakeIds:
    """Ids that count."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix, self._count = prefix, 0

    def new(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:x}".rjust(32, "0")

    def digits(self, count: int) -> str:
        self._count += 1
        return str(self._count).rjust(count, "0")[-count:]


@dataclass(frozen=True)
class Change:
    kind: str
    key: str
    record: Json | None


@dataclass
class Coupon:
    id: str
    code: str
    campaign: str
    rule: Json
    member: str | None
    state: str = "ISSUED"
    order: str | None = None
    until: datetime | None = None
    home: str | None = None
    version: int = 1


@dataclass
class Order:
    id: str
    attempt: int
    state: str
    held_until: datetime | None = None
    used: tuple[str, ...] = ()
    uses: dict[str, int] = field(default_factory=dict)
    value_minor: int = 0
    budgets: dict[str, int] = field(default_factory=dict)
    lines: list[Json] = field(default_factory=list)
    quote: Json = field(default_factory=dict)
    tenders: list[Json] = field(default_factory=list)
    member: str | None = None
    refunds: list[Json] = field(default_factory=list)


class FakeServer:
    """What headquarters knows. Add to the world by its methods; everything added is published."""

    def __init__(self, clock: SetClock) -> None:
        self.clock = clock
        self.changes: list[Change] = []
        self.products: dict[str, Json] = {}
        self.members: dict[str, Json] = {}
        self.cards: dict[str, Json] = {}
        self.campaigns: dict[str, Json] = {}
        self.coupons: dict[str, Coupon] = {}
        self.orders: dict[str, Order] = {}
        self.answers: dict[tuple[str, int], tuple[HoldRequest, HoldGranted | Refusal]] = {}
        self.refunds: dict[str, tuple[RefundRequest, RefundGranted | Refusal]] = {}
        self.lendable: dict[str, int] = {}
        self.to_bring_home: list[str] = []
        self.homes_asked = 0
        self.recalled: set[str] = set()
        self.leases: dict[str, tuple[LeaseRequest, LeaseGranted | Refusal]] = {}
        self.entries: dict[str, list[Entry]] = {}
        self.findings: list[str] = []
        self.holds_asked = 0
        self.cash_step_minor = 0
        self.publish_chain()
        self._publish("store", "s1", {"id": "s1", "zone": "Asia/Shanghai"})

    # ------------------------------------------------------------ the world

    def publish_chain(self, *, cash_step_minor: int = 0) -> None:
        self.cash_step_minor = cash_step_minor
        record = {"currency": "CNY", "zone": "Asia/Shanghai", "cash_step_minor": cash_step_minor, "lock_timeout_s": 900}
        self._publish("chain", "chain", record)

    def product(self, sku: str, price_minor: int, **keys: Any) -> None:
        record = {
            "sku": sku,
            "name": f"货{sku}",
            "name_en": f"Good {sku}",
            "price_minor": price_minor,
            "category": "",
            "brand": "",
            "barcode": None,
            "kind": "goods",
            "by_weight": False,
            **keys,
        }
        self.products[sku] = record
        self._publish("product", sku, record)

    def member(self, member_id: str, *, tier: str = "basic", balance_minor: int = 0, home_store: str = "s1") -> None:
        record = {
            "id": member_id,
            "tier": tier,
            "home_store": home_store,
            "label": f"{member_id}***",
            "has_ordered": False,
            "balance_minor": balance_minor,
        }
        self.members[member_id] = record
        self._publish("member", member_id, record)

    def card(self, card_id: str, member_id: str, service: str, *, uses: int) -> None:
        record = {"id": card_id, "member": member_id, "service": service, "uses_left": uses, "until_at": None}
        self.cards[card_id] = record
        self._publish("punch_card", card_id, record)

    def campaign(
        self,
        campaign_id: str,
        *,
        budget_left_minor: int | None = None,
        version: int = 1,
        offline: str = "lease",
        risk_max_minor: int | None = None,
        **rule: Any,
    ) -> None:
        kind, snapshot = rule.get("kind", "coupon"), f"{campaign_id}-{version}"
        self.campaigns[campaign_id] = {
            "id": campaign_id,
            "kind": kind,
            "state": "ACTIVE",
            "snapshot": snapshot,
            "budget_left_minor": budget_left_minor,
            "offline": offline,
            "risk_max_minor": risk_max_minor,
            "sync_age_max_h": 24 if offline == "risk" else None,
        }
        record = {"id": snapshot, "campaign": campaign_id, "rule": rule}
        self.campaigns[campaign_id]["rule"] = rule
        self._publish("snapshot", snapshot, record)
        self._publish_campaign(campaign_id)

    def coupon(self, coupon_id: str, code: str, campaign: str, *, member: str | None = None, **keys: Any) -> None:
        self.coupons[coupon_id] = Coupon(coupon_id, code, campaign, self.campaigns[campaign]["rule"], member, **keys)
        self._publish_coupon(coupon_id)

    def manager(self, staff_id: str, name: str, *, verifier: str, pin_version: int = 1) -> None:
        """Let somebody approve at tills."""
        record = {"id": staff_id, "name": name, "store": None, "verifier": verifier, "pin_version": pin_version}
        self._publish("staff", staff_id, record)

    def risk_budget(self, till_id: str, minor: int) -> None:
        """Let a till give that away without a right; it may lease all of it."""
        self.lendable[f"risk:{till_id}"] = minor
        self._publish("risk", till_id, {"till": till_id, "limit_minor": minor, "available_minor": minor})

    def time_out(self) -> None:
        """Give back every hold that is over."""
        for order in self.orders.values():
            if order.state == "HELD" and order.held_until is not None and self.clock.now() >= order.held_until:
                self._release(order)

    # ------------------------------------------------------------ publishing

    def _publish(self, kind: str, key: str, record: Json) -> None:
        self.changes.append(Change(kind, key, dict(record)))

    def _publish_campaign(self, campaign_id: str) -> None:
        record = {key: value for key, value in self.campaigns[campaign_id].items() if key != "rule"}
        self._publish("campaign", campaign_id, record)

    def _publish_coupon(self, coupon_id: str) -> None:
        coupon = self.coupons[coupon_id]
        record = {
            "id": coupon.id,
            "digest": code_digest(CODE_KEY, coupon.code).hex(),
            "campaign": coupon.campaign,
            "snapshot": self.campaigns[coupon.campaign]["snapshot"],
            "member": coupon.member,
            "state": coupon.state,
            "order": coupon.order,
            "store": "s1" if coupon.order else None,
            "at": None,
            "valid_until_at": None if coupon.until is None else round(coupon.until.timestamp() * 1000),
            "home": coupon.home,
            "version": coupon.version,
            "recalled": coupon.id in self.recalled,
        }
        self._publish("coupon", coupon_id, record)

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

    def publish_lease(
        self,
        lease_id: str,
        *,
        till: str,
        account: str,
        qty: int,
        state: str = "OPEN",
        coupons: tuple[tuple[str, str], ...] = (),
    ) -> None:
        minted = [{"coupon": coupon_id, "code": code} for coupon_id, code in coupons]
        record = {"id": lease_id, "till": till, "account": account, "qty": qty, "state": state, "coupons": minted}
        self._publish("lease", lease_id, record)

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
