"""Keep a campaign's limits, stock and budget, as accounts: raised from outside, cut only from what is available.

Stock counts coupons, a budget counts minor units of discount. A budget that begins while orders wait for their payment
is held for them at once: they were priced without it, their customers have seen the price, and what they are about to
spend must not be given to others first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rule_json import MAX_COUNT
from app.domain.rules import Kind, Rule
from app.domain.states import OrderState
from server.db import schema
from server.services import accounts, rights
from server.services.context import Context
from server.services.entries import discounts


@dataclass(frozen=True, slots=True)
class Limit:
    """Want the account to have had `total` put in.

    `out` is what went out before anybody counted, `waiting` what each order that holds its rights is about to spend, by
    (order, attempt): both matter where a campaign that was unlimited gets its limit only now, and are not looked at
    afterwards.
    """

    account_id: str
    kind: str
    total: int
    out: int = 0
    waiting: Mapping[tuple[str, int], int] = field(default_factory=dict)


def stock_limit(conn: Connection, campaign_id: str, total: int) -> Limit:
    """Want this total of coupons."""
    coupon = schema.coupon
    granted = select(func.count()).where(coupon.c.campaign_id == campaign_id)
    return Limit(accounts.stock_id(campaign_id), accounts.STOCK, total, out=conn.execute(granted).scalar_one())


def budget_limit(conn: Connection, campaign_id: str, total_minor: int) -> Limit:
    """Want this sum of discounts; given so far is what no refund has reversed."""
    account_id = accounts.budget_id(campaign_id)
    if account_id in accounts.read(conn, [account_id]):
        return Limit(account_id, accounts.BUDGET, total_minor)
    use = schema.redemption
    given = select(func.coalesce(func.sum(use.c.discount_minor), 0)).where(
        use.c.campaign_id == campaign_id, use.c.reversed.is_(False)
    )
    given_minor = int(conn.execute(given).scalar_one())
    return Limit(account_id, accounts.BUDGET, total_minor, out=given_minor, waiting=_waiting(conn, campaign_id))


def _waiting(conn: Connection, campaign_id: str) -> dict[tuple[str, int], int]:
    """Return what each order that waits for its payment takes off by this campaign, by (order, attempt)."""
    orders = schema.orders
    rows = conn.execute(
        select(orders.c.id, orders.c.attempt, orders.c.quote).where(
            orders.c.state.in_((OrderState.HELD, OrderState.UNKNOWN))
        )
    )
    waiting: dict[tuple[str, int], int] = {}
    for row in rows:
        # An order that is known by name alone has no quote.
        given = discounts(row.quote) if row.quote else ()
        amount = sum(minor for named, _, minor in given if named == campaign_id)
        if amount:
            waiting[row.id, row.attempt] = amount
    return waiting


def reason_against(conn: Connection, limit: Limit) -> Refusal | None:
    """Refuse a total below what is out already; None = it can be brought there."""
    account = accounts.read(conn, [limit.account_id]).get(limit.account_id)
    out = limit.out + sum(limit.waiting.values()) if account is None else account.total - account.available
    if account is not None and limit.total >= account.total:
        return None
    return invalid(limit.kind, "must not be below what is out already", out=out) if limit.total < out else None


def bring(conn: Connection, ctx: Context, limit: Limit, *, tag: str) -> None:
    """Bring the account to the limit, which `reason_against` has let pass; `tag` makes the transfers' ids."""
    account = accounts.read(conn, [limit.account_id]).get(limit.account_id)
    if account is None:
        accounts.open_account(conn, limit.account_id, kind=limit.kind, total=limit.total, now=ctx.now)
        if limit.out:
            _post(conn, ctx, limit, tag=f"{tag}:{limit.kind}:out", target=accounts.SPENT, amount=limit.out)
        for (order_id, attempt), amount in limit.waiting.items():
            rights.reserve(conn, rights.Attempt(order_id, attempt, ctx.now), {limit.account_id: amount})
        return
    by = limit.total - account.total
    if by > 0:
        transfer_id = f"{tag}:{limit.kind}"
        accounts.add(conn, transfer_id, account_id=limit.account_id, amount=by, reason="raised", now=ctx.now)
        accounts.pay_back_overdraft(
            conn, f"{transfer_id}:over", account_id=limit.account_id, reason="raised", now=ctx.now
        )
    elif by < 0:
        _post(conn, ctx, limit, tag=f"{tag}:{limit.kind}", target=accounts.OUTSIDE, amount=-by)


def _post(conn: Connection, ctx: Context, limit: Limit, *, tag: str, target: str, amount: int) -> None:
    move = accounts.Move(tag, limit.account_id, accounts.AVAILABLE, target, amount, "limit")
    done = accounts.post(conn, move, ctx.now)
    assert done, "a limit below what is out was refused"


def stock_problem(rule: Rule, stock: Any) -> Refusal | None:
    """Refuse what cannot be a stock of this rule; None = it can."""
    if not isinstance(stock, int) or isinstance(stock, bool) or not 0 <= stock <= MAX_COUNT:
        return invalid("stock", "must be a whole number, 0 or more")
    if rule.kind is Kind.AUTOMATIC:
        return invalid("stock", "is for coupons; an automatic promotion has none")
    return None


def view(account: accounts.Account) -> dict[str, int]:
    """Show the account in the words of REQUIREMENTS A2: total + over = available + reserved + leased + granted + ..."""
    return {
        "total": account.total,
        "over": account.over,
        "available": account.available,
        "reserved": account.reserved,
        "leased": account.leased,
        "granted": account.spent + account.held,
        "stranded": account.stranded,
    }


def invalid(field: str, reason: str, **facts: Any) -> Refusal:
    """Refuse a campaign or an edit, naming the field."""
    return refuse(RefusalCode.INVALID_CAMPAIGN, field=field, reason=reason, **facts)
