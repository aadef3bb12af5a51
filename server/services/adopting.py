"""Take over the rights that tills have and a backup does not know, before anybody uses them (PROTOCOL 3.9).

A lease is told at the till's first greeting, a home then and by every entry that names one: a till never has a home in
a version that the server did not give out, so a greater one than ours was given out behind the backup. What cannot be
taken over yet (the coupon is not known, or still held by an order that is over) waits in a finding.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select, update

from app.domain.refusals import Refusal, unknown
from app.domain.states import CouponState, FindingState
from server.db import schema
from server.services import accounts, feed, feed_records, findings, leases
from server.services.answers import Answer, ok
from server.services.context import Context
from server.services.idempotency import forget_refusal, once
from sync.protocol import Adopt, AdoptAnswer, AdoptedHome, AdoptedLease

UNTOLD_HOME = "home_mismatch"
_BY_ADOPTION = "adopt"


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
    return AdoptAnswer(leases=lent, homes=_adopt_homes(conn, ctx, row.id, homes=message.homes))


def _adopt_lease(conn: Connection, ctx: Context, row: Row[Any], *, each: AdoptedLease) -> bool:
    account = accounts.read(conn, [each.account]).get(each.account)
    if account is None or leases.find(conn, each.lease) is not None or _codes_taken(conn, each):
        return False
    content = {"till": row.id, "account": each.account, "amount": each.asked}
    coupons = [{"coupon": name, "code": code} for name, code in each.coupons]

    def decide() -> Answer:
        _lend_again(conn, ctx, row, each=each, available=account.available)
        return ok(lease=each.lease, account=each.account, amount=each.amount, coupons=coupons)

    # Two backups may lie in each other: the no of one, when the till got a yes behind the other.
    forget_refusal(conn, f"lease:{each.lease}")
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


# ------------------------------------------------------------------ homes


def _adopt_homes(conn: Connection, ctx: Context, till_id: str, *, homes: Sequence[AdoptedHome]) -> int:
    """Make the till the home of coupons again; a finding keeps what cannot be done yet.

    What it gave out itself is at home there when its entry has told so.
    """
    adopt_named(conn, till_id, {each.coupon: each.version for each in homes})
    names = [each.coupon for each in homes]
    known, given_out = _versions(conn, names), _minted_for(conn, till_id, names)
    for each in homes:
        comes = each.version == 1 and each.coupon in given_out
        if known.get(each.coupon, 0) < each.version and not comes:
            detail = {"till": till_id, "coupon": each.coupon, "version": each.version, "why": _BY_ADOPTION}
            key = f"{each.coupon}/{till_id}/{ctx.chain.incarnation}"
            findings.open_finding(conn, kind=UNTOLD_HOME, key=key, amount_minor=0, detail=detail, now=ctx.now)
    return sum(known.get(each.coupon) == each.version for each in homes)


def adopt_named(conn: Connection, till_id: str, versions: Mapping[str, int]) -> None:
    """Make the till the home of coupons in the versions that it names; what is newer here stays, what is held too."""
    coupon = schema.coupon
    for name, version in versions.items():
        older = (coupon.c.id == name, coupon.c.version < version, coupon.c.state == CouponState.ISSUED)
        if conn.execute(update(coupon).where(*older).values(home=till_id, version=version)).rowcount:
            feed.touch(conn, [(feed_records.COUPON, name)])


def adopt_waiting(conn: Connection, ctx: Context) -> None:
    """Take over the homes that could not be taken over when they were told, as far as that can be done now."""
    finding = schema.finding
    waiting = (finding.c.kind == UNTOLD_HOME, finding.c.state == FindingState.OPEN)
    rows = [row for row in conn.execute(select(finding).where(*waiting)) if row.detail.get("why") == _BY_ADOPTION]
    for row in rows:
        adopt_named(conn, row.detail["till"], {row.detail["coupon"]: row.detail["version"]})
    known = _versions(conn, [row.detail["coupon"] for row in rows])
    done = [row.key for row in rows if known.get(row.detail["coupon"], 0) >= row.detail["version"]]
    findings.close_findings(conn, UNTOLD_HOME, done, now=ctx.now)


def _minted_for(conn: Connection, till_id: str, coupon_ids: Sequence[str]) -> set[str]:
    minted, lease = schema.lease_coupon, schema.lease
    its = (minted.c.coupon_id.in_(coupon_ids), lease.c.till_id == till_id)
    rows = conn.execute(select(minted.c.coupon_id).join(lease, lease.c.id == minted.c.lease_id).where(*its))
    return set(rows.scalars())


def _versions(conn: Connection, coupon_ids: Sequence[str]) -> dict[str, int]:
    coupon = schema.coupon
    rows = conn.execute(select(coupon.c.id, coupon.c.version).where(coupon.c.id.in_(coupon_ids)))
    return {row.id: row.version for row in rows}
