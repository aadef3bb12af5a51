"""Bound what a till may give away without a right: its risk budget, an account in money like any other (PROTOCOL 1.2).

Off by default. Headquarters says how much may be lost at a till at most from now on; that is put into `risk:<till>`,
leased to the till, and spent by what it accepts. What proves harmless comes back (`risk_uses`), what was lost stays
spent until headquarters sets the budget again. So at every moment the worst case is what stands in the account.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select

from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rights import RISK, risk_id
from server.db import schema
from server.db.portable import upsert
from server.services import accounts, feed, feed_records, history
from server.services.accounts import Account
from server.services.answers import Answer, ok, refused
from server.services.context import Context

TILL = "till"


def set_budget(conn: Connection, ctx: Context, till_id: str, *, limit_minor: int, by: str, reason: str) -> Answer:
    """Let a till give away `limit_minor` at most from now on, 0 = nothing; answers as `shown`.

    The same again fills up what was lost meanwhile. What is leased already is asked back where it is too much.
    """
    if conn.execute(select(schema.till.c.id).where(schema.till.c.id == till_id)).one_or_none() is None:
        return refused(unknown(TILL, till_id))
    account_id, budget = risk_id(till_id), schema.risk_budget
    accounts.open_account(conn, account_id, kind=RISK, total=0, now=ctx.now)
    values = {"limit_minor": limit_minor, "changed_at": ctx.now}
    conn.execute(
        upsert(conn, budget)
        .values(till_id=till_id, **values)
        .on_conflict_do_update(index_elements=["till_id"], set_=values)
    )
    missing = limit_minor - accounts.read(conn, [account_id])[account_id].standing
    if missing > 0:
        name = f"risk:{account_id}:{ctx.ids.new()}"
        accounts.add(conn, name, account_id=account_id, amount=missing, reason="risk budget", now=ctx.now)
        accounts.pay_back_overdraft(conn, f"net:{name}", account_id=account_id, reason="risk budget", now=ctx.now)
    trim(conn, ctx, account_id)
    told = f"{ctx.chain.currency.format(limit_minor)}: {reason}"
    operator = f"{by} ({ctx.actor.scope}:{ctx.actor.key_id})"
    event = history.Event(TILL, till_id, "risk_budget", None, None, reason=told, till_id=till_id, operator=operator)
    history.record(conn, [event], ctx.now)
    feed.touch(conn, [(feed_records.RISK, till_id), *_open_leases(conn, account_id)])
    return shown(conn, ctx, till_id)


def _open_leases(conn: Connection, account_id: str) -> list[tuple[str, str]]:
    lease = schema.lease
    rows = conn.execute(select(lease.c.id).where(lease.c.account_id == account_id, lease.c.state == "OPEN"))
    return [(feed_records.LEASE, row.id) for row in rows]


def read_limit(currency: Currency, text: str) -> int | Refusal:
    """Read a budget as it was written, in minor units; `invalid_amount` for what is none."""
    amount = currency.parse(text)
    if isinstance(amount, Refusal) or amount < 0:
        return refuse(RefusalCode.INVALID_AMOUNT, field="amount")
    return amount


def trim(conn: Connection, ctx: Context, account_id: str) -> None:
    """Take out what is available beyond the budget: it was lowered while the till had it."""
    limit_minor = limit_of(conn, account_id.partition(":")[2])
    found = accounts.read(conn, [account_id])[account_id]
    beyond = min(found.available, found.standing - limit_minor)
    if beyond > 0:
        name = f"risk:{account_id}:{ctx.ids.new()}"
        move = accounts.Move(name, account_id, accounts.AVAILABLE, accounts.OUTSIDE, beyond, "risk budget")
        done = accounts.post(conn, move, ctx.now)
        assert done, "one writer: what was read a line above is still there"


def room(conn: Connection, found: Account) -> int:
    """Return how much of what is available may be leased: what came back after the budget was lowered may not."""
    limit_minor = limit_of(conn, found.id.partition(":")[2])
    return max(0, min(found.available, limit_minor - found.leased - found.stranded))


def limit_of(conn: Connection, till_id: str) -> int:
    """Return a till's budget in minor units, 0 = it takes no risk."""
    budget = schema.risk_budget
    found = conn.execute(select(budget.c.limit_minor).where(budget.c.till_id == till_id)).scalar_one_or_none()
    return found or 0


# ------------------------------------------------------------------ reading


def shown(conn: Connection, ctx: Context, till_id: str) -> Answer:
    """Show one till as `overview` does."""
    if conn.execute(select(schema.till.c.id).where(schema.till.c.id == till_id)).one_or_none() is None:
        return refused(unknown(TILL, till_id))
    (row,) = _tills(conn, ctx.chain.currency, till_id=till_id) or [_nothing(ctx.chain.currency, till_id)]
    return ok(**row)


def overview(conn: Connection, ctx: Context) -> Answer:
    """Show every till that has or had a budget, and the sum of all; amounts are written in the chain's currency.

    `granted` was put in and not taken out again, `lost` of it is spent, `left` is what may still be lost: the worst
    case. `granted + overdraft = lost + left`. `accepted` counts and sums what tills told to have taken without a right,
    also what proved to be free.
    """
    currency = ctx.chain.currency
    return ok(currency=currency.code, tills=_tills(conn, currency), sum=_sum(conn, currency))


def _tills(conn: Connection, currency: Currency, *, till_id: str | None = None) -> list[dict[str, Any]]:
    found, taken, budgets = _books(conn)
    ids = sorted(found) if till_id is None else [name for name in found if name == till_id]
    return [
        {
            "till": name,
            "budget": currency.format(budgets.get(name, 0)),
            **_amounts([found[name]], currency),
            **_accepted([taken[name]] if name in taken else [], currency),
        }
        for name in ids
    ]


def _sum(conn: Connection, currency: Currency) -> dict[str, Any]:
    found, taken, budgets = _books(conn)
    return {
        "budget": currency.format(sum(budgets.values())),
        **_amounts(list(found.values()), currency),
        **_accepted(list(taken.values()), currency),
    }


def _nothing(currency: Currency, till_id: str) -> dict[str, Any]:
    zero = currency.format(0)
    return {"till": till_id, "budget": zero, **_amounts([], currency), **_accepted([], currency)}


def _books(conn: Connection) -> tuple[dict[str, Account], dict[str, Row[Any]], dict[str, int]]:
    """Return, by till: its account, what it told to have accepted (count, sum), its budget in minor units."""
    account, use, budget = schema.account, schema.risk_use, schema.risk_budget
    ids = conn.execute(select(account.c.id).where(account.c.kind == RISK)).scalars()
    found = {each.id.partition(":")[2]: each for each in accounts.read(conn, ids).values()}
    sums = select(use.c.till_id, func.count().label("number"), func.sum(use.c.amount_minor).label("minor"))
    taken = {row.till_id: row for row in conn.execute(sums.group_by(use.c.till_id))}
    budgets = {row.till_id: row.limit_minor for row in conn.execute(select(budget))}
    return found, taken, budgets


def _amounts(found: Sequence[Account], currency: Currency) -> dict[str, Any]:
    numbers = {
        "granted": sum(each.total for each in found),
        "overdraft": sum(each.over for each in found),
        "lost": sum(each.spent for each in found),
        "left": sum(each.standing for each in found),
        "at_till": sum(each.leased + each.stranded for each in found),
    }
    return {name: currency.format(minor) for name, minor in numbers.items()}


def _accepted(rows: Sequence[Row[Any]], currency: Currency) -> dict[str, Any]:
    minor = sum(int(row.minor) for row in rows)
    return {"accepted": {"count": sum(int(row.number) for row in rows), "amount": currency.format(minor)}}
