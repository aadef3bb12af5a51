"""Find what stands still: overdue holds, payments without an answer, silent and lost tills, messages that do not leave.

Each finder only reads. What it returns becomes a finding with its evidence, and the finding is closed when the same
look finds nothing any more (PROTOCOL 9: R3, R4, R9, R13). What has one right answer is repaired by its patrol instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, exists, func, or_, select

from app.domain.states import OrderState
from server.db.schema import coupon, history, lease, orders, till
from server.services import devices, exposure, findings, outbox
from server.services.context import Context
from server.services.history import ORDER

UNKNOWN_FOR = timedelta(minutes=10)
OVERDUE_FOR = timedelta(minutes=10)
"""How long past its time a hold may live: its patrol walks every 5 s, so something is wrong with the patrol."""
TAIL_FOR = timedelta(minutes=30)
SILENT_FOR = timedelta(hours=24)
FOUND_MAX = 200
"""Findings of one kind opened in one look; the next look goes on."""


@dataclass(frozen=True, slots=True)
class Found:
    """Name one thing that a person should look at: the key of its finding, and the evidence."""

    key: str
    evidence: Mapping[str, Any]
    amount_minor: int = 0


def settle(conn: Connection, ctx: Context, kind: str, *, found: Sequence[Found]) -> int:
    """Open a finding for each that has none or had it closed here, close those whose cause is gone; returns how many.

    `found` is all of what there is, or FOUND_MAX of it: then nothing is closed, since nobody has seen the rest.
    """
    known = findings.open_keys(conn, kind)
    for each in found:
        if each.key not in known:
            told: dict[str, Any] = {"amount_minor": each.amount_minor, "detail": each.evidence, "now": ctx.now}
            findings.open_finding(conn, kind=kind, key=each.key, **told)
            findings.open_again(conn, kind=kind, key=each.key, **told)
    if len(found) < FOUND_MAX:
        findings.close_findings(conn, kind, known - {each.key for each in found}, now=ctx.now)
    return len({each.key for each in found} - known)


def unknown_payments(conn: Connection, ctx: Context) -> list[Found]:
    """Find orders whose payment got no answer for too long: the terminal is to be asked, by a person if need be."""
    since = (
        select(func.max(history.c.server_at))
        .where(
            history.c.subject == ORDER, history.c.subject_id == orders.c.id, history.c.to_state == OrderState.UNKNOWN
        )
        .scalar_subquery()
    )
    rows = conn.execute(
        select(orders.c.id, orders.c.till_id, orders.c.attempt, orders.c.payable_minor, since.label("since"))
        .where(
            orders.c.state == OrderState.UNKNOWN, func.coalesce(since, orders.c.received_at) <= ctx.now - UNKNOWN_FOR
        )
        .order_by(orders.c.received_at)
        .limit(FOUND_MAX)
    )
    return [
        Found(
            f"{row.id}/{row.attempt}",
            {"order": row.id, "till": row.till_id, "attempt": row.attempt, "since": _iso(row.since)},
            row.payable_minor,
        )
        for row in rows
    ]


def overdue_holds(conn: Connection, ctx: Context) -> list[Found]:
    """Find orders held long past their time, or without one: the patrol should have ended them."""
    rows = conn.execute(
        select(orders.c.id, orders.c.till_id, orders.c.attempt, orders.c.held_until_at, orders.c.received_at)
        .where(
            orders.c.state == OrderState.HELD,
            or_(orders.c.held_until_at.is_(None), orders.c.held_until_at <= ctx.now - OVERDUE_FOR),
        )
        .order_by(orders.c.received_at)
        .limit(FOUND_MAX)
    )
    return [
        Found(
            f"{row.id}/{row.attempt}",
            {"order": row.id, "till": row.till_id, "attempt": row.attempt, "until": _iso(row.held_until_at)},
        )
        for row in rows
    ]


def pending_tails(conn: Connection, ctx: Context) -> list[Found]:
    """Find tills that announced entries which never came: sales that the server does not have."""
    return _tills(conn, ctx, TAIL_FOR, pending=True)


def silent_tills(conn: Connection, ctx: Context) -> list[Found]:
    """Find tills that were not heard of for a day; one that is declared lost is silent as expected.

    So is one that may not speak, but what it has is missed by all others: it is told of as long as it has anything.
    """
    return _tills(conn, ctx, SILENT_FOR, pending=False)


def stranded_rights(conn: Connection, ctx: Context) -> list[Found]:
    """List lost tills with rights that nobody can use until the till tells, or headquarters takes them back (R13)."""
    rows = conn.execute(select(till).where(till.c.lost_at.is_not(None)).order_by(till.c.id).limit(FOUND_MAX)).all()
    left = exposure.of_tills(conn, [row.id for row in rows], ctx.chain.currency)
    return [
        Found(
            f"{row.id}/{row.lost_at:%Y-%m-%dT%H:%M:%S}",
            {"till": row.id, "lost_at": row.lost_at.isoformat(), **left[row.id].outstanding()},
            left[row.id].money_minor,
        )
        for row in rows
        if left[row.id]
    ]


def _tills(conn: Connection, ctx: Context, quiet: timedelta, *, pending: bool) -> list[Found]:
    held = (
        select(func.count())
        .where(orders.c.till_id == till.c.id, orders.c.state.in_((OrderState.HELD, OrderState.UNKNOWN)))
        .scalar_subquery()
    )
    # A till without a key was taken out of use.
    asked = and_(till.c.last_seen_at <= ctx.now - quiet, devices.has_key())
    if pending:
        asked = and_(asked, till.c.tail_seq > till.c.acked_seq)
    else:
        lent = exists().where(lease.c.till_id == till.c.id, lease.c.state == "OPEN")
        at_home = exists().where(coupon.c.home == till.c.id)
        asked = and_(asked, till.c.lost_at.is_(None), or_(~devices.is_shut(), lent, at_home))
    rows = conn.execute(select(till, held.label("held")).where(asked).order_by(till.c.id).limit(FOUND_MAX)).all()
    left = exposure.of_tills(conn, [row.id for row in rows], ctx.chain.currency)
    return [
        Found(
            f"{row.id}/{row.epoch}/{row.tail_seq}" if pending else f"{row.id}/{row.last_seen_at:%Y-%m-%dT%H:%M:%S}",
            {
                "till": row.id,
                "last_seen_at": row.last_seen_at.isoformat(),
                "announced": row.tail_seq,
                "acked": row.acked_seq,
                "orders_waiting": row.held,
                "outstanding": left[row.id].outstanding(),
            },
        )
        for row in rows
    ]


def stuck_messages(conn: Connection, ctx: Context) -> list[Found]:
    """Find topics of the outbox that are behind; one finding a day for each (PROTOCOL 9, R3)."""
    behind = [lag for lag in outbox.lags(conn, ctx.now) if lag.oldest_s > outbox.STUCK.total_seconds()]
    return [
        Found(
            f"{lag.topic}/{_day(ctx.now, lag.oldest_s)}",
            {"waiting": lag.waiting, "oldest_s": round(lag.oldest_s), **outbox.oldest(conn, lag.topic, ctx.now)},
        )
        for lag in behind
    ]


def _day(now: datetime, oldest_s: float) -> str:
    """Name the day on which the oldest should have left: as long as that one waits, it is the same finding."""
    return f"{now - timedelta(seconds=oldest_s):%Y-%m-%d}"


def _iso(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant is not None else None
