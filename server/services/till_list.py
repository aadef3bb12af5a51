"""List tills for headquarters: who may speak, when each was heard, how far its ledger is here, what it may spend."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select

from app.domain.money import Currency
from server.db.schema import account, coupon, lease, shut_till, till
from server.services import devices, leases
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
    sums = _sums(conn, [row.id for row in shown])
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


def _sums(conn: Connection, till_ids: Sequence[str]) -> dict[str, Sums]:
    """Add up what each of the tills has of each kind of account, and count the coupons at home there."""
    left = func.sum(lease.c.qty - lease.c.used)
    lent = conn.execute(
        select(lease.c.till_id, account.c.kind, left.label("left"))
        .join(account, account.c.id == lease.c.account_id)
        .where(lease.c.till_id.in_(till_ids), lease.c.state == leases.OPEN)
        .group_by(lease.c.till_id, account.c.kind)
    )
    by_kind: dict[str, dict[str, int]] = {name: {} for name in till_ids}
    for row in lent:
        by_kind[row.till_id][row.kind] = int(row.left)
    at_home = conn.execute(
        select(coupon.c.home, func.count().label("number")).where(coupon.c.home.in_(till_ids)).group_by(coupon.c.home)
    )
    homes = {row.home: int(row.number) for row in at_home}
    return {name: Sums(by_kind[name], homes.get(name, 0)) for name in till_ids}


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
        "money": currency.format(sums.money_minor),
        "pieces": sums.pieces,
    }
