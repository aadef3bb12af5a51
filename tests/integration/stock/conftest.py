"""One real server for all tests of the scripts, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.stock.pipeline import BlockingStock
from tests.fakes.redis_server import RedisServer, acquainted, running


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run a server."""
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def stock(redis_server: RedisServer) -> BlockingStock:
    """Return scripts on a server that holds nothing."""
    redis_server.client().flushall()
    return acquainted(redis_server.address)[0]
