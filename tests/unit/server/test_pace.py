"""The worker of batch issues rests where others write, and never where it is alone."""

from __future__ import annotations

import pytest

from server.jobs.issuing import REST_MAX_S, rest_s


@pytest.mark.parametrize(("ran_s", "strangers", "rest"), [(0.02, 0, 0.0), (0.02, 1, 0.08), (60.0, 5, REST_MAX_S)])
def test_it_rests_four_times_as_long_as_it_worked_where_others_write(ran_s: float, strangers: int, rest: float) -> None:
    assert rest_s(ran_s, strangers) == pytest.approx(rest)
