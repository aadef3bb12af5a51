"""What is seen of Redis from outside: its state for `/ready`, what it has reserved for `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.background import Background
from server.scrape import Scrape
from server.services import timely
from server.settings import Settings
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import RedisServer, running


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a server that the test may kill."""
    with running(tmp_path / "redis") as server:
        yield server


def shown(office: RedisOffice) -> str:
    return Scrape(office.services).text().decode()


def test_what_is_reserved_and_not_landed_is_shown_by_campaign(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    before = shown(office)
    office.reserve()

    assert 'pawtill_reserved{campaign="c1"} 0.0' in before
    assert 'pawtill_reserved{campaign="c1"} 1.0' in shown(office)


def test_a_redis_that_was_looked_at_is_ready_and_one_that_is_away_says_so(
    headquarters: Headquarters, own_redis: RedisServer
) -> None:
    office = RedisOffice(headquarters, own_redis.address)
    headquarters.campaign(arbiter="redis", stock=5)
    well = office.admission.state()

    own_redis.kill()
    away, numbers = office.admission.state(), shown(office)
    office.close()

    assert (well, away) == ("ok", "redis_down")
    assert "pawtill_reserved" not in numbers
    assert "pawtill_database_up 1.0" in numbers


def test_without_redis_there_is_nothing_to_wait_for(headquarters: Headquarters) -> None:
    office = RedisOffice(headquarters, None)

    assert office.admission.state() == "ok"
    assert office.admission.reserved() == {}
    office.close()


def test_timely_messages_go_by_the_redis_that_is_there(office: RedisOffice, tmp_path: Path) -> None:
    background = Background(office.services, Settings(data_dir=tmp_path))

    carrier = background.carrier
    carrier.put(f"{timely.HOLD_TIMEOUTS}:1000", 1000)

    assert office.door is not None
    assert office.door.unguarded.client.zrange(f"{office.prefix}{{timely}}:due", 0, -1) == [b"hold_timeouts:1000"]
    assert list(background.running.checks) == ["redis"]
    background.close()
