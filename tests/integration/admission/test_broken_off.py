"""What breaks off in the middle, beside Redis and the database: nothing durable is denied, nothing is left behind."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, update

from server import metrics
from server.db.errors import DatabaseBusy, DatabaseTrouble, DiskFull
from server.db.schema import admission
from server.jobs.redis import compare_redis, drain_reservations
from server.metrics import REDIS_STATES as STATES
from server.services.admission import claiming, facts, generations
from server.services.admission.generations import BUILDING_S, EVENT_MAX_AGE_MS, Generations
from server.services.admission.landing import land, read_event
from server.services.context import Context
from server.services.grants import Wanted, grant
from server.stock import door, scripts
from server.stock.door import Door
from server.stock.scripts import Call
from server.stock.trouble import StockFull, StockUnreachable
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import running


def _generations(office: RedisOffice) -> Generations:
    assert office.admission.generations is not None
    return office.admission.generations


def _door(office: RedisOffice) -> Door:
    assert office.door is not None
    return office.door


def _staged(office: RedisOffice) -> list[bytes]:
    return list(_door(office).unguarded.client.keys(f"{office.prefix}*:u/*"))


def test_a_gift_stays_given_where_the_database_goes_away_behind_its_commit(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)

    def away(_campaign_id: str) -> Any:
        raise DatabaseBusy("PostgreSQL ended the connection")

    with monkeypatch.context() as broken:
        broken.setattr(_generations(office), "_entry", away)
        gift = {"request": "g1", "campaign": "c1", "member": "m1", "reason": "sorry"}
        office.headquarters.call("POST", "/v1/gifts", gift, status=201)

    assert office.standing().available == 9
    assert compare_redis(office.services).repaired == 0
    office.assert_sound()


def test_what_is_durable_is_told_though_our_own_mistake_keeps_it_from_redis(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)

    def mistaken(_raw: Any) -> Any:
        raise AssertionError("a script was called wrongly")

    with monkeypatch.context() as broken:
        broken.setattr(scripts, "_read_ends", mistaken)
        answer = office.claim("r1")

    assert answer["outcome"] == "ok"
    assert office.headquarters.stock()["granted"] == 1
    office.assert_sound()


@pytest.mark.parametrize("trouble", [DatabaseBusy("too many"), DiskFull("no room"), DatabaseTrouble("no answer")])
def test_a_unit_stays_with_its_claimant_until_the_database_decides(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch, trouble: DatabaseTrouble
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1)

    def refuse(_run: Any) -> Any:
        raise trouble

    with monkeypatch.context() as broken:
        broken.setattr(office.headquarters.database, "submit", refuse)
        # Whatever reads goes on; what writes is the claim alone.
        [answer] = office.send([("r1", "m1")])

    assert answer.status_code == 503
    assert office.claim("r2", member="m2")["outcome"] == "out_of_stock"
    assert office.claim("r1")["outcome"] == "ok"
    office.assert_sound()


def test_a_claimant_whom_redis_forgot_gets_no_coupon_behind_a_refusal(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=1)
    office.reserve()
    [(entry, event)] = _door(office).events("c1")
    assert event is not None
    forgotten = read_event(_door(office).keys("c1"), entry, event)
    _door(office).unguarded.client.delete(*_door(office).unguarded.client.keys(f"{office.prefix}*"))
    assert _generations(office).rebuild("c1", "test")
    assert office.claim("r2", member="m2")["outcome"] == "ok"
    assert office.claim("r1")["outcome"] == "out_of_stock"
    office.headquarters.call("PATCH", "/v1/campaigns/c1", {"stock": 2})

    [landed] = office.services.write(lambda conn, ctx: land(conn, ctx, [forgotten])).answers

    assert (landed["outcome"], landed["facts"]["reason"]) == ("busy", "rebuilding")
    assert office.held() == {"m2": 1}
    assert office.claim("r1")["outcome"] == "ok"
    office.assert_sound()


def test_a_campaign_that_was_edited_while_it_was_read_is_not_remembered(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    read = claiming.entry_of

    def edited_behind_our_back(conn: Connection, ctx: Context, campaign_id: str) -> Any:
        entry = read(conn, ctx, campaign_id)
        office.admission.changed(campaign_id)
        return entry

    monkeypatch.setattr(claiming, "entry_of", edited_behind_our_back)
    assert office.claim("r1")["outcome"] == "ok"

    [ours] = office.admission._by_loop.values()
    assert "c1" not in ours._entries


def test_a_claim_that_lands_while_it_is_asked_after_is_found(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)

    def landed_by_now(_campaign_ids: Any, **_more: Any) -> dict[str, Any]:
        wanted = [Wanted("claim:r1", "c1", "m1", "app")]
        office.headquarters.database.write(lambda conn: grant(conn, office.headquarters.context(), wanted))
        return {}

    monkeypatch.setattr(office.admission, "_standings", landed_by_now)

    assert office.headquarters.call("GET", "/v1/claims/r1", key=office.app_key, status=200)["outcome"] == "ok"


def test_a_rebuild_that_finds_no_room_takes_its_staged_members_away(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    assert office.outcomes([(f"r{n}", f"m{n}") for n in range(1, 4)]) == {"ok": 3}
    stage, left = Door.stage, [2]

    def full(self: Door, campaign_id: str, generation: int, held: dict[str, int]) -> None:
        left[0] -= 1
        if not left[0]:
            raise StockFull("OOM command not allowed")
        stage(self, campaign_id, generation, held)

    with monkeypatch.context() as broken:
        broken.setattr(facts, "MEMBERS_AT_ONCE", 1)
        broken.setattr(Door, "stage", full)
        with pytest.raises(StockFull):
            _generations(office).rebuild("c1", "test")

    assert left == [0]
    assert _staged(office) == []
    assert _generations(office).bring_up("c1")
    office.assert_sound()


def test_members_staged_by_a_process_that_dies_end_by_themselves(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    generation = office.standing().generation + 1

    _door(office).stage("c1", generation, {"m1": 1})  # and the process dies

    [key] = _staged(office)
    assert 0 < _door(office).unguarded.client.pttl(key) <= door.STAGED_MS
    assert _generations(office).rebuild("c1", "test")
    assert _door(office).unguarded.client.pttl(_door(office).keys("c1").key("h")) > door.STAGED_MS
    office.assert_sound()


def test_members_that_were_staged_live_as_long_as_the_campaign_once_they_are_installed(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    assert office.claim("r1")["outcome"] == "ok"

    assert _generations(office).rebuild("c1", "test")

    assert _door(office).unguarded.client.pttl(_door(office).keys("c1").key("u")) > door.STAGED_MS


def test_a_rebuild_that_redis_did_not_hear_of_is_begun_again_at_once(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    unguarded = _door(office).unguarded
    run = unguarded.run

    def away(call: Call[Any]) -> Any:
        if call.script == "close":
            raise StockUnreachable("Connection refused")
        return run(call)

    with monkeypatch.context() as broken:
        broken.setattr(unguarded, "run", away)
        with pytest.raises(StockUnreachable):
            _generations(office).rebuild("c1", "test")

    assert _generations(office).bring_up("c1")
    office.assert_sound()


@pytest.mark.parametrize(("ahead_s", "taken_over"), [(BUILDING_S, False), (BUILDING_S + 1, True), (3600, True)])
def test_a_rebuild_of_a_process_that_died_waits_for_no_clock_that_was_set_back(
    office: RedisOffice, ahead_s: int, taken_over: bool
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    began_at = office.headquarters.clock.now() + timedelta(seconds=ahead_s)
    office.headquarters.database.write(
        lambda conn: conn.execute(update(admission).values(state="BUILDING", since_at=began_at))
    )

    assert _generations(office).bring_up("c1") is taken_over


def test_a_rebuild_that_takes_long_is_not_taken_for_dead(office: RedisOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    assert office.outcomes([(f"r{n}", f"m{n}") for n in range(1, 10)]) == {"ok": 9}
    stage, taken_over = Door.stage, list[bool]()
    other = Generations(office.services, _door(office), changed=lambda _campaign_id: None)

    def slow(self: Door, campaign_id: str, generation: int, held: dict[str, int]) -> None:
        stage(self, campaign_id, generation, held)
        office.headquarters.clock.pass_time(seconds=generations.SIGN_S)
        taken_over.append(other.bring_up("c1"))

    monkeypatch.setattr(facts, "MEMBERS_AT_ONCE", 1)
    monkeypatch.setattr(Door, "stage", slow)

    assert _generations(office).rebuild("c1", "test")
    assert taken_over == [False] * 9
    office.assert_sound()


@pytest.mark.parametrize(("older_ms", "held"), [(0, {"m1": 1}), (1, {})])
def test_a_rebuild_lands_no_reservation_out_of_a_file_of_yesterday(
    office: RedisOffice, older_ms: int, held: dict[str, int]
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    office.reserve(now_ms=office.now_ms - EVENT_MAX_AGE_MS - older_ms)

    assert _generations(office).rebuild("c1", "test")

    assert office.held() == held
    office.assert_sound()


def test_what_a_dead_process_reserved_waits_for_no_clock_that_was_set_back(office: RedisOffice) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)
    office.reserve(now_ms=office.now_ms + 3_600_000)

    assert drain_reservations(office.services).repaired == 1

    assert office.held() == {"m1": 1}
    office.assert_sound()


# ------------------------------------------------------------------ a process that is no scheduler


def _state() -> str:
    values = {state: metrics.registry.get_sample_value("pawtill_redis_state", {"state": state}) for state in STATES}
    [state] = [state for state, value in values.items() if value]
    return state


def test_a_process_looks_by_itself_at_a_redis_that_came_back(headquarters: Headquarters, tmp_path: Path) -> None:
    with running(tmp_path / "redis") as server:
        office = RedisOffice(headquarters, server.address)
        headquarters.campaign(arbiter="redis", stock=9)
        server.kill()
        drain_reservations(office.services)
        assert _state() == "down"
        server.start()

        for _ in range(2):  # the first meets a stranger
            drain_reservations(office.services)

        assert _state() == "ready"
        assert office.claim("r1")["outcome"] == "ok"
        office.close()


def test_a_redis_that_was_out_of_reach_for_a_moment_is_not_told_to_be_away_for_ever(
    office: RedisOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.headquarters.campaign(arbiter="redis", stock=9)

    def away(_calls: Any) -> Any:
        raise StockUnreachable("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(_door(office).scripts, "run_each", away)
        drain_reservations(office.services)
    assert _state() == "down"

    drain_reservations(office.services)

    assert _state() == "ready"
