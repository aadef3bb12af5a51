"""Time passes by the heap alone, and who waits lets the others act."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from server.scenario.crash import ProcessDied
from server.simulation.timeline import Timeline


@pytest.fixture
def timeline() -> Iterator[Timeline]:
    timeline = Timeline(datetime(2026, 6, 1, tzinfo=UTC))
    yield timeline
    timeline.close()


def test_who_waits_lets_the_others_act(timeline: Timeline) -> None:
    told: list[str] = []
    one, two = timeline.strand("one"), timeline.strand("two")

    def work(name: str, *delays_ms: int) -> None:
        for delay_ms in delays_ms:
            timeline.wait(delay_ms)
            told.append(f"{timeline.now_ms} {name}")

    timeline.at(0, lambda: one.do(lambda: work("one", 100, 100)))
    timeline.at(10, lambda: two.do(lambda: work("two", 50, 60)))
    timeline.run()

    assert told == ["60 two", "100 one", "120 two", "200 one"]
    assert timeline.clock.now() == datetime(2026, 6, 1, 0, 0, 0, 200_000, tzinfo=UTC)


def test_who_is_killed_dies_where_it_waits_and_what_waits_behind_it_is_dropped(timeline: Timeline) -> None:
    told: list[str] = []
    strand = timeline.strand("one")

    def work() -> None:
        try:
            timeline.wait(1000)
        except ProcessDied:
            told.append(f"{timeline.now_ms} died")

    timeline.at(0, lambda: strand.do(work))
    timeline.at(5, lambda: strand.do(lambda: told.append("behind it")))
    timeline.at(10, strand.kill)
    timeline.at(20, lambda: strand.do(lambda: told.append(f"{timeline.now_ms} alive again")))
    timeline.run()

    assert told == ["10 died", "20 alive again"]


def test_what_fails_in_a_strand_fails_the_run(timeline: Timeline) -> None:
    strand = timeline.strand("one")

    def fail() -> None:
        raise ZeroDivisionError

    timeline.at(0, lambda: strand.do(fail))

    with pytest.raises(ZeroDivisionError):
        timeline.run()
