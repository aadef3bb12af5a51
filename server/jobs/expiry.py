"""Expire coupons whose window is over, a few hundred in each transaction."""

from sqlalchemy import Connection, select, update

from app.domain.lifecycle import Step
from app.domain.states import WINDOW_OVER, CouponEvent, CouponState
from resources import lifecycles
from server.db.schema import coupon
from server.jobs.report import JobReport
from server.services import feed, feed_records, history
from server.services.context import Context
from server.services.services import Services

NAME = "coupon_expiry"
CHUNK = 500


def expire_coupons(services: Services) -> JobReport:
    """Expire what is ISSUED, past its end and at home at the server; a frozen coupon is paid or thawed first."""
    done = 0
    while expired := services.write(_expire_some):
        done += expired
    return JobReport(NAME, done=done)


def _expire_some(conn: Connection, ctx: Context) -> int:
    if ctx.chain.restoring:
        # A till may have to tell again that it was used in time.
        return 0
    due = (
        # A coupon whose home is a till may be in use there: only its home may fire a timer on it (PROTOCOL, section 0).
        coupon.c.state == CouponState.ISSUED,
        coupon.c.valid_until_at <= ctx.now,
        coupon.c.home.is_(None),
    )
    ids = list(conn.execute(select(coupon.c.id).where(*due).order_by(coupon.c.valid_until_at).limit(CHUNK)).scalars())
    if not ids:
        return 0
    step = lifecycles.load("coupon").step(CouponState.ISSUED, CouponEvent.EXPIRE, {WINDOW_OVER: True})
    assert isinstance(step, Step), "a coupon whose window is over expires"
    expired = conn.execute(
        update(coupon).where(coupon.c.id.in_(ids), *due).values(state=step.to, version=coupon.c.version + 1)
    )
    assert expired.rowcount == len(ids), "the rows were read in this transaction"
    events = [history.Event(history.COUPON, each, step.event, step.frm, step.to, reason="window over") for each in ids]
    history.record(conn, events, ctx.now)
    feed.touch(conn, [(feed_records.COUPON, each) for each in ids])
    return len(ids)
