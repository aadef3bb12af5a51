"""The API and its description say the same: whoever reads the one is never surprised by the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from app.domain.money import Currency
from app.domain.rule_json import read_rule
from server.http import claims
from server.http.campaign_body import RULE
from server.http.running import Running
from server.jobs.issuing import work_off
from server.scrape import Scrape
from server.services.keys import KeyCache
from tests.fakes.counter import cash, coupon, open_counter, stored_value
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import running
from tests.fakes.stranger import Stranger
from tests.unit.domain.test_rule_json import EVERY_KEY

DECIDED = {200, 201, 409}
PARTS = ("running", "headquarters", "campaigns", "coupons", "batch issue", "orders", "sync")


class World:
    """A chain in which every kind of thing is there to be asked for."""

    def __init__(self, headquarters: Headquarters) -> None:
        self.hq = headquarters
        headquarters.furnish(members=3)
        self.counter = open_counter(headquarters)
        headquarters.campaign("c1", stock=10_000, budget="1000000.00", per_member=9_000, per_member_per_day=9_000)
        headquarters.campaign("c2", state="DRAFT", stock=5)
        headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "t", "amount": "100.00"}, status=200)
        card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 5}
        headquarters.call("POST", "/v1/punch-cards", card, status=200)
        self.coupons = [coupon(headquarters, request=f"r{number}") for number in range(4)]
        shown = headquarters.call("GET", "/v1/members/m1/coupons", key=headquarters.new_key("app"), status=200)
        self.code = shown["coupons"][0]["code"]
        issue = {"task": "b1", "campaign": "c1", "members": ["m1", "nobody"], "chunk": 1}
        headquarters.call("POST", "/v1/issues", issue, status=201)
        work_off(headquarters.services)
        headquarters.call("POST", "/v1/issues", {"task": "b2", "campaign": "c1"}, status=201)
        self.spare_key = headquarters.call("POST", "/v1/keys", {"scope": "app", "name": "spare"}, status=201)["id"]
        self._sell()

    def _sell(self) -> None:
        counter = self.counter
        sold = counter.basket("sold", "A", "B", member="m1", use=(self.coupons[0],))
        counter.hold_and_sell(sold, tenders=[stored_value(5000), cash(7000)])
        counter.push()
        counter.hold(counter.basket("held", "A", member="m1", use=(self.coupons[1],)), status=200)

    def stranger(self) -> Stranger:
        """Let somebody in who has a key of each scope, and whose keys the server remembers as long as this lasts."""
        hq = self.hq
        hq.app.state.running = Running(Scrape(hq.services), metrics_key=hq.key)
        hq.app.state.services = replace(hq.app.state.services, known_keys=KeyCache(monotonic=lambda: 0.0))
        keys = {"app": hq.new_key("app"), "manager": hq.new_key("manager"), "headquarters": hq.key}
        return Stranger(hq.app, {**keys, "till": self.counter.key}, self._known())

    def _known(self) -> dict[str, list[Any]]:
        members, campaigns, tasks = ["m1", "m2"], ["c1", "c2"], ["b1", "b2"]
        return {
            "header.prefer": ["respond-async"],
            "path.store_id": ["s1"],
            "path.till_id": ["t2"],
            "path.member_id": members,
            "path.key_id": [self.spare_key],
            "path.campaign_id": campaigns,
            "path.coupon_id": self.coupons,
            "path.request_id": ["r1"],
            "path.task_id": tasks,
            "path.order_id": ["sold", "held"],
            "body.campaign": campaigns,
            "body.member": members,
            "body.store": ["s1"],
            "body.home_store": ["s1"],
            "body.zone": ["Asia/Shanghai"],
            "body.code": [self.code],
            "body.currency": ["CNY"],
            "body.price": ["12.50"],
            "body.amount": ["1.00"],
            "body.service": ["WASH"],
            "body.order": ["sold"],
            "body.till": ["t1"],
            "body.epoch": [1],
            "body.lines[*].sku": ["A", "B", "W"],
            "body.lines[*].qty": ["2"],
            "body.lines[*].qty_milli": [1000],
        }


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    headquarters = Headquarters(tmp_path)
    yield World(headquarters)
    headquarters.close()


@pytest.fixture
def world_on_each(tmp_path: Path, server_url: URL | None) -> Iterator[World]:
    headquarters = Headquarters(tmp_path, url=server_url)
    yield World(headquarters)
    headquarters.close()


@pytest.fixture
def plain_way(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what comes to the claims in front of the framework with a key that is known."""
    read, seen = claims._claim_in, Counter[str]()

    def count(body: bytes) -> claims.ClaimIn | None:
        found = read(body)
        seen["in order" if found is not None else "not in order"] += 1
        return found

    monkeypatch.setattr(claims, "_claim_in", count)
    return seen


def test_a_stranger_who_looks_in_finds_nothing(world: World) -> None:
    assert (
        world.stranger().findings(*(part for part in PARTS if part != "coupons"), examples=2, phases=("fuzzing",)) == []
    )


def test_a_stranger_who_claims_the_plain_way_finds_nothing(world: World, plain_way: Counter[str]) -> None:
    assert world.stranger().findings("coupons", examples=8, phases=("fuzzing",)) == []
    assert min(plain_way["in order"], plain_way["not in order"]) > 0


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
def test_a_stranger_who_stays_finds_nothing_where_answer_and_description_differ(
    world_on_each: World, part: str, plain_way: Counter[str]
) -> None:
    stranger = world_on_each.stranger()

    assert stranger.findings(part, examples=200) == []
    assert part != "coupons" or min(plain_way["in order"], plain_way["not in order"]) > 20
    undecided = [operation for operation, statuses in stranger.statuses.items() if not DECIDED & statuses.keys()]
    assert undecided == [], "it is not asked deep enough"


@pytest.mark.long
def test_a_stranger_at_a_hot_campaign_finds_nothing_and_leaves_it_sound(world: World, tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    with running(tmp_path / "redis") as redis:
        office = RedisOffice(world.hq, redis.address)
        world.hq.call("PATCH", "/v1/campaigns/c1", {"arbiter": "redis"}, status=200)
        office.settle()
        stranger = world.stranger()

        found = stranger.findings("coupons", examples=200)

        office.settle()
        office.assert_sound(limit=9_000)
        office.close()
    assert found == []
    assert stranger.statuses["POST /v1/claims"][202] > 0


def test_a_stranger_finds_what_the_description_does_not_say(world: World) -> None:
    declared = world.hq.app.openapi()["paths"]["/v1/claims"]["post"]["responses"]
    hidden = declared.pop("422")

    found = world.stranger().findings("coupons", examples=3, phases=("fuzzing",))

    declared["422"] = hidden
    assert found and all("POST /v1/claims: Undocumented status code" in each for each in found)


def test_the_description_of_a_campaign_has_the_keys_that_a_rule_is_read_from() -> None:
    complaints = {key: read_rule({**EVERY_KEY, key: object()}, Currency.of("CNY")) for key in RULE}

    assert set(EVERY_KEY) <= set(RULE)
    assert [key for key, each in complaints.items() if "is not known" in str(each)] == []
