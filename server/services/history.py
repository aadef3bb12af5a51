"""Write and read the history of coupons, orders and campaigns: who, when (both clocks), where, why."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from server.db.bulk import BulkInsert
from server.db.schema import history

COUPON, ORDER, CAMPAIGN, ISSUE = "coupon", "order", "campaign", "issue"
_EVENTS = BulkInsert(
    history,
    "subject",
    "subject_id",
    "event",
    "from_state",
    "to_state",
    "server_at",
    "till_at",
    "till_id",
    "operator",
    "reason",
)


@dataclass(frozen=True, slots=True)
class Event:
    """Tell one step of a subject ("coupon", "order", "campaign", "issue"); `to_state` None = the step was refused.

    `from_state` is None at the beginning. `till_at` is the till's clock; the server's is added when it is written.
    """

    subject: str
    subject_id: str
    event: str
    from_state: str | None
    to_state: str | None
    reason: str = ""
    till_at: datetime | None = None
    till_id: str | None = None
    operator: str | None = None


def record(conn: Connection, events: Sequence[Event], now: datetime) -> None:
    """Append the events in their order."""
    rows = [
        (
            event.subject,
            event.subject_id,
            event.event,
            event.from_state,
            event.to_state,
            now,
            event.till_at,
            event.till_id,
            event.operator,
            event.reason,
        )
        for event in events
    ]
    _EVENTS.run(conn, rows)


def of(conn: Connection, subject: str, subject_id: str) -> list[dict[str, Any]]:
    """Return the subject's history, oldest first, as JSON data; empty where nothing is known."""
    rows = conn.execute(
        select(history).where(history.c.subject == subject, history.c.subject_id == subject_id).order_by(history.c.id)
    )
    return [
        {
            "event": row.event,
            "from": row.from_state,
            "to": row.to_state,
            "refused": row.to_state is None,
            "server_at": row.server_at.isoformat(),
            "till_at": row.till_at.isoformat() if row.till_at else None,
            "till": row.till_id,
            "operator": row.operator,
            "reason": row.reason,
        }
        for row in rows
    ]
