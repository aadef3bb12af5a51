"""Real ids: UUIDv7, growing, never twice, also from many threads and with a clock that goes back."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from server.services.system import SystemClock, SystemIds


def test_an_id_is_a_uuid_of_version_7_with_its_time() -> None:
    before = time.time_ns() // 1_000_000

    made = uuid.UUID(SystemIds().new())

    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000


def test_ids_grow_in_the_order_of_their_making() -> None:
    ids = SystemIds()

    made = [ids.new() for _ in range(10_000)]

    assert made == sorted(set(made))


def test_ids_grow_also_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = SystemIds()
    first = ids.new()

    monkeypatch.setattr(time, "time_ns", lambda: 0)

    assert ids.new() > first


def test_threads_never_get_the_same_id() -> None:
    ids = SystemIds()

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: ids.new(), range(4_000)))

    assert len(set(made)) == len(made)


@pytest.mark.parametrize("count", [1, 14, 18])
def test_digits_are_as_many_as_asked_for(count: int) -> None:
    drawn = [SystemIds().digits(count) for _ in range(200)]

    assert {len(each) for each in drawn} == {count}
    assert all(each.isdecimal() for each in drawn)
    assert any(each.startswith("0") for each in drawn)


def test_the_clock_is_aware_and_in_utc() -> None:
    offset = SystemClock().now().utcoffset()

    assert offset is not None and not offset
