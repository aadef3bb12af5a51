"""Rights of a till's own: drawn by the sale, asked for until there is an answer, revived by nothing that is late."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.refusals import Refusal
from app.domain.tenders import Tender
from app.services.api import AtHome, GivenCoupon, Lent, OpenOrder, PaymentPending
from app.store import projections, rights
from app.store.rights import LeaseRow
from tests.fakes.shop import K1, Shop, basket, card, cash, value
from tests.fakes.terminal import Habit

VALUE = "value:m1"


class Died(BaseException):
    """The power went."""


def die_at(shop: Shop, point: str) -> None:
    def probe(passed: str) -> None:
        if passed == point:
            raise Died

    shop.probe = probe


def live_again(shop: Shop) -> None:
    shop.probe = lambda point: None
    shop.restart()


def leases(shop: Shop) -> list[LeaseRow]:
    with shop.till.database.read() as conn:
        return [LeaseRow(*row) for row in rights.run(conn, rights._LEASE + "ORDER BY id")]


def only(shop: Shop) -> LeaseRow:
    (row,) = leases(shop)
    return row


def home(shop: Shop, coupon_id: str = "k1") -> tuple[int, str, str | None]:
    with shop.till.database.read() as conn:
        row = rights.run(conn, "SELECT version, state, order_id FROM home WHERE coupon_id = ?", (coupon_id,)).fetchone()
    return (row[0], row[1], row[2])


def lend(shop: Shop, minor: int = 5_000) -> None:
    shop.server.lendable[VALUE] = minor
    assert isinstance(shop.till.lease(VALUE, minor), Lent)
    shop.unplug()


def code_of(answer: Any) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.code.value


def check_out(shop: Shop, order_id: str, minor: int, **keys: Any) -> OpenOrder | Refusal:
    return shop.till.checkout(order_id, basket("A", member="m1", **keys), stored_value_minor=minor)


def paid_by_value(minor: int, rest: Tender) -> tuple[Tender, ...]:
    return (value(minor), rest)


# ------------------------------------------------------------------ drawing


def test_a_sale_offline_draws_on_the_lease_and_names_it(shop: Shop) -> None:
    lend(shop)

    shop.sell("o1", "A", member="m1", stored_value_minor=3_000, tenders=paid_by_value(3_000, cash(7_000)))

    assert (only(shop).used, only(shop).held, only(shop).left) == (3_000, 0, 2_000)
    with shop.till.database.read() as conn:
        (entry,) = shop.till.database.ledger.latest(conn, limit=1)
    assert entry.read()["rights"] == {"leases": [{"lease": only(shop).id, "amount": 3_000}], "coupons": []}
    assert code_of(check_out(shop, "o2", 2_001)) == "insufficient_balance"


def test_a_sale_that_did_not_commit_used_nothing(shop: Shop) -> None:
    lend(shop)
    check_out(shop, "o1", 3_000)
    die_at(shop, "before_commit")

    with pytest.raises(Died):
        shop.till.pay("o1", paid_by_value(3_000, cash(7_000)))
    live_again(shop)

    assert (only(shop).used, only(shop).held) == (0, 0)
    assert shop.kinds() == []


def test_a_payment_without_an_answer_keeps_its_part_until_it_has_one(shop: Shop) -> None:
    lend(shop)
    check_out(shop, "o1", 3_000)
    shop.terminal.next(Habit.PAYS_IN_SILENCE)

    assert isinstance(shop.till.pay("o1", paid_by_value(3_000, card(7_000))), PaymentPending)
    shop.restart()

    assert (only(shop).used, only(shop).held) == (0, 3_000)
    assert code_of(check_out(shop, "o2", 2_001)) == "insufficient_balance"
    assert code_of(shop.till.unlease(VALUE)) == "illegal_transition"
    assert only(shop).state == "OPEN" and "lease_close" not in shop.kinds()

    shop.till.decide_payment("o1", paid=True)

    assert (only(shop).used, only(shop).held) == (3_000, 0)


def test_a_card_that_is_declined_gives_the_rights_back(shop: Shop) -> None:
    lend(shop)
    check_out(shop, "o1", 3_000)
    shop.terminal.next(Habit.DECLINES)

    shop.till.pay("o1", paid_by_value(3_000, card(7_000)))

    assert (only(shop).used, only(shop).held, only(shop).left) == (0, 0, 5_000)


def test_two_checkouts_cannot_both_be_paid_from_one_lease(shop: Shop) -> None:
    lend(shop)
    check_out(shop, "o1", 3_000)
    check_out(shop, "o2", 3_000)

    shop.till.pay("o1", paid_by_value(3_000, cash(7_000)))
    second = shop.till.pay("o2", paid_by_value(3_000, cash(7_000)))

    assert code_of(second) == "insufficient_balance"
    assert only(shop).used == 3_000


def test_nothing_names_a_lease_behind_its_close(shop: Shop) -> None:
    lend(shop)
    check_out(shop, "o1", 3_000)

    assert shop.till.unlease(VALUE) is None
    refused = shop.till.pay("o1", paid_by_value(3_000, cash(7_000)))

    assert code_of(refused) == "needs_online"
    assert shop.kinds() == ["lease_close"]
    assert code_of(shop.till.unlease(VALUE)) == "unknown_code"


# ------------------------------------------------------------------ asking


def test_a_till_that_dies_before_it_asks_asks_for_the_same_lease_again(shop: Shop) -> None:
    shop.server.lendable[VALUE] = 9_000
    die_at(shop, "lease_asked")
    with pytest.raises(Died):
        shop.till.lease(VALUE, 5_000)
    live_again(shop)
    before = only(shop).id

    assert shop.till.lease(VALUE, 7_000) == Lent(before, VALUE, 5_000)

    assert (only(shop).id, only(shop).qty, shop.server.lendable[VALUE]) == (before, 5_000, 4_000)


def test_a_till_that_dies_with_the_answer_gets_it_from_the_feed(shop: Shop) -> None:
    shop.server.lendable[VALUE] = 9_000
    die_at(shop, "lease_answered")
    with pytest.raises(Died):
        shop.till.lease(VALUE, 5_000)
    shop.cable.plugged = False
    live_again(shop)
    assert only(shop).state == "REQUESTED"

    shop.plug()

    assert (only(shop).state, only(shop).qty) == ("OPEN", 5_000)
    assert shop.till.resume_leases() == ()
    assert shop.server.lendable[VALUE] == 4_000


def test_a_lost_answer_is_asked_for_by_the_same_id(shop: Shop) -> None:
    shop.server.lendable[VALUE] = 9_000
    shop.cable.lose = 1
    assert code_of(shop.till.lease(VALUE, 5_000)) == "needs_online"

    shop.till.head_office.online = True  # type: ignore[misc]
    (answer,) = shop.till.resume_leases()

    assert isinstance(answer, Lent) and answer.amount == 5_000
    assert shop.server.lendable[VALUE] == 4_000


def test_a_refusal_is_an_answer_and_a_late_grant_revives_nothing(shop: Shop) -> None:
    assert code_of(shop.till.lease(VALUE, 5_000)) == "out_of_stock"

    shop.server.publish_lease(only(shop).id, till="T1", account=VALUE, qty=5_000)
    shop.notice()

    assert (only(shop).state, only(shop).left) == ("REFUSED", 0)
    assert shop.till.resume_leases() == ()


def test_a_closed_lease_is_not_opened_by_an_older_record(shop: Shop) -> None:
    lend(shop)
    shop.till.unlease(VALUE)
    shop.server.publish_lease(only(shop).id, till="T1", account=VALUE, qty=5_000)

    shop.plug()

    assert only(shop).state == "CLOSED"


def test_what_headquarters_takes_back_is_drawn_on_no_more(shop: Shop) -> None:
    lend(shop)
    shop.plug()
    shop.server.publish_lease(only(shop).id, till="T1", account=VALUE, qty=5_000, state="REVOKED")
    shop.notice()
    shop.unplug()

    assert code_of(check_out(shop, "o1", 1_000)) == "needs_online"


# ------------------------------------------------------------------ homes


def at_home(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.notice()
    assert shop.till.take_home("k1") == AtHome("k1", 2)
    shop.notice()
    shop.unplug()


def test_a_coupon_at_home_is_used_once_whatever_the_server_still_says(shop: Shop) -> None:
    at_home(shop)
    shop.sell("o1", "A", member="m1", use=("k1",))
    assert home(shop) == (2, "USED", "o1")

    shop.server._publish_coupon("k1")  # not heard of the sale yet
    shop.plug()

    assert code_of(shop.till.checkout("o2", basket("A", member="m1", use=("k1",)))) == "already_used"


def test_a_late_word_does_not_bring_a_coupon_back_that_went_home(shop: Shop) -> None:
    at_home(shop)
    assert shop.till.return_home("k1") is None

    with shop.till.database.write() as tx:
        rights.take_home(tx, [("k1", 2)])

    assert home(shop) == (2, "RETURNED", None)
    assert code_of(shop.till.checkout("o1", basket("A", member="m1", use=("k1",)))) == "needs_online"
    assert code_of(shop.till.return_home("k1")) == "illegal_transition"


def test_a_newer_grant_brings_it_back(shop: Shop) -> None:
    at_home(shop)
    shop.till.return_home("k1")

    with shop.till.database.write() as tx:
        rights.take_home(tx, [("k1", 4)])

    assert home(shop) == (4, "HOME", None)


def test_a_newer_grant_of_what_an_order_holds_is_taken_when_it_lets_go(shop: Shop) -> None:
    """Headquarters took the home back while its payment was unknown, and the coupon came home here again."""
    at_home(shop)
    opened = shop.till.checkout("o1", basket("A", member="m1", use=("k1",)))
    assert isinstance(opened, OpenOrder)
    shop.terminal.next(Habit.PAYS_IN_SILENCE)
    shop.till.pay("o1", [card(opened.quote.payable_minor)])

    shop.server.move_home("k1", None)
    shop.server.move_home("k1", shop.till_id)
    shop.plug()
    between = home(shop)
    shop.till.decide_payment("o1", paid=False)

    assert (between, home(shop)) == ((2, "HELD", "o1"), (4, "HOME", None))


def test_a_home_that_was_taken_back_is_the_servers(shop: Shop) -> None:
    at_home(shop)
    shop.server.move_home("k1", None)
    shop.plug()
    shop.unplug()

    assert code_of(shop.till.checkout("o1", basket("A", member="m1", use=("k1",)))) == "needs_online"


def test_the_servers_newer_word_about_a_home_stands(shop: Shop) -> None:
    at_home(shop)
    shop.server.coupons["k1"].state, shop.server.coupons["k1"].order = "USED", "elsewhere"
    shop.server.move_home("k1", None)
    shop.plug()

    assert shop.till.scan(K1).state == "USED"
    assert code_of(shop.till.return_home("k1")) == "illegal_transition"
    assert shop.kinds() == []


def test_what_is_leased_is_shown_as_the_members(shop: Shop) -> None:
    shop.server.card("p1", "m1", "A", uses=1)
    shop.server.lendable["uses:p1"] = 2
    shop.notice()
    lend(shop)
    shop.plug()
    shop.till.lease("uses:p1", 2)

    shown = shop.till.member("m1")

    assert shown is not None
    assert (shown.balance_minor, shown.cards[0].uses_left) == (10_000, 3)


def test_a_refund_here_ends_the_home(shop: Shop) -> None:
    at_home(shop)
    shop.sell("o1", "A", member="m1", use=("k1",))

    shop.till.refund("r1", "o1")

    assert home(shop) == (2, "RETURNED", None)
    assert code_of(shop.till.checkout("o2", basket("A", member="m1", use=("k1",)))) == "needs_online"


# ------------------------------------------------------------------ giving out


def stock(shop: Shop, units: int = 1) -> None:
    shop.server.campaign("c1", benefit={"type": "amount_off", "amount": "10.00"})
    shop.server.member("m2")
    shop.server.lendable["stock:c1"] = units
    shop.notice()
    assert isinstance(shop.till.lease("stock:c1", units), Lent)
    shop.unplug()


def test_a_coupon_is_given_out_once_for_each_request_and_can_be_used_here(shop: Shop) -> None:
    stock(shop)

    first = shop.till.give("r1", "c1", "m1")
    again = shop.till.give("r1", "c1", "m1")

    assert isinstance(first, GivenCoupon) and again == first
    assert code_of(shop.till.give("r1", "c1", "m2")) == "duplicate_mismatch"
    assert code_of(shop.till.give("r2", "c1", "m1")) == "already_claimed"
    assert code_of(shop.till.give("r3", "c1", "m2")) == "out_of_stock"
    assert shop.kinds() == ["claim"]
    shop.sell("o1", "A", member="m1", use=(first.coupon_id,))


def test_a_coupon_whose_gift_did_not_commit_is_still_there(shop: Shop) -> None:
    stock(shop)
    die_at(shop, "before_commit")
    with pytest.raises(Died):
        shop.till.give("r1", "c1", "m1")
    live_again(shop)

    assert only(shop).left == 1
    assert isinstance(shop.till.give("r2", "c1", "m2"), GivenCoupon)


def test_no_code_stands_in_the_ledger(shop: Shop) -> None:
    stock(shop)
    given = shop.till.give("r1", "c1", "m1")

    assert isinstance(given, GivenCoupon)
    with shop.till.database.read() as conn:
        (entry,) = shop.till.database.ledger.latest(conn, limit=1)
    assert given.code not in entry.body.decode()


# ------------------------------------------------------------------ anew from the ledger


def test_what_was_used_is_built_anew_from_the_ledger(shop: Shop) -> None:
    at_home(shop)
    shop.plug()
    lend(shop)
    shop.sell("o1", "A", member="m1", use=("k1",), stored_value_minor=3_000, tenders=paid_by_value(3_000, cash(6_000)))
    check_out(shop, "o2", 1_000)
    shop.till.park("o2")
    before = (leases(shop), home(shop))
    with shop.till.database.write() as tx:
        assert projections.rebuild(tx, shop.till.database.ledger) == []
        tx.exec_driver_sql("UPDATE lease SET used = 0, held = 0")
        tx.exec_driver_sql("UPDATE home SET state = 'HOME', order_id = NULL")

        drift = projections.rebuild(tx, shop.till.database.ledger)

    assert drift == [f"lease {only(shop).id}", "home k1"]
    assert (leases(shop), home(shop)) == before


def test_a_sale_by_card_draws_once_the_terminal_has_taken_the_money(shop: Shop) -> None:
    lend(shop)
    check_out(shop, "o1", 3_000)

    shop.till.pay("o1", paid_by_value(3_000, card(7_000)))

    assert only(shop).used == 3_000
