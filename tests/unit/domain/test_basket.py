"""Lines and quantities: whole units, weights in grams, nothing that a scanner typed by mistake."""

import pytest

from app.domain.basket import MAX_QTY_MILLI, check_qty, format_qty, line_gross, parse_qty
from app.domain.refusals import RefusalCode
from tests.unit.domain.shop import code


@pytest.mark.parametrize(("value", "qty_milli"), [(1, 1000), ("2", 2000), ("2.0", 2000), (" 3.000 ", 3000)])
def test_whole_units_may_be_written_with_zeros_behind_the_point(value: int | str, qty_milli: int) -> None:
    assert parse_qty(value, by_weight=False) == qty_milli


@pytest.mark.parametrize(("value", "qty_milli"), [("0.735", 735), ("0.001", 1), ("1.2", 1200), ("1.2500", 1250)])
def test_a_weight_has_at_most_three_decimals_that_count(value: str, qty_milli: int) -> None:
    assert parse_qty(value, by_weight=True) == qty_milli


def test_a_fourth_decimal_is_refused() -> None:
    refused = parse_qty("0.7351", by_weight=True)

    assert code(refused) is RefusalCode.INVALID_QUANTITY
    assert refused.facts == {"text": "0.7351", "decimals": 3}


@pytest.mark.parametrize("value", ["", "-1", "1,5", "1.", ".5", "1e2", "two", "1234567890"])
def test_what_is_no_quantity_is_refused(value: str) -> None:
    refused = parse_qty(value, by_weight=True)

    assert code(refused) is RefusalCode.INVALID_QUANTITY
    assert refused.facts == {"text": value}


@pytest.mark.parametrize("value", ["x" * 41, "0.0001" + "0" * 4 + "x" * 40])
def test_a_refusal_shows_no_more_than_forty_characters(value: str) -> None:
    assert parse_qty(value, by_weight=True).facts["text"] == value[:40]


def test_a_refusal_of_a_fourth_decimal_shows_no_more_than_forty_characters() -> None:
    assert parse_qty(" " * 41 + "0.1234", by_weight=True).facts["text"] == " " * 40


@pytest.mark.parametrize("qty_milli", [0, -1000, MAX_QTY_MILLI + 1])
def test_a_quantity_is_above_nothing_and_not_beyond_the_largest(qty_milli: int) -> None:
    refused = check_qty(qty_milli, by_weight=True)

    assert code(refused) is RefusalCode.INVALID_QUANTITY
    assert refused.facts == {"qty_milli": qty_milli, "max_milli": MAX_QTY_MILLI}


@pytest.mark.parametrize("qty_milli", [1, MAX_QTY_MILLI])
def test_the_smallest_and_the_largest_quantity_are_fine(qty_milli: int) -> None:
    assert check_qty(qty_milli, by_weight=True) == qty_milli


def test_goods_by_the_piece_are_not_cut_up() -> None:
    refused = check_qty(1500, by_weight=False)

    assert refused.facts == {"qty_milli": 1500, "whole": True}
    assert code(parse_qty("1.5", by_weight=False)) is RefusalCode.INVALID_QUANTITY
    assert check_qty(1000, by_weight=False) == 1000


def test_the_largest_quantity_is_99999_units() -> None:
    assert parse_qty("99999", by_weight=False) == 99_999_000
    assert code(parse_qty("100000", by_weight=False)) is RefusalCode.INVALID_QUANTITY


@pytest.mark.parametrize(
    ("price_minor", "qty_milli", "gross_minor"),
    [(1000, 3000, 3000), (1999, 735, 1469), (1, 500, 1), (1, 499, 0), (333, 1500, 500), (0, 1000, 0)],
)
def test_the_gross_of_a_line_is_rounded_half_up_once(price_minor: int, qty_milli: int, gross_minor: int) -> None:
    assert line_gross(price_minor, qty_milli) == gross_minor


@pytest.mark.parametrize(("qty_milli", "text"), [(2000, "2"), (735, "0.735"), (1500, "1.5"), (10_010, "10.01")])
def test_a_quantity_is_written_without_needless_zeros(qty_milli: int, text: str) -> None:
    assert format_qty(qty_milli) == text
