"""What goes wrong between Redis and the database, planted by hand: found, put right, and told where it comes again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, update

from app.domain.refusals import RefusalCode
from server.db import schema
from server.jobs.redis import compare_redis, drain_reservations
from server.services import accounts
from server.services.admission.claiming import LANDING_MS
from server.services.context import Context
from server.services.grants import Wanted, grant
from server.stock import scripts
from server.stock.door import Door
from server.stock.scripts import Keys, Why
from server.stock.trouble import StockRestarted, StockTrouble
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import RedisServer, running


def _keys(office: RedisOffice) -> Keys:
    assert office.door is not None
    return office.door.keys("c1")


def _client(office: RedisOffice) -> Any:
    assert office.door is not None
    return office.door.unguarded.client


# ------------------------------------------------------------------ reservations that nobody landed


def test_a_reservation_of_a_dead_process_is_finished_after_its_deadline_and_not_before(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=2)
    office.reserve()
    assert office.stock() == {**office.stock(), "available": 1, "reserved": 1, "granted": 0}

    assert drain_reservations(office.services).repaired == 0
    office.headquarters.clock.pass_time(milliseconds=LANDING_MS)
    assert drain_reservations(office.services).repaired == 0
    office.headquarters.clock.pass_time(milliseconds=1)
    assert drain_reservations(office.services).repaired == 1

    office.assert_sound()
    assert office.held() == {"m1": 1}
    assert office.claim("r1")["outcome"] == "ok"


def test_a_reservation_that_the_database_refuses_is_released(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1, tiers=["gold"])
    office.reserve()
    office.headquarters.clock.pass_time(seconds=6)

    assert drain_reservations(office.services).repaired == 1

    assert office.held() == {}
    office.assert_sound()


def test_who_asks_again_for_a_reservation_that_nobody_landed_lands_it(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1)
    office.reserve()

    assert office.claim("r1")["outcome"] == "ok"
    office.assert_sound()


def test_a_grant_that_was_never_confirmed_is_confirmed(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=2)
    token = office.reserve()
    wanted = Wanted("claim:r1", "c1", "m1", "app", reservation=token)
    office.headquarters.database.write(
        lambda conn: grant(conn, office.headquarters.context(), [wanted])  # and the process dies
    )
    assert office.standing().units == 1
    office.headquarters.clock.pass_time(seconds=6)

    drain_reservations(office.services)

    office.assert_sound()
    assert office.stock()["granted"] == 1


def test_a_start_finishes_what_the_last_one_began(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=2)
    office.reserve()

    office.admission.begin()

    office.assert_sound()
    assert office.held() == {"m1": 1}


# ------------------------------------------------------------------ counters


def _shift(office: RedisOffice, by: int) -> None:
    _client(office).hincrby(_keys(office).key("h"), "avail", by)


@pytest.mark.parametrize("by", [-3, -1, 1, 3])
def test_a_counter_that_is_wrong_twice_is_built_anew(office: RedisOffice, by: int) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    office.claim("r1")
    _shift(office, by)

    assert compare_redis(office.services).repaired == 0
    report = compare_redis(office.services)

    assert (report.repaired, report.findings) == (1, {})
    office.assert_sound()
    assert compare_redis(office.services).repaired == 0


def test_one_comparison_that_adds_up_forgives_the_one_before(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    _shift(office, 1)
    compare_redis(office.services)
    _shift(office, -1)
    compare_redis(office.services)
    _shift(office, 1)

    assert compare_redis(office.services).repaired == 0


def test_a_drift_that_comes_again_is_told_to_a_person(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    found = []
    for _ in range(2):
        _shift(office, 2)
        compare_redis(office.services)
        found.append(compare_redis(office.services).findings)

    assert found == [{}, {"redis_drift": 1}]
    [finding] = office.headquarters.call("GET", "/v1/findings", status=200)["findings"]
    assert finding["detail"] == {"campaign": "c1", "units": 2, "members": []}


@pytest.mark.parametrize("held", [0, 2])
def test_a_member_who_is_counted_wrong_is_found(office: RedisOffice, held: int) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5, per_member=3)
    office.claim("r1", member="m1")
    if held:
        _client(office).hset(_keys(office).key("u"), "m1", held)
    else:
        _client(office).hset(_keys(office).key("u"), "m2", 1)
        _client(office).hincrby(_keys(office).key("h"), "nu", 1)

    compare_redis(office.services)

    assert compare_redis(office.services).repaired == 1
    office.assert_sound()


def test_what_is_reserved_and_what_is_landed_and_not_closed_is_no_drift(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    office.reserve()
    token = office.reserve("r2", member="m2")
    wanted = Wanted("claim:r2", "c1", "m2", "app", reservation=token)
    office.headquarters.database.write(lambda conn: grant(conn, office.headquarters.context(), [wanted]))

    reports = [compare_redis(office.services) for _ in range(3)]

    assert [each.repaired for each in reports] == [0, 0, 0]
    assert office.standing().units == 2


def test_another_way_in_that_redis_never_heard_of_is_found(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    office.headquarters.database.write(
        lambda conn: grant(conn, office.headquarters.context(), [Wanted("gift:g1", "c1", "m1", "gift")])
    )

    for _ in range(2):
        compare_redis(office.services)

    office.assert_sound()


def test_a_member_who_is_refused_for_what_the_database_does_not_know_is_helped(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    _client(office).hset(_keys(office).key("u"), "m1", 1)
    _client(office).hincrby(_keys(office).key("h"), "nu", 1)

    assert office.claim("r1")["outcome"] == RefusalCode.ALREADY_CLAIMED
    office.headquarters.clock.pass_time(seconds=11)
    assert office.claim("r2")["outcome"] == RefusalCode.ALREADY_CLAIMED
    office.settle()

    assert office.claim("r3")["outcome"] == "ok"
    office.assert_sound()


# ------------------------------------------------------------------ losses


@pytest.mark.parametrize("part", "hruds")
def test_a_key_that_is_gone_is_never_answered_from_and_built_anew(office: RedisOffice, part: str) -> None:
    office.headquarters.campaign(arbiter="redis", stock=3)
    office.claim("r1", member="m1")
    office.reserve("r2", member="m2")
    _client(office).delete(_keys(office).key(part))

    assert office.claim("r3", member="m3")["outcome"] == "busy"
    office.settle()

    assert office.claim("r3", member="m3")["outcome"] == "ok"
    assert office.claim("r4", member="m1")["outcome"] == "already_claimed"
    office.assert_sound()


def test_a_busy_answer_says_when_to_come_again(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=3)
    _client(office).delete(_keys(office).key("h"))

    [answer] = office.send([("r1", "m1")])

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json()["facts"]["reason"] == "rebuilding"


def test_the_patrol_builds_what_is_lost_without_anybody_asking(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=3)
    office.claim("r1")
    _client(office).delete(*_keys(office).all)

    assert compare_redis(office.services).repaired == 1
    office.assert_sound()


def test_a_database_that_was_restored_goes_on_above_the_generation_of_its_redis(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=3)
    office.claim("r1")
    admission = schema.admission
    office.headquarters.database.write(
        lambda conn: conn.execute(update(admission).values(generation=1, state="BUILDING", since_at=_long_ago()))
    )
    assert office.door is not None
    office.door.unguarded.run(scripts.close(_keys(office), 40))

    office.admission.begin()

    assert office.standing().generation > 40
    assert office.claim("r2", member="m2")["outcome"] == "ok"
    office.assert_sound()


def _long_ago() -> Any:
    from tests.fakes.headquarters import START

    return START.replace(year=2025)


def test_a_rebuild_while_claims_land_counts_each_once(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    token = office.reserve()
    old = office.standing().generation
    assert office.admission.generations is not None
    office.admission.generations.rebuild("c1", "test")
    assert office.standing().generation > old

    # The process that had reserved under the old generation lands now.
    from server.services.admission.landing import Claimed, Ticket, land_now

    assert office.door is not None
    ticket = Ticket(_keys(office), old, "r1", token)
    wanted = Wanted("claim:r1", "c1", "m1", "app", reservation=token)
    news = land_now(office.services, office.door, [Claimed(wanted, ticket)])
    office.admission.tell(news)

    office.assert_sound()
    assert office.held() == {"m1": 1}


def test_news_of_before_and_of_behind_a_rebuild_are_told_apart(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    generations = office.admission.generations
    assert generations is not None and office.door is not None
    taken: list[Any] = []

    def give(conn: Connection, ctx: Context) -> None:
        number = len(taken) + 1
        grant(conn, ctx, [Wanted(f"gift:g{number}", "c1", f"m{number}", "gift")])
        taken.extend(ctx.taken)

    office.headquarters.database.write(lambda conn: give(conn, office.headquarters.context()))
    generations.rebuild("c1", "test")
    office.headquarters.database.write(lambda conn: give(conn, office.headquarters.context()))

    generations.tell(taken)

    office.assert_sound()
    assert office.stock()["granted"] == 2


def test_news_that_find_a_rebuild_under_way_are_told_behind_it(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    assert office.door is not None and office.admission.generations is not None
    generation = office.standing().generation + 1
    office.door.unguarded.run(scripts.close(_keys(office), generation))
    gift = {"request": "g1", "campaign": "c1", "member": "m1", "reason": "sorry"}
    office.headquarters.call("POST", "/v1/gifts", gift, status=201)
    assert office.fault() == scripts.Fault(Why.NO_GENERATION, str(generation))

    office.admission.generations.rebuild("c1", "test")

    office.assert_sound()


# ------------------------------------------------------------------ another process of Redis


@pytest.fixture
def own(headquarters: Headquarters, tmp_path: Any) -> Iterator[tuple[RedisOffice, RedisServer]]:
    """Open the door to a Redis of this test alone, which keeps snapshots."""
    with running(tmp_path / "redis", "dbfilename dump.rdb") as server:
        office = RedisOffice(headquarters, server.address)
        yield office, server
        office.close()


@pytest.mark.parametrize("lose", ["nothing", "all", "the last claim"])
def test_a_redis_that_comes_back_grants_nothing_twice(own: tuple[RedisOffice, RedisServer], lose: str) -> None:
    office, server = own
    office.headquarters.campaign(arbiter="redis", stock=2)
    if lose == "the last claim":
        server.client().save()
    assert office.claim("r1", member="m1")["outcome"] == "ok"
    if lose == "nothing":
        server.client().save()
    server.restart()

    refused = [office.claim("r2", member="m2")["outcome"] for _ in range(2)]
    office.settle()

    assert refused == ["busy", "busy"]
    assert office.claim("r3", member="m1")["outcome"] == "already_claimed"
    assert office.claim("r4", member="m2")["outcome"] == "ok"
    assert office.claim("r5", member="m3")["outcome"] == "out_of_stock"
    office.assert_sound()


def test_claims_are_busy_while_redis_is_away_and_the_rest_goes_on(own: tuple[RedisOffice, RedisServer]) -> None:
    office, server = own
    office.headquarters.campaign(arbiter="redis", stock=2)
    office.headquarters.campaign("c2", stock=2)
    server.kill()

    assert office.claim("r1")["facts"]["reason"] == "redis_down"
    assert office.claim("r2", campaign="c2")["outcome"] == "ok"
    assert office.stock()["available"] == 2
    assert compare_redis(office.services).repaired == 0
    server.start()
    compare_redis(office.services)
    assert office.claim("r1")["outcome"] == "ok"
    office.assert_sound()


def test_a_campaign_on_a_redis_that_is_away_can_be_taken_to_the_database(own: tuple[RedisOffice, RedisServer]) -> None:
    office, server = own
    office.headquarters.campaign(arbiter="redis", stock=2)
    office.claim("r1")
    server.kill()

    office.headquarters.call("PATCH", "/v1/campaigns/c1", {"arbiter": "database"}, status=200)

    assert office.claim("r2", member="m2")["outcome"] == "ok"
    assert office.claim("r3", member="m3")["outcome"] == "out_of_stock"


def test_a_second_process_meets_the_restarted_redis_by_itself(own: tuple[RedisOffice, RedisServer]) -> None:
    office, server = own
    office.headquarters.campaign(arbiter="redis", stock=2)
    office.claim("r1")
    other = Door(server.address, prefix=office.prefix)
    other.accept(other.look())
    assert isinstance(other.scripts.run(scripts.inspect(_keys(office), now_ms=0)), scripts.Standing)
    server.restart()
    compare_redis(office.services)

    # The connection that it had is gone; a new one is refused.
    with pytest.raises(StockTrouble):
        other.scripts.run(scripts.inspect(_keys(office), now_ms=0))
    with pytest.raises(StockRestarted):
        other.scripts.run(scripts.inspect(_keys(office), now_ms=0))
    other.close()


def test_the_account_of_a_campaign_on_redis_adds_up_with_what_is_reserved(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=5)
    office.reserve()

    shown = office.stock()

    assert shown["total"] + shown["over"] == sum(
        shown[part] for part in ("available", "reserved", "leased", "granted", "stranded")
    )
    kept = office.headquarters.database.read(lambda conn: accounts.read(conn, ["stock:c1"])["stock:c1"])
    assert (kept.available, kept.reserved) == (5, 0)
