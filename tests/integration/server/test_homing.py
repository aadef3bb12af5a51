"""Coupons of a store's members come home to its till by themselves, within limits, and are asked back for elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from server.services import homing
from sync.protocol import PROTOCOL, PULL_PATH
from tests.fakes.counter import Counter, coupon, coupon_state, events, furnish, violations
from tests.fakes.headquarters import Headquarters


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    headquarters.furnish(members=3)
    furnish(headquarters)
    headquarters.call("PUT", "/v1/stores/s2", {}, status=200)
    headquarters.call("POST", "/v1/members", {"id": "far", "home_store": "s2"}, status=200)
    headquarters.campaign("c1", stock=9, per_member=9)
    return Counter(headquarters, "t1")


def bring(counter: Counter, request: str = "b1", *, status: int = 201) -> dict[str, Any]:
    return counter.call("POST", "/v1/homes/of-members", {"request": request}, status=status)


def brought(counter: Counter, request: str = "b1") -> set[str]:
    return {each["id"] for each in bring(counter, request)["homes"]}


def give_back(counter: Counter, coupon_id: str, version: int) -> None:
    counter.append("coupon_return", counter.told(coupon=coupon_id, version=version))
    counter.push()


def record(counter: Counter, coupon_id: str) -> dict[str, Any]:
    """Return the coupon as the till pulls it."""
    message = {"proto": PROTOCOL, "till": counter.till_id, "cursor": 0}
    records = counter.call("POST", PULL_PATH, message, status=200)["records"]
    (found,) = [each["record"] for each in records if (each["kind"], each["key"]) == ("coupon", coupon_id)]
    return dict(found)


# ------------------------------------------------------------------ coming home


def test_coupons_of_members_of_the_store_come_home_and_no_others(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("bearer", bearer=True)
    headquarters.campaign("online", offline="online_only")
    headquarters.campaign("elsewhere", stores=["s2"])
    headquarters.campaign("paused")
    mine, others = coupon(headquarters), coupon(headquarters, member="m2")
    coupon(headquarters, member="far")
    for campaign in ("bearer", "online", "elsewhere", "paused"):
        coupon(headquarters, campaign)
    headquarters.call("POST", "/v1/campaigns/paused/pause", {"reason": "x"}, status=200)

    assert brought(counter) == {mine, others}

    assert record(counter, mine)["home"] == "t1"
    assert brought(counter, "b2") == set() and brought(counter, "b1") == {mine, others}
    assert violations(headquarters) == []


def test_what_is_over_or_used_stays(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("short", valid_days=1)
    coupon(headquarters, "short")
    used = coupon(headquarters)
    counter.hold_and_sell(counter.basket("o1", "A", member="m1", use=(used,)))
    counter.push()
    headquarters.clock.pass_time(days=2)

    assert brought(counter) == set()


def test_a_till_gets_no_more_than_its_limits(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        coupon(headquarters, request=f"r{number}")
    monkeypatch.setattr(homing, "AT_ONCE", 2)
    monkeypatch.setattr(homing, "PER_TILL", 3)

    assert [len(brought(counter, f"b{n}")) for n in range(3)] == [2, 1, 0]

    monkeypatch.setattr(homing, "PER_TILL", 9)
    monkeypatch.setattr(homing, "IN_ALL", 3)
    assert brought(Counter(headquarters, "t2"), "b9") == set()


def test_a_lost_till_gets_none(headquarters: Headquarters, counter: Counter) -> None:
    coupon(headquarters)
    headquarters.give_up("strand")

    assert bring(counter, status=409)["outcome"] == "not_allowed"


def test_the_chains_app_shows_a_coupon_that_is_at_home_at_a_till_as_usable(
    headquarters: Headquarters, counter: Counter
) -> None:
    mine = coupon(headquarters)
    bring(counter)
    basket = {"store": "s2", "member": "m1", "lines": [{"sku": "A", "qty": "1"}], "use": [mine]}

    told = headquarters.call("POST", "/v1/quotes", basket, key=headquarters.new_key("app"), status=200)

    assert (told["used"], told["refused"]) == ([mine], {})
    held = counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), payable_minor=9_000)
    assert held["outcome"] == "leased_elsewhere"


# ------------------------------------------------------------------ asked back


def test_a_coupon_that_another_till_has_is_asked_back_and_then_to_be_had(
    headquarters: Headquarters, counter: Counter
) -> None:
    mine = coupon(headquarters)
    (home,) = bring(counter)["homes"]
    counter.hello()
    other = Counter(headquarters, "t2")
    assert not record(counter, mine)["recalled"]

    refused = other.take_home(mine, status=409)

    assert (refused["outcome"], refused["facts"]["till"], refused["facts"]["retry_after_s"]) == (
        "leased_elsewhere",
        "t1",
        20,
    )
    assert record(counter, mine)["recalled"]
    give_back(counter, mine, home["version"])
    assert not record(counter, mine)["recalled"]
    assert other.take_home(mine, request="h2")["version"] == home["version"] + 2
    assert [name for name, _, _ in events(headquarters, "coupon", mine)][-3:] == [
        "home_taken",
        "home_returned",
        "home_taken",
    ]


def test_what_was_asked_back_is_not_taken_home_again_before_it_is_used(
    headquarters: Headquarters, counter: Counter
) -> None:
    mine = coupon(headquarters)
    (home,) = bring(counter)["homes"]
    Counter(headquarters, "t2").take_home(mine, status=409)
    give_back(counter, mine, home["version"])

    assert brought(counter, "b2") == set()
    headquarters.clock.pass_time(minutes=61)
    assert brought(counter, "b3") == {mine}
    assert not record(counter, mine)["recalled"], "the recall was about the home before"


@pytest.mark.parametrize("why", ["never heard of", "silent", "lost"])
def test_where_the_till_does_not_answer_nobody_is_told_to_wait(
    headquarters: Headquarters, counter: Counter, why: str
) -> None:
    mine = coupon(headquarters)
    bring(counter)
    if why != "never heard of":
        counter.hello()
    if why == "silent":
        headquarters.clock.pass_time(seconds=61)
    if why == "lost":
        headquarters.give_up("strand")

    facts = Counter(headquarters, "t2").take_home(mine, status=409)["facts"]

    assert facts == {"coupon": mine, "till": "t1"}


def test_what_a_lost_till_has_at_home_is_asked_back_until_the_till_is_found(
    headquarters: Headquarters, counter: Counter
) -> None:
    mine = coupon(headquarters)
    bring(counter)

    headquarters.give_up("strand")
    assert record(counter, mine)["recalled"]

    headquarters.call("POST", "/v1/tills/t1/found", {"reason": "van"}, status=200)
    assert not record(counter, mine)["recalled"]


def test_a_coupon_that_headquarters_would_revoke_is_asked_back_first(
    headquarters: Headquarters, counter: Counter
) -> None:
    mine = coupon(headquarters)
    (home,) = bring(counter)["homes"]
    path, body = f"/v1/coupons/{mine}/revoke", {"reason": "a mistake"}

    assert headquarters.call("POST", path, body, status=409)["outcome"] == "leased_elsewhere"

    assert record(counter, mine)["recalled"]
    give_back(counter, mine, home["version"])
    headquarters.call("POST", path, body, status=200)
    assert coupon_state(headquarters, mine) == "REVOKED" and violations(headquarters) == []
