"""Derive orders and refunds from ledger entries: the same function when an entry is made and when all are read again.

So a rebuild gives the same rows by construction. What no entry says is kept as it was: whether a receipt was shown,
what a cancelled order would have cost, and the rows that are still OPEN or HELD.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.domain.ledger import Entry, original
from app.store import approvals, orders, rights
from app.store.approvals import APPROVAL, PIN_FAILED
from app.store.ledger import Ledger
from app.store.meta import instant
from app.store.orders import OrderRow, RefundRow

SALE, CANCEL, PAYMENT_UNKNOWN, LATE_PAYMENT, REFUND = "sale", "cancel", "payment_unknown", "late_payment", "refund"
CLAIM, LEASE_CLOSE, COUPON_RETURN = "claim", "lease_close", "coupon_return"
"""The kinds of entries, as on the wire (`sync.protocol`)."""

Body = Mapping[str, Any]


def sold(entry: Entry, body: Body) -> OrderRow:
    """Return the order after its `sale`."""
    return replace(
        _whole(body), state="PAID", entry_seq=entry.seq, entry_epoch=entry.epoch, held=body["held"], payment=None
    )


def unknown(body: Body) -> OrderRow:
    """Return the order after its `payment_unknown`, which says all that the sale or the cancellation will need."""
    return replace(_whole(body), state="UNKNOWN", held=body["held"], payment=dict(body["payment"]))


def _whole(body: Body) -> OrderRow:
    return OrderRow(
        body["order"],
        body["attempt"],
        "",
        content=bytes.fromhex(body["content"]),
        member_id=body["member"],
        lines=body["lines"],
        quote=body["quote"],
        tenders=body["tenders"],
        change_minor=body["change_minor"],
        rights=body.get("rights"),
    )


def cancelled(before: OrderRow | None, body: Body) -> OrderRow:
    """Return the order after its `cancel`: nothing of it is under way any more."""
    row = before or OrderRow(body["order"], body["attempt"], "")
    return replace(
        row,
        attempt=body["attempt"],
        state="CANCELLED",
        held=False,
        held_until_at=None,
        tenders=(),
        change_minor=0,
        payment=None,
        rights=None,
    )


def refunded(entry: Entry, body: Body) -> RefundRow:
    """Return the refund after its entry."""
    return RefundRow(
        body["refund"],
        body["order"],
        bytes.fromhex(body["content"]),
        body=refund_body(body),
        entry_seq=entry.seq,
        entry_epoch=entry.epoch,
    )


def refund_body(body: Body) -> dict[str, Any]:
    """Return what the refund's row says of its decision."""
    return {name: body[name] for name in ("body", "state", "uses_after", "decided_by")}


# ------------------------------------------------------------------ anew from the ledger


def _derive(conn: Connection, ledger: Ledger) -> tuple[dict[str, tuple[OrderRow, datetime]], dict[str, Any]]:
    """Read every entry and return what it makes of orders and refunds, each with the time of its last entry."""
    found: dict[str, tuple[OrderRow, datetime]] = {}
    refunds: dict[str, tuple[RefundRow, datetime]] = {}
    for entry, wall_ms in ledger.every(conn):
        fact, at = original(entry, ledger.till_id), instant(wall_ms)
        body = fact.read()
        if fact.kind in (CLAIM, LEASE_CLOSE, COUPON_RETURN, APPROVAL, PIN_FAILED):
            continue
        order_id = body["order"]
        before = found[order_id][0] if order_id in found else None
        match fact.kind:
            case "sale":
                found[order_id] = (sold(entry, body), at)
            case "payment_unknown":
                found[order_id] = (unknown(body), at)
            case "cancel":
                found[order_id] = (cancelled(before, body), at)
            case "refund":
                refunds[body["refund"]] = (refunded(entry, body), at)
                if before is not None:
                    found[order_id] = (replace(before, state=body["state"]), at)
    return found, refunds


def rebuild(tx: Connection, ledger: Ledger) -> list[str]:
    """Write orders, refunds and what was used of rights anew from the ledger; return what differed, [] = nothing."""
    drift: list[str] = []
    derived, refunds = _derive(tx, ledger)
    for order_id, (row, at) in derived.items():
        now = orders.get(tx, order_id)
        if now is not None and now.attempt > row.attempt:
            continue  # a later attempt, under way or refused by the server, stands in no entry
        if now is not None and now.attempt == row.attempt and row.state == "CANCELLED" == now.state:
            continue
        # What is shown is no fact of the ledger, nor what the order was before it was cancelled.
        kept = replace(row, receipt_shown=now.receipt_shown if now else False)
        if now != replace(kept, updated_at=at):
            drift.append(f"order {order_id}")
            orders.put(tx, kept, now=at)
    for request_id, (refund, at) in refunds.items():
        stored = orders.get_refund(tx, request_id)
        told = replace(refund, receipt_shown=stored.receipt_shown if stored else False)
        if stored != replace(told, updated_at=at):
            drift.append(f"refund {request_id}")
            orders.put_refund(tx, told, now=at)
    drift += approvals.rebuild(tx, ((original(entry, ledger.till_id), ms) for entry, ms in ledger.every(tx)))
    return drift + rights.rebuild(tx, (entry for entry, _ in ledger.every(tx)), orders.open_ones(tx))
