"""Conditions that look at no amount: state, window, place, tier, member, hours; and the first of several reasons."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from app.domain.conditions import (
    campaign_reason,
    coupon_reason,
    coupon_valid_until,
    own_reason,
    promotion_reason,
    read_state,
    within_hours,
)
from app.domain.facts import CouponFacts, MemberFacts, Place, PromotionFacts
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.rules import Hours
from tests.unit.domain.shop import MEMBER, NOW, coupon, off, promotion

TICK = timedelta(microseconds=1)
PLACE = Place("s1", timezone(timedelta(hours=8)))
SHANGHAI, BERLIN = ZoneInfo("Asia/Shanghai"), ZoneInfo("Europe/Berlin")


def why(found: CouponFacts, *, member: MemberFacts | None = MEMBER, place: Place = PLACE, now: datetime = NOW):
    return coupon_reason(found, place=place, now=now, order_id="o1", member=member)


def why_not(found: PromotionFacts, *, member: MemberFacts | None = MEMBER, place: Place = PLACE, now: datetime = NOW):
    return promotion_reason(found, place, now, member=member)


# ---- the window of a coupon


def test_a_plain_coupon_has_no_reason_against_it_and_no_end() -> None:
    assert why(coupon()) is None
    assert coupon_valid_until(off(), claimed_at=NOW, chain_zone=SHANGHAI) is None


def test_valid_days_end_at_the_same_clock_time_that_many_days_later() -> None:
    claimed_at = datetime(2026, 3, 27, 15, 30, tzinfo=UTC)

    end = coupon_valid_until(off(valid_days=3), claimed_at=claimed_at, chain_zone=BERLIN)

    # 16:30 in winter is 16:30 in summer, an hour earlier in UTC.
    assert end == datetime(2026, 3, 30, 14, 30, tzinfo=UTC)
    assert end.tzinfo is UTC


@pytest.mark.parametrize(("days", "ends_first"), [(1, "days"), (3, "until")])
def test_with_until_and_valid_days_the_earlier_ends_it(days: int, ends_first: str) -> None:
    until_at = NOW + timedelta(days=2)

    end = coupon_valid_until(off(valid_days=days, until_at=until_at), claimed_at=NOW, chain_zone=SHANGHAI)

    assert end == (until_at if ends_first == "until" else NOW + timedelta(days=days))


def test_until_alone_ends_a_coupon() -> None:
    assert coupon_valid_until(off(until_at=NOW), claimed_at=NOW, chain_zone=SHANGHAI) == NOW


@pytest.mark.parametrize(
    ("state", "until_at", "read"),
    [
        ("ISSUED", NOW, "EXPIRED"),
        ("ISSUED", NOW + TICK, "ISSUED"),
        ("ISSUED", None, "ISSUED"),
        ("FROZEN", NOW, "FROZEN"),
        ("USED", NOW, "USED"),
    ],
)
def test_an_issued_coupon_past_its_window_reads_expired_and_a_frozen_one_does_not(
    state: str, until_at: datetime | None, read: str
) -> None:
    assert read_state(state, until_at, NOW) == read


# ---- the coupon itself


def test_a_used_coupon_names_its_order_and_where_and_when() -> None:
    used = coupon(state="USED", order_id="o9", state_facts={"store": "s2", "at": "x"})

    assert why(used) == Refusal(RefusalCode.ALREADY_USED, {"order": "o9", "coupon": "k1", "store": "s2", "at": "x"})


def test_a_coupon_used_by_this_very_order_is_used() -> None:
    assert why(coupon(state="USED", order_id="o1")).code is RefusalCode.ALREADY_USED


def test_a_coupon_is_frozen_for_other_orders_only() -> None:
    assert why(coupon(state="FROZEN", order_id="o1")) is None
    assert why(coupon(state="FROZEN", order_id="o2")) == refuse(RefusalCode.FROZEN, order="o2", coupon="k1")


def test_a_frozen_coupon_past_its_window_is_still_good_for_its_order() -> None:
    assert why(coupon(state="FROZEN", order_id="o1", valid_until_at=NOW)) is None


def test_a_revoked_coupon_is_revoked() -> None:
    assert why(coupon(state="REVOKED", state_facts={"since": "x"})) == refuse(
        RefusalCode.REVOKED, coupon="k1", since="x"
    )


def test_a_coupon_ends_at_its_instant() -> None:
    assert why(coupon(valid_until_at=NOW + TICK)) is None
    assert why(coupon(valid_until_at=NOW)) == refuse(RefusalCode.EXPIRED, until_at=NOW.isoformat(), coupon="k1")


def test_a_coupon_written_down_as_expired_is_so_without_an_end_too() -> None:
    assert why(coupon(state="EXPIRED")) == refuse(RefusalCode.EXPIRED, until_at=None, coupon="k1")


@pytest.mark.parametrize("key", ["from_at", "use_from_at"])
def test_a_coupon_starts_at_its_instant(key: str) -> None:
    assert why(coupon(rule=off(**{key: NOW}))) is None
    assert why(coupon(rule=off(**{key: NOW + TICK}))) == refuse(
        RefusalCode.NOT_STARTED, coupon="k1", from_at=(NOW + TICK).isoformat()
    )


def test_of_two_starts_the_later_counts() -> None:
    refused = why(coupon(rule=off(from_at=NOW + TICK, use_from_at=NOW + 2 * TICK)))

    assert refused.facts["from_at"] == (NOW + 2 * TICK).isoformat()


def test_a_paused_campaign_stops_its_coupons_and_an_ended_one_does_not() -> None:
    assert why(coupon(campaign_state="PAUSED")) == refuse(RefusalCode.CAMPAIGN_PAUSED, coupon="k1", campaign="c-k1")
    assert why(coupon(campaign_state="ENDED")) is None


def test_the_reason_of_the_coupon_itself_can_be_asked_alone() -> None:
    blocked = coupon(rule=off(stores=frozenset({"s9"})), blocked=refuse(RefusalCode.NEEDS_ONLINE))

    assert own_reason(blocked, NOW, order_id="o1") is None


# ---- place, tier, person


def test_a_coupon_holds_in_the_stores_that_it_names() -> None:
    assert why(coupon(rule=off(stores=frozenset({"s1", "s2"})))) is None
    assert why(coupon(rule=off(stores=frozenset({"s3", "s2"})))) == refuse(
        RefusalCode.WRONG_STORE, store="s1", stores=["s2", "s3"]
    )


def test_a_tier_needs_a_member_of_that_tier() -> None:
    gold = coupon(rule=off(tiers=frozenset({"gold", "basic+"})))

    assert why(gold, member=MemberFacts("m1", "gold")) is None
    assert why(gold) == refuse(RefusalCode.WRONG_TIER, tier="basic", tiers=["basic+", "gold"])
    assert why(gold, member=None) == refuse(RefusalCode.NEEDS_MEMBER, tiers=["basic+", "gold"])


def test_a_coupon_is_for_its_member() -> None:
    assert why(coupon(member_id="m1")) is None
    assert why(coupon(member_id="m2")) == refuse(RefusalCode.WRONG_MEMBER, coupon="k1")
    assert why(coupon(member_id="m1"), member=None) == refuse(RefusalCode.NEEDS_MEMBER, coupon="k1")


def test_a_bearer_coupon_is_for_anyone() -> None:
    assert why(coupon(member_id=None)) is None
    assert why(coupon(member_id=None), member=None) is None


def test_a_first_order_needs_a_member_without_orders() -> None:
    first = coupon(rule=off(first_order=True))

    assert why(first) is None
    assert why(first, member=MemberFacts("m1", has_ordered=True)) == refuse(RefusalCode.NOT_FIRST_ORDER, member="m1")
    assert why(first, member=None) == refuse(RefusalCode.NEEDS_MEMBER, first_order=True)
    assert why(coupon(), member=MemberFacts("m1", has_ordered=True)) is None


# ---- hours and weekdays


def local(text: str) -> datetime:
    """Return a local time in the week of Monday, 1 June 2026."""
    return datetime.fromisoformat(f"2026-06-{text}")


@pytest.mark.parametrize(
    ("at", "within"), [("01T13:59", False), ("01T14:00", True), ("01T15:59", True), ("01T16:00", False)]
)
def test_hours_begin_with_their_first_minute_and_end_before_their_last(at: str, within: bool) -> None:
    assert within_hours(Hours(14 * 60, 16 * 60), frozenset(), local(at)) is within


@pytest.mark.parametrize(
    ("at", "within"),
    [("01T21:59", False), ("01T22:00", True), ("02T00:00", True), ("02T01:59", True), ("02T02:00", False)],
)
def test_hours_may_cross_midnight(at: str, within: bool) -> None:
    assert within_hours(Hours(22 * 60, 2 * 60), frozenset(), local(at)) is within


@pytest.mark.parametrize(("at", "within"), [("01T23:59", True), ("02T00:00", False), ("01T22:00", True)])
def test_hours_may_last_until_midnight(at: str, within: bool) -> None:
    assert within_hours(Hours(22 * 60, 1440), frozenset(), local(at)) is within
    assert within_hours(Hours(22 * 60, 0), frozenset(), local(at)) is within


@pytest.mark.parametrize(
    ("at", "within"), [("01T00:00", True), ("01T23:59", True), ("02T00:00", False), ("07T12:00", False)]
)
def test_weekdays_hold_from_midnight_to_midnight(at: str, within: bool) -> None:
    assert within_hours(None, frozenset({0}), local(at)) is within


@pytest.mark.parametrize(
    ("at", "within"),
    [
        ("01T01:00", False),
        ("01T22:30", True),
        ("02T01:00", True),
        ("02T22:30", False),
        ("01T12:00", False),
    ],
)
def test_a_window_over_midnight_belongs_to_the_day_on_which_it_began(at: str, within: bool) -> None:
    assert within_hours(Hours(22 * 60, 2 * 60), frozenset({0}), local(at)) is within


def test_the_night_into_monday_belongs_to_sunday() -> None:
    assert within_hours(Hours(22 * 60, 2 * 60), frozenset({6}), local("01T01:00"))


def test_hours_count_in_the_zone_of_the_store() -> None:
    rule = off(hours=Hours(10 * 60, 11 * 60))

    assert why(coupon(rule=rule)) is None
    assert why(coupon(rule=rule), place=Place("s1", UTC)) == refuse(RefusalCode.WRONG_TIME, at=NOW.isoformat())


def test_the_wrong_time_is_told_in_the_zone_of_the_store() -> None:
    assert why(coupon(rule=off(weekdays=frozenset({1})))).facts == {"at": "2026-06-01T10:00:00+08:00"}


# ---- the first of several reasons


def test_reasons_come_in_the_order_of_the_rules() -> None:
    rule = off(
        stores=frozenset({"s9"}),
        tiers=frozenset({"gold"}),
        first_order=True,
        weekdays=frozenset({1}),
        from_at=NOW + TICK,
    )
    all_wrong = {
        "rule": rule,
        "state": "REVOKED",
        "campaign_state": "PAUSED",
        "blocked": refuse(RefusalCode.NEEDS_ONLINE),
        "member_id": "m2",
    }
    ordered = MemberFacts("m1", has_ordered=True)
    cures: list[dict[str, object]] = [
        {"state": "ISSUED"},
        {"rule": off(stores=rule.stores, tiers=rule.tiers, first_order=True, weekdays=rule.weekdays)},
        {"campaign_state": "ACTIVE"},
        {"blocked": None},
        {"rule": off(tiers=rule.tiers, first_order=True, weekdays=rule.weekdays)},
        {"rule": off(first_order=True, weekdays=rule.weekdays)},
        {"member_id": None},
        {"rule": off(weekdays=rule.weekdays)},
        {"rule": off()},
    ]

    found = [why(coupon("k1", **all_wrong), member=ordered)]
    for cure in cures:
        all_wrong.update(cure)
        found.append(why(coupon("k1", **all_wrong), member=ordered))

    assert [reason and reason.code.value for reason in found] == [
        "revoked",
        "not_started",
        "campaign_paused",
        "needs_online",
        "wrong_store",
        "wrong_tier",
        "wrong_member",
        "not_first_order",
        "wrong_time",
        None,
    ]


# ---- promotions and campaigns


@pytest.mark.parametrize(
    ("state", "rule", "code"),
    [
        ("ACTIVE", {}, None),
        ("DRAFT", {}, "not_started"),
        ("SCHEDULED", {}, "not_started"),
        ("SCHEDULED", {"from_at": NOW}, None),
        ("SCHEDULED", {"from_at": NOW + TICK}, "not_started"),
        ("ACTIVE", {"from_at": NOW + TICK}, "not_started"),
        ("PAUSED", {}, "campaign_paused"),
        ("PAUSED", {"until_at": NOW}, "campaign_ended"),
        ("ENDED", {}, "campaign_ended"),
        ("ACTIVE", {"until_at": NOW}, "campaign_ended"),
        ("ACTIVE", {"until_at": NOW + TICK}, None),
        ("DRAFT", {"from_at": NOW - TICK}, "not_started"),
    ],
)
def test_time_goes_before_the_written_state_of_a_campaign(
    state: str, rule: dict[str, datetime], code: str | None
) -> None:
    reason = campaign_reason("c1", off(**rule), state=state, now=NOW)

    assert (reason and reason.code.value) == code
    assert reason is None or reason.facts["campaign"] == "c1"


def test_a_campaign_that_has_not_started_says_when_it_does() -> None:
    later = NOW + TICK

    assert campaign_reason("c1", off(from_at=later), state="ACTIVE", now=NOW).facts["from_at"] == later.isoformat()
    assert campaign_reason("c1", off(), state="DRAFT", now=NOW).facts == {"campaign": "c1", "from_at": None}
    assert campaign_reason("c1", off(), state="SCHEDULED", now=NOW).facts == {"campaign": "c1", "from_at": None}


def test_reasons_against_a_promotion_come_in_the_same_order() -> None:
    ordered = MemberFacts("m1", has_ordered=True)
    keys: dict[str, object] = {
        "stores": frozenset({"s9"}),
        "tiers": frozenset({"gold"}),
        "first_order": True,
        "weekdays": frozenset({1}),
    }
    found = [
        why_not(
            promotion("p1", off(**keys), campaign_state="PAUSED", blocked=refuse(RefusalCode.NEEDS_ONLINE)),
            member=ordered,
        ),
        why_not(promotion("p1", off(**keys), campaign_state="PAUSED"), member=ordered),
    ]
    for key in ("stores", "tiers", "first_order", "weekdays"):
        found.append(why_not(promotion("p1", off(**keys)), member=ordered))
        del keys[key]
    found.append(why_not(promotion("p1", off(**keys)), member=ordered))

    assert [reason and reason.code.value for reason in found] == [
        "needs_online",
        "campaign_paused",
        "wrong_store",
        "wrong_tier",
        "not_first_order",
        "wrong_time",
        None,
    ]
