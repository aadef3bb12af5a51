"""A finding shows both sides: what the till told, and what the books had of the same thing (`here`)."""

from __future__ import annotations

import pytest

from tests.fakes.counter import Counter, cash, coupon, finding, open_counter, stored_value
from tests.fakes.headquarters import Headquarters


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    headquarters.furnish(members=2)
    made = open_counter(headquarters)
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
    return made


def reclaim(headquarters: Headquarters) -> None:
    headquarters.call("POST", "/v1/tills/t1/reclaim", {"reason": "stolen"}, status=200)


def test_a_coupon_that_was_used_twice_names_both_sales(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("c1")
    mine = coupon(headquarters)
    version = counter.take_home(mine)["version"]
    counter.sell_by_rights(counter.basket("o1", "A", member="m1", use=(mine,)), coupons={mine: version})
    reclaim(headquarters)
    other = Counter(headquarters, "t2")
    other.hold_and_sell(other.basket("o2", "A", member="m1", use=(mine,)))
    other.push()

    counter.push()

    detail = finding(headquarters, "double_redemption")["detail"]
    assert (detail["till"], detail["order"]) == ("t1", "o1")
    here = detail["here"]
    assert (here["state"], here["order"], here["till"], here["sold_at"] is not None) == ("USED", "o2", "t2", True)


def test_what_was_spent_twice_names_what_is_left_and_who_has_a_part(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.lease("value", "m1", 4_000)
    counter.sell_by_rights(
        counter.basket("o1", "A", member="m1"), tenders=[stored_value(4_000), cash(6_000)], leases={"l1": 4_000}
    )
    reclaim(headquarters)
    Counter(headquarters, "t2").lease("value", "m1", 3_000, lease="l2")

    counter.push()

    here = finding(headquarters, "overdraft")["detail"]["here"]
    assert (here["available"], here["over"]) == (0, 2_000)
    assert [(each["lease"], each["till"], each["lent"]) for each in here["leases"]] == [("l2", "t2", 3_000)]


def test_an_order_that_was_paid_twice_shows_both_payments(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    other = Counter(headquarters, "t2")
    other.sell(other.basket("o1", "B"))

    other.push()

    detail = finding(headquarters, "duplicate_order")["detail"]
    assert (detail["till"], detail["here"]["till"], detail["here"]["state"]) == ("t2", "t1", "PAID")
    assert detail["tenders"] != detail["here"]["tenders"]


def test_a_lease_of_another_till_is_shown_as_the_books_have_it(headquarters: Headquarters, counter: Counter) -> None:
    counter.lease("value", "m1", 1_000)
    other = Counter(headquarters, "t2")
    other.append("lease_close", other.told(lease="l1", used=0))

    other.push()

    here = finding(headquarters, "lease_mismatch")["detail"]["here"]
    assert (here["lease"], here["till"], here["state"], here["lent"]) == ("l1", "t1", "OPEN", 1_000)


def test_a_fork_that_the_till_noticed_shows_the_entries_of_both(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    theirs = (1, "ab" * 32)

    counter.hello(last=theirs, stopped="fork")

    detail = finding(headquarters, "ledger_fork")["detail"]
    assert tuple(detail["last"]) == theirs
    assert detail["here"]["acked"] == [1, counter.entries[0].hash.hex()]
    assert [each["hash"] for each in detail["here"]["entries"]] == [counter.entries[0].hash.hex()]
