"""List tills for headquarters: who may speak, when each was heard, how far its ledger is here, what it may spend."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from app.domain.money import Currency
from server.db.schema import shut_till, till
from server.services import devices, exposure
from server.services.answers import Answer, ok
from server.services.context import Context
from server.services.exposure import Sums

PAGE, PAGE_MAX = 100, 1000


def overview(conn: Connection, ctx: Context, *, after: str = "", limit: int = PAGE) -> Answer:
    """Show `limit` tills by id, from behind `after` on: `{"tills", "next"}`; `next` None = these are the last.

    Three queries, each by an index on the page's ids, so a page costs the same in a chain of any size.
    """
    page = _page(conn, after=after, limit=limit + 1)
    shown = page[:limit]
    sums = exposure.of_tills(conn, [row.id for row in shown], ctx.chain.currency)
    tills = [_view(row, sums[row.id], ctx.chain.currency) for row in shown]
    return ok(currency=ctx.chain.currency.code, tills=tills, next=shown[-1].id if len(page) > limit else None)


def _page(conn: Connection, *, after: str, limit: int) -> Sequence[Row[Any]]:
    return conn.execute(
        select(till, shut_till.c.access, shut_till.c.reason, devices.has_key().label("has_key"))
        .outerjoin(shut_till, shut_till.c.till_id == till.c.id)
        .where(till.c.id > after)
        .order_by(till.c.id)
        .limit(limit)
    ).all()


def _view(row: Row[Any], sums: Sums, currency: Currency) -> dict[str, Any]:
    return {
        "till": row.id,
        "store": row.store_id,
        "access": row.access or devices.OPEN,
        "reason": row.reason,
        "has_key": bool(row.has_key),
        "ledger": row.state,
        "lost_at": row.lost_at and row.lost_at.isoformat(),
        "last_seen_at": row.last_seen_at and row.last_seen_at.isoformat(),
        "clock_drift_ms": row.clock_drift_ms,
        "epoch": row.epoch,
        "acked": row.acked_seq,
        "announced": max(row.tail_seq, row.acked_seq),
        **sums.to_json(currency),
    }
