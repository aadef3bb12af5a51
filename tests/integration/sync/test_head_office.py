"""Asking the real server: the four outcomes of a lost answer, and what an answer means."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.domain.refunds import RefundLine
from app.domain.refusals import Refusal, RefusalCode
from app.services.ports import Busy, HoldGranted, LineTrouble, Offline, RefundGranted, RefundRequest, SoldOrderView
from tests.fakes.transport import Fault
from tests.integration.sync.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    made.office.refresh()
    yield made
    made.close()


def held(shop: Shop, order_id: str, coupon_id: str, *, attempt: int = 1) -> HoldGranted:
    granted = shop.office.hold(shop.hold_request(order_id, [coupon_id], attempt=attempt))
    assert isinstance(granted, HoldGranted), granted
    return granted


# ------------------------------------------------------------------ plain answers


def test_a_hold_freezes_the_coupon_and_its_sale_uses_it(shop: Shop) -> None:
    coupon = shop.claim()

    granted = held(shop, "o1", coupon)
    frozen = shop.coupon(coupon)
    shop.sell_held("o1", granted)
    shop.office.flush()

    assert (granted.attempt, granted.held_until_at) == (1, shop.office_side.clock.now() + timedelta(seconds=900))
    assert (granted.quote["payable_minor"], frozen, shop.coupon(coupon)) == (9_000, "FROZEN", "USED")
    assert (shop.outbox(), shop.order("o1")["state"]) == ([("ACKNOWLEDGED", "")], "PAID")


def test_a_hold_is_refused_with_the_servers_reason(shop: Shop) -> None:
    coupon = shop.claim()
    held(shop, "o1", coupon)

    refused = shop.office.hold(shop.hold_request("o2", [coupon]))

    assert isinstance(refused, Refusal)
    assert refused.code is RefusalCode.FROZEN


def test_an_order_is_shown_as_the_server_knows_it(shop: Shop) -> None:
    shop.sell("o1?#%7ü")

    shown = shop.office.order("o1?#%7ü")

    assert isinstance(shown, SoldOrderView)
    assert (shown.order_id, shown.state, shown.attempt, shown.refunds) == ("o1?#%7ü", "PAID", 1, ())
    assert shown.lines[0]["sku"] == "A" and shown.quote["payable_minor"] == 10_000
    assert shown.tenders == ({"type": "cash", "amount_minor": 10_000},)


def test_an_order_is_shown_by_the_number_on_its_receipt(shop: Shop) -> None:
    shop.sell("o1")
    shop.office.flush()

    shown = shop.office.order("T1-1-1")
    nothing = shop.office.order("T1-1-2")

    assert isinstance(shown, SoldOrderView) and shown.order_id == "o1"
    assert isinstance(nothing, Refusal) and nothing.code is RefusalCode.UNKNOWN_CODE


def test_an_order_that_nobody_knows_is_unknown(shop: Shop) -> None:
    answer = shop.office.order("nowhere")

    assert isinstance(answer, Refusal)
    assert answer.code is RefusalCode.UNKNOWN_CODE


@pytest.mark.parametrize("typed", ["", ".", "..", "o1/7", "o 1", "o1\n", "x" * 65])
def test_what_cannot_be_an_order_is_unknown_without_asking(shop: Shop, typed: str) -> None:
    asked = len(shop.line.requests)

    answers = [shop.office.order(typed), shop.office.refund(RefundRequest("r1", typed, None))]

    assert [isinstance(answer, Refusal) and answer.code for answer in answers] == [RefusalCode.UNKNOWN_CODE] * 2
    assert len(shop.line.requests) == asked


def test_a_refund_is_decided_after_the_server_heard_of_the_sale(shop: Shop) -> None:
    shop.sell("o1")

    refund = shop.office.refund(RefundRequest("r1", "o1", (RefundLine(1, 1000),)))

    assert isinstance(refund, RefundGranted)
    assert (refund.refund["amount_minor"], refund.state, dict(refund.uses_after)) == (10_000, "REFUNDED", {})


def test_a_refund_is_not_asked_while_the_server_does_not_know_everything(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell("o1")
    monkeypatch.setattr(shop.engine, "push_before_asking", lambda: False)
    request = RefundRequest("r1", "o1", None)

    with pytest.raises(Offline, match="not_all_pushed"):
        shop.office.refund(request)
    with pytest.raises(Offline, match="not_all_pushed"):
        shop.office.order("o1")
    monkeypatch.undo()

    assert isinstance(shop.office.refund(request), RefundGranted)


def test_what_was_cancelled_a_moment_ago_is_free_for_the_next_order(shop: Shop) -> None:
    coupon = shop.claim()
    held(shop, "o1", coupon)
    shop.append("cancel", "o1", reason="cancelled")

    granted = held(shop, "o2", coupon)

    assert granted.quote["payable_minor"] == 9_000


@pytest.mark.parametrize("fault", [Fault.PORTAL, Fault.PORTAL_JSON, Fault.TRUNCATE, Fault.GATEWAY])
def test_an_answer_that_is_not_the_servers_is_no_answer(shop: Shop, fault: Fault) -> None:
    shop.line.plan(fault)

    with pytest.raises(Offline):
        shop.office.hold(shop.hold_request("o1", [shop.claim()]))

    assert not shop.office.online


def test_a_busy_server_has_held_nothing(shop: Shop) -> None:
    coupon = shop.claim()
    shop.line.plan(Fault.BUSY)

    with pytest.raises(Busy):
        shop.office.hold(shop.hold_request("o1", [coupon]))

    assert (shop.coupon(coupon), shop.office.online) == ("ISSUED", True)


# ------------------------------------------------------------------ 1: the request was lost


def test_a_hold_that_never_arrived_leaves_nothing_and_may_be_tried_again(shop: Shop) -> None:
    coupon = shop.claim()
    shop.line.plan(Fault.LOSE_REQUEST)
    with pytest.raises(Offline):
        shop.office.hold(shop.hold_request("o1", [coupon]))
    shop.give_up("o1")
    shop.office.flush()
    between = (shop.coupon(coupon), shop.order("o1")["state"])

    granted = held(shop, "o1", coupon, attempt=2)

    assert between == ("ISSUED", "CANCELLED")
    assert granted.attempt == 2


def test_a_refund_that_never_arrived_is_decided_when_it_is_asked_again(shop: Shop) -> None:
    shop.sell("o1")
    shop.office.flush()
    request = RefundRequest("r1", "o1", None)
    shop.line.plan(Fault.LOSE_REQUEST)
    with pytest.raises(Offline):
        shop.office.refund(request)

    refund = shop.office.refund(request)

    assert isinstance(refund, RefundGranted)
    assert len(shop.order("o1")["refunds"]) == 1


# ------------------------------------------------------------------ 2: the answer was lost


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.CUT, Fault.TRUNCATE, Fault.ERROR_500_LATE])
def test_a_hold_whose_answer_was_lost_is_given_back_at_the_next_push(shop: Shop, fault: Fault) -> None:
    coupon = shop.claim()
    shop.line.plan(fault)
    with pytest.raises(Offline):
        shop.office.hold(shop.hold_request("o1", [coupon]))
    meanwhile = shop.coupon(coupon)
    shop.give_up("o1")

    granted = held(shop, "o2", coupon)

    assert meanwhile == "FROZEN"
    assert (shop.order("o1")["state"], granted.quote["payable_minor"]) == ("CANCELLED", 9_000)


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.CUT, Fault.TRUNCATE, Fault.ERROR_500_LATE])
def test_a_refund_whose_answer_was_lost_gets_the_same_answer_and_gives_back_once(shop: Shop, fault: Fault) -> None:
    coupon = shop.claim()
    shop.sell_held("o1", held(shop, "o1", coupon))
    shop.office.flush()
    request = RefundRequest("r1", "o1", None)
    shop.line.plan(fault)
    with pytest.raises(Offline):
        shop.office.refund(request)
    returned = shop.coupon(coupon)

    refund = shop.office.refund(request)

    assert isinstance(refund, RefundGranted)
    assert (returned, shop.coupon(coupon), refund.refund["amount_minor"]) == ("ISSUED", "ISSUED", 9_000)
    assert len(shop.order("o1")["refunds"]) == 1


# ------------------------------------------------------------------ 3: it arrived twice


@pytest.mark.parametrize("fault", [Fault.DOUBLE, Fault.DOUBLE_LATE])
def test_a_hold_that_arrived_twice_is_one_hold_with_one_answer(shop: Shop, fault: Fault) -> None:
    coupon = shop.claim()
    shop.line.plan(fault)

    granted = held(shop, "o1", coupon)
    shop.sell_held("o1", granted)
    shop.office.flush()

    assert (shop.coupon(coupon), shop.order("o1")["state"], shop.findings()) == ("USED", "PAID", [])


@pytest.mark.parametrize("fault", [Fault.DOUBLE, Fault.DOUBLE_LATE])
def test_a_refund_that_arrived_twice_pays_back_once(shop: Shop, fault: Fault) -> None:
    shop.sell("o1")
    shop.office.flush()
    shop.line.plan(fault)

    refund = shop.office.refund(RefundRequest("r1", "o1", None))

    assert isinstance(refund, RefundGranted)
    assert (len(shop.order("o1")["refunds"]), shop.order("o1")["refunded_minor"]) == (1, 10_000)


# ------------------------------------------------------------------ 4: it arrives late


def test_a_hold_that_arrives_after_it_was_given_up_revives_nothing(shop: Shop) -> None:
    coupon = shop.claim()
    shop.line.plan(Fault.HOLD_BACK)
    with pytest.raises(Offline):
        shop.office.hold(shop.hold_request("o1", [coupon]))
    shop.give_up("o1")
    shop.office.flush()

    shop.line.heal()

    assert (shop.coupon(coupon), shop.order("o1")["state"]) == ("ISSUED", "CANCELLED")


def test_a_hold_that_arrives_after_the_next_attempt_was_sold_changes_nothing(shop: Shop) -> None:
    first, second = shop.claim(), shop.claim()
    shop.line.plan(Fault.HOLD_BACK)
    with pytest.raises(Offline):
        shop.office.hold(shop.hold_request("o1", [first]))
    shop.give_up("o1")
    shop.sell_held("o1", held(shop, "o1", second, attempt=2))
    shop.office.flush()

    shop.line.heal()

    assert (shop.coupon(first), shop.coupon(second), shop.order("o1")["state"]) == ("ISSUED", "USED", "PAID")
    assert shop.findings() == []


def test_a_refund_that_arrives_late_gives_back_nothing_more(shop: Shop) -> None:
    shop.sell("o1")
    shop.office.flush()
    request = RefundRequest("r1", "o1", None)
    shop.line.plan(Fault.HOLD_BACK)
    with pytest.raises(Offline):
        shop.office.refund(request)
    shop.office.refund(request)

    shop.line.heal()

    assert (len(shop.order("o1")["refunds"]), shop.order("o1")["refunded_minor"]) == (1, 10_000)


# ------------------------------------------------------------------ what no waiting mends


def test_a_key_that_the_server_does_not_know_is_a_trouble_for_a_person(shop: Shop) -> None:
    stranger = shop.with_key("pt_nobody_0000")
    with pytest.raises(Offline):
        stranger.refresh()

    assert stranger.trouble is LineTrouble.KEY_REFUSED


def test_a_line_that_is_down_is_no_trouble_but_waiting(shop: Shop) -> None:
    shop.line.plan(Fault.LOSE_REQUEST)

    with pytest.raises(Offline):
        shop.office.refresh()

    assert (shop.office.online, shop.office.trouble) == (False, None)
