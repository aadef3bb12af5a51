"""When a coupon may be taken without a right: each limit at its edge and one beyond."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.refusals import RefusalCode, refuse
from app.domain.risk import IN_A_ROW_MAX, PER_MEMBER_MAX, RiskFacts, RiskRoom, RiskTerms, risk_reason, room_reason

NOON = datetime(2026, 6, 1, 4, 0, tzinfo=UTC)
TERMS = RiskTerms(2_000, timedelta(hours=24))
GOOD = RiskFacts(left_minor=1, in_a_row=0, of_member=0, last_sync_at=NOON, now=NOON)


def test_a_manager_may_approve_while_everything_holds() -> None:
    edge = replace(
        GOOD,
        in_a_row=IN_A_ROW_MAX - 1,
        of_member=PER_MEMBER_MAX - 1,
        last_sync_at=NOON - timedelta(hours=24),
    )

    assert risk_reason(TERMS, edge) is None


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        (replace(GOOD, left_minor=None), refuse(RefusalCode.NEEDS_ONLINE)),
        (replace(GOOD, left_minor=0), refuse(RefusalCode.RISK_SPENT, left_minor=0)),
        (replace(GOOD, in_a_row=10), refuse(RefusalCode.RISK_LIMIT, in_a_row=10)),
        (replace(GOOD, of_member=3), refuse(RefusalCode.RISK_LIMIT, per_member=3)),
        (replace(GOOD, last_sync_at=None), refuse(RefusalCode.RISK_LIMIT, sync_age_max_h=24)),
        (
            replace(GOOD, last_sync_at=NOON - timedelta(hours=24, microseconds=1)),
            refuse(RefusalCode.RISK_LIMIT, sync_age_max_h=24),
        ),
    ],
)
def test_one_beyond_a_limit_is_refused_by_its_name(facts: RiskFacts, refusal: object) -> None:
    assert risk_reason(TERMS, facts) == refusal


def test_a_campaign_may_want_a_fresher_sync() -> None:
    hour = RiskTerms(2_000, timedelta(hours=1))

    assert risk_reason(hour, replace(GOOD, last_sync_at=NOON - timedelta(hours=1))) is None
    assert risk_reason(hour, replace(GOOD, last_sync_at=NOON - timedelta(hours=2))) is not None


def test_one_coupon_takes_off_what_its_campaign_allows_at_most() -> None:
    room = RiskRoom(each_minor=2_000, left_minor=9_000)

    assert room_reason(room, 2_000, spent_minor=0) is None
    assert room_reason(room, 2_001, spent_minor=0) == refuse(RefusalCode.RISK_LIMIT, max_minor=2_000, off_minor=2_001)


def test_all_coupons_of_an_order_together_spend_what_is_left_at_most() -> None:
    room = RiskRoom(each_minor=2_000, left_minor=3_000)

    assert room_reason(room, 1_000, spent_minor=2_000) is None
    assert room_reason(room, 1_001, spent_minor=2_000) == refuse(
        RefusalCode.RISK_SPENT, left_minor=1_000, off_minor=1_001
    )
