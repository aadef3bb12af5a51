"""Refunds over HTTP: in parts, to the fen, once; everything that an order used comes back, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import share
from tests.fakes.counter import (
    Counter,
    balance,
    cash,
    coupon,
    coupon_state,
    covers,
    events,
    findings,
    open_counter,
    stored_value,
    violations,
)
from tests.fakes.headquarters import Headquarters


def _sold_mixed(headquarters: Headquarters, counter: Counter) -> str:
    """Sell A with a coupon of 10.00 and two washes on a card, for 50.00 of stored value and 40.00 in cash."""
    headquarters.campaign(budget="100.00")
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "50.00"}, status=200)
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 5}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", ("WASH", 2000), member="m1", use=(mine,), covers=covers("p1", 2, 2))
    counter.hold_and_sell(basket, tenders=[stored_value(5000), cash(4000)])
    assert counter.verdicts() == [("OK", "")]
    return mine


def test_a_refund_in_parts_gives_back_uses_then_coupon_budget_and_money(
    headquarters: Headquarters, counter: Counter
) -> None:
    mine = _sold_mixed(headquarters, counter)

    wash = counter.refund("o1", (2, 1000), request="r1", status=200)
    food = counter.refund("o1", (1, 1000), request="r2", status=200)
    again = counter.refund("o1", (1, 1000), request="r3", status=409)
    last = counter.refund("o1", request="r4", status=200)

    assert (wash["refund"]["amount_minor"], wash["uses_after"], wash["state"]) == (0, {"p1": 4}, "PARTLY_REFUNDED")
    assert food["refund"]["tenders"] == [
        {"type": "stored_value", "amount_minor": 5000},
        {"type": "cash", "amount_minor": 4000},
    ]
    assert food["refund"]["returned"] == [mine]
    assert again["outcome"] == "not_refundable"
    assert (last["uses_after"], last["state"]) == ({"p1": 5}, "REFUNDED")
    assert coupon_state(headquarters, mine) == "ISSUED"
    assert balance(headquarters, "budget:c1") == (10000, 0, 0)
    assert balance(headquarters, "value:m1") == (5000, 0, 0)
    assert balance(headquarters, "uses:p1") == (5, 0, 0)
    assert violations(headquarters) == []


def test_the_same_refund_again_gets_the_first_answer_and_gives_nothing_twice(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.sell(counter.basket("o1", ("A", 2000)))
    counter.push()
    first = counter.refund("o1", (1, 1000), request="r1")

    again = counter.refund("o1", (1, 1000), request="r1")
    other = counter.refund("o1", (1, 2000), request="r1", status=409)

    assert again == first
    assert other["outcome"] == "duplicate_mismatch"
    assert counter.call("GET", "/v1/orders/o1")["refunded_minor"] == 10000


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        ([(1, 3000)], "not_refundable"),
        ([(1, 1000), (1, 1001)], "invalid_quantity"),
        ([(1, 2000), (1, 1000)], "not_refundable"),
        ([(9, 1000)], "not_refundable"),
        ([(1, 0)], "invalid_quantity"),
        ([(1, -1000)], "invalid_quantity"),
        ([(1, 500)], "invalid_quantity"),
    ],
)
def test_a_return_that_makes_no_sense_is_refused_and_changes_nothing(
    headquarters: Headquarters, counter: Counter, lines: list[tuple[int, int]], outcome: str
) -> None:
    counter.sell(counter.basket("o1", ("A", 2000)))
    counter.push()

    answer = counter.refund("o1", *lines, request="r1", status=409)

    assert answer["outcome"] == outcome
    assert counter.state("o1") == "PAID"


def test_an_order_that_the_server_does_not_know_is_unknown(counter: Counter) -> None:
    answer = counter.refund("o9", request="r1", status=409)

    assert answer == {"outcome": "unknown_code", "facts": {"kind": "order", "id": "o9"}}


def test_what_stays_is_priced_by_what_was_held_though_the_tills_prices_were_behind(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign(
        benefit={"type": "fixed_price", "price": "1.00"},
        min_spend="105.00",
        threshold_base="gross",
        refund_policy="recompute",
    )
    basket = counter.basket("o1", "A", "B", member="m1", use=(coupon(headquarters),))
    data = counter.hold_and_sell(basket)
    # To the till A still costs 110.00; at the fixed price that makes no difference to the total.
    counter.entries.clear()
    counter.append("sale", {**data, "lines": [{**data["lines"][0], "price_minor": 11_000}, data["lines"][1]]})
    assert counter.verdicts() == [("OK", "")]

    answer = counter.refund("o1", (2, 1000), request="r1", status=200)

    # A alone costs 100.00, which is not enough for the coupon: less than that was paid, so nothing comes back.
    assert answer["refund"]["amount_minor"] == 0
    assert violations(headquarters) == []


def test_an_order_by_a_rule_that_this_version_cannot_read_is_not_refundable_here(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign("p1", kind="automatic")
    data = counter.sell(counter.basket("o1", "A"))
    data["quote"]["laid"][0]["rule"]["benefit"] = {"type": "of a later version"}
    counter.entries.clear()
    counter.append("sale", data)
    counter.push()

    answer = counter.refund("o1", request="r1", status=409)

    assert (answer["outcome"], answer["facts"]["reason"]) == ("not_refundable", "unreadable")
    assert violations(headquarters) == []


def test_a_wholly_refunded_order_has_nothing_left(counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    counter.refund("o1", request="r1", status=200)

    assert counter.refund("o1", request="r2", status=409)["outcome"] == "not_refundable"


def test_a_coupon_whose_window_is_over_comes_back_expired(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign(until="2026-06-01T11:00:00+08:00")
    mine = coupon(headquarters)
    counter.hold_and_sell(counter.basket("o1", "A", member="m1", use=(mine,)))
    counter.push()
    headquarters.clock.pass_time(hours=1)

    answer = counter.refund("o1", request="r1", status=200)

    assert answer["refund"]["returned"] == [mine]
    assert coupon_state(headquarters, mine) == "EXPIRED"
    assert events(headquarters, "coupon", mine)[-1] == ("return", "USED", "EXPIRED")


def test_a_refund_never_gives_back_a_coupon_that_another_order_used(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign(budget="100.00")
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    lines, quote = counter.price(basket)
    counter.hold(basket, status=200)
    counter.append("sale", counter.sale_body(lines, quote, basket, held=True))
    counter.append("sale", counter.sale_body(lines, quote, counter.basket("o2", "A"), held=True))
    assert counter.verdicts() == [("OK", ""), ("CONFLICT", "double_redemption")]

    answer = counter.refund("o2", request="r1", status=200)

    assert (answer["refund"]["amount_minor"], answer["refund"]["returned"]) == (9000, [])
    assert coupon_state(headquarters, mine) == "USED"
    assert balance(headquarters, "budget:c1") == (9000, 0, 1000)
    assert violations(headquarters) == []


@pytest.mark.parametrize("way", ["refund", "cancel"])
def test_a_coupon_that_comes_back_belongs_to_the_order_that_used_it_without_a_right(
    headquarters: Headquarters, counter: Counter, way: str
) -> None:
    headquarters.campaign(budget="100.00")
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    lines, quote = counter.price(basket)
    counter.hold(basket, status=200)
    if way == "refund":
        counter.append("sale", counter.sale_body(lines, quote, basket, held=True))
    counter.append("sale", counter.sale_body(lines, quote, counter.basket("o2", "A"), held=True))
    assert counter.verdicts()[-1] == ("CONFLICT", "double_redemption")

    if way == "refund":
        counter.refund("o1", request="r1", status=200)
    else:
        counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=200)
    third = counter.hold(counter.basket("o3", "A", member="m1", use=(mine,)), payable_minor=9000, status=409)
    sound = violations(headquarters)
    back = counter.refund("o2", request="r2", status=200)

    assert (third["outcome"], third["facts"]["order"]) == ("already_used", "o2")
    assert back["refund"]["returned"] == [mine]
    assert coupon_state(headquarters, mine) == "ISSUED"
    assert (sound, violations(headquarters)) == ([], [])


def test_a_returned_coupon_may_be_used_again_by_another_order(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    counter.hold_and_sell(counter.basket("o1", "A", member="m1", use=(mine,)))
    counter.push()
    counter.refund("o1", request="r1", status=200)

    counter.hold_and_sell(counter.basket("o2", "A", member="m1", use=(mine,)))

    assert counter.verdicts() == [("OK", "")]
    assert coupon_state(headquarters, mine) == "USED"
    assert violations(headquarters) == []


def test_a_wholly_refunded_first_order_leaves_the_member_without_an_order(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign(first_order=True)
    mine = coupon(headquarters)
    counter.hold_and_sell(counter.basket("o1", "A", member="m1", use=(mine,)))
    counter.push()
    second = counter.basket("o2", "A", member="m1", use=(mine,))

    used = counter.hold(second, payable_minor=9000, status=409)
    counter.refund("o1", request="r1", status=200)
    returned = counter.hold(second, attempt=2, payable_minor=9000)

    assert (used["outcome"], returned["outcome"]) == ("already_used", "ok")


def test_what_comes_back_pays_an_overdraft_first(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "60.00"}, status=200)
    for order in ("o1", "o2"):
        counter.sell(counter.basket(order, "A", member="m1"), tenders=[stored_value(6000), cash(4000)], held=True)
    counter.push()

    counter.refund("o1", request="r1", status=200)

    assert findings(headquarters) == {"no_hold": 1, "overdraft": 1}
    assert balance(headquarters, "value:m1") == (0, 0, 6000)
    assert violations(headquarters) == []


def test_cash_comes_back_rounded_the_way_it_was_paid(headquarters: Headquarters, counter: Counter) -> None:
    chain = {"currency": "CNY", "zone": "Asia/Shanghai", "cash_rounding": "0.05", "lock_timeout_s": 900}
    headquarters.call("PUT", "/v1/chain", chain, status=200)
    basket = counter.basket("o1", ("W", 735))
    lines, quote = counter.price(basket)
    body = counter.sale_body(lines, quote, basket)
    body["tenders"] = [{"type": "cash", "amount_minor": 730}, {"type": "rounding", "amount_minor": -2}]
    counter.append("sale", body)
    assert counter.verdicts() == [("OK", "")]

    answer = counter.refund("o1", request="r1", status=200)

    assert answer["refund"]["tenders"] == [
        {"type": "cash", "amount_minor": 730},
        {"type": "rounding", "amount_minor": -2},
    ]
    assert violations(headquarters) == []


# ------------------------------------------------------------------ any parts, in any order


@settings(max_examples=share(1 / 3), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    quantities=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    benefit=st.sampled_from(
        [
            {"type": "amount_off", "amount": "10.01"},
            {"type": "percent_off", "percent": 33},
            {"type": "buy_x_get_y", "buy": 1, "get": 1, "percent": 50},
        ]
    ),
    policy=st.sampled_from(["keep", "recompute"]),
    data=st.data(),
)
def test_refunds_in_any_parts_never_exceed_what_was_paid_and_return_the_coupon_once(
    headquarters: Headquarters, quantities: list[int], benefit: dict[str, Any], policy: str, data: st.DataObject
) -> None:
    # A server takes a while to open, so all examples share one, each with names of its own.
    run = headquarters.ids.new()
    counter = open_counter(headquarters, f"t{run}")
    campaign = f"c{run}"
    headquarters.campaign(campaign, benefit=benefit, refund_policy=policy, budget="500.00")
    mine = coupon(headquarters, campaign)
    skus = ["A", "B", "WASH"]
    lines = [(skus[i], quantity * 1000) for i, quantity in enumerate(quantities)]
    basket = counter.basket(f"o{run}", *lines, member="m1", use=(mine,))
    if counter.price(basket)[1].used != (mine,):
        return
    sold = counter.hold_and_sell(basket)
    assert counter.verdicts() == [("OK", "")]
    paid_minor = sold["quote"]["payable_minor"]
    units = [number for number, quantity in enumerate(quantities, start=1) for _ in range(quantity)]

    returned: list[str] = []
    total_minor = 0
    for turn, number in enumerate(data.draw(st.permutations(units))):
        answer = counter.refund(basket.order_id, (number, 1000), request=f"{run}-{turn}", status=200)
        total_minor += answer["refund"]["amount_minor"]
        returned += answer["refund"]["returned"]
        assert 0 <= total_minor <= paid_minor

    assert total_minor == paid_minor
    assert returned == [mine]
    assert coupon_state(headquarters, mine) == "ISSUED"
    assert balance(headquarters, f"budget:{campaign}") == (50000, 0, 0)
    assert violations(headquarters) == []
