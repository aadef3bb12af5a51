"""Decide over the rights of a till that does not come back, by name, for a reason, after the exposure was shown.

| | what becomes of its rights | what it then still tells |
| --- | --- | --- |
| `strand`: it is lost | set aside for it; never sold again | draws on them exactly: nothing is used twice |
| `reclaim`: at a risk | usable elsewhere at once | `late_use`, or `overdraft` and `double_redemption` |
| `welcome`: it is found | stay aside until it closes and returns them itself | as it always was |

A coupon at home at a lost till stays there: no other place may use it, and the till's own late sale is in order
(PROTOCOL 1.3, "silent till").
"""

from typing import Any

from sqlalchemy import Connection, Row, select, update

from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from server.db.schema import till
from server.services import exposure, feed, feed_records, findings, history, homes, leases
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.exposure import Exposure

TILL = "till"
HEARD = "lost_till_heard"


def rights_of_till(conn: Connection, ctx: Context, till_id: str) -> Answer:
    """Show a till's open leases, with what is left of each, the coupons at home there, and since when it is lost.

    `acked` of `announced` entries of its ledger are here.
    """
    row = _find(conn, till_id)
    return refused(row) if isinstance(row, Refusal) else _shown(ctx, row, _exposure(conn, ctx, till_id))


def strand(conn: Connection, ctx: Context, till_id: str, *, reason: str, confirmed: str) -> Answer:
    """Declare a till lost and set its rights aside; answers as `rights_of_till`. Once more is fine and changes nothing.

    `confirmed` is the `exposure` that was shown; `illegal_transition` where it has changed since.
    """
    row = _find(conn, till_id)
    if isinstance(row, Refusal):
        return refused(row)
    found = _exposure(conn, ctx, till_id)
    changed = _changed(found, row, confirmed=confirmed, event="strand")
    if changed is not None:
        return refused(changed)
    for each in found.lent:
        leases.strand(conn, ctx, each)
    feed.touch(conn, [(feed_records.COUPON, each.id) for each in found.at_home])
    if row.lost_at is None:
        conn.execute(update(till).where(till.c.id == till_id).values(lost_at=ctx.now))
        _record(conn, ctx, till_id, event="strand", reason=reason)
    return rights_of_till(conn, ctx, till_id)


def reclaim(conn: Connection, ctx: Context, till_id: str, *, reason: str, confirmed: str) -> Answer:
    """Revoke every lease and home of a till; answers with what that was, as `rights_of_till` shows it.

    Once more is fine and finds nothing left. `confirmed` as at `strand`.
    """
    row = _find(conn, till_id)
    if isinstance(row, Refusal):
        return refused(row)
    found = _exposure(conn, ctx, till_id)
    changed = _changed(found, row, confirmed=confirmed, event="reclaim")
    if changed is not None:
        return refused(changed)
    for each in found.lent:
        leases.take_back(conn, ctx, each, state=leases.REVOKED)
    for each in found.at_home:
        homes.release(conn, ctx, each, event=homes.RECLAIMED, reason=reason)
    _record(conn, ctx, till_id, event="reclaim", reason=reason)
    return _shown(ctx, row, found)


def welcome(conn: Connection, ctx: Context, till_id: str, *, reason: str) -> Answer:
    """Declare a lost till found: it may be lent rights again; answers as `rights_of_till`."""
    row = _find(conn, till_id)
    if isinstance(row, Refusal):
        return refused(row)
    if row.lost_at is not None:
        conn.execute(update(till).where(till.c.id == till_id).values(lost_at=None))
        feed.touch(conn, [(feed_records.COUPON, each.id) for each in _exposure(conn, ctx, till_id).at_home])
        _record(conn, ctx, till_id, event="found", reason=reason)
    return rights_of_till(conn, ctx, till_id)


def note_contact(conn: Connection, ctx: Context, row: Row[Any]) -> None:
    """Tell headquarters that a till which it declared lost speaks again; one finding for each time it was lost."""
    if row.lost_at is None:
        return
    left = exposure.of_tills(conn, [row.id], ctx.chain.currency)[row.id]
    known = {"till": row.id, "epoch": row.epoch, "lost_at": row.lost_at.isoformat(), "acked": row.acked_seq}
    detail = {**known, "outstanding": left.outstanding()}
    findings.open_finding(
        conn,
        kind=HEARD,
        key=f"{row.id}/{row.lost_at:%Y-%m-%dT%H:%M:%S}",
        amount_minor=left.money_minor,
        detail=detail,
        now=ctx.now,
    )


def _exposure(conn: Connection, ctx: Context, till_id: str) -> Exposure:
    return exposure.of_till(conn, till_id, ctx.chain.currency)


def _find(conn: Connection, till_id: str) -> Row[Any] | Refusal:
    row = conn.execute(select(till).where(till.c.id == till_id)).one_or_none()
    return unknown(TILL, till_id) if row is None else row


def _changed(found: Exposure, row: Row[Any], *, confirmed: str, event: str) -> Refusal | None:
    if confirmed == found.token:
        return None
    return refuse(RefusalCode.ILLEGAL_TRANSITION, till=row.id, state="changed", event=event)


def _shown(ctx: Context, row: Row[Any], found: Exposure) -> Answer:
    lost_at = None if row.lost_at is None else row.lost_at.isoformat()
    ledger = {"acked": row.acked_seq, "announced": max(row.tail_seq, row.acked_seq)}
    return ok(till=row.id, store=row.store_id, lost_at=lost_at, **ledger, **found.to_json(ctx.chain.currency))


def _record(conn: Connection, ctx: Context, till_id: str, *, event: str, reason: str) -> None:
    by = f"{ctx.actor.scope}:{ctx.actor.key_id}"
    told = history.Event(TILL, till_id, event, None, None, reason=reason, till_id=till_id, operator=by)
    history.record(conn, [told], ctx.now)
