"""The board that a price is worked out on: units, eligible lines, nets that never fall below nothing."""

import pytest

from app.domain.basket import Cover
from app.domain.pricing import Board
from tests.unit.domain.shop import line, lines, off


def test_a_board_leaves_covered_units_out_and_counts_no_units_of_weights() -> None:
    basket = (line(1000, qty_milli=3000), line(1000, number=2, qty_milli=1500, by_weight=True), line(500, number=3))

    board = Board.of(basket, [Cover("c", 1), Cover("c", 3)])

    assert (board.grosses, board.units, board.nets) == ((2000, 1500, 0), (2, 0, 0), [2000, 1500, 0])
    assert board.eligible(off()) == (0, 1)


def test_a_board_never_lets_a_net_fall_below_nothing() -> None:
    board = Board.of(lines(100), [])

    assert board.take((0,), (100,)) == (100,)
    with pytest.raises(AssertionError, match=r"^a net never falls below 0"):
        board.take((0,), (1,))


def test_a_board_takes_a_share_for_each_eligible_line() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Board.of(lines(100, 200), []).take((0, 1), (50,))


def test_a_board_never_raises_a_net() -> None:
    with pytest.raises(AssertionError, match=r"^a net never falls below 0"):
        Board.of(lines(100), []).take((0,), (-1,))
