"""Orders that need rights: hold, attempt, what a lost answer leaves behind, and what happens after the time is up."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from app.domain.refusals import Refusal
from app.services.api import Cancelled, OpenOrder, PaidOrder
from app.services.ports import HoldGranted, HoldRequest, no_probe
from app.store.errors import DiskFull, LedgerBusy
from tests.fakes.memory_server import FakeServer
from tests.fakes.shop import K1, Shop, basket, card, cash, value
from tests.fakes.terminal import Habit


@pytest.fixture
def shop(shop: Shop) -> Shop:
    shop.coupon("k1", K1)
    shop.server.card("p1", "m1", "B", uses=3)
    shop.till.head_office.refresh()
    return shop


WITH_COUPON = basket("A", member="m1", use=["k1"])


def refused(answer: object) -> tuple[str, dict[str, object]]:
    assert isinstance(answer, Refusal), answer
    return answer.code.value, dict(answer.facts)


def test_an_order_with_a_coupon_is_held_and_paid_and_the_coupon_used(shop: Shop) -> None:
    opened = shop.till.checkout("o1", WITH_COUPON)
    frozen = shop.server.coupons["k1"].state
    paid = shop.till.pay("o1")
    shop.till.head_office.flush()

    assert isinstance(opened, OpenOrder)
    assert (opened.state, opened.held, opened.attempt, frozen) == ("HELD", True, 1, "FROZEN")
    assert isinstance(paid, PaidOrder)
    assert (shop.server.coupons["k1"].state, shop.server.orders["o1"].state) == ("USED", "PAID")


def test_coupon_punch_card_stored_value_and_cash_go_together(shop: Shop) -> None:
    mixed = basket("A", "B", member="m1", use=["k1"], covers=[("p1", 2)])

    opened = shop.till.checkout("o1", mixed, stored_value_minor=5_000)
    paid = shop.till.pay("o1")
    shop.till.head_office.flush()

    assert isinstance(opened, OpenOrder)
    assert (opened.quote.payable_minor, opened.stored_value_minor) == (9_000, 5_000)
    assert paid.tenders == (value(5_000), cash(4_000))  # type: ignore[union-attr]
    assert shop.server.cards["p1"]["uses_left"] == 2
    assert shop.server.members["m1"]["balance_minor"] == 0


def test_a_plain_order_asks_nobody(shop: Shop) -> None:
    shop.sell("o1", "A", member="m1")

    assert shop.server.holds_asked == 0


def test_a_promotion_with_a_budget_is_held(shop: Shop) -> None:
    benefit = {"type": "percent_off", "percent": 10}
    shop.server.campaign("capped", kind="automatic", budget="15.00", budget_left_minor=1_500, benefit=benefit)
    shop.till.head_office.refresh()

    first = shop.sell("o1", "A")
    shop.till.head_office.refresh()
    second = shop.sell("o2", "A")

    assert (first.quote.payable_minor, second.quote.payable_minor) == (9_000, 10_000)
    assert shop.server.campaigns["capped"]["budget_left_minor"] == 500
    assert shop.server.holds_asked == 1


def test_stored_value_that_is_not_there_is_refused_and_the_id_stays_free(shop: Shop) -> None:
    code, _ = refused(shop.till.checkout("o1", basket("A", member="m1"), stored_value_minor=5_001))
    again = shop.till.checkout("o1", basket("A", member="m1"), stored_value_minor=5_000)

    assert code == "insufficient_balance"
    assert isinstance(again, OpenOrder)
    assert again.attempt == 2


@pytest.mark.parametrize(
    ("stored_minor", "member", "code"),
    [(-1, "m1", "invalid_amount"), (1_000, None, "needs_member"), (10_001, "m1", "payment_mismatch")],
)
def test_stored_value_that_makes_no_sense_is_refused_without_asking(
    shop: Shop, stored_minor: int, member: str | None, code: str
) -> None:
    answer = shop.till.checkout("o1", basket("A", member=member), stored_value_minor=stored_minor)

    assert refused(answer)[0] == code
    assert shop.server.holds_asked == 0


def test_stored_value_must_be_paid_as_it_was_reserved(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A", member="m1"), stored_value_minor=5_000)

    code, facts = refused(shop.till.pay("o1", (value(4_000), cash(6_000))))

    assert (code, facts["stored_value_minor"]) == ("payment_mismatch", 5_000)
    assert isinstance(shop.till.pay("o1"), PaidOrder)


def test_a_coupon_that_another_order_holds_is_refused_and_sells_nothing(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)

    code, facts = refused(shop.till.checkout("o2", WITH_COUPON))

    assert (code, facts["order"]) == ("frozen", "o1")
    assert refused(shop.till.pay("o2"))[0] == "unknown_code"


def test_a_hold_whose_answer_could_not_be_written_down_is_not_paid_but_asked_again(shop: Shop) -> None:
    def full(point: str) -> None:
        if point == "hold_answered":
            raise DiskFull(shop.path, "no room")

    shop.probe = full
    with pytest.raises(DiskFull):
        shop.till.checkout("o1", WITH_COUPON)
    shop.probe = no_probe

    code, facts = refused(shop.till.pay("o1"))
    shop.unplug()
    parked = refused(shop.till.park("o1"))
    shop.plug()
    again = shop.till.checkout("o1", WITH_COUPON)

    assert (code, facts["state"], facts["recorded_minor"], parked[0]) == (
        "illegal_transition",
        "OPEN",
        0,
        "needs_online",
    )
    assert isinstance(again, OpenOrder)
    assert (again.state, again.attempt, shop.kinds()) == ("HELD", 2, ["cancel"])
    assert isinstance(shop.till.pay("o1"), PaidOrder)


def test_a_refused_hold_that_could_not_be_written_down_is_never_paid(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The till's copy says 50.00, the server has nothing left, and just then another program locks the file."""
    shop.restart(busy_timeout_ms=10)
    shop.server.members["m1"]["balance_minor"] = 0
    ask, locked = shop.server.hold, closing(sqlite3.connect(shop.path, isolation_level=None))

    def hold(request: HoldRequest) -> HoldGranted | Refusal:
        locked.thing.execute("BEGIN IMMEDIATE")
        return ask(request)

    monkeypatch.setattr(shop.server, "hold", hold)
    with locked, pytest.raises(LedgerBusy):
        shop.till.checkout("o1", basket("A", member="m1"), stored_value_minor=5_000)

    code, _ = refused(shop.till.pay("o1"))

    assert (code, shop.kinds()) == ("illegal_transition", [])


def test_the_first_refusal_in_the_order_of_scanning_is_told(shop: Shop) -> None:
    answer = shop.till.checkout("o1", basket("A", member="m1", use=["k9", "k1"], covers=[("p9", 1)]))

    code, facts = refused(answer)

    assert (code, facts["id"]) == ("unknown_code", "k9")


def test_a_coupon_that_was_claimed_a_moment_ago_is_pulled_and_used(shop: Shop) -> None:
    shop.coupon("fresh", "9000000000000025")

    opened = shop.till.checkout("o1", basket("A", member="m1", use=["fresh"]))

    assert isinstance(opened, OpenOrder)
    assert opened.quote.used == ("fresh",)


def test_the_same_checkout_again_gets_the_same_hold(shop: Shop) -> None:
    first = shop.till.checkout("o1", WITH_COUPON)

    again = shop.till.checkout("o1", WITH_COUPON)

    assert again == first
    assert shop.server.holds_asked == 1


def test_a_cancelled_order_gives_its_coupon_back_at_once_and_may_be_tried_again(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)

    off = shop.till.cancel("o1")
    back = shop.server.coupons["k1"].state
    again = shop.till.checkout("o1", WITH_COUPON)

    assert isinstance(off, Cancelled)
    assert back == "ISSUED"
    assert isinstance(again, OpenOrder)
    assert again.attempt == 2
    assert isinstance(shop.till.pay("o1"), PaidOrder)


def test_a_total_that_the_server_sees_otherwise_is_not_held(shop: Shop) -> None:
    shop.server.product("A", 12_000)

    code, facts = refused(shop.till.checkout("o1", WITH_COUPON))
    again = shop.till.checkout("o1", WITH_COUPON)

    assert (code, facts["shown_minor"], facts["now_minor"]) == ("payment_mismatch", 9_000, 11_000)
    assert isinstance(again, OpenOrder), "the till pulled, and prices as the server does"
    assert again.quote.payable_minor == 11_000


def test_a_grant_over_another_total_is_given_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_dear(server: FakeServer, request: HoldRequest) -> HoldGranted | Refusal:
        granted = hold(server, request)
        assert isinstance(granted, HoldGranted)
        return HoldGranted(granted.attempt, granted.held_until_at, {**granted.quote, "payable_minor": 9_001})

    hold = FakeServer.hold
    monkeypatch.setattr(FakeServer, "hold", too_dear)

    code, facts = refused(shop.till.checkout("o1", WITH_COUPON))

    assert (code, facts["now_minor"]) == ("payment_mismatch", 9_001)
    assert shop.server.coupons["k1"].state == "ISSUED"


# ------------------------------------------------------------------ the line


def test_a_busy_server_remembers_nothing_so_the_attempt_is_given_up_and_the_next_is_another(shop: Shop) -> None:
    shop.cable.busy = 1

    code, facts = refused(shop.till.checkout("o1", WITH_COUPON))
    again = shop.till.checkout("o1", WITH_COUPON)

    assert (code, facts["retry_after_s"]) == ("busy", 7.0)
    assert isinstance(again, OpenOrder)
    assert again.attempt == 2
    assert shop.kinds() == ["cancel"]


def test_a_hold_whose_request_was_lost_leaves_nothing_behind(shop: Shop) -> None:
    shop.cable.plugged = False

    code, _ = refused(shop.till.checkout("o1", WITH_COUPON))
    shop.plug()
    again = shop.till.checkout("o1", WITH_COUPON)

    assert code == "needs_online"
    assert isinstance(again, OpenOrder)
    assert again.attempt == 2
    assert shop.server.coupons["k1"].order == "o1"


def test_a_hold_whose_answer_was_lost_is_given_back_by_the_next_push(shop: Shop) -> None:
    shop.cable.lose = 1

    code, _ = refused(shop.till.checkout("o1", WITH_COUPON))
    held = shop.server.coupons["k1"].state
    shop.plug()
    shop.till.head_office.flush()

    assert (code, held, shop.kinds()) == ("needs_online", "FROZEN", ["cancel"])
    assert shop.server.coupons["k1"].state == "ISSUED"


def test_a_hold_that_arrives_after_it_was_given_up_is_refused(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    (late,) = [request for request, _ in shop.server.answers.values()]
    shop.server.answers.clear()
    shop.till.cancel("o1")

    answer = shop.server.hold(late)

    assert refused(answer)[0] == "illegal_transition"
    assert shop.server.coupons["k1"].state == "ISSUED"


def test_what_went_before_is_pushed_before_rights_are_asked_for(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    shop.cable.busy = 1
    shop.till.cancel("o1")
    held = shop.server.coupons["k1"].state

    opened = shop.till.checkout("o2", WITH_COUPON)

    assert held == "FROZEN"
    assert isinstance(opened, OpenOrder)


# ------------------------------------------------------------------ overdue


def test_an_overdue_hold_that_still_stands_is_paid(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    shop.clock.pass_time(minutes=15)

    paid = shop.till.pay("o1")

    assert isinstance(paid, PaidOrder)


def test_an_overdue_hold_that_is_over_is_refused_and_its_cash_written_down(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    shop.clock.pass_time(minutes=15)
    shop.server.time_out()

    code, facts = refused(shop.till.pay("o1"))

    assert (code, facts["state"], facts["recorded_minor"]) == ("illegal_transition", "CANCELLED", 9_000)
    assert shop.server.findings == ["late_payment"]
    assert shop.server.coupons["k1"].state == "ISSUED"


def test_an_overdue_hold_is_not_paid_when_the_server_holds_another_attempt(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    shop.clock.pass_time(minutes=15)
    shop.server.orders["o1"].attempt = 2

    code, facts = refused(shop.till.pay("o1", (card(9_000),)))

    assert (code, facts["recorded_minor"]) == ("illegal_transition", 0)
    assert shop.terminal.charges == 0


def test_a_card_is_not_charged_for_a_hold_that_is_over(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    shop.clock.pass_time(minutes=15)
    shop.server.time_out()

    code, facts = refused(shop.till.pay("o1", (card(9_000),)))

    assert (code, facts["recorded_minor"], shop.terminal.charges) == ("illegal_transition", 0, 0)


def test_just_before_the_time_is_up_nobody_is_asked(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    shop.clock.pass_time(minutes=14, seconds=59)
    shop.cable.plugged = False

    paid = shop.till.pay("o1")

    assert isinstance(paid, PaidOrder)


def test_an_overdue_hold_cannot_be_paid_while_the_server_cannot_be_asked(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    shop.clock.pass_time(minutes=15)
    shop.cable.plugged = False

    cut = refused(shop.till.pay("o1"))
    shop.cable.plugged, shop.cable.busy = True, 1
    busy = refused(shop.till.pay("o1"))
    paid = shop.till.pay("o1")

    assert (cut[0], busy[0]) == ("needs_online", "busy")
    assert isinstance(paid, PaidOrder)


def test_a_declined_card_frees_the_coupon_at_once(shop: Shop) -> None:
    shop.till.checkout("o1", WITH_COUPON)
    shop.terminal.next(Habit.DECLINES)

    off = shop.till.pay("o1", (card(9_000),))

    assert isinstance(off, Cancelled)
    assert (off.reason, off.detail) == ("pay_failed", "declined")
    assert shop.server.coupons["k1"].state == "ISSUED"
