"""Say what a restart found half done, and bring each to its end. Plain Python."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.api import Cancelled, Interrupted, InterruptedKind, PaidOrder, PaymentPending, Receipt, RefundDone
from app.services.till import Till
from ui.jobs import Jobs
from ui.verdict import Verdict, accepted, not_done, refused, waiting, warning


@dataclass(frozen=True, slots=True)
class InterruptedState:
    """Show what is half done; `loaded` False until the till was asked the first time."""

    items: tuple[Interrupted, ...] = ()
    loaded: bool = False
    busy: bool = False
    verdict: Verdict | None = None


class InterruptedPresenter:
    """Hold the list; `show` puts a receipt on the screen for the customer."""

    def __init__(self, till: Till, jobs: Jobs, *, changed: Callable[[], None], show: Callable[[Receipt], None]) -> None:
        self._till, self._jobs, self._changed, self._show = till, jobs, changed, show
        self.state = InterruptedState()

    def load(self, then: Callable[[], None] = lambda: None) -> None:
        """Ask the till what is half done, then call `then`."""

        def loaded(items: tuple[Interrupted, ...]) -> None:
            self._put(replace(self.state, items=items, loaded=True, busy=False))
            then()

        self._jobs.local(self._till.interrupted, loaded)

    def settle(self, item: Interrupted) -> None:
        """Do the one thing that brings this to its end."""
        if self.state.busy:
            return
        if item.kind is InterruptedKind.RECEIPT_NOT_SHOWN:
            self._jobs.local(lambda: self._till.receipt(item.order_id), self._found_receipt)
        elif item.kind is InterruptedKind.OPEN_HOLD:
            self._ask("interrupted.cancelling", lambda: self._till.cancel(item.order_id, reason="interrupted"))
        elif item.kind is InterruptedKind.PAYMENT_UNKNOWN:
            self._ask("interrupted.asking_terminal", lambda: self._till.resolve(item.order_id))
        elif item.kind is InterruptedKind.REFUND_UNANSWERED:
            assert item.request_id is not None, "a refund under way has a request"
            request_id = item.request_id
            self._ask("interrupted.asking_refund", lambda: self._resume(request_id, item.order_id))
        else:
            self._jobs.local(lambda: self._till.receipt_shown(item.order_id), lambda _none: self.load())

    def _ask(self, key: str, job: Callable[[], PaidOrder | Cancelled | PaymentPending | RefundDone | Refusal]) -> None:
        def failed(error: Exception) -> None:
            self._put(replace(self.state, busy=False, verdict=not_done("error.unexpected")))
            self._jobs.report(error)

        self._put(replace(self.state, busy=True, verdict=waiting(key)))
        self._jobs.network(job, self._settled, failed)

    def _resume(self, request_id: str, order_id: str) -> RefundDone | Refusal:
        """Ask again about every refund without an answer; tell of the one that was chosen."""
        answers = {done.request_id: done for done in self._till.resume_refunds()}
        return answers.get(request_id) or refuse(RefusalCode.NEEDS_ONLINE, refund_of=order_id)

    def _settled(self, answer: PaidOrder | Cancelled | PaymentPending | RefundDone | Refusal) -> None:
        if isinstance(answer, Refusal):
            verdict = refused(answer)
        elif isinstance(answer, PaymentPending):
            verdict = warning("interrupted.still_unknown", amount_minor=answer.amount_minor)
        elif isinstance(answer, Cancelled):
            verdict = accepted("interrupted.cancelled", title="interrupted.title_settled", order=answer.order_id)
        elif isinstance(answer, RefundDone):
            verdict = accepted(
                "refund.done", title="interrupted.title_settled", amount_minor=answer.refund.amount_minor
            )
            self._jobs.local(lambda: self._till.receipt_shown(answer.order_id), lambda _none: self.load())
        else:
            verdict = accepted("interrupted.paid", title="interrupted.title_settled", order=answer.order_id)
        self._put(replace(self.state, busy=False, verdict=verdict))
        self.load()

    def _found_receipt(self, receipt: Receipt | None) -> None:
        if receipt is None:
            self._put(replace(self.state, verdict=not_done("interrupted.no_receipt")))
        else:
            self._show(receipt)

    def _put(self, state: InterruptedState) -> None:
        self.state = state
        self._changed()
