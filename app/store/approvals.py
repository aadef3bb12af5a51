"""Keep who may approve, what they approved, and their wrong PINs; and count the risks that the server has not heard of.

Approvals and wrong PINs are projections of the ledger: restoring an older file does not undo a try without the chain's
telling (PROTOCOL 7.3). Who may approve, and the budget, are the server's word.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.domain.ledger import Entry
from app.store.driver import run, run_each
from app.store.meta import Meta, instant, instant_ms
from app.store.orders import load_rights

APPROVAL, PIN_FAILED = "approval", "pin_failed"
"""The kinds of their entries, as on the wire (`sync.protocol`)."""


@dataclass(frozen=True, slots=True)
class Manager:
    """Hold somebody who may approve at this till; `verifier` of the PIN as a PHC string."""

    id: str
    name: str
    verifier: str
    pin_version: int


@dataclass(frozen=True, slots=True)
class Approval:
    """Hold a manager's word that one order may use one coupon without a right, `max_minor` at most.

    `member_id` is whose coupon it is.
    """

    order_id: str
    coupon_id: str
    id: str
    member_id: str | None
    by: str
    reason: str
    max_minor: int


@dataclass(frozen=True, slots=True)
class Unheard:
    """Name a coupon that was, or is being, taken at a risk of which the server has not heard."""

    coupon_id: str
    member_id: str | None


def managers(conn: Connection) -> list[Manager]:
    """Return everybody who may approve here, by name."""
    return [Manager(*row) for row in run(conn, "SELECT id, name, verifier, pin_version FROM staff ORDER BY name, id")]


def budget(conn: Connection, till_id: str) -> tuple[int, int] | None:
    """Return the till's budget and what of it is still to be leased (minor units), as of the last pull."""
    row = run(conn, "SELECT limit_minor, available_minor FROM risk_budget WHERE till_id = ?", (till_id,)).fetchone()
    return (row[0], row[1]) if row else None


# ------------------------------------------------------------------ wrong PINs


def failures(conn: Connection, manager: Manager) -> tuple[int, datetime | None]:
    """Return how many PINs of a manager were wrong in a row, and when the last one was; a new PIN begins at 0."""
    row = run(
        conn,
        "SELECT failures, last_at FROM pin_failure WHERE staff_id = ? AND pin_version = ?",
        (manager.id, manager.pin_version),
    ).fetchone()
    return (row[0], instant(row[1])) if row else (0, None)


def put_failure(tx: Connection, staff_id: str, pin_version: int, *, count: int, at: datetime) -> None:
    """Note how many there were in a row by now."""
    run(
        tx,
        "INSERT INTO pin_failure (staff_id, pin_version, failures, last_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (staff_id) DO UPDATE SET pin_version = excluded.pin_version, failures = excluded.failures, "
        "last_at = excluded.last_at",
        (staff_id, pin_version, count, instant_ms(at)),
    )


# ------------------------------------------------------------------ approvals

_PUT = (
    "INSERT INTO approval (order_id, coupon_id, id, member_id, by, reason, max_minor) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (order_id, coupon_id) DO NOTHING"
)


def put(tx: Connection, given: Approval) -> None:
    """Note an approval: the wrong PINs before it are forgiven."""
    run(tx, _PUT, _row(given))
    run(tx, "DELETE FROM pin_failure WHERE staff_id = ?", (given.by,))


def _row(given: Approval) -> tuple[Any, ...]:
    return (given.order_id, given.coupon_id, given.id, given.member_id, given.by, given.reason, given.max_minor)


def of_order(conn: Connection, order_id: str) -> dict[str, Approval]:
    """Return what was approved for an order, by coupon."""
    rows = run(
        conn,
        "SELECT order_id, coupon_id, id, member_id, by, reason, max_minor FROM approval WHERE order_id = ?",
        (order_id,),
    )
    return {row[1]: Approval(*row) for row in rows}


def unheard(conn: Connection, known: Meta, *, other_than: str) -> list[Unheard]:
    """Return the risks of other orders that the server has not acknowledged, those of orders under way included."""
    rows = run(
        conn,
        "SELECT a.coupon_id, a.member_id, o.rights FROM approval a JOIN orders o ON o.id = a.order_id "
        "WHERE o.id != ? AND o.rights IS NOT NULL AND (o.state IN ('HELD', 'UNKNOWN') OR "
        "o.entry_epoch = ? AND o.entry_seq > ?)",
        (other_than, known.epoch, known.acked_seq),
    )
    return [
        Unheard(coupon_id, member_id)
        for coupon_id, member_id, rights in rows
        if any(each["coupon"] == coupon_id for each in load_rights(rights).get("risks", ()))
    ]


# ------------------------------------------------------------------ anew from the ledger


def read_approval(body: dict[str, Any]) -> Approval:
    """Return what an `approval` entry says."""
    return Approval(
        body["order"],
        body["coupon"],
        body["approval"],
        member_id=body["member"],
        by=body["by"],
        reason=body["reason"],
        max_minor=body["max_minor"],
    )


def rebuild(tx: Connection, entries: Iterable[tuple[Entry, int]]) -> list[str]:
    """Write approvals and wrong PINs anew from facts and the times of their entries (ms); return what differed."""
    given: dict[tuple[str, str], Approval] = {}
    wrong: dict[str, tuple[int, int, int]] = {}
    for fact, wall_ms in entries:
        body = fact.read()
        if fact.kind == APPROVAL:
            found = read_approval(body)
            given.setdefault((found.order_id, found.coupon_id), found)
            wrong.pop(found.by, None)
        elif fact.kind == PIN_FAILED:
            wrong[body["by"]] = (body["pin_version"], body["failures"], wall_ms)
    kept = {
        (row[0], row[1]): Approval(*row)
        for row in run(tx, "SELECT order_id, coupon_id, id, member_id, by, reason, max_minor FROM approval")
    }
    counted = {
        row[0]: tuple(row[1:]) for row in run(tx, "SELECT staff_id, pin_version, failures, last_at FROM pin_failure")
    }
    drift = [f"approval {order_id}/{name}" for order_id, name in kept.keys() ^ given.keys()]
    drift += [f"approval {key[0]}/{key[1]}" for key in kept.keys() & given.keys() if kept[key] != given[key]]
    drift += [f"pin_failure {name}" for name in counted.keys() | wrong.keys() if counted.get(name) != wrong.get(name)]
    if drift:
        run(tx, "DELETE FROM approval")
        run(tx, "DELETE FROM pin_failure")
        for each in given.values():
            run(
                tx, _PUT, (each.order_id, each.coupon_id, each.id, each.member_id, each.by, each.reason, each.max_minor)
            )
        run_each(
            tx,
            "INSERT INTO pin_failure (staff_id, pin_version, failures, last_at) VALUES (?, ?, ?, ?)",
            [(name, *counts) for name, counts in wrong.items()],
        )
    return sorted(drift)
