"""A till looks after its rights by itself: sized by its own ledger, asked for until answered, given back when idle."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from app.domain.refusals import Refusal
from app.services.api import DayClosed, GivenCoupon, Lent, OpenOrder, PaidOrder, Renewed
from app.store import rights
from app.store.rights import LeaseRow
from tests.fakes.shop import K1, Shop, basket, cash, value

VALUE = "value:m1"
HOUR = timedelta(hours=1)
HALF_AN_HOUR = {"minutes": 30}


class Died(BaseException):
    """The power went."""


def leases(shop: Shop) -> list[LeaseRow]:
    with shop.till.database.read() as conn:
        return [LeaseRow(*row) for row in rights.run(conn, rights._LEASE + "ORDER BY id")]


def states(shop: Shop) -> list[tuple[str, int, str]]:
    return [(row.account_id, row.qty, row.state) for row in leases(shop)]


def spend(shop: Shop, order: str, minor: int, *, member: str = "m1") -> None:
    """Let the member pay with stored value, at the server's word."""
    tenders = (value(minor), cash(10_000 - minor))
    shop.sell(order, "A", member=member, stored_value_minor=minor, tenders=tenders)


def renew(shop: Shop) -> Renewed:
    shop.notice()
    return shop.till.renew_rights()


@pytest.fixture
def regular(shop: Shop) -> Shop:
    """Give a till at which m1, who has this store as home, paid 30.00 from stored value."""
    spend(shop, "o0", 3_000)
    shop.server.lendable[VALUE] = 2_000
    return shop


# ------------------------------------------------------------------ asking


def test_behind_a_sale_the_till_leases_what_it_would_have_needed(regular: Shop) -> None:
    assert renew(regular) == Renewed(granted=1)

    assert [(row.account_id, row.asked, row.size, row.qty) for row in leases(regular)] == [
        (VALUE, 4_500, "share", 2_000)
    ]
    regular.unplug()
    spend(regular, "o1", 2_000)


@pytest.mark.parametrize(("hours", "asked"), [(4, 3_000), (8, 4_500), (24, 13_500)])
def test_it_leases_for_the_hours_that_headquarters_says(regular: Shop, hours: int, asked: int) -> None:
    regular.server.publish_chain(offline_hours=hours)

    renew(regular)

    assert [row.asked for row in leases(regular)] == [asked]


def test_a_till_that_has_what_it_needs_asks_for_nothing(regular: Shop) -> None:
    renew(regular)

    assert renew(regular) == Renewed()
    assert len(leases(regular)) == 1


def test_what_is_used_up_is_closed_and_asked_for_anew(regular: Shop) -> None:
    renew(regular)
    regular.unplug()
    spend(regular, "o1", 2_000)
    regular.plug()
    regular.server.lendable[VALUE] = 1_000

    assert renew(regular) == Renewed(closed=1, granted=1)
    assert states(regular) == [(VALUE, 2_000, "CLOSED"), (VALUE, 1_000, "OPEN")]


def test_nothing_is_leased_of_members_of_another_store(shop: Shop) -> None:
    shop.server.member("m2", balance_minor=5_000, home_store="s2")
    shop.server.lendable["value:m2"] = 5_000
    shop.notice()
    spend(shop, "o0", 3_000, member="m2")

    assert renew(shop) == Renewed() and leases(shop) == []


@pytest.mark.parametrize(("offline", "granted"), [("lease", 1), ("online_only", 0)])
def test_a_budget_is_leased_where_its_campaign_may_be_used_offline(shop: Shop, offline: str, granted: int) -> None:
    benefit = {"type": "amount_off", "amount": "10.00"}
    shop.server.campaign(
        "auto", kind="automatic", benefit=benefit, budget="90.00", budget_left_minor=9_000, offline=offline
    )
    shop.server.lendable["budget:auto"] = 8_000
    shop.notice()
    shop.sell("o0", "A")

    assert renew(shop).granted == granted
    assert [row.account_id for row in leases(shop)] == ["budget:auto"] * granted


def test_offline_nothing_is_asked_for_and_nothing_closed(regular: Shop) -> None:
    renew(regular)
    regular.unplug()
    regular.clock.pass_time(days=30)

    assert regular.till.renew_rights() == Renewed()
    assert states(regular) == [(VALUE, 2_000, "OPEN")]


def test_a_refused_account_is_left_alone_for_a_while(regular: Shop) -> None:
    regular.server.lendable[VALUE] = 0

    asked = []
    for _ in range(3):
        renew(regular)
        asked.append(len(leases(regular)))
        regular.clock.pass_time(minutes=16)

    assert asked == [1, 1, 2]


# ------------------------------------------------------------------ crashes and lost answers


@pytest.mark.parametrize("point", ["lease_asked", "lease_answered"])
def test_a_request_that_the_till_did_not_survive_is_asked_for_again_under_its_id(regular: Shop, point: str) -> None:
    def probe(passed: str) -> None:
        if passed == point:
            raise Died

    regular.notice()
    regular.probe = probe
    with pytest.raises(Died):
        regular.till.renew_rights()
    (before,) = leases(regular)
    assert before.state == "REQUESTED"
    regular.probe = lambda point: None
    regular.restart()

    assert renew(regular).granted <= 1

    assert [(row.id, row.qty, row.state) for row in leases(regular)] == [(before.id, 2_000, "OPEN")]
    assert regular.server.lendable[VALUE] == 0


def test_an_answer_that_is_lost_is_asked_for_again(regular: Shop) -> None:
    regular.notice()
    regular.cable.lose = 1
    assert regular.till.renew_rights() == Renewed()

    renew(regular)

    assert states(regular) == [(VALUE, 2_000, "OPEN")] and regular.server.lendable[VALUE] == 0


# ------------------------------------------------------------------ closing


def lend_too_much(shop: Shop) -> None:
    shop.server.lendable[VALUE] = 50_000
    assert isinstance(shop.till.lease(VALUE, 50_000), Lent)


def test_an_idle_lease_goes_back_and_a_smaller_one_is_asked_for(regular: Shop) -> None:
    lend_too_much(regular)
    assert renew(regular) == Renewed()
    regular.clock.pass_time(**HALF_AN_HOUR)
    regular.server.lendable[VALUE] = 50_000

    assert renew(regular) == Renewed(closed=1, granted=1)

    assert states(regular) == [(VALUE, 50_000, "CLOSED"), (VALUE, 4_500, "OPEN")]
    assert regular.kinds()[-1] == "lease_close"


def test_a_lease_that_is_drawn_on_is_not_idle(regular: Shop) -> None:
    lend_too_much(regular)
    regular.clock.pass_time(minutes=20)
    regular.unplug()
    spend(regular, "o1", 100)
    regular.plug()
    regular.clock.pass_time(minutes=20)

    assert renew(regular) == Renewed()


def test_an_order_that_was_checked_out_keeps_what_it_was_priced_with(regular: Shop) -> None:
    lend_too_much(regular)
    regular.clock.pass_time(**HALF_AN_HOUR)
    opened = regular.till.checkout("o1", basket("A", member="m1"), stored_value_minor=1_000)
    assert isinstance(opened, OpenOrder) and not opened.held

    assert renew(regular) == Renewed()

    regular.unplug()
    assert isinstance(regular.till.pay("o1", (value(1_000), cash(9_000))), PaidOrder)


def test_nothing_is_closed_while_an_order_is_being_changed(regular: Shop) -> None:
    lend_too_much(regular)
    regular.clock.pass_time(**HALF_AN_HOUR)
    regular.notice()

    with regular.till._parts.ordering:
        assert regular.till.renew_rights().closed == 0

    assert states(regular)[0] == (VALUE, 50_000, "OPEN")


def test_what_the_server_wants_back_is_closed_with_the_next_renewal(regular: Shop) -> None:
    renew(regular)
    (mine,) = leases(regular)
    record = {"id": mine.id, "till": "T1", "account": VALUE, "qty": 2_000, "state": "OPEN", "coupons": []}
    regular.server._publish("lease", mine.id, {**record, "recalled": True})

    assert renew(regular).closed == 1


# ------------------------------------------------------------------ the end of the day


def test_at_the_end_of_the_day_everything_goes_back_and_comes_again_tomorrow(regular: Shop) -> None:
    regular.coupon("k1", K1)
    regular.notice()
    regular.till.take_home("k1")
    renew(regular)

    assert regular.till.close_day() == DayClosed(closed=1, returned=1, kept=0)

    assert regular.kinds()[-2:] == ["lease_close", "coupon_return"]
    regular.server.lendable[VALUE] = 2_000
    assert renew(regular) == Renewed()
    regular.clock.pass_time(days=1)
    assert renew(regular) == Renewed(granted=1)


def test_what_an_order_holds_is_kept_when_the_day_is_closed_and_goes_back_later(regular: Shop) -> None:
    renew(regular)
    regular.unplug()
    regular.till.checkout("o1", basket("A", member="m1"), stored_value_minor=1_000)
    regular.till.park("o1")

    assert regular.till.close_day() == DayClosed(closed=0, returned=0, kept=1)

    regular.plug()
    regular.till.cancel("o1")
    regular.clock.pass_time(**HALF_AN_HOUR)
    assert renew(regular) == Renewed(closed=1)


def test_a_day_can_be_closed_without_a_line(regular: Shop) -> None:
    renew(regular)
    regular.unplug()

    assert regular.till.close_day().closed == 1

    assert states(regular) == [(VALUE, 2_000, "CLOSED")]


# ------------------------------------------------------------------ coupons to give out


def test_the_first_coupon_that_is_given_out_online_brings_a_lease(shop: Shop) -> None:
    shop.server.campaign("c1", benefit={"type": "amount_off", "amount": "10.00"}, per_member=9)
    shop.server.lendable["stock:c1"] = 20
    shop.notice()

    given = [shop.till.give(f"q{n}", "c1", "m1") for n in range(2)]

    assert all(isinstance(each, GivenCoupon) for each in given)
    assert [(row.asked, row.size, row.used) for row in leases(shop)] == [(5, "share", 2)]


def test_what_the_server_does_not_lend_is_not_given_out(shop: Shop) -> None:
    shop.server.campaign("c1", benefit={"type": "amount_off", "amount": "10.00"})
    shop.notice()

    answer: Any = shop.till.give("q1", "c1", "m1")
    assert isinstance(answer, Refusal) and answer.code == "out_of_stock"
    shop.unplug()
    answer = shop.till.give("q1", "c1", "m1")
    assert isinstance(answer, Refusal) and answer.code == "needs_online"


# ------------------------------------------------------------------ coupons of this store's members


def home(shop: Shop, coupon_id: str = "k1") -> str | None:
    with shop.till.database.read() as conn:
        return rights.run(conn, "SELECT state FROM home WHERE coupon_id = ?", (coupon_id,)).fetchone()[0]  # type: ignore[no-any-return]


@pytest.fixture
def at_home(shop: Shop) -> Shop:
    """Give a till that took its member's coupon home by itself."""
    shop.coupon("k1", K1)
    shop.server.to_bring_home = ["k1"]
    assert renew(shop) == Renewed(brought=1)
    return shop


def test_a_members_coupon_comes_home_and_is_used_without_a_line(at_home: Shop) -> None:
    assert renew(at_home) == Renewed()
    at_home.unplug()

    at_home.sell("o1", "A", member="m1", use=("k1",))

    assert home(at_home) == "USED"


def test_the_server_is_asked_for_coupons_only_where_the_copy_shows_some_that_are_new(shop: Shop) -> None:
    renew(shop)
    shop.server.member("m2", home_store="s2")
    shop.coupon("k2", K1, member="m2")
    renew(shop)
    assert shop.server.homes_asked == 0
    shop.coupon("k1", "9000000000000025")

    for number in range(3):
        shop.server.product(f"P{number}", 100)
        renew(shop)

    assert shop.server.homes_asked == 1, "it had none for us, so it is left alone"
    shop.clock.pass_time(minutes=30)
    shop.coupon("k3", "9000000000000033")
    renew(shop)
    assert shop.server.homes_asked == 2


def test_an_answer_about_homes_that_is_lost_comes_with_the_feed(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.server.to_bring_home = ["k1"]
    shop.notice()
    shop.cable.lose = 1
    assert shop.till.renew_rights() == Renewed()

    shop.notice()

    assert home(shop) == "HOME"


def test_what_is_asked_back_goes_home_with_the_next_renewal(at_home: Shop) -> None:
    at_home.server.recall("k1")

    assert renew(at_home) == Renewed(returned=1)

    assert (home(at_home), at_home.kinds()[-1]) == ("RETURNED", "coupon_return")
    assert renew(at_home).returned == 0


def test_what_an_order_holds_goes_home_when_the_order_is_off(at_home: Shop) -> None:
    at_home.till.checkout("o1", basket("A", member="m1", use=("k1",)))
    at_home.till.park("o1")
    at_home.server.recall("k1")

    assert renew(at_home).returned == 0

    at_home.till.cancel("o1")
    assert renew(at_home).returned == 1


def test_what_is_over_goes_home_to_be_expired(shop: Shop) -> None:
    shop.server.campaign("c-k1", benefit={"type": "amount_off", "amount": "10.00"})
    shop.server.coupon("k1", K1, "c-k1", member="m1", until=shop.clock.at + HOUR)
    shop.server.to_bring_home = ["k1"]
    renew(shop)
    shop.clock.pass_time(hours=1)

    assert renew(shop) == Renewed(returned=1)


def test_a_coupon_that_another_till_has_is_asked_for_at_the_checkout(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.server.move_home("k1", "T2")
    shop.notice()
    asked = basket("A", member="m1", use=("k1",))

    refused = shop.till.checkout("o1", asked)

    assert isinstance(refused, Refusal)
    assert (refused.code, refused.facts["till"], refused.facts["retry_after_s"]) == ("leased_elsewhere", "T2", 20)
    assert shop.server.recalled == {"k1"}
    shop.server.move_home("k1", None)
    assert isinstance(shop.till.checkout("o1", asked), OpenOrder)


def test_a_coupon_that_came_free_while_the_copy_was_behind_is_had_at_once(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.server.move_home("k1", "T2")
    shop.notice()
    shop.server.coupons["k1"].home = None

    opened = shop.till.checkout("o1", basket("A", member="m1", use=("k1",)))

    assert isinstance(opened, OpenOrder) and home(shop) == "HOME"
