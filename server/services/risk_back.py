"""Give back what was drawn on a risk budget for a coupon that turned out to be free, at once or later."""

from datetime import datetime

from sqlalchemy import Connection, select, update

from app.domain.rights import risk_id
from server.db.schema import risk_use
from server.services import accounts, feed, feed_records, findings

LOSS = "risk_loss"


def give_back(conn: Connection, account_id: str, *, order_id: str, coupon_id: str, minor: int, now: datetime) -> None:
    """Make what an order drew for a coupon available again, an overdraft first; it was spent before."""
    name = f"risk:back:{order_id}:{coupon_id}"
    move = accounts.Move(
        name,
        account_id,
        accounts.SPENT,
        target=accounts.AVAILABLE,
        amount=minor,
        reason="risk: was free",
        order_id=order_id,
    )
    done = accounts.post(conn, move, now)
    assert done, "what was drawn is spent"
    accounts.pay_back_overdraft(conn, f"net:{name}", account_id=account_id, reason="risk", now=now)


def not_lost_after_all(conn: Connection, coupon_id: str, order_id: str, *, now: datetime) -> None:
    """Take a loss back: the coupon was at home elsewhere and came back unused, so it is this order's now."""
    wanted = (risk_use.c.order_id == order_id, risk_use.c.coupon_id == coupon_id, risk_use.c.lost.is_(True))
    row = conn.execute(select(risk_use).where(*wanted)).one_or_none()
    if row is None:
        return
    conn.execute(update(risk_use).where(*wanted).values(lost=False))
    account_id = risk_id(row.till_id)
    give_back(conn, account_id, order_id=order_id, coupon_id=coupon_id, minor=row.amount_minor, now=now)
    findings.close_findings(conn, LOSS, [f"{coupon_id}/{order_id}"], now=now)
    feed.touch(conn, [(feed_records.RISK, row.till_id)])
