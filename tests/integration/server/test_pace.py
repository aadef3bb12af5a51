"""The tills of a large chain are told to rest longer between two sessions, each its share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from server.db.schema import till
from server.services import pace
from server.services.context import Context
from tests.fakes.counter import Counter, coupon, furnish
from tests.fakes.headquarters import Headquarters


@pytest.fixture
def counter(headquarters: Headquarters) -> Counter:
    headquarters.furnish(members=1)
    furnish(headquarters)
    headquarters.campaign("c1", stock=9)
    return Counter(headquarters, "t1")


def _more_tills(headquarters: Headquarters, count: int) -> None:
    def write(conn: Connection, ctx: Context) -> None:
        rows = [{"id": f"more{n}", "store_id": "s1", "last_seen_at": ctx.now} for n in range(count)]
        conn.execute(insert(till), rows)

    headquarters.services.write(write)


def _rest(counter: Counter) -> Any:
    return counter.hello()["rest_s"]


def test_a_chain_of_many_tills_is_told_to_come_less_often(headquarters: Headquarters, counter: Counter) -> None:
    assert _rest(counter) < 1
    _more_tills(headquarters, 4_000)

    # Counted once a minute, not for each greeting.
    assert _rest(counter) < 1
    headquarters.clock.pass_time(seconds=61)
    assert _rest(counter) == pytest.approx(4_001 / pace.SESSIONS_PER_S)


def test_tills_that_were_not_heard_of_for_a_day_take_no_share(headquarters: Headquarters, counter: Counter) -> None:
    _more_tills(headquarters, 4_000)
    headquarters.clock.pass_time(seconds=pace.IN_USE / timedelta(seconds=1) + 1)
    counter.hello()
    headquarters.clock.pass_time(seconds=61)

    assert _rest(counter) == pytest.approx(1 / pace.SESSIONS_PER_S)


def test_a_clock_that_was_set_back_keeps_no_old_count(headquarters: Headquarters, counter: Counter) -> None:
    counter.hello()
    _more_tills(headquarters, 4_000)
    headquarters.clock.pass_time(seconds=-3600)
    counter.hello()

    assert _rest(counter) > 50


def test_a_till_that_rests_long_still_counts_as_one_that_answers(headquarters: Headquarters, counter: Counter) -> None:
    mine = coupon(headquarters)
    counter.call("POST", "/v1/homes/of-members", {"request": "b1"}, status=201)
    _more_tills(headquarters, 4_000)
    counter.hello()
    other = Counter(headquarters, "t2")

    headquarters.clock.pass_time(seconds=200)
    refused = other.take_home(mine, status=409)["facts"]

    assert (refused["till"], refused["retry_after_s"]) == ("t1", 150)
