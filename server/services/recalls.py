"""Ask a coupon back from the till that is its home: its record in the feed says so, and its till returns it then.

A recall names the version of the home that it is about, so the next home of the same coupon is not recalled by it. It
takes nothing from the till: only the till's own word ends a home (PROTOCOL 1.4).
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from app.domain.refusals import Refusal, RefusalCode, refuse
from server.db.portable import upsert
from server.db.schema import coupon_recall, till
from server.services import feed, feed_records
from server.services.context import Context
from sync.protocol import longest_rest_s

ANSWERS_FOR_S = 60
"""A till that was heard of so lately is connected, where it syncs every 5 to 15 s; where all rest longer, later too."""
RETRY_S = 20


def ask_back(conn: Connection, ctx: Context, row: Row[*tuple[Any, ...]]) -> Refusal:
    """Recall a coupon (a row of `coupon`) and tell which till has it; with `retry_after_s` where it will answer."""
    asked = conn.execute(
        select(coupon_recall.c.version).where(coupon_recall.c.coupon_id == row.id)
    ).scalar_one_or_none()
    if asked != row.version:
        by = ctx.actor.till_id or f"{ctx.actor.scope}:{ctx.actor.key_id}"
        values = {"version": row.version, "asked_by": by, "asked_at": ctx.now}
        conn.execute(
            upsert(conn, coupon_recall)
            .values(coupon_id=row.id, **values)
            .on_conflict_do_update(index_elements=["coupon_id"], set_=values)
        )
        feed.touch(conn, [(feed_records.COUPON, row.id)])
    longest_s = round(longest_rest_s(ctx.pace.rest_s(conn, ctx.now)))
    if _answers(conn, ctx, row.home, within_s=max(ANSWERS_FOR_S, 2 * longest_s)):
        retry_s = max(RETRY_S, longest_s)
        return refuse(RefusalCode.LEASED_ELSEWHERE, coupon=row.id, till=row.home, retry_after_s=retry_s)
    return refuse(RefusalCode.LEASED_ELSEWHERE, coupon=row.id, till=row.home)


def _answers(conn: Connection, ctx: Context, till_id: str, *, within_s: int) -> bool:
    row = conn.execute(select(till.c.last_seen_at, till.c.lost_at).where(till.c.id == till_id)).one_or_none()
    if row is None or row.lost_at is not None or row.last_seen_at is None:
        return False
    return bool(ctx.now - row.last_seen_at <= timedelta(seconds=within_s))
