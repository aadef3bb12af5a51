"""A server's clock that is set back by an hour: the rate goes on, and what a dead process reserved is not kept."""

from __future__ import annotations

import pytest

from server.stock import scripts
from server.stock.pipeline import BlockingStock
from server.stock.scripts import AHEAD_MAX_MS, No, Refused, Reserved
from tests.integration.stock.sale import KEYS, NOW, open_sale, reservation, standing

HOUR_MS = 3_600_000


def _take(stock: BlockingStock, number: int, now_ms: int) -> object:
    asked = reservation(f"r{number}", f"m{number}", now_ms=now_ms, deadline_ms=now_ms + 5000)
    return stock.run(scripts.reserve(KEYS, 1, asked))


def test_a_rate_goes_on_from_what_was_left_when_the_clock_was_set_back(stock: BlockingStock) -> None:
    open_sale(stock, rate=1, burst=1)
    assert isinstance(_take(stock, 1, NOW + HOUR_MS), Reserved)

    assert _take(stock, 2, NOW) == Refused(No.RATE, retry_ms=1000)
    assert _take(stock, 2, NOW + 999) == Refused(No.RATE, retry_ms=1)
    assert isinstance(_take(stock, 2, NOW + 1000), Reserved)
    assert _take(stock, 3, NOW + 1999) == Refused(No.RATE, retry_ms=1)


@pytest.mark.parametrize(
    ("ahead_ms", "overdue"), [(0, 0), (AHEAD_MAX_MS - 5000, 0), (AHEAD_MAX_MS - 4999, 1), (HOUR_MS, 1)]
)
def test_a_deadline_further_ahead_than_any_is_over(stock: BlockingStock, ahead_ms: int, overdue: int) -> None:
    open_sale(stock)
    _take(stock, 1, NOW + ahead_ms)

    assert standing(stock, now_ms=NOW).overdue_count == overdue
