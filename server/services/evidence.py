"""Show what the books have of the subject of a finding: the server's side, beside what a till told.

It is as things stand when the finding is opened; whoever decides later reads what was known then.
"""

from typing import Any

from sqlalchemy import Connection, Row, select

from server.db import schema
from server.services import accounts, history

Evidence = dict[str, Any]
_SHOWN = 10
"""Leases of an account at most."""


def of_subject(conn: Connection, subject: str) -> Evidence:
    """Show an account by its id (`value:m1`), or a coupon by its own, which has no colon."""
    return of_account(conn, subject) if ":" in subject else of_coupon(conn, subject)


def of_coupon(conn: Connection, coupon_id: str) -> Evidence:
    """Show a coupon: its state and home, who used it in which order, and the last step that it took."""
    coupon, orders, events = schema.coupon, schema.orders, schema.history
    row = conn.execute(
        select(coupon.c.state, coupon.c.home, coupon.c.version, coupon.c.order_id)
        .add_columns(orders.c.till_id, orders.c.store_id, orders.c.operator, orders.c.sold_at)
        .outerjoin(orders, orders.c.id == coupon.c.order_id)
        .where(coupon.c.id == coupon_id)
    ).one_or_none()
    if row is None:
        return {"state": None}
    shown = {"state": row.state, "home": row.home, "version": row.version, "order": row.order_id, **_who(row)}
    step = conn.execute(
        select(events.c.event, events.c.server_at, events.c.till_id)
        .where(events.c.subject == history.COUPON, events.c.subject_id == coupon_id)
        .order_by(events.c.id.desc())
        .limit(1)
    ).one_or_none()
    last = {} if step is None else {"event": step.event, "at": step.server_at.isoformat(), "till": step.till_id}
    return {**shown, "last_step": last} if last else shown


def of_account(conn: Connection, account_id: str) -> Evidence:
    """Show how much of an account is where, and which tills have a part of it."""
    found = accounts.read(conn, [account_id]).get(account_id)
    if found is None:
        return {"account": None}
    lease = schema.lease
    lent = conn.execute(
        select(lease)
        .where(lease.c.account_id == account_id, lease.c.state == "OPEN")
        .order_by(lease.c.id)
        .limit(_SHOWN)
    )
    return {"available": found.available, "over": found.over, "leases": [_lease(row) for row in lent]}


def of_lease(conn: Connection, lease_id: str) -> Evidence:
    """Show a lease: whose it is, how much of it was used, and whether it is open still."""
    row = conn.execute(select(schema.lease).where(schema.lease.c.id == lease_id)).one_or_none()
    return {"lease": None} if row is None else _lease(row)


def of_order(row: Row[Any] | None) -> Evidence:
    """Show an order as the books have it."""
    if row is None:
        return {"order": None}
    return {
        "state": row.state,
        "attempt": row.attempt,
        "payable_minor": row.payable_minor,
        "refunded_minor": row.refunded_minor,
        "tenders": row.tenders,
        **_who(row),
    }


def of_entry(conn: Connection, entry_id: str) -> Evidence:
    """Show where an entry stands in the books, and what it is."""
    entry = schema.ledger_entry.c
    row = conn.execute(
        select(entry.till_id, entry.epoch, entry.seq, entry.kind, entry.hash).where(entry.entry_id == entry_id)
    ).one_or_none()
    if row is None:
        return {"entry": None}
    return {"till": row.till_id, "epoch": row.epoch, "seq": row.seq, "kind": row.kind, "hash": row.hash.hex()}


def _who(row: Row[Any]) -> Evidence:
    at = row.sold_at.isoformat() if row.sold_at else None
    return {"till": row.till_id, "store": row.store_id, "operator": row.operator, "sold_at": at}


def _lease(row: Row[Any]) -> Evidence:
    return {
        "lease": row.id,
        "till": row.till_id,
        "epoch": row.epoch,
        "account": row.account_id,
        "state": row.state,
        "lent": row.qty,
        "used": row.used,
    }
