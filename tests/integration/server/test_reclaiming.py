"""Headquarters takes the rights of a lost till back: what it shows, and what becomes of what that till still tells."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.counter import (
    Counter,
    balance,
    cash,
    coupon,
    coupon_state,
    finding,
    findings,
    open_counter,
    stored_value,
    violations,
)
from tests.fakes.headquarters import Headquarters

VALUE = "value:m1"


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    headquarters.furnish(members=2)
    made = open_counter(headquarters)
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
    return made


def lent(headquarters: Headquarters, till: str = "t1") -> list[dict[str, Any]]:
    return list(headquarters.call("GET", f"/v1/tills/{till}/rights", status=200)["leases"])


def reclaim(headquarters: Headquarters, till: str = "t1") -> dict[str, Any]:
    return headquarters.give_up("reclaim", till)


def sell_by_lease(counter: Counter, order: str, minor: int, *, named: int | None = None, lease: str = "l1") -> None:
    tenders = [stored_value(minor), cash(10_000 - minor)]
    basket = counter.basket(order, "A", member="m1")
    counter.sell_by_rights(basket, tenders=tenders, leases={lease: minor if named is None else named})


def close(counter: Counter, used: int, lease: str = "l1") -> None:
    counter.append("lease_close", counter.told(lease=lease, used=used))


def test_reclaiming_tells_the_exposure_and_frees_everything(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", stock=3)
    mine = coupon(headquarters)
    counter.lease("value", "m1", 3_000)
    counter.lease("stock", "c1", 2, lease="l2")
    counter.take_home(mine)
    shown = headquarters.call("GET", "/v1/tills/t1/rights", status=200)

    answer = reclaim(headquarters)

    assert answer == shown
    assert (answer["money"], answer["coupons"], [each["left"] for each in answer["leases"]]) == (
        "60.00",
        [mine],
        [3_000, 2],
    )
    assert reclaim(headquarters)["leases"] == []
    assert balance(headquarters, VALUE)[0] == 5_000 and headquarters.stock()["available"] == 2
    assert findings(headquarters) == {} and violations(headquarters) == []


def test_a_late_sale_takes_what_is_there_and_the_rest_is_an_overdraft(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.lease("value", "m1", 4_000)
    sell_by_lease(counter, "o1", 4_000)
    reclaim(headquarters)
    other = Counter(headquarters, "t2")
    other.hold_and_sell(other.basket("o2", "A", member="m1"), tenders=[stored_value(2_000), cash(8_000)])
    other.push()

    counter.push()

    assert finding(headquarters, "late_use")["amount_minor"] == 3_000
    assert finding(headquarters, "overdraft")["amount_minor"] == 1_000
    assert balance(headquarters, VALUE) == (0, 0, 6_000) and violations(headquarters) == []


def test_what_a_lease_gives_back_pays_an_overdraft_first(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 3_000)
    other = Counter(headquarters, "t2")
    other.lease("value", "m1", 2_000, lease="l2")
    tenders = [stored_value(1_000), cash(9_000)]
    other.sell_by_rights(other.basket("o2", "A", member="m1"), tenders=tenders)
    other.push()
    assert findings(headquarters) == {"overdraft": 1}

    close(counter, 0)
    counter.push()

    assert balance(headquarters, VALUE) == (2_000, 0, 1_000) and violations(headquarters) == []


def test_a_use_in_an_older_version_has_no_right_to_the_newer_one(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    version = counter.take_home(mine)["version"]
    reclaim(headquarters)
    counter.take_home(mine, request="h2")
    counter.sell_by_rights(counter.basket("o1", "A", member="m1", use=(mine,)), coupons={mine: version})

    assert counter.verdicts() == [("CONFLICT", "double_redemption")]
    assert coupon_state(headquarters, mine) == "ISSUED" and violations(headquarters) == []


def test_a_revoked_lease_closes_in_order_and_gives_nothing_back_twice(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.lease("value", "m1", 4_000)
    reclaim(headquarters)
    close(counter, 0)

    assert counter.verdicts() == [("OK", "")]
    assert balance(headquarters, VALUE) == (5_000, 0, 0) and violations(headquarters) == []


def test_a_lost_till_that_gave_coupons_out_overdraws_the_stock(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1", stock=1)
    (given,) = counter.lease("stock", "c1", 1)["coupons"]
    reclaim(headquarters)
    coupon(headquarters, member="m2")
    claim = counter.told(
        lease="l1",
        coupon=given["coupon"],
        request="q1",
        source="till:t1",
        campaign="c1",
        snapshot="c1/1",
        member="m1",
        valid_until_ms=None,
    )
    counter.append("claim", claim)
    counter.append("claim", {**claim, "member": "m2", "request": "q2"})

    assert [code for _, code in counter.verdicts()] == ["overdraft", "duplicate_claim"]
    assert headquarters.call("GET", f"/v1/coupons/{given['coupon']}", status=200)["member"] == "m1"
    assert violations(headquarters) == []


def test_a_coupon_that_was_taken_back_and_is_still_free_was_used_late(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    version = counter.take_home(mine)["version"]
    counter.sell_by_rights(counter.basket("o1", "A", member="m1", use=(mine,)), coupons={mine: version})
    reclaim(headquarters)

    assert counter.verdicts() == [("CONFLICT", "late_use")]
    assert coupon_state(headquarters, mine) == "USED" and violations(headquarters) == []


def test_an_unknown_payment_whose_home_was_taken_back_was_never_due_a_hold(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    version = counter.take_home(mine)["version"]
    payment = {"id": "pay1", "type": "card", "amount_minor": 7_000}
    counter.append("payment_unknown", counter.body("o1", payment=payment))
    counter.push()
    reclaim(headquarters)

    counter.sell_by_rights(counter.basket("o1", "A", member="m1", use=(mine,)), coupons={mine: version})

    assert counter.verdicts() == [("CONFLICT", "late_use")]
    assert set(findings(headquarters)) == {"late_use"} and violations(headquarters) == []


def test_only_a_till_that_there_is_has_rights(headquarters: Headquarters, counter: Counter) -> None:
    assert headquarters.call("GET", "/v1/tills/t9/rights", status=404)["outcome"] == "unknown_code"
    headquarters.call("POST", "/v1/tills/t9/reclaim", {"reason": "lost", "exposure": "0" * 16}, status=404)
