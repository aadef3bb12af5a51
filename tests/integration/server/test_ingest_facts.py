"""What ingest makes of a fact: booked whatever is wrong with it, and what is wrong is a finding with its money."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from server.db.schema import ledger_entry
from server.services import feed
from tests.fakes.counter import (
    Counter,
    balance,
    cash,
    coupon,
    coupon_state,
    covers,
    events,
    finding,
    findings,
    stored_value,
    violations,
)
from tests.fakes.headquarters import Headquarters


def _stored(headquarters: Headquarters) -> list[tuple[int, str, str]]:
    rows = select(ledger_entry.c.seq, ledger_entry.c.result, ledger_entry.c.detail).order_by(ledger_entry.c.seq)
    return headquarters.services.read(lambda conn, _: [tuple(row) for row in conn.execute(rows)])


def test_an_unknown_sku_is_sold_and_found(headquarters: Headquarters, counter: Counter) -> None:
    basket = counter.basket("o1", "A")
    lines, quote = counter.price(basket)
    body = counter.sale_body(lines, quote, basket)
    for part in (body, body["quote"]):
        part["lines"][0]["sku"] = "GONE"
    counter.append("sale", body)
    counter.sell(counter.basket("o2", "A"))

    verdicts = counter.verdicts()

    assert verdicts == [("CONFLICT", "unknown_sku"), ("OK", "")]
    assert counter.state("o1") == "PAID"
    assert finding(headquarters, "unknown_sku")["key"] == "GONE"
    assert violations(headquarters) == []


@pytest.mark.parametrize(
    ("where", "field", "value", "problem"),
    [
        ("tender", "amount_minor", 9999, "the tenders"),
        ("line", "gross_minor", 10001, "line 1: the gross"),
        ("line", "discount_minor", 1, "line 1: the discount"),
        ("line", "net_minor", 9999, "line 1: the net"),
        ("line", "covered_units", 1, "line 1: the covered units"),
        ("line", "qty_milli", 2000, "the quote prices other lines"),
        ("quote", "gross_minor", 1, "the totals"),
        ("quote", "payable_minor", 9999, "the amount to pay"),
    ],
)
def test_a_sale_that_does_not_add_up_is_booked_and_found(
    headquarters: Headquarters, counter: Counter, where: str, field: str, value: int, problem: str
) -> None:
    basket = counter.basket("o1", "A")
    lines, quote = counter.price(basket)
    body = counter.sale_body(lines, quote, basket)
    part = {"tender": body["tenders"][0], "line": body["quote"]["lines"][0], "quote": body["quote"]}[where]
    part[field] = value
    counter.append("sale", body)

    verdicts = counter.verdicts()

    assert verdicts == [("CONFLICT", "bad_sums")]
    assert counter.state("o1") == "PAID"
    assert finding(headquarters, "bad_sums")["detail"]["problem"] == problem
    assert violations(headquarters) == []


def test_the_same_order_sold_twice_by_different_entries_is_found_with_its_money(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.sell(counter.basket("o1", "B"))

    verdicts = counter.verdicts()

    assert verdicts == [("OK", ""), ("CONFLICT", "duplicate_order")]
    assert finding(headquarters, "duplicate_order")["amount_minor"] == 3000
    assert counter.call("GET", "/v1/orders/o1", status=200)["payable_minor"] == 10000
    assert violations(headquarters) == []


def test_a_held_sale_whose_hold_is_not_known_draws_what_is_there(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign(budget="100.00")
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    counter.sell(basket, held=True)

    verdicts = counter.verdicts()

    assert verdicts == [("CONFLICT", "no_hold")]
    assert coupon_state(headquarters, mine) == "USED"
    assert balance(headquarters, "budget:c1") == (9000, 0, 1000)
    assert findings(headquarters) == {"no_hold": 1}
    assert violations(headquarters) == []


@pytest.mark.parametrize("right", ["a coupon", "a punch card", "stored value", "a budget"])
def test_a_sale_that_says_it_holds_nothing_is_not_believed_where_it_drew_on_a_right(
    headquarters: Headquarters, counter: Counter, right: str
) -> None:
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "20.00"}, status=200)
    headquarters.call("POST", "/v1/punch-cards", {"id": "p1", "member": "m1", "service": "WASH", "uses": 1}, status=200)
    if right == "a coupon":
        headquarters.campaign()
        counter.sell(counter.basket("o1", "A", member="m1", use=(coupon(headquarters),)))
    elif right == "a punch card":
        counter.sell(counter.basket("o1", "WASH", member="m1", covers=covers("p1", 1)))
    elif right == "stored value":
        counter.sell(counter.basket("o1", "A", member="m1"), tenders=[stored_value(2000), cash(8000)])
    else:
        headquarters.campaign(kind="automatic", budget="50.00")
        counter.sell(counter.basket("o1", "A"))

    assert counter.verdicts() == [("CONFLICT", "no_hold")]
    assert violations(headquarters) == []


def test_every_right_that_was_not_there_has_its_own_finding(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign(budget="15.00", stock=10, per_member=2)
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "20.00"}, status=200)
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 1}
    headquarters.call("POST", "/v1/punch-cards", card, status=200)
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", "WASH", member="m1", use=(mine,), covers=covers("p1", 2))
    lines, quote = counter.price(basket)
    first = counter.sale_body(lines, quote, basket, tenders=[stored_value(2000), cash(7000)], held=True)
    second = counter.sale_body(lines, quote, counter.basket("o2", "A"), tenders=[stored_value(2000), cash(7000)])
    counter.append("sale", first)
    counter.append("sale", {**second, "held": True})

    verdicts = counter.verdicts()

    assert verdicts == [("CONFLICT", "no_hold"), ("CONFLICT", "double_redemption")]
    found = {
        each["key"]: each["amount_minor"]
        for each in headquarters.call("GET", "/v1/findings", status=200)["findings"]
        if each["kind"] != "no_hold"
    }
    assert found == {f"{mine}/o2": 1000, "budget:c1/o2": 500, "uses:p1/o2": 0, "value:m1/o2": 2000}
    assert balance(headquarters, "value:m1") == (0, 0, 4000)
    assert violations(headquarters) == []


@pytest.mark.parametrize("name", ["nobody-knows", "revoked"])
def test_a_coupon_that_was_no_right_any_more_is_an_invalid_redemption(
    headquarters: Headquarters, counter: Counter, name: str
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    lines, quote = counter.price(basket)
    headquarters.call("POST", f"/v1/coupons/{mine}/revoke", {"reason": "test"}, status=200)
    body = counter.sale_body(lines, quote, basket, held=True)
    if name != "revoked":
        body["quote"]["laid"][0]["coupon"] = name
    counter.append("sale", body)

    verdicts = counter.verdicts()

    assert verdicts == [("CONFLICT", "invalid_redemption")]
    assert coupon_state(headquarters, mine) == "REVOKED"
    assert violations(headquarters) == []


def test_a_sale_that_used_less_than_it_held_gives_the_rest_back(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), status=200)
    counter.sell(counter.basket("o1", "A", member="m1"), held=True)

    verdicts = counter.verdicts()

    assert verdicts == [("CONFLICT", "hold_mismatch")]
    assert coupon_state(headquarters, mine) == "ISSUED"
    assert counter.state("o1") == "PAID"
    assert violations(headquarters) == []


def test_a_budget_that_began_while_an_order_was_held_is_no_conflict(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    counter.hold_and_sell(counter.basket("o1", "A", member="m1", use=(mine,)))
    headquarters.call("PATCH", "/v1/campaigns/c1", {"budget": "50.00"}, status=200)

    verdicts = counter.verdicts()

    assert verdicts == [("OK", "")]
    assert balance(headquarters, "budget:c1") == (4000, 0, 1000)
    assert violations(headquarters) == []


@pytest.mark.parametrize("waiting", ["HELD", "UNKNOWN"])
def test_a_budget_that_begins_is_not_given_to_others_before_the_orders_that_wait_are_paid(
    headquarters: Headquarters, counter: Counter, waiting: str
) -> None:
    headquarters.campaign(per_member=2)
    first, second = coupon(headquarters), coupon(headquarters, request="another")
    basket = counter.basket("o1", "A", member="m1", use=(first,))
    lines, quote = counter.price(basket)
    counter.hold(basket, status=200)
    if waiting == "UNKNOWN":
        payment = {"id": "pay1", "type": "card", "amount_minor": 9000}
        counter.append("payment_unknown", counter.body("o1", payment=payment))
        counter.push()
    headquarters.call("PATCH", "/v1/campaigns/c1", {"budget": "10.00"}, status=200)

    other = counter.hold(counter.basket("o2", "A", member="m1", use=(second,)), payable_minor=9000, status=409)
    counter.append("sale", counter.sale_body(lines, quote, basket, held=True))

    assert other["outcome"] == "budget_spent"
    assert counter.verdicts() == [("OK", "")]
    assert balance(headquarters, "budget:c1") == (0, 0, 1000)
    assert (findings(headquarters), violations(headquarters)) == ({}, [])


def test_a_budget_that_begins_gets_back_what_an_order_that_waited_did_not_use(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign()
    counter.hold(counter.basket("o1", "A", member="m1", use=(coupon(headquarters),)), status=200)
    headquarters.call("PATCH", "/v1/campaigns/c1", {"budget": "10.00"}, status=200)
    held = balance(headquarters, "budget:c1")

    counter.cancel("o1")

    assert counter.verdicts() == [("OK", "")]
    assert (held, balance(headquarters, "budget:c1")) == ((0, 1000, 0), (1000, 0, 0))
    assert violations(headquarters) == []


def test_a_budget_cannot_begin_below_what_orders_hold_already(headquarters: Headquarters, counter: Counter) -> None:
    headquarters.campaign()
    counter.hold(counter.basket("o1", "A", member="m1", use=(coupon(headquarters),)), status=200)

    refused = headquarters.call("PATCH", "/v1/campaigns/c1", {"budget": "9.99"})

    assert (refused["outcome"], refused["facts"]["field"], refused["facts"]["out"]) == (
        "invalid_campaign",
        "budget",
        1000,
    )


def test_a_hold_that_is_given_back_pays_an_overdraft_before_anyone_may_have_it(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "60.00"}, status=200)
    counter.hold(counter.basket("o1", "A", member="m1"), value_minor=6000, status=200)
    counter.sell(counter.basket("o2", "A", member="m1"), tenders=[stored_value(6000), cash(4000)], held=True)
    counter.cancel("o1")

    verdicts = counter.verdicts()
    again = counter.hold(counter.basket("o3", "A", member="m1"), value_minor=6000, status=409)

    assert verdicts == [("CONFLICT", "overdraft"), ("OK", "")]
    assert again["outcome"] == "insufficient_balance"
    assert balance(headquarters, "value:m1") == (0, 0, 6000)
    assert violations(headquarters) == []


def test_a_sale_that_differs_from_its_hold_has_what_it_held_before_an_overdraft_is_paid(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "60.00"}, status=200)
    counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), value_minor=6000, status=200)
    counter.sell(counter.basket("o2", "A", member="m1"), tenders=[stored_value(6000), cash(4000)], held=True)
    counter.sell(counter.basket("o1", "A", member="m1"), tenders=[stored_value(5000), cash(5000)], held=True)

    verdicts = counter.verdicts()

    assert verdicts == [("CONFLICT", "overdraft"), ("CONFLICT", "hold_mismatch")]
    assert finding(headquarters, "overdraft")["detail"]["order"] == "o2"
    assert balance(headquarters, "value:m1") == (0, 0, 11000)
    assert violations(headquarters) == []


@pytest.mark.parametrize(
    ("budget", "verdict", "left"),
    [("10.00", ("OK", ""), (0, 0, 1000)), ("9.99", ("CONFLICT", "overdraft"), (0, 0, 1000))],
)
def test_a_sale_that_was_made_before_its_promotion_had_a_budget_needed_no_hold(
    headquarters: Headquarters, counter: Counter, budget: str, verdict: tuple[str, str], left: tuple[int, int, int]
) -> None:
    headquarters.campaign(kind="automatic")
    counter.sell(counter.basket("o1", "A"))
    headquarters.call("PATCH", "/v1/campaigns/c1", {"budget": budget}, status=200)

    assert counter.verdicts() == [verdict]
    assert balance(headquarters, "budget:c1") == left
    assert violations(headquarters) == []


def test_a_sale_of_an_attempt_that_is_over_is_recorded_and_changes_nothing(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    counter.hold(basket, status=200)
    counter.hold(basket, attempt=2, status=200)
    counter.sell(counter.basket("o1", "A"), held=True, attempt=1)

    verdicts = counter.verdicts()

    assert verdicts == [("CONFLICT", "late_payment")]
    assert counter.state("o1") == "HELD"
    assert coupon_state(headquarters, mine) == "FROZEN"
    assert ("pay_success", "HELD", None) in events(headquarters, "order", "o1")


@pytest.mark.parametrize(("attempt", "code"), [(1, "late_payment"), (2, "invalid_redemption")])
def test_a_till_hears_what_became_of_a_coupon_that_it_marked_as_used_in_vain(
    headquarters: Headquarters, counter: Counter, attempt: int, code: str
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    counter.hold(basket, status=200)
    counter.sell(basket, held=True, attempt=attempt)
    counter.call("POST", "/v1/orders/o1/cancel", {"attempt": 1}, status=200)
    headquarters.call("POST", f"/v1/coupons/{mine}/revoke", {"reason": "lost"}, status=200)
    seen = headquarters.services.read(lambda conn, _: feed.head(conn))

    verdicts = counter.verdicts()

    page = headquarters.services.read(lambda conn, _: feed.page(conn, seen, 100))
    told = [record.record["state"] for record in page.records if record.key == mine and record.record is not None]
    assert (verdicts, told) == ([("CONFLICT", code)], ["REVOKED"])


def test_another_till_cannot_settle_an_order_that_it_does_not_hold(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    counter.hold(basket, status=200)
    other = Counter(headquarters, "t2")
    other.sell(other.basket("o1", "A"), held=True)

    assert other.verdicts() == [("CONFLICT", "late_payment")]
    assert coupon_state(headquarters, mine) == "FROZEN"


def test_a_plain_sale_of_a_cancelled_order_is_a_new_attempt(headquarters: Headquarters, counter: Counter) -> None:
    counter.cancel("o1", 1, reason="pay_failed")
    counter.sell(counter.basket("o1", "A"), attempt=2)

    verdicts = counter.verdicts()

    assert verdicts == [("OK", ""), ("OK", "")]
    assert counter.state("o1") == "PAID"
    assert violations(headquarters) == []


def test_a_plain_sale_of_a_newer_attempt_ends_the_hold_that_its_till_gave_up(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    counter.hold(counter.basket("o1", "A", member="m1", use=(mine,)), status=200)
    counter.sell(counter.basket("o1", "A"), attempt=2)

    verdicts = counter.verdicts()

    assert verdicts == [("OK", "")]
    assert (counter.state("o1"), coupon_state(headquarters, mine)) == ("PAID", "ISSUED")
    assert violations(headquarters) == []


def test_late_money_is_kept_for_a_person(headquarters: Headquarters, counter: Counter) -> None:
    counter.cancel("o1")
    counter.append("late_payment", counter.body("o1", tenders=[{"type": "card", "amount_minor": 9000}]))
    counter.append("late_payment", counter.body("o9", tenders=[{"type": "card", "amount_minor": 1}]))

    verdicts = counter.verdicts()

    assert verdicts == [("OK", ""), ("CONFLICT", "late_payment"), ("CONFLICT", "late_payment")]
    assert findings(headquarters) == {"late_payment": 2}
    assert counter.state("o1") == "CANCELLED"
    counter.call("GET", "/v1/orders/o9", status=404)


def test_a_payment_without_answer_of_an_order_never_held_waits_as_unknown_and_is_then_paid(
    headquarters: Headquarters, counter: Counter
) -> None:
    payment = {"id": "pay1", "type": "wallet", "amount_minor": 10000}
    counter.append("payment_unknown", counter.body("o1", payment=payment))
    counter.push()
    waiting = counter.state("o1")
    counter.sell(counter.basket("o1", "A"))

    verdicts = counter.verdicts()

    assert (waiting, verdicts, counter.state("o1")) == ("UNKNOWN", [("OK", "")], "PAID")
    assert violations(headquarters) == []


def test_a_held_order_whose_payment_was_unknown_is_settled_once_it_is_known(
    headquarters: Headquarters, counter: Counter
) -> None:
    headquarters.campaign()
    mine = coupon(headquarters)
    basket = counter.basket("o1", "A", member="m1", use=(mine,))
    lines, quote = counter.price(basket)
    counter.hold(basket, status=200)
    payment = {"id": "pay1", "type": "card", "amount_minor": 9000}
    counter.append("payment_unknown", counter.body("o1", payment=payment))
    counter.append("sale", counter.sale_body(lines, quote, basket, held=True))

    verdicts = counter.verdicts()

    assert verdicts == [("OK", ""), ("OK", "")]
    assert coupon_state(headquarters, mine) == "USED"
    assert events(headquarters, "order", "o1") == [
        ("hold", "OPEN", "HELD"),
        ("no_answer", "HELD", "UNKNOWN"),
        ("paid", "UNKNOWN", "PAID"),
    ]


def test_what_is_stored_names_its_finding(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.sell(counter.basket("o1", "B"))
    counter.push()

    stored = _stored(headquarters)

    assert stored == [
        (1, "OK", ""),
        (2, "CONFLICT", "duplicate_order duplicate_order o1/t1-1-00000002"),
    ]
