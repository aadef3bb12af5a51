"""Call an order off and give its rights back, at once where the server can be reached."""

from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.states import OrderEvent, OrderState
from app.services.api import Cancelled
from app.services.parts import Parts
from app.services.recording import append_cancel
from app.store import orders
from resources import lifecycles

REASONS = frozenset({"cancelled", "pay_failed", "interrupted"})


def cancel(parts: Parts, order_id: str, *, reason: str) -> Cancelled | Refusal:
    """Call the order off; see `Till.cancel`."""
    assert reason in REASONS, f"no reason to cancel: {reason}"
    with parts.database.read() as conn:
        row = orders.get(conn, order_id)
    if row is None:
        return unknown("order", order_id)
    if row.state == OrderState.OPEN and not row.held and reason == "cancelled":
        # Never more than a basket: no entry. Its number of attempts stays where it was more than that before.
        with parts.database.write() as tx:
            if row.attempt == 1:
                orders.forget(tx, order_id)
            else:
                orders.set_states(tx, [(order_id, OrderState.CANCELLED)], now=parts.now())
        return Cancelled(row.id, row.attempt, reason)
    if row.state != OrderState.OPEN:
        event = OrderEvent.CANCEL if reason == "cancelled" else OrderEvent.PAY_FAILED
        step = lifecycles.load("order").step(row.state, OrderEvent.CANCEL)
        if isinstance(step, Refusal) or row.payment is not None:
            return refuse(RefusalCode.ILLEGAL_TRANSITION, order=order_id, state=row.state, event=event.value)
        if row.state == OrderState.CANCELLED:
            return Cancelled(row.id, row.attempt, reason)
    with parts.recording() as tx:
        after = append_cancel(tx, parts, row, reason=reason, now=parts.now())
    parts.push_soon()
    return Cancelled(after.id, after.attempt, reason)
