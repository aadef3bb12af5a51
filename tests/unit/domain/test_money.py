"""Money: exact in, exact out, and shared out to the last fen."""

from fractions import Fraction

import pytest

from app.domain.money import (
    MAX_MINOR,
    Currency,
    divide_half_up,
    largest_remainder,
    prorate,
    round_half_up,
    round_to_step,
)
from app.domain.refusals import RefusalCode
from tests.unit.domain.shop import code

YUAN = Currency.of("CNY")


@pytest.mark.parametrize(("code_", "decimals"), [("CNY", 2), ("EUR", 2), ("JPY", 0), ("KRW", 0), ("KWD", 3)])
def test_a_currency_has_the_minor_unit_of_iso_4217(code_: str, decimals: int) -> None:
    assert Currency.of(code_) == Currency(code_, decimals)


@pytest.mark.parametrize(
    ("code_", "decimals"),
    [("BHD", 3), ("CLP", 0), ("IQD", 3), ("ISK", 0), ("JOD", 3), ("OMR", 3), ("TND", 3), ("VND", 0)],
)
def test_the_exceptions_of_iso_4217_are_all_known(code_: str, decimals: int) -> None:
    assert Currency.of(code_).decimals == decimals


@pytest.mark.parametrize(
    ("text", "minor"),
    [("199.00", 19900), ("0", 0), ("0.5", 50), ("12.34", 1234), (" 7 ", 700), ("-3.20", -320), ("0000000000001", 100)],
)
def test_an_amount_is_read_exactly(text: str, minor: int) -> None:
    assert YUAN.parse(text) == minor


@pytest.mark.parametrize("text", ["", "1.", ".5", "1,5", "1e3", "+1", "--1", "１", "12345678901234", "0.1234567890"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    assert code(YUAN.parse(text)) is RefusalCode.INVALID_AMOUNT


def test_as_many_decimals_as_the_currency_has_are_read_and_one_more_is_refused() -> None:
    assert Currency.of("KWD").parse("1.234") == 1234
    assert Currency.of("JPY").parse("12") == 12

    assert code(YUAN.parse("1.234")) is RefusalCode.INVALID_AMOUNT
    assert Currency.of("KWD").parse("1.2345").facts == {"text": "1.2345", "decimals": 3}
    assert Currency.of("JPY").parse("12.0").facts == {"text": "12.0", "decimals": 0}


def test_the_largest_amount_is_read_and_one_fen_more_is_refused() -> None:
    assert YUAN.parse("10000000000.00") == MAX_MINOR
    assert YUAN.parse("-10000000000.00") == -MAX_MINOR

    assert code(YUAN.parse("10000000000.01")) is RefusalCode.INVALID_AMOUNT
    assert YUAN.parse("10000000000.01").facts == {
        "text": "10000000000.01",
        "max_minor": MAX_MINOR,
    }


def test_a_refusal_shows_no_more_than_forty_characters_of_a_wrong_amount() -> None:
    refused = YUAN.parse("x" * 41)

    assert refused.facts["text"] == "x" * 40


def test_a_refusal_of_too_many_decimals_shows_no_more_than_forty_characters() -> None:
    refused = Currency("XXX", 0).parse(" " * 41 + "1.5")

    assert refused.facts["text"] == " " * 40


def test_a_refusal_of_too_much_shows_no_more_than_forty_characters() -> None:
    refused = YUAN.parse(" " * 41 + "9999999999999")

    assert refused.facts["text"] == " " * 40


@pytest.mark.parametrize(
    ("currency", "minor", "text"),
    [
        ("CNY", 19900, "199.00"),
        ("CNY", 5, "0.05"),
        ("CNY", -5, "-0.05"),
        ("CNY", 0, "0.00"),
        ("CNY", 100, "1.00"),
        ("JPY", 12, "12"),
        ("JPY", -12, "-12"),
        ("KWD", 1, "0.001"),
    ],
)
def test_an_amount_is_written_with_all_its_decimals(currency: str, minor: int, text: str) -> None:
    assert Currency.of(currency).format(minor) == text


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        ("1/2", 1),
        ("-1/2", 0),
        ("-3/2", -1),
        ("49/100", 0),
        ("-51/100", -1),
        ("3/2", 2),
        ("2", 2),
        ("5/3", 2),
        ("4/3", 1),
    ],
)
def test_a_half_is_rounded_towards_plus_infinity(value: str, rounded: int) -> None:
    fraction = Fraction(value)

    assert round_half_up(fraction) == rounded
    assert divide_half_up(fraction.numerator, fraction.denominator) == rounded


@pytest.mark.parametrize(("minor", "rounded"), [(102, 100), (103, 105), (100, 100), (0, 0), (2, 0), (3, 5)])
def test_cash_is_rounded_to_the_nearest_coin(minor: int, rounded: int) -> None:
    assert round_to_step(minor, 5) == rounded


@pytest.mark.parametrize(("minor", "rounded"), [(104, 100), (105, 110), (115, 120)])
def test_cash_halfway_between_two_coins_is_rounded_up(minor: int, rounded: int) -> None:
    assert round_to_step(minor, 10) == rounded


def test_leftovers_go_to_the_largest_remainders_and_among_equals_to_the_earlier() -> None:
    assert largest_remainder([10, 10, 10], 30) == [1, 0, 0]
    assert largest_remainder([5, 11, 14], 10) == [1, 1, 1]
    assert largest_remainder([19, 12, 19], 10) == [2, 1, 2]
    assert largest_remainder([20, 30], 10) == [2, 3]
    assert largest_remainder([], 1) == []


def test_the_sum_of_exact_shares_is_rounded_half_up_once() -> None:
    assert largest_remainder([24, 25], 100) == [0, 0]
    assert largest_remainder([25, 25], 100) == [1, 0]


def test_a_discount_is_prorated_by_what_the_lines_cost() -> None:
    assert prorate(100, [100, 200, 300]) == [17, 33, 50]
    assert prorate(10, [1, 1, 1, 97]) == [0, 0, 0, 10]
    assert prorate(0, [5, 5]) == [0, 0]
    assert prorate(10, [5, 5]) == [5, 5]


def test_lines_that_cost_nothing_share_nothing_out() -> None:
    assert prorate(0, [0, 0]) == [0, 0]
    assert prorate(5, [0, 7, 0]) == [0, 5, 0]


@pytest.mark.parametrize("total_minor", [-1, 11])
def test_a_discount_is_never_less_than_nothing_or_more_than_all(total_minor: int) -> None:
    with pytest.raises(AssertionError, match=r"^a discount is never more"):
        prorate(total_minor, [5, 5])
