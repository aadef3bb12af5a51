"""Judge everything about a coupon or promotion that does not look at amounts: state, time, place and person.

The reasons come in the order of RULES, "Stacking": state, window, campaign paused, place, tier, person, time.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from app.domain.facts import CouponFacts, MemberFacts, Place, PromotionFacts
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rules import Hours, Rule


def coupon_valid_until(rule: Rule, *, claimed_at: datetime, chain_zone: tzinfo) -> datetime | None:
    """Return the end of a coupon claimed at `claimed_at` (UTC): the earlier of `until` and `valid_days`; None = no end.

    `valid_days` ends at the same local clock time that many calendar days later in the chain's zone, so a change to
    summer time moves no deadline on the wall clock.
    """
    if not rule.valid_days:
        return rule.until_at
    ends_at = _days_later(claimed_at, rule.valid_days, chain_zone)
    return min(rule.until_at, ends_at) if rule.until_at else ends_at


@lru_cache(64)
def _days_later(instant: datetime, days: int, zone: tzinfo) -> datetime:
    # Kept, since a batch of claims asks for one instant and one campaign hundreds of times.
    local = instant.astimezone(zone).replace(tzinfo=None) + timedelta(days=days)
    return local.replace(tzinfo=zone).astimezone(UTC)


def read_state(state: str, valid_until_at: datetime | None, now: datetime) -> str:
    """Return the state as a person reads it: an ISSUED coupon past its window is EXPIRED, written or not."""
    return "EXPIRED" if state == "ISSUED" and valid_until_at is not None and now >= valid_until_at else state


def within_hours(hours: Hours | None, weekdays: frozenset[int], local: datetime) -> bool:
    """Tell whether the store's local time is within the hours of the weekdays (Monday = 0; empty = every day).

    A window over midnight belongs to the weekday on which it began.
    """
    minute = local.hour * 60 + local.minute
    weekday = local.weekday()
    if hours is not None:
        if hours.start_min < hours.end_min:
            if not hours.start_min <= minute < hours.end_min:
                return False
        elif minute < hours.end_min:
            weekday = (weekday - 1) % 7
        elif minute < hours.start_min:
            return False
    return not weekdays or weekday in weekdays


def coupon_reason(
    coupon: CouponFacts, *, place: Place, now: datetime, order_id: str, member: MemberFacts | None
) -> Refusal | None:
    """Return the first reason against using this coupon in this order that does not look at amounts; None = none."""
    rule = coupon.rule
    return (
        own_reason(coupon, now, order_id=order_id)
        or coupon.blocked
        or _place(rule, place)
        or _tier(rule, member)
        or _wrong_member(coupon, member)
        or _first_order(rule, member)
        or _time(rule, place, now)
    )


def own_reason(coupon: CouponFacts, now: datetime, *, order_id: str) -> Refusal | None:
    """Return the reason that lies in the coupon itself: its state, its window, its campaign's emergency brake."""
    facts = {"coupon": coupon.id, **coupon.state_facts}
    state = read_state(coupon.state, coupon.valid_until_at, now)
    if state == "USED":
        return Refusal(RefusalCode.ALREADY_USED, {"order": coupon.order_id, **facts})
    if state == "FROZEN" and coupon.order_id != order_id:
        return Refusal(RefusalCode.FROZEN, {"order": coupon.order_id, **facts})
    if state == "REVOKED":
        return Refusal(RefusalCode.REVOKED, facts)
    if state == "EXPIRED":
        until = coupon.valid_until_at.isoformat() if coupon.valid_until_at else None
        return Refusal(RefusalCode.EXPIRED, {"until_at": until, **facts})
    starts = max((at for at in (coupon.rule.from_at, coupon.rule.use_from_at) if at), default=None)
    if starts is not None and now < starts:
        return refuse(RefusalCode.NOT_STARTED, coupon=coupon.id, from_at=starts.isoformat())
    if coupon.campaign_state == "PAUSED":
        return refuse(RefusalCode.CAMPAIGN_PAUSED, coupon=coupon.id, campaign=coupon.campaign_id)
    return None


def promotion_reason(
    promotion: PromotionFacts, place: Place, now: datetime, *, member: MemberFacts | None
) -> Refusal | None:
    """Return the first reason against an automatic promotion that does not look at amounts; None = none."""
    rule = promotion.rule
    return (
        promotion.blocked
        or campaign_reason(promotion.campaign_id, rule, state=promotion.campaign_state, now=now)
        or _place(rule, place)
        or _tier(rule, member)
        or _first_order(rule, member)
        or _time(rule, place, now)
    )


def campaign_reason(campaign_id: str, rule: Rule, *, state: str, now: datetime) -> Refusal | None:
    """Return why a campaign gives nothing at this instant: not started, ended or paused; None = it is running.

    Time goes before the written state, so the answer is right before the patrol job has run (REQUIREMENTS B3).
    """
    if state == "DRAFT" or (rule.from_at is not None and now < rule.from_at):
        return refuse(
            RefusalCode.NOT_STARTED,
            campaign=campaign_id,
            from_at=rule.from_at.isoformat() if rule.from_at else None,
        )
    if state == "SCHEDULED" and rule.from_at is None:
        return refuse(RefusalCode.NOT_STARTED, campaign=campaign_id, from_at=None)
    if state == "ENDED" or (rule.until_at is not None and now >= rule.until_at):
        return refuse(RefusalCode.CAMPAIGN_ENDED, campaign=campaign_id)
    if state == "PAUSED":
        return refuse(RefusalCode.CAMPAIGN_PAUSED, campaign=campaign_id)
    return None


def _place(rule: Rule, place: Place) -> Refusal | None:
    if rule.stores and place.store_id not in rule.stores:
        return refuse(RefusalCode.WRONG_STORE, store=place.store_id, stores=sorted(rule.stores))
    return None


def _tier(rule: Rule, member: MemberFacts | None) -> Refusal | None:
    if not rule.tiers:
        return None
    if member is None:
        return refuse(RefusalCode.NEEDS_MEMBER, tiers=sorted(rule.tiers))
    if member.tier not in rule.tiers:
        return refuse(RefusalCode.WRONG_TIER, tier=member.tier, tiers=sorted(rule.tiers))
    return None


def _wrong_member(coupon: CouponFacts, member: MemberFacts | None) -> Refusal | None:
    if coupon.member_id is None or (member is not None and member.id == coupon.member_id):
        return None
    if member is None:
        return refuse(RefusalCode.NEEDS_MEMBER, coupon=coupon.id)
    return refuse(RefusalCode.WRONG_MEMBER, coupon=coupon.id)


def _first_order(rule: Rule, member: MemberFacts | None) -> Refusal | None:
    if not rule.first_order:
        return None
    if member is None:
        return refuse(RefusalCode.NEEDS_MEMBER, first_order=True)
    if member.has_ordered:
        return refuse(RefusalCode.NOT_FIRST_ORDER, member=member.id)
    return None


def _time(rule: Rule, place: Place, now: datetime) -> Refusal | None:
    if within_hours(rule.hours, rule.weekdays, now.astimezone(place.zone)):
        return None
    return refuse(RefusalCode.WRONG_TIME, at=now.astimezone(place.zone).isoformat())
