"""Which coupons go together: groups, `max_per_order`, `exclusive`, and who stays."""

import pytest

from app.domain.stacking import clash, keep_first_scanned
from tests.unit.domain.shop import coupon, off


def kept(*coupons: object) -> list[str]:
    return [one.id for one in keep_first_scanned(coupons)[0]]


def test_coupons_of_different_groups_go_together() -> None:
    assert kept(coupon("k1"), coupon("k2"), coupon("k3")) == ["k1", "k2", "k3"]


def test_of_two_campaigns_in_one_group_the_one_scanned_first_stays() -> None:
    one, other = coupon("k1", off()), coupon("k2", off())

    assert keep_first_scanned([one, other]) == ([one], {"k2": "k1"})
    assert keep_first_scanned([other, one]) == ([other], {"k1": "k2"})


def test_the_default_group_is_shared_by_all() -> None:
    assert off().group == "coupon"
    assert kept(coupon("k1", off()), coupon("k2", off()), coupon("k3", off(group="gift"))) == ["k1", "k3"]


@pytest.mark.parametrize(("limit", "expected"), [(1, ["k1"]), (2, ["k1", "k2"]), (3, ["k1", "k2", "k3"])])
def test_a_campaign_allows_so_many_of_its_own(limit: int, expected: list[str]) -> None:
    own = [coupon(id_, off(max_per_order=limit), campaign="c") for id_ in ("k1", "k2", "k3")]

    assert kept(*own) == expected


def test_so_many_of_its_own_are_not_so_many_of_its_group() -> None:
    assert kept(coupon("k1", off(max_per_order=3), campaign="c"), coupon("k2", off(max_per_order=3), campaign="d")) == [
        "k1"
    ]


def test_own_coupons_are_limited_across_groups_too() -> None:
    one, other = coupon("k1", off(group="a"), campaign="c"), coupon("k2", off(group="b"), campaign="c")

    assert kept(one, other) == ["k1"]


def test_where_two_snapshots_disagree_the_smaller_limit_counts() -> None:
    strict, lax = coupon("k1", off(), campaign="c"), coupon("k2", off(max_per_order=2), campaign="c")

    assert kept(strict, lax) == ["k1"]
    assert kept(lax, strict) == ["k2"]


def test_the_coupon_that_leaves_names_the_first_of_its_own() -> None:
    own = [coupon(id_, off(max_per_order=2), campaign="c") for id_ in ("k1", "k2", "k3")]

    assert clash(own[2], own[:2]) == "k1"
    assert clash(own[1], [coupon("k0"), own[0]]) is None


def test_an_exclusive_coupon_comes_to_nobody() -> None:
    alone = coupon("k2", off(group="b", exclusive=True))

    assert keep_first_scanned([coupon("k1"), coupon("k3"), alone])[1] == {"k2": "k1"}
    assert kept(alone) == ["k2"]


def test_nobody_comes_to_an_exclusive_coupon() -> None:
    alone = coupon("k1", off(group="b", exclusive=True))

    assert keep_first_scanned([alone, coupon("k2"), coupon("k3")]) == ([alone], {"k2": "k1", "k3": "k1"})
    assert clash(coupon("k3"), [coupon("k2"), alone]) == "k1"


def test_a_coupon_that_left_keeps_nobody_away() -> None:
    assert kept(coupon("k1", off(group="a")), coupon("k2", off(group="a", exclusive=True)), coupon("k3")) == [
        "k1",
        "k3",
    ]
