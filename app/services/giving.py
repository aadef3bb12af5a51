"""Give coupons out at the counter from a leased stock, with or without a line: this till is their arbiter.

Where none is here and there is a line, a few are leased first: so the till begins to know what it needs. The same rule
decides as at the server, on what this till knows: how many the member has is the server's word as of the
last pull, and what was given out here since. One that the member got elsewhere meanwhile becomes a finding there.
"""

from sqlalchemy import Connection

from app.domain.claims import ClaimFacts, Grant, decide_claim
from app.domain.codes import code_digest
from app.domain.refusals import Refusal, RefusalCode, refuse, unknown
from app.domain.rights import stock_id
from app.services import leasing
from app.services.api import GivenCoupon
from app.services.gathering import Site, gather_site
from app.services.parts import Parts
from app.services.recording import append_claim
from app.store import catalog, coupons, rights
from app.store.coupons import NewCoupon
from app.store.meta import instant_ms

LEASED_AT_ONCE = 5
_LACKING = frozenset({RefusalCode.NEEDS_ONLINE, RefusalCode.OUT_OF_STOCK})


def give(parts: Parts, request_id: str, campaign_id: str, *, member_id: str, source: str) -> GivenCoupon | Refusal:
    """Give one coupon of a leased stock to a member; see `Till.give`."""
    given = _give(parts, request_id, campaign_id, member_id=member_id, source=source)
    if not isinstance(given, Refusal) or given.code not in _LACKING or not parts.head_office.online:
        return given
    lent = leasing.lease(parts, stock_id(campaign_id), LEASED_AT_ONCE, size=rights.SHARE)
    return (
        lent if isinstance(lent, Refusal) else _give(parts, request_id, campaign_id, member_id=member_id, source=source)
    )


def _give(parts: Parts, request_id: str, campaign_id: str, *, member_id: str, source: str) -> GivenCoupon | Refusal:
    now = parts.now()
    with parts.recording() as tx:
        before = rights.given(tx, request_id)
        if before is not None:
            same = before.member_id == member_id and _campaign_of(tx, before.lease_id) == stock_id(campaign_id)
            return (
                GivenCoupon(before.coupon_id, before.code)
                if same
                else refuse(RefusalCode.DUPLICATE_MISMATCH, request=request_id)
            )
        site = gather_site(tx, parts)
        if isinstance(site, Refusal):
            return site
        decided = _decide(tx, parts, site, campaign_id=campaign_id, member_id=member_id)
        if isinstance(decided, Refusal):
            return decided
        granted, snapshot_id = decided
        lease = next(row for row in rights.open_leases(tx, stock_id(campaign_id)) if row.left)
        coupon = rights.give(tx, lease.id, request_id=request_id, member_id=member_id)
        until_at = granted.valid_until_at
        fresh = NewCoupon(
            coupon.coupon_id,
            code_digest(parts.code_key, coupon.code),
            campaign_id,
            snapshot_id=snapshot_id,
            member_id=member_id,
            valid_until_at=until_at,
        )
        coupons.add(tx, fresh)
        claim = {
            "lease": lease.id,
            "coupon": coupon.coupon_id,
            "request": request_id,
            "source": source,
            "campaign": campaign_id,
            "snapshot": snapshot_id,
            "member": member_id,
            "valid_until_ms": None if until_at is None else instant_ms(until_at),
        }
        append_claim(tx, parts, claim, now=now)
    return GivenCoupon(coupon.coupon_id, coupon.code)


def _campaign_of(conn: Connection, lease_id: str) -> str:
    found = rights.lease(conn, lease_id)
    assert found is not None, "a coupon of a lease has its lease"
    return found.account_id


def _decide(
    conn: Connection, parts: Parts, site: Site, *, campaign_id: str, member_id: str
) -> tuple[Grant, str] | Refusal:
    """Return the grant and the snapshot that it is made by, or the first reason against it."""
    lent = rights.left(conn, stock_id(campaign_id))
    campaign, member = catalog.campaign(conn, campaign_id), catalog.member(conn, member_id)
    if lent is None or campaign is None:
        return refuse(RefusalCode.NEEDS_ONLINE, campaign=campaign_id)
    if member is None:
        return unknown("member", member_id) if site.online else refuse(RefusalCode.NEEDS_ONLINE, member=member_id)
    rule = parts.rules.read(campaign.snapshot_id, campaign.rule, site.chain.currency)
    if isinstance(rule, Refusal):
        return rule
    held_count = coupons.count_of(conn, campaign_id, member_id)
    if rule.per_member_per_day is not None and held_count:
        # The copy does not say on which day they came.
        return refuse(RefusalCode.NEEDS_ONLINE, campaign=campaign_id, member=member_id)
    facts = ClaimFacts(
        campaign_id=campaign_id,
        rule=rule,
        campaign_state=campaign.state,
        member_id=member_id,
        member_tier=member.tier,
        held_count=held_count,
        available=lent,
    )
    decided = decide_claim(facts, now=site.now, chain_zone=site.chain.zone)
    return decided if isinstance(decided, Refusal) else (decided, campaign.snapshot_id)
