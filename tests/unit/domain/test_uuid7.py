"""Ids: of version 7, in the order of their making, whatever the clock does."""

import uuid

import pytest

from app.domain.uuid7 import next_tick, uuid7

NOW_MS = 1_767_225_600_000


def test_an_id_is_a_uuid_of_version_7_with_its_time() -> None:
    made = uuid.UUID(uuid7(next_tick(0, NOW_MS), 2**62 - 1))

    assert (made.version, made.variant, made.int >> 80) == (7, uuid.RFC_4122, NOW_MS)
    assert len(uuid7(next_tick(0, NOW_MS), 0)) == 32


@pytest.mark.parametrize(
    ("now_ms", "millisecond", "count"),
    [(NOW_MS - 1, NOW_MS, 1), (NOW_MS, NOW_MS, 1), (NOW_MS + 1, NOW_MS + 1, 0)],
)
def test_the_next_tick_grows_whether_the_clock_goes_back_stands_or_goes_on(
    now_ms: int, millisecond: int, count: int
) -> None:
    last = next_tick(0, NOW_MS)

    tick = next_tick(last, now_ms)

    assert (tick >> 12, tick & 0xFFF) == (millisecond, count)
    assert uuid7(tick, 0) > uuid7(last, 2**62 - 1)


def test_the_4097th_of_a_millisecond_borrows_from_the_next() -> None:
    tick = next_tick(0, NOW_MS)
    for _ in range(4096):
        tick = next_tick(tick, NOW_MS)

    assert (tick >> 12, tick & 0xFFF) == (NOW_MS + 1, 0)
