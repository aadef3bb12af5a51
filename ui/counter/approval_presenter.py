"""Lead from "head office cannot confirm it" to "accepted at a risk": who, why, and that person's PIN. Plain Python."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.domain.refusals import Refusal, RefusalCode
from app.services.api import Approved, Approver
from app.services.till import Till
from ui.counter.desk_presenter import DeskPresenter
from ui.jobs import Jobs
from ui.verdict import not_done
from ui.words import Message, Name, tell

REASONS = ("approval.reason_known", "approval.reason_shown", "approval.reason_promised")
"""Reasons to choose from, each a sentence; whoever approves may write another."""


@dataclass(frozen=True, slots=True)
class ApprovalState:
    """Show the question: which coupon, what it may cost at most, who may answer, who was chosen ("" = nobody yet).

    `wrong` says what is missing or was refused, None = nothing; `busy` while the PIN is looked at. `tries` counts the
    answers that were refused, so that a screen knows when to clear the PIN.
    """

    order_id: str
    coupon_id: str
    name: Name | str
    max_minor: int
    approvers: tuple[Approver, ...]
    chosen: str = ""
    wrong: Message | None = None
    busy: bool = False
    tries: int = 0


class ApprovalPresenter:
    """Hold the question while there is one; `state` None = nobody is asked."""

    def __init__(self, till: Till, jobs: Jobs, *, desk: DeskPresenter, changed: Callable[[], None]) -> None:
        self._till, self._jobs, self._desk, self._changed = till, jobs, desk, changed
        self.state: ApprovalState | None = None

    @property
    def offered(self) -> tuple[str, int] | None:
        """Return the first coupon on the order that a manager's word is all that lacks for, and what it may cost."""
        desk = self._desk.state
        refused = desk.quote.refused if desk.quote is not None else {}
        for coupon_id in desk.basket.use:
            reason = refused.get(coupon_id)
            max_minor = reason.facts.get("max_minor") if reason is not None else None
            if reason is not None and reason.code is RefusalCode.NEEDS_APPROVAL and isinstance(max_minor, int):
                return coupon_id, max_minor
        return None

    def begin(self) -> None:
        """Ask for a manager, where one may help."""
        offered = self.offered
        if offered is None or self.state is not None:
            return
        coupon_id, max_minor = offered
        order_id = self._desk.state.basket.order_id
        name = self._desk.state.names.get(coupon_id, coupon_id)

        def found(approvers: tuple[Approver, ...]) -> None:
            if not approvers:
                self._desk.say(not_done("approval.nobody"))
                return
            chosen = approvers[0].id if len(approvers) == 1 else ""
            self._put(ApprovalState(order_id, coupon_id, name, max_minor, approvers=approvers, chosen=chosen))

        self._jobs.local(self._till.approvers, found)

    def choose(self, approver_id: str) -> None:
        """Say who approves."""
        if self.state is not None and not self.state.busy:
            self._put(replace(self.state, chosen=approver_id, wrong=None))

    def enter(self, pin: str, reason: str) -> None:
        """Take the answer; what is refused stays on the screen, and the question with it."""
        state = self.state
        if state is None or state.busy:
            return
        missing = _missing(state, pin, reason)
        if missing is not None:
            self._put(replace(state, wrong=tell(missing)))
            return
        self._put(replace(state, busy=True, wrong=None))
        self._jobs.network(
            lambda: self._till.approve_risk(
                state.order_id, state.coupon_id, by=state.chosen, pin=pin, reason=reason.strip()
            ),
            self._answered,
            self._failed,
        )

    def drop(self) -> None:
        """Take the question back: the coupon waits on the order, as it did."""
        if self.state is not None and not self.state.busy:
            self._put(None)

    def _answered(self, answer: Approved | Refusal) -> None:
        state = self.state
        assert state is not None, "a question that is being answered is not dropped"
        if isinstance(answer, Refusal):
            self._put(replace(state, busy=False, wrong=answer, tries=state.tries + 1))
            return
        self._put(None)
        self._desk.judge(state.coupon_id)

    def _failed(self, error: Exception) -> None:
        self._put(None)
        self._jobs.report(error)

    def _put(self, state: ApprovalState | None) -> None:
        self.state = state
        self._changed()


def _missing(state: ApprovalState, pin: str, reason: str) -> str | None:
    if not state.chosen:
        return "approval.choose_first"
    if not reason.strip():
        return "approval.reason_first"
    return None if pin else "approval.pin_first"
