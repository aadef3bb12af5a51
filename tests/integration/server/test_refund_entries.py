"""Refunds as tills write them into their ledgers: compared with what was decided, or judged and applied."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.quote_json import write_refund
from app.domain.refunds import RefundLine, SoldOrder, decide_refund
from app.domain.tenders import Tender, TenderType
from tests.fakes.counter import Counter, cash, coupon, findings, violations
from tests.fakes.headquarters import Headquarters


def _refund_entry(counter: Counter, answer: dict[str, Any], *, request: str, decided_by: str = "server") -> None:
    counter.append("refund", counter.body("o1", refund=request, body=answer["refund"], decided_by=decided_by))


def test_the_entry_of_a_refund_is_linked_to_its_decision(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    answer = counter.refund("o1", request="r1")
    _refund_entry(counter, answer, request="r1")

    assert counter.verdicts() == [("OK", "")]
    assert violations(headquarters) == []


def test_a_refund_paid_out_twice_is_found_with_its_money(headquarters: Headquarters, counter: Counter) -> None:
    counter.sell(counter.basket("o1", "A"))
    counter.push()
    answer = counter.refund("o1", request="r1")
    _refund_entry(counter, answer, request="r1")
    _refund_entry(counter, answer, request="r1")

    assert counter.verdicts() == [("OK", ""), ("CONFLICT", "refund_mismatch")]
    (found,) = headquarters.call("GET", "/v1/findings")["findings"]
    assert (found["amount_minor"], found["detail"]["why"]) == (10000, "paid out before")
    assert violations(headquarters) == []


@pytest.mark.parametrize("change", [{"order": "o2"}, {"amount_minor": 9999}])
def test_a_refund_paid_out_otherwise_than_decided_is_found(
    headquarters: Headquarters, counter: Counter, change: dict[str, Any]
) -> None:
    for order_id in ("o1", "o2"):
        counter.sell(counter.basket(order_id, "A"))
    counter.push()
    decided = counter.refund("o1", request="r1")["refund"]
    amount_minor = change.get("amount_minor", decided["amount_minor"])
    told = {**decided, "amount_minor": amount_minor}
    body = counter.body(change.get("order", "o1"), refund="r1", body=told, decided_by="server")
    counter.append("refund", body)

    assert counter.verdicts()[-1] == ("CONFLICT", "refund_mismatch")
    (found,) = headquarters.call("GET", "/v1/findings")["findings"]
    assert (found["amount_minor"], found["detail"]["why"]) == (amount_minor, "another amount or order was decided")
    assert counter.state("o2") == "PAID"


def test_a_refund_that_a_till_decided_is_applied_at_ingest(headquarters: Headquarters, counter: Counter) -> None:
    basket = counter.basket("o1", ("A", 2000))
    lines, quote = counter.price(basket)
    counter.append("sale", counter.sale_body(lines, quote, basket))
    sold = SoldOrder("o1", "PAID", lines, quote, (cash(20000),))
    decided = decide_refund(sold, [RefundLine(1, 1000)])
    body = write_refund(decided)  # type: ignore[arg-type]
    counter.append("refund", counter.body("o1", refund="r1", body=body, decided_by="till"))

    assert counter.verdicts() == [("OK", ""), ("OK", "")]
    assert counter.state("o1") == "PARTLY_REFUNDED"
    assert counter.call("GET", "/v1/orders/o1")["refunded_minor"] == 10000
    assert violations(headquarters) == []


def _refunded_by_its_till(counter: Counter, *, order: str = "o1") -> None:
    """Sell an A and take it back, both by the till alone."""
    basket = counter.basket(order, "A")
    lines, quote = counter.price(basket)
    counter.append("sale", counter.sale_body(lines, quote, basket))
    decided = decide_refund(SoldOrder(order, "PAID", lines, quote, (cash(10000),)), None)
    body = write_refund(decided)  # type: ignore[arg-type]
    counter.append("refund", counter.body(order, refund=f"r-{order}", body=body, decided_by="till"))


def test_nobody_else_refunds_a_sale_while_its_till_has_told_of_more_that_is_not_here_yet(
    headquarters: Headquarters, counter: Counter
) -> None:
    other = Counter(headquarters, "t2")
    _refunded_by_its_till(counter)
    counter.hello()
    counter.push(counter.entries[:1])

    early = other.refund("o1", request="r2", status=503)
    counter.push()
    late = other.refund("o1", request="r2", status=409)

    assert (early["outcome"], early["facts"]["till"], late["outcome"]) == ("busy", "t1", "not_refundable")
    assert (findings(headquarters), violations(headquarters)) == ({}, [])


def test_an_order_that_its_till_could_not_refund_alone_is_refunded_while_more_is_on_its_way(
    headquarters: Headquarters, counter: Counter
) -> None:
    other = Counter(headquarters, "t2")
    headquarters.campaign()
    counter.hold_and_sell(counter.basket("o1", "A", member="m1", use=(coupon(headquarters),)))
    counter.sell(counter.basket("o2", "A"))
    counter.hello()
    counter.push(counter.entries[:1])

    assert other.refund("o1", request="r1", status=200)["state"] == "REFUNDED"


def test_a_till_takes_nothing_back_that_another_till_sold_under_the_same_order(
    headquarters: Headquarters, counter: Counter
) -> None:
    counter.sell(counter.basket("o1", "A"))
    other = Counter(headquarters, "t2")
    _refunded_by_its_till(other)
    counter.push()

    verdicts = other.verdicts()

    assert verdicts == [("CONFLICT", "duplicate_order"), ("CONFLICT", "refund_mismatch")]
    assert counter.state("o1") == "PAID"
    assert violations(headquarters) == []


@pytest.mark.parametrize("change", [{"amount_minor": 9999}, {"lines": [{"number": 1, "qty_milli": 3000}]}])
def test_a_refund_of_a_till_that_the_server_would_decide_otherwise_is_found(
    headquarters: Headquarters, counter: Counter, change: dict[str, Any]
) -> None:
    basket = counter.basket("o1", ("A", 2000))
    lines, quote = counter.price(basket)
    counter.append("sale", counter.sale_body(lines, quote, basket))
    decided = decide_refund(SoldOrder("o1", "PAID", lines, quote, (cash(20000),)), [RefundLine(1, 1000)])
    body = {**write_refund(decided), **change}  # type: ignore[arg-type]
    counter.append("refund", counter.body("o1", refund="r1", body=body, decided_by="till"))

    assert counter.verdicts() == [("OK", ""), ("CONFLICT", "refund_mismatch")]
    assert counter.state("o1") == "PAID"
    assert violations(headquarters) == []


@pytest.mark.parametrize(
    ("back", "verdict"),
    [
        ([("cash", 105), ("rounding", -2)], ("OK", "")),
        ([("cash", 103)], ("OK", "")),
        ([("cash", 205), ("rounding", -102)], ("OK", "")),
        ([("cash", 206), ("rounding", -103)], ("CONFLICT", "refund_mismatch")),
        ([("cash", -5), ("rounding", 108)], ("CONFLICT", "refund_mismatch")),
        ([("card", 103)], ("CONFLICT", "refund_mismatch")),
    ],
)
def test_a_refund_of_a_till_that_had_other_coins_is_taken_as_it_was_paid_out(
    headquarters: Headquarters, counter: Counter, back: list[tuple[str, int]], verdict: tuple[str, str]
) -> None:
    headquarters.call("POST", "/v1/products", [{"sku": "X", "price": "1.03"}], status=200)
    basket = counter.basket("o1", ("X", 2000))
    lines, quote = counter.price(basket)
    paid = (cash(205), Tender(TenderType.ROUNDING, 1))
    counter.append("sale", counter.sale_body(lines, quote, basket, tenders=paid))
    decided = decide_refund(SoldOrder("o1", "PAID", lines, quote, paid), [RefundLine(1, 1000)])
    tenders = [{"type": kind, "amount_minor": minor} for kind, minor in back]
    body = {**write_refund(decided), "tenders": tenders}  # type: ignore[arg-type]
    counter.append("refund", counter.body("o1", refund="r1", body=body, decided_by="till"))
    # Meanwhile the chain has given its smallest coin up; the till had not heard of it.
    chain = {"currency": "CNY", "zone": "Asia/Shanghai", "cash_rounding": "0.10"}
    headquarters.call("PUT", "/v1/chain", chain, status=200)

    assert counter.verdicts() == [("OK", ""), verdict]
    if verdict == ("OK", ""):
        (booked,) = counter.call("GET", "/v1/orders/o1", status=200)["refunds"]
        assert booked["tenders"] == tenders
    assert violations(headquarters) == []


def test_a_refund_of_an_order_that_nobody_knows_is_found(headquarters: Headquarters, counter: Counter) -> None:
    parts = {"lines": [], "amount_minor": 500, "tenders": [], "uses": {}, "returned": [], "budget_minor": {}}
    body = counter.body("o9", refund="r1", body={**parts, "whole": True}, decided_by="till")
    counter.append("refund", body)

    assert counter.verdicts() == [("CONFLICT", "refund_mismatch")]


def test_a_decision_that_the_server_has_lost_is_taken_from_the_entry_and_found(
    headquarters: Headquarters, counter: Counter
) -> None:
    basket = counter.basket("o1", "A")
    lines, quote = counter.price(basket)
    counter.append("sale", counter.sale_body(lines, quote, basket))
    decided = decide_refund(SoldOrder("o1", "PAID", lines, quote, (cash(10000),)), None)
    body = write_refund(decided)  # type: ignore[arg-type]
    counter.append("refund", counter.body("o1", refund="r1", body=body, decided_by="server"))

    assert counter.verdicts() == [("OK", ""), ("CONFLICT", "unknown_refund")]
    assert counter.state("o1") == "REFUNDED"
    assert violations(headquarters) == []
