"""Note what physically happened: receipts, refunds, promises, money in hand; nothing of how the books are kept.

What the terminals took, they know themselves. `checking.py` holds all of it against the books.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from app.domain.refunds import RefundLine
from app.services.api import BasketRequest, PaidOrder, RefundDone


class Broken(Exception):
    """Say that something happened that must never happen; `invariant` names it as PROTOCOL 8 does."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


def hold(condition: object, invariant: str, what: object) -> None:
    """Raise Broken where the condition does not hold."""
    if not condition:
        raise Broken(invariant, str(what))


@dataclass(frozen=True, slots=True)
class Basket:
    """Remember an order that is not paid: at which till, what is on the counter, how much of it from stored value."""

    till_id: str
    request: BasketRequest
    stored_minor: int


@dataclass(frozen=True, slots=True)
class AskedRefund:
    """Remember what was to be taken back: at which till, of which order; `lines` None = all that is left."""

    till_id: str
    order_id: str
    lines: tuple[RefundLine, ...] | None


@dataclass(frozen=True, slots=True)
class AskedGift:
    """Remember a coupon that is to be given out at the counter: at which till, of which campaign, to whom."""

    till_id: str
    campaign_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class Promise:
    """Remember a coupon that somebody was promised: of which campaign, to whom, and whether whoever bears it has it."""

    coupon_id: str
    campaign_id: str
    member_id: str
    bearer: bool
    code: str


@dataclass(slots=True)
class Disaster:
    """Remember what befell a till.

    `since_ms` is when the image was made that its disk was rolled back to, or when it last told everything before its
    disk was `destroyed`; None = neither befell it. `reclaimed` = its rights were taken back by headquarters, or perhaps
    were. `mended` = it came with a new key since, and carried over what it had.
    """

    since_ms: int | None = None
    at_ms: int = 0
    reclaimed: bool = False
    destroyed: bool = False
    mended: bool = False


@dataclass(frozen=True, slots=True)
class SetBack:
    """Remember that the server was put back at `at_ms` to what it was at `since_ms`.

    `sold` and `refunded` are what its books had told as done until then: they must tell it again. `frozen` are the
    coupons that orders held when the backup was made. `told_ms` says up to when each till had told by then.
    """

    since_ms: int
    at_ms: int
    sold: frozenset[str]
    refunded: frozenset[str]
    frozen: frozenset[str]
    told_ms: Mapping[str, int]


@dataclass
class Truth:
    """Hold what people have in their hands and saw.

    `till_of` and `paid_at_ms` say where and when a receipt was handed out, `order_till` where an order was begun.
    `late_cash` is money that was put aside for an order that was off; `unsure` are orders whose till died, or had
    a full disk, with cash for them on the counter. `put_in` is what was put on accounts from outside. `stranded` are
    tills that headquarters declared lost, or perhaps did: by itself that loses nothing. `baskets` wait for payment,
    `asked` holds every refund that was asked for, `gifts` those that wait for an answer. `set_backs` are the times that
    the server came back from a backup, `unbacked` the coupons that it alone knew and forgot by that.
    `edited` are campaigns that headquarters changed. `known` are the places of tills' ledgers (till, epoch, number,
    hash) that the server said to know: of what is there, or of an end announced. `replayed` are tills of which a
    request reached the server twice, `lied_to` those that were given an answer which was not the server's.
    """

    baskets: dict[str, Basket] = field(default_factory=dict)
    asked: dict[str, AskedRefund] = field(default_factory=dict)
    gifts: dict[str, AskedGift] = field(default_factory=dict)
    receipts: dict[str, PaidOrder] = field(default_factory=dict)
    till_of: dict[str, str] = field(default_factory=dict)
    paid_at_ms: dict[str, int] = field(default_factory=dict)
    order_till: dict[str, str] = field(default_factory=dict)
    late_cash: Counter[str] = field(default_factory=Counter)
    unsure: set[str] = field(default_factory=set)
    refunds: dict[str, RefundDone] = field(default_factory=dict)
    refund_till: dict[str, str] = field(default_factory=dict)
    promised: dict[str, Promise] = field(default_factory=dict)
    given_at: dict[str, tuple[str, int]] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    perhaps_revoked: set[str] = field(default_factory=set)
    put_in: Counter[str] = field(default_factory=Counter)
    disasters: dict[str, Disaster] = field(default_factory=dict)
    stranded: set[str] = field(default_factory=set)
    promised_ms: dict[str, int] = field(default_factory=dict)
    revoked_ms: dict[str, int] = field(default_factory=dict)
    set_backs: list[SetBack] = field(default_factory=list)
    unbacked: set[str] = field(default_factory=set)
    edited: set[str] = field(default_factory=set)
    known: set[tuple[str, int, int, str]] = field(default_factory=set)
    replayed: set[str] = field(default_factory=set)
    lied_to: set[str] = field(default_factory=set)

    def lay(self, order_id: str, basket: Basket) -> None:
        """Put a basket on the counter; another one under the same id takes its place."""
        self.baskets[order_id] = basket
        self.order_till[order_id] = basket.till_id

    def ask_back(self, request_id: str, asked: AskedRefund) -> None:
        """Bring goods back."""
        self.asked[request_id] = asked

    def want(self, request_id: str, gift: AskedGift) -> None:
        """Want a coupon at the counter."""
        self.gifts[request_id] = gift

    def answered(self, request_id: str) -> None:
        """Have the answer to a wish for a coupon."""
        del self.gifts[request_id]

    def receipt(self, done: PaidOrder, till_id: str, now_ms: int) -> None:
        """Hand a receipt out; handed out again, it is the same, but by a till whose disk has forgotten the first."""
        first = self.receipts.setdefault(done.order_id, done)
        if first.receipt != done.receipt:
            hold(self._has_forgotten(till_id, done.order_id), "I7", f"another receipt for {done.order_id}")
            self.receipts[done.order_id] = done
            del self.paid_at_ms[done.order_id]
        paid_minor = sum(tender.amount_minor for tender in done.tenders)
        hold(paid_minor == done.quote.payable_minor, "I6", f"{done.order_id} took {paid_minor}")
        self.till_of[done.order_id] = till_id
        self.paid_at_ms.setdefault(done.order_id, now_ms)
        self.baskets.pop(done.order_id, None)

    def _has_forgotten(self, till_id: str, order_id: str) -> bool:
        since_ms = self.disaster_of(till_id).since_ms
        return since_ms is not None and self.paid_at_ms[order_id] >= since_ms

    def refund(self, done: RefundDone, till_id: str) -> None:
        """Pay a refund out; asked again, it is the same, and nothing is paid again."""
        back_minor = sum(tender.amount_minor for tender in done.refund.tenders)
        hold(back_minor == done.refund.amount_minor, "I6", f"{done.request_id} paid {back_minor}")
        first = self.refunds.setdefault(done.request_id, done)
        same = (first.refund, first.order_id) == (done.refund, done.order_id)
        hold(same, "I7", f"another answer to {done.request_id}")
        self.refund_till[done.request_id] = till_id

    def promise(self, promise: Promise, *, till_id: str = "", now_ms: int = 0) -> None:
        """Promise a coupon; the same again is the same, but at a till whose disk has forgotten that it gave it out.

        `till_id` is where it was given out, "" = by the server.
        """
        first = self.promised.setdefault(promise.coupon_id, promise)
        if first != promise:
            by, at_ms = self.given_at.get(promise.coupon_id, ("", 0))
            since_ms = self.disaster_of(till_id).since_ms
            forgotten = by == till_id and since_ms is not None and at_ms >= since_ms
            hold(forgotten, "I10", f"{promise.coupon_id} was promised to somebody else")
            self.promised[promise.coupon_id] = promise
        self.promised_ms.setdefault(promise.coupon_id, now_ms)
        if till_id:
            self.given_at.setdefault(promise.coupon_id, (till_id, now_ms))

    def late(self, order_id: str, cash_minor: int) -> None:
        """Put cash aside for an order that is off."""
        self.late_cash[order_id] += cash_minor

    def set_back(self, back: SetBack) -> None:
        """Lose what the server alone knew, and nobody else has: coupons and revocations since the backup."""
        self.set_backs.append(back)
        by_server = (name for name in self.promised if name not in self.given_at)
        self.unbacked.update(name for name in by_server if self.promised_ms[name] >= back.since_ms)
        for name in [name for name in self.revoked if self.revoked_ms[name] >= back.since_ms]:
            self.revoked.discard(name)
            self.perhaps_revoked.add(name)
        for till_id, disaster in self.disasters.items():
            if disaster.since_ms is not None:
                disaster.since_ms = min(disaster.since_ms, back.told_ms[till_id])

    def is_of_another_history(self, back: SetBack) -> bool:
        """Tell whether a backup was made, and then left for another one, before it was put back."""
        return any(back.since_ms < each.at_ms < back.at_ms for each in self.set_backs)

    def doubt(self, order_id: str) -> None:
        """Have cash on the counter, of which nobody knows whether the till noted it as too late."""
        self.unsure.add(order_id)

    def pay_in(self, account_id: str, amount: int) -> None:
        """Put something on an account from outside."""
        self.put_in[account_id] += amount

    def revoke(self, coupon_id: str, now_ms: int = 0) -> None:
        """Take a coupon from its owner."""
        self.revoked.add(coupon_id)
        self.revoked_ms[coupon_id] = now_ms

    def perhaps_revoke(self, coupon_id: str) -> None:
        """Order that a coupon be taken from its owner, without an answer."""
        self.perhaps_revoked.add(coupon_id)

    def disaster_of(self, till_id: str) -> Disaster:
        """Return what befell a till, perhaps nothing."""
        return self.disasters.get(till_id) or Disaster()

    def disaster(self, till_id: str) -> Disaster:
        """Return what befell a till, to be written on."""
        return self.disasters.setdefault(till_id, Disaster())

    def given_back(self, request_ids: Iterable[str]) -> Iterator[str]:
        """Yield the coupons whose every discounted line came back to a shop by these refunds, once for each order.

        What a refund said that it returns is not asked: where the order's use was in conflict, it is over all the same.
        """
        back: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for done in (self.refunds[name] for name in request_ids):
            back[done.order_id].update({line.number: line.qty_milli for line in done.refund.lines})
        for order_id, milli in back.items():
            quote = self.receipts[order_id].quote
            left = {line.number for line in quote.lines if milli[line.number] < line.qty_milli}
            for stage in quote.laid:
                touched = {line.number for line, share in zip(quote.lines, stage.shares_minor, strict=True) if share}
                if stage.coupon_id is not None and touched and not touched & left:
                    yield stage.coupon_id
