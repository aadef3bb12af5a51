"""Refusals: a closed set of codes, values with facts, the same on every wire."""

import pytest

from app.domain.refusals import Refusal, RefusalCode, refuse, unknown

CODES = """
unknown_code unreadable_code forged_code not_started expired revoked campaign_paused campaign_ended already_used frozen
wrong_store wrong_member wrong_tier wrong_time below_minimum nothing_eligible not_stackable already_claimed
limit_reached out_of_stock budget_spent not_first_order needs_member busy invalid_quantity invalid_amount
insufficient_balance insufficient_uses needs_online leased_elsewhere illegal_transition not_allowed needs_approval
not_refundable payment_mismatch rate_limited invalid_campaign duplicate_mismatch risk_spent risk_limit wrong_pin
pin_locked
"""


def test_a_refusal_is_written_as_code_and_facts_and_read_back() -> None:
    refused = refuse(RefusalCode.BELOW_MINIMUM, coupon="k1", missing_minor=5)

    assert refused.to_json() == {"code": "below_minimum", "facts": {"coupon": "k1", "missing_minor": 5}}
    assert Refusal.from_json(refused.to_json()) == refused


@pytest.mark.parametrize("facts", [None, [], "x"])
def test_facts_that_are_no_table_are_none(facts: object) -> None:
    assert Refusal.from_json({"code": "busy", "facts": facts}) == Refusal(RefusalCode.BUSY)
    assert Refusal.from_json({"code": "busy"}) == Refusal(RefusalCode.BUSY)


def test_a_code_of_a_later_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="no_such_code"):
        Refusal.from_json({"code": "no_such_code", "facts": {}})


def test_what_was_written_is_a_copy_of_the_facts() -> None:
    refused = refuse(RefusalCode.BUSY, retry_after_s=1)

    written = refused.to_json()["facts"]

    assert written == refused.facts
    assert written is not refused.facts


def test_the_codes_are_those_of_the_rules() -> None:
    # They are stored and travel: a name that changes breaks every ledger written before.
    assert {code.value for code in RefusalCode} == set(CODES.split())


def test_a_name_that_nothing_has_is_refused_with_what_it_should_name() -> None:
    assert unknown("order", "o9") == refuse(RefusalCode.UNKNOWN_CODE, kind="order", id="o9")
