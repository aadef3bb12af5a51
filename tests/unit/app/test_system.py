"""The till's real clock and ids."""

from __future__ import annotations

from datetime import UTC, timedelta

from app.services.system import SystemClock, SystemIds


def test_ids_are_uuid7_and_sort_by_their_making() -> None:
    ids = SystemIds()

    made = [ids.new() for _ in range(5000)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {(each[12], len(each)) for each in made} == {("7", 32)}
    assert {each[16] for each in made} <= set("89ab")


def test_digits_keep_their_leading_zeros() -> None:
    ids = SystemIds()

    drawn = [ids.digits(3) for _ in range(500)]

    assert all(len(each) == 3 and each.isdecimal() for each in drawn)
    assert len(set(drawn)) > 100


def test_the_clock_speaks_utc() -> None:
    now = SystemClock().now()

    assert now.tzinfo is UTC
    assert now.utcoffset() == timedelta(0)
