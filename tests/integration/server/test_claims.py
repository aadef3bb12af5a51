"""Claims over HTTP: a coupon or a reason, the same answer for the same request. Races: test_grants.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headquarters import Headquarters


@pytest.fixture
def app_key(headquarters: Headquarters) -> str:
    return headquarters.new_key("app")


def _ask(
    headquarters: Headquarters, key: str, request: str, *, member: str = "m1", campaign: str = "c1", **more: Any
) -> dict[str, Any]:
    body = {"request": request, "campaign": campaign, "member": member, **more}
    return headquarters.call("POST", "/v1/claims", body, key=key)


def test_a_claim_grants_a_coupon_with_a_code_and_its_end(headquarters: Headquarters, app_key: str) -> None:
    headquarters.campaign(stock=2, valid_days=7)

    answer = _ask(headquarters, app_key, "r1", source="banner")

    assert answer["outcome"] == "ok"
    assert (answer["state"], answer["remaining"], answer["source"]) == ("ISSUED", 1, "banner")
    assert len(answer["code"]) == 16
    assert answer["valid_until_at"] == "2026-06-08T02:00:00+00:00"


def test_a_bearer_coupon_has_a_longer_code(headquarters: Headquarters, app_key: str) -> None:
    headquarters.campaign(bearer=True)

    assert len(_ask(headquarters, app_key, "r1")["code"]) == 20


def test_a_campaign_without_stock_has_no_remaining(headquarters: Headquarters, app_key: str) -> None:
    headquarters.campaign()

    assert _ask(headquarters, app_key, "r1")["remaining"] is None


def test_the_same_request_again_is_the_first_answer(headquarters: Headquarters, app_key: str) -> None:
    headquarters.campaign(stock=2)

    first, again = _ask(headquarters, app_key, "r1"), _ask(headquarters, app_key, "r1")

    assert again == first
    assert headquarters.stock()["granted"] == 1


def test_a_refusal_is_the_answer_to_its_request_for_ever(headquarters: Headquarters, app_key: str) -> None:
    headquarters.campaign(stock=0)
    first = _ask(headquarters, app_key, "r1")

    headquarters.call("POST", "/v1/campaigns/c1/stock", {"by": 1}, status=200)

    assert first["outcome"] == "out_of_stock"
    assert _ask(headquarters, app_key, "r1") == first
    assert _ask(headquarters, app_key, "r2")["outcome"] == "ok"


def test_the_same_request_with_other_content_is_refused(headquarters: Headquarters, app_key: str) -> None:
    headquarters.campaign()
    headquarters.campaign("c2")
    _ask(headquarters, app_key, "r1")

    answer = _ask(headquarters, app_key, "r1", campaign="c2")

    assert (answer["outcome"], answer["facts"]["request"]) == ("duplicate_mismatch", "r1")


@pytest.mark.parametrize(("per_member", "code"), [(1, "already_claimed"), (2, "limit_reached")])
def test_a_member_gets_as_many_as_the_campaign_allows(
    headquarters: Headquarters, app_key: str, per_member: int, code: str
) -> None:
    headquarters.campaign(per_member=per_member)

    outcomes = [_ask(headquarters, app_key, f"r{number}")["outcome"] for number in range(per_member + 1)]

    assert outcomes == ["ok"] * per_member + [code]


def test_the_daily_limit_counts_days_of_the_chains_zone(headquarters: Headquarters, app_key: str) -> None:
    headquarters.campaign(per_member=5, per_member_per_day=1)
    outcomes = [_ask(headquarters, app_key, "r0")["outcome"], _ask(headquarters, app_key, "r1")["outcome"]]

    for number, hours in enumerate((13.99, 0.01), start=2):  # midnight in Shanghai is 14 hours away
        headquarters.clock.pass_time(hours=hours)
        outcomes.append(_ask(headquarters, app_key, f"r{number}")["outcome"])

    assert outcomes == ["ok", "limit_reached", "limit_reached", "ok"]


@pytest.mark.parametrize(("member", "campaign", "kind"), [("m9", "c1", "member"), ("m1", "c9", "campaign")])
def test_an_unknown_member_or_campaign_is_named(
    headquarters: Headquarters, app_key: str, member: str, campaign: str, kind: str
) -> None:
    headquarters.campaign()

    answer = _ask(headquarters, app_key, "r1", member=member, campaign=campaign)

    assert (answer["outcome"], answer["facts"]["kind"]) == ("unknown_code", kind)


def test_an_automatic_promotion_is_not_claimed(headquarters: Headquarters, app_key: str) -> None:
    headquarters.campaign(kind="automatic")

    assert _ask(headquarters, app_key, "r1")["outcome"] == "invalid_campaign"


def test_a_code_drawn_twice_is_drawn_again(
    headquarters: Headquarters, app_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    headquarters.campaign(stock=5, per_member=2)
    draws: Iterator[str] = iter(["11111111111111", "11111111111111", "22222222222222"])
    monkeypatch.setattr(headquarters.ids, "digits", lambda count: next(draws))

    first, second = _ask(headquarters, app_key, "r1"), _ask(headquarters, app_key, "r2")

    assert first["code"] != second["code"]
    assert headquarters.stock()["granted"] == 2


def test_a_claim_is_not_acknowledged_by_a_process_that_dies_and_is_there_when_asked_again(tmp_path: Path) -> None:
    class Died(BaseException):
        pass

    def probe(point: str) -> None:
        if point == "after_commit" and armed:
            armed.clear()
            raise Died

    armed: list[bool] = []
    headquarters = Headquarters(tmp_path, probe=probe)
    headquarters.furnish()
    headquarters.campaign(stock=5)
    key = headquarters.new_key("app")
    armed.append(True)

    with pytest.raises(Died):
        _ask(headquarters, key, "r1")
    again = _ask(headquarters, key, "r1")

    assert again["outcome"] == "ok"
    assert headquarters.stock()["granted"] == 1
    headquarters.close()
