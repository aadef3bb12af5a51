"""Append what happened to the ledger, and bring the order's row along in the same transaction.

Bodies of schema 1. Beyond what the server needs, an entry says what the till itself will have to know when it has
nothing else: the digest of what was asked for (a repeat is known after a rebuild too), and for a payment without an
answer everything that its sale will need. One that was made while the till's clock was in doubt says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.domain.ledger import Entry
from app.domain.receipt_number import ReceiptNumber
from app.domain.states import OrderState
from app.services.parts import Parts
from app.store import approvals, coupons, meta, orders, projections, rights
from app.store.approvals import Approval, Manager
from app.store.ledger import Stamp, Tail
from app.store.orders import OrderRow, RefundRow
from app.store.rights import LeaseRow

Body = dict[str, Any]


def _common(parts: Parts, order_id: str, attempt: int, *, now: datetime) -> Body:
    return {"order": order_id, "attempt": attempt, **_told(parts, now)}


def _told(parts: Parts, now: datetime) -> Body:
    return {
        "at": now.isoformat(),
        "store": parts.store_id,
        "till": parts.till_id,
        "operator": parts.operator,
    }


def _append(tx: Connection, parts: Parts, kind: str, *, body: Body, now: datetime, tail: Tail | None = None) -> Entry:
    stamp = Stamp(parts.ids.new(), now, parts.operator)
    if doubt := meta.load(tx).clock_doubt(now):
        body = {**body, "clock_unsure": doubt}
    return parts.database.ledger.append(tx, kind, body, stamp=stamp, tail=tail)


def _whole(row: OrderRow) -> Body:
    assert row.quote is not None, "an order that can be paid was priced"
    return {
        "held": row.held,
        "member": row.member_id,
        "lines": row.lines,
        "quote": row.quote,
        "tenders": row.tenders,
        "change_minor": row.change_minor,
        "content": row.content.hex(),
        **({"rights": row.rights} if row.rights is not None else {}),
    }


def used_coupons(quote: Mapping[str, Any] | None) -> list[str]:
    """Return the coupons that took something off, of a quote as JSON data."""
    return [stage["coupon"] for stage in (quote or {}).get("laid", ()) if stage["coupon"] is not None]


@dataclass(frozen=True, slots=True)
class Sold:
    """Hold a sale that was appended: the order's row after it, the entry, and the entry's body as data."""

    row: OrderRow
    entry: Entry
    body: Body


def append_sale(tx: Connection, parts: Parts, row: OrderRow, *, now: datetime) -> Sold:
    """Append the sale of an order whose tenders are settled; its price stands in its row already."""
    tail = parts.database.ledger.tail(tx)
    number = ReceiptNumber(parts.till_id, parts.database.ledger.epoch, tail[0] + 1)
    body = {**_common(parts, row.id, row.attempt, now=now), **_whole(row), "receipt": str(number)}
    entry = _append(tx, parts, projections.SALE, body=body, now=now, tail=tail)
    after = projections.sold(entry, body)
    orders.put_sold(tx, after, now=now)
    if row.rights is not None:
        rights.use(tx, row.rights, row.id)
    coupons.mark(tx, used_coupons(row.quote), state="USED", order_id=row.id, store_id=parts.store_id, at=now)
    return Sold(after, entry, body)


def append_cancel(tx: Connection, parts: Parts, row: OrderRow, *, reason: str, now: datetime) -> OrderRow:
    """Append that this attempt is off; return the order's row after it."""
    body = {**_common(parts, row.id, row.attempt, now=now), "reason": reason}
    _append(tx, parts, projections.CANCEL, body=body, now=now)
    after = projections.cancelled(row, body)
    if row.rights is not None and row.state != OrderState.OPEN:
        rights.release(tx, row.rights, row.id)
    orders.put(tx, after, now=now)
    coupons.release(tx, row.id, used_coupons(row.quote))
    return after


def append_unknown(tx: Connection, parts: Parts, row: OrderRow, *, now: datetime) -> OrderRow:
    """Append that the terminal did not say whether it took the money; return the order's row after it."""
    assert row.payment is not None, "only a charge can stay without an answer"
    body = {**_common(parts, row.id, row.attempt, now=now), **_whole(row), "payment": row.payment}
    _append(tx, parts, projections.PAYMENT_UNKNOWN, body=body, now=now)
    after = projections.unknown(body)
    orders.put(tx, after, now=now)
    return after


def append_late_payment(tx: Connection, parts: Parts, row: OrderRow, *, tenders: list[Body], now: datetime) -> None:
    """Append that money came for an order that was off; nothing else changes."""
    body = {**_common(parts, row.id, row.attempt, now=now), "tenders": tenders}
    _append(tx, parts, projections.LATE_PAYMENT, body=body, now=now)


def append_refund(
    tx: Connection, parts: Parts, refund: RefundRow, *, decision: Body, attempt: int, now: datetime
) -> tuple[RefundRow, Entry]:
    """Append a refund that was decided.

    `decision` has `body` (as `write_refund` writes it), `state` of the order after it, `uses_after` and `decided_by`.
    Brings the order along where it is one of this till.
    """
    body = {
        **_common(parts, refund.order_id, attempt, now=now),
        **decision,
        "refund": refund.id,
        "content": refund.content.hex(),
    }
    entry = _append(tx, parts, projections.REFUND, body=body, now=now)
    after = projections.refunded(entry, body)
    orders.put_refund(tx, after, now=now)
    orders.set_states(tx, [(refund.order_id, decision["state"])], now=now)
    coupons.release(tx, refund.order_id, decision["body"]["returned"])
    rights.returned_by_refund(tx, refund.order_id, decision["body"]["returned"])
    return after, entry


def append_claim(tx: Connection, parts: Parts, claim: Body, *, now: datetime) -> None:
    """Append that a coupon of a leased stock was given to a member."""
    _append(tx, parts, projections.CLAIM, body={**_told(parts, now), **claim}, now=now)


def append_lease_close(tx: Connection, parts: Parts, lease: LeaseRow, *, now: datetime) -> bool:
    """Append that no entry from now on draws on a lease; False = an order under way holds some of it."""
    if not rights.close(tx, lease.id):
        return False
    body = {**_told(parts, now), "lease": lease.id, "used": lease.used}
    _append(tx, parts, projections.LEASE_CLOSE, body=body, now=now)
    return True


def append_approval(
    tx: Connection, parts: Parts, given: Approval, *, campaign_id: str, pin_version: int, now: datetime
) -> None:
    """Append that a manager lets an order use a coupon without a right."""
    said = {
        "approval": given.id,
        "order": given.order_id,
        "coupon": given.coupon_id,
        "campaign": campaign_id,
        "member": given.member_id,
        "by": given.by,
        "pin_version": pin_version,
        "reason": given.reason,
        "max_minor": given.max_minor,
    }
    _append(tx, parts, approvals.APPROVAL, body={**_told(parts, now), **said}, now=now)
    approvals.put(tx, given)


def append_pin_failed(tx: Connection, parts: Parts, manager: Manager, *, count: int, now: datetime) -> None:
    """Append that a PIN of a manager was wrong, the `count`th in a row."""
    said = {"by": manager.id, "pin_version": manager.pin_version, "failures": count}
    _append(tx, parts, approvals.PIN_FAILED, body={**_told(parts, now), **said}, now=now)
    approvals.put_failure(tx, manager.id, manager.pin_version, count=count, at=now)


def append_coupon_return(tx: Connection, parts: Parts, coupon_id: str, *, version: int, now: datetime) -> bool:
    """Append that a coupon goes home to the server; False = an order under way holds it."""
    if not rights.return_home(tx, coupon_id, version):
        return False
    body = {**_told(parts, now), "coupon": coupon_id, "version": version}
    _append(tx, parts, projections.COUPON_RETURN, body=body, now=now)
    return True
