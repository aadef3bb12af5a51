"""A headquarters with a Redis for each test; one Redis for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.fakes.headquarters import Headquarters
from tests.fakes.redis_office import RedisOffice
from tests.fakes.redis_server import RedisServer, running


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run a server."""
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def headquarters(tmp_path: Path, server_url: URL | None) -> Iterator[Headquarters]:
    """Open a server with a store s1 and members m1 to m9, on each database."""
    opened = Headquarters(tmp_path, url=server_url)
    opened.furnish(members=9)
    yield opened
    opened.close()


@pytest.fixture
def on_file(tmp_path: Path) -> Iterator[Headquarters]:
    """Open the same on SQLite, for what is answered before any database is asked."""
    opened = Headquarters(tmp_path)
    opened.furnish(members=9)
    yield opened
    opened.close()


@pytest.fixture
def office(headquarters: Headquarters, redis_server: RedisServer) -> Iterator[RedisOffice]:
    """Open the door to Redis."""
    opened = RedisOffice(headquarters, redis_server.address)
    yield opened
    opened.close()
