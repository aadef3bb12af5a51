"""Lend countable value to a till, which may then spend it without asking, and take back what it did not use.

What a lease has left sits in `leased` of its account, so nobody else can have it. It comes back by the till's own word
alone (`close`, an entry of its ledger), whatever the clock says: a till that is silent may have spent it already. Of a
till that is declared lost it sits in `stranded`, and all else stays as it is. Headquarters may take it back by name,
and at a risk (`server/services/lost_tills.py`, PROTOCOL 1.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from app.domain import codes
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rights import risk_id
from app.domain.rule_json import read_rule
from app.domain.rules import Kind, Rule
from server.db import schema
from server.db.bulk import BulkInsert, Present
from server.services import accounts, evidence, feed, feed_records, rights, risk, sharing
from server.services.answers import Answer, ok, refused
from server.services.context import Context, Taken
from server.services.entries import LeaseCloseBody
from server.services.grants import CODES_AT_ONCE
from server.services.idempotency import once
from server.services.verdicts import IN_ORDER, Told, Verdict, conflict

OPEN, CLOSED, REVOKED = "OPEN", "CLOSED", "REVOKED"
ASKED, SHARE = "asked", "share"
ONLINE_ONLY = "online_only"
STOCK_MAX = CODES_AT_ONCE
"""Coupons of one lease of stock: their codes travel in one answer."""

_NOTHING_LEFT = {
    accounts.STOCK: RefusalCode.OUT_OF_STOCK,
    accounts.BUDGET: RefusalCode.BUDGET_SPENT,
    accounts.VALUE: RefusalCode.INSUFFICIENT_BALANCE,
    accounts.USES: RefusalCode.INSUFFICIENT_USES,
    accounts.RISK: RefusalCode.RISK_SPENT,
}
_COUPONS = BulkInsert(schema.lease_coupon, "coupon_id", "lease_id", "code")
_CODES = (Present(schema.coupon.c.code), Present(schema.lease_coupon.c.code))
_LEASE = select(schema.lease).where(schema.lease.c.id == bindparam("of"))
_TILL = select(schema.till.c.state, schema.till.c.lost_at, schema.till.c.epoch).where(
    schema.till.c.id == bindparam("of")
)
_CAMPAIGN = (
    select(schema.campaign.c.state, schema.campaign.c.offline, schema.snapshot.c.rule)
    .join(schema.snapshot, schema.snapshot.c.id == schema.campaign.c.snapshot_id)
    .where(schema.campaign.c.id == bindparam("of"))
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Ask for `amount` (coupons, uses or minor units) of an account; `lease_id` is made and kept by the till before.

    `size` SHARE: no more than the till's fair part.
    """

    lease_id: str
    account_id: str
    amount: int
    size: str = ASKED


def lend(conn: Connection, ctx: Context, asked: Asked) -> Answer:
    """Lend the smaller of what is asked for and what is available: `{"lease", "account", "amount", "coupons"}`.

    Refuses an account that is not there (`unknown_code`), a campaign that gives nothing away offline (`needs_online`),
    and an account with nothing left, by its own code. The same request gets the first answer, a refusal too: else a
    copy of it that comes late would lend to a till that has given up.
    """
    content: dict[str, Any] = {"till": ctx.actor.till_id, "account": asked.account_id, "amount": asked.amount}
    if asked.size != ASKED:
        content["size"] = asked.size
    return once(conn, f"lease:{asked.lease_id}", content, decide=lambda: _lend(conn, ctx, asked), now=ctx.now)


def _lend(conn: Connection, ctx: Context, asked: Asked) -> Answer:
    stopped = stopped_till(conn, ctx)
    if stopped is not None:
        return refused(stopped)
    found = accounts.read(conn, [asked.account_id]).get(asked.account_id)
    if found is None:
        return refused(unknown("account", asked.account_id))
    if found.kind == accounts.RISK and found.id != risk_id(str(ctx.actor.till_id)):
        return refused(refuse(RefusalCode.NOT_ALLOWED, account=found.id, till=ctx.actor.till_id))
    rule = _campaign_rule(conn, ctx, found)
    if isinstance(rule, Refusal):
        return refused(rule)
    amount = min(asked.amount, found.available, STOCK_MAX if found.kind == accounts.STOCK else asked.amount)
    if asked.size == SHARE and found.kind != accounts.RISK:
        amount = min(amount, sharing.share(conn, ctx, found, stores=rule.stores if rule else None))
    if found.kind == accounts.RISK:
        amount = min(amount, risk.room(conn, found))
    move = accounts.Move(
        f"lend:{asked.lease_id}",
        asked.account_id,
        accounts.AVAILABLE,
        target=accounts.LEASED,
        amount=amount,
        reason=f"till {ctx.actor.till_id}",
        lease_id=asked.lease_id,
    )
    if amount < 1 or not accounts.post(conn, move, ctx.now):
        return refused(refuse(_NOTHING_LEFT[found.kind], account=asked.account_id))
    assert ctx.actor.till_id is not None, "a till asks for itself"
    epoch = conn.execute(_TILL, {"of": ctx.actor.till_id}).one().epoch
    open_lease(conn, ctx, asked, amount=amount, drawn=amount, till_id=ctx.actor.till_id, epoch=epoch)
    coupons = _mint(conn, ctx, asked.lease_id, rule=rule, count=amount) if rule and found.kind == accounts.STOCK else []
    return ok(lease=asked.lease_id, account=asked.account_id, amount=amount, coupons=coupons)


def stopped_till(conn: Connection, ctx: Context) -> Refusal | None:
    """Refuse a lost till, and one whose ledger is not the one that is here: its use of a right could not be told.

    Nor is anything lent while this database waits for what a backup lacks.
    """
    if (later := ctx.not_now()) is not None:
        return later
    row = conn.execute(_TILL, {"of": ctx.actor.till_id}).one()
    sound = row.state == "OK" and row.lost_at is None
    return None if sound else refuse(RefusalCode.NOT_ALLOWED, till=ctx.actor.till_id)


def _campaign_rule(conn: Connection, ctx: Context, found: accounts.Account) -> Rule | Refusal | None:
    """Return the rule of the campaign whose stock or budget it is, or why it lends none; None = it is no campaign's."""
    if found.kind not in (accounts.STOCK, accounts.BUDGET):
        return None
    campaign_id = found.id.partition(":")[2]
    row = conn.execute(_CAMPAIGN, {"of": campaign_id}).one()
    if row.offline == ONLINE_ONLY:
        return refuse(RefusalCode.NEEDS_ONLINE, campaign=campaign_id)
    if row.state == "ENDED" and found.kind == accounts.STOCK:
        return refuse(RefusalCode.CAMPAIGN_ENDED, campaign=campaign_id)
    rule = read_rule(row.rule, ctx.chain.currency)
    assert isinstance(rule, Rule), "a stored snapshot reads back"
    if found.kind == accounts.STOCK and rule.kind is not Kind.COUPON:
        return refuse(RefusalCode.INVALID_CAMPAIGN, campaign=campaign_id, field="kind")
    return rule


def open_lease(
    conn: Connection, ctx: Context, asked: Asked, *, amount: int, drawn: int, till_id: str, epoch: int
) -> None:
    """Write a lease of `amount`, which sits in `leased` already (`drawn` of it was available), and tell of it."""
    conn.execute(
        insert(schema.lease).values(
            id=asked.lease_id,
            till_id=till_id,
            epoch=epoch,
            account_id=asked.account_id,
            qty=amount,
            state=OPEN,
            granted_at=ctx.now,
        )
    )
    moved(conn, ctx, asked.lease_id, account_id=asked.account_id, units=-drawn)


def moved(
    conn: Connection,
    ctx: Context,
    lease_id: str,
    *,
    account_id: str,
    units: int,
    grants: Sequence[tuple[str, str]] = (),
) -> None:
    """Tell the tills that a lease did something, and Redis what became of a stock by that (`Taken`)."""
    feed.touch(conn, [(feed_records.LEASE, lease_id), *rights.account_records([account_id])])
    kind, _, owner = account_id.partition(":")
    if kind == accounts.STOCK and (units or grants):
        ctx.taken.append(Taken(owner, feed.head(conn), units, grants))


def _mint(conn: Connection, ctx: Context, lease_id: str, *, rule: Rule, count: int) -> list[dict[str, str]]:
    """Make the coupons that the till may give out, so that none of their codes ever stands in a ledger."""
    layout = codes.BEARER_COUPON if rule.bearer else codes.MEMBER_COUPON
    drawn: set[str] = set()
    while len(drawn) < count:
        fresh = set(codes.make_codes(layout, ctx.ids.digits, count - len(drawn)))
        drawn |= fresh.difference(*(known.among(conn, fresh) for known in _CODES))
    made = [(ctx.ids.new(), code) for code in sorted(drawn)]
    keep_coupons(conn, lease_id, made)
    return [{"coupon": coupon_id, "code": code} for coupon_id, code in made]


def keep_coupons(conn: Connection, lease_id: str, coupons: Sequence[tuple[str, str]]) -> None:
    """Keep the coupons of a leased stock, each with its code."""
    _COUPONS.run(conn, [(coupon_id, lease_id, code) for coupon_id, code in coupons])


def find(conn: Connection, lease_id: str) -> Row[Any] | None:
    """Return the lease's row, None where there is no such lease."""
    return conn.execute(_LEASE, {"of": lease_id}).one_or_none()


def of_told(conn: Connection, told: Told, lease_id: str) -> Row[Any] | None:
    """Return the lease that an entry names, None where it was not that till's.

    An epoch may name what was lent to an earlier one: entries that were carried do, and a payment that was under way.
    """
    row = find(conn, lease_id)
    return row if row is not None and row.till_id == told.till_id and row.epoch <= told.epoch else None


def open_of(conn: Connection, till_id: str) -> Sequence[Row[Any]]:
    """Return a till's leases that are open, by id."""
    lease = schema.lease
    return conn.execute(
        select(lease).where(lease.c.till_id == till_id, lease.c.state == OPEN).order_by(lease.c.id)
    ).all()


def left_in(row: Row[Any]) -> str:
    """Return the compartment in which what an open lease has left sits."""
    return accounts.LEASED if row.stranded_at is None else accounts.STRANDED


def strand(conn: Connection, ctx: Context, row: Row[Any]) -> None:
    """Set aside what an open lease of a lost till has left; what the till still tells draws on it as before.

    One that is stranded already stays as it is.
    """
    if row.stranded_at is not None:
        return
    left = row.qty - row.used
    if left:
        aside = accounts.Move(
            f"strand:{row.id}",
            row.account_id,
            accounts.LEASED,
            target=accounts.STRANDED,
            amount=left,
            reason="till lost",
            lease_id=row.id,
        )
        done = accounts.post(conn, aside, ctx.now)
        assert done, "what a lease has left sits in leased"
    lease = schema.lease
    fence = (lease.c.id == row.id, lease.c.state == OPEN, lease.c.used == row.used, lease.c.stranded_at.is_(None))
    if conn.execute(update(lease).where(*fence).values(stranded_at=ctx.now)).rowcount != 1:
        raise rights.LostRace(f"lease {row.id} moved meanwhile")
    moved(conn, ctx, row.id, account_id=row.account_id, units=0)


def use(conn: Connection, lease_id: str, amount: int) -> None:
    """Count what a till has used of a lease; its CHECK refuses more than was lent."""
    lease = schema.lease
    conn.execute(update(lease).where(lease.c.id == lease_id).values(used=lease.c.used + amount))


def judge_close(conn: Connection, ctx: Context, told: Told, *, body: LeaseCloseBody) -> Verdict:
    """Take back what the till did not use. All that it used stands before this entry, so its count must be ours.

    Of a lease that headquarters has revoked nothing is left to give back.
    """
    row = of_told(conn, told, body["lease"])
    if row is None or row.state == CLOSED:
        why = "is not this till's" if row is None else "is closed already"
        shown = {"lease": body["lease"], "why": why, "here": evidence.of_lease(conn, body["lease"])}
        return conflict(conn, told, "lease_mismatch", key=f"{body['lease']}/{told.entry_id}", detail=shown)
    if row.state == OPEN:
        take_back(conn, ctx, row, state=CLOSED)
    if row.used == body["used"]:
        return IN_ORDER
    detail = {"lease": row.id, "account": row.account_id, "till_used": body["used"], "server_used": row.used}
    key = f"{row.id}/{told.entry_id}"
    return conflict(conn, told, "lease_mismatch", key=key, amount_minor=abs(row.used - body["used"]), detail=detail)


def take_back(conn: Connection, ctx: Context, row: Row[Any], *, state: str) -> int:
    """End an open lease and make what is left of it available, an overdraft first; returns how much that was."""
    left: int = row.qty - row.used
    paid_back = 0
    if left:
        back = accounts.Move(
            f"{state.lower()}:{row.id}",
            row.account_id,
            left_in(row),
            target=accounts.AVAILABLE,
            amount=left,
            reason=state.lower(),
            lease_id=row.id,
        )
        done = accounts.post(conn, back, ctx.now)
        assert done, "what a lease has left sits where it was put"
        net = f"net:{back.transfer_id}"
        paid_back = accounts.pay_back_overdraft(
            conn, net, account_id=row.account_id, reason="overdraft paid back", now=ctx.now
        )
        if row.account_id.startswith(f"{accounts.RISK}:"):
            risk.trim(conn, ctx, row.account_id)
    lease = schema.lease
    ended = conn.execute(
        update(lease)
        .where(lease.c.id == row.id, lease.c.state == OPEN, lease.c.used == row.used)
        .values(state=state, closed_at=ctx.now)
    )
    if ended.rowcount != 1:
        raise rights.LostRace(f"lease {row.id} moved meanwhile")
    moved(conn, ctx, row.id, account_id=row.account_id, units=left - paid_back)
    return left


def coupons_of(conn: Connection, lease_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Return the coupons of leases of stock, by lease; those that were given out are among them."""
    table = schema.lease_coupon
    found: dict[str, list[dict[str, str]]] = {}
    rows = conn.execute(select(table).where(table.c.lease_id.in_(lease_ids)).order_by(table.c.coupon_id))
    for row in rows:
        found.setdefault(row.lease_id, []).append({"coupon": row.coupon_id, "code": row.code})
    return found
