"""Card and wallet: paid, not paid, no answer; never charged twice, never forgotten."""

from __future__ import annotations

import pytest

from app.domain.refusals import Refusal
from app.services.api import Cancelled, InterruptedKind, PaidOrder, PaymentPending
from app.services.ports import NoAnswer, NotPaid, Paid
from tests.fakes.shop import K1, Shop, basket, card, cash, wallet
from tests.fakes.terminal import FakeTerminal, Habit


def refused(answer: object) -> tuple[str, dict[str, object]]:
    assert isinstance(answer, Refusal), answer
    return answer.code.value, dict(answer.facts)


def test_a_card_that_pays_is_charged_once_and_sold(shop: Shop) -> None:
    paid = shop.sell("o1", "A", tenders=(card(10_000),))

    assert paid.tenders == (card(10_000),)
    assert list(shop.terminal.taken.values()) == [10_000]
    assert shop.kinds() == ["sale"]


def test_cash_and_one_wallet_pay_together(shop: Shop) -> None:
    paid = shop.sell("o1", "A", tenders=(wallet(6_000), cash(5_000)))

    assert (paid.tenders, paid.change_minor) == ((wallet(6_000), cash(4_000)), 1_000)
    assert list(shop.terminal.taken.values()) == [6_000]


def test_card_and_wallet_are_charged_one_after_the_other_and_sold_once(shop: Shop) -> None:
    paid = shop.sell("o1", "A", tenders=(card(6_000), wallet(3_000), cash(1_000)))

    assert paid.tenders == (card(6_000), wallet(3_000), cash(1_000))
    assert list(shop.terminal.taken.values()) == [6_000, 3_000]
    assert shop.kinds() == ["sale"]


def test_where_the_second_charge_fails_the_first_ones_money_is_told(shop: Shop) -> None:
    shop.terminal.next(Habit.PAYS, Habit.DECLINES)
    shop.till.checkout("o1", basket("A"))

    off = shop.till.pay("o1", (card(6_000), wallet(4_000)))

    assert isinstance(off, Cancelled)
    assert shop.kinds() == ["cancel", "late_payment"]
    with shop.till.database.read() as conn:
        told = [entry.read() for entry, _ in shop.till.database.ledger.every(conn)]
    assert told[-1]["tenders"] == [{"type": "card", "amount_minor": 6_000}]


def test_a_second_charge_without_an_answer_is_asked_about_and_the_first_is_not_made_again(shop: Shop) -> None:
    shop.terminal.next(Habit.PAYS, Habit.PAYS_IN_SILENCE)
    shop.till.checkout("o1", basket("A"))

    pending = shop.till.pay("o1", (card(6_000), wallet(4_000)))
    done = shop.till.resolve("o1")

    assert isinstance(pending, PaymentPending) and pending.amount_minor == 4_000
    assert isinstance(done, PaidOrder) and done.tenders == (card(6_000), wallet(4_000))
    assert shop.terminal.charges == 2


def test_a_card_that_declines_cancels_the_order_and_the_id_may_be_tried_again(shop: Shop) -> None:
    shop.terminal.next(Habit.DECLINES)
    shop.till.checkout("o1", basket("A"))

    off = shop.till.pay("o1", (card(10_000),))
    again = shop.sell("o1", "A", tenders=(card(10_000),))

    assert isinstance(off, Cancelled)
    assert again.attempt == 2
    assert shop.kinds() == ["cancel", "sale"]


@pytest.mark.parametrize("took", [True, False], ids=["it took the money", "it did not"])
def test_a_terminal_that_says_nothing_leaves_the_order_unknown_until_it_is_asked(shop: Shop, took: bool) -> None:
    shop.terminal.next(Habit.PAYS_IN_SILENCE if took else Habit.DECLINES_IN_SILENCE)
    shop.till.checkout("o1", basket("A"))

    pending = shop.till.pay("o1", (card(8_000), cash(2_000)))
    at_server = shop.server.orders["o1"].state
    done = shop.till.resolve("o1")

    assert isinstance(pending, PaymentPending)
    assert (pending.amount_minor, at_server) == (8_000, "UNKNOWN")
    assert isinstance(done, PaidOrder if took else Cancelled)
    assert shop.terminal.charges == 1
    assert shop.kinds() == ["payment_unknown", "sale" if took else "cancel"]


def test_an_unknown_payment_is_never_charged_again(shop: Shop) -> None:
    shop.terminal.next(Habit.PAYS_IN_SILENCE)
    shop.terminal.silent = True
    shop.till.checkout("o1", basket("A"))
    first = shop.till.pay("o1", (card(10_000),))

    again = shop.till.pay("o1", (card(10_000),))
    asked = shop.till.resolve("o1")
    off = shop.till.cancel("o1")

    assert first == again == asked
    assert refused(off)[0] == "illegal_transition"
    assert (shop.terminal.charges, shop.terminal.queries) == (1, 2)
    assert shop.kinds() == ["payment_unknown"]


@pytest.mark.parametrize("paid", [True, False])
def test_a_person_may_say_what_the_terminal_cannot(shop: Shop, paid: bool) -> None:
    shop.terminal.next(Habit.PAYS_IN_SILENCE)
    shop.terminal.silent = True
    shop.till.checkout("o1", basket("A"))
    shop.till.pay("o1", (card(10_000),))

    done = shop.till.decide_payment("o1", paid=paid)

    assert isinstance(done, PaidOrder if paid else Cancelled)


@pytest.mark.parametrize("state", ["OPEN", "PAID", "CANCELLED"])
def test_only_an_unknown_payment_is_decided_by_a_person(shop: Shop, state: str) -> None:
    shop.till.checkout("o1", basket("A"))
    if state == "PAID":
        shop.till.pay("o1")
    elif state == "CANCELLED":
        shop.till.cancel("o1", reason="pay_failed")

    code, facts = refused(shop.till.decide_payment("o1", paid=True))

    assert (code, facts["state"]) == ("illegal_transition", state)


def test_there_is_nothing_to_ask_about_an_order_that_was_never_charged(shop: Shop) -> None:
    shop.till.checkout("o1", basket("A"))

    code, _ = refused(shop.till.resolve("o1"))

    assert (code, shop.terminal.queries) == ("illegal_transition", 0)


class DyingTill(BaseException):
    """The process is gone."""


class LastBreath(FakeTerminal):
    """A terminal that does its work while the till dies."""

    def charge(self, payment_id: str, kind: object, amount_minor: int) -> Paid | NotPaid | NoAnswer:
        super().charge(payment_id, kind, amount_minor)  # type: ignore[arg-type]
        raise DyingTill


@pytest.mark.parametrize("took", [True, False], ids=["it took the money", "it did not"])
def test_a_till_that_dies_while_it_charges_asks_after_the_restart(shop: Shop, took: bool) -> None:
    shop.coupon("k1", K1)
    shop.terminal = LastBreath()
    shop.restart()
    shop.terminal.next(Habit.PAYS if took else Habit.DECLINES)
    shop.till.checkout("o1", basket("A", member="m1", use=["k1"]))
    with pytest.raises(DyingTill):
        shop.till.pay("o1", (card(9_000),))
    shop.restart()

    (found,) = shop.till.interrupted()
    done = shop.till.resolve("o1")

    assert (found.kind, found.order_id, found.payable_minor) == (InterruptedKind.PAYMENT_UNKNOWN, "o1", 9_000)
    assert isinstance(done, PaidOrder if took else Cancelled)
    assert shop.terminal.charges == 1
    shop.till.head_office.flush()
    assert shop.server.coupons["k1"].state == ("USED" if took else "ISSUED")


def test_an_order_is_not_called_off_while_its_charge_has_no_answer(shop: Shop) -> None:
    shop.terminal = LastBreath()
    shop.restart()
    shop.till.checkout("o1", basket("A"))
    with pytest.raises(DyingTill):
        shop.till.pay("o1", (card(10_000),))
    shop.restart()

    code, facts = refused(shop.till.cancel("o1"))

    assert (code, facts["event"]) == ("illegal_transition", "cancel")
    assert isinstance(shop.till.resolve("o1"), PaidOrder)


def test_a_till_that_dies_before_the_terminal_heard_of_it_charges_nothing(shop: Shop) -> None:
    shop.terminal = LastBreath()
    shop.restart()
    shop.till.checkout("o1", basket("A"))
    with pytest.raises(DyingTill):
        shop.till.pay("o1", (card(10_000),))
    shop.terminal = FakeTerminal()
    shop.restart()

    done = shop.till.pay("o1", (card(10_000),))

    assert isinstance(done, Cancelled)
    assert (shop.terminal.charges, shop.terminal.queries) == (0, 1)
