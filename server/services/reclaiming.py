"""Show what rights a till has, in money where it is money, and take them back from one that is lost.

Taking back makes everything usable elsewhere at once. It is a risk, taken by name and for a reason: what the till has
done meanwhile it may still tell, and each right that is used twice by then becomes a finding (PROTOCOL 1.3, "revoke").
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from app.domain.money import Currency
from app.domain.refusals import unknown
from server.db.schema import coupon, till
from server.services import accounts, history, homes, leases
from server.services.answers import Answer, ok, refused
from server.services.context import Context

TILL = "till"


def rights_of_till(conn: Connection, ctx: Context, till_id: str) -> Answer:
    """Show a till's open leases, with what is left of each, and the coupons at home there."""
    if not _is_there(conn, till_id):
        return refused(unknown("till", till_id))
    return ok(**_exposure(ctx.chain.currency, leases.open_of(conn, till_id), _at_home(conn, till_id)))


def reclaim(conn: Connection, ctx: Context, till_id: str, *, reason: str) -> Answer:
    """Revoke every lease and home of a till; answers with what that was, as `rights_of_till` shows it.

    Once more is fine and finds nothing left.
    """
    if not _is_there(conn, till_id):
        return refused(unknown("till", till_id))
    lent, at_home = leases.open_of(conn, till_id), _at_home(conn, till_id)
    for row in lent:
        leases.take_back(conn, ctx, row, state=leases.REVOKED)
    for row in at_home:
        homes.release(conn, ctx, row, event=homes.RECLAIMED, reason=reason)
    by = f"{ctx.actor.scope}:{ctx.actor.key_id}"
    event = history.Event(TILL, till_id, "reclaim", None, None, reason=reason, till_id=till_id, operator=by)
    history.record(conn, [event], ctx.now)
    return ok(**_exposure(ctx.chain.currency, lent, at_home))


def _is_there(conn: Connection, till_id: str) -> bool:
    return conn.execute(select(till.c.id).where(till.c.id == till_id)).first() is not None


def _at_home(conn: Connection, till_id: str) -> Sequence[Row[Any]]:
    return conn.execute(select(coupon).where(coupon.c.home == till_id).order_by(coupon.c.id)).all()


def _exposure(currency: Currency, lent: Sequence[Row[Any]], at_home: Sequence[Row[Any]]) -> dict[str, Any]:
    """Tell what may be spent twice: `money` adds up stored value and budgets, the rest is counted."""
    left = [(row.account_id, row.qty - row.used) for row in lent]
    in_money = (f"{accounts.VALUE}:", f"{accounts.BUDGET}:")
    money_minor = sum(amount for account_id, amount in left if account_id.startswith(in_money))
    return {
        "leases": [
            {"lease": row.id, "account": row.account_id, "lent": row.qty, "left": row.qty - row.used} for row in lent
        ],
        "coupons": [row.id for row in at_home],
        "money": currency.format(money_minor),
    }
