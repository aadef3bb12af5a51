"""Basket, checkout and cash: what is sold, what is refused, and what the same request again gets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from app.domain.quote import Quote
from app.domain.refusals import Refusal
from app.domain.tenders import Tender, TenderType
from app.services.api import Cancelled, OpenOrder, PaidOrder
from app.store import meta
from app.store.meta import instant_ms
from tests.fakes.shop import K1, K2, Shop, basket, card, cash, value


def refused(answer: object) -> tuple[str, dict[str, object]]:
    assert isinstance(answer, Refusal), answer
    return answer.code.value, dict(answer.facts)


# ------------------------------------------------------------------ the basket


def test_a_basket_is_priced_with_its_promotions_and_without_when_asked(shop: Shop) -> None:
    shop.server.campaign("happy", kind="automatic", benefit={"type": "percent_off", "percent": 10})
    shop.till.head_office.refresh()

    with_promotions = shop.till.quote(basket("A", ("TEA", 750)))
    without = shop.till.quote(basket("A", ("TEA", 750), promotions=False))

    # 100.00 + 0.750 x 33.30 = 24.975 -> 24.98
    assert with_promotions.payable_minor == 11_248  # type: ignore[union-attr]
    assert without.payable_minor == 12_498  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([], "invalid_quantity"),
        ([("A", 0)], "invalid_quantity"),
        ([("A", -1000)], "invalid_quantity"),
        ([("A", 1500)], "invalid_quantity"),
        ([("A", 99_999_001)], "invalid_quantity"),
        ([("NOSUCH", 1000)], "unknown_code"),
        ([("A", 99_999_000)] * 1000, None),
        ([("A", 1000)] * 1000, None),
        ([("A", 1000)] * 1001, "invalid_quantity"),
        ([("TEA", 1)], None),
    ],
    ids=["empty", "zero", "negative", "half a unit", "huge", "unknown", "dear", "1000 lines", "1001 lines", "one gram"],
)
def test_a_basket_makes_sense_or_is_refused(shop: Shop, lines: list[tuple[str, int]], code: str | None) -> None:
    quoted = shop.till.quote(basket(*lines))
    opened = shop.till.checkout("o1", basket(*lines))

    if code is None:
        assert isinstance(opened, OpenOrder)
    else:
        assert refused(quoted)[0] == refused(opened)[0] == code
        assert shop.kinds() == []


def test_a_basket_worth_more_than_any_amount_is_refused(shop: Shop) -> None:
    shop.server.product("GOLD", 10**12)
    shop.till.head_office.refresh()

    assert refused(shop.till.quote(basket(("GOLD", 2000))))[0] == "invalid_amount"
    assert shop.till.quote(basket("GOLD")).payable_minor == 10**12  # type: ignore[union-attr]


def test_a_basket_of_1000_lines_is_sold(shop: Shop) -> None:
    paid = shop.sell("o1", *["GUM"] * 1000)

    assert paid.quote.payable_minor == 2000
    assert len(paid.receipt.lines) == 1000


def test_a_coupon_that_was_scanned_twice_counts_once(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.till.head_office.refresh()

    paid = shop.sell("o1", "A", member="m1", use=["k1", "k1"])

    assert paid.quote.payable_minor == 9_000


def test_the_best_coupons_are_found_and_the_others_have_their_reason(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.coupon("k2", K2, benefit={"type": "amount_off", "amount": "25.00"}, min_spend="150.00")
    shop.till.head_office.refresh()

    small, large = shop.till.best(basket("A", member="m1")), shop.till.best(basket("A", "B", member="m1"))
    shown = shop.till.usable_coupons(basket("A", member="m1"))

    assert small.coupon_ids == ("k1",)  # type: ignore[union-attr]
    assert large.coupon_ids == ("k2",)  # type: ignore[union-attr]
    assert [(each.coupon.id, each.refusal and each.refusal.code.value, each.discount_minor) for each in shown] == [  # type: ignore[union-attr]
        ("k1", None, 1000),
        ("k2", "below_minimum", 0),
    ]


def test_a_members_coupons_are_shown_before_anything_is_scanned(shop: Shop) -> None:
    shop.coupon("k1", K1, min_spend="150.00")
    shop.coupon("k2", K2, stores=["s9"])
    shop.till.head_office.refresh()

    shown = shop.till.usable_coupons(basket(member="m1"))

    assert [(each.coupon.id, each.refusal and each.refusal.code.value) for each in shown] == [  # type: ignore[union-attr]
        ("k1", None),
        ("k2", "wrong_store"),
    ]


def test_the_best_of_nobodys_coupons_needs_a_member(shop: Shop) -> None:
    assert refused(shop.till.best(basket("A")))[0] == "needs_member"
    assert refused(shop.till.usable_coupons(basket("A")))[0] == "needs_member"


# ------------------------------------------------------------------ cash


def test_a_sale_is_one_entry_and_its_receipt_names_it(shop: Shop) -> None:
    paid = shop.sell("o1", "A", ("TEA", 735), tenders=(cash(20_000),))

    with shop.till.database.read() as conn:
        (entry,) = shop.till.database.ledger.since(conn, 0, limit=9)
    body = entry.read()
    assert paid.change_minor == 20_000 - 12_448
    assert paid.receipt.mark == f"T1-1-1 {entry.hash[:4].hex()}"
    assert (body["receipt"], body["operator"], body["held"], body["member"]) == ("T1-1-1", "amy", False, None)
    assert body["tenders"] == [{"type": "cash", "amount_minor": 12_448}]
    assert [(line.title, line.by_weight) for line in paid.receipt.lines] == [("货A", False), ("货TEA", True)]


def test_cash_is_rounded_to_coins_that_exist_and_the_difference_is_a_tender(shop: Shop) -> None:
    shop.server.publish_chain(cash_step_minor=5)
    shop.till.head_office.refresh()
    shop.till.checkout("o1", basket("GUM", "A"))

    paid = shop.till.pay("o1")

    assert paid.tenders == (cash(10_000), Tender(TenderType.ROUNDING, 2))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "tenders",
    [
        (),
        (cash(9_999),),
        (card(10_001),),
        (value(1_000), cash(9_000)),
        (cash(0), card(10_000)),
        (Tender(TenderType.ROUNDING, 10_000),),
    ],
    ids=["nothing", "too little", "too much by card", "value not reserved", "zero", "rounding by hand"],
)
def test_tenders_that_do_not_add_up_take_nothing_and_leave_the_order_payable(
    shop: Shop, tenders: tuple[Tender, ...]
) -> None:
    shop.till.checkout("o1", basket("A"))

    code, _ = refused(shop.till.pay("o1", tenders))

    assert code in ("payment_mismatch", "invalid_amount")
    assert (shop.terminal.charges, shop.kinds()) == (0, [])
    assert isinstance(shop.till.pay("o1"), PaidOrder)


def test_a_free_basket_is_paid_with_nothing(shop: Shop) -> None:
    shop.coupon("k1", K1, benefit={"type": "amount_off", "amount": "1000.00"})
    shop.till.head_office.refresh()

    paid = shop.sell("o1", "A", member="m1", use=["k1"], tenders=())

    assert (paid.quote.payable_minor, paid.tenders, paid.change_minor) == (0, (), 0)


def test_a_price_that_changed_since_the_checkout_goes_back_to_the_cashier(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))
    shop.server.product("A", 12_000)
    shop.till.head_office.refresh()

    first = refused(shop.till.pay("o1", (cash(10_000),)))
    by_card = refused(shop.till.pay("o1", (card(10_000),)))
    again = shop.till.checkout("o1", basket("A"))
    paid = shop.till.pay("o1")

    assert first == by_card == ("payment_mismatch", {"order": "o1", "shown_minor": 10_000, "now_minor": 12_000})
    assert shop.terminal.charges == 0
    assert again.quote.payable_minor == 12_000  # type: ignore[union-attr]
    assert isinstance(paid, PaidOrder)


def test_a_promotion_that_ended_since_the_checkout_goes_back_to_the_cashier(shop: Shop) -> None:
    until = "2026-06-01T12:30:00+08:00"
    shop.server.campaign("happy", kind="automatic", until=until, benefit={"type": "percent_off", "percent": 10})
    shop.till.head_office.refresh()
    shop.till.checkout("o1", basket("A"))
    shop.clock.pass_time(minutes=30)

    code, facts = refused(shop.till.pay("o1"))

    assert (code, facts["shown_minor"], facts["now_minor"]) == ("payment_mismatch", 9_000, 10_000)


@pytest.mark.parametrize("tender", [cash, card])
def test_a_promotion_that_got_a_budget_since_the_checkout_is_held_before_anything_is_paid(
    shop: Shop, tender: Callable[[int], Tender]
) -> None:
    benefit = {"type": "percent_off", "percent": 10}
    shop.server.campaign("happy", kind="automatic", benefit=benefit)
    shop.till.head_office.refresh()
    for order_id in ("o1", "o2"):
        shop.till.checkout(order_id, basket("A"))
    shop.server.campaign("happy", kind="automatic", budget="10.00", budget_left_minor=1_000, version=2, benefit=benefit)
    shop.till.head_office.refresh()

    first = shop.till.pay("o1", (tender(9_000),))
    second = shop.till.pay("o2", (tender(9_000),))

    assert isinstance(first, PaidOrder)
    assert shop.server.campaigns["happy"]["budget_left_minor"] == 0
    assert (shop.server.holds_asked, shop.terminal.charges) == (2, int(tender is card))
    assert refused(second)[0] == "payment_mismatch"


# ------------------------------------------------------------------ the same again


def test_the_same_checkout_and_payment_again_get_the_earlier_answers(shop: Shop) -> None:
    first = shop.sell("o1", "A", tenders=(cash(20_000),))

    opened = shop.till.checkout("o1", basket("A"))
    again = shop.till.pay("o1", (cash(20_000),))

    assert (opened.state, again) == ("PAID", first)  # type: ignore[union-attr]
    assert shop.kinds() == ["sale"]


def test_the_same_order_with_other_content_is_refused(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))

    open_again = shop.till.checkout("o1", basket("B"))
    shop.till.pay("o1")
    paid_again = shop.till.checkout("o1", basket("A", "A"))
    other_tenders = shop.till.pay("o1", (card(10_000),))

    assert {refused(each)[0] for each in (open_again, paid_again, other_tenders)} == {"duplicate_mismatch"}
    assert shop.kinds() == ["sale"]


def test_an_order_that_nobody_checked_out_cannot_be_paid(shop: Shop) -> None:
    assert refused(shop.till.pay("nothing"))[0] == "unknown_code"
    assert refused(shop.till.cancel("nothing"))[0] == "unknown_code"


# ------------------------------------------------------------------ cancelling


def test_a_basket_that_was_never_held_is_forgotten_without_an_entry(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))

    first = shop.till.cancel("o1")
    other = shop.till.checkout("o1", basket("B"))

    assert isinstance(first, Cancelled)
    assert isinstance(other, OpenOrder)
    assert other.attempt == 1
    assert shop.kinds() == []


def test_a_payment_that_failed_elsewhere_leaves_an_entry_and_frees_the_id(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))

    off = shop.till.cancel("o1", reason="pay_failed")
    again = shop.till.checkout("o1", basket("B"))

    assert isinstance(off, Cancelled)
    assert isinstance(again, OpenOrder)
    assert again.attempt == 2
    assert shop.kinds() == ["cancel"]


def test_cancelling_a_cancelled_order_is_fine_and_changes_nothing(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))
    shop.till.cancel("o1", reason="pay_failed")

    again = shop.till.cancel("o1")

    assert isinstance(again, Cancelled)
    assert shop.kinds() == ["cancel"]


def test_a_paid_order_cannot_be_cancelled(shop: Shop) -> None:
    shop.sell("o1", "A")

    code, facts = refused(shop.till.cancel("o1"))

    assert (code, facts["state"], facts["event"]) == ("illegal_transition", "PAID", "cancel")


def test_cash_for_a_cancelled_order_is_refused_and_written_down(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))
    shop.till.cancel("o1", reason="pay_failed")

    code, facts = refused(shop.till.pay("o1", (cash(15_000),)))

    assert (code, facts["recorded_minor"]) == ("illegal_transition", 10_000)
    assert shop.kinds() == ["cancel", "late_payment"]
    assert shop.server.findings == ["late_payment"]


def test_a_card_is_never_charged_for_a_cancelled_order(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))
    shop.till.cancel("o1", reason="pay_failed")

    code, facts = refused(shop.till.pay("o1", (card(10_000),)))

    assert (code, facts["recorded_minor"], shop.terminal.charges) == ("illegal_transition", 0, 0)
    assert shop.kinds() == ["cancel"]


def test_money_that_a_terminal_took_too_late_is_written_down_when_told(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))
    shop.till.cancel("o1", reason="pay_failed")

    code, facts = refused(shop.till.late_payment("o1", (card(10_000),)))

    assert (code, facts["recorded_minor"]) == ("illegal_transition", 10_000)
    assert shop.kinds() == ["cancel", "late_payment"]


def test_money_is_never_late_for_an_order_that_is_not_cancelled(shop: Shop) -> None:
    shop.sell("o1", "A")

    code, facts = refused(shop.till.late_payment("o1", (card(10_000),)))

    assert (code, facts["state"], facts["recorded_minor"]) == ("illegal_transition", "PAID", 0)
    assert shop.kinds() == ["sale"]


# ------------------------------------------------------------------ offline


def test_offline_a_till_sells_what_needs_no_server_and_sends_it_later(shop: Shop) -> None:
    shop.unplug()
    shop.sell("o1", "A")
    shop.sell("o2", "B", tenders=(card(6_000),))
    pending = shop.till.status()

    shop.plug()
    shop.till.head_office.flush()

    assert (pending.online, pending.pending_count, pending.offline_since) == (False, 2, shop.clock.now())
    assert shop.till.status().pending_count == 0
    assert {each.state for each in shop.server.orders.values()} == {"PAID"}


def test_offline_a_till_starts_and_sells(shop: Shop) -> None:
    shop.cable.plugged = False
    shop.restart()

    paid = shop.sell("o1", "A")

    assert paid.state == "PAID"
    assert shop.till.status().online is False


def test_offline_what_the_server_must_decide_is_refused(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.server.card("p1", "m1", "A", uses=3)
    shop.till.head_office.refresh()
    shop.unplug()

    coupon = shop.till.checkout("o1", basket("A", member="m1", use=["k1"]))
    punch = shop.till.checkout("o2", basket("A", member="m1", covers=[("p1", 1)]))
    stored = shop.till.checkout("o3", basket("A", member="m1"), stored_value_minor=1_000)
    unheard = shop.till.checkout("o4", basket("A", use=["k9"]))
    stranger = shop.till.checkout("o5", basket("A", member="m9"))

    assert {refused(each)[0] for each in (coupon, punch, stored, unheard, stranger)} == {"needs_online"}
    assert refused(stored)[1] == {"tender": "stored_value", "member": "m1"}
    assert shop.kinds() == []


def test_offline_a_price_names_each_right_that_needs_the_server(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.server.card("p1", "m1", "A", uses=3)
    shop.till.head_office.refresh()
    shop.unplug()

    quote = shop.till.quote(basket("A", member="m1", use=["k1"], covers=[("p1", 1)]))

    assert isinstance(quote, Quote)
    assert {name: reason.code for name, reason in quote.refused.items()} == {"k1": "needs_online", "p1": "needs_online"}
    assert quote.payable_minor == 10_000


def test_offline_a_promotion_with_a_budget_takes_nothing_off(shop: Shop) -> None:
    benefit = {"type": "percent_off", "percent": 10}
    shop.server.campaign("capped", kind="automatic", budget="50.00", budget_left_minor=5_000, benefit=benefit)
    shop.till.head_office.refresh()
    online = shop.till.quote(basket("A"))
    shop.unplug()

    offline = shop.till.quote(basket("A"))

    assert online.payable_minor == 9_000  # type: ignore[union-attr]
    assert offline.payable_minor == 10_000  # type: ignore[union-attr]
    assert offline.skipped["capped"].code.value == "needs_online"  # type: ignore[union-attr]
    assert shop.sell("o1", "A").quote.payable_minor == 10_000


def test_a_first_order_promotion_counts_sales_that_the_server_has_not_seen(shop: Shop) -> None:
    benefit = {"type": "percent_off", "percent": 10}
    shop.server.campaign("welcome", kind="automatic", first_order=True, benefit=benefit)
    shop.till.head_office.refresh()
    shop.unplug()

    first = shop.sell("o1", "A", member="m1")
    second = shop.sell("o2", "A", member="m1")

    assert (first.quote.payable_minor, second.quote.payable_minor) == (9_000, 10_000)


def test_an_entry_made_by_a_clock_in_doubt_says_so_and_sells_all_the_same(shop: Shop) -> None:
    with shop.till.database.write() as tx:
        meta.put(tx, last_sync_at_ms=instant_ms(shop.clock.at), time_floor_ms=instant_ms(shop.clock.at))
    shop.sell("sure", "A")
    shop.clock.at -= timedelta(days=400)
    shop.sell("unsure", "A")

    with shop.till.database.read() as conn:
        told = [entry.read().get("clock_unsure") for entry, _ in shop.till.database.ledger.every(conn)]
    assert told == [None, "set_back"]
    assert shop.till.status().clock_unsure == "set_back"
