"""Move a coupon's home: to a till, which alone may use it then, and back (PROTOCOL 1.4).

Each move counts the coupon's version up. Whatever is said of a home names the version, so that a word that comes late
revives nothing: a till takes a home only by a version that it has not seen, and what it says of an older one is void.
"""

from typing import Any

from sqlalchemy import Connection, Row, select, update

from app.domain.conditions import read_state
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.states import CouponState
from server.db import schema
from server.services import feed, feed_records, history, recalls, rights
from server.services.adopting import adopt_named
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.entries import CouponReturnBody
from server.services.idempotency import once
from server.services.leases import ONLINE_ONLY, stopped_till
from server.services.verdicts import IN_ORDER, Told, Verdict, conflict

TAKEN, RETURNED, RECLAIMED = "home_taken", "home_returned", "home_reclaimed"

_ENDED = {
    CouponState.USED.value: RefusalCode.ALREADY_USED,
    CouponState.FROZEN.value: RefusalCode.FROZEN,
    CouponState.EXPIRED.value: RefusalCode.EXPIRED,
    CouponState.REVOKED.value: RefusalCode.REVOKED,
}


def take(conn: Connection, ctx: Context, request_id: str, *, coupon_id: str) -> Answer:
    """Make the asking till the coupon's home: `{"id", "version"}`.

    Refuses a coupon that is not there, that is used, held, expired or revoked, that is at home at another till
    (`leased_elsewhere`: it is asked back, so try a new request later), or whose campaign gives nothing away offline. A
    till that is its home already is told so again. The same request gets the first answer.
    """
    content = {"till": ctx.actor.till_id, "coupon": coupon_id}
    return once(conn, f"home:{request_id}", content, decide=lambda: _take(conn, ctx, coupon_id), now=ctx.now)


def _take(conn: Connection, ctx: Context, coupon_id: str) -> Answer:
    stopped = stopped_till(conn, ctx)
    if stopped is not None:
        return refused(stopped)
    coupon, till_id = schema.coupon, ctx.actor.till_id
    row = conn.execute(
        select(coupon, schema.campaign.c.offline)
        .join(schema.campaign, schema.campaign.c.id == coupon.c.campaign_id)
        .where(coupon.c.id == coupon_id)
    ).one_or_none()
    if row is None:
        return refused(unknown("coupon", coupon_id))
    reason = _reason_against(conn, row, ctx)
    if reason is not None:
        return refused(reason)
    if row.home == till_id:
        return ok(id=coupon_id, version=row.version)
    assert till_id is not None, "a till asks for itself"
    if not move_to(conn, ctx, row, till_id=till_id):
        return refused(refuse(RefusalCode.BUSY, coupon=coupon_id, retry_after_s=1))
    return ok(id=coupon_id, version=row.version + 1)


def move_to(conn: Connection, ctx: Context, row: Row[Any], *, till_id: str) -> bool:
    """Make a till the home of a coupon that is at home at the server; False = it moved meanwhile."""
    if not _move(conn, row, home=till_id):
        return False
    _tell(conn, ctx, row, event=TAKEN, till_id=till_id)
    return True


def _reason_against(conn: Connection, row: Row[Any], ctx: Context) -> Refusal | None:
    """Return why the asking till cannot have it; one that another till has is asked back."""
    code = _ENDED.get(read_state(row.state, row.valid_until_at, ctx.now))
    if code is not None:
        return refuse(code, coupon=row.id, order=row.order_id)
    if row.frozen_version == row.version:
        return refuse(RefusalCode.LEASED_ELSEWHERE, coupon=row.id, till=row.home)
    if row.home not in (None, ctx.actor.till_id):
        return recalls.ask_back(conn, ctx, row)
    if row.offline == ONLINE_ONLY:
        return refuse(RefusalCode.NEEDS_ONLINE, coupon=row.id)
    return None


def judge_return(conn: Connection, ctx: Context, told: Told, *, body: CouponReturnBody) -> Verdict:
    """Take a coupon home to the server. What names another version than the present one comes late, and is void."""
    if told.restoring:
        adopt_named(conn, told.till_id, {body["coupon"]: body["version"]})
    row = conn.execute(select(schema.coupon).where(schema.coupon.c.id == body["coupon"])).one_or_none()
    if row is None or body["version"] > row.version:
        detail = {"coupon": body["coupon"], "version": body["version"], "server_version": row.version if row else None}
        return conflict(conn, told, "home_mismatch", key=f"{body['coupon']}/{told.entry_id}", detail=detail)
    if (row.home, row.version) == (told.till_id, body["version"]):
        release(conn, ctx, row, event=RETURNED)
    return IN_ORDER


def release(conn: Connection, ctx: Context, row: Row[Any], *, event: str, reason: str = "") -> None:
    """Make the server the coupon's home again; an order that used it without a right gets it first."""
    if not _move(conn, row, home=None):
        raise rights.LostRace(f"coupon {row.id} moved meanwhile")
    _tell(conn, ctx, row, event=event, till_id=row.home, reason=reason)
    rights.pass_on(conn, [row.id], ctx.now)


def _move(conn: Connection, row: Row[Any], *, home: str | None) -> bool:
    coupon = schema.coupon
    same_home = coupon.c.home.is_(None) if row.home is None else coupon.c.home == row.home
    changed = update(coupon).where(
        coupon.c.id == row.id, coupon.c.version == row.version, coupon.c.state == CouponState.ISSUED, same_home
    )
    return conn.execute(changed.values(home=home, version=row.version + 1)).rowcount == 1


def _tell(conn: Connection, ctx: Context, row: Row[Any], *, event: str, till_id: str | None, reason: str = "") -> None:
    told = history.Event(
        history.COUPON,
        row.id,
        event,
        row.state,
        row.state,
        reason=reason,
        till_id=till_id,
        operator=f"{ctx.actor.scope}:{ctx.actor.key_id}" if reason else None,
    )
    history.record(conn, [told], ctx.now)
    feed.touch(conn, [(feed_records.COUPON, row.id)])
