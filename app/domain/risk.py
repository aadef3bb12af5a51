"""Decide whether a till may take a coupon without a right to it (PROTOCOL 1.2, "risk budget"). Pure.

A risk is spent from a lease in money, so all that is ever accepted without a right is at most what was leased for it.
What stands here besides keeps a bad day small: so much for one coupon, so many in a row and for one member without the
server having seen any of them, none once the last sync is too old, and another person for each.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from app.domain.refusals import Refusal, RefusalCode, refuse

IN_A_ROW_MAX = 10
"""Risks that the server has not acknowledged yet."""
PER_MEMBER_MAX = 3
"""Of these, for coupons of one member."""
SYNC_AGE_MAX_H = 24
"""Hours since the last sync, where the campaign says nothing else."""


@dataclass(frozen=True, slots=True)
class RiskTerms:
    """Hold what a campaign allows: `max_minor` for one coupon, and how old the last sync may be."""

    max_minor: int
    sync_age_max: timedelta


@dataclass(frozen=True, slots=True)
class RiskFacts:
    """Gather what a till knows.

    `left_minor` of its risk budget, None = it has none. `in_a_row` and `of_member` count the risks of which the server
    has not heard, without the coupon in question. `last_sync_at` None = never.
    """

    left_minor: int | None
    in_a_row: int
    of_member: int
    last_sync_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True)
class RiskRoom:
    """Bound what coupons that were approved may take off: each alone, and all of the order together (minor units)."""

    each_minor: int
    left_minor: int


def risk_reason(terms: RiskTerms, facts: RiskFacts) -> Refusal | None:
    """Return why the coupon cannot be taken at a risk now, None = it can, if a manager approves.

    `needs_online` where this till takes no risk at all; then `risk_limit` by the limit that is reached, `risk_spent`.
    """
    if facts.left_minor is None:
        return refuse(RefusalCode.NEEDS_ONLINE)
    if facts.last_sync_at is None or facts.now - facts.last_sync_at > terms.sync_age_max:
        hours = int(terms.sync_age_max / timedelta(hours=1))
        return refuse(RefusalCode.RISK_LIMIT, sync_age_max_h=hours)
    if facts.in_a_row >= IN_A_ROW_MAX:
        return refuse(RefusalCode.RISK_LIMIT, in_a_row=IN_A_ROW_MAX)
    if facts.of_member >= PER_MEMBER_MAX:
        return refuse(RefusalCode.RISK_LIMIT, per_member=PER_MEMBER_MAX)
    if facts.left_minor < 1:
        return refuse(RefusalCode.RISK_SPENT, left_minor=0)
    return None


def room_reason(room: RiskRoom, off_minor: int, *, spent_minor: int) -> Refusal | None:
    """Return why a coupon cannot take `off_minor` off, where others of the order have spent `spent_minor` already."""
    if off_minor > room.each_minor:
        return refuse(RefusalCode.RISK_LIMIT, max_minor=room.each_minor, off_minor=off_minor)
    if spent_minor + off_minor > room.left_minor:
        return refuse(RefusalCode.RISK_SPENT, left_minor=room.left_minor - spent_minor, off_minor=off_minor)
    return None
