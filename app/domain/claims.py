"""Decide whether a member may have a coupon (RULES, "Conditions": window, tier, member and limits at the claim)."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from app.domain.conditions import campaign_reason, coupon_valid_until
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rules import Kind, Rule


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """Gather what a claim depends on.

    `held_count` counts the coupons of this campaign that the member ever got, `held_today_count` those of today's date
    in the chain's zone. `available` None = the campaign has no stock to run out of. The numbers only spare work: the
    database's unique index and conditional update decide (DESIGN, "The one idea").
    """

    campaign_id: str
    rule: Rule
    campaign_state: str
    member_id: str
    member_tier: str
    held_count: int = 0
    held_today_count: int = 0
    available: int | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """Allow the claim: the member's `nth` coupon of the campaign (from 1); `valid_until_at` None = without end."""

    nth: int
    valid_until_at: datetime | None


def decide_claim(facts: ClaimFacts, *, now: datetime, chain_zone: tzinfo) -> Grant | Refusal:
    """Return the grant, or the first reason against it: window, pause, tier, limits, stock."""
    rule = facts.rule
    reason = campaign_reason(facts.campaign_id, rule, state=facts.campaign_state, now=now)
    if reason is not None:
        return reason
    if rule.kind is not Kind.COUPON:
        return refuse(RefusalCode.INVALID_CAMPAIGN, campaign=facts.campaign_id, field="kind")
    if rule.tiers and facts.member_tier not in rule.tiers:
        return refuse(RefusalCode.WRONG_TIER, tier=facts.member_tier, tiers=sorted(rule.tiers))
    if facts.held_count >= rule.per_member:
        code = RefusalCode.ALREADY_CLAIMED if rule.per_member == 1 else RefusalCode.LIMIT_REACHED
        return refuse(code, campaign=facts.campaign_id, limit=rule.per_member)
    if rule.per_member_per_day is not None and facts.held_today_count >= rule.per_member_per_day:
        return refuse(RefusalCode.LIMIT_REACHED, campaign=facts.campaign_id, limit_per_day=rule.per_member_per_day)
    if facts.available is not None and facts.available < 1:
        return refuse(RefusalCode.OUT_OF_STOCK, campaign=facts.campaign_id)
    return Grant(facts.held_count + 1, coupon_valid_until(rule, claimed_at=now, chain_zone=chain_zone))
