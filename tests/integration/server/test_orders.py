"""Holds over HTTP: all rights or none, fenced by the attempt, given back by cancel and timeout."""

from __future__ import annotations

import pytest

from tests.fakes.counter import (
    Counter,
    balance,
    bring_to,
    cash,
    coupon,
    coupon_state,
    covers,
    events,
    findings,
    mixed_order,
    stored_value,
)
from tests.fakes.headquarters import Headquarters

# ------------------------------------------------------------------ hold


def test_a_hold_takes_coupon_budget_uses_and_stored_value_at_once(headquarters: Headquarters, counter: Counter) -> None:
    mine, basket = mixed_order(headquarters, counter)

    answer = counter.hold(basket, value_minor=5000, status=200)

    assert answer["quote"]["payable_minor"] == 9000
    assert answer["held_until_at"] == "2026-06-01T02:15:00+00:00"
    assert coupon_state(headquarters, mine) == "FROZEN"
    assert balance(headquarters, "budget:c1") == (9000, 1000, 0)
    assert balance(headquarters, "uses:p1") == (3, 2, 0)
    assert balance(headquarters, "value:m1") == (5000, 5000, 0)
    assert counter.state("o1") == "HELD"


def test_a_hold_that_lacks_one_right_takes_none(headquarters: Headquarters, counter: Counter) -> None:
    mine, basket = mixed_order(headquarters, counter)

    answer = counter.hold(basket, value_minor=9000 + 1, payable_minor=9000, status=409)

    assert answer["outcome"] == "payment_mismatch"
    answer = counter.hold(counter.basket("o2", "A", "A", member="m1", use=(mine,)), value_minor=10001, status=409)
    assert answer == {
        "outcome": "insufficient_balance",
        "facts": {"member": "m1", "balance_minor": 10000, "asked_minor": 10001},
    }
    assert coupon_state(headquarters, mine) == "ISSUED"
    assert balance(headquarters, "budget:c1") == (10000, 0, 0)
    counter.call("GET", "/v1/orders/o2", status=404)


def test_the_server_prices_the_order_and_refuses_another_amount(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))

    answer = counter.hold(basket, payable_minor=8999, status=409)

    assert answer == {"outcome": "payment_mismatch", "facts": {"shown_minor": 8999, "now_minor": 9000}}
    assert coupon_state(headquarters, mine) == "ISSUED"


def test_the_first_refusal_is_that_of_the_first_coupon_scanned(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign("dear", min_spend="500.00")
    headquarters.campaign("toys", scope={"include": {"categories": ["toy"]}}, group="toys")
    dear, toys = coupon(headquarters, "dear"), coupon(headquarters, "toys")

    first = counter.hold(counter.basket("o1", "A", member="m1", use=(toys, dear)), payable_minor=10000, status=409)
    second = counter.hold(counter.basket("o1", "A", member="m1", use=(dear, toys)), payable_minor=10000, attempt=2)

    assert (first["outcome"], second["outcome"]) == ("nothing_eligible", "below_minimum")
    assert second["facts"] == {"coupon": dear, "missing_minor": 40000}


@pytest.mark.parametrize(
    ("keys", "facts"),
    [
        ({"use": ("nope",)}, {"kind": "coupon", "id": "nope"}),
        ({"covers": covers("nope", 1)}, {"kind": "punch_card", "id": "nope"}),
        ({"member": "nope"}, {"kind": "member", "id": "nope"}),
    ],
)
def test_a_name_that_nobody_knows_is_refused(counter: Counter, keys: dict[str, object], facts: dict[str, str]) -> None:
    answer = counter.hold(counter.basket("o1", "A", **keys), payable_minor=10000, status=409)

    assert answer == {"outcome": "unknown_code", "facts": facts}


def test_an_unknown_product_is_refused(counter: Counter) -> None:
    answer = counter.hold(counter.basket("o1", "NOPE"), payable_minor=0, status=409)

    assert answer == {"outcome": "unknown_code", "facts": {"kind": "product", "id": "NOPE"}}


@pytest.mark.parametrize("milli", [0, -1000, 500, 99_999_001])
def test_a_quantity_that_makes_no_sense_is_refused(counter: Counter, milli: int) -> None:
    answer = counter.hold(counter.basket("o1", ("A", milli)), payable_minor=0, status=409)

    assert (answer["outcome"], answer["facts"]["line"]) == ("invalid_quantity", 1)


def test_stored_value_needs_a_member(counter: Counter) -> None:
    answer = counter.hold(counter.basket("o1", "A"), value_minor=1, status=409)

    assert answer["outcome"] == "needs_member"


def test_a_till_holds_for_its_own_store_only(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.call("PUT", "/v1/stores/s2", {"zone": "Asia/Shanghai"}, status=200)
    other = Counter(headquarters, "t2", "s2")
    other.store_id = "s1"

    answer = other.hold(other.basket("o1", "A"), status=409)

    assert answer["outcome"] == "not_allowed"


# ------------------------------------------------------------------ the attempt fences


def test_the_same_hold_again_gets_the_first_answer(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign()
    basket = counter.basket("o1", "A", member="m1", use=(coupon(headquarters),))
    first = counter.hold(basket)
    headquarters.clock.pass_time(minutes=5)

    again = counter.hold(basket, payable_minor=9000)

    assert again == first


def test_the_same_attempt_with_other_content_is_a_mismatch(counter: Counter) -> None:
    counter.hold(counter.basket("o1", "A"), status=200)

    answer = counter.hold(counter.basket("o1", "B"), status=409)

    assert answer["outcome"] == "duplicate_mismatch"


def test_a_refused_hold_leaves_the_order_free_and_stays_refused(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign(min_spend="150.00")
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    refused = counter.hold(basket, payable_minor=10000, status=409)
    headquarters.call("PATCH", "/v1/campaigns/c1", {"min_spend": "1.00"}, status=200)

    again = counter.hold(basket, payable_minor=10000, status=409)
    newer = counter.hold(counter.basket("o1", "A", "A", member="m1", use=(mine,)), attempt=2)

    assert again == refused
    assert newer["outcome"] == "ok"


def test_a_cancelled_order_may_be_tried_again_with_any_content(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), status=200)
    counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=200)

    answer = counter.hold(counter.basket("o1", "A", "B", member="m1", use=(mine,)), attempt=2, status=200)

    assert (answer["attempt"], answer["quote"]["payable_minor"]) == (2, 12000)
    assert coupon_state(headquarters, mine) == "FROZEN"


def test_a_hold_that_comes_after_its_cancel_revives_nothing(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    counter.cancel("o1", reason="no_answer")
    counter.push()

    late = counter.hold(basket, payable_minor=9000, status=409)

    assert late["outcome"] == "illegal_transition"
    assert (late["facts"]["state"], late["facts"]["event"]) == ("CANCELLED", "hold")
    assert coupon_state(headquarters, mine) == "ISSUED"
    assert counter.hold(basket, payable_minor=9000, attempt=2)["outcome"] == "ok"


def test_a_tombstone_of_a_later_attempt_fences_every_earlier_one(headquarters: Headquarters, counter: Counter) -> None:
    counter.cancel("o1", 1)
    counter.cancel("o1", 3)
    counter.push()

    late = [counter.hold(counter.basket("o1", "A"), attempt=n)["outcome"] for n in (2, 3, 4)]

    assert late == ["illegal_transition", "illegal_transition", "ok"]


def test_a_newer_attempt_ends_the_one_that_its_till_gave_up(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    counter.hold(basket, status=200)

    answer = counter.hold(basket, attempt=2, status=200)

    assert answer["attempt"] == 2
    assert events(headquarters, "order", "o1") == [
        ("hold", "OPEN", "HELD"),
        ("cancel", "HELD", "CANCELLED"),
        ("hold", "CANCELLED", "HELD"),
    ]


def test_another_till_cannot_take_an_order_that_is_held(headquarters: Headquarters, counter: Counter) -> None:
    other = Counter(headquarters, "t2")
    counter.hold(counter.basket("o1", "A"), status=200)

    hold = other.hold(other.basket("o1", "A"), attempt=2, status=409)
    cancel = other.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=409)

    assert (hold["outcome"], cancel["outcome"]) == ("illegal_transition", "illegal_transition")
    assert counter.state("o1") == "HELD"


@pytest.mark.parametrize("state", ["HELD", "UNKNOWN", "PAID", "PARTLY_REFUNDED", "REFUNDED"])
def test_an_order_under_way_or_sold_cannot_be_held(headquarters: Headquarters, counter: Counter, state: str) -> None:
    basket = bring_to(counter, state)
    other = Counter(headquarters, "t2")

    answer = other.hold(basket, attempt=9, payable_minor=20000, status=409)

    assert answer["outcome"] == "illegal_transition"
    assert (answer["facts"]["state"], answer["facts"]["event"]) == (state, "hold")
    assert ("hold", state, None) in events(headquarters, "order", "o1")
    assert counter.state("o1") == state


def test_a_paid_order_has_used_what_it_held(headquarters: Headquarters, counter: Counter) -> None:
    mine, basket = mixed_order(headquarters, counter)

    counter.hold_and_sell(basket, tenders=[stored_value(5000), cash(4000)])

    assert counter.verdicts() == [("OK", "")]
    assert coupon_state(headquarters, mine) == "USED"
    assert balance(headquarters, "budget:c1") == (9000, 0, 1000)
    assert balance(headquarters, "uses:p1") == (3, 0, 2)
    assert balance(headquarters, "value:m1") == (5000, 0, 5000)
    assert findings(headquarters) == {}


def test_an_order_shows_its_lines_its_quote_its_tenders_and_its_refunds(
    headquarters: Headquarters, counter: Counter
) -> None:
    basket = counter.basket("o1", ("A", 2000))
    counter.sell(basket)
    counter.push()
    counter.refund("o1", (1, 1000), request="r1", status=200)

    shown = counter.call("GET", "/v1/orders/o1", status=200)

    assert (shown["state"], shown["payable_minor"], shown["refunded_minor"]) == ("PARTLY_REFUNDED", 20000, 10000)
    assert shown["quote"]["payable_minor"] == 20000
    assert shown["tenders"] == [{"type": "cash", "amount_minor": 20000}]
    assert [refund["amount_minor"] for refund in shown["refunds"]] == [10000]


def test_history_tells_both_clocks_and_who_it_was(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    headquarters.clock.pass_time(hours=1)
    counter.push()

    (told,) = counter.call("GET", "/v1/orders/o1/history", status=200)["events"]

    assert (told["till_at"], told["server_at"]) == ("2026-06-01T02:00:00+00:00", "2026-06-01T03:00:00+00:00")
    assert (told["till"], told["operator"], told["event"]) == ("t1", "ann", "pay_success")
