"""The desk without a screen: what scans, keys and prices make of its state."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.refusals import RefusalCode
from app.services.api import TillStatus
from app.services.ports import Busy, Offline
from tests.fakes.desk import desk_of, key, scanned, verdict
from tests.fakes.jobs import Later
from tests.fakes.pet_shop import coupons, pet_shop
from tests.fakes.till import NOW
from ui.counter.basket import Item
from ui.verdict import Tone
from ui.words import Name, Text

OFFLINE = TillStatus(False, NOW, 3, 0, NOW)


# ------------------------------------------------------------------ goods


def test_scanned_goods_stand_priced_and_selected_in_the_basket() -> None:
    desk = scanned("6901234567892", "CAN")

    assert [item.sku for item in desk.state.basket.items] == ["FOOD", "CAN"]
    assert desk.state.quote is not None and desk.state.quote.payable_minor == 30750
    assert desk.state.selected == 2 and desk.state.payable
    assert verdict(desk).tone is Tone.ACCEPTED and verdict(desk).subject == Name("金枪鱼猫罐头 85g", "Tuna Cat Can 85g")


def test_goods_by_weight_wait_for_their_weight() -> None:
    desk = scanned("TREAT")

    assert desk.state.asked is not None and desk.state.asked.by_weight
    assert desk.state.basket.items == ()
    assert desk.enter_quantity("0.735") is None
    assert desk.state.quote is not None and desk.state.quote.payable_minor == 14553


def test_goods_that_were_not_weighed_are_not_added() -> None:
    desk = scanned("TREAT")

    desk.drop_question()

    assert desk.state.basket.items == () and desk.state.asked is None and key(desk) == "verdict.not_weighed"


@pytest.mark.parametrize("text", ["", "0", "-1", "abc", "1.5", "100000", "999999999999", "1e3", "1,5", "٣"])
def test_a_quantity_that_makes_no_sense_is_refused_and_the_question_stays(text: str) -> None:
    desk = scanned("FOOD")
    desk.ask_quantity()

    refusal = desk.enter_quantity(text)

    assert refusal is not None and refusal.code is RefusalCode.INVALID_QUANTITY
    assert desk.state.asked is not None and desk.state.basket.items[0].qty_milli == 1000


@pytest.mark.parametrize("text", ["0", "-0.5", "0.0001", "1.2345", "100000"])
def test_a_weight_that_makes_no_sense_is_refused(text: str) -> None:
    desk = scanned("TREAT")

    refusal = desk.enter_quantity(text)

    assert refusal is not None and refusal.code is RefusalCode.INVALID_QUANTITY and desk.state.asked is not None


@pytest.mark.parametrize(("text", "milli"), [("1", 1000), ("99999", 99_999_000), ("3.0", 3000)])
def test_a_quantity_at_its_bounds_is_taken(text: str, milli: int) -> None:
    desk = scanned("FOOD")
    desk.ask_quantity()

    assert desk.enter_quantity(text) is None and desk.state.basket.items[0].qty_milli == milli


def test_less_than_one_unit_is_not_possible_by_a_key() -> None:
    desk = scanned("FOOD")

    desk.step(-1)

    assert desk.state.basket.items[0].qty_milli == 1000 and key(desk) == "verdict.last_unit"


def test_a_removed_line_leaves_the_one_that_moved_up_selected() -> None:
    desk = scanned("FOOD", "CAN", "TOY")
    desk.select(2)

    desk.remove()

    assert [item.sku for item in desk.state.basket.items] == ["FOOD", "TOY"] and desk.state.selected == 2


def test_the_last_line_removed_leaves_an_empty_desk() -> None:
    desk = scanned("FOOD")

    desk.remove()

    assert desk.state.quote is None and not desk.state.payable and desk.state.selected == 0


def test_keys_without_a_line_say_so() -> None:
    desk = scanned()

    for press in (lambda: desk.step(1), desk.remove, desk.ask_quantity, desk.cover_selected):
        press()
        assert key(desk) == "verdict.no_line"


def test_a_thousand_lines_go_and_one_more_does_not() -> None:
    till = pet_shop()
    toy = till.products["TOY"]
    for i in range(1001):
        till.products[f"P{i}"] = replace(toy, sku=f"P{i}", category="none")
    desk = desk_of(till)
    items = tuple(Item(f"P{i}", 1000) for i in range(999))
    desk.state = replace(desk.state, basket=replace(desk.state.basket, items=items))

    desk.scan("P999")
    full = desk.state.quote
    desk.scan("P1000")

    assert full is not None and len(full.lines) == 1000

    assert len(desk.state.basket.items) == 1000 and key(desk) == "invalid_quantity"


def test_goods_that_the_till_no_longer_knows_do_not_stay_in_the_basket() -> None:
    till = pet_shop()
    desk = scanned("FOOD", till=till)
    gone = till.products.pop("CAN")
    till.products["OLD"] = gone  # scans, but cannot be priced: its sku is CAN

    desk.scan(gone.barcode)

    assert [item.sku for item in desk.state.basket.items] == ["FOOD"] and key(desk) == "unknown_code"
    assert desk.state.payable


# ------------------------------------------------------------------ coupons


def test_a_coupon_brings_its_member_and_takes_its_discount_off() -> None:
    desk = scanned("FOOD", "K-FOOD")

    assert desk.state.basket.member_id == "M1001"
    assert desk.state.member is not None and desk.state.member.tier == "gold"
    assert desk.state.quote is not None and desk.state.quote.payable_minor == 24900
    assert verdict(desk).tone is Tone.ACCEPTED and key(desk) == "verdict.coupon_used"


def test_a_coupon_scanned_before_its_goods_waits_for_them() -> None:
    desk = scanned("K-FOOD")
    assert key(desk) == "verdict.coupon_noted"

    desk.scan("FOOD")

    assert desk.state.quote is not None and desk.state.quote.used == ("c-food",)


def test_a_coupon_below_its_minimum_stays_and_heals() -> None:
    till = pet_shop()
    desk = scanned("TOY", "K-TOYS", till=till)
    assert key(desk) == "below_minimum" and verdict(desk).tone is Tone.REFUSED

    desk.ask_quantity()
    desk.enter_quantity("6")

    assert desk.state.quote is not None and desk.state.quote.used == ("c-toys",)


def test_a_used_coupon_is_refused_with_where_and_when_and_does_not_stay() -> None:
    desk = scanned("FOOD", "K-USED")

    message = verdict(desk).message
    assert key(desk) == "already_used" and desk.state.basket.use == ()
    assert not isinstance(message, Text) and {"order", "store", "at"} <= message.facts.keys()


def test_another_members_coupon_is_refused_and_leaves_the_member_alone() -> None:
    desk = scanned("FOOD", "M1001", "K-BEN")

    assert key(desk) == "wrong_member" and desk.state.basket.member_id == "M1001" and desk.state.basket.use == ()


def test_the_same_coupon_twice_counts_once() -> None:
    desk = scanned("FOOD", "K-FOOD", "K-FOOD")

    assert desk.state.basket.use == ("c-food",) and key(desk) == "verdict.coupon_there"


def test_a_coupon_that_the_price_refuses_for_good_leaves_the_order() -> None:
    desk = scanned("WASH", "K-WASH")  # for silver members; Anna is gold

    assert key(desk) == "wrong_tier" and desk.state.basket.use == () and desk.state.payable


def test_a_coupon_that_expires_on_the_desk_leaves_the_order() -> None:
    till = pet_shop()
    desk = scanned("FOOD", "K-FOOD", till=till)

    till.clock.at = NOW + timedelta(days=12)
    desk.reprice()

    assert desk.state.basket.use == () and key(desk) == "expired"
    assert desk.state.quote is not None and desk.state.quote.payable_minor == 29900


def test_unusable_coupons_are_listed_with_their_reason() -> None:
    desk = scanned("FOOD", "M1001")

    reasons = {c.coupon.id: c.refusal.code.value if c.refusal else None for c in desk.state.coupons}
    assert reasons["c-food"] is None and reasons["c-cans"] == "nothing_eligible" and reasons["c-used"] == "already_used"


def test_a_coupon_is_put_on_and_taken_off_by_a_touch() -> None:
    desk = scanned("FOOD", "M1001")

    desk.toggle_coupon("c-food")
    on = desk.state.quote
    desk.toggle_coupon("c-food")

    assert on is not None and on.payable_minor == 24900
    assert desk.state.quote is not None and desk.state.quote.payable_minor == 29900


def test_removing_the_member_takes_coupons_and_cards_off() -> None:
    desk = scanned("FOOD", "WASH", "K-FOOD", "P2001")

    desk.remove_member()

    assert desk.state.member is None and desk.state.quote is not None and desk.state.quote.discount_minor == 0
    assert desk.state.quote.covers == ()


def test_a_second_member_is_not_taken_for_the_first() -> None:
    desk = scanned("FOOD", "M1001", "M1002")

    assert desk.state.basket.member_id == "M1001" and key(desk) == "verdict.other_member"


# ------------------------------------------------------------------ cards


def test_a_punch_card_covers_a_unit_of_its_service() -> None:
    desk = scanned("WASH", "P2001")

    assert desk.state.quote is not None and desk.state.quote.payable_minor == 0
    assert desk.state.basket.member_id == "M1001" and key(desk) == "verdict.card_used"


def test_a_punch_card_without_its_service_says_so() -> None:
    desk = scanned("FOOD", "P2001")

    assert desk.state.basket.covers == () and key(desk) == "verdict.card_noted"


def test_a_card_with_too_few_uses_covers_nothing_beyond_them() -> None:
    till = pet_shop()
    till.cards["P2001"] = replace(till.cards["P2001"], uses_left=1)
    desk = scanned("WASH", "WASH", "P2001", till=till)

    desk.cover_selected()

    assert key(desk) == "insufficient_uses"
    assert desk.state.basket.covers == ()  # the till refuses a card whole; the customer is asked again


# ------------------------------------------------------------------ the head office


def test_offline_a_coupon_is_refused_at_once_and_goods_go_on() -> None:
    till = pet_shop()
    till.now_status = OFFLINE
    desk = scanned("FOOD", "K-FOOD", till=till)

    assert key(desk) == "needs_online" and desk.state.payable


def test_a_coupon_on_the_order_waits_while_offline_and_counts_again_online() -> None:
    till = pet_shop()
    desk = scanned("FOOD", "K-FOOD", till=till)
    online = till.now_status

    till.now_status = OFFLINE
    desk.reprice()
    away = desk.state.quote
    till.now_status = online
    desk.reprice()

    assert away is not None and away.payable_minor == 29900
    assert desk.state.quote is not None and desk.state.quote.payable_minor == 24900


def test_an_unknown_code_is_asked_about_once_and_then_refused() -> None:
    till, asked = pet_shop(), []
    desk = desk_of(till, refresh=lambda: asked.append(1), online=lambda: True)

    desk.scan("9000000000000013")

    assert asked == [1] and key(desk) == "unknown_code"


def test_a_coupon_claimed_a_moment_ago_is_found_after_asking() -> None:
    till = pet_shop()
    fresh = coupons()["K-FOOD"]

    def refresh() -> None:
        till.coupons["K-NEW"] = replace(fresh, id="c-new")

    desk = desk_of(till, refresh=refresh, online=lambda: True)
    desk.scan("FOOD")
    desk.scan("K-NEW")

    assert desk.state.basket.use == ("c-new",) and key(desk) == "verdict.coupon_used"


@pytest.mark.parametrize(("error", "code"), [(Offline(), "needs_online"), (Busy(2.5), "busy")])
def test_a_head_office_that_cannot_be_asked_is_said(error: Exception, code: str) -> None:
    def refresh() -> None:
        raise error

    desk = desk_of(pet_shop(), refresh=refresh, online=lambda: True)

    desk.scan("9000000000000013")

    assert key(desk) == code


def test_offline_nobody_is_asked() -> None:
    asked: list[int] = []
    till = pet_shop()
    till.now_status = OFFLINE
    desk = desk_of(till, refresh=lambda: asked.append(1), online=lambda: False)

    desk.scan("9000000000000013")

    assert asked == [] and key(desk) == "needs_online"


def test_while_the_head_office_is_asked_the_next_scan_is_answered() -> None:
    jobs = Later()
    desk = desk_of(pet_shop(), jobs, refresh=lambda: None, online=lambda: True)

    desk.scan("9000000000000013")
    desk.scan("FOOD")

    assert jobs.held and [item.sku for item in desk.state.basket.items] == ["FOOD"]


def test_while_the_coupons_are_looked_through_the_next_scan_is_answered() -> None:
    jobs = Later()
    desk = desk_of(pet_shop(), jobs)
    jobs.hold_aside = True

    desk.scan("M1001")
    desk.scan("FOOD")

    assert desk.state.payable and desk.state.coupons == ()
    jobs.release()
    assert desk.state.coupons


# ------------------------------------------------------------------ paying


def test_what_is_paid_is_what_the_price_shows() -> None:
    desk = scanned("FOOD", "WASH", "K-FOOD", "K-TOYS", "P2001")  # no toys: that coupon takes nothing off

    request = desk.checkout_request()

    assert request.use == ("c-food",) and len(request.covers) == 1 and request.member_id == "M1001"


def test_a_new_customer_starts_with_nothing_of_the_last() -> None:
    desk = scanned("FOOD", "K-FOOD")
    before = desk.state.basket.order_id

    desk.start_over()

    assert desk.state.basket.empty and desk.state.member is None and desk.state.quote is None
    assert desk.state.basket.order_id != before
