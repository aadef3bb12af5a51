"""Real processes die and lines break while tills sell: nothing is lost, nothing is doubled, all findings have a cause.

The short form: two tills and one server. With eight, two servers, PostgreSQL and Redis: `python -m tests.chaos`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from server.simulation.truth import Truth
from tests.chaos.run import Asked, play

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are looked up in /proc")


def _sell_what_nobody_sold(truth: Truth) -> None:
    first = next(iter(truth.receipts.values()))
    truth.receipts["x"] = replace(first, order_id="x")
    truth.till_of["x"], truth.paid_at_ms["x"] = truth.till_of[first.order_id], 0


def _lose_a_receipt(truth: Truth) -> None:
    del truth.receipts[next(iter(truth.receipts))]


def _lose_a_coupon(truth: Truth) -> None:
    del truth.promised[next(iter(truth.promised))]


def _pay_in_more(truth: Truth) -> None:
    truth.pay_in("value:m1", 1)


def test_tills_and_a_server_are_killed_and_a_line_is_cut_while_they_sell(tmp_path: Path) -> None:
    faults = ("till killed", "line cut", "server killed")
    asked = Asked(tmp_path, seconds=2, tills=2, pace_s=0.05, sales=3, large=False, only=faults)
    forgeries = (_sell_what_nobody_sold, _lose_a_receipt, _lose_a_coupon, _pay_in_more)

    outcome = play(asked, forgeries)

    assert not outcome.verdict.violations, "\n".join(outcome.verdict.violations)
    assert outcome.verdict.noticed == [True] * len(forgeries)
    assert outcome.verdict.sales and outcome.verdict.claims
    assert set(outcome.struck) == set(faults)


@pytest.mark.long
def test_two_servers_postgresql_redis_tills_and_lines_break_while_they_sell(tmp_path: Path) -> None:
    outcome = play(Asked(tmp_path, seconds=60, seed=7, tills=4, pace_s=0.3))

    assert outcome.verdict.violations == []
    assert outcome.verdict.sales > 20 and outcome.kills
