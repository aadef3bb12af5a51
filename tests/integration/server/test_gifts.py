"""Gifts and registration gifts: the stock, limits and answers of a claim, and who gave what for which reason."""

from __future__ import annotations

from typing import Any

from tests.fakes.headquarters import Headquarters


def _give(headquarters: Headquarters, request: str, **more: Any) -> dict[str, Any]:
    body = {"request": request, "campaign": "c1", "member": "m1", "reason": "the dryer was cold", **more}
    return headquarters.call("POST", "/v1/gifts", body, key=headquarters.new_key("manager"))


def _register(headquarters: Headquarters, member: str, *gifts: str) -> dict[str, Any]:
    body = {"id": member, "home_store": "s1", "gifts": gifts}
    return headquarters.call("POST", "/v1/members", body, status=200)


def test_a_gift_takes_from_the_one_stock_and_tells_its_source(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=2)

    answer = _give(headquarters, "g1")

    assert (answer["outcome"], answer["source"], answer["remaining"]) == ("ok", "gift", 1)


def test_the_history_of_a_gift_tells_the_reason_and_who_gave_it(headquarters: Headquarters) -> None:
    headquarters.campaign()

    coupon = _give(headquarters, "g1")["coupon"]

    told = headquarters.call("GET", f"/v1/coupons/{coupon}/history", status=200)["events"][0]
    assert told["reason"] == "the dryer was cold"
    assert told["operator"].startswith("manager:")


def test_a_gift_and_a_claim_share_the_limit_of_the_member(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5)
    claim = {"request": "r1", "campaign": "c1", "member": "m1"}
    headquarters.call("POST", "/v1/claims", claim, key=headquarters.new_key("app"), status=201)

    assert _give(headquarters, "g1")["outcome"] == "already_claimed"


def test_the_same_gift_again_is_one_gift_and_another_reason_is_another_gift(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5, per_member=5)

    first, again = _give(headquarters, "g1"), _give(headquarters, "g1")
    other = _give(headquarters, "g1", reason="because")

    assert again == first
    assert other["outcome"] == "duplicate_mismatch"


def test_a_gift_and_a_claim_of_one_request_id_are_two_requests(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5, per_member=2)
    claim = {"request": "r1", "campaign": "c1", "member": "m1", "source": "gift"}
    headquarters.call("POST", "/v1/claims", claim, key=headquarters.new_key("app"), status=201)

    assert _give(headquarters, "r1")["outcome"] == "ok"


def test_who_registers_gets_the_gifts_that_the_call_names(headquarters: Headquarters) -> None:
    headquarters.campaign("hello", stock=1)
    headquarters.campaign("wash")

    gifts = _register(headquarters, "new", "hello", "wash")["gifts"]

    assert {name: (gift["outcome"], gift["source"]) for name, gift in gifts.items()} == {
        "hello": ("ok", "registration"),
        "wash": ("ok", "registration"),
    }
    assert headquarters.stock("hello")["granted"] == 1


def test_the_same_registration_again_gives_the_same_gifts(headquarters: Headquarters) -> None:
    headquarters.campaign("hello", stock=5, per_member=5)

    first, again = _register(headquarters, "new", "hello"), _register(headquarters, "new", "hello")

    assert again == first
    assert headquarters.stock("hello")["granted"] == 1


def test_a_gift_that_is_refused_makes_nobody_less_a_member(headquarters: Headquarters) -> None:
    headquarters.campaign("hello", stock=0)

    answer = _register(headquarters, "new", "hello", "nothing")

    assert answer["gifts"]["hello"]["outcome"] == "out_of_stock"
    assert answer["gifts"]["nothing"]["facts"]["kind"] == "campaign"
    assert headquarters.call("GET", "/v1/members/new/coupons", key=headquarters.new_key("app"))["coupons"] == []


def test_who_has_registered_before_gets_no_gift_of_registration(headquarters: Headquarters) -> None:
    headquarters.campaign("hello", stock=5)

    answer = _register(headquarters, "m1", "hello")

    assert answer["gifts"]["hello"]["outcome"] == "not_allowed"
    assert headquarters.stock("hello")["granted"] == 0


def test_a_member_of_an_unknown_store_is_nobody_and_gets_nothing(headquarters: Headquarters) -> None:
    headquarters.campaign("hello", stock=5)

    answer = headquarters.call("POST", "/v1/members", {"id": "new", "home_store": "s9", "gifts": ["hello"]})

    assert answer["outcome"] == "unknown_code"
    assert headquarters.stock("hello")["granted"] == 0
