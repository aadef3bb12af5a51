"""Take an instant as somebody wrote it to where it can be kept: UTC, within the calendar."""

from datetime import UTC, datetime, timedelta

FIRST = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
LAST = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
"""A day within Python's calendar, so that every zone can show them and nothing that is rounded or added falls out."""


def in_utc(instant: datetime) -> datetime:
    """Return the instant in UTC; what lies beyond the calendar (year 1, year 9999) is its end.

    "Until 9999-12-31" means for ever, in whatever zone it was written, and no less a day earlier.
    """
    try:
        utc = instant.astimezone(UTC)
    except OverflowError:
        return FIRST if instant.year == 1 else LAST
    return min(max(utc, FIRST), LAST)
