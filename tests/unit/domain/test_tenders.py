"""Paying: tenders add up, coins exist, change is given on cash only."""

from collections.abc import Sequence

import pytest

from app.domain.refusals import RefusalCode
from app.domain.tenders import Settlement, Tender, TenderType, cash_due, settle, stored_value_reason
from tests.unit.domain.shop import code

CASH, CARD, WALLET = TenderType.CASH, TenderType.CARD, TenderType.WALLET
ROUNDING, STORED = TenderType.ROUNDING, TenderType.STORED_VALUE


def kept(settled: Settlement) -> list[tuple[TenderType, int]]:
    return [(tender.type, tender.amount_minor) for tender in settled.tenders]


def paid(payable_minor: int, *given: tuple[TenderType, int], step: int = 0) -> Settlement:
    settled = settle(payable_minor, [Tender(*one) for one in given], cash_step_minor=step)
    assert isinstance(settled, Settlement)
    return settled


def refused(payable_minor: int, *given: tuple[TenderType, int], step: int = 0) -> RefusalCode:
    return code(settle(payable_minor, [Tender(*one) for one in given], cash_step_minor=step))


def test_cash_to_the_fen_leaves_no_change() -> None:
    settled = paid(1000, (CASH, 1000))

    assert (kept(settled), settled.change_minor) == ([(CASH, 1000)], 0)


def test_change_is_given_on_cash() -> None:
    settled = paid(995, (CASH, 600), (CASH, 500))

    assert (kept(settled), settled.change_minor) == ([(CASH, 995)], 105)


@pytest.mark.parametrize("type_", [CARD, WALLET, STORED])
def test_no_change_is_given_on_anything_else(type_: TenderType) -> None:
    assert refused(1000, (type_, 1001)) is RefusalCode.PAYMENT_MISMATCH
    assert kept(paid(1000, (type_, 1000))) == [(type_, 1000)]


def test_one_fen_too_little_is_refused_with_both_sums() -> None:
    found = settle(1000, [Tender(CARD, 400), Tender(CASH, 599)])

    assert code(found) is RefusalCode.PAYMENT_MISMATCH
    assert found.facts == {"due_minor": 1000, "given_minor": 999}


def test_cash_pays_what_the_others_leave() -> None:
    settled = paid(1000, (CASH, 500), (STORED, 300), (CARD, 250))

    assert (kept(settled), settled.change_minor) == ([(STORED, 300), (CARD, 250), (CASH, 450)], 50)


def test_others_that_pay_all_leave_all_cash_as_change() -> None:
    settled = paid(1000, (CARD, 1000), (CASH, 50))

    assert (kept(settled), settled.change_minor) == ([(CARD, 1000)], 50)


@pytest.mark.parametrize("amount_minor", [0, -1])
def test_a_tender_is_above_nothing(amount_minor: int) -> None:
    found = settle(1000, [Tender(CASH, amount_minor), Tender(CARD, 1000)])

    assert code(found) is RefusalCode.INVALID_AMOUNT
    assert found.facts == {"tenders": ["cash", "card"]}


def test_one_fen_is_a_tender() -> None:
    assert kept(paid(1, (CASH, 1))) == [(CASH, 1)]


def test_rounding_is_never_entered_by_hand() -> None:
    assert refused(1000, (CASH, 998), (ROUNDING, 2)) is RefusalCode.INVALID_AMOUNT


@pytest.mark.parametrize(
    ("payable_minor", "due_minor", "rounding_minor"),
    [(1002, 1000, 2), (1003, 1005, -2), (1005, 1005, 0), (1007, 1005, 2)],
)
def test_cash_is_rounded_and_the_difference_is_a_line_of_its_own(
    payable_minor: int, due_minor: int, rounding_minor: int
) -> None:
    settled = paid(payable_minor, (CASH, 2000), step=5)

    assert kept(settled) == [(CASH, due_minor), *([(ROUNDING, rounding_minor)] if rounding_minor else [])]
    assert settled.change_minor == 2000 - due_minor


def test_the_rounded_amount_is_enough_and_one_fen_less_is_not() -> None:
    assert kept(paid(1002, (CASH, 1000), step=5)) == [(CASH, 1000), (ROUNDING, 2)]
    assert refused(1003, (CASH, 1004), step=5) is RefusalCode.PAYMENT_MISMATCH


def test_only_what_is_paid_in_cash_is_rounded() -> None:
    assert kept(paid(1003, (CARD, 1003), step=5)) == [(CARD, 1003)]
    assert kept(paid(1003, (CARD, 1000), (CASH, 5), step=5)) == [(CARD, 1000), (CASH, 5), (ROUNDING, -2)]


def test_a_card_may_not_leave_the_rest_to_rounding() -> None:
    assert refused(1002, (CARD, 1000), step=5) is RefusalCode.PAYMENT_MISMATCH


def test_a_rest_that_rounds_to_nothing_gives_the_cash_back() -> None:
    settled = paid(1002, (CARD, 1000), (CASH, 10), step=5)

    assert (kept(settled), settled.change_minor) == ([(CARD, 1000), (ROUNDING, 2)], 10)


def test_nothing_given_pays_nothing() -> None:
    assert paid(0) == Settlement((), 0)
    assert kept(paid(2, step=5)) == [(ROUNDING, 2)]
    assert refused(3, step=5) is RefusalCode.PAYMENT_MISMATCH
    assert refused(1) is RefusalCode.PAYMENT_MISMATCH


@pytest.mark.parametrize(
    ("payable_minor", "others_minor", "step_minor", "due_minor"),
    [
        (1003, 0, 0, 1003),
        (1003, 0, 5, 1005),
        (1003, 1000, 5, 5),
        (1003, 1003, 5, 0),
        (1003, 2000, 5, 0),
        (100, 98, 0, 2),
    ],
)
def test_what_is_due_in_cash_is_rounded_after_the_other_tenders(
    payable_minor: int, others_minor: int, step_minor: int, due_minor: int
) -> None:
    assert cash_due(payable_minor, others_minor=others_minor, cash_step_minor=step_minor) == due_minor


def test_without_a_word_of_others_or_coins_all_is_due_as_it_is() -> None:
    assert cash_due(1003) == 1003


def test_every_tender_that_is_not_cash_is_kept_as_given() -> None:
    given: Sequence[Tender] = [Tender(CARD, 100), Tender(CARD, 200), Tender(WALLET, 300)]

    settled = settle(600, given)

    assert isinstance(settled, Settlement)
    assert settled.tenders == tuple(given)


@pytest.mark.parametrize("amount_minor", [0, 1, 1000])
def test_stored_value_up_to_what_is_to_pay_has_no_reason_against_it(amount_minor: int) -> None:
    assert stored_value_reason(amount_minor, payable_minor=1000, member_id="m1") is None


@pytest.mark.parametrize(
    ("amount_minor", "member_id", "expected"),
    [
        (-1, "m1", RefusalCode.INVALID_AMOUNT),
        (1, None, RefusalCode.NEEDS_MEMBER),
        (1001, None, RefusalCode.NEEDS_MEMBER),
        (1001, "m1", RefusalCode.PAYMENT_MISMATCH),
    ],
)
def test_stored_value_is_an_amount_of_a_member_and_no_more_than_is_to_pay(
    amount_minor: int, member_id: str | None, expected: RefusalCode
) -> None:
    assert code(stored_value_reason(amount_minor, payable_minor=1000, member_id=member_id)) is expected


def test_without_stored_value_nobody_has_to_be_a_member() -> None:
    assert stored_value_reason(0, payable_minor=1000, member_id=None) is None


def test_a_refusal_of_stored_value_says_what_is_wrong_with_it() -> None:
    def facts(amount_minor: int, member_id: str | None = "m1") -> dict[str, object]:
        return dict(stored_value_reason(amount_minor, payable_minor=1000, member_id=member_id).facts)

    assert facts(-1) == {"stored_value_minor": -1}
    assert facts(1, None) == {"tender": "stored_value"}
    assert facts(1001) == {"due_minor": 1000, "given_minor": 1001}
