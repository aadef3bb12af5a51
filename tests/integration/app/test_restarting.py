"""A till that dies at a named point: the order is there once or not at all, and the restart says which."""

from __future__ import annotations

from typing import Any

import pytest

from app.services.api import InterruptedKind, OpenOrder, PaidOrder
from tests.fakes.shop import K1, Shop, basket


class ProcessDied(BaseException):
    """The process is gone; nothing behind this point ran."""


def die_at(shop: Shop, point: str) -> None:
    def probe(passed: str) -> None:
        if passed == point:
            shop.probe = lambda _: None
            raise ProcessDied(point)

    shop.probe = probe


WITH_COUPON = basket("A", member="m1", use=["k1"])


@pytest.fixture
def shop(shop: Shop) -> Shop:
    shop.coupon("k1", K1)
    shop.till.head_office.refresh()
    return shop


def found(shop: Shop) -> list[tuple[str, str]]:
    return [(each.kind.value, each.order_id) for each in shop.till.interrupted()]


def dies(shop: Shop, ask: Any) -> None:
    with pytest.raises(ProcessDied):
        ask()
    shop.restart()
    assert shop.verify() == []


def test_dead_before_the_commit_the_sale_was_not_made_and_can_be_made(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))
    die_at(shop, "before_commit")

    dies(shop, lambda: shop.till.pay("o1"))

    assert (shop.kinds(), found(shop)) == ([], [])
    assert isinstance(shop.till.pay("o1"), PaidOrder)


def test_dead_after_the_commit_the_sale_was_made_and_nobody_saw_its_receipt(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))
    die_at(shop, "after_commit")

    dies(shop, lambda: shop.till.pay("o1"))

    assert (shop.kinds(), found(shop)) == (["sale"], [("receipt_not_shown", "o1")])
    again = shop.till.pay("o1")
    assert isinstance(again, PaidOrder)
    assert again.receipt.mark == shop.till.interrupted()[0].mark
    shop.till.receipt_shown("o1")
    assert (shop.kinds(), found(shop)) == (["sale"], [])


def test_dead_after_the_hold_the_order_can_be_paid_or_cancelled(shop: Shop) -> None:
    die_at(shop, "after_hold")

    dies(shop, lambda: shop.till.checkout("o1", WITH_COUPON))

    assert found(shop) == [("open_hold", "o1")]
    again = shop.till.checkout("o1", WITH_COUPON)
    assert isinstance(again, OpenOrder)
    assert (again.state, again.attempt) == ("HELD", 1)
    assert isinstance(shop.till.pay("o1"), PaidOrder)


def test_dead_before_the_hold_was_written_down_it_is_given_back(shop: Shop) -> None:
    die_at(shop, "hold_answered")

    dies(shop, lambda: shop.till.checkout("o1", WITH_COUPON))

    assert (shop.kinds(), found(shop)) == (["cancel"], [])
    shop.till.head_office.flush()
    assert shop.server.coupons["k1"].state == "ISSUED"
    again = shop.till.checkout("o1", WITH_COUPON)
    assert isinstance(again, OpenOrder)
    assert again.attempt == 2


def test_a_hold_that_could_not_be_written_down_is_given_back_by_the_next_try(shop: Shop) -> None:
    die_at(shop, "hold_answered")
    with pytest.raises(ProcessDied):
        shop.till.checkout("o1", WITH_COUPON)

    again = shop.till.checkout("o1", WITH_COUPON)

    assert isinstance(again, OpenOrder)
    assert (again.attempt, shop.kinds()) == (2, ["cancel"])


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_dead_while_it_cancels_the_coupon_comes_back_all_the_same(shop: Shop, point: str) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    die_at(shop, point)

    dies(shop, lambda: shop.till.cancel("o1"))
    shop.till.cancel("o1")
    shop.till.head_office.flush()

    assert shop.kinds() == ["cancel"]
    assert shop.server.coupons["k1"].state == "ISSUED"


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
@pytest.mark.parametrize("plugged", [True, False], ids=["by the server", "by the till"])
def test_dead_while_it_refunds_the_money_is_given_back_once(shop: Shop, point: str, plugged: bool) -> None:
    if not plugged:
        shop.unplug()
    shop.sell("o1", "A")
    if plugged:
        shop.till.head_office.flush()
    shop.till.receipt_shown("o1")
    die_at(shop, point)

    dies(shop, lambda: shop.till.refund("r1", "o1"))
    kinds = {kind for kind, _ in found(shop)}
    first = shop.till.refund("r1", "o1")
    again = shop.till.refund("r1", "o1")

    if point == "after_commit":
        assert kinds == {InterruptedKind.REFUND_NOT_SHOWN.value}
    else:
        assert kinds == ({InterruptedKind.REFUND_UNANSWERED.value} if plugged else set())
    assert first == again
    assert shop.kinds() == ["sale", "refund"]


def test_in_a_normal_day_nothing_is_interrupted(shop: Shop) -> None:
    for number in range(3):
        shop.sell(f"o{number}", "A")
        shop.till.receipt_shown(f"o{number}")
    shop.till.checkout("basket", basket("B"))

    assert shop.till.interrupted() == ()


def test_a_receipt_that_nobody_saw_is_told_also_before_one_that_was_shown(shop: Shop) -> None:
    shop.sell("old", "A")
    shop.sell("shown", "A")
    shop.till.receipt_shown("shown")
    shop.sell("last", "A")

    assert found(shop) == [("receipt_not_shown", "last"), ("receipt_not_shown", "old")]


def test_a_receipt_can_be_shown_again_after_a_restart(shop: Shop) -> None:
    first = shop.sell("o1", "A", member="m1", use=["k1"])
    shop.restart()

    again = shop.till.receipt("o1")

    assert again == first.receipt
    assert shop.till.receipt("nothing") is None
