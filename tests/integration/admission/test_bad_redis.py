"""A Redis that takes no writes: claims are busy with the reason and a time to come again, and nothing is granted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import RedisServer, running


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a Redis that the test may spoil."""
    (tmp_path / "redis").mkdir()
    with running(tmp_path / "redis", "maxmemory 64mb", "maxmemory-policy noeviction") as server:
        yield server


@pytest.fixture
def hot(headquarters: Headquarters, own: RedisServer) -> Iterator[RedisOffice]:
    """Open a campaign of five behind it, and claim one."""
    opened = RedisOffice(headquarters, own.address)
    headquarters.campaign(stock=5, arbiter="redis")
    opened.settle()
    assert opened.claim("first")["outcome"] == "ok"
    yield opened
    opened.close()


def _become_replica(client: Any) -> None:
    client.replicaof("127.0.0.1", 1)


def _run_out_of_memory(client: Any) -> None:
    client.config_set("maxmemory", 1)


def _recover(client: Any) -> None:
    client.replicaof("NO", "ONE")
    client.config_set("maxmemory", 0)


@pytest.mark.parametrize(
    ("spoil", "reason"), [(_become_replica, "redis_read_only"), (_run_out_of_memory, "redis_full")]
)
def test_a_claim_is_told_why_and_when_to_come_again(
    hot: RedisOffice, own: RedisServer, spoil: Any, reason: str
) -> None:
    spoil(own.client())

    (answer,) = hot.send([("second", "m2")])
    stock = hot.stock()
    _recover(own.client())

    assert (answer.status_code, answer.json()["outcome"]) == (503, "busy")
    assert answer.json()["facts"]["reason"] == reason
    assert int(answer.headers["Retry-After"]) >= 1
    assert stock["granted"] == 1
