"""What does not add up is repaired where there is one right answer, and else reported with its evidence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from server.jobs import CHECKS, run_due
from server.jobs.reconcile import check_books, check_messages, check_orders, check_tills, forget_messages
from server.jobs.relay import relay
from server.services import outbox
from server.services.outbox import ALERT, Message, Undelivered, Waiting
from tests.fakes.counter import Counter, bring_to, coupon, coupon_state, finding, findings, mixed_order
from tests.fakes.headquarters import Headquarters


def plant(headquarters: Headquarters, statement: str, **values: Any) -> None:
    """Break the books as a bug, a bad restore or a hand in the database would."""
    headquarters.database.write(lambda conn: conn.execute(text(statement), values))


def states(headquarters: Headquarters, kind: str) -> list[str]:
    found = headquarters.call("GET", "/v1/findings", status=200)["findings"]
    return [each["state"] for each in found if each["kind"] == kind]


def fail(_message: Waiting) -> None:
    raise Undelivered("the webhook answered 500")


def put(headquarters: Headquarters, key: str = "stock_low:c1:10") -> None:
    headquarters.services.write(lambda conn, ctx: outbox.put(conn, [Message(ALERT, key, {"kind": "x"})], ctx.now))


# ------------------------------------------------------------------ nothing wrong, nothing said


def test_a_chain_in_order_has_no_findings(headquarters: Headquarters, counter: Counter) -> None:
    mine, basket = mixed_order(headquarters, counter)
    counter.hold_and_sell(basket)
    counter.push()
    counter.hello()

    reports = [job.run(headquarters.services) for job in CHECKS]

    assert mine
    assert [report.findings for report in reports] == [{}] * len(CHECKS)
    assert findings(headquarters) == {}


# ------------------------------------------------------------------ the books


def test_a_claim_whose_coupon_is_gone_is_reported_with_the_coupons_id(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5)
    mine = coupon(headquarters)
    plant(headquarters, "DELETE FROM coupon WHERE id = :id", id=mine)

    check_books(headquarters.services)

    found = finding(headquarters, "claim_without_coupon")
    assert (found["key"], found["detail"]["coupon_id"]) == ("claim:r-c1-m1", mine)


def test_a_balance_that_does_not_add_up_is_reported_with_both_sums(headquarters: Headquarters) -> None:
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "100.00"}, status=200)
    plant(headquarters, "UPDATE account SET total = total + 500, available = available + 500 WHERE id = 'value:m1'")

    check_books(headquarters.services)

    found = finding(headquarters, "account_transfers")
    assert found["key"] == "value:m1"
    assert (found["detail"]["available"], found["detail"]["available_moved"]) == (10500, 10000)


def test_more_granted_than_there_are_coupons_is_reported(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5)
    coupon(headquarters)
    plant(headquarters, "UPDATE account SET available = available - 1, spent = spent + 1 WHERE id = 'stock:c1'")

    check_books(headquarters.services)

    assert finding(headquarters, "stock_granted")["detail"] == {"spent": 2, "coupons": 1}


def test_a_coupon_frozen_by_nobody_is_reported(headquarters: Headquarters) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    plant(headquarters, "UPDATE coupon SET state = 'FROZEN', order_id = 'gone', attempt = 1 WHERE id = :id", id=mine)

    check_books(headquarters.services)

    assert finding(headquarters, "coupon_frozen")["detail"] == {"order_id": "gone", "attempt": 1}


def test_looking_again_opens_no_second_finding_and_what_was_put_right_is_closed(headquarters: Headquarters) -> None:
    headquarters.campaign(stock=5)
    coupon(headquarters)
    plant(headquarters, "UPDATE account SET available = available - 1, spent = spent + 1 WHERE id = 'stock:c1'")

    first = check_books(headquarters.services).findings
    again = check_books(headquarters.services).findings
    plant(headquarters, "UPDATE account SET available = available + 1, spent = spent - 1 WHERE id = 'stock:c1'")
    check_books(headquarters.services)

    assert (first["stock_granted"], again) == (1, {})
    assert states(headquarters, "stock_granted") == ["CLOSED"]
    assert findings(headquarters) == {}


@pytest.mark.parametrize(("accepted", "after"), [(False, ["OPEN"]), (True, ["CLOSED"])])
def test_what_is_wrong_again_is_told_again_unless_somebody_accepted_it(
    headquarters: Headquarters, accepted: bool, after: list[str]
) -> None:
    headquarters.campaign(stock=5)
    coupon(headquarters)
    wrong = "UPDATE account SET available = available - 1, spent = spent + 1 WHERE id = 'stock:c1'"
    plant(headquarters, wrong)
    check_books(headquarters.services)
    if accepted:
        number = finding(headquarters, "stock_granted")["id"]
        word = {"by": "Lin", "reason": "known"}
        headquarters.call("POST", f"/v1/findings/{number}/decide", {**word, "decision": "accept"}, status=200)
        headquarters.call("POST", f"/v1/findings/{number}/close", word, status=200)
    else:
        plant(headquarters, "UPDATE account SET available = available + 1, spent = spent - 1 WHERE id = 'stock:c1'")
        check_books(headquarters.services)
        plant(headquarters, wrong)

    check_books(headquarters.services)

    assert states(headquarters, "stock_granted") == after


# ------------------------------------------------------------------ holds and orders


def test_a_hold_past_its_time_whose_message_was_lost_is_given_back_by_the_patrol(
    headquarters: Headquarters, counter: Counter
) -> None:
    mine, basket = mixed_order(headquarters, counter)
    counter.hold(basket, status=200)
    plant(headquarters, "DELETE FROM outbox WHERE topic = 'timely'")
    headquarters.clock.pass_time(minutes=15)

    run_due(headquarters.services)
    check_orders(headquarters.services)

    assert (counter.state("o1"), coupon_state(headquarters, mine)) == ("CANCELLED", "ISSUED")
    assert findings(headquarters) == {}


def test_a_hold_that_no_patrol_ends_is_reported_and_closed_when_it_ends(
    headquarters: Headquarters, counter: Counter
) -> None:
    bring_to(counter, "HELD")
    plant(headquarters, "UPDATE orders SET held_until_at = NULL WHERE id = 'o1'")
    run_due(headquarters.services)

    check_orders(headquarters.services)
    found = finding(headquarters, "hold_overdue")
    counter.cancel("o1")
    counter.push()
    check_orders(headquarters.services)

    assert (found["key"], found["detail"]["till"]) == ("o1/1", "t1")
    assert states(headquarters, "hold_overdue") == ["CLOSED"]


@pytest.mark.parametrize(("minutes", "found"), [(9, {}), (10, {"payment_unknown": 1})])
def test_a_payment_without_an_answer_is_reported_after_ten_minutes(
    headquarters: Headquarters, counter: Counter, minutes: int, found: dict[str, int]
) -> None:
    bring_to(counter, "UNKNOWN")

    headquarters.clock.pass_time(minutes=minutes)
    check_orders(headquarters.services)

    assert findings(headquarters) == found


def test_a_payment_that_got_its_answer_is_closed(headquarters: Headquarters, counter: Counter) -> None:
    bring_to(counter, "UNKNOWN")
    headquarters.clock.pass_time(minutes=30)
    check_orders(headquarters.services)
    found = finding(headquarters, "payment_unknown")

    counter.cancel("o1", reason="pay_failed")
    counter.push()
    check_orders(headquarters.services)

    assert (found["amount_minor"], found["detail"]["order"]) == (20000, "o1")
    assert states(headquarters, "payment_unknown") == ["CLOSED"]


# ------------------------------------------------------------------ tills


@pytest.mark.parametrize(("hours", "found"), [(23.99, {}), (24, {"silent_till": 1})])
def test_a_till_that_is_silent_for_a_day_is_reported(
    headquarters: Headquarters, counter: Counter, hours: float, found: dict[str, int]
) -> None:
    counter.hello()

    headquarters.clock.pass_time(hours=hours)
    check_tills(headquarters.services)

    assert findings(headquarters) == found


def test_a_till_that_speaks_again_closes_its_finding_and_the_next_silence_is_another(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.hello()
    for _ in range(2):
        headquarters.clock.pass_time(hours=30)
        check_tills(headquarters.services)
        counter.hello()
        check_tills(headquarters.services)

    assert states(headquarters, "silent_till") == ["CLOSED", "CLOSED"]


def test_a_till_that_was_never_heard_of_or_has_no_key_any_more_is_not_silent(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.call("PUT", "/v1/tills/t2", {"store": "s1"}, status=200)
    counter.hello()
    plant(headquarters, "UPDATE device SET replaced_at = 0 WHERE till_id = 't1'")
    headquarters.clock.pass_time(days=30)

    check_tills(headquarters.services)

    assert findings(headquarters) == {}


@pytest.mark.parametrize("event", ["", "suspend", "revoke"])
@pytest.mark.parametrize("has", ["nothing", "a lease", "a coupon"])
def test_a_till_is_missed_and_a_shut_one_for_what_it_has(
    headquarters: Headquarters, counter: Counter, event: str, has: str
) -> None:
    headquarters.campaign(stock=5)
    if has == "a lease":
        counter.lease("stock", "c1", 1)
    if has == "a coupon":
        counter.take_home(coupon(headquarters))
    counter.sell(counter.basket("o1", "A"))
    counter.hello()
    if event:
        headquarters.call("POST", f"/v1/tills/t1/{event}", {"reason": "looked at"}, status=200)

    headquarters.clock.pass_time(hours=24)
    check_tills(headquarters.services)

    silent = {} if event and has == "nothing" else {"silent_till": 1}
    assert findings(headquarters) == {"tail_pending": 1, **silent}


@pytest.mark.parametrize(("minutes", "found"), [(29, {}), (30, {"tail_pending": 1})])
def test_sales_that_were_announced_and_never_came_are_reported(
    headquarters: Headquarters, counter: Counter, minutes: int, found: dict[str, int]
) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.hello()

    headquarters.clock.pass_time(minutes=minutes)
    check_tills(headquarters.services)

    assert findings(headquarters) == found
    if found:
        assert finding(headquarters, "tail_pending")["detail"]["announced"] == 1
        counter.push()
        check_tills(headquarters.services)
        assert states(headquarters, "tail_pending") == ["CLOSED"]


# ------------------------------------------------------------------ messages


@pytest.mark.parametrize(("seconds", "found"), [(60, {}), (61, {"outbox_stuck": 1})])
def test_a_message_that_does_not_leave_for_a_minute_is_reported_with_the_reason(
    headquarters: Headquarters, seconds: int, found: dict[str, int]
) -> None:
    put(headquarters)
    relay(ALERT, fail).run(headquarters.services)

    headquarters.clock.pass_time(seconds=seconds)
    check_messages(headquarters.services)

    assert findings(headquarters) == found
    if found:
        detail = finding(headquarters, "outbox_stuck")["detail"]
        assert (detail["key"], detail["error"]) == ("stock_low:c1:10", "the webhook answered 500")


def test_a_stuck_message_that_leaves_at_last_closes_its_finding(headquarters: Headquarters) -> None:
    put(headquarters)
    relay(ALERT, fail).run(headquarters.services)
    headquarters.clock.pass_time(minutes=5)
    check_messages(headquarters.services)
    sent: list[str] = []

    relay(ALERT, lambda message: sent.append(message.key)).run(headquarters.services)
    check_messages(headquarters.services)

    # The finding itself is told too.
    assert sent == ["stock_low:c1:10", "finding:outbox_stuck:2026-06-01T02"]
    assert states(headquarters, "outbox_stuck") == ["CLOSED"]


def test_messages_that_were_sent_are_forgotten_in_chunks(headquarters: Headquarters) -> None:
    for number in range(3):
        put(headquarters, f"m{number}")
    relay(ALERT, lambda _: None).run(headquarters.services)

    headquarters.clock.at += timedelta(days=2)

    assert (forget_messages(headquarters.services).done, forget_messages(headquarters.services).done) == (3, 0)


# ------------------------------------------------------------------ clocks


@pytest.mark.parametrize("check", [check_orders, check_tills, check_messages])
def test_a_clock_that_jumps_ahead_and_back_leaves_no_finding_open(
    headquarters: Headquarters, counter: Counter, check: Callable[..., Any]
) -> None:
    bring_to(counter, "UNKNOWN")
    counter.hello()
    put(headquarters)

    headquarters.clock.pass_time(days=300)
    check(headquarters.services)
    headquarters.clock.pass_time(days=-300)
    check(headquarters.services)

    assert findings(headquarters) == {}
