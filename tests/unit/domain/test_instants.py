"""Instants at the ends of the calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from app.domain.instants import FIRST, LAST, in_utc


def test_an_instant_is_kept_in_utc() -> None:
    written = datetime(2026, 6, 1, 10, 0, 0, 123_456, tzinfo=ZoneInfo("Asia/Shanghai"))

    assert in_utc(written) == datetime(2026, 6, 1, 2, 0, 0, 123_456, tzinfo=UTC)
    assert in_utc(written).tzinfo is UTC


@pytest.mark.parametrize("hours", [-14, 0, 14])
def test_what_lies_beyond_the_calendar_is_its_end(hours: int) -> None:
    zone = timezone(timedelta(hours=hours))

    assert in_utc(datetime.min.replace(tzinfo=zone)) == FIRST
    assert in_utc(datetime.max.replace(tzinfo=zone)) == LAST


@pytest.mark.parametrize("instant", [FIRST, LAST])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_ends_can_be_shown_in_every_zone_and_stay_as_they_are(instant: datetime, zone: str) -> None:
    shown = instant.astimezone(ZoneInfo(zone))

    assert in_utc(shown) == instant
