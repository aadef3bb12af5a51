"""What every carrier of timely messages does: the heap of a process, and the sorted set of Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.services.timely import Carrier, Heap
from server.stock.connection import Address
from server.stock.timely import SortedSet
from server.stock.trouble import StockUnreachable
from tests.fakes.redis_server import RedisServer, running


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["heap", "redis"])
def carrier(request: pytest.FixtureRequest) -> Iterator[Carrier]:
    if request.param == "heap":
        yield Heap()
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    server.client().flushall()
    opened = SortedSet(server.address)
    yield opened
    opened.close()


def test_messages_come_when_their_time_has_come_oldest_first(carrier: Carrier) -> None:
    for message, due_ms in (("b", 20), ("a", 10), ("c", 30)):
        carrier.put(message, due_ms)

    assert [carrier.due(now_ms, limit=10) for now_ms in (9, 10, 20, 29)] == [[], ["a"], ["a", "b"], ["a", "b"]]


def test_a_message_stays_until_it_is_done(carrier: Carrier) -> None:
    carrier.put("a", 10)
    carrier.put("b", 10)

    first = carrier.due(10, limit=10)
    carrier.done(["a", "unknown"])

    assert (first, carrier.due(10, limit=10)) == (["a", "b"], ["b"])


def test_no_more_than_asked_for_are_given_out(carrier: Carrier) -> None:
    for number in range(5):
        carrier.put(f"m{number}", number)

    assert carrier.due(10, limit=2) == ["m0", "m1"]


@pytest.mark.parametrize(("first", "second"), [(10, 20), (20, 10)])
def test_a_message_that_is_put_again_moves(carrier: Carrier, first: int, second: int) -> None:
    carrier.put("a", first)
    carrier.put("a", second)

    assert carrier.due(second - 1, limit=10) == []
    assert carrier.due(second, limit=10) == ["a"]


def test_a_message_that_moves_back_and_forth_is_one_message(carrier: Carrier) -> None:
    for due_ms in (10, 20, 10):
        carrier.put("a", due_ms)

    assert carrier.due(30, limit=10) == ["a"]
    carrier.done(["a"])
    assert carrier.due(30, limit=10) == []


@pytest.mark.parametrize("kind", ["unix", "single", "sentinel", "cluster"])
def test_a_redis_that_is_away_says_so_when_it_is_asked_and_not_before(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "nobody.sock") if kind == "unix" else ""
    nobody = SortedSet(Address(kind, (("127.0.0.1", 1),), path=path, service="main"))

    with pytest.raises(StockUnreachable):
        nobody.put("a", 1)

    nobody.close()
