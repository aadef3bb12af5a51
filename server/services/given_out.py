"""Take in what a till gave out of a leased stock: a coupon that was minted with the lease gets its member.

The customer has it, so it lands whatever is wrong: a member who has more than the campaign allows by now got them by
several ways, and a lease that was taken back means an overdraft. Both are findings (PROTOCOL 1.3).
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select

from app.domain import codes
from app.domain.rule_json import read_rule
from app.domain.rules import Rule
from app.domain.states import CouponState
from server.db import schema
from server.services import accounts, evidence, feed, feed_records, history, idempotency, leases
from server.services.answers import ok
from server.services.context import Context
from server.services.entries import ClaimBody
from server.services.grants import Wanted
from server.services.lent import Use, lent_left, spend, spend_late
from server.services.rights import Excess
from server.services.verdicts import IN_ORDER, Told, Verdict, conflict

_FIRST_VERSION = 1


def judge_claim(conn: Connection, ctx: Context, told: Told, *, body: ClaimBody) -> Verdict:
    """Make the coupon its member's, at home at the till that gave it out; frozen there where that was an epoch ago."""
    lease, code, rule = _known(conn, ctx, told, body=body)
    if lease is None or code is None or rule is None:
        detail = {**_shown(body), "here": evidence.of_lease(conn, body["lease"])}
        return conflict(conn, told, "unknown_claim", key=f"{body['coupon']}/{told.entry_id}", detail=detail)
    if conn.execute(select(schema.coupon.c.id).where(schema.coupon.c.id == body["coupon"])).first() is not None:
        detail = {**_shown(body), "here": evidence.of_coupon(conn, body["coupon"])}
        return conflict(conn, told, "duplicate_claim", key=f"{body['coupon']}/{told.entry_id}", detail=detail)
    nth, today = _held(conn, ctx, body)
    limits = ((nth, rule.per_member), (today, rule.per_member_per_day))
    excess = _take(conn, lease, told, body=body)
    if any(limit is not None and count >= limit for count, limit in limits):
        excess.append(Excess("member_limit", f"{body['campaign']}/{body['member']}", 1))
    _land(conn, ctx, told, body=body, nth=nth + 1, code=code)
    late = sum(each.amount for each in excess if each.kind == "late_use")
    grants = [(body["request"], body["member"])]
    leases.moved(conn, ctx, lease.id, account_id=lease.account_id, units=-late, grants=grants)
    verdicts = [_found(conn, told, body, excess=each) for each in excess]
    return verdicts[0] if verdicts else IN_ORDER


def _known(
    conn: Connection, ctx: Context, told: Told, *, body: ClaimBody
) -> tuple[Row[Any] | None, str | None, Rule | None]:
    """Return the lease, the coupon's code and its rule; each None where the chain does not have it as it is told."""
    lease = leases.of_told(conn, told, body["lease"])
    if lease is None or lease.account_id != accounts.stock_id(body["campaign"]):
        return None, None, None
    minted, snapshot, member = schema.lease_coupon, schema.snapshot, schema.member
    code = conn.execute(
        select(minted.c.code).where(minted.c.coupon_id == body["coupon"], minted.c.lease_id == lease.id)
    ).scalar_one_or_none()
    text = conn.execute(
        select(snapshot.c.rule).where(
            snapshot.c.id == body["snapshot"],
            snapshot.c.campaign_id == body["campaign"],
            select(member.c.id).where(member.c.id == body["member"]).exists(),
        )
    ).scalar_one_or_none()
    rule = None if text is None else read_rule(text, ctx.chain.currency)
    return lease, code, rule if isinstance(rule, Rule) else None


def _instant(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def _day(ctx: Context, body: ClaimBody) -> str:
    return body["at"].astimezone(ctx.chain.zone).date().isoformat()


def _held(conn: Connection, ctx: Context, body: ClaimBody) -> tuple[int, int]:
    """Count the member's coupons of the campaign: the last one's number, and those of that day."""
    coupon = schema.coupon
    row = conn.execute(
        select(
            func.coalesce(func.max(coupon.c.member_nth), 0),
            func.count().filter(coupon.c.granted_on == _day(ctx, body)),
        ).where(coupon.c.campaign_id == body["campaign"], coupon.c.member_id == body["member"])
    ).one()
    return row[0], row[1]


def _take(conn: Connection, lease: Row[Any], told: Told, *, body: ClaimBody) -> list[Excess]:
    """Take the coupon out of the lease, or out of the stock where the lease has none left."""
    use = Use(body["coupon"], told.now)
    if lent_left(lease):
        return spend(conn, lease, 1, use=use)
    return [Excess("lease_mismatch", lease.id, 1), *spend_late(conn, lease.account_id, 1, use=use)]


def _land(conn: Connection, ctx: Context, told: Told, *, body: ClaimBody, nth: int, code: str) -> None:
    end = body["valid_until_ms"]
    conn.execute(
        insert(schema.coupon).values(
            id=body["coupon"],
            campaign_id=body["campaign"],
            snapshot_id=body["snapshot"],
            member_id=body["member"],
            member_nth=nth,
            code=code,
            code_digest=codes.code_digest(ctx.code_key, code),
            state=CouponState.ISSUED,
            source=body["source"],
            granted_at=told.now,
            granted_on=_day(ctx, body),
            valid_until_at=None if end is None else _instant(end),
            version=_FIRST_VERSION,
            home=told.till_id,
            frozen_version=_FIRST_VERSION if told.carried else None,  # what was left behind may have used it
        )
    )
    event = history.Event(
        history.COUPON,
        body["coupon"],
        "grant",
        None,
        CouponState.ISSUED,
        reason=body["source"],
        till_at=body["at"],
        till_id=told.till_id,
        operator=body["operator"] or None,
    )
    history.record(conn, [event], told.now)
    feed.append(conn, feed_records.COUPON, [body["coupon"]])
    _answer(conn, told, body, code=code)


def _answer(conn: Connection, told: Told, body: ClaimBody, *, code: str) -> None:
    """Keep the answer that the till gave, so that the same claim asked here gets it too.

    Where it was answered here before (the till never heard), the coupon is a second one, under the entry's own id.
    """
    wanted = Wanted(f"claim:{body['request']}", body["campaign"], body["member"], body["source"])
    known = idempotency.answers_of(conn, [wanted.request])
    end = body["valid_until_ms"]
    answer = ok(
        coupon=body["coupon"],
        code=code,
        remaining=None,
        state=CouponState.ISSUED.value,
        valid_until_at=None if end is None else _instant(end).isoformat(),
        source=body["source"],
    )
    name = f"claim:{told.entry_id}" if known else wanted.request
    idempotency.once(conn, name, wanted.content(), decide=lambda: answer, now=told.now)


def _found(conn: Connection, told: Told, body: ClaimBody, *, excess: Excess) -> Verdict:
    key = f"{excess.subject}/{body['coupon']}"
    detail = {
        "amount": excess.amount,
        **_shown(body),
        "here": evidence.of_account(conn, accounts.stock_id(body["campaign"])),
    }
    return conflict(conn, told, excess.kind, key=key, detail=detail)


def _shown(body: ClaimBody) -> dict[str, Any]:
    return {name: body[name] for name in ("lease", "campaign", "coupon", "member", "request")}
