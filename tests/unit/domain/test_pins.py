"""What a PIN is, what is hashed of it, and how guessing is slowed down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.pins import FREE_TRIES, is_pin, locked_for, peppered

NOON = datetime(2026, 6, 1, 4, 0, tzinfo=UTC)


@pytest.mark.parametrize("pin", ["270581", "112233", "135790", "271828182845"])
def test_six_to_twelve_digits_are_a_pin(pin: str) -> None:
    assert is_pin(pin)


@pytest.mark.parametrize(
    "pin", ["27058", "2718281828459", "12345a", "123456", "890123", "987654", "444444", "２７０５８１", "270581\n", ""]
)
def test_what_anybody_would_try_first_is_no_pin(pin: str) -> None:
    assert not is_pin(pin)


def test_what_is_hashed_depends_on_the_pin_and_on_the_key_in_the_keyring() -> None:
    hashed = peppered(b"k" * 32, "270581")

    assert len(hashed) == 32
    assert hashed not in (peppered(b"k" * 32, "270582"), peppered(b"l" * 32, "270581"))


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (FREE_TRIES, 0), (5, 30), (6, 60), (7, 120), (8, 240), (9, 480)],
)
def test_the_pause_doubles_from_the_fifth_wrong_try_on(failures: int, seconds: int) -> None:
    assert locked_for(failures, NOON, NOON) == timedelta(seconds=seconds)


@pytest.mark.parametrize("failures", [10, 11, 99])
def test_no_time_ends_the_lock_behind_the_tenth(failures: int) -> None:
    assert locked_for(failures, NOON, NOON + timedelta(days=900)) is None


def test_the_pause_passes_and_a_clock_that_goes_back_makes_it_no_shorter() -> None:
    assert locked_for(5, NOON, NOON + timedelta(seconds=29)) == timedelta(seconds=1)
    assert locked_for(5, NOON, NOON + timedelta(seconds=30)) == timedelta(0)
    assert locked_for(5, NOON, NOON - timedelta(days=1)) == timedelta(seconds=30)


def test_who_never_failed_is_not_locked() -> None:
    assert locked_for(9, None, NOON) == timedelta(0)
