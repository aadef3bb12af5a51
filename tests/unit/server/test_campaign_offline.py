"""What a campaign may say about tills that cannot ask."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode
from server.services.campaign_offline import RISK, Terms, take_terms

CNY = Currency.of("CNY")
LEASE = Terms("lease")


def test_a_risk_has_its_price_and_an_age_by_default() -> None:
    assert take_terms({"offline": "risk", "risk_max": "20.00"}, LEASE, CNY) == Terms(RISK, 2_000, 24)


def test_what_is_not_named_stays() -> None:
    old, asked = Terms(RISK, 2_000, 12), {"name": "x"}

    assert take_terms(asked, old, CNY) == old
    assert take_terms({"risk_max": "5.00"}, old, CNY) == Terms(RISK, 500, 12)
    assert take_terms({"offline": "lease"}, old, CNY) == LEASE
    assert asked == {"name": "x"}


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"offline": "risk"}, "risk_max"),
        ({"offline": "risk", "risk_max": "0.00"}, "risk_max"),
        ({"offline": "risk", "risk_max": "-1.00"}, "risk_max"),
        ({"offline": "risk", "risk_max": 5}, "risk_max"),
        ({"risk_max": "5.00"}, "risk_max"),
        ({"sync_age_max_h": 5}, "sync_age_max_h"),
        ({"offline": "risk", "risk_max": "5.00", "sync_age_max_h": 73}, "sync_age_max_h"),
        ({"offline": "risk", "risk_max": "5.00", "sync_age_max_h": 0}, "sync_age_max_h"),
        ({"offline": "risk", "risk_max": "5.00", "sync_age_max_h": True}, "sync_age_max_h"),
        ({"offline": "always"}, "offline"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(keys: dict[str, Any], field: str) -> None:
    refused = take_terms(dict(keys), LEASE, CNY)

    assert isinstance(refused, Refusal)
    assert (refused.code, refused.facts["field"]) == (RefusalCode.INVALID_CAMPAIGN, field)
