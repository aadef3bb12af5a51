"""Come back from a backup: let the tills tell again what it lacks, before anybody is given anything (PROTOCOL 3.9).

Until each till has told, what looks free may be used: so nothing is granted, lent, held, moved home or refunded, and
whoever asks is told `busy`. Facts are taken as ever. A till that will never tell is written off, by name.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select, update

from app.domain.refusals import Refusal, unknown
from server.db import schema
from server.services import accounts, feed, feed_records, findings, history, leases
from server.services.answers import Answer, ok, refused
from server.services.context import Context
from server.services.idempotency import once
from sync.protocol import Adopt, AdoptAnswer, AdoptedHome, AdoptedLease, Hello

TILL = "till"
_LEAST = 10**9


def begin(conn: Connection, ctx: Context, *, reason: str) -> Answer:
    """Say that this database came back from a backup; answers with the tills that are waited for.

    Every restore gets an incarnation of its own, also the second from one backup: so the tills notice.
    """
    chain, till = schema.chain, schema.till
    fresh = _LEAST + int(ctx.ids.digits(9))
    assert fresh != ctx.chain.incarnation, "drawn at random from a thousand millions"
    conn.execute(update(chain).values(incarnation=fresh, restored_at=ctx.now))
    conn.execute(update(till).values(incarnation=0))
    _tell(conn, ctx, "", event="restored", reason=reason)
    return status(conn, waiting=True)


def status(conn: Connection, *, waiting: bool) -> Answer:
    """Tell whether the tills are waited for, and which have not told yet."""
    missing = _missing(conn) if waiting else []
    return ok(restoring=bool(missing), waiting_for=missing)


def write_off(conn: Connection, ctx: Context, till_id: str, *, reason: str) -> Answer:
    """Wait no longer for a till: what it has and the backup lacks may be given out once more. By name, for a reason."""
    till = schema.till
    done = conn.execute(update(till).where(till.c.id == till_id).values(incarnation=ctx.chain.incarnation))
    if done.rowcount != 1:
        return refused(unknown("till", till_id))
    _tell(conn, ctx, till_id, event="written_off", reason=reason)
    _end_when_all_told(conn)
    return status(conn, waiting=ctx.chain.restoring)


def reported(conn: Connection, ctx: Context, row: Row[Any], *, message: Hello) -> None:
    """Note a till that has told everything to this incarnation: what it knows to be here is all that it has."""
    told = message.incarnation == ctx.chain.incarnation and message.last[0] == row.acked_seq
    if not ctx.chain.restoring or not told or row.incarnation == ctx.chain.incarnation:
        return
    till = schema.till
    conn.execute(update(till).where(till.c.id == row.id).values(incarnation=ctx.chain.incarnation))
    _end_when_all_told(conn)


def lost(conn: Connection, ctx: Context, row: Row[Any], *, message: Hello) -> None:
    """Find that a till knows a tail of its own from us that we do not: this database was set back, and nobody said so.

    A tail never goes back within an incarnation, so no late or doubled message says such a thing.
    """
    known = max(row.acked_seq, row.tail_seq)
    if message.incarnation != ctx.chain.incarnation or message.seen[0] <= known:
        return
    detail = {"till": row.id, "epoch": row.epoch, "seen": list(message.seen), "known": known}
    key = f"{row.id}/{row.epoch}/{ctx.chain.incarnation}"
    findings.open_finding(conn, kind="server_set_back", key=key, amount_minor=0, detail=detail, now=ctx.now)


def _missing(conn: Connection) -> list[str]:
    till = schema.till
    present = select(schema.chain.c.incarnation).scalar_subquery()
    return list(conn.execute(select(till.c.id).where(till.c.incarnation != present).order_by(till.c.id)).scalars())


def _end_when_all_told(conn: Connection) -> None:
    if not _missing(conn):
        conn.execute(update(schema.chain).values(restored_at=None))


def _tell(conn: Connection, ctx: Context, till_id: str, *, event: str, reason: str) -> None:
    by = f"{ctx.actor.scope}:{ctx.actor.key_id}"
    told = history.Event(TILL, till_id, event, None, None, reason=reason, till_id=till_id or None, operator=by)
    history.record(conn, [told], ctx.now)


# ------------------------------------------------------------------ rights that the backup does not know


def adopt(conn: Connection, ctx: Context, message: Adopt) -> AdoptAnswer | Refusal:
    """Take over the rights that a till had before the backup was put back, before its entries use them.

    Only while its word is waited for. What the backup has too little of is an overdraft, and found.
    """
    row = conn.execute(select(schema.till).where(schema.till.c.id == message.till)).one_or_none()
    if row is None:
        return unknown("till", message.till)
    if not ctx.chain.restoring or row.incarnation == ctx.chain.incarnation or row.epoch != message.epoch:
        return AdoptAnswer(leases=0, homes=0)
    lent = sum(_adopt_lease(conn, ctx, row, each=each) for each in message.leases)
    return AdoptAnswer(leases=lent, homes=_adopt_homes(conn, row.id, message.homes))


def _adopt_lease(conn: Connection, ctx: Context, row: Row[Any], *, each: AdoptedLease) -> bool:
    account = accounts.read(conn, [each.account]).get(each.account)
    if account is None or leases.find(conn, each.lease) is not None or _codes_taken(conn, each):
        return False
    content = {"till": row.id, "account": each.account, "amount": each.asked}
    coupons = [{"coupon": name, "code": code} for name, code in each.coupons]

    def decide() -> Answer:
        _lend_again(conn, ctx, row, each=each, available=account.available)
        return ok(lease=each.lease, account=each.account, amount=each.amount, coupons=coupons)

    return bool(once(conn, f"lease:{each.lease}", content, decide=decide, now=ctx.now)["outcome"] == "ok")


def _codes_taken(conn: Connection, each: AdoptedLease) -> bool:
    names = {name for name, _ in each.coupons}
    table = schema.lease_coupon
    return conn.execute(select(table.c.coupon_id).where(table.c.coupon_id.in_(names))).first() is not None


def _lend_again(conn: Connection, ctx: Context, row: Row[Any], *, each: AdoptedLease, available: int) -> None:
    there = min(available, each.amount)
    for source, amount in ((accounts.AVAILABLE, there), (accounts.OVER, each.amount - there)):
        if amount:
            move = accounts.Move(
                f"adopt:{each.lease}:{source}",
                each.account,
                source,
                target=accounts.LEASED,
                amount=amount,
                reason=f"till {row.id}, restored",
                lease_id=each.lease,
            )
            assert accounts.post(conn, move, ctx.now), "one writer: what was read a line above is still there"
    asked = leases.Asked(each.lease, each.account, each.amount)
    leases.open_lease(conn, ctx, asked, amount=each.amount, drawn=there, till_id=row.id, epoch=row.epoch)
    leases.keep_coupons(conn, each.lease, list(each.coupons))
    if row.lost_at is not None and (lent := leases.find(conn, each.lease)) is not None:
        leases.strand(conn, ctx, lent)
    if each.amount > there:
        key = f"{each.account}/adopt:{each.lease}"
        detail = {"till": row.id, "account": each.account, "lease": each.lease, "lent": each.amount, "there": there}
        short = each.amount - there
        findings.open_finding(conn, kind="overdraft", key=key, amount_minor=short, detail=detail, now=ctx.now)


def _adopt_homes(conn: Connection, till_id: str, told: Sequence[AdoptedHome]) -> int:
    """Make the till the home of coupons again, in the version that it has; what is newer here stays."""
    coupon, count = schema.coupon, 0
    for each in told:
        moved = update(coupon).where(
            coupon.c.id == each.coupon, coupon.c.version < each.version, coupon.c.state == "ISSUED"
        )
        if conn.execute(moved.values(home=till_id, version=each.version)).rowcount:
            feed.touch(conn, [(feed_records.COUPON, each.coupon)])
            count += 1
    return count
