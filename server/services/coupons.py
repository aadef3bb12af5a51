"""Look coupons up, list those of a member, revoke one."""

from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from app.domain import codes
from app.domain.conditions import read_state
from app.domain.refusals import Refusal, unknown
from app.domain.states import CouponEvent
from resources import lifecycles
from server.db import schema
from server.services import feed, feed_records, history, recalls
from server.services.answers import Answer, ok, refused
from server.services.context import Context


def by_id(conn: Connection, ctx: Context, coupon_id: str) -> dict[str, Any] | None:
    """Show a coupon; None where there is none."""
    row = conn.execute(_shown().where(schema.coupon.c.id == coupon_id)).one_or_none()
    return _view(ctx, row) if row is not None else None


def by_code(conn: Connection, ctx: Context, code: str) -> dict[str, Any] | None:
    """Show the coupon of a canonical code (`codes.parse`); None where there is none."""
    digest = codes.code_digest(ctx.code_key, code)
    row = conn.execute(_shown().where(schema.coupon.c.code_digest == digest)).one_or_none()
    return _view(ctx, row) if row is not None else None


def of_member(conn: Connection, ctx: Context, member_id: str, *, codes_shown: bool) -> list[dict[str, Any]] | None:
    """List every coupon that the member claimed, newest first; None where there is no such member.

    `codes_shown` is for the member's own eyes; a till recognises a code by its digest and needs none.
    """
    known = conn.execute(select(schema.member.c.id).where(schema.member.c.id == member_id)).first()
    if known is None:
        return None
    coupon = schema.coupon
    rows = conn.execute(
        _shown().where(coupon.c.member_id == member_id).order_by(coupon.c.granted_at.desc(), coupon.c.id.desc())
    )
    return [_view(ctx, row) | ({"code": row.code} if codes_shown else {}) for row in rows]


def revoke(conn: Connection, ctx: Context, coupon_id: str, *, reason: str) -> Answer:
    """Take a coupon back that nobody uses, for a reason; refused and remembered where the life cycle has no such step.

    What was granted stays granted: a revoked coupon gives nothing back to its campaign's stock.
    """
    assert reason.strip(), "a coupon is revoked for a reason (RULES, coupon life cycle)"
    coupon = schema.coupon
    row = conn.execute(
        select(coupon.c.id, coupon.c.state, coupon.c.home, coupon.c.version).where(coupon.c.id == coupon_id)
    ).one_or_none()
    if row is None:
        return refused(unknown("coupon", coupon_id))
    state = row.state
    if row.home is not None:
        return refused(recalls.ask_back(conn, ctx, row))
    lifecycle = lifecycles.load("coupon")
    step = lifecycle.step(state, CouponEvent.REVOKE)
    if isinstance(step, Refusal):
        _remember(conn, ctx, coupon_id, from_state=state, to_state=None, reason=reason)
        return refused(Refusal(step.code, {"coupon": coupon_id, **step.facts}))
    moved = conn.execute(
        update(coupon)
        .where(
            coupon.c.id == coupon_id,
            coupon.c.state.in_(lifecycle.sources(CouponEvent.REVOKE)),
            coupon.c.home.is_(None),
        )
        .values(state=step.to, version=coupon.c.version + 1)
    )
    assert moved.rowcount == 1, "the row was read in this transaction"
    _remember(conn, ctx, coupon_id, from_state=state, to_state=step.to, reason=reason)
    feed.touch(conn, [(feed_records.COUPON, coupon_id)])
    return ok(coupon=coupon_id, state=step.to)


def _remember(
    conn: Connection, ctx: Context, coupon_id: str, *, from_state: str, to_state: str | None, reason: str
) -> None:
    event = history.Event(
        history.COUPON,
        coupon_id,
        CouponEvent.REVOKE,
        from_state,
        to_state,
        reason=reason,
        operator=f"{ctx.actor.scope}:{ctx.actor.key_id}",
    )
    history.record(conn, [event], ctx.now)


def _shown() -> Select[Any]:
    return select(schema.coupon, schema.snapshot.c.rule).join(
        schema.snapshot, schema.snapshot.c.id == schema.coupon.c.snapshot_id
    )


def _view(ctx: Context, row: Row[Any]) -> dict[str, Any]:
    """Show a coupon as a person reads it: past its window it is EXPIRED, written or not."""
    return {
        "coupon": row.id,
        "campaign": row.campaign_id,
        "snapshot": row.snapshot_id,
        "name": row.rule.get("name", ""),
        "member": row.member_id,
        "bearer": bool(row.rule.get("bearer")),
        "code_masked": codes.masked(row.code),
        "state": read_state(row.state, row.valid_until_at, ctx.now),
        "order": row.order_id,
        "home": row.home,
        "source": row.source,
        "granted_at": row.granted_at.isoformat(),
        "valid_until_at": row.valid_until_at.isoformat() if row.valid_until_at else None,
    }
