"""Let a till leave its ledger and begin a new epoch, and account for what it leaves behind (PROTOCOL 3.6).

The old epoch is closed for good: nothing is pushed under it any more. What the till had of rights is frozen, not taken
back: leases stay open and homes stay where they are, for what is carried over may have used them. What the server knew
to exist and does not have is a finding, until it has been carried over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from app.domain.ledger import Entry
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.states import OrderState
from server.db import schema
from server.db.bulk import Present
from server.services import findings, history
from server.services.context import Context
from server.services.entries import Unreadable, read_body
from sync import protocol
from sync.protocol import Enrol, EnrolAnswer, PendingOrder, Unknown, UnknownAnswer

TAIL_LOST = "tail_lost"
TILL = "till"
_HERE = (Present(schema.ledger_entry.c.entry_id), Present(schema.carried_entry.c.entry_id))


@dataclass(frozen=True, slots=True)
class Asked:
    """Ask for a new epoch for a till whose ledger of `epoch` ends at `last_seq`, as far as the till knows.

    `enrolment_id` is made and kept by the till, `key_id` is the key that it came with.
    """

    till_id: str
    enrolment_id: str
    key_id: str
    epoch: int
    last_seq: int


def answer(conn: Connection, context: Context, message: Enrol) -> EnrolAnswer | Refusal:
    """Answer a till that asks with its key."""
    key_id = context.actor.key_id
    asked = Asked(message.till, message.enrolment, key_id, epoch=message.epoch, last_seq=message.last[0])
    return begin_epoch(conn, context, asked)


def begin_epoch(conn: Connection, context: Context, asked: Asked) -> EnrolAnswer | Refusal:
    """Begin the till's next epoch; whoever lets tills in calls this. The same enrolment gets the same epoch.

    Refuses a key that has begun one already (`not_allowed`): a copy of the till has the same.
    """
    row = conn.execute(select(schema.till).where(schema.till.c.id == asked.till_id)).one_or_none()
    if row is None:
        return unknown("till", asked.till_id)
    table = schema.enrolment
    known = conn.execute(select(table).where(table.c.id == asked.enrolment_id)).one_or_none()
    if known is None:
        used = conn.execute(select(table.c.id).where(table.c.key_id == asked.key_id)).first()
        if used is not None:
            return refuse(RefusalCode.NOT_ALLOWED, till=asked.till_id, reason="this key has begun an epoch")
        known = _begin(conn, context, asked, row=row)
    elif known.till_id != asked.till_id:
        return refuse(RefusalCode.DUPLICATE_MISMATCH, till=asked.till_id)
    # A till that never entered the epoch of an earlier enrolment leaves the same ledger again, not an empty one.
    from_here = (table.c.till_id == asked.till_id, table.c.from_epoch == asked.epoch)
    left = conn.execute(select(table).where(*from_here)).one_or_none() or known
    return EnrolAnswer(
        epoch=known.epoch,
        tail=max((left.tail_seq, _hex(left.tail_hash)), (left.known_seq, _hex(left.known_hash))),
        forked=left.from_state != "OK",
        booked_until_ms=_booked_until_ms(conn, asked.till_id),
        pending=_pending(conn, asked.till_id),
    )


def _booked_until_ms(conn: Connection, till_id: str) -> int:
    """Return the last moment of what the books hold of a till, by its own clock, which may have been days ahead."""
    orders, refund = schema.orders, schema.refund
    sold = conn.execute(select(func.max(orders.c.sold_at)).where(orders.c.till_id == till_id)).scalar_one()
    paid = conn.execute(select(func.max(refund.c.paid_at)).where(refund.c.till_id == till_id)).scalar_one()
    return max((round(each.timestamp() * 1000) for each in (sold, paid) if each is not None), default=0)


def _hex(digest: bytes | None) -> str:
    return digest.hex() if digest else ""


def _begin(conn: Connection, context: Context, asked: Asked, *, row: Row[Any]) -> Row[Any]:
    table = schema.enrolment
    here = asked.epoch == row.epoch
    last_seq = max(row.acked_seq, row.tail_seq, asked.last_seq if here else 0)
    conn.execute(
        insert(table).values(
            id=asked.enrolment_id,
            till_id=row.id,
            epoch=max(row.epoch, asked.epoch) + 1,
            key_id=asked.key_id,
            from_epoch=row.epoch,
            from_state=row.state,
            known_seq=row.acked_seq,
            known_hash=row.acked_hash,
            tail_seq=row.tail_seq,
            tail_hash=row.tail_hash,
            last_seq=last_seq,
            enrolled_at=context.now,
        )
    )
    begun = conn.execute(select(table).where(table.c.id == asked.enrolment_id)).one()
    if last_seq > row.acked_seq:
        _open_tail_lost(conn, context, row, last_seq=last_seq)
    _leave(conn, row, epoch=begun.epoch)
    by = f"{context.actor.scope}:{context.actor.key_id}"
    reason = f"epoch {begun.epoch}"
    event = history.Event(TILL, row.id, "enrol", row.state, "OK", reason=reason, till_id=row.id, operator=by)
    history.record(conn, [event], context.now)
    return begun


def _open_tail_lost(conn: Connection, context: Context, row: Row[Any], *, last_seq: int) -> None:
    findings.open_finding(
        conn,
        kind=TAIL_LOST,
        key=f"{row.id}/{row.epoch}",
        amount_minor=0,
        detail={
            "till": row.id,
            "epoch": row.epoch,
            "here": [row.acked_seq, _hex(row.acked_hash)],
            "tail": [row.tail_seq, _hex(row.tail_hash)],
            "last": last_seq,
            "entries": last_seq - row.acked_seq,
        },
        now=context.now,
    )


def _leave(conn: Connection, row: Row[Any], *, epoch: int) -> None:
    """Close the old epoch and freeze the homes of the till; its leases are of the old epoch by their row."""
    coupon, boot = schema.coupon, schema.till_boot
    conn.execute(update(coupon).where(coupon.c.home == row.id).values(frozen_version=coupon.c.version))
    conn.execute(delete(boot).where(boot.c.till_id == row.id))
    fresh = {"acked_seq": 0, "acked_hash": None, "tail_seq": 0, "tail_hash": None}
    left = update(schema.till).where(schema.till.c.id == row.id)
    conn.execute(left.values(epoch=epoch, state="OK", **fresh))


def _pending(conn: Connection, till_id: str) -> list[PendingOrder]:
    """Return the orders that wait for this till's word, so that one that has forgotten them can give it."""
    orders = schema.orders
    waiting = (OrderState.HELD.value, OrderState.UNKNOWN.value)
    rows = conn.execute(
        select(orders.c.id, orders.c.attempt, orders.c.state)
        .where(orders.c.till_id == till_id, orders.c.state.in_(waiting))
        .order_by(orders.c.id)
    ).all()
    told = told_payments(conn, till_id) if rows else {}
    return [
        PendingOrder(order=row.id, attempt=row.attempt, state=row.state, told=told.get((row.id, row.attempt)))
        for row in rows
    ]


def told_payments(conn: Connection, till_id: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Return what the till told of payments without an answer, by order and attempt."""
    entry = schema.ledger_entry
    rows = conn.execute(
        select(entry.c.schema, entry.c.body).where(
            entry.c.till_id == till_id, entry.c.kind == protocol.PAYMENT_UNKNOWN, entry.c.result == protocol.OK
        )
    )
    found = {}
    for row in rows:
        try:
            body = read_body(protocol.PAYMENT_UNKNOWN, row.schema, row.body)
        except Unreadable:
            continue
        found[body["order"], body["attempt"]] = {**body, "at": body["at"].isoformat()}
    return found


def unknown_entries(conn: Connection, message: Unknown) -> UnknownAnswer:
    """Tell which of these entries are in no books of ours, under whatever number."""
    here = {name for table in _HERE for name in table.among(conn, message.entries)}
    return UnknownAnswer(unknown=[name for name in message.entries if name not in here])


def heard(conn: Connection, till_id: str, entries: Sequence[Entry], *, now: datetime) -> None:
    """Note what was carried over: a ledger that is whole now, up to all that anybody told of it, has lost nothing."""
    table = schema.enrolment
    for row in _incomplete(conn, till_id, {entry.epoch for entry in entries}):
        seq, digest = row.known_seq, row.known_hash
        for entry in entries:
            if entry.epoch == row.from_epoch and entry.seq == seq + 1 and _follows(entry, digest, row):
                seq, digest = entry.seq, entry.hash
        if seq > row.known_seq:
            conn.execute(update(table).where(table.c.id == row.id).values(known_seq=seq, known_hash=digest))
        if seq >= row.last_seq:
            findings.close_findings(conn, TAIL_LOST, [f"{till_id}/{row.from_epoch}"], now=now)


def _incomplete(conn: Connection, till_id: str, epochs: set[int]) -> Sequence[Row[Any]]:
    table = schema.enrolment
    if not epochs:
        return []
    wanted = (table.c.till_id == till_id, table.c.from_epoch.in_(epochs), table.c.known_seq < table.c.last_seq)
    return conn.execute(select(table).where(*wanted)).all()


def _follows(entry: Entry, digest: bytes | None, row: Row[Any]) -> bool:
    """Tell whether an entry goes on where the ledger that we know ends, and is the one that was announced there."""
    if entry.seq > 1 and entry.prev_hash != digest:
        return False
    return entry.seq != row.tail_seq or bool(entry.hash == row.tail_hash)
