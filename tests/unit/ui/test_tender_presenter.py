"""Payment without a screen: what was given, what remains, and every answer that a payment can have."""

from __future__ import annotations

import pytest

from app.domain.money import Currency
from app.domain.refusals import Refusal, RefusalCode, refuse
from app.domain.tenders import Tender, TenderType
from app.services.api import PaidOrder, TillStatus
from app.services.ports import NoAnswer, NotPaid, Paid, PaymentAnswer
from app.store.errors import DiskFull
from tests.fakes.jobs import Later, Now
from tests.fakes.pet_shop import pet_shop
from tests.fakes.till import NOW, FakeTill
from ui.counter.desk_presenter import DeskPresenter
from ui.counter.tender_presenter import TenderPresenter, TenderState, quick_amounts
from ui.verdict import Tone
from ui.words import Text

CASH, CARD, WALLET, VALUE = TenderType.CASH, TenderType.CARD, TenderType.WALLET, TenderType.STORED_VALUE
CNY = Currency.of("CNY")


class Terminal:
    """Gives the answers it was told, one after another."""

    def __init__(self, *answers: PaymentAnswer) -> None:
        self.answers = list(answers)
        self.charged: list[str] = []

    def charge(self, payment_id: str, kind: TenderType, amount_minor: int) -> PaymentAnswer:
        self.charged.append(payment_id)
        return self.answers.pop(0)

    def query(self, payment_id: str) -> PaymentAnswer:
        return self.answers.pop(0)


class Counter:
    """A desk with goods on it, ready to pay."""

    def __init__(self, *codes: str, till: FakeTill | None = None, jobs: Now | None = None) -> None:
        self.till = till or pet_shop()
        self.jobs = jobs or Now()
        self.paid: list[PaidOrder] = []
        self.desk = DeskPresenter(self.till, self.jobs, changed=lambda: None)
        for code in codes or ("FOOD",):
            self.desk.scan(code)
        self.tender = TenderPresenter(
            self.till, self.jobs, chain=lambda: self.till.view, changed=lambda: None, paid=self.paid.append
        )
        quote, member = self.desk.state.quote, self.desk.state.member
        assert quote is not None
        self.tender.begin(
            self.desk.state.basket.order_id,
            self.desk.checkout_request(),
            payable_minor=quote.payable_minor,
            balance_minor=member.balance_minor if member else 0,
        )

    @property
    def state(self) -> TenderState:
        assert self.tender.state is not None
        return self.tender.state

    def code(self) -> str:
        verdict = self.state.verdict
        assert verdict is not None
        return verdict.message.key if isinstance(verdict.message, Text) else verdict.message.code.value


# ------------------------------------------------------------------ amounts


def test_cash_above_the_amount_gives_change() -> None:
    counter = Counter()

    counter.tender.add(CASH, "300")

    assert (counter.state.remaining_minor, counter.state.change_minor, counter.state.complete) == (0, 100, True)


def test_no_amount_means_all_that_remains() -> None:
    counter = Counter()
    counter.tender.add(CARD, "100.00")

    counter.tender.add(CASH, "")

    assert counter.state.tenders == (Tender(CASH, 19900), Tender(CARD, 10000)) and counter.state.complete


def test_the_same_kind_twice_is_one_line() -> None:
    counter = Counter()

    counter.tender.add(CASH, "100")
    counter.tender.add(CASH, "50.5")

    assert counter.state.tenders == (Tender(CASH, 15050),) and counter.state.remaining_minor == 14850


def test_cash_is_rounded_to_coins_that_exist_and_a_card_is_not() -> None:
    till = pet_shop(cash_step_minor=50)
    counter = Counter("TOY", "M1001", till=till)  # 19.90 less 5 % = 18.90, in coins of 0.50: 19.00

    in_cash = counter.state.remaining_minor
    counter.tender.add(CARD, "1.33")
    by_card = counter.state.remaining_minor
    counter.tender.add(CASH, "10")

    assert (in_cash, by_card) == (1900, 1757)
    assert counter.state.remaining_minor == 1750 - 1000


@pytest.mark.parametrize(
    "text", ["0", "-5", "12.345", "1,50", "abc", "99999999999999", "¥5", "5-", "٥", "0.00", "10000000000.01"]
)
def test_an_amount_that_makes_no_sense_is_refused_and_changes_nothing(text: str) -> None:
    counter = Counter()

    refusal = counter.tender.add(CASH, text)

    assert refusal is not None and refusal.code is RefusalCode.INVALID_AMOUNT
    assert counter.state.tenders == () and counter.state.verdict is not None


@pytest.mark.parametrize("kind", [CARD, WALLET])
def test_a_card_never_takes_more_than_is_due(kind: TenderType) -> None:
    counter = Counter()

    at_the_amount = counter.tender.add(kind, "299.00")
    counter.tender.remove(kind)
    beyond = counter.tender.add(kind, "299.01")

    assert at_the_amount is None
    assert beyond is not None and beyond.code is RefusalCode.PAYMENT_MISMATCH


def test_one_order_has_at_most_one_payment_at_a_terminal() -> None:
    counter = Counter()
    counter.tender.add(CARD, "100")

    refusal = counter.tender.add(WALLET, "100")

    assert refusal is not None and refusal.facts == {"max_terminal_tenders": 1}


def test_stored_value_goes_to_the_balance_and_not_beyond() -> None:
    counter = Counter("FOOD", "CAN", "M1001")

    beyond = counter.tender.add(VALUE, "300.01")
    at = counter.tender.add(VALUE, "300.00")

    assert beyond is not None and beyond.code is RefusalCode.INSUFFICIENT_BALANCE
    assert at is None and counter.state.remaining_minor == 750


def test_stored_value_needs_a_member() -> None:
    counter = Counter()

    refusal = counter.tender.add(VALUE, "1")

    assert refusal is not None and refusal.code is RefusalCode.NEEDS_MEMBER


def test_a_tender_taken_back_remains_to_be_paid() -> None:
    counter = Counter()
    counter.tender.add(CASH, "300")

    counter.tender.remove(CASH)

    assert counter.state.remaining_minor == 29900 and not counter.state.complete


@pytest.mark.parametrize(
    ("due_minor", "offered"),
    [
        (29900, (30000,)),
        (47660, (48000, 50000)),
        (1, (500, 1000, 2000, 10000)),
        (10000, ()),
        (0, ()),
        (12345, (12500, 13000, 14000, 20000)),
        (30380, (30500, 31000, 32000, 40000)),
    ],
)
def test_round_sums_above_the_amount_are_offered(due_minor: int, offered: tuple[int, ...]) -> None:
    assert quick_amounts(due_minor, CNY) == offered


# ------------------------------------------------------------------ paying


def test_a_payment_that_does_not_add_up_asks_nobody() -> None:
    counter = Counter()
    counter.tender.add(CASH, "298.90")

    counter.tender.finish()

    assert counter.till.calls == [] and counter.code() == "tender.incomplete" and counter.paid == []


def test_a_payment_that_adds_up_is_held_and_paid() -> None:
    counter = Counter()
    counter.tender.add(CASH, "300")

    counter.tender.finish()

    assert counter.till.calls == ["checkout", "pay"]
    assert counter.paid[0].change_minor == 100 and counter.tender.state is None


def test_a_basket_that_costs_nothing_is_paid_without_money() -> None:
    counter = Counter("WASH", "P2001")

    assert counter.state.complete
    counter.tender.finish()

    assert counter.paid[0].tenders == ()


def test_while_a_payment_is_under_way_nothing_can_be_left_or_repeated() -> None:
    jobs = Later()
    counter = Counter(jobs=jobs)
    counter.tender.add(CASH, "300")

    counter.tender.finish()
    counter.tender.finish()

    assert len(jobs.held) == 1 and counter.state.busy and not counter.tender.leave()


def test_a_refused_hold_keeps_the_page_and_says_why() -> None:
    counter = Counter()
    counter.till.refuse_checkout = refuse(RefusalCode.PAYMENT_MISMATCH, shown_minor=29900, now_minor=24900)
    counter.tender.add(CASH, "300")

    counter.tender.finish()

    assert counter.code() == "payment_mismatch" and not counter.state.busy and counter.till.calls == ["checkout"]
    assert counter.tender.leave()


def test_a_declined_card_is_taken_off_and_the_cash_stays() -> None:
    counter = Counter(till=pet_shop(terminal=Terminal(NotPaid(), Paid())))
    counter.tender.add(CARD, "200")
    counter.tender.add(CASH, "99")

    counter.tender.finish()

    assert counter.code() == "tender.declined" and counter.state.tenders == (Tender(CASH, 9900),)
    counter.tender.add(CARD, "")
    counter.tender.finish()
    assert len(counter.paid) == 1


def test_no_answer_leaves_the_payment_unknown_and_never_charges_again() -> None:
    terminal = Terminal(NoAnswer(), NoAnswer(), Paid())
    counter = Counter(till=pet_shop(terminal=terminal))
    counter.tender.add(CARD, "")

    counter.tender.finish()
    unknown = counter.state.pending
    counter.tender.finish()
    counter.tender.ask_again()
    still = counter.state.pending
    counter.tender.ask_again()

    assert unknown is not None and still is not None
    assert len(terminal.charged) == 1 and len(counter.paid) == 1


def test_an_unknown_payment_that_was_not_made_opens_the_payment_again() -> None:
    counter = Counter(till=pet_shop(terminal=Terminal(NoAnswer(), NotPaid())))
    counter.tender.add(CARD, "")
    counter.tender.finish()

    counter.tender.ask_again()

    assert counter.state.pending is None and counter.state.tenders == () and not counter.state.complete


def test_money_that_comes_too_late_for_a_refused_payment_gives_the_hold_back() -> None:
    counter = Counter()
    counter.tender.add(CASH, "300")
    counter.till.pay = lambda order_id, tenders: refuse(  # type: ignore[method-assign]
        RefusalCode.ILLEGAL_TRANSITION, order=order_id, state="CANCELLED", event="pay_success"
    )

    counter.tender.finish()

    assert counter.till.calls == ["checkout", "cancel"] and counter.code() == "illegal_transition"


def test_a_full_disk_says_that_nothing_was_sold(tmp_path) -> None:
    counter = Counter()
    counter.tender.add(CASH, "300")
    counter.till.fail = DiskFull(tmp_path, "no space left")

    counter.tender.finish()

    assert counter.code() == "tender.not_sold" and counter.state.verdict is not None
    assert counter.state.verdict.tone is Tone.REFUSED and counter.paid == []
    assert [type(error) for error in counter.jobs.errors] == [DiskFull]


def test_offline_a_coupon_order_is_refused_at_the_hold_and_cash_alone_goes() -> None:
    counter = Counter("FOOD", "K-FOOD")
    counter.till.now_status = TillStatus(False, NOW, 0, 0, NOW)
    counter.tender.add(CASH, "")

    counter.tender.finish()

    assert counter.code() == "needs_online"
    plain = Counter("FOOD", till=counter.till)
    plain.tender.add(CASH, "")
    plain.tender.finish()
    assert len(plain.paid) == 1


def test_a_refusal_is_an_answer_and_not_an_error() -> None:
    counter = Counter()
    counter.till.refuse_checkout = Refusal(RefusalCode.BUSY, {"retry_after_s": 3})
    counter.tender.add(CASH, "")

    counter.tender.finish()

    assert counter.jobs.errors == [] and counter.code() == "busy"
