"""Take the payment: gather tenders until nothing remains, hold the rights, charge, append. Plain Python."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.tenders import BY_TERMINAL, Settlement, Tender, TenderType, cash_due, settle
from app.services.api import BasketRequest, Cancelled, ChainView, PaidOrder, PaymentPending
from app.services.till import Till
from ui.jobs import Jobs
from ui.verdict import Verdict, not_done, refused, waiting, warning

KINDS = (TenderType.CASH, TenderType.CARD, TenderType.WALLET, TenderType.STORED_VALUE)

# Notes and round sums that customers hand over, in major units, by the number of decimals of the currency.
_NOTES = {0: (100, 500, 1000, 5000, 10000), 2: (5, 10, 20, 50, 100), 3: (1, 5, 10, 20)}
QUICK_COUNT = 4

Paying = PaidOrder | Cancelled | PaymentPending | Refusal


@dataclass(frozen=True, slots=True)
class TenderState:
    """Show the payment of one order.

    `tenders` has one entry for each kind. `remaining_minor` is what is still to be paid: in cash to the coin where cash
    is on the list or nothing is, else exactly. `busy` while server or terminal are asked; `pending` when the terminal
    did not answer.
    """

    order_id: str
    request: BasketRequest
    payable_minor: int
    balance_minor: int = 0
    tenders: tuple[Tender, ...] = ()
    remaining_minor: int = 0
    change_minor: int = 0
    complete: bool = False
    quick_minor: tuple[int, ...] = ()
    busy: bool = False
    verdict: Verdict | None = None
    pending: PaymentPending | None = None


class TenderPresenter:
    """Hold the payment's state; `paid` hears of the paid order, `changed` of everything else."""

    def __init__(
        self,
        till: Till,
        jobs: Jobs,
        *,
        chain: Callable[[], ChainView],
        changed: Callable[[], None],
        paid: Callable[[PaidOrder], None],
    ) -> None:
        self._till, self._jobs, self._chain = till, jobs, chain
        self._changed, self._paid = changed, paid
        self.state: TenderState | None = None

    def begin(self, order_id: str, request: BasketRequest, *, payable_minor: int, balance_minor: int) -> None:
        """Open the payment of a priced basket; nothing is held yet."""
        state = TenderState(order_id, request, payable_minor, balance_minor=balance_minor)
        self._put(self._counted(state))

    def add(self, kind: TenderType, text: str) -> Refusal | None:
        """Add what was handed over; an empty text means all that remains. Returns why it makes no sense."""
        state = self._open()
        amount_minor = self._amount(state, kind, text)
        reason = amount_minor if isinstance(amount_minor, Refusal) else self._reason(state, kind, amount_minor)
        if reason is not None:
            self._put(replace(state, verdict=refused(reason)))
            return reason
        assert isinstance(amount_minor, int)
        given = {tender.type: tender.amount_minor for tender in state.tenders}
        given[kind] = given.get(kind, 0) + amount_minor
        self._put(self._counted(replace(state, tenders=_listed(given), verdict=None)))
        return None

    def remove(self, kind: TenderType) -> None:
        """Take a kind off the list."""
        state = self._open()
        left = tuple(tender for tender in state.tenders if tender.type is not kind)
        self._put(self._counted(replace(state, tenders=left, verdict=None)))

    def finish(self) -> None:
        """Hold the rights and take the payment, once the tenders add up."""
        state = self._open()
        if state.busy or state.pending is not None:
            return
        if not state.complete:
            missing = not_done("tender.incomplete", remaining_minor=state.remaining_minor)
            self._put(replace(state, verdict=missing))
            return
        self._put(replace(state, busy=True, verdict=waiting("tender.finishing")))
        self._jobs.network(lambda: self._take(state), self._took, self._failed)

    def ask_again(self) -> None:
        """Ask the terminal what became of a payment that it did not answer."""
        state = self._open()
        if state.pending is not None and not state.busy:
            self._put(replace(state, busy=True, verdict=waiting("tender.asking_terminal")))
            self._jobs.network(lambda: self._till.resolve(state.order_id), self._took, self._failed)

    def leave(self) -> bool:
        """Close the payment without having paid; False while server or terminal are asked."""
        if self.state is not None and self.state.busy:
            return False
        self.state = None
        return True

    # ------------------------------------------------------------------ amounts

    def _amount(self, state: TenderState, kind: TenderType, text: str) -> int | Refusal:
        if text.strip():
            return self._chain().currency.parse(text)
        return state.remaining_minor if kind is TenderType.CASH else self._exact_left(state)

    def _exact_left(self, state: TenderState) -> int:
        return max(0, state.payable_minor - sum(tender.amount_minor for tender in state.tenders))

    def _reason(self, state: TenderState, kind: TenderType, amount_minor: int) -> Refusal | None:
        if amount_minor <= 0:
            return refuse(RefusalCode.INVALID_AMOUNT, tenders=[kind.value])
        if kind is TenderType.CASH:
            return None
        others = {tender.type for tender in state.tenders} & BY_TERMINAL
        if kind in BY_TERMINAL and others - {kind}:
            # The till could charge both; but were the second declined, the first would have to be given back by hand.
            return refuse(RefusalCode.PAYMENT_MISMATCH, max_terminal_tenders=1)
        given_minor = sum(tender.amount_minor for tender in state.tenders)
        if amount_minor > self._exact_left(state):
            return refuse(
                RefusalCode.PAYMENT_MISMATCH, due_minor=state.payable_minor, given_minor=given_minor + amount_minor
            )
        if kind is not TenderType.STORED_VALUE:
            return None
        if state.request.member_id is None:
            return refuse(RefusalCode.NEEDS_MEMBER)
        already_minor = sum(tender.amount_minor for tender in state.tenders if tender.type is kind)
        if already_minor + amount_minor > state.balance_minor:
            return refuse(
                RefusalCode.INSUFFICIENT_BALANCE,
                balance_minor=state.balance_minor,
                asked_minor=already_minor + amount_minor,
            )
        return None

    def _counted(self, state: TenderState) -> TenderState:
        """Work out what remains, what goes back, and which round sums to offer."""
        step_minor = self._chain().cash_step_minor
        others_minor = sum(t.amount_minor for t in state.tenders if t.type is not TenderType.CASH)
        cash_minor = sum(t.amount_minor for t in state.tenders if t.type is TenderType.CASH)
        in_cash = cash_minor > 0 or not others_minor
        due_minor = cash_due(
            state.payable_minor, others_minor=others_minor, cash_step_minor=step_minor if in_cash else 0
        )
        settled = settle(state.payable_minor, state.tenders, cash_step_minor=step_minor)
        cash_left_minor = max(
            0, cash_due(state.payable_minor, others_minor=others_minor, cash_step_minor=step_minor) - cash_minor
        )
        return replace(
            state,
            remaining_minor=max(0, due_minor - cash_minor),
            change_minor=settled.change_minor if isinstance(settled, Settlement) else 0,
            complete=isinstance(settled, Settlement),
            quick_minor=quick_amounts(cash_left_minor, self._chain().currency),
        )

    # ------------------------------------------------------------------ the payment itself

    def _take(self, state: TenderState) -> Paying:
        """Hold, then pay; runs away from the screen."""
        stored_minor = sum(t.amount_minor for t in state.tenders if t.type is TenderType.STORED_VALUE)
        opened = self._till.checkout(state.order_id, state.request, stored_value_minor=stored_minor)
        if isinstance(opened, Refusal):
            return opened
        answer = self._till.pay(state.order_id, state.tenders)
        if isinstance(answer, Refusal):
            # Refused with nothing charged: what was held goes back at once, and the cashier may try again.
            self._till.cancel(state.order_id)
        return answer

    def _took(self, answer: Paying) -> None:
        state = self._open()
        if isinstance(answer, PaidOrder):
            self.state = None
            self._paid(answer)
        elif isinstance(answer, PaymentPending):
            told = warning("tender.no_answer", title="tender.title_no_answer", amount_minor=answer.amount_minor)
            self._put(replace(state, busy=False, pending=answer, verdict=told))
        elif isinstance(answer, Cancelled):
            told = not_done("tender.declined", title="tender.title_declined")
            cash = tuple(t for t in state.tenders if t.type not in BY_TERMINAL)
            left = replace(state, busy=False, pending=None, tenders=cash, verdict=told)
            self._put(self._counted(left))
        else:
            self._put(replace(state, busy=False, verdict=refused(answer)))

    def _failed(self, error: Exception) -> None:
        state = self._open()
        self._put(replace(state, busy=False, verdict=not_done("tender.not_sold")))
        self._jobs.report(error)

    def _open(self) -> TenderState:
        assert self.state is not None, "no payment is open"
        return self.state

    def _put(self, state: TenderState) -> None:
        self.state = state
        self._changed()


def quick_amounts(due_minor: int, currency: Currency) -> tuple[int, ...]:
    """Offer round sums of cash above what is due, the nearest first: what a customer is likely to hand over.

    The one in the largest notes is always among them: machines hand out those.
    """
    if due_minor <= 0:
        return ()
    notes = [note * 10**currency.decimals for note in _NOTES.get(currency.decimals, _NOTES[2])]
    rounded = sorted({-(-due_minor // note) * note for note in notes} - {due_minor})
    return tuple(rounded if len(rounded) <= QUICK_COUNT else rounded[: QUICK_COUNT - 1] + rounded[-1:])


def _listed(given: dict[TenderType, int]) -> tuple[Tender, ...]:
    return tuple(Tender(kind, given[kind]) for kind in KINDS if kind in given)
