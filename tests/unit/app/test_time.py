"""What time it is for a till: its own clock, put right by the server, and never going back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.store.meta import Meta, instant, instant_ms

NOW = datetime(2026, 6, 1, 4, 0, tzinfo=UTC)


def test_a_clock_that_nobody_corrected_is_believed() -> None:
    assert Meta().corrected(NOW) == NOW


def test_the_servers_correction_is_applied_both_ways() -> None:
    assert Meta(clock_offset_ms=-90_000).corrected(NOW) == NOW - timedelta(seconds=90)
    assert Meta(clock_offset_ms=90_000).corrected(NOW) == NOW + timedelta(seconds=90)


def test_a_clock_that_goes_back_stands_at_what_the_till_was_told_last() -> None:
    told = Meta(time_floor_ms=instant_ms(NOW))

    assert told.corrected(NOW - timedelta(hours=2)) == NOW
    assert told.corrected(NOW + timedelta(milliseconds=1)) == NOW + timedelta(milliseconds=1)


def test_instants_survive_the_way_through_milliseconds() -> None:
    exact = NOW + timedelta(milliseconds=123)

    assert instant(instant_ms(exact)) == exact


SYNCED = Meta(last_sync_at_ms=instant_ms(NOW), time_floor_ms=instant_ms(NOW))


@pytest.mark.parametrize(
    ("known", "later", "doubt"),
    [
        (Meta(), timedelta(0), "never_checked"),
        (SYNCED, timedelta(0), ""),
        (SYNCED, timedelta(hours=72), ""),
        (SYNCED, timedelta(hours=72, milliseconds=1), "long_unchecked"),
        (SYNCED, timedelta(milliseconds=-1), "set_back"),
    ],
)
def test_a_clock_is_in_doubt_where_nobody_can_vouch_for_it(known: Meta, later: timedelta, doubt: str) -> None:
    assert known.clock_doubt(NOW + later) == doubt
