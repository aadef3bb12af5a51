"""Bound what a till may give away without a right: its risk budget, an account in money like any other (PROTOCOL 1.2).

Off by default. Headquarters says how much may be lost at a till at most from now on; that is put into `risk:<till>`,
leased to the till, and spent by what it accepts. What proves harmless comes back (`risk_uses`), what was lost stays
spent until headquarters sets the budget again. So at every moment the worst case is what stands in the account.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select, true

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


@dataclass(frozen=True, slots=True)
class _Book:
    """Hold what is known of one till's risk; amounts are minor units."""

    account: Account
    budget_minor: int
    taken_count: int
    taken_minor: int


def shown(conn: Connection, ctx: Context, till_id: str) -> Answer:
    """Show one till as `overview` does."""
    if conn.execute(select(schema.till.c.id).where(schema.till.c.id == till_id)).one_or_none() is None:
        return refused(unknown(TILL, till_id))
    books = _books(conn, [till_id])
    currency = ctx.chain.currency
    return ok(till=till_id, currency=currency.code, **_view(list(books.values()), currency))


def overview(conn: Connection, ctx: Context) -> Answer:
    """Show every till that has or had a budget, and the sum of all; amounts are written in the chain's currency.

    `granted` was put in and not taken out again, `lost` of it is spent, `left` is what may still be lost: the worst
    case. `granted + overdraft = lost + left`. `accepted` counts and sums what tills told to have taken without a right,
    also what proved to be free.
    """
    currency = ctx.chain.currency
    books = _books(conn, conn.execute(select(schema.till.c.id).order_by(schema.till.c.id)).scalars().all())
    tills = [{"till": name, **_view([book], currency)} for name, book in books.items()]
    return ok(currency=currency.code, tills=tills, sum=_view(list(books.values()), currency))


def _books(conn: Connection, till_ids: Sequence[str]) -> dict[str, _Book]:
    """Return what is known of those of the tills that have an account; by their ids, since accounts are many."""
    found = accounts.read(conn, map(risk_id, till_ids))
    use, budget = schema.risk_use, schema.risk_budget
    of_these = use.c.till_id == till_ids[0] if len(till_ids) == 1 else true()
    sums = select(use.c.till_id, func.count().label("number"), func.sum(use.c.amount_minor).label("minor"))
    taken = {row.till_id: row for row in conn.execute(sums.where(of_these).group_by(use.c.till_id))}
    budgets = {row.till_id: row.limit_minor for row in conn.execute(select(budget))}
    return {
        name: _Book(
            found[risk_id(name)],
            budgets.get(name, 0),
            taken_count=int(taken[name].number) if name in taken else 0,
            taken_minor=int(taken[name].minor) if name in taken else 0,
        )
        for name in till_ids
        if risk_id(name) in found
    }


def _view(books: Sequence[_Book], currency: Currency) -> dict[str, Any]:
    """Add books up and write them for people."""
    show = currency.format
    taken = {
        "count": sum(each.taken_count for each in books),
        "amount": show(sum(each.taken_minor for each in books)),
    }
    return {
        "budget": show(sum(each.budget_minor for each in books)),
        "granted": show(sum(each.account.total for each in books)),
        "overdraft": show(sum(each.account.over for each in books)),
        "lost": show(sum(each.account.spent for each in books)),
        "left": show(sum(each.account.standing for each in books)),
        "at_till": show(sum(each.account.leased + each.account.stranded for each in books)),
        "accepted": taken,
    }
