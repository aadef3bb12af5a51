"""Stock that tills borrow, give out and give back, beside claims that Redis admits: it counts all of that."""

from __future__ import annotations

import pytest

from server.jobs.redis import compare_redis
from tests.fakes.counter import Counter, open_counter
from tests.fakes.redis_office import RedisOffice


@pytest.fixture
def till(office: RedisOffice) -> Counter:
    """Return a till of a shop whose campaign c1 has a stock of 5, admitted by Redis."""
    office.headquarters.campaign(arbiter="redis", stock=5)
    office.claim("r1")
    return open_counter(office.headquarters)


def give(till: Counter, coupon: dict[str, str], member: str, *, lease: str = "l1") -> None:
    """Tell of a coupon that was given out."""
    told = {"request": f"g-{coupon['coupon']}", "campaign": "c1", "snapshot": "c1/1", "member": member}
    told |= {"coupon": coupon["coupon"], "lease": lease, "source": "till:t1", "valid_until_ms": None}
    till.append("claim", till.told(**told))
    till.push()


def give_back(till: Counter, used: int, *, lease: str = "l1") -> None:
    till.append("lease_close", till.told(lease=lease, used=used))
    till.push()


def test_what_a_till_borrows_is_not_there_for_claims_and_what_it_gives_back_is(
    office: RedisOffice, till: Counter
) -> None:
    till.lease("stock", "c1", 4)
    assert (office.standing().available, office.claim("r2", member="m2")["outcome"]) == (0, "out_of_stock")
    assert compare_redis(office.services).repaired == compare_redis(office.services).repaired == 0

    give_back(till, 0)

    assert office.standing().available == 4
    assert office.claim("r3", member="m3")["outcome"] == "ok"
    office.assert_sound()


def test_what_a_till_gives_out_counts_for_its_member_and_takes_no_more_from_the_stock(
    office: RedisOffice, till: Counter
) -> None:
    lent = till.lease("stock", "c1", 2)
    give(till, lent["coupons"][0], "m2")
    assert office.claim("r2", member="m2")["outcome"] == "already_claimed"

    give_back(till, 1)

    assert office.standing().available == 3
    office.assert_sound()


def test_what_is_used_of_a_lease_that_was_taken_back_is_taken_from_the_stock(
    office: RedisOffice, till: Counter
) -> None:
    lent = till.lease("stock", "c1", 2)
    office.headquarters.give_up("reclaim")
    assert office.standing().available == 4

    give(till, lent["coupons"][0], "m2")

    assert office.standing().available == office.stock()["available"] == 3
