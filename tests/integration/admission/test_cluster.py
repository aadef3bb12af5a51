"""A sale on a real cluster: every key of a campaign on one node, and a node that comes back empty is built anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.jobs.redis import compare_redis
from server.stock.connection import Address
from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import RedisServer
from tests.integration.stock.test_topologies import _whole, cluster, eventually

__all__ = ["cluster"]
CAMPAIGNS = [f"c{number}" for number in range(6)]


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Headquarters]:
    opened = Headquarters(tmp_path)
    opened.furnish(members=9)
    yield opened
    opened.close()


def test_campaigns_on_a_cluster_grant_what_there_is_also_when_a_node_loses_everything(
    sqlite: Headquarters, cluster: tuple[Address, list[RedisServer]]
) -> None:
    address, nodes = cluster
    office = RedisOffice(sqlite, address)
    for campaign in CAMPAIGNS:
        sqlite.campaign(campaign, arbiter="redis", stock=5)
    first = [office.outcomes([(f"{c}-{n}", f"m{n}") for n in range(1, 4)], campaign=c) for c in CAMPAIGNS]
    assert all(node.client().dbsize() > 0 for node in nodes)

    nodes[1].restart()
    eventually(lambda: all(_whole(node) for node in nodes))
    for _ in range(2):
        compare_redis(office.services)

    # A connection to the node as it was is found out by whom it fails first: busy, and the same request again.
    for _ in range(3):
        second = [office.outcomes([(f"{c}-{n}", f"m{n}") for n in range(1, 10)], campaign=c) for c in CAMPAIGNS]
    assert first == [{"ok": 3}] * len(CAMPAIGNS)
    assert second == [{"ok": 5, "out_of_stock": 4}] * len(CAMPAIGNS)
    for campaign in CAMPAIGNS:
        office.assert_sound(campaign)
    office.close()


@pytest.mark.parametrize("kind", ["single", "sentinel", "cluster"])
def test_a_server_starts_beside_a_redis_that_is_away_and_its_claims_are_busy(sqlite: Headquarters, kind: str) -> None:
    office = RedisOffice(sqlite, Address(kind, (("127.0.0.1", 1),), service="main"))
    sqlite.campaign(arbiter="redis", stock=5)

    assert office.claim("r1")["outcome"] == "busy"
    assert office.admission.state() == "redis_down"
    assert compare_redis(office.services).repaired == 0
    office.close()
