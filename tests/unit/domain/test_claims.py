"""Claims: window, pause, tier, limits, stock; the first reason is the one told."""

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from app.domain.claims import ClaimFacts, Grant, decide_claim
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rules import Kind
from tests.unit.domain.shop import NOW, off

FACTS = ClaimFacts("c1", off(), "ACTIVE", "m1", "basic")


def decided(facts: ClaimFacts) -> Grant | Refusal:
    return decide_claim(facts, now=NOW, chain_zone=ZoneInfo("Asia/Shanghai"))


def test_a_first_claim_is_granted() -> None:
    assert decided(FACTS) == Grant(1, None)


def test_a_grant_says_when_the_coupon_ends() -> None:
    assert decided(replace(FACTS, rule=off(valid_days=7))) == Grant(1, NOW + timedelta(days=7))


def test_a_campaign_that_does_not_run_gives_nothing() -> None:
    assert decided(replace(FACTS, campaign_state="PAUSED")) == refuse(RefusalCode.CAMPAIGN_PAUSED, campaign="c1")
    assert decided(replace(FACTS, rule=off(until_at=NOW))) == refuse(RefusalCode.CAMPAIGN_ENDED, campaign="c1")


def test_an_automatic_promotion_has_no_coupons_to_claim() -> None:
    found = decided(replace(FACTS, rule=off(kind=Kind.AUTOMATIC)))

    assert found == refuse(RefusalCode.INVALID_CAMPAIGN, campaign="c1", field="kind")


def test_a_claim_needs_the_tier() -> None:
    gold = replace(FACTS, rule=off(tiers=frozenset({"gold", "silver"})))

    assert decided(gold) == refuse(RefusalCode.WRONG_TIER, tier="basic", tiers=["gold", "silver"])
    assert isinstance(decided(replace(gold, member_tier="gold")), Grant)


def test_a_member_has_its_one() -> None:
    assert decided(replace(FACTS, held_count=1)) == refuse(RefusalCode.ALREADY_CLAIMED, campaign="c1", limit=1)


@pytest.mark.parametrize("held", [0, 2])
def test_a_member_may_have_as_many_as_the_limit_says(held: int) -> None:
    assert decided(replace(FACTS, rule=off(per_member=3), held_count=held)) == Grant(held + 1, None)


def test_a_member_that_has_its_n_gets_no_more() -> None:
    found = decided(replace(FACTS, rule=off(per_member=3), held_count=3))

    assert found == refuse(RefusalCode.LIMIT_REACHED, campaign="c1", limit=3)


def test_a_day_has_a_limit_of_its_own() -> None:
    facts = replace(FACTS, rule=off(per_member=9, per_member_per_day=2), held_count=2)

    assert isinstance(decided(replace(facts, held_today_count=1)), Grant)
    assert decided(replace(facts, held_today_count=2)) == refuse(
        RefusalCode.LIMIT_REACHED, campaign="c1", limit_per_day=2
    )


def test_the_last_of_the_stock_is_granted_and_then_it_is_out() -> None:
    assert isinstance(decided(replace(FACTS, available=1)), Grant)
    assert decided(replace(FACTS, available=0)) == refuse(RefusalCode.OUT_OF_STOCK, campaign="c1")


def test_reasons_come_in_the_order_of_the_rules() -> None:
    rule = off(kind=Kind.AUTOMATIC, tiers=frozenset({"gold"}), per_member_per_day=1)
    facts = replace(FACTS, rule=rule, campaign_state="ENDED", held_count=1, held_today_count=1, available=0)
    cures: list[dict[str, object]] = [
        {"campaign_state": "ACTIVE"},
        {"rule": replace(rule, kind=Kind.COUPON)},
        {"member_tier": "gold"},
        {"held_count": 0},
        {"held_today_count": 0},
        {"available": None},
    ]

    found = [decided(facts)]
    for cure in cures:
        facts = replace(facts, **cure)
        found.append(decided(facts))

    assert [reason.code.value if isinstance(reason, Refusal) else "granted" for reason in found] == [
        "campaign_ended",
        "invalid_campaign",
        "wrong_tier",
        "already_claimed",
        "limit_reached",
        "out_of_stock",
        "granted",
    ]
