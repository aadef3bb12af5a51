"""Lead through the counter: the page shown, what a scan means on it, how pages follow each other. Plain Python."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from enum import StrEnum

from app.domain.money import Currency
from app.services.api import ChainView, PaidOrder, Receipt
from app.services.ports import Offline
from app.services.till import Till
from app.store.errors import DiskFull, LedgerDamaged, StoreError
from ui.counter.approval_presenter import ApprovalPresenter
from ui.counter.desk_presenter import DeskPresenter
from ui.counter.interrupted_presenter import InterruptedPresenter
from ui.counter.refund_presenter import RefundPresenter
from ui.counter.rights_presenter import RightsPresenter
from ui.counter.tender_presenter import TenderPresenter
from ui.jobs import Jobs
from ui.status_presenter import StatusPresenter
from ui.verdict import not_done, notice
from ui.words import Name, Text, tell

log = logging.getLogger(__name__)

NOT_SYNCED = ChainView(Currency.of("CNY"), 0, till_id="", store_id="", store_zone=str(UTC))
"""What stands in for the chain's settings before the first sync, when there is nothing to sell yet either."""


class Page(StrEnum):
    """List the pages of the counter."""

    DESK = "desk"
    TENDER = "tender"
    RECEIPT = "receipt"
    REFUND = "refund"
    INTERRUPTED = "interrupted"
    RIGHTS = "rights"


@dataclass(frozen=True, slots=True)
class ShownReceipt:
    """Show a receipt; `change_minor` None = it is shown again, there is no change to give any more."""

    receipt: Receipt
    change_minor: int | None


class CounterPresenter:
    """Hold the page and the presenters of all pages.

    `on_change` is called after every change, on the GUI thread. `refresh` pulls from the head office (see
    `DeskPresenter`). `trouble` is what the banner says, None = nothing.
    """

    def __init__(self, till: Till, jobs: Jobs, *, refresh: Callable[[], None] | None = None) -> None:
        self._till, self._jobs = till, jobs
        self.on_change: Callable[[], None] = lambda: None
        changed = self._changed
        self.chain = NOT_SYNCED
        self.page = Page.DESK
        self.shown: ShownReceipt | None = None
        self.last: Receipt | None = None
        self.receipt_names: dict[str, Name | str] = {}
        self._trouble: Text | None = None
        self.status = StatusPresenter(till, jobs, changed=self._status_changed, turned=self._turned)
        self.desk = DeskPresenter(till, jobs, changed=changed, refresh=refresh, online=lambda: self.status.online)
        self.approval = ApprovalPresenter(till, jobs, desk=self.desk, changed=changed)
        self.tender = TenderPresenter(till, jobs, chain=lambda: self.chain, changed=changed, paid=self._paid)
        self.refund = RefundPresenter(till, jobs, chain=lambda: self.chain, changed=changed)
        self.interrupted = InterruptedPresenter(till, jobs, changed=changed, show=self._show_again)
        self.rights = RightsPresenter(
            till,
            jobs,
            online=lambda: self.status.online,
            basket_waits=lambda: bool(self.desk.state.basket.items),
            changed=changed,
        )

    @property
    def operator(self) -> str:
        """Return who is signed in."""
        return self._till.operator

    def start(self) -> None:
        """Read the chain's settings and the status, and open with what a restart found half done."""
        self._read_chain()
        self.status.poll()
        self.interrupted.load(lambda: self._go(Page.INTERRUPTED if self.interrupted.state.items else self.page))

    def _read_chain(self) -> None:
        def read(chain: ChainView | None) -> None:
            if chain is not None and chain != self.chain:
                self.chain = chain
                self._changed()

        self._jobs.local(self._till.chain, read)

    # ------------------------------------------------------------------ what the cashier does

    def scan(self, text: str) -> None:
        """Take a scan, wherever the cashier is."""
        if self.page is Page.RECEIPT:
            self.done()  # the next customer's goods are on the scanner
        if self.page is Page.REFUND:
            self.refund.look_up(text)
        elif self.page is Page.DESK:
            if self.desk.state.asked is None:
                self.desk.scan(text)
            else:
                self.desk.say(not_done("verdict.answer_first"))
        elif self.page is Page.TENDER and self.tender.state is not None and not self.tender.state.busy:
            self.back()
            self.desk.scan(text)
        elif self.page is Page.RIGHTS and not self.rights.state.busy:
            self.back()  # a customer has come
            self.desk.scan(text)

    @property
    def can_pay(self) -> bool:
        """Tell whether the basket can be paid now."""
        return self.desk.state.payable and not self.damaged

    @property
    def damaged(self) -> bool:
        """Tell whether this till must not sell: its file is damaged."""
        return self.status.status is not None and bool(self.status.status.damaged)

    def pay(self) -> None:
        """Go on to the payment."""
        state = self.desk.state
        if self.page is not Page.DESK or state.asked is not None or self.damaged:
            return
        if not state.payable or state.quote is None:
            self.desk.say(notice("verdict.basket_empty" if not state.basket.items else "verdict.pricing"))
            return
        self.desk.fetch.stop()
        request = self.desk.checkout_request()
        of_member = state.member is not None and state.member.id == request.member_id
        balance_minor = state.member.balance_minor if state.member is not None and of_member else 0
        self.tender.begin(
            state.basket.order_id, request, payable_minor=state.quote.payable_minor, balance_minor=balance_minor
        )
        self._go(Page.TENDER)

    def ask_manager(self) -> None:
        """Ask a manager to take a coupon at a risk, where that is all that lacks."""
        if self.page is Page.DESK and self.desk.state.asked is None and not self.damaged:
            self.approval.begin()

    def back(self) -> None:
        """Leave the page for the desk, unless something is under way on it."""
        if self.page is Page.TENDER:
            pending = self.tender.state is not None and self.tender.state.pending is not None
            if self.tender.leave():
                if pending:
                    self.desk.start_over(notice("verdict.left_unknown"))
                    self.interrupted.load()
                self._go(Page.DESK)
                if not pending:
                    self.desk.reprice()
        elif self.page is Page.REFUND:
            if self.refund.leave():
                self._go(Page.DESK)
        elif self.page is Page.RECEIPT:
            self.done()
        elif self.page is Page.INTERRUPTED and not self.interrupted.state.busy:
            self._go(Page.DESK)
        elif self.page is Page.RIGHTS and self.rights.leave():
            self._go(Page.DESK)
            if self.desk.state.basket.items:
                self.desk.reprice()

    def open_refund(self) -> None:
        """Go to the refunds; a basket on the desk waits."""
        if self.page is Page.DESK and not self.damaged:
            self.refund.begin()
            self._go(Page.REFUND)

    def open_interrupted(self) -> None:
        """Go to what is half done."""
        if self.page is Page.DESK or (self.page is Page.RIGHTS and self.rights.leave()):
            self.interrupted.load()
            self._go(Page.INTERRUPTED)

    def open_rights(self) -> None:
        """Go to what this till may do by itself; a basket on the desk waits."""
        if self.page is Page.DESK and self.desk.state.asked is None and not self.damaged:
            self.rights.begin()
            self._go(Page.RIGHTS)

    def cancel_order(self) -> None:
        """Clear the desk: nothing was held, so nothing has to be given back."""
        if self.page is Page.DESK:
            self.desk.start_over(notice("verdict.cleared"))

    def show_last(self) -> None:
        """Show the last receipt again."""
        if self.page is not Page.DESK:
            return
        if self.last is None:
            self.desk.say(notice("verdict.no_receipt"))
        else:
            self._show_again(self.last)

    def done(self) -> None:
        """Leave the receipt for the next customer, or for the list that it was opened from."""
        if self.page is not Page.RECEIPT:
            return
        from_list = self.shown is not None and self.shown.change_minor is None and self.interrupted.state.items
        self.shown = None
        self._go(Page.INTERRUPTED if from_list else Page.DESK)
        if from_list:
            self.interrupted.load()

    # ------------------------------------------------------------------ what happens to the cashier

    @property
    def trouble(self) -> Text | None:
        """Return what the banner says; damage outlives everything else, and a line that no waiting mends comes last."""
        if self.damaged:
            return tell("trouble.ledger_damaged")
        line = self.status.status.trouble if self.status.status else None
        return self._trouble or (tell(f"line.{line}") if line else None)

    def report(self, error: Exception) -> None:
        """Say an error that no page has an answer to."""
        if isinstance(error, DiskFull | LedgerDamaged):
            self._trouble = tell(f"trouble.{error.key}")
        elif isinstance(error, StoreError):
            self.desk.say(not_done(f"trouble.{error.key}"))
        elif isinstance(error, Offline):
            self.desk.say(not_done("error.offline"))
        else:
            log.error("a task failed", exc_info=error)
            self.desk.say(not_done("error.unexpected"))
        self.status.poll()
        self._changed()

    def _paid(self, paid: PaidOrder) -> None:
        self.last, self._trouble = paid.receipt, None
        self.desk.start_over()
        self._show(ShownReceipt(paid.receipt, paid.change_minor))
        self.status.poll()

    def _show_again(self, receipt: Receipt) -> None:
        self._show(ShownReceipt(receipt, None))

    def _show(self, shown: ShownReceipt) -> None:
        """Put a receipt on the screen, then note that the customer has seen it."""
        self.shown = shown
        self._go(Page.RECEIPT)
        skus = {line.sku for line in shown.receipt.lines}
        self._jobs.local(lambda: self._till.product_names(skus), self._named)
        self._jobs.local(lambda: self._till.receipt_shown(shown.receipt.order_id), lambda _none: None)

    def _named(self, names: Mapping[str, tuple[str, str]]) -> None:
        self.receipt_names = {sku: Name(*both) for sku, both in names.items()}
        self._changed()

    def _turned(self, _online: bool) -> None:
        """Price anew: offline, coupons wait for the head office; online again, they may be used."""
        if self.page is Page.DESK and self.desk.state.basket.items:
            self.desk.reprice()

    def _status_changed(self) -> None:
        if self.chain == NOT_SYNCED:
            self._read_chain()
        if self.page is Page.RIGHTS:
            self.rights.look_again(self.status.status)
        self._changed()

    def _changed(self) -> None:
        self.on_change()

    def _go(self, page: Page) -> None:
        self.page = page
        self._changed()
