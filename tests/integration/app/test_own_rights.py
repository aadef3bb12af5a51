"""What a till may do by itself is shown whole and cheaply; closing the day gives it back, also where the line dies."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from app.domain.refusals import Refusal, RefusalCode
from app.services.api import Lent
from app.services.own_rights import SHOWN
from app.services.rights_view import DayEnd, DayStep, HomesHere, OwnRight, RiskHere
from app.store.driver import run
from tests.fakes.memory_world import NOON
from tests.fakes.shop import K1, K2, Shop, basket, cash, value

VALUE = "value:m1"


def lend(shop: Shop, account_id: str, amount: int) -> None:
    shop.server.lendable[account_id] = amount
    assert isinstance(shop.till.lease(account_id, amount), Lent)


def states(shop: Shop) -> list[str]:
    with shop.till.database.read() as conn:
        return [row[0] for row in run(conn, "SELECT state FROM lease ORDER BY id")]


def waits(shop: Shop, order_id: str) -> None:
    """Leave an order waiting for its payment, which holds stored value of a lease."""
    shop.till.checkout(order_id, basket("A", member="m1"), stored_value_minor=1_000)
    shop.till.park(order_id)


def end_day(shop: Shop) -> DayEnd | Refusal:
    return shop.till.end_day(lambda _step: None)


def cut_behind(shop: Shop, wanted: str) -> None:
    """Let the line die when the till passes a point."""

    def probe(point: str) -> None:
        if point == wanted:
            shop.cable.plugged = False

    shop.probe = probe


@pytest.fixture
def lent(shop: Shop) -> Shop:
    """Give a till with 20.00 of m1's stored value, and a coupon at home."""
    shop.coupon("k1", K1)
    shop.notice()
    shop.till.take_home("k1")
    lend(shop, VALUE, 2_000)
    return shop


# ------------------------------------------------------------------ what is here


def test_a_till_that_has_nothing_says_so(shop: Shop) -> None:
    view = shop.till.rights()

    assert (view.kinds, view.homes, view.risk) == ((), HomesHere(0, 0), None)
    assert (view.free_leases, view.free_coupons, view.kept, view.asked_count) == (0, 0, 0, 0)
    assert view.last_sync_at == NOON and not view.day_closed


def test_each_right_is_shown_by_its_owner_with_what_is_left(shop: Shop) -> None:
    shop.server.campaign("c1", name="开业券", name_en="Opening", benefit={"type": "amount_off", "amount": "10.00"})
    shop.server.product("WASH", 8_000)
    shop.server.card("p1", "m1", "WASH", uses=8)
    shop.notice()
    for account_id, amount in ((VALUE, 2_000), ("stock:c1", 20), ("uses:p1", 3)):
        lend(shop, account_id, amount)
    shop.unplug()
    shop.sell("o1", "A", member="m1", stored_value_minor=500, tenders=(value(500), cash(9_500)))
    shop.till.give("q1", "c1", "m1")

    view = shop.till.rights()

    assert [(each.kind, each.count, each.left, each.qty) for each in view.kinds] == [
        ("stock", 1, 19, 20),
        ("value", 1, 1_500, 2_000),
        ("uses", 1, 3, 3),
    ]
    label = shop.server.members["m1"]["label"]
    assert [each.rights for each in view.kinds] == [
        (OwnRight("stock:c1", "", "开业券", "Opening", left=19, qty=20),),
        (OwnRight(VALUE, label, "", "", left=1_500, qty=2_000),),
        (OwnRight("uses:p1", label, "货WASH", "Good WASH", left=3, qty=3),),
    ]
    assert view.homes.count == 1 and (view.free_leases, view.free_coupons) == (3, 1)


def test_a_long_list_is_cut_and_its_sums_are_of_all(shop: Shop) -> None:
    with shop.till.database.write() as tx:
        for n in range(50):
            row = (f"l{n:02}", f"value:v{n:02}", 100 + n, 100 + n)
            run(tx, "INSERT INTO lease (id, account_id, asked, qty, state) VALUES (?, ?, ?, ?, 'OPEN')", row)
        run(tx, "INSERT INTO lease (id, account_id, asked, qty, state) VALUES ('z', 'value:z', 1, 9, 'CLOSED')")
        run(tx, "INSERT INTO lease (id, account_id, asked, state) VALUES ('y', 'value:y', 1, 'REQUESTED')")

    view = shop.till.rights()
    (shown,) = view.kinds

    assert [each.left for each in shown.rights] == list(range(149, 149 - SHOWN, -1))
    assert (shown.count, shown.left, shown.qty) == (50, sum(range(100, 150)), sum(range(100, 150)))
    assert view.asked_count == 1 and view.free_leases == 50


def test_the_coupon_that_ends_next_is_named(shop: Shop) -> None:
    shop.coupon("k1", K1, name="早", name_en="Early")
    shop.coupon("k2", K2, name="晚", name_en="Late")
    shop.server.coupons["k1"].until = NOON + timedelta(days=2)
    shop.server.coupons["k2"].until = NOON + timedelta(days=9)
    for coupon_id in ("k1", "k2"):
        shop.server._publish_coupon(coupon_id)
    shop.notice()
    for coupon_id in ("k1", "k2"):
        shop.till.take_home(coupon_id)
    shop.notice()

    first = shop.till.rights().homes
    shop.clock.pass_time(days=3)
    second = shop.till.rights().homes

    assert first == HomesHere(2, 0, NOON + timedelta(days=2), title="早", title_en="Early")
    assert second.title == "晚"


def test_the_risk_budget_is_shown_with_what_is_spent(shop: Shop) -> None:
    shop.server.risk_budget("T1", 30_000)
    shop.notice()
    lend(shop, "risk:T1", 20_000)
    with shop.till.database.write() as tx:
        run(tx, "UPDATE lease SET used = 5000, held = 1000 WHERE account_id = 'risk:T1'")

    # The copy does not know of the lease yet, the till does.
    assert shop.till.rights().risk == RiskHere(30_000, 14_000, 6_000)
    shop.server._publish("risk", "T1", {"till": "T1", "limit_minor": 30_000, "available_minor": 7_000})
    shop.notice()

    assert shop.till.rights().risk == RiskHere(30_000, 14_000, 9_000)  # 3,000 more are gone with an earlier lease


def test_what_orders_hold_is_told_apart(lent: Shop) -> None:
    lent.unplug()
    waits(lent, "o1")

    view = lent.till.rights()

    assert (view.free_leases, view.free_coupons, view.kept) == (0, 1, 1)
    assert (view.waiting_orders, view.unknown_payments) == (1, 0)


# ------------------------------------------------------------------ closing the day


def test_closing_tells_each_step_and_gives_all_back(lent: Shop) -> None:
    steps: list[DayStep] = []

    done = lent.till.end_day(steps.append)

    assert done == DayEnd(1, 1, 0, waiting_count=0)
    assert steps == list(DayStep)
    assert [entry.kind for entry in lent.server.entries["T1"]] == ["lease_close", "coupon_return"]
    view = lent.till.rights()
    assert (view.kinds, view.homes.count, view.day_closed) == ((), 0, True)


def test_closing_twice_gives_nothing_back_twice(lent: Shop) -> None:
    end_day(lent)

    assert end_day(lent) == DayEnd(0, 0, 0, waiting_count=0)
    assert lent.kinds() == ["lease_close", "coupon_return"]


def test_without_a_line_nothing_is_given_back(lent: Shop) -> None:
    lent.cable.plugged = False  # the till has not noticed yet

    answer = end_day(lent)

    assert isinstance(answer, Refusal) and answer.code is RefusalCode.NEEDS_ONLINE
    assert states(lent) == ["OPEN"] and lent.kinds() == [] and not lent.till.rights().day_closed


def test_a_server_that_is_busy_is_asked_again_later(lent: Shop) -> None:
    lent.cable.busy = 1

    answer = end_day(lent)

    assert isinstance(answer, Refusal) and answer.code is RefusalCode.BUSY and states(lent) == ["OPEN"]
    assert isinstance(end_day(lent), DayEnd)


def test_where_the_line_dies_behind_the_giving_back_the_entries_wait(lent: Shop) -> None:
    cut_behind(lent, "after_commit")

    done = end_day(lent)

    assert done == DayEnd(1, 1, 0, waiting_count=2) and "T1" not in lent.server.entries
    lent.probe = lambda _point: None
    lent.plug()
    assert end_day(lent) == DayEnd(0, 0, 0, waiting_count=0)
    assert [entry.kind for entry in lent.server.entries["T1"]] == ["lease_close", "coupon_return"]


def test_a_request_without_an_answer_is_asked_for_again_before_the_closing(lent: Shop) -> None:
    lent.server.lendable["value:m2"] = 700
    lent.server.member("m2")
    lent.cable.lose = 1
    lent.till.lease("value:m2", 700)
    lent.notice()
    with lent.till.database.write() as tx:  # as if the feed had not told it
        run(tx, "UPDATE lease SET state = 'REQUESTED', qty = 0 WHERE account_id = 'value:m2'")

    assert end_day(lent) == DayEnd(2, 1, 0, waiting_count=0)
    assert states(lent) == ["CLOSED", "CLOSED"]


def test_where_the_line_dies_before_a_request_is_answered_nothing_is_given_back(lent: Shop) -> None:
    lent.server.lendable["value:m2"] = 700
    with lent.till.database.write() as tx:
        run(tx, "INSERT INTO lease (id, account_id, asked, state) VALUES ('z', 'value:m2', 700, 'REQUESTED')")
    cut_behind(lent, "lease_asked")

    answer = end_day(lent)

    assert isinstance(answer, Refusal) and answer.code is RefusalCode.NEEDS_ONLINE
    assert states(lent) == ["OPEN", "REQUESTED"] and lent.kinds() == []


def test_what_an_order_holds_stays_and_goes_back_when_it_is_settled(lent: Shop) -> None:
    lent.unplug()
    waits(lent, "o1")
    lent.plug()

    assert end_day(lent) == DayEnd(0, 1, 1, waiting_count=0)
    lent.till.cancel("o1")

    assert end_day(lent) == DayEnd(1, 0, 0, waiting_count=0)


def test_behind_the_closing_the_till_sells_on_and_asks_for_nothing_before_tomorrow(lent: Shop) -> None:
    end_day(lent)

    lent.sell("o1", "A", member="m1", stored_value_minor=500, tenders=(value(500), cash(9_500)))
    lent.server.lendable[VALUE] = 2_000
    lent.till.renew_rights()
    tonight = states(lent)
    lent.clock.pass_time(days=1)
    lent.notice()
    lent.till.renew_rights()

    assert (tonight, states(lent)) == (["CLOSED"], ["CLOSED", "OPEN"])
    assert not lent.till.rights().day_closed


@pytest.mark.parametrize("close", [lambda till: till.close_day(), lambda till: till.end_day(lambda _step: None)])
def test_a_renewal_under_way_lends_nothing_behind_the_closing(shop: Shop, close: Any) -> None:
    shop.server.member("m2", balance_minor=5_000)
    shop.notice()
    for member in ("m1", "m2"):
        tenders = (value(3_000), cash(7_000))
        shop.sell(f"o-{member}", "A", member=member, stored_value_minor=3_000, tenders=tenders)
        shop.server.lendable[f"value:{member}"] = 2_000
    shop.notice()
    closing = threading.Thread(target=lambda: close(shop.till))

    def probe(point: str) -> None:
        if point == "lease_asked" and not closing.ident:
            closing.start()
            closing.join(0.3)  # it waits for us; were it not to, it would be done long before

    shop.probe = probe
    renewed = shop.till.renew_rights()
    closing.join(30)

    assert renewed.granted == 2 and not closing.is_alive()
    assert states(shop) == ["CLOSED", "CLOSED"]
