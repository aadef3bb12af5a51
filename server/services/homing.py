"""Bring the coupons of a store's members home to a till of that store, so that it can use them without a line.

The till asks and the server chooses, since it alone knows all of them. Bearer coupons stay: whoever has one may come to
any store. What was asked back elsewhere a moment ago stays too, else it would be gone again before it is used.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, and_, exists, func, or_, select

from app.domain.states import CampaignState, CouponState
from server.db import schema
from server.services import homes
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.idempotency import once
from server.services.leases import ONLINE_ONLY, stopped_till

PER_TILL, IN_ALL, AT_ONCE = 500, 100_000, 200
"""Coupons at home at one till and at all tills by this way, and moved by one question."""
LOOKED_AT = 2_000
STAYS_FOR = timedelta(hours=1)


def bring_home(conn: Connection, ctx: Context, request_id: str) -> Answer:
    """Make the asking till the home of coupons of its store's members: `{"homes": [{"id", "version"}]}`, perhaps none.

    The newest first, within the limits. The same request gets the first answer.
    """
    content = {"till": ctx.actor.till_id}
    return once(conn, f"homes:{request_id}", content, decide=lambda: _bring_home(conn, ctx), now=ctx.now)


def _bring_home(conn: Connection, ctx: Context) -> Answer:
    stopped = stopped_till(conn, ctx)
    if stopped is not None:
        return refused(stopped)
    till_id = ctx.actor.till_id
    assert till_id is not None, "a till asks for itself"
    moved = []
    for row in _some(_candidates(conn, ctx), _room(conn, till_id)):
        if homes.move_to(conn, ctx, row, till_id=till_id):
            moved.append({"id": row.id, "version": row.version + 1})
    return ok(homes=moved)


def _room(conn: Connection, till_id: str) -> int:
    coupon = schema.coupon
    counts = select(func.count(), func.count().filter(coupon.c.home == till_id)).where(coupon.c.home.is_not(None))
    everywhere, here = conn.execute(counts).one()
    return max(0, min(AT_ONCE, PER_TILL - here, IN_ALL - everywhere))


def _some(rows: Iterator[Row[Any]], count: int) -> list[Row[Any]]:
    return [row for _, row in zip(range(count), rows, strict=False)]


def _candidates(conn: Connection, ctx: Context) -> Iterator[Row[Any]]:
    """Return what may come, the newest first."""
    coupon, member, campaign, recall = schema.coupon, schema.member, schema.campaign, schema.coupon_recall
    recalled = exists().where(recall.c.coupon_id == coupon.c.id, recall.c.asked_at > ctx.now - STAYS_FOR)
    running = campaign.c.state.in_((CampaignState.ACTIVE, CampaignState.ENDED))
    rows = conn.execute(
        select(coupon, schema.snapshot.c.rule)
        .join(member, and_(member.c.id == coupon.c.member_id, member.c.home_store == ctx.actor.store_id))
        .join(campaign, and_(campaign.c.id == coupon.c.campaign_id, campaign.c.offline != ONLINE_ONLY, running))
        .join(schema.snapshot, schema.snapshot.c.id == coupon.c.snapshot_id)
        .where(
            coupon.c.state == CouponState.ISSUED,
            coupon.c.home.is_(None),
            or_(coupon.c.valid_until_at.is_(None), coupon.c.valid_until_at > ctx.now),
            ~recalled,
        )
        .order_by(coupon.c.granted_at.desc(), coupon.c.id)
        .limit(LOOKED_AT)
    )
    return (row for row in rows if _of_use(row.rule, ctx.actor.store_id))


def _of_use(rule: dict[str, Any], store_id: str | None) -> bool:
    """Tell by the coupon's rule, as it is stored, whether a till of the store could ever use it alone."""
    return not rule.get("bearer") and (not rule.get("stores") or store_id in rule["stores"])
