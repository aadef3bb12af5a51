"""Refunds: the money goes back the way it came, in coins that there are, and never more than was paid."""

from app.domain.refunds import Refund, RefundLine, refunded_so_far
from app.domain.tenders import Tender, TenderType
from tests.unit.domain.shop import line, lines
from tests.unit.domain.sold import after, back, paid_back, sold

CASH, CARD, WALLET = TenderType.CASH, TenderType.CARD, TenderType.WALLET
ROUNDING, STORED = TenderType.ROUNDING, TenderType.STORED_VALUE


# ---- the way back


def test_money_goes_back_to_stored_value_first_then_cards_and_wallets_then_cash() -> None:
    done = sold(lines(1000), tenders=[(CASH, 400), (WALLET, 300), (CARD, 200), (STORED, 100)])

    assert paid_back(back(done)) == [(STORED, 100), (WALLET, 300), (CARD, 200), (CASH, 400)]


def test_cards_and_wallets_come_in_the_order_in_which_they_paid() -> None:
    done = sold([line(100, qty_milli=10_000)], tenders=[(CARD, 400), (WALLET, 600)])

    first = back(done, (1, 5000))
    second = back(after(done, first), (1, 5000))

    assert [paid_back(first), paid_back(second)] == [[(CARD, 400), (WALLET, 100)], [(WALLET, 500)]]


def test_each_tender_gets_back_at_most_what_it_paid() -> None:
    done = sold([line(100, qty_milli=10_000)], tenders=[(STORED, 300), (CARD, 700)])

    first = back(done, (1, 2000))
    second = back(after(done, first), (1, 2000))
    third = back(after(done, first, second))

    assert [paid_back(one) for one in (first, second, third)] == [
        [(STORED, 200)],
        [(STORED, 100), (CARD, 100)],
        [(CARD, 600)],
    ]


def test_two_payments_of_one_kind_are_paid_back_as_one() -> None:
    done = sold(lines(1000), tenders=[(CARD, 300), (CARD, 700)])

    assert paid_back(back(done)) == [(CARD, 1000)]


def test_cash_goes_back_rounded_the_way_it_came() -> None:
    done = sold(lines(1003), tenders=[(CASH, 1005), (ROUNDING, -2)])

    assert paid_back(back(done, step=5)) == [(CASH, 1005), (ROUNDING, -2)]


def test_partial_refunds_in_cash_end_exactly_at_the_cash_that_was_paid() -> None:
    done = sold([line(333, qty_milli=3000)], tenders=[(CASH, 1000), (ROUNDING, -1)])

    first = back(done, (1, 1000), step=5)
    second = back(after(done, first), (1, 1000), step=5)
    third = back(after(done, first, second), (1, 1000), step=5)

    assert [paid_back(one) for one in (first, second, third)] == [
        [(CASH, 335), (ROUNDING, -2)],
        [(CASH, 330), (ROUNDING, 3)],
        [(CASH, 335), (ROUNDING, -2)],
    ]


def test_cash_never_gives_back_more_than_it_took() -> None:
    done = sold(lines(500, 502), tenders=[(CASH, 1000), (ROUNDING, 2)])

    first = back(done, (1, 1000), step=10)
    second = back(after(done, first), step=10)

    assert paid_back(first) == [(CASH, 500)]
    assert paid_back(second) == [(CASH, 500), (ROUNDING, 2)]


def test_what_was_rounded_away_comes_back_as_rounding() -> None:
    done = sold(lines(2), tenders=[(ROUNDING, 2)])

    refund = back(done, step=5)

    assert (refund.amount_minor, paid_back(refund)) == (2, [(ROUNDING, 2)])


def test_cash_is_capped_although_the_chain_gave_rounding_up_since() -> None:
    done = sold(lines(500, 502), tenders=[(CASH, 1000), (ROUNDING, 2)])

    first = back(done, (1, 1000))
    second = back(after(done, first))

    assert paid_back(first) == [(CASH, 500)]
    assert paid_back(second) == [(CASH, 500), (ROUNDING, 2)]
    assert paid_back(back(sold(lines(2), tenders=[(ROUNDING, 2)]))) == [(ROUNDING, 2)]


def test_nobody_gives_cash_back_though_the_chain_changed_its_coins_since() -> None:
    done = sold(lines(6, 1, 14), tenders=[(CASH, 20), (ROUNDING, 1)])

    first = back(done, (1, 1000), step=10)
    second = back(after(done, first), (2, 1000))
    third = back(after(done, first, second))

    assert [paid_back(one) for one in (first, second, third)] == [
        [(CASH, 10), (ROUNDING, -4)],
        [(ROUNDING, 1)],
        [(CASH, 10), (ROUNDING, 4)],
    ]


def test_the_rest_in_cash_is_rounded_after_the_card() -> None:
    done = sold([line(1003, qty_milli=1000)], tenders=[(CARD, 900), (CASH, 105), (ROUNDING, -2)])

    assert paid_back(back(done, step=5)) == [(CARD, 900), (CASH, 105), (ROUNDING, -2)]


def test_without_coins_cash_goes_back_to_the_fen() -> None:
    assert paid_back(back(sold([line(333, qty_milli=2000)]), (1, 1000))) == [(CASH, 333)]


# ---- so far


def test_refunds_so_far_add_up_by_line_amount_and_tender() -> None:
    one = Refund(
        (RefundLine(1, 1000), RefundLine(2, 500)), 300, (Tender(CARD, 100), Tender(CASH, 200)), {}, (), {}, False
    )
    other = Refund((RefundLine(1, 2000),), 50, (Tender(CASH, 55), Tender(ROUNDING, -5)), {}, (), {}, False)

    assert refunded_so_far([one, other]) == ({1: 3000, 2: 500}, 350, {"card": 100, "cash": 255, "rounding": -5})
    assert refunded_so_far([]) == ({}, 0, {})
