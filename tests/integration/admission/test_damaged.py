"""A campaign whose keys in Redis are damaged holds up no other: not draining, not building, not comparing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from server.jobs.redis import compare_redis, drain_reservations
from server.scrape import Scrape
from server.stock.trouble import StockDamaged
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import RedisServer

DAMAGED, WELL = "c1", "c2"
"""The damaged one comes first in every list."""


def _of_another_type(part: str) -> Callable[[Any, Callable[[str], str]], None]:
    def damage(client: Any, key: Callable[[str], str]) -> None:
        client.delete(key(part))
        client.set(key(part), "what is this")

    damage.__name__ = f"key_{part}_of_another_type"
    return damage


def _an_event_that_nobody_can_read(client: Any, key: Callable[[str], str]) -> None:
    client.delete(key("s"))
    client.xadd(key("s"), {"gen": "one", "request": b"\xff"})


def _an_event_without_its_source(client: Any, key: Callable[[str], str]) -> None:
    [(entry, event)] = client.xrange(key("s"), count=1)
    client.xdel(key("s"), entry)
    client.xadd(key("s"), {**event, b"event": b"[]"})


def _a_member_who_holds_no_number(client: Any, key: Callable[[str], str]) -> None:
    client.hset(key("u"), "m1", "many")


def _a_generation_beyond_all_counting(client: Any, key: Callable[[str], str]) -> None:
    client.hset(key("h"), "gen", 2**53 - 1)


DAMAGES = [
    *(_of_another_type(part) for part in "hs"),
    _a_generation_beyond_all_counting,
    _an_event_that_nobody_can_read,
    _an_event_without_its_source,
    _a_member_who_holds_no_number,
]


@pytest.fixture
def two(on_file: Headquarters, redis_server: RedisServer) -> Iterator[RedisOffice]:
    """Put two campaigns on Redis; each has a reservation whose process died."""
    office = RedisOffice(on_file, redis_server.address)
    for campaign in (DAMAGED, WELL):
        on_file.campaign(campaign, arbiter="redis", stock=3)
        office.reserve(f"r-{campaign}", campaign=campaign)
    yield office
    office.close()


def _damage(office: RedisOffice, damage: Callable[[Any, Callable[[str], str]], None]) -> None:
    assert office.door is not None
    damage(office.door.unguarded.client, office.door.keys(DAMAGED).key)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_a_damaged_campaign_holds_up_no_other_and_is_built_anew(two: RedisOffice, damage: Any) -> None:
    _damage(two, damage)
    two.headquarters.clock.pass_time(seconds=6)

    drain_reservations(two.services)
    drained = two.held(WELL)
    numbers = Scrape(two.services).text().decode()
    for _ in range(2):
        compare_redis(two.services)

    assert drained == {"m1": 1}
    assert 'pawtill_reserved{campaign="c2"} 0.0' in numbers
    two.assert_sound(WELL)
    two.assert_sound(DAMAGED)
    assert two.claim("r9", member="m9", campaign=DAMAGED)["outcome"] == "ok"
    two.assert_sound(DAMAGED)


def test_a_process_that_starts_lands_what_can_be_read_all_the_same(two: RedisOffice) -> None:
    two.reserve("r2", member="m2", campaign=DAMAGED)
    _damage(two, _an_event_without_its_source)

    two.admission.begin()

    assert (two.held(DAMAGED), two.held(WELL)) == ({"m2": 1}, {"m1": 1})
    assert two.claim("r9", member="m9", campaign=WELL)["outcome"] == "ok"


def test_one_that_cannot_be_landed_or_built_holds_up_no_other(
    two: RedisOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    generations, door = two.admission.generations, two.door
    assert generations is not None and door is not None
    two.headquarters.clock.pass_time(seconds=6)

    def failing(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(campaign_id: str, *args: Any, **more: Any) -> Any:
            if campaign_id == DAMAGED:
                raise StockDamaged("as it happens between two looks")
            return work(campaign_id, *args, **more)

        return run

    monkeypatch.setattr(generations, "land_events", failing(generations.land_events))
    drain_reservations(two.services)
    assert two.held(WELL) == {"m1": 1}

    monkeypatch.setattr(generations, "rebuild", failing(generations.rebuild))
    door.unguarded.client.delete(door.keys(DAMAGED).key("h"), door.keys(WELL).key("h"))
    compare_redis(two.services)
    two.assert_sound(WELL)
