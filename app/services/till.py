"""Offer everything that a till does, without a screen: the one face of `app/services` and `app/store`.

`opening.open_till` makes it. Every method is one use case of its own module; what stands here is the contract.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from app.domain.best import Best
from app.domain.ledger import Entry
from app.domain.ports import Progress, no_progress
from app.domain.quote import Quote
from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal
from app.domain.tenders import Tender
from app.services import (
    advising,
    approving,
    cancelling,
    closing,
    giving,
    leasing,
    own_rights,
    paying,
    refunding,
    renewing,
    restart,
    scanning,
    showing,
)
from app.services.api import (
    Approved,
    Approver,
    AtHome,
    BasketRequest,
    Cancelled,
    ChainView,
    DayClosed,
    GivenCoupon,
    Interrupted,
    Lent,
    MemberView,
    OpenOrder,
    OrderView,
    PaidOrder,
    PaymentPending,
    Receipt,
    RefundDone,
    Renewed,
    ScanAnswer,
    TillStatus,
    UsableCoupon,
)
from app.services.checkout import checkout, park
from app.services.epochs import Begun, Mark, Registry, begin_epoch
from app.services.parts import Parts
from app.services.ports import HeadOffice
from app.services.rights_view import DayEnd, DayStep, RightsView
from app.store import orders
from app.store.database import TillDatabase
from app.store.errors import LedgerDamaged


class Till:
    """Sell, refund, and say what is what. Every method may be called from any thread.

    Reading (`chain`, `scan`, `quote`, `best`, `usable_coupons`, `member`, `rights`, `receipt`, `interrupted`, `status`)
    never waits for the network, nor for an order that waits for it. `checkout`, `pay`, `resolve`, `cancel` and `refund`
    go one at a time and may wait for server or terminal; `order` and `end_day` may wait for the server.

    "No" is a `Refusal`. What cannot be done now raises one of `app.store.errors`: `DiskFull` (the sale was NOT made),
    `LedgerBusy`, `LedgerDamaged` (this till sells nothing any more).
    """

    def __init__(self, parts: Parts) -> None:
        """Take the wired parts; call `open_till` instead."""
        self._parts = parts
        self._keeper = renewing.Keeper()
        self._renewing = threading.Lock()

    @property
    def till_id(self) -> str:
        """Return who we are."""
        return self._parts.till_id

    @property
    def database(self) -> TillDatabase:
        """Return the database, for sync and for checks; the use cases need nobody's help with it."""
        return self._parts.database

    @property
    def head_office(self) -> HeadOffice:
        """Return the line to the server."""
        return self._parts.head_office

    @property
    def operator(self) -> str:
        """Return who is signed in; written into every entry. May be set at any time."""
        return self._parts.operator

    @operator.setter
    def operator(self, name: str) -> None:
        assert len(name) <= 200, "the server reads no longer name, and would park every entry"
        self._parts.operator = name

    @property
    def language(self) -> str:
        """Return the language of product names, "zh" or "en". May be set at any time."""
        return self._parts.language

    @language.setter
    def language(self, language: str) -> None:
        self._parts.language = language

    def new_order_id(self) -> str:
        """Return an id for the next basket; also good for refund requests."""
        return self._parts.ids.new()

    def chain(self) -> ChainView | None:
        """Return the chain's settings; None before the first sync."""
        return showing.chain(self._parts)

    def scan(self, text: str) -> ScanAnswer:
        """Tell what a scanned or typed text is."""
        return scanning.scan(self._parts, text)

    def member(self, member_id: str) -> MemberView | None:
        """Show a member with punch cards; None where this till has not heard of it."""
        return showing.member(self._parts, member_id)

    def product_names(self, skus: Collection[str]) -> Mapping[str, tuple[str, str]]:
        """Return the Chinese and the English name of each of these products that this till knows.

        A screen changes its language at any time, so it keeps both; where one is missing, it is "".
        """
        return showing.product_names(self._parts, skus)

    def quote(self, request: BasketRequest, *, order_id: str = "") -> Quote | Refusal:
        """Price a basket without any effect; what does not apply is in `refused` and `skipped`.

        Refuses a basket that makes no sense: `unknown_code` (sku, member), `invalid_quantity` (also an empty basket and
        more than 1,000 lines). `order_id` names the order that may already hold the coupons.
        """
        return advising.quote(self._parts, request, order_id=order_id)

    def best(self, request: BasketRequest, *, keep_going: Callable[[Best], bool] | None = None) -> Best | Refusal:
        """Choose the member's coupons that make the basket cheapest; `use` of the request is ignored.

        `needs_member` without a member. `keep_going` hears of the best so far and ends the search by False.
        """
        return advising.best(self._parts, request, keep_going=keep_going)

    def usable_coupons(self, request: BasketRequest) -> list[UsableCoupon] | Refusal:
        """List the coupons of the request's member, the usable ones first, each other with its reason."""
        return advising.usable_coupons(self._parts, request)

    def approvers(self) -> tuple[Approver, ...]:
        """Return who may approve at this till, by name: managers of its store, but not who is signed in."""
        return approving.approvers(self._parts)

    def approve_risk(self, order_id: str, coupon_id: str, *, by: str, pin: str, reason: str) -> Approved | Refusal:
        """Let an order use a coupon that this till has no right to and cannot ask about, on a manager's word.

        For coupons that are refused with `needs_approval` alone; each other reason is given as it is. `wrong_pin`, and
        `pin_locked` for a while behind the fifth, and behind the tenth until there is a new PIN; `not_allowed` for
        one's own order, and while there is a line: then the server is asked. Takes some 50 ms.
        """
        with self._ordering():
            return approving.approve_risk(self._parts, order_id, coupon_id, by=by, pin=pin, reason=reason)

    def checkout(self, order_id: str, request: BasketRequest, *, stored_value_minor: int = 0) -> OpenOrder | Refusal:
        """Price the basket and get every right that it needs (from the server), so that it can be paid.

        `stored_value_minor` is what the member will pay from stored value. A coupon or card that is refused refuses the
        checkout: nothing is held, the id stays free. The same id and content again gets the earlier answer, other
        content `duplicate_mismatch` (but for an order that was cancelled). `payment_mismatch` (facts `shown_minor`,
        `now_minor`): the server's total differs from ours; quote again.
        """
        with self._ordering():
            return checkout(self._parts, order_id, request, stored_value_minor=stored_value_minor)

    def park(self, order_id: str) -> OpenOrder | Refusal:
        """Let an order that was checked out wait for its payment, at the price of now: HELD.

        One that needs rights waits already. Where the server can be reached it knows of the order and times it out as
        any other; offline the till alone does, and holds nothing. One whose rights have left this till since, or whose
        hold could not be written down, is checked out anew. `illegal_transition` for what is paid or off.
        """
        with self._ordering():
            return park(self._parts, order_id)

    def pay(
        self, order_id: str, tenders: tuple[Tender, ...] | None = None
    ) -> PaidOrder | Cancelled | PaymentPending | Refusal:
        """Take the payment and append the sale; None = what is left in cash, to the amount.

        Tenders by card and wallet are charged one after the other. `payment_mismatch`: the tenders do not add up, or
        the total changed since the checkout (facts `shown_minor`, `now_minor`): nothing was charged. `Cancelled`: the
        terminal said no, and everything is given back; what an earlier charge took is told as a late payment.
        `illegal_transition`: the order is cancelled, nothing was charged; cash that was given is recorded as a late
        payment (fact `recorded_minor`). An order already paid with the same tenders gets its
        answer again.
        """
        with self._ordering():
            return paying.pay(self._parts, order_id, tenders)

    def resolve(self, order_id: str) -> PaidOrder | Cancelled | PaymentPending | Refusal:
        """Ask the terminal what became of the payment of an order; never charges."""
        with self._ordering():
            return paying.resolve(self._parts, order_id)

    def decide_payment(self, order_id: str, *, paid: bool) -> PaidOrder | Cancelled | PaymentPending | Refusal:
        """Settle an UNKNOWN order by a person's word (the terminal's own slip), where the terminal cannot tell."""
        with self._ordering():
            return paying.decide_payment(self._parts, order_id, paid=paid)

    def late_payment(self, order_id: str, tenders: tuple[Tender, ...]) -> Refusal:
        """Record money that arrived for a cancelled order; always `illegal_transition`, nothing else changes."""
        with self._ordering():
            return paying.late_payment(self._parts, order_id, tenders)

    def cancel(self, order_id: str, *, reason: str = "cancelled") -> Cancelled | Refusal:
        """Call the order off and give everything back; of a cancelled order again: fine.

        `reason` `pay_failed` for a payment that failed outside of the terminal. UNKNOWN or paid: `illegal_transition`.
        """
        with self._ordering():
            return cancelling.cancel(self._parts, order_id, reason=reason)

    def refund(
        self, request_id: str, order_id: str, lines: tuple[RefundLine, ...] | None = None
    ) -> RefundDone | Refusal:
        """Take goods back; None = all that is left. The same request again gets the same answer."""
        with self._ordering():
            return refunding.refund(self._parts, request_id, order_id, lines=lines)

    def resume_refunds(self) -> tuple[RefundDone, ...]:
        """Ask the server again about refunds whose answer never came; return those that are decided now."""
        with self._ordering():
            return refunding.resume(self._parts)

    def lease(self, account_id: str, amount: int) -> Lent | Refusal:
        """Borrow up to `amount` of an account (`app.domain.rights`), to spend it with or without a line.

        `needs_online` where nothing was asked, or no answer came: asked again, it is the same lease. Refused with the
        account's own code where nothing is left.
        """
        with self._ordering():
            return leasing.lease(self._parts, account_id, amount)

    def unlease(self, account_id: str) -> Refusal | None:
        """Give the leases of an account back; `illegal_transition` for one that an order under way still holds."""
        with self._ordering():
            return leasing.unlease(self._parts, account_id)

    def resume_leases(self) -> tuple[Lent | Refusal, ...]:
        """Ask again for leases whose answer never came; return what came of each."""
        with self._ordering():
            return leasing.resume(self._parts)

    def renew_rights(self) -> Renewed:
        """Bring leases in line with what this till is likely to need: behind each session, while connected.

        Asks again for what has no answer yet, closes what lies idle, sends coupons home that are asked back, asks for
        what is missing and for coupons of this store's members. It waits for the server, and no cashier waits for it.
        Nothing happens offline, nor while another call is at it.
        """
        if not self._renewing.acquire(blocking=False):
            return Renewed()
        try:
            return renewing.renew(self._parts, self._keeper)
        finally:
            self._renewing.release()

    def close_day(self) -> DayClosed:
        """Give every right back, and ask for none before the store's tomorrow; sent at once where there is a line.

        What an order under way holds stays, and goes back behind the next session.
        """
        # A renewal that began before it would still ask behind it.
        with self._renewing, self._ordering():
            return renewing.close_day(self._parts)

    def rights(self) -> RightsView:
        """Show what this till may do by itself, and what closing the day would give back; the longest lists are cut."""
        return own_rights.own_rights(self._parts)

    def end_day(self, told: Callable[[DayStep], None]) -> DayEnd | Refusal:
        """Close the day where there is a line: tell the server all, give every right back, send that; then sell on.

        `needs_online` or `busy`: nothing was given back. Where the line dies behind that, the entries wait and go with
        the next session. Again: gives back what has come free since. `told` hears of each step, in this thread.
        """
        database = self._parts.database
        if database.damaged:
            raise LedgerDamaged(database.path, database.damaged)
        with self._renewing:
            return closing.end_day(self._parts, told)

    def take_home(self, coupon_id: str) -> AtHome | Refusal:
        """Become the one place that may use a coupon, with or without a line; `leased_elsewhere` names the till."""
        with self._ordering():
            return leasing.take_home(self._parts, coupon_id)

    def return_home(self, coupon_id: str) -> Refusal | None:
        """Let a coupon go home to the server; `illegal_transition` where it is not here, or an order holds it."""
        with self._ordering():
            return leasing.return_home(self._parts, coupon_id)

    def give(self, request_id: str, campaign_id: str, member_id: str, *, source: str = "") -> GivenCoupon | Refusal:
        """Give a member a coupon of a leased stock, at home here; the same request gets the same coupon.

        Refuses what `decide_claim` refuses on what this till knows; `needs_online` without a lease.
        """
        with self._ordering():
            return giving.give(
                self._parts,
                request_id,
                campaign_id,
                member_id=member_id,
                source=source or f"till:{self.till_id}",
            )

    def order(self, order_id: str) -> OrderView | Refusal:
        """Show an order by its id or the number on its receipt; one of another till needs the server."""
        return showing.order(self._parts, order_id)

    def receipt(self, order_id: str) -> Receipt | None:
        """Return the receipt of an order sold here, for showing or printing again."""
        return showing.receipt(self._parts, order_id)

    def receipt_shown(self, order_id: str) -> None:
        """Note that the customer has seen the receipt of this order and of its refunds."""
        with self._parts.database.write() as tx:
            orders.set_receipt_shown(tx, order_id)

    def interrupted(self) -> tuple[Interrupted, ...]:
        """List what a restart found half done, the most urgent first; empty in the middle of a normal day."""
        return restart.interrupted(self._parts)

    def status(self) -> TillStatus:
        """Return what the status bar shows; never waits."""
        return showing.status(self._parts)

    def begin_epoch(
        self,
        registry: Registry,
        *,
        last: Mark | None = None,
        gaps: bool = False,
        beside: Sequence[Entry] = (),
        progress: Progress = no_progress,
    ) -> Begun:
        """Leave a ledger that is not the server's any more, and carry what the server lacks into a new epoch.

        The sync must not run meanwhile. Raises Offline and Busy; nothing has changed then.
        """
        database = self._parts.database
        if database.damaged:
            raise LedgerDamaged(database.path, database.damaged)
        return begin_epoch(self._parts, registry, last=last, gaps=gaps, beside=beside, progress=progress)

    @contextmanager
    def _ordering(self) -> Iterator[None]:
        """Let one use case at a time change orders, and none on a damaged file, not even to repeat an answer."""
        database = self._parts.database
        if database.damaged:
            raise LedgerDamaged(database.path, database.damaged)
        with self._parts.ordering:
            yield

    def close(self) -> None:
        """Close the database and let go of its lock."""
        self._parts.database.close()
