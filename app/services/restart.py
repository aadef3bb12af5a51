"""Find out after a restart what was going on, and bring to an end what nobody but the till itself can know of.

An order is in the ledger once, or not at all; this says which, and whether its receipt was shown (PROTOCOL 3.1).
"""

from dataclasses import replace

from sqlalchemy import Connection

from app.domain.ledger import Entry
from app.domain.states import OrderState
from app.services.api import Interrupted, InterruptedKind
from app.services.checkout import give_up
from app.services.parts import Parts
from app.store import orders, projections
from app.store.ledger import mark
from app.store.orders import OrderRow

LOOK_BACK = 50
"""Entries at the end of the ledger in which a receipt that was not shown is looked for."""


def give_back(parts: Parts) -> None:
    """Give back every hold whose answer this till did not live to see: nothing was paid for it, and nobody waits."""
    with parts.database.read() as conn:
        unanswered = [row for row in orders.open_ones(conn) if row.state == OrderState.OPEN and row.held]
    for row in unanswered:
        give_up(parts, row, reason="interrupted")


def interrupted(parts: Parts) -> tuple[Interrupted, ...]:
    """List what is half done; see `Till.interrupted`."""
    with parts.database.read() as conn:
        found = [_open(row) for row in orders.open_ones(conn)]
        refunds = [
            Interrupted(
                InterruptedKind.REFUND_UNANSWERED, row.order_id, "", 0, request_id=row.id, since_at=row.updated_at
            )
            for row in orders.unanswered_refunds(conn)
        ]
        shown = _not_shown(conn, parts)
    urgent = [each for each in found if each is not None]
    urgent.sort(key=lambda each: each.kind is InterruptedKind.OPEN_HOLD)
    return (*urgent, *refunds, *shown)


def _open(row: OrderRow) -> Interrupted | None:
    """Tell what an open order waits for; a basket that nobody holds anything for waits for nothing."""
    if row.payment is not None:
        kind = InterruptedKind.PAYMENT_UNKNOWN
    elif row.held or row.state == OrderState.HELD:
        kind = InterruptedKind.OPEN_HOLD
    else:
        return None
    payable_minor = row.quote["payable_minor"] if row.quote else 0
    return Interrupted(kind, row.id, row.state, payable_minor=payable_minor, since_at=row.updated_at)


def _not_shown(conn: Connection, parts: Parts) -> list[Interrupted]:
    """Return the sales and refunds at the end of the ledger that were not shown, also before one that was."""
    latest = parts.database.ledger.latest(conn, limit=LOOK_BACK)
    told = [entry for entry in latest if entry.kind in (projections.SALE, projections.REFUND)]
    return [each for entry in told if (each := _receipt(conn, parts, entry)) is not None]


def _receipt(conn: Connection, parts: Parts, entry: Entry) -> Interrupted | None:
    body = entry.read()
    order = orders.get(conn, body["order"])
    state = order.state if order else ""
    place = Interrupted(InterruptedKind.RECEIPT_NOT_SHOWN, body["order"], state, 0, mark=mark(parts.till_id, entry))
    if entry.kind == projections.SALE:
        if order is None or order.receipt_shown:
            return None
        return replace(place, payable_minor=body["quote"]["payable_minor"], since_at=order.updated_at)
    refund = orders.get_refund(conn, body["refund"])
    if refund is None or refund.receipt_shown:
        return None
    return replace(
        place,
        kind=InterruptedKind.REFUND_NOT_SHOWN,
        payable_minor=body["body"]["amount_minor"],
        request_id=refund.id,
        since_at=refund.updated_at,
    )
