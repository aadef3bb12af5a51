"""How an order ends: every row of its life cycle, cancel, timeout, and payments without an answer."""

from __future__ import annotations

import pytest

from server.jobs import holds, run_due
from tests.fakes.counter import Counter, balance, bring_to, coupon, coupon_state, events, findings, mixed_order
from tests.fakes.headquarters import Headquarters

# ------------------------------------------------------------------ every row of the order life cycle


@pytest.mark.parametrize(
    ("state", "reason", "to"),
    [
        ("HELD", "cancelled", "CANCELLED"),
        ("HELD", "pay_failed", "CANCELLED"),
        ("HELD", "no_answer", "CANCELLED"),
        ("HELD", "interrupted", "CANCELLED"),
        ("UNKNOWN", "pay_failed", "CANCELLED"),
        ("UNKNOWN", "cancelled", "CANCELLED"),
        ("CANCELLED", "cancelled", "CANCELLED"),
        ("CANCELLED", "pay_failed", "CANCELLED"),
        ("PAID", "cancelled", None),
        ("PAID", "pay_failed", None),
        ("PARTLY_REFUNDED", "cancelled", None),
        ("REFUNDED", "cancelled", None),
    ],
)
def test_a_cancel_moves_what_may_be_cancelled_and_nothing_else(
    headquarters: Headquarters, counter: Counter, state: str, reason: str, to: str | None
) -> None:
    bring_to(counter, state)
    before = counter.state("o1")

    counter.cancel("o1", reason=reason)
    verdict = counter.verdicts()

    assert verdict == [("OK", "")] if to else verdict == [("CONFLICT", "illegal_transition")]
    assert counter.state("o1") == (to or before)
    assert findings(headquarters) == ({} if to else {"illegal_transition": 1})


@pytest.mark.parametrize(
    ("state", "to"),
    [
        ("HELD", "UNKNOWN"),
        ("UNKNOWN", "UNKNOWN"),
        ("CANCELLED", None),
        ("PAID", None),
        ("PARTLY_REFUNDED", None),
        ("REFUNDED", None),
    ],
)
def test_no_answer_from_the_terminal_leaves_a_held_order_unknown(
    headquarters: Headquarters, counter: Counter, state: str, to: str | None
) -> None:
    bring_to(counter, state)

    payment = {"id": "pay2", "type": "card", "amount_minor": 20000}
    counter.append("payment_unknown", counter.body("o1", payment=payment))
    verdict = counter.verdicts()

    assert verdict == [("OK", "")] if to else verdict == [("CONFLICT", "illegal_transition")]
    assert counter.state("o1") == (to or state)


@pytest.mark.parametrize(
    ("state", "to", "code"),
    [
        ("HELD", "PAID", ""),
        ("UNKNOWN", "PAID", ""),
        ("CANCELLED", None, "late_payment"),
        ("PAID", None, "duplicate_order"),
        ("PARTLY_REFUNDED", None, "duplicate_order"),
        ("REFUNDED", None, "duplicate_order"),
    ],
)
def test_a_sale_pays_what_waits_for_payment_and_nothing_else(
    headquarters: Headquarters, counter: Counter, state: str, to: str | None, code: str
) -> None:
    basket = bring_to(counter, state)
    lines, quote = counter.price(basket)

    counter.append("sale", counter.sale_body(lines, quote, basket, held=True))
    verdict = counter.verdicts()

    assert verdict == [("CONFLICT" if code else "OK", code)]
    assert counter.state("o1") == (to or state)
    assert findings(headquarters) == ({code: 1} if code else {})


@pytest.mark.parametrize("state", ["HELD", "UNKNOWN", "CANCELLED"])
def test_what_was_never_paid_cannot_be_refunded(headquarters: Headquarters, counter: Counter, state: str) -> None:
    bring_to(counter, state)

    answer = counter.refund("o1", request="r9", status=409)

    assert (answer["outcome"], answer["facts"]["state"]) == ("illegal_transition", state)
    assert ("refund", state, None) in events(headquarters, "order", "o1")


# ------------------------------------------------------------------ giving back


def test_a_cancel_gives_everything_back_at_once(headquarters: Headquarters, counter: Counter) -> None:
    mine, basket = mixed_order(headquarters, counter)
    counter.hold(basket, value_minor=5000, status=200)

    answer = counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1, "reason": "pay_failed"}, status=200)

    assert answer["state"] == "CANCELLED"
    assert coupon_state(headquarters, mine) == "ISSUED"
    assert balance(headquarters, "budget:c1") == (10000, 0, 0)
    assert balance(headquarters, "uses:p1") == (5, 0, 0)
    assert balance(headquarters, "value:m1") == (10000, 0, 0)
    assert events(headquarters, "coupon", mine)[-2:] == [
        ("lock", "ISSUED", "FROZEN"),
        ("pay_failed", "FROZEN", "ISSUED"),
    ]


def test_cancelling_a_cancelled_order_is_fine_and_changes_nothing(headquarters: Headquarters, counter: Counter) -> None:
    counter.hold(counter.basket("o1", "A"), status=200)
    counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=200)
    before = events(headquarters, "order", "o1")

    again = counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=200)

    assert again == {"outcome": "ok", "state": "CANCELLED"}
    assert events(headquarters, "order", "o1") == before


def test_the_cancel_of_an_attempt_that_is_over_changes_nothing(headquarters: Headquarters, counter: Counter) -> None:
    counter.hold(counter.basket("o1", "A"), status=200)
    counter.hold(counter.basket("o1", "A"), attempt=2, status=200)

    counter.cancel("o1", 1)

    assert counter.verdicts() == [("OK", "")]
    assert counter.state("o1") == "HELD"


def test_the_office_may_cancel_an_order_that_is_known_and_no_other(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.hold(counter.basket("o1", "A"), status=200)

    known = headquarters.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=200)
    other = headquarters.call("POST", "/v1/orders/o2/cancel", {"attempt": 1}, status=404)

    assert known["state"] == "CANCELLED"
    assert other["outcome"] == "unknown_code"


def test_a_coupon_that_ran_out_while_frozen_thaws_to_expired(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign(until="2026-06-01T10:10:00+08:00")
    mine = coupon(headquarters)
    counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), status=200)
    headquarters.clock.pass_time(minutes=10)
    run_due(headquarters.services)
    assert coupon_state(headquarters, mine) == "FROZEN"

    counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=200)

    assert coupon_state(headquarters, mine) == "EXPIRED"
    assert events(headquarters, "coupon", mine)[-1] == ("cancel", "FROZEN", "EXPIRED")


def test_a_coupon_that_ran_out_while_frozen_is_used_when_the_order_is_paid(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign(until="2026-06-01T10:10:00+08:00")
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    counter.hold_and_sell(basket)
    headquarters.clock.pass_time(minutes=11)

    verdicts = counter.verdicts()

    assert verdicts == [("OK", "")]
    assert coupon_state(headquarters, mine) == "USED"


def test_a_coupon_whose_last_instant_has_come_cannot_be_held(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign(until="2026-06-01T10:10:00+08:00")
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))

    headquarters.clock.pass_time(minutes=10)
    answer = counter.hold(basket, payable_minor=9000, status=409)

    assert answer["outcome"] == "expired"


# ------------------------------------------------------------------ timeouts


@pytest.mark.parametrize(("seconds", "state"), [(899, "HELD"), (900, "CANCELLED")])
def test_a_held_order_times_out_at_its_instant(
    headquarters: Headquarters, counter: Counter, seconds: int, state: str
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), status=200)

    headquarters.clock.pass_time(seconds=seconds)
    run_due(headquarters.services)

    assert counter.state("o1") == state
    assert coupon_state(headquarters, mine) == ("FROZEN" if state == "HELD" else "ISSUED")


def test_an_unknown_payment_waits_for_an_answer_and_never_for_a_clock(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), status=200)
    payment = {"id": "pay1", "type": "card", "amount_minor": 9000}
    counter.append("payment_unknown", counter.body("o1", payment=payment))
    counter.push()

    headquarters.clock.pass_time(days=30)
    run_due(headquarters.services)

    assert counter.state("o1") == "UNKNOWN"
    assert coupon_state(headquarters, mine) == "FROZEN"


def test_a_payment_after_the_timeout_is_kept_for_a_person_and_changes_nothing(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    counter.hold_and_sell(counter.basket("o1", "A", member="m1", use=(mine,)))
    headquarters.clock.pass_time(minutes=15)
    run_due(headquarters.services)

    verdicts = counter.verdicts()

    assert verdicts == [("CONFLICT", "late_payment")]
    found = headquarters.call("GET", "/v1/findings", status=200)["findings"][0]
    assert (found["kind"], found["amount_minor"], found["detail"]["state"]) == ("late_payment", 9000, "CANCELLED")
    assert counter.state("o1") == "CANCELLED"
    assert coupon_state(headquarters, mine) == "ISSUED"
    assert ("pay_success", "CANCELLED", None) in events(headquarters, "order", "o1")


def test_more_holds_than_fit_into_one_transaction_time_out_in_one_walk(
    headquarters: Headquarters, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds, "CHUNK", 2)
    for number in range(5):
        counter.hold(counter.basket(f"o{number}", "A"), payable_minor=10000, status=200)
    headquarters.clock.pass_time(minutes=15)

    reports = {report.name: report.done for report in run_due(headquarters.services)}

    assert reports["hold_timeouts"] == 5


# ------------------------------------------------------------------ what the whole way leaves


# ------------------------------------------------------------------ an attempt speaks for itself


def test_a_later_attempt_does_not_end_a_payment_that_waits_for_its_answer(
    headquarters: Headquarters, counter: Counter
) -> None:
    bring_to(counter, "UNKNOWN")

    answer = counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 2}, status=409)

    assert answer["outcome"] == "illegal_transition"
    assert counter.state("o1") == "UNKNOWN"


@pytest.mark.parametrize(("till", "attempt"), [("t2", 1), ("t1", 2)])
def test_only_the_till_and_the_attempt_that_hold_an_order_make_its_payment_unknown(
    headquarters: Headquarters, counter: Counter, till: str, attempt: int
) -> None:
    bring_to(counter, "HELD")
    other = counter if till == "t1" else Counter(headquarters, till)

    other.append("payment_unknown", other.body("o1", attempt, payment={"id": "p", "type": "card", "amount_minor": 1}))

    assert other.verdicts() == [("CONFLICT", "illegal_transition")]
    assert counter.state("o1") == "HELD"
