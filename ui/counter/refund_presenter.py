"""Take goods back: find the order, choose what returns, show what it gives, confirm. Plain Python."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from app.domain.basket import MILLI, parse_qty
from app.domain.refunds import REFUNDABLE, Refund, RefundLine, decide_refund
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.services.api import ChainView, OrderView, RefundDone
from app.services.till import Till
from ui.jobs import Jobs
from ui.verdict import Verdict, accepted, not_done, refused, waiting
from ui.words import Name, campaign_name


@dataclass(frozen=True, slots=True)
class RefundRow:
    """Show one line of the order: thousandths sold, still with the customer, and chosen to come back."""

    number: int
    sku: str
    name: Name
    by_weight: bool
    sold_milli: int
    left_milli: int
    back_milli: int = 0


@dataclass(frozen=True, slots=True)
class RefundState:
    """Show the refund.

    `preview` is what the rows chosen would give back (a refusal where they may not return, None where none is chosen):
    the decision itself is made when it is confirmed. `done` is the result.
    """

    order: OrderView | None = None
    rows: tuple[RefundRow, ...] = ()
    names: Mapping[str, Name | str] = field(default_factory=dict)
    preview: Refund | Refusal | None = None
    busy: bool = False
    verdict: Verdict | None = None
    done: RefundDone | None = None

    @property
    def confirmable(self) -> bool:
        """Tell whether there is something to confirm."""
        return isinstance(self.preview, Refund) and not self.busy and self.done is None


class RefundPresenter:
    """Hold the refund's state; everything slow goes through `jobs`."""

    def __init__(self, till: Till, jobs: Jobs, *, chain: Callable[[], ChainView], changed: Callable[[], None]) -> None:
        self._till, self._jobs, self._chain, self._changed = till, jobs, chain, changed
        self.state = RefundState()
        self._request_id = ""
        self._turn = 0

    def begin(self) -> None:
        """Open an empty refund."""
        self._turn += 1
        self._put(RefundState())

    def look_up(self, order_id: str) -> None:
        """Find an order by its number, asking the head office for one of another till."""
        order_id = order_id.strip()
        if not order_id or self.state.busy:
            return
        self._turn += 1
        turn = self._turn
        self._put(RefundState(busy=True, verdict=waiting("refund.looking")))

        def look() -> tuple[OrderView | Refusal, Mapping[str, tuple[str, str]]]:
            found = self._till.order(order_id)
            if isinstance(found, Refusal) or found.quote is None:
                return found, {}
            return found, self._till.product_names({line.sku for line in found.quote.lines})

        def failed(error: Exception) -> None:
            self._put(RefundState(verdict=not_done("error.unexpected")))
            self._jobs.report(error)

        self._jobs.network(look, lambda found: self._found(turn, *found), failed)

    def _found(self, turn: int, order: OrderView | Refusal, names: Mapping[str, tuple[str, str]]) -> None:
        if turn != self._turn:
            return
        if isinstance(order, Refusal):
            self._put(RefundState(verdict=refused(order)))
        elif order.sold is None or order.state not in REFUNDABLE:
            reason = refuse(RefusalCode.ILLEGAL_TRANSITION, order=order.order_id, state=order.state, event="refund")
            self._put(RefundState(verdict=refused(reason)))
        else:
            by_weight = {line.number for line in order.sold.lines if line.by_weight}
            refunded = order.sold.refunded_milli
            rows = tuple(
                RefundRow(
                    number=line.number,
                    sku=line.sku,
                    name=Name(*names.get(line.sku, (order.titles.get(line.sku, line.sku), ""))),
                    by_weight=line.number in by_weight,
                    sold_milli=line.qty_milli,
                    left_milli=line.qty_milli - refunded.get(line.number, 0),
                )
                for line in order.sold.quote.lines
            )
            self._request_id = self._till.new_order_id()
            self._put(RefundState(order=order, rows=rows, names=_names(order)))
            self._put(replace(self.state, verdict=self._found_verdict()))

    def _found_verdict(self) -> Verdict:
        order = self.state.order
        assert order is not None, "an order was found"
        return accepted("refund.found", title="refund.title_found", order=order.order_id, state=order.state)

    # ------------------------------------------------------------------ choosing

    def step(self, number: int, units: int) -> None:
        """Let more or fewer units of a line come back, within what is left; weighed goods come back whole."""
        row = self._row(number)
        if row.by_weight:
            back_milli = row.left_milli if units > 0 else 0
        else:
            back_milli = min(max(row.back_milli + units * MILLI, 0), row.left_milli)
        self._choose({number: back_milli})

    def enter(self, number: int, text: str) -> Refusal | None:
        """Set what comes back of a line by its text, "0" for nothing of it; returns why it makes no sense."""
        row = self._row(number)
        back_milli = 0 if text.strip() == "0" else parse_qty(text, by_weight=row.by_weight)
        if isinstance(back_milli, int) and back_milli > row.left_milli:
            back_milli = refuse(RefusalCode.NOT_REFUNDABLE, line=number, left_milli=row.left_milli)
        if isinstance(back_milli, Refusal):
            self._put(replace(self.state, verdict=refused(back_milli)))
            return back_milli
        self._choose({number: back_milli})
        return None

    def choose_all(self) -> None:
        """Let everything come back that is left."""
        self._choose({row.number: row.left_milli for row in self.state.rows})

    def choose_none(self) -> None:
        """Let nothing come back yet."""
        self._choose({row.number: 0 for row in self.state.rows})

    def _row(self, number: int) -> RefundRow:
        return next(row for row in self.state.rows if row.number == number)

    def _choose(self, back_milli: Mapping[int, int]) -> None:
        state = self.state
        if state.busy or state.done is not None or state.order is None or state.order.sold is None:
            return
        rows = tuple(replace(row, back_milli=back_milli.get(row.number, row.back_milli)) for row in state.rows)
        asked = _asked(rows)
        preview = (
            decide_refund(state.order.sold, asked, cash_step_minor=self._chain().cash_step_minor) if asked else None
        )
        if asked != _asked(state.rows):
            self._request_id = self._till.new_order_id()  # other content is another request
        verdict = refused(preview) if isinstance(preview, Refusal) else self._found_verdict()
        self._put(replace(state, rows=rows, preview=preview, verdict=verdict))

    # ------------------------------------------------------------------ confirming

    def confirm(self) -> None:
        """Take the goods back. The same request is asked again by the same id, so nothing comes back twice."""
        state = self.state
        if not state.confirmable or state.order is None:
            return
        request_id, order_id, asked = self._request_id, state.order.order_id, _asked(state.rows)
        self._put(replace(state, busy=True, verdict=waiting("refund.confirming")))

        def failed(error: Exception) -> None:
            self._put(replace(self.state, busy=False, verdict=not_done("refund.not_done")))
            self._jobs.report(error)

        self._jobs.network(lambda: self._till.refund(request_id, order_id, asked), self._refunded, failed)

    def _refunded(self, done: RefundDone | Refusal) -> None:
        if isinstance(done, Refusal):
            self._put(replace(self.state, busy=False, verdict=refused(done)))
            return
        told = accepted("refund.done", title="refund.title_done", amount_minor=done.refund.amount_minor)
        rows = tuple(replace(row, left_milli=row.left_milli - row.back_milli) for row in self.state.rows)
        self._put(replace(self.state, rows=rows, busy=False, done=done, verdict=told))
        self._jobs.local(lambda: self._till.receipt_shown(done.order_id), lambda _none: None)

    def leave(self) -> bool:
        """Close the refund; False while the head office is asked."""
        if self.state.busy:
            return False
        self.begin()
        return True

    def _put(self, state: RefundState) -> None:
        self.state = state
        self._changed()


def _asked(rows: tuple[RefundRow, ...]) -> tuple[RefundLine, ...]:
    return tuple(RefundLine(row.number, row.back_milli) for row in rows if row.back_milli)


def _names(order: OrderView) -> dict[str, Name | str]:
    """Call each coupon of the order by its campaign's name."""
    laid = order.quote.laid if order.quote else ()
    return {each.coupon_id: campaign_name(each.rule, each.campaign_id) for each in laid if each.coupon_id is not None}
